/* link: cuda */
/* Programs of many threads: launches on their own streams, on one, on each thread's default stream and
 * on the common one; captures that begin while others launch; contexts that end while others launch. */
#include "scenario.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST = 16, KERNEL_NS = 20 * 1000, QUEUE = 8 };

CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void **, void **);
CUresult cuStreamSynchronize_ptsz(CUstream);

static CUcontext context;
static CUfunction work;
static CUdeviceptr counter;
static CUstream streams[MOST + 2];
static const char *kind;
static int count;
static atomic_int stopped;

static CUstream stream_of(int thread)
{
    return strcmp(kind, "own") == 0      ? streams[thread]
           : strcmp(kind, "asleep") == 0 ? streams[thread]
           : strcmp(kind, "shared") == 0 ? streams[0]
           : strcmp(kind, "handle") == 0 ? CU_STREAM_PER_THREAD
                                         : NULL;
}

static CUresult kernel(int thread, unsigned long long ns)
{
    unsigned long long at = counter;
    void *params[] = {&at, &ns};
    int own = strcmp(kind, "per_thread") == 0;
    return (own ? cuLaunchKernel_ptsz : cuLaunchKernel)(work, 1, 1, 1, 32, 1, 1, 0, stream_of(thread),
                                                        params, NULL);
}

static CUresult wait_for(int thread)
{
    if (strcmp(kind, "per_thread") == 0)
        return cuStreamSynchronize_ptsz(NULL);
    if (strcmp(kind, "asleep") == 0)
        return cuCtxSynchronize();
    return cuStreamSynchronize(stream_of(thread));
}

static void ready(void)
{
    OK(cuInit(0));
    /* Who waits sleeps in the driver. */
    if (strcmp(kind, "asleep") == 0)
        OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
    CUdevice device = start();
    OK(cuCtxGetCurrent(&context));
    (void)device;
    work = obtain(PTX_HEAD PTX_WORK, "share_work");
    OK(cuMemAlloc(&counter, 8));
    OK(cuMemsetD8(counter, 0, 8));
    /* Streams that do not block go before the default one's fill. */
    OK(cuCtxSynchronize());
    for (int i = 0; i < MOST + 2; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

/* Of a thread's launches each third is waited for, and then eight are queued; lengths vary. */
static void *launches_of(void *number)
{
    int thread = (int)(long)number;
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < count; i++) {
        OK(kernel(thread, KERNEL_NS * (1 + (i + thread) % 3)));
        if (i % 3 == 0 || i % QUEUE == 0)
            OK(wait_for(thread));
    }
    OK(wait_for(thread));
    return NULL;
}

static void run(int threads, void *(*body)(void *))
{
    pthread_t started[MOST];
    CHECK(threads <= MOST);
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&started[i], NULL, body, (void *)i) == 0);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_join(started[i], NULL) == 0);
}

/* Every launch of every thread is done, once. */
static void launches(int threads)
{
    unsigned long long done = 0;
    ready();
    run(threads, launches_of);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&done, counter, 8));
    EQUAL(done, (unsigned long long)threads * count);
}

/* Launches on two streams in turn until it is over: what is marked is the whole context's work. */
static void *until_stopped(void *number)
{
    int thread = (int)(long)number;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuCtxSetCurrent(context));
    /* As a program does that captures elsewhere in the global mode. */
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    for (int i = 0; !stopped; i++) {
        unsigned long long at = 0, ns = KERNEL_NS;
        void *params[] = {&at, &ns};
        OK(cuLaunchKernel(work, 1, 1, 1, 32, 1, 1, 0, streams[1 + (thread + i) % 4], params, NULL));
        if (i % 16 == 0)
            OK(cuStreamSynchronize(streams[1 + (thread + i) % 4]));
    }
    return NULL;
}

/* No capture meets anything of the other threads' that it must not. */
static void captures(int threads)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    pthread_t started[MOST];
    ready();
    kind = "own";
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&started[i], NULL, until_stopped, (void *)i) == 0);
    for (int i = 0; i < count; i++) {
        CUgraph graph;
        CUgraphExec exec;
        /* Some begin a moment after the last ended, some beside a mark that takes two milliseconds. */
        usleep(i % 4 * 700);
        OK(cuStreamBeginCapture(streams[0], modes[i % 3]));
        for (int k = 0; k < 3; k++) {
            unsigned long long at = counter, ns = KERNEL_NS;
            void *params[] = {&at, &ns};
            OK(cuLaunchKernel(work, 1, 1, 1, 32, 1, 1, 0, streams[0], params, NULL));
        }
        usleep(i % 4 * 1000);
        OK(cuStreamEndCapture(streams[0], &graph));
        if (i % 8 == 0) {
            OK(cuGraphInstantiate(&exec, graph, 0));
            OK(cuGraphLaunch(exec, streams[0]));
            OK(cuStreamSynchronize(streams[0]));
            OK(cuGraphExecDestroy(exec));
        }
        OK(cuGraphDestroy(graph));
    }
    stopped = 1;
    for (int i = 0; i < threads; i++)
        CHECK(pthread_join(started[i], NULL) == 0);
}

static atomic_int launched;

/* Launches until the context is gone, which is an error, and stays one. Only on default streams, which are
 * found by the current context: a stream of a context that is gone is freed memory to a real driver. */
static void *until_gone(void *number)
{
    CUresult code;
    (void)number;
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return NULL;
    for (int i = 0;; i++) {
        unsigned long long at = 0, ns = KERNEL_NS;
        void *params[] = {&at, &ns};
        code = (i % 2 ? cuLaunchKernel_ptsz : cuLaunchKernel)(work, 1, 1, 1, 32, 1, 1, 0, NULL, params,
                                                              NULL);
        if (code == CUDA_SUCCESS && i % 4 == 0)
            code = cuStreamSynchronize_ptsz(NULL);
        if (code != CUDA_SUCCESS)
            break;
        launched++;
    }
    CHECK(code == CUDA_ERROR_CONTEXT_IS_DESTROYED || code == CUDA_ERROR_INVALID_CONTEXT ||
          code == CUDA_ERROR_INVALID_HANDLE);
    return NULL;
}

static void launched_some(int more)
{
    int from = launched;
    while (launched - from < more)
        usleep(200);
}

/* Contexts end while threads launch in them: an error for those, and nothing for who comes after. */
static void contexts_end(int threads)
{
    pthread_t started[MOST];
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    for (int round = 0; round < count; round++) {
        int primary = round % 3 == 2;
        if (primary) {
            OK(cuDevicePrimaryCtxRetain(&context, device));
            OK(cuCtxSetCurrent(context));
        } else {
            OK(cuCtxCreate(&context, 0, device));
        }
        work = obtain(PTX_HEAD PTX_WORK, "share_work");
        OK(cuCtxSetCurrent(NULL));
        for (long i = 0; i < threads; i++)
            CHECK(pthread_create(&started[i], NULL, until_gone, (void *)i) == 0);
        launched_some(10 * threads);
        if (primary && round % 2 == 0)
            OK(cuDevicePrimaryCtxReset(device));
        if (primary)
            OK(cuDevicePrimaryCtxRelease(device));
        else
            OK(cuCtxDestroy(context));
        for (int i = 0; i < threads; i++)
            CHECK(pthread_join(started[i], NULL) == 0);
    }
}

/* WHAT THREADS [STREAMS] COUNT */
int main(int arguments, char **argument)
{
    CHECK(arguments == 5);
    int threads = atoi(argument[2]);
    kind = argument[3];
    count = atoi(argument[4]);
    if (strcmp(argument[1], "launches") == 0)
        launches(threads);
    else if (strcmp(argument[1], "captures") == 0)
        captures(threads);
    else if (strcmp(argument[1], "contexts_end") == 0)
        contexts_end(threads);
    else
        return 2;
    return 0;
}
