// One thread repeatedly loads a module, launches a kernel of it and unloads it, while another one launches all the time: a hard case for a
// sampler. usage: modules CUBIN [times = 300]; CUBIN is stalls.cu compiled with nvcc -cubin. Prints how many modules it loaded.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <cuda_runtime.h>

#include "check.cuh"

__global__ void spin(long long cycles)
{
	long long begin = clock64();

	while (clock64() - begin < cycles)
		;
}

static std::atomic<bool> done;
static std::atomic<long> spins;

static void launch()
{
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	while (!done) {
		for (int i = 0; i < 100; i++)
			spin<<<8, 32, 0, stream>>>(20000);
		CHECK(cudaStreamSynchronize(stream));
		spins += 100;
	}
}

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 300, steps = 20000;
	float *out;
	void *arguments[] = { &out, &steps };

	if (argc < 2)
		return 2;
	CHECK(cudaMalloc(&out, sizeof(*out)));
	std::thread launcher(launch);
	for (int i = 0; i < times; i++) {
		cudaLibrary_t library;
		cudaKernel_t kernel;

		CHECK(cudaLibraryLoadFromFile(&library, argv[1], nullptr, nullptr, 0, nullptr, nullptr, 0));
		CHECK(cudaLibraryGetKernel(&kernel, library, "_Z10arithmeticPfi"));
		CHECK(cudaLaunchKernel((const void *)kernel, dim3(64), dim3(256), arguments, 0, cudaStreamPerThread));
		CHECK(cudaStreamSynchronize(cudaStreamPerThread));
		CHECK(cudaLibraryUnload(library));
	}
	done = true;
	launcher.join();
	printf("loaded=%d spins=%ld\n", times, (long)spins);
	return 0;
}
