/* link: cuda dl */
/* Contexts under a limit: each costs what the card says, and comes and goes with its own. */
#include "scenario.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* old calls are hooked too */

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static size_t context_bytes(void)
{
    /* What one more context costs by the driver's own figure. */
    CUdevice device;
    CUcontext context;
    OK(cuDeviceGet(&device, 0));
    size_t before = used();
    OK(cuCtxCreate(&context, 0, device));
    size_t cost = used() - before;
    OK(cuCtxDestroy(context));
    EQUAL(used(), before);
    CHECK(cost >= 512 * MIB && cost <= 560 * MIB);
    return cost;
}

static void primary_is_charged_once(void)
{
    CUdevice device = start();
    CUcontext again;
    size_t one = used();
    CHECK(one >= 512 * MIB && one <= 560 * MIB);
    TAKES(0, cuDevicePrimaryCtxRetain(&again, device));
    TAKES(0, cuDevicePrimaryCtxRelease(device));
    EQUAL(context_bytes(), one);
}

static void primary_release_gives_back(void)
{
    CUdevice device = start();
    CUcontext keeper, again;
    OK(cuDevicePrimaryCtxRetain(&again, device));
    OK(cuCtxCreate(&keeper, 0, device));
    size_t both = used();
    TAKES(0, cuDevicePrimaryCtxRelease(device));
    OK(cuDevicePrimaryCtxRelease(device));
    EQUAL(used(), both / 2);
    OK(cuDevicePrimaryCtxRetain(&again, device));
    EQUAL(used(), both);
    /* The older name of the call. */
    CUresult (*release)(CUdevice) = dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxRelease");
    OK(release(device));
    EQUAL(used(), both / 2);
}

static void primary_reset_gives_back(void)
{
    CUdevice device = start();
    CUcontext keeper;
    CUdeviceptr block;
    OK(cuMemAlloc(&block, 64 * MIB));
    OK(cuCtxCreate(&keeper, 0, device));
    size_t both = used();
    OK(cuDevicePrimaryCtxReset(device));
    EQUAL(used(), (both - 64 * MIB) / 2);
    CUresult (*reset)(CUdevice) = dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxReset");
    CUcontext again;
    OK(cuDevicePrimaryCtxRetain(&again, device));
    OK(cuCtxSetCurrent(again));
    OK(cuMemAlloc(&block, 64 * MIB));
    EQUAL(used(), both);
    OK(reset(device));
    OK(cuCtxSetCurrent(keeper));
    EQUAL(used(), (both - 64 * MIB) / 2);
}

static void created_is_charged(void)
{
    CUcontext context;
    CUdevice device = start();
    size_t cost = context_bytes(), before = used();
    OK(cuCtxCreate(&context, 0, device));
    EQUAL(used() - before, cost);
    OK(cuCtxDestroy(context));
    EQUAL(used(), before);
}

/* Every other way to create a context: older and newer versions of the call. */
static void every_version_is_charged(void)
{
    typedef CUresult (*destroy_fn)(CUcontext);
    CUdevice device = start();
    size_t cost = context_bytes(), before = used();
    CUcontext context;
    void *v1 = dlsym(RTLD_DEFAULT, "cuCtxCreate"), *v3 = dlsym(RTLD_DEFAULT, "cuCtxCreate_v3");
    void *v4 = dlsym(RTLD_DEFAULT, "cuCtxCreate_v4");
    destroy_fn destroy = (destroy_fn)dlsym(RTLD_DEFAULT, "cuCtxDestroy");
    CHECK(v1 && v3 && v4 && destroy);
    CUresult code = ((CUresult(*)(CUcontext *, unsigned, CUdevice))v1)(&context, 0, device);
    if (code != CUDA_SUCCESS) { /* a real driver has no room for it any more, and nor have we */
        EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
        EQUAL(used(), before);
        OK(cuCtxCreate(&context, 0, device));
    }
    EQUAL(used() - before, cost);
    OK(destroy(context));
    EQUAL(used(), before);
    OK(((CUresult(*)(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice))v3)(
        &context, NULL, 0, 0, device));
    EQUAL(used() - before, cost);
    OK(cuCtxDestroy(context));
    OK(((CUresult(*)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice))v4)(&context, NULL, 0,
                                                                                device));
    EQUAL(used() - before, cost);
    OK(cuCtxAttach(&context, 0));
    OK(cuCtxDetach(context));
    EQUAL(used() - before, cost);
    OK(cuCtxDetach(context));
    CUcontext primary;
    OK(cuDevicePrimaryCtxRetain(&primary, device));
    OK(cuCtxSetCurrent(primary));
    EQUAL(used(), before);
}

static void destroy_frees_its_blocks(void)
{
    CUcontext first, second;
    CUdeviceptr block;
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 4};
    CUdevice device = start();
    OK(cuCtxGetCurrent(&first));
    size_t before = used();
    OK(cuCtxCreate(&second, 0, device));
    OK(cuMemAlloc(&block, 64 * MIB));
    OK(cuMemAlloc(&block, 64));
    OK(cuArray3DCreate(&array, &shape));
    OK(cuCtxDestroy(second));
    OK(cuCtxSetCurrent(first));
    EQUAL(used(), before);
    OK(cuMemAlloc(&block, 64 * MIB));
    EQUAL(used() - before, 64 * MIB);
}

static void a_context_that_does_not_fit(void)
{
    CUcontext context = (CUcontext)0x5;
    CUdevice device = start();
    fill_up(64 * MIB);
    for (int i = 0; i < 20; i++)
        IS(cuCtxCreate(&context, 0, device), CUDA_ERROR_OUT_OF_MEMORY);
    CUcontext current;
    OK(cuCtxGetCurrent(&current));
    CHECK(current != context);
    CHECK(used() <= wanted_limit());
}

static void no_version_fits_when_full(void)
{
    CUcontext context;
    CUdevice device = start();
    void *v1 = dlsym(RTLD_DEFAULT, "cuCtxCreate"), *v3 = dlsym(RTLD_DEFAULT, "cuCtxCreate_v3");
    void *v4 = dlsym(RTLD_DEFAULT, "cuCtxCreate_v4");
    fill_up(64 * MIB);
    IS(((CUresult(*)(CUcontext *, unsigned, CUdevice))v1)(&context, 0, device),
       CUDA_ERROR_OUT_OF_MEMORY);
    IS(((CUresult(*)(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice))v3)(
           &context, NULL, 0, 0, device),
       CUDA_ERROR_OUT_OF_MEMORY);
    IS(((CUresult(*)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice))v4)(&context, NULL, 0,
                                                                                device),
       CUDA_ERROR_OUT_OF_MEMORY);
}

static void first_context_that_does_not_fit(void)
{
    /* The limit is smaller than a context: one out-of-memory, no half-made context. */
    CUcontext context = NULL;
    CUdevice device;
    unsigned flags;
    int active = 7;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    for (int i = 0; i < 5; i++)
        IS(cuDevicePrimaryCtxRetain(&context, device), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    EQUAL(active, 0);
    IS(cuCtxCreate(&context, 0, device), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuCtxGetCurrent(&context));
    CHECK(context == NULL);
}

/* Prints what came of its one attempt at a context, and stays until its input ends. */
static void one_attempt(void)
{
    CUcontext context;
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    printf("%d\n", cuDevicePrimaryCtxRetain(&context, device));
    sleep(2);
}

static void *make_one(void *argument)
{
    CUcontext context;
    CUresult code = cuCtxCreate(&context, 0, 0);
    (void)argument;
    return (void *)(long)code;
}

static void two_threads_at_a_full_limit(void)
{
    /* Room for the primary and one more. */
    CUdevice device = start();
    pthread_t threads[2];
    void *codes[2];
    (void)device;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, make_one, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &codes[i]);
    long sum = (long)codes[0] + (long)codes[1];
    EQUAL(sum, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(used() <= wanted_limit());
}

static void green_contexts_are_charged(void)
{
    CUdevResource all, part;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext context;
    unsigned groups = 1;
    CUdevice device = start();
    size_t before = used();
    OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
    OK(cuDevResourceGenerateDesc(&description, &part, 1));
    OK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(used() > before);
    CHECK(used() - before <= 64 * MIB);
    OK(cuCtxFromGreenCtx(&context, green));
    OK(cuGreenCtxDestroy(green));
    CHECK(used() - before <= 64 * MIB);
    /* What an own green context holds may stay until the primary ends, but no longer. */
    OK(cuDevicePrimaryCtxReset(device));
    OK(cuCtxCreate(&context, 0, device));
    EQUAL(used(), before);
}

static void two_green_contexts_add_up(void)
{
    CUdevResource all, part;
    CUdevResourceDesc description;
    CUgreenCtx green[2];
    unsigned groups = 1;
    CUdevice device = start();
    size_t before = used();
    OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
    OK(cuDevResourceGenerateDesc(&description, &part, 1));
    for (int i = 0; i < 2; i++)
        OK(cuGreenCtxCreate(&green[i], description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    EQUAL(used() - before, 12 * MIB);
    OK(cuGreenCtxDestroy(green[0]));
    OK(cuGreenCtxDestroy(green[1]));
    EQUAL(used() - before, 12 * MIB); /* the card keeps it as long as the primary lives */
}

static CUcontext ending;
static pthread_barrier_t ended;

static void *asks_of_the_ended(void *unused)
{
    CUcontext current = NULL;
    unsigned long long id = 0;
    OK(cuCtxSetCurrent(ending));
    OK(cuCtxGetId(NULL, &id));
    pthread_barrier_wait(&ended);
    pthread_barrier_wait(&ended);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == ending);
    IS(cuCtxGetId(NULL, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return unused;
}

static void context_ends_while_it_is_anothers(void)
{
    pthread_t thread;
    CUcontext primary;
    CUdevice device = start();
    size_t before = used();
    OK(cuCtxGetCurrent(&primary));
    pthread_barrier_init(&ended, NULL, 2);
    OK(cuCtxCreate(&ending, 0, device));
    OK(cuCtxSetCurrent(primary));
    pthread_create(&thread, NULL, asks_of_the_ended, NULL);
    pthread_barrier_wait(&ended);
    OK(cuCtxDestroy(ending));
    pthread_barrier_wait(&ended);
    pthread_join(thread, NULL);
    EQUAL(used(), before);
}

/* A context keeps 70 MiB for 128 streams, which later streams use again. */
enum { STREAMS = 128 };
static CUstream streams[STREAMS];

static void make_streams(int with_priority)
{
    for (int i = 0; i < STREAMS; i++)
        OK(with_priority ? cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, 0)
                         : cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static void end_streams(CUresult (*destroy)(CUstream))
{
    for (int i = 0; i < STREAMS; i++)
        OK(destroy(streams[i]));
}

static void streams_are_charged(void)
{
    start();
    size_t before = used();
    make_streams(0);
    EQUAL(used() - before, 70 * MIB);
    end_streams(cuStreamDestroy);
    make_streams(0);
    EQUAL(used() - before, 70 * MIB);
}

static void urgent_streams_are_charged(void)
{
    CUresult (*destroy)(CUstream) = dlsym(RTLD_DEFAULT, "cuStreamDestroy");
    start();
    size_t before = used();
    make_streams(1);
    EQUAL(used() - before, 70 * MIB);
    end_streams(destroy);
    make_streams(1);
    EQUAL(used() - before, 70 * MIB);
}

/* A green context of eight multiprocessors; the first of a device makes its primary context. */
static CUgreenCtx green_context(CUdevice device)
{
    CUdevResource all, part;
    CUdevResourceDesc description;
    CUgreenCtx green;
    unsigned groups = 1;
    OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
    OK(cuDevResourceGenerateDesc(&description, &part, 1));
    OK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static void green_view_takes_nothing(void)
{
    CUcontext view;
    CUdeviceptr block;
    CUgreenCtx green = green_context(start());
    size_t before = used();
    OK(cuCtxFromGreenCtx(&view, green));
    OK(cuCtxSetCurrent(view));
    OK(cuMemAlloc(&block, 64 * MIB));
    EQUAL(used() - before, 64 * MIB);
}

static void last_green_context_ends_the_primary(void)
{
    CUdevice device;
    CUcontext own;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&own, 0, device));
    size_t before = used();
    CUgreenCtx green = green_context(device);
    EQUAL(used() - before, before + 6 * MIB);
    OK(cuGreenCtxDestroy(green));
    EQUAL(used(), before);
}

static void green_streams_are_charged(void)
{
    CUcontext primary;
    CUgreenCtx green = green_context(start());
    size_t before = used();
    OK(cuCtxGetCurrent(&primary));
    OK(cuCtxSetCurrent(NULL)); /* the green context says where its streams are */
    for (int i = 0; i < STREAMS; i++)
        OK(cuGreenCtxStreamCreate(&streams[i], green, CU_STREAM_NON_BLOCKING, 0));
    OK(cuCtxSetCurrent(primary));
    EQUAL(used() - before, 70 * MIB);
}

static void attached_context_keeps_its_blocks(void)
{
    CUcontext context;
    CUdeviceptr block;
    CUdevice device = start();
    OK(cuCtxCreate(&context, 0, device));
    OK(cuMemAlloc(&block, 64 * MIB));
    size_t before = used();
    OK(cuCtxAttach(&context, 0));
    OK(cuCtxDetach(context)); /* one reference is left */
    EQUAL(used(), before);
}

typedef CUresult (*create_fn)(CUcontext *, unsigned, CUdevice);
typedef CUresult (*create_vdpau_fn)(CUcontext *, unsigned, CUdevice, unsigned, void *);

static void no_graphics_context_fits_when_full(void)
{
    CUcontext context;
    CUdevice device = start();
    create_fn gl[] = {dlsym(RTLD_DEFAULT, "cuGLCtxCreate"), dlsym(RTLD_DEFAULT, "cuGLCtxCreate_v2")};
    create_vdpau_fn vdpau[] = {dlsym(RTLD_DEFAULT, "cuVDPAUCtxCreate"),
                               dlsym(RTLD_DEFAULT, "cuVDPAUCtxCreate_v2")};
    fill_up(64 * MIB);
    for (int i = 0; i < 2; i++) {
        CHECK(gl[i] != NULL && vdpau[i] != NULL);
        IS(gl[i](&context, 0, device), CUDA_ERROR_OUT_OF_MEMORY);
        IS(vdpau[i](&context, 0, device, 1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    }
}

static void heap_limit_is_charged(void)
{
    start();
    size_t before = used();
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 264 * MIB));
    EQUAL(used() - before, 256 * MIB);
    IS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, wanted_limit()), CUDA_ERROR_OUT_OF_MEMORY);
    size_t value = 0;
    OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    EQUAL(value, 264 * MIB);
    EQUAL(used() - before, 256 * MIB);
}

static void stack_limit_is_charged(void)
{
    CUdevice device = start();
    int processors = 0, threads = 0;
    OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    OK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
    size_t before = used();
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    CHECK(used() - before >= (size_t)3072 * processors * threads);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    EQUAL(used(), before);
    IS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(used(), before);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"primary_is_charged_once", primary_is_charged_once},
        {"primary_release_gives_back", primary_release_gives_back},
        {"primary_reset_gives_back", primary_reset_gives_back},
        {"created_is_charged", created_is_charged},
        {"every_version_is_charged", every_version_is_charged},
        {"destroy_frees_its_blocks", destroy_frees_its_blocks},
        {"a_context_that_does_not_fit", a_context_that_does_not_fit},
        {"no_version_fits_when_full", no_version_fits_when_full},
        {"first_context_that_does_not_fit", first_context_that_does_not_fit},
        {"one_attempt", one_attempt},
        {"two_threads_at_a_full_limit", two_threads_at_a_full_limit},
        {"green_contexts_are_charged", green_contexts_are_charged},
        {"two_green_contexts_add_up", two_green_contexts_add_up},
        {"context_ends_while_it_is_anothers", context_ends_while_it_is_anothers},
        {"streams_are_charged", streams_are_charged},
        {"urgent_streams_are_charged", urgent_streams_are_charged},
        {"green_view_takes_nothing", green_view_takes_nothing},
        {"last_green_context_ends_the_primary", last_green_context_ends_the_primary},
        {"green_streams_are_charged", green_streams_are_charged},
        {"attached_context_keeps_its_blocks", attached_context_keeps_its_blocks},
        {"no_graphics_context_fits_when_full", no_graphics_context_fits_when_full},
        {"heap_limit_is_charged", heap_limit_is_charged},
        {"stack_limit_is_charged", stack_limit_is_charged},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
