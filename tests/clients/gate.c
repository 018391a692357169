/* link: cuda dl */
/* Every way to give the device work, and what may come between, one call at a time.
 *
 * Before each call it waits for a line on its standard input, so that the test can change the tenant's
 * share in between. It says "calling NAME" before a call and "did NAME" behind it. */
#include "scenario.h"

#include <dlfcn.h>
#include <pthread.h>

/* `entry` as a function of these arguments, and as the header declares it. */
#define TO(...) ((CUresult(*)(__VA_ARGS__))entry)
#define LIKE(name) ((__typeof__(&name))entry)

enum { BYTES = 4096, MS = 1000 * 1000 };

/* One call by the name the program asks for. */
struct call {
    const char *name;
    CUresult (*make)(void *entry);
};

static CUstream stream, other;
static CUfunction empty, work;
static CUdeviceptr to, from, flag;
static unsigned low; /* a device address of 32 bits, where there is one */
static CUarray array, second;
static CUgraphExec graph;
static CUevent event;
static void *host;

static void kernel(CUstream on, unsigned threads, unsigned long long iterations)
{
    unsigned long long counter = 0;
    void *params[] = {&counter, &iterations};
    OK(cuLaunchKernel(work, 1, 1, 1, threads, 1, 1, 0, on, params, NULL));
}

static void *named(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL)
        fprintf(stderr, "the driver has no %s\n", name);
    CHECK(found != NULL);
    return found;
}

static void ready(void)
{
    CUDA_ARRAY_DESCRIPTOR shape = {64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUgraph made;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    empty = obtain(PTX_HEAD PTX_EMPTY, "empty");
    work = obtain(PTX_HEAD PTX_WORK, "share_work");
    OK(cuMemAlloc(&to, MIB));
    OK(cuMemAlloc(&from, MIB));
    OK(cuMemAlloc(&flag, 4096));
    OK(cuMemsetD8(to, 0, MIB));
    OK(cuMemsetD8(from, 0, MIB));
    OK(cuMemsetD8(flag, 0, 4096));
    (void)((CUresult(*)(unsigned *, unsigned))named("cuMemAlloc"))(&low, MIB);
    OK(cuArrayCreate(&array, &shape));
    OK(cuArrayCreate(&second, &shape));
    OK(cuMemHostAlloc(&host, 64 * MIB, 0));
    memset(host, 0, 64 * MIB);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuStreamEndCapture(stream, &made));
    OK(cuGraphInstantiate(&graph, made, 0));
    ((CUresult(*)(CUfunction, int, int, int))named("cuFuncSetBlockShape"))(empty, 1, 1, 1);
    OK(cuCtxSynchronize());
    printf("ready\n");
}

/* Waits for the test; ends the program when it has nothing more to say. Whether it is to go on. */
static int await_line(void)
{
    char line[64];
    if (fgets(line, sizeof line, stdin) == NULL)
        exit(0);
    return strcmp(line, "go\n") == 0;
}

static void offer(const struct call *calls)
{
    for (; calls->name != NULL; calls++) {
        await_line();
        void *entry = named(calls->name);
        printf("calling %s\n", calls->name);
        calls->make(entry);
        printf("did %s\n", calls->name);
    }
    OK(cuCtxSynchronize());
    printf("end\n");
}

/* ---- kernels and graphs ---- */

static CUresult launch(void *entry)
{
    return LIKE(cuLaunchKernel)(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static CUresult launch_ex(void *entry)
{
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    return LIKE(cuLaunchKernelEx)(&config, empty, NULL, NULL);
}

static CUresult launch_cooperative(void *entry)
{
    return LIKE(cuLaunchCooperativeKernel)(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL);
}

static CUresult launch_many(void *entry)
{
    CUDA_LAUNCH_PARAMS params = {empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL};
    return TO(CUDA_LAUNCH_PARAMS *, unsigned, unsigned)(&params, 1, 0);
}

static CUresult launch_first(void *entry) { return TO(CUfunction)(empty); }
static CUresult launch_grid(void *entry) { return TO(CUfunction, int, int)(empty, 1, 1); }

static CUresult launch_grid_queued(void *entry)
{
    return TO(CUfunction, int, int, CUstream)(empty, 1, 1, stream);
}

static CUresult launch_graph(void *entry) { return LIKE(cuGraphLaunch)(graph, stream); }

static CUresult decompress(void *entry)
{
    CUmemDecompressParams params = {0};
    return LIKE(cuMemBatchDecompressAsync)(&params, 1, 0, NULL, stream);
}

static const struct call LAUNCHES[] = {
    {"cuLaunchKernel", launch},
    {"cuLaunchKernel_ptsz", launch},
    {"cuLaunchKernelEx", launch_ex},
    {"cuLaunchKernelEx_ptsz", launch_ex},
    {"cuLaunchCooperativeKernel", launch_cooperative},
    {"cuLaunchCooperativeKernel_ptsz", launch_cooperative},
    {"cuLaunchCooperativeKernelMultiDevice", launch_many},
    {"cuLaunch", launch_first},
    {"cuLaunchGrid", launch_grid},
    {"cuLaunchGridAsync", launch_grid_queued},
    {"cuGraphLaunch", launch_graph},
    {"cuGraphLaunch_ptsz", launch_graph},
    {NULL, NULL},
};

static const struct call UNPACKING[] = {
    {"cuMemBatchDecompressAsync", decompress},
    {"cuMemBatchDecompressAsync_ptsz", decompress},
    {NULL, NULL},
};

/* ---- fills ---- */

#define FILLS(bits, type)                                                                          \
    static CUresult fill##bits##_first(void *entry)                                                \
    {                                                                                              \
        return TO(unsigned, type, unsigned)(low, 7, 64);                                           \
    }                                                                                              \
    static CUresult fill##bits(void *entry) { return LIKE(cuMemsetD##bits)(to, 7, 64); }           \
    static CUresult fill##bits##_queued(void *entry)                                               \
    {                                                                                              \
        return LIKE(cuMemsetD##bits##Async)(to, 7, 64, stream);                                    \
    }                                                                                              \
    static CUresult rows##bits##_first(void *entry)                                                \
    {                                                                                              \
        return TO(unsigned, unsigned, type, unsigned, unsigned)(low, 512, 7, 16, 4);               \
    }                                                                                              \
    static CUresult rows##bits(void *entry) { return LIKE(cuMemsetD2D##bits)(to, 512, 7, 16, 4); } \
    static CUresult rows##bits##_queued(void *entry)                                               \
    {                                                                                              \
        return LIKE(cuMemsetD2D##bits##Async)(to, 512, 7, 16, 4, stream);                          \
    }
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

#define NAMED_FILLS(bits)                                                                          \
    {"cuMemsetD" #bits, fill##bits##_first}, {"cuMemsetD" #bits "_v2", fill##bits},                \
        {"cuMemsetD" #bits "_v2_ptds", fill##bits},                                                \
        {"cuMemsetD" #bits "Async", fill##bits##_queued},                                          \
        {"cuMemsetD" #bits "Async_ptsz", fill##bits##_queued},                                     \
        {"cuMemsetD2D" #bits, rows##bits##_first}, {"cuMemsetD2D" #bits "_v2", rows##bits},        \
        {"cuMemsetD2D" #bits "_v2_ptds", rows##bits},                                              \
        {"cuMemsetD2D" #bits "Async", rows##bits##_queued},                                        \
        {"cuMemsetD2D" #bits "Async_ptsz", rows##bits##_queued}

static const struct call FILLINGS[] = {NAMED_FILLS(8), NAMED_FILLS(16), NAMED_FILLS(32), {NULL, NULL}};

/* ---- copies within the device ---- */

static CUresult within_first(void *entry)
{
    return TO(unsigned, unsigned, unsigned)(low, low + BYTES, BYTES);
}
static CUresult within(void *entry) { return LIKE(cuMemcpyDtoD)(to, from, BYTES); }
static CUresult within_queued_first(void *entry)
{
    return TO(unsigned, unsigned, unsigned, CUstream)(low, low + BYTES, BYTES, stream);
}
static CUresult within_queued(void *entry)
{
    return LIKE(cuMemcpyDtoDAsync)(to, from, BYTES, stream);
}
static CUresult into_array_first(void *entry)
{
    return TO(CUarray, unsigned, unsigned, unsigned)(array, 0, low, 64);
}
static CUresult into_array(void *entry) { return LIKE(cuMemcpyDtoA)(array, 0, from, 64); }
static CUresult from_array_first(void *entry)
{
    return TO(unsigned, CUarray, unsigned, unsigned)(low, array, 0, 64);
}
static CUresult from_array(void *entry) { return LIKE(cuMemcpyAtoD)(to, array, 0, 64); }
static CUresult arrays_first(void *entry)
{
    return TO(CUarray, unsigned, CUarray, unsigned, unsigned)(array, 0, second, 0, 64);
}
static CUresult arrays(void *entry) { return LIKE(cuMemcpyAtoA)(array, 0, second, 0, 64); }

static CUDA_MEMCPY2D flat(void)
{
    CUDA_MEMCPY2D what = {0};
    what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    what.srcDevice = from;
    what.dstDevice = to;
    what.srcPitch = what.dstPitch = 512;
    what.WidthInBytes = 64;
    what.Height = 4;
    return what;
}
static CUresult rectangle(void *entry)
{
    CUDA_MEMCPY2D what = flat();
    return LIKE(cuMemcpy2D)(&what);
}
static CUresult rectangle_queued(void *entry)
{
    CUDA_MEMCPY2D what = flat();
    return LIKE(cuMemcpy2DAsync)(&what, stream);
}
static CUDA_MEMCPY3D deep(void)
{
    CUDA_MEMCPY3D what = {0};
    what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    what.srcDevice = from;
    what.dstDevice = to;
    what.srcPitch = what.dstPitch = 512;
    what.srcHeight = what.dstHeight = 4;
    what.WidthInBytes = 64;
    what.Height = 4;
    what.Depth = 2;
    return what;
}
static CUresult cuboid(void *entry)
{
    CUDA_MEMCPY3D what = deep();
    return LIKE(cuMemcpy3D)(&what);
}
static CUresult cuboid_queued(void *entry)
{
    CUDA_MEMCPY3D what = deep();
    return LIKE(cuMemcpy3DAsync)(&what, stream);
}
static CUresult anywhere(void *entry) { return LIKE(cuMemcpy)(to, from, BYTES); }
static CUresult anywhere_queued(void *entry) { return LIKE(cuMemcpyAsync)(to, from, BYTES, stream); }

static const struct call COPIES[] = {
    {"cuMemcpyDtoD", within_first},
    {"cuMemcpyDtoD_v2", within},
    {"cuMemcpyDtoD_v2_ptds", within},
    {"cuMemcpyDtoDAsync", within_queued_first},
    {"cuMemcpyDtoDAsync_v2", within_queued},
    {"cuMemcpyDtoDAsync_v2_ptsz", within_queued},
    {"cuMemcpyDtoA", into_array_first},
    {"cuMemcpyDtoA_v2", into_array},
    {"cuMemcpyDtoA_v2_ptds", into_array},
    {"cuMemcpyAtoD", from_array_first},
    {"cuMemcpyAtoD_v2", from_array},
    {"cuMemcpyAtoD_v2_ptds", from_array},
    {"cuMemcpyAtoA", arrays_first},
    {"cuMemcpyAtoA_v2", arrays},
    {"cuMemcpyAtoA_v2_ptds", arrays},
    {"cuMemcpy2D_v2", rectangle},
    {"cuMemcpy2D_v2_ptds", rectangle},
    {"cuMemcpy2DUnaligned_v2", rectangle},
    {"cuMemcpy2DUnaligned_v2_ptds", rectangle},
    {"cuMemcpy2DAsync_v2", rectangle_queued},
    {"cuMemcpy2DAsync_v2_ptsz", rectangle_queued},
    {"cuMemcpy3D_v2", cuboid},
    {"cuMemcpy3D_v2_ptds", cuboid},
    {"cuMemcpy3DAsync_v2", cuboid_queued},
    {"cuMemcpy3DAsync_v2_ptsz", cuboid_queued},
    {"cuMemcpy", anywhere},
    {"cuMemcpy_ptds", anywhere},
    {"cuMemcpyAsync", anywhere_queued},
    {"cuMemcpyAsync_ptsz", anywhere_queued},
    {NULL, NULL},
};

/* ---- what is no work: copies from and to the host, waits, host functions ---- */

static void CUDA_CB nothing(void *data) { (void)data; }

static CUresult in_first(void *entry)
{
    return TO(unsigned, const void *, unsigned)(low, host, BYTES);
}
static CUresult in(void *entry) { return LIKE(cuMemcpyHtoD)(to, host, BYTES); }
static CUresult in_queued_first(void *entry)
{
    return TO(unsigned, const void *, unsigned, CUstream)(low, host, BYTES, other);
}
static CUresult in_queued(void *entry) { return LIKE(cuMemcpyHtoDAsync)(to, host, BYTES, other); }
static CUresult out_first(void *entry)
{
    return TO(void *, unsigned, unsigned)(host, low, BYTES);
}
static CUresult out(void *entry) { return LIKE(cuMemcpyDtoH)(host, to, BYTES); }
static CUresult out_queued_first(void *entry)
{
    return TO(void *, unsigned, unsigned, CUstream)(host, low, BYTES, other);
}
static CUresult out_queued(void *entry) { return LIKE(cuMemcpyDtoHAsync)(host, to, BYTES, other); }
static CUresult array_in_first(void *entry)
{
    return TO(CUarray, unsigned, const void *, unsigned)(array, 0, host, 64);
}
static CUresult array_in(void *entry) { return LIKE(cuMemcpyHtoA)(array, 0, host, 64); }
static CUresult array_in_queued_first(void *entry)
{
    return TO(CUarray, unsigned, const void *, unsigned, CUstream)(array, 0, host, 64, other);
}
static CUresult array_in_queued(void *entry)
{
    return LIKE(cuMemcpyHtoAAsync)(array, 0, host, 64, other);
}
static CUresult array_out_first(void *entry)
{
    return TO(void *, CUarray, unsigned, unsigned)(host, array, 0, 64);
}
static CUresult array_out(void *entry) { return LIKE(cuMemcpyAtoH)(host, array, 0, 64); }
static CUresult array_out_queued_first(void *entry)
{
    return TO(void *, CUarray, unsigned, unsigned, CUstream)(host, array, 0, 64, other);
}
static CUresult array_out_queued(void *entry)
{
    return LIKE(cuMemcpyAtoHAsync)(host, array, 0, 64, other);
}

/* Shapes of no bytes: what they end does not depend on what they move. */
static unsigned char no_shape[1024];

static CUresult shape(void *entry) { return TO(const void *)(no_shape); }
static CUresult shape_queued(void *entry) { return TO(const void *, CUstream)(no_shape, other); }
static CUresult host_function(void *entry) { return LIKE(cuLaunchHostFunc)(other, nothing, NULL); }
static CUresult await_event(void *entry) { return LIKE(cuStreamWaitEvent)(other, event, 0); }

/* Of no bytes: within one device it would wait for the kernel. */
static CUresult peer(void *entry)
{
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    return LIKE(cuMemcpyPeer)(to, context, from, context, 0);
}
static CUresult peer_queued(void *entry)
{
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    return LIKE(cuMemcpyPeerAsync)(to, context, from, context, BYTES, other);
}
static CUresult batch(void *entry)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t bytes = BYTES, first = 0, failed = 0;
    return TO(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
              size_t *, CUstream)(&to, &from, &bytes, 1, &attributes, &first, 1, &failed, other);
}
static CUresult batch_second(void *entry)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t bytes = BYTES, first = 0;
    return TO(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
              CUstream)(&to, &from, &bytes, 1, &attributes, &first, 1, other);
}
static CUresult cuboids(void *entry)
{
    size_t failed = 0;
    return TO(size_t, void *, size_t *, unsigned long long, CUstream)(1, no_shape, &failed, 0, other);
}
static CUresult cuboids_second(void *entry)
{
    return TO(size_t, void *, unsigned long long, CUstream)(1, no_shape, 0, other);
}
static CUresult value32(void *entry) { return LIKE(cuStreamWriteValue32)(other, flag, 0, 0); }
static CUresult value64(void *entry) { return LIKE(cuStreamWriteValue64)(other, flag + 8, 0, 0); }
static CUresult operations(void *entry)
{
    CUstreamBatchMemOpParams params = {0};
    params.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    params.waitValue.address = flag;
    return TO(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned)(other, 1, &params, 0);
}

static const struct call BETWEEN_COPIES[] = {
    {"cuMemcpyHtoD", in_first},
    {"cuMemcpyHtoD_v2", in},
    {"cuMemcpyHtoDAsync", in_queued_first},
    {"cuMemcpyHtoDAsync_v2", in_queued},
    {"cuMemcpyDtoH", out_first},
    {"cuMemcpyDtoH_v2", out},
    {"cuMemcpyDtoHAsync", out_queued_first},
    {"cuMemcpyDtoHAsync_v2", out_queued},
    {"cuMemcpyPeer", peer},
    {"cuMemcpyPeerAsync", peer_queued},
    {"cuMemcpyBatchAsync", batch},
    {"cuMemcpyBatchAsync_v2", batch_second},
    {NULL, NULL},
};

static const struct call BETWEEN_SHAPES[] = {
    {"cuMemcpyHtoA", array_in_first},
    {"cuMemcpyHtoA_v2", array_in},
    {"cuMemcpyHtoAAsync", array_in_queued_first},
    {"cuMemcpyHtoAAsync_v2", array_in_queued},
    {"cuMemcpyAtoH", array_out_first},
    {"cuMemcpyAtoH_v2", array_out},
    {"cuMemcpyAtoHAsync", array_out_queued_first},
    {"cuMemcpyAtoHAsync_v2", array_out_queued},
    {"cuMemcpy2D", shape},
    {"cuMemcpy2DUnaligned", shape},
    {"cuMemcpy2DAsync", shape_queued},
    {"cuMemcpy3D", shape},
    {"cuMemcpy3DAsync", shape_queued},
    {"cuMemcpy3DPeer", shape},
    {"cuMemcpy3DPeerAsync", shape_queued},
    {"cuMemcpy3DBatchAsync", cuboids},
    {"cuMemcpy3DBatchAsync_v2", cuboids_second},
    {NULL, NULL},
};

static const struct call BETWEEN_WAITS[] = {
    {"cuLaunchHostFunc", host_function},
    {"cuStreamWaitEvent", await_event},
    {"cuStreamWaitValue32", value32},
    {"cuStreamWaitValue32_v2", value32},
    {"cuStreamWaitValue64", value64},
    {"cuStreamWaitValue64_v2", value64},
    {"cuStreamWriteValue32", value32},
    {"cuStreamWriteValue32_v2", value32},
    {"cuStreamWriteValue64", value64},
    {"cuStreamWriteValue64_v2", value64},
    {"cuStreamBatchMemOp", operations},
    {"cuStreamBatchMemOp_v2", operations},
    {NULL, NULL},
};

/* Kernels learnt to take SHORT; then one of them, the call, and one of LONG under the same name. */
enum { SHORT = 60, LONG = 120 };

static void between(const struct call *calls)
{
    for (; calls->name != NULL; calls++) {
        void *entry = named(calls->name);
        await_line();
        printf("calling %s\n", calls->name);
        kernel(stream, 1, SHORT * MS);
        calls->make(entry);
        kernel(stream, 1, LONG * MS);
        OK(cuCtxSynchronize());
        /* What has completed is put right at the next launch that asks for time. */
        kernel(stream, 32, 1 * MS);
        OK(cuCtxSynchronize());
        printf("did %s\n", calls->name);
    }
    printf("end\n");
}

/* The kernel of SHORT, again until the test has seen it charged in full. By then the library has long
 * seen launches on no stream but one. */
static void learnt(void)
{
    ready();
    while (await_line()) {
        kernel(stream, 1, SHORT * MS);
        OK(cuCtxSynchronize());
        kernel(stream, 32, 1 * MS);
        OK(cuCtxSynchronize());
        printf("tried\n");
    }
    for (int i = 0; i < 80; i++)
        kernel(stream, 32, 1 * MS);
    OK(cuCtxSynchronize());
    printf("learnt\n");
}

/* ---- waits that take long, in the stream of the kernels around them ---- */

static void CUDA_CB sleeping(void *data)
{
    (void)data;
    usleep(100 * 1000);
}

static CUresult long_function(void *entry) { return LIKE(cuLaunchHostFunc)(stream, sleeping, NULL); }

static CUresult long_event(void *entry)
{
    OK(cuLaunchHostFunc(other, sleeping, NULL));
    OK(cuEventRecord(event, other));
    return LIKE(cuStreamWaitEvent)(stream, event, 0);
}

static void CUDA_CB release(void *data)
{
    usleep(100 * 1000);
    *(volatile unsigned *)data = 1;
}

static CUresult long_value(void *entry)
{
    CUdeviceptr seen;
    *(volatile unsigned *)host = 0;
    OK(cuMemHostGetDevicePointer(&seen, host, 0));
    OK(cuLaunchHostFunc(other, release, host));
    return LIKE(cuStreamWaitValue32)(stream, seen, 1, CU_STREAM_WAIT_VALUE_EQ);
}

static const struct call LONG_WAITS[] = {
    {"cuLaunchHostFunc", long_function},
    {"cuStreamWaitEvent", long_event},
    {"cuStreamWaitValue32_v2", long_value},
    {NULL, NULL},
};

/* As `between`, with kernels that take what was learnt. */
static void long_waits(void)
{
    learnt();
    for (const struct call *calls = LONG_WAITS; calls->name != NULL; calls++) {
        void *entry = named(calls->name);
        await_line();
        printf("calling %s\n", calls->name);
        kernel(stream, 1, SHORT * MS);
        OK(calls->make(entry));
        kernel(stream, 1, SHORT * MS);
        OK(cuCtxSynchronize());
        kernel(stream, 32, 1 * MS);
        OK(cuCtxSynchronize());
        printf("did %s\n", calls->name);
    }
    printf("end\n");
}

/* ---- captures ---- */

static void capture_and_launch(CUresult began)
{
    CUgraph made;
    OK(began);
    OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuMemsetD8Async(to, 7, 64, stream));
    OK(cuStreamEndCapture(stream, &made));
}

static CUresult capture_first(void *entry)
{
    capture_and_launch(TO(CUstream)(stream));
    return CUDA_SUCCESS;
}
static CUresult capture(void *entry)
{
    capture_and_launch(LIKE(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    return CUDA_SUCCESS;
}
static CUresult capture_to_graph(void *entry)
{
    CUgraph made;
    OK(cuGraphCreate(&made, 0));
    capture_and_launch(LIKE(cuStreamBeginCaptureToGraph)(stream, made, NULL, NULL, 0,
                                                         CU_STREAM_CAPTURE_MODE_RELAXED));
    return CUDA_SUCCESS;
}

static const struct call CAPTURES[] = {
    {"cuStreamBeginCapture", capture_first},
    {"cuStreamBeginCapture_ptsz", capture_first},
    {"cuStreamBeginCapture_v2", capture},
    {"cuStreamBeginCapture_v2_ptsz", capture},
    {"cuStreamBeginCaptureToGraph", capture_to_graph},
    {"cuStreamBeginCaptureToGraph_ptsz", capture_to_graph},
    {NULL, NULL},
};

/* The test makes the driver end the process at the first question whether a stream is captured. */
static void nothing_is_asked_after_a_capture(void)
{
    CUgraph made;
    start();
    empty = obtain(PTX_HEAD PTX_EMPTY, "empty");
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamEndCapture(stream, &made));
    OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuStreamSynchronize(stream));
}

/* ---- synchronisation ---- */

static CUresult wait_stream(void *entry) { return LIKE(cuStreamSynchronize)(stream); }
static CUresult wait_context(void *entry) { return TO(void)(); }
static CUresult wait_named(void *entry)
{
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    return TO(CUcontext)(context);
}

/* A wait for a stream that has nothing to do, while another has. */
static void idle_stream(void)
{
    void *entry = named("cuStreamSynchronize");
    learnt();
    await_line();
    for (int i = 0; i < 4; i++)
        kernel(stream, 1, SHORT * MS);
    printf("calling cuStreamSynchronize\n");
    OK(LIKE(cuStreamSynchronize)(other));
    printf("did cuStreamSynchronize\n");
    await_line();
    OK(cuCtxSynchronize());
    printf("end\n");
}

/* A kernel that ends long before what is known of its like says. */
static void synchronisations(void)
{
    static const struct call calls[] = {
        {"cuStreamSynchronize", wait_stream},
        {"cuStreamSynchronize_ptsz", wait_stream},
        {"cuCtxSynchronize", wait_context},
        {"cuCtxSynchronize_v2", wait_named},
        {NULL, NULL},
    };
    learnt();
    for (const struct call *call = calls; call->name != NULL; call++) {
        void *entry = named(call->name);
        await_line();
        kernel(stream, 1, 1 * MS);
        printf("calling %s\n", call->name);
        OK(call->make(entry));
        printf("did %s\n", call->name);
    }
    printf("end\n");
}

/* ---- families ---- */

static void launches(void) { ready(), offer(LAUNCHES); }
static void unpacking(void) { ready(), offer(UNPACKING); }
static void fills(void) { ready(), offer(FILLINGS); }
static void copies(void) { ready(), offer(COPIES); }
static void captures(void) { ready(), offer(CAPTURES); }
static void between_copies(void) { learnt(), between(BETWEEN_COPIES); }
static void between_shapes(void) { learnt(), between(BETWEEN_SHAPES); }
static void between_waits(void) { learnt(), between(BETWEEN_WAITS); }

/* What moves data to and from the host passes whatever the gate says. */
static void host_copies(void) { ready(), offer(BETWEEN_COPIES); }

static void *leave(void *unused)
{
    (void)unused;
    await_line();
    exit(0);
}

/* One thread waits at the gate, another ends the program. */
static void left_by_another_thread(void)
{
    pthread_t thread;
    ready();
    await_line();
    CHECK(pthread_create(&thread, NULL, leave, NULL) == 0);
    printf("calling cuLaunchKernel\n");
    OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    printf("did cuLaunchKernel\n");
    pthread_join(thread, NULL);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"launches", launches},
        {"unpacking", unpacking},
        {"fills", fills},
        {"copies", copies},
        {"captures", captures},
        {"host_copies", host_copies},
        {"between_copies", between_copies},
        {"between_shapes", between_shapes},
        {"between_waits", between_waits},
        {"long_waits", long_waits},
        {"synchronisations", synchronisations},
        {"idle_stream", idle_stream},
        {"nothing_is_asked_after_a_capture", nothing_is_asked_after_a_capture},
        {"left_by_another_thread", left_by_another_thread},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
