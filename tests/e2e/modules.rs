//! Globals of modules and libraries, local memory of the functions obtained.

use crate::harness::{GIB, scenarios};

scenarios! { "module", 6 * GIB;
    globals_are_charged,
    loaded_with_options_is_charged,
    loaded_from_a_file_is_charged,
    library_globals_are_charged,
    too_large_a_module_is_refused,
    local_memory_is_charged,
    local_memory_over_the_limit,
    enumerated_functions_are_charged,
    library_kernels_are_charged,
    enumerated_kernels_are_charged,
    library_module_is_charged,
}
