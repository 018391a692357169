/* What every topic of the conformance set shares: printing codes, sizes and states, never times.
 *
 * A line reads `what = answer`. Sizes are bytes taken from or given to the card (the difference of
 * cuMemGetInfo), so the set wants a card of its own. */
#ifndef DIVVY_CONFORM_H
#define DIVVY_CONFORM_H

#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../clients/kernels.h"

#define MIB (1024ULL * 1024)

typedef void topic_fn(int part);
struct topic {
    const char *name;
    topic_fn *run;
    int parts; /* each part is a process of its own */
};
extern const struct topic TOPICS[];

/* Prints `what = 1 CUDA_ERROR_INVALID_VALUE` and hands the code on. */
CUresult say(const char *what, CUresult code);
/* Ends the process when `code` is not success: the rest of the part would mean nothing. */
void must(const char *what, CUresult code);
void state(const char *what, long long value);
void word(const char *what, const char *value);

/* cuInit, the primary context of device 0, made current. */
CUdevice start(void);
CUcontext primary(void);
/* Bytes free on the card. */
size_t free_bytes(void);
/* Prints how many bytes have left the card since `before`. */
void taken(const char *what, size_t before);
/* Milliseconds since some fixed moment; only ever compared with long pauses. */
double now_ms(void);
/* A callback that sleeps `(long)argument` ms. */
void pause_ms(void *argument);
/* Loads PTX text and takes one function out of it. */
CUmodule load(const char *ptx);
CUfunction function(CUmodule module, const char *name);
/* Runs `self topic:part detail` as a new process with `pipe` numbers in the environment. */
int again(const char *argument, const char *detail);

#define SAY(call) say(#call, call)
#define MUST(call) must(#call, call)

#endif
