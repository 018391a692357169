//! Older and rarer versions of the calls.

use crate::harness::{GIB, scenarios};

scenarios! { "old", 3 * GIB;
    first_alloc_and_free,
    first_pitched_alloc,
    first_arrays,
    fat_binary_is_charged,
    second_add_node,
}
