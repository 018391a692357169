#!/bin/bash
# Plays the clients on a real card, each scenario in a tenant of its own:
#   on_card.sh LIBDIVVY CUDA_HOME OUT [client …]
# Needs gcc and the toolkit's headers and stubs, nothing of Rust. Scenarios that ask for more memory
# than 32 GiB or for faults of the simulated driver are left out, and two at which driver 580 itself fails
# without any library: road's detached_by_two_threads, where it crashed in 5 of 12 runs, and pools'
# of_contexts_that_end, where it never returns; and those of managed that want more than the card has free, or say how long something takes. Prints
# one line each and a count; what a failed one said lies in OUT. Ends with 1 if any failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath "${1:?libdivvy.so}")
cuda=${2:?the toolkit, such as /usr/local/cuda}
out=${3:?output directory}
shift 3
mkdir -p "$out/bin"
MIB=1048576

plan() {
    while read -r client limit scenarios; do
        for scenario in $scenarios; do
            echo "$client $limit $scenario"
        done
    done <<PLAN
managed 4096 goes_there_and_back advice_is_answered strange_requests_are_refused batches_are_prefetched moves_beside_kernels
blocks 4096 alloc_is_charged free_gives_back small_blocks_share_granules pitched_memory_is_charged managed_memory_is_charged_in_full limit_is_exact refusal_leaves_nothing refused_then_freed_then_granted strange_requests_are_the_drivers freed_under_another_context host_memory_is_free
pool 4096 async_alloc_is_charged_by_reserve free_async_gives_back plain_free_of_async_memory over_the_limit_is_out_of_memory own_pool_is_charged destroyed_pool_gives_back pools_destroyed_behind_work_stay_charged pool_destroyed_before_its_block kept_memory_stays_charged lowered_threshold_gives_back slack_serves_near_the_limit slack_in_pieces_is_no_room idle_pools_give_way trim_gives_back host_pool_is_free per_thread_variants_are_charged per_thread_by_proc_address imported_pool_is_charged capture_takes_nothing
pools 1024 of_one_thread of_eight_threads of_sixteen_threads of_eight_threads_beside_forks of_eight_threads_beside_captures of_four_threads_at_one_pool
vmm 4096 create_is_charged release_gives_back mapping_keeps_the_charge unmap_gives_back dropped_handles_cannot_pile_up retained_handle_keeps_the_charge unmapped_handle_keeps_its_content released_memory_comes_back_as_zeros unmapping_waits_for_no_kernel launching_after_unmap_ends_the_context two_mappings_of_one_handle one_unmap_of_many_mappings import_by_descriptor_is_charged_once external_memory_is_charged bound_handle_keeps_the_charge bound_mapping_keeps_the_charge bound_import_keeps_the_charge plain_calls_on_a_range host_located_handles_are_free
context 4096 primary_is_charged_once primary_release_gives_back primary_reset_gives_back created_is_charged every_version_is_charged destroy_frees_its_blocks a_context_that_does_not_fit no_version_fits_when_full green_contexts_are_charged two_green_contexts_add_up context_ends_while_it_is_anothers streams_are_charged urgent_streams_are_charged green_view_takes_nothing last_green_context_ends_the_primary green_streams_are_charged attached_context_keeps_its_blocks no_graphics_context_fits_when_full heap_limit_is_charged stack_limit_is_charged
context 400 first_context_that_does_not_fit
context 1200 two_threads_at_a_full_limit
array 4096 array_is_charged small_array_takes_a_granule small_arrays_share_granules too_large_an_array_is_refused mipmap_is_charged memory_in_a_sparse_array_stays_charged
graphs 1024 nodes_that_share_addresses of_one_stream of_two_streams of_moved_executables of_destroyed_executables of_four_threads
graph 4096 launched_nodes_are_charged trim_gives_back captured_allocation_is_charged over_the_limit_is_refused every_instantiation_is_charged upload_is_charged added_by_the_general_call nodes_in_a_child_graph global_capture_survives_our_hooks
module 6144 globals_are_charged loaded_with_options_is_charged loaded_from_a_file_is_charged library_globals_are_charged too_large_a_module_is_refused local_memory_is_charged local_memory_over_the_limit enumerated_functions_are_charged library_kernels_are_charged enumerated_kernels_are_charged library_module_is_charged variables_of_a_packed_module_are_charged variables_by_the_first_call_are_charged variables_of_a_packed_library_are_charged kernel_of_before_the_context_is_charged kernel_of_before_the_context_by_its_handle kernel_by_its_handle_in_another_context kernel_of_before_a_context_that_does_not_fit
share 4096 import_is_charged_once import_by_the_first_call_is_charged_once exporters_death_frees_no_charge pointer_of_anothers_pool_is_charged descriptor_is_charged_once descriptor_outlives_its_exporter descriptor_of_another_tenant descriptor_of_a_stranger_is_charged_when_mapped many_descriptors
answer 3072 total_is_the_limit total_before_any_context oldest_questions_are_answered null_places_are_harmless nvml_tells_the_same nvml_before_any_driver_call nvml_total_is_the_limit lists_show_only_the_tenants_own detail_list_shows_only_the_tenants_own utilisation_shows_only_the_tenants_own
reach 2048 by_explicit_handle by_version by_default_and_next names_that_only_begin_alike by_proc_address hooked_call_by_found_address closed_and_opened_again looked_up_by_many_threads
life 4096 forked_before_any_call forked_after_start vforked_and_spawned executed_anew many_threads calls_from_destructors no_memory_left
escape 3072 own_pool dropped_handles per_thread_entry_points graph_nodes captured_allocations arrays mipmaps module_globals library_globals device_heap further_contexts oldest_allocation rounding next_symbol resets exported_descriptors exported_buffers exported_mapped_buffers closed_buffers_give_back managed_pools
road 1024 own_handles handles_of_one_address copied_descriptors imported_and_exported_again descriptors_in_flight descriptors_of_forked_children buffers_of_forked_children exported_twice kept_by_a_mapping detached_primary destroyed_primary
road 2048 opener_of_a_dead_exporters exports_beside_frees more_than_the_table_holds more_buffers_than_the_table_holds dead_exporters_descriptors dead_exporters_buffers executed_with_a_descriptor detached_primary_that_was_retained_twice detached_and_attached reset_beside_green_contexts
old 3072 first_alloc_and_free first_pitched_alloc first_arrays fat_binary_is_charged second_add_node third_add_node
hot 4096 many_live_blocks refusals_do_not_wait
ends 4096 plain_blocks_are_no_mappings a_copy_by_the_null_stream_passes_a_free
PLAN
}

wanted() {
    [ $# -eq 1 ] && return 0
    local one=$1
    shift
    for name in "$@"; do
        [ "$name" = "$one" ] && return 0
    done
    return 1
}

play() {
    local client=$1 bytes=$(($2 * MIB)) scenario=$3 home log code
    home=$(mktemp -d)
    log=$out/$client-$scenario.txt
    env LD_PRELOAD="$library" DIVVY_MEMORY=$bytes EXPECT_LIMIT=$bytes TMPDIR="$home" DIVVY_LOG=warn \
        CUDA_DEVICE_MEMORY_SHARED_CACHE="$home/tenant.cache" \
        timeout -k 2 40 "$out/bin/$client" "$scenario" < <(yes) >"$log" 2>&1
    code=$?
    rm -rf "$home"
    case $code in
    0) echo "ok       $client $scenario$(sed -n 's/^note//p' "$log" | head -1)" && rm -f "$log" ;;
    77) echo "skipped  $client $scenario: $(tail -1 "$log")" ;;
    *) echo "FAILED   $client $scenario ($code): $(grep -m1 'does not hold\|wanted\|took' "$log")" ;;
    esac
}

for name in $(plan | cut -d' ' -f1 | sort -u); do
    wanted "$name" "$@" || continue
    link=()
    for part in $(sed -n '1s,^/\* link: \(.*\) \*/$,\1,p' "$here/$name.c"); do
        link+=("-l$part")
    done
    gcc -std=gnu11 -O1 -g -w -I "$cuda/include" -o "$out/bin/$name" "$here/$name.c" \
        -L "$cuda/lib64/stubs" "${link[@]}" -ldl -lpthread || exit 2
done
export -f play
export out library MIB
plan | while read -r client limit scenario; do
    wanted "$client" "$@" && echo "$client $limit $scenario"
done | xargs -P 4 -L 1 bash -c 'play "$@"' play | sort | tee "$out/table.txt"
! grep -q '^FAILED' "$out/table.txt"
