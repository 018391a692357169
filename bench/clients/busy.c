/* A program that keeps the GPU busy with kernels of fixed work: busy KEY=VALUE...
 *
 * mode=calibrate ns=T        finds how many iterations take T ns in a saturated queue
 * mode=MODE iterations=N     works until its standard input ends
 *
 * The kernel fills the card, does N dependent steps a thread (never a clock spin, so that being
 * switched out does not count as work) and counts itself when it is done. The count lies where
 * somebody else can read it: file=PATH is mapped, and registered with the driver. With place=mirror
 * the kernel counts in device memory and stores the count into the file; with place=mapped it counts
 * in the file itself. What is counted is therefore claimed by the device, not by this program.
 *
 * Modes: sync, async, graph, ex, cooperative, streams, paced, copy, request, half, gap; see `modes`.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 256,
    BLOCKS_PER_SM = 8,
    SMS = 16,             /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    MAPPED = 3,           /* portable and mapped */
    NO_TIMING = 2,
    NON_BLOCKING = 1,
    CAPTURE_RELAXED = 2,
    STREAMS = 4,
    MOST_RING = 8,
    COPY_BYTES = 4 << 20,
    MOST_LATENCIES = 8192,
};
static const uint64_t MS = 1000000;

/* Words of the counter's block. */
enum { COUNT, MIRROR, CHECKSUM, UNUSED, WORDS };

static const char KERNEL[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".visible .entry share_work(\n"
    "\t.param .u64 counter,\n"
    "\t.param .u64 iterations\n"
    ")\n"
    ".maxntid 256, 1, 1\n"
    ".minnctapersm 8\n"
    "{\n"
    "\t.reg .pred %p<6>;\n"
    "\t.reg .b32 %r<8>;\n"
    "\t.reg .b64 %d<10>;\n"
    "\tld.param.u64 %d1, [counter];\n"
    "\tld.param.u64 %d2, [iterations];\n"
    "\tcvta.to.global.u64 %d3, %d1;\n"
    "\tmov.u32 %r1, %tid.x;\n"
    "\tmov.u32 %r2, %ctaid.x;\n"
    "\tmov.u32 %r3, %ntid.x;\n"
    "\tmad.lo.u32 %r4, %r2, %r3, %r1;\n"
    "\tadd.u32 %r5, %r4, 1;\n"
    "\tmov.u64 %d4, 0;\n"
    "STEP:\n"
    "\tsetp.ge.u64 %p1, %d4, %d2;\n"
    "\t@%p1 bra DONE;\n"
    "\tmad.lo.u32 %r5, %r5, %r5, 12345;\n"
    "\tadd.u64 %d4, %d4, 1;\n"
    "\tbra STEP;\n"
    "DONE:\n"
    /* Stores what no thread reaches by then, so that no thread's work can be left out. */
    "\tsetp.eq.u32 %p2, %r5, 3735928559;\n"
    "\t@%p2 st.global.u32 [%d3+24], %r5;\n"
    "\tsetp.ne.u32 %p3, %r4, 0;\n"
    "\t@%p3 ret;\n"
    "\tcvt.u64.u32 %d5, %r5;\n"
    "\tred.global.add.u64 [%d3+16], %d5;\n"
    "\tatom.global.add.u64 %d6, [%d3], 1;\n"
    "\tld.global.u64 %d7, [%d3+8];\n"
    "\tsetp.eq.u64 %p4, %d7, 0;\n"
    "\t@%p4 ret;\n"
    "\tadd.u64 %d6, %d6, 1;\n"
    "\tcvta.to.global.u64 %d8, %d7;\n"
    "\tst.volatile.global.u64 [%d8], %d6;\n"
    "\tret;\n"
    "}\n";

/* What the driver's headers call CUlaunchConfig. */
struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    handle_t stream;
    void *attributes;
    unsigned attribute_count;
};

static struct {
    result_t (*host_register)(void *at, size_t bytes, unsigned flags);
    result_t (*host_pointer)(address_t *device, void *host, unsigned flags);
    result_t (*host_alloc)(void **at, size_t bytes, unsigned flags);
    result_t (*copy_in)(address_t to, const void *from, size_t bytes);
    result_t (*copy_in_async)(address_t to, const void *from, size_t bytes, handle_t stream);
    result_t (*stream_create)(handle_t *stream, unsigned flags);
    result_t (*stream_synchronize)(handle_t stream);
    result_t (*event_create)(handle_t *event, unsigned flags);
    result_t (*event_record)(handle_t event, handle_t stream);
    result_t (*event_synchronize)(handle_t event);
    result_t (*event_elapsed)(float *ms, handle_t start, handle_t end);
    result_t (*begin_capture)(handle_t stream, int mode);
    result_t (*end_capture)(handle_t stream, handle_t *graph);
    result_t (*instantiate)(handle_t *executable, handle_t graph, unsigned long long flags);
    result_t (*graph_launch)(handle_t executable, handle_t stream);
    result_t (*launch_ex)(const struct launch_config *config, handle_t function, void **arguments,
                          void **extra);
    result_t (*launch_cooperative)(handle_t function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                   handle_t stream, void **arguments);
} more;

static struct driver driver;
static handle_t function, executable, streams[STREAMS];
static unsigned blocks;
static uint64_t iterations, launched;
static address_t counter, copied;
static void *pinned;
static volatile int stopped;

/* What the command line says. */
static struct {
    const char *mode, *file, *place;
    uint64_t kernel_ns, pause_ns, per_graph, per_request, period_ns;
} wanted = {"sync", NULL, "mapped", 100000, 0, 20, 100, 100000000};

static void find_more(void)
{
    const struct {
        void *field;
        const char *name;
    } table[] = {
        {&more.host_register, "cuMemHostRegister_v2"},
        {&more.host_pointer, "cuMemHostGetDevicePointer_v2"},
        {&more.host_alloc, "cuMemHostAlloc"},
        {&more.copy_in, "cuMemcpyHtoD_v2"},
        {&more.copy_in_async, "cuMemcpyHtoDAsync_v2"},
        {&more.stream_create, "cuStreamCreate"},
        {&more.stream_synchronize, "cuStreamSynchronize"},
        {&more.event_create, "cuEventCreate"},
        {&more.event_record, "cuEventRecord"},
        {&more.event_synchronize, "cuEventSynchronize"},
        {&more.event_elapsed, "cuEventElapsedTime"},
        {&more.begin_capture, "cuStreamBeginCapture_v2"},
        {&more.end_capture, "cuStreamEndCapture"},
        {&more.instantiate, "cuGraphInstantiateWithFlags"},
        {&more.graph_launch, "cuGraphLaunch"},
        {&more.launch_ex, "cuLaunchKernelEx"},
        {&more.launch_cooperative, "cuLaunchCooperativeKernel"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *symbol = dlsym(driver.library, table[i].name);
        if (!symbol) {
            fprintf(stderr, "the driver has no %s\n", table[i].name);
            exit(3);
        }
        memcpy(table[i].field, &symbol, sizeof symbol);
    }
}

static void *watch_input(void *nothing)
{
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
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
    void *arguments[] = {&counter, &iterations};
    must(driver.launch(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL),
         "cuLaunchKernel");
    launched++;
}

static void plain(void)
{
    launch_on(streams[0]);
}

static void extended(void)
{
    void *arguments[] = {&counter, &iterations};
    struct launch_config config = {
        {blocks, 1, 1}, {THREADS, 1, 1}, 0, streams[0], NULL, 0,
    };
    must(more.launch_ex(&config, function, arguments, NULL), "cuLaunchKernelEx");
    launched++;
}

static void cooperative(void)
{
    void *arguments[] = {&counter, &iterations};
    must(more.launch_cooperative(function, blocks, 1, 1, THREADS, 1, 1, 0, streams[0], arguments),
         "cuLaunchCooperativeKernel");
    launched++;
}

static void on_four(void)
{
    for (int i = 0; i < STREAMS; i++)
        launch_on(streams[i]);
}

static void graph(void)
{
    must(more.graph_launch(executable, streams[0]), "cuGraphLaunch");
    launched += wanted.per_graph;
}

static void make_graph(void)
{
    handle_t made;
    must(more.begin_capture(streams[0], CAPTURE_RELAXED), "cuStreamBeginCapture");
    for (uint64_t i = 0; i < wanted.per_graph; i++)
        launch_on(streams[0]);
    must(more.end_capture(streams[0], &made), "cuStreamEndCapture");
    must(more.instantiate(&executable, made, 0), "cuGraphInstantiateWithFlags");
    launched = 0;
}

/* ---- loops ---- */

static void (*submit)(void) = plain;
static uint64_t unit_ns;

static void drain(void)
{
    must(driver.synchronize(), "cuCtxSynchronize");
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
                must(more.event_create(&events[at][i], NO_TIMING), "cuEventCreate");
    }
    for (uint64_t round = 0; !stopped && now_ns() < until_ns; round++) {
        handle_t *last = events[round % ring];
        for (int i = 0; round >= ring && i < used; i++)
            must(more.event_synchronize(last[i]), "cuEventSynchronize");
        for (uint64_t i = 0; i < batch && !stopped; i++)
            submit();
        for (int i = 0; i < used; i++)
            must(more.event_record(last[i], streams[i]), "cuEventRecord");
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
        must(more.stream_synchronize(streams[0]), "cuStreamSynchronize");
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
        must(more.copy_in_async(copied, pinned, COPY_BYTES, streams[0]), "cuMemcpyHtoDAsync");
        plain();
        must(more.stream_synchronize(streams[0]), "cuStreamSynchronize");
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
        must(more.stream_synchronize(streams[0]), "cuStreamSynchronize");
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

/* ---- what the count lies in ---- */

static volatile uint64_t *map_counter(void)
{
    int file = open(wanted.file, O_RDWR | O_CLOEXEC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = file < 0 ? MAP_FAILED
                        : mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    address_t address = 0;
    if (at == MAP_FAILED) {
        perror(wanted.file);
        exit(3);
    }
    must(more.host_register(at, page, MAPPED), "cuMemHostRegister");
    must(more.host_pointer(&address, at, 0), "cuMemHostGetDevicePointer");
    counter = address;
    if (!strcmp(wanted.place, "mirror")) {
        uint64_t words[WORDS] = {0, address, 0, 0};
        must(driver.alloc(&counter, sizeof words), "cuMemAlloc");
        must(more.copy_in(counter, words, sizeof words), "cuMemcpyHtoD");
    }
    return at;
}

/* What the kernel's first thread arrives at. */
static uint32_t expected_of_one(void)
{
    uint32_t x = 1;
    for (uint64_t i = 0; i < iterations; i++)
        x = x * x + 12345;
    return x;
}

static void tell_end(volatile uint64_t *mapped)
{
    uint64_t words[WORDS] = {0}, expected = 0;
    if (!strcmp(wanted.place, "mirror")) {
        must(driver.copy_out(words, counter, sizeof words), "cuMemcpyDtoH");
        expected = words[COUNT] * expected_of_one();
    } else {
        /* A device that counts in host memory is a simulated one, which has no checksum. */
        words[COUNT] = mapped[COUNT];
    }
    printf("{\"launched\":%llu,\"count\":%llu,\"shown\":%llu,\"checksum\":%llu,\"expected\":%llu,"
           "\"latencies_ns\":[",
           (unsigned long long)launched, (unsigned long long)words[COUNT],
           (unsigned long long)mapped[COUNT], (unsigned long long)words[CHECKSUM],
           (unsigned long long)expected);
    for (size_t i = 0; i < latency_count; i++)
        printf("%s%llu", i ? "," : "", (unsigned long long)latencies[i]);
    printf("]}\n");
    fflush(stdout);
}

/* ---- how long one takes ---- */

static void launch_steps(uint64_t steps)
{
    uint64_t given = iterations;
    iterations = steps;
    plain();
    iterations = given;
}

/* Nanoseconds of one kernel in a saturated queue of about `span_ns`, the middle of five batches. */
static uint64_t saturated_ns(uint64_t about_ns, uint64_t span_ns)
{
    uint64_t batches[5], each = span_ns / about_ns;
    handle_t start, end;
    each = each < 2 ? 2 : each > 1000 ? 1000 : each;
    must(more.event_create(&start, 0), "cuEventCreate");
    must(more.event_create(&end, 0), "cuEventCreate");
    for (int batch = 0; batch < 5; batch++) {
        float ms = 0;
        /* The batch queues up behind a long kernel, so that no slow launch is measured. */
        launch_steps(about_ns < span_ns ? iterations * (span_ns / about_ns) : iterations);
        must(more.event_record(start, streams[0]), "cuEventRecord");
        for (uint64_t i = 0; i < each; i++)
            plain();
        must(more.event_record(end, streams[0]), "cuEventRecord");
        must(more.event_synchronize(end), "cuEventSynchronize");
        must(more.event_elapsed(&ms, start, end), "cuEventElapsedTime");
        batches[batch] = (uint64_t)((double)ms * 1e6 / (double)each);
    }
    return median(batches, 5);
}

/* Says how many iterations a kernel of `ns` has, or how long one of the given iterations takes. */
static void calibrate(uint64_t ns, uint64_t span_ns)
{
    const uint64_t few = 20000, many = 60000;
    for (uint64_t until = now_ns() + 10 * span_ns; now_ns() < until;) {
        launch_steps(many);
        drain(); /* clocks come up */
    }
    if (iterations == 0) {
        /* A kernel has a fixed part; its slope is what the steps cost. */
        double slope;
        iterations = few;
        uint64_t low = saturated_ns(few * 16, span_ns);
        iterations = many;
        uint64_t high = saturated_ns(many * 16, span_ns);
        slope = high > low ? (double)(high - low) / (double)(many - few) : 1;
        /* Long kernels are scaled from shorter ones, to which they are proportional. */
        uint64_t part = ns < span_ns / 4 ? ns : span_ns / 4;
        double steps = (double)part / slope;
        for (int again = 0; again < 3; again++) {
            iterations = steps > 1 ? (uint64_t)steps : 1;
            double least = steps / 2; /* a host that is too slow to fill the queue misleads no more */
            steps += ((double)part - (double)saturated_ns(part, span_ns)) / slope;
            steps = steps > least ? steps : least;
        }
        steps *= (double)ns / (double)part;
        iterations = steps > 1 ? (uint64_t)steps : 1;
    }
    printf("{\"iterations\":%llu,\"ns\":%llu}\n", (unsigned long long)iterations,
           (unsigned long long)saturated_ns(ns, span_ns));
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
    uint64_t ns = 0, span_ns = 20 * MS;
    size_t total_bytes = 0, free_bytes = 0;
    int sms = 0;
    device_t device;
    handle_t module;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (!take(text, "mode", NULL, &wanted.mode) && !take(text, "file", NULL, &wanted.file) &&
            !take(text, "place", NULL, &wanted.place) &&
            !take(text, "iterations", &iterations, NULL) && !take(text, "ns", &ns, NULL) &&
            !take(text, "span", &span_ns, NULL) && !take(text, "kernel", &wanted.kernel_ns, NULL) &&
            !take(text, "pause", &wanted.pause_ns, NULL) &&
            !take(text, "graph", &wanted.per_graph, NULL) &&
            !take(text, "requests", &wanted.per_request, NULL) &&
            !take(text, "period", &wanted.period_ns, NULL)) {
            fprintf(stderr, "busy: %s is not understood\n", text);
            return 2;
        }
    }
    driver_start(&driver);
    find_more();
    must(driver.device_get(&device, 0), "cuDeviceGet");
    must(driver.device_attribute(&sms, SMS, device), "cuDeviceGetAttribute");
    blocks = (unsigned)sms * BLOCKS_PER_SM;
    must(driver.module_load(&module, KERNEL), "cuModuleLoadData");
    must(driver.module_function(&function, module, "share_work"), "cuModuleGetFunction");
    for (int i = 0; i < STREAMS; i++)
        must(more.stream_create(&streams[i], NON_BLOCKING), "cuStreamCreate");
    if (!strcmp(wanted.mode, "calibrate")) {
        uint64_t words[WORDS] = {0};
        must(driver.alloc(&counter, sizeof words), "cuMemAlloc");
        must(more.copy_in(counter, words, sizeof words), "cuMemcpyHtoD");
        calibrate(ns, span_ns);
        return 0;
    }
    void (*loop)(void) = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!strcmp(wanted.mode, modes[i].name)) {
            submit = modes[i].submit;
            loop = modes[i].loop;
        }
    }
    if (!loop || !wanted.file || !iterations || !wanted.kernel_ns) {
        fprintf(stderr, "busy needs mode=, file=, iterations= and kernel=\n");
        return 2;
    }
    unit_ns = wanted.kernel_ns;
    volatile uint64_t *mapped = map_counter();
    if (submit == graph) {
        make_graph();
        unit_ns *= wanted.per_graph;
    } else if (submit == on_four) {
        unit_ns *= STREAMS;
    }
    if (loop == copy) {
        must(more.host_alloc(&pinned, COPY_BYTES, 0), "cuMemHostAlloc");
        must(driver.alloc(&copied, COPY_BYTES), "cuMemAlloc");
    }
    /* One of the kind, so that what is made at first use is made before the clock runs. */
    submit();
    drain();
    must(driver.memory_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    printf("{\"ready\":1,\"sms\":%d,\"total_bytes\":%zu}\n", sms, total_bytes);
    fflush(stdout);
    wait_for_byte();
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch_input, NULL)) {
        perror("pthread_create");
        return 3;
    }
    loop();
    drain();
    tell_end(mapped);
    return 0;
}
