//! Where the hooks lie: their addresses, as distances from one table, which the exports bring.
//!
//! Promises: nothing to relocate when the library loads. Does not call a hook, nor know what one does.

use super::tables::HOOKED;
use super::{resolve, tables};

unsafe extern "C" {
    /// Distances of the hooks from this table itself.
    static divvy_hook_offsets: [i32; HOOKED];
}

/// The address of hook `number`.
pub(super) fn address(number: usize) -> Option<usize> {
    // SAFETY: the table is ours, read-only and has `HOOKED` entries.
    let table = unsafe { &divvy_hook_offsets };
    let offset = isize::try_from(*table.get(number)?).ok()?;
    Some(table.as_ptr().addr().wrapping_add_signed(offset))
}

/// Whether a hook lies at `address`.
#[cold]
pub(super) fn has(address: usize) -> bool {
    (0..HOOKED).any(|number| self::address(number) == Some(address))
}

/// For the known function of the driver's at `address`, one with this `name` where several share it: the
/// hook that stands for it, if one does.
#[inline]
pub(super) fn instead_of(address: usize, name: &[u8]) -> Option<Option<usize>> {
    resolve::position_of(address, |position| tables::is_variant(position, name))
        .map(|position| tables::hook(position).and_then(self::address))
}
