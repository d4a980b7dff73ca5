// Kernels with known instruction counts, for --engine sass-metrics: divergent (8 of 32 threads of each warp multiply and add, more often at
// each launch), strided (each thread reads a different sector, although four would suffice for a warp) and coalesced (four do). Between these,
// each kernel is launched many times, also from a captured graph: launches that are not measured must not be slower.
// usage: warps [launches = 4] [others = 2000]; others: launches of each kernel between these; prints "expect KERNEL LAUNCH OPERATION METRIC VALUE" for each launch, microseconds per launch between them, and
// whether the results are right.
// build: nvcc -O2 -lineinfo -arch=native -o warps warps.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.cuh"

static const int blocks = 64, threads = 256, total = blocks * threads;
static int repeats = 2000;

// steps is a power of two of at least 64, so that unrolled loops have no remainder.
__global__ void divergent(float *out, int steps)
{
	float x = threadIdx.x;

	if (threadIdx.x % 32 < 8) {
#pragma unroll 64
		for (int i = 0; i < steps; i++)
			x = __fmaf_rn(x, 0.999f, 1.0f);
	}
	out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void strided(const float *in, float *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = in[i * 8];
}

__global__ void coalesced(const float *in, float *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = in[i];
}

static void expect(const char *kernel, int launch, const char *operation, const char *metric, long long value)
{
	printf("expect %s %d %s smsp__sass_%s %lld\n", kernel, launch, operation, metric, value);
}

static void launch_all(const float *in, float *out, int steps, cudaStream_t stream)
{
	divergent<<<blocks, threads, 0, stream>>>(out, steps);
	strided<<<blocks, threads, 0, stream>>>(in, out + total);
	coalesced<<<blocks, threads, 0, stream>>>(in, out + 2 * total);
}

static void time_all(const char *when, const float *in, float *out)
{
	CHECK(cudaDeviceSynchronize());
	auto begun = std::chrono::steady_clock::now();
	for (int i = 0; i < repeats; i++)
		launch_all(in, out + 3 * total, 64, 0);
	CHECK(cudaDeviceSynchronize());
	std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - begun;
	printf("speed %s: %.2f us a launch\n", when, us.count() / repeats / 3);
}

static void launch_graph(const float *in, float *out)
{
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	launch_all(in, out + 3 * total, 64, stream);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
	int launches = argc > 1 ? atoi(argv[1]) : 4, wrong = 0;
	repeats = argc > 2 ? atoi(argv[2]) : repeats;
	std::vector<float> values(8 * total), results(3 * total);
	float *in, *out;

	for (size_t i = 0; i < values.size(); i++)
		values[i] = (float)i;
	CHECK(cudaMalloc(&in, values.size() * sizeof(float)));
	CHECK(cudaMalloc(&out, 6 * total * sizeof(float)));
	CHECK(cudaMemcpy(in, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
	for (int i = 0; i < launches; i++) {
		int steps = 64 << i % 6;
		long long warps = total / 32;

		launch_all(in, out, steps, 0);
		expect("divergent", i, "FFMA", "inst_executed", steps * warps);
		expect("divergent", i, "FFMA", "thread_inst_executed", steps * warps * 8);
		expect("strided", i, "LDG", "sectors_mem_global", warps * 32);
		expect("strided", i, "LDG", "sectors_mem_global_ideal", warps * 4);
		expect("coalesced", i, "LDG", "sectors_mem_global", warps * 4);
	}
	time_all("after", in, out);
	launch_graph(in, out);
	time_all("at the end", in, out);
	CHECK(cudaMemcpy(results.data(), out, results.size() * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < total; i++)
		wrong += (i % 32 >= 8 && results[i] != i % threads) || results[total + i] != 8 * i || results[2 * total + i] != i;
	printf("results %s\n", wrong ? "WRONG" : "right");
	return wrong != 0;
}
