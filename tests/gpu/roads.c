/* What a real driver does to memory at the ends of roads past a limit; each line of its output answers one
 * question that tests on the simulated driver suppose an answer to. Needs no toolkit and no Divvy:
 *
 *     gcc -O1 -o roads roads.c -ldl && ./roads
 *
 * on an idle card. Figures are NVML's, of the whole card, in MiB above what was used before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *ctx_t, *pool_t, *green_t, *desc_t, *stream_t, *module_t, *function_t;
typedef unsigned long long ptr_t, handle_t;
typedef struct { char bytes[64]; } ipc_t;
typedef struct { int type, id; } place_t;
typedef struct {
    int type, handles;
    place_t place;
    void *windows;
    unsigned char flags[8];
} prop_t;
typedef struct {
    int type, handles;
    place_t place;
    void *security;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
} pool_prop_t;
typedef struct { char bytes[4096]; } resource_t; /* larger than any version's */

static void *cuda, *nvml, *card;
static long base;

#define C(name, type) ((int(*) type)find(cuda, #name))
#define N(name, type) ((int(*) type)find(nvml, #name))
#define MIB (1l << 20)

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        printf("there is no %s\n", name);
        exit(1);
    }
    return found;
}

static long used(void)
{
    struct { unsigned long long total, free, used; } memory = {0, 0, 0};
    usleep(200 * 1000); /* what was released is cleared first */
    N(nvmlDeviceGetMemoryInfo, (void *, void *))(card, &memory);
    return (long)(memory.used / MIB) - base;
}

static ctx_t retain(void)
{
    ctx_t context = NULL;
    int code = C(cuDevicePrimaryCtxRetain, (ctx_t *, int))(&context, 0);
    if (code != 0)
        printf("retain: %d\n", code);
    C(cuCtxSetCurrent, (ctx_t))(context);
    return context;
}

static int is_active(void)
{
    unsigned flags = 0;
    int active = -1;
    C(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))(0, &flags, &active);
    return active;
}

static int release(void)
{
    return C(cuDevicePrimaryCtxRelease_v2, (int))(0);
}

static int reset(void)
{
    return C(cuDevicePrimaryCtxReset_v2, (int))(0);
}

static ptr_t block(long mib)
{
    ptr_t made = 0;
    int code = C(cuMemAlloc_v2, (ptr_t *, size_t))(&made, mib * MIB);
    if (code != 0)
        printf("cuMemAlloc: %d\n", code);
    return made;
}

static int drop(ptr_t made)
{
    return C(cuMemFree_v2, (ptr_t))(made);
}

/* ---- detach and destroy ---- */

static void detaches(int retains)
{
    ctx_t primary = NULL, current = NULL;
    for (int i = 0; i < retains; i++)
        primary = retain();
    block(256);
    printf("primary retained %d times, 256 MiB in it: active %d, used %ld\n", retains, is_active(), used());
    for (int i = 0; i < retains + 1; i++) {
        C(cuCtxSetCurrent, (ctx_t))(primary);
        int code = C(cuCtxDetach, (ctx_t))(primary);
        C(cuCtxGetCurrent, (ctx_t *))(&current);
        printf("  cuCtxDetach %d: code %d, active %d, still current %d, used %ld\n", i + 1, code, is_active(),
               current == primary, used());
    }
    int again = C(cuCtxSetCurrent, (ctx_t))(primary);
    ptr_t more = 0;
    int alloc = C(cuMemAlloc_v2, (ptr_t *, size_t))(&more, 64 * MIB);
    printf("  set current %d, alloc of 64 MiB %d, used %ld\n", again, alloc, used());
    for (int i = 0; i < retains; i++) {
        int code = release();
        printf("  release %d: code %d, active %d, used %ld\n", i + 1, code, is_active(), used());
    }
    reset();
}

static void destroys(void)
{
    ctx_t primary = retain(), made = NULL, again = NULL;
    block(256);
    int code = C(cuCtxDestroy_v2, (ctx_t))(primary);
    printf("cuCtxDestroy of the primary: code %d, active %d, used %ld\n", code, is_active(), used());
    C(cuCtxCreate_v2, (ctx_t *, unsigned, int))(&made, 0, 0);
    block(256);
    int attach = C(cuCtxAttach, (ctx_t *, unsigned))(&again, 0);
    long before = used();
    int first = C(cuCtxDetach, (ctx_t))(made);
    long between = used();
    int second = C(cuCtxDetach, (ctx_t))(made);
    printf("created, attached %d: used %ld; detach %d: used %ld; detach %d: used %ld\n", attach, before, first,
           between, second, used());
    reset();
    release();
}

/* ---- descriptors ---- */

static const prop_t PROP = {.type = 1, .handles = 1, .place = {1, 0}};

static handle_t physical(long mib)
{
    handle_t made = 0;
    int code = C(cuMemCreate, (handle_t *, size_t, const prop_t *, unsigned long long))(&made, mib * MIB,
                                                                                        &PROP, 0);
    if (code != 0)
        printf("cuMemCreate: %d\n", code);
    return made;
}

static int exported(handle_t handle)
{
    int fd = -1;
    int code = C(cuMemExportToShareableHandle, (void *, handle_t, int, unsigned long long))(&fd, handle, 1, 0);
    if (code != 0)
        printf("cuMemExportToShareableHandle: %d\n", code);
    return fd;
}

static void describe(const char *what, int fd)
{
    char link[64], path[256] = "";
    struct stat stat;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    (void)!readlink(link, path, sizeof path - 1);
    fstat(fd, &stat);
    printf("  %s: fd %d %s dev %lx ino %lu rdev %lx flags %o\n", what, fd, path, (long)stat.st_dev,
           (long)stat.st_ino, (long)stat.st_rdev, fcntl(fd, F_GETFL));
}

/* A descriptor of the same file that is none of these three. */
static int sibling(const int *fds)
{
    struct stat wanted, other;
    fstat(fds[0], &wanted);
    for (int number = 0; number < 4096; number++)
        if (number != fds[0] && number != fds[1] && number != fds[2] && fstat(number, &other) == 0 &&
            other.st_dev == wanted.st_dev && other.st_ino == wanted.st_ino)
            return number;
    return -1;
}

static int mark(int fd, short type, int command)
{
    struct flock lock = {.l_type = type, .l_start = (1ll << 61) + 12345, .l_len = 128};
    int code = fcntl(fd, command, &lock);
    return code != 0 ? -1 : lock.l_type;
}

static void descriptors(void)
{
    retain();
    long before = used();
    handle_t handle = physical(256), other = physical(2);
    int first = exported(handle), second = exported(handle), third = exported(other);
    int own = sibling((int[]){first, second, third});
    printf("descriptors of one allocation, twice, and of another:\n");
    describe("first", first);
    describe("second", second);
    describe("other", third);
    if (own >= 0)
        describe("the driver's own", own);
    printf("  read lock on first %d, on second %d (0 is done)\n", mark(first, F_RDLCK, F_OFD_SETLK),
           mark(second, F_RDLCK, F_OFD_SETLK));
    close(first);
    C(cuMemRelease, (handle_t))(handle);
    C(cuMemRelease, (handle_t))(other);
    close(third);
    printf("  handle released, first closed: used %ld, asked through %d: %d (0 or 1 is held, 2 is not)\n",
           used() - before, own, mark(own, F_WRLCK, F_OFD_GETLK));
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    close(second);
    printf("  only a child keeps the second: used %ld, asked: %d\n", used() - before,
           mark(own, F_WRLCK, F_OFD_GETLK));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("  nobody does: used %ld, asked: %d\n", used() - before, mark(own, F_WRLCK, F_OFD_GETLK));
    release();
}

/* ---- legacy IPC ---- */

static void handles(void)
{
    ipc_t one, two;
    ptr_t opened = 0;
    retain();
    ptr_t first = block(64);
    int got = C(cuIpcGetMemHandle, (ipc_t *, ptr_t))(&one, first);
    int own = C(cuIpcOpenMemHandle_v2, (ptr_t *, ipc_t, unsigned))(&opened, one, 1);
    drop(first);
    ptr_t second = block(64);
    C(cuIpcGetMemHandle, (ipc_t *, ptr_t))(&two, second);
    printf("legacy handle %d, own one opened: code %d; of the next block at %s address: %s\n", got, own,
           first == second ? "the same" : "another",
           memcmp(&one, &two, sizeof one) == 0 ? "the same 64 bytes" : "other bytes");
    drop(second);
    release();
}

/* ---- green contexts ---- */

static void greens(void)
{
    static resource_t all, part;
    desc_t description = NULL;
    green_t green = NULL;
    ctx_t view = NULL, keeper = NULL, primary = retain();
    unsigned groups = 1;
    int codes[3];
    if (dlsym(cuda, "cuGreenCtxCreate") == NULL)
        return;
    C(cuCtxCreate_v2, (ctx_t *, unsigned, int))(&keeper, 0, 0);
    C(cuCtxSetCurrent, (ctx_t))(primary);
    for (int round = 0; round < 2; round++) {
        codes[0] = C(cuDeviceGetDevResource, (int, void *, int))(0, &all, 1);
        codes[1] = C(cuDevSmResourceSplitByCount, (void *, unsigned *, void *, void *, unsigned, unsigned))(
            &part, &groups, &all, NULL, 0, 8);
        codes[2] = C(cuDevResourceGenerateDesc, (desc_t *, void *, unsigned))(&description, &part, 1);
        int made = C(cuGreenCtxCreate, (green_t *, desc_t, int, unsigned))(&green, description, 0, 1);
        C(cuCtxFromGreenCtx, (ctx_t *, green_t))(&view, green);
        C(cuCtxSetCurrent, (ctx_t))(view);
        long before = used();
        block(256);
        printf("green context (%d %d %d %d): 256 MiB in its view: used %ld more\n", codes[0], codes[1],
               codes[2], made, used() - before);
        C(cuCtxSetCurrent, (ctx_t))(keeper);
        if (round == 0) {
            int gone = C(cuGreenCtxDestroy, (green_t))(green);
            printf("  destroyed %d: used %ld more, primary active %d\n", gone, used() - before, is_active());
            C(cuCtxSetCurrent, (ctx_t))(primary);
            continue;
        }
        int code = reset();
        printf("  reset of the primary beside it %d: used %ld more, active %d\n", code, used() - before,
               is_active());
        int gone = C(cuGreenCtxDestroy, (green_t))(green);
        printf("  green context destroyed then %d: used %ld more, active %d\n", gone, used() - before,
               is_active());
    }
    C(cuCtxDestroy_v2, (ctx_t))(keeper);
    release();
}

/* ---- pools ---- */

static const char SPIN[] =
    ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry spin_ns(.param .u64 ns)\n{\n"
    " .reg .pred %p1;\n .reg .b64 %rd<5>;\n ld.param.u64 %rd1, [ns];\n mov.u64 %rd2, %globaltimer;\nL:\n"
    " mov.u64 %rd3, %globaltimer;\n sub.u64 %rd4, %rd3, %rd2;\n setp.lt.u64 %p1, %rd4, %rd1;\n"
    " @%p1 bra L;\n ret;\n}\n";

static void reserve(const char *when, pool_t pool, int code)
{
    unsigned long long reserved = 0, in_use = 0;
    int known = C(cuMemPoolGetAttribute, (pool_t, int, void *))(pool, 5, &reserved);
    C(cuMemPoolGetAttribute, (pool_t, int, void *))(pool, 7, &in_use);
    printf("  %s (%d): attributes %d, reserved %llu, in use %llu, used %ld\n", when, code, known,
           reserved / MIB, in_use / MIB, used());
}

static void pools(void)
{
    pool_prop_t prop = {.type = 1, .handles = 1, .place = {1, 0}};
    pool_t pool = NULL;
    ptr_t made = 0;
    stream_t stream = NULL;
    module_t module = NULL;
    function_t spin = NULL;
    int fd = -1;
    retain();
    C(cuStreamCreate, (stream_t *, unsigned))(&stream, 1);
    long before = used();
    int code = C(cuMemPoolCreate, (pool_t *, void *))(&pool, &prop);
    C(cuMemAllocFromPoolAsync, (ptr_t *, size_t, pool_t, stream_t))(&made, 256 * MIB, pool, stream);
    C(cuStreamSynchronize, (stream_t))(stream);
    int shared = C(cuMemPoolExportToShareableHandle, (void *, pool_t, int, unsigned long long))(&fd, pool, 1, 0);
    printf("pool with 256 MiB (%d), exported (%d): used %ld\n", code, shared, used() - before);
    describe("pool", fd);
    C(cuMemFreeAsync, (ptr_t, stream_t))(made, stream);
    C(cuStreamSynchronize, (stream_t))(stream);
    printf("  freed: used %ld\n", used() - before);
    C(cuMemPoolDestroy, (pool_t))(pool);
    printf("  destroyed, descriptor open: used %ld\n", used() - before);
    close(fd);
    printf("  descriptor closed: used %ld\n", used() - before);

    C(cuModuleLoadData, (module_t *, const void *))(&module, SPIN);
    C(cuModuleGetFunction, (function_t *, module_t, const char *))(&spin, module, "spin_ns");
    prop.handles = 0;
    unsigned long long ns = 3000000000ull;
    void *parameters[] = {&ns};
    C(cuLaunchKernel, (function_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       stream_t, void **, void **))(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    before = used();
    for (int i = 0; i < 4; i++) {
        C(cuMemPoolCreate, (pool_t *, void *))(&pool, &prop);
        C(cuMemAllocFromPoolAsync, (ptr_t *, size_t, pool_t, stream_t))(&made, 256 * MIB, pool, stream);
        C(cuMemFreeAsync, (ptr_t, stream_t))(made, stream);
        reserve("freed behind a kernel of 3 s", pool, 0);
        reserve("then trimmed", pool, C(cuMemPoolTrimTo, (pool_t, size_t))(pool, 0));
        C(cuMemPoolDestroy, (pool_t))(pool);
    }
    printf("four pools of 256 MiB, freed and destroyed behind a kernel of 3 s: used %ld\n", used() - before);
    C(cuStreamSynchronize, (stream_t))(stream);
    printf("  when it has ended: used %ld\n", used() - before);

    before = used();
    C(cuMemPoolCreate, (pool_t *, void *))(&pool, &prop);
    C(cuMemAllocFromPoolAsync, (ptr_t *, size_t, pool_t, stream_t))(&made, 256 * MIB, pool, stream);
    C(cuStreamSynchronize, (stream_t))(stream);
    C(cuMemPoolDestroy, (pool_t))(pool);
    printf("pool destroyed before its block of 256 MiB: used %ld\n", used() - before);
    code = C(cuMemFree_v2, (ptr_t))(made);
    printf("  block freed %d: used %ld\n", code, used() - before);

    pool_t now = NULL, own = NULL;
    C(cuDeviceGetDefaultMemPool, (pool_t *, int))(&own, 0);
    C(cuMemPoolCreate, (pool_t *, void *))(&pool, &prop);
    C(cuDeviceSetMemPool, (int, pool_t))(0, pool);
    code = C(cuMemPoolDestroy, (pool_t))(pool);
    C(cuDeviceGetMemPool, (pool_t *, int))(&now, 0);
    printf("the device's current pool destroyed %d: its default is current %d\n", code, now == own);
    release();
}

static void pools_of_a_reset(void)
{
    pool_prop_t prop = {.type = 1, .place = {1, 0}};
    pool_t pool = NULL;
    ptr_t made = 0;
    stream_t stream = NULL;
    retain();
    C(cuStreamCreate, (stream_t *, unsigned))(&stream, 1);
    C(cuMemPoolCreate, (pool_t *, void *))(&pool, &prop);
    C(cuMemAllocFromPoolAsync, (ptr_t *, size_t, pool_t, stream_t))(&made, 256 * MIB, pool, stream);
    C(cuStreamSynchronize, (stream_t))(stream);
    int code = C(cuDevicePrimaryCtxReset_v2, (int))(0);
    printf("primary context reset %d beside a pool with 256 MiB: used %ld\n", code, used());
    reserve("pool", pool, 0);
    printf("  destroyed %d: used %ld\n", C(cuMemPoolDestroy, (pool_t))(pool), used());
    printf("  and again %d\n", C(cuMemPoolDestroy, (pool_t))(pool));
}

/* ---- buffers for other devices ---- */

static void buffers(void)
{
    int fd = -1;
    retain();
    if (dlsym(cuda, "cuMemGetHandleForAddressRange") == NULL)
        return;
    long before = used();
    ptr_t made = block(256);
    int code = C(cuMemGetHandleForAddressRange, (void *, ptr_t, size_t, int, unsigned long long))(
        &fd, made, 256 * MIB, 1, 0);
    printf("dma-buf of a block of 256 MiB: code %d, used %ld\n", code, used() - before);
    if (code == 0) {
        describe("dma-buf", fd);
        printf("  read lock on it %d\n", mark(fd, F_RDLCK, F_OFD_SETLK));
        int next = -1, again = -1;
        ptr_t other = block(256);
        C(cuMemGetHandleForAddressRange, (void *, ptr_t, size_t, int, unsigned long long))(&next, other, 256 * MIB, 1, 0);
        C(cuMemGetHandleForAddressRange, (void *, ptr_t, size_t, int, unsigned long long))(&again, made, 256 * MIB, 1, 0);
        describe("of another block", next);
        describe("of the first again", again);
        printf("  asked through the other's %d, through the first's other %d\n",
               mark(next, F_WRLCK, F_OFD_GETLK), mark(again, F_WRLCK, F_OFD_GETLK));
        FILE *locks = fopen("/proc/locks", "r");
        char line[256];
        while (locks != NULL && fgets(line, sizeof line, locks) != NULL)
            printf("  /proc/locks: %s", line);
        close(next);
        close(again);
        drop(other);
        drop(made);
        printf("  block freed: used %ld\n", used() - before);
        close(fd);
        printf("  descriptor closed: used %ld\n", used() - before);
    }
    release();
}

static void namespaces(void)
{
    void *there = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    if (there == NULL) {
        printf("the driver in a namespace of its own: %s\n", dlerror());
        return;
    }
    ctx_t context = NULL;
    int init = ((int (*)(unsigned))find(there, "cuInit"))(0);
    int code = ((int (*)(ctx_t *, int))find(there, "cuDevicePrimaryCtxRetain"))(&context, 0);
    printf("the driver in a namespace of its own: cuInit %d, retain %d, used %ld\n", init, code, used());
}

/* ---- orphans ---- */

static void orphaned(void)
{
    retain();
    block(256);
    printf("a context and 256 MiB: used %ld; it dies, and a child of its, which makes no call, 3 s later\n",
           used());
    if (fork() == 0) {
        sleep(3);
        _exit(0);
    }
    kill(getpid(), SIGKILL);
}

static void orphans(void)
{
    printf("what it held is in what was used before, if the child keeps it");
    sleep(5);
    printf("; without the child: used %ld more than that\n", used());
}

static void detached_once(void)
{
    detaches(1);
}

static void detached_twice(void)
{
    detaches(2);
}

/* Each question has a process of its own: what one does to the driver is nothing to the next. */
static void asked(const char *name, void (*question)(void))
{
    int status = 0, version = 0;
    pid_t child = fork();
    if (child == 0) {
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
        nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (cuda == NULL || nvml == NULL) {
            printf("there is no driver: %s\n", dlerror());
            exit(1);
        }
        N(nvmlInit_v2, (void))();
        N(nvmlDeviceGetHandleByIndex_v2, (unsigned, void **))(0, &card);
        int init = C(cuInit, (unsigned))(0);
        C(cuDriverGetVersion, (int *))(&version);
        base = used();
        printf("== %s (driver %d, cuInit %d, %ld MiB used before)\n", name, version, init, base);
        question();
        exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0)
        printf("  ended with %s %d\n", WIFSIGNALED(status) ? "signal" : "code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    asked("descriptors", descriptors);
    asked("primary context, retained once", detached_once);
    asked("primary context, retained twice", detached_twice);
    asked("destroying and detaching", destroys);
    asked("legacy handles", handles);
    asked("green contexts", greens);
    asked("pools", pools);
    asked("pools of a context that is reset", pools_of_a_reset);
    asked("buffers for other devices", buffers);
    asked("a namespace", namespaces);
    asked("a process that dies before its child", orphaned);
    asked("the child of one that has died", orphans);
    return 0;
}
