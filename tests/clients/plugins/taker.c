/* link: dl */
/* A library that takes device memory until it is refused, as a plugin of somebody's program. How it finds
 * the driver is chosen when it is compiled: linked to it, opened by itself (OPENED), or behind itself as
 * a wrapper does (BEHIND). It talks with the test as `road.c` does. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef OPENED
#define FIND(name) dlsym(dlopen("libcuda.so.1", RTLD_NOW), #name)
#elif defined BEHIND
#define FIND(name) dlsym(RTLD_NEXT, #name)
#else
#define FIND(name) ((void *)name)
#endif

#define CALL(name, ...) ((__typeof__(&name))found(FIND(name), #name))(__VA_ARGS__)

static void *found(void *address, const char *name)
{
    if (address != NULL)
        return address;
    fprintf(stderr, "taker.c: there is no %s\n", name);
    exit(1);
}

static void ok(CUresult code)
{
    if (code == CUDA_SUCCESS)
        return;
    fprintf(stderr, "taker.c: error %d\n", code);
    exit(1);
}

static size_t used(void)
{
    size_t free = 0, all = 0;
    ok(CALL(cuMemGetInfo_v2, &free, &all));
    return all - free;
}

/* How many blocks of 64 MiB it got, of 32 at most. */
int take(void)
{
    enum { MIB = 1 << 20, MOST = 32 };
    CUcontext context;
    CUdeviceptr block;
    char line[64];
    int count = 0;
    ok(CALL(cuInit, 0));
    ok(CALL(cuDevicePrimaryCtxRetain, &context, 0));
    ok(CALL(cuCtxSetCurrent, context));
    while (count < MOST && CALL(cuMemAlloc_v2, &block, 64 * MIB) == CUDA_SUCCESS)
        count++;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("exact %zu %d blocks\n", used(), count);
    if (fgets(line, sizeof line, stdin) == NULL)
        exit(3);
    return count;
}
