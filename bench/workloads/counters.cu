// Kernels with known work, for --engine range-profiler: fma (a number of multiply-adds that differs between launches), stream (reads and
// writes more bytes than the caches hold), conflicts (loads from shared memory, each with 31 bank conflicts), and small, which is not to be
// measured: alone, between the others, and from a captured graph.
// usage: counters [launches = 4] [others = 2000]; others: launches of small each time; prints "expect KERNEL LAUNCH METRIC VALUE" for each launch, microseconds per launch of small before, between
// and after them, and whether the results are right: a kernel that is replayed several times must have the result of a single run.
// build: nvcc -O2 -arch=native -o counters counters.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "known_kernels.cuh"

// steps is a power of two of at least 64, so that unrolled loops have no remainder.
__global__ void fma_kernel(float *out, int steps)
{
	float x = threadIdx.x;

#pragma unroll 64
	for (int i = 0; i < steps; i++)
		x = __fmaf_rn(x, 0.999f, 1.0f);
	out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

static int others = small_launches;

static void time_small(const char *when, int *out)
{
	CHECK(cudaDeviceSynchronize());
	auto begun = std::chrono::steady_clock::now();
	for (int i = 0; i < others; i++)
		small_kernel<<<1, 32>>>(out);
	CHECK(cudaDeviceSynchronize());
	std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begun;
	printf("small %s: %.2f us a launch\n", when, us.count() / others);
}

static void launch_graph(int *out)
{
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 10; i++)
		small_kernel<<<1, 32, 0, stream>>>(out);
	fma_kernel<<<blocks, threads, 0, stream>>>((float *)(out + 32), 64);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
	int launches = argc > 1 ? atoi(argv[1]) : 4, count = 0;
	others = argc > 2 ? atoi(argv[2]) : others;
	size_t n = stream_bytes / sizeof(float4);
	float4 *in, *sum, first;
	int *out;

	CHECK(cudaMalloc(&in, stream_bytes));
	CHECK(cudaMalloc(&sum, stream_bytes));
	CHECK(cudaMalloc(&out, 1 << 20));
	CHECK(cudaMemset(sum, 0, stream_bytes));
	CHECK(cudaMemset(out, 0, 1 << 20));
	{
		std::vector<float> ones(stream_bytes / sizeof(float), 1.0f);
		CHECK(cudaMemcpy(in, ones.data(), stream_bytes, cudaMemcpyHostToDevice));
	}
	time_small("before", out);
	for (int i = 0; i < launches; i++) {
		int steps = 64 << i % 6;

		fma_kernel<<<blocks, threads>>>((float *)(out + 32), steps);
		printf("expect fma_kernel %d smsp__sass_thread_inst_executed_op_ffma_pred_on.sum %lld\n", i,
		       (long long)steps * blocks * threads);
		small_kernel<<<1, 32>>>(out);
		stream_kernel<<<1024, threads>>>(in, sum, n);
		printf("expect stream_kernel %d dram__bytes_read.sum %zu\n", i, 2 * stream_bytes);
		printf("expect stream_kernel %d dram__bytes_write.sum %zu\n", i, stream_bytes);
		conflicts_kernel<<<blocks, threads>>>(out + 32, loads);
		printf("expect conflicts_kernel %d l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum %lld\n", i,
		       (long long)blocks * (threads / 32) * loads * 31);
	}
	CHECK(cudaDeviceSynchronize());
	time_small("between", out);
	launch_graph(out);
	time_small("after", out);
	CHECK(cudaMemcpy(&count, out, sizeof(count), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&first, sum + n - 1, sizeof(first), cudaMemcpyDeviceToHost));
	printf("results: small %d of %d, stream %g of %d\n", count, 3 * others + launches + 50, first.w, launches);
	return 0;
}
