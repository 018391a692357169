/* link: cuda */
/* Managed memory: where it is, at what price it moves, and what the driver says about it.
 *
 * Scenarios about what the card has free want one without the library, as that charges all of managed memory
 * when it is made; those that want more than the card has are for the simulated one alone. */
#include "scenario.h"

#include <sys/wait.h>
#include <time.h>

#if CUDA_VERSION >= 13000 /* there the plain names are the second versions */
#undef cuMemAdvise
#undef cuMemPrefetchAsync
CUresult cuMemAdvise(CUdeviceptr block, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult cuMemPrefetchAsync(CUdeviceptr block, size_t bytes, CUdevice device, CUstream stream);
#endif

#define BYTES (64 * MIB)

static CUdeviceptr managed(size_t bytes)
{
    CUdeviceptr block;
    OK(cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
    return block;
}

static void write_all(CUdeviceptr block, size_t bytes)
{
    memset((void *)block, 5, bytes);
}

/* An attribute that is one number. */
static int attribute(CUmem_range_attribute which, CUdeviceptr block, size_t bytes)
{
    int value = -77;
    OK(cuMemRangeGetAttribute(&value, sizeof value, which, block, bytes));
    return value;
}

static void goes_there_and_back(void)
{
    CUdevice device = start();
    CUdeviceptr block = managed(BYTES);
    CUfunction fill = obtain(PTX_HEAD PTX_FILL32, "fill32");
    CUmem_range_attribute last = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    EQUAL(attribute(last, block, BYTES), CU_DEVICE_INVALID);
    write_all(block, BYTES);
    OK(cuMemPrefetchAsync(block, BYTES, device, NULL));
    EQUAL(attribute(last, block, BYTES), device);
    unsigned words = 1024, value = 0xabcd;
    void *arguments[] = {&block, &value, &words};
    OK(cuLaunchKernel(fill, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemPrefetchAsync(block, BYTES / 2, CU_DEVICE_CPU, NULL));
    EQUAL(attribute(last, block, BYTES / 2), CU_DEVICE_CPU);
    EQUAL(attribute(last, block + BYTES / 2, BYTES / 2), device);
    EQUAL(attribute(last, block, BYTES), CU_DEVICE_INVALID);
    OK(cuCtxSynchronize());
    EQUAL(((unsigned *)block)[1023], 0xabcd);
    EQUAL(((unsigned *)block)[1024], 0x05050505);
    EQUAL(((unsigned char *)block)[BYTES - 1], 5);
    OK(cuMemFree(block));
}

static void advice_is_answered(void)
{
    CUdevice device = start();
    CUdeviceptr block = managed(BYTES), half = block + BYTES / 2;
    EQUAL(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, block, BYTES), 0);
    OK(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    EQUAL(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, block, BYTES), 1);
    OK(cuMemAdvise(half, 4096, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
    EQUAL(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, block, BYTES), 0);
    EQUAL(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, block, BYTES / 2), 1);
    CUmem_range_attribute preferred = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    EQUAL(attribute(preferred, block, BYTES), CU_DEVICE_INVALID);
    OK(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    EQUAL(attribute(preferred, block, BYTES), CU_DEVICE_CPU);
    OK(cuMemAdvise(half, BYTES / 2, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    EQUAL(attribute(preferred, half, BYTES / 2), device);
    EQUAL(attribute(preferred, block, BYTES), CU_DEVICE_INVALID);
    OK(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device));
    EQUAL(attribute(preferred, half, BYTES / 2), CU_DEVICE_INVALID);
    int by[3] = {7, 7, 7}, mostly = 7;
    OK(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    OK(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, block, BYTES));
    EQUAL(by[0], device);
    EQUAL(by[1], CU_DEVICE_INVALID);
    EQUAL(by[2], CU_DEVICE_INVALID);
    OK(cuMemAdvise(half, 4096, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device));
    void *places[] = {by, &mostly};
    size_t sizes[] = {sizeof by, sizeof mostly};
    CUmem_range_attribute both[] = {CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                    CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
    OK(cuMemRangeGetAttributes(places, sizes, both, 2, block, BYTES));
    EQUAL(by[0], CU_DEVICE_INVALID);
    EQUAL(mostly, 0);
    OK(cuMemRangeGetAttributes(places, sizes, both, 2, block, BYTES / 2));
    EQUAL(by[0], device);
    EQUAL(mostly, 1);
    OK(cuMemFree(block));
}

static void strange_requests_are_refused(void)
{
    CUdevice device = start();
    CUdeviceptr block = managed(BYTES), plain;
    int value = 0;
    OK(cuMemAlloc(&plain, BYTES));
    IS(cuMemPrefetchAsync(block, 0, device, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemPrefetchAsync(block, BYTES + MIB, device, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemPrefetchAsync(plain, BYTES, device, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemPrefetchAsync(block, BYTES, 99, NULL), CUDA_ERROR_INVALID_DEVICE);
    IS(cuMemPrefetchAsync(block, BYTES, CU_DEVICE_INVALID, NULL), CUDA_ERROR_INVALID_DEVICE);
    IS(cuMemAdvise(block, BYTES, 99, device), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAdvise(block, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, device), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAdvise(plain, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, 99), CUDA_ERROR_INVALID_DEVICE);
    CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    IS(cuMemRangeGetAttribute(&value, 8, mostly, block, BYTES), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemRangeGetAttribute(&value, 4, 99, block, BYTES), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemRangeGetAttribute(&value, 4, mostly, plain, BYTES), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemRangeGetAttribute(NULL, 4, mostly, block, BYTES), CUDA_ERROR_INVALID_VALUE);
    /* Refused, they changed nothing. */
    EQUAL(attribute(mostly, block, BYTES), 0);
    EQUAL(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, block, BYTES), CU_DEVICE_INVALID);
    OK(cuCtxSynchronize());
}

typedef CUresult batch_fn(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long,
                          CUstream);

static void batches_are_prefetched(void)
{
    start();
    /* Of CUDA 13. */
    batch_fn *batch = (batch_fn *)dlsym(RTLD_DEFAULT, "cuMemPrefetchBatchAsync");
    if (batch == NULL) {
        puts("the driver has no batches of prefetches");
        exit(77);
    }
    CUdeviceptr blocks[] = {managed(4 * MIB), managed(4 * MIB), managed(4 * MIB)};
    size_t sizes[] = {4 * MIB, 2 * MIB, 4 * MIB}, firsts[] = {0, 2}, wrong[] = {1, 2};
    CUmemLocation places[] = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              {.type = CU_MEM_LOCATION_TYPE_HOST}};
    CUmem_range_attribute last = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    IS(batch(blocks, sizes, 3, places, wrong, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
    IS(batch(blocks, sizes, 2, places, firsts, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
    IS(batch(blocks, sizes, 1, places, firsts, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
    IS(batch(blocks, sizes, 3, places, firsts, 2, 1, stream), CUDA_ERROR_INVALID_VALUE);
    IS(batch(blocks, sizes, 3, places, firsts, 0, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EQUAL(attribute(last, blocks[0], 4 * MIB), CU_DEVICE_INVALID);
    sizes[2] = 5 * MIB;
    IS(batch(blocks, sizes, 3, places, firsts, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
    /* What came before the refused one is done. */
    EQUAL(attribute(last, blocks[0], 4 * MIB), 0);
    sizes[2] = 4 * MIB;
    OK(batch(blocks, sizes, 3, places, firsts, 2, 0, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(attribute(last, blocks[0], 4 * MIB), 0);
    EQUAL(attribute(last, blocks[1], 2 * MIB), 0);
    EQUAL(attribute(last, blocks[1] + 2 * MIB, 2 * MIB), CU_DEVICE_INVALID);
    EQUAL(attribute(last, blocks[2], 4 * MIB), CU_DEVICE_CPU);
}

/* ---- of the card ---- */

static void takes_of_the_card_what_is_there(void)
{
    CUdevice device = start();
    TAKES(0, cuMemAllocManaged(&(CUdeviceptr){0}, BYTES, CU_MEM_ATTACH_GLOBAL));
    CUdeviceptr block = managed(BYTES);
    size_t before = used();
    write_all(block, BYTES);
    EQUAL(used(), before);
    OK(cuMemsetD8(block, 6, 3 * MIB));
    EQUAL(used() - before, 4 * MIB);
    OK(cuMemPrefetchAsync(block, BYTES, device, NULL));
    OK(cuCtxSynchronize());
    EQUAL(used() - before, BYTES);
    OK(cuMemPrefetchAsync(block + BYTES / 2, BYTES / 2, CU_DEVICE_CPU, NULL));
    OK(cuCtxSynchronize());
    EQUAL(used() - before, BYTES / 2);
    /* What is to stay on the host stays there when the device touches it. */
    OK(cuMemAdvise(block, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    OK(cuMemsetD8(block, 7, BYTES));
    EQUAL(used() - before, BYTES / 2);
    EQUAL(((unsigned char *)block)[BYTES - 1], 7);
    OK(cuMemFree(block));
    EQUAL(used(), before);
}

static void more_than_the_card(void)
{
    start();
    size_t free = total() - used(), bytes = free + 70 * MIB;
    CUdeviceptr block = managed(bytes);
    OK(cuMemsetD8(block, 1, bytes));
    CHECK(total() - used() < 2 * MIB);
    OK(cuMemsetD8(block, 2, bytes));
    EQUAL(((unsigned char *)block)[0], 2);
    EQUAL(((unsigned char *)block)[bytes - 1], 2);
    CHECK(total() - used() < 2 * MIB);
    OK(cuMemFree(block));
    EQUAL(total() - used(), free);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void allocations_make_room(void)
{
    start();
    size_t free = total() - used(), room = free / (2 * MIB) * (2 * MIB);
    CUdeviceptr block = managed(room), plain;
    OK(cuMemsetD8(block, 1, room));
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemGenericAllocationHandle handle;
    /* Longer than the eviction takes by the rate that was measured; how much longer is the host's matter. */
    double before = now_ms();
    OK(cuMemAlloc(&plain, 64 * MIB));
    CHECK(now_ms() - before > 64 * 1.048576 / 15.5 * 0.99);
    OK(cuMemCreate(&handle, 32 * MIB, &prop, 0));
    IS(cuMemAlloc(&plain, room - 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(used(), total() - free + room);
    OK(cuMemAlloc(&plain, room - 96 * MIB));
    /* Nothing is left that could make room, and the device works on what is on the host. */
    IS(cuMemAlloc(&plain, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemsetD8(block, 2, room));
    EQUAL(((unsigned char *)block)[room - 1], 2);
}

static void another_process_makes_room(void)
{
    int to_child[2], to_parent[2], status = 0;
    const size_t bytes = 240 * MIB;
    char word = 0;
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    if (child == 0) {
        start();
        CUdeviceptr block = managed(bytes);
        OK(cuMemsetD8(block, 1, bytes));
        EQUAL(used(), 518 * MIB + bytes);
        CHECK(write(to_parent[1], "x", 1) == 1 && read(to_child[0], &word, 1) == 1);
        /* It goes through what the other has left. */
        OK(cuMemsetD8(block, 2, bytes));
        EQUAL(used(), total());
        EQUAL(((unsigned char *)block)[0], 2);
        EQUAL(((unsigned char *)block)[bytes - 1], 2);
        exit(0);
    }
    CHECK(read(to_parent[0], &word, 1) == 1);
    /* The context finds no room but the other's. */
    start();
    EQUAL(used(), total());
    CHECK(total() < 2 * 518 * MIB + bytes);
    CHECK(write(to_child[1], "x", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    EQUAL(used(), 518 * MIB);
}

/* ---- of time ---- */

static CUfunction spin, fill;

static void occupy(unsigned long long ns, CUstream stream)
{
    void *arguments[] = {&ns};
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static float between(CUevent first, CUevent last)
{
    float ms = 0;
    OK(cuEventSynchronize(last));
    OK(cuEventElapsedTime(&ms, first, last));
    return ms;
}

static void near(const char *what, float ms, double wanted_ms)
{
    printf("note %s: %.2f ms, by the rate that was measured %.2f\n", what, (double)ms, wanted_ms);
    /* Pages of the host that nobody has used for long take a card twice as long. */
    CHECK(ms >= wanted_ms * 0.8 && ms < wanted_ms * 2.2 + 0.5);
}

static void moves_at_the_links_rates(void)
{
    CUdevice device = start();
    size_t bytes = 128 * MIB;
    double gb = (double)bytes / 1e9;
    CUmodule module;
    CUevent mark[6];
    CUdeviceptr block = managed(bytes);
    OK(cuModuleLoadData(&module, PTX_HEAD PTX_SPIN PTX_FILL32));
    OK(cuModuleGetFunction(&spin, module, "spin_ns"));
    OK(cuModuleGetFunction(&fill, module, "fill32"));
    for (int i = 0; i < 6; i++)
        OK(cuEventCreate(&mark[i], CU_EVENT_DEFAULT));
    write_all(block, bytes);
    unsigned words = bytes / 4, value = 3;
    void *arguments[] = {&block, &value, &words};
    /* All is queued before any of it begins, so that no pause of the host's is among the times. */
    occupy(300000000, NULL);
    OK(cuEventRecord(mark[0], NULL));
    OK(cuLaunchKernel(fill, words / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    OK(cuEventRecord(mark[1], NULL));
    OK(cuLaunchKernel(fill, words / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    OK(cuEventRecord(mark[2], NULL));
    OK(cuMemPrefetchAsync(block, bytes, CU_DEVICE_CPU, NULL));
    OK(cuEventRecord(mark[3], NULL));
    OK(cuMemPrefetchAsync(block, bytes, device, NULL));
    OK(cuEventRecord(mark[4], NULL));
    OK(cuMemPrefetchAsync(block, bytes, device, NULL));
    OK(cuEventRecord(mark[5], NULL));
    near("to the device by faults", between(mark[0], mark[1]), gb / 10.0 * 1e3);
    near("there already", between(mark[1], mark[2]), 0);
    near("to the host by prefetch", between(mark[2], mark[3]), gb / 17.27 * 1e3);
    near("to the device by prefetch", between(mark[3], mark[4]), gb / 50.8 * 1e3);
    near("prefetched already", between(mark[4], mark[5]), 0);
}

static void moves_beside_kernels(void)
{
    CUdevice device = start();
    CUdeviceptr block = managed(BYTES);
    CUstream one, two;
    spin = obtain(PTX_HEAD PTX_SPIN, "spin_ns");
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    write_all(block, BYTES);
    occupy(1500000000, one);
    OK(cuMemPrefetchAsync(block, BYTES, device, two));
    OK(cuStreamSynchronize(two));
    IS(cuStreamQuery(one), CUDA_ERROR_NOT_READY);
    OK(cuMemPrefetchAsync(block, BYTES, CU_DEVICE_CPU, two));
    OK(cuStreamSynchronize(two));
    IS(cuStreamQuery(one), CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(one));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"goes_there_and_back", goes_there_and_back},
        {"advice_is_answered", advice_is_answered},
        {"strange_requests_are_refused", strange_requests_are_refused},
        {"batches_are_prefetched", batches_are_prefetched},
        {"takes_of_the_card_what_is_there", takes_of_the_card_what_is_there},
        {"more_than_the_card", more_than_the_card},
        {"allocations_make_room", allocations_make_room},
        {"another_process_makes_room", another_process_makes_room},
        {"moves_at_the_links_rates", moves_at_the_links_rates},
        {"moves_beside_kernels", moves_beside_kernels},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
