/* What timing events show of kernels on one stream and on two: marks ITERATIONS...
 *
 * For each length, in nanoseconds and each the middle of many: what a kernel adds to a queue without events and with
 * one behind each, and the time between two that follow one another; by events of the stream, and by events of the
 * context (cuCtxRecordEvent), on one stream and on two by turns. Then, on a drained device, the time between
 * one before a launch and one behind it, and the host's between the first and the launch's return.
 */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>

enum { KERNELS = 100, ROUNDS = 21 };

static struct work work;
static handle_t context, events[KERNELS + 1];
static result_t (*record_context)(handle_t context, handle_t event);

enum behind { NOTHING, STREAM, CONTEXT };
static const char *const names[] = {"none", "stream", "context"};

static void mark(enum behind behind, size_t at, handle_t stream)
{
    if (behind == STREAM)
        must(work.more.event_record(events[at], stream), "cuEventRecord");
    else if (behind == CONTEXT)
        must(record_context(context, events[at]), "cuCtxRecordEvent");
}

static uint64_t between_ns(size_t from, size_t to)
{
    float ms = 0;
    must(work.more.event_elapsed(&ms, events[from], events[to]), "cuEventElapsedTime");
    return ms < 0 ? 0 : (uint64_t)((double)ms * 1e6);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* In a queue behind a long kernel. */
static void queued(uint64_t iterations, int streams, enum behind behind)
{
    uint64_t all[ROUNDS], spans[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        float ends[KERNELS + 1] = {0};
        work.iterations = iterations * (4000000 / iterations + 1);
        work_launch(&work, work.streams[0]);
        must(work.more.event_record(events[0], work.streams[0]), "cuEventRecord");
        work.iterations = iterations;
        for (size_t i = 1; i <= KERNELS; i++) {
            handle_t stream = work.streams[i % (size_t)streams];
            work_launch(&work, stream);
            mark(i == KERNELS && behind == NOTHING ? CONTEXT : behind, i, stream);
        }
        must(work.driver.synchronize(), "cuCtxSynchronize");
        for (size_t i = 1; i <= KERNELS && behind != NOTHING; i++)
            must(work.more.event_elapsed(&ends[i], events[0], events[i]), "cuEventElapsedTime");
        all[round] = between_ns(0, KERNELS) / KERNELS;
        /* Ends in their order, and the middle of what lies between two. */
        uint64_t gaps[KERNELS];
        qsort(&ends[1], KERNELS, sizeof ends[1], by_size);
        for (size_t i = 1; i <= KERNELS; i++)
            gaps[i - 1] = (uint64_t)((double)(ends[i] - ends[i - 1]) * 1e6);
        spans[round] = median(gaps, KERNELS);
    }
    printf("{\"iterations\":%llu,\"streams\":%d,\"events\":\"%s\",\"each_ns\":%llu,\"between_ns\":%llu}\n",
           (unsigned long long)iterations, streams, names[behind],
           (unsigned long long)median(all, ROUNDS), (unsigned long long)median(spans, ROUNDS));
}

/* On a drained device; with two streams, another kernel is launched on the second at once. */
static void drained(uint64_t iterations, int streams, enum behind first, enum behind last)
{
    uint64_t between[KERNELS], gaps[KERNELS];
    work.iterations = iterations;
    for (size_t i = 0; i < KERNELS; i++) {
        must(work.driver.synchronize(), "cuCtxSynchronize");
        for (uint64_t until = now_ns() + 30000; now_ns() < until;)
            ;
        mark(first, 0, work.streams[0]);
        uint64_t begun = now_ns();
        for (int stream = 0; stream < streams; stream++) {
            work_launch(&work, work.streams[stream]);
            if (stream == 0)
                gaps[i] = now_ns() - begun;
        }
        mark(last, 1, work.streams[0]);
        must(work.driver.synchronize(), "cuCtxSynchronize");
        between[i] = between_ns(0, 1);
    }
    printf("{\"iterations\":%llu,\"drained\":true,\"streams\":%d,\"events\":\"%s, %s\",\"gap_ns\":%llu,\"between_ns\":%llu}\n",
           (unsigned long long)iterations, streams, names[first], names[last],
           (unsigned long long)median(gaps, KERNELS), (unsigned long long)median(between, KERNELS));
}

/* Two streams side by side, each waited for: what a round takes with so many events. */
static void waited(uint64_t iterations, enum behind before, enum behind behind)
{
    uint64_t rounds[ROUNDS];
    work.iterations = iterations;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begun = now_ns();
        for (size_t i = 0; i < KERNELS; i++) {
            mark(before, 0, work.streams[0]);
            for (size_t stream = 0; stream < 2; stream++) {
                work_launch(&work, work.streams[stream]);
                mark(behind, 1 + stream, work.streams[stream]);
            }
            for (size_t stream = 0; stream < 2; stream++)
                must(work.more.stream_synchronize(work.streams[stream]), "cuStreamSynchronize");
        }
        rounds[round] = (now_ns() - begun) / KERNELS;
    }
    printf("{\"iterations\":%llu,\"waited\":true,\"streams\":2,\"events\":\"%s, %s\",\"round_ns\":%llu}\n",
           (unsigned long long)iterations, names[before], names[behind],
           (unsigned long long)median(rounds, ROUNDS));
}

int main(int argc, char **argv)
{
    result_t (*current)(handle_t *context);
    work_start(&work);
    *(void **)&record_context = driver_find(&work.driver, "cuCtxRecordEvent");
    *(void **)&current = driver_find(&work.driver, "cuCtxGetCurrent");
    must(current(&context), "cuCtxGetCurrent");
    must(work.driver.alloc(&work.counter, WORDS * 8), "cuMemAlloc");
    must(work.driver.fill(work.counter, 0, WORDS * 2), "cuMemsetD32");
    for (size_t i = 0; i <= KERNELS; i++)
        must(work.more.event_create(&events[i], 0), "cuEventCreate");
    work.iterations = 100000;
    for (uint64_t until = now_ns() + 500000000; now_ns() < until;) {
        work_launch(&work, work.streams[0]);
        must(work.driver.synchronize(), "cuCtxSynchronize"); /* clocks come up */
    }
    for (int at = 1; at < argc; at++) {
        uint64_t iterations = number(argv[at], "iterations");
        for (int streams = 1; streams <= 2; streams++) {
            for (int behind = NOTHING; behind <= CONTEXT; behind++)
                queued(iterations, streams, (enum behind)behind);
            drained(iterations, streams, STREAM, STREAM);
            drained(iterations, streams, STREAM, CONTEXT);
            drained(iterations, streams, CONTEXT, CONTEXT);
        }
        waited(iterations, NOTHING, NOTHING);
        waited(iterations, STREAM, STREAM);
        waited(iterations, STREAM, CONTEXT);
        waited(iterations, CONTEXT, CONTEXT);
    }
    return 0;
}
