// A kernel that runs until it is told to end, with work on another stream meanwhile.

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <cuda_runtime.h>

#define OK(call)                                                                                     \
    do {                                                                                             \
        cudaError_t error = (call);                                                                  \
        if (error != cudaSuccess) {                                                                  \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                           \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

__global__ void until_told(volatile int *told)
{
    while (!*told)
        __nanosleep(1000);
}

__global__ void add(int *sum)
{
    *sum += 1;
}

static void persistent()
{
    int *told, *sum, result;
    cudaStream_t endless, others;
    OK(cudaHostAlloc(&told, sizeof *told, cudaHostAllocMapped));
    OK(cudaMalloc(&sum, sizeof *sum));
    OK(cudaMemset(sum, 0, sizeof *sum));
    OK(cudaStreamCreateWithFlags(&endless, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&others, cudaStreamNonBlocking));
    // Code is loaded at a kernel's first launch, which waits for what runs.
    *told = 1;
    until_told<<<1, 32, 0, endless>>>(told);
    add<<<1, 1, 0, others>>>(sum);
    OK(cudaDeviceSynchronize());
    *told = 0;
    until_told<<<1, 32, 0, endless>>>(told);
    OK(cudaGetLastError());
    for (int i = 0; i < 20; i++) {
        for (int j = 0; j < 100; j++)
            add<<<1, 1, 0, others>>>(sum);
        OK(cudaGetLastError());
        OK(cudaStreamSynchronize(others));
        usleep(50000);
    }
    *told = 1;
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost));
    printf("beside a kernel without end: %d\n", result);
}

int main()
{
    persistent();
    const char *over = getenv("DIVVY_GPU_OVER_BYTES");
    size_t bytes = over ? strtoull(over, nullptr, 10) : 0;
    void *much = nullptr;
    if (bytes)
        printf("%s\n", cudaMalloc(&much, bytes) == cudaErrorMemoryAllocation ? "refused: out of memory"
                                                                              : "NOT refused");
    return 0;
}
