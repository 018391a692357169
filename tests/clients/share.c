/* link: cuda dl */
/* Memory shared between processes: what legacy IPC opened is charged once, while anybody holds it;
 * what came from another process's pool is charged to whoever holds it.
 *
 * A forked child has no driver, so partners are started by exec; they talk through pipes whose
 * numbers stand in the environment. */
#include "scenario.h"

#include <dlfcn.h>
#include <signal.h>
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
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
