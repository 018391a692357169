/* link: cuda */
/* Globals of modules and libraries, and the local memory their functions need. */
#include "scenario.h"

static const char WITH_GLOBAL[] = PTX_HEAD PTX_EMPTY PTX_BIG("67108864");
static const char TOO_LARGE[] = PTX_HEAD PTX_EMPTY PTX_BIG("17179869184");
static const char DEEP[] = PTX_HEAD PTX_DEEP("8192");
static const char DEEPER[] = PTX_HEAD PTX_DEEP("65536");

static void globals_are_charged(void)
{
    CUmodule module;
    start();
    TAKES(64 * MIB, cuModuleLoadData(&module, WITH_GLOBAL));
    GIVES(64 * MIB, cuModuleUnload(module));
    TAKES(64 * MIB, cuModuleLoadDataEx(&module, WITH_GLOBAL, 0, NULL, NULL));
    GIVES(64 * MIB, cuModuleUnload(module));
    TAKES(0, cuModuleLoadData(&module, PTX_HEAD PTX_EMPTY));
}

static void loaded_with_options_is_charged(void)
{
    CUmodule module;
    start();
    TAKES(64 * MIB, cuModuleLoadDataEx(&module, WITH_GLOBAL, 0, NULL, NULL));
}

static void loaded_from_a_file_is_charged(void)
{
    CUmodule module;
    CUlibrary library;
    CUdeviceptr global;
    char path[256];
    size_t bytes;
    snprintf(path, sizeof path, "%s/module.ptx", getenv("TMPDIR"));
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(WITH_GLOBAL, file) > 0 && fclose(file) == 0);
    start();
    TAKES(64 * MIB, cuModuleLoad(&module, path));
    OK(cuModuleUnload(module));
    size_t before = used();
    OK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    EQUAL(used() - before, 64 * MIB);
    OK(cuLibraryGetGlobal(&global, &bytes, library, "big"));
    EQUAL(used() - before, 64 * MIB);
    OK(cuLibraryUnload(library));
    EQUAL(used(), before);
    unlink(path);
}

static void library_globals_are_charged(void)
{
    CUlibrary library;
    CUdeviceptr global;
    size_t bytes;
    start();
    size_t before = used();
    OK(cuLibraryLoadData(&library, WITH_GLOBAL, NULL, NULL, 0, NULL, NULL, 0));
    EQUAL(used() - before, 64 * MIB); /* before the card takes it: nobody asks again later */
    OK(cuLibraryGetGlobal(&global, &bytes, library, "big"));
    EQUAL(used() - before, 64 * MIB);
    OK(cuLibraryUnload(library));
    EQUAL(used(), before);
}

static void too_large_a_module_is_refused(void)
{
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CUdeviceptr global;
    size_t bytes, before;
    start();
    before = used();
    IS(cuModuleLoadData(&module, TOO_LARGE), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(used(), before);
    CUresult code = cuLibraryLoadData(&library, TOO_LARGE, NULL, NULL, 0, NULL, NULL, 0);
    if (code == CUDA_SUCCESS)
        code = cuLibraryGetGlobal(&global, &bytes, library, "big");
    EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
}

static size_t resident(void)
{
    int processors = 0, threads = 0;
    OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    OK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
    return (size_t)processors * threads;
}

static void local_memory_is_charged(void)
{
    CUmodule module;
    CUfunction deep;
    CUdeviceptr block;
    start();
    OK(cuMemAlloc(&block, 4096));
    size_t before = used();
    OK(cuModuleLoadData(&module, DEEP));
    OK(cuModuleGetFunction(&deep, module, "deep"));
    CHECK(used() - before >= 7168 * resident());
    void *arguments[] = {&block};
    OK(cuLaunchKernel(deep, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    CHECK(used() - before >= 7168 * resident());
    CHECK(used() - before <= 8192 * resident() + 64 * MIB);
    CHECK(used() <= wanted_limit());
}

static void local_memory_over_the_limit(void)
{
    CUmodule module;
    CUfunction deeper;
    start();
    size_t before = used();
    OK(cuModuleLoadData(&module, DEEPER));
    IS(cuModuleGetFunction(&deeper, module, "deep"), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(used(), before);
}

static void enumerated_functions_are_charged(void)
{
    CUmodule module;
    CUfunction functions[1];
    start();
    size_t before = used();
    OK(cuModuleLoadData(&module, DEEP));
    OK(cuModuleEnumerateFunctions(functions, 1, module));
    CHECK(used() - before >= 7168 * resident());
}

static CUlibrary deep_library(void)
{
    CUlibrary library;
    OK(cuLibraryLoadData(&library, DEEP, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static void library_kernels_are_charged(void)
{
    CUkernel kernel;
    start();
    size_t before = used();
    OK(cuLibraryGetKernel(&kernel, deep_library(), "deep"));
    CHECK(used() - before >= 7168 * resident());
}

static void enumerated_kernels_are_charged(void)
{
    CUkernel kernels[1];
    start();
    size_t before = used();
    OK(cuLibraryEnumerateKernels(kernels, 1, deep_library()));
    CHECK(used() - before >= 7168 * resident());
}

static void library_module_is_charged(void)
{
    CUmodule module;
    CUlibrary library;
    start();
    size_t before = used();
    OK(cuLibraryLoadData(&library, WITH_GLOBAL, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetModule(&module, library));
    EQUAL(used() - before, 64 * MIB);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"globals_are_charged", globals_are_charged},
        {"loaded_with_options_is_charged", loaded_with_options_is_charged},
        {"loaded_from_a_file_is_charged", loaded_from_a_file_is_charged},
        {"library_globals_are_charged", library_globals_are_charged},
        {"too_large_a_module_is_refused", too_large_a_module_is_refused},
        {"local_memory_is_charged", local_memory_is_charged},
        {"local_memory_over_the_limit", local_memory_over_the_limit},
        {"enumerated_functions_are_charged", enumerated_functions_are_charged},
        {"library_kernels_are_charged", library_kernels_are_charged},
        {"enumerated_kernels_are_charged", enumerated_kernels_are_charged},
        {"library_module_is_charged", library_module_is_charged},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
