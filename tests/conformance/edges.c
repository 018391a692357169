/* Copies out of bounds, memory between processes, the addresses functions have, null pointers. */
#include "conform.h"

#include <dlfcn.h>

void copies(int part)
{
    (void)part;
    CUdeviceptr block = 0, other = 0;
    char host[4096] = {0};
    unsigned value = 0;
    start();
    MUST(cuMemAlloc(&block, 2 * MIB));
    MUST(cuMemAlloc(&other, 2 * MIB));
    SAY(cuMemcpyHtoD(block, host, 0));
    SAY(cuMemcpyHtoD(0, host, 16));
    SAY(cuMemcpyHtoD(0x10, host, 16));
    SAY(cuMemcpyDtoH(host, 0x10, 16));
    SAY(cuMemcpyDtoH(host, block + 2 * MIB - 8, 16));
    SAY(cuMemcpyHtoD(block, NULL, 16));
    SAY(cuMemcpyDtoD(other, block, MIB));
    SAY(cuMemcpy(other, block, MIB));
    SAY(cuMemcpy((CUdeviceptr)host, block, 64));
    SAY(cuMemsetD8(block, 0x5a, 4096));
    SAY(cuMemsetD16(block + 1, 1, 4));
    SAY(cuMemsetD32(block + 2, 1, 4));
    SAY(cuMemsetD32(block + 4, 7, 4));
    SAY(cuMemsetD8(block, 0, 0));
    SAY(cuMemsetD8(0x10, 0, 16));
    SAY(cuMemsetD8(block, 0, 3 * MIB));
    SAY(cuMemsetD2D32(block, 512, 9, 4, 4));
    SAY(cuMemcpyDtoH(&value, block + 512, 4));
    state("second row", value);
    SAY(cuMemcpyDtoH(&value, block + 16, 4));
    state("beyond the first row", value);
    CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 64,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = block,
                         .dstPitch = 512, .WidthInBytes = 64, .Height = 4};
    SAY(cuMemcpy2D(&two));
    two.dstPitch = 32;
    SAY(cuMemcpy2D(&two));
    void *pinned = NULL;
    SAY(cuMemHostAlloc(&pinned, 4096, 0));
    SAY(cuMemHostAlloc(&pinned, 0, 0));
    SAY(cuMemHostAlloc(&pinned, 4096, 0xff));
    SAY(cuMemHostRegister(host, sizeof host, 0));
    SAY(cuMemHostRegister(host, sizeof host, 0));
    SAY(cuMemHostUnregister(host));
    SAY(cuMemHostUnregister(host));
    int kind = 0;
    SAY(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 100));
    state("memory type", kind);
    SAY(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
    state("ordinal", kind);
    SAY(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x10));
}

/* The importer: opens what the exporter wrote into the environment. */
static void importer(const char *path)
{
    CUipcMemHandle handle;
    CUdeviceptr block = 0, second = 0;
    unsigned value = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(&handle, sizeof handle, 1, file) != 1)
        return;
    fclose(file);
    start();
    size_t before = free_bytes();
    say("importer: open", cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    taken("importer: opening", before);
    say("importer: open again",
        cuIpcOpenMemHandle(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    state("importer: the same address", second == block);
    say("importer: copy", cuMemcpyDtoH(&value, block, 4));
    state("importer: word", value);
    say("importer: free", cuMemFree(block));
    say("importer: close", cuIpcCloseMemHandle(block));
    say("importer: close twice", cuIpcCloseMemHandle(block));
    say("importer: close thrice", cuIpcCloseMemHandle(block));
}

void sharing(int part)
{
    const char *detail = getenv("CONFORM_DETAIL");
    if (part == 1 && detail == NULL)
        return; /* only ever the importer */
    if (part == 1) {
        importer(detail);
        return;
    }
    CUipcMemHandle handle, twice;
    CUdeviceptr block = 0, opened = 0, small = 0;
    char path[] = "/tmp/conform-ipc-XXXXXX";
    start();
    MUST(cuMemAlloc(&block, 64 * MIB));
    MUST(cuMemsetD32(block, 77, 1));
    SAY(cuIpcGetMemHandle(&handle, block));
    SAY(cuIpcGetMemHandle(&twice, block));
    state("the same handle", memcmp(&handle, &twice, sizeof handle) == 0);
    SAY(cuIpcGetMemHandle(&twice, block + 4096));
    SAY(cuIpcGetMemHandle(&twice, 0x1000));
    MUST(cuMemAlloc(&small, 256));
    SAY(cuIpcGetMemHandle(&twice, small));
    SAY(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    int fd = mkstemp(path);
    if (write(fd, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return;
    close(fd);
    state("importer's status", again("sharing:1", path));
    unlink(path);
    size_t before = free_bytes();
    SAY(cuMemFree(block));
    state("MiB back", ((long long)free_bytes() - (long long)before) / (long long)MIB);
}

static void address(const char *name, int version, unsigned long long flags)
{
    void *found = (void *)1;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    CUresult code = cuGetProcAddress_v2(name, &found, version, flags, &status);
    const char *is = "null";
    char tried[96];
    static const char *const endings[] = {"", "_v2", "_v3", "_v4", "_ptsz", "_ptds", "_v2_ptsz",
                                          "_v2_ptds", "_v3_ptsz"};
    if (found != NULL)
        is = "of no exported symbol";
    for (unsigned i = 0; found != NULL && i < sizeof endings / sizeof *endings; i++) {
        snprintf(tried, sizeof tried, "%s%s", name, endings[i]);
        if (dlsym(RTLD_DEFAULT, tried) == found) {
            is = tried;
            break;
        }
    }
    printf("%s at %d, flags %llu = %d, status %d, %s\n", name, version, flags, (int)code,
           (int)status, is);
}

void addresses(int part)
{
    (void)part;
    static const char *const names[] = {
        "cuInit", "cuMemAlloc", "cuMemFree", "cuMemGetInfo", "cuDeviceTotalMem", "cuCtxCreate",
        "cuCtxDestroy", "cuMemAllocAsync", "cuMemFreeAsync", "cuLaunchKernel", "cuLaunchKernelEx",
        "cuMemcpy", "cuMemcpyHtoD", "cuMemcpyAsync", "cuStreamSynchronize", "cuGetProcAddress",
        "cuDevicePrimaryCtxRelease", "cuGraphInstantiate", "cuStreamBeginCapture",
        "cuMemPrefetchAsync", "cuMemAdvise", "cuCtxGetDevice", "cuEventElapsedTime",
        "cuGraphAddKernelNode", "cuIpcOpenMemHandle", "cuStreamGetCaptureInfo", "cuMemcpy3D",
        "cuMemAlloc_v2", "cuNoSuchFunction", "cuMemCreate", "cuArrayCreate", "cuGreenCtxCreate",
    };
    static const int versions[] = {2000, 4000, 7000, 8000, 10000, 11000, 11040, 11060, 11080,
                                   12000, 12020, 12050, 12080, 13000};
    MUST(cuInit(0));
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++)
            for (unsigned long long flags = 0; flags <= 2; flags += 2)
                address(names[i], versions[v], flags);
    address("cuMemAlloc", 12000, 1);
    address("cuMemAlloc", 12000, 4);
    void *found = NULL;
    SAY(cuGetProcAddress_v2("cuNoSuchFunction", &found, 12000, 0, NULL));
    SAY(cuGetProcAddress_v2("cuMemAlloc", &found, -1, 0, NULL));
    SAY(cuGetProcAddress_v2("", &found, 12000, 0, NULL));
    const void *table = NULL;
    CUuuid nobody = {{1, 2, 3}};
    SAY(cuGetExportTable(&table, &nobody));
}

void nulls(int part)
{
    CUdevice device = start();
    CUdeviceptr block = 0;
    size_t value = 0;
    CUstream stream = NULL;
    switch (part) {
    case 0: SAY(cuMemAlloc(NULL, 4096)); break;
    case 1: SAY(cuMemGetInfo(NULL, NULL)); break;
    case 2: SAY(cuMemGetInfo(&value, NULL)); break;
    case 3: SAY(cuMemGetInfo(NULL, &value)); break;
    case 4: SAY(cuDeviceTotalMem(NULL, device)); break;
    case 5: SAY(cuMemAllocPitch(NULL, &value, 100, 100, 4)); break;
    case 6: SAY(cuMemAllocPitch(&block, NULL, 100, 100, 4)); break;
    case 7: SAY(cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL)); break;
    case 8: SAY(cuMemAllocAsync(NULL, 4096, NULL)); break;
    case 9: SAY(cuMemAllocFromPoolAsync(&block, 4096, NULL, NULL)); break;
    case 10: SAY(cuMemCreate(NULL, 2 * MIB, NULL, 0)); break;
    case 11: SAY(cuMemRetainAllocationHandle(NULL, NULL)); break;
    case 12: SAY(cuArrayCreate(NULL, NULL)); break;
    case 13: SAY(cuArrayDestroy(NULL)); break;
    case 14: SAY(cuModuleLoadData(NULL, NULL)); break;
    case 15: SAY(cuModuleUnload(NULL)); break;
    case 16: SAY(cuStreamCreate(NULL, 0)); break;
    case 17: SAY(cuCtxCreate(NULL, 0, device)); break;
    case 18: SAY(cuDevicePrimaryCtxRetain(NULL, device)); break;
    case 19: SAY(cuIpcGetMemHandle(NULL, 0)); break;
    case 20: SAY(cuMemPoolCreate(NULL, NULL)); break;
    case 21: SAY(cuGraphInstantiate(NULL, NULL, 0)); break;
    case 22: SAY(cuCtxGetCurrent(NULL)); break;
    default: SAY(cuStreamEndCapture(stream, NULL)); break;
    }
}
