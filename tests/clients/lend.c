/* link: cuda */
/* Memory lent from process to process by legacy IPC: a program that does what it reads, one command a line, and answers each
 * with one line. Blocks have numbers; "open" and "export" speak of handles in hexadecimal digits. What goes wrong in the
 * driver is answered with its code, what should not, ends the program. */
#include "scenario.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#define BLOCKS 512

static CUdeviceptr blocks[BLOCKS];
static size_t lengths[BLOCKS];

static void say(long long answer)
{
    printf("%lld\n", answer);
    fflush(stdout);
}

static void say_handle(const CUipcMemHandle *handle)
{
    for (size_t at = 0; at < sizeof *handle; at++)
        printf("%02x", (unsigned char)handle->reserved[at]);
    puts("");
    fflush(stdout);
}

static CUipcMemHandle read_handle(const char *digits)
{
    CUipcMemHandle handle;
    for (size_t at = 0; at < sizeof handle; at++) {
        unsigned byte;
        CHECK(sscanf(digits + 2 * at, "%2x", &byte) == 1);
        handle.reserved[at] = (char)byte;
    }
    return handle;
}

/* Where the first word is that is not `value`; -1 where all are. */
static long long wrong(int block, unsigned value)
{
    long long found = -1;
    unsigned *words = malloc(lengths[block]);
    OK(cuMemcpyDtoH(words, blocks[block], lengths[block]));
    for (size_t at = 0; at < lengths[block] / 4 && found < 0; at++)
        if (words[at] != value)
            found = (long long)at;
    free(words);
    return found;
}

static void add(int to, int from)
{
    static CUfunction kernel;
    unsigned n = (unsigned)(lengths[to] / 4);
    void *arguments[] = {&blocks[to], &blocks[to], &blocks[from], &n};
    if (!kernel)
        kernel = obtain(PTX_HEAD PTX_ADD32, "add32");
    OK(cuLaunchKernel(kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
}

static FILE *to_partner, *from_partner;

/* Another process of the tenant, which does what "tell" says. */
static long long partner(void)
{
    int pipes[2][2];
    char answer[160];
    CHECK(pipe2(pipes[0], O_CLOEXEC) == 0 && pipe2(pipes[1], O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(pipes[0][0], 0);
        dup2(pipes[1][1], 1);
        execl("/proc/self/exe", "lend", "obeys", NULL);
        _exit(127);
    }
    to_partner = fdopen(pipes[0][1], "w");
    from_partner = fdopen(pipes[1][0], "r");
    CHECK(to_partner && from_partner && fgets(answer, sizeof answer, from_partner) != NULL);
    EQUAL(strcmp(answer, "ready\n"), 0);
    return child;
}

static void tell(const char *line)
{
    char answer[160];
    CHECK(to_partner != NULL && fputs(line, to_partner) >= 0 && fflush(to_partner) == 0);
    CHECK(fgets(answer, sizeof answer, from_partner) != NULL);
    fputs(answer, stdout);
    fflush(stdout);
}

static void obeys(void)
{
    static CUstream stream;
    static CUgraph graph;
    CUcontext context, own = NULL;
    char line[256], word[32], digits[160];
    int block = 0, other = 0, truth = 0;
    unsigned value = 0;
    size_t bytes = 0;
    CUdeviceptr base;
    CUipcMemHandle handle;
    start();
    OK(cuCtxGetCurrent(&context));
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "tell ", 5)) {
            tell(line + 5);
            continue;
        }
        CHECK(sscanf(line, "%31s %d", word, &block) >= 1 && block >= -1 && block < BLOCKS);
        if (!strcmp(word, "partner")) {
            say(partner());
        } else if (!strcmp(word, "allocate")) {
            CHECK(sscanf(line, "%*s %*d %zu", &bytes) == 1);
            lengths[block] = bytes;
            say(cuMemAlloc(&blocks[block], bytes));
        } else if (!strcmp(word, "free")) {
            say(cuMemFree(blocks[block]));
        } else if (!strcmp(word, "fill")) {
            CHECK(sscanf(line, "%*s %*d %u", &value) == 1);
            OK(cuMemsetD32(blocks[block], value, lengths[block] / 4));
            say(cuCtxSynchronize());
        } else if (!strcmp(word, "wrong")) {
            CHECK(sscanf(line, "%*s %*d %u", &value) == 1);
            say(wrong(block, value));
        } else if (!strcmp(word, "add")) {
            CHECK(sscanf(line, "%*s %*d %d", &other) == 1);
            add(block, other);
            say(0);
        } else if (!strcmp(word, "export")) {
            CUresult code = cuIpcGetMemHandle(&handle, blocks[block]);
            if (code)
                say(code);
            else
                say_handle(&handle);
        } else if (!strcmp(word, "open")) {
            CHECK(sscanf(line, "%*s %*d %159s", digits) == 1);
            CUresult code = cuIpcOpenMemHandle(&blocks[block], read_handle(digits), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
            if (code == CUDA_SUCCESS)
                OK(cuMemGetAddressRange(NULL, &lengths[block], blocks[block]));
            say(code);
        } else if (!strcmp(word, "close")) {
            say(cuIpcCloseMemHandle(blocks[block]));
        } else if (!strcmp(word, "length")) {
            OK(cuMemGetAddressRange(&base, &bytes, blocks[block] + lengths[block] - 1));
            EQUAL(base, blocks[block]);
            EQUAL(bytes, lengths[block]);
            OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, blocks[block] + 1));
            EQUAL(base, blocks[block]);
            OK(cuPointerGetAttribute(&own, CU_POINTER_ATTRIBUTE_CONTEXT, blocks[block]));
            CHECK(own == context);
            say((long long)bytes);
        } else if (!strcmp(word, "address")) {
            say((long long)blocks[block]);
        } else if (!strcmp(word, "capable")) {
            OK(cuPointerGetAttribute(&truth, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, blocks[block]));
            say(truth);
        } else if (!strcmp(word, "used")) {
            say((long long)used());
        } else if (!strcmp(word, "capture")) {
            if (!stream)
                OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            say(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        } else if (!strcmp(word, "captured")) {
            say(cuStreamEndCapture(stream, &graph));
        } else if (!strcmp(word, "renew")) {
            /* The context ends, and another one begins. */
            OK(cuDevicePrimaryCtxReset(0));
            OK(cuDevicePrimaryCtxRetain(&context, 0));
            say(cuCtxSetCurrent(context));
        } else if (!strcmp(word, "fork")) {
            /* A child that lives on, with all that it has inherited. */
            pid_t child = fork();
            if (child == 0)
                for (;;)
                    pause();
            say(child);
        } else if (!strcmp(word, "few")) {
            /* No descriptors are left but so many; or, of a negative number, all are there again. */
            static int taken[65536], count;
            while (block >= 0 && count < 65536 && (taken[count] = dup(2)) >= 0)
                count++;
            while (count > 0 && (block < 0 || block-- > 0))
                close(taken[--count]);
            say(0);
            block = 0;
        } else if (!strcmp(word, "descriptors")) {
            for (int number = 3; number < 1024; number++)
                other += fcntl(number, F_GETFD) >= 0;
            say(other);
            other = 0;
        } else {
            fprintf(stderr, "no command: %s\n", line);
            exit(2);
        }
    }
}

int main(int count, char **arguments)
{
    static const struct scenario scenarios[] = {
        {"obeys", obeys},
        {NULL, NULL},
    };
    return play(scenarios, count, arguments);
}
