/* link: cuda dl */
/* Tries to take more than the limit, one road a scenario. A road is closed when the card never holds
 * more of this process than the limit: it counts what it was given itself. */
#include "scenario.h"

#include <dlfcn.h>
#include <unistd.h>

static CUstream stream;

static void ready(void)
{
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* Takes by `take` until it refuses; more than the limit must not be had. */
static void never_past(size_t bytes, CUresult (*take)(size_t bytes))
{
    size_t had = used(), most = wanted_limit();
    for (int i = 0; had <= most; i++) {
        CUresult code = take(bytes);
        if (code != CUDA_SUCCESS) {
            EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
            CHECK(i > 0);
            CHECK(used() <= most);
            return;
        }
        had += bytes;
    }
    fprintf(stderr, "took %zu bytes under a limit of %zu\n", had, most);
    exit(1);
}

static CUmemoryPool pool;
static CUresult take_from_pool(size_t bytes)
{
    CUdeviceptr block;
    return cuMemAllocFromPoolAsync(&block, bytes, pool, stream);
}

static void own_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    ready();
    OK(cuMemPoolCreate(&pool, &props));
    never_past(64 * MIB, take_from_pool);
}

static CUmemAllocationProp on_card = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUresult take_and_drop(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    CUresult code = cuMemCreate(&handle, bytes, &on_card, 0);
    if (code != CUDA_SUCCESS)
        return code;
    OK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    OK(cuMemMap(range, bytes, 0, handle, 0));
    return cuMemRelease(handle);
}

static void dropped_handles(void)
{
    ready();
    never_past(64 * MIB, take_and_drop);
}

static CUresult take_and_export(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    int fd;
    CUresult code = cuMemCreate(&handle, bytes, &on_card, 0);
    if (code != CUDA_SUCCESS)
        return code;
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return cuMemRelease(handle); /* the open descriptor keeps the memory */
}

static void exported_descriptors(void)
{
    ready();
    never_past(64 * MIB, take_and_export);
}

static CUresult take_into_a_buffer(size_t bytes)
{
    CUdeviceptr block;
    CUresult code = cuMemAlloc(&block, bytes);
    if (code != CUDA_SUCCESS)
        return code;
    buffer_of(block, bytes);
    return cuMemFree(block); /* the open descriptor keeps the memory */
}

static void exported_buffers(void)
{
    ready();
    never_past(64 * MIB, take_into_a_buffer);
}

static CUresult take_mapped_into_a_buffer(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    CUresult code = cuMemCreate(&handle, bytes, &on_card, 0);
    if (code != CUDA_SUCCESS)
        return code;
    CUmemAccessDesc access = {.location = on_card.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    OK(cuMemMap(range, bytes, 0, handle, 0));
    OK(cuMemSetAccess(range, bytes, &access, 1));
    buffer_of(range, bytes);
    OK(cuMemUnmap(range, bytes));
    return cuMemRelease(handle);
}

static void exported_mapped_buffers(void)
{
    ready();
    never_past(64 * MIB, take_mapped_into_a_buffer);
}

/* Of one block twice: it is given back with the last. */
static void closed_buffers_give_back(void)
{
    CUdeviceptr block, filled;
    ready();
    size_t before = used();
    for (int round = 0; round < 3; round++) {
        OK(cuMemAlloc(&block, 64 * MIB));
        int first = buffer_of(block, 64 * MIB), second = buffer_of(block, 64 * MIB);
        int copy = dup(second);
        EQUAL(used() - before, 64 * MIB);
        OK(cuMemFree(block));
        EQUAL(used() - before, 64 * MIB);
        close(first);
        close(second);
        IS(cuMemAlloc(&filled, wanted_limit() - before), CUDA_ERROR_OUT_OF_MEMORY);
        EQUAL(used() - before, 64 * MIB);
        close(copy);
        OK(cuMemAlloc(&filled, wanted_limit() - before));
        OK(cuMemFree(filled));
        EQUAL(used() - before, 0);
    }
}

static CUresult take_per_thread(size_t bytes)
{
    static CUresult (*alloc)(CUdeviceptr *, size_t, CUstream);
    CUdeviceptr block;
    if (alloc == NULL)
        alloc = (CUresult(*)(CUdeviceptr *, size_t, CUstream))dlsym(
            dlopen("libcuda.so.1", RTLD_NOW), "cuMemAllocAsync_ptsz");
    CHECK(alloc != NULL);
    return alloc(&block, bytes, NULL);
}

static void per_thread_entry_points(void)
{
    ready();
    never_past(64 * MIB, take_per_thread);
}

static CUresult run(CUgraph graph)
{
    CUgraphExec exec;
    CUresult code = cuGraphInstantiate(&exec, graph, 0);
    if (code == CUDA_SUCCESS)
        code = cuGraphLaunch(exec, stream);
    if (code == CUDA_SUCCESS)
        code = cuStreamSynchronize(stream);
    return code;
}

static CUresult take_by_graph(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(bytes);
    CUgraphNode node;
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    return run(graph);
}

static void graph_nodes(void)
{
    ready();
    never_past(64 * MIB, take_by_graph);
}

static CUresult take_by_capture(size_t bytes)
{
    CUdeviceptr block;
    CUgraph graph;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&block, bytes, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return run(graph);
}

static void captured_allocations(void)
{
    ready();
    never_past(64 * MIB, take_by_capture);
}

static CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 2048, .Height = 2048,
                                        .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};

static CUresult take_array(size_t bytes)
{
    CUarray array;
    EQUAL(bytes, 64 * MIB);
    return cuArray3DCreate(&array, &shape);
}

static void arrays(void)
{
    ready();
    never_past(64 * MIB, take_array);
}

static CUresult take_mipmap(size_t bytes)
{
    CUmipmappedArray array;
    EQUAL(bytes, 64 * MIB);
    return cuMipmappedArrayCreate(&array, &shape, 1);
}

static void mipmaps(void)
{
    ready();
    never_past(64 * MIB, take_mipmap);
}

static const char WITH_GLOBAL[] = PTX_HEAD PTX_EMPTY PTX_BIG("67108864");

static CUresult take_module(size_t bytes)
{
    CUmodule module;
    EQUAL(bytes, 64 * MIB);
    return cuModuleLoadData(&module, WITH_GLOBAL);
}

static void module_globals(void)
{
    ready();
    never_past(64 * MIB, take_module);
}

static CUresult take_library(size_t bytes)
{
    CUlibrary library;
    CUdeviceptr global;
    CUresult code = cuLibraryLoadData(&library, WITH_GLOBAL, NULL, NULL, 0, NULL, NULL, 0);
    return code == CUDA_SUCCESS ? cuLibraryGetGlobal(&global, &bytes, library, "big") : code;
}

static void library_globals(void)
{
    ready();
    never_past(64 * MIB, take_library);
}

static size_t heap = 8 * MIB;
static CUresult take_heap(size_t bytes)
{
    heap += bytes;
    return cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap);
}

static void device_heap(void)
{
    ready();
    never_past(64 * MIB, take_heap);
}

static CUresult take_context(size_t bytes)
{
    CUcontext context;
    CHECK(bytes > 0);
    return cuCtxCreate(&context, 0, 0);
}

static void further_contexts(void)
{
    ready();
    never_past(512 * MIB, take_context);
}

static CUresult take_oldest(size_t bytes)
{
    static CUresult (*alloc)(unsigned *, unsigned);
    unsigned block;
    if (alloc == NULL)
        alloc = (CUresult(*)(unsigned *, unsigned))dlsym(RTLD_DEFAULT, "cuMemAlloc");
    CHECK(alloc != NULL);
    return alloc(&block, (unsigned)bytes);
}

static void oldest_allocation(void)
{
    start_first();
    never_past(64 * MIB, take_oldest);
}

static CUresult take_odd(size_t bytes)
{
    CUdeviceptr block;
    EQUAL(bytes, 4 * MIB); /* what one of these really takes */
    return cuMemAlloc(&block, 2 * MIB + 1);
}

static void rounding(void)
{
    ready();
    never_past(4 * MIB, take_odd);
}

static CUresult take_by_next(size_t bytes)
{
    static CUresult (*alloc)(CUdeviceptr *, size_t);
    CUdeviceptr block;
    if (alloc == NULL)
        alloc = (CUresult(*)(CUdeviceptr *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    CHECK(alloc != NULL);
    return alloc(&block, bytes);
}

static void next_symbol(void)
{
    ready();
    never_past(64 * MIB, take_by_next);
}

static void resets(void)
{
    /* Charges must not vanish with contexts that are only believed to be gone. */
    CUcontext context;
    CUdeviceptr block;
    ready();
    OK(cuMemAlloc(&block, 256 * MIB));
    size_t before = used();
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuDevicePrimaryCtxRelease(0));
    EQUAL(used(), before);
    IS(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
    EQUAL(used(), before);
}

static CUresult take_managed_pool(size_t bytes)
{
    typedef CUresult (*get_pool)(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
    static CUmemoryPool shared;
    CUdeviceptr block;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    get_pool get = (get_pool)dlsym(RTLD_DEFAULT, "cuMemGetMemPool");
    if (get == NULL || (shared == NULL && get(&shared, &here, CU_MEM_ALLOCATION_TYPE_PINNED) !=
                                              CUDA_SUCCESS)) {
        printf("this driver gives no pool by location\n");
        exit(77);
    }
    return cuMemAllocFromPoolAsync(&block, bytes, shared, stream);
}

static void managed_pools(void)
{
    ready();
    never_past(64 * MIB, take_managed_pool);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"own_pool", own_pool},
        {"dropped_handles", dropped_handles},
        {"exported_descriptors", exported_descriptors},
        {"exported_buffers", exported_buffers},
        {"exported_mapped_buffers", exported_mapped_buffers},
        {"closed_buffers_give_back", closed_buffers_give_back},
        {"per_thread_entry_points", per_thread_entry_points},
        {"graph_nodes", graph_nodes},
        {"captured_allocations", captured_allocations},
        {"arrays", arrays},
        {"mipmaps", mipmaps},
        {"module_globals", module_globals},
        {"library_globals", library_globals},
        {"device_heap", device_heap},
        {"further_contexts", further_contexts},
        {"oldest_allocation", oldest_allocation},
        {"rounding", rounding},
        {"next_symbol", next_symbol},
        {"resets", resets},
        {"managed_pools", managed_pools},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
