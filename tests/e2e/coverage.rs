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
    ("cuCtxAttach", "contexts::attached_context_keeps_its_blocks"),
    ("cuCtxCreate", "contexts::no_version_fits_when_full"),
    ("cuCtxCreate_v2", "contexts::a_context_that_does_not_fit"),
    ("cuCtxCreate_v3", "contexts::no_version_fits_when_full"),
    ("cuCtxCreate_v4", "contexts::no_version_fits_when_full"),
    ("cuCtxDestroy", "contexts::every_version_is_charged"),
    ("cuCtxDestroy_v2", "contexts::created_is_charged"),
    ("cuCtxDetach", "contexts::every_version_is_charged"),
    ("cuCtxFromGreenCtx", "contexts::green_view_takes_nothing"),
    ("cuCtxSetLimit", "contexts::heap_limit_is_charged"),
    ("cuCtxSynchronize", "settle::by_context_synchronisation"),
    ("cuCtxSynchronize_v2", "settle::by_synchronising_a_named_context"),
    ("cuDestroyExternalMemory", "vmm::external_memory_is_charged"),
    ("cuDeviceGraphMemTrim", "settle::by_graph_trimming"),
    ("cuDevicePrimaryCtxRelease", "contexts::primary_release_gives_back"),
    ("cuDevicePrimaryCtxRelease_v2", "contexts::primary_release_gives_back"),
    ("cuDevicePrimaryCtxReset", "contexts::primary_reset_gives_back"),
    ("cuDevicePrimaryCtxReset_v2", "contexts::primary_reset_gives_back"),
    ("cuDevicePrimaryCtxRetain", "contexts::first_context_that_does_not_fit"),
    ("cuDeviceTotalMem", "answers::oldest_questions_are_answered"),
    ("cuDeviceTotalMem_v2", "answers::total_is_the_limit"),
    ("cuEventSynchronize", "settle::by_event_synchronisation"),
    ("cuGLCtxCreate", "contexts::no_graphics_context_fits_when_full"),
    ("cuGLCtxCreate_v2", "contexts::no_graphics_context_fits_when_full"),
    ("cuGetProcAddress", "reach::by_proc_address"),
    ("cuGetProcAddress_v2", "reach::by_proc_address"),
    ("cuGraphAddMemAllocNode", "graphs::launched_nodes_are_charged"),
    ("cuGraphAddNode", "graphs::added_by_the_general_call"),
    ("cuGraphAddNode_v2", "old::second_add_node"),
    ("cuGraphExecDestroy", "graphs::destroyed_executables_leave_nothing"),
    ("cuGraphInstantiate", "graphs::every_instantiation_is_charged"),
    ("cuGraphInstantiateWithFlags", "graphs::every_instantiation_is_charged"),
    ("cuGraphInstantiateWithParams", "graphs::every_instantiation_is_charged"),
    ("cuGraphInstantiate_v2", "graphs::every_instantiation_is_charged"),
    ("cuGraphLaunch", "graphs::launched_nodes_are_charged"),
    ("cuGraphUpload", "graphs::upload_is_charged"),
    ("cuGreenCtxCreate", "contexts::two_green_contexts_add_up"),
    ("cuGreenCtxDestroy", "contexts::last_green_context_ends_the_primary"),
    ("cuGreenCtxStreamCreate", "contexts::green_streams_are_charged"),
    ("cuImportExternalMemory", "vmm::external_memory_is_charged"),
    ("cuInit", "settle::the_start_alone_joins_the_tenant"),
    ("cuIpcCloseMemHandle", "sharing::import_is_charged_once"),
    ("cuIpcGetMemHandle", "sharing::import_is_charged_once"),
    ("cuIpcOpenMemHandle", "sharing::import_by_the_first_call_is_charged_once"),
    ("cuIpcOpenMemHandle_v2", "sharing::exporters_death_frees_no_charge"),
    ("cuKernelGetFunction", "modules::kernel_of_before_the_context_is_charged"),
    ("cuLaunch", "gate::launches_wait"),
    ("cuLaunchCooperativeKernel", "gate::launches_wait"),
    ("cuLaunchCooperativeKernelMultiDevice", "gate::launches_wait"),
    ("cuLaunchGrid", "gate::launches_wait"),
    ("cuLaunchGridAsync", "gate::launches_wait"),
    ("cuLaunchHostFunc", "gate::waits_and_host_functions_end_the_span"),
    ("cuLaunchKernel", "gate::launches_wait"),
    ("cuLaunchKernelEx", "gate::launches_wait"),
    ("cuLibraryEnumerateKernels", "modules::enumerated_kernels_are_charged"),
    ("cuLibraryGetGlobal", "modules::variables_of_a_packed_library_are_charged"),
    ("cuLibraryGetKernel", "modules::library_kernels_are_charged"),
    ("cuLibraryGetModule", "modules::library_used_on_a_second_device"),
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
    ("cuMemBatchDecompressAsync", "gate::decompression_waits"),
    ("cuMemCreate", "vmm::create_is_charged"),
    ("cuMemExportToShareableHandle", "escapes::exported_descriptors"),
    ("cuMemFree", "old::first_alloc_and_free"),
    ("cuMemFreeAsync", "pools::free_async_gives_back"),
    ("cuMemFree_v2", "blocks::free_gives_back"),
    ("cuMemGetHandleForAddressRange", "escapes::exported_buffers"),
    ("cuMemGetInfo", "answers::oldest_questions_are_answered"),
    ("cuMemGetInfo_v2", "answers::total_is_the_limit"),
    ("cuMemImportFromShareableHandle", "sharing::descriptor_of_another_tenant"),
    ("cuMemMap", "vmm::mapping_keeps_the_charge"),
    ("cuMemMapArrayAsync", "arrays::memory_in_a_sparse_array_stays_charged"),
    ("cuMemPoolCreate", "pools::host_pool_is_free"),
    ("cuMemPoolDestroy", "pools::destroyed_pool_gives_back"),
    ("cuMemPoolImportPointer", "sharing::pointer_of_anothers_pool_is_charged"),
    ("cuMemPoolSetAttribute", "settle::by_lowering_the_threshold"),
    ("cuMemPoolTrimTo", "settle::by_trimming"),
    ("cuMemRelease", "vmm::release_gives_back"),
    ("cuMemRetainAllocationHandle", "vmm::retained_handle_keeps_the_charge"),
    ("cuMemUnmap", "vmm::unmap_gives_back"),
    ("cuMemcpy", "gate::copies_within_the_device_wait"),
    ("cuMemcpy2D", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy2DAsync", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy2DAsync_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpy2DUnaligned", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy2DUnaligned_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpy2D_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpy3D", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy3DAsync", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy3DAsync_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpy3DBatchAsync", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy3DBatchAsync_v2", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy3DPeer", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy3DPeerAsync", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpy3D_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpyAsync", "gate::copies_within_the_device_wait"),
    ("cuMemcpyAtoA", "gate::copies_within_the_device_wait"),
    ("cuMemcpyAtoA_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpyAtoD", "gate::copies_within_the_device_wait"),
    ("cuMemcpyAtoD_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpyAtoH", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyAtoHAsync", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyAtoHAsync_v2", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyAtoH_v2", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyBatchAsync", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyBatchAsync_v2", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyDtoA", "gate::copies_within_the_device_wait"),
    ("cuMemcpyDtoA_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpyDtoD", "gate::copies_within_the_device_wait"),
    ("cuMemcpyDtoDAsync", "gate::copies_within_the_device_wait"),
    ("cuMemcpyDtoDAsync_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpyDtoD_v2", "gate::copies_within_the_device_wait"),
    ("cuMemcpyDtoH", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyDtoHAsync", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyDtoHAsync_v2", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyDtoH_v2", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyHtoA", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyHtoAAsync", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyHtoAAsync_v2", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyHtoA_v2", "gate::shaped_host_copies_end_the_span"),
    ("cuMemcpyHtoD", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyHtoDAsync", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyHtoDAsync_v2", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyHtoD_v2", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyPeer", "gate::linear_host_copies_end_the_span"),
    ("cuMemcpyPeerAsync", "gate::linear_host_copies_end_the_span"),
    ("cuMemsetD16", "gate::fills_wait"),
    ("cuMemsetD16Async", "gate::fills_wait"),
    ("cuMemsetD16_v2", "gate::fills_wait"),
    ("cuMemsetD2D16", "gate::fills_wait"),
    ("cuMemsetD2D16Async", "gate::fills_wait"),
    ("cuMemsetD2D16_v2", "gate::fills_wait"),
    ("cuMemsetD2D32", "gate::fills_wait"),
    ("cuMemsetD2D32Async", "gate::fills_wait"),
    ("cuMemsetD2D32_v2", "gate::fills_wait"),
    ("cuMemsetD2D8", "gate::fills_wait"),
    ("cuMemsetD2D8Async", "gate::fills_wait"),
    ("cuMemsetD2D8_v2", "gate::fills_wait"),
    ("cuMemsetD32", "gate::fills_wait"),
    ("cuMemsetD32Async", "gate::fills_wait"),
    ("cuMemsetD32_v2", "gate::fills_wait"),
    ("cuMemsetD8", "gate::fills_wait"),
    ("cuMemsetD8Async", "gate::fills_wait"),
    ("cuMemsetD8_v2", "gate::fills_wait"),
    ("cuMipmappedArrayCreate", "arrays::mipmap_is_charged"),
    ("cuMipmappedArrayDestroy", "arrays::mipmap_is_charged"),
    ("cuModuleEnumerateFunctions", "modules::enumerated_functions_are_charged"),
    ("cuModuleGetFunction", "modules::local_memory_is_charged"),
    ("cuModuleGetGlobal", "modules::variables_by_the_first_call_are_charged"),
    ("cuModuleGetGlobal_v2", "modules::variables_of_a_packed_module_are_charged"),
    ("cuModuleLoad", "modules::loaded_from_a_file_is_charged"),
    ("cuModuleLoadData", "modules::globals_are_charged"),
    ("cuModuleLoadDataEx", "modules::loaded_with_options_is_charged"),
    ("cuModuleLoadFatBinary", "old::fat_binary_is_charged"),
    ("cuModuleUnload", "modules::globals_are_charged"),
    ("cuMulticastBindAddr", "vmm::bound_mapping_keeps_the_charge"),
    ("cuMulticastBindMem", "vmm::bound_handle_keeps_the_charge"),
    ("cuMulticastUnbind", "vmm::bound_handle_keeps_the_charge"),
    ("cuStreamBatchMemOp", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamBatchMemOp_v2", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamBeginCapture", "gate::captured_launches_pass"),
    ("cuStreamBeginCaptureToGraph", "gate::captured_launches_pass"),
    ("cuStreamBeginCapture_v2", "gate::captured_launches_pass"),
    ("cuStreamCreate", "contexts::streams_are_charged"),
    ("cuStreamCreateWithPriority", "contexts::urgent_streams_are_charged"),
    ("cuStreamDestroy", "contexts::urgent_streams_are_charged"),
    ("cuStreamDestroy_v2", "contexts::streams_are_charged"),
    ("cuStreamEndCapture", "gate::nothing_is_asked_after_a_capture"),
    ("cuStreamSynchronize", "settle::by_stream_synchronisation"),
    ("cuStreamWaitEvent", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWaitValue32", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWaitValue32_v2", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWaitValue64", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWaitValue64_v2", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWriteValue32", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWriteValue32_v2", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWriteValue64", "gate::waits_and_host_functions_end_the_span"),
    ("cuStreamWriteValue64_v2", "gate::waits_and_host_functions_end_the_span"),
    ("cuVDPAUCtxCreate", "contexts::no_graphics_context_fits_when_full"),
    ("cuVDPAUCtxCreate_v2", "contexts::no_graphics_context_fits_when_full"),
    ("nvmlDeviceGetComputeRunningProcesses", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetComputeRunningProcesses_v2", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetComputeRunningProcesses_v3", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetGraphicsRunningProcesses", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v2", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetMPSComputeRunningProcesses", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v2", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "answers::lists_show_only_the_tenants_own"),
    ("nvmlDeviceGetMemoryInfo", "answers::nvml_tells_the_same"),
    ("nvmlDeviceGetMemoryInfo_v2", "answers::nvml_tells_the_same"),
    ("nvmlDeviceGetProcessUtilization", "answers::utilisation_shows_only_the_tenants_own"),
    ("nvmlDeviceGetProcessesUtilizationInfo", "answers::utilisation_shows_only_the_tenants_own"),
    ("nvmlDeviceGetRunningProcessDetailList", "answers::detail_list_shows_only_the_tenants_own"),
];

/// Hooked by the table, with no test that would fail without the hook, and why.
pub(crate) const UNPROVED: &[(&str, &str)] = &[
    ("cuFabricCpyBatchAsync", "newer than driver 580, whose exports the simulated driver has"),
    ("cuGraphAddNode_v3", "newer than driver 580, whose exports the simulated driver has"),
    ("cuLaunchHostFunc_v2", "newer than driver 580, whose exports the simulated driver has"),
    (
        "cuMemcpy3DWithAttributesAsync",
        "newer than driver 580, whose exports the simulated driver has",
    ),
    (
        "cuMemcpyWithAttributesAsync",
        "newer than driver 580, whose exports the simulated driver has",
    ),
    ("cuMulticastBindAddr_v2", "newer than driver 580, whose exports the simulated driver has"),
    ("cuMulticastBindMem_v2", "newer than driver 580, whose exports the simulated driver has"),
    ("cuStreamBeginCaptureToCig", "newer than driver 580, whose exports the simulated driver has"),
    (
        "cuStreamBeginRecaptureToGraph",
        "newer than driver 580, whose exports the simulated driver has",
    ),
    ("cuStreamEndCaptureToCig", "newer than driver 580, whose exports the simulated driver has"),
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
            .filter(|entry| entry.effects.needs_hook())
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
