/* link: cuda dl */
/* Older and rarer versions of the calls: programs built long ago are limited too. */
#include "scenario.h"

#include <dlfcn.h>

static void *named(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL);
    return found;
}

/* In a context of today the driver refuses a call of the first version, and nothing is charged. */
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        start();                                                                                   \
        size_t before_ = used();                                                                   \
        IS(call, CUDA_ERROR_INVALID_CONTEXT);                                                      \
        EQUAL(used(), before_);                                                                    \
    } while (0)

static void first_alloc_and_free(void)
{
    CUresult (*alloc)(unsigned *, unsigned) = named("cuMemAlloc");
    CUresult (*release)(unsigned) = named("cuMemFree");
    unsigned block;
    REFUSED(alloc(&block, 64 * MIB));
    start_first();
    TAKES(64 * MIB, alloc(&block, 64 * MIB));
    GIVES(64 * MIB, release(block));
}

static void first_pitched_alloc(void)
{
    CUresult (*alloc)(unsigned *, unsigned *, unsigned, unsigned, unsigned) =
        named("cuMemAllocPitch");
    unsigned block, pitch;
    REFUSED(alloc(&block, &pitch, 5000, 1000, 4));
    start_first();
    TAKES(6 * MIB, alloc(&block, &pitch, 5000, 1000, 4));
    EQUAL(pitch, 5120);
}

struct flat {
    unsigned width, height, format, channels;
};
struct deep {
    unsigned width, height, depth, format, channels, flags;
};

static void first_arrays(void)
{
    CUresult (*flat_array)(CUarray *, const struct flat *) = named("cuArrayCreate");
    CUresult (*deep_array)(CUarray *, const struct deep *) = named("cuArray3DCreate");
    struct flat flat = {1024, 1024, CU_AD_FORMAT_FLOAT, 4};
    struct deep deep = {1024, 1024, 0, CU_AD_FORMAT_FLOAT, 4, 0};
    CUarray array;
    REFUSED(flat_array(&array, &flat));
    start_first();
    TAKES(16 * MIB, flat_array(&array, &flat));
    TAKES(16 * MIB, deep_array(&array, &deep));
}

static void fat_binary_is_charged(void)
{
    CUmodule module;
    start();
    TAKES(64 * MIB, cuModuleLoadFatBinary(&module, PTX_HEAD PTX_EMPTY PTX_BIG("67108864")));
    GIVES(64 * MIB, cuModuleUnload(module));
}

typedef CUresult (*add_node)(CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
                             size_t, CUgraphNodeParams *);

static void node_is_charged_by(add_node add)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraphNode node;
    CUgraph graph;
    CUgraphExec exec;
    CUstream stream;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    size_t before = used();
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = 256 * MIB;
    OK(cuGraphCreate(&graph, 0));
    OK(add(&node, graph, NULL, NULL, 0, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(used() - before, 256 * MIB);
}

static void second_add_node(void)
{
    node_is_charged_by(named("cuGraphAddNode_v2"));
}

static void third_add_node(void)
{
    /* Asked of the driver itself: a library before it may have the name and no such call behind it. */
    add_node add = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGraphAddNode_v3");
    if (add == NULL) {
        printf("the driver is older than the call\n");
        exit(77);
    }
    node_is_charged_by(add);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"first_alloc_and_free", first_alloc_and_free},
        {"first_pitched_alloc", first_pitched_alloc},
        {"first_arrays", first_arrays},
        {"fat_binary_is_charged", fat_binary_is_charged},
        {"second_add_node", second_add_node},
        {"third_add_node", third_add_node},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
