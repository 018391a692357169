/* Freeing under load, sticky errors, fork, and calls out of host callbacks. */
#include "conform.h"

/* How often a call is tried before it counts as one that waits. */
enum { ATTEMPTS = 3 };

/* Whether `call` returns only after the 300 ms of work queued before it. A call that waits does so
 * each time, since the time is taken before the work is queued. One that does not may still come back
 * late on a busy host, so a late one is tried anew; `anew` makes what the call has used up. */
#define BEHIND(queue, call, anew)                                                                  \
    do {                                                                                           \
        CUresult code = CUDA_SUCCESS;                                                              \
        int late = 1;                                                                              \
        for (int attempt = 0; late && attempt < ATTEMPTS; attempt++) {                             \
            if (attempt > 0) {                                                                     \
                anew;                                                                              \
            }                                                                                      \
            MUST(cuCtxSynchronize());                                                              \
            double since = now_ms();                                                               \
            MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, queue, arguments, NULL));               \
            code = call;                                                                           \
            late = now_ms() - since > 250;                                                         \
        }                                                                                          \
        say(#call, code);                                                                          \
        state("waited for the queue", late);                                                       \
    } while (0)
#define NOTHING (void)0

void busy(int part)
{
    CUdevice device = start();
    CUfunction spin = function(load(PTX_HEAD PTX_SPIN), "spin_ns");
    unsigned long long ns = 300000000ULL;
    void *arguments[] = {&ns};
    CUstream stream = NULL;
    CUdeviceptr block = 0, small = 0;
    char host[64];
    (void)device;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&block, 64 * MIB));
    if (part == 0) {
        BEHIND(stream, cuMemAlloc(&small, 4 * MIB), MUST(cuMemFree(small)));
        BEHIND(stream, cuMemFree(small), MUST(cuMemAlloc(&small, 4 * MIB)));
        BEHIND(stream, cuMemFree(block), MUST(cuMemAlloc(&block, 64 * MIB)));
        BEHIND(stream, cuMemAllocAsync(&block, MIB, stream), MUST(cuMemFreeAsync(block, stream)));
        BEHIND(stream, cuMemFreeAsync(block, stream), MUST(cuMemAllocAsync(&block, MIB, stream)));
        BEHIND(stream, cuStreamQuery(stream), NOTHING);
        BEHIND(stream, cuStreamSynchronize(stream), NOTHING);
        BEHIND(stream, cuStreamSynchronize(NULL), NOTHING);
        BEHIND(stream, cuCtxSynchronize(), NOTHING);
        return;
    }
    MUST(cuMemAlloc(&small, 4096));
    BEHIND(stream, cuMemcpyDtoH(host, small, sizeof host), NOTHING);
    BEHIND(NULL, cuMemcpyDtoH(host, small, sizeof host), NOTHING);
    BEHIND(stream, cuMemsetD8(small, 0, 64), NOTHING);
    BEHIND(stream, cuLaunchHostFunc(stream, pause_ms, NULL), NOTHING);
    BEHIND(stream, cuStreamDestroy(stream), MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmodule module = load(PTX_HEAD PTX_EMPTY);
    BEHIND(stream, cuModuleUnload(module), module = load(PTX_HEAD PTX_EMPTY));
    CUarray array = NULL;
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1};
    MUST(cuArray3DCreate(&array, &shape));
    BEHIND(stream, cuArrayDestroy(array), MUST(cuArray3DCreate(&array, &shape)));
    CUevent event = NULL;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    BEHIND(stream, cuEventRecord(event, stream), NOTHING);
    BEHIND(stream, cuEventSynchronize(event), NOTHING);
}

static void after_fault(CUdevice device, CUdeviceptr block, CUcontext context)
{
    CUdeviceptr other = 0;
    CUstream stream = NULL;
    CUcontext fresh = NULL;
    size_t free = 0, total = 0;
    int value = 0;
    unsigned flags = 0;
    SAY(cuCtxSynchronize());
    SAY(cuCtxSynchronize());
    SAY(cuMemAlloc(&other, 4096));
    SAY(cuMemFree(block));
    SAY(cuMemGetInfo(&free, &total));
    SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuStreamSynchronize(NULL));
    SAY(cuCtxSetCurrent(context));
    SAY(cuDeviceGetCount(&value));
    SAY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &value));
    SAY(cuCtxCreate(&fresh, 0, device));
    SAY(cuDevicePrimaryCtxReset(device));
    SAY(cuDevicePrimaryCtxRetain(&fresh, device));
    SAY(cuCtxSetCurrent(fresh));
    SAY(cuMemAlloc(&other, 4096));
}

void sticky(int part)
{
    CUdevice device = start();
    CUcontext context = NULL;
    CUdeviceptr block = 0, nowhere = 0x10;
    unsigned value = 1, count = 1;
    void *arguments[] = {&nowhere, &value, &count};
    MUST(cuCtxGetCurrent(&context));
    MUST(cuMemAlloc(&block, 4096));
    if (part == 0) {
        CUfunction kernel = function(load(PTX_HEAD PTX_FILL32), "fill32");
        SAY(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
        after_fault(device, block, context);
    } else if (part == 1) {
        CUfunction kernel = function(load(PTX_HEAD PTX_TRAP), "trap_now");
        SAY(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        after_fault(device, block, context);
    } else {
        /* A refused call is not sticky. */
        SAY(cuMemAlloc(&block, 1ULL << 60));
        SAY(cuCtxSynchronize());
        SAY(cuMemAlloc(&block, 4096));
    }
}

void forked(int part)
{
    if (part == 1) {
        /* Nothing was started before the fork: the child is a program like any other. */
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            CUdeviceptr block = 0;
            start();
            SAY(cuMemAlloc(&block, 4096));
            exit(0);
        }
        waitpid(child, NULL, 0);
        start();
        word("parent", "works too");
        return;
    }
    CUdevice device = start();
    CUdeviceptr block = 0;
    MUST(cuMemAlloc(&block, 4096));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int count = 0;
        size_t free = 0, total = 0;
        CUcontext context = NULL;
        CUdeviceptr other = 0;
        SAY(cuInit(0));
        SAY(cuDeviceGetCount(&count));
        SAY(cuDeviceGet(&device, 0));
        SAY(cuMemAlloc(&other, 4096));
        SAY(cuMemFree(block));
        SAY(cuMemGetInfo(&free, &total));
        SAY(cuCtxGetCurrent(&context));
        SAY(cuCtxCreate(&context, 0, device));
        SAY(cuDeviceTotalMem(&total, device));
        int version = 0;
        SAY(cuDriverGetVersion(&version));
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    state("child's status", status);
    SAY(cuMemFree(block));
    SAY(cuCtxSynchronize());
}

static void CUDA_CB many_calls(void *argument)
{
    CUdeviceptr block = 0;
    CUcontext context = NULL;
    size_t free = 0, total = 0;
    CUstream stream = (CUstream)argument;
    SAY(cuMemAlloc(&block, 4096));
    SAY(cuMemFree(0x1000));
    SAY(cuMemAllocAsync(&block, 4096, stream));
    SAY(cuMemGetInfo(&free, &total));
    SAY(cuCtxGetCurrent(&context));
    SAY(cuCtxSynchronize());
}

static void CUDA_CB old_style(CUstream stream, CUresult status, void *argument)
{
    (void)stream;
    say("status given", status);
    many_calls(argument);
}

void callbacks(int part)
{
    CUstream stream = NULL;
    start();
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (part == 0)
        SAY(cuLaunchHostFunc(stream, many_calls, stream));
    else
        SAY(cuStreamAddCallback(stream, old_style, stream, 0));
    usleep(200000);
    MUST(cuStreamSynchronize(stream));
}
