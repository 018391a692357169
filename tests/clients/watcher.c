/* link: cuda */
/* What the card says to a program that nobody limits. */
#include "scenario.h"

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

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {{"used", used_by_others}, {NULL, NULL}};
    return play(scenarios, count, arguments);
}
