/* What one call costs: cost launch|sync|pass|pair|refuse CALLS [THREADS | LIVE BLOCKS | BYTES].
 *
 * Launches by several threads at once are timed by each thread's own processor time, so that more threads
 * than processors show what a launch costs and not who had to wait; in rounds with a pause, since a cap
 * takes the shortest launch for half a microsecond of the device's time and would run out. A refusal is
 * measured where it is decided: BYTES are taken until none are given, then asked for again.
 * Calls are timed a hundred at a time; the result is the middle hundred, in picoseconds per call so that
 * no fraction is lost. A launch in eight hundred begins a piece of credit and waits for the cap, which is
 * not in the middle but in the mean, given beside it. So are user-space instructions per call, in
 * thousandths, of batches of several hundreds.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 21, TIMED = 100, MOST_THREADS = 64, ROUND = 400, PAUSE_US = 5000, MOST_ROUNDS = 2000 };
static const size_t BLOCK_BYTES = 2u << 20;
static const char EMPTY_KERNEL[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n";

static struct driver driver;
static handle_t function;
static size_t refused_bytes;
static device_t device;

static void launch(void)
{
    result_t result = driver.launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (result != SUCCESS)
        must(result, "cuLaunchKernel");
}

static void synchronised(void)
{
    launch();
    driver.synchronize();
}

static void pass(void)
{
    int value;
    result_t result = driver.device_attribute(&value, 1, device);
    if (result != SUCCESS)
        must(result, "cuDeviceGetAttribute");
}

static void pair(void)
{
    address_t address;
    result_t result = driver.alloc(&address, BLOCK_BYTES);
    if (result == SUCCESS)
        result = driver.free(address);
    if (result != SUCCESS)
        must(result, "cuMemAlloc and cuMemFree");
}

static void refuse(void)
{
    address_t address;
    result_t result = driver.alloc(&address, refused_bytes);
    if (result != OUT_OF_MEMORY) {
        fprintf(stderr, "cuMemAlloc of %zu bytes returned %d instead of out-of-memory\n",
                refused_bytes, result);
        exit(3);
    }
}

static void measure(void (*call)(void), uint64_t calls)
{
    uint64_t each = calls / BATCHES / TIMED ? calls / BATCHES / TIMED : 1;
    uint64_t *picoseconds = calloc(BATCHES * each, sizeof *picoseconds), counted[BATCHES], sum = 0;
    must(picoseconds ? SUCCESS : OUT_OF_MEMORY, "calloc");
    for (int batch = -2; batch < BATCHES; batch++) { /* two to warm up */
        uint64_t *timed = &picoseconds[batch < 0 ? 0 : (uint64_t)batch * each];
        uint64_t count_before = instructions(), before = now_ns();
        for (uint64_t i = 0; i < each; i++) {
            for (int of_it = 0; of_it < TIMED; of_it++)
                call();
            uint64_t after = now_ns();
            timed[i] = (after - before) * 1000 / TIMED;
            before = after;
        }
        uint64_t count_after = instructions();
        driver.synchronize();
        if (batch >= 0)
            counted[batch] = (count_after - count_before) * 1000 / each / TIMED;
    }
    for (uint64_t i = 0; i < BATCHES * each; i++)
        sum += picoseconds[i];
    printf("{\"ps\":%llu,\"ps_mean\":%llu,\"milli_instructions\":%llu}\n",
           (unsigned long long)median(picoseconds, BATCHES * each),
           (unsigned long long)(sum / (BATCHES * each)),
           (unsigned long long)median(counted, BATCHES));
    free(picoseconds);
}

static handle_t context;
static size_t rounds;
static uint64_t of_threads[MOST_THREADS];
static pthread_barrier_t together;

static uint64_t thread_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *launches(void *number)
{
    uint64_t *picoseconds = calloc(rounds, sizeof *picoseconds);
    must(picoseconds ? SUCCESS : OUT_OF_MEMORY, "calloc");
    must(driver.set_current(context), "cuCtxSetCurrent");
    for (size_t round = 0; round < rounds; round++) {
        usleep(PAUSE_US);
        pthread_barrier_wait(&together);
        uint64_t before = thread_ns();
        for (int i = 0; i < ROUND; i++)
            launch();
        picoseconds[round] = (thread_ns() - before) * 1000 / ROUND;
    }
    of_threads[(size_t)number] = median(picoseconds, rounds);
    free(picoseconds);
    return NULL;
}

static void measure_threads(uint64_t calls, size_t threads)
{
    pthread_t started[MOST_THREADS];
    rounds = calls / ROUND / threads;
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, launches, (void *)i) != 0) {
            fprintf(stderr, "no thread %zu can be had\n", i);
            exit(3);
        }
    for (size_t i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    uint64_t middle = median(of_threads, threads);
    printf("{\"ps\":%llu,\"ps_min\":%llu}\n", (unsigned long long)middle,
           (unsigned long long)of_threads[0]);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr,
                "usage: cost launch|sync|pass|pair|refuse CALLS [THREADS | LIVE BLOCKS | BYTES]\n");
        return 2;
    }
    const char *what = argv[1];
    uint64_t calls = number(argv[2], "CALLS");
    uint64_t more = argc > 3 ? number(argv[3], "THREADS, LIVE BLOCKS or BYTES") : 0;
    driver_start(&driver);
    must(driver.device_get(&device, 0), "cuDeviceGet");
    if (!strcmp(what, "launch") || !strcmp(what, "sync")) {
        handle_t module;
        must(driver.module_load(&module, EMPTY_KERNEL), "cuModuleLoadData");
        must(driver.module_function(&function, module, "nothing"), "cuModuleGetFunction");
        if (more > MOST_THREADS) {
            fprintf(stderr, "cost: %llu threads; at most %d\n", (unsigned long long)more, MOST_THREADS);
            return 2;
        }
        if (more > 1) {
            must(driver.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
            measure_threads(calls, (size_t)more);
        } else {
            measure(strcmp(what, "sync") ? launch : synchronised, calls);
        }
    } else if (!strcmp(what, "pass")) {
        measure(pass, calls);
    } else if (!strcmp(what, "pair")) {
        for (uint64_t i = 0; i < more; i++) {
            address_t address;
            must(driver.alloc(&address, BLOCK_BYTES), "cuMemAlloc of a block to stay live");
        }
        measure(pair, calls);
    } else if (!strcmp(what, "refuse")) {
        address_t address;
        refused_bytes = (size_t)more;
        unsigned taken = 0;
        while (driver.alloc(&address, refused_bytes) == SUCCESS) {
            if (++taken == 10000) {
                fprintf(stderr, "%u blocks of %zu bytes and no refusal\n", taken, refused_bytes);
                return 3;
            }
        }
        measure(refuse, calls);
    } else {
        fprintf(stderr, "cost: \"%s\" is none of launch, sync, pass, pair, refuse\n", what);
        return 2;
    }
    return 0;
}
