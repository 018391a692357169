/* A C program linked to libcuda: plain, pitched and stream-ordered memory, by direct symbols. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call)                                                                 \
	do {                                                                       \
		CUresult result = (call);                                          \
		if (result != CUDA_SUCCESS) {                                      \
			printf("%s -> %d\n", #call, result);                       \
			return 1;                                                  \
		}                                                                  \
	} while (0)

int main(void)
{
	size_t over = strtoull(getenv("DIVVY_GPU_OVER_BYTES"), 0, 10), pitch;
	unsigned char back[64];
	CUdevice device;
	CUcontext context;
	CUdeviceptr plain, pitched, ordered;
	CUstream stream;

	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&plain, 256 << 20));
	MUST(cuMemAllocPitch(&pitched, &pitch, 1000, 1000, 4));
	MUST(cuMemAllocAsync(&ordered, 64 << 20, stream));
	MUST(cuMemsetD8(plain, 7, 256 << 20));
	MUST(cuMemcpyDtoH(back, plain + (200 << 20), sizeof(back)));
	printf("byte %d pitch %zu\n", back[63], pitch);
	MUST(cuMemFreeAsync(ordered, stream));
	MUST(cuStreamSynchronize(stream));
	if (over)
		printf("over -> %d\n", cuMemAlloc(&ordered, over));
	MUST(cuMemFree(plain));
	MUST(cuMemAlloc(&plain, 256 << 20));
	MUST(cuMemFree(plain));
	MUST(cuMemFree(pitched));
	MUST(cuDevicePrimaryCtxRelease(device));
	printf("done\n");
	return 0;
}
