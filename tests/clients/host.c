/* link: dl */
/* A program that loads plugins in every way the dynamic linker has, and calls what they take memory by.
 * The plugins' paths stand in PLUGIN; what they got is the test's to judge. */
#define _GNU_SOURCE
#include "scenario.h"

#include <dlfcn.h>

typedef int take_fn(void);

static const char *plugin(void)
{
    const char *path = getenv("PLUGIN");
    CHECK(path != NULL);
    return path;
}

static void taken(void *handle)
{
    if (handle == NULL) {
        printf("refused: %s\n", dlerror());
        exit(0);
    }
    take_fn *take = (take_fn *)dlsym(handle, "take");
    CHECK(take != NULL);
    EQUAL(take(), 7);
}

static void opened(void)
{
    taken(dlopen(plugin(), RTLD_NOW));
}

static void bound_deeply(void)
{
    taken(dlopen(plugin(), RTLD_NOW | RTLD_DEEPBIND));
}

static void in_a_namespace(void)
{
    taken(dlmopen(LM_ID_NEWLM, plugin(), RTLD_NOW));
}

static void in_a_second_namespace(void)
{
    Lmid_t namespace;
    void *first = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
    CHECK(first != NULL && dlinfo(first, RTLD_DI_LMID, &namespace) == 0);
    CHECK(namespace != LM_ID_BASE);
    CHECK(dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW) != NULL);
    taken(dlmopen(namespace, plugin(), RTLD_NOW));
}

static void in_a_used_namespace(void)
{
    /* More than there are at once. */
    for (int i = 0; i < 40; i++) {
        void *handle = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
        CHECK(handle != NULL);
        CHECK(dlsym(handle, "cos") != NULL);
        CHECK(dlclose(handle) == 0);
    }
    taken(dlmopen(LM_ID_NEWLM, plugin(), RTLD_NOW));
}

/* The driver alone, called from outside by what its handle gives. */
static void drivers_own_handle(void)
{
    size_t free = 0, all = 0;
    CUcontext context;
    CUdeviceptr block;
    char line[64];
    int count = 0;
    void *driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    CHECK(driver != NULL);
    CHECK(dlsym(driver, "cuNoSuchFunction") == NULL);
#define BY_HANDLE(name) ((__typeof__(&name))dlsym(driver, #name))
    OK(BY_HANDLE(cuInit)(0));
    OK(BY_HANDLE(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(BY_HANDLE(cuCtxSetCurrent)(context));
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUdriverProcAddressQueryResult status;
    OK(BY_HANDLE(cuGetProcAddress_v2)("cuMemAlloc", (void **)&alloc, 12000, 0, &status));
    CHECK((void *)alloc == dlsym(driver, "cuMemAlloc_v2"));
    while (count < 32 && alloc(&block, 64 * MIB) == CUDA_SUCCESS)
        count++;
    OK(BY_HANDLE(cuMemGetInfo_v2)(&free, &all));
    printf("exact %zu %d blocks\n", all - free, count);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
    EQUAL(count, 7);
}

static void without_the_library(void)
{
    /* The library's file goes away before the namespace is made. */
    CHECK(unlink(getenv("LD_PRELOAD")) == 0);
    in_a_namespace();
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"opened", opened},
        {"bound_deeply", bound_deeply},
        {"in_a_namespace", in_a_namespace},
        {"in_a_second_namespace", in_a_second_namespace},
        {"in_a_used_namespace", in_a_used_namespace},
        {"drivers_own_handle", drivers_own_handle},
        {"without_the_library", without_the_library},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
