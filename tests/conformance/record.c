/* Records what a program asks of the driver when it starts: LD_PRELOAD=librecord.so
 * DIVVY_RECORD=<file>. One line per question, in order, each written at once:
 *
 *   dlsym <name> <found as>
 *   proc1 <name> <version> <flags> <code> <found as>
 *   proc2 <name> <version> <flags> <code> <status> <found as>
 *   table <32 hex digits> <code> <bytes by its first word>
 *
 * `found as` is the exported symbol at the address given, `-` for none, `?` for an address that is
 * no exported symbol's. replay.c asks the same of another driver. It changes no answer. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *(*dlsym_fn)(void *, const char *);
typedef CUresult (*proc1_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*proc2_fn)(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *);
typedef CUresult (*table_fn)(const void **, const CUuuid *);

static dlsym_fn next_dlsym;
static proc1_fn next_proc1;
static proc2_fn next_proc2;
static table_fn next_table;

static void record(const char *format, ...)
{
    const char *path = getenv("DIVVY_RECORD");
    char line[512];
    va_list arguments;
    if (path == NULL)
        return;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        if (write(fd, line, (size_t)length) < 0)
            _exit(125);
        close(fd);
    }
}

static const char *symbol(void *address)
{
    Dl_info info;
    if (address == NULL)
        return "-";
    if (dladdr(address, &info) != 0 && info.dli_sname != NULL && info.dli_saddr == address)
        return info.dli_sname;
    return "?";
}

static dlsym_fn real_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (unsigned i = 0; next_dlsym == NULL && i < 3; i++)
        next_dlsym = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return next_dlsym;
}

static void *wrapped(const char *name, void *real);

static CUresult asked_proc1(const char *name, void **found, int version, cuuint64_t flags)
{
    CUresult code = next_proc1(name, found, version, flags);
    void *address = code == CUDA_SUCCESS && found != NULL ? *found : NULL;
    record("proc1 %s %d %llu %d %s\n", name, version, (unsigned long long)flags, (int)code,
           symbol(address));
    if (address != NULL)
        *found = wrapped(name, address);
    return code;
}

static CUresult asked_proc2(const char *name, void **found, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *status)
{
    CUresult code = next_proc2(name, found, version, flags, status);
    void *address = code == CUDA_SUCCESS && found != NULL ? *found : NULL;
    record("proc2 %s %d %llu %d %d %s\n", name, version, (unsigned long long)flags, (int)code,
           status != NULL ? (int)*status : -1, symbol(address));
    if (address != NULL)
        *found = wrapped(name, address);
    return code;
}

static CUresult asked_table(const void **table, const CUuuid *id)
{
    CUresult code = next_table(table, id);
    char hex[33];
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
    record("table %s %d %zu\n", hex, (int)code,
           code == CUDA_SUCCESS && *table != NULL ? *(const size_t *)*table : 0);
    return code;
}

/* The recorder's own function in place of the three that lead to more questions. */
static void *wrapped(const char *name, void *real)
{
    const char *is = symbol(real);
    if (strcmp(is, "cuGetProcAddress_v2") == 0) {
        next_proc2 = (proc2_fn)real;
        return (void *)asked_proc2;
    }
    if (strcmp(is, "cuGetProcAddress") == 0) {
        next_proc1 = (proc1_fn)real;
        return (void *)asked_proc1;
    }
    if (strcmp(name, "cuGetExportTable") == 0) {
        next_table = (table_fn)real;
        return (void *)asked_table;
    }
    return real;
}

void *dlsym(void *handle, const char *name)
{
    dlsym_fn real = next_dlsym != NULL ? next_dlsym : real_dlsym();
    int ours = name != NULL &&
               ((name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z') ||
                strncmp(name, "nvml", 4) == 0);
    if (!ours || handle == RTLD_NEXT)
        return real(handle, name); /* a tail call: the caller stays the caller */
    void *found = real(handle, name);
    record("dlsym %s %s\n", name, symbol(found));
    return found != NULL ? wrapped(name, found) : NULL;
}
