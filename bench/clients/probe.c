/* Whether every answer of cuGetProcAddress is the address of an exported symbol: names come on
 * standard input, a line each; every name is asked for in every version and with every flag.
 *
 * Divvy maps those addresses to its hooks, so an address that belongs to no symbol would not be
 * hooked. Nothing is initialised; no GPU is touched.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

typedef result_t (*ask_t)(const char *name, void **function, int version, uint64_t flags, int *why);

static const int VERSIONS[] = {2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000,
                               10000, 11000, 11020, 11040, 11060, 11080, 12000, 12020,
                               12040, 12060, 12080, 13000, 13010, 13020};

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct link_map *map = NULL;
    char name[128], example[128] = "";
    unsigned long names = 0, answers = 0, unknown = 0;
    int version = 0;
    if (!library) {
        fprintf(stderr, "libcuda.so.1 cannot be loaded: %s\n", dlerror());
        return 3;
    }
    ask_t ask;
    *(void **)&ask = dlsym(library, "cuGetProcAddress_v2");
    result_t (*driver_version)(int *);
    *(void **)&driver_version = dlsym(library, "cuDriverGetVersion");
    if (driver_version)
        driver_version(&version);
    dlinfo(library, RTLD_DI_LINKMAP, &map);
    while (ask && fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = 0;
        names++;
        for (size_t v = 0; v < sizeof VERSIONS / sizeof *VERSIONS; v++) {
            for (uint64_t flags = 0; flags <= 2; flags++) {
                void *address = NULL;
                int why = 0;
                Dl_info symbol;
                if (ask(name, &address, VERSIONS[v], flags, &why) != SUCCESS || !address)
                    continue;
                answers++;
                if (!dladdr(address, &symbol) || symbol.dli_saddr != address) {
                    if (!unknown++)
                        snprintf(example, sizeof example, "%s", name);
                }
            }
        }
    }
    printf("{\"version\":%d,\"has_v2\":%d,\"names\":%lu,\"answers\":%lu,\"unknown\":%lu,"
           "\"example\":\"%s\",\"library\":\"%s\"}\n",
           version, ask != NULL, names, answers, unknown, example, map ? map->l_name : "");
    return 0;
}
