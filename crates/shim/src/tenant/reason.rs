//! Why memory was refused: the codes users look up, and the one line each refusal is worth.
//!
//! Codes are stable and documented; a program that retries a thousand times gets one line at the
//! default level and the rest at `info`. Formatting happens only on refusals.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use divvy_page::Tenant;

use crate::sys::log::log;
use crate::sys::reference::Reference;

/// Why a request for device memory was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Reason {
    /// The tenant's limit would be exceeded.
    OverLimit = 201,
    /// Other processes of the tenant did not settle within 100 ms.
    Contended = 202,
    /// The limits cannot be understood.
    BadLimit = 203,
    /// The tenant's directory or files cannot be used.
    NoTenant = 204,
    /// The device cannot be registered in the tenant's files.
    NoDevice = 205,
    /// A context does not fit the limit.
    Context = 206,
    /// No memory for the table of what is held.
    NoTable = 207,
    /// This process has no slot in the tenant.
    NoSlot = 208,
    /// More was taken than could be foreseen; it was handed back.
    Grown = 209,
    /// A library was to be loaded where this one is not met first.
    OutOfReach = 210,
    /// Memory that may leave the card was to be shared with another process.
    Unshared = 211,
    /// Managed memory was refused by the daemon, or there is none to ask.
    NoManaged = 212,
    /// The host has no room for what would have to leave the card.
    HostMemory = 213,
    /// Memory that the tenant holds has no room on the card.
    NoRoom = 214,
}

impl Reason {
    const ALL: [Self; 14] = [
        Self::OverLimit,
        Self::Contended,
        Self::BadLimit,
        Self::NoTenant,
        Self::NoDevice,
        Self::Context,
        Self::NoTable,
        Self::NoSlot,
        Self::Grown,
        Self::OutOfReach,
        Self::Unshared,
        Self::NoManaged,
        Self::HostMemory,
        Self::NoRoom,
    ];

    /// Whether this is the first time in this process that the reason is given.
    pub(crate) fn is_first(self) -> bool {
        static SEEN: AtomicU32 = AtomicU32::new(0);
        let bit = Self::ALL
            .iter()
            .position(|reason| *reason == self)
            .and_then(|index| 1_u32.checked_shl(u32::try_from(index).unwrap_or(31)))
            .unwrap_or(1 << 31);
        SEEN.load(Relaxed) & bit == 0 && SEEN.fetch_or(bit, Relaxed) & bit == 0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DV{}", *self as u32)
    }
}

/// A size for people: whole MiB rounded up, or bytes below one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1 << 20 {
            write!(f, "{} bytes", self.0)
        } else {
            write!(f, "{} MiB", self.0.div_ceil(1 << 20))
        }
    }
}

/// The tenant of this process, once it is known, in whose files reasons are noted.
static TENANT: Reference<Tenant> = Reference::none();

/// Has reasons noted in the files of `tenant` from now on.
pub(super) fn note_in(tenant: &'static Tenant) {
    TENANT.set(tenant);
}

/// Writes one line about a refusal, as an error the first time and as information afterwards, and its code into the
/// tenant's files: for `divvy ps` and the log.
pub(crate) fn tell(reason: Reason, text: fmt::Arguments<'_>) {
    if let Some(tenant) = TENANT.get() {
        tenant.note_reason(reason as u32);
    }
    if reason.is_first() {
        log!(Error, "{reason}: {text}");
    } else {
        log!(Info, "{reason}: {text}");
    }
}
