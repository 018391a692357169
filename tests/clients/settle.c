/* link: cuda dl */
/* Gives memory of pools and graphs back, and then asks nothing more: what the ledger says afterwards
 * was settled by the very call that gave back. The test reads it from outside. */
#include "scenario.h"

#include <dlfcn.h>

static CUstream stream;

static CUmemoryPool ready(void)
{
    CUmemoryPool pool;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static void keep_96_mib(CUmemoryPool pool)
{
    cuuint64_t keep = ~0ULL;
    CUdeviceptr block;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&block, 96 * MIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
}

static void take_96_mib(void)
{
    CUdeviceptr block;
    OK(cuMemAllocAsync(&block, 96 * MIB, stream));
    OK(cuMemFreeAsync(block, stream));
}

static void stay(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/settled", getenv("TMPDIR"));
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
    sleep(60);
}

static void kept_by_the_pool(void)
{
    keep_96_mib(ready());
    stay();
}

/* The start alone makes the process one of the tenant's. */
static void started(void)
{
    OK(cuInit(0));
    stay();
}

static void by_trimming(void)
{
    CUmemoryPool pool = ready();
    keep_96_mib(pool);
    OK(cuMemPoolTrimTo(pool, 0));
    stay();
}

static void by_stream_synchronisation(void)
{
    ready();
    take_96_mib();
    OK(cuStreamSynchronize(stream));
    stay();
}

static void by_context_synchronisation(void)
{
    ready();
    take_96_mib();
    OK(cuCtxSynchronize());
    stay();
}

static void by_synchronising_a_named_context(void)
{
    CUresult (*synchronise)(CUcontext) = dlsym(RTLD_DEFAULT, "cuCtxSynchronize_v2");
    CUcontext context;
    if (synchronise == NULL) {
        printf("the driver is older than the call\n");
        exit(77);
    }
    ready();
    OK(cuCtxGetCurrent(&context));
    take_96_mib();
    OK(synchronise(context));
    stay();
}

/* The driver gives up what is above the threshold at the next synchronisation. */
static void by_lowering_the_threshold(void)
{
    cuuint64_t keep = 0;
    CUmemoryPool pool = ready();
    keep_96_mib(pool);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuStreamSynchronize(stream));
    stay();
}

static void by_event_synchronisation(void)
{
    CUevent event;
    ready();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    take_96_mib();
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    stay();
}

static void by_graph_trimming(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(96 * MIB);
    CUgraphNode node, release;
    CUgraph graph;
    CUgraphExec exec;
    ready();
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    OK(cuGraphAddMemFreeNode(&release, graph, &node, 1, params.dptr));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuDeviceGraphMemTrim(0));
    stay();
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"started", started},
        {"kept_by_the_pool", kept_by_the_pool},
        {"by_trimming", by_trimming},
        {"by_stream_synchronisation", by_stream_synchronisation},
        {"by_context_synchronisation", by_context_synchronisation},
        {"by_synchronising_a_named_context", by_synchronising_a_named_context},
        {"by_lowering_the_threshold", by_lowering_the_threshold},
        {"by_event_synchronisation", by_event_synchronisation},
        {"by_graph_trimming", by_graph_trimming},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
