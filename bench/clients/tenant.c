/* A tenant of the demonstration: tenant BLOCK_BYTES WANTED_BYTES MILLISECONDS.
 *
 * Takes a block every 150 ms until it has WANTED_BYTES or is refused, and all the while fills a part
 * of its memory, reads it back and compares. After a refusal it gives half back, waits, and takes one
 * block again, as a program that handles out-of-memory would. Prints an event a line, as JSON.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BLOCKS = 4096, WORDS = 4096 };

static struct driver driver;
static address_t blocks[MOST_BLOCKS];
static size_t held, errors, rounds;

/* One round of work: write a value no other round writes, read it back. */
static void work(void)
{
    static unsigned words[WORDS];
    unsigned value = 0x1000193u * (unsigned)(rounds + 1);
    address_t at = blocks[rounds % held];
    must(driver.fill(at, value, WORDS), "cuMemsetD32");
    must(driver.copy_out(words, at, sizeof words), "cuMemcpyDtoH");
    for (size_t i = 0; i < WORDS; i++)
        errors += words[i] != value;
    rounds++;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: tenant BLOCK_BYTES WANTED_BYTES MILLISECONDS\n");
        return 2;
    }
    uint64_t block = number(argv[1], "BLOCK_BYTES"), wanted = number(argv[2], "WANTED_BYTES");
    uint64_t length_ns = number(argv[3], "MILLISECONDS") * 1000000u;
    size_t free_bytes, total_bytes;
    char name[96] = "";
    device_t device;
    setvbuf(stdout, NULL, _IOLBF, 0);
    driver_start(&driver);
    must(driver.device_get(&device, 0), "cuDeviceGet");
    must(driver.device_name(name, sizeof name, device), "cuDeviceGetName");
    must(driver.memory_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    printf("{\"event\":\"start\",\"device\":\"%s\",\"total_bytes\":%zu,\"free_bytes\":%zu}\n", name,
           total_bytes, free_bytes);

    uint64_t start = now_ns(), take_at = start, tell_at = start;
    int refused = 0, satisfied = 0;
    while (now_ns() - start < length_ns) {
        uint64_t now = now_ns();
        if (!satisfied && now >= take_at && held < MOST_BLOCKS && held * block < wanted) {
            address_t address;
            result_t result = driver.alloc(&address, block);
            take_at = now + 150000000u;
            if (result == SUCCESS) {
                blocks[held++] = address;
                if (refused) {
                    printf("{\"event\":\"recovered\",\"held_bytes\":%llu}\n",
                           (unsigned long long)(held * block));
                    satisfied = 1;
                }
            } else {
                printf("{\"event\":\"refused\",\"code\":%d,\"held_bytes\":%llu}\n", result,
                       (unsigned long long)(held * block));
                refused++;
                for (size_t keep = held / 2; held > keep; held--)
                    must(driver.free(blocks[held - 1]), "cuMemFree");
                take_at = now + 1000000000u;
            }
        }
        if (held)
            work();
        if (now >= tell_at) {
            printf("{\"event\":\"work\",\"rounds\":%zu,\"errors\":%zu}\n", rounds, errors);
            tell_at = now + 100000000u;
        }
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
    }
    while (held)
        must(driver.free(blocks[--held]), "cuMemFree");
    printf("{\"event\":\"end\",\"rounds\":%zu,\"errors\":%zu}\n", rounds, errors);
    return errors ? 1 : 0;
}
