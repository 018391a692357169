/* link: cuda */
/* Roads past a limit that lead through other processes, descriptors and contexts. What is taken is not
 * judged here: at each station the program says what it is told to be used, and waits while the test asks
 * the card, from a process that nobody limits, what there really is. */
#include "scenario.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Lets the test compare; `word` says how. */
static void station(const char *word, const char *where)
{
    char line[64];
    printf("%s %zu %s\n", word, used(), where);
    if (fgets(line, sizeof line, stdin) == NULL)
        exit(3);
}

/* The card holds no more than is charged, and that is within the limit. */
#define COVERED() station("covered", __func__)
/* The card holds what is charged, to the byte. */
#define EXACT() station("exact", __func__)

enum { BLOCK = 64 }; /* MiB */

/* Takes blocks by `take` until one is refused, or much more than the limit was had. */
static int take_all(CUresult (*take)(void))
{
    size_t most = 2 * wanted_limit() / (BLOCK * MIB);
    for (size_t count = 0; count < most; count++) {
        CUresult code = take();
        if (code != CUDA_SUCCESS) {
            EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
            return (int)count;
        }
    }
    return (int)most;
}

/* A child that has copies of this process's descriptors, and no driver; it ends with its parent, or where
 * `lasting` with the test. */
static pid_t forked(int lasting)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    if (!lasting)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(STDOUT_FILENO);
    alarm(120);
    for (;;)
        pause();
}

/* ---- handles of legacy IPC ---- */

static CUresult take_and_open_own(void)
{
    CUipcMemHandle handle;
    CUdeviceptr block, again;
    CUresult code = cuMemAlloc(&block, BLOCK * MIB);
    if (code != CUDA_SUCCESS)
        return code;
    OK(cuIpcGetMemHandle(&handle, block));
    for (int i = 0; i < 3; i++)
        CHECK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

static void own_handles(void)
{
    start();
    EQUAL(take_all(take_and_open_own), 7);
    COVERED();
    EXACT();
}

static int numbered(const char *name)
{
    const char *text = getenv(name);
    CHECK(text != NULL);
    return atoi(text);
}

/* A process started anew, and a socket to it. */
struct partner {
    pid_t pid;
    int socket;
};

static struct partner partner(const char *scenario)
{
    struct partner made;
    int ends[2];
    char number[16];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    made.pid = fork();
    if (made.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it outlives no failed check */
        snprintf(number, sizeof number, "%d", dup(ends[1]));
        setenv("SOCKET", number, 1);
        execl("/proc/self/exe", "road", scenario, NULL);
        _exit(127);
    }
    close(ends[1]);
    made.socket = ends[0];
    return made;
}

static char asks(struct partner *of, const char *what)
{
    char answer = 0;
    CHECK(write(of->socket, what, 1) == 1);
    CHECK(read(of->socket, &answer, 1) == 1);
    return answer;
}

static void ends(struct partner *of, int signal)
{
    int status = 0;
    if (signal != 0)
        kill(of->pid, signal);
    close(of->socket);
    CHECK(waitpid(of->pid, &status, 0) == of->pid);
    EQUAL(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), signal);
}

/* Opens and closes the block behind a handle as often as it is told to. */
static void opener(void)
{
    int socket = numbered("SOCKET");
    CUipcMemHandle handle;
    CUdeviceptr block = 0;
    char word;
    start();
    CHECK(read(socket, &handle, sizeof handle) == sizeof handle);
    while (read(socket, &word, 1) == 1) {
        CUresult code = CUDA_SUCCESS;
        if (word == 'o')
            code = cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        else if (word == 'c')
            code = cuIpcCloseMemHandle(block);
        CHECK(write(socket, code == CUDA_SUCCESS ? "y" : "n", 1) == 1);
    }
}

static void two_openers(void)
{
    CUipcMemHandle handle;
    CUdeviceptr block, own;
    start();
    size_t before = used();
    OK(cuMemAlloc(&block, BLOCK * MIB));
    OK(cuIpcGetMemHandle(&handle, block));
    struct partner one = partner("opener"), two;
    /* The first two openings of the second partner fail. */
    setenv("SIMGPU_FAULTS", "cuIpcOpenMemHandle_v2@1=fail:2; cuIpcOpenMemHandle_v2@4=fail:2", 1);
    two = partner("opener");
    unsetenv("SIMGPU_FAULTS");
    CHECK(write(one.socket, &handle, sizeof handle) == sizeof handle);
    CHECK(write(two.socket, &handle, sizeof handle) == sizeof handle);
    EQUAL(asks(&one, "."), 'y');
    EQUAL(asks(&two, "."), 'y');
    size_t base = 3 * before;
    EQUAL(used(), base + BLOCK * MIB);
    EXACT();
    EQUAL(asks(&two, "o"), 'n');
    EQUAL(used(), base + BLOCK * MIB);
    EQUAL(asks(&two, "o"), 'y');
    CHECK(cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        EQUAL(asks(&one, "o"), 'y');
        EQUAL(used(), base + BLOCK * MIB);
        EQUAL(asks(&one, "c"), 'y');
        EQUAL(used(), base + BLOCK * MIB);
    }
    EQUAL(asks(&one, "c"), 'n');
    EQUAL(asks(&two, "o"), 'y'); /* it has it open twice */
    EQUAL(asks(&two, "o"), 'n');
    EQUAL(asks(&two, "c"), 'y');
    EXACT();
    OK(cuMemFree(block));
    EQUAL(used(), base + BLOCK * MIB); /* the second partner holds it */
    EXACT();
    EQUAL(asks(&two, "c"), 'y');
    EQUAL(used(), base);
    EXACT();
    ends(&one, SIGKILL);
    ends(&two, SIGKILL);
    EQUAL(used(), before);
    EXACT();
}

/* What is used becomes `bytes`: of a process's death one is told before a real driver has let go of all
 * that it held. */
static void comes_to(size_t bytes)
{
    for (int i = 0; i < 2000 && used() != bytes; i++)
        usleep(10 * 1000);
    EQUAL(used(), bytes);
}

/* The same where a driver may have reason to keep more: which it is after three seconds. */
static size_t comes_to_either(size_t bytes, size_t more)
{
    for (int i = 0; i < 300 && used() != bytes; i++)
        usleep(10 * 1000);
    size_t now = used();
    CHECK(now == bytes || now == more);
    return now;
}

static void opener_of_a_dead_exporters(void)
{
    /* The partner exports, opens its own and dies; this process holds the block. */
    CUipcMemHandle handle;
    CUdeviceptr block, own;
    start();
    size_t before = used();
    struct partner other = partner("exporter");
    CHECK(read(other.socket, &handle, sizeof handle) == sizeof handle);
    OK(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    ends(&other, SIGKILL);
    comes_to(before + BLOCK * MIB);
    EXACT();
    /* What is open is opened again, though its exporter is dead and the flags are odd. */
    OK(cuIpcOpenMemHandle(&own, handle, 7));
    EQUAL(used() - before, BLOCK * MIB);
    OK(cuIpcCloseMemHandle(own));
    EQUAL(used() - before, BLOCK * MIB);
    EXACT();
    OK(cuIpcCloseMemHandle(block));
    EQUAL(used(), before);
    EXACT();
}

static void exporter(void)
{
    int socket = numbered("SOCKET");
    CUipcMemHandle handle;
    CUdeviceptr block, own;
    start();
    OK(cuMemAlloc(&block, BLOCK * MIB));
    OK(cuIpcGetMemHandle(&handle, block));
    CHECK(cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
    CHECK(write(socket, &handle, sizeof handle) == sizeof handle);
    for (;;)
        pause();
}

static void handles_of_one_address(void)
{
    CUipcMemHandle handle;
    CUdeviceptr block, own;
    start();
    size_t before = used();
    for (int i = 0; i < 40; i++) {
        OK(cuMemAlloc(&block, BLOCK * MIB));
        OK(cuIpcGetMemHandle(&handle, block));
        OK(cuIpcGetMemHandle(&handle, block + MIB)); /* the same one's */
        CHECK(cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
        EQUAL(used() - before, BLOCK * MIB);
        OK(cuMemFree(block));
        EQUAL(used(), before);
    }
    EXACT();
}

static CUdeviceptr shared_block;
static pthread_barrier_t together;

static void *exports(void *context)
{
    CUipcMemHandle handle;
    OK(cuCtxSetCurrent((CUcontext)context));
    for (int i = 0; i < 300; i++) {
        pthread_barrier_wait(&together);
        cuIpcGetMemHandle(&handle, shared_block);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void exports_beside_frees(void)
{
    /* Three threads export a block while a fourth frees it: whoever is first, it is given back once. */
    pthread_t threads[3];
    CUcontext context;
    start();
    size_t before = used();
    OK(cuCtxGetCurrent(&context));
    pthread_barrier_init(&together, NULL, 4);
    OK(cuMemAlloc(&shared_block, 4 * MIB));
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, exports, context);
    for (int i = 0; i < 300; i++) {
        pthread_barrier_wait(&together);
        OK(cuMemFree(shared_block));
        pthread_barrier_wait(&together);
        EQUAL(used(), before);
        if (i < 299)
            OK(cuMemAlloc(&shared_block, 4 * MIB));
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    EXACT();
}

/* ---- descriptors of physical memory ---- */

static const CUmemAllocationProp PROP = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static int exported(CUmemGenericAllocationHandle handle)
{
    int fd = -1;
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return fd;
}

/* What keeps the memory when its handle is released and its descriptor closed. */
static int kept[4096], count;
static int (*keep)(int fd);

static CUresult take_by_descriptor(void)
{
    CUmemGenericAllocationHandle handle;
    CUresult code = cuMemCreate(&handle, BLOCK * MIB, &PROP, 0);
    if (code != CUDA_SUCCESS)
        return code;
    int fd = exported(handle);
    kept[count++] = keep(fd);
    close(fd);
    return cuMemRelease(handle);
}

/* A block that is freed at once, and kept by a buffer for other devices. */
static CUresult take_by_buffer_of(size_t bytes)
{
    CUdeviceptr block;
    CUresult code = cuMemAlloc(&block, bytes);
    if (code != CUDA_SUCCESS)
        return code;
    int fd = buffer_of(block, bytes);
    kept[count++] = keep(fd);
    close(fd);
    return cuMemFree(block);
}

static CUresult take_by_buffer(void)
{
    return take_by_buffer_of(BLOCK * MIB);
}

/* Takes what there is twice over, lets go of it, and takes it again. */
static void kept_by(int (*by)(int fd), void (*let_go)(void))
{
    keep = by;
    start();
    size_t before = used();
    EQUAL(take_all(take_by_descriptor), 7);
    COVERED();
    EQUAL(take_all(take_by_descriptor), 0);
    EQUAL(used() - before, 7 * BLOCK * MIB);
    EXACT();
    let_go();
    EQUAL(used(), before);
    EXACT();
    EQUAL(take_all(take_by_descriptor), 7);
    EXACT();
}

static void close_all(void)
{
    while (count > 0)
        close(kept[--count]);
}

static void copied_descriptors(void)
{
    kept_by(dup, close_all);
}

static void imported_and_exported_again(void)
{
    /* A second export of the same memory, by an import, would outlive what is known of the first. The
     * driver refuses it: this road is closed by another. */
    CUmemGenericAllocationHandle handle, again;
    int second = -1;
    start();
    size_t before = used();
    OK(cuMemCreate(&handle, BLOCK * MIB, &PROP, 0));
    int first = exported(handle);
    OK(cuMemImportFromShareableHandle(&again, (void *)(long)first,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemRelease(handle));
    close(first);
    IS(cuMemExportToShareableHandle(&second, again, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
       CUDA_ERROR_INVALID_VALUE);
    fprintf(stderr, "note: the driver exports nothing that was imported\n");
    EQUAL(used() - before, BLOCK * MIB);
    EXACT();
    OK(cuMemRelease(again));
    EQUAL(used(), before);
    EXACT();
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

static int in_flight(int fd)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    send_descriptor(ends[0], fd);
    close(ends[0]);
    return ends[1]; /* nobody receives it */
}

static void descriptors_in_flight(void)
{
    kept_by(in_flight, close_all);
}

static int in_a_child(int fd)
{
    (void)fd;
    return forked(0);
}

static void kill_all(void)
{
    while (count > 0) {
        kill(kept[--count], SIGKILL);
        waitpid(kept[count], NULL, 0);
    }
}

static void descriptors_of_forked_children(void)
{
    kept_by(in_a_child, kill_all);
}

static void exported_twice(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    size_t before = used();
    OK(cuMemCreate(&handle, BLOCK * MIB, &PROP, 0));
    int first = exported(handle), second = exported(handle);
    close(first);
    OK(cuMemRelease(handle));
    EQUAL(used() - before, BLOCK * MIB);
    EXACT();
    close(second);
    EQUAL(used(), before);
    EXACT();
}

static void kept_by_a_mapping(void)
{
    /* The descriptors go first, then the handle, then the mapping. */
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    start();
    size_t before = used();
    OK(cuMemCreate(&handle, BLOCK * MIB, &PROP, 0));
    close(exported(handle));
    OK(cuMemAddressReserve(&range, BLOCK * MIB, 0, 0, 0));
    OK(cuMemMap(range, BLOCK * MIB, 0, handle, 0));
    OK(cuMemRelease(handle));
    EQUAL(used() - before, BLOCK * MIB);
    EXACT();
    OK(cuMemUnmap(range, BLOCK * MIB));
    EQUAL(used(), before);
    EXACT();
}

enum { COUNT = 300 }; /* the table has 256 places */

static void more_than_the_table_holds(void)
{
    CUmemGenericAllocationHandle handle;
    start();
    size_t before = used();
    for (count = 0; count < COUNT; count++) {
        OK(cuMemCreate(&handle, 2 * MIB, &PROP, 0));
        int fd = exported(handle);
        kept[count] = dup(fd);
        close(fd);
        OK(cuMemRelease(handle));
    }
    EQUAL(used() - before, COUNT * 2 * MIB);
    EXACT();
    close_all();
    EQUAL(used(), before);
    EXACT();
}

static void more_buffers_than_the_table_holds(void)
{
    CUdeviceptr block;
    start();
    size_t before = used();
    keep = dup;
    for (int i = 0; i < COUNT; i++)
        OK(take_by_buffer_of(2 * MIB));
    EQUAL(used() - before, COUNT * 2 * MIB);
    EXACT();
    close_all();
    /* What had a place is given back; what had none ends with the process. */
    OK(cuMemAlloc(&block, wanted_limit() - before - (COUNT - 256) * 2 * MIB));
    IS(cuMemAlloc(&block, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    COVERED();
}

/* Exports, leaves the descriptors to a child that is no program of the driver's, and is killed. */
static void dying_exporter(void)
{
    int socket = numbered("SOCKET");
    start();
    keep = dup;
    for (int i = 0; i < 4; i++)
        OK(getenv("BUFFERS") != NULL ? take_by_buffer() : take_by_descriptor());
    pid_t child = forked(1);
    CHECK(write(socket, &child, sizeof child) == sizeof child);
    for (;;)
        pause();
}

static void dead_exporters_descriptors(void)
{
    pid_t heir = 0;
    CUdeviceptr block;
    start();
    size_t before = used();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the heir's end is told to this process */
    struct partner other = partner("dying_exporter");
    CHECK(read(other.socket, &heir, sizeof heir) == sizeof heir);
    EQUAL(used(), 2 * before + 4 * BLOCK * MIB);
    ends(&other, SIGKILL);
    /* A real driver keeps what a dead process had for as long as a child of its has the driver's files. */
    size_t left = comes_to_either(before + 4 * BLOCK * MIB, 2 * before + 4 * BLOCK * MIB);
    if (left > before + 4 * BLOCK * MIB)
        puts("note: the driver keeps a dead process's context while its child lives");
    EXACT();
    /* Meeting the limit reaps the dead, and must not reap what the child keeps. */
    fill_up(BLOCK * MIB);
    COVERED();
    IS(cuMemAlloc(&block, BLOCK * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    kill(heir, SIGKILL);
    CHECK(waitpid(heir, NULL, 0) == heir);
    for (int i = 0; i < 4; i++)
        OK(cuMemAlloc(&block, BLOCK * MIB));
    EXACT();
}

static void dead_exporters_buffers(void)
{
    setenv("BUFFERS", "1", 1);
    dead_exporters_descriptors();
}

static void buffers_of_forked_children(void)
{
    CUdeviceptr block;
    start();
    size_t before = used();
    keep = in_a_child;
    EQUAL(take_all(take_by_buffer), 7);
    EXACT();
    EQUAL(take_all(take_by_buffer), 0);
    EQUAL(used() - before, 7 * BLOCK * MIB);
    kill_all();
    for (int i = 0; i < 7; i++)
        OK(cuMemAlloc(&block, BLOCK * MIB));
    EXACT();
}

/* Keeps the simulated machine from ending with the program that is replaced. */
static void idler(void)
{
    int socket = numbered("SOCKET");
    start();
    CHECK(write(socket, "y", 1) == 1);
    for (;;)
        pause();
}

static void executed_with_a_descriptor(void)
{
    const char *given = getenv("GIVEN_FD");
    CUmemGenericAllocationHandle handle;
    char number[16], byte;
    start();
    if (given == NULL) {
        struct partner other = partner("idler");
        CHECK(read(other.socket, &byte, 1) == 1);
        OK(cuMemCreate(&handle, BLOCK * MIB, &PROP, 0));
        snprintf(number, sizeof number, "%d", dup(exported(handle)));
        setenv("GIVEN_FD", number, 1);
        execl("/proc/self/exe", "road", __func__, NULL);
        CHECK(0);
    }
    size_t with = used();
    EXACT();
    OK(cuMemImportFromShareableHandle(&handle, (void *)atol(given),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EQUAL(used(), with);
    OK(cuMemRelease(handle));
    EQUAL(used(), with);
    close(atoi(given));
    EQUAL(with - used(), BLOCK * MIB);
    EXACT();
}

static void importer(void)
{
    int socket = numbered("SOCKET");
    CUmemGenericAllocationHandle handle;
    start();
    CHECK(cuMemImportFromShareableHandle(&handle, (void *)(long)numbered("GIVEN_FD"),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS);
    CHECK(write(socket, "n", 1) == 1);
    for (;;)
        pause();
}

static void refused_import(void)
{
    /* A partner's import fails: it takes away nothing of the exporter's. */
    CUmemGenericAllocationHandle handle;
    char number[16], byte;
    start();
    size_t before = used();
    OK(cuMemCreate(&handle, BLOCK * MIB, &PROP, 0));
    int fd = dup(exported(handle));
    snprintf(number, sizeof number, "%d", fd);
    setenv("GIVEN_FD", number, 1);
    setenv("SIMGPU_FAULTS", "cuMemImportFromShareableHandle@1=fail:1", 1);
    struct partner other = partner("importer");
    unsetenv("SIMGPU_FAULTS");
    CHECK(read(other.socket, &byte, 1) == 1);
    EQUAL(used(), 2 * before + BLOCK * MIB);
    EXACT();
    ends(&other, SIGKILL);
    EQUAL(used(), before + BLOCK * MIB);
    OK(cuMemRelease(handle));
    EQUAL(used(), before + BLOCK * MIB);
    EXACT();
}

/* ---- the ends of contexts ---- */

static CUresult take_block(void)
{
    CUdeviceptr block;
    return cuMemAlloc(&block, BLOCK * MIB);
}

static void detached_primary(void)
{
    CUcontext primary;
    start();
    size_t before = used();
    OK(cuCtxGetCurrent(&primary));
    EQUAL(take_all(take_block), 7);
    for (int i = 0; i < 3; i++) {
        /* The driver takes it; whether anything has ended shows on the card. */
        CUresult code = cuCtxDetach(primary);
        CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_INVALID_CONTEXT);
        if (cuCtxSetCurrent(primary) != CUDA_SUCCESS) {
            start();
            EQUAL(used(), before);
            EXACT();
            return;
        }
        EQUAL(used() - before, 7 * BLOCK * MIB);
        EXACT();
        EQUAL(take_all(take_block), 0);
    }
    COVERED();
}

static void detached_primary_that_was_retained_twice(void)
{
    CUcontext primary, again, keeper;
    CUdevice device = start();
    size_t before = used();
    OK(cuCtxGetCurrent(&primary));
    OK(cuCtxCreate(&keeper, 0, device));
    OK(cuDevicePrimaryCtxRetain(&again, device));
    OK(cuCtxSetCurrent(primary));
    OK(take_block());
    (void)cuCtxDetach(primary);
    OK(cuCtxSetCurrent(keeper));
    EXACT();
    (void)cuDevicePrimaryCtxRelease(device);
    EXACT();
    (void)cuDevicePrimaryCtxRelease(device);
    EXACT();
    EQUAL(used(), before);
}

static void destroyed_primary(void)
{
    CUcontext primary;
    start();
    OK(cuCtxGetCurrent(&primary));
    EQUAL(take_all(take_block), 7);
    for (int i = 0; i < 3; i++) {
        CHECK(cuCtxDestroy(primary) != CUDA_SUCCESS);
        EXACT();
        EQUAL(take_all(take_block), 0);
    }
}

static void detached_and_attached(void)
{
    CUcontext made, again, primary;
    CUdevice device = start();
    size_t before = used();
    OK(cuCtxGetCurrent(&primary));
    for (int i = 0; i < 3; i++) {
        OK(cuCtxCreate(&made, 0, device));
        OK(take_block());
        OK(cuCtxAttach(&again, 0));
        OK(cuCtxAttach(&again, 0));
        OK(cuCtxDetach(made));
        EXACT();
        OK(cuCtxDetach(made));
        EQUAL(used() - before, before + BLOCK * MIB);
        EXACT();
        OK(cuCtxDetach(made));
        OK(cuCtxSetCurrent(primary));
        EQUAL(used(), before);
        EXACT();
    }
}

static void *detaches(void *context)
{
    OK(cuCtxSetCurrent((CUcontext)context));
    pthread_barrier_wait(&together);
    CUresult code = cuCtxDetach((CUcontext)context);
    return (void *)(long)code;
}

static void detached_by_two_threads(void)
{
    CUcontext made, again, primary;
    CUdevice device = start();
    size_t before = used();
    OK(cuCtxGetCurrent(&primary));
    pthread_barrier_init(&together, NULL, 2);
    for (int i = 0; i < 40; i++) {
        /* With two references both end one; with one the second is refused. */
        pthread_t threads[2];
        void *codes[2];
        OK(cuCtxCreate(&made, 0, device));
        OK(take_block());
        if (i % 2)
            OK(cuCtxAttach(&again, 0));
        OK(cuCtxSetCurrent(primary));
        for (int t = 0; t < 2; t++)
            pthread_create(&threads[t], NULL, detaches, made);
        for (int t = 0; t < 2; t++)
            pthread_join(threads[t], &codes[t]);
        CHECK(codes[0] == CUDA_SUCCESS || codes[1] == CUDA_SUCCESS);
        if (i % 2)
            CHECK(codes[0] == codes[1]);
        EQUAL(used(), before);
    }
    EXACT();
}

static void reset_beside_green_contexts(void)
{
    CUdevResource all, part;
    CUdevResourceDesc description;
    CUgreenCtx green[2];
    CUcontext view, keeper, primary;
    unsigned groups = 1;
    CUdevice device = start();
    size_t cost = used();
    OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
    OK(cuDevResourceGenerateDesc(&description, &part, 1));
    OK(cuCtxCreate(&keeper, 0, device));
    for (int i = 0; i < 2; i++) {
        OK(cuDevicePrimaryCtxRetain(&primary, device));
        OK(cuCtxSetCurrent(primary));
        for (int g = 0; g < 2; g++)
            OK(cuGreenCtxCreate(&green[g], description, device, CU_GREEN_CTX_DEFAULT_STREAM));
        OK(cuCtxFromGreenCtx(&view, green[0]));
        OK(cuCtxSetCurrent(view));
        OK(take_block());
        OK(cuCtxSetCurrent(keeper));
        EXACT();
        size_t with = used();
        CHECK(with > 2 * cost + BLOCK * MIB);
        /* While a green context lives the primary one is not reset, and what was allocated in a green
         * one's view stays until the primary one ends. */
        IS(cuDevicePrimaryCtxReset(device), CUDA_ERROR_NOT_PERMITTED);
        EQUAL(used(), with);
        EXACT();
        for (int g = 0; g < 2; g++) {
            OK(cuGreenCtxDestroy(green[g]));
            EQUAL(used(), with);
            EXACT();
        }
        OK(cuDevicePrimaryCtxReset(device));
        EQUAL(used(), cost);
        EXACT();
    }
    OK(cuDevicePrimaryCtxRetain(&primary, device));
    OK(cuCtxSetCurrent(primary));
    EQUAL(used(), 2 * cost);
    EXACT();
}

int main(int words, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"own_handles", own_handles},
        {"opener", opener},
        {"two_openers", two_openers},
        {"exporter", exporter},
        {"opener_of_a_dead_exporters", opener_of_a_dead_exporters},
        {"handles_of_one_address", handles_of_one_address},
        {"exports_beside_frees", exports_beside_frees},
        {"copied_descriptors", copied_descriptors},
        {"imported_and_exported_again", imported_and_exported_again},
        {"descriptors_in_flight", descriptors_in_flight},
        {"descriptors_of_forked_children", descriptors_of_forked_children},
        {"exported_twice", exported_twice},
        {"kept_by_a_mapping", kept_by_a_mapping},
        {"more_than_the_table_holds", more_than_the_table_holds},
        {"dying_exporter", dying_exporter},
        {"dead_exporters_descriptors", dead_exporters_descriptors},
        {"dead_exporters_buffers", dead_exporters_buffers},
        {"buffers_of_forked_children", buffers_of_forked_children},
        {"more_buffers_than_the_table_holds", more_buffers_than_the_table_holds},
        {"idler", idler},
        {"executed_with_a_descriptor", executed_with_a_descriptor},
        {"importer", importer},
        {"refused_import", refused_import},
        {"detached_primary", detached_primary},
        {"detached_primary_that_was_retained_twice", detached_primary_that_was_retained_twice},
        {"destroyed_primary", destroyed_primary},
        {"detached_and_attached", detached_and_attached},
        {"detached_by_two_threads", detached_by_two_threads},
        {"reset_beside_green_contexts", reset_beside_green_contexts},
        {NULL, NULL},
    };
    return play(scenarios, words, arguments);
}
