// gpu_core.cu: kernels that cause exceptions, hang, or are timed, for bench/gpu_coredump.py.
// usage: gpu_core illegal | assert | misaligned | hang
//        gpu_core steps SECONDS     prints the times of its steps, in us, and how long its first use of CUDA took
#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "check.cuh"

// Thread (5, 0, 0) of block (3, 0, 0) does it, after all threads of the grid have done something else.
__device__ bool is_chosen(float *a)
{
	a[blockIdx.x * blockDim.x + threadIdx.x] += 1;
	return blockIdx.x == 3 && threadIdx.x == 5;
}

__global__ void writes_nowhere(float *a, int *at)
{
	if (is_chosen(a))
		*at = 1; // line of illegal
}

__global__ void asserts(float *a, int n)
{
	if (is_chosen(a))
		assert(n < 0); // line of assert
}

__global__ void writes_misaligned(float *a, char *at)
{
	if (is_chosen(a))
		*reinterpret_cast<int *>(at + 1) = 1; // line of misaligned
}

__global__ void waits_for_flag(volatile int *flag)
{
	while (!*flag) // line of hang
		;
}

__global__ void tiny(float *a) { a[threadIdx.x] += 1; }

__global__ void multiplies(float *a, int rounds)
{
	float x = a[blockIdx.x * blockDim.x + threadIdx.x];

	for (int i = 0; i < rounds; i++)
		x = x * 1.0001f + 0.5f;
	a[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

static double now_us()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int steps(float *a, double seconds, double first_us)
{
	double end = now_us() + seconds * 1e6;
	std::vector<double> times;

	while (now_us() < end) {
		double began = now_us();

		for (int i = 0; i < 200; i++)
			tiny<<<1, 32>>>(a);
		multiplies<<<64, 256>>>(a, 20000);
		CHECK(cudaDeviceSynchronize());
		times.push_back(now_us() - began);
	}
	std::sort(times.begin(), times.end());
	printf("{\"steps\": %zu, \"p10_us\": %.1f, \"median_us\": %.1f, \"first_use_us\": %.0f}\n", times.size(),
	       times[times.size() / 10], times[times.size() / 2], first_us);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	double began = now_us();
	float *a;
	int *flag;

	CHECK(cudaMalloc(&a, 64 * 256 * sizeof(*a)));
	CHECK(cudaMalloc(&flag, sizeof(*flag)));
	CHECK(cudaMemset(flag, 0, sizeof(*flag)));
	if (!strcmp(what, "steps"))
		return steps(a, argc > 2 ? atof(argv[2]) : 1, now_us() - began);
	for (int i = 0; i < 100; i++)
		tiny<<<1, 32>>>(a);
	CHECK(cudaDeviceSynchronize());
	if (!strcmp(what, "illegal"))
		writes_nowhere<<<8, 64>>>(a, reinterpret_cast<int *>(a) + (1l << 40));
	else if (!strcmp(what, "assert"))
		asserts<<<8, 64>>>(a, argc);
	else if (!strcmp(what, "misaligned"))
		writes_misaligned<<<8, 64>>>(a, reinterpret_cast<char *>(a));
	else if (!strcmp(what, "hang"))
		waits_for_flag<<<2, 32>>>(flag);
	else
		return 2;
	cudaError_t error = cudaDeviceSynchronize();
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
	return error == cudaSuccess ? 11 : 3;
}
