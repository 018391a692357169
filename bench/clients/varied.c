/* A program whose kernels differ in how long they take: varied mode=MODE file=PATH lengths=N,N...
 * [times=N,N...] [place=mirror|mapped] [over=NS]
 *
 * All are launches of one function with one grid; a parameter says for how many steps each goes on. A round has
 * `times` kernels of each of `lengths`, in their order, and rounds follow one another until standard input ends.
 * Kernels count themselves, each length for itself; see counts.h.
 *
 * Modes: each, burst, poll, graph, grow, hand, streams, threads, shared, context, sleepers, context-sleepers, process; see
 * `modes`.
 */
#define _GNU_SOURCE
#include "counts.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_READY = 600, NON_BLOCKING = 1 };

static struct work work;
static handle_t streams[MOST_LENGTHS];
static uint64_t times[MOST_LENGTHS], over_ns;
static volatile int stopped;
/* Lengths by the clock begin to change. */
static int is_measured;

/* What a program says, wherever it did it: processes that it starts share it. */
static struct said {
    struct counts counts;
    size_t total_bytes;
} *said;

static void launch(size_t of, handle_t stream)
{
    counts_launch(&said->counts, &work, of, stream);
}

static void wait_for(handle_t stream)
{
    must(work.more.stream_synchronize(stream), "cuStreamSynchronize");
}

/* ---- rounds ---- */

static void each(void)
{
    for (size_t of = 0; of < said->counts.lengths; of++) {
        for (uint64_t i = 0; i < times[of]; i++) {
            launch(of, streams[0]);
            wait_for(streams[0]);
        }
    }
}

static void burst(void)
{
    for (size_t of = 0; of < said->counts.lengths; of++) {
        for (uint64_t i = 0; i < times[of]; i++)
            launch(of, streams[0]);
    }
    must(work.driver.synchronize(), "cuCtxSynchronize");
}

static void poll_each(void)
{
    static result_t (*query)(handle_t stream);
    if (!query)
        *(void **)&query = driver_find(&work.driver, "cuStreamQuery");
    for (size_t of = 0; of < said->counts.lengths; of++) {
        for (uint64_t i = 0; i < times[of]; i++) {
            result_t result;
            launch(of, streams[0]);
            while ((result = query(streams[0])) == NOT_READY)
                ;
            must(result, "cuStreamQuery");
        }
    }
}

/* What the driver's headers call CUDA_KERNEL_NODE_PARAMS_v2. */
struct node_params {
    handle_t function;
    unsigned grid[3], block[3], shared_bytes;
    void **arguments, **extra;
    handle_t kernel, context;
};

static void graph(void)
{
    static handle_t executable, node;
    static result_t (*set_params)(handle_t executable, handle_t node, const struct node_params *params);
    for (size_t of = 0; of < said->counts.lengths; of++) {
        void *arguments[] = {&said->counts.at[of], &said->counts.iterations[of]};
        struct node_params params = {
            work.function, {work.blocks, 1, 1}, {THREADS, 1, 1}, 0, arguments, NULL, NULL, NULL,
        };
        if (!executable) {
            handle_t made;
            result_t (*create)(handle_t *, unsigned);
            result_t (*add)(handle_t *, handle_t, const handle_t *, size_t, const struct node_params *);
            *(void **)&create = driver_find(&work.driver, "cuGraphCreate");
            *(void **)&add = driver_find(&work.driver, "cuGraphAddKernelNode_v2");
            *(void **)&set_params = driver_find(&work.driver, "cuGraphExecKernelNodeSetParams_v2");
            must(create(&made, 0), "cuGraphCreate");
            must(add(&node, made, NULL, 0, &params), "cuGraphAddKernelNode");
            must(work.more.instantiate(&executable, made, 0), "cuGraphInstantiateWithFlags");
        }
        must(set_params(executable, node, &params), "cuGraphExecKernelNodeSetParams");
        must(work.more.graph_launch(executable, streams[0]), "cuGraphLaunch");
        said->counts.launched[of]++;
        wait_for(streams[0]);
    }
}

/* From the first length to the last, over `over` ns. */
static size_t length_by_clock(void)
{
    static uint64_t begun_ns;
    uint64_t now = now_ns(), last = said->counts.lengths - 1;
    if (!is_measured)
        return 0;
    if (!begun_ns)
        begun_ns = now;
    uint64_t of = (now - begun_ns) * said->counts.lengths / over_ns;
    return of < last ? of : last;
}

static void grow(void)
{
    launch(length_by_clock(), streams[0]);
    wait_for(streams[0]);
}

static void hand(void)
{
    size_t of = length_by_clock();
    static handle_t events[2];
    static result_t (*create)(handle_t *event, unsigned flags);
    static result_t (*record)(handle_t event, handle_t stream);
    static result_t (*wait)(handle_t stream, handle_t event, unsigned flags);
    enum { HANDS = 8, NO_TIMING = 2 };
    if (!create) {
        *(void **)&record = driver_find(&work.driver, "cuEventRecord");
        *(void **)&wait = driver_find(&work.driver, "cuStreamWaitEvent");
        *(void **)&create = driver_find(&work.driver, "cuEventCreate");
        for (size_t i = 0; i < 2; i++)
            must(create(&events[i], NO_TIMING), "cuEventCreate");
    }
    for (size_t i = 0; i < HANDS; i++) {
        size_t from = i % 2, to = 1 - from;
        launch(of, streams[from]);
        must(record(events[from], streams[from]), "cuEventRecord");
        must(wait(streams[to], events[from], 0), "cuStreamWaitEvent");
    }
    wait_for(streams[0]);
}

static void on_streams(void)
{
    for (size_t of = 0; of < said->counts.lengths; of++) {
        for (uint64_t i = 0; i < times[of]; i++)
            launch(of, streams[of]);
    }
    for (size_t of = 0; of < said->counts.lengths; of++)
        wait_for(streams[of]);
}

/* ---- several threads ---- */

static int is_shared, waits_for_all;

static void *thread(void *at)
{
    size_t of = (size_t)at;
    handle_t stream = streams[is_shared ? 0 : of];
    driver_join(&work.driver);
    while (!stopped) {
        launch(of, stream);
        if (waits_for_all)
            must(work.driver.synchronize(), "cuCtxSynchronize");
        else
            wait_for(stream);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t made[MOST_LENGTHS];
    for (size_t of = 0; of < said->counts.lengths; of++) {
        if (pthread_create(&made[of], NULL, thread, (void *)of)) {
            perror("pthread_create");
            exit(3);
        }
    }
    for (size_t of = 0; of < said->counts.lengths; of++)
        pthread_join(made[of], NULL);
}

/* ---- what all of them begin and end with ---- */

static void begin(void)
{
    size_t free_bytes = 0;
    work_start(&work);
    for (size_t i = 0; i < said->counts.lengths; i++)
        must(work.more.stream_create(&streams[i], NON_BLOCKING), "cuStreamCreate");
    counts_open(&said->counts, &work);
    must(work.driver.memory_info(&free_bytes, &said->total_bytes), "cuMemGetInfo");
}

static void end(void)
{
    must(work.driver.synchronize(), "cuCtxSynchronize");
    counts_close(&said->counts, &work);
}

/* ---- a process for each round ---- */

static void process(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        begin();
        burst();
        end();
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("a process of its own");
        exit(3);
    }
    /* One that ended by itself has said why. */
    if (WIFSIGNALED(status))
        fprintf(stderr, "a process of its own ended by signal %d\n", WTERMSIG(status));
    if (status)
        exit(3);
}

static int input_has_ended(void)
{
    struct pollfd input = {0, POLLIN, 0};
    char byte;
    return poll(&input, 1, 0) > 0 && read(0, &byte, 1) <= 0;
}

static const struct {
    const char *name;
    void (*round)(void);
    int is_shared, waits_for_all, sleeps; /* of threads */
} modes[] = {
    {"each", each},          /* launch and synchronise, one by one */
    {"burst", burst},        /* launch all, then one synchronisation */
    {"poll", poll_each},     /* launch one by one, and ask until it is done */
    {"graph", graph},        /* each once: a graph of one kernel, whose parameters change between its launches */
    {"grow", grow},          /* launch and synchronise; lengths by the clock */
    {"hand", hand},          /* two streams, each waits for the other's kernel; lengths by the clock */
    {"streams", on_streams}, /* each length on a stream of its own, then a synchronisation of each */
    {"threads", threads},    /* a thread with its own stream for each, which launches and synchronises */
    {"shared", threads, .is_shared = 1},      /* the same, all on one stream */
    {"context", threads, .waits_for_all = 1}, /* the same, each waits for all of the context */
    {"sleepers", threads, .sleeps = 1},       /* the same, asleep where the others spin */
    {"context-sleepers", threads, .waits_for_all = 1, .sleeps = 1}, /* both */
    {"process", process},    /* a burst in a process of its own */
};

static void *watch_input(void *nothing)
{
    wait_for_end_of_input();
    stopped = 1;
    return nothing;
}

static size_t list(const char *text, const char *what, uint64_t *numbers)
{
    size_t count = 0;
    char one[32];
    for (;; text++) {
        size_t length = strcspn(text, ",");
        if (count == MOST_LENGTHS || length >= sizeof one) {
            fprintf(stderr, "varied: %s: at most %d numbers\n", what, MOST_LENGTHS);
            exit(2);
        }
        memcpy(one, text, length);
        one[length] = 0;
        numbers[count++] = number(one, what);
        text += length;
        if (!*text)
            return count;
    }
}

static void (*read_arguments(int argc, char **argv))(void)
{
    const char *mode = "";
    struct counts *counts = &said->counts;
    for (size_t i = 0; i < MOST_LENGTHS; i++)
        times[i] = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        size_t length = value ? (size_t)(value++ - argv[i]) : 0;
        if (length == 4 && !strncmp(argv[i], "mode", length)) {
            mode = value;
        } else if (length == 4 && !strncmp(argv[i], "file", length)) {
            counts->file = value;
        } else if (length == 5 && !strncmp(argv[i], "place", length)) {
            counts->is_mirrored = !strcmp(value, "mirror");
        } else if (length == 7 && !strncmp(argv[i], "lengths", length)) {
            counts->lengths = list(value, "lengths", counts->iterations);
        } else if (length == 5 && !strncmp(argv[i], "times", length)) {
            list(value, "times", times);
        } else if (length == 4 && !strncmp(argv[i], "over", length)) {
            over_ns = number(value, "over");
        } else {
            fprintf(stderr, "varied: %s is not understood\n", argv[i]);
            exit(2);
        }
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!strcmp(mode, modes[i].name) && counts->file && counts->lengths &&
            ((modes[i].round != grow && modes[i].round != hand) || over_ns)) {
            is_shared = modes[i].is_shared;
            waits_for_all = modes[i].waits_for_all;
            work.driver.sleeps = modes[i].sleeps;
            return modes[i].round;
        }
    }
    fprintf(stderr, "varied needs mode=, file= and lengths=, and grow and hand over=\n");
    exit(2);
}

int main(int argc, char **argv)
{
    said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (said == MAP_FAILED) {
        perror("mmap");
        return 3;
    }
    void (*round)(void) = read_arguments(argc, argv);
    /* One round, so that what is made at first use is made before the clock runs. */
    if (round != process)
        begin();
    if (round == threads) {
        on_streams();
    } else {
        round();
    }
    printf("{\"ready\":1,\"total_bytes\":%zu}\n", said->total_bytes);
    fflush(stdout);
    wait_for_byte();
    is_measured = 1;
    if (round == process) {
        while (!input_has_ended())
            round();
    } else {
        pthread_t watcher;
        if (pthread_create(&watcher, NULL, watch_input, NULL)) {
            perror("pthread_create");
            return 3;
        }
        while (!stopped)
            round();
        end();
    }
    printf("{");
    counts_print(&said->counts);
    printf("}\n");
    fflush(stdout);
    return 0;
}
