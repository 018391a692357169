/* Plain memory: sizes on the card, answers to odd requests, what a free accepts. */
#include "conform.h"

void starting(int part)
{
    CUdevice device;
    int count = -1, version = 0;
    CUdeviceptr block = 0;
    CUcontext context = (CUcontext)1;
    if (part == 0) {
        SAY(cuDeviceGetCount(&count));
        SAY(cuMemAlloc(&block, 4096));
        SAY(cuCtxGetCurrent(&context));
        SAY(cuDriverGetVersion(&version));
        state("version is of this century", version > 11000);
        SAY(cuInit(1));
        SAY(cuInit(0));
        SAY(cuInit(0));
        SAY(cuDeviceGetCount(&count));
    } else if (part == 1) {
        MUST(cuInit(0));
        MUST(cuDeviceGetCount(&count));
        SAY(cuDeviceGet(&device, -1));
        SAY(cuDeviceGet(&device, count));
        SAY(cuDeviceGet(&device, 0));
        SAY(cuCtxGetCurrent(&context));
        state("no context is current", context == NULL);
        SAY(cuMemAlloc(&block, 4096));
        SAY(cuCtxSynchronize());
        SAY(cuCtxPopCurrent(&context));
        SAY(cuStreamSynchronize(NULL));
        SAY(cuMemFree(0));
        SAY(cuMemFree(0x1000));
        size_t free, total;
        SAY(cuMemGetInfo(&free, &total));
        SAY(cuDeviceTotalMem(&total, device));
        SAY(cuDeviceTotalMem(&total, 99));
    } else {
        const char *text = NULL;
        SAY(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
        word("name", text ? text : "null");
        SAY(cuGetErrorName((CUresult)12345, &text));
        SAY(cuGetErrorString((CUresult)12345, &text));
        MUST(cuInit(0));
        SAY(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    }
}

void answers(int part)
{
    (void)part;
    CUdevice device = start();
    size_t free = 0, total = 0, card = 0;
    int value = 0;
    SAY(cuMemGetInfo(&free, &total));
    SAY(cuDeviceTotalMem(&card, device));
    state("both totals are the same", total == card);
    state("some is taken already", free < total);
    SAY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    state("warp", value);
    SAY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device));
    state("threads per block", value);
    SAY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device));
    state("unified addressing", value);
    SAY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device));
    state("pools", value);
    SAY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    state("virtual memory management", value);
    SAY(cuDeviceGetAttribute(&value, (CUdevice_attribute)0, device));
    SAY(cuDeviceGetAttribute(&value, (CUdevice_attribute)100000, device));
    SAY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99));
}

static void many(const char *what, int count, size_t bytes)
{
    static CUdeviceptr blocks[4096];
    size_t before = free_bytes();
    unsigned long long low_bits = 0;
    for (int i = 0; i < count; i++) {
        MUST(cuMemAlloc(&blocks[i], bytes));
        low_bits |= blocks[i];
    }
    taken(what, before);
    state("aligned to 512", (low_bits & 511) == 0);
    for (int i = 0; i + 1 < count; i++)
        MUST(cuMemFree(blocks[i]));
    if (count > 1)
        taken("all but one freed", before);
    MUST(cuMemFree(blocks[count - 1]));
    taken("all freed", before);
}

void plain_memory(int part)
{
    CUdeviceptr block = 0;
    CUdevice device = start();
    if (part == 0) {
        many("one of 1 B", 1, 1);
        many("64 of 256 B", 64, 256);
        many("4096 of 512 B", 4096, 512);
        many("4096 of 513 B", 4096, 513);
        many("one of 1 MiB", 1, MIB);
        many("64 of 1 MiB", 64, MIB);
        many("64 of 700 KiB", 64, 700 * 1024);
        many("16 of 1 MiB + 1", 16, MIB + 1);
        many("16 of 2 MiB", 16, 2 * MIB);
        many("one of 2 MiB + 1", 1, 2 * MIB + 1);
        many("one of 3 MiB", 1, 3 * MIB);
        many("one of 100 MiB + 5", 1, 100 * MIB + 5);
        many("one of 1 GiB", 1, 1024 * MIB);
        size_t before = free_bytes();
        CUdeviceptr trio[3], hole;
        for (int i = 0; i < 3; i++)
            MUST(cuMemAlloc(&trio[i], 4096));
        MUST(cuMemFree(trio[1]));
        MUST(cuMemAlloc(&hole, 4096));
        state("a hole is used again", hole == trio[1]);
        taken("three small ones", before);
        return;
    }
    size_t card = 0;
    MUST(cuDeviceTotalMem(&card, device));
    SAY(cuMemAlloc(&block, 0));
    SAY(cuMemAlloc(&block, card + MIB));
    SAY(cuMemAlloc(&block, 1ULL << 60));
    SAY(cuMemAlloc(&block, ~0ULL));
    SAY(cuMemAlloc(&block, free_bytes() + 2 * MIB));
    SAY(cuMemAlloc(&block, 4096));
}

void freeing(int part)
{
    CUdeviceptr block = 0, base = 0;
    CUdevice device = start();
    size_t bytes = 0;
    if (part == 0) {
        MUST(cuMemAlloc(&block, 4 * MIB));
        SAY(cuMemFree(0));
        SAY(cuMemFree(0x1234));
        SAY(cuMemFree(block + 512));
        SAY(cuMemGetAddressRange(&base, &bytes, block + 5000));
        state("base is the block's", base == block);
        state("size is the one asked for", (long long)bytes);
        SAY(cuMemFree(block));
        SAY(cuMemFree(block));
        SAY(cuMemGetAddressRange(&base, &bytes, block));
        int local = 1;
        SAY(cuMemFree((CUdeviceptr)&local));
        return;
    }
    /* A block of one context freed while another is current. */
    CUcontext one = primary(), two = NULL;
    MUST(cuMemAlloc(&block, 4 * MIB));
    MUST(cuCtxCreate(&two, 0, device));
    SAY(cuMemFree(block));
    MUST(cuCtxDestroy(two));
    MUST(cuCtxSetCurrent(one));
    MUST(cuMemAlloc(&block, 4 * MIB));
    MUST(cuCtxSetCurrent(NULL));
    SAY(cuMemFree(block));
    void *host = NULL;
    MUST(cuCtxSetCurrent(one));
    MUST(cuMemAllocHost(&host, 4096));
    SAY(cuMemFree((CUdeviceptr)host));
    SAY(cuMemFreeHost(host));
    SAY(cuMemFreeHost(host));
}

void pitch_and_managed(int part)
{
    (void)part;
    CUdevice device = start();
    static const size_t widths[] = {1, 512, 513, 5000, MIB};
    CUdeviceptr block = 0;
    size_t pitch = 0, before = free_bytes();
    (void)device;
    for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++) {
        MUST(cuMemAllocPitch(&block, &pitch, widths[i], 16, 4));
        printf("pitch of %zu = %zu\n", widths[i], pitch);
        MUST(cuMemFree(block));
    }
    SAY(cuMemAllocPitch(&block, &pitch, 1024, 16, 3));
    SAY(cuMemAllocPitch(&block, &pitch, 0, 16, 4));
    SAY(cuMemAllocPitch(&block, &pitch, 1024, 0, 4));
    MUST(cuMemAllocPitch(&block, &pitch, 5000, 1000, 4));
    taken("5000 x 1000 pitched", before);
    MUST(cuMemFree(block));
    taken("it freed", before);
    SAY(cuMemAllocManaged(&block, 0, CU_MEM_ATTACH_GLOBAL));
    SAY(cuMemAllocManaged(&block, 4096, 0));
    SAY(cuMemAllocManaged(&block, 4096, 7));
    before = free_bytes();
    SAY(cuMemAllocManaged(&block, 64 * MIB, CU_MEM_ATTACH_GLOBAL));
    taken("64 MiB managed, untouched", before);
    *(volatile int *)block = 7;
    taken("64 MiB managed, touched by the host", before);
    int managed = 0;
    SAY(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block));
    state("managed", managed);
    SAY(cuMemFree(block));
    SAY(cuMemFree(block));
}
