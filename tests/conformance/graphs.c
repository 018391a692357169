/* Graphs: their memory, its addresses and who shares it; kernel nodes. */
#include "conform.h"

static void marks(const char *what)
{
    cuuint64_t used = 0, reserved = 0;
    MUST(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    MUST(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
    printf("%s: used %llu, reserved %llu\n", what, (unsigned long long)used,
           (unsigned long long)reserved);
}

static CUDA_MEM_ALLOC_NODE_PARAMS wanting(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    return params;
}

static CUdeviceptr add_alloc(CUgraph graph, CUgraphNode *node, size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(bytes);
    SAY(cuGraphAddMemAllocNode(node, graph, NULL, 0, &params));
    return params.dptr;
}

static void memory_nodes(CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL, freed = NULL;
    CUgraphExec exec = NULL;
    size_t before = free_bytes();
    MUST(cuGraphCreate(&graph, 0));
    CUdeviceptr block = add_alloc(graph, &node, 100 * MIB);
    state("an address", block != 0);
    SAY(cuGraphAddMemFreeNode(&freed, graph, &node, 1, block));
    taken("two nodes", before);
    SAY(cuGraphInstantiate(&exec, graph, 0));
    taken("instantiated", before);
    marks("instantiated");
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    marks("launched");
    taken("launched", before);
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    marks("launched again");
    SAY(cuDeviceGraphMemTrim(0));
    marks("trimmed");
    taken("trimmed", before);
    SAY(cuGraphExecDestroy(exec));
    SAY(cuGraphDestroy(graph));
    taken("destroyed", before);
}

static void never_freed(CUstream stream)
{
    CUgraph graph = NULL, twin = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL, second = NULL;
    size_t before = free_bytes();
    MUST(cuGraphCreate(&graph, 0));
    CUdeviceptr block = add_alloc(graph, &node, 256 * MIB);
    SAY(cuGraphClone(&twin, graph));
    SAY(cuGraphInstantiate(&exec, graph, 0));
    SAY(cuGraphInstantiate(&second, graph, 0));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    marks("launched");
    taken("launched", before);
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuDeviceGraphMemTrim(0));
    marks("trimmed");
    SAY(cuMemsetD8(block, 1, 4096));
    SAY(cuMemFreeAsync(block, stream));
    SAY(cuStreamSynchronize(stream));
    marks("freed by the stream");
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuMemFree(block));
    marks("freed at once");
    SAY(cuGraphExecDestroy(exec));
    SAY(cuGraphDestroy(graph));
    SAY(cuDeviceGraphMemTrim(0));
    taken("destroyed and trimmed", before);
    SAY(cuMemFree(block));
}

static void kernel_nodes(CUstream stream)
{
    CUmodule module = load(PTX_HEAD PTX_FILL32);
    CUfunction kernel = function(module, "fill32");
    CUdeviceptr block = 0;
    unsigned value = 11, count = 64, out = 0;
    void *arguments[] = {&block, &value, &count};
    MUST(cuMemAlloc(&block, 4096));
    CUDA_KERNEL_NODE_PARAMS params = {.func = kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                      .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1,
                                      .kernelParams = arguments};
    CUgraph graph = NULL, captured = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    MUST(cuGraphCreate(&graph, 0));
    SAY(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    SAY(cuGraphInstantiate(&exec, graph, 0));
    value = 22; /* arguments were copied when the node was made */
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuMemcpyDtoH(&out, block, 4));
    state("filled with", out);
    SAY(cuGraphExecKernelNodeSetParams(exec, node, &params));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuMemcpyDtoH(&out, block, 4));
    state("filled with", out);
    CUgraphNodeType type = 0;
    SAY(cuGraphNodeGetType(node, &type));
    state("type", type);
    SAY(cuGraphDestroyNode(node));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, arguments, NULL));
    SAY(cuMemsetD32Async(block, 33, 1, stream));
    SAY(cuStreamEndCapture(stream, &captured));
    size_t nodes = 0;
    SAY(cuGraphGetNodes(captured, NULL, &nodes));
    state("nodes", (long long)nodes);
    SAY(cuGraphInstantiate(&exec, captured, 0));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuMemcpyDtoH(&out, block, 4));
    state("first word", out);
    SAY(cuMemcpyDtoH(&out, block + 4, 4));
    state("second word", out);
    SAY(cuGraphLaunch(NULL, stream));
}

/* Adds a node behind `*last`, and makes it the last. */
static CUdeviceptr allocates(CUgraph graph, CUgraphNode *last, size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanting(bytes);
    CUgraphNode node = NULL;
    MUST(cuGraphAddMemAllocNode(&node, graph, *last ? last : NULL, *last != NULL, &params));
    *last = node;
    return params.dptr;
}

static void frees(CUgraph graph, CUgraphNode *last, CUdeviceptr block)
{
    CUgraphNode node = NULL;
    MUST(cuGraphAddMemFreeNode(&node, graph, last, 1, block));
    *last = node;
}

static void waits(CUgraph graph, CUgraphNode *last, long ms)
{
    CUDA_HOST_NODE_PARAMS params = {pause_ms, (void *)ms};
    CUgraphNode node = NULL;
    MUST(cuGraphAddHostNode(&node, graph, last, 1, &params));
    *last = node;
}

/* Where nodes of one graph lie, and in what order the driver lists them. */
static void shared_addresses(CUstream stream)
{
    static const size_t mib[] = {40, 100, 300, 100, 40, 20};
    enum { NODES = 6 };
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode last = NULL, listed[4 * NODES], made[NODES];
    CUdeviceptr first = 0;
    size_t count = 4 * NODES, at = 0;
    MUST(cuGraphCreate(&graph, 0));
    for (int i = 0; i < NODES; i++) {
        CUdeviceptr block = allocates(graph, &last, mib[i] * MIB);
        made[i] = last;
        first = i ? first : block;
        state("in a row, MiB on", (long long)(block - first) / (long long)MIB);
        if (i != 4)
            frees(graph, &last, block);
    }
    MUST(cuGraphGetNodes(graph, listed, &count));
    state("nodes", (long long)count);
    for (size_t i = 0; i < count && at < NODES; i++)
        at += listed[i] == made[at];
    state("of them listed in the order they were made", (long long)at);
    MUST(cuGraphInstantiate(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(stream));
    marks("in a row");
    MUST(cuGraphExecDestroy(exec));
    MUST(cuDeviceGraphMemTrim(0));
    marks("trimmed, one left behind");
    MUST(cuGraphDestroy(graph));
    MUST(cuGraphCreate(&graph, 0));
    for (int branch = 0; branch < 2; branch++) {
        last = NULL;
        for (int i = 0; i < 2; i++) {
            CUdeviceptr block = allocates(graph, &last, 33 * MIB);
            first = branch || i ? first : block;
            state("in branches, MiB on", (long long)(block - first) / (long long)MIB);
            frees(graph, &last, block);
        }
    }
    MUST(cuGraphInstantiate(&exec, graph, 0));
    MUST(cuGraphUpload(exec, stream));
    MUST(cuStreamSynchronize(stream));
    marks("in branches");
}

static CUgraphExec running(size_t mib, long ms)
{
    CUgraph graph = NULL;
    CUgraphNode last = NULL;
    CUgraphExec exec = NULL;
    MUST(cuGraphCreate(&graph, 0));
    CUdeviceptr block = allocates(graph, &last, mib * MIB);
    waits(graph, &last, ms);
    frees(graph, &last, block);
    MUST(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static CUstream another(void)
{
    CUstream stream = NULL;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* Graphs that run one after another, and at once. */
static void shared_memory(CUstream one)
{
    CUstream two = another(), three = another();
    CUgraphExec small = running(300, 60), large = running(400, 60);
    MUST(cuGraphLaunch(small, one));
    MUST(cuGraphLaunch(large, one));
    marks("behind one another");
    MUST(cuCtxSynchronize());
    MUST(cuGraphUpload(small, two));
    MUST(cuCtxSynchronize());
    MUST(cuGraphUpload(large, three));
    MUST(cuCtxSynchronize());
    marks("uploaded in two streams");
    MUST(cuGraphLaunch(small, one));
    MUST(cuGraphLaunch(large, two));
    marks("at once");
    MUST(cuCtxSynchronize());
    marks("over");
    MUST(cuDeviceGraphMemTrim(0));
    MUST(cuGraphLaunch(small, one));
    MUST(cuGraphLaunch(small, two));
    MUST(cuGraphLaunch(small, three));
    marks("one graph in three streams");
    MUST(cuDeviceGraphMemTrim(0));
    marks("trimmed while it runs");
    MUST(cuGraphExecDestroy(small));
    marks("destroyed while it runs");
    MUST(cuGraphLaunch(large, two));
    marks("another beside");
    MUST(cuCtxSynchronize());
    marks("over");
    MUST(cuDeviceGraphMemTrim(0));
    marks("trimmed");
}

/* Graphs that share memory in one stream, and move to others while they run. */
static void moved(CUstream one)
{
    CUstream two = another(), three = another();
    CUgraphExec first = running(100, 60), second = running(100, 60);
    MUST(cuGraphLaunch(first, one));
    MUST(cuGraphLaunch(second, one));
    marks("in one stream");
    MUST(cuGraphLaunch(first, two));
    marks("the first in another");
    MUST(cuGraphLaunch(second, three));
    marks("the second in a third");
    MUST(cuGraphLaunch(first, three));
    marks("the first behind it");
    MUST(cuCtxSynchronize());
    MUST(cuDeviceGraphMemTrim(0));
    marks("trimmed");
}

/* Uploads and launches of a graph whose memory of the last launch is there yet. */
static void uploaded_alive(CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphNode last = NULL;
    CUgraphExec exec = NULL;
    MUST(cuGraphCreate(&graph, 0));
    CUdeviceptr block = allocates(graph, &last, 200 * MIB);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(stream));
    marks("launched");
    SAY(cuGraphUpload(exec, stream));
    SAY(cuStreamSynchronize(stream));
    marks("uploaded");
    SAY(cuMemsetD8(block, 1, 4096));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    marks("launched again");
    SAY(cuDeviceGraphMemTrim(0));
    marks("trimmed");
    SAY(cuMemFree(block));
    SAY(cuDeviceGraphMemTrim(0));
    marks("freed and trimmed");
}

/* What cannot be changed once a graph has memory. */
static void kept_nodes(CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphNode last = NULL, first, second;
    (void)stream;
    MUST(cuGraphCreate(&graph, 0));
    CUdeviceptr block = allocates(graph, &last, MIB);
    first = last;
    waits(graph, &last, 1);
    second = last;
    SAY(cuGraphRemoveDependencies(graph, &first, &second, 1));
    frees(graph, &last, block);
    SAY(cuGraphDestroyNode(second));
    SAY(cuGraphDestroyNode(first));
    size_t count = 0;
    MUST(cuGraphGetNodes(graph, NULL, &count));
    state("nodes", (long long)count);
}

/* What a graph leaves behind, under others. */
static void left_behind(CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphNode last = NULL;
    CUgraphExec leaving = NULL, other = running(300, 0);
    MUST(cuGraphLaunch(other, stream));
    MUST(cuStreamSynchronize(stream));
    marks("another before");
    MUST(cuGraphCreate(&graph, 0));
    CUdeviceptr block = allocates(graph, &last, 200 * MIB);
    MUST(cuGraphInstantiate(&leaving, graph, 0));
    MUST(cuGraphLaunch(leaving, stream));
    MUST(cuStreamSynchronize(stream));
    marks("it leaves 200 MiB");
    MUST(cuGraphLaunch(other, stream));
    MUST(cuStreamSynchronize(stream));
    marks("the other again");
    MUST(cuGraphExecDestroy(leaving));
    MUST(cuDeviceGraphMemTrim(0));
    marks("destroyed and trimmed");
    MUST(cuMemFreeAsync(block, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuGraphLaunch(other, stream));
    MUST(cuStreamSynchronize(stream));
    marks("freed, the other again");
    MUST(cuDeviceGraphMemTrim(0));
    marks("trimmed");
}

void graphs(int part)
{
    CUstream stream = NULL;
    void (*const parts[])(CUstream) = {
        memory_nodes, never_freed, kernel_nodes, shared_addresses, shared_memory, left_behind, moved,
        kept_nodes, uploaded_alive,
    };
    start();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    parts[part](stream);
}
