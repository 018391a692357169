/* Four large matrices of numbers, of which every byte is known at any time.
 *
 * A step is z = x + y and then x = z + w: it reads or writes every byte of all four, and needs what the step before
 * left. Each block of 2 MiB begins with a number of its own, so a block that comes back as another, or as it was
 * before, has another sum than it should.
 */
#ifndef DIVVY_CLIENT_MATRICES_H
#define DIVVY_CLIENT_MATRICES_H

#include "driver.h"

enum { MATRICES = 4 };

struct matrices {
    struct driver driver;
    handle_t add, checksum, stream;
    address_t at[MATRICES], sums;
    uint64_t blocks; /* of one matrix */
    uint64_t steps;  /* submitted so far */
    unsigned grid;
    result_t (*event_create)(handle_t *event, unsigned flags);
    result_t (*event_record)(handle_t event, handle_t stream);
    result_t (*event_synchronize)(handle_t event);
};

/* What is wrong of the matrices: how many blocks, and the first of them in words. */
struct wrong {
    uint64_t blocks;
    char first[160];
};

/* driver_start, and four matrices of `bytes` together, filled. Prints {"total_bytes":…,"free_bytes":…}, which is the
 * card as it was seen before. */
void matrices_start(struct matrices *matrices, uint64_t bytes);

/* Submits a step. */
void matrices_step(struct matrices *matrices);

/* Submits the first 2 MiB of the next step alone; matrices_step does that part again. */
void matrices_touch(struct matrices *matrices);

/* Looks at every block on the device. */
struct wrong matrices_check(struct matrices *matrices);

#endif
