/* link: cuda dl */
/* What is no work of the device's, one call at a time, between kernels that are measured. */
#include "calls.h"

/* ---- what is no work: copies from and to the host, waits, host functions ---- */

static void CUDA_CB nothing(void *data) { (void)data; }

static CUresult in_first(void *entry)
{
    return TO(unsigned, const void *, unsigned)(low, host, BYTES);
}
static CUresult in(void *entry) { return LIKE(cuMemcpyHtoD)(to, host, BYTES); }
static CUresult in_queued_first(void *entry)
{
    return TO(unsigned, const void *, unsigned, CUstream)(low, host, BYTES, other);
}
static CUresult in_queued(void *entry) { return LIKE(cuMemcpyHtoDAsync)(to, host, BYTES, other); }
static CUresult out_first(void *entry)
{
    return TO(void *, unsigned, unsigned)(host, low, BYTES);
}
static CUresult out(void *entry) { return LIKE(cuMemcpyDtoH)(host, to, BYTES); }
static CUresult out_queued_first(void *entry)
{
    return TO(void *, unsigned, unsigned, CUstream)(host, low, BYTES, other);
}
static CUresult out_queued(void *entry) { return LIKE(cuMemcpyDtoHAsync)(host, to, BYTES, other); }
static CUresult array_in_first(void *entry)
{
    return TO(CUarray, unsigned, const void *, unsigned)(array, 0, host, 64);
}
static CUresult array_in(void *entry) { return LIKE(cuMemcpyHtoA)(array, 0, host, 64); }
static CUresult array_in_queued_first(void *entry)
{
    return TO(CUarray, unsigned, const void *, unsigned, CUstream)(array, 0, host, 64, other);
}
static CUresult array_in_queued(void *entry)
{
    return LIKE(cuMemcpyHtoAAsync)(array, 0, host, 64, other);
}
static CUresult array_out_first(void *entry)
{
    return TO(void *, CUarray, unsigned, unsigned)(host, array, 0, 64);
}
static CUresult array_out(void *entry) { return LIKE(cuMemcpyAtoH)(host, array, 0, 64); }
static CUresult array_out_queued_first(void *entry)
{
    return TO(void *, CUarray, unsigned, unsigned, CUstream)(host, array, 0, 64, other);
}
static CUresult array_out_queued(void *entry)
{
    return LIKE(cuMemcpyAtoHAsync)(host, array, 0, 64, other);
}

/* Shapes of no bytes: what they end does not depend on what they move. */
static unsigned char no_shape[1024];

static CUresult shape(void *entry) { return TO(const void *)(no_shape); }
static CUresult shape_queued(void *entry) { return TO(const void *, CUstream)(no_shape, other); }
static CUresult host_function(void *entry) { return LIKE(cuLaunchHostFunc)(other, nothing, NULL); }
static void CUDA_CB called(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    (void)data;
}
static CUresult callback(void *entry)
{
    return LIKE(cuStreamAddCallback)(other, called, NULL, 0);
}
static CUresult await_event(void *entry) { return LIKE(cuStreamWaitEvent)(other, event, 0); }

/* Of no bytes: within one device it would wait for the kernel. */
static CUresult peer(void *entry)
{
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    return LIKE(cuMemcpyPeer)(to, context, from, context, 0);
}
static CUresult peer_queued(void *entry)
{
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    return LIKE(cuMemcpyPeerAsync)(to, context, from, context, BYTES, other);
}
static CUresult batch(void *entry)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t bytes = BYTES, first = 0, failed = 0;
    return TO(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
              size_t *, CUstream)(&to, &from, &bytes, 1, &attributes, &first, 1, &failed, other);
}
static CUresult batch_second(void *entry)
{
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t bytes = BYTES, first = 0;
    return TO(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
              CUstream)(&to, &from, &bytes, 1, &attributes, &first, 1, other);
}
static CUresult cuboids(void *entry)
{
    size_t failed = 0;
    return TO(size_t, void *, size_t *, unsigned long long, CUstream)(1, no_shape, &failed, 0, other);
}
static CUresult cuboids_second(void *entry)
{
    return TO(size_t, void *, unsigned long long, CUstream)(1, no_shape, 0, other);
}
static CUresult value32(void *entry) { return LIKE(cuStreamWriteValue32)(other, flag, 0, 0); }
static CUresult value64(void *entry) { return LIKE(cuStreamWriteValue64)(other, flag + 8, 0, 0); }
static CUresult operations(void *entry)
{
    CUstreamBatchMemOpParams params = {0};
    params.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    params.waitValue.address = flag;
    return TO(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned)(other, 1, &params, 0);
}

static CUresult prefetch(void *entry) { return TO(CUdeviceptr, size_t, CUdevice, CUstream)(to, BYTES, 0, other); }
static CUresult prefetch_second(void *entry)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    return TO(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream)(to, BYTES, here, 0, other);
}
/* None: what they end does not depend on how many there are. */
static CUresult semaphores(void *entry)
{
    return TO(const void *, const void *, unsigned, CUstream)(no_shape, no_shape, 0, other);
}
static CUresult resources(void *entry) { return TO(unsigned, void *, CUstream)(0, no_shape, other); }

static const struct call BETWEEN_COPIES[] = {
    {"cuMemcpyHtoD", in_first},
    {"cuMemcpyHtoD_v2", in},
    {"cuMemcpyHtoDAsync", in_queued_first},
    {"cuMemcpyHtoDAsync_v2", in_queued},
    {"cuMemcpyDtoH", out_first},
    {"cuMemcpyDtoH_v2", out},
    {"cuMemcpyDtoHAsync", out_queued_first},
    {"cuMemcpyDtoHAsync_v2", out_queued},
    {"cuMemcpyPeer", peer},
    {"cuMemcpyPeerAsync", peer_queued},
    {"cuMemcpyBatchAsync", batch},
    {"cuMemcpyBatchAsync_v2", batch_second},
    {"cuMemPrefetchAsync", prefetch},
    {"cuMemPrefetchAsync_v2", prefetch_second},
    {NULL, NULL},
};

static const struct call BETWEEN_SHAPES[] = {
    {"cuMemcpyHtoA", array_in_first},
    {"cuMemcpyHtoA_v2", array_in},
    {"cuMemcpyHtoAAsync", array_in_queued_first},
    {"cuMemcpyHtoAAsync_v2", array_in_queued},
    {"cuMemcpyAtoH", array_out_first},
    {"cuMemcpyAtoH_v2", array_out},
    {"cuMemcpyAtoHAsync", array_out_queued_first},
    {"cuMemcpyAtoHAsync_v2", array_out_queued},
    {"cuMemcpy2D", shape},
    {"cuMemcpy2DUnaligned", shape},
    {"cuMemcpy2DAsync", shape_queued},
    {"cuMemcpy3D", shape},
    {"cuMemcpy3DAsync", shape_queued},
    {"cuMemcpy3DPeer", shape},
    {"cuMemcpy3DPeerAsync", shape_queued},
    {"cuMemcpy3DBatchAsync", cuboids},
    {"cuMemcpy3DBatchAsync_v2", cuboids_second},
    {NULL, NULL},
};

static const struct call BETWEEN_WAITS[] = {
    {"cuLaunchHostFunc", host_function},
    {"cuStreamAddCallback", callback},
    {"cuStreamWaitEvent", await_event},
    {"cuStreamWaitValue32", value32},
    {"cuStreamWaitValue32_v2", value32},
    {"cuStreamWaitValue64", value64},
    {"cuStreamWaitValue64_v2", value64},
    {"cuStreamWriteValue32", value32},
    {"cuStreamWriteValue32_v2", value32},
    {"cuStreamWriteValue64", value64},
    {"cuStreamWriteValue64_v2", value64},
    {"cuStreamBatchMemOp", operations},
    {"cuStreamBatchMemOp_v2", operations},
    {"cuSignalExternalSemaphoresAsync", semaphores},
    {"cuWaitExternalSemaphoresAsync", semaphores},
    {"cuGraphicsMapResources", resources},
    {"cuGraphicsUnmapResources", resources},
    {NULL, NULL},
};

/* Who is late in waking from a synchronisation of all work has its next launches measured one by one, whatever is
 * known of them. An event's end shows nothing, and what follows it waits for nothing. */
static void finish(void)
{
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    OK(cuCtxSynchronize());
}

enum { SHORT = 60, LONG = 120 };

/* Kernels of a fiftieth of a millisecond under one name, one by one. Who is late in waking from one is late from an
 * event, which shows nothing. */
static void briefs(unsigned name, int count)
{
    for (int i = 0; i < count; i++) {
        kernel(stream, name, MS / 50);
        OK(cuEventRecord(event, stream));
        OK(cuEventSynchronize(event));
    }
}

/* A kernel learnt to take SHORT; then the call whose number CALL is, and a kernel of LONG that was learnt to be brief: not
 * one that is measured by itself. A process makes one such call, as what it shows of the kernel behind it makes the next
 * launches be measured. */
static void between(const struct call *calls)
{
    for (int left = atoi(getenv("CALL")); left > 0 && calls->name != NULL; left--)
        calls++;
    if (calls->name != NULL) {
        void *entry = named(calls->name);
        briefs(99, 64);
        briefs(100, 16);
        finish();
        /* Late wakes leave doubt, in which each launch is measured; it has faded behind a second. */
        usleep(1100 * 1000);
        await_line();
        printf("calling %s\n", calls->name);
        kernel(stream, 1, SHORT * MS);
        calls->make(entry);
        kernel(stream, 100, LONG * MS);
        OK(cuCtxSynchronize());
        /* What has completed is put right at the next launch that asks for time. */
        kernel(stream, 32, 1 * MS);
        finish();
        printf("did %s\n", calls->name);
    }
    printf("end\n");
}

/* The kernel of SHORT, again until the test has seen it charged in full. By then the library has long
 * seen launches on no stream but one. */
static void learnt(void)
{
    ready();
    while (await_line()) {
        kernel(stream, 1, SHORT * MS);
        finish();
        kernel(stream, 32, 1 * MS);
        finish();
        printf("tried\n");
    }
    for (int i = 0; i < 80; i++)
        kernel(stream, 32, 1 * MS);
    finish();
    printf("learnt\n");
}

/* ---- waits that take long, in the stream of the kernels around them ---- */

static void CUDA_CB sleeping(void *data)
{
    (void)data;
    usleep(200 * 1000);
}

static CUresult long_function(void *entry) { return LIKE(cuLaunchHostFunc)(stream, sleeping, NULL); }

static CUresult long_event(void *entry)
{
    OK(cuLaunchHostFunc(other, sleeping, NULL));
    OK(cuEventRecord(event, other));
    return LIKE(cuStreamWaitEvent)(stream, event, 0);
}

static void CUDA_CB release(void *data)
{
    usleep(200 * 1000);
    *(volatile unsigned *)data = 1;
}

static CUresult long_value(void *entry)
{
    CUdeviceptr seen;
    *(volatile unsigned *)host = 0;
    OK(cuMemHostGetDevicePointer(&seen, host, 0));
    OK(cuLaunchHostFunc(other, release, host));
    return LIKE(cuStreamWaitValue32)(stream, seen, 1, CU_STREAM_WAIT_VALUE_EQ);
}

static const struct call LONG_WAITS[] = {
    {"cuLaunchHostFunc", long_function},
    {"cuStreamWaitEvent", long_event},
    {"cuStreamWaitValue32_v2", long_value},
    {NULL, NULL},
};

/* As `between`, with kernels that take what was learnt. */
static void long_waits(void)
{
    learnt();
    for (const struct call *calls = LONG_WAITS; calls->name != NULL; calls++) {
        void *entry = named(calls->name);
        await_line();
        printf("calling %s\n", calls->name);
        kernel(stream, 1, SHORT * MS);
        OK(calls->make(entry));
        kernel(stream, 1, SHORT * MS);
        OK(cuCtxSynchronize());
        kernel(stream, 32, 1 * MS);
        OK(cuCtxSynchronize());
        printf("did %s\n", calls->name);
    }
    printf("end\n");
}

/* ---- what makes processes one unit ---- */

static CUresult event_out(void *entry)
{
    CUipcEventHandle handle;
    return LIKE(cuIpcGetEventHandle)(&handle, event);
}
static CUresult event_in(void *entry)
{
    CUipcEventHandle handle = {{0}};
    CUevent opened;
    return LIKE(cuIpcOpenEventHandle)(&opened, handle);
}
static CUresult memory_out(void *entry)
{
    CUipcMemHandle handle;
    CUdeviceptr block;
    OK(cuMemAlloc(&block, 2 << 20));
    return LIKE(cuIpcGetMemHandle)(&handle, block);
}

static const struct call SHARING[] = {
    {"cuIpcGetEventHandle", event_out},
    {"cuIpcOpenEventHandle", event_in},
    {"cuIpcGetMemHandle", memory_out},
    {NULL, NULL},
};

static void sharing(void)
{
    ready();
    for (const struct call *calls = SHARING; calls->name != NULL; calls++) {
        void *entry = named(calls->name);
        await_line();
        printf("calling %s\n", calls->name);
        calls->make(entry);
        printf("did %s\n", calls->name);
    }
    await_line();
    printf("end\n");
}

/* ---- synchronisation ---- */

static CUresult wait_stream(void *entry) { return LIKE(cuStreamSynchronize)(stream); }
static CUresult wait_context(void *entry) { return TO(void)(); }
static CUresult wait_named(void *entry)
{
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    return TO(CUcontext)(context);
}

/* A wait for a stream that has nothing to do, while another has. */
static void idle_stream(void)
{
    void *entry = named("cuStreamSynchronize");
    learnt();
    await_line();
    for (int i = 0; i < 4; i++)
        kernel(stream, 1, SHORT * MS);
    printf("calling cuStreamSynchronize\n");
    OK(LIKE(cuStreamSynchronize)(other));
    printf("did cuStreamSynchronize\n");
    await_line();
    OK(cuCtxSynchronize());
    printf("end\n");
}

/* Makes each call behind a kernel of its own on `on`. */
static void behind_kernels(const struct call *call, CUstream on, unsigned long long iterations)
{
    for (; call->name != NULL; call++) {
        void *entry = named(call->name);
        await_line();
        kernel(on, 1, iterations);
        printf("calling %s\n", call->name);
        OK(call->make(entry));
        printf("did %s\n", call->name);
    }
    printf("end\n");
}

/* A kernel that ends long before what is known of its like says. */
static void synchronisations(void)
{
    static const struct call calls[] = {
        {"cuStreamSynchronize", wait_stream},
        {"cuStreamSynchronize_ptsz", wait_stream},
        {"cuCtxSynchronize", wait_context},
        {"cuCtxSynchronize_v2", wait_named},
        {NULL, NULL},
    };
    learnt();
    behind_kernels(calls, stream, 1 * MS);
}

static CUresult wait_event(void *entry)
{
    OK(cuEventRecord(event, NULL));
    return LIKE(cuEventSynchronize)(event);
}
static CUresult fetch(void *entry) { return LIKE(cuMemcpyDtoH)(host, from, 64); }
static CUresult wait_default(void *entry) { return LIKE(cuStreamSynchronize)(NULL); }

/* Calls that return when the kernel before them has ended. */
static void sleeps(void)
{
    static const struct call calls[] = {
        {"cuStreamSynchronize", wait_default},
        {"cuCtxSynchronize", wait_context},
        {"cuCtxSynchronize_v2", wait_named},
        {"cuEventSynchronize", wait_event},
        {"cuMemcpyDtoH_v2", fetch},
        {NULL, NULL},
    };
    learnt();
    behind_kernels(calls, NULL, 400 * MS);
}

static void between_copies(void) { learnt(), between(BETWEEN_COPIES); }
static void between_shapes(void) { learnt(), between(BETWEEN_SHAPES); }
static void between_waits(void) { learnt(), between(BETWEEN_WAITS); }

/* What moves data to and from the host passes whatever the gate says. */
static void host_copies(void) { ready(), offer(BETWEEN_COPIES); }

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"host_copies", host_copies},
        {"between_copies", between_copies},
        {"between_shapes", between_shapes},
        {"between_waits", between_waits},
        {"long_waits", long_waits},
    {"sharing", sharing},
        {"synchronisations", synchronisations},
        {"idle_stream", idle_stream},
        {"sleeps", sleeps},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
