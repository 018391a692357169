/* What the clients share: scenarios picked by name, checks that say where they failed.
 *
 * A client is an ordinary program of somebody who has never heard of Divvy; it judges what it sees
 * through the driver's own answers. `used()` is what cuMemGetInfo calls taken, which under a limit
 * is the tenant's own. A scenario ends with 0 when all held, with 1 at the first check that did not,
 * with 77 when the machine cannot play it (the reason is printed). */
#ifndef DIVVY_SCENARIO_H
#define DIVVY_SCENARIO_H

#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels.h"

#if CUDA_VERSION >= 13000 /* there the plain name is the fourth version */
#undef cuCtxCreate
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
#define cuCtxCreate cuCtxCreate_v2
#endif

#define LOCAL static __attribute__((unused))
#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EQUAL(left, right)                                                                         \
    do {                                                                                           \
        long long l_ = (long long)(left), r_ = (long long)(right);                                 \
        if (l_ != r_) {                                                                            \
            fprintf(stderr, "%s:%d: %s is %lld, wanted %lld (%s)\n", __FILE__, __LINE__, #left,    \
                    l_, r_, #right);                                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define IS(call, code) EQUAL(call, code)
#define OK(call) IS(call, CUDA_SUCCESS)

/* `call` succeeds and takes exactly `bytes` from the limit. */
#define TAKES(bytes, call)                                                                         \
    do {                                                                                           \
        size_t before_ = used();                                                                   \
        OK(call);                                                                                  \
        EQUAL((long long)used() - (long long)before_, bytes);                                      \
    } while (0)
#define GIVES(bytes, call) TAKES(-(long long)(bytes), call)

struct scenario {
    const char *name;
    void (*run)(void);
};

LOCAL size_t total(void)
{
    size_t free = 0, all = 0;
    OK(cuMemGetInfo(&free, &all));
    return all;
}

LOCAL size_t used(void)
{
    size_t free = 0, all = 0;
    OK(cuMemGetInfo(&free, &all));
    CHECK(free <= all);
    return all - free;
}

/* cuInit, the primary context of device 0, made current. */
LOCAL CUdevice start(void)
{
    CUdevice device;
    CUcontext context;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    return device;
}

/* What a graph's allocation node is to be. */
LOCAL CUDA_MEM_ALLOC_NODE_PARAMS wanting(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    return params;
}

/* A buffer for other devices; a driver that makes none cannot play the scenario. */
LOCAL int buffer_of(CUdeviceptr address, size_t bytes)
{
    int fd = -1;
    CUresult code =
        cuMemGetHandleForAddressRange(&fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (code == CUDA_ERROR_NOT_SUPPORTED) {
        puts("the driver makes no buffers for other devices");
        exit(77);
    }
    EQUAL(code, CUDA_SUCCESS);
    return fd;
}

/* A context of the first version, made current: its pointers have 32 bits, and only in it do the calls of
 * its time work. A driver of today has no room for it. */
LOCAL CUresult first_context(void)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice) =
        (CUresult(*)(CUcontext *, unsigned, CUdevice))dlsym(RTLD_DEFAULT, "cuCtxCreate");
    CUcontext context;
    CHECK(create != NULL);
    return create(&context, 0, 0);
}

/* The same for a scenario that has nothing to say without it. */
LOCAL void start_first(void)
{
    size_t free = 0, all = 0;
    start();
    CUresult code = first_context();
    if (code == CUDA_SUCCESS)
        code = cuMemGetInfo(&free, &all); /* `used()` is of today: it may be refused there in turn */
    if (code != CUDA_SUCCESS) {
        printf("this driver plays no context of the first version (%d)\n", (int)code);
        exit(77);
    }
}

LOCAL CUfunction obtain(const char *ptx, const char *name)
{
    CUmodule module;
    CUfunction function;
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

/* Takes blocks of `bytes` until the first refusal, which must be out of memory; how many it got. */
LOCAL int fill_up(size_t bytes)
{
    CUdeviceptr block;
    CUresult code;
    int count = 0;
    while ((code = cuMemAlloc(&block, bytes)) == CUDA_SUCCESS)
        count++;
    EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
    return count;
}

/* The limit the test set, from the environment. */
LOCAL size_t wanted_limit(void)
{
    const char *text = getenv("EXPECT_LIMIT");
    CHECK(text != NULL);
    return strtoull(text, NULL, 10);
}

LOCAL int play(const struct scenario *scenarios, int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; count > 1 && scenarios[i].name != NULL; i++)
        if (strcmp(scenarios[i].name, arguments[1]) == 0) {
            scenarios[i].run();
            return 0;
        }
    fprintf(stderr, "no scenario of that name: %s\n", count > 1 ? arguments[1] : "(none given)");
    return 2;
}

#endif
