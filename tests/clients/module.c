/* link: cuda dl */
/* Globals of modules and libraries, and the local memory their functions need. */
#include "scenario.h"

#include <dlfcn.h>

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

/* `text` in a fat binary, packed as the compilers of today pack it (zstd, in one raw block): no
 * limiter reads such an image, so its variables show when their addresses are asked for. An entry of text
 * has a second head, of 16 bytes, which its first names by its offset and the driver reads unasked. */
static const void *packed(const char *text)
{
    static unsigned char image[4096] __attribute__((aligned(8)));
    size_t bytes = strlen(text), frame = 4 + 1 + 4 + 3 + bytes, body = (frame + 7) / 8 * 8;
    struct {
        unsigned magic;
        unsigned short version, head_bytes;
        unsigned long long bytes;
        unsigned short kind, entry_version;
        unsigned entry_head_bytes;
        unsigned long long entry_bytes;
        unsigned packed_bytes, options_at;
        unsigned short minor, major;
        unsigned architecture, name, name_bytes;
        unsigned long long flags, zero, unpacked_bytes;
        unsigned long long options_text_at, options_bytes;
    } head = {0xba55ed50, 1, 16, 80 + body, 1, 0x101, 80, body, frame, 64, 8, 7, 75, 0, 0, 0x8011, 0,
              bytes, 72, 0};
    unsigned magic = 0xfd2fb528, length = bytes, block = 1 | length << 3;
    unsigned char *at = image + sizeof head;
    CHECK(sizeof head == 96 && sizeof head + body <= sizeof image);
    memcpy(image, &head, sizeof head);
    memcpy(at, &magic, 4);
    at[4] = 0xa0; /* one segment, its length in four bytes */
    memcpy(at + 5, &length, 4);
    memcpy(at + 9, &block, 3);
    memcpy(at + 12, text, bytes);
    return image;
}

static void skip_unless(int taken)
{
    if (!taken) {
        printf("the driver does not take this image\n");
        exit(77);
    }
}

static void variables_of_a_packed_module_are_charged(void)
{
    CUmodule module;
    CUdeviceptr global;
    size_t bytes;
    start();
    skip_unless(cuModuleLoadData(&module, packed(WITH_GLOBAL)) == CUDA_SUCCESS);
    TAKES(64 * MIB, cuModuleGetGlobal(&global, &bytes, module, "big"));
    TAKES(0, cuModuleGetGlobal(&global, &bytes, module, "big"));
    GIVES(64 * MIB, cuModuleUnload(module));
}

static void variables_by_the_first_call_are_charged(void)
{
    CUresult (*find)(unsigned *, unsigned *, CUmodule, const char *) =
        dlsym(RTLD_DEFAULT, "cuModuleGetGlobal");
    CUmodule module;
    unsigned global, bytes;
    CHECK(find != NULL);
    start_first();
    skip_unless(cuModuleLoadData(&module, packed(WITH_GLOBAL)) == CUDA_SUCCESS);
    TAKES(64 * MIB, find(&global, &bytes, module, "big"));
    EQUAL(bytes, 64 * MIB);
}

static void variables_of_a_packed_library_are_charged(void)
{
    CUlibrary library;
    CUdeviceptr global;
    size_t bytes;
    start();
    skip_unless(cuLibraryLoadData(&library, packed(WITH_GLOBAL), NULL, NULL, 0, NULL, NULL, 0) ==
                CUDA_SUCCESS);
    TAKES(64 * MIB, cuLibraryGetGlobal(&global, &bytes, library, "big"));
    GIVES(64 * MIB, cuLibraryUnload(library));
}

static void kernel_of_before_the_context_is_charged(void)
{
    /* A library needs no context. Whatever the driver tells of its kernel before there is one, the
     * function of it is charged. */
    CUkernel kernel;
    CUfunction function;
    OK(cuInit(0));
    OK(cuLibraryGetKernel(&kernel, deep_library(), "deep"));
    start();
    OK(cuKernelGetFunction(&function, kernel));
    CHECK(used() >= 7168 * resident());
}

static CUcontext another_context(void)
{
    CUcontext context;
    CUdevice device;
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&context, 0, device));
    return context;
}

/* The kernel's own handle passes for a function's: nothing is asked between it and the launch. */
static void launch_by_handle(CUkernel kernel)
{
    CUdeviceptr block;
    OK(cuMemAlloc(&block, 4096));
    void *arguments[] = {&block};
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    CHECK(used() <= wanted_limit());
}

static void kernel_of_before_the_context_by_its_handle(void)
{
    CUkernel kernel;
    OK(cuInit(0));
    OK(cuLibraryGetKernel(&kernel, deep_library(), "deep"));
    start();
    CHECK(used() >= 7168 * resident());
    launch_by_handle(kernel);
}

static void kernel_by_its_handle_in_another_context(void)
{
    CUkernel kernel;
    start();
    CUcontext early = another_context(), late;
    size_t before = used();
    OK(cuLibraryGetKernel(&kernel, deep_library(), "deep"));
    /* In both, since it can be launched in both. */
    CHECK(used() - before >= 2 * 7168 * resident());
    launch_by_handle(kernel);
    OK(cuCtxDestroy(early));
    CHECK(used() < before + 8192 * resident());
    before = used();
    late = another_context();
    CHECK(used() - before >= 7168 * resident());
    launch_by_handle(kernel);
    OK(cuCtxDestroy(late));
    EQUAL(used(), before);
}

static void kernel_of_before_a_context_that_does_not_fit(void)
{
    CUkernel kernel;
    CUlibrary library;
    CUcontext context;
    CUdevice device;
    OK(cuInit(0));
    OK(cuLibraryLoadData(&library, DEEPER, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "deep"));
    OK(cuDeviceGet(&device, 0));
    IS(cuDevicePrimaryCtxRetain(&context, device), CUDA_ERROR_OUT_OF_MEMORY);
    IS(cuCtxCreate(&context, 0, device), CUDA_ERROR_OUT_OF_MEMORY);
}

static CUlibrary library_of(const void *image)
{
    CUlibrary library;
    OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

/* Whichever road leads to a library's variable, it is charged once, and goes with the library. */
static void library_variable_is_charged_once_of(const void *image, size_t at_load)
{
    CUdeviceptr global;
    CUmodule module, other;
    CUkernel kernel;
    CUfunction function;
    size_t bytes;
    size_t before = used();
    CUlibrary library = library_of(image);
    EQUAL(used() - before, at_load);
    OK(cuLibraryGetModule(&module, library));
    EQUAL(used() - before, at_load);
    OK(cuModuleGetGlobal(&global, &bytes, module, "big"));
    EQUAL(used() - before, 64 * MIB);
    OK(cuLibraryGetGlobal(&global, &bytes, library, "big"));
    OK(cuLibraryGetKernel(&kernel, library, "empty"));
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuFuncGetModule(&other, function));
    OK(cuModuleGetGlobal(&global, &bytes, other, "big"));
    EQUAL(used() - before, 64 * MIB);
    OK(cuLibraryUnload(library));
    EQUAL(used(), before);
    /* Its module by the kernel's function alone. */
    library = library_of(image);
    OK(cuLibraryGetKernel(&kernel, library, "empty"));
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuFuncGetModule(&other, function));
    OK(cuModuleGetGlobal(&global, &bytes, other, "big"));
    EQUAL(used() - before, 64 * MIB);
    OK(cuLibraryUnload(library));
    EQUAL(used(), before);
}

static void library_variable_is_charged_once(void)
{
    start();
    library_variable_is_charged_once_of(WITH_GLOBAL, 64 * MIB);
}

static void packed_library_variable_is_charged_once(void)
{
    start();
    library_variable_is_charged_once_of(packed(WITH_GLOBAL), 0);
}

static CUresult launch_alone(void *function)
{
    CUresult code =
        cuLaunchKernel((CUfunction)function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    return code == CUDA_SUCCESS ? cuCtxSynchronize() : code;
}

/* A context that uses a library has globals of its own, by whichever call it uses it first. */
static void library_in_each_context(void)
{
    static const char MANAGED[] = PTX_HEAD PTX_EMPTY
        ".visible .global .attribute(.managed) .align 16 .b8 big[67108864];\n";
    CUcontext primary;
    start();
    OK(cuCtxGetCurrent(&primary));
    for (int way = 0; way < 6; way++) {
        CUlibrary library;
        CUmodule module;
        CUkernel kernel, all[1];
        CUfunction function;
        CUdeviceptr global;
        size_t bytes, before = used();
        library = library_of(way == 5 ? MANAGED : WITH_GLOBAL);
        OK(cuLibraryGetKernel(&kernel, library, "empty"));
        OK(launch_alone(kernel));
        EQUAL(used() - before, 64 * MIB);
        CUcontext other = another_context();
        size_t two = used();
        switch (way) {
        case 0: OK(cuLibraryGetModule(&module, library)); break;
        case 1: OK(cuLibraryGetGlobal(&global, &bytes, library, "big")); break;
        case 2: OK(cuKernelGetFunction(&function, kernel)); break;
        case 3: OK(launch_alone(kernel)); break;
        case 4: OK(cuLibraryEnumerateKernels(all, 1, library)); break;
        case 5: OK(cuLibraryGetManaged(&global, &bytes, library, "big")); break;
        }
        EQUAL(used() - two, 64 * MIB);
        OK(launch_alone(kernel));
        EQUAL(used() - two, 64 * MIB);
        if (way % 2 == 0) {
            OK(cuCtxDestroy(other));
            OK(cuCtxSetCurrent(primary));
            EQUAL(used() - before, 64 * MIB);
            OK(cuLibraryUnload(library));
        } else {
            OK(cuLibraryUnload(library));
            OK(cuCtxDestroy(other));
            OK(cuCtxSetCurrent(primary));
        }
        EQUAL(used(), before);
    }
}

/* A library outlives the context in which it was loaded, and is charged where it is used then. */
static void library_outlives_its_context(void)
{
    CUcontext primary;
    CUmodule module;
    start();
    OK(cuCtxGetCurrent(&primary));
    size_t before = used();
    CUcontext other = another_context();
    CUlibrary library = library_of(WITH_GLOBAL);
    OK(cuLibraryGetModule(&module, library));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(primary));
    EQUAL(used(), before);
    TAKES(64 * MIB, cuLibraryGetModule(&module, library));
    TAKES(0, cuLibraryGetModule(&module, library));
    GIVES(64 * MIB, cuLibraryUnload(library));
    EQUAL(used(), before);
}

/* One loaded before there is a context is charged, once, and so is a module's variable that ends with its context. */
static void library_of_before_the_context(void)
{
    CUmodule module;
    CUdeviceptr global;
    size_t bytes;
    OK(cuInit(0));
    CUlibrary library = library_of(WITH_GLOBAL);
    start();
    size_t with = used();
    TAKES(0, cuLibraryGetModule(&module, library));
    OK(cuLibraryUnload(library));
    EQUAL(with - used(), 64 * MIB);
    size_t before = used();
    CUcontext primary;
    OK(cuCtxGetCurrent(&primary));
    for (int round = 0; round < 3; round++) {
        CUcontext other = another_context();
        OK(cuModuleLoadData(&module, packed(WITH_GLOBAL)));
        TAKES(64 * MIB, cuModuleGetGlobal(&global, &bytes, module, "big"));
        OK(cuCtxDestroy(other));
        OK(cuCtxSetCurrent(primary));
        EQUAL(used(), before);
    }
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
        {"variables_of_a_packed_module_are_charged", variables_of_a_packed_module_are_charged},
        {"variables_by_the_first_call_are_charged", variables_by_the_first_call_are_charged},
        {"variables_of_a_packed_library_are_charged", variables_of_a_packed_library_are_charged},
        {"kernel_of_before_the_context_is_charged", kernel_of_before_the_context_is_charged},
        {"kernel_of_before_the_context_by_its_handle", kernel_of_before_the_context_by_its_handle},
        {"kernel_by_its_handle_in_another_context", kernel_by_its_handle_in_another_context},
        {"kernel_of_before_a_context_that_does_not_fit",
         kernel_of_before_a_context_that_does_not_fit},
        {"library_variable_is_charged_once", library_variable_is_charged_once},
        {"packed_library_variable_is_charged_once", packed_library_variable_is_charged_once},
        {"library_in_each_context", library_in_each_context},
        {"library_outlives_its_context", library_outlives_its_context},
        {"library_of_before_the_context", library_of_before_the_context},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
