/* What the clients of the share gate have in common: calls by name, made when the test says so.
 *
 * Before each call they wait for a line on their standard input, so that the test can change the
 * tenant's share in between. They say "calling NAME" before a call and "did NAME" behind it. */
#ifndef DIVVY_CALLS_H
#define DIVVY_CALLS_H

#include "scenario.h"

#include <dlfcn.h>

/* `entry` as a function of these arguments, and as the header declares it. */
#define TO(...) ((CUresult(*)(__VA_ARGS__))entry)
#define LIKE(name) ((__typeof__(&name))entry)

enum { BYTES = 4096, MS = 1000 * 1000 };

/* One call by the name the program asks for. */
struct call {
    const char *name;
    CUresult (*make)(void *entry);
};

LOCAL CUstream stream, other;
LOCAL CUfunction empty, work;
LOCAL CUdeviceptr to, from, flag;
LOCAL unsigned low; /* a device address of 32 bits, where there is one */
LOCAL CUarray array, second;
LOCAL CUgraphExec graph;
LOCAL CUevent event;
LOCAL void *host;

LOCAL void kernel(CUstream on, unsigned threads, unsigned long long iterations)
{
    unsigned long long counter = 0;
    void *params[] = {&counter, &iterations};
    OK(cuLaunchKernel(work, 1, 1, 1, threads, 1, 1, 0, on, params, NULL));
}

LOCAL void *named(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL)
        fprintf(stderr, "the driver has no %s\n", name);
    CHECK(found != NULL);
    return found;
}

LOCAL void ready(void)
{
    CUDA_ARRAY_DESCRIPTOR shape = {64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUgraph made;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    empty = obtain(PTX_HEAD PTX_EMPTY, "empty");
    work = obtain(PTX_HEAD PTX_WORK, "share_work");
    OK(cuMemAlloc(&to, MIB));
    OK(cuMemAlloc(&from, MIB));
    OK(cuMemAlloc(&flag, 4096));
    OK(cuMemsetD8(to, 0, MIB));
    OK(cuMemsetD8(from, 0, MIB));
    OK(cuMemsetD8(flag, 0, 4096));
    (void)((CUresult(*)(unsigned *, unsigned))named("cuMemAlloc"))(&low, MIB);
    OK(cuArrayCreate(&array, &shape));
    OK(cuArrayCreate(&second, &shape));
    OK(cuMemHostAlloc(&host, 64 * MIB, 0));
    memset(host, 0, 64 * MIB);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuStreamEndCapture(stream, &made));
    OK(cuGraphInstantiate(&graph, made, 0));
    ((CUresult(*)(CUfunction, int, int, int))named("cuFuncSetBlockShape"))(empty, 1, 1, 1);
    OK(cuCtxSynchronize());
    printf("ready\n");
}

/* Waits for the test; ends the program when it has nothing more to say. Whether it is to go on. */
LOCAL int await_line(void)
{
    char line[64];
    if (fgets(line, sizeof line, stdin) == NULL)
        exit(0);
    return strcmp(line, "go\n") == 0;
}

LOCAL void offer(const struct call *calls)
{
    for (; calls->name != NULL; calls++) {
        await_line();
        void *entry = named(calls->name);
        printf("calling %s\n", calls->name);
        calls->make(entry);
        printf("did %s\n", calls->name);
    }
    OK(cuCtxSynchronize());
    printf("end\n");
}

#endif
