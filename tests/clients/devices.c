/* link: cuda nvidia-ml */
/* Two devices with limits of their own: every byte is charged where it lies. */
#include "scenario.h"

#include <nvml.h>
#include <pthread.h>

static size_t total_of(int device)
{
    size_t bytes = 0;
    OK(cuDeviceTotalMem(&bytes, device));
    return bytes;
}

/* Bytes used on `device`, whatever context is current. */
static size_t used_on(int device)
{
    CUcontext context, before;
    OK(cuCtxGetCurrent(&before));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    size_t bytes = used();
    OK(cuCtxSetCurrent(before));
    return bytes;
}

static CUcontext context_of(int device)
{
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

static void limits_by_index(void)
{
    OK(cuInit(0));
    EQUAL(total_of(0), 1 * GIB);
    EQUAL(total_of(1), 2 * GIB);
}

static void handles_are_charged_where_they_lie(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUmemGenericAllocationHandle handle;
    OK(cuInit(0));
    OK(cuCtxSetCurrent(context_of(0)));
    size_t zero = used_on(0), one = used_on(1);
    OK(cuMemCreate(&handle, 256 * MIB, &prop, 0));
    EQUAL(used_on(0), zero);
    EQUAL(used_on(1) - one, 256 * MIB);
    IS(cuMemCreate(&handle, 2 * GIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void *without_a_context(void *argument)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CHECK(context == NULL);
    OK(cuMemCreate(argument, 64 * MIB, &prop, 0));
    return NULL;
}

static void threads_without_a_context(void)
{
    pthread_t thread;
    CUmemGenericAllocationHandle handle;
    OK(cuInit(0));
    OK(cuCtxSetCurrent(context_of(0)));
    size_t one = used_on(1);
    pthread_create(&thread, NULL, without_a_context, &handle);
    pthread_join(thread, NULL);
    EQUAL(used_on(1) - one, 64 * MIB);
    OK(cuMemRelease(handle));
    EQUAL(used_on(1), one);
}

static void frees_go_to_the_right_device(void)
{
    CUdeviceptr block, pooled;
    CUstream stream;
    OK(cuInit(0));
    CUcontext first = context_of(0), second = context_of(1);
    OK(cuCtxSetCurrent(second));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    size_t zero = used_on(0), one = used_on(1);
    OK(cuMemAlloc(&block, 64 * MIB));
    OK(cuMemAllocAsync(&pooled, 64 * MIB, stream));
    EQUAL(used_on(1) - one, 128 * MIB);
    OK(cuCtxSetCurrent(first));
    OK(cuMemFree(block));
    OK(cuMemFreeAsync(pooled, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used_on(1), one);
    EQUAL(used_on(0), zero);
}

static void library_used_on_a_second_device(void)
{
    CUlibrary library;
    CUmodule module;
    OK(cuInit(0));
    CUcontext second = context_of(1);
    OK(cuCtxSetCurrent(context_of(0)));
    size_t zero = used_on(0), one = used_on(1);
    OK(cuLibraryLoadData(&library, PTX_HEAD PTX_EMPTY PTX_BIG("67108864"), NULL, NULL, 0, NULL,
                         NULL, 0));
    EQUAL(used_on(0) - zero, 64 * MIB);
    EQUAL(used_on(1), one);
    OK(cuCtxSetCurrent(second));
    OK(cuLibraryGetModule(&module, library));
    EQUAL(used_on(1) - one, 64 * MIB);
    OK(cuLibraryUnload(library));
    EQUAL(used_on(0), zero);
    EQUAL(used_on(1), one);
}

static void nvml_and_driver_mean_the_same_device(void)
{
    /* Played with CUDA_VISIBLE_DEVICES, which NVML does not follow. */
    nvmlDevice_t device;
    nvmlMemory_t memory;
    CUuuid id;
    char text[96], wanted[96];
    CUdeviceptr block;
    CUdevice first = start();
    OK(cuMemAlloc(&block, 128 * MIB));
    OK(cuDeviceGetUuid(&id, first));
    const unsigned char *b = (const unsigned char *)id.bytes;
    snprintf(wanted, sizeof wanted,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
    EQUAL(nvmlInit_v2(), NVML_SUCCESS);
    unsigned count = 0, found = 0;
    EQUAL(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    for (unsigned i = 0; i < count; i++) {
        EQUAL(nvmlDeviceGetHandleByIndex_v2(i, &device), NVML_SUCCESS);
        EQUAL(nvmlDeviceGetUUID(device, text, sizeof text), NVML_SUCCESS);
        EQUAL(nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
        if (strcmp(text, wanted) == 0) {
            found++;
            EQUAL(memory.used, used());
        } else {
            EQUAL(memory.used, 0);
        }
        EQUAL(memory.total, wanted_limit());
    }
    EQUAL(found, 1);
    fill_up(64 * MIB);
    CHECK(used() <= wanted_limit());
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"limits_by_index", limits_by_index},
        {"handles_are_charged_where_they_lie", handles_are_charged_where_they_lie},
        {"threads_without_a_context", threads_without_a_context},
        {"frees_go_to_the_right_device", frees_go_to_the_right_device},
        {"library_used_on_a_second_device", library_used_on_a_second_device},
        {"nvml_and_driver_mean_the_same_device", nvml_and_driver_mean_the_same_device},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
