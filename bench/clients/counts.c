/* See counts.h. */
#include "counts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void counts_open(struct counts *counts, struct work *work)
{
    int file = open(counts->file, O_RDWR | O_CLOEXEC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = file < 0 ? MAP_FAILED
                        : mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    address_t address = 0, blocks = 0;
    if (at == MAP_FAILED) {
        perror(counts->file);
        exit(3);
    }
    close(file);
    counts->file_words = at;
    must(work->more.host_register(at, page, MAPPED), "cuMemHostRegister");
    must(work->more.host_pointer(&address, at, 0), "cuMemHostGetDevicePointer");
    if (counts->is_mirrored)
        must(work->driver.alloc(&blocks, counts->lengths * WORDS * sizeof(uint64_t)), "cuMemAlloc");
    for (size_t i = 0; i < counts->lengths; i++) {
        address_t shown_at = address + i * sizeof(uint64_t);
        counts->at[i] = shown_at;
        if (counts->is_mirrored) {
            /* What processes before this one have counted is counted on from. */
            uint64_t words[WORDS] = {counts->file_words[i], shown_at, 0, 0};
            counts->at[i] = blocks + i * sizeof words;
            must(work->more.copy_in(counts->at[i], words, sizeof words), "cuMemcpyHtoD");
        }
    }
}

void counts_launch(struct counts *counts, struct work *work, size_t of, handle_t stream)
{
    work_launch_as(work, counts->at[of], counts->iterations[of], stream);
    counts->launched[of]++;
}

void counts_close(struct counts *counts, struct work *work)
{
    for (size_t i = 0; i < counts->lengths; i++) {
        /* A device that counts in host memory is a simulated one, which has no checksum. */
        uint64_t words[WORDS] = {counts->file_words[i], 0, 0, 0};
        if (counts->is_mirrored)
            must(work->driver.copy_out(words, counts->at[i], sizeof words), "cuMemcpyDtoH");
        counts->count[i] = words[COUNT];
        counts->shown[i] = counts->file_words[i];
        counts->checksum[i] += words[CHECKSUM];
    }
}

/* What the kernel's first thread arrives at. */
static uint32_t expected_of_one(uint64_t iterations)
{
    uint32_t x = 1;
    for (uint64_t i = 0; i < iterations; i++)
        x = x * x + 12345;
    return x;
}

void counts_print(const struct counts *counts)
{
    uint64_t launched = 0, count = 0, shown = 0, checksum = 0, expected = 0;
    for (size_t i = 0; i < counts->lengths; i++) {
        launched += counts->launched[i];
        count += counts->count[i];
        shown += counts->shown[i];
        checksum += counts->checksum[i];
        if (counts->is_mirrored)
            expected += counts->count[i] * expected_of_one(counts->iterations[i]);
    }
    printf("\"launched\":%llu,\"count\":%llu,\"shown\":%llu,\"checksum\":%llu,\"expected\":%llu",
           (unsigned long long)launched, (unsigned long long)count, (unsigned long long)shown,
           (unsigned long long)checksum, (unsigned long long)expected);
}
