/* Contexts, their limits, arrays. */
#include "conform.h"

static void primary_states(CUdevice device)
{
    unsigned flags = 77;
    int active = 77;
    CUcontext first = NULL, second = NULL;
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &active));
    state("active", active);
    SAY(cuDevicePrimaryCtxRelease(device));
    SAY(cuDevicePrimaryCtxRetain(&first, device));
    SAY(cuDevicePrimaryCtxRetain(&second, device));
    state("both retains give one context", first == second);
    SAY(cuDevicePrimaryCtxRelease(device));
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &active));
    state("active", active);
    SAY(cuDevicePrimaryCtxRelease(device));
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &active));
    state("active", active);
    SAY(cuDevicePrimaryCtxRelease(device));
    SAY(cuDevicePrimaryCtxReset(device));
    SAY(cuDevicePrimaryCtxRetain(&first, device));
    SAY(cuCtxDestroy(first));
    SAY(cuDevicePrimaryCtxReset(device));
    SAY(cuDevicePrimaryCtxGetState(device, &flags, &active));
    state("active", active);
}

static void stack_of_contexts(CUdevice device)
{
    CUcontext one = NULL, two = NULL, top = NULL;
    CUdevice of = 77;
    SAY(cuCtxPopCurrent(&top));
    SAY(cuCtxGetDevice(&of));
    SAY(cuCtxCreate(&one, 0, device));
    SAY(cuCtxCreate(&two, 0, device));
    SAY(cuCtxGetCurrent(&top));
    state("the newest is current", top == two);
    SAY(cuCtxPopCurrent(&top));
    SAY(cuCtxGetCurrent(&top));
    state("then the one before", top == one);
    SAY(cuCtxPushCurrent(two));
    SAY(cuCtxDestroy(two));
    SAY(cuCtxGetCurrent(&top));
    state("a destroyed context leaves the stack", top == one);
    SAY(cuCtxGetDevice(&of));
    state("device", of);
    SAY(cuCtxSetCurrent(NULL));
    SAY(cuCtxGetCurrent(&top));
    state("none is current", top == NULL);
    SAY(cuCtxPushCurrent(NULL));
    SAY(cuCtxDestroy(NULL));
    SAY(cuCtxDestroy(one));
    SAY(cuCtxCreate(&one, 0xffff, device));
    SAY(cuCtxCreate(&one, 0, 99));
}

static void destroyed_with_blocks(CUdevice device)
{
    CUcontext keeper = NULL, context = NULL;
    CUdeviceptr block = 0, value = 0;
    CUstream stream = NULL;
    MUST(cuDevicePrimaryCtxRetain(&keeper, device));
    MUST(cuCtxSetCurrent(keeper));
    size_t before = free_bytes();
    MUST(cuCtxCreate(&context, 0, device));
    size_t inside = free_bytes();
    MUST(cuMemAlloc(&block, 64 * MIB));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAllocAsync(&value, 8 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    taken("a block of 64 MiB and 8 MiB of the pool", inside);
    SAY(cuCtxDestroy(context));
    MUST(cuCtxSetCurrent(keeper));
    long long left = (long long)before - (long long)free_bytes();
    /* The pool belongs to the device: its memory may outlive the context. */
    state("MiB left after destroy", left / (long long)MIB);
    SAY(cuMemFree(block));
    SAY(cuMemFree(value));
    state("MiB left at the end", ((long long)before - (long long)free_bytes()) / (long long)MIB);
    SAY(cuMemcpyHtoD(block, &left, sizeof left));
}

static void costs(CUdevice device)
{
    CUcontext keeper = NULL, context[2];
    MUST(cuDevicePrimaryCtxRetain(&keeper, device));
    MUST(cuCtxSetCurrent(keeper));
    size_t before = free_bytes();
    MUST(cuCtxCreate(&context[0], 0, device));
    long long first = (long long)before - (long long)free_bytes();
    state("a created context takes about 518 MiB", first / 64 / (long long)MIB == 8);
    MUST(cuCtxCreate(&context[1], 0, device));
    long long both = (long long)before - (long long)free_bytes();
    state("the second takes as much", both == 2 * first);
    SAY(cuCtxDestroy(context[0]));
    SAY(cuCtxDestroy(context[1]));
    MUST(cuCtxSetCurrent(keeper));
    taken("both, destroyed", before);
    unsigned version = 0;
    SAY(cuCtxGetApiVersion(keeper, &version));
    SAY(cuCtxGetApiVersion(context[0], &version));
}

void contexts(int part)
{
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    void (*const parts[])(CUdevice) = {primary_states, stack_of_contexts, destroyed_with_blocks,
                                       costs};
    parts[part](device);
}

void limits(int part)
{
    (void)part;
    start();
    static const struct {
        const char *name;
        CUlimit limit;
    } all[] = {
        {"stack", CU_LIMIT_STACK_SIZE},
        {"printf", CU_LIMIT_PRINTF_FIFO_SIZE},
        {"heap", CU_LIMIT_MALLOC_HEAP_SIZE},
        {"sync depth", CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH},
        {"pending launches", CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT},
        {"none such", (CUlimit)1000},
    };
    size_t value, before = free_bytes();
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        value = 0;
        if (say(all[i].name, cuCtxGetLimit(&value, all[i].limit)) == CUDA_SUCCESS)
            state("value", (long long)value);
    }
    SAY(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 256 * MIB));
    SAY(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    state("heap", (long long)value);
    taken("a heap of 256 MiB, not used", before);
    SAY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    SAY(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    state("stack", (long long)value);
    taken("a stack of 4 KiB", before);
    SAY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    taken("a stack of 1 KiB", before);
    SAY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1ULL << 40));
    SAY(cuCtxSetLimit((CUlimit)1000, 1));
}

static void array(const char *what, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    CUarray array = NULL;
    size_t before = free_bytes();
    if (say(what, cuArray3DCreate(&array, shape)) != CUDA_SUCCESS)
        return;
    taken(what, before);
    CUDA_ARRAY3D_DESCRIPTOR answer;
    SAY(cuArray3DGetDescriptor(&answer, array));
    state("width", (long long)answer.Width);
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    SAY(cuArrayGetMemoryRequirements(&needs, array, 0));
    SAY(cuArrayDestroy(array));
    taken("it destroyed", before);
}

void arrays(int part)
{
    (void)part;
    start();
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1};
    array("16 x 16 floats", &shape);
    shape.Width = shape.Height = 1024;
    shape.NumChannels = 4;
    array("1024 x 1024 four floats", &shape);
    shape.Width = 4097;
    shape.Height = 33;
    shape.NumChannels = 2;
    array("4097 x 33 two floats", &shape);
    shape.Width = shape.Height = shape.Depth = 256;
    shape.NumChannels = 1;
    array("256 cubed", &shape);
    shape.Depth = 0;
    shape.Height = 0;
    shape.Width = 1000;
    array("1000 in a row", &shape);
    shape.NumChannels = 3;
    array("three channels", &shape);
    shape.NumChannels = 1;
    shape.Width = 0;
    array("no width", &shape);
    shape.Width = 1ULL << 40;
    array("too wide", &shape);

    CUmipmappedArray pyramid = NULL;
    CUarray level = NULL;
    CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 256, .Height = 256, .Depth = 256,
                                    .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    size_t before = free_bytes();
    SAY(cuMipmappedArrayCreate(&pyramid, &cube, 5));
    taken("five levels of 256 cubed", before);
    SAY(cuMipmappedArrayGetLevel(&level, pyramid, 4));
    SAY(cuMipmappedArrayGetLevel(&level, pyramid, 5));
    SAY(cuMipmappedArrayDestroy(pyramid));
    taken("them destroyed", before);
}
