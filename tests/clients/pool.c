/* link: cuda dl */
/* Stream-ordered memory under a limit: pools are charged by what they reserve. */
#include "scenario.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static CUstream stream;

static CUmemoryPool ready(void)
{
    CUmemoryPool pool;
    CUdevice device = start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    return pool;
}

static CUmemPoolProps on_card(void)
{
    return (CUmemPoolProps){
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
}

static void async_alloc_is_charged_by_reserve(void)
{
    CUdeviceptr block;
    ready();
    TAKES(32 * MIB, cuMemAllocAsync(&block, 1, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    /* The pool may have kept it; the next request settles what it really holds. */
    OK(cuMemAllocAsync(&block, 33 * MIB, stream));
    cuuint64_t reserved = 0;
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    EQUAL(reserved, 64 * MIB);
    OK(cuMemFreeAsync(block, stream));
}

static void free_async_gives_back(void)
{
    CUdeviceptr block, plain;
    ready();
    size_t before = used();
    OK(cuMemAllocAsync(&block, 100 * MIB, stream));
    EQUAL(used() - before, 128 * MIB);
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 0);
    /* A plain block may be freed in stream order too. */
    OK(cuMemAlloc(&plain, 64 * MIB));
    OK(cuMemFreeAsync(plain, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 0);
}

static void plain_free_of_async_memory(void)
{
    CUdeviceptr block;
    ready();
    size_t before = used();
    OK(cuMemAllocAsync(&block, 64 * MIB, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree(block));
    OK(cuCtxSynchronize());
    EQUAL(used() - before, 0);
}

static void over_the_limit_is_out_of_memory(void)
{
    CUdeviceptr block = 0;
    ready();
    for (int i = 0; i < 100; i++)
        IS(cuMemAllocAsync(&block, wanted_limit(), stream), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAllocAsync(&block, 64 * MIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    int count = 0;
    CUresult code;
    while ((code = cuMemAllocAsync(&block, 32 * MIB, stream)) == CUDA_SUCCESS)
        count++;
    EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(count > 0);
    CHECK(used() <= wanted_limit());
    CHECK(wanted_limit() - used() < 64 * MIB);
}

static void own_pool_is_charged(void)
{
    CUmemPoolProps props = on_card();
    CUmemoryPool pool;
    CUdeviceptr block;
    ready();
    size_t before = used();
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream));
    EQUAL(used() - before, 64 * MIB);
    IS(cuMemAllocFromPoolAsync(&block, wanted_limit(), pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 0);
    OK(cuMemPoolDestroy(pool));
}

static void destroyed_pool_gives_back(void)
{
    CUmemPoolProps props = on_card();
    CUmemoryPool pool;
    CUdeviceptr block;
    cuuint64_t keep = ~0ULL;
    ready();
    size_t before = used();
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemPoolDestroy(pool));
    EQUAL(used() - before, 0);
}

static atomic_bool go_on;

static void wait_until_told(void *unused)
{
    (void)unused;
    while (!atomic_load(&go_on))
        usleep(100);
}

/* What is freed behind work that goes on is the pool's until that has ended, destroyed or not. */
static void pools_destroyed_behind_work_stay_charged(void)
{
    CUmemPoolProps props = on_card();
    CUmemoryPool pool, own, now;
    CUdeviceptr block, large;
    own = ready();
    size_t before = used();
    OK(cuLaunchHostFunc(stream, wait_until_told, NULL));
    for (size_t made = 1; made <= 4; made++) {
        OK(cuMemPoolCreate(&pool, &props));
        OK(cuDeviceSetMemPool(0, pool));
        OK(cuMemAllocAsync(&block, 64 * MIB, stream));
        OK(cuMemFreeAsync(block, stream));
        OK(cuMemPoolDestroy(pool));
        IS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
        IS(cuMemAllocFromPoolAsync(&block, 1, pool, stream), CUDA_ERROR_INVALID_VALUE);
        OK(cuDeviceGetMemPool(&now, 0));
        CHECK(now == own);
        EQUAL(used() - before, made * 64 * MIB);
    }
    size_t rest = wanted_limit() - before;
    IS(cuMemAlloc(&large, rest - 128 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    atomic_store(&go_on, true);
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 0);
    OK(cuMemAlloc(&large, rest - 128 * MIB));
}

static void pool_destroyed_before_its_block(void)
{
    CUmemPoolProps props = on_card();
    CUmemoryPool pool;
    CUdeviceptr block;
    ready();
    size_t before = used();
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream));
    OK(cuMemPoolDestroy(pool));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemFree(block));
    EQUAL(used() - before, 0);
}

static void kept_memory_stays_charged(void)
{
    CUdeviceptr block;
    cuuint64_t keep = ~0ULL;
    CUmemoryPool pool = ready();
    size_t before = used();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&block, 96 * MIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 96 * MIB);
}

static void lowered_threshold_gives_back(void)
{
    CUdeviceptr block;
    cuuint64_t keep = ~0ULL, drop = 0;
    CUmemoryPool pool = ready();
    size_t before = used();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&block, 96 * MIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &drop));
    OK(cuStreamSynchronize(stream));
    /* What the pool still reserves is what is charged, whatever it decides to do with it. */
    cuuint64_t reserved = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    EQUAL(used() - before, reserved);
}

static void trim_gives_back(void)
{
    CUdeviceptr block;
    cuuint64_t keep = ~0ULL;
    CUmemoryPool pool = ready();
    size_t before = used();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&block, 96 * MIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolTrimTo(pool, 0));
    EQUAL(used() - before, 0);
}

typedef CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
typedef CUresult (*from_pool)(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult (*free_async)(CUdeviceptr, CUstream);

static void per_thread_variants_are_charged(void)
{
    CUdeviceptr block;
    CUmemoryPool pool = ready();
    alloc_async alloc = (alloc_async)dlsym(RTLD_DEFAULT, "cuMemAllocAsync_ptsz");
    from_pool from = (from_pool)dlsym(RTLD_DEFAULT, "cuMemAllocFromPoolAsync_ptsz");
    free_async release = (free_async)dlsym(RTLD_DEFAULT, "cuMemFreeAsync_ptsz");
    CHECK(alloc != NULL && from != NULL && release != NULL);
    size_t before = used();
    OK(alloc(&block, 64 * MIB, NULL));
    EQUAL(used() - before, 64 * MIB);
    OK(release(block, NULL));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EQUAL(used() - before, 0);
    OK(from(&block, 64 * MIB, pool, NULL));
    EQUAL(used() - before, 64 * MIB);
    OK(release(block, NULL));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EQUAL(used() - before, 0);
    IS(alloc(&block, wanted_limit(), NULL), CUDA_ERROR_OUT_OF_MEMORY);
}

static void per_thread_by_proc_address(void)
{
    CUdeviceptr block;
    alloc_async alloc = NULL;
    CUdriverProcAddressQueryResult status;
    ready();
    OK(cuGetProcAddress("cuMemAllocAsync", (void **)&alloc, 11020,
                        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
    CHECK((void *)alloc == dlsym(RTLD_DEFAULT, "cuMemAllocAsync_ptsz"));
    size_t before = used();
    OK(alloc(&block, 64 * MIB, NULL));
    EQUAL(used() - before, 64 * MIB);
}

static void host_pool_is_free(void)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
    };
    CUmemoryPool pool;
    CUdeviceptr block;
    ready();
    if (cuMemPoolCreate(&pool, &props) != CUDA_SUCCESS) {
        printf("the driver has no pools of host memory\n");
        exit(77);
    }
    TAKES(0, cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream));
    TAKES(0, cuMemFreeAsync(block, stream));
}

static void imported_pool_is_charged(void)
{
    /* A pool shared by file descriptor, opened again in the same process. */
    CUmemPoolProps props = on_card();
    CUmemoryPool pool, twin;
    CUmemPoolPtrExportData data;
    CUdeviceptr block, seen;
    int fd = -1;
    ready();
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemPoolCreate(&pool, &props));
    size_t before = used();
    OK(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(&data, block));
    OK(cuMemPoolImportFromShareableHandle(&twin, (void *)(long)fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolImportPointer(&seen, twin, &data));
    CHECK(used() - before >= 64 * MIB);
    OK(cuMemFree(seen));
    OK(cuMemFree(block));
}

static void slack_serves_near_the_limit(void)
{
    /* Whether a pool serves an allocation from what it holds unused is known only afterwards: so at the
     * limit it is not asked to, and with room for one more piece of its own it is. */
    CUdeviceptr block, plain, again, room;
    cuuint64_t keep = ~0ULL;
    CUmemoryPool pool = ready();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&block, 8 * MIB, stream)); /* the pool reserves 32 MiB */
    OK(cuStreamSynchronize(stream));
    OK(cuMemAlloc(&room, 32 * MIB));
    while (cuMemAlloc(&plain, 64 * MIB) == CUDA_SUCCESS)
        ;
    while (cuMemAlloc(&plain, 2 * MIB) == CUDA_SUCCESS)
        ;
    EQUAL(cuMemAllocAsync(&again, 8 * MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(room));
    size_t before = used();
    OK(cuMemAllocAsync(&again, 8 * MIB, stream));
    EQUAL(used(), before);
}

enum { PIECES = 64 };

static void slack_in_pieces_is_no_room(void)
{
    /* Half of what fills the limit is freed, each second piece: there is as much as is asked for, but
     * nowhere in one piece, and no pool may grow for it. */
    CUdeviceptr blocks[PIECES], large;
    cuuint64_t keep = ~0ULL, most = 0;
    CUmemoryPool pool = ready();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    int count = 0;
    while (count < PIECES && cuMemAllocAsync(&blocks[count], 20 * MIB, stream) == CUDA_SUCCESS)
        count++;
    size_t room = wanted_limit() - used();
    for (int i = 0; i < count; i += 2)
        OK(cuMemFreeAsync(blocks[i], stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &most));
    while (cuMemAllocAsync(&large, 31 * MIB, stream) == CUDA_SUCCESS)
        ;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &most));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &keep));
    printf("note %d pieces, %zu MiB left, the pool held %zu MiB at most, %zu now\n", count, room / MIB,
           (size_t)most / MIB, (size_t)keep / MIB);
    CHECK(used() <= wanted_limit());
    EQUAL(most, keep);
}

static void idle_pools_give_way(void)
{
    /* What pools keep and nobody uses goes back to the card before anybody is refused. */
    CUdeviceptr block, plain;
    cuuint64_t keep = ~0ULL;
    CUmemoryPool pool = ready();
    size_t left = wanted_limit() - used();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&block, GIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemAlloc(&plain, (left - 64 * MIB) / (2 * MIB) * (2 * MIB)));
    CHECK(used() <= wanted_limit());
}

static void capture_takes_nothing(void)
{
    CUdeviceptr block;
    CUgraph graph;
    ready();
    size_t before = used();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&block, 64 * MIB, stream));
    OK(cuMemsetD8Async(block, 1, 4096, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamEndCapture(stream, &graph));
    EQUAL(used(), before);
    OK(cuGraphDestroy(graph));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"async_alloc_is_charged_by_reserve", async_alloc_is_charged_by_reserve},
        {"free_async_gives_back", free_async_gives_back},
        {"plain_free_of_async_memory", plain_free_of_async_memory},
        {"over_the_limit_is_out_of_memory", over_the_limit_is_out_of_memory},
        {"own_pool_is_charged", own_pool_is_charged},
        {"destroyed_pool_gives_back", destroyed_pool_gives_back},
        {"pools_destroyed_behind_work_stay_charged", pools_destroyed_behind_work_stay_charged},
        {"pool_destroyed_before_its_block", pool_destroyed_before_its_block},
        {"kept_memory_stays_charged", kept_memory_stays_charged},
        {"lowered_threshold_gives_back", lowered_threshold_gives_back},
        {"trim_gives_back", trim_gives_back},
        {"per_thread_variants_are_charged", per_thread_variants_are_charged},
        {"per_thread_by_proc_address", per_thread_by_proc_address},
        {"host_pool_is_free", host_pool_is_free},
        {"imported_pool_is_charged", imported_pool_is_charged},
        {"slack_serves_near_the_limit", slack_serves_near_the_limit},
        {"slack_in_pieces_is_no_room", slack_in_pieces_is_no_room},
        {"idle_pools_give_way", idle_pools_give_way},
        {"capture_takes_nothing", capture_takes_nothing},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
