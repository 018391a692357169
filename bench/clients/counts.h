/* Kernels of one or more lengths that count themselves where somebody else can read it.
 *
 * Word I of the file holds how many kernels of length I are done: what is counted is claimed by the device,
 * not by the program. With is_mirrored, kernels count in device memory and store the count into the file; else
 * they count in the file itself. A program may open the counts again and again, in a process each.
 */
#ifndef DIVVY_CLIENT_COUNTS_H
#define DIVVY_CLIENT_COUNTS_H

#include "work.h"

enum { MOST_LENGTHS = 64 };

struct counts {
    const char *file;
    int is_mirrored;
    size_t lengths;
    uint64_t iterations[MOST_LENGTHS]; /* of a kernel of each length */
    uint64_t launched[MOST_LENGTHS];
    address_t at[MOST_LENGTHS]; /* what a kernel of each length is given */
    volatile uint64_t *file_words;
    /* Once closed: what the device says, and what the file said then. */
    uint64_t count[MOST_LENGTHS], checksum[MOST_LENGTHS], shown[MOST_LENGTHS];
};

/* Maps the file and registers it with the driver; `work` has been started. */
void counts_open(struct counts *counts, struct work *work);

/* One kernel of length `of` on `stream`. Several threads may launch kernels of different lengths. */
void counts_launch(struct counts *counts, struct work *work, size_t of, handle_t stream);

/* Takes over what the kernels since counts_open say; the device has been drained. */
void counts_close(struct counts *counts, struct work *work);

/* Prints the sums over all lengths as fields of a JSON object, with what the checksum should be. */
void counts_print(const struct counts *counts);

#endif
