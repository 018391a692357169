/* Makes a context and keeps it while somebody asks NVML what it takes: context_cost UUID.
 *
 * Says {"pid":…} when the primary context of that card exists, and ends when standard input does.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef result_t (*uuid_of_t)(unsigned char *uuid, device_t device);

static void in_words(char *words, const unsigned char *uuid)
{
    words += sprintf(words, "GPU-");
    for (int i = 0; i < 16; i++)
        words += sprintf(words, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

int main(int argc, char **argv)
{
    struct driver driver;
    uuid_of_t uuid_of;
    int count = 0;
    if (argc != 2) {
        fprintf(stderr, "context_cost needs the UUID of a card\n");
        return 2;
    }
    driver_open(&driver);
    *(void **)&uuid_of = dlsym(driver.library, "cuDeviceGetUuid");
    if (!uuid_of) {
        fprintf(stderr, "the driver has no cuDeviceGetUuid\n");
        return 3;
    }
    must(driver.init(0), "cuInit");
    must(driver.device_count(&count), "cuDeviceGetCount");
    for (int ordinal = 0; ordinal < count; ordinal++) {
        device_t device;
        handle_t context;
        unsigned char uuid[16];
        char words[64];
        must(driver.device_get(&device, ordinal), "cuDeviceGet");
        must(uuid_of(uuid, device), "cuDeviceGetUuid");
        in_words(words, uuid);
        if (strcasecmp(words, argv[1]) != 0)
            continue;
        must(driver.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
        printf("{\"pid\":%ld}\n", (long)getpid());
        fflush(stdout);
        wait_for_end_of_input();
        return 0;
    }
    fprintf(stderr, "CUDA shows %d device(s) here and none of them is %s\n", count, argv[1]);
    return 3;
}
