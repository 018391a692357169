//! Globals of modules and libraries, local memory of the functions obtained.

use crate::harness::{GIB, Machine, scenarios};

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
    variables_of_a_packed_module_are_charged,
    variables_by_the_first_call_are_charged,
    variables_of_a_packed_library_are_charged,
    kernel_of_before_the_context_by_its_handle,
    kernel_by_its_handle_in_another_context,
    kernel_of_before_a_context_that_does_not_fit,
    library_variable_is_charged_once,
    packed_library_variable_is_charged_once,
    library_in_each_context,
    library_outlives_its_context,
    library_of_before_the_context,
}

/// Under a driver that tells nothing of a kernel while there is no context.
#[test]
fn kernel_of_before_the_context_is_charged() {
    Machine::new()
        .limited(6 * GIB)
        .with("SIMGPU_FAULTS", "cuKernelGetAttribute@1=fail:201")
        .plays("module", "kernel_of_before_the_context_is_charged");
}

#[test]
fn library_used_on_a_second_device() {
    Machine::new()
        .limited(2 * GIB)
        .with("SIMGPU_DEVICES", 2)
        .plays("devices", "library_used_on_a_second_device");
}
