/* Kernels of fixed work, and the further entry points that their programs call. */
#ifndef DIVVY_CLIENT_WORK_H
#define DIVVY_CLIENT_WORK_H

#include "driver.h"

enum { THREADS = 256, STREAMS = 4, NO_TIMING = 2, CAPTURE_RELAXED = 2, MAPPED = 3 };

/* Words of a counter's block: kernels done; where to show that number, or 0; sum of their results. */
enum { COUNT, MIRROR, CHECKSUM, UNUSED, WORDS };

/* What the driver's headers call CUlaunchConfig. */
struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    handle_t stream;
    void *attributes;
    unsigned attribute_count;
};

struct more {
    result_t (*host_register)(void *at, size_t bytes, unsigned flags);
    result_t (*host_pointer)(address_t *device, void *host, unsigned flags);
    result_t (*host_alloc)(void **at, size_t bytes, unsigned flags);
    result_t (*copy_in)(address_t to, const void *from, size_t bytes);
    result_t (*copy_in_async)(address_t to, const void *from, size_t bytes, handle_t stream);
    result_t (*stream_create)(handle_t *stream, unsigned flags);
    result_t (*stream_synchronize)(handle_t stream);
    result_t (*event_create)(handle_t *event, unsigned flags);
    result_t (*event_record)(handle_t event, handle_t stream);
    result_t (*event_synchronize)(handle_t event);
    result_t (*event_elapsed)(float *ms, handle_t start, handle_t end);
    result_t (*begin_capture)(handle_t stream, int mode);
    result_t (*end_capture)(handle_t stream, handle_t *graph);
    result_t (*instantiate)(handle_t *executable, handle_t graph, unsigned long long flags);
    result_t (*graph_launch)(handle_t executable, handle_t stream);
    result_t (*launch_ex)(const struct launch_config *config, handle_t function, void **arguments,
                          void **extra);
    result_t (*launch_cooperative)(handle_t function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                   handle_t stream, void **arguments);
};

/* A kernel and what it is launched with. */
struct work {
    struct driver driver;
    struct more more;
    handle_t function, streams[STREAMS];
    unsigned sms, blocks;
    address_t counter;
    uint64_t iterations;
};

/* driver_start, the kernel and four streams. */
void work_start(struct work *work);

/* One kernel on `stream`. */
void work_launch(struct work *work, handle_t stream);

/* The same with another counter and length. */
void work_launch_as(struct work *work, address_t counter, uint64_t iterations, handle_t stream);

#endif
