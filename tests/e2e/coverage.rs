//! Which test proves which hook.
//!
//! `cargo xtask unhook` takes each symbol's hook away and must see the test named beside it fail. It
//! reads this file as text, so the list stays plain.

/// Symbol and test, sorted by symbol.
pub(crate) const COVERAGE: &[(&str, &str)] = &[
    ("cuArray3DCreate", "old::first_arrays"),
    ("cuArray3DCreate_v2", "arrays::array_is_charged"),
    ("cuArrayCreate", "old::first_arrays"),
    ("cuArrayCreate_v2", "arrays::array_is_charged"),
    ("cuArrayDestroy", "arrays::array_is_charged"),
    ("cuCtxCreate", "contexts::no_version_fits_when_full"),
    ("cuCtxCreate_v2", "contexts::a_context_that_does_not_fit"),
    ("cuCtxCreate_v3", "contexts::no_version_fits_when_full"),
    ("cuCtxCreate_v4", "contexts::no_version_fits_when_full"),
    ("cuCtxDestroy", "contexts::every_version_is_charged"),
    ("cuCtxDestroy_v2", "contexts::created_is_charged"),
    ("cuCtxDetach", "contexts::every_version_is_charged"),
    ("cuCtxSetLimit", "contexts::heap_limit_is_charged"),
    ("cuCtxSynchronize", "settle::by_context_synchronisation"),
    ("cuDeviceGraphMemTrim", "settle::by_graph_trimming"),
    ("cuDevicePrimaryCtxRelease", "contexts::primary_release_gives_back"),
    ("cuDevicePrimaryCtxRelease_v2", "contexts::primary_release_gives_back"),
    ("cuDevicePrimaryCtxReset", "contexts::primary_reset_gives_back"),
    ("cuDevicePrimaryCtxReset_v2", "contexts::primary_reset_gives_back"),
    ("cuDevicePrimaryCtxRetain", "contexts::first_context_that_does_not_fit"),
    ("cuDeviceTotalMem", "answers::oldest_questions_are_answered"),
    ("cuDeviceTotalMem_v2", "answers::total_is_the_limit"),
    ("cuEventSynchronize", "settle::by_event_synchronisation"),
    ("cuGetProcAddress", "reach::by_proc_address"),
    ("cuGetProcAddress_v2", "reach::by_proc_address"),
    ("cuGraphAddMemAllocNode", "graphs::launched_nodes_are_charged"),
    ("cuGraphAddNode", "graphs::added_by_the_general_call"),
    ("cuGraphAddNode_v2", "old::second_add_node"),
    ("cuGraphInstantiate", "graphs::every_instantiation_is_charged"),
    ("cuGraphInstantiateWithFlags", "graphs::every_instantiation_is_charged"),
    ("cuGraphInstantiateWithParams", "graphs::every_instantiation_is_charged"),
    ("cuGraphInstantiate_v2", "graphs::every_instantiation_is_charged"),
    ("cuGraphLaunch", "graphs::launched_nodes_are_charged"),
    ("cuGraphUpload", "graphs::upload_is_charged"),
    ("cuGreenCtxCreate", "contexts::two_green_contexts_add_up"),
    ("cuIpcCloseMemHandle", "sharing::import_is_charged_once"),
    ("cuIpcGetMemHandle", "sharing::import_is_charged_once"),
    ("cuIpcOpenMemHandle_v2", "sharing::exporters_death_frees_no_charge"),
    ("cuLibraryEnumerateKernels", "modules::enumerated_kernels_are_charged"),
    ("cuLibraryGetKernel", "modules::library_kernels_are_charged"),
    ("cuLibraryLoadData", "modules::library_globals_are_charged"),
    ("cuLibraryLoadFromFile", "modules::loaded_from_a_file_is_charged"),
    ("cuLibraryUnload", "modules::library_globals_are_charged"),
    ("cuMemAlloc", "old::first_alloc_and_free"),
    ("cuMemAllocAsync", "pools::async_alloc_is_charged_by_reserve"),
    ("cuMemAllocFromPoolAsync", "pools::own_pool_is_charged"),
    ("cuMemAllocManaged", "blocks::managed_memory_is_charged_in_full"),
    ("cuMemAllocPitch", "old::first_pitched_alloc"),
    ("cuMemAllocPitch_v2", "blocks::pitched_memory_is_charged"),
    ("cuMemAlloc_v2", "blocks::alloc_is_charged"),
    ("cuMemCreate", "vmm::create_is_charged"),
    ("cuMemExportToShareableHandle", "escapes::exported_descriptors"),
    ("cuMemFree", "old::first_alloc_and_free"),
    ("cuMemFreeAsync", "pools::free_async_gives_back"),
    ("cuMemFree_v2", "blocks::free_gives_back"),
    ("cuMemGetInfo", "answers::oldest_questions_are_answered"),
    ("cuMemGetInfo_v2", "answers::total_is_the_limit"),
    ("cuMemMap", "vmm::mapping_keeps_the_charge"),
    ("cuMemPoolDestroy", "pools::destroyed_pool_gives_back"),
    ("cuMemPoolTrimTo", "settle::by_trimming"),
    ("cuMemRelease", "vmm::release_gives_back"),
    ("cuMemRetainAllocationHandle", "vmm::retained_handle_keeps_the_charge"),
    ("cuMemUnmap", "vmm::unmap_gives_back"),
    ("cuMipmappedArrayCreate", "arrays::mipmap_is_charged"),
    ("cuMipmappedArrayDestroy", "arrays::mipmap_is_charged"),
    ("cuModuleEnumerateFunctions", "modules::enumerated_functions_are_charged"),
    ("cuModuleGetFunction", "modules::local_memory_is_charged"),
    ("cuModuleLoad", "modules::loaded_from_a_file_is_charged"),
    ("cuModuleLoadData", "modules::globals_are_charged"),
    ("cuModuleLoadDataEx", "modules::loaded_with_options_is_charged"),
    ("cuModuleLoadFatBinary", "old::fat_binary_is_charged"),
    ("cuModuleUnload", "modules::globals_are_charged"),
    ("cuStreamCreate", "contexts::streams_are_charged"),
    ("cuStreamCreateWithPriority", "contexts::urgent_streams_are_charged"),
    ("cuStreamDestroy", "contexts::urgent_streams_are_charged"),
    ("cuStreamDestroy_v2", "contexts::streams_are_charged"),
    ("cuStreamSynchronize", "settle::by_stream_synchronisation"),
    ("nvmlDeviceGetComputeRunningProcesses", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetComputeRunningProcesses_v2", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetComputeRunningProcesses_v3", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetMemoryInfo", "answers::nvml_tells_the_same"),
    ("nvmlDeviceGetMemoryInfo_v2", "answers::nvml_tells_the_same"),
    ("nvmlDeviceGetRunningProcessDetailList", "answers::detail_list_shows_only_the_tenants_own"),
];

/// Hooked by the table, with no test that would fail without the hook, and why.
pub(crate) const UNPROVED: &[(&str, &str)] = &[
    ("cuCtxAttach", "observed only: a context nobody saw made is charged when it is found current"),
    ("cuCtxFromGreenCtx", "takes nothing on the card measured: observed only"),
    ("cuCtxSynchronize_v2", "settles pools early; every later call that asks does it too"),
    ("cuDestroyExternalMemory", "needs memory of another API; no simulated one"),
    ("cuFuncLoad", "a function is charged when it is obtained; this call comes after"),
    ("cuGLCtxCreate", "the simulated machine has no graphics: needs an OpenGL or VDPAU context"),
    ("cuGLCtxCreate_v2", "the simulated machine has no graphics: needs an OpenGL or VDPAU context"),
    ("cuGraphAddMemFreeNode", "observed only: no answer depends on it yet"),
    ("cuGraphAddNode_v3", "newer than the driver simulated"),
    (
        "cuGraphExecDestroy",
        "its memory stays until it is trimmed, and is counted from the driver then",
    ),
    ("cuGreenCtxDestroy", "the card keeps the memory until the primary context ends"),
    ("cuGreenCtxStreamCreate", "counted as cuStreamCreate is, by the same code"),
    ("cuImportExternalMemory", "needs memory of another API; no simulated one"),
    ("cuInit", "observed only: the first call that takes memory does the same"),
    (
        "cuIpcOpenMemHandle",
        "the driver exports it for old programs; the same hook as its second version",
    ),
    ("cuKernelGetFunction", "a kernel is charged when it is obtained; this call comes after"),
    (
        "cuLibraryGetGlobal",
        "charges only variables of an image that cannot be read; the images here can be",
    ),
    ("cuLibraryGetModule", "its variables were charged when the library was loaded"),
    (
        "cuMemImportFromShareableHandle",
        "what is imported shows its size, and is charged, when it is mapped",
    ),
    ("cuMemMapArrayAsync", "observed only: handles are charged while they live"),
    ("cuMemPoolCreate", "a pool is learnt of at its first use as well"),
    ("cuMemPoolImportFromShareableHandle", "the imported pointer is what is charged"),
    (
        "cuMemPoolImportPointer",
        "a pool of the same process is charged already; none of another process here",
    ),
    (
        "cuMemPoolSetAttribute",
        "what a lower threshold gives back is counted at the next synchronisation",
    ),
    (
        "cuModuleGetGlobal",
        "charges only variables of an image that cannot be read; the images here can be",
    ),
    (
        "cuModuleGetGlobal_v2",
        "charges only variables of an image that cannot be read; the images here can be",
    ),
    ("cuMulticastBindAddr", "the simulated machine has no multicast objects"),
    ("cuMulticastBindAddr_v2", "the simulated machine has no multicast objects"),
    ("cuMulticastBindMem", "the simulated machine has no multicast objects"),
    ("cuMulticastBindMem_v2", "the simulated machine has no multicast objects"),
    ("cuMulticastUnbind", "the simulated machine has no multicast objects"),
    ("cuStreamBeginCapture", "observed only: the driver is asked whether a stream captures"),
    ("cuStreamBeginCaptureToCig", "newer than the driver simulated"),
    ("cuStreamBeginCaptureToGraph", "observed only: the driver is asked whether a stream captures"),
    ("cuStreamBeginCapture_v2", "observed only: the driver is asked whether a stream captures"),
    ("cuStreamBeginRecaptureToGraph", "newer than the driver simulated"),
    ("cuStreamEndCapture", "observed only: the driver is asked whether a stream captures"),
    ("cuStreamEndCaptureToCig", "newer than the driver simulated"),
    ("cuVDPAUCtxCreate", "the simulated machine has no graphics: needs an OpenGL or VDPAU context"),
    (
        "cuVDPAUCtxCreate_v2",
        "the simulated machine has no graphics: needs an OpenGL or VDPAU context",
    ),
    (
        "nvmlDeviceGetGraphicsRunningProcesses",
        "the simulated machine runs no such processes: both answers are empty",
    ),
    (
        "nvmlDeviceGetGraphicsRunningProcesses_v2",
        "the simulated machine runs no such processes: both answers are empty",
    ),
    (
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "the simulated machine runs no such processes: both answers are empty",
    ),
    (
        "nvmlDeviceGetMPSComputeRunningProcesses",
        "the simulated machine runs no such processes: both answers are empty",
    ),
    (
        "nvmlDeviceGetMPSComputeRunningProcesses_v2",
        "the simulated machine runs no such processes: both answers are empty",
    ),
    (
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "the simulated machine runs no such processes: both answers are empty",
    ),
    (
        "nvmlDeviceGetProcessUtilization",
        "the simulated NVML has samples only of processes that run kernels, and the neighbour runs none",
    ),
    (
        "nvmlDeviceGetProcessesUtilizationInfo",
        "the simulated NVML has samples only of processes that run kernels, and the neighbour runs none",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use divvy_driver_api::{DRIVER, NVML};

    use super::{COVERAGE, UNPROVED};

    #[test]
    fn every_hook_is_in_one_of_the_lists() {
        let hooked: BTreeSet<&str> = DRIVER
            .iter()
            .chain(NVML)
            .filter(|entry| entry.effects.needs_memory_hook())
            .map(|entry| entry.base)
            .collect();
        let proved: BTreeSet<&str> = COVERAGE.iter().map(|pair| pair.0).collect();
        let unproved: BTreeSet<&str> = UNPROVED.iter().map(|pair| pair.0).collect();
        let both: BTreeSet<&str> = proved.union(&unproved).copied().collect();
        assert_eq!(hooked, both);
        assert!(proved.is_disjoint(&unproved));
        assert!(COVERAGE.is_sorted() && UNPROVED.is_sorted());
    }

    #[test]
    fn every_test_named_exists() {
        let sources: String = std::fs::read_dir(crate::harness::root().join("tests/e2e"))
            .expect("the tests are there")
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
            .collect();
        for (symbol, test) in COVERAGE {
            let name = test.rsplit("::").next().unwrap_or(test);
            let as_scenario = format!("    {name},");
            let as_function = format!("fn {name}()");
            assert!(
                sources.contains(&as_scenario) || sources.contains(&as_function),
                "{symbol}: no test is called {test}"
            );
        }
    }
}
