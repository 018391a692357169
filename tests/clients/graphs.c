/* link: cuda pthread */
/* Graphs that share memory, or cannot: chains, streams, threads. What the driver says that graphs have
 * held at most is never more than the limit leaves. */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>

static CUcontext context;
static CUstream streams[4];
static size_t before, room;

static void ready(void)
{
    start();
    OK(cuCtxGetCurrent(&context));
    for (int i = 0; i < 4; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    before = used();
    room = (wanted_limit() - before) / (64 * MIB) * (64 * MIB);
}

/* What graphs have held at most. */
static size_t most(void)
{
    cuuint64_t bytes = 0;
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &bytes));
    return (size_t)bytes;
}

static void stays_below(void)
{
    printf("note graphs held %zu MiB at most of %zu\n", most() / MIB, room / MIB);
    CHECK(before + most() <= wanted_limit());
}

static CUgraphNode allocates(CUgraph graph, CUgraphNode after, size_t bytes, CUdeviceptr *block)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(bytes);
    CUgraphNode node;
    OK(cuGraphAddMemAllocNode(&node, graph, after ? &after : NULL, after != NULL, &params));
    *block = params.dptr;
    return node;
}

static void CUDA_CB nap(void *us)
{
    usleep((unsigned)(size_t)us);
}

static CUgraphNode waits(CUgraph graph, CUgraphNode after, size_t us)
{
    CUDA_HOST_NODE_PARAMS params = {nap, (void *)us};
    CUgraphNode node;
    OK(cuGraphAddHostNode(&node, graph, &after, 1, &params));
    return node;
}

static CUgraphNode frees(CUgraph graph, CUgraphNode after, CUdeviceptr block)
{
    CUgraphNode node;
    OK(cuGraphAddMemFreeNode(&node, graph, &after, 1, block));
    return node;
}

/* An executable that takes `bytes` a few times in a row, and runs for `us` each time. */
static CUgraphExec chain(int links, size_t bytes, size_t us)
{
    CUgraph graph;
    CUgraphNode last = NULL;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < links; i++) {
        CUdeviceptr block;
        last = allocates(graph, last, bytes, &block);
        last = frees(graph, waits(graph, last, us), block);
    }
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static int fits(CUresult code)
{
    CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY);
    return code == CUDA_SUCCESS;
}

static void nodes_that_share_addresses(void)
{
    ready();
    size_t bytes = room / 64 * 31 / (32 * MIB) * (32 * MIB);
    CUgraphExec exec = chain(9, bytes, 0);
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, streams[0]));
    OK(cuStreamSynchronize(streams[0]));
    EQUAL(used() - before, bytes);
    stays_below();
}

static void of_one_stream(void)
{
    ready();
    CUgraphExec small = chain(1, room / 2, 2000), large = chain(2, room / 8 * 5, 1000);
    for (int i = 0; i < 20; i++) {
        OK(cuGraphLaunch(small, streams[0]));
        OK(cuGraphLaunch(large, streams[0]));
    }
    OK(cuStreamSynchronize(streams[0]));
    stays_below();
}

/* They share memory while they take turns, and need twice as much when they meet. */
static void of_two_streams(void)
{
    int met = 0;
    ready();
    CUgraphExec small = chain(1, room / 2, 3000), large = chain(1, room / 8 * 5, 3000);
    for (int i = 0; i < 20; i++) {
        OK(cuGraphLaunch(small, streams[0]));
        OK(cuGraphLaunch(large, streams[0]));
        if (i % 2)
            OK(cuCtxSynchronize());
        OK(cuGraphLaunch(small, streams[0]));
        met += fits(cuGraphLaunch(large, streams[1]));
        met += fits(cuGraphUpload(small, streams[2]));
        OK(cuCtxSynchronize());
        OK(cuGraphLaunch(large, streams[1]));
        OK(cuCtxSynchronize());
    }
    printf("note %d of 40 met\n", met);
    stays_below();
}

/* What a graph has left in the stream before is in use there by others. */
static void of_moved_executables(void)
{
    int moved = 0;
    ready();
    CUgraphExec one = chain(1, room / 2, 3000), two = chain(1, room / 2, 3000);
    for (int i = 0; i < 20; i++) {
        OK(cuGraphLaunch(one, streams[0]));
        OK(cuGraphLaunch(two, streams[0]));
        moved += fits(cuGraphLaunch(one, streams[1]));
        moved += fits(cuGraphLaunch(two, streams[2]));
        OK(cuCtxSynchronize());
        if (i % 4 == 3)
            OK(cuDeviceGraphMemTrim(0));
    }
    printf("note %d of 40 moved\n", moved);
    stays_below();
}

/* A graph runs on after its end, and what it leaves behind outlives it. */
static void of_destroyed_executables(void)
{
    ready();
    CUgraphExec large = chain(1, room / 8 * 5, 1000);
    for (int i = 0; i < 20; i++) {
        CUgraphExec running = chain(1, room / 2, 5000), leaving;
        CUdeviceptr block;
        CUgraph graph;
        OK(cuGraphLaunch(running, streams[0]));
        OK(cuGraphExecDestroy(running));
        fits(cuGraphLaunch(large, streams[1]));
        OK(cuCtxSynchronize());
        OK(cuGraphLaunch(large, streams[1]));
        OK(cuCtxSynchronize());
        OK(cuGraphCreate(&graph, 0));
        allocates(graph, NULL, room / 2, &block);
        OK(cuGraphInstantiate(&leaving, graph, 0));
        OK(cuGraphLaunch(leaving, streams[2]));
        OK(cuGraphExecDestroy(leaving));
        OK(cuGraphDestroy(graph));
        IS(cuGraphLaunch(large, streams[1]), CUDA_ERROR_OUT_OF_MEMORY);
        OK(cuMemFree(block));
        OK(cuGraphLaunch(large, streams[1]));
        OK(cuCtxSynchronize());
    }
    stays_below();
    OK(cuGraphExecDestroy(large));
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(used(), before);
}

static atomic_int rounds_left, refusals;

/* Graphs of all sizes that free or leave what they take, kept for a few launches or destroyed at once. */
static void *makes_graphs(void *number)
{
    enum { BLOCKS = 6 };
    unsigned seed = (unsigned)(size_t)number * 7919 + 3;
    CUstream stream = streams[(size_t)number];
    OK(cuCtxSetCurrent(context));
    while (atomic_fetch_sub(&rounds_left, 1) > 0) {
        CUdeviceptr blocks[BLOCKS], left = 0;
        CUgraphNode last = NULL;
        CUgraph graph;
        CUgraphExec exec;
        OK(cuGraphCreate(&graph, 0));
        int count = 1 + (int)(rand_r(&seed) % BLOCKS);
        for (int i = 0; i < count; i++) {
            last = allocates(graph, last, (1 + rand_r(&seed) % (room / 3 / MIB)) * MIB, &blocks[i]);
            if (rand_r(&seed) % 3)
                last = waits(graph, last, rand_r(&seed) % 400);
            if (i > 0)
                last = frees(graph, last, blocks[i - 1]);
        }
        if (rand_r(&seed) % 3)
            last = frees(graph, last, blocks[count - 1]);
        else
            left = blocks[count - 1];
        OK(cuGraphInstantiate(&exec, graph, 0));
        int launches = left ? 1 : 1 + (int)(rand_r(&seed) % 3);
        for (int i = 0; i < launches; i++)
            if (!fits(cuGraphLaunch(exec, i ? streams[rand_r(&seed) % 4] : stream))) {
                atomic_fetch_add(&refusals, 1);
                left = i ? left : 0;
            }
        if (rand_r(&seed) % 2)
            OK(cuStreamSynchronize(stream));
        if (rand_r(&seed) % 8 == 0)
            OK(cuDeviceGraphMemTrim(0));
        if (rand_r(&seed) % 8 == 0) { /* a refusal makes room */
            CUdeviceptr block;
            IS(cuMemAlloc(&block, wanted_limit()), CUDA_ERROR_OUT_OF_MEMORY);
        }
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        if (left)
            OK(cuMemFreeAsync(left, stream));
    }
    OK(cuStreamSynchronize(stream));
    return NULL;
}

static void of_four_threads(void)
{
    pthread_t ids[4];
    ready();
    atomic_store(&rounds_left, 2000);
    for (size_t i = 0; i < 4; i++)
        EQUAL(pthread_create(&ids[i], NULL, makes_graphs, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        EQUAL(pthread_join(ids[i], NULL), 0);
    OK(cuCtxSynchronize());
    printf("note %d refused\n", atomic_load(&refusals));
    stays_below();
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(used(), before);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"nodes_that_share_addresses", nodes_that_share_addresses},
        {"of_one_stream", of_one_stream},
        {"of_two_streams", of_two_streams},
        {"of_moved_executables", of_moved_executables},
        {"of_destroyed_executables", of_destroyed_executables},
        {"of_four_threads", of_four_threads},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
