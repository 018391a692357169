/* See work.h. */
#include "work.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS_PER_SM = 8,
    SMS = 16, /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    NON_BLOCKING = 1,
};

/* Fills the card and does `iterations` dependent steps a thread; its first thread counts it. It never
 * spins on a clock, so that being switched out does not count as work. */
static const char KERNEL[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".visible .entry share_work(\n"
    "\t.param .u64 counter,\n"
    "\t.param .u64 iterations\n"
    ")\n"
    ".maxntid 256, 1, 1\n"
    ".minnctapersm 8\n"
    "{\n"
    "\t.reg .pred %p<6>;\n"
    "\t.reg .b32 %r<8>;\n"
    "\t.reg .b64 %d<10>;\n"
    "\tld.param.u64 %d1, [counter];\n"
    "\tld.param.u64 %d2, [iterations];\n"
    "\tcvta.to.global.u64 %d3, %d1;\n"
    "\tmov.u32 %r1, %tid.x;\n"
    "\tmov.u32 %r2, %ctaid.x;\n"
    "\tmov.u32 %r3, %ntid.x;\n"
    "\tmad.lo.u32 %r4, %r2, %r3, %r1;\n"
    "\tadd.u32 %r5, %r4, 1;\n"
    "\tmov.u64 %d4, 0;\n"
    "STEP:\n"
    "\tsetp.ge.u64 %p1, %d4, %d2;\n"
    "\t@%p1 bra DONE;\n"
    "\tmad.lo.u32 %r5, %r5, %r5, 12345;\n"
    "\tadd.u64 %d4, %d4, 1;\n"
    "\tbra STEP;\n"
    "DONE:\n"
    /* Stores what no thread reaches by then, so that no thread's work can be left out. */
    "\tsetp.eq.u32 %p2, %r5, 3735928559;\n"
    "\t@%p2 st.global.u32 [%d3+24], %r5;\n"
    "\tsetp.ne.u32 %p3, %r4, 0;\n"
    "\t@%p3 ret;\n"
    "\tcvt.u64.u32 %d5, %r5;\n"
    "\tred.global.add.u64 [%d3+16], %d5;\n"
    "\tatom.global.add.u64 %d6, [%d3], 1;\n"
    "\tld.global.u64 %d7, [%d3+8];\n"
    "\tsetp.eq.u64 %p4, %d7, 0;\n"
    "\t@%p4 ret;\n"
    "\tadd.u64 %d6, %d6, 1;\n"
    "\tcvta.to.global.u64 %d8, %d7;\n"
    "\tst.volatile.global.u64 [%d8], %d6;\n"
    "\tret;\n"
    "}\n";

static void find_more(struct work *work)
{
    const struct {
        void *field;
        const char *name;
    } table[] = {
        {&work->more.host_register, "cuMemHostRegister_v2"},
        {&work->more.host_pointer, "cuMemHostGetDevicePointer_v2"},
        {&work->more.host_alloc, "cuMemHostAlloc"},
        {&work->more.copy_in, "cuMemcpyHtoD_v2"},
        {&work->more.copy_in_async, "cuMemcpyHtoDAsync_v2"},
        {&work->more.stream_create, "cuStreamCreate"},
        {&work->more.stream_synchronize, "cuStreamSynchronize"},
        {&work->more.event_create, "cuEventCreate"},
        {&work->more.event_record, "cuEventRecord"},
        {&work->more.event_synchronize, "cuEventSynchronize"},
        {&work->more.event_elapsed, "cuEventElapsedTime"},
        {&work->more.begin_capture, "cuStreamBeginCapture_v2"},
        {&work->more.end_capture, "cuStreamEndCapture"},
        {&work->more.instantiate, "cuGraphInstantiateWithFlags"},
        {&work->more.graph_launch, "cuGraphLaunch"},
        {&work->more.launch_ex, "cuLaunchKernelEx"},
        {&work->more.launch_cooperative, "cuLaunchCooperativeKernel"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        void *symbol = dlsym(work->driver.library, table[i].name);
        if (!symbol) {
            fprintf(stderr, "the driver has no %s\n", table[i].name);
            exit(3);
        }
        memcpy(table[i].field, &symbol, sizeof symbol);
    }
}

void work_start(struct work *work)
{
    int sms = 0;
    device_t device;
    handle_t module;
    driver_start(&work->driver);
    find_more(work);
    must(work->driver.device_get(&device, 0), "cuDeviceGet");
    must(work->driver.device_attribute(&sms, SMS, device), "cuDeviceGetAttribute");
    work->sms = (unsigned)sms;
    work->blocks = work->sms * BLOCKS_PER_SM;
    must(work->driver.module_load(&module, KERNEL), "cuModuleLoadData");
    must(work->driver.module_function(&work->function, module, "share_work"),
         "cuModuleGetFunction");
    for (int i = 0; i < STREAMS; i++)
        must(work->more.stream_create(&work->streams[i], NON_BLOCKING), "cuStreamCreate");
}

void work_launch_as(struct work *work, address_t counter, uint64_t iterations, handle_t stream)
{
    void *arguments[] = {&counter, &iterations};
    must(work->driver.launch(work->function, work->blocks, 1, 1, THREADS, 1, 1, 0, stream,
                             arguments, NULL),
         "cuLaunchKernel");
}

void work_launch(struct work *work, handle_t stream)
{
    work_launch_as(work, work->counter, work->iterations, stream);
}
