//! Memory of other processes: by legacy IPC or by descriptor one charge in a tenant, as long as anybody
//! holds it; from a pool, a charge of whoever opened it.

use crate::harness::{GIB, scenarios};

scenarios! { "share", 4 * GIB;
    import_is_charged_once,
    import_by_the_first_call_is_charged_once,
    exporters_death_frees_no_charge,
    pointer_of_anothers_pool_is_charged,
    descriptor_is_charged_once,
    descriptor_outlives_its_exporter,
    descriptor_of_another_tenant,
    descriptor_of_a_stranger_is_charged_when_mapped,
    many_descriptors,
}
