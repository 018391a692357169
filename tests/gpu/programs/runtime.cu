/* A program of the CUDA runtime: built by nvcc, once with the static runtime, once with the shared. */
#include <cstdio>
#include <cstdlib>

__global__ void add(const float *x, float *out, int count)
{
	int at = blockIdx.x * blockDim.x + threadIdx.x;
	if (at < count)
		out[at] = x[at] + 1;
}

int main()
{
	const int count = 1 << 22;
	size_t over = strtoull(getenv("DIVVY_GPU_OVER_BYTES"), 0, 10);
	float *x, *out, *host = (float *)malloc(count * sizeof(float));
	void *more;
	double sum = 0;

	for (int i = 0; i < count; i++)
		host[i] = i % 100;
	if (cudaMalloc(&x, count * sizeof(float)) || cudaMallocManaged(&out, count * sizeof(float)))
		return 1;
	cudaMemcpy(x, host, count * sizeof(float), cudaMemcpyHostToDevice);
	add<<<(count + 255) / 256, 256>>>(x, out, count);
	if (cudaDeviceSynchronize())
		return 2;
	for (int i = 0; i < count; i++)
		sum += out[i];
	printf("sum %.0f\n", sum);
	if (over)
		printf("over -> %s\n", cudaGetErrorName(cudaMalloc(&more, over)));
	cudaGetLastError();
	add<<<1, 32>>>(out, x, 32);
	printf("after %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	return 0;
}
