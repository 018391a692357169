//! Memory of other processes: by legacy IPC one charge, as long as anybody holds it; from a pool, a
//! charge of whoever opened it.

use crate::harness::{GIB, scenarios};

scenarios! { "share", 4 * GIB;
    import_is_charged_once,
    import_by_the_first_call_is_charged_once,
    exporters_death_frees_no_charge,
    pointer_of_anothers_pool_is_charged,
}
