/* link: cuda */
/* One program under trouble: it must live, and says how it fared.
 *
 * "limited": it got memory and its limit; "refused": out of memory and nothing else;
 * "unlimited": it got the whole card. */
#include "scenario.h"

static void trouble(void)
{
    CUcontext context;
    CUdevice device;
    CUdeviceptr block;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    CUresult code = cuDevicePrimaryCtxRetain(&context, device);
    if (code != CUDA_SUCCESS) {
        EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
        puts("refused");
        return;
    }
    OK(cuCtxSetCurrent(context));
    code = cuMemAlloc(&block, 2 * MIB);
    if (code != CUDA_SUCCESS) {
        EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
        puts("refused");
        return;
    }
    puts(total() == wanted_limit() ? "limited" : "unlimited");
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {{"trouble", trouble}, {NULL, NULL}};
    return play(scenarios, count, arguments);
}
