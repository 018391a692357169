/* link: cuda */
/* What the card says to a program that nobody limits. */
#include "scenario.h"

#include <poll.h>

/* Bytes taken on the card by everybody else. */
static void used_by_others(void)
{
    size_t before, all;
    CUcontext context;
    CUdevice device = start();
    /* What a second context costs is what this one's first did, to the byte or a little more. */
    size_t mine = used();
    OK(cuCtxCreate(&context, 0, device));
    OK(cuMemGetInfo(&before, &all));
    size_t cost = all - before - mine;
    printf("%zu\n", mine > cost ? mine - cost : 0);
}

/* The most bytes that everybody else has taken at once, from the first line on until the input ends. */
static void most_used_by_others(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    size_t most = 0;
    start();
    size_t mine = used();
    puts("watching");
    while (poll(&input, 1, 0) == 0) {
        size_t all = used();
        most = all > most ? all : most;
    }
    printf("%zu\n", most > mine ? most - mine : 0);
}

/* Takes all that is left of the card, until the input ends. */
static void fill_the_card(void)
{
    CUdeviceptr block;
    start();
    for (size_t bytes = 256 * MIB; bytes >= 2 * MIB;)
        if (cuMemAlloc(&block, bytes) != CUDA_SUCCESS)
            bytes /= 2;
    puts("full");
    fflush(stdout);
    getchar();
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"used", used_by_others}, {"most", most_used_by_others}, {"fill", fill_the_card}, {NULL, NULL}};
    return play(scenarios, count, arguments);
}
