// Ranges with known work, for --engine range-profiler --measure range and graph: "stream" reads and writes device memory, "conflicts" loads from
// shared memory with 31 bank conflicts each, on two streams, "both" contains the two, and a graph has three kernels with conflicts.
// usage: ranges [rounds = 60]; prints "expect RANGE METRIC VALUE", microseconds per launch of an empty kernel outside of ranges, and whether the
// results are right.
// build: nvcc -O2 -arch=native -o ranges ranges.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nvtx3/nvToolsExt.h>

#include "known_kernels.cuh"

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 60, count = 0, *out;
	const long long conflicts = (long long)blocks * (threads / 32) * loads * 31;
	size_t n = stream_bytes / sizeof(float4);
	float4 *in, *sum, first;
	cudaStream_t one, other;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaMalloc(&in, stream_bytes));
	CHECK(cudaMalloc(&sum, stream_bytes));
	CHECK(cudaMalloc(&out, 1 << 20));
	CHECK(cudaMemset(in, 0, stream_bytes));
	CHECK(cudaMemset(sum, 0, stream_bytes));
	CHECK(cudaMemset(out, 0, 1 << 20));
	CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < 3; i++)
		conflicts_kernel<<<blocks, threads, 0, one>>>(out + 32, loads);
	CHECK(cudaStreamEndCapture(one, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < rounds; i++) {
		nvtxRangePushA("both");
		nvtxRangePushA("stream");
		stream_kernel<<<1024, threads, 0, one>>>(in, sum, n);
		nvtxRangePop();
		nvtxRangePushA("conflicts");
		conflicts_kernel<<<blocks, threads, 0, one>>>(out + 32, loads);
		conflicts_kernel<<<blocks, threads, 0, other>>>(out + (1 << 17), loads);
		nvtxRangePop();
		nvtxRangePop();
		CHECK(cudaGraphLaunch(exec, one));
		CHECK(cudaDeviceSynchronize());
	}
	auto begun = std::chrono::steady_clock::now();
	for (int i = 0; i < small_launches; i++)
		small_kernel<<<1, 32>>>(out);
	CHECK(cudaDeviceSynchronize());
	std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begun;
	CHECK(cudaMemcpy(&count, out, sizeof(count), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&first, sum + n - 1, sizeof(first), cudaMemcpyDeviceToHost));
	printf("expect stream dram__bytes_read.sum %zu\n", 2 * stream_bytes);
	printf("expect stream dram__bytes_write.sum %zu\n", stream_bytes);
	printf("expect both dram__bytes_read.sum %zu\n", 2 * stream_bytes);
	printf("expect conflicts l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum %lld\n", 2 * conflicts);
	printf("expect both l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum %lld\n", 2 * conflicts);
	printf("expect graph l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum %lld\n", 3 * conflicts);
	printf("small: %.2f us a launch; results: small %d of %d, stream %g of 0\n", us.count() / small_launches, count, small_launches, first.w);
	return 0;
}
