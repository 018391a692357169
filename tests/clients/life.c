/* link: cuda */
/* The life of a process under a limit: forks, execs, threads, descriptors, ends of every kind. */
#include "scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static int reap(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void forked_before_any_call(void)
{
    /* The child has a slot of its own; its death takes only its own charge. */
    int ready[2], stop[2];
    char byte;
    CHECK(pipe(ready) == 0 && pipe(stop) == 0);
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr block;
        start();
        OK(cuMemAlloc(&block, 64 * MIB));
        CHECK(write(ready[1], "r", 1) == 1 && read(stop[0], &byte, 1) == 1);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    start();
    size_t both = used();
    CHECK(write(stop[1], "s", 1) == 1);
    EQUAL(reap(child), 0);
    CUdeviceptr block;
    OK(cuMemAlloc(&block, 64 * MIB));
    EQUAL(used(), (both - 64 * MIB) / 2 + 64 * MIB);
}

static void forked_after_start(void)
{
    /* A data loader: the child may not use the driver, and its end must not free our charge. */
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    size_t before = used();
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            CUdeviceptr other;
            size_t free_now, all;
            IS(cuMemAlloc(&other, 4096), CUDA_ERROR_NOT_INITIALIZED);
            IS(cuMemFree(block), CUDA_ERROR_NOT_INITIALIZED);
            IS(cuMemGetInfo(&free_now, &all), CUDA_ERROR_NOT_INITIALIZED);
            IS(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
            exit(i % 2);
        }
        int status = reap(child);
        EQUAL(WEXITSTATUS(status), i % 2);
        EQUAL(used(), before);
    }
    OK(cuMemFree(block));
    EQUAL(used(), before - 64 * MIB);
}

/* Forks a child that lives on, then waits to be killed; the child outlives us. */
static void leaves_a_forked_child(void)
{
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, GIB));
    if (fork() == 0) {
        setsid();
        sleep(5);
        _exit(0);
    }
    puts("there");
    sleep(60);
}

static void nothing_but_a_context(void)
{
    start();
    /* One primary context and not a byte more, after everything the dead had. */
    CHECK(used() <= 560 * MIB);
    size_t mine = used();
    int count = fill_up(64 * MIB);
    EQUAL(count, (int)((wanted_limit() - mine) / (64 * MIB)));
}

static void joins_the_tenant(void)
{
    start();
    EQUAL(total(), wanted_limit());
}

static void vforked_and_spawned(void)
{
    char *const arguments[] = {"true", NULL};
    CUdeviceptr block;
    pid_t child;
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    size_t before = used();
    CHECK(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0);
    EQUAL(reap(child), 0);
    child = vfork();
    if (child == 0) {
        execlp("true", "true", NULL);
        _exit(127);
    }
    EQUAL(reap(child), 0);
    EQUAL(system("true"), 0);
    EQUAL(used(), before);
}

static void executed_anew(void)
{
    CUdeviceptr block;
    start();
    if (getenv("SECOND_LIFE") != NULL) {
        CHECK(used() <= 560 * MIB);
        return;
    }
    OK(cuMemAlloc(&block, GIB));
    setenv("SECOND_LIFE", "1", 1);
    execl("/proc/self/exe", "life", "executed_anew", NULL);
}

static void *churn(void *argument)
{
    unsigned seed = (unsigned)(long)argument;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 300; i++) {
        CUdeviceptr blocks[8];
        int got = 0;
        for (int b = 0; b < 8; b++)
            if (cuMemAlloc(&blocks[got], (size_t)(rand_r(&seed) % 8000000) + 1) == CUDA_SUCCESS)
                got++;
        while (got-- > 0)
            OK(cuMemFree(blocks[got]));
    }
    OK(cuDevicePrimaryCtxRelease(0));
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[8];
    start();
    size_t before = used();
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, churn, (void *)i);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    EQUAL(used(), before);
}

static pthread_key_t key;
static void at_thread_end(void *argument)
{
    CUdeviceptr block;
    CUcontext context;
    (void)argument;
    if (cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS) {
        cuCtxSetCurrent(context);
        if (cuMemAlloc(&block, 4096) == CUDA_SUCCESS)
            cuMemFree(block);
        cuDevicePrimaryCtxRelease(0);
    }
}
static void *sets_key(void *argument)
{
    pthread_setspecific(key, argument);
    return NULL;
}

static CUdeviceptr last_block;
static void at_exit(void)
{
    CUdeviceptr block;
    cuMemFree(last_block);
    if (cuMemAlloc(&block, 4096) == CUDA_SUCCESS)
        cuMemFree(block);
}

static void calls_from_destructors(void)
{
    pthread_t thread;
    atexit(at_exit);
    start();
    OK(cuMemAlloc(&last_block, 64 * MIB));
    pthread_key_create(&key, at_thread_end);
    for (int i = 0; i < 20; i++) {
        pthread_create(&thread, NULL, sets_key, (void *)1);
        pthread_join(thread, NULL);
    }
    pthread_setspecific(key, (void *)1);
}

static void every_descriptor_closed(void)
{
    CUdeviceptr block, second;
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    size_t before = used();
    int victim = open("/dev/zero", O_RDONLY);
    /* The simulated driver's own connection is a descriptor as well: leave sockets alone, as a
     * daemon that closes what it does not know would not; everything else goes. */
    for (int fd = 3; fd < 1024; fd++) {
        char path[64], target[128];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length > 0 && strncmp(target, "socket:", 7) != 0 &&
            strncmp(target, "/dev/nvidia", 11) != 0)
            close(fd);
    }
    CHECK(victim >= 3);
    OK(cuMemAlloc(&second, 64 * MIB));
    EQUAL(used() - before, 64 * MIB);
    printf("there\n");
    if (getenv("STAY") != NULL)
        sleep(30);
    OK(cuMemFree(block));
    OK(cuMemFree(second));
    EQUAL(used(), before - 64 * MIB);
}

static void own_charge_alone(void)
{
    /* Played beside a process that closed every descriptor and holds 128 MiB and its context. */
    start();
    size_t all = used();
    CHECK(all >= 2 * 518 * MIB + 128 * MIB);
    fill_up(64 * MIB);
    CHECK(used() >= all);
}

static void no_descriptors_left(void)
{
    CUcontext context;
    CUdeviceptr block = 0;
    int fds[4096], count = 0;
    struct rlimit few = {256, 256};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    OK(cuInit(0));
    while (count < 4096 && (fds[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    CHECK(errno == EMFILE);
    CUresult code = cuDevicePrimaryCtxRetain(&context, 0);
    CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY ||
          code == CUDA_ERROR_OPERATING_SYSTEM || code == CUDA_ERROR_UNKNOWN);
    while (count > 0)
        close(fds[--count]);
    /* With descriptors to be had again everything works, limit included. */
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    EQUAL(total(), wanted_limit());
    fill_up(64 * MIB);
}

static void no_memory_left(void)
{
    CUdeviceptr block = 0;
    start();
    OK(cuMemAlloc(&block, 2 * MIB));
    struct rlimit none = {0, RLIM_INFINITY}, plenty = {RLIM_INFINITY, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    CUresult code = CUDA_SUCCESS;
    static CUdeviceptr blocks[100000];
    int count = 0;
    while (count < 2000 && code == CUDA_SUCCESS)
        code = cuMemAlloc(&blocks[count++], 2 * MIB);
    CHECK(setrlimit(RLIMIT_AS, &plenty) == 0);
    CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY);
    if (code != CUDA_SUCCESS)
        count--;
    while (count > 0)
        OK(cuMemFree(blocks[--count]));
    OK(cuMemAlloc(&block, 2 * MIB));
}

/* Ends in the way the test names. */
static void ends(void)
{
    const char *how = getenv("END");
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, GIB));
    CHECK(how != NULL);
    if (strcmp(how, "return") == 0)
        return;
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "crash") == 0)
        raise(SIGSEGV);
    signal(atoi(how), SIG_DFL); /* whoever started this may have it ignored */
    raise(atoi(how));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"forked_before_any_call", forked_before_any_call},
        {"forked_after_start", forked_after_start},
        {"leaves_a_forked_child", leaves_a_forked_child},
        {"nothing_but_a_context", nothing_but_a_context},
        {"joins_the_tenant", joins_the_tenant},
        {"vforked_and_spawned", vforked_and_spawned},
        {"executed_anew", executed_anew},
        {"many_threads", many_threads},
        {"calls_from_destructors", calls_from_destructors},
        {"every_descriptor_closed", every_descriptor_closed},
        {"own_charge_alone", own_charge_alone},
        {"no_descriptors_left", no_descriptors_left},
        {"no_memory_left", no_memory_left},
        {"ends", ends},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
