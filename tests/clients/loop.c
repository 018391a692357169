/* link: cuda dl */
/* Graphs that decide on the device what they run and how often, and what drivers refuse of them. */
#include "loops.h"

static CUstream stream;
static CUfunction work, count_down;
static CUdeviceptr words;

static void ready(void)
{
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    work = obtain(PTX_HEAD PTX_WORK, "share_work");
    count_down = counting();
    OK(cuMemAlloc(&words, 4096));
    OK(cuMemsetD8(words, 0, 4096));
}

/* Where the `index`th counter is, and the word that is counted down. */
static CUdeviceptr counter(int index) { return words + 64 + 8 * index; }

static CUdeviceptr left(int index) { return words + 4 * index; }

static unsigned long long counted(int index)
{
    unsigned long long count;
    OK(cuMemcpyDtoH(&count, counter(index), sizeof count));
    return count;
}

static CUgraphNode works(CUgraph graph, CUgraphNode after, int index)
{
    unsigned long long iterations = 1000;
    CUdeviceptr at = counter(index);
    void *params[] = {&at, &iterations};
    return then(graph, after, work, params);
}

static CUgraph fresh(void)
{
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    return graph;
}

static CUgraphExec executable(CUgraph graph)
{
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

/* Launches with `count` in the `index`th word. */
static void launch(CUgraphExec exec, int index, unsigned count)
{
    OK(cuMemsetD32Async(left(index), count, 1, stream));
    OK(cuGraphLaunch(exec, stream));
}

static void loops_run_as_often_as_their_conditions_say(void)
{
    static const unsigned counts_of[] = {1, 20, 0, 7, 0, 3, 200};
    unsigned long long wanted = 0;
    CUgraphNode node;
    CUgraph body;
    ready();
    CUgraph graph = fresh();
    CUgraphConditionalHandle condition = condition_of(graph, 0);
    node = counts(graph, NULL, count_down, condition, left(0), 0, 0);
    node = loops(graph, node, condition, &body);
    works(graph, node, 1);
    counts(body, works(body, NULL, 0), count_down, condition, left(0), 1, 0);
    CUgraphExec exec = executable(graph);
    for (int i = 0; i < 7; i++) {
        launch(exec, 0, counts_of[i]);
        OK(cuStreamSynchronize(stream));
        printf("%llu\n", counted(0));
        EQUAL(counted(0), wanted += counts_of[i]);
    }
    /* And with nothing waited for in between. */
    for (int i = 0; i < 7; i++) {
        launch(exec, 0, counts_of[i]);
        wanted += counts_of[i];
    }
    OK(cuStreamSynchronize(stream));
    printf("%llu %llu\n", counted(0), counted(1));
    EQUAL(counted(0), wanted);
    EQUAL(counted(1), 14);
}

static void defaults_hold_at_each_launch(void)
{
    CUgraph body, never;
    ready();
    CUgraph graph = fresh();
    CUgraphConditionalHandle once = condition_of(graph, 1), zero = condition_of(graph, 0);
    CUgraphNode node = loops(graph, NULL, once, &body);
    loops(graph, node, zero, &never);
    counts(body, works(body, NULL, 0), count_down, once, left(0), 1, 0);
    counts(never, works(never, NULL, 1), count_down, zero, left(1), 1, 0);
    CUgraphExec exec = executable(graph);
    for (unsigned i = 1; i < 4; i++)
        launch(exec, 0, i);
    OK(cuStreamSynchronize(stream));
    printf("%llu %llu\n", counted(0), counted(1));
    EQUAL(counted(0), 6);
    EQUAL(counted(1), 0);
}

static void loops_within_loops(void)
{
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 4, .elementSize = 4, .width = 1, .height = 1};
    CUgraph body, inner;
    CUgraphNode node;
    CUcontext context;
    ready();
    OK(cuCtxGetCurrent(&context));
    CUgraph graph = fresh();
    CUgraphConditionalHandle outer_one = condition_of(graph, 1), inner_one = condition_of(graph, 0);
    loops(graph, NULL, outer_one, &body);
    fill.dst = left(1);
    OK(cuGraphAddMemsetNode(&node, body, NULL, 0, &fill, context));
    node = counts(body, node, count_down, inner_one, left(1), 0, 0);
    node = loops(body, node, inner_one, &inner);
    counts(body, node, count_down, outer_one, left(0), 1, 0);
    counts(inner, works(inner, NULL, 0), count_down, inner_one, left(1), 1, 0);
    launch(executable(graph), 0, 3);
    OK(cuStreamSynchronize(stream));
    printf("%llu\n", counted(0));
    EQUAL(counted(0), 12);
}

/* If, else, and one of three. */
static void branches_run_once(void)
{
    CUgraphNode node;
    CUgraph *bodies;
    ready();
    CUgraph graph = fresh();
    CUgraphConditionalHandle either = condition_of(graph, 0), one_of = condition_of(graph, 0);
    node = counts(graph, NULL, count_down, either, left(0), 0, 0);
    OK(add_choice(graph, node, either, CU_GRAPH_COND_TYPE_IF, 2, &node, &bodies));
    works(bodies[0], NULL, 0);
    works(bodies[1], NULL, 1);
    node = counts(graph, node, count_down, one_of, left(0), 0, 0);
    OK(add_choice(graph, node, one_of, CU_GRAPH_COND_TYPE_SWITCH, 3, &node, &bodies));
    for (int i = 0; i < 3; i++)
        works(bodies[i], NULL, 2 + i);
    CUgraphExec exec = executable(graph);
    static const unsigned values[] = {0, 1, 2, 2, 3, 0};
    for (int i = 0; i < 6; i++)
        launch(exec, 0, values[i]);
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 5; i++)
        printf("%llu\n", counted(i));
    EQUAL(counted(0), 4);
    EQUAL(counted(1), 2);
    EQUAL(counted(2), 2);
    EQUAL(counted(3), 1);
    EQUAL(counted(4), 2);
}

/* Whatever is changed in a body is, in an executable, by an update or by its node. */
static void bodies_are_updated(void)
{
    CUgraph graphs[2], body;
    CUgraphExec exec = NULL;
    CUgraphExecUpdateResultInfo result;
    ready();
    for (int i = 0; i < 2; i++) {
        graphs[i] = fresh();
        CUgraphConditionalHandle condition = condition_of(graphs[i], 1);
        loops(graphs[i], NULL, condition, &body);
        counts(body, works(body, NULL, i), count_down, condition, left(0), 1, 0);
    }
    OK(cuGraphInstantiate(&exec, graphs[0], 0));
    launch(exec, 0, 5);
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecUpdate(exec, graphs[1], &result));
    launch(exec, 0, 6);
    OK(cuStreamSynchronize(stream));
    printf("%llu %llu\n", counted(0), counted(1));
    EQUAL(counted(0), 5);
    EQUAL(counted(1), 6);
}

static void CUDA_CB nothing(void *data) { (void)data; }

static void what_is_refused(void)
{
    CUgraphConditionalHandle condition, spare;
    CUDA_HOST_NODE_PARAMS host = {nothing, NULL};
    CUgraphNodeType type;
    CUgraphNode node, other;
    CUgraphExec exec, second;
    CUcontext context;
    CUgraph *bodies, copy;
    CUdeviceptr block;
    ready();
    size_t before = used();
    OK(cuCtxGetCurrent(&context));
    CUgraph graph = fresh(), another = fresh();
    IS(cuGraphConditionalHandleCreate(NULL, graph, context, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuGraphConditionalHandleCreate(&condition, NULL, context, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuGraphConditionalHandleCreate(&condition, graph, context, 0, 2), CUDA_ERROR_INVALID_VALUE);
    condition = condition_of(graph, 1);
#define CHOICE(in, handle, type, size) add_choice(in, NULL, handle, type, size, &node, &bodies)
    IS(CHOICE(graph, condition, CU_GRAPH_COND_TYPE_WHILE, 0), CUDA_ERROR_INVALID_VALUE);
    IS(CHOICE(graph, condition, CU_GRAPH_COND_TYPE_WHILE, 2), CUDA_ERROR_INVALID_VALUE);
    IS(CHOICE(graph, condition, CU_GRAPH_COND_TYPE_IF, 3), CUDA_ERROR_INVALID_VALUE);
    IS(CHOICE(graph, condition, CU_GRAPH_COND_TYPE_SWITCH, 0), CUDA_ERROR_INVALID_VALUE);
    IS(CHOICE(graph, 0, CU_GRAPH_COND_TYPE_WHILE, 1), CUDA_ERROR_INVALID_VALUE);
    IS(CHOICE(another, condition, CU_GRAPH_COND_TYPE_WHILE, 1), CUDA_ERROR_INVALID_VALUE);
    /* Who is there for nobody may be refused. */
    IS(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    OK(CHOICE(graph, condition, CU_GRAPH_COND_TYPE_WHILE, 1));
    OK(cuGraphNodeGetType(node, &type));
    EQUAL(type, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    CUgraph body = bodies[0];
    counts(body, works(body, NULL, 0), count_down, condition, left(0), 1, 0);
    IS(CHOICE(graph, condition, CU_GRAPH_COND_TYPE_IF, 1), CUDA_ERROR_INVALID_VALUE);
    IS(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphClone(&copy, graph) != CUDA_SUCCESS);
    CHECK(cuGraphAddChildGraphNode(&other, another, NULL, 0, graph) != CUDA_SUCCESS);
    OK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphInstantiate(&second, graph, 0) != CUDA_SUCCESS);
    launch(exec, 0, 4);
    OK(cuStreamSynchronize(stream));
    EQUAL(counted(0), 4);
    OK(cuGraphExecDestroy(exec));
    /* Bodies compute and copy, and no more: that is said when they are to be run. */
    spare = condition_of(another, 1);
    OK(CHOICE(another, spare, CU_GRAPH_COND_TYPE_WHILE, 1));
    OK(cuGraphAddHostNode(&other, bodies[0], NULL, 0, &host));
    IS(cuGraphInstantiate(&exec, another, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(another));
    another = fresh();
    spare = condition_of(another, 1);
    OK(CHOICE(another, spare, CU_GRAPH_COND_TYPE_WHILE, 1));
    OK(cuStreamBeginCaptureToGraph(stream, bodies[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&block, MIB, stream));
    OK(cuStreamEndCapture(stream, &copy));
    IS(cuGraphInstantiate(&exec, another, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(used(), before);
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec, 0, 2);
    OK(cuStreamSynchronize(stream));
    EQUAL(counted(0), 6);
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"loops_run_as_often_as_their_conditions_say", loops_run_as_often_as_their_conditions_say},
        {"defaults_hold_at_each_launch", defaults_hold_at_each_launch},
        {"loops_within_loops", loops_within_loops},
        {"branches_run_once", branches_run_once},
        {"bodies_are_updated", bodies_are_updated},
        {"what_is_refused", what_is_refused},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
