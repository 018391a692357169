/* What calls and waits take that other clients do not measure: calls ITERATIONS, of a kernel of some 200 us.
 *
 * One line of JSON for each, in nanoseconds: the 5th percentile, the middle and the 95th. With no argument it runs one
 * kernel and ends, which it measures as a process of its own; with a second one its threads sleep in the driver.
 */
#define _GNU_SOURCE
#include "work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 200, STARTS = 7, BLOCKING_SYNC = 4, MOST_QUEUED = 8192 };
static const size_t LARGE = (size_t)256 << 20, SMALL = 4096;

static struct work work;
static uint64_t taken[TIMES];
static handle_t events[2];
static result_t (*event_query)(handle_t event);
static result_t (*host_function)(handle_t stream, void (*function)(void *), void *data);
static void (*volatile nothing)(void *);

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void tell(const char *what, size_t count)
{
    qsort(taken, count, sizeof *taken, by_size);
    printf("{\"what\":\"%s\",\"times\":%zu,\"p5_ns\":%llu,\"p50_ns\":%llu,\"p95_ns\":%llu}\n", what, count,
           (unsigned long long)taken[count / 20], (unsigned long long)taken[count / 2],
           (unsigned long long)taken[count - 1 - count / 20]);
    fflush(stdout);
}

static void rest(void)
{
    must(work.driver.synchronize(), "cuCtxSynchronize");
    for (uint64_t until = now_ns() + 30000; now_ns() < until;)
        ;
}

static uint64_t between_ns(void)
{
    float ms = 0;
    must(work.more.event_elapsed(&ms, events[0], events[1]), "cuEventElapsedTime");
    return (uint64_t)((double)ms * 1e6);
}

static void of_nothing(void *unused)
{
    (void)unused;
}

/* From an event's record on a drained stream until a query says that it is done. */
static void visible(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        rest();
        must(work.more.event_record(events[0], work.streams[0]), "cuEventRecord");
        uint64_t returned = now_ns();
        while (event_query(events[0]) != SUCCESS)
            ;
        taken[i] = now_ns() - returned;
    }
    tell("an event on a drained stream, from the record's return until a query says so", TIMES);
}

/* By how much a synchronisation returns later than the kernel's length by events, from the launch's call on. */
static void synchronised(const char *what)
{
    for (size_t i = 0; i < TIMES; i++) {
        rest();
        must(work.more.event_record(events[0], work.streams[0]), "cuEventRecord");
        uint64_t begun = now_ns();
        work_launch(&work, work.streams[0]);
        must(work.more.event_record(events[1], work.streams[0]), "cuEventRecord");
        must(work.driver.synchronize(), "cuCtxSynchronize");
        uint64_t all = now_ns() - begun, kernel = between_ns();
        taken[i] = all > kernel ? all - kernel : 0;
    }
    tell(what, TIMES);
}

static void copied(size_t bytes, const char *what)
{
    void *pinned = NULL;
    address_t there = 0;
    must(work.more.host_alloc(&pinned, bytes, 0), "cuMemHostAlloc");
    must(work.driver.alloc(&there, bytes), "cuMemAlloc");
    memset(pinned, 1, bytes);
    for (size_t i = 0; i < TIMES / 4; i++) {
        must(work.more.event_record(events[0], work.streams[0]), "cuEventRecord");
        must(work.more.copy_in_async(there, pinned, bytes, work.streams[0]), "cuMemcpyHtoDAsync");
        must(work.more.event_record(events[1], work.streams[0]), "cuEventRecord");
        must(work.driver.synchronize(), "cuCtxSynchronize");
        taken[i] = between_ns();
    }
    tell(what, TIMES / 4);
    must(work.driver.free(there), "cuMemFree");
}

static void host_functions(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        rest();
        must(host_function(work.streams[0], nothing, NULL), "cuLaunchHostFunc");
        uint64_t returned = now_ns();
        must(work.driver.synchronize(), "cuCtxSynchronize");
        taken[i] = now_ns() - returned;
    }
    tell("a host function on a drained stream, from the call's return until a synchronisation returns", TIMES);
    for (size_t i = 0; i < TIMES; i++) {
        work_launch(&work, work.streams[0]);
        uint64_t begun = now_ns();
        must(host_function(work.streams[0], nothing, NULL), "cuLaunchHostFunc");
        taken[i] = now_ns() - begun;
        must(work.driver.synchronize(), "cuCtxSynchronize");
    }
    tell("the call of a host function on a busy stream", TIMES);
}

/* Launches behind a kernel of half a second until a call waits. */
static void queue(uint64_t iterations)
{
    work.iterations = iterations * 2500;
    work_launch(&work, work.streams[0]);
    work.iterations = 1;
    size_t queued = 0;
    uint64_t took = 0;
    while (queued < MOST_QUEUED && took < 20000000) {
        uint64_t begun = now_ns();
        work_launch(&work, work.streams[0]);
        took = now_ns() - begun;
        queued++;
    }
    must(work.driver.synchronize(), "cuCtxSynchronize");
    work.iterations = iterations;
    taken[0] = queued - 1;
    tell("launches that a stream takes behind a kernel until one waits (a number)", 1);
}

static void system_calls(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        uint64_t begun = now_ns();
        for (int at = 0; at < 100; at++)
            syscall(SYS_getppid);
        taken[i] = (now_ns() - begun) / 100;
    }
    tell("a system call", TIMES);
}

static _Atomic uint64_t shared;
static _Atomic int is_over;

static void *add(void *unused)
{
    while (!is_over)
        atomic_fetch_add(&shared, 1);
    return unused;
}

static void atomics(void)
{
    pthread_t other;
    for (int contended = 0; contended < 2; contended++) {
        if (contended && pthread_create(&other, NULL, add, NULL))
            exit(3);
        for (size_t i = 0; i < TIMES; i++) {
            uint64_t begun = now_ns();
            for (int at = 0; at < 1000; at++)
                atomic_fetch_add(&shared, 1);
            taken[i] = (now_ns() - begun) / 1000;
        }
        tell(contended ? "an addition to a word that another thread adds to" : "an addition to a word of one's own",
             TIMES);
    }
    is_over = 1;
    pthread_join(other, NULL);
}

/* From a process's start until it has run a kernel and ended. */
static void starts(const char *path)
{
    for (size_t i = 0; i < STARTS; i++) {
        uint64_t begun = now_ns();
        pid_t child = fork();
        if (child == 0) {
            execl(path, path, (char *)NULL);
            _exit(127);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            exit(3);
        taken[i] = now_ns() - begun;
    }
    tell("a process that runs one kernel, from its start to its end", STARTS);
}

static void prepare(uint64_t iterations)
{
    work_start(&work);
    *(void **)&event_query = driver_find(&work.driver, "cuEventQuery");
    *(void **)&host_function = driver_find(&work.driver, "cuLaunchHostFunc");
    nothing = of_nothing;
    must(work.driver.alloc(&work.counter, WORDS * 8), "cuMemAlloc");
    must(work.driver.fill(work.counter, 0, WORDS * 2), "cuMemsetD32");
    for (size_t i = 0; i < 2; i++)
        must(work.more.event_create(&events[i], 0), "cuEventCreate");
    work.iterations = iterations;
    for (uint64_t until = now_ns() + 500000000; now_ns() < until;) {
        work_launch(&work, work.streams[0]);
        must(work.driver.synchronize(), "cuCtxSynchronize"); /* clocks come up */
    }
}

/* The primary context's threads sleep in the driver. */
static void sleeps(void)
{
    struct driver driver;
    result_t (*set_flags)(device_t device, unsigned flags);
    driver_open(&driver);
    must(driver.init(0), "cuInit");
    *(void **)&set_flags = driver_find(&driver, "cuDevicePrimaryCtxSetFlags_v2");
    must(set_flags(0, BLOCKING_SYNC), "cuDevicePrimaryCtxSetFlags");
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        work_start(&work);
        must(work.driver.alloc(&work.counter, WORDS * 8), "cuMemAlloc");
        must(work.driver.fill(work.counter, 0, WORDS * 2), "cuMemsetD32");
        work.iterations = 1;
        work_launch(&work, work.streams[0]);
        must(work.driver.synchronize(), "cuCtxSynchronize");
        return 0;
    }
    uint64_t iterations = number(argv[1], "iterations");
    if (argc > 2) {
        sleeps();
        prepare(iterations);
        synchronised("a synchronisation of a context that sleeps, beyond the kernel");
        return 0;
    }
    starts(argv[0]);
    prepare(iterations);
    visible();
    synchronised("a synchronisation of a context that spins, beyond the kernel");
    copied(LARGE, "a copy of 256 MiB of pinned memory, by events");
    copied(SMALL, "a copy of 4 KiB of pinned memory, by events");
    host_functions();
    queue(iterations);
    system_calls();
    atomics();
    execl(argv[0], argv[0], argv[1], "sleeps", (char *)NULL);
    perror(argv[0]);
    return 3;
}
