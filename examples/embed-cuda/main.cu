// A CUDA program that records itself. CMakeLists.txt builds it with find_package or FetchContent; with pkg-config:
//
//	nvcc main.cu -o program $(pkg-config --cflags --libs pitot)
//
// Without nvcc it is compiled as C++ against the toolkit's headers, and then launches nothing.
#include <pitot/pitot.h>

#include <cstdio>
#include <cuda_runtime_api.h>

#ifdef __CUDACC__
__global__ void fill(float *values)
{
	values[threadIdx.x] = threadIdx.x;
}

static void work()
{
	float *values = nullptr;

	if (cudaMalloc(&values, 256 * sizeof(float)) != cudaSuccess)
		return; // no GPU here
	fill<<<1, 256>>>(values);
	cudaDeviceSynchronize();
	cudaFree(values);
}
#else
static void work()
{
}
#endif

int main()
{
	const int recording = pitot_init(nullptr);

	PITOT_SCOPE("work") {
		work();
	}
	std::printf("%s %d\n", pitot_version(), recording);
	pitot_shutdown();
	return 0;
}
