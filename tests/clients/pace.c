/* link: cuda */
/* Programs that give the device work without end and say how far they are, and programs whose work
 * waits for other work of theirs. */
#include "loops.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

enum { KERNEL_NS = 100 * 1000, QUEUE = 20, NODES = 5, COPY_BYTES = 1 << 20 };
enum { CALLBACK_US = 100 * 1000, THREADS = 16, LONG = 1500, LAUNCHES = 8 };

CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void **, void **);
CUresult cuStreamSynchronize_ptsz(CUstream);

static CUstream stream;
static CUfunction work;

static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void kernel_on(CUfunction function, CUstream on, unsigned long long iterations)
{
    unsigned long long counter = 0;
    void *params[] = {&counter, &iterations};
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, on, params, NULL));
}

static void kernel(void) { kernel_on(work, stream, KERNEL_NS); }

static void ready(void)
{
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    work = obtain(PTX_HEAD PTX_WORK, "share_work");
}

/* Says what was done so far, and when, every tenth of a second. */
static void tell(unsigned long long done)
{
    static unsigned long long told_ns;
    unsigned long long at_ns = now_ns();
    if (at_ns - told_ns < 100 * 1000 * 1000)
        return;
    told_ns = at_ns;
    printf("%llu %llu\n", done, at_ns);
}

/* A kernel, then a wait for it. */
static void sync_loop(void)
{
    ready();
    for (unsigned long long done = 0;; tell(++done)) {
        kernel();
        OK(cuStreamSynchronize(stream));
    }
}

/* A kernel and one that takes 19 times as long, by turns, with a wait for each. */
static void uneven_loop(void)
{
    ready();
    for (unsigned long long done = 0;; tell(done += QUEUE)) {
        kernel();
        OK(cuStreamSynchronize(stream));
        kernel_on(work, stream, (QUEUE - 1) * KERNEL_NS);
        OK(cuStreamSynchronize(stream));
    }
}

/* A queue of kernels, then a wait for all. */
static void async_loop(void)
{
    ready();
    for (unsigned long long done = 0;; tell(done += QUEUE)) {
        for (int i = 0; i < QUEUE; i++)
            kernel();
        OK(cuStreamSynchronize(stream));
    }
}

static void CUDA_CB pass_the_time(void *data)
{
    (void)data;
    usleep(CALLBACK_US);
}

static void CUDA_CB called_back(CUstream on, CUresult status, void *data)
{
    (void)on;
    OK(status);
    pass_the_time(data);
}

/* Some kernels and a host function behind them, twice, then a wait for all. */
static void callback_loop(void)
{
    ready();
    for (unsigned long long done = 0;; tell(done += QUEUE)) {
        for (int i = 0; i < QUEUE; i++) {
            kernel();
            if (i == QUEUE / 2 - 1)
                OK(cuLaunchHostFunc(stream, pass_the_time, NULL));
        }
        OK(cuStreamAddCallback(stream, called_back, NULL, 0));
        OK(cuStreamSynchronize(stream));
    }
}

static atomic_int passing;

static void CUDA_CB passed(void *data)
{
    pass_the_time(data);
    passing = 0;
}

/* Queues of kernels, each of which is waited for, and all the while a host function on another stream. */
static void loop_beside_callbacks(void)
{
    CUstream other;
    ready();
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (unsigned long long done = 0;; tell(done += QUEUE)) {
        if (atomic_exchange(&passing, 1) == 0)
            OK(cuLaunchHostFunc(other, passed, NULL));
        for (int i = 0; i < QUEUE; i++)
            kernel();
        OK(cuStreamSynchronize(stream));
    }
}

static CUcontext context;
static atomic_ullong done_by_all;

/* By the stream's handle, or by the calls whose default stream it is; each other queues some. */
static void *on_its_own_stream(void *number)
{
    int thread = (int)(long)number, count = thread / 2 % 2 == 0 ? 1 : NODES;
    unsigned long long counter = 0, iterations = KERNEL_NS;
    void *params[] = {&counter, &iterations};
    OK(cuCtxSetCurrent(context));
    for (;; done_by_all += count) {
        for (int i = 0; i < count; i++)
            if (thread % 2 == 0)
                kernel_on(work, CU_STREAM_PER_THREAD, KERNEL_NS);
            else
                OK(cuLaunchKernel_ptsz(work, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        if (thread % 2 == 0)
            OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        else
            OK(cuStreamSynchronize_ptsz(NULL));
    }
    return NULL;
}

static void per_thread_loop(void)
{
    pthread_t started;
    ready();
    OK(cuCtxGetCurrent(&context));
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&started, NULL, on_its_own_stream, (void *)i) == 0);
    for (;; usleep(10 * 1000))
        tell(done_by_all);
}

/* A kernel that is longer than any turn, then a wait for it. */
static void long_loop(void)
{
    ready();
    for (unsigned long long done = 0;; tell(done += LONG)) {
        kernel_on(work, stream, (unsigned long long)LONG * KERNEL_NS);
        tell(done);
        OK(cuStreamSynchronize(stream));
    }
}

/* A queue of kernels in each of two contexts at once. */
static void two_contexts(void)
{
    CUdevice device = start();
    CUcontext contexts[2];
    CUstream streams[2];
    CUfunction functions[2];
    for (int i = 0; i < 2; i++) {
        OK(cuCtxCreate(&contexts[i], 0, device));
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        functions[i] = obtain(PTX_HEAD PTX_WORK, "share_work");
    }
    for (unsigned long long done = 0;; tell(done += 2 * QUEUE)) {
        for (int i = 0; i < 2; i++) {
            OK(cuCtxSetCurrent(contexts[i]));
            for (int n = 0; n < QUEUE; n++)
                kernel_on(functions[i], streams[i], KERNEL_NS);
        }
        for (int i = 0; i < 2; i++) {
            OK(cuCtxSetCurrent(contexts[i]));
            OK(cuStreamSynchronize(streams[i]));
        }
    }
}

/* A graph of kernels, then a wait for it. */
static void graph_loop(void)
{
    CUgraph graph;
    CUgraphExec exec;
    ready();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < NODES; i++)
        kernel();
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (unsigned long long done = 0;; tell(done += NODES)) {
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
    }
}

static CUgraphExec loop;
static CUdeviceptr left;

/* A graph that runs a kernel until the word `left` is zero, from which each takes `less`. */
static void ready_to_loop(unsigned less)
{
    CUgraph graph, body;
    ready();
    CUfunction count_down = counting();
    OK(cuMemAlloc(&left, sizeof(unsigned)));
    OK(cuGraphCreate(&graph, 0));
    CUgraphConditionalHandle condition = condition_of(graph, 1);
    loops(graph, NULL, condition, &body);
    counts(body, NULL, count_down, condition, left, less, KERNEL_NS);
    OK(cuGraphInstantiate(&loop, graph, 0));
}

static void launch_loop(unsigned count)
{
    OK(cuMemsetD32Async(left, count, 1, stream));
    OK(cuGraphLaunch(loop, stream));
}

/* A graph that is a kernel one time and 20 the next, with a wait for each. */
static void while_loop(void)
{
    ready_to_loop(1);
    for (unsigned long long done = 0;; tell(done += QUEUE + 1)) {
        launch_loop(1);
        OK(cuStreamSynchronize(stream));
        launch_loop(QUEUE);
        OK(cuStreamSynchronize(stream));
    }
}

/* Some launches of a graph that is a drawn number of kernels each time, then a wait for all. */
static void while_queue(void)
{
    unsigned seed = 1;
    ready_to_loop(1);
    for (unsigned long long done = 0;; tell(done)) {
        for (int i = 0; i < LAUNCHES; i++) {
            unsigned count = 1 + (unsigned)rand_r(&seed) % QUEUE;
            launch_loop(count);
            done += count;
        }
        OK(cuStreamSynchronize(stream));
    }
}

/* Kernels, each waited for, beside a launch that does not end until a line tells it to. Says then when it has ended, and
 * goes on. */
static void beside_one_without_end(void)
{
    CUstream endless;
    unsigned long long done = 0;
    char line[16];
    struct pollfd told = {.fd = 0, .events = POLLIN};
    ready_to_loop(0);
    OK(cuStreamCreate(&endless, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD32Async(left, 1, 1, endless));
    OK(cuGraphLaunch(loop, endless));
    for (; poll(&told, 1, 0) == 0; tell(++done)) {
        kernel();
        OK(cuStreamSynchronize(stream));
    }
    CHECK(fgets(line, sizeof line, stdin) && cuStreamQuery(endless) == CUDA_ERROR_NOT_READY);
    OK(cuMemsetD32Async(left, 0, 1, stream));
    OK(cuStreamSynchronize(endless));
    puts("ended");
    for (;; tell(++done)) {
        kernel();
        OK(cuStreamSynchronize(stream));
    }
}

/* Waits, and launches a short kernel, from a frame that ends `above` bytes above an address of a round number. */
static __attribute__((noinline)) void once_at(size_t above)
{
    enum { ROUND = 128 * 1024 };
    size_t here = (size_t)__builtin_frame_address(0) % ROUND;
    volatile char *down = __builtin_alloca(here + ROUND - above);
    down[0] = 0;
    OK(cuStreamSynchronize(stream));
    kernel_on(work, stream, KERNEL_NS / 20);
}

/* A short kernel each time it is told to, not waited for until it is told again, from stacks of all depths. */
static void one_at_a_time(void)
{
    char line[16];
    ready();
    printf("0\n");
    for (unsigned long long launched = 1; fgets(line, sizeof line, stdin); launched++) {
        once_at(launched % 64 * 64);
        printf("%llu\n", launched);
    }
}

/* Copies from the host and back. */
static void copy_loop(void)
{
    CUdeviceptr block;
    void *host;
    ready();
    OK(cuMemAlloc(&block, COPY_BYTES));
    OK(cuMemHostAlloc(&host, COPY_BYTES, 0));
    memset(host, 1, COPY_BYTES);
    for (unsigned long long done = 0;; tell(++done)) {
        OK(cuMemcpyHtoDAsync(block, host, COPY_BYTES, stream));
        OK(cuMemcpyDtoHAsync(host, block, COPY_BYTES, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyHtoD(block, host, COPY_BYTES));
        OK(cuMemcpyDtoH(host, block, COPY_BYTES));
    }
}

/* Work on one stream that waits for a launch on another, which comes later. */
static void a_stream_waits_for_a_later_launch(void)
{
    CUstream second;
    CUdeviceptr flag;
    ready();
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&flag, 4096));
    OK(cuMemsetD32(flag, 0, 1));
    for (int i = 0; i < 10; i++) {
        kernel();
        OK(cuStreamSynchronize(stream));
    }
    OK(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (int i = 0; i < 40; i++)
        kernel();
    OK(cuMemsetD32Async(flag, 1, 1, second));
    OK(cuCtxSynchronize());
}

static void forked_between_launches(void)
{
    ready();
    for (int i = 0; i < 10; i++) {
        kernel();
        pid_t child = fork();
        if (child == 0) {
            unsigned long long counter = 0, iterations = 1;
            void *params[] = {&counter, &iterations};
            CUresult code =
                cuLaunchKernel(work, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
            _exit(code == CUDA_SUCCESS);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    OK(cuCtxSynchronize());
}

static void contexts_destroyed_in_flight(void)
{
    CUdevice device = start();
    for (int i = 0; i < 40; i++) {
        CUcontext context;
        OK(cuCtxCreate(&context, 0, device));
        CUfunction function = obtain(PTX_HEAD PTX_WORK, "share_work");
        for (int k = 0; k < 5; k++)
            kernel_on(function, NULL, KERNEL_NS);
        OK(cuCtxDestroy(context));
    }
}

/* More contexts than the library keeps marks for, used in turn. */
static void many_contexts_in_turn(void)
{
    enum { CONTEXTS = 36 };
    CUcontext contexts[CONTEXTS];
    CUfunction functions[CONTEXTS];
    CUdevice device = start();
    for (int i = 0; i < CONTEXTS; i++) {
        OK(cuCtxCreate(&contexts[i], 0, device));
        functions[i] = obtain(PTX_HEAD PTX_WORK, "share_work");
    }
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < CONTEXTS; i++) {
            OK(cuCtxSetCurrent(contexts[i]));
            kernel_on(functions[i], NULL, KERNEL_NS / 10);
            if (round % 2 == 0)
                OK(cuCtxSynchronize());
        }
    for (int i = 0; i < CONTEXTS; i++)
        OK(cuCtxDestroy(contexts[i]));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"sync_loop", sync_loop},
        {"uneven_loop", uneven_loop},
        {"async_loop", async_loop},
        {"callback_loop", callback_loop},
        {"loop_beside_callbacks", loop_beside_callbacks},
        {"per_thread_loop", per_thread_loop},
        {"long_loop", long_loop},
        {"two_contexts", two_contexts},
        {"graph_loop", graph_loop},
        {"while_loop", while_loop},
        {"while_queue", while_queue},
        {"beside_one_without_end", beside_one_without_end},
        {"one_at_a_time", one_at_a_time},
        {"copy_loop", copy_loop},
        {"a_stream_waits_for_a_later_launch", a_stream_waits_for_a_later_launch},
        {"forked_between_launches", forked_between_launches},
        {"contexts_destroyed_in_flight", contexts_destroyed_in_flight},
        {"many_contexts_in_turn", many_contexts_in_turn},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
