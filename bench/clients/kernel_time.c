/* How long a kernel of fixed work takes in a saturated queue: kernel_time NS ITERATIONS.
 *
 * With 0 iterations it first finds how many take NS nanoseconds. Prints both.
 */
#include "work.h"

#include <stdio.h>

static const uint64_t SPAN_NS = 20000000;
static struct work work;

static void plain(void)
{
    work_launch(&work, work.streams[0]);
}

static void launch_steps(uint64_t steps)
{
    uint64_t given = work.iterations;
    work.iterations = steps;
    plain();
    work.iterations = given;
}

/* Nanoseconds of one kernel in a saturated queue of about `span_ns`, the middle of some batches. */
static uint64_t saturated_ns(uint64_t about_ns, uint64_t span_ns)
{
    uint64_t batches[5], each = span_ns / about_ns;
    size_t count = about_ns > 5 * span_ns ? 3 : 5;
    handle_t start, end;
    each = each < 2 ? 2 : each > 1000 ? 1000 : each;
    must(work.more.event_create(&start, 0), "cuEventCreate");
    must(work.more.event_create(&end, 0), "cuEventCreate");
    for (size_t batch = 0; batch < count; batch++) {
        float ms = 0;
        /* The batch queues up behind a long kernel, so that no slow launch is measured. */
        launch_steps(about_ns < span_ns ? work.iterations * (span_ns / about_ns) : work.iterations);
        must(work.more.event_record(start, work.streams[0]), "cuEventRecord");
        for (uint64_t i = 0; i < each; i++)
            plain();
        must(work.more.event_record(end, work.streams[0]), "cuEventRecord");
        must(work.more.event_synchronize(end), "cuEventSynchronize");
        must(work.more.event_elapsed(&ms, start, end), "cuEventElapsedTime");
        batches[batch] = (uint64_t)((double)ms * 1e6 / (double)each);
    }
    return median(batches, count);
}

/* Says how many iterations a kernel of `ns` has, or how long one of the given iterations takes. */
static void calibrate(uint64_t ns, uint64_t span_ns)
{
    const uint64_t few = 20000, many = 60000;
    for (uint64_t until = now_ns() + 10 * span_ns; now_ns() < until;) {
        launch_steps(many);
        must(work.driver.synchronize(), "cuCtxSynchronize"); /* clocks come up */
    }
    if (work.iterations == 0) {
        /* A kernel has a fixed part; its slope is what the steps cost. */
        double slope;
        work.iterations = few;
        uint64_t low = saturated_ns(few * 16, span_ns);
        work.iterations = many;
        uint64_t high = saturated_ns(many * 16, span_ns);
        slope = high > low ? (double)(high - low) / (double)(many - few) : 1;
        /* Long kernels are scaled from shorter ones, to which they are proportional. */
        uint64_t part = ns < span_ns / 4 ? ns : span_ns / 4;
        double steps = (double)part / slope;
        for (int again = 0; again < 3; again++) {
            work.iterations = steps > 1 ? (uint64_t)steps : 1;
            double least = steps / 2; /* a host that is too slow to fill the queue misleads no more */
            steps += ((double)part - (double)saturated_ns(part, span_ns)) / slope;
            steps = steps > least ? steps : least;
        }
        steps *= (double)ns / (double)part;
        work.iterations = steps > 1 ? (uint64_t)steps : 1;
    }
    printf("{\"iterations\":%llu,\"ns\":%llu}\n", (unsigned long long)work.iterations,
           (unsigned long long)saturated_ns(ns, span_ns));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t words[WORDS] = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: kernel_time NS ITERATIONS\n");
        return 2;
    }
    uint64_t ns = number(argv[1], "NS");
    work.iterations = number(argv[2], "ITERATIONS");
    if (!ns) {
        fprintf(stderr, "kernel_time: NS is 0; a kernel takes longer\n");
        return 2;
    }
    work_start(&work);
    must(work.driver.alloc(&work.counter, sizeof words), "cuMemAlloc");
    must(work.more.copy_in(work.counter, words, sizeof words), "cuMemcpyHtoD");
    calibrate(ns, SPAN_NS);
    return 0;
}
