/* link: cuda */
/* Plain memory under a limit: what is charged, what is given back, what is refused. */
#include "scenario.h"

static void alloc_is_charged(void)
{
    CUdeviceptr block, second;
    start();
    TAKES(64 * MIB, cuMemAlloc(&block, 64 * MIB));
    TAKES(4 * MIB, cuMemAlloc(&second, 2 * MIB + 1));
    OK(cuMemFree(second));
    OK(cuMemFree(block));
}

static void free_gives_back(void)
{
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    GIVES(64 * MIB, cuMemFree(block));
    IS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    GIVES(0, cuMemFree(0));
}

static void small_blocks_share_granules(void)
{
    CUdeviceptr blocks[64];
    start();
    size_t before = used();
    for (int i = 0; i < 64; i++)
        OK(cuMemAlloc(&blocks[i], 256));
    EQUAL(used() - before, 2 * MIB);
    for (int i = 0; i < 63; i++)
        OK(cuMemFree(blocks[i]));
    EQUAL(used() - before, 2 * MIB);
    OK(cuMemFree(blocks[63]));
    EQUAL(used() - before, 0);
    for (int i = 0; i < 64; i++)
        OK(cuMemAlloc(&blocks[i], MIB));
    EQUAL(used() - before, 64 * MIB);
}

static void pitched_memory_is_charged(void)
{
    CUdeviceptr block;
    size_t pitch = 0;
    start();
    /* 1000 rows of 5,120 bytes: 4.88 MiB in granules of 2. */
    TAKES(6 * MIB, cuMemAllocPitch(&block, &pitch, 5000, 1000, 4));
    EQUAL(pitch, 5120);
    GIVES(6 * MIB, cuMemFree(block));
    IS(cuMemAllocPitch(&block, &pitch, GIB, 64, 4), CUDA_ERROR_OUT_OF_MEMORY);
}

static void managed_memory_is_charged_in_full(void)
{
    CUdeviceptr block;
    start();
    TAKES(64 * MIB, cuMemAllocManaged(&block, 64 * MIB, CU_MEM_ATTACH_GLOBAL));
    GIVES(64 * MIB, cuMemFree(block));
    IS(cuMemAllocManaged(&block, wanted_limit(), CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
}

static void limit_is_exact(void)
{
    CUdeviceptr block;
    start();
    fill_up(64 * MIB);
    fill_up(2 * MIB);
    CHECK(total() == wanted_limit());
    CHECK(used() <= wanted_limit());
    CHECK(wanted_limit() - used() < 2 * MIB);
    IS(cuMemAlloc(&block, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

static void refusal_leaves_nothing(void)
{
    CUdeviceptr block, big;
    start();
    size_t before = used();
    big = 0x77;
    for (int i = 0; i < 1000; i++)
        IS(cuMemAlloc(&big, wanted_limit() + 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(big, 0x77);
    EQUAL(used(), before);
    OK(cuMemAlloc(&block, 16 * MIB));
    OK(cuMemsetD8(block, 7, 16 * MIB));
    OK(cuMemFree(block));
    OK(cuCtxSynchronize());
}

static void refused_then_freed_then_granted(void)
{
    CUdeviceptr first, block;
    start();
    OK(cuMemAlloc(&first, 256 * MIB));
    fill_up(64 * MIB);
    IS(cuMemAlloc(&block, 200 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(first));
    OK(cuMemAlloc(&block, 200 * MIB));
}

static void strange_requests_are_the_drivers(void)
{
    CUdeviceptr block = 0;
    int local = 0;
    start();
    size_t before = used();
    IS(cuMemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAlloc(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAlloc(&block, 1ULL << 60), CUDA_ERROR_OUT_OF_MEMORY);
    IS(cuMemAlloc(&block, ~(size_t)0), CUDA_ERROR_OUT_OF_MEMORY);
    IS(cuMemFree(0x1234), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemFree((CUdeviceptr)&local), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&block, 4 * MIB));
    IS(cuMemFree(block + 512), CUDA_ERROR_INVALID_VALUE);
    EQUAL(used() - before, 4 * MIB);
    OK(cuMemFree(block));
    OK(cuCtxSetCurrent(NULL));
    IS(cuMemAlloc(&block, 4096), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    EQUAL(used(), before);
}

static void freed_under_another_context(void)
{
    CUcontext first, second;
    CUdeviceptr block;
    CUdevice device = start();
    OK(cuCtxGetCurrent(&first));
    OK(cuCtxCreate(&second, 0, device));
    OK(cuCtxSetCurrent(first));
    OK(cuMemAlloc(&block, 32 * MIB));
    OK(cuCtxSetCurrent(second));
    GIVES(32 * MIB, cuMemFree(block));
}

static void driver_failure_is_given_back(void)
{
    /* The test makes the second call of cuMemAlloc_v2 fail inside the driver. */
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, 4 * MIB));
    size_t before = used();
    IS(cuMemAlloc(&block, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(used(), before);
    TAKES(64 * MIB, cuMemAlloc(&block, 64 * MIB));
}

static void failed_free_keeps_the_charge(void)
{
    /* The test makes the first call of cuMemFree_v2 fail inside the driver. */
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    size_t before = used();
    IS(cuMemFree(block), CUDA_ERROR_UNKNOWN);
    EQUAL(used(), before);
    GIVES(64 * MIB, cuMemFree(block));
}

static void host_memory_is_free(void)
{
    void *host = NULL;
    start();
    TAKES(0, cuMemAllocHost(&host, 512 * MIB));
    OK(cuMemFreeHost(host));
    TAKES(0, cuMemHostAlloc(&host, 64 * MIB, 0));
    OK(cuMemFreeHost(host));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"alloc_is_charged", alloc_is_charged},
        {"free_gives_back", free_gives_back},
        {"small_blocks_share_granules", small_blocks_share_granules},
        {"pitched_memory_is_charged", pitched_memory_is_charged},
        {"managed_memory_is_charged_in_full", managed_memory_is_charged_in_full},
        {"limit_is_exact", limit_is_exact},
        {"refusal_leaves_nothing", refusal_leaves_nothing},
        {"refused_then_freed_then_granted", refused_then_freed_then_granted},
        {"strange_requests_are_the_drivers", strange_requests_are_the_drivers},
        {"freed_under_another_context", freed_under_another_context},
        {"driver_failure_is_given_back", driver_failure_is_given_back},
        {"failed_free_keeps_the_charge", failed_free_keeps_the_charge},
        {"host_memory_is_free", host_memory_is_free},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
