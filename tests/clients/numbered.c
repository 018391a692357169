/* link: cuda dl */
/* What each device that CUDA shows has: a line with the last two digits of its UUID, its memory in MiB as
 * cuDeviceTotalMem says it, and as much as could be had of it. Numbers of devices are CUDA's, and not shown. */
#include "scenario.h"

#include <time.h>

static void start_nvml(void)
{
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    CHECK(nvml != NULL);
    int (*init)(void) = (int (*)(void))dlsym(nvml, "nvmlInit_v2");
    CHECK(init != NULL);
    EQUAL(init(), 0);
}

static void tell(void)
{
    int count = 0;
    CUresult code = cuInit(0);
    if (code == CUDA_ERROR_NO_DEVICE)
        return;
    EQUAL(code, CUDA_SUCCESS);
    OK(cuDeviceGetCount(&count));
    for (int number = 0; number < count; number++) {
        CUdevice device;
        CUcontext context;
        CUuuid uuid;
        CUdeviceptr block;
        size_t bytes, got = 0;
        OK(cuDeviceGet(&device, number));
        OK(cuDeviceGetUuid(&uuid, device));
        OK(cuDeviceTotalMem(&bytes, device));
        if (cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS) {
            OK(cuCtxSetCurrent(context));
            EQUAL(total(), bytes);
            while (got < 4 * GIB && cuMemAlloc(&block, 64 * MIB) == CUDA_SUCCESS)
                got += 64 * MIB;
        }
        printf("%02x %zu %zu\n", (unsigned char)uuid.bytes[15], bytes / MIB, got / MIB);
    }
}

static void without_nvml(void)
{
    tell();
}

static void with_nvml_first(void)
{
    start_nvml();
    tell();
}

/* Kernels of a millisecond on each device, one after the other, each waited for: how many in a second. */
static void pace(void)
{
    int count = 0;
    unsigned long long ns = 1000000;
    void *arguments[] = {&ns};
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    for (int number = 0; number < count; number++) {
        CUcontext context;
        CUmodule module;
        CUfunction spin;
        CUuuid uuid;
        struct timespec now;
        OK(cuDevicePrimaryCtxRetain(&context, number));
        OK(cuDeviceGetUuid(&uuid, number));
        OK(cuCtxSetCurrent(context));
        OK(cuModuleLoadData(&module, PTX_HEAD PTX_SPIN));
        OK(cuModuleGetFunction(&spin, module, "spin_ns"));
        clock_gettime(CLOCK_MONOTONIC, &now);
        double from = (double)now.tv_sec + (double)now.tv_nsec / 1e9, to = from;
        int done = 0;
        for (; to - from < 1.5; done++) {
            OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
            OK(cuCtxSynchronize());
            clock_gettime(CLOCK_MONOTONIC, &now);
            to = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
        }
        printf("%02x %d\n", (unsigned char)uuid.bytes[15], done);
    }
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"without_nvml", without_nvml},
        {"with_nvml_first", with_nvml_first},
        {"pace", pace},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
