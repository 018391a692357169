/* link: cuda dl */
/* Arrays and mipmaps under a limit. */
#include "scenario.h"

#include <dlfcn.h>

static CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024, .Height = 1024,
                                        .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};

static void array_is_charged(void)
{
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT,
                                  .NumChannels = 4};
    start();
    TAKES(16 * MIB, cuArray3DCreate(&array, &shape));
    GIVES(16 * MIB, cuArrayDestroy(array));
    TAKES(16 * MIB, cuArrayCreate(&array, &flat));
    GIVES(16 * MIB, cuArrayDestroy(array));
}

static void small_array_takes_a_granule(void)
{
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR small = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1};
    start();
    TAKES(2 * MIB, cuArray3DCreate(&array, &small));
    GIVES(2 * MIB, cuArrayDestroy(array));
}

static void small_arrays_share_granules(void)
{
    CUarray arrays[64];
    CUDA_ARRAY3D_DESCRIPTOR small = {.Width = 128, .Height = 128, .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1};
    start();
    size_t before = used();
    for (int i = 0; i < 64; i++) /* 64 KiB each */
        OK(cuArray3DCreate(&arrays[i], &small));
    EQUAL(used() - before, 4 * MIB);
    for (int i = 0; i < 64; i++)
        OK(cuArrayDestroy(arrays[i]));
    EQUAL(used(), before);
}

static void too_large_an_array_is_refused(void)
{
    CUarray array = (CUarray)0x5;
    CUDA_ARRAY3D_DESCRIPTOR large = {.Width = 1024, .Height = 1024, .Depth = 1024,
                                     .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    start();
    TAKES(0, (CUresult)(cuArray3DCreate(&array, &large) != CUDA_ERROR_OUT_OF_MEMORY));
    int count = 0;
    CUresult code;
    while ((code = cuArray3DCreate(&array, &shape)) == CUDA_SUCCESS)
        count++;
    EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(count > 0 && used() <= wanted_limit());
}

static void mipmap_is_charged(void)
{
    CUmipmappedArray pyramid;
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 256, .Height = 256, .Depth = 256,
                                    .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    start();
    size_t before = used();
    OK(cuMipmappedArrayCreate(&pyramid, &cube, 5));
    /* The card takes 74 MiB; never charge less, nor much more. */
    CHECK(used() - before >= 74 * MIB && used() - before <= 84 * MIB);
    TAKES(0, cuMipmappedArrayGetLevel(&level, pyramid, 1));
    OK(cuMipmappedArrayDestroy(pyramid));
    EQUAL(used(), before);
    cube.Width = cube.Height = cube.Depth = 2048;
    IS(cuMipmappedArrayCreate(&pyramid, &cube, 1), CUDA_ERROR_OUT_OF_MEMORY);
}

static void memory_in_a_sparse_array_stays_charged(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 2048, .Height = 2048, .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 4, .Flags = CUDA_ARRAY3D_SPARSE};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                .allocFlags = {.usage = CU_MEM_CREATE_USAGE_TILE_POOL}};
    CUarrayMapInfo map = {
        .resourceType = CU_RESOURCE_TYPE_ARRAY,
        .subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
        .subresource.sparseLevel = {.extentWidth = 2048, .extentHeight = 2048, .extentDepth = 1},
        .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
        .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
        .deviceBitMask = 1,
    };
    CUmemGenericAllocationHandle handle;
    start();
    size_t before = used();
    OK(cuArray3DCreate(&map.resource.array, &shape));
    EQUAL(used(), before);
    OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    map.memHandle.memHandle = handle;
    OK(cuMemMapArrayAsync(&map, 1, NULL));
    OK(cuMemRelease(handle));
    EQUAL(used() - before, 64 * MIB);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"array_is_charged", array_is_charged},
        {"small_array_takes_a_granule", small_array_takes_a_granule},
        {"small_arrays_share_granules", small_arrays_share_granules},
        {"too_large_an_array_is_refused", too_large_an_array_is_refused},
        {"mipmap_is_charged", mipmap_is_charged},
        {"memory_in_a_sparse_array_stays_charged", memory_in_a_sparse_array_stays_charged},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
