/*
 * A program of the CUDA runtime, without nvcc: what every runtime version asks of the driver from
 * cudaGetDeviceCount to the first allocations. Linked statically or shared by the caller.
 */
#include <stddef.h>
#include <stdio.h>

/* The runtime's headers want nvcc's; these prototypes are the same in 11, 12 and 13. */
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);

#define TRY(call)                                                                  \
	do {                                                                       \
		cudaError_t result = (call);                                       \
		printf("%s -> %s\n", #call, cudaGetErrorName(result));             \
	} while (0)

int main(void)
{
	int count = 0, driver = 0, runtime = 0;
	void *plain = 0, *stream_ordered = 0;
	size_t free_bytes = 0, total_bytes = 0;
	cudaStream_t stream = 0;
	int multiprocessors = 0;
	char host[256] = "the same bytes come back", back[256] = "";

	TRY(cudaRuntimeGetVersion(&runtime));
	TRY(cudaDriverGetVersion(&driver));
	TRY(cudaGetDeviceCount(&count));
	TRY(cudaSetDevice(0));
	TRY(cudaDeviceGetAttribute(&multiprocessors, 16, 0));
	TRY(cudaStreamCreate(&stream));
	TRY(cudaMalloc(&plain, 1 << 20));
	TRY(cudaMemcpy(plain, host, sizeof(host), cudaMemcpyHostToDevice));
	TRY(cudaMemcpy(back, plain, sizeof(back), cudaMemcpyDeviceToHost));
	TRY(cudaMallocAsync(&stream_ordered, 1 << 20, stream));
	TRY(cudaFreeAsync(stream_ordered, stream));
	TRY(cudaStreamSynchronize(stream));
	TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
	TRY(cudaMalloc(&stream_ordered, (size_t)1 << 60));
	TRY(cudaFree(plain));
	TRY(cudaStreamDestroy(stream));
	printf("%s\n", back);
	return 0;
}
