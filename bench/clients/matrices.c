/* See matrices.h. */
#include "matrices.h"

#include <stdio.h>
#include <stdlib.h>

enum { X, Y, Z, W };
enum { THREADS = 256, BLOCKS_PER_SM = 8, SUM_GRID = 8, SMS = 16, NON_BLOCKING = 1 };
static const uint64_t BLOCK = 2u << 20, WORDS = (2u << 20) / 4;
/* Words of one launch: the kernel counts in 32 bits, and no launch is to last long. */
static const uint64_t LAUNCH_WORDS = 1u << 30;

/* Both are grid-stride loops, so any grid does all of the work. */
static const char KERNELS[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    /* c[i] = a[i] + b[i], four at a time: n is a multiple of four. */
    ".visible .entry add32(\n"
    "\t.param .u64 c,\n"
    "\t.param .u64 a,\n"
    "\t.param .u64 b,\n"
    "\t.param .u32 n\n"
    ")\n"
    "{\n"
    "\t.reg .pred %p<2>;\n"
    "\t.reg .b32 %r<20>;\n"
    "\t.reg .b64 %d<8>;\n"
    "\tld.param.u64 %d1, [c];\n"
    "\tld.param.u64 %d2, [a];\n"
    "\tld.param.u64 %d3, [b];\n"
    "\tld.param.u32 %r1, [n];\n"
    "\tcvta.to.global.u64 %d1, %d1;\n"
    "\tcvta.to.global.u64 %d2, %d2;\n"
    "\tcvta.to.global.u64 %d3, %d3;\n"
    "\tshr.u32 %r1, %r1, 2;\n"
    "\tmov.u32 %r2, %tid.x;\n"
    "\tmov.u32 %r3, %ctaid.x;\n"
    "\tmov.u32 %r4, %ntid.x;\n"
    "\tmov.u32 %r5, %nctaid.x;\n"
    "\tmad.lo.u32 %r2, %r3, %r4, %r2;\n"
    "\tmul.lo.u32 %r5, %r5, %r4;\n"
    "STEP:\n"
    "\tsetp.ge.u32 %p1, %r2, %r1;\n"
    "\t@%p1 bra DONE;\n"
    "\tmul.wide.u32 %d4, %r2, 16;\n"
    "\tadd.u64 %d5, %d2, %d4;\n"
    "\tadd.u64 %d6, %d3, %d4;\n"
    "\tadd.u64 %d7, %d1, %d4;\n"
    "\tld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%d5];\n"
    "\tld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%d6];\n"
    "\tadd.u32 %r6, %r6, %r10;\n"
    "\tadd.u32 %r7, %r7, %r11;\n"
    "\tadd.u32 %r8, %r8, %r12;\n"
    "\tadd.u32 %r9, %r9, %r13;\n"
    "\tst.global.v4.u32 [%d7], {%r6, %r7, %r8, %r9};\n"
    "\tadd.u32 %r2, %r2, %r5;\n"
    "\tbra STEP;\n"
    "DONE:\n"
    "\tret;\n"
    "}\n"
    /* Adds all n words at p to *out. */
    ".visible .entry checksum(\n"
    "\t.param .u64 p,\n"
    "\t.param .u64 n,\n"
    "\t.param .u64 out\n"
    ")\n"
    "{\n"
    "\t.reg .pred %p<2>;\n"
    "\t.reg .b32 %r<8>;\n"
    "\t.reg .b64 %d<12>;\n"
    "\tld.param.u64 %d1, [p];\n"
    "\tld.param.u64 %d2, [n];\n"
    "\tld.param.u64 %d3, [out];\n"
    "\tcvta.to.global.u64 %d1, %d1;\n"
    "\tcvta.to.global.u64 %d3, %d3;\n"
    "\tmov.u32 %r2, %tid.x;\n"
    "\tmov.u32 %r3, %ctaid.x;\n"
    "\tmov.u32 %r4, %ntid.x;\n"
    "\tmov.u32 %r5, %nctaid.x;\n"
    "\tmad.lo.u32 %r2, %r3, %r4, %r2;\n"
    "\tmul.lo.u32 %r5, %r5, %r4;\n"
    "\tcvt.u64.u32 %d4, %r2;\n"
    "\tcvt.u64.u32 %d5, %r5;\n"
    "\tmov.u64 %d6, 0;\n"
    "STEP:\n"
    "\tsetp.ge.u64 %p1, %d4, %d2;\n"
    "\t@%p1 bra DONE;\n"
    "\tshl.b64 %d7, %d4, 2;\n"
    "\tadd.u64 %d7, %d1, %d7;\n"
    "\tld.global.u32 %r6, [%d7];\n"
    "\tcvt.u64.u32 %d8, %r6;\n"
    "\tadd.u64 %d6, %d6, %d8;\n"
    "\tadd.u64 %d4, %d4, %d5;\n"
    "\tbra STEP;\n"
    "DONE:\n"
    "\tred.global.add.u64 [%d3], %d6;\n"
    "\tret;\n"
    "}\n";

/* The number that every word of a block begins with. */
static uint32_t first_value(int matrix, uint64_t block)
{
    return (uint32_t)(matrix + 1) * 2654435761u + (uint32_t)block * 40503u;
}

/* The number that it has after the steps so far. */
static uint32_t value(const struct matrices *matrices, int matrix, uint64_t block)
{
    uint32_t steps = (uint32_t)matrices->steps;
    uint32_t x = first_value(X, block), y = first_value(Y, block), w = first_value(W, block);
    if (matrix == X)
        return x + steps * (y + w);
    if (matrix == Z && matrices->steps)
        return x + (steps - 1) * (y + w) + y;
    return first_value(matrix, block);
}

void matrices_start(struct matrices *matrices, uint64_t bytes)
{
    struct driver *driver = &matrices->driver;
    result_t (*stream_create)(handle_t *stream, unsigned flags);
    size_t free_bytes = 0, total_bytes = 0;
    handle_t module;
    device_t device;
    int sms = 0;
    matrices->blocks = bytes / MATRICES / BLOCK;
    if (!matrices->blocks) {
        fprintf(stderr, "%llu bytes are too few for four matrices\n", (unsigned long long)bytes);
        exit(2);
    }
    driver_start(driver);
    *(void **)&stream_create = driver_find(driver, "cuStreamCreate");
    *(void **)&matrices->event_create = driver_find(driver, "cuEventCreate");
    *(void **)&matrices->event_record = driver_find(driver, "cuEventRecord");
    *(void **)&matrices->event_synchronize = driver_find(driver, "cuEventSynchronize");
    must(driver->device_get(&device, 0), "cuDeviceGet");
    must(driver->device_attribute(&sms, SMS, device), "cuDeviceGetAttribute");
    matrices->grid = (unsigned)sms * BLOCKS_PER_SM;
    must(driver->module_load(&module, KERNELS), "cuModuleLoadData");
    must(driver->module_function(&matrices->add, module, "add32"), "cuModuleGetFunction");
    must(driver->module_function(&matrices->checksum, module, "checksum"), "cuModuleGetFunction");
    must(stream_create(&matrices->stream, NON_BLOCKING), "cuStreamCreate");
    must(driver->memory_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    printf("{\"total_bytes\":%zu,\"free_bytes\":%zu}\n", total_bytes, free_bytes);
    fflush(stdout);
    for (int matrix = 0; matrix < MATRICES; matrix++) {
        /* The sums lie behind the last one: in a block of their own they would take a slab. */
        uint64_t sums = matrix == MATRICES - 1 ? MATRICES * matrices->blocks * sizeof(uint64_t) : 0;
        must(driver->alloc(&matrices->at[matrix], matrices->blocks * BLOCK + sums), "cuMemAlloc");
    }
    matrices->sums = matrices->at[MATRICES - 1] + matrices->blocks * BLOCK;
    for (int matrix = 0; matrix < MATRICES; matrix++)
        for (uint64_t block = 0; block < matrices->blocks; block++)
            must(driver->fill(matrices->at[matrix] + block * BLOCK, first_value(matrix, block), WORDS), "cuMemsetD32");
    must(driver->synchronize(), "cuCtxSynchronize");
}

/* to = left + right, the first `words` of them. */
static void submit(struct matrices *matrices, int to, int left, int right, uint64_t words)
{
    for (uint64_t from = 0; from < words; from += LAUNCH_WORDS) {
        uint64_t rest = words - from;
        uint32_t n = (uint32_t)(rest < LAUNCH_WORDS ? rest : LAUNCH_WORDS);
        address_t c = matrices->at[to] + from * 4;
        address_t a = matrices->at[left] + from * 4, b = matrices->at[right] + from * 4;
        void *arguments[] = {&c, &a, &b, &n};
        must(matrices->driver.launch(matrices->add, matrices->grid, 1, 1, THREADS, 1, 1, 0, matrices->stream,
                                     arguments, NULL),
             "cuLaunchKernel");
    }
}

void matrices_step(struct matrices *matrices)
{
    submit(matrices, Z, X, Y, matrices->blocks * WORDS);
    submit(matrices, X, Z, W, matrices->blocks * WORDS);
    matrices->steps++;
}

void matrices_touch(struct matrices *matrices)
{
    submit(matrices, Z, X, Y, WORDS);
}

struct wrong matrices_check(struct matrices *matrices)
{
    struct driver *driver = &matrices->driver;
    struct wrong wrong = {0, ""};
    size_t count = MATRICES * matrices->blocks;
    uint64_t *sums = calloc(count, sizeof *sums);
    if (!sums) {
        fprintf(stderr, "no memory for %zu sums\n", count);
        exit(3);
    }
    must(driver->synchronize(), "cuCtxSynchronize");
    must(driver->fill(matrices->sums, 0, count * 2), "cuMemsetD32");
    must(driver->synchronize(), "cuCtxSynchronize");
    for (size_t i = 0; i < count; i++) {
        address_t at = matrices->at[i / matrices->blocks] + i % matrices->blocks * BLOCK;
        address_t out = matrices->sums + i * sizeof(uint64_t);
        uint64_t words = WORDS;
        void *arguments[] = {&at, &words, &out};
        must(driver->launch(matrices->checksum, SUM_GRID, 1, 1, THREADS, 1, 1, 0, matrices->stream, arguments, NULL),
             "cuLaunchKernel");
    }
    must(driver->synchronize(), "cuCtxSynchronize");
    must(driver->copy_out(sums, matrices->sums, count * sizeof *sums), "cuMemcpyDtoH");
    for (size_t i = 0; i < count; i++) {
        int matrix = (int)(i / matrices->blocks);
        uint64_t block = i % matrices->blocks;
        uint64_t expected = WORDS * (uint64_t)value(matrices, matrix, block);
        if (sums[i] == expected)
            continue;
        if (!wrong.blocks++)
            snprintf(wrong.first, sizeof wrong.first, "block %llu of %c after %llu steps has the sum %llu instead of %llu",
                     (unsigned long long)block, "xyzw"[matrix], (unsigned long long)matrices->steps,
                     (unsigned long long)sums[i], (unsigned long long)expected);
    }
    free(sums);
    return wrong;
}
