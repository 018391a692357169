/* link: cuda */
/* A program whose memory is handed over: it works on every byte it holds by kernels and a captured graph, has the
 * same numbers on the host, and compares all of them. It says "ready" when it may be taken away, and goes on at each
 * line it reads: by the graph first, then by a kernel, then by its own comparison. Each time it says what it
 * saw; it ends at the end of its input.
 *
 * Two halves of the block are added to each other by turns, so that each byte depends on bytes all over the block,
 * and one that is lost once is missing in every round after. HOLD_BYTES is the block's size, HOLD_MORE the number of
 * further blocks of 33 MiB, which are only compared, and filled anew each time. HOLD_PARTS lets a kernel work on so great a
 * part of the block, on another one each time but for the graph, which has one of its own. With HOLD_BUSY_NS work that lasts so
 * long is under way, and the graph behind it, each time it says "ready". */
#include "scenario.h"

#define MORE_BYTES (33 * MIB)
#define MOST 8

static unsigned *expected, *seen; /* `words` of the first half, then of the second */
static unsigned words, part_words;
static CUdeviceptr halves[2], more[MOST];
static int count_more;
static unsigned char *other;

static size_t number(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* What a kernel does to part `part` of half `to`, on the host. */
static void add_expected(int to, unsigned part)
{
    size_t from = (size_t)part * part_words;
    unsigned *sum = expected + (size_t)to * words + from, *added = expected + (size_t)!to * words + from;
    for (unsigned at = 0; at < part_words; at++)
        sum[at] += added[at];
}

static void add(CUfunction function, int to, unsigned part, CUstream stream)
{
    CUdeviceptr sum = halves[to] + part * part_words * 4ull, added = halves[!to] + part * part_words * 4ull;
    void *arguments[] = {&sum, &sum, &added, &part_words};
    OK(cuLaunchKernel(function, (part_words + 255) / 256, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
}

static unsigned char filling(int index, unsigned round)
{
    return (unsigned char)(index * 37 + round * 11 + 1);
}

/* Reads every byte there is and compares it; the checksum of the block. */
static unsigned long long look(unsigned round)
{
    unsigned long long sum = 14695981039346656037ull;
    OK(cuMemcpyDtoH(seen, halves[0], words * 4ull));
    OK(cuMemcpyDtoH(seen + words, halves[1], words * 4ull));
    for (unsigned at = 0; at < 2 * words; at++) {
        if (seen[at] != expected[at]) {
            fprintf(stderr, "word %u of %u in round %u: %x, wanted %x\n", at, 2 * words, round, seen[at],
                    expected[at]);
            exit(1);
        }
        sum = (sum ^ seen[at]) * 1099511628211ull;
    }
    for (int index = 0; index < count_more; index++) {
        OK(cuMemcpyDtoH(other, more[index], MORE_BYTES));
        unsigned char first = filling(index, round);
        if (other[0] != first || memcmp(other, other + 1, MORE_BYTES - 1) != 0) {
            fprintf(stderr, "a byte of block %d in round %u is not %x\n", index, round, first);
            exit(1);
        }
        OK(cuMemsetD8(more[index], filling(index, round + 1), MORE_BYTES));
    }
    OK(cuCtxSynchronize());
    return sum;
}

static int goes_on(unsigned round, unsigned long long sum)
{
    char line[64];
    printf("ready %u %016llx\n", round, sum);
    return fgets(line, sizeof line, stdin) != NULL;
}

static void holds(void)
{
    size_t bytes = number("HOLD_BYTES", 16 * MIB);
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr block;
    words = (unsigned)(bytes / 8);
    unsigned parts = (unsigned)number("HOLD_PARTS", 1);
    CHECK(parts > 0 && words % parts == 0);
    part_words = words / parts;
    count_more = (int)number("HOLD_MORE", 0);
    unsigned long long busy_ns = number("HOLD_BUSY_NS", 0);
    void *busy[] = {&busy_ns};
    CHECK(count_more <= MOST);
    expected = malloc(words * 8ull);
    seen = malloc(words * 8ull);
    other = malloc(MORE_BYTES);
    CHECK(expected != NULL && seen != NULL && other != NULL);
    start();
    CUfunction function = obtain(PTX_HEAD PTX_ADD32, "add32"), spin = obtain(PTX_HEAD PTX_SPIN, "spin_ns");
    OK(cuMemAlloc(&block, bytes));
    halves[0] = block;
    halves[1] = block + words * 4ull;
    for (unsigned at = 0; at < 2 * words; at++)
        expected[at] = (at + 1) * 2654435761u ^ (unsigned)getpid();
    OK(cuMemcpyHtoD(block, expected, words * 8ull));
    for (int index = 0; index < count_more; index++) {
        OK(cuMemAlloc(&more[index], MORE_BYTES));
        OK(cuMemsetD8(more[index], filling(index, 0), MORE_BYTES));
    }
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    add(function, 1, 0, stream);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuCtxSynchronize());
    for (unsigned round = 0;; round++) {
        unsigned long long sum = look(round);
        if (busy_ns != 0) {
            OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, busy, NULL));
            OK(cuGraphLaunch(exec, stream));
            add_expected(1, 0);
        }
        if (!goes_on(round, sum))
            break;
        OK(cuGraphLaunch(exec, stream));
        add_expected(1, 0);
        add(function, 0, round % parts, stream);
        add_expected(0, round % parts);
        OK(cuCtxSynchronize());
    }
    OK(cuMemFree(block));
    for (int index = 0; index < count_more; index++)
        OK(cuMemFree(more[index]));
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {{"holds", holds}, {NULL, NULL}};
    return play(scenarios, count, arguments);
}
