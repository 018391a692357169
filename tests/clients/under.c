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

static void beside_a_gibibyte(void)
{
    /* Another process of the tenant holds a context and a GiB; pids are equal, namespaces are not. */
    start();
    printf("pid %d\n", getpid());
    CHECK(total() == wanted_limit());
    CHECK(used() >= GIB + 2 * 518 * MIB);
    fill_up(64 * MIB);
    CHECK(used() <= wanted_limit());
}

static void stay(void)
{
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, strtoull(getenv("STAY_BYTES"), NULL, 10)));
    sleep(600);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {{"trouble", trouble},
                                                {"beside_a_gibibyte", beside_a_gibibyte},
                                                {"stay", stay},
                                                {NULL, NULL}};
    return play(scenarios, count, arguments);
}
