/* link: cuda */
/* A server that forks its workers before any of them has asked for the driver, as pre-forking servers do. It
 * says who they are, and then how many kernels each has done, and when. Every other worker waits for each of
 * its kernels, the others for a queue of them. */
#include "scenario.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST = 16, KERNEL_NS = 100 * 1000, QUEUE = 5, TELL_US = 20 * 1000 };

static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void work_on(int queue, atomic_ullong *done)
{
    CUstream stream;
    unsigned long long counter = 0, iterations = KERNEL_NS;
    void *params[] = {&counter, &iterations};
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUfunction work = obtain(PTX_HEAD PTX_WORK, "share_work");
    for (;;) {
        for (int i = 0; i < queue; i++)
            OK(cuLaunchKernel(work, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
        OK(cuStreamSynchronize(stream));
        *done += queue;
    }
}

/* COUNT: it ends when nobody reads what it says, or a worker ends by itself. */
int main(int arguments, char **argument)
{
    CHECK(arguments == 2);
    int count = atoi(argument[1]);
    CHECK(count > 0 && count <= MOST);
    setvbuf(stdout, NULL, _IOLBF, 0);
    atomic_ullong *done = mmap(NULL, MOST * sizeof *done, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(done != MAP_FAILED);
    pid_t server = getpid();
    printf("%d", server);
    fflush(stdout);
    for (int i = 0; i < count; i++) {
        pid_t worker = fork();
        CHECK(worker >= 0);
        if (worker == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            CHECK(getppid() == server);
            work_on(i % 2 == 0 ? 1 : QUEUE, &done[i]);
        }
        printf(" %d", worker);
        fflush(stdout);
    }
    printf("\n");
    for (;;) {
        int status = 0;
        usleep(TELL_US);
        if (waitpid(-1, &status, WNOHANG) > 0)
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        printf("%llu", now_ns());
        for (int i = 0; i < count; i++)
            printf(" %llu", (unsigned long long)done[i]);
        printf("\n");
    }
}
