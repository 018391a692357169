/* link: cuda */
/* A program that does what lines on its standard input say, for as long as an upgrade around it takes. */
#include "scenario.h"

#include <time.h>

enum { KERNEL_NS = 100 * 1000 };

static unsigned long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

/* `total`: the card's size in MiB. `alloc MIB`: the driver's answer. `work MS`: kernels, one after the
 * other, for so long; how many. */
static void obeys(void)
{
    char line[64];
    unsigned long long number;
    CUstream stream;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUfunction work = obtain(PTX_HEAD PTX_WORK, "share_work");
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "total\n") == 0) {
            printf("total %zu\n", total() / MIB);
        } else if (sscanf(line, "alloc %llu", &number) == 1) {
            CUdeviceptr block;
            printf("alloc %d\n", cuMemAlloc(&block, number * MIB));
        } else if (sscanf(line, "work %llu", &number) == 1) {
            unsigned long long until = now_ms() + number, done = 0;
            do {
                unsigned long long counter = 0, iterations = KERNEL_NS;
                void *params[] = {&counter, &iterations};
                OK(cuLaunchKernel(work, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
                OK(cuStreamSynchronize(stream));
                done++;
            } while (now_ms() < until);
            printf("work %llu\n", done);
        } else {
            CHECK(!"a line that is understood");
        }
    }
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {{"obeys", obeys}, {NULL, NULL}};
    return play(scenarios, count, arguments);
}
