/* link: cuda dl */
/* Memory that graphs take: nodes added, captured, instantiated, launched, trimmed. */
#include "scenario.h"

#include <dlfcn.h>

static CUstream stream;
static size_t before;

static void ready(void)
{
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    before = used();
}

/* A graph that takes `bytes` and never gives them back. */
static CUgraph taking(size_t bytes, CUdeviceptr *block)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(bytes);
    CUgraphNode node;
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    *block = params.dptr;
    return graph;
}

static void launch_and_give_back(CUgraphExec exec, CUdeviceptr block, size_t bytes)
{
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, bytes);
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(used() - before, 0);
}

static void launched_nodes_are_charged(void)
{
    CUdeviceptr block;
    CUgraphExec exec;
    ready();
    CUgraph graph = taking(256 * MIB, &block);
    OK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(used() - before <= 256 * MIB);
    launch_and_give_back(exec, block, 256 * MIB);
}

static void trim_gives_back(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(100 * MIB);
    CUgraphNode node, release;
    CUgraph graph;
    CUgraphExec exec;
    ready();
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    OK(cuGraphAddMemFreeNode(&release, graph, &node, 1, params.dptr));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 128 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(used() - before, 0);
}

static void captured_allocation_is_charged(void)
{
    CUdeviceptr block;
    CUgraph graph;
    CUgraphExec exec;
    ready();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&block, 256 * MIB, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch_and_give_back(exec, block, 256 * MIB);
}

static void over_the_limit_is_refused(void)
{
    CUdeviceptr block;
    CUgraphExec exec = NULL;
    ready();
    CUgraph graph = taking(wanted_limit(), &block);
    CUresult code = cuGraphInstantiate(&exec, graph, 0);
    if (code == CUDA_SUCCESS)
        code = cuGraphLaunch(exec, stream);
    EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuStreamSynchronize(stream));
    if (exec != NULL)
        OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(used(), before);
    OK(cuMemAlloc(&block, 64 * MIB));
}

/* Each way to make an executable graph, by the name the test gives. */
static void every_instantiation_is_charged(void)
{
    CUdeviceptr block;
    CUgraphExec exec;
    CUgraphNode bad;
    char log[256];
    ready();
    void *v1 = dlsym(RTLD_DEFAULT, "cuGraphInstantiate");
    void *v2 = dlsym(RTLD_DEFAULT, "cuGraphInstantiate_v2");
    CHECK(v1 != NULL && v2 != NULL);
    typedef CUresult (*with_log)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
    OK(((with_log)v1)(&exec, taking(256 * MIB, &block), &bad, log, sizeof log));
    launch_and_give_back(exec, block, 256 * MIB);
    OK(((with_log)v2)(&exec, taking(256 * MIB, &block), &bad, log, sizeof log));
    launch_and_give_back(exec, block, 256 * MIB);
    OK(cuGraphInstantiateWithFlags(&exec, taking(256 * MIB, &block), 0));
    launch_and_give_back(exec, block, 256 * MIB);
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    OK(cuGraphInstantiateWithParams(&exec, taking(256 * MIB, &block), &params));
    launch_and_give_back(exec, block, 256 * MIB);
}

static void upload_is_charged(void)
{
    CUdeviceptr block;
    CUgraphExec exec;
    ready();
    CUgraph graph = taking(256 * MIB, &block);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphUpload(exec, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 256 * MIB);
    launch_and_give_back(exec, block, 256 * MIB);
}

static void added_by_the_general_call(void)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraphNode node;
    CUgraph graph;
    CUgraphExec exec;
    ready();
    params.alloc.poolProps = wanting(0).poolProps;
    params.alloc.bytesize = 256 * MIB;
    OK(cuGraphCreate(&graph, 0));
    CUresult (*add)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *) =
        dlsym(RTLD_DEFAULT, "cuGraphAddNode");
    CHECK(add != NULL);
    OK(add(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch_and_give_back(exec, params.alloc.dptr, 256 * MIB);
}

static void nodes_in_a_child_graph(void)
{
    CUdeviceptr block;
    CUgraph inner, outer;
    CUgraphNode node;
    CUgraphExec exec;
    ready();
    /* A child may hold what it gives back itself. */
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(256 * MIB);
    CUgraphNode alloc, release;
    OK(cuGraphCreate(&inner, 0));
    OK(cuGraphAddMemAllocNode(&alloc, inner, NULL, 0, &params));
    block = params.dptr;
    OK(cuGraphAddMemFreeNode(&release, inner, &alloc, 1, block));
    OK(cuGraphCreate(&outer, 0));
    CUresult code = cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner);
    if (code != CUDA_SUCCESS) {
        printf("this driver takes no memory nodes in child graphs (%d)\n", code);
        exit(77);
    }
    OK(cuGraphInstantiate(&exec, outer, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 256 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(used() - before, 0);
}

static void global_capture_survives_our_hooks(void)
{
    /* Programs ask and free while they capture; no call of ours may end the capture. */
    CUdeviceptr block;
    CUgraph graph;
    size_t free_now, all;
    ready();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&block, MIB, stream));
    OK(cuMemGetInfo(&free_now, &all));
    OK(cuMemsetD8Async(block, 0, MIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
}

/* Resident bytes of this process. */
static long resident(void)
{
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &pages) == 2 && fclose(file) == 0);
    return pages * sysconf(_SC_PAGESIZE);
}

static void destroyed_executables_leave_nothing(void)
{
    /* A program that makes its graphs anew for every request, for days. */
    CUgraphExec exec;
    CUdeviceptr block;
    long first = 0;
    ready();
    CUgraph graph = taking(MIB, &block);
    for (int i = 0; i < 140000; i++) {
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphExecDestroy(exec));
        if (i == 20000)
            first = resident();
    }
    CHECK(resident() - first < 1536 * 1024);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"launched_nodes_are_charged", launched_nodes_are_charged},
        {"trim_gives_back", trim_gives_back},
        {"captured_allocation_is_charged", captured_allocation_is_charged},
        {"over_the_limit_is_refused", over_the_limit_is_refused},
        {"every_instantiation_is_charged", every_instantiation_is_charged},
        {"upload_is_charged", upload_is_charged},
        {"added_by_the_general_call", added_by_the_general_call},
        {"nodes_in_a_child_graph", nodes_in_a_child_graph},
        {"global_capture_survives_our_hooks", global_capture_survives_our_hooks},
        {"destroyed_executables_leave_nothing", destroyed_executables_leave_nothing},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
