//! Allocations that the tenant's table had no room for, and that only a descriptor keeps.
//!
//! Promises: each is a reference to its allocation, until its last descriptor is closed. Nobody tells us
//! of that, so [`sweep`] looks when memory is short or asked about.

use divvy_page::mark::{Asker, DescriptorMark};

use super::allocation;
use super::marks::MARKS;
use crate::sys::map::Map;

/// Allocations that the table had no room for, by number: device and inode of the descriptors that keep
/// them. Each is a reference to the allocation.
static LEFT_OUT: Map = Map::new(19);

/// Lets go of left out allocations that only closed descriptors kept; true when there were any.
///
/// The library is not told when a descriptor is closed, so this looks when memory is short or asked about.
pub(super) fn sweep() -> bool {
    let mut any = false;
    loop {
        let mut over = [0_u64; 32];
        let mut count = 0_usize;
        let mut asker = Asker::default();
        LEFT_OUT.take_if(|number, [device, inode]| {
            let Some(place) = over.get_mut(count) else { return false };
            let is_last = allocation::entry_of(number).is_some_and(|entry| entry.owner == 1);
            let Some([key, _]) = MARKS.get(number).filter(|_| is_last) else { return false };
            let is_over = asker.is_held((device, inode), key) == Some(false);
            if is_over {
                *place = number;
                count = count.saturating_add(1);
            }
            is_over
        });
        over.iter().take(count).for_each(|number| allocation::let_go(*number));
        any |= count != 0;
        if count < over.len() {
            return any;
        }
    }
}

/// Keeps an allocation charged here while its mark is held.
pub(super) fn leave_out(number: u64, mark: DescriptorMark) -> bool {
    if !allocation::refer(number) {
        return false;
    }
    let file = [mark.file.0, mark.file.1];
    if let Ok(Some(_)) = LEFT_OUT.insert(number, file) {
        // It was left out before: one reference is enough.
        allocation::let_go(number);
    }
    true
}
