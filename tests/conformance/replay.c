/* Asks a driver what record.c wrote down, and prints every answer that differs.
 *
 *   replay <record> [library]
 *
 * With a library preloaded that puts hooks in the driver's place, `found as` is compared by name:
 * a hook bears the name of what it replaces. A private table is compared by its code alone; a
 * simulated driver that has none must refuse it as an unknown one. Ends with 1 if any differs. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef CUresult (*proc1_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*proc2_fn)(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *);
typedef CUresult (*init_fn)(unsigned);

static int differences, questions;

static const char *symbol(void *address)
{
    Dl_info info;
    if (address == NULL)
        return "-";
    if (dladdr(address, &info) != 0 && info.dli_sname != NULL && info.dli_saddr == address)
        return info.dli_sname;
    return "?";
}

static void compare(const char *line, int code, int wanted, int status, int wanted_status,
                    const char *is, const char *wanted_is)
{
    questions++;
    if (code == wanted && status == wanted_status && strcmp(is, wanted_is) == 0)
        return;
    differences++;
    printf("differs: %.*s | now %d %d %s\n", (int)strcspn(line, "\n"), line, code, status, is);
}

int main(int argc, char **argv)
{
    char line[512], name[128], is[128];
    unsigned long long flags;
    int version, code, status;
    FILE *record = argc > 1 ? fopen(argv[1], "r") : NULL;
    void *driver = dlopen(argc > 2 ? argv[2] : "libcuda.so.1", RTLD_NOW);
    void *management = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (record == NULL || driver == NULL) {
        fprintf(stderr, "replay: %s\n", record == NULL ? "no record" : dlerror());
        return 2;
    }
    init_fn init = (init_fn)dlsym(driver, "cuInit");
    proc1_fn proc1 = (proc1_fn)dlsym(driver, "cuGetProcAddress");
    proc2_fn proc2 = (proc2_fn)dlsym(driver, "cuGetProcAddress_v2");
    if (init == NULL || init(0) != CUDA_SUCCESS) {
        fprintf(stderr, "replay: cuInit failed\n");
        return 2;
    }
    while (fgets(line, sizeof line, record) != NULL) {
        void *found = NULL;
        if (sscanf(line, "dlsym %127s %127s", name, is) == 2) {
            found = dlsym(name[0] == 'n' ? management : driver, name);
            compare(line, 0, 0, 0, 0, symbol(found), is);
        } else if (sscanf(line, "proc1 %127s %d %llu %d %127s", name, &version, &flags, &code,
                          is) == 5) {
            int now = (int)proc1(name, &found, version, flags);
            compare(line, now, code, 0, 0, now == 0 ? symbol(found) : "-", is);
        } else if (sscanf(line, "proc2 %127s %d %llu %d %d %127s", name, &version, &flags, &code,
                          &status, is) == 6) {
            CUdriverProcAddressQueryResult answer = (CUdriverProcAddressQueryResult)-1;
            int now = (int)proc2(name, &found, version, flags, status == -1 ? NULL : &answer);
            compare(line, now, code, (int)answer, status, now == 0 ? symbol(found) : "-", is);
        }
    }
    printf("%d questions, %d differences\n", questions, differences);
    return differences != 0;
}
