/* link: cuda dl */
/* The conformance set's main: runs every part in a process of its own and frames its lines.
 *
 * `conform` runs all; `conform topic` one topic; `conform topic:part` is what it starts itself.
 * The transcript of a real card is stored beside this file; a simulated driver must print the same.
 * A part that dies or hangs says so in the transcript instead of taking the rest with it. */
#include "conform.h"

#include <signal.h>

CUresult say(const char *what, CUresult code)
{
    const char *name = NULL;
    if (cuGetErrorName(code, &name) != CUDA_SUCCESS || name == NULL)
        name = "unnamed";
    printf("%s = %d %s\n", what, (int)code, name);
    fflush(stdout);
    return code;
}

void must(const char *what, CUresult code)
{
    if (code == CUDA_SUCCESS)
        return;
    say(what, code);
    word("part", "given up");
    exit(0);
}

void state(const char *what, long long value)
{
    printf("%s = %lld\n", what, value);
    fflush(stdout);
}

void word(const char *what, const char *value)
{
    printf("%s = %s\n", what, value);
    fflush(stdout);
}

CUcontext primary(void)
{
    CUcontext context = NULL;
    CUdevice device;
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    return context;
}

CUdevice start(void)
{
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    primary();
    return device;
}

size_t free_bytes(void)
{
    size_t free = 0, total = 0;
    MUST(cuMemGetInfo(&free, &total));
    return free;
}

void taken(const char *what, size_t before)
{
    printf("taken by %s = %lld\n", what, (long long)before - (long long)free_bytes());
    fflush(stdout);
}

double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void pause_ms(void *argument)
{
    usleep((useconds_t)(long)argument * 1000);
}

CUmodule load(const char *ptx)
{
    CUmodule module = NULL;
    MUST(cuModuleLoadData(&module, ptx));
    return module;
}

CUfunction function(CUmodule module, const char *name)
{
    CUfunction function = NULL;
    MUST(cuModuleGetFunction(&function, module, name));
    return function;
}

int again(const char *argument, const char *detail)
{
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "conform", argument, detail, NULL);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static int run_part(const char *name, int part)
{
    for (const struct topic *topic = TOPICS; topic->name != NULL; topic++)
        if (strcmp(topic->name, name) == 0) {
            alarm(30);
            topic->run(part);
            return 0;
        }
    fprintf(stderr, "no topic is called %s\n", name);
    return 2;
}

static void run_topic(const struct topic *topic)
{
    for (int part = 0; part < topic->parts; part++) {
        char argument[64];
        snprintf(argument, sizeof argument, "%s:%d", topic->name, part);
        printf("## %s\n", argument);
        fflush(stdout);
        int status = again(argument, NULL);
        if (WIFSIGNALED(status))
            state(WTERMSIG(status) == SIGALRM ? "hung; ended by signal" : "died of signal",
                  WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
            state("exit status", WEXITSTATUS(status));
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strchr(argv[1], ':') != NULL) {
        char name[64];
        snprintf(name, sizeof name, "%s", argv[1]);
        char *colon = strchr(name, ':');
        *colon = '\0';
        if (argc > 2)
            setenv("CONFORM_DETAIL", argv[2], 1);
        return run_part(name, atoi(colon + 1));
    }
    for (const struct topic *topic = TOPICS; topic->name != NULL; topic++)
        if (argc == 1 || strcmp(argv[1], topic->name) == 0)
            run_topic(topic);
    return 0;
}
