/* link: cuda */
/* A program with ROOM_MIB of memory in blocks of 64 MiB. It says "has N MiB CODE", N of which the driver gave before it answered
 * CODE, and at each line it reads uses all of it: it says "right", or the driver's code. With ROOM_CAPTURES so many threads
 * capture again and again, each for 20 ms, or the first of them for ever where that is negative; they keep their hands off the
 * memory, and all have begun before it says what it has. */
#include "scenario.h"

#include <pthread.h>
#include <unistd.h>

#define MOST 64
#define BLOCK (64 * MIB)

static CUdeviceptr blocks[MOST];
static CUcontext context;
static int count;
static pthread_barrier_t begun;

static long number(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static void *captures(void *for_ever)
{
    CUstream stream;
    CUgraph graph;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int first = 1;; first = 0) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        if (first)
            pthread_barrier_wait(&begun);
        while (for_ever != NULL)
            sleep(1);
        usleep(20000);
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphDestroy(graph));
    }
    return NULL;
}

static CUresult use(unsigned value)
{
    for (int index = 0; index < count; index++) {
        unsigned seen = 0;
        CUresult code = cuMemsetD32Async(blocks[index], value + (unsigned)index, BLOCK / 4, CU_STREAM_PER_THREAD);
        if (code == CUDA_SUCCESS)
            code = cuStreamSynchronize(CU_STREAM_PER_THREAD);
        if (code == CUDA_SUCCESS)
            code = cuMemcpyDtoH(&seen, blocks[index] + BLOCK - 4, sizeof seen);
        if (code != CUDA_SUCCESS)
            return code;
        EQUAL(seen, value + (unsigned)index);
    }
    return CUDA_SUCCESS;
}

static void works(void)
{
    char line[64];
    CUresult code = CUDA_SUCCESS;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    start();
    OK(cuCtxGetCurrent(&context));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    while (count < number("ROOM_MIB") / 64 && (code = cuMemAlloc(&blocks[count], BLOCK)) == CUDA_SUCCESS)
        count++;
    OK(use(1));
    long threads = number("ROOM_CAPTURES");
    CHECK(pthread_barrier_init(&begun, NULL, (unsigned)labs(threads) + 1) == 0);
    for (long at = 0; at < labs(threads); at++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, captures, threads < 0 ? &blocks : NULL) == 0);
    }
    pthread_barrier_wait(&begun);
    printf("has %d MiB %d\n", count * 64, code);
    fflush(stdout);
    for (unsigned round = 2; fgets(line, sizeof line, stdin) != NULL; round++) {
        code = use(round);
        if (code == CUDA_SUCCESS)
            puts("right");
        else
            printf("%d\n", code);
        fflush(stdout);
    }
    _exit(0);
}

int main(int count_arguments, char **arguments)
{
    static const struct scenario scenarios[] = {{"works", works}, {NULL, NULL}};
    return play(scenarios, count_arguments, arguments);
}
