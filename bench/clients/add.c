/* Adds matrices over and over: add bytes=BYTES steps=N [phase=STEPS rest=NS] [gap=NS].
 *
 * Fills four matrices of BYTES together, says {"ready":1}, waits for a byte, does N steps over all of them, each as soon
 * as the one before the last is done, and looks at every block. With `phase` it rests for so long after each so many
 * steps, and calls nothing meanwhile. With steps=0 it works for a second, to say what a step takes. Once a second it says how far it is,
 * and keeps its memory until its input ends.
 *
 * "turns" lists when it went on without a pause of more than `gap` between the ends of two steps: the ends of the first and
 * of the last step, and how many there were.
 */
#include "matrices.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { AHEAD = 2, NO_TIMING = 2, BLOCKING = 1, MOST_TURNS = 1024 };
static const uint64_t SECOND = 1000000000;
static const uint64_t FEW = 4; /* Steps that a measurement has at least. */

static struct matrices matrices;

static struct {
    uint64_t bytes, steps, phase, rest_ns, gap_ns;
} wanted = {.gap_ns = 1000000000};

static struct {
    uint64_t began_ns, ended_ns, steps;
} turns[MOST_TURNS];
static size_t turn_count;

/* A step has ended, so long after the one before. */
static void note_step(uint64_t now, uint64_t since_ns)
{
    if (!turn_count || (since_ns > wanted.gap_ns && turn_count < MOST_TURNS))
        turns[turn_count++].began_ns = now;
    turns[turn_count - 1].ended_ns = now;
    turns[turn_count - 1].steps++;
}

static void rest(uint64_t until_ns)
{
    struct timespec at = {(time_t)(until_ns / SECOND), (long)(until_ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static void read_arguments(int argc, char **argv)
{
    const struct {
        const char *key;
        uint64_t *value;
    } keys[] = {
        {"bytes=", &wanted.bytes}, {"steps=", &wanted.steps}, {"phase=", &wanted.phase}, {"rest=", &wanted.rest_ns},
        {"gap=", &wanted.gap_ns},
    };
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (!strncmp(argv[i], keys[k].key, strlen(keys[k].key)))
                *keys[k].value = number(argv[i] + strlen(keys[k].key), keys[k].key);
}

int main(int argc, char **argv)
{
    handle_t events[AHEAD];
    uint64_t submitted = 0, done = 0, longest_ns = 0;
    read_arguments(argc, argv);
    matrices_start(&matrices, wanted.bytes);
    for (int i = 0; i < AHEAD; i++)
        must(matrices.event_create(&events[i], NO_TIMING | BLOCKING), "cuEventCreate");
    printf("{\"ready\":1}\n");
    fflush(stdout);
    wait_for_byte();
    uint64_t began_ns = now_ns(), last_ns = began_ns, said_ns = began_ns;
    for (;;) {
        uint64_t now = now_ns();
        uint64_t all = wanted.steps ? wanted.steps : now - began_ns < SECOND || submitted < FEW ? submitted + 1 : submitted;
        /* What a phase has left is drained before its rest. */
        int may_submit = submitted < all && !(wanted.phase && submitted && submitted % wanted.phase == 0 && done < submitted);
        if (may_submit && submitted - done < AHEAD) {
            matrices_step(&matrices);
            must(matrices.event_record(events[submitted++ % AHEAD], matrices.stream), "cuEventRecord");
            continue;
        }
        if (done == submitted)
            break;
        must(matrices.event_synchronize(events[done++ % AHEAD]), "cuEventSynchronize");
        now = now_ns();
        longest_ns = now - last_ns > longest_ns ? now - last_ns : longest_ns;
        note_step(now, now - last_ns);
        last_ns = now;
        if (now - said_ns > SECOND) {
            said_ns = now;
            printf("{\"progress\":%llu}\n", (unsigned long long)done);
            fflush(stdout);
        }
        if (wanted.phase && done == submitted && done % wanted.phase == 0 && done < wanted.steps) {
            rest(now + wanted.rest_ns);
            last_ns = now_ns();
        }
    }
    struct wrong wrong = matrices_check(&matrices);
    printf("{\"steps\":%llu,\"began_ns\":%llu,\"ended_ns\":%llu,\"longest_ns\":%llu,\"wrong\":%llu,\"first\":\"%s\",\"turns\":[",
           (unsigned long long)done, (unsigned long long)began_ns, (unsigned long long)last_ns,
           (unsigned long long)longest_ns, (unsigned long long)wrong.blocks, wrong.first);
    for (size_t i = 0; i < turn_count; i++)
        printf("%s[%llu,%llu,%llu]", i ? "," : "", (unsigned long long)turns[i].began_ns,
               (unsigned long long)turns[i].ended_ns, (unsigned long long)turns[i].steps);
    printf("]}\n");
    fflush(stdout);
    wait_for_end_of_input();
    return 0;
}
