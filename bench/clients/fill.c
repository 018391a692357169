/* Takes memory until none is given, in ever smaller blocks: fill [BYTES OF THE SMALLEST].
 * Says "ready" when it has its context and begins when it is sent a byte, so that several fill one
 * limit together. Reports what it got and what the driver says is left, then holds it until standard
 * input ends.
 */
#include "driver.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    uint64_t smallest = argc > 1 ? number(argv[1], "BYTES") : 2u << 20;
    struct driver driver;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t got = 0, blocks = 0;
    result_t last = SUCCESS;
    driver_start(&driver);
    printf("{\"ready\":1}\n");
    fflush(stdout);
    wait_for_byte();
    for (uint64_t bytes = 1ull << 30; bytes >= smallest; bytes /= 2) {
        address_t address;
        while ((last = driver.alloc(&address, bytes)) == SUCCESS) {
            got += bytes;
            blocks++;
        }
        if (last != OUT_OF_MEMORY)
            must(last, "cuMemAlloc");
    }
    must(driver.memory_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    printf("{\"got_bytes\":%llu,\"blocks\":%llu,\"refusal\":%d,\"free_bytes\":%zu,"
           "\"total_bytes\":%zu}\n",
           (unsigned long long)got, (unsigned long long)blocks, last, free_bytes, total_bytes);
    fflush(stdout);
    wait_for_end_of_input();
    return 0;
}
