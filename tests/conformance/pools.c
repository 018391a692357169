/* Stream-ordered pools: watermarks, reuse, trimming, refusals. */
#include "conform.h"

static CUstream stream;

static void marks(const char *what, CUmemoryPool pool)
{
    cuuint64_t reserved = 0, used = 0;
    MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("%s: reserved %llu, used %llu\n", what, (unsigned long long)reserved,
           (unsigned long long)used);
}

static CUmemPoolProps on_card(void)
{
    return (CUmemPoolProps){
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
}

static void growth(CUmemoryPool pool)
{
    static const size_t sizes[] = {1, 33 * MIB, 100 * MIB};
    CUdeviceptr block = 0;
    char line[64];
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t before = free_bytes();
        MUST(cuMemAllocAsync(&block, sizes[i], stream));
        snprintf(line, sizeof line, "%zu asked", sizes[i]);
        marks(line, pool);
        MUST(cuStreamSynchronize(stream));
        taken(line, before);
        MUST(cuMemFreeAsync(block, stream));
        marks("freed", pool);
        MUST(cuStreamSynchronize(stream));
        marks("synchronised", pool);
        taken("nothing", before);
    }
    CUdeviceptr six[6];
    for (int i = 0; i < 6; i++) {
        MUST(cuMemAllocAsync(&six[i], 40 * MIB, stream));
        marks("another 40 MiB", pool);
    }
    for (int i = 0; i < 6; i++)
        MUST(cuMemFreeAsync(six[i], stream));
    MUST(cuCtxSynchronize());
    marks("all freed", pool);
}

static void threshold(CUmemoryPool pool)
{
    CUdeviceptr block = 0, second = 0;
    cuuint64_t keep = ~0ULL;
    size_t before = free_bytes();
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    MUST(cuMemAllocAsync(&block, 100 * MIB, stream));
    MUST(cuMemFreeAsync(block, stream));
    MUST(cuStreamSynchronize(stream));
    marks("kept", pool);
    taken("kept", before);
    MUST(cuMemAllocAsync(&second, 100 * MIB, stream));
    state("the same address on the same stream", block == second);
    MUST(cuMemFreeAsync(second, stream));
    MUST(cuStreamSynchronize(stream));
    SAY(cuMemPoolTrimTo(pool, 50 * MIB));
    marks("trimmed to 50 MiB", pool);
    SAY(cuMemPoolTrimTo(pool, 0));
    marks("trimmed to nothing", pool);
    taken("trimmed to nothing", before);
    cuuint64_t high = 0, zero = 0, five = 5;
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    state("most used", (long long)high);
    SAY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high));
    state("most reserved", (long long)high);
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &five));
    SAY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero));
    SAY(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &high));
}

static void own_pool(CUmemoryPool shared)
{
    (void)shared;
    CUmemPoolProps props = on_card();
    CUmemoryPool pool = NULL;
    CUdeviceptr block = 0, second = 0;
    size_t before = free_bytes();
    SAY(cuMemPoolCreate(&pool, &props));
    taken("a pool", before);
    SAY(cuMemAllocFromPoolAsync(&block, 10 * MIB, pool, stream));
    marks("10 MiB", pool);
    SAY(cuMemPoolDestroy(pool));
    MUST(cuStreamSynchronize(stream));
    taken("destroyed with a live block", before);
    SAY(cuMemFreeAsync(block, stream));
    MUST(cuStreamSynchronize(stream));
    taken("its last block freed", before);
    props.maxSize = 64 * MIB;
    SAY(cuMemPoolCreate(&pool, &props));
    SAY(cuMemAllocFromPoolAsync(&block, 100 * MIB, pool, stream));
    SAY(cuMemAllocFromPoolAsync(&block, 30 * MIB, pool, stream));
    SAY(cuMemAllocFromPoolAsync(&second, 60 * MIB, pool, stream));
    SAY(cuMemFreeAsync(block, stream));
    SAY(cuMemPoolDestroy(pool));
    props.location.id = 99;
    SAY(cuMemPoolCreate(&pool, &props));
}

static void odd_requests(CUmemoryPool pool)
{
    CUdeviceptr block = 0, plain = 0;
    (void)pool;
    SAY(cuMemAllocAsync(&block, 0, stream));
    SAY(cuMemAllocAsync(&block, 1ULL << 45, stream));
    SAY(cuMemAllocAsync(&block, 4096, stream));
    SAY(cuMemFree(block));
    SAY(cuMemAlloc(&plain, 4096));
    SAY(cuMemFreeAsync(plain, stream));
    MUST(cuStreamSynchronize(stream));
    SAY(cuMemFreeAsync(plain, stream));
    SAY(cuMemFreeAsync(0, stream));
    SAY(cuMemFreeAsync(0x1234, stream));
    SAY(cuMemAllocAsync(&block, 4096, stream));
    SAY(cuMemFreeAsync(block + 512, stream));
    SAY(cuMemFreeAsync(block, stream));
    SAY(cuMemFreeAsync(block, stream));
    CUmemoryPool first = NULL, now = NULL;
    SAY(cuDeviceGetDefaultMemPool(&first, 0));
    SAY(cuDeviceGetMemPool(&now, 0));
    state("the default pool is the current one", first == now);
    SAY(cuMemPoolDestroy(first));
}

static void across_streams(CUmemoryPool pool)
{
    /* Freed on one stream whose work is not done: another stream must not be given the bytes,
     * unless the pool made it wait for them. */
    CUstream other = NULL;
    CUdeviceptr block = 0, second = 0;
    int no = 0;
    cuuint64_t keep = ~0ULL;
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no));
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAllocAsync(&block, 32 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuLaunchHostFunc(stream, pause_ms, (void *)300L));
    MUST(cuMemFreeAsync(block, stream));
    MUST(cuMemAllocAsync(&second, 32 * MIB, other));
    state("another stream gets other bytes while the free waits", second != block);
    MUST(cuMemFreeAsync(second, other));
    MUST(cuCtxSynchronize());
    MUST(cuMemAllocAsync(&second, 32 * MIB, other));
    state("afterwards it may get the freed ones", second != 0);
    MUST(cuMemFreeAsync(second, other));
    MUST(cuCtxSynchronize());
}

void pools(int part)
{
    CUdevice device = start();
    CUmemoryPool pool = NULL;
    void (*const parts[])(CUmemoryPool) = {growth, threshold, own_pool, odd_requests,
                                           across_streams};
    MUST(cuDeviceGetDefaultMemPool(&pool, device));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    parts[part](pool);
}
