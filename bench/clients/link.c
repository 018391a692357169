/* What the link to the card carries: link BYTES ROUNDS.
 *
 * Copies BYTES between pinned memory of the host and the card, in, out, and both ways at once, ROUNDS times each after one that
 * does not count, by copies of 256 MiB at most. Prints bytes for each nanosecond, of both ways together where both are
 * used.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

enum { WAYS = 2, MOST_ROUNDS = 64, NON_BLOCKING = 1 };
static const uint64_t COPY = 256u << 20;

static struct driver driver;
static handle_t streams[WAYS];
static address_t device[WAYS];
static void *host[WAYS];
static result_t (*copy_in)(address_t to, const void *from, size_t bytes, handle_t stream);
static result_t (*copy_out)(void *to, address_t from, size_t bytes, handle_t stream);

/* Bytes for each nanosecond, of `bytes` each way that is used. */
static double rate(int in, int out, uint64_t bytes)
{
    uint64_t began_ns = now_ns();
    for (uint64_t done = 0; done < bytes; done += COPY) {
        uint64_t size = bytes - done < COPY ? bytes - done : COPY;
        if (in)
            must(copy_in(device[0], host[0], size, streams[0]), "cuMemcpyHtoDAsync");
        if (out)
            must(copy_out(host[1], device[1], size, streams[1]), "cuMemcpyDtoHAsync");
    }
    must(driver.synchronize(), "cuCtxSynchronize");
    return (double)(bytes * (uint64_t)(in + out)) / (double)(now_ns() - began_ns);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int in, out;
    } kinds[] = {{"in", 1, 0}, {"out", 0, 1}, {"both", 1, 1}};
    result_t (*host_alloc)(void **at, size_t bytes, unsigned flags);
    result_t (*stream_create)(handle_t *stream, unsigned flags);
    if (argc != 3) {
        fprintf(stderr, "usage: link BYTES ROUNDS\n");
        return 2;
    }
    uint64_t bytes = number(argv[1], "BYTES"), rounds = number(argv[2], "ROUNDS");
    uint64_t buffer = bytes < COPY ? bytes : COPY;
    if (!bytes || !rounds || rounds > MOST_ROUNDS) {
        fprintf(stderr, "link: bytes and rounds are at least 1, rounds at most %d\n", MOST_ROUNDS);
        return 2;
    }
    driver_start(&driver);
    *(void **)&host_alloc = driver_find(&driver, "cuMemHostAlloc");
    *(void **)&stream_create = driver_find(&driver, "cuStreamCreate");
    *(void **)&copy_in = driver_find(&driver, "cuMemcpyHtoDAsync_v2");
    *(void **)&copy_out = driver_find(&driver, "cuMemcpyDtoHAsync_v2");
    for (int way = 0; way < WAYS; way++) {
        must(host_alloc(&host[way], buffer, 0), "cuMemHostAlloc");
        must(driver.alloc(&device[way], buffer), "cuMemAlloc");
        must(stream_create(&streams[way], NON_BLOCKING), "cuStreamCreate");
    }
    printf("{");
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        rate(kinds[kind].in, kinds[kind].out, buffer);
        printf("%s\"%s\":[", kind ? "," : "", kinds[kind].name);
        for (uint64_t round = 0; round < rounds; round++)
            printf("%s%.4f", round ? "," : "", rate(kinds[kind].in, kinds[kind].out, bytes));
        printf("]");
    }
    printf("}\n");
    fflush(stdout);
    wait_for_end_of_input();
    return 0;
}
