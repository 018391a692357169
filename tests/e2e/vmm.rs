//! Virtual memory management: a charge lives as long as a handle or a mapping does.

use crate::harness::{GIB, scenarios};

scenarios! { "vmm", 4 * GIB;
    create_is_charged,
    release_gives_back,
    mapping_keeps_the_charge,
    unmap_gives_back,
    dropped_handles_cannot_pile_up,
    retained_handle_keeps_the_charge,
    two_mappings_of_one_handle,
    one_unmap_of_many_mappings,
    import_by_descriptor_is_charged,
    plain_calls_on_a_range,
    host_located_handles_are_free,
}
