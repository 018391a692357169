/* Graphs whose loops run as often as a word in the device's memory says.
 *
 * A kernel counts the word down and sets the loop's condition to what is left. Setting one is a function of the
 * device's runtime: a driver that does not bring it cannot play the scenario. */
#ifndef DIVVY_LOOPS_H
#define DIVVY_LOOPS_H

#include "scenario.h"

/* count_down(u64 condition, u64 left, u32 less, u64 iterations): works for so many turns of a loop, about a
 * nanosecond each; then its first thread takes `less` from what is left and sets the condition to that. */
#define PTX_COUNT_DOWN                                                                             \
    ".extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);\n"           \
    ".visible .entry count_down(.param .u64 condition, .param .u64 left, .param .u32 less,"        \
    " .param .u64 iterations)\n{\n"                                                                \
    " .reg .pred %p<3>;\n .reg .b32 %r<5>;\n .reg .b64 %rd<5>;\n .param .b64 a;\n .param .b32 b;\n" \
    " ld.param.u64 %rd1, [condition];\n ld.param.u64 %rd2, [left];\n ld.param.u32 %r1, [less];\n"  \
    " ld.param.u64 %rd3, [iterations];\n mov.u64 %rd4, 0;\n"                                       \
    "LOOP:\n add.u64 %rd4, %rd4, 1;\n setp.lt.u64 %p1, %rd4, %rd3;\n @%p1 bra LOOP;\n"             \
    " mov.u32 %r2, %tid.x;\n mov.u32 %r3, %ctaid.x;\n or.b32 %r2, %r2, %r3;\n"                     \
    " setp.ne.u32 %p2, %r2, 0;\n @%p2 bra DONE;\n cvta.to.global.u64 %rd2, %rd2;\n"                \
    " ld.global.u32 %r4, [%rd2];\n sub.u32 %r4, %r4, %r1;\n st.global.u32 [%rd2], %r4;\n"          \
    " st.param.b64 [a], %rd1;\n st.param.b32 [b], %r4;\n"                                          \
    " call.uni cudaGraphSetConditional, (a, b);\nDONE:\n ret;\n}\n"

/* The kernel that counts down. */
LOCAL CUfunction counting(void)
{
    CUmodule module;
    CUfunction function;
    CUresult code = cuModuleLoadData(&module, PTX_HEAD PTX_COUNT_DOWN);
    if (code != CUDA_SUCCESS) {
        printf("this driver has no device runtime of its own (%d)\n", (int)code);
        exit(77);
    }
    OK(cuModuleGetFunction(&function, module, "count_down"));
    return function;
}

LOCAL CUgraphNode then(CUgraph graph, CUgraphNode after, CUfunction function, void **params)
{
    CUDA_KERNEL_NODE_PARAMS node_params = {.func = function, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1};
    CUgraphNode node;
    node_params.blockDimX = 32;
    node_params.blockDimY = node_params.blockDimZ = 1;
    node_params.kernelParams = params;
    OK(cuGraphAddKernelNode(&node, graph, after ? &after : NULL, after != NULL, &node_params));
    return node;
}

/* A kernel that takes `less` from the word at `left`. */
LOCAL CUgraphNode counts(CUgraph graph, CUgraphNode after, CUfunction function,
                         CUgraphConditionalHandle condition, CUdeviceptr left, unsigned less,
                         unsigned long long iterations)
{
    void *params[] = {&condition, &left, &less, &iterations};
    return then(graph, after, function, params);
}

/* A condition that is `at_launch` whenever a launch begins. */
LOCAL CUgraphConditionalHandle condition_of(CUgraph graph, unsigned at_launch)
{
    CUgraphConditionalHandle condition;
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    OK(cuGraphConditionalHandleCreate(&condition, graph, context, at_launch,
                                      CU_GRAPH_COND_ASSIGN_DEFAULT));
    return condition;
}

/* A node of `size` bodies. */
LOCAL CUresult add_choice(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle condition,
                          CUgraphConditionalNodeType type, unsigned size, CUgraphNode *node,
                          CUgraph **bodies)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.handle = condition;
    params.conditional.type = type;
    params.conditional.size = size;
    OK(cuCtxGetCurrent(&params.conditional.ctx));
    CUresult code =
        cuGraphAddNode_v2(node, graph, after ? &after : NULL, NULL, after != NULL, &params);
    *bodies = params.conditional.phGraph_out;
    return code;
}

/* A loop, and its body. */
LOCAL CUgraphNode loops(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle condition,
                        CUgraph *body)
{
    CUgraphNode node;
    CUgraph *bodies;
    OK(add_choice(graph, after, condition, CU_GRAPH_COND_TYPE_WHILE, 1, &node, &bodies));
    *body = bodies[0];
    return node;
}

#endif
