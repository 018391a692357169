/* Modules, libraries and local memory. */
#include "conform.h"

static CUresult launch(CUfunction function, unsigned grid, unsigned block, void **arguments)
{
    return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, NULL, arguments, NULL);
}

void modules(int part)
{
    CUmodule module = NULL;
    CUfunction kernel = NULL;
    CUdeviceptr global = 0;
    size_t bytes = 0;
    int value = -1;
    start();
    size_t before = free_bytes();
    if (part == 0) {
        SAY(cuModuleLoadData(&module, "this is no module"));
        SAY(cuModuleLoadData(&module, PTX_HEAD "nonsense;\n"));
        SAY(cuModuleLoad(&module, "/nonexistent/file.ptx"));
        SAY(cuModuleLoadData(&module, PTX_HEAD PTX_EMPTY PTX_FILL32 PTX_ANSWER));
        SAY(cuModuleGetFunction(&kernel, module, "absent"));
        SAY(cuModuleGetFunction(&kernel, module, "fill32"));
        SAY(cuModuleGetGlobal(&global, &bytes, module, "absent"));
        SAY(cuModuleGetGlobal(&global, &bytes, module, "answer"));
        state("size of answer", (long long)bytes);
        SAY(cuMemcpyDtoH(&value, global, sizeof value));
        state("answer", value);
        SAY(cuMemFree(global));
        SAY(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel));
        state("threads", value);
        SAY(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel));
        state("local", value);
        SAY(cuFuncGetAttribute(&value, (CUfunction_attribute)99, kernel));
        CUdeviceptr block = 0;
        unsigned fill = 0xfeed, count = 1000, word_out = 0;
        void *arguments[] = {&block, &fill, &count};
        MUST(cuMemAlloc(&block, 4096));
        SAY(launch(kernel, 4, 256, arguments));
        SAY(cuCtxSynchronize());
        SAY(cuMemcpyDtoH(&word_out, block + 4 * 999, 4));
        state("last word", word_out);
        SAY(cuMemcpyDtoH(&word_out, block + 4 * 1000, 4));
        SAY(launch(kernel, 0, 256, arguments));
        SAY(launch(kernel, 1, 2048, arguments));
        SAY(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 1 << 20, NULL, arguments, NULL));
        SAY(launch(NULL, 1, 32, arguments));
        SAY(cuLaunchCooperativeKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments));
        SAY(cuCtxSynchronize());
        SAY(cuModuleUnload(module));
        return;
    }
    static const struct {
        const char *name, *ptx;
    } sizes[] = {
        {"no global", PTX_HEAD PTX_EMPTY},
        {"100 B", PTX_HEAD PTX_EMPTY PTX_BIG("100")},
        {"1 MiB", PTX_HEAD PTX_EMPTY PTX_BIG("1048576")},
        {"3 MiB", PTX_HEAD PTX_EMPTY PTX_BIG("3145728")},
        {"64 MiB", PTX_HEAD PTX_EMPTY PTX_BIG("67108864")},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        before = free_bytes();
        SAY(cuModuleLoadData(&module, sizes[i].ptx));
        taken(sizes[i].name, before);
        SAY(cuModuleGetFunction(&kernel, module, "empty"));
        SAY(launch(kernel, 1, 32, NULL));
        SAY(cuCtxSynchronize());
        taken("it launched", before);
        SAY(cuModuleUnload(module));
        taken("it unloaded", before);
    }
}

void libraries(int part)
{
    (void)part;
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    CUdeviceptr global = 0;
    CUmodule module = NULL;
    size_t bytes = 0;
    unsigned count = 0;
    start();
    size_t before = free_bytes();
    SAY(cuLibraryLoadData(&library, "no library", NULL, NULL, 0, NULL, NULL, 0));
    SAY(cuLibraryLoadData(&library, PTX_HEAD PTX_EMPTY PTX_BIG("67108864"), NULL, NULL, 0, NULL,
                          NULL, 0));
    taken("a library with 64 MiB", before);
    SAY(cuLibraryGetKernelCount(&count, library));
    state("kernels", count);
    SAY(cuLibraryGetKernel(&kernel, library, "absent"));
    SAY(cuLibraryGetKernel(&kernel, library, "empty"));
    taken("its kernel", before);
    SAY(cuKernelGetFunction(&function, kernel));
    taken("its function", before);
    SAY(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuCtxSynchronize());
    taken("its launch", before);
    SAY(cuLibraryGetGlobal(&global, &bytes, library, "big"));
    state("size", (long long)bytes);
    taken("its global", before);
    SAY(cuLibraryGetModule(&module, library));
    SAY(cuModuleUnload(module));
    SAY(cuLibraryUnload(library));
    taken("it unloaded", before);
}

void local_memory(int part)
{
    (void)part;
    CUdeviceptr block = 0;
    size_t stack = 0;
    CUdevice device = start();
    MUST(cuMemAlloc(&block, 4096));
    MUST(cuMemsetD8(block, 0, 4096));
    int processors = 0, threads = 0, local = 0;
    MUST(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    MUST(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device));
    static const char *const texts[] = {PTX_HEAD PTX_DEEP("8192"), PTX_HEAD PTX_DEEP("16384")};
    size_t before = free_bytes();
    for (int i = 0; i < 2; i++) {
        CUmodule module = load(texts[i]);
        CUfunction kernel = function(module, "deep");
        taken("obtaining the function", before);
        SAY(cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel));
        state("local bytes per thread", local);
        void *arguments[] = {&block};
        SAY(launch(kernel, 1, 32, arguments));
        SAY(cuCtxSynchronize());
        long long now = (long long)before - (long long)free_bytes();
        state("bytes per resident thread", now / ((long long)processors * threads));
        SAY(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
        state("stack", (long long)stack);
        SAY(cuModuleUnload(module));
        state("kept after unload", (long long)before - (long long)free_bytes() == now);
    }
    SAY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    taken("nothing", before);
}
