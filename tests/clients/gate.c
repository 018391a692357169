/* link: cuda dl */
/* Every way to give the device work, one call at a time; captures, which give it none. */
#include "calls.h"

#include <pthread.h>

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

static void launches(void) { ready(), offer(LAUNCHES); }
static void unpacking(void) { ready(), offer(UNPACKING); }
static void fills(void) { ready(), offer(FILLINGS); }
static void copies(void) { ready(), offer(COPIES); }
static void captures(void) { ready(), offer(CAPTURES); }

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
        {"nothing_is_asked_after_a_capture", nothing_is_asked_after_a_capture},
        {"left_by_another_thread", left_by_another_thread},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
