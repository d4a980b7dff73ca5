// Kernels with known work, of counters.cu and ranges.cu.
#pragma once

#include "check.cuh"

static const size_t stream_bytes = 256u << 20;
static const int blocks = 64, threads = 256, loads = 100, small_launches = 2000;

// Adds to the previous contents, which shows whether memory is restored between passes.
__global__ void stream_kernel(const float4 *in, float4 *out, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
		float4 v = in[i], w = out[i];

		out[i] = make_float4(v.x + w.x, v.y + w.y, v.z + w.z, v.w + w.w);
	}
}

// Each lane of a warp loads from a different row of the same bank.
__global__ void conflicts_kernel(int *out, int n)
{
	__shared__ volatile int cells[32 * 32];
	int sum = 0;

	for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x)
		cells[i] = i;
	__syncthreads();
	for (int i = 0; i < n; i++)
		sum += cells[(threadIdx.x % 32) * 32 + i % 32];
	out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void small_kernel(int *out)
{
	if (threadIdx.x == 0)
		*out += 1;
}
