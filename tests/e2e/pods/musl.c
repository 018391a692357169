/* A program of an image with another C library than the driver's: it lives, says whose library is in it, and whether the
 * driver could be loaded. Compiled by musl-gcc, with no header of the driver's. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char line[4096];
    int is_in = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        is_in |= strstr(line, "libdivvy.so") != NULL;
    printf("library %s\n", is_in ? "in" : "not in");
    printf("driver %s\n", dlopen("libcuda.so.1", RTLD_NOW) != NULL ? "loaded" : "not loaded");
    return 0;
}
