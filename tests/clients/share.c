/* link: cuda dl */
/* Memory shared between processes: what legacy IPC opened, or came by a descriptor, is charged once
 * in a tenant, while anybody holds it; what came from another process's pool is charged to whoever
 * holds it.
 *
 * A forked child has no driver, so partners are started by exec; they talk through pipes whose
 * numbers stand in the environment. */
#include "scenario.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct offer {
    CUipcMemHandle handle;
};

static int numbered(const char *name)
{
    const char *text = getenv(name);
    CHECK(text != NULL);
    return atoi(text);
}

static pid_t partner(const char *scenario, int pipes[2][2])
{
    char number[16];
    CHECK(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
    snprintf(number, sizeof number, "%d", pipes[0][0]);
    setenv("FROM_PARTNER", number, 1);
    snprintf(number, sizeof number, "%d", pipes[1][1]);
    setenv("TO_PARTNER", number, 1);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it outlives no failed check */
        execl("/proc/self/exe", "share", scenario, NULL);
        _exit(127);
    }
    return child;
}

static void import_is_charged_once_by(const char *importer)
{
    int pipes[2][2];
    struct offer offer;
    CUdeviceptr block;
    char byte;
    start();
    size_t before = used();
    OK(cuMemAlloc(&block, 64 * MIB));
    OK(cuMemsetD8(block, 0x5a, 64 * MIB));
    OK(cuIpcGetMemHandle(&offer.handle, block));
    EQUAL(used() - before, 64 * MIB);
    pid_t child = partner(importer, pipes);
    CHECK(write(pipes[0][1], &offer, sizeof offer) == sizeof offer);
    CHECK(read(pipes[1][0], &byte, 1) == 1); /* it has opened */
    /* The partner's own context, and not one byte for what it opened. */
    size_t both = used();
    EQUAL(both - before, 64 * MIB + before);
    OK(cuMemFree(block));
    EQUAL(used(), both); /* the importer still holds it */
    CHECK(write(pipes[0][1], "c", 1) == 1);
    CHECK(read(pipes[1][0], &byte, 1) == 1); /* it has closed */
    EQUAL(used(), both - 64 * MIB);
    CHECK(write(pipes[0][1], "e", 1) == 1);
    int status = 0;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    EQUAL(used(), before);
}

static void import_is_charged_once(void)
{
    import_is_charged_once_by("importer");
}

static void import_by_the_first_call_is_charged_once(void)
{
    import_is_charged_once_by("old_importer");
}

typedef CUresult (*open_fn)(CUdeviceptr *, CUipcMemHandle, unsigned);

static void import_by(open_fn open)
{
    int in = numbered("FROM_PARTNER"), out = numbered("TO_PARTNER");
    struct offer offer;
    CUdeviceptr block;
    unsigned char byte = 0;
    char word;
    start();
    CHECK(read(in, &offer, sizeof offer) == sizeof offer);
    OK(open(&block, offer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuMemcpyDtoH(&byte, block + 4096, 1));
    EQUAL(byte, 0x5a);
    CHECK(write(out, "o", 1) == 1);
    CHECK(read(in, &word, 1) == 1);
    OK(cuIpcCloseMemHandle(block));
    CHECK(write(out, "c", 1) == 1);
    CHECK(read(in, &word, 1) == 1);
}

static void importer(void)
{
    import_by(cuIpcOpenMemHandle);
}

static void old_importer(void)
{
    open_fn open = (open_fn)dlsym(RTLD_DEFAULT, "cuIpcOpenMemHandle");
    CHECK(open != NULL);
    import_by(open);
}

struct pool_offer {
    CUmemPoolPtrExportData data;
    int descriptor;
};

static void pointer_of_anothers_pool_is_charged(void)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    struct pool_offer offer;
    CUmemoryPool pool;
    CUdeviceptr block;
    int pipes[2][2], status = 0;
    start();
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolExportToShareableHandle(&offer.descriptor, pool,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(&offer.data, block));
    offer.descriptor = dup(offer.descriptor); /* without close-on-exec */
    pid_t child = partner("pool_importer", pipes);
    CHECK(write(pipes[0][1], &offer, sizeof offer) == sizeof offer);
    waitpid(child, &status, 0);
    EQUAL(status, 0);
}

static void pool_importer(void)
{
    struct pool_offer offer;
    CUmemoryPool pool;
    CUdeviceptr block;
    start();
    CHECK(read(numbered("FROM_PARTNER"), &offer, sizeof offer) == sizeof offer);
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(long)offer.descriptor,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    TAKES(64 * MIB, cuMemPoolImportPointer(&block, pool, &offer.data));
    GIVES(64 * MIB, cuMemFree(block));
}

static void exporters_death_frees_no_charge(void)
{
    /* This process imports; its partner exports and is killed. */
    int pipes[2][2];
    struct offer offer;
    CUdeviceptr block;
    unsigned char byte = 0;
    start();
    size_t before = used();
    pid_t child = partner("exporter", pipes);
    CHECK(read(pipes[1][0], &offer, sizeof offer) == sizeof offer);
    OK(cuIpcOpenMemHandle(&block, offer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EQUAL(used() - before, 64 * MIB + before);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    OK(cuMemcpyDtoH(&byte, block, 1));
    EQUAL(byte, 0x5a);
    /* Fill up: meeting the limit reaps the dead, and must not reap what is shared. */
    fill_up(64 * MIB);
    CHECK(used() <= wanted_limit());
    size_t full = used();
    OK(cuIpcCloseMemHandle(block));
    EQUAL(full - used(), 64 * MIB);
}

static void exporter(void)
{
    int out = numbered("TO_PARTNER");
    struct offer offer;
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, 64 * MIB));
    OK(cuMemsetD8(block, 0x5a, 64 * MIB));
    OK(cuCtxSynchronize());
    OK(cuIpcGetMemHandle(&offer.handle, block));
    CHECK(write(out, &offer, sizeof offer) == sizeof offer);
    for (;;)
        pause();
}

static const CUmemAllocationProp PROP = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUmemGenericAllocationHandle imported(int fd)
{
    CUmemGenericAllocationHandle handle;
    OK(cuMemImportFromShareableHandle(&handle, (void *)(long)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return handle;
}

static int exported(CUmemGenericAllocationHandle handle)
{
    int fd = -1;
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return fd;
}

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_descriptor(int socket, int fd)
{
    union control control = {0};
    struct iovec word = {.iov_base = "d", .iov_len = 1};
    struct msghdr message = {.msg_iov = &word, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

static int received_descriptor(int socket)
{
    union control control = {0};
    char byte;
    int fd;
    struct iovec word = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &word, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    CHECK(head != NULL && head->cmsg_type == SCM_RIGHTS);
    memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

/* Starts the partner `scenario`; it finds its end of a socket in SOCKET. */
static pid_t connected(const char *scenario, int *socket)
{
    int ends[2];
    char number[16];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("SOCKET", number, 1);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        execl("/proc/self/exe", "share", scenario, NULL);
        _exit(127);
    }
    close(ends[1]);
    *socket = ends[0];
    return child;
}

static void ends_well(pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
}

/* The importer never maps what it imports: its handle alone keeps the memory. */
static void descriptor_is_charged_once(void)
{
    CUmemGenericAllocationHandle handle;
    int socket;
    char byte;
    start();
    size_t before = used();
    OK(cuMemCreate(&handle, 64 * MIB, &PROP, 0));
    int fd = exported(handle);
    EQUAL(used() - before, 64 * MIB);
    pid_t child = connected("descriptor_importer", &socket);
    send_descriptor(socket, fd);
    CHECK(read(socket, &byte, 1) == 1); /* it has imported, twice */
    EQUAL(used() - before, 64 * MIB + before);
    close(fd);
    OK(cuMemRelease(handle));
    EQUAL(used() - before, 64 * MIB + before); /* the importer still holds it */
    CHECK(write(socket, "r", 1) == 1);
    CHECK(read(socket, &byte, 1) == 1); /* it has released one */
    EQUAL(used() - before, 64 * MIB + before);
    CHECK(write(socket, "r", 1) == 1);
    CHECK(read(socket, &byte, 1) == 1); /* it has released both */
    EQUAL(used() - before, before);
    CHECK(write(socket, "e", 1) == 1);
    ends_well(child);
    EQUAL(used(), before);
}

static void descriptor_importer(void)
{
    int socket = numbered("SOCKET");
    char byte;
    start();
    int fd = received_descriptor(socket);
    CUmemGenericAllocationHandle first = imported(fd), second = imported(fd);
    close(fd);
    CHECK(write(socket, "i", 1) == 1);
    CHECK(read(socket, &byte, 1) == 1);
    OK(cuMemRelease(first));
    CHECK(write(socket, "1", 1) == 1);
    CHECK(read(socket, &byte, 1) == 1);
    OK(cuMemRelease(second));
    CHECK(write(socket, "2", 1) == 1);
    CHECK(read(socket, &byte, 1) == 1);
}

static void descriptor_outlives_its_exporter(void)
{
    CUdeviceptr range;
    int socket;
    start();
    size_t before = used();
    pid_t child = connected("descriptor_exporter", &socket);
    int fd = received_descriptor(socket);
    CUmemGenericAllocationHandle handle = imported(fd);
    close(fd);
    EQUAL(used() - before, 64 * MIB + before);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    EQUAL(used() - before, 64 * MIB);
    /* Meeting the limit reaps the dead, and must not reap what is held. */
    IS(cuMemAlloc(&range, wanted_limit()), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0));
    TAKES(0, cuMemMap(range, 64 * MIB, 0, handle, 0));
    TAKES(0, cuMemRelease(handle));
    GIVES(64 * MIB, cuMemUnmap(range, 64 * MIB));
}

static void descriptor_exporter(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    OK(cuMemCreate(&handle, 64 * MIB, &PROP, 0));
    send_descriptor(numbered("SOCKET"), exported(handle));
    for (;;)
        pause();
}

/* What another tenant exported is charged here too, when it is imported. */
static void descriptor_of_another_tenant(void)
{
    CUmemGenericAllocationHandle handle, more;
    char cache[4096];
    int socket, fd;
    const char *own = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    CHECK(own != NULL);
    char *kept = strdup(own);
    start();
    size_t before = used();
    snprintf(cache, sizeof cache, "%s.other", kept);
    CHECK(mkdir(cache, 0700) == 0 || errno == EEXIST);
    strcat(cache, "/tenant.cache");
    setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", cache, 1);
    pid_t child = connected("descriptor_exporter_of_a_gib", &socket);
    setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", kept, 1);
    fd = received_descriptor(socket);
    EQUAL(used(), before);
    handle = imported(fd);
    EQUAL(used() - before, GIB);
    OK(cuMemRelease(handle));
    EQUAL(used(), before);
    OK(cuMemCreate(&more, wanted_limit() - GIB, &PROP, 0));
    size_t full = used();
    IS(cuMemImportFromShareableHandle(&handle, (void *)(long)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
       CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(used(), full);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void descriptor_exporter_of_a_gib(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    OK(cuMemCreate(&handle, GIB, &PROP, 0));
    send_descriptor(numbered("SOCKET"), exported(handle));
    for (;;)
        pause();
}

/* Who exported it knows nothing of Divvy, so its size shows when it is mapped. */
static void descriptor_of_a_stranger_is_charged_when_mapped(void)
{
    CUdeviceptr range;
    int socket;
    start();
    char *library = strdup(getenv("LD_PRELOAD") != NULL ? getenv("LD_PRELOAD") : "");
    unsetenv("LD_PRELOAD");
    pid_t child = connected("descriptor_exporter", &socket);
    setenv("LD_PRELOAD", library, 1);
    int fd = received_descriptor(socket);
    size_t before = used();
    CUmemGenericAllocationHandle handle = imported(fd);
    OK(cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0));
    OK(cuMemMap(range, 64 * MIB, 0, handle, 0));
    EQUAL(used() - before, 64 * MIB);
    OK(cuMemUnmap(range, 64 * MIB));
    OK(cuMemRelease(handle));
    EQUAL(used(), before);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* More than the tenant's table of shared memory has room for. */
static void many_descriptors(void)
{
    enum { COUNT = 300 };
    static CUmemGenericAllocationHandle handles[COUNT];
    static int descriptors[COUNT];
    start();
    size_t before = used();
    for (int i = 0; i < COUNT; i++) {
        OK(cuMemCreate(&handles[i], 2 * MIB, &PROP, 0));
        descriptors[i] = exported(handles[i]);
    }
    EQUAL(used() - before, COUNT * 2 * MIB);
    for (int i = 0; i < COUNT; i++)
        OK(cuMemRelease(handles[i]));
    EQUAL(used() - before, COUNT * 2 * MIB);
    for (int i = 0; i < COUNT; i++)
        close(descriptors[i]);
    /* They are looked for when memory is given back. */
    for (int i = 0; i < COUNT / 32 + 1; i++) {
        OK(cuMemCreate(&handles[0], 2 * MIB, &PROP, 0));
        OK(cuMemRelease(handles[0]));
    }
    EQUAL(used(), before);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"import_is_charged_once", import_is_charged_once},
        {"importer", importer},
        {"import_by_the_first_call_is_charged_once", import_by_the_first_call_is_charged_once},
        {"old_importer", old_importer},
        {"pointer_of_anothers_pool_is_charged", pointer_of_anothers_pool_is_charged},
        {"pool_importer", pool_importer},
        {"exporters_death_frees_no_charge", exporters_death_frees_no_charge},
        {"exporter", exporter},
        {"descriptor_is_charged_once", descriptor_is_charged_once},
        {"descriptor_importer", descriptor_importer},
        {"descriptor_outlives_its_exporter", descriptor_outlives_its_exporter},
        {"descriptor_exporter", descriptor_exporter},
        {"descriptor_of_another_tenant", descriptor_of_another_tenant},
        {"descriptor_exporter_of_a_gib", descriptor_exporter_of_a_gib},
        {"descriptor_of_a_stranger_is_charged_when_mapped",
         descriptor_of_a_stranger_is_charged_when_mapped},
        {"many_descriptors", many_descriptors},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
