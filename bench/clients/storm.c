/* Many processes that start at once under one tenant: storm PROCESSES.
 *
 * Each is executed anew, waits at a barrier, then initialises the driver, makes a context and
 * allocates 2 MiB. For each: CPU time since its exec, and the time it slept (wall time less the time
 * on a processor and the time waiting for one, by /proc/self/schedstat), which is what it waited for
 * somebody else's lock or answer.
 */
#include "driver.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct report {
    uint64_t cpu_ns;
    uint64_t slept_ns;
    uint64_t wall_ns;
};

static void schedule(uint64_t *on_ns, uint64_t *waiting_ns)
{
    unsigned long long on = 0, waiting = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file) {
        if (fscanf(file, "%llu %llu", &on, &waiting) != 2)
            on = waiting = 0;
        fclose(file);
    }
    *on_ns = on;
    *waiting_ns = waiting;
}

static int one(int barrier, int out)
{
    struct driver driver;
    struct report report;
    struct timespec cpu;
    address_t address;
    char byte;
    uint64_t on, waiting, on_after, waiting_after;
    while (read(barrier, &byte, 1) > 0)
        ;
    schedule(&on, &waiting);
    uint64_t before = now_ns();
    driver_start(&driver);
    must(driver.alloc(&address, 2u << 20), "cuMemAlloc");
    uint64_t after = now_ns();
    schedule(&on_after, &waiting_after);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    uint64_t busy = on_after - on + waiting_after - waiting;
    report.cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
    report.wall_ns = after - before;
    report.slept_ns = report.wall_ns > busy ? report.wall_ns - busy : 0;
    return write(out, &report, sizeof report) == (ssize_t)sizeof report ? 0 : 3;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "one"))
        return one(atoi(argv[2]), atoi(argv[3]));
    uint64_t count = argc > 1 ? number(argv[1], "PROCESSES") : 300;
    uint64_t *cpu = calloc(count, sizeof *cpu), *slept = calloc(count, sizeof *slept);
    int barrier[2], results[2];
    if (!cpu || !slept || pipe(barrier) || pipe(results)) {
        perror("storm");
        return 3;
    }
    char in[16], out[16];
    snprintf(in, sizeof in, "%d", barrier[0]);
    snprintf(out, sizeof out, "%d", results[1]);
    /* The children must not keep the barrier open themselves. */
    fcntl(barrier[1], F_SETFD, FD_CLOEXEC);
    fcntl(results[0], F_SETFD, FD_CLOEXEC);
    for (uint64_t i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 3;
        }
        if (child == 0) {
            /* Whoever ends the measurement ends all of it; this survives exec. */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execl("/proc/self/exe", "storm", "one", in, out, (char *)NULL);
            _exit(127);
        }
    }
    struct timespec settle = {0, 300000000};
    nanosleep(&settle, NULL);
    close(results[1]);
    uint64_t before = now_ns();
    close(barrier[1]);
    struct report report;
    uint64_t got = 0, longest = 0, total_ns = 0;
    while (got < count && read(results[0], &report, sizeof report) == (ssize_t)sizeof report) {
        cpu[got] = report.cpu_ns;
        slept[got] = report.slept_ns;
        if (report.slept_ns > longest)
            longest = report.slept_ns;
        got++;
    }
    total_ns = now_ns() - before;
    int status, failed = 0;
    while (wait(&status) > 0)
        failed += status != 0;
    printf("{\"processes\":%llu,\"failed\":%d,\"cpu_ns\":%llu,\"slept_ns\":%llu,"
           "\"longest_slept_ns\":%llu,\"wall_ns\":%llu}\n",
           (unsigned long long)got, failed, (unsigned long long)median(cpu, got),
           (unsigned long long)median(slept, got), (unsigned long long)longest,
           (unsigned long long)total_ns);
    return got == count && !failed ? 0 : 3;
}
