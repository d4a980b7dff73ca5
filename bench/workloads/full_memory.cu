// A kernel that changes much of the GPU's memory, which CUPTI must save before it runs the kernel again for the next pass.
// usage: full_memory [ALLOCATED [CHANGED]] in MiB, by default all but 64 MiB; prints the milliseconds of each launch, whether each changed its
// memory once, and the most memory that the process has used on the host.
// build: nvcc -O2 -arch=native -o full_memory full_memory.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "check.cuh"

static const size_t piece = 64u << 20;

__global__ void add_one(int **pieces, size_t n)
{
	int *words = pieces[blockIdx.y];

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		words[i]++;
}

static long host_mib()
{
	char line[200];
	long kib = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "VmHWM:", 6) == 0)
			kib = atol(line + 6);
	if (file)
		fclose(file);
	return kib >> 10;
}

int main(int argc, char **argv)
{
	size_t available = 0, total = 0, wanted = argc > 1 ? (size_t)atoll(argv[1]) << 20 : SIZE_MAX;
	size_t changed = argc > 2 ? (size_t)atoll(argv[2]) << 20 : SIZE_MAX;
	std::vector<int *> pieces;
	int **table, found = 0, launches = 3, wrong = 0;
	int *words;

	CHECK(cudaMalloc(&table, 1 << 20));
	while (pieces.size() * piece < wanted && cudaMemGetInfo(&available, &total) == cudaSuccess && available > 2 * piece &&
	       cudaMalloc(&words, piece) == cudaSuccess) {
		CHECK(cudaMemset(words, 0, piece));
		pieces.push_back(words);
	}
	cudaGetLastError();
	cudaMemGetInfo(&available, &total);
	printf("%zu MiB of %zu are allocated, %zu free; ", pieces.size() * piece >> 20, total >> 20, available >> 20);
	if (pieces.size() * piece > changed)
		pieces.resize(changed / piece);
	printf("%zu changed\n", pieces.size() * piece >> 20);
	fflush(stdout);
	CHECK(cudaMemcpy(table, pieces.data(), pieces.size() * sizeof(int *), cudaMemcpyHostToDevice));
	for (int i = 0; i < launches; i++) {
		auto begun = std::chrono::steady_clock::now();
		add_one<<<dim3(64, (unsigned)pieces.size()), 256>>>(table, piece / sizeof(int));
		const char *result = cudaGetErrorString(cudaDeviceSynchronize());
		std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begun;
		printf("launch: %s, %.1f ms; ", result, ms.count());
	}
	for (int *p : pieces) {
		CHECK(cudaMemcpy(&found, p + piece / sizeof(int) - 1, sizeof(found), cudaMemcpyDeviceToHost));
		wrong += found != launches;
	}
	printf("%d of %zu pieces wrong; %ld MiB of the host\n", wrong, pieces.size(), host_mib());
	return wrong != 0;
}
