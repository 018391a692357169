/* Processes that allocate at the same moment: burst PROCESSES BYTES ROUNDS.
 *
 * In each round every process allocates BYTES once, released by a barrier, and frees them after all
 * have. Reports the middle and the longest cuMemAlloc of all rounds.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: burst PROCESSES BYTES ROUNDS\n");
        return 2;
    }
    uint64_t count = number(argv[1], "PROCESSES"), bytes = number(argv[2], "BYTES");
    uint64_t rounds = number(argv[3], "ROUNDS");
    size_t size = sizeof(pthread_barrier_t) + count * rounds * sizeof(uint64_t);
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 3;
    }
    pthread_barrier_t *barrier = shared;
    uint64_t *times = (uint64_t *)(barrier + 1);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attributes, (unsigned)count);
    for (uint64_t i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 3;
        }
        if (child == 0) {
            struct driver driver;
            int failed = 0;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            driver_start(&driver);
            for (uint64_t round = 0; round < rounds; round++) {
                address_t address = 0;
                pthread_barrier_wait(barrier);
                uint64_t before = now_ns();
                result_t result = driver.alloc(&address, bytes);
                times[i * rounds + round] = now_ns() - before;
                pthread_barrier_wait(barrier);
                /* Leaving the barrier early would stop the others for ever. */
                if (result != SUCCESS || driver.free(address) != SUCCESS)
                    failed = 1;
            }
            _exit(failed ? 3 : 0);
        }
    }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed += status != 0;
    uint64_t middle = median(times, count * rounds);
    printf("{\"failed\":%d,\"median_ns\":%llu,\"max_ns\":%llu}\n", failed,
           (unsigned long long)middle, (unsigned long long)times[count * rounds - 1]);
    return failed ? 3 : 0;
}
