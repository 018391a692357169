/* A program that keeps the GPU busy with kernels of fixed work: busy mode=MODE file=PATH
 * iterations=N kernel=NS [place=mirror|mapped] and what else the mode needs.
 *
 * Works until its standard input ends. Each kernel counts itself when it is done, in file=PATH or, with
 * place=mirror, in device memory and from there: see counts.h.
 *
 * Modes: sync, async, graph, ex, cooperative, streams, paced, copy, request, half, gap; see `modes`.
 */
#define _GNU_SOURCE
#include "counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RING = 8, COPY_BYTES = 4 << 20, MOST_LATENCIES = 8192 };
static const uint64_t MS = 1000000;

static struct work work;
static struct counts counts = {.lengths = 1};
static handle_t executable;
static address_t copied;
static void *pinned;
static volatile int stopped;

/* What the command line says. */
static struct {
    const char *mode, *file, *place;
    uint64_t kernel_ns, pause_ns, per_graph, per_request, period_ns;
} wanted = {"sync", NULL, "mapped", 100000, 0, 20, 100, 100000000};

static void *watch_input(void *nothing)
{
    wait_for_end_of_input();
    stopped = 1;
    return nothing;
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

/* ---- one kernel, by each road ---- */

static void launch_on(handle_t stream)
{
    counts_launch(&counts, &work, 0, stream);
}

static void plain(void)
{
    launch_on(work.streams[0]);
}

static void extended(void)
{
    void *arguments[] = {&counts.at[0], &counts.iterations[0]};
    struct launch_config config = {
        {work.blocks, 1, 1}, {THREADS, 1, 1}, 0, work.streams[0], NULL, 0,
    };
    must(work.more.launch_ex(&config, work.function, arguments, NULL), "cuLaunchKernelEx");
    counts.launched[0]++;
}

static void cooperative(void)
{
    void *arguments[] = {&counts.at[0], &counts.iterations[0]};
    must(work.more.launch_cooperative(work.function, work.blocks, 1, 1, THREADS, 1, 1, 0, work.streams[0], arguments),
         "cuLaunchCooperativeKernel");
    counts.launched[0]++;
}

static void on_four(void)
{
    for (int i = 0; i < STREAMS; i++)
        launch_on(work.streams[i]);
}

static void graph(void)
{
    must(work.more.graph_launch(executable, work.streams[0]), "cuGraphLaunch");
    counts.launched[0] += wanted.per_graph;
}

static void make_graph(void)
{
    handle_t made;
    must(work.more.begin_capture(work.streams[0], CAPTURE_RELAXED), "cuStreamBeginCapture");
    for (uint64_t i = 0; i < wanted.per_graph; i++)
        launch_on(work.streams[0]);
    must(work.more.end_capture(work.streams[0], &made), "cuStreamEndCapture");
    must(work.more.instantiate(&executable, made, 0), "cuGraphInstantiateWithFlags");
    counts.launched[0] = 0;
}

/* ---- loops ---- */

static void (*submit)(void) = plain;
static uint64_t unit_ns;

static void drain(void)
{
    must(work.driver.synchronize(), "cuCtxSynchronize");
}

/* Keeps about 10 ms of work, or two units, in the queue until `until_ns`. */
static void keep_queue(uint64_t until_ns)
{
    static handle_t events[MOST_RING][STREAMS];
    uint64_t depth = 10 * MS / unit_ns;
    uint64_t ring = depth >= 8 ? 4 : 2, batch = depth / ring ? depth / ring : 1;
    int used = submit == on_four ? STREAMS : 1;
    if (!events[0][0]) {
        for (uint64_t at = 0; at < ring; at++)
            for (int i = 0; i < used; i++)
                must(work.more.event_create(&events[at][i], NO_TIMING), "cuEventCreate");
    }
    for (uint64_t round = 0; !stopped && now_ns() < until_ns; round++) {
        handle_t *last = events[round % ring];
        for (int i = 0; round >= ring && i < used; i++)
            must(work.more.event_synchronize(last[i]), "cuEventSynchronize");
        for (uint64_t i = 0; i < batch && !stopped; i++)
            submit();
        for (int i = 0; i < used; i++)
            must(work.more.event_record(last[i], work.streams[i]), "cuEventRecord");
    }
}

static void async(void)
{
    keep_queue(UINT64_MAX);
}

static void sync_each(void)
{
    while (!stopped) {
        submit();
        must(work.more.stream_synchronize(work.streams[0]), "cuStreamSynchronize");
        if (wanted.pause_ns)
            sleep_until(now_ns() + wanted.pause_ns);
    }
}

/* A kernel every `period`; a round that is late is not made up for. */
static void paced(void)
{
    uint64_t next = now_ns();
    while (!stopped) {
        plain();
        next += wanted.period_ns;
        uint64_t now = now_ns();
        if (next < now)
            next = now;
        while (now_ns() < next)
            ;
    }
}

static void copy(void)
{
    while (!stopped) {
        must(work.more.copy_in_async(copied, pinned, COPY_BYTES, work.streams[0]), "cuMemcpyHtoDAsync");
        plain();
        must(work.more.stream_synchronize(work.streams[0]), "cuStreamSynchronize");
    }
}

/* Busy for half of each period, drained and idle for the other. */
static void half(void)
{
    uint64_t start = now_ns();
    while (!stopped) {
        keep_queue(start + wanted.period_ns / 2);
        drain();
        start += wanted.period_ns;
        if (start < now_ns())
            start = now_ns();
        sleep_until(start);
    }
}

static uint64_t latencies[MOST_LATENCIES];
static size_t latency_count;

/* Requests arrive by the clock; the time of one counts from its arrival, waiting included. */
static void request(void)
{
    uint64_t arrival = now_ns() + wanted.period_ns;
    while (!stopped) {
        sleep_until(arrival);
        if (stopped)
            break;
        for (uint64_t i = 0; i < wanted.per_request; i++)
            plain();
        must(work.more.stream_synchronize(work.streams[0]), "cuStreamSynchronize");
        if (latency_count < MOST_LATENCIES)
            latencies[latency_count++] = now_ns() - arrival;
        arrival += wanted.period_ns;
    }
}

static const struct {
    const char *name;
    void (*submit)(void);
    void (*loop)(void);
} modes[] = {
    {"sync", plain, sync_each},             /* launch and synchronise */
    {"async", plain, async},                /* a queue of 10 ms, or of two kernels */
    {"graph", graph, async},                /* the same with graphs of `graph` kernels */
    {"ex", extended, async},                /* the same by cuLaunchKernelEx */
    {"cooperative", cooperative, async},    /* the same by cuLaunchCooperativeKernel */
    {"streams", on_four, async},            /* the same on four streams */
    {"paced", plain, paced},                /* one every `period` ns, never synchronised */
    {"copy", plain, copy},                  /* 4 MiB to the device before each */
    {"request", plain, request},            /* `requests` kernels every `period` ns, timed */
    {"half", plain, half},                  /* a queue for half of each `period` */
    {"gap", plain, sync_each},              /* launch, synchronise, pause `pause` ns */
};

static void tell_end(void)
{
    printf("{");
    counts_print(&counts);
    printf(",\"latencies_ns\":[");
    for (size_t i = 0; i < latency_count; i++)
        printf("%s%llu", i ? "," : "", (unsigned long long)latencies[i]);
    printf("]}\n");
    fflush(stdout);
}

static int take(const char *text, const char *key, uint64_t *number_of, const char **word_of)
{
    size_t length = strlen(key);
    if (strncmp(text, key, length) || text[length] != '=')
        return 0;
    if (word_of)
        *word_of = text + length + 1;
    else
        *number_of = number(text + length + 1, key);
    return 1;
}

int main(int argc, char **argv)
{
    size_t total_bytes = 0, free_bytes = 0;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (!take(text, "mode", NULL, &wanted.mode) && !take(text, "file", NULL, &wanted.file) &&
            !take(text, "place", NULL, &wanted.place) &&
            !take(text, "iterations", &counts.iterations[0], NULL) &&
            !take(text, "kernel", &wanted.kernel_ns, NULL) &&
            !take(text, "pause", &wanted.pause_ns, NULL) &&
            !take(text, "graph", &wanted.per_graph, NULL) &&
            !take(text, "requests", &wanted.per_request, NULL) &&
            !take(text, "period", &wanted.period_ns, NULL)) {
            fprintf(stderr, "busy: %s is not understood\n", text);
            return 2;
        }
    }
    void (*loop)(void) = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!strcmp(wanted.mode, modes[i].name)) {
            submit = modes[i].submit;
            loop = modes[i].loop;
        }
    }
    if (!loop || !wanted.file || !counts.iterations[0] || !wanted.kernel_ns) {
        fprintf(stderr, "busy needs mode=, file=, iterations= and kernel=\n");
        return 2;
    }
    work_start(&work);
    unit_ns = wanted.kernel_ns;
    counts.file = wanted.file;
    counts.is_mirrored = !strcmp(wanted.place, "mirror");
    counts_open(&counts, &work);
    if (submit == graph) {
        make_graph();
        unit_ns *= wanted.per_graph;
    } else if (submit == on_four) {
        unit_ns *= STREAMS;
    }
    if (loop == copy) {
        must(work.more.host_alloc(&pinned, COPY_BYTES, 0), "cuMemHostAlloc");
        must(work.driver.alloc(&copied, COPY_BYTES), "cuMemAlloc");
    }
    /* One of the kind, so that what is made at first use is made before the clock runs. */
    submit();
    drain();
    must(work.driver.memory_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    printf("{\"ready\":1,\"sms\":%u,\"total_bytes\":%zu}\n", work.sms, total_bytes);
    fflush(stdout);
    wait_for_byte();
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch_input, NULL)) {
        perror("pthread_create");
        return 3;
    }
    loop();
    drain();
    counts_close(&counts, &work);
    tell_end();
    return 0;
}
