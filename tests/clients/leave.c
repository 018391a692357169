/* link: cuda */
/* Memory that may leave the card: a program that knows nothing of it looks at its bytes, its pointers and its graphs
 * while somebody else takes its memory off the card and lets it come back. It says "ready" when it may be
 * taken away, and goes on at each line it reads; it ends at the end of its input. */
#include "scenario.h"

#include <pthread.h>
#include <sys/wait.h>

#define BLOCKS 6
static const size_t SIZES[BLOCKS] = {256, 512 * KIB, 3 * MIB, 20 * MIB, 40 * MIB, 300 * MIB};

static CUdeviceptr blocks[BLOCKS];

static int ready(void)
{
    char line[64];
    puts("ready");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}

/* Every byte of block `index` in round `round`. */
static unsigned word(int index, unsigned round, size_t at)
{
    return (unsigned)(at * 2654435761u) ^ (unsigned)index * 40503u ^ round * 69069u;
}

static void write_block(int index, unsigned round)
{
    unsigned *bytes = malloc(SIZES[index]);
    for (size_t at = 0; at < SIZES[index] / 4; at++)
        bytes[at] = word(index, round, at);
    OK(cuMemcpyHtoD(blocks[index], bytes, SIZES[index]));
    free(bytes);
}

static void check_block(int index, unsigned round)
{
    unsigned *bytes = malloc(SIZES[index]);
    OK(cuMemcpyDtoH(bytes, blocks[index], SIZES[index]));
    for (size_t at = 0; at < SIZES[index] / 4; at++)
        if (bytes[at] != word(index, round, at)) {
            fprintf(stderr, "block %d word %zu in round %u: %x, wanted %x\n", index, at, round, bytes[at],
                    word(index, round, at));
            exit(1);
        }
    free(bytes);
}

/* Bytes, pointers, kernels and a captured graph through any number of leavings. */
static void bytes_and_pointers_survive(void)
{
    start();
    CUfunction add = obtain(PTX_HEAD PTX_ADD32, "add32");
    for (int index = 0; index < BLOCKS; index++) {
        OK(cuMemAlloc(&blocks[index], SIZES[index]));
        write_block(index, 0);
    }
    CUdeviceptr sum, one;
    unsigned n = 1024, want = 0;
    OK(cuMemAlloc(&sum, n * 4));
    OK(cuMemAlloc(&one, n * 4));
    OK(cuMemsetD32(sum, 0, n));
    OK(cuMemsetD32(one, 1, n));
    void *arguments[] = {&sum, &sum, &one, &n};
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (unsigned round = 0; ready(); round++) {
        /* Another thing comes first in each round: a launch, a graph, a copy, a fill, an allocation. */
        switch (round % 5) {
        case 0:
            OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
            break;
        case 1:
            OK(cuGraphLaunch(exec, stream));
            break;
        case 2:
            check_block(4, round);
            break;
        case 3:
            OK(cuMemsetD8(blocks[0], 0, 4));
            break;
        default: {
            CUdeviceptr more;
            OK(cuMemAlloc(&more, 64 * MIB));
            OK(cuMemFree(more));
        }
        }
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        want += round % 5 < 2 ? 2 : 1;
        unsigned values[1024];
        OK(cuMemcpyDtoH(values, sum, sizeof values));
        for (unsigned at = 0; at < n; at++)
            EQUAL(values[at], want);
        if (round % 5 == 3)
            write_block(0, round);
        for (int index = 0; index < BLOCKS; index++) {
            check_block(index, round);
            write_block(index, round + 1);
        }
    }
    for (int index = 0; index < BLOCKS; index++)
        OK(cuMemFree(blocks[index]));
}

/* What the driver says of plain blocks it says of these. */
static void pointers_are_answered_for(void)
{
    CUdeviceptr base, block, other, large;
    CUcontext context, own;
    size_t bytes;
    unsigned long long id, other_id;
    CUmemorytype type;
    int ordinal, managed;
    start();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&block, 1000));
    OK(cuMemAlloc(&other, 3 * MIB));
    OK(cuMemAlloc(&large, 40 * MIB));
    EQUAL(block % 512, 0);
    EQUAL(other % (2 * MIB), 0);
    EQUAL(large % (2 * MIB), 0);
    OK(cuMemGetAddressRange(&base, &bytes, block + 999));
    EQUAL(base, block);
    EQUAL(bytes, 1000);
    OK(cuMemGetAddressRange(&base, NULL, other + 3 * MIB - 1));
    EQUAL(base, other);
    OK(cuMemGetAddressRange(NULL, &bytes, large + 1));
    EQUAL(bytes, 40 * MIB);
    OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 1));
    EQUAL(base, block);
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, other + 4));
    EQUAL(bytes, 3 * MIB);
    OK(cuPointerGetAttribute(&own, CU_POINTER_ATTRIBUTE_CONTEXT, other));
    CHECK(own == context);
    OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
    OK(cuPointerGetAttribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, other));
    CHECK(id != other_id);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, large));
    EQUAL(type, CU_MEMORYTYPE_DEVICE);
    void *host;
    IS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, large), CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, large));
    EQUAL(managed, 0);
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *places[] = {&bytes, &ordinal, &managed, &base};
    OK(cuPointerGetAttributes(4, which, places, other + 5));
    EQUAL(bytes, 3 * MIB);
    EQUAL(ordinal, 0);
    EQUAL(managed, 0);
    EQUAL(base, other);
    OK(cuMemFree(block));
    IS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemGetAddressRange(&base, &bytes, block), CUDA_ERROR_NOT_FOUND);
    /* An address inside a block is no block. */
    IS(cuMemFree(large + 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(large));
    OK(cuMemFree(other));
}

/* A block that a buffer for other devices was made of is theirs to use: it stays. */
static void memory_for_a_network_card_stays(void)
{
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    buffer_of(block, 64 * MIB);
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    write_block(4, 7);
    while (ready())
        check_block(4, 7);
}

/* While a stream is being captured, nothing moves. */
static void a_capture_keeps_everything(void)
{
    CUstream stream;
    CUgraph graph;
    start();
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    write_block(4, 3);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(ready());
    OK(cuMemsetD8Async(blocks[4], 1, MIB, stream));
    OK(cuStreamEndCapture(stream, &graph));
    CHECK(ready());
    check_block(4, 3);
}

/* Threads that launch, copy, allocate and free while memory comes and goes. */
#define THREADS 8
static volatile int ends;
static CUcontext shared_context;

static void *busy_thread(void *argument)
{
    unsigned own = (unsigned)(size_t)argument, n = 4096, rounds = 0;
    CUdeviceptr sum, one;
    CUstream stream;
    OK(cuCtxSetCurrent(shared_context));
    CUfunction add = obtain(PTX_HEAD PTX_ADD32, "add32");
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&sum, n * 4));
    OK(cuMemAlloc(&one, n * 4));
    OK(cuMemsetD32(one, own, n));
    OK(cuMemsetD32(sum, 0, n));
    OK(cuCtxSynchronize());
    void *arguments[] = {&sum, &sum, &one, &n};
    unsigned *values = malloc(n * 4);
    while (!ends) {
        CUdeviceptr more;
        OK(cuLaunchKernel(add, 16, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
        rounds++;
        OK(cuMemAlloc(&more, ((rounds * 7919 + own) % 40 + 1) * MIB));
        OK(cuMemcpyDtoHAsync(values, sum, n * 4, stream));
        OK(cuStreamSynchronize(stream));
        for (unsigned at = 0; at < n; at++)
            EQUAL(values[at], rounds * own);
        OK(cuMemFree(more));
    }
    free(values);
    return NULL;
}

static void threads_find_their_bytes(void)
{
    pthread_t threads[THREADS];
    start();
    OK(cuCtxGetCurrent(&shared_context));
    for (size_t index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, busy_thread, (void *)(index + 1)) == 0);
    while (ready())
        ;
    ends = 1;
    for (int index = 0; index < THREADS; index++)
        CHECK(pthread_join(threads[index], NULL) == 0);
}

/* A context ends while its memory is away. */
static void a_context_ends_with_its_memory(void)
{
    CUcontext context;
    start();
    size_t before = used();
    OK(cuCtxCreate(&context, 0, 0));
    for (int index = 0; index < BLOCKS; index++)
        OK(cuMemAlloc(&blocks[index], SIZES[index]));
    CHECK(ready());
    OK(cuCtxDestroy(context));
    CUcontext primary;
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    EQUAL(used(), before);
    CHECK(ready());
    EQUAL(used(), before);
}

/* A child of a process with such memory has none of it, and may not use the parent's driver. */
static void a_child_has_none(void)
{
    start();
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    write_block(4, 1);
    CHECK(ready());
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CUdeviceptr block;
        _exit(cuMemAlloc(&block, MIB) == CUDA_SUCCESS);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
    check_block(4, 1);
}

/* Small blocks that the limit refuses are nobody's afterwards. */
static void refused_blocks_leave_nothing(void)
{
    static CUdeviceptr small[4096];
    int count = 0;
    start();
    size_t before = used();
    while (count < 4096 && cuMemAlloc(&small[count], MIB) == CUDA_SUCCESS)
        count++;
    CHECK(count < 4096);
    for (int again = 0; again < 2000; again++) {
        CUdeviceptr block;
        IS(cuMemAlloc(&block, MIB), CUDA_ERROR_OUT_OF_MEMORY);
    }
    while (count > 0)
        OK(cuMemFree(small[--count]));
    EQUAL(used(), before);
    CHECK(ready());
}

/* Blocks that are freed while streams always capture, in any mode, go at once, behind the work that uses them, and the
 * captures are whole. */
static void freed_beside_captures_goes(void)
{
    CUdeviceptr block;
    CUstream streams[2], works;
    CUgraph graph;
    CUdeviceptr kept;
    unsigned long long ns = 20000000;
    void *arguments[] = {&ns};
    start();
    CUfunction spin = obtain(PTX_HEAD PTX_SPIN, "spin_ns");
    for (int index = 0; index < 2; index++)
        OK(cuStreamCreate(&streams[index], CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&works, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&kept, MIB));
    size_t before = used();
    OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int round = 0; round < 12; round++) {
        int now = round % 2;
        OK(cuStreamBeginCapture(streams[1 - now], CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuMemAlloc(&block, 1000 * MIB));
        OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, works, arguments, NULL));
        OK(cuMemsetD8Async(kept, 1, MIB, streams[now]));
        OK(cuMemFree(block));
        EQUAL(used(), before);
        IS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        OK(cuStreamQuery(works));
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        OK(cuStreamEndCapture(streams[now], &graph));
        OK(cuGraphDestroy(graph));
    }
    OK(cuStreamEndCapture(streams[0], &graph));
    EQUAL(used(), before);
}

static void *frees_a_block(void *context)
{
    OK(cuCtxSetCurrent(context));
    OK(cuMemFree(blocks[5]));
    return NULL;
}

/* A capture begins while another thread waits in a free for work to end, and is whole. */
static void a_capture_begins_beside_a_free(void)
{
    pthread_t thread;
    CUstream works, captured;
    CUgraph graph;
    unsigned long long ns = 700000000;
    void *arguments[] = {&ns};
    start();
    OK(cuCtxGetCurrent(&shared_context));
    CUfunction spin = obtain(PTX_HEAD PTX_SPIN, "spin_ns");
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    OK(cuStreamCreate(&works, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 2; round++) {
        OK(cuMemAlloc(&blocks[5], SIZES[5]));
        OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, works, arguments, NULL));
        CHECK(pthread_create(&thread, NULL, frees_a_block, shared_context) == 0);
        usleep(200000);
        IS(cuStreamQuery(works), CUDA_ERROR_NOT_READY);
        OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
        /* It has begun before the free has ended. */
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        IS(cuStreamQuery(works), CUDA_ERROR_NOT_READY);
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        OK(cuMemsetD8Async(blocks[4], 1, MIB, captured));
        CHECK(pthread_join(thread, NULL) == 0);
        OK(cuMemsetD8Async(blocks[4], 2, MIB, captured));
        OK(cuStreamEndCapture(captured, &graph));
        OK(cuGraphDestroy(graph));
    }
}

/* Work of one device that uses memory of another ends before that leaves. */
static void work_of_another_device_is_waited_for(void)
{
    CUcontext contexts[2];
    CUdeviceptr to;
    CUstream stream;
    unsigned long long ns = 700000000;
    void *arguments[] = {&ns};
    OK(cuInit(0));
    for (int device = 0; device < 2; device++)
        OK(cuDevicePrimaryCtxRetain(&contexts[device], device));
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    write_block(4, 5);
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemAlloc(&to, SIZES[4]));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUfunction spin = obtain(PTX_HEAD PTX_SPIN, "spin_ns");
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    OK(cuMemcpyPeerAsync(to, contexts[1], blocks[4], contexts[0], SIZES[4], stream));
    CHECK(ready());
    OK(cuStreamSynchronize(stream));
    blocks[4] = to;
    check_block(4, 5);
}

/* What a context may reach of another device's memory it reaches: before memory leaves and after, and what is made later. */
static void peers_reach_it(void)
{
    CUcontext contexts[2];
    CUdeviceptr one, sum;
    unsigned n = 4096, values[4096];
    OK(cuInit(0));
    for (int device = 0; device < 2; device++)
        OK(cuDevicePrimaryCtxRetain(&contexts[device], device));
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemAlloc(&blocks[3], SIZES[3]));
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    write_block(3, 1);
    write_block(4, 5);
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuCtxEnablePeerAccess(contexts[0], 0));
    IS(cuCtxEnablePeerAccess(contexts[0], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CUfunction add = obtain(PTX_HEAD PTX_ADD32, "add32");
    OK(cuMemAlloc(&one, n * 4));
    OK(cuMemAlloc(&sum, n * 4));
    OK(cuMemsetD32(one, 1, n));
    for (int round = 0; round < 3; round++) {
        if (round == 2) {
            OK(cuCtxSetCurrent(contexts[0]));
            OK(cuMemAlloc(&blocks[5], SIZES[5]));
            write_block(5, 2);
            OK(cuCtxSetCurrent(contexts[1]));
        }
        for (int index = 3; index < (round == 2 ? 6 : 5); index++) {
            void *arguments[] = {&sum, &blocks[index], &one, &n};
            OK(cuLaunchKernel(add, 16, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
            OK(cuMemcpyDtoH(values, sum, n * 4));
            for (unsigned at = 0; at < n; at++)
                EQUAL(values[at], word(index, index == 3 ? 1 : index == 4 ? 5 : 2, at) + 1);
        }
        CHECK(ready());
    }
}

/* So does work of a green context's stream. */
static void work_of_a_green_context_is_waited_for(void)
{
    CUdevice device = start();
    CUdevResource all, part;
    CUdevResourceDesc described;
    CUgreenCtx green;
    CUstream stream;
    unsigned groups = 1;
    unsigned long long ns = 700000000;
    void *arguments[] = {&ns};
    OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
    OK(cuDevResourceGenerateDesc(&described, &part, 1));
    OK(cuGreenCtxCreate(&green, described, device, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    CUfunction spin = obtain(PTX_HEAD PTX_SPIN, "spin_ns");
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    OK(cuMemsetD8Async(blocks[4], 9, SIZES[4], stream));
    CHECK(ready());
    OK(cuStreamSynchronize(stream));
    unsigned char last = 0;
    OK(cuMemcpyDtoH(&last, blocks[4] + SIZES[4] - 1, 1));
    EQUAL(last, 9);
}

/* Nodes of copies are made, and changed, of memory that is away. */
static void graphs_are_made_of_what_is_away(void)
{
    CUcontext context;
    CUgraph graph;
    CUgraphNode node, other;
    CUgraphExec exec;
    unsigned char host[1000] = {0};
    start();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    OK(cuMemsetD8(blocks[4], 6, SIZES[4]));
    OK(cuGraphCreate(&graph, 0));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = blocks[4],
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .WidthInBytes = sizeof host,
                          .Height = 1,
                          .Depth = 1};
    CHECK(ready());
    OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    CHECK(ready());
    OK(cuGraphMemcpyNodeSetParams(node, &copy));
    OK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(ready());
    OK(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    params.memcpy.copyCtx = context;
    params.memcpy.copyParams = copy;
    CHECK(ready());
    OK(cuGraphAddNode_v2(&other, graph, NULL, NULL, 0, &params));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EQUAL(host[999], 6);
}

/* As many contexts as a program may have. */
static void all_of_many_contexts_are_waited_for(void)
{
    CUcontext context;
    start();
    OK(cuMemAlloc(&blocks[4], SIZES[4]));
    write_block(4, 2);
    for (int count = 0; count < 70; count++)
        OK(cuCtxCreate(&context, 0, 0));
    CHECK(ready());
    check_block(4, 2);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"bytes_and_pointers_survive", bytes_and_pointers_survive},
        {"pointers_are_answered_for", pointers_are_answered_for},
        {"memory_for_a_network_card_stays", memory_for_a_network_card_stays},
        {"a_capture_keeps_everything", a_capture_keeps_everything},
        {"threads_find_their_bytes", threads_find_their_bytes},
        {"a_context_ends_with_its_memory", a_context_ends_with_its_memory},
        {"a_child_has_none", a_child_has_none},
        {"refused_blocks_leave_nothing", refused_blocks_leave_nothing},
        {"peers_reach_it", peers_reach_it},
        {"freed_beside_captures_goes", freed_beside_captures_goes},
        {"a_capture_begins_beside_a_free", a_capture_begins_beside_a_free},
        {"work_of_another_device_is_waited_for", work_of_another_device_is_waited_for},
        {"work_of_a_green_context_is_waited_for", work_of_a_green_context_is_waited_for},
        {"all_of_many_contexts_are_waited_for", all_of_many_contexts_are_waited_for},
        {"graphs_are_made_of_what_is_away", graphs_are_made_of_what_is_away},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
