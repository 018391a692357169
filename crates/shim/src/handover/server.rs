//! The server: a thread that gives other processes of the tenant descriptors of the memory that this one has exported.
//!
//! Promises: it is started at the first export, and sleeps in the kernel while nobody asks; it runs in no forked child,
//! where nobody is given what is the parent's. Who asks must be a process of this user's, or root's, and say the key that
//! stands in the handle. Does not charge.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use divvy_driver_api::types::CUresult;
use divvy_page::passing::Passing;

use crate::gate::beside_captures;
use crate::residence::backed::{self, Block, Whole};
use crate::residence::{exports, state};
use crate::sys::{clock, driver, log, service, wait, wake};
use crate::tenant;

/// There is none.
const NONE: u32 = 0;
const STARTING: u32 = 1;
/// It listens.
const LISTENS: u32 = 2;

/// How long a thread that exports waits until it listens, and for how long at a time.
const PATIENCE_NS: u64 = 2_000_000_000;
const LOOK_NS: u64 = 100_000_000;

/// Exports the piece of memory in which a block lies: the piece, its key, and whether it `is_new`. A call is inside, which
/// pins the block ([`backed::pin`]).
///
/// # Errors
/// The driver's, of memory that it manages or makes no descriptor of; that of the system, where nobody can ask for it.
pub(crate) fn export(of: Block) -> Result<(Whole, u64, bool), CUresult> {
    let whole = backed::whole(of.base).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let server = state::get().map(|state| &state.server);
    let server = server.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if !exports::is_exported(whole.base) {
        beside_captures(|| driver::mem_export(whole.base))?;
    }
    if !ensure(server) {
        return Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM);
    }
    exports::export(whole.base).map(|(key, is_new)| (whole, key, is_new))
}

/// Starts the thread, if there is none; false where it does not come to listen.
fn ensure(server: &'static AtomicU32) -> bool {
    let until_ns = clock::now_ns().saturating_add(PATIENCE_NS);
    let first = server.compare_exchange(NONE, STARTING, SeqCst, SeqCst).is_ok();
    if first && !service::start(run) {
        server.store(NONE, SeqCst);
    }
    while server.load(SeqCst) == STARTING && clock::now_ns() < until_ns {
        wait(server, STARTING, LOOK_NS);
    }
    server.load(SeqCst) == LISTENS
}

fn run() {
    let (Some(state), Some(tenant)) = (state::get(), tenant::oversubscribed()) else { return };
    let said = |now: u32| {
        state.server.store(now, SeqCst);
        wake(&state.server);
    };
    loop {
        match tenant.listen() {
            Err(errno) => {
                log!(Error, "no memory can be shared with other processes: socket: {errno}");
                return said(NONE);
            }
            Ok(mut listener) => {
                said(LISTENS);
                while let Some((kept, peer)) = listener.accept() {
                    beside_captures(|| hand_out(&peer));
                    listener = kept;
                }
                // The program has closed what it did not open; what it has exported is asked for all the same.
            }
        }
    }
}

/// Hands out the descriptors of what `peer` asks for: one for each chunk, with its bytes and how many follow. Where it may have
/// none the connection ends; where the driver makes none its bytes come alone first.
fn hand_out(peer: &Passing) -> Option<()> {
    let [base, key] = peer.receive().ok()?.0;
    // Behind each step: of what was freed before it the key has ended.
    let is_known = || exports::knows(base, key).then_some(());
    is_known()?;
    let whole = backed::whole(base)?;
    let state = state::get()?;
    let (mut next, mut left) = (Some(whole.first), whole.bytes);
    while let Some(number) = next {
        let chunk = state.chunks.get(number)?;
        let descriptor = driver::mem_export(chunk.address()).ok();
        left = left.checked_sub(chunk.bytes())?;
        is_known()?;
        peer.send([chunk.bytes(), left], descriptor.as_ref()).ok()?;
        descriptor?;
        next = state.chunks.behind(number);
    }
    Some(())
}
