//! Memory shared by legacy IPC: one charge, as long as anybody holds it.

use crate::harness::{GIB, scenarios};

scenarios! { "share", 4 * GIB;
    import_is_charged_once,
    exporters_death_frees_no_charge,
}
