/* link: cuda */
/* Threads that make, use and destroy pools of their own under one limit, while work of theirs runs, while
 * other threads are short of memory and have all pools trimmed, while children are forked and streams are
 * captured: at the end nothing is charged that is not there, and all of the limit can be had. And pools that
 * are destroyed behind work whose context ends. */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { MOST = 16, ROUNDS = 1200 };

static CUcontext context;
static CUdevice device;
static CUstream streams[MOST];
static int threads;
static atomic_int rounds_left, refusals;
static atomic_bool is_over;

static void CUDA_CB nap(void *microseconds)
{
    usleep((useconds_t)(size_t)microseconds);
}

/* One pool, from its creation to its destruction; which of the two ends comes first varies. */
static void one_pool(CUstream stream, unsigned *seed)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
    CUmemoryPool pool;
    CUdeviceptr block = 0;
    OK(cuMemPoolCreate(&pool, &props));
    if (rand_r(seed) % 3 != 0)
        OK(cuLaunchHostFunc(stream, nap, (void *)(size_t)(rand_r(seed) % 3000)));
    CUresult code = cuMemAllocFromPoolAsync(&block, (1 + rand_r(seed) % 90) * MIB, pool, stream);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) {
        atomic_fetch_add(&refusals, 1);
        OK(cuMemPoolDestroy(pool));
        return;
    }
    OK(code);
    OK(cuMemsetD8Async(block, 1, 4 * KIB, stream));
    if (rand_r(seed) % 2 == 0) {
        OK(cuMemFreeAsync(block, stream));
        OK(cuMemPoolDestroy(pool));
    } else {
        OK(cuMemPoolDestroy(pool));
        OK(cuMemFreeAsync(block, stream));
    }
}

static void *makes_pools(void *number)
{
    int thread = (int)(size_t)number;
    unsigned seed = (unsigned)thread * 7919 + 1;
    CUstream stream = streams[thread];
    OK(cuCtxSetCurrent(context));
    while (atomic_fetch_sub(&rounds_left, 1) > 0) {
        CUdeviceptr plain;
        one_pool(stream, &seed);
        if (rand_r(&seed) % 4 == 0)
            OK(cuStreamSynchronize(stream));
        /* At the limit this has the pools of all threads trimmed. */
        if (cuMemAlloc(&plain, (1 + rand_r(&seed) % 64) * MIB) == CUDA_SUCCESS)
            OK(cuMemFree(plain));
        else
            atomic_fetch_add(&refusals, 1);
    }
    OK(cuStreamSynchronize(stream));
    return NULL;
}

/* Captures, one after the other, that no look at a pool by another thread may invalidate. */
static void *captures(void *stream)
{
    CUdeviceptr block;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&block, MIB));
    int captured = 0;
    for (; !atomic_load(&is_over); captured++) {
        CUgraph graph;
        CUdeviceptr node;
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        for (int i = 0; i < 20; i++)
            OK(cuMemsetD8Async(block, 1, 4 * KIB, stream));
        OK(cuMemAllocAsync(&node, MIB, stream));
        usleep(500);
        OK(cuMemFreeAsync(node, stream));
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphDestroy(graph));
    }
    CHECK(captured > 0);
    OK(cuMemFree(block));
    return NULL;
}

static void play_threads(int count, int forks, int capturing)
{
    pthread_t ids[MOST], others[MOST];
    device = start();
    OK(cuCtxGetCurrent(&context));
    threads = count;
    atomic_store(&rounds_left, ROUNDS);
    for (int i = 0; i < threads + capturing; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    size_t before = used();
    for (int i = 0; i < capturing; i++)
        EQUAL(pthread_create(&others[i], NULL, captures, streams[threads + i]), 0);
    for (long i = 0; i < threads; i++)
        EQUAL(pthread_create(&ids[i], NULL, makes_pools, (void *)i), 0);
    for (int i = 0; i < forks; i++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            usleep(20 * 1000);
            _exit(0);
        }
        EQUAL(waitpid(child, &status, 0), child);
        EQUAL(status, 0);
    }
    for (int i = 0; i < threads; i++)
        EQUAL(pthread_join(ids[i], NULL), 0);
    atomic_store(&is_over, true);
    for (int i = 0; i < capturing; i++)
        EQUAL(pthread_join(others[i], NULL), 0);
    OK(cuCtxSynchronize());
    EQUAL(used(), before);
    CUdeviceptr rest;
    OK(cuMemAlloc(&rest, (wanted_limit() - before) / (2 * MIB) * (2 * MIB)));
    printf("note %d rounds, %d refused\n", ROUNDS, atomic_load(&refusals));
}

static void of_one_thread(void)
{
    play_threads(1, 0, 0);
}

static void of_eight_threads(void)
{
    play_threads(8, 0, 0);
}

static void of_sixteen_threads(void)
{
    play_threads(16, 0, 0);
}

static void of_eight_threads_beside_forks(void)
{
    play_threads(8, 10, 0);
}

static void of_eight_threads_beside_captures(void)
{
    play_threads(8, 0, 2);
}

enum { LIVE = 24 };

/* Blocks of all lengths, in no order, from the device's own pool. */
static void *fills_one_pool(void *number)
{
    int thread = (int)(size_t)number;
    unsigned seed = (unsigned)thread * 104729 + 1;
    CUdeviceptr blocks[LIVE] = {0};
    OK(cuCtxSetCurrent(context));
    while (atomic_fetch_sub(&rounds_left, 1) > 0) {
        CUdeviceptr *block = &blocks[rand_r(&seed) % LIVE];
        if (*block) {
            OK(cuMemFreeAsync(*block, streams[thread]));
            *block = 0;
        } else if (cuMemAllocAsync(block, (1 + rand_r(&seed) % 40) * MIB, streams[thread]) !=
                   CUDA_SUCCESS) {
            *block = 0;
            atomic_fetch_add(&refusals, 1);
        }
    }
    for (int i = 0; i < LIVE; i++)
        if (blocks[i])
            OK(cuMemFreeAsync(blocks[i], streams[thread]));
    OK(cuStreamSynchronize(streams[thread]));
    return NULL;
}

/* Four threads fill the device's own pool; `before` it, this was taken. What the driver says that the pool has
 * held at most. */
static size_t filled_by_four(size_t *before)
{
    enum { FOUR = 4 };
    pthread_t ids[FOUR];
    CUmemoryPool pool;
    cuuint64_t most = 0;
    device = start();
    OK(cuCtxGetCurrent(&context));
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    for (int i = 0; i < FOUR; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    *before = used();
    atomic_store(&rounds_left, 20 * ROUNDS);
    for (long i = 0; i < FOUR; i++)
        EQUAL(pthread_create(&ids[i], NULL, fills_one_pool, (void *)i), 0);
    for (int i = 0; i < FOUR; i++)
        EQUAL(pthread_join(ids[i], NULL), 0);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &most));
    printf("note %d refused, the pool held %zu MiB at most\n", atomic_load(&refusals),
           (size_t)most / MIB);
    return most;
}

static void of_four_threads_at_one_pool(void)
{
    size_t before, most = filled_by_four(&before);
    CHECK(before + most <= wanted_limit());
}

/* The same beside another of its kind in the tenant, when it is told that both have their contexts: what the limit
 * leaves it is for others to say. */
static void of_a_worker(void)
{
    size_t before;
    char line[16];
    start();
    puts("ready");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
    filled_by_four(&before);
}

enum end { RESET, RELEASED, FREED_AND_RELEASED };

/* The primary context ends while work of a pool runs that was destroyed. */
static void of_contexts_that_end(void)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    };
    device = start();
    size_t before = used();
    OK(cuDevicePrimaryCtxRelease(device));
    for (int i = 0; i < 60; i++) {
        enum end end = i % 3;
        CUstream stream;
        CUmemoryPool pool;
        CUdeviceptr block, plain;
        start();
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemPoolCreate(&pool, &props));
        OK(cuLaunchHostFunc(stream, nap, (void *)(size_t)2000));
        OK(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream));
        if (end != FREED_AND_RELEASED)
            OK(cuMemFreeAsync(block, stream));
        OK(cuMemPoolDestroy(pool));
        if (end == FREED_AND_RELEASED)
            OK(cuMemFreeAsync(block, stream));
        OK(end == RESET ? cuDevicePrimaryCtxReset(device) : cuDevicePrimaryCtxRelease(device));
        start();
        OK(cuMemAlloc(&plain, 200 * MIB));
        OK(cuMemFree(plain));
        OK(cuCtxSynchronize());
        EQUAL(used(), before);
        OK(cuDevicePrimaryCtxRelease(device));
        if (end == RESET)
            OK(cuDevicePrimaryCtxRelease(device));
    }
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"of_one_thread", of_one_thread},
        {"of_eight_threads", of_eight_threads},
        {"of_sixteen_threads", of_sixteen_threads},
        {"of_eight_threads_beside_forks", of_eight_threads_beside_forks},
        {"of_eight_threads_beside_captures", of_eight_threads_beside_captures},
        {"of_four_threads_at_one_pool", of_four_threads_at_one_pool},
        {"of_a_worker", of_a_worker},
        {"of_contexts_that_end", of_contexts_that_end},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
