//! Things charged by handle until they are destroyed: arrays, modules, libraries, imports.
//!
//! A large one is charged by whole granules. Small ones share granules, wherever the driver puts
//! them, so a context's small ones are charged by the whole granules of their sum. Destroying takes
//! the entry out, calls the driver, gives back, and puts it back if the driver refused; a context's
//! end gives everything of it back. A library is kept by a key for each context ([`super::library`]).

use divvy_abi::usage::MemoryKind;
use divvy_driver_api::types::{
    CUarray, CUexternalMemory, CUlibrary, CUmipmappedArray, CUmodule, CUresult,
};
use divvy_policy::charge;

use super::charge::{ask_quietly, refuse};
use super::entry::MemoryRecord;
use super::global;
use super::place::{CallPlace, Next, OUT_OF_MEMORY};
use crate::sys::driver::SUCCESS;
use crate::sys::map::Map;
use crate::sys::{Out, driver};
use crate::tenant::device::{Device, Reservation};

/// Arrays and mipmapped arrays.
pub(crate) static ARRAYS: Holdings = Holdings::new(11, 18, MemoryKind::Array);
/// Modules.
pub(crate) static MODULES: Holdings = Holdings::new(16, 23, MemoryKind::Module);
/// Copies of libraries in contexts.
pub(crate) static LIBRARIES: Holdings = Holdings::new(17, 24, MemoryKind::Module);
/// Memory of other interfaces (Vulkan, OpenGL, Direct3D).
pub(crate) static EXTERNAL: Holdings = Holdings::new(15, 22, MemoryKind::Imported);

/// A context is gone, and with it its arrays, its modules, its copies of libraries' globals and its imports.
pub(super) fn forget_context(context: u64, device: &'static Device) {
    ARRAYS.forget_context(context, device);
    MODULES.forget_context(context, device);
    LIBRARIES.forget_context(context, device);
    EXTERNAL.forget_context(context, device);
}

/// A handle of things that are made and destroyed.
pub(crate) trait Handle: Copy {
    /// The key by which the thing is kept.
    fn address(self) -> u64;

    /// Destroys the thing, of which nothing is recorded.
    fn destroy(self);
}

macro_rules! handles {
    ($($handle:ident by $destroy:ident;)*) => {
        $(impl Handle for $handle {
            fn address(self) -> u64 {
                self.0.addr() as u64
            }

            fn destroy(self) {
                let _ = driver::$destroy(self);
            }
        })*
    };
}
handles! {
    CUarray by array_destroy;
    CUmipmappedArray by mipmap_destroy;
    CUmodule by module_unload;
    CUlibrary by library_unload;
    CUexternalMemory by external_destroy;
}

/// The things of one kind.
#[derive(Debug)]
pub(crate) struct Holdings {
    entries: Map,
    /// Bytes of small ones by context.
    small: Map,
    kind: MemoryKind,
}

/// A charge granted for a thing that is about to be made; given back when dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the charge back"]
struct Pending {
    place: CallPlace,
    bytes: u64,
    held: Option<Reservation>,
}

impl Holdings {
    /// None yet; the numbers are those of its two maps.
    pub(super) const fn new(entries: usize, small: usize, kind: MemoryKind) -> Self {
        Self { entries: Map::new(entries), small: Map::new(small), kind }
    }

    /// Makes a thing of `bytes`, of which nothing is counted: `call` asks the driver, which writes its handle to `made`.
    pub(crate) fn make<H: Handle>(
        &self,
        place: Next<CallPlace>,
        bytes: u64,
        made: Out<'_, H>,
        call: impl FnOnce() -> CUresult,
    ) -> CUresult {
        self.make_by(place, bytes, made, |handle, _| handle, call)
    }

    /// The same, kept by the key that `key` makes of the handle and the context.
    #[inline]
    pub(super) fn make_by<H: Handle>(
        &self,
        place: Next<CallPlace>,
        bytes: u64,
        made: Out<'_, H>,
        key: impl FnOnce(u64, u64) -> u64,
        call: impl FnOnce() -> CUresult,
    ) -> CUresult {
        let pending = match place {
            Next::Count(_) | Next::Forward if bytes == 0 => None,
            Next::Count(place) => match self.ask(place, bytes) {
                Ok(pending) => Some(pending),
                Err(code) => return code,
            },
            Next::Forward => None,
            Next::Refuse(code) => return code,
        };
        let result = call();
        if result != SUCCESS {
            return result;
        }
        let handle = made.get().map_or(0, Handle::address);
        let kept = |pending: Pending| {
            let key = key(handle, pending.place.context);
            self.keep(pending, key)
        };
        if pending.is_none_or(kept) {
            return SUCCESS;
        }
        if let Some(handle) = made.get() {
            handle.destroy();
        }
        OUT_OF_MEMORY
    }

    /// Adds `bytes`, whole granules that are charged, to what is kept by `key`.
    pub(super) fn grow(&self, key: u64, place: CallPlace, bytes: u64) {
        let new = MemoryRecord {
            bytes: 0,
            kind: self.kind,
            ordinal: place.device.ordinal,
            packed: false,
            shared: false,
            owner: place.context,
        };
        // Without memory for it the charge stays until the process ends.
        let _ = self.entries.update(key, |old| {
            let entry = old.map_or(new, MemoryRecord::unpack);
            Some(MemoryRecord { bytes: entry.bytes.saturating_add(bytes), ..entry }.pack())
        });
    }

    /// Charges a copy of a thing elsewhere, under a key of its own.
    pub(super) fn copy(&self, place: CallPlace, bytes: u64, key: u64) -> CUresult {
        match self.ask(place, bytes) {
            Ok(pending) => match self.keep(pending, key) {
                true => SUCCESS,
                false => OUT_OF_MEMORY,
            },
            Err(code) => code,
        }
    }

    fn ask(&self, place: CallPlace, bytes: u64) -> Result<Pending, CUresult> {
        let small = charge::is_small(bytes);
        let asked = if small { charge::GRANULE_BYTES } else { charge::whole_granules(bytes) };
        match ask_quietly(place.device, asked, self.kind) {
            Ok(held) => Ok(Pending { place, bytes, held: Some(held) }),
            // A granule in use may have room: then nothing more is needed.
            Err(_) if small && self.fits_beside(place.context, bytes) => {
                Ok(Pending { place, bytes, held: None })
            }
            Err(refusal) => Err(refuse(place.device, asked, self.kind, refusal)),
        }
    }

    /// Records what was made; false without memory for it, with nothing charged.
    fn keep(&self, pending: Pending, handle: u64) -> bool {
        let Pending { place, bytes, held } = pending;
        let device = place.device;
        let packed = charge::is_small(bytes);
        let entry = MemoryRecord {
            bytes: if packed { bytes } else { charge::whole_granules(bytes) },
            kind: self.kind,
            ordinal: device.ordinal,
            packed,
            shared: false,
            owner: place.context,
        };
        match self.entries.insert(handle, entry.pack()) {
            Ok(None) => {}
            // The driver gave a handle out that we thought taken: its thing ended unseen.
            Ok(Some(stale)) => self.release(MemoryRecord::unpack(stale)),
            Err(_) => {
                device.tell_no_table();
                return false;
            }
        }
        let held = held.map_or(0, Reservation::keep);
        let taken = if packed { self.add_small(place.context, bytes) } else { held };
        device.hold(taken.saturating_sub(held), self.kind);
        device.give_back(held.saturating_sub(taken), self.kind);
        true
    }

    /// Destroys a thing: `call` asks the driver.
    pub(crate) fn destroy(&self, handle: u64, call: impl FnOnce() -> CUresult) -> CUresult {
        let taken = self.entries.take(handle);
        let result = call();
        match taken {
            Some(words) if result == SUCCESS => self.release(MemoryRecord::unpack(words)),
            Some(words) => {
                // The table had room for it a moment ago.
                let _ = self.entries.insert(handle, words);
            }
            None => {}
        }
        result
    }

    /// Gives back what is recorded under a key, without the driver.
    pub(super) fn drop_copy(&self, key: u64) {
        if let Some(words) = self.entries.take(key) {
            self.release(MemoryRecord::unpack(words));
            global::forget(key);
        }
    }

    /// Gives back what is kept by the keys that `is_its` takes, given the context as well.
    pub(super) fn drop_all(&self, is_its: impl Fn(u64, u64) -> bool) {
        loop {
            let mut found = None;
            self.entries.for_each(|key, [_, owner]| {
                if is_its(key, owner) {
                    found = Some(key);
                }
            });
            let Some(key) = found else { return };
            self.drop_copy(key);
        }
    }

    /// Record of a handle.
    pub(super) fn get(&self, handle: u64) -> Option<MemoryRecord> {
        self.entries.get(handle).map(MemoryRecord::unpack)
    }

    /// A context is gone, and with it all its things.
    pub(super) fn forget_context(&self, context: u64, device: &'static Device) {
        let mut bytes = 0_u64;
        self.entries.take_if(|key, words| {
            let entry = MemoryRecord::unpack(words);
            let is_its = entry.owner == context && entry.ordinal == device.ordinal;
            if is_its && !entry.packed {
                bytes = bytes.saturating_add(entry.bytes);
            }
            if is_its && entry.kind == MemoryKind::Module {
                global::forget(key);
            }
            is_its
        });
        let small = self.small.take(context).map_or(0, |[sum, _]| charge::whole_granules(sum));
        device.give_back(bytes.saturating_add(small), self.kind);
    }

    fn release(&self, entry: MemoryRecord) {
        if !entry.packed {
            entry.give_back();
            return;
        }
        let mut shrunk = 0;
        let _ = self.small.update(entry.owner, |old| {
            let [before, _] = old?;
            let after = before.saturating_sub(entry.bytes);
            shrunk = charge::whole_granules(before).saturating_sub(charge::whole_granules(after));
            (after != 0).then_some([after, 0])
        });
        if let Some(device) = entry.device() {
            device.give_back(shrunk, self.kind);
        }
    }

    /// Whether one more small thing needs no further granule, as far as sizes tell.
    fn fits_beside(&self, context: u64, bytes: u64) -> bool {
        let now = self.small.get(context).map_or(0, |[sum, _]| sum);
        charge::whole_granules(now.saturating_add(bytes)) == charge::whole_granules(now)
    }

    /// Counts a small thing; the granules it adds, in bytes.
    fn add_small(&self, context: u64, bytes: u64) -> u64 {
        let mut grown = 0;
        let _ = self.small.update(context, |old| {
            let before = old.map_or(0, |[sum, _]| sum);
            let after = before.saturating_add(bytes);
            grown = charge::whole_granules(after).saturating_sub(charge::whole_granules(before));
            Some([after, 0])
        });
        grown
    }
}
