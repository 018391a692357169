/* Wants its memory when it is told: touch BYTES.
 *
 * Fills four matrices of BYTES together and says {"ready":1}. For each byte of its input it launches one kernel over 2 MiB
 * and says how long that took, the wait for its memory included; then it does a step over all of its memory and looks at
 * every block. It calls nothing in between, and ends with its input.
 */
#include "matrices.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static struct matrices matrices;

static int is_told(void)
{
    char byte;
    ssize_t got;
    do
        got = read(0, &byte, 1);
    while (got < 0 && errno == EINTR);
    return got == 1;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: touch BYTES\n");
        return 2;
    }
    matrices_start(&matrices, number(argv[1], "BYTES"));
    printf("{\"ready\":1}\n");
    fflush(stdout);
    while (is_told()) {
        uint64_t began_ns = now_ns();
        matrices_touch(&matrices);
        must(matrices.driver.synchronize(), "cuCtxSynchronize");
        uint64_t first_ns = now_ns() - began_ns;
        matrices_step(&matrices);
        struct wrong wrong = matrices_check(&matrices);
        printf("{\"first_ns\":%llu,\"wrong\":%llu,\"first\":\"%s\"}\n", (unsigned long long)first_ns,
               (unsigned long long)wrong.blocks, wrong.first);
        fflush(stdout);
    }
    return 0;
}
