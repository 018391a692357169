/* link: cuda */
/* Contexts that come and go, and streams that wait for their host, in a program whose memory is taken off the card
 * meanwhile. Like `leave` it says "ready" when it may be taken away, and goes on at each line it reads; what a scenario
 * does by itself until then goes on for SECONDS. */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define BLOCKS 4
static const size_t SIZES[BLOCKS] = {4096, 3 * MIB, 40 * MIB, 300 * KIB};

static int ready(void)
{
    char line[64];
    puts("ready");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

/* Blocks of the current context, each filled with words of `round`. */
static void make(CUdeviceptr *blocks, unsigned round)
{
    for (unsigned index = 0; index < BLOCKS; index++) {
        OK(cuMemAlloc(&blocks[index], SIZES[index]));
        OK(cuMemsetD32(blocks[index], round * BLOCKS + index, SIZES[index] / 4));
    }
}

static void check(const CUdeviceptr *blocks, unsigned round)
{
    CUmemLocation place = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    unsigned long long access = 0;
    OK(cuCtxGetDevice(&place.id));
    OK(cuMemGetAccess(&access, &place, blocks[0]));
    EQUAL(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    for (unsigned index = 0; index < BLOCKS; index++) {
        unsigned words[2] = {0, 0};
        OK(cuMemcpyDtoH(&words[0], blocks[index], 4));
        OK(cuMemcpyDtoH(&words[1], blocks[index] + SIZES[index] - 4, 4));
        EQUAL(words[0], round * BLOCKS + index);
        EQUAL(words[1], round * BLOCKS + index);
    }
}

/* Two devices, or nothing to play. */
static void two_devices(void)
{
    int count;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    if (count < 2) {
        puts("one device alone");
        exit(77);
    }
}

/* A context of device 0 was used and has ended; what is on device 1 is there whenever it is looked at. */
static void memory_of_another_device_stays_right(void)
{
    CUcontext first, second;
    CUdeviceptr blocks[BLOCKS];
    two_devices();
    OK(cuCtxCreate(&first, 0, 0));
    make(blocks, 1);
    for (int index = 0; index < BLOCKS; index++)
        OK(cuMemFree(blocks[index]));
    OK(cuCtxDestroy(first));
    OK(cuCtxCreate(&second, 0, 1));
    make(blocks, 2);
    while (ready())
        check(blocks, 2);
}

/* One context at a time, made and destroyed with what it has; at last one that stays. */
static void one_context_at_a_time(void)
{
    double end = now() + number("SECONDS", 2);
    unsigned seed = (unsigned)number("SEED", 1), round = 0;
    CUdeviceptr blocks[BLOCKS];
    OK(cuInit(0));
    for (;; round++) {
        CUcontext context;
        OK(cuCtxCreate(&context, 0, 0));
        make(blocks, round);
        usleep((unsigned)rand_r(&seed) % 60000);
        check(blocks, round);
        if (now() > end)
            break;
        if (rand_r(&seed) % 2)
            OK(cuMemFree(blocks[rand_r(&seed) % BLOCKS]));
        OK(cuCtxDestroy(context));
        usleep((unsigned)rand_r(&seed) % 20000);
    }
    while (ready())
        check(blocks, round);
}

/* The primary context is reset or released again and again. */
static void the_primary_context_comes_and_goes(void)
{
    double end = now() + number("SECONDS", 2);
    unsigned seed = (unsigned)number("SEED", 1), round = 0;
    CUdeviceptr blocks[BLOCKS];
    OK(cuInit(0));
    for (;; round++) {
        CUcontext context;
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        make(blocks, round);
        usleep((unsigned)rand_r(&seed) % 60000);
        check(blocks, round);
        if (now() > end)
            break;
        if (rand_r(&seed) % 2)
            OK(cuDevicePrimaryCtxReset(0));
        OK(cuDevicePrimaryCtxRelease(0));
        usleep((unsigned)rand_r(&seed) % 20000);
    }
    while (ready())
        check(blocks, round);
}

/* A thread for each of two devices, and a third that shares the first: contexts of each come and go by themselves. */
static atomic_int ends;

static void *on_device(void *argument)
{
    unsigned own = (unsigned)(size_t)argument, seed = own * 7919 + (unsigned)number("SEED", 1);
    CUdeviceptr kept[BLOCKS], blocks[BLOCKS];
    CUcontext stays;
    CUdevice device = (CUdevice)(own % 2);
    OK(cuCtxCreate(&stays, 0, device));
    make(kept, own);
    for (unsigned round = 1; !atomic_load(&ends); round++) {
        CUcontext context;
        OK(cuCtxCreate(&context, 0, device));
        make(blocks, round);
        usleep((unsigned)rand_r(&seed) % 30000);
        check(blocks, round);
        OK(cuCtxDestroy(context));
        OK(cuCtxSetCurrent(stays));
        check(kept, own);
    }
    check(kept, own);
    OK(cuCtxDestroy(stays));
    return NULL;
}

static void threads_with_contexts_of_two_devices(void)
{
    pthread_t threads[3];
    two_devices();
    for (size_t index = 0; index < 3; index++)
        CHECK(pthread_create(&threads[index], NULL, on_device, (void *)(index + 1)) == 0);
    while (ready())
        ;
    atomic_store(&ends, 1);
    for (int index = 0; index < 3; index++)
        CHECK(pthread_join(threads[index], NULL) == 0);
}

/* Rounds in which a stream waits for the host, which gives its flag after a call of its own. HOW says by what it waits, a
 * host function (h) or a value (v); GREEN whether the stream is a green context's. No round may take longer than a hand-over
 * that gives up. */
static atomic_uint given;

static void until_given(void *round)
{
    while (atomic_load(&given) < (unsigned)(size_t)round)
        usleep(200);
}

static void a_stream_waits_for_the_host(void)
{
    const char *how = getenv("HOW");
    int is_green = number("GREEN", 0) != 0, is_value = how && how[0] == 'v';
    double end, last, longest = 0;
    CUdevice device = start();
    CUcontext context;
    CUstream waits, other;
    CUdeviceptr block, flag_on_card;
    unsigned *flag, word, round = 0;
    OK(cuCtxGetCurrent(&context));
    if (is_green) {
        CUdevResource resource;
        CUdevResourceDesc description;
        CUgreenCtx green;
        OK(cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM));
        OK(cuDevResourceGenerateDesc(&description, &resource, 1));
        OK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
        OK(cuGreenCtxStreamCreate(&waits, green, CU_STREAM_NON_BLOCKING, 0));
    } else {
        OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    }
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    OK(cuMemHostGetDevicePointer(&flag_on_card, flag, 0));
    OK(cuMemAlloc(&block, 64 * MIB));
    OK(cuMemsetD32(block, 42, 16 * MIB));
    OK(cuCtxSynchronize());
    CHECK(ready());
    end = now() + number("SECONDS", 3);
    last = now();
    while (now() < end) {
        round++;
        if (is_value)
            OK(cuStreamWaitValue32(waits, flag_on_card, round, CU_STREAM_WAIT_VALUE_GEQ));
        else
            OK(cuLaunchHostFunc(waits, until_given, (void *)(size_t)round));
        usleep(20000);
        OK(cuMemcpyDtoHAsync(&word, block, 4, other));
        OK(cuStreamSynchronize(other));
        EQUAL(word, 42);
        atomic_store(&given, round);
        *(volatile unsigned *)flag = round;
        OK(cuStreamSynchronize(waits));
        if (now() - last > longest)
            longest = now() - last;
        last = now();
    }
    printf("%u rounds, the longest %.2f s\n", round, longest);
    CHECK(longest < 10);
    CHECK(ready());
    OK(cuMemcpyDtoH(&word, block + 64 * MIB - 4, 4));
    EQUAL(word, 42);
}

/* One stream waits for the host; another thread frees a block; the host copies by the null stream, and gives the value
 * then. */
static CUcontext shared;

static void *frees(void *block)
{
    OK(cuCtxSetCurrent(shared));
    OK(cuMemFree(*(CUdeviceptr *)block));
    return NULL;
}

static void a_copy_by_the_null_stream_passes_a_free(void)
{
    CUstream waits;
    CUdeviceptr flag_on_card, page, block;
    unsigned *flag, word;
    pthread_t thread;
    start();
    OK(cuCtxGetCurrent(&shared));
    OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    OK(cuMemHostGetDevicePointer(&flag_on_card, flag, 0));
    OK(cuMemAlloc(&page, 4096));
    OK(cuMemAlloc(&block, 3 * MIB));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(waits, flag_on_card, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(pthread_create(&thread, NULL, frees, &block) == 0);
    usleep(200000);
    OK(cuMemcpyDtoH(&word, page, 4));
    *(volatile unsigned *)flag = 1;
    OK(cuStreamSynchronize(waits));
    CHECK(pthread_join(thread, NULL) == 0);
}

/* A call that lets memory go waits for all work, and copies of other threads wait for it. */
enum { FREE, FREE_HOST, UNREGISTER, LETTING_GO };

struct letting_go {
    int how;
    void *memory;
};

static void *lets_go(void *argument)
{
    const struct letting_go *it = argument;
    OK(cuCtxSetCurrent(shared));
    if (it->how == FREE)
        OK(cuMemFree((CUdeviceptr)(size_t)it->memory));
    else if (it->how == FREE_HOST)
        OK(cuMemFreeHost(it->memory));
    else
        OK(cuMemHostUnregister(it->memory));
    return NULL;
}

static void *gives_later(void *round)
{
    usleep(1000000);
    atomic_store(&given, (unsigned)(size_t)round);
    return NULL;
}

static void letting_go_holds_copies_up(void)
{
    static _Alignas(4096) char page[4096];
    struct letting_go all[LETTING_GO] = {{FREE, NULL}, {FREE_HOST, NULL}, {UNREGISTER, page}};
    CUstream waits, other;
    CUdeviceptr block, freed;
    unsigned word;
    start();
    OK(cuCtxGetCurrent(&shared));
    OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&block, 4096));
    OK(cuMemAlloc(&freed, 16 * MIB));
    all[FREE].memory = (void *)(size_t)freed;
    OK(cuMemHostAlloc(&all[FREE_HOST].memory, 16 * MIB, 0));
    OK(cuMemHostRegister(page, sizeof page, 0));
    OK(cuCtxSynchronize());
    for (unsigned how = 0; how < LETTING_GO; how++) {
        pthread_t threads[2];
        double from;
        OK(cuLaunchHostFunc(waits, until_given, (void *)(size_t)(how + 1)));
        CHECK(pthread_create(&threads[0], NULL, gives_later, (void *)(size_t)(how + 1)) == 0);
        CHECK(pthread_create(&threads[1], NULL, lets_go, &all[how]) == 0);
        usleep(200000);
        from = now();
        OK(cuMemcpyDtoHAsync(&word, block, 4, other));
        OK(cuStreamSynchronize(other));
        CHECK(now() - from > 0.4);
        CHECK(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
    }
}

/* A plain block is no mapping, and nobody has reserved its addresses. */
static void plain_blocks_are_no_mappings(void)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    unsigned long long flags;
    const size_t sizes[] = {4096, 3 * MIB, 40 * MIB};
    start();
    for (int index = 0; index < 3; index++) {
        CUdeviceptr block;
        size_t bytes = sizes[index] < 2 * MIB ? 2 * MIB : sizes[index] / (2 * MIB) * (2 * MIB);
        OK(cuMemAlloc(&block, sizes[index]));
        IS(cuMemSetAccess(block, bytes, &access, 1), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemGetAccess(&flags, &access.location, block));
        EQUAL(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        IS(cuMemUnmap(block, bytes), CUDA_ERROR_INVALID_VALUE);
        IS(cuMemAddressFree(block, bytes), CUDA_ERROR_INVALID_VALUE);
        IS(cuMemAddressFree(block, 256 * MIB), CUDA_ERROR_INVALID_VALUE);
        IS(cuMemRetainAllocationHandle(&handle, (void *)block), CUDA_ERROR_INVALID_VALUE);
        CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = access.location};
        OK(cuMemCreate(&handle, 2 * MIB, &property, 0));
        IS(cuMemMap(block, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
        /* Nor where the rest of a piece lies that it has no part of. */
        IS(cuMemMap(block + 128 * MIB, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemRelease(handle));
        unsigned word = 0;
        OK(cuMemsetD32(block, 42, sizes[index] / 4));
        OK(cuMemcpyDtoH(&word, block + sizes[index] - 4, 4));
        EQUAL(word, 42);
        OK(cuMemFree(block));
    }
}

/* Memory that cannot come back is never read as if it had: no kernel runs, and no copy of it succeeds. */
static void what_cannot_come_back_is_told(void)
{
    CUdeviceptr blocks[BLOCKS];
    start();
    CUfunction add = obtain(PTX_HEAD PTX_ADD32, "add32");
    make(blocks, 3);
    OK(cuCtxSynchronize());
    CHECK(ready());
    unsigned n = 1024, word = 7;
    void *arguments[] = {&blocks[1], &blocks[1], &blocks[2], &n};
    IS(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemcpyDtoH(&word, blocks[1], 4) != CUDA_SUCCESS);
    EQUAL(word, 7);
    CHECK(cuMemsetD32(blocks[1], 1, 1) != CUDA_SUCCESS);
    CHECK(ready());
    IS(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"memory_of_another_device_stays_right", memory_of_another_device_stays_right},
        {"one_context_at_a_time", one_context_at_a_time},
        {"the_primary_context_comes_and_goes", the_primary_context_comes_and_goes},
        {"threads_with_contexts_of_two_devices", threads_with_contexts_of_two_devices},
        {"a_stream_waits_for_the_host", a_stream_waits_for_the_host},
        {"a_copy_by_the_null_stream_passes_a_free", a_copy_by_the_null_stream_passes_a_free},
        {"letting_go_holds_copies_up", letting_go_holds_copies_up},
        {"plain_blocks_are_no_mappings", plain_blocks_are_no_mappings},
        {"what_cannot_come_back_is_told", what_cannot_come_back_is_told},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
