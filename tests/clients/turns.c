/* link: cuda */
/* Programs that want more memory together than the card has: each keeps a number in every word of its blocks by
 * kernels, fills and a graph, and looks at all of them now and then. How many blocks, and for how long, is in the
 * environment. */
#include "scenario.h"

#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#define MOST 64
#define BLOCK (40 * MIB)

static CUdeviceptr blocks[MOST];
static unsigned want[MOST];
static unsigned *seen;

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* Until TURNS_MS are over; where TURNS_TOLD is set, until a line on standard input or its end as well, which nobody reads:
 * children see it too. */
static int goes_on(double from, long ms)
{
    struct pollfd told = {.fd = STDIN_FILENO, .events = POLLIN};
    if (now() - from < (double)ms)
        return 1;
    return getenv("TURNS_TOLD") && poll(&told, 1, 0) == 0;
}

static void check(long index)
{
    OK(cuMemcpyDtoH(seen, blocks[index], BLOCK));
    for (size_t at = 0; at < BLOCK / 4; at++)
        if (seen[at] != want[index]) {
            fprintf(stderr, "block %ld word %zu: %u, wanted %u\n", index, at, seen[at], want[index]);
            exit(1);
        }
}

/* A child that has nothing to do with the device: it ends as programs do, at once, or as another program. */
static void has_a_child(long round)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (round % 3 == 0)
            exit(0);
        if (round % 3 == 1)
            execlp("true", "true", NULL);
        _exit(round % 3 == 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    EQUAL(status, 0);
}

/* TURNS_BLOCKS blocks of 40 MiB, worked on for TURNS_MS, on a card that seems to have TURNS_TOTAL bytes where that is set; where TURNS_IDLE_MS is set, with such a pause behind each round; where TURNS_CHILDREN is set, with a child in each. */
static void works(void)
{
    long count = number("TURNS_BLOCKS", 4), ms = number("TURNS_MS", 1000), idle = number("TURNS_IDLE_MS", 0);
    int children = getenv("TURNS_CHILDREN") != NULL;
    CHECK(count <= MOST);
    start();
    seen = malloc(BLOCK);
    CUfunction add = obtain(PTX_HEAD PTX_ADD32, "add32");
    if (getenv("TURNS_TOTAL")) {
        size_t free, total;
        OK(cuMemGetInfo(&free, &total));
        EQUAL(total, (size_t)number("TURNS_TOTAL", 0));
        OK(cuDeviceTotalMem(&total, 0));
        EQUAL(total, (size_t)number("TURNS_TOTAL", 0));
    }
    CUdeviceptr one;
    OK(cuMemAlloc(&one, BLOCK));
    OK(cuMemsetD32(one, 1, BLOCK / 4));
    for (long index = 0; index < count; index++) {
        OK(cuMemAlloc(&blocks[index], BLOCK));
        OK(cuMemsetD32(blocks[index], 0, BLOCK / 4));
    }
    CUstream stream;
    CUgraphExec exec = NULL;
    unsigned n = BLOCK / 4;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *first[] = {&blocks[0], &blocks[0], &one, &n};
    OK(cuCtxSynchronize());
    puts("ready");
    fflush(stdout);
    double from = now(), last = from, longest = 0;
    long rounds = 0;
    while (goes_on(from, ms)) {
        long index = rounds % count;
        if (index == 0) {
            /* A graph that adds one to the first block; half of the time one that was captured before memory moved. */
            if (rounds / count % 2 == 0) {
                CUgraph graph;
                if (exec)
                    OK(cuGraphExecDestroy(exec));
                OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
                OK(cuLaunchKernel(add, n / 256, 1, 1, 256, 1, 1, 0, stream, first, NULL));
                OK(cuStreamEndCapture(stream, &graph));
                OK(cuGraphInstantiate(&exec, graph, 0));
                OK(cuGraphDestroy(graph));
            }
            OK(cuGraphLaunch(exec, stream));
            want[0]++;
        } else if (rounds % 3 == 0) {
            void *arguments[] = {&blocks[index], &blocks[index], &one, &n};
            OK(cuLaunchKernel(add, n / 256, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
            want[index]++;
        } else {
            want[index] = (unsigned)rounds * 7919u;
            OK(cuMemsetD32Async(blocks[index], want[index], n, stream));
        }
        OK(cuStreamSynchronize(stream));
        if (children)
            has_a_child(rounds);
        if (rounds % 5 == 0)
            check((rounds / 5) % count);
        double then = now();
        longest = then - last > longest ? then - last : longest;
        last = then;
        rounds++;
        if (idle) {
            struct timespec pause = {idle / 1000, idle % 1000 * 1000000};
            nanosleep(&pause, NULL);
            last = now();
        }
    }
    for (long index = 0; index < count; index++)
        check(index);
    printf("%ld rounds, %.0f ms the longest\n", rounds, longest);
    for (long index = 0; index < count; index++)
        OK(cuMemFree(blocks[index]));
}

/* The same on two devices, each with TURNS_BLOCKS blocks or as many as TURNS_OTHER says on the other one: a round adds one to
 * a block of each, by kernels that run at the same time. The device of number TURNS_FIRST comes first. */
static void works_on_two(void)
{
    long counts[2] = {number("TURNS_BLOCKS", 4), number("TURNS_OTHER", number("TURNS_BLOCKS", 4))};
    long ms = number("TURNS_MS", 1000), first = number("TURNS_FIRST", 0), rounds = 0;
    CUcontext contexts[2];
    CUfunction add[2];
    CUstream streams[2];
    CUdeviceptr ones[2];
    unsigned n = BLOCK / 4;
    CHECK(counts[0] + counts[1] <= MOST && counts[0] > 0 && counts[1] > 0);
    seen = malloc(BLOCK);
    OK(cuInit(0));
    for (int at = 0; at < 2; at++) {
        long device = at ^ first, from = device ? counts[0] : 0;
        OK(cuDevicePrimaryCtxRetain(&contexts[device], (CUdevice)device));
        OK(cuCtxSetCurrent(contexts[device]));
        add[device] = obtain(PTX_HEAD PTX_ADD32, "add32");
        OK(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&ones[device], BLOCK));
        OK(cuMemsetD32(ones[device], 1, n));
        for (long index = 0; index < counts[device]; index++) {
            OK(cuMemAlloc(&blocks[from + index], BLOCK));
            want[from + index] = (unsigned)(from + index);
            OK(cuMemsetD32(blocks[from + index], want[from + index], n));
        }
        OK(cuCtxSynchronize());
    }
    puts("ready");
    fflush(stdout);
    for (double since = now(); goes_on(since, ms); rounds++) {
        for (int device = 0; device < 2; device++) {
            long index = (device ? counts[0] : 0) + rounds % counts[device];
            void *arguments[] = {&blocks[index], &blocks[index], &ones[device], &n};
            OK(cuCtxSetCurrent(contexts[device]));
            OK(cuLaunchKernel(add[device], n / 256, 1, 1, 256, 1, 1, 0, streams[device], arguments, NULL));
            want[index]++;
        }
        for (int device = 0; device < 2; device++)
            OK(cuStreamSynchronize(streams[device]));
        check(rounds % (counts[0] + counts[1]));
    }
    for (long index = 0; index < counts[0] + counts[1]; index++)
        check(index);
    printf("%ld rounds\n", rounds);
}

/* For TURNS_MS as many blocks as there are to be had, up to TURNS_BLOCKS, all of them freed again, and again. */
static void grows(void)
{
    long count = number("TURNS_BLOCKS", 4), ms = number("TURNS_MS", 1000), most = 0;
    CHECK(count <= MOST);
    start();
    seen = malloc(BLOCK);
    double from = now();
    while (now() - from < (double)ms) {
        long held = 0;
        while (held < count) {
            CUresult result = cuMemAlloc(&blocks[held], BLOCK);
            if (result == CUDA_ERROR_OUT_OF_MEMORY)
                break;
            OK(result);
            want[held] = (unsigned)(held + getpid());
            OK(cuMemsetD32(blocks[held], want[held], BLOCK / 4));
            held++;
        }
        most = held > most ? held : most;
        for (long index = 0; index < held; index++) {
            check(index);
            OK(cuMemFree(blocks[index]));
        }
    }
    printf("%ld blocks at most\n", most);
}

#define THREADS 4

static CUcontext shared;
static double ends;

/* Blocks of all lengths, of which each holds a number of its own until it is freed. */
static void *thread_of_lengths(void *argument)
{
    enum { HELD = 5 };
    unsigned state = (unsigned)(size_t)argument * 2654435761u + (unsigned)getpid();
    CUdeviceptr held[HELD] = {0};
    size_t words[HELD] = {0};
    unsigned value[HELD] = {0};
    CUstream stream;
    OK(cuCtxSetCurrent(shared));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    long rounds = 0;
    while (now() < ends) {
        state = state * 1664525u + 1013904223u;
        int at = state >> 16 & 7;
        if (at >= HELD)
            continue;
        if (held[at]) {
            unsigned *bytes = malloc(words[at] * 4);
            OK(cuMemcpyDtoH(bytes, held[at], words[at] * 4));
            for (size_t word = 0; word < words[at]; word++)
                EQUAL(bytes[word], value[at]);
            free(bytes);
            OK(cuMemFree(held[at]));
            held[at] = 0;
        } else {
            static const size_t LENGTHS[] = {256, 70 * KIB, 1500 * KIB, 5 * MIB, 20 * MIB, 33 * MIB, 50 * MIB};
            size_t length = LENGTHS[(state >> 8) % 7];
            words[at] = length / 4;
            value[at] = state;
            OK(cuMemAlloc(&held[at], length));
            OK(cuMemsetD32Async(held[at], value[at], words[at], stream));
            OK(cuStreamSynchronize(stream));
        }
        rounds++;
    }
    for (int at = 0; at < HELD; at++)
        if (held[at])
            OK(cuMemFree(held[at]));
    OK(cuStreamDestroy(stream));
    return (void *)rounds;
}

static void threads_of_lengths(void)
{
    pthread_t threads[THREADS];
    start();
    OK(cuCtxGetCurrent(&shared));
    ends = now() + (double)number("TURNS_MS", 1000);
    for (long index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, thread_of_lengths, (void *)index) == 0);
    long rounds = 0;
    for (int index = 0; index < THREADS; index++) {
        void *done;
        CHECK(pthread_join(threads[index], &done) == 0);
        rounds += (long)done;
    }
    printf("%ld rounds\n", rounds);
    fflush(stdout);
}

/* Two workers of one tenant, each with threads that allocate and free blocks of all lengths for TURNS_MS. */
static void workers_of_lengths(void)
{
    pid_t workers[2];
    for (int index = 0; index < 2; index++) {
        workers[index] = fork();
        CHECK(workers[index] >= 0);
        if (workers[index] == 0) {
            threads_of_lengths();
            exit(0);
        }
    }
    for (int index = 0; index < 2; index++) {
        int status;
        CHECK(waitpid(workers[index], &status, 0) == workers[index]);
        EQUAL(status, 0);
    }
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"works", works},
        {"works_on_two", works_on_two},
        {"workers_of_lengths", workers_of_lengths},
        {"grows", grows},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
