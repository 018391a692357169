/* link: cuda nvidia-ml */
/* What two reviews of an older limiter asked for, each as a thing that can be seen from outside. */
#include "scenario.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <nvml.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* From here on every system call but writing and ending kills the process. */
static void no_more_system_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("this machine has no seccomp filters\n");
        exit(77);
    }
}

/* The C library's clock and environment, counted: what the library under test calls through the
 * loader comes here. */
static long getenv_calls;
char *secure_getenv(const char *name)
{
    getenv_calls++;
    (void)name;
    return NULL;
}

static void hot_calls_make_no_system_call(void)
{
    static CUdeviceptr blocks[64];
    CUdeviceptr block;
    start();
    /* Tables grow by system calls, once; after this they are as large as they need to be. */
    for (int i = 0; i < 60000; i++) {
        OK(cuMemAlloc(&block, 64 * KIB));
        OK(cuMemFree(block));
    }
    for (int i = 0; i < 64; i++)
        OK(cuMemAlloc(&blocks[i], 4 * MIB));
    for (int i = 0; i < 64; i++)
        OK(cuMemFree(blocks[i]));
    long before = getenv_calls;
    no_more_system_calls();
    for (int i = 0; i < 20000; i++) {
        OK(cuMemAlloc(&block, 64 * KIB));
        OK(cuMemFree(block));
        used();
    }
    EQUAL(getenv_calls, before);
    _exit(0);
}

static void launches_make_no_system_call(void)
{
    CUfunction empty;
    start();
    empty = obtain(PTX_HEAD PTX_EMPTY, "empty");
    for (int i = 0; i < 1000; i++)
        OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    no_more_system_calls();
    for (int i = 0; i < 20000; i++)
        OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    _exit(0);
}

/* Moves 64 MiB about for ever: takes anew before it gives the old back. */
static void mover(void)
{
    CUdeviceptr old, new;
    start();
    OK(cuMemAlloc(&old, 64 * MIB));
    puts("there");
    for (;;) {
        OK(cuMemAlloc(&new, 64 * MIB));
        OK(cuMemFree(old));
        old = new;
    }
}

static void reader(void)
{
    /* Beside two movers: each holds a context and 64 or 128 MiB at every instant. */
    start();
    size_t context = 0, low = ~(size_t)0, high = 0;
    CUcontext second;
    CUdevice device;
    OK(cuCtxGetDevice(&device));
    size_t before = used();
    (void)before;
    OK(cuCtxCreate(&second, 0, device));
    OK(cuCtxDestroy(second));
    CUcontext primary;
    OK(cuDevicePrimaryCtxRetain(&primary, device));
    OK(cuCtxSetCurrent(primary));
    context = strtoull(getenv("CONTEXT_BYTES"), NULL, 10);
    for (int i = 0; i < 20000; i++) {
        size_t bytes = used();
        if (bytes < low)
            low = bytes;
        if (bytes > high)
            high = bytes;
    }
    CHECK(low >= 3 * context + 2 * 64 * MIB);
    CHECK(high <= 3 * context + 2 * 128 * MIB);
}

static void context_bytes(void)
{
    start();
    printf("%zu\n", used());
}

static void refusals_do_not_wait(void)
{
    CUdeviceptr block;
    double longest = 0;
    start();
    for (int i = 0; i < 2000; i++) {
        double since = now_ms();
        IS(cuMemAlloc(&block, wanted_limit()), CUDA_ERROR_OUT_OF_MEMORY);
        double took = now_ms() - since;
        if (took > longest)
            longest = took;
    }
    printf("%.1f\n", longest);
}

/* Hangs for ever inside the driver or NVML, as the test's fault says. */
static void hangs_in_a_call(void)
{
    CUdeviceptr block;
    nvmlDevice_t device;
    nvmlMemory_t memory;
    start();
    if (getenv("HANG_NVML") != NULL) {
        nvmlInit_v2();
        nvmlDeviceGetHandleByIndex_v2(0, &device);
        nvmlDeviceGetMemoryInfo(device, &memory);
    }
    OK(cuMemAlloc(&block, 64 * MIB));
    sleep(60);
}

static void *hang_alone(void *argument)
{
    CUdeviceptr block;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    cuMemAlloc(&block, 64 * MIB);
    return argument;
}

static void another_thread_goes_on(void)
{
    /* One thread hangs in the driver's cuMemAlloc; the others take, free and are refused. */
    pthread_t thread;
    CUdeviceptr block;
    size_t pitch;
    start();
    pthread_create(&thread, NULL, hang_alone, NULL);
    usleep(100000);
    for (int i = 0; i < 100; i++) {
        OK(cuMemAllocPitch(&block, &pitch, 5000, 1000, 4));
        OK(cuMemFree(block));
        IS(cuMemAllocPitch(&block, &pitch, GIB, 64, 4), CUDA_ERROR_OUT_OF_MEMORY);
        used();
    }
    _exit(0);
}

static void many_live_blocks(void)
{
    /* Finding one of many blocks must not take a walk over all of them. */
    enum { MANY = 20000 };
    static CUdeviceptr blocks[MANY];
    double few, many;
    CUdeviceptr block;
    start();
    double since = now_ms();
    for (int i = 0; i < 20000; i++) {
        OK(cuMemAlloc(&block, 512));
        OK(cuMemFree(block));
    }
    few = now_ms() - since;
    for (int i = 0; i < MANY; i++)
        OK(cuMemAlloc(&blocks[i], 512));
    since = now_ms();
    for (int i = 0; i < 20000; i++) {
        OK(cuMemAlloc(&block, 512));
        OK(cuMemFree(block));
    }
    many = now_ms() - since;
    printf("20,000 pairs: %.1f ms with none, %.1f ms with %d live\n", few, many, MANY);
    CHECK(many <= 10 * few + 20);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"hot_calls_make_no_system_call", hot_calls_make_no_system_call},
        {"launches_make_no_system_call", launches_make_no_system_call},
        {"mover", mover},
        {"reader", reader},
        {"context_bytes", context_bytes},
        {"refusals_do_not_wait", refusals_do_not_wait},
        {"hangs_in_a_call", hangs_in_a_call},
        {"another_thread_goes_on", another_thread_goes_on},
        {"many_live_blocks", many_live_blocks},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
