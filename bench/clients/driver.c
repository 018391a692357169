/* See driver.h. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKING_SYNC = 4 };

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(3);
    }
    return symbol;
}

void driver_open(struct driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "libcuda.so.1 cannot be loaded: %s\n", dlerror());
        exit(3);
    }
    driver->library = library;
    /* POSIX lets a pointer to a function be kept in a pointer to an object. */
#define FIND(field, name) *(void **)&driver->field = find(library, name)
    FIND(init, "cuInit");
    FIND(version, "cuDriverGetVersion");
    FIND(device_count, "cuDeviceGetCount");
    FIND(device_get, "cuDeviceGet");
    FIND(device_name, "cuDeviceGetName");
    FIND(device_total, "cuDeviceTotalMem_v2");
    FIND(device_attribute, "cuDeviceGetAttribute");
    FIND(primary_retain, "cuDevicePrimaryCtxRetain");
    FIND(primary_release, "cuDevicePrimaryCtxRelease_v2");
    FIND(set_current, "cuCtxSetCurrent");
    FIND(synchronize, "cuCtxSynchronize");
    FIND(memory_info, "cuMemGetInfo_v2");
    FIND(alloc, "cuMemAlloc_v2");
    FIND(free, "cuMemFree_v2");
    FIND(fill, "cuMemsetD32_v2");
    FIND(copy_out, "cuMemcpyDtoH_v2");
    FIND(module_load, "cuModuleLoadData");
    FIND(module_function, "cuModuleGetFunction");
    FIND(launch, "cuLaunchKernel");
#undef FIND
}

void driver_start(struct driver *driver)
{
    driver_open(driver);
    must(driver->init(0), "cuInit");
    if (driver->sleeps) {
        result_t (*set_flags)(device_t device, unsigned flags);
        device_t device;
        *(void **)&set_flags = driver_find(driver, "cuDevicePrimaryCtxSetFlags_v2");
        must(driver->device_get(&device, 0), "cuDeviceGet");
        must(set_flags(device, BLOCKING_SYNC), "cuDevicePrimaryCtxSetFlags");
    }
    driver_join(driver);
}

void driver_join(struct driver *driver)
{
    device_t device;
    handle_t context;
    must(driver->device_get(&device, 0), "cuDeviceGet");
    must(driver->primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
    must(driver->set_current(context), "cuCtxSetCurrent");
}

void *driver_find(struct driver *driver, const char *name)
{
    return find(driver->library, name);
}

void must(result_t result, const char *what)
{
    if (result != SUCCESS) {
        fprintf(stderr, "%s returned %d\n", what, result);
        exit(3);
    }
}

uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t instructions(void)
{
    static int counter = -2;
    uint64_t value = 0;
    if (counter == -2) {
        struct perf_event_attr wanted;
        memset(&wanted, 0, sizeof wanted);
        wanted.type = PERF_TYPE_HARDWARE;
        wanted.size = sizeof wanted;
        wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
        wanted.exclude_kernel = 1;
        wanted.exclude_hv = 1;
        counter = (int)syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    if (counter < 0 || read(counter, &value, sizeof value) != (ssize_t)sizeof value)
        return 0;
    return value;
}

uint64_t number(const char *text, const char *what)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || end == text || *end) {
        fprintf(stderr, "%s: \"%s\" is no number\n", what, text);
        exit(2);
    }
    return value;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t median(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return count ? values[count / 2] : 0;
}

void wait_for_byte(void)
{
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
}

void wait_for_end_of_input(void)
{
    char byte;
    ssize_t got;
    do
        got = read(0, &byte, 1);
    while (got > 0 || (got < 0 && errno == EINTR));
}
