/* Managed memory: advice, prefetches and what is answered of a range. */
#include "conform.h"

#if CUDA_VERSION >= 13000 /* there the plain names are the second versions */
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuMemAdvise_v2
#undef cuMemPrefetchAsync_v2
CUresult cuMemAdvise(CUdeviceptr block, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult cuMemPrefetchAsync(CUdeviceptr block, size_t bytes, CUdevice device, CUstream stream);
CUresult cuMemAdvise_v2(CUdeviceptr block, size_t bytes, CUmem_advise advice, CUmemLocation place);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr block, size_t bytes, CUmemLocation place, unsigned flags,
                               CUstream stream);
#endif

#define BYTES (64 * MIB)

static CUdeviceptr managed(size_t bytes)
{
    CUdeviceptr block = 0;
    MUST(cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
    return block;
}

static CUmemLocation at(CUmemLocationType type, int id)
{
    return (CUmemLocation){.type = type, .id = id};
}

static const char *const ATTRIBUTES[] = {
    "read mostly", "preferred", "accessed by", "last prefetch",
    "preferred type", "preferred id", "last prefetch type", "last prefetch id",
};

static void one(int which, CUdeviceptr block, size_t bytes)
{
    int value = -77;
    CUresult code = cuMemRangeGetAttribute(&value, sizeof value, (CUmem_range_attribute)which, block, bytes);
    if (code == CUDA_SUCCESS)
        state(ATTRIBUTES[which - 1], value);
    else
        say(ATTRIBUTES[which - 1], code);
}

static void all(const char *what, CUdeviceptr block, size_t bytes)
{
    word("after", what);
    for (int which = 1; which <= 8; which++) {
        int type = 0;
        if (which == 6 || which == 8)
            MUST(cuMemRangeGetAttribute(&type, sizeof type, (CUmem_range_attribute)(which - 1), block, bytes));
        /* Of other locations the id is to be ignored. */
        if ((which != 6 && which != 8) || type == CU_MEM_LOCATION_TYPE_DEVICE ||
            type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
            one(which, block, bytes);
    }
}

#define THEN(call)                                                                                 \
    do {                                                                                           \
        SAY(call);                                                                                 \
        all(#call, block, BYTES);                                                                  \
    } while (0)

static void answers_of_a_range(void)
{
    CUdevice device = start();
    CUdeviceptr block = managed(BYTES);
    CUmemLocation host = at(CU_MEM_LOCATION_TYPE_HOST, 9), node = at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    CUmemLocation here = at(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    all("nothing", block, BYTES);
    THEN(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, 99));
    THEN(cuMemAdvise(block, 4096, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
    THEN(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    THEN(cuMemAdvise(block + 5000, 1, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    one(2, block, 4096);
    one(2, block + 4096, 4096);
    one(2, block + 8192, BYTES - 8192);
    THEN(cuMemAdvise_v2(block, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node));
    THEN(cuMemAdvise_v2(block, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    THEN(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 99));
    THEN(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    THEN(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
    int by[4] = {7, 7, 7, 7};
    SAY(cuMemRangeGetAttribute(by, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, block, BYTES));
    state("of three, the device", by[0] == device || by[1] == device);
    state("the host", by[0] == CU_DEVICE_CPU || by[1] == CU_DEVICE_CPU);
    state("the third", by[2]);
    state("behind them", by[3]);
    THEN(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device));
    THEN(cuMemPrefetchAsync(block, BYTES, device, NULL));
    THEN(cuMemPrefetchAsync(block, BYTES / 2, CU_DEVICE_CPU, NULL));
    THEN(cuMemPrefetchAsync_v2(block, BYTES, host, 0, NULL));
    THEN(cuMemPrefetchAsync_v2(block, BYTES, node, 0, NULL));
    THEN(cuMemPrefetchAsync_v2(block, BYTES, here, 0, NULL));
    SAY(cuCtxSynchronize());
}

static void refusals(void)
{
    CUdevice device = start();
    CUdeviceptr block = managed(BYTES), plain = 0;
    void *host = NULL;
    int value = 7, other = 7, local = 7;
    MUST(cuMemAlloc(&plain, BYTES));
    MUST(cuMemAllocHost(&host, 4096));
    SAY(cuMemPrefetchAsync(block, 0, device, NULL));
    SAY(cuMemPrefetchAsync(block, BYTES + MIB, device, NULL));
    SAY(cuMemPrefetchAsync(block + BYTES / 2, BYTES, device, NULL));
    SAY(cuMemPrefetchAsync(block, BYTES, 99, NULL));
    SAY(cuMemPrefetchAsync(block, BYTES, CU_DEVICE_INVALID, NULL));
    SAY(cuMemPrefetchAsync(plain, BYTES, device, NULL));
    SAY(cuMemPrefetchAsync((CUdeviceptr)host, 4096, device, NULL));
    SAY(cuMemPrefetchAsync(0, 4096, device, NULL));
    SAY(cuMemPrefetchAsync_v2(block, BYTES, at(CU_MEM_LOCATION_TYPE_DEVICE, 0), 1, NULL));
    SAY(cuMemPrefetchAsync_v2(block, BYTES, at(CU_MEM_LOCATION_TYPE_INVALID, 0), 0, NULL));
    SAY(cuMemPrefetchAsync_v2(block, BYTES, at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 999), 0, NULL));
    SAY(cuMemPrefetchAsync_v2(block, BYTES, at(CU_MEM_LOCATION_TYPE_DEVICE, 99), 0, NULL));
    SAY(cuMemAdvise(block, BYTES, 0, device));
    SAY(cuMemAdvise(block, BYTES, 99, device));
    SAY(cuMemAdvise(block, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    SAY(cuMemAdvise(plain, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    SAY(cuMemAdvise(block, BYTES + MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    SAY(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 99));
    SAY(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, 99));
    SAY(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 99));
    CUmemLocation node = at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    SAY(cuMemAdvise_v2(block, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, node));
    CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    SAY(cuMemRangeGetAttribute(&value, 8, mostly, block, BYTES));
    SAY(cuMemRangeGetAttribute(&value, 2, mostly, block, BYTES));
    SAY(cuMemRangeGetAttribute(NULL, 4, mostly, block, BYTES));
    SAY(cuMemRangeGetAttribute(&value, 4, mostly, block, 0));
    SAY(cuMemRangeGetAttribute(&value, 4, mostly, block, BYTES + MIB));
    SAY(cuMemRangeGetAttribute(&value, 4, mostly, plain, BYTES));
    SAY(cuMemRangeGetAttribute(&value, 4, mostly, (CUdeviceptr)&local, 4));
    SAY(cuMemRangeGetAttribute(&value, 4, 99, block, BYTES));
    SAY(cuMemRangeGetAttribute(&value, 0, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, block, BYTES));
    void *places[] = {&value, &other};
    size_t sizes[] = {4, 8};
    CUmem_range_attribute both[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    SAY(cuMemRangeGetAttributes(places, sizes, both, 2, block, BYTES));
    SAY(cuMemRangeGetAttributes(places, sizes, both, 0, block, BYTES));
    sizes[1] = 4;
    SAY(cuMemRangeGetAttributes(places, sizes, both, 2, block, BYTES));
    state("first", value);
    state("second", other);
    SAY(cuCtxSynchronize());
}

static void contents(void)
{
    CUdevice device = start();
    CUdeviceptr block = managed(BYTES), plain = 0;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    MUST(cuMemAlloc(&plain, 4096));
    memset((void *)block, 5, BYTES);
    SAY(cuMemPrefetchAsync(block, BYTES, device, NULL));
    SAY(cuMemsetD8(block + MIB, 6, 4096));
    SAY(cuMemPrefetchAsync(block, BYTES, CU_DEVICE_CPU, NULL));
    SAY(cuCtxSynchronize());
    state("written by the host", ((unsigned char *)block)[BYTES - 1]);
    state("written by the device", ((unsigned char *)block)[MIB]);
    SAY(cuMemcpyDtoD(plain, block + MIB, 4096));
    SAY(cuMemcpyHtoD(block, (void *)(block + MIB), 4096));
    SAY(cuMemcpy(block + 4096, plain, 4096));
    state("copied within", ((unsigned char *)block)[0]);
    state("copied from the device", ((unsigned char *)block)[4096]);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuMemPrefetchAsync(block, BYTES, device, stream));
    SAY(cuStreamEndCapture(stream, &graph));
    SAY(cuMemFree(block));
    SAY(cuMemPrefetchAsync(block, BYTES, device, NULL));
}

void managed_memory(int part)
{
    void (*const parts[])(void) = {answers_of_a_range, refusals, contents};
    parts[part]();
}
