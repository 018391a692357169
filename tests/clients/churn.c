/* link: cuda */
/* Takes and gives memory in every way it knows until it is killed: churn SEED [ROUNDS].
 *
 * Prints the longest any call took, in ms, when it ends by itself; the limit must hold at all times,
 * which its own cuMemGetInfo checks. */
#include "scenario.h"

#include <time.h>

static unsigned seed;
static double longest_ms;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static CUresult timed(CUresult code, double since)
{
    double took = now_ms() - since;
    if (took > longest_ms)
        longest_ms = took;
    CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY);
    return code;
}

#define TIMED(call)                                                                                \
    ({                                                                                             \
        double since_ = now_ms();                                                                  \
        timed((call), since_);                                                                     \
    })

static void one_round(CUstream stream)
{
    size_t bytes = ((size_t)rand_r(&seed) % 128 + 1) * 2 * MIB;
    CUdeviceptr block = 0;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 4};
    CUcontext context;
    size_t free_now, all;
    switch (rand_r(&seed) % 6) {
    case 0:
    case 1:
        if (TIMED(cuMemAlloc(&block, bytes)) == CUDA_SUCCESS) {
            if (rand_r(&seed) % 2)
                usleep((unsigned)(rand_r(&seed) % 2000));
            CHECK(TIMED(cuMemFree(block)) == CUDA_SUCCESS);
        }
        break;
    case 2:
        if (TIMED(cuMemAllocAsync(&block, bytes, stream)) == CUDA_SUCCESS)
            CHECK(TIMED(cuMemFreeAsync(block, stream)) == CUDA_SUCCESS);
        TIMED(cuStreamSynchronize(stream));
        break;
    case 3:
        if (TIMED(cuMemCreate(&handle, bytes, &prop, 0)) == CUDA_SUCCESS)
            CHECK(TIMED(cuMemRelease(handle)) == CUDA_SUCCESS);
        break;
    case 4:
        if (TIMED(cuArray3DCreate(&array, &shape)) == CUDA_SUCCESS)
            CHECK(TIMED(cuArrayDestroy(array)) == CUDA_SUCCESS);
        break;
    default:
        if (rand_r(&seed) % 8 == 0 && TIMED(cuCtxCreate(&context, 0, 0)) == CUDA_SUCCESS)
            CHECK(TIMED(cuCtxDestroy(context)) == CUDA_SUCCESS);
        break;
    }
    if (cuMemGetInfo(&free_now, &all) == CUDA_SUCCESS)
        CHECK(all == wanted_limit() && free_now <= all);
}

int main(int count, char **arguments)
{
    CUstream stream;
    CUcontext context;
    seed = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
    long rounds = count > 2 ? atol(arguments[2]) : -1;
    OK(cuInit(0));
    while (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        usleep(1000); /* the tenant is full for the moment */
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (rounds-- != 0)
        one_round(stream);
    printf("%.1f\n", longest_ms);
    return 0;
}
