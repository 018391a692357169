/* Says of each device its UUID, its bytes and the values of attributes: attributes NUMBER...
 *
 * The numbers are those of cuDeviceGetAttribute. An attribute that the driver does not know is -1. No context is made.
 */
#include "driver.h"

#include <stdio.h>

typedef result_t (*uuid_of_t)(unsigned char *uuid, device_t device);

int main(int argc, char **argv)
{
    struct driver driver;
    int count = 0;
    driver_open(&driver);
    uuid_of_t uuid_of;
    *(void **)&uuid_of = driver_find(&driver, "cuDeviceGetUuid");
    must(driver.init(0), "cuInit");
    must(driver.device_count(&count), "cuDeviceGetCount");
    printf("[");
    for (int ordinal = 0; ordinal < count; ordinal++) {
        device_t device;
        unsigned char uuid[16];
        size_t bytes = 0;
        must(driver.device_get(&device, ordinal), "cuDeviceGet");
        must(uuid_of(uuid, device), "cuDeviceGetUuid");
        must(driver.device_total(&bytes, device), "cuDeviceTotalMem");
        printf("%s{\"uuid\":\"GPU-", ordinal ? "," : "");
        for (int i = 0; i < 16; i++)
            printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
        printf("\",\"bytes\":%zu,\"values\":[", bytes);
        for (int i = 1; i < argc; i++) {
            int value = -1;
            int attribute = (int)number(argv[i], "an attribute");
            if (driver.device_attribute(&value, attribute, device) != SUCCESS)
                value = -1;
            printf("%s%d", i > 1 ? "," : "", value);
        }
        printf("]}");
    }
    printf("]\n");
    return 0;
}
