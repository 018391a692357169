/* link: dl */
/* How a call reaches the library: every way a program takes an address, without linking the driver.
 *
 * Addresses are compared with what the loader says of them: which object they lie in and under
 * which name. */
#define _GNU_SOURCE
#include "scenario.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

/* Only types of the header are used: the driver is found at run time. */
static void *driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(handle != NULL);
    return handle;
}

static const char *object_of(void *address)
{
    Dl_info info;
    CHECK(address != NULL && dladdr(address, &info) != 0);
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

static int is_ours(void *address)
{
    const char *object = object_of(address);
    /* A build's own file has its number behind the name. */
    return strncmp(object, "libdivvy", 8) == 0 || strcmp(object, "libvgpu.so") == 0;
}

static void by_explicit_handle(void)
{
    void *handle = driver();
    CHECK(is_ours(dlsym(handle, "cuMemAlloc_v2")));
    CHECK(is_ours(dlsym(handle, "cuMemFree_v2")));
    CHECK(is_ours(dlsym(handle, "cuMemAllocAsync_ptsz")));
    CHECK(dlsym(handle, "cuMemAlloc_v2") == dlsym(handle, "cuMemAlloc_v2"));
    CHECK(!is_ours(dlsym(handle, "cuStreamQuery")));
    CHECK(dlsym(handle, "cuNoSuchFunction") == NULL);
    CHECK(dlerror() != NULL && dlerror() == NULL);
}

static void by_version(void)
{
    /* A version the object does not have finds what it finds natively, hook or not. */
    void *handle = driver();
    CHECK(dlvsym(handle, "cuNoSuchFunction", "NONE") == NULL);
    void *found = dlvsym(handle, "cuMemAlloc_v2", "NONE");
    CHECK(found == NULL || is_ours(found));
    void *real = dlvsym(RTLD_DEFAULT, "getpid", "GLIBC_2.2.5");
#ifdef __x86_64__
    CHECK(real != NULL && ((pid_t(*)(void))real)() == getpid());
#else
    CHECK(real == NULL || ((pid_t(*)(void))real)() == getpid());
#endif
}

static void by_default_and_next(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(handle != NULL);
    CHECK(is_ours(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")));
    CHECK(is_ours(dlsym(RTLD_NEXT, "cuMemAlloc_v2")));
    for (int i = 0; i < 3; i++) {
        /* The same question must have the same answer, however often it is asked. */
        void *next = dlsym(RTLD_NEXT, "open");
        CHECK(next != NULL && strstr(object_of(next), "libc.") != NULL);
    }
    CHECK(dlsym(RTLD_DEFAULT, "curl_easy_init") == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "cudaNoSuchThing") == NULL);
}

static void names_that_only_begin_alike(void)
{
    /* "cu..." is not enough to be the driver's. */
    CHECK(dlsym(RTLD_DEFAULT, "cublasCreate_v2") == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "curl_easy_init") == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "nvmlNothing") == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "cu") == NULL);
    CHECK(dlsym(RTLD_DEFAULT, "") == NULL);
}

/* Prints "name object" of every name given on standard input... by file, from the environment. */
static void every_address(void)
{
    void *handle = driver();
    char name[128];
    FILE *names = fopen(getenv("NAMES"), "r");
    CHECK(names != NULL);
    while (fscanf(names, "%127s", name) == 1) {
        void *found = dlsym(handle, name);
        printf("%s %s\n", name, found == NULL ? "-" : is_ours(found) ? "ours" : "driver");
    }
    fclose(names);
}

typedef CUresult (*proc_fn)(const char *, void **, int, cuuint64_t,
                            CUdriverProcAddressQueryResult *);
typedef CUresult (*old_proc_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*init_fn)(unsigned);

static void by_proc_address(void)
{
    void *handle = driver(), *found = NULL;
    CUdriverProcAddressQueryResult status;
    OK(((init_fn)dlsym(handle, "cuInit"))(0));
    proc_fn proc = (proc_fn)dlsym(handle, "cuGetProcAddress_v2");
    old_proc_fn old_proc = (old_proc_fn)dlsym(handle, "cuGetProcAddress");
    CHECK(is_ours((void *)proc) && is_ours((void *)old_proc));
    OK(proc("cuMemAlloc", &found, 12000, 0, &status));
    CHECK(found == dlsym(handle, "cuMemAlloc_v2"));
    OK(proc("cuMemAlloc", &found, 2000, 0, &status));
    CHECK(found == dlsym(handle, "cuMemAlloc"));
    OK(proc("cuMemAllocAsync", &found, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
            &status));
    CHECK(found == dlsym(handle, "cuMemAllocAsync_ptsz"));
    OK(old_proc("cuMemAlloc", &found, 11030, 0));
    CHECK(found == dlsym(handle, "cuMemAlloc_v2"));
    OK(proc("cuCtxCreate", &found, 11000, 0, &status));
    CHECK(found == dlsym(handle, "cuCtxCreate_v2"));
    OK(proc("cuCtxCreate", &found, 12000, 0, &status));
    CHECK(is_ours(found));
    /* Asked for itself it gives itself, so nobody ever holds the driver's own. */
    OK(proc("cuGetProcAddress", &found, 12000, 0, &status));
    CHECK(found == (void *)proc);
    OK(proc("cuStreamQuery", &found, 12000, 0, &status));
    CHECK(!is_ours(found));
    found = (void *)7;
    OK(proc("cuNoSuchFunction", &found, 12000, 0, &status));
    CHECK(found == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    /* No place for the status: the newer question answers success all the same. */
    OK(proc("cuMemAlloc", &found, 12000, 0, NULL));
    CHECK(is_ours(found));
}

static void hooked_call_by_found_address(void)
{
    void *handle = driver();
    size_t free_now = 0, all = 0;
    CUcontext context;
    OK(((init_fn)dlsym(handle, "cuInit"))(0));
    OK(((CUresult(*)(CUcontext *, CUdevice))dlsym(handle, "cuDevicePrimaryCtxRetain"))(&context, 0));
    OK(((CUresult(*)(CUcontext))dlsym(handle, "cuCtxSetCurrent"))(context));
    OK(((CUresult(*)(size_t *, size_t *))dlsym(handle, "cuMemGetInfo_v2"))(&free_now, &all));
    EQUAL(all, wanted_limit());
}

static void closed_and_opened_again(void)
{
    for (int i = 0; i < 3; i++) {
        void *handle = driver();
        hooked_call_by_found_address();
        CHECK(dlclose(handle) == 0);
    }
}

static void charged_once(void)
{
    /* Played with two copies of the library loaded. */
    void *handle = driver();
    CUcontext context;
    CUdeviceptr block;
    size_t free_now = 0, all = 0, then = 0;
    CUresult (*info)(size_t *, size_t *) = dlsym(handle, "cuMemGetInfo_v2");
    OK(((init_fn)dlsym(handle, "cuInit"))(0));
    OK(((CUresult(*)(CUcontext *, CUdevice))dlsym(handle, "cuDevicePrimaryCtxRetain"))(&context, 0));
    OK(((CUresult(*)(CUcontext))dlsym(handle, "cuCtxSetCurrent"))(context));
    OK(info(&free_now, &all));
    EQUAL(all, wanted_limit());
    OK(((CUresult(*)(CUdeviceptr *, size_t))dlsym(handle, "cuMemAlloc_v2"))(&block, 64 * MIB));
    OK(info(&then, &all));
    EQUAL(free_now - then, 64 * MIB);
}

static void *looker(void *argument)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    for (int i = 0; i < 2000; i++)
        if (handle == NULL || !is_ours(dlsym(handle, "cuMemAlloc_v2")) ||
            dlsym(RTLD_DEFAULT, "curl_easy_init") != NULL)
            return argument;
    return NULL;
}

static void looked_up_by_many_threads(void)
{
    pthread_t threads[8];
    void *bad = NULL;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, looker, (void *)1);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &bad);
        CHECK(bad == NULL);
    }
}

/* What a program can see of the library before its first driver call: nothing. */
/* How many entries a directory has; the descriptor that reads it counts in its own. */
static size_t entries(const char *path)
{
    size_t count = 0;
    DIR *directory = opendir(path);
    CHECK(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* What the main thread blocks, and what the process ignores and catches. Read by itself: whoever starts another
 * program for that has all signals blocked while that begins. */
static void print_signals(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "SigBlk", 6) == 0 || strncmp(line, "SigIgn", 6) == 0 || strncmp(line, "SigCgt", 6) == 0)
            fputs(line, stdout);
    fclose(status);
}

static int by_text(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void print_environment(void)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    qsort(environ, count, sizeof *environ, by_text);
    for (size_t i = 0; i < count; i++)
        puts(environ[i]);
}

static void before_the_first_call(void)
{
    dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    dlsym(RTLD_NEXT, "open");
    dlvsym(RTLD_DEFAULT, "getpid", "GLIBC_2.2.5");
    if (getenv("OPEN_DRIVER") != NULL)
        dlsym(driver(), "cuMemAlloc_v2");
    unsetenv("LD_PRELOAD");
    printf("%zu threads, %zu descriptors\n", entries("/proc/self/task"), entries("/proc/self/fd"));
    print_signals();
    print_environment();
    umask(umask(0));
    printf("umask %o\n", umask(0));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"by_explicit_handle", by_explicit_handle},
        {"by_version", by_version},
        {"by_default_and_next", by_default_and_next},
        {"names_that_only_begin_alike", names_that_only_begin_alike},
        {"every_address", every_address},
        {"by_proc_address", by_proc_address},
        {"hooked_call_by_found_address", hooked_call_by_found_address},
        {"closed_and_opened_again", closed_and_opened_again},
        {"charged_once", charged_once},
        {"looked_up_by_many_threads", looked_up_by_many_threads},
        {"before_the_first_call", before_the_first_call},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
