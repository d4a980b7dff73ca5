// Three kernels with different stall reasons and known shares of the GPU's time: chase (50 %: dependent loads), arithmetic (30 %:
// multiplications), barrier (20 %: all warps of a block wait for one).
// usage: stalls [seconds = 4]; prints the number of kernels launched, milliseconds per loop of all three (best and median of rounds of 100
// loops), and the shares by CUDA events.
// build: nvcc -O2 -lineinfo -arch=native -o stalls stalls.cu
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.cuh"

static const int threads = 256, loops = 100;
static const unsigned cells = 1u << 25;	// 128 MiB: more than the caches hold
static const float loop_ms = 1.0f;
static const float wanted[3] = { 0.5f, 0.3f, 0.2f };
static const char *const names[3] = { "chase", "arithmetic", "barrier" };

// The chain visits all cells.
__global__ void fill(unsigned *next)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += gridDim.x * blockDim.x)
		next[i] = (i * 1664525u + 1013904223u) % cells;
}

__global__ void chase(const unsigned *next, unsigned *out, int steps)
{
	unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u % cells;

	for (int i = 0; i < steps; i++)
		at = next[at];
	if (at == cells)
		*out = at;
}

__global__ void arithmetic(float *out, int steps)
{
	float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;

	for (int i = 0; i < steps; i++) {
		a = a * 1.0001f + 0.5f;
		b = b * 1.0001f + 0.5f;
		c = c * 1.0001f + 0.5f;
		d = d * 1.0001f + 0.5f;
	}
	if (a + b + c + d == -1)
		*out = a;
}

__global__ void barrier(float *out, int steps)
{
	__shared__ float value;
	float sum = 0;

	if (threadIdx.x == 0)
		value = 1;
	for (int i = 0; i < steps; i++) {
		__syncthreads();
		if (threadIdx.x < 32) {
			float v = value;

			for (int k = 0; k < 64; k++)
				v = v * 1.0001f + 0.5f;
			if (threadIdx.x == 0)
				value = v;
		}
		__syncthreads();
		sum += value;
	}
	if (sum == -1)
		*out = sum;
}

static unsigned *next_cell;
static float *result;
static int blocks, steps[3] = { 100, 10000, 1000 };
static long kernels;

static void launch(int which)
{
	if (which == 0)
		chase<<<blocks, threads>>>(next_cell, (unsigned *)result, steps[0]);
	else if (which == 1)
		arithmetic<<<blocks, threads>>>(result, steps[1]);
	else
		barrier<<<blocks, threads>>>(result, steps[2]);
	kernels++;
}

static float measure(int which, int times)
{
	cudaEvent_t begin, end;
	float ms;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaEventRecord(begin));
	for (int i = 0; i < times; i++)
		launch(which);
	CHECK(cudaEventRecord(end));
	CHECK(cudaEventSynchronize(end));
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	return ms / times;
}

static double now_ms()
{
	return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 4, start, total = 0;
	std::vector<double> rounds;
	cudaDeviceProp device;
	float ms[3];

	CHECK(cudaGetDeviceProperties(&device, 0));
	blocks = 4 * device.multiProcessorCount;
	CHECK(cudaMalloc(&next_cell, cells * sizeof(*next_cell)));
	CHECK(cudaMalloc(&result, sizeof(*result)));
	fill<<<blocks, threads>>>(next_cell);
	kernels++;
	for (int i = 0; i < 3; i++) {
		for (int again = 0; again < 3; again++) {
			measure(i, 20);
			steps[i] = std::max(1, (int)(steps[i] * wanted[i] * loop_ms / measure(i, 20)));
		}
		ms[i] = measure(i, 100);
		total += ms[i];
	}
	for (start = now_ms(); now_ms() - start < seconds * 1000;) {
		double begun = now_ms();

		for (int i = 0; i < loops; i++)
			for (int which = 0; which < 3; which++)
				launch(which);
		CHECK(cudaDeviceSynchronize());
		rounds.push_back((now_ms() - begun) / loops);
	}
	std::sort(rounds.begin(), rounds.end());
	printf("kernels=%ld ms_per_loop=%.4f median=%.4f loops=%zu", kernels, rounds[0], rounds[rounds.size() / 2], rounds.size() * loops);
	for (int i = 0; i < 3; i++)
		printf(" %s=%.3f", names[i], ms[i] / total);
	printf("\n");
	return 0;
}
