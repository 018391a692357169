/* link: cuda */
/* Virtual memory management under a limit: charged while a handle or a mapping lives. */
#include "scenario.h"

#include <sys/socket.h>
#include <sys/wait.h>

static CUmemAllocationProp prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};
static const CUmemAccessDesc ACCESS = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static void create_is_charged(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    TAKES(64 * MIB, cuMemCreate(&handle, 64 * MIB, &prop, 0));
    IS(cuMemCreate(&handle, wanted_limit(), &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void release_gives_back(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    GIVES(64 * MIB, cuMemRelease(handle));
    TAKES(0, cuCtxSynchronize());
    IS(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle *handle, size_t bytes)
{
    CUdeviceptr range;
    OK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    OK(cuMemCreate(handle, bytes, &prop, 0));
    OK(cuMemMap(range, bytes, 0, *handle, 0));
    OK(cuMemSetAccess(range, bytes, &ACCESS, 1));
    return range;
}

static void mapping_keeps_the_charge(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    size_t before = used();
    CUdeviceptr range = mapped(&handle, 64 * MIB);
    OK(cuMemRelease(handle));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemsetD8(range, 7, 64 * MIB));
    EQUAL(used() - before, 64 * MIB);
}

static void unmap_gives_back(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    size_t before = used();
    CUdeviceptr range = mapped(&handle, 64 * MIB);
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(range, 64 * MIB));
    EQUAL(used() - before, 0);
    OK(cuMemAddressFree(range, 64 * MIB));
}

static void dropped_handles_cannot_pile_up(void)
{
    /* The road past a limit that charges handles alone: map, drop the handle, again. */
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    start();
    size_t bytes = 64 * MIB, mine = 0;
    for (;;) {
        CUresult code = cuMemCreate(&handle, bytes, &prop, 0);
        if (code != CUDA_SUCCESS) {
            EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
            break;
        }
        OK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
        OK(cuMemMap(range, bytes, 0, handle, 0));
        OK(cuMemSetAccess(range, bytes, &ACCESS, 1));
        OK(cuMemRelease(handle));
        mine += bytes;
        CHECK(mine <= wanted_limit());
    }
}

static void retained_handle_keeps_the_charge(void)
{
    CUmemGenericAllocationHandle handle, again;
    start();
    size_t before = used();
    CUdeviceptr range = mapped(&handle, 64 * MIB);
    OK(cuMemRetainAllocationHandle(&again, (void *)range));
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(range, 64 * MIB));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemRelease(again));
    EQUAL(used() - before, 0);
}

static void unmapped_handle_keeps_its_content(void)
{
    CUmemGenericAllocationHandle handle;
    unsigned word = 0;
    start();
    size_t before = used();
    CUdeviceptr range = mapped(&handle, 64 * MIB);
    OK(cuMemsetD32(range, 0xabcd, 16 * MIB));
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(range, 64 * MIB));
    EQUAL(used() - before, 64 * MIB);
    /* Elsewhere it is the same memory. */
    CUdeviceptr other;
    OK(cuMemAddressReserve(&other, 64 * MIB, 0, 0, 0));
    CHECK(other != range);
    OK(cuMemMap(other, 64 * MIB, 0, handle, 0));
    OK(cuMemSetAccess(other, 64 * MIB, &ACCESS, 1));
    OK(cuMemRelease(handle));
    OK(cuMemcpyDtoH(&word, other + 64 * MIB - 4, 4));
    EQUAL(word, 0xabcd);
    GIVES(64 * MIB, cuMemUnmap(other, 64 * MIB));
}

static void released_memory_comes_back_as_zeros(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    for (int turn = 0; turn < 3; turn++) {
        unsigned word = 7;
        CUdeviceptr range = mapped(&handle, 64 * MIB);
        OK(cuMemcpyDtoH(&word, range + 4096, 4));
        EQUAL(word, 0);
        OK(cuMemsetD32(range, 0xabcd, 16 * MIB));
        OK(cuCtxSynchronize());
        OK(cuMemUnmap(range, 64 * MIB));
        OK(cuMemRelease(handle));
        OK(cuMemAddressFree(range, 64 * MIB));
    }
}

static CUfunction work_kernel, spin_kernel;

static void load_kernels(void)
{
    CUmodule module;
    OK(cuModuleLoadData(&module, PTX_HEAD PTX_WORK PTX_SPIN));
    OK(cuModuleGetFunction(&work_kernel, module, "share_work"));
    OK(cuModuleGetFunction(&spin_kernel, module, "spin_ns"));
}

/* A kernel that counts itself at `counter`, `after_ns` from now. */
static void count_at(CUdeviceptr counter, unsigned long long after_ns)
{
    unsigned long long turns = 1;
    void *spin[] = {&after_ns}, *work[] = {&counter, &turns};
    OK(cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, spin, NULL));
    OK(cuLaunchKernel(work_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, work, NULL));
}

static void unmapping_waits_for_no_kernel(void)
{
    CUmemGenericAllocationHandle handle, other;
    start();
    size_t before = used();
    CUdeviceptr range = mapped(&handle, 64 * MIB), idle = mapped(&other, 64 * MIB);
    load_kernels();
    /* Memory that the kernel does not use comes and goes under it. */
    count_at(range, 1500000000);
    OK(cuMemUnmap(idle, 64 * MIB));
    OK(cuMemRelease(other));
    EQUAL(used() - before, 64 * MIB);
    idle = mapped(&other, 64 * MIB);
    IS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    OK(cuCtxSynchronize());
    /* Memory that it uses is gone at once, and with it the context. */
    count_at(range, 1500000000);
    OK(cuMemUnmap(range, 64 * MIB));
    OK(cuMemRelease(handle));
    EQUAL(used() - before, 64 * MIB);
    IS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    IS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    IS(cuMemAlloc(&range, MIB), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuMemUnmap(idle, 64 * MIB));
}

static void launching_after_unmap_ends_the_context(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    CUdeviceptr range = mapped(&handle, 64 * MIB);
    load_kernels();
    OK(cuMemUnmap(range, 64 * MIB));
    count_at(range, 1000);
    IS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    IS(cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void two_mappings_of_one_handle(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    start();
    size_t before = used();
    OK(cuMemAddressReserve(&range, 128 * MIB, 0, 0, 0));
    OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    OK(cuMemMap(range, 64 * MIB, 0, handle, 0));
    OK(cuMemMap(range + 64 * MIB, 64 * MIB, 0, handle, 0));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(range, 64 * MIB));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemUnmap(range + 64 * MIB, 64 * MIB));
    EQUAL(used() - before, 0);
}

static void one_unmap_of_many_mappings(void)
{
    CUmemGenericAllocationHandle handles[4];
    CUdeviceptr range;
    start();
    size_t before = used();
    OK(cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
    for (int i = 0; i < 4; i++) {
        OK(cuMemCreate(&handles[i], 2 * MIB, &prop, 0));
        OK(cuMemMap(range + i * 2 * MIB, 2 * MIB, 0, handles[i], 0));
        OK(cuMemRelease(handles[i]));
    }
    EQUAL(used() - before, 8 * MIB);
    OK(cuMemUnmap(range, 8 * MIB));
    EQUAL(used() - before, 0);
}

static void import_by_descriptor_is_charged_once(void)
{
    /* Parent and child are started by the test's own exec, since a forked child has no driver. */
    CUmemGenericAllocationHandle handle;
    const char *given = getenv("GIVEN_FD");
    start();
    size_t before = used();
    if (given != NULL) {
        OK(cuMemImportFromShareableHandle(&handle, (void *)(long)atoi(given),
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        /* The tenant is charged for it already, and still is when it is mapped. */
        CUdeviceptr range;
        OK(cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0));
        OK(cuMemMap(range, 64 * MIB, 0, handle, 0));
        EQUAL(used() - before, 0);
        OK(cuMemUnmap(range, 64 * MIB));
        OK(cuMemRelease(handle));
        EQUAL(used() - before, 0);
        return;
    }
    int fd = -1;
    char number[16];
    OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EQUAL(used() - before, 64 * MIB);
    fd = dup(fd); /* without close-on-exec */
    snprintf(number, sizeof number, "%d", fd);
    setenv("GIVEN_FD", number, 1);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "vmm", "import_by_descriptor_is_charged_once", NULL);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
}

static void external_memory_is_charged(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 64 * MIB};
    CUmemGenericAllocationHandle handle;
    CUexternalMemory memory;
    start();
    OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    OK(cuMemExportToShareableHandle(&desc.handle.fd, handle,
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    size_t before = used();
    CUresult code = cuImportExternalMemory(&memory, &desc);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY) {
        printf("the driver takes only descriptors of other interfaces\n");
        exit(77);
    }
    OK(code);
    EQUAL(used() - before, 64 * MIB);
    GIVES(64 * MIB, cuDestroyExternalMemory(memory));
}

/* A multicast object of this device alone. */
static CUmemGenericAllocationHandle multicast(void)
{
    CUmulticastObjectProp wanted = {.numDevices = 1, .size = 64 * MIB,
                                    .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle object;
    start();
    if (cuMulticastCreate(&object, &wanted) != CUDA_SUCCESS) {
        printf("the device has no multicast\n");
        exit(77);
    }
    OK(cuMulticastAddDevice(object, 0));
    return object;
}

static void bound_handle_keeps_the_charge(void)
{
    CUmemGenericAllocationHandle object = multicast(), handle;
    size_t before = used();
    OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    OK(cuMulticastBindMem(object, 0, handle, 0, 64 * MIB, 0));
    OK(cuMemRelease(handle));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMulticastUnbind(object, 0, 0, 64 * MIB));
    EQUAL(used(), before);
}

static void bound_mapping_keeps_the_charge(void)
{
    CUmemGenericAllocationHandle object = multicast(), handle;
    size_t before = used();
    CUdeviceptr range = mapped(&handle, 64 * MIB);
    OK(cuMulticastBindAddr(object, 0, range, 64 * MIB, 0));
    OK(cuMemUnmap(range, 64 * MIB));
    OK(cuMemRelease(handle));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMulticastUnbind(object, 0, 0, 64 * MIB));
    EQUAL(used(), before);
}

static void bound_import_keeps_the_charge(void)
{
    CUmemGenericAllocationHandle object = multicast(), handle, imported;
    int fd = -1;
    size_t before = used();
    OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(long)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMulticastBindMem(object, 0, imported, 0, 64 * MIB, 0));
    close(fd);
    OK(cuMemRelease(imported));
    OK(cuMemRelease(handle));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMulticastUnbind(object, 0, 0, 64 * MIB));
    EQUAL(used(), before);
}

static void plain_calls_on_a_range(void)
{
    CUmemGenericAllocationHandle handle;
    CUipcMemHandle ipc;
    start();
    size_t before = used();
    CUdeviceptr range = mapped(&handle, 4 * MIB);
    IS(cuMemFree(range), CUDA_ERROR_INVALID_VALUE);
    IS(cuIpcGetMemHandle(&ipc, range), CUDA_ERROR_INVALID_VALUE);
    EQUAL(used() - before, 4 * MIB);
}

static void host_located_handles_are_free(void)
{
    CUmemAllocationProp host = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
    };
    CUmemGenericAllocationHandle handle;
    start();
    size_t before = used();
    if (cuMemCreate(&handle, 64 * MIB, &host, 0) != CUDA_SUCCESS) {
        printf("the driver has no memory handles on the host\n");
        exit(77);
    }
    EQUAL(used(), before);
    OK(cuMemRelease(handle));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"create_is_charged", create_is_charged},
        {"release_gives_back", release_gives_back},
        {"mapping_keeps_the_charge", mapping_keeps_the_charge},
        {"unmap_gives_back", unmap_gives_back},
        {"dropped_handles_cannot_pile_up", dropped_handles_cannot_pile_up},
        {"retained_handle_keeps_the_charge", retained_handle_keeps_the_charge},
        {"unmapped_handle_keeps_its_content", unmapped_handle_keeps_its_content},
        {"released_memory_comes_back_as_zeros", released_memory_comes_back_as_zeros},
        {"unmapping_waits_for_no_kernel", unmapping_waits_for_no_kernel},
        {"launching_after_unmap_ends_the_context", launching_after_unmap_ends_the_context},
        {"two_mappings_of_one_handle", two_mappings_of_one_handle},
        {"one_unmap_of_many_mappings", one_unmap_of_many_mappings},
        {"import_by_descriptor_is_charged_once", import_by_descriptor_is_charged_once},
        {"external_memory_is_charged", external_memory_is_charged},
        {"bound_handle_keeps_the_charge", bound_handle_keeps_the_charge},
        {"bound_mapping_keeps_the_charge", bound_mapping_keeps_the_charge},
        {"bound_import_keeps_the_charge", bound_import_keeps_the_charge},
        {"plain_calls_on_a_range", plain_calls_on_a_range},
        {"host_located_handles_are_free", host_located_handles_are_free},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
