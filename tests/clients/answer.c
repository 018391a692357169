/* link: cuda nvidia-ml dl */
/* One story from every side: driver, NVML, old and new versions of the questions. */
#include "scenario.h"

#include <dlfcn.h>
#include <nvml.h>
#include <sys/wait.h>

static nvmlDevice_t management(void)
{
    nvmlDevice_t device;
    EQUAL(nvmlInit_v2(), NVML_SUCCESS);
    EQUAL(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    return device;
}

static void total_is_the_limit(void)
{
    size_t bytes = 0;
    CUdevice device = start();
    OK(cuDeviceTotalMem(&bytes, device));
    EQUAL(bytes, wanted_limit());
    EQUAL(total(), wanted_limit());
    IS(cuDeviceTotalMem(&bytes, 99), CUDA_ERROR_INVALID_DEVICE);
    IS(cuDeviceTotalMem(NULL, device), CUDA_ERROR_INVALID_VALUE);
}

static void total_before_any_context(void)
{
    size_t bytes = 0;
    OK(cuInit(0));
    OK(cuDeviceTotalMem(&bytes, 0));
    EQUAL(bytes, wanted_limit());
    IS(cuMemGetInfo(&bytes, &bytes), CUDA_ERROR_INVALID_CONTEXT);
}

static void oldest_questions_are_answered(void)
{
    /* The first versions speak 32 bits; what does not fit is cut, never the whole card's. */
    typedef CUresult (*total_fn)(unsigned *, CUdevice);
    typedef CUresult (*info_fn)(unsigned *, unsigned *);
    unsigned bytes = 1, free_now = 1;
    CUdevice device = start();
    total_fn ask_total = (total_fn)dlsym(RTLD_DEFAULT, "cuDeviceTotalMem");
    info_fn ask_info = (info_fn)dlsym(RTLD_DEFAULT, "cuMemGetInfo");
    CHECK(ask_total != NULL && ask_info != NULL);
    OK(ask_total(&bytes, device));
    EQUAL(bytes, wanted_limit());
    /* In a context of today the driver refuses the other one. */
    IS(ask_info(&free_now, &bytes), CUDA_ERROR_INVALID_CONTEXT);
    if (first_context() == CUDA_SUCCESS) {
        OK(ask_info(&free_now, &bytes));
        EQUAL(bytes, wanted_limit());
        CHECK(free_now < bytes);
    }
}

static void no_limit_is_the_cards_own(void)
{
    /* Played under "0": no limit at all. */
    size_t bytes = 0;
    CUdevice device = start();
    OK(cuDeviceTotalMem(&bytes, device));
    CHECK(bytes > 15 * GIB);
    EQUAL(total(), bytes);
}

static void limit_above_the_card(void)
{
    size_t bytes = 0;
    CUdevice device = start();
    OK(cuDeviceTotalMem(&bytes, device));
    CHECK(bytes < wanted_limit());
    EQUAL(total(), bytes);
}

static void null_places_are_harmless(void)
{
    size_t bytes = 0;
    start();
    OK(cuMemGetInfo(NULL, NULL));
    OK(cuMemGetInfo(&bytes, NULL));
    CHECK(bytes < wanted_limit());
    OK(cuMemGetInfo(NULL, &bytes));
    EQUAL(bytes, wanted_limit());
}

static void free_never_exceeds_the_card(void)
{
    /* The test fills the card from outside the tenant: less is free than the limit leaves. */
    size_t free_now = 0, all = 0;
    start();
    OK(cuMemGetInfo(&free_now, &all));
    EQUAL(all, wanted_limit());
    CHECK(free_now < 3 * GIB);
}

static void nvml_tells_the_same(void)
{
    CUdeviceptr block;
    nvmlMemory_t one;
    nvmlMemory_v2_t two = {.version = nvmlMemory_v2};
    nvmlDevice_t device = management();
    start();
    OK(cuMemAlloc(&block, 256 * MIB));
    EQUAL(nvmlDeviceGetMemoryInfo(device, &one), NVML_SUCCESS);
    EQUAL(one.total, wanted_limit());
    EQUAL(one.used, used());
    EQUAL(one.free, wanted_limit() - used());
    EQUAL(nvmlDeviceGetMemoryInfo_v2(device, &two), NVML_SUCCESS);
    EQUAL(two.total, wanted_limit());
    EQUAL(two.used + two.reserved, used());
    EQUAL(two.free, wanted_limit() - used());
    CHECK(nvmlDeviceGetMemoryInfo(device, NULL) != NVML_SUCCESS);
    CHECK(nvmlDeviceGetMemoryInfo_v2(device, NULL) != NVML_SUCCESS);
}

static void nvml_before_any_driver_call(void)
{
    nvmlMemory_t one;
    nvmlDevice_t device = management();
    EQUAL(nvmlDeviceGetMemoryInfo(device, &one), NVML_SUCCESS);
    EQUAL(one.total, wanted_limit());
    EQUAL(one.used, 0);
}

static void nvml_total_is_the_limit(void)
{
    nvmlMemory_t one;
    EQUAL(nvmlDeviceGetMemoryInfo(management(), &one), NVML_SUCCESS);
    EQUAL(one.total, wanted_limit());
}

typedef nvmlReturn_t (*list_fn)(nvmlDevice_t, unsigned *, void *);

/* Sizes of an entry in the first version of the lists, and in the second and third. */
struct first_entry {
    unsigned pid;
    unsigned long long bytes;
};
struct second_entry {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu, compute;
};

static void lists_show_only_the_tenants_own(void)
{
    static const struct {
        const char *name;
        size_t entry;
        int compute;
    } lists[] = {
        {"nvmlDeviceGetComputeRunningProcesses", sizeof(struct first_entry), 1},
        {"nvmlDeviceGetComputeRunningProcesses_v2", sizeof(struct second_entry), 1},
        {"nvmlDeviceGetComputeRunningProcesses_v3", sizeof(struct second_entry), 1},
        {"nvmlDeviceGetGraphicsRunningProcesses", sizeof(struct first_entry), 0},
        {"nvmlDeviceGetGraphicsRunningProcesses_v2", sizeof(struct second_entry), 0},
        {"nvmlDeviceGetGraphicsRunningProcesses_v3", sizeof(struct second_entry), 0},
        {"nvmlDeviceGetMPSComputeRunningProcesses", sizeof(struct first_entry), 0},
        {"nvmlDeviceGetMPSComputeRunningProcesses_v2", sizeof(struct second_entry), 0},
        {"nvmlDeviceGetMPSComputeRunningProcesses_v3", sizeof(struct second_entry), 0},
    };
    const char *only = getenv("ONE_LIST");
    CUdeviceptr block;
    nvmlDevice_t device = management();
    start();
    OK(cuMemAlloc(&block, 256 * MIB));
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
        char room[64 * sizeof(struct second_entry)];
        unsigned count = 64;
        list_fn list = (list_fn)dlsym(RTLD_DEFAULT, lists[i].name);
        CHECK(list != NULL);
        if (only != NULL && strcmp(only, lists[i].name) != 0)
            continue;
        EQUAL(list(device, &count, room), NVML_SUCCESS);
        EQUAL(count, lists[i].compute);
        if (count == 1) {
            /* pid and bytes lie alike in both forms. */
            EQUAL(((struct first_entry *)room)->pid, getpid());
            EQUAL(((struct first_entry *)room)->bytes, used());
        }
        count = 0;
        EQUAL(list(device, &count, NULL),
              lists[i].compute ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
        CHECK(!lists[i].compute || count >= 1);
        CHECK(list(device, NULL, NULL) != NVML_SUCCESS);
    }
}

static void detail_list_shows_only_the_tenants_own(void)
{
    nvmlProcessDetail_v1_t room[64];
    nvmlProcessDetailList_v1_t list = {.version = nvmlProcessDetailList_v1, .mode = 0,
                                       .numProcArrayEntries = 64, .procArray = room};
    CUdeviceptr block;
    nvmlDevice_t device = management();
    start();
    OK(cuMemAlloc(&block, 256 * MIB));
    nvmlReturn_t code = nvmlDeviceGetRunningProcessDetailList(device, &list);
    if (code == NVML_ERROR_NOT_SUPPORTED) {
        printf("this NVML has no detail list\n");
        exit(77);
    }
    EQUAL(code, NVML_SUCCESS);
    EQUAL(list.numProcArrayEntries, 1);
    EQUAL(room[0].pid, getpid());
    EQUAL(room[0].usedGpuMemory, used());
}

static void utilisation_shows_only_the_tenants_own(void)
{
    nvmlProcessUtilizationSample_t samples[128];
    unsigned count = 128;
    nvmlDevice_t device = management();
    start();
    nvmlReturn_t code = nvmlDeviceGetProcessUtilization(device, samples, &count, 0);
    CHECK(code == NVML_SUCCESS || code == NVML_ERROR_NOT_FOUND);
    for (unsigned i = 0; code == NVML_SUCCESS && i < count; i++)
        EQUAL(samples[i].pid, getpid());
    nvmlProcessesUtilizationInfo_t info = {.version = nvmlProcessesUtilizationInfo_v1};
    nvmlProcessUtilizationInfo_v1_t rows[128];
    info.processSamplesCount = 128;
    info.procUtilArray = rows;
    code = nvmlDeviceGetProcessesUtilizationInfo(device, &info);
    for (unsigned i = 0; code == NVML_SUCCESS && i < info.processSamplesCount; i++)
        EQUAL(rows[i].pid, getpid());
}

static void stay(void)
{
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, strtoull(getenv("STAY_BYTES"), NULL, 10)));
    puts("there");
    sleep(600);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"total_is_the_limit", total_is_the_limit},
        {"total_before_any_context", total_before_any_context},
        {"oldest_questions_are_answered", oldest_questions_are_answered},
        {"no_limit_is_the_cards_own", no_limit_is_the_cards_own},
        {"limit_above_the_card", limit_above_the_card},
        {"null_places_are_harmless", null_places_are_harmless},
        {"free_never_exceeds_the_card", free_never_exceeds_the_card},
        {"nvml_tells_the_same", nvml_tells_the_same},
        {"nvml_total_is_the_limit", nvml_total_is_the_limit},
        {"nvml_before_any_driver_call", nvml_before_any_driver_call},
        {"lists_show_only_the_tenants_own", lists_show_only_the_tenants_own},
        {"detail_list_shows_only_the_tenants_own", detail_list_shows_only_the_tenants_own},
        {"utilisation_shows_only_the_tenants_own", utilisation_shows_only_the_tenants_own},
        {"stay", stay},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
