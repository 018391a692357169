/* The few driver entry points that the clients call, found at run time.
 *
 * Clients are ordinary programs: they know nothing of Divvy, need no vendor header, and reach the
 * driver as frameworks do, by dlopen("libcuda.so.1") and dlsym. Each prints one line of JSON.
 */
#ifndef DIVVY_CLIENT_DRIVER_H
#define DIVVY_CLIENT_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int result_t;
typedef int device_t;
typedef uint64_t address_t;
typedef void *handle_t;

enum { SUCCESS = 0, OUT_OF_MEMORY = 2 };

struct driver {
    result_t (*init)(unsigned flags);
    result_t (*version)(int *version);
    result_t (*device_count)(int *count);
    result_t (*device_get)(device_t *device, int ordinal);
    result_t (*device_name)(char *name, int bytes, device_t device);
    result_t (*device_total)(size_t *bytes, device_t device);
    result_t (*device_attribute)(int *value, int attribute, device_t device);
    result_t (*primary_retain)(handle_t *context, device_t device);
    result_t (*primary_release)(device_t device);
    result_t (*set_current)(handle_t context);
    result_t (*synchronize)(void);
    result_t (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    result_t (*alloc)(address_t *address, size_t bytes);
    result_t (*free)(address_t address);
    result_t (*fill)(address_t address, unsigned value, size_t words);
    result_t (*copy_out)(void *to, address_t from, size_t bytes);
    result_t (*module_load)(handle_t *module, const void *image);
    result_t (*module_function)(handle_t *function, handle_t module, const char *name);
    result_t (*launch)(handle_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared_bytes, handle_t stream,
                       void **arguments, void **extra);
    void *library;
    int sleeps; /* Threads that wait for the device sleep: to be set before driver_start. */
};

/* Opens the library and finds the functions; ends the program with a message when it cannot. */
void driver_open(struct driver *driver);

/* driver_open, cuInit and the primary context of device 0, made current. */
void driver_start(struct driver *driver);

/* Makes the primary context of device 0 current in a further thread. */
void driver_join(struct driver *driver);

/* The entry point `name`; ends the program with a message when there is none. */
void *driver_find(struct driver *driver, const char *name);

/* Ends the program with `what` and the code unless `result` is SUCCESS. */
void must(result_t result, const char *what);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t now_ns(void);

/* User-space instructions of this thread since the counter was opened; 0 where there is none. */
uint64_t instructions(void);

/* Reads a decimal argument; ends the program with a message when it is none. */
uint64_t number(const char *text, const char *what);

/* Sorts `values` and returns the middle one. */
uint64_t median(uint64_t *values, size_t count);

/* Waits for one byte on standard input: how the parent says "go". */
void wait_for_byte(void);

/* Waits until standard input ends: how the parent says "enough". */
void wait_for_end_of_input(void);

#endif
