/* Contexts with several holders, contexts that end under another thread, captures beside other threads. */
#include "conform.h"

#include <pthread.h>

static void active(CUdevice device)
{
    unsigned flags = 77;
    int is_active = 77;
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &is_active));
    state("active", is_active);
}

/* A context of the part's own beside the one under test, so that the card can be asked. */
static CUcontext keeper;

static size_t free_now(void)
{
    CUcontext popped = NULL;
    MUST(cuCtxPushCurrent(keeper));
    size_t bytes = free_bytes();
    MUST(cuCtxPopCurrent(&popped));
    return bytes;
}

static void left(const char *what, size_t before)
{
    long long bytes = (long long)before - (long long)free_now();
    state(what, bytes / (long long)(64 * MIB));
}

static void primary_detached(CUdevice device)
{
    CUcontext context = NULL, again = NULL;
    CUdeviceptr block = 0;
    size_t before = free_now();
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&block, 512 * MIB));
    left("64 MiB held, times", before);
    SAY(cuCtxDetach(context));
    active(device);
    SAY(cuCtxDetach(context));
    active(device);
    SAY(cuMemsetD8(block, 1, MIB));
    left("64 MiB held when detached twice, times", before);
    SAY(cuCtxSetCurrent(NULL));
    SAY(cuCtxDetach(context));
    SAY(cuCtxSetCurrent(context));
    SAY(cuCtxAttach(&again, 0));
    state("attached to the same", again == context);
    SAY(cuDevicePrimaryCtxRelease(device));
    active(device);
    left("64 MiB held when released under an attachment, times", before);
    SAY(cuMemAlloc(&block, MIB));
    SAY(cuCtxDetach(context));
    SAY(cuDevicePrimaryCtxRelease(device));
}

static void primary_reset(CUdevice device)
{
    CUcontext context = NULL, current = NULL;
    CUdeviceptr block = 0;
    size_t before = free_now();
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&block, 512 * MIB));
    SAY(cuDevicePrimaryCtxReset(device));
    active(device);
    left("64 MiB held when reset, times", before);
    SAY(cuCtxGetCurrent(&current));
    state("it stays current", current == context);
    SAY(cuMemAlloc(&block, MIB));
    SAY(cuDevicePrimaryCtxRelease(device));
    SAY(cuDevicePrimaryCtxRelease(device));
    active(device);
}

static void created_detached(CUdevice device)
{
    CUcontext context = NULL, again = NULL, current = NULL;
    CUdeviceptr block = 0;
    size_t before = free_now();
    MUST(cuCtxCreate(&context, 0, device));
    MUST(cuMemAlloc(&block, 512 * MIB));
    SAY(cuCtxAttach(&again, 0));
    SAY(cuCtxDetach(context));
    SAY(cuMemAlloc(&block, MIB));
    SAY(cuCtxDetach(context));
    left("64 MiB held when detached as often as attached, times", before);
    SAY(cuCtxGetCurrent(&current));
    state("none of it is current", current != context);
    MUST(cuCtxCreate(&context, 0, device));
    MUST(cuMemAlloc(&block, 512 * MIB));
    SAY(cuCtxAttach(&again, 0));
    SAY(cuCtxDestroy(context));
    left("64 MiB held when destroyed under an attachment, times", before);
}

void holders(int part)
{
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&keeper, 0, device));
    void (*const parts[])(CUdevice) = {primary_detached, primary_reset, created_detached};
    parts[part](device);
}

/* ---- a context ends while it is another thread's ---- */

static CUcontext ending;
static CUfunction empty;
static pthread_barrier_t step;

static void *after_its_end(void *unused)
{
    CUstream stream = NULL;
    CUcontext current = NULL;
    CUdeviceptr block = 0;
    CUevent event = NULL;
    unsigned long long id = 0;
    MUST(cuCtxSetCurrent(ending));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    MUST(cuStreamSynchronize(stream));
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    SAY(cuCtxGetCurrent(&current));
    state("it stays current", current == ending);
    SAY(cuCtxGetId(NULL, &id));
    /* Its own stream and events are freed memory by now: an H200's driver dies of their use. */
    SAY(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuStreamSynchronize(NULL));
    SAY(cuCtxSynchronize());
    SAY(cuEventCreate(&event, 0));
    SAY(cuMemAlloc(&block, MIB));
    return unused;
}

void ended_elsewhere(int part)
{
    pthread_t thread;
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    if (part == 0) {
        MUST(cuCtxCreate(&ending, 0, device));
    } else {
        MUST(cuDevicePrimaryCtxRetain(&ending, device));
        MUST(cuCtxSetCurrent(ending));
    }
    empty = function(load(PTX_HEAD PTX_EMPTY), "empty");
    MUST(cuCtxSetCurrent(NULL));
    pthread_barrier_init(&step, NULL, 2);
    pthread_create(&thread, NULL, after_its_end, NULL);
    pthread_barrier_wait(&step);
    if (part == 0)
        SAY(cuCtxDestroy(ending));
    else
        SAY(cuDevicePrimaryCtxReset(device));
    pthread_barrier_wait(&step);
    pthread_join(thread, NULL);
}

/* ---- what other threads may do while a stream captures ---- */

static CUcontext common;
static CUstream capturing, other_stream;
static CUevent ended[2];

static const struct way {
    const char *name;
    int relaxed; /* the thread has exchanged its mode */
} WAYS[] = {
    {"cuCtxRecordEvent", 0},   {"cuCtxRecordEvent", 1},   {"cuEventRecord", 0},
    {"cuEventQuery", 0},       {"cuEventQuery", 1},       {"cuEventElapsedTime", 0},
    {"cuEventCreate", 0},      {"cuStreamQuery", 0},      {"cuStreamQuery", 1},
    {"cuStreamSynchronize", 0}, {"cuEventSynchronize", 0}, {"cuLaunchKernel", 0},
    {"cuMemAlloc", 0},         {"cuMemAlloc", 1},         {"cuStreamCreate", 0},
};

static void *beside(void *pointer)
{
    const struct way *way = pointer;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult code = CUDA_ERROR_UNKNOWN;
    CUevent event = NULL;
    CUstream stream = NULL;
    CUdeviceptr block = 0;
    float ms = 0;
    MUST(cuCtxSetCurrent(common));
    if (way->relaxed)
        MUST(cuThreadExchangeStreamCaptureMode(&mode));
#define IS(call) (strcmp(way->name, call) == 0)
    if (IS("cuCtxRecordEvent"))
        code = cuCtxRecordEvent(common, ended[0]);
    else if (IS("cuEventRecord"))
        code = cuEventRecord(ended[0], other_stream);
    else if (IS("cuEventQuery"))
        code = cuEventQuery(ended[0]);
    else if (IS("cuEventElapsedTime"))
        code = cuEventElapsedTime(&ms, ended[0], ended[1]);
    else if (IS("cuEventCreate"))
        code = cuEventCreate(&event, 0);
    else if (IS("cuStreamQuery"))
        code = cuStreamQuery(other_stream);
    else if (IS("cuStreamSynchronize"))
        code = cuStreamSynchronize(other_stream);
    else if (IS("cuEventSynchronize"))
        code = cuEventSynchronize(ended[0]);
    else if (IS("cuLaunchKernel"))
        code = cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, other_stream, NULL, NULL);
    else if (IS("cuMemAlloc"))
        code = cuMemAlloc(&block, MIB);
    else if (IS("cuStreamCreate"))
        code = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
#undef IS
    say(way->name, code);
    return NULL;
}

void beside_captures(int part)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    start();
    MUST(cuCtxGetCurrent(&common));
    empty = function(load(PTX_HEAD PTX_EMPTY), "empty");
    MUST(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++)
        MUST(cuEventCreate(&ended[i], 0));
    for (unsigned i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        pthread_t thread;
        CUgraph graph = NULL;
        for (int e = 0; e < 2; e++)
            MUST(cuEventRecord(ended[e], other_stream));
        MUST(cuStreamSynchronize(other_stream));
        MUST(cuStreamBeginCapture(capturing, modes[part]));
        MUST(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, capturing, NULL, NULL));
        pthread_create(&thread, NULL, beside, (void *)&WAYS[i]);
        pthread_join(thread, NULL);
        say(WAYS[i].relaxed ? "ended, it was relaxed" : "ended", cuStreamEndCapture(capturing, &graph));
        if (graph)
            MUST(cuGraphDestroy(graph));
    }
    /* A stream that is destroyed while it captures keeps nobody else from anything. */
    MUST(cuStreamBeginCapture(capturing, modes[part]));
    SAY(cuStreamDestroy(capturing));
    SAY(cuEventQuery(ended[0]));
}
