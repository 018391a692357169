/* Capture invalidation, the order of legacy and per-thread streams, events. */
#include "conform.h"

static const char *status_name(CUstreamCaptureStatus status)
{
    switch (status) {
    case CU_STREAM_CAPTURE_STATUS_NONE: return "none";
    case CU_STREAM_CAPTURE_STATUS_ACTIVE: return "active";
    case CU_STREAM_CAPTURE_STATUS_INVALIDATED: return "invalidated";
    default: return "unknown";
    }
}

static void capture_state(const char *what, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (say("cuStreamIsCapturing", cuStreamIsCapturing(stream, &status)) == CUDA_SUCCESS)
        word(what, status_name(status));
}

/* What one call does to a capture of `mode`: its own code, the state after it, the end's code. */
enum { ALLOC, FREE, INFO, CTX_SYNC, STREAM_SYNC, LEGACY_SYNC, LEGACY_MEMSET, POOL, LIMIT, QUERY, HOST,
       ALLOC_HOST, MODULE, CREATE, ASYNC, POINTER, CALLS };
static const char *const CALL_NAMES[CALLS] = {
    "cuMemAlloc", "cuMemFree", "cuMemGetInfo", "cuCtxSynchronize", "cuStreamSynchronize(captured)",
    "cuStreamSynchronize(legacy)", "cuMemsetD8Async(legacy)", "cuMemPoolGetAttribute",
    "cuCtxGetLimit", "cuStreamQuery(captured)", "cuLaunchHostFunc", "cuMemAllocHost",
    "cuModuleLoadData", "cuStreamCreate", "cuMemAllocAsync(captured)", "cuPointerGetAttribute",
};

static CUresult one_call(int call, CUstream stream, CUdeviceptr block)
{
    CUdeviceptr out = 0;
    CUmemoryPool pool = NULL;
    CUmodule module = NULL;
    CUstream made = NULL;
    size_t a = 0, b = 0;
    cuuint64_t value = 0;
    void *host = NULL;
    int kind = 0;
    switch (call) {
    case ALLOC: return cuMemAlloc(&out, 4096);
    case FREE: return cuMemFree(block);
    case INFO: return cuMemGetInfo(&a, &b);
    case CTX_SYNC: return cuCtxSynchronize();
    case STREAM_SYNC: return cuStreamSynchronize(stream);
    case LEGACY_SYNC: return cuStreamSynchronize(CU_STREAM_LEGACY);
    case LEGACY_MEMSET: return cuMemsetD8Async(block, 0, 16, CU_STREAM_LEGACY);
    case POOL:
        cuDeviceGetDefaultMemPool(&pool, 0);
        return cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
    case LIMIT: return cuCtxGetLimit(&a, CU_LIMIT_STACK_SIZE);
    case QUERY: return cuStreamQuery(stream);
    case HOST: return cuLaunchHostFunc(stream, pause_ms, NULL);
    case ALLOC_HOST: return cuMemAllocHost(&host, 4096);
    case MODULE: return cuModuleLoadData(&module, PTX_HEAD PTX_EMPTY);
    case CREATE: return cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
    case ASYNC: return cuMemAllocAsync(&out, 4096, stream);
    default: return cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block);
    }
}

static void in_mode(CUstreamCaptureMode mode)
{
    for (int call = 0; call < CALLS; call++) {
        CUstream stream = NULL;
        CUgraph graph = NULL;
        CUdeviceptr block = 0;
        MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        MUST(cuMemAlloc(&block, 4096));
        MUST(cuCtxSynchronize());
        MUST(cuStreamBeginCapture(stream, mode));
        say(CALL_NAMES[call], one_call(call, stream, block));
        capture_state("then", stream);
        SAY(cuStreamEndCapture(stream, &graph));
        if (graph != NULL) {
            size_t nodes = 0;
            MUST(cuGraphGetNodes(graph, NULL, &nodes));
            state("nodes", (long long)nodes);
            cuGraphDestroy(graph);
        }
        cuStreamDestroy(stream);
        cuCtxSynchronize();
    }
}

static void misuse(void)
{
    CUstream one = NULL, two = NULL;
    CUgraph graph = NULL;
    CUevent event = NULL;
    MUST(cuStreamCreate(&one, CU_STREAM_DEFAULT));
    MUST(cuStreamCreate(&two, CU_STREAM_DEFAULT));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    SAY(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuStreamEndCapture(one, &graph));
    SAY(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamEndCapture(two, &graph));
    SAY(cuEventRecord(event, one));
    SAY(cuStreamWaitEvent(two, event, 0));
    capture_state("a stream that waits is drawn in", two);
    SAY(cuLaunchHostFunc(two, pause_ms, NULL));
    SAY(cuEventQuery(event));
    SAY(cuEventSynchronize(event));
    capture_state("then", one);
    SAY(cuStreamEndCapture(one, &graph));
    capture_state("then", two);
    SAY(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuEventRecord(event, one));
    SAY(cuStreamWaitEvent(two, event, 0));
    SAY(cuLaunchHostFunc(two, pause_ms, NULL));
    SAY(cuStreamEndCapture(one, &graph));
    SAY(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamDestroy(one));
}

static void exchange(void)
{
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUdeviceptr block = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuThreadExchangeStreamCaptureMode(&mode));
    state("mode before", mode);
    SAY(cuMemAlloc(&block, 4096));
    SAY(cuThreadExchangeStreamCaptureMode(&mode));
    state("mode before", mode);
    capture_state("then", stream);
    SAY(cuStreamEndCapture(stream, &graph));
}

static void memory_in_capture(void)
{
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUdeviceptr block = 0;
    size_t before = free_bytes(), nodes = 0;
    MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(cuMemAllocAsync(&block, 64 * MIB, stream));
    SAY(cuMemsetD8Async(block, 7, 4096, stream));
    SAY(cuMemFreeAsync(block, stream));
    SAY(cuStreamEndCapture(stream, &graph));
    SAY(cuGraphGetNodes(graph, NULL, &nodes));
    state("nodes", (long long)nodes);
    taken("a captured allocation", before);
    SAY(cuMemFree(block));
}

void capture(int part)
{
    start();
    switch (part) {
    case 0: in_mode(CU_STREAM_CAPTURE_MODE_GLOBAL); break;
    case 1: in_mode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL); break;
    case 2: in_mode(CU_STREAM_CAPTURE_MODE_RELAXED); break;
    case 3: misuse(); break;
    case 4: exchange(); break;
    default: memory_in_capture(); break;
    }
}

static char order[64];
static void mark(void *argument)
{
    size_t length = strlen(order);
    order[length] = (char)(long)argument;
    order[length + 1] = '\0';
}
static void slow_mark(void *argument)
{
    usleep(150000);
    mark(argument);
}

/* a: a slow callback on `slow`; b: a quick one on `quick` just after. */
static void pair(const char *what, CUstream slow, CUstream quick)
{
    order[0] = '\0';
    MUST(cuLaunchHostFunc(slow, slow_mark, (void *)(long)'a'));
    MUST(cuLaunchHostFunc(quick, mark, (void *)(long)'b'));
    MUST(cuCtxSynchronize());
    word(what, order);
}

void stream_order(int part)
{
    CUstream blocking = NULL, free_one = NULL, other = NULL;
    start();
    MUST(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    MUST(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    MUST(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
    if (part == 0) {
        pair("legacy after blocking", blocking, NULL);
        pair("blocking after legacy", NULL, blocking);
        pair("legacy after non-blocking", free_one, NULL);
        pair("non-blocking after legacy", NULL, free_one);
        pair("two blocking", blocking, other);
        pair("one stream", blocking, blocking);
    } else if (part == 1) {
        pair("legacy after per-thread", CU_STREAM_PER_THREAD, CU_STREAM_LEGACY);
        pair("per-thread after legacy", CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
        pair("blocking after per-thread", CU_STREAM_PER_THREAD, blocking);
        pair("per-thread after blocking", blocking, CU_STREAM_PER_THREAD);
        pair("non-blocking after per-thread", CU_STREAM_PER_THREAD, free_one);
        pair("null after legacy", CU_STREAM_LEGACY, NULL);
    } else {
        CUevent event = NULL;
        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        order[0] = '\0';
        MUST(cuLaunchHostFunc(free_one, slow_mark, (void *)(long)'a'));
        MUST(cuEventRecord(event, free_one));
        MUST(cuStreamWaitEvent(other, event, 0));
        MUST(cuLaunchHostFunc(other, mark, (void *)(long)'b'));
        SAY(cuStreamQuery(other));
        MUST(cuCtxSynchronize());
        word("a stream waits for another's event", order);
        SAY(cuStreamQuery(other));
        SAY(cuStreamDestroy(other));
        int least = 0, greatest = 0;
        SAY(cuCtxGetStreamPriorityRange(&least, &greatest));
        state("least urgent", least);
        unsigned flags = 9;
        SAY(cuStreamGetFlags(free_one, &flags));
        state("flags", flags);
        SAY(cuStreamCreate(&other, 77));
        SAY(cuStreamDestroy(NULL));
    }
}

void events(int part)
{
    (void)part;
    CUevent one = NULL, two = NULL, mute = NULL;
    CUstream stream = NULL;
    float ms = -1;
    start();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuEventCreate(&one, CU_EVENT_DEFAULT));
    SAY(cuEventCreate(&two, CU_EVENT_DEFAULT));
    SAY(cuEventCreate(&mute, CU_EVENT_DISABLE_TIMING));
    SAY(cuEventCreate(&mute, 0x80));
    SAY(cuEventQuery(one));
    SAY(cuEventSynchronize(one));
    SAY(cuEventElapsedTime(&ms, one, two));
    SAY(cuEventRecord(one, stream));
    MUST(cuLaunchHostFunc(stream, pause_ms, (void *)100L));
    SAY(cuEventRecord(two, stream));
    SAY(cuEventQuery(two));
    SAY(cuEventElapsedTime(&ms, one, two));
    SAY(cuEventSynchronize(two));
    SAY(cuEventQuery(two));
    SAY(cuEventElapsedTime(&ms, one, two));
    state("about 100 ms", ms > 80 && ms < 200);
    SAY(cuEventRecord(mute, stream));
    MUST(cuStreamSynchronize(stream));
    SAY(cuEventElapsedTime(&ms, one, mute));
    SAY(cuEventDestroy(one));
    SAY(cuEventDestroy(NULL));
    SAY(cuStreamWaitEvent(stream, NULL, 0));
}
