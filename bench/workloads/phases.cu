// Phases with known work and pauses between them, for --engine pm-sampling: stream (reads and writes device memory), full (arithmetic on all
// multiprocessors), half (arithmetic on half of them), copies (from the host).
// usage: phases [rounds = 2]; prints "expect PHASE METRIC VALUE": bytes moved in all rounds, and percent of the multiprocessors.
// build: nvcc -O2 -arch=native -o phases phases.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "check.cuh"

static const size_t bytes = 256u << 20;
static const int streams = 150, copies = 4;
static const float phase_ms = 60;

__global__ void stream_kernel(const float4 *in, float4 *out, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		out[i] = in[i];
}

static __device__ void multiply(float *out, int loops)
{
	float x = threadIdx.x, y = 1, z = 2;

	for (int i = 0; i < loops; i++) {
#pragma unroll 16
		for (int k = 0; k < 16; k++) {
			x = __fmaf_rn(x, 0.999f, 1.0f);
			y = __fmaf_rn(y, 0.998f, 1.0f);
			z = __fmaf_rn(z, 0.997f, 1.0f);
		}
	}
	out[blockIdx.x * blockDim.x + threadIdx.x] = x + y + z;
}

__global__ void full_kernel(float *out, int loops)
{
	multiply(out, loops);
}

__global__ void half_kernel(float *out, int loops)
{
	multiply(out, loops);
}

static void rest()
{
	CHECK(cudaDeviceSynchronize());
	std::this_thread::sleep_for(std::chrono::milliseconds(60));
}

// Returns the number of loops that takes phase_ms.
static int loops_for(float *out, int blocks)
{
	cudaEvent_t begin, end;
	float ms = 0;
	int loops = 1 << 14;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (int i = 0; i < 2; i++) {
		CHECK(cudaEventRecord(begin));
		full_kernel<<<blocks, 1024>>>(out, loops);
		CHECK(cudaEventRecord(end));
		CHECK(cudaEventSynchronize(end));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
	}
	return (int)(loops * phase_ms / ms);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 2, blocks = 0, loops;
	float4 *in, *sum;
	float *out;
	char *host;

	CHECK(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaMalloc(&in, bytes));
	CHECK(cudaMalloc(&sum, bytes));
	CHECK(cudaMalloc(&out, 4096u * blocks));
	CHECK(cudaMallocHost(&host, bytes));
	loops = loops_for(out, blocks);
	std::this_thread::sleep_for(std::chrono::seconds(1)); /* lets a sampler start */
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < streams; i++)
			stream_kernel<<<blocks * 8, 256>>>(in, sum, bytes / sizeof(float4));
		rest();
		full_kernel<<<blocks, 1024>>>(out, loops);
		rest();
		half_kernel<<<blocks / 2, 1024>>>(out, loops);
		rest();
		for (int i = 0; i < copies; i++)
			CHECK(cudaMemcpyAsync(in, host, bytes, cudaMemcpyHostToDevice));
		rest();
	}
	printf("expect stream_kernel dram__bytes_read.sum.per_second %zu\n", (size_t)rounds * streams * bytes);
	printf("expect stream_kernel dram__bytes_write.sum.per_second %zu\n", (size_t)rounds * streams * bytes);
	printf("expect copies pcie__read_bytes.sum.per_second %zu\n", (size_t)rounds * copies * bytes);
	printf("expect stream_kernel sm__cycles_active.avg.pct_of_peak_sustained_elapsed 100\n");
	printf("expect full_kernel sm__cycles_active.avg.pct_of_peak_sustained_elapsed 100\n");
	printf("expect half_kernel sm__cycles_active.avg.pct_of_peak_sustained_elapsed %.1f\n", 100.0 * (blocks / 2) / blocks);
	printf("expect idle sm__cycles_active.avg.pct_of_peak_sustained_elapsed 0\n");
	return 0;
}
