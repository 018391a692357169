//! Memory of other processes of the tenant, mapped here: pieces that they exported, with the block that was opened in each.
//!
//! Promises: the same block opened again is at the same address, counted; what is mapped stays where it is, and moves
//! nowhere. Nobody waits for a process that does not answer longer than [`divvy_page::passing`] says. Does not charge, nor
//! know when work has ended that uses what is to be unmapped.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use divvy_driver_api::types::CUresult;
use divvy_page::passing::Passing;
use divvy_page::{Errno, Tenant};
use divvy_policy::charge::GRANULE_BYTES;
use divvy_policy::slab::MAX_BYTES;
use zerocopy::FromZeros;

use super::addresses::{Addresses, Backing, ContextLife, IMPORTED};
use super::exports::PassedHandle;
use super::state::{self, State};
use crate::sys::driver;
use crate::sys::sleep_ns;
use crate::sys::wiped::{Locked, Wiped};

/// Blocks that can be open at once.
const MAX_IMPORTS: usize = 2048;
/// More is no piece of memory.
const MOST_BYTES: u64 = 1 << 44;
/// Between two looks at one that another thread opens or closes.
const LOOK_NS: u32 = 1_000_000;

const VACANT: u32 = 0;
/// A thread is mapping or unmapping it.
const BUSY: u32 = 1;
const OPEN: u32 = 2;

/// A block of another process.
#[derive(Clone, Copy, FromZeros)]
struct Import {
    state: u32,
    /// How often it is open; 0 while it is only still mapped.
    count: u32,
    key: u64,
    offset: u64,
    bytes: u64,
    /// Where the piece is mapped that it lies in, and its bytes.
    base: u64,
    whole_bytes: u64,
    context: u64,
    number: u64,
}

/// The last import's number.
static LAST: AtomicU64 = AtomicU64::new(0);

static IMPORTS: Wiped<Locked<[Import; MAX_IMPORTS]>> = Wiped::new();

/// A piece that nobody has open any more, to be unmapped.
pub(crate) struct Closing {
    index: usize,
    base: u64,
    bytes: u64,
    /// The context that it was opened in.
    pub(crate) context: u64,
}

/// Answer where another process has ended, refuses, or says what nobody understands: the driver's, of a handle whose process has
/// ended.
pub(crate) const REFUSED: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;

/// Answer where another process says nothing in time, or one of the two has no descriptor left for what it says.
pub(crate) const UNANSWERED: CUresult = CUresult::CUDA_ERROR_OPERATING_SYSTEM;

fn answer(of: Errno) -> CUresult {
    match of {
        Errno(libc::EAGAIN | libc::EMFILE | libc::ENFILE) => UNANSWERED,
        _ => REFUSED,
    }
}

impl Import {
    fn address(&self) -> u64 {
        self.base.saturating_add(self.offset)
    }

    fn is(&self, of: PassedHandle) -> bool {
        self.state != VACANT && (self.key, self.offset) == (of.key, of.offset)
    }
}

fn with<R>(act: impl FnOnce(&mut [Import; MAX_IMPORTS]) -> R) -> Option<R> {
    IMPORTS.get().map(|imports| imports.with(act))
}

/// Opens a block in the context with this handle, which is current: its address, and the bytes of the piece that it lies in.
///
/// # Errors
/// [`REFUSED`] where its process has ended or knows nothing of it, [`UNANSWERED`]; the driver's.
pub(crate) fn open(
    tenant: &Tenant,
    of: PassedHandle,
    context: u64,
) -> Result<(u64, u64), CUresult> {
    const OUT_OF_MEMORY: CUresult = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    let state = state::make().ok_or(OUT_OF_MEMORY)?;
    let imports = IMPORTS.make().ok_or(OUT_OF_MEMORY)?;
    let index = loop {
        let found = imports.with(|all| match all.iter_mut().find(|import| import.is(of)) {
            Some(open) if open.state == OPEN => {
                open.count = open.count.saturating_add(1);
                Some(Ok((open.address(), open.whole_bytes)))
            }
            // Another thread is at it.
            Some(_) => None,
            None => {
                let vacant = all.iter_mut().enumerate().find(|(_, import)| import.state == VACANT);
                let index = vacant.map(|(index, import)| {
                    let PassedHandle { key, offset, bytes, .. } = of;
                    *import = Import { state: BUSY, key, offset, bytes, context, ..*import };
                    index
                });
                Some(Err(index))
            }
        });
        match found {
            Some(Ok(open)) => return Ok(open),
            Some(Err(index)) => break index.ok_or(OUT_OF_MEMORY)?,
            None => sleep_ns(LOOK_NS),
        }
    };
    let peer = tenant.connect(of.slot);
    let asked = peer.and_then(|peer| peer.send([of.base, of.key], None).map(|()| peer));
    let mapped = asked.map_err(answer).and_then(|peer| map(state, of, &peer, index));
    let (base, whole_bytes) = match mapped {
        Ok((base, bytes)) => (base, bytes),
        Err(why) => {
            vacate(index);
            return Err(why);
        }
    };
    // No block that was made here has the bit.
    let number = LAST.fetch_add(1, Relaxed) | 1 << 49;
    imports
        .with(|all| {
            let import = all.get_mut(index)?;
            *import = Import { state: OPEN, count: 1, base, whole_bytes, number, ..*import };
            Some((import.address(), whole_bytes))
        })
        .ok_or(OUT_OF_MEMORY)
}

fn vacate(index: usize) {
    with(|all| {
        if let Some(import) = all.get_mut(index) {
            import.state = VACANT;
        }
    });
}

/// Maps the piece that `peer` hands out: where, and its bytes.
fn map(
    state: &State,
    of: PassedHandle,
    peer: &Passing,
    index: usize,
) -> Result<(u64, u64), CUresult> {
    let mut message = peer.receive().map_err(answer)?;
    let [first, rest] = message.0;
    let bytes = first.checked_add(rest).filter(|bytes| *bytes <= MOST_BYTES).ok_or(REFUSED)?;
    let is_inside = of.offset.checked_add(of.bytes).is_some_and(|end| end <= bytes);
    if !is_inside || of.bytes == 0 {
        return Err(REFUSED);
    }
    let peers = &state.chunks.peers;
    let here = driver::ctx_device()?;
    let handles = Backing::Handles;
    let addresses = Addresses::take(&state.chunks, here, handles, bytes)
        .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let mut done = 0_u64;
    let mut next = || -> Result<(), CUresult> {
        while done < bytes {
            let ([part, left], descriptor) = (message.0, message.1.take().ok_or(UNANSWERED)?);
            // As long as its process makes them, for who unmaps them.
            let wanted = bytes.saturating_sub(done).min(MAX_BYTES);
            let is_next = left == bytes.saturating_sub(done).saturating_sub(part);
            if part != wanted || !is_next || part % GRANULE_BYTES != 0 {
                return Err(REFUSED);
            }
            let at = addresses.base.saturating_add(done);
            let handle = driver::mem_import(&descriptor)?;
            let device = driver::handle_device(handle);
            let mapped = driver::mem_map(at, part, handle);
            // The mapping keeps the memory.
            driver::mem_drop(0, 0, handle);
            mapped?;
            done = done.saturating_add(part);
            let device = device?.unwrap_or(here);
            peers.allow(device, at, part)?;
            if device != here {
                driver::mem_allow(at, part, here)?;
            }
            if left > 0 {
                message = peer.receive().map_err(answer)?;
            }
        }
        Ok(())
    };
    let record = || addresses.record([index as u64, IMPORTED]);
    let mapped = next().and_then(|()| record());
    if let Err(why) = mapped {
        unmap(addresses.base, done);
        addresses.give(&state.chunks, here, ContextLife::Lives);
        return Err(why);
    }
    Ok((addresses.base, bytes))
}

/// Unmaps chunk by chunk.
fn unmap(base: u64, bytes: u64) {
    for at in (0..bytes).step_by(MAX_BYTES as usize) {
        let part = bytes.saturating_sub(at).min(MAX_BYTES);
        driver::mem_drop(base.saturating_add(at), part, 0);
    }
}

/// The block in import `index`, if `address` lies in it: its first address, its bytes, and a number of its own.
pub(super) fn block(index: usize, address: u64) -> Option<(u64, u64, u64)> {
    with(|all| {
        let import = all.get(index).filter(|import| import.state == OPEN && import.count > 0)?;
        let Import { bytes, number, .. } = *import;
        let base = import.address();
        let is_inside = address.checked_sub(base).is_some_and(|offset| offset < bytes);
        is_inside.then_some((base, bytes, number))
    })?
}

impl Import {
    fn is_at(&self, address: u64) -> bool {
        self.state == OPEN && self.count > 0 && self.address() == address
    }
}

/// Closes the block at `address` once; false where none was opened there.
pub(crate) fn close(address: u64) -> bool {
    let closed = with(|all| {
        let import = all.iter_mut().find(|import| import.is_at(address))?;
        import.count = import.count.saturating_sub(1);
        Some(())
    });
    closed.flatten().is_some()
}

/// A piece that nobody has open any more, or, of a context that is gone, any.
pub(crate) fn take_closed(gone: Option<u64>) -> Option<Closing> {
    with(|all| {
        let is_over = |import: &Import| match gone {
            Some(context) => import.context == context,
            None => import.count == 0,
        };
        let mut closed = all.iter_mut().enumerate();
        let (index, import) = closed.find(|(_, import)| import.state == OPEN && is_over(import))?;
        import.state = BUSY;
        let Import { base, whole_bytes: bytes, context, .. } = *import;
        Some(Closing { index, base, bytes, context })
    })?
}

impl Closing {
    /// Unmaps it, which no work uses any more.
    pub(crate) fn unmap(self) {
        let Some(state) = state::get() else { return };
        let reserved = self.bytes.next_multiple_of(MAX_BYTES);
        let addresses =
            Addresses { base: self.base, bytes: reserved, given: 0, backing: Backing::Handles };
        addresses.forget();
        unmap(self.base, self.bytes);
        addresses.give(&state.chunks, 0, ContextLife::Lives);
        vacate(self.index);
    }
}
