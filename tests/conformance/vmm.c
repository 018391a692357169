/* Virtual memory management: what each step takes, and what it refuses. */
#include "conform.h"

static CUmemAllocationProp on_card(CUmemAllocationHandleType type)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = type,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
}

static CUmemAccessDesc read_write(void)
{
    return (CUmemAccessDesc){
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
}

static void a_life(void)
{
    CUmemAllocationProp prop = on_card(CU_MEM_HANDLE_TYPE_NONE);
    CUmemAccessDesc access = read_write();
    CUmemGenericAllocationHandle handle = 0, retained = 0;
    CUdeviceptr range = 0, base = 0;
    size_t bytes = 0, before = free_bytes();
    SAY(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    state("minimum", (long long)bytes);
    SAY(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    state("recommended", (long long)bytes);
    SAY(cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0));
    taken("a range of 64 MiB", before);
    SAY(cuMemCreate(&handle, 32 * MIB, &prop, 0));
    taken("a handle of 32 MiB", before);
    SAY(cuMemMap(range, 32 * MIB, 0, handle, 0));
    taken("it mapped", before);
    SAY(cuMemSetAccess(range, 32 * MIB, &access, 1));
    taken("access given", before);
    unsigned word_out = 0;
    SAY(cuMemsetD32(range, 0xabcd, 1024));
    SAY(cuMemcpyDtoH(&word_out, range + 4, 4));
    state("word read back", word_out);
    SAY(cuMemGetAddressRange(&base, &bytes, range + 4096));
    state("base is the range's", base == range);
    state("size", (long long)bytes);
    SAY(cuMemRetainAllocationHandle(&retained, (void *)range));
    state("retaining gives the same handle", retained == handle);
    SAY(cuMemRelease(handle));
    taken("one of two references released", before);
    SAY(cuMemRelease(retained));
    taken("both released, still mapped", before);
    SAY(cuMemRelease(handle));
    SAY(cuMemsetD32(range, 0xabce, 1024));
    SAY(cuMemUnmap(range, 32 * MIB));
    taken("unmapped", before);
    SAY(cuMemAddressFree(range, 64 * MIB));
    taken("range given back", before);
}

static void refusals(void)
{
    CUmemAllocationProp prop = on_card(CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0;
    size_t before = free_bytes();
    SAY(cuMemCreate(&handle, MIB, &prop, 0));
    SAY(cuMemCreate(&handle, 0, &prop, 0));
    SAY(cuMemCreate(&handle, 1ULL << 45, &prop, 0));
    SAY(cuMemCreate(&handle, 2 * MIB, &prop, 1));
    prop.location.id = 99;
    SAY(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    prop.location.id = 0;
    SAY(cuMemAddressReserve(&range, MIB, 0, 0, 0));
    SAY(cuMemAddressReserve(&range, 0, 0, 0, 0));
    SAY(cuMemAddressReserve(&range, 4 * MIB, 3, 0, 0));
    SAY(cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
    SAY(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    SAY(cuMemMap(range, 8 * MIB, 0, handle, 0));
    SAY(cuMemMap(range, MIB, 0, handle, 0));
    SAY(cuMemMap(range, 2 * MIB, 2 * MIB, handle, 0));
    SAY(cuMemMap(range + 64 * MIB, 4 * MIB, 0, handle, 0));
    SAY(cuMemMap(range, 4 * MIB, 0, handle, 0));
    SAY(cuMemMap(range, 4 * MIB, 0, handle, 0));
    SAY(cuMemMap(range + 4 * MIB, 4 * MIB, 0, handle, 0));
    taken("one handle mapped twice", before);
    SAY(cuMemUnmap(range, 2 * MIB));
    SAY(cuMemAddressFree(range, 8 * MIB));
    SAY(cuMemUnmap(range, 8 * MIB));
    SAY(cuMemUnmap(range, 4 * MIB));
    SAY(cuMemAddressFree(range, 4 * MIB));
    SAY(cuMemAddressFree(range, 8 * MIB));
    SAY(cuMemRelease(handle));
    taken("everything given back", before);
    SAY(cuMemRelease(handle));
    SAY(cuMemRelease(0));
}

static void not_plain(void)
{
    CUmemAllocationProp prop = on_card(CU_MEM_HANDLE_TYPE_NONE);
    CUmemAccessDesc access = read_write();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0, block = 0;
    CUipcMemHandle ipc;
    MUST(cuMemAddressReserve(&range, 4 * MIB, 0, 0, 0));
    MUST(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    MUST(cuMemMap(range, 4 * MIB, 0, handle, 0));
    MUST(cuMemSetAccess(range, 4 * MIB, &access, 1));
    SAY(cuMemFree(range));
    SAY(cuIpcGetMemHandle(&ipc, range));
    MUST(cuMemAlloc(&block, 4 * MIB));
    SAY(cuMemUnmap(block, 4 * MIB));
    SAY(cuMemRetainAllocationHandle(&handle, (void *)block));
    SAY(cuMemSetAccess(block, 4 * MIB, &access, 1));
}

static void by_descriptor(void)
{
    CUmemAllocationProp prop = on_card(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), answer;
    CUmemAllocationProp plain = on_card(CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle handle = 0, imported = 0, shy = 0;
    int fd = -1;
    size_t before = free_bytes();
    SAY(cuMemCreate(&handle, 16 * MIB, &prop, 0));
    SAY(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    state("a descriptor", fd >= 0);
    SAY(cuMemImportFromShareableHandle(&imported, (void *)(long)fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    state("importing gives the same handle", imported == handle);
    taken("created, exported and imported", before);
    SAY(cuMemGetAllocationPropertiesFromHandle(&answer, imported));
    state("device", answer.location.id);
    SAY(cuMemRelease(handle));
    SAY(cuMemRelease(imported));
    taken("released twice, descriptor open", before);
    close(fd);
    taken("descriptor closed", before);
    SAY(cuMemCreate(&shy, 2 * MIB, &plain, 0));
    SAY(cuMemExportToShareableHandle(&fd, shy, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    SAY(cuMemImportFromShareableHandle(&imported, (void *)(long)0,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    SAY(cuMemRelease(shy));
}

void virtual_memory(int part)
{
    void (*const parts[])(void) = {a_life, refusals, not_plain, by_descriptor};
    start();
    parts[part]();
}
