//! Arrays and mipmaps: charged by what the card takes for them.

use crate::harness::{GIB, scenarios};

scenarios! { "array", 4 * GIB;
    array_is_charged,
    small_array_takes_a_granule,
    small_arrays_share_granules,
    too_large_an_array_is_refused,
    mipmap_is_charged,
    memory_in_a_sparse_array_stays_charged,
}
