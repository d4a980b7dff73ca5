// Kernels in nested scopes; prints "scope NAME ms", measured by CUDA events, for comparison with the report.
#include <cstdio>

#include <pitot/pitot.hpp>

__global__ void spin(long long cycles)
{
	long long begin = clock64();

	while (clock64() - begin < cycles)
		;
}

static float kernels(int count, long long cycles)
{
	cudaEvent_t begin, end;
	float ms;

	cudaEventCreate(&begin);
	cudaEventCreate(&end);
	cudaEventRecord(begin);
	for (int i = 0; i < count; i++)
		spin<<<1, 32>>>(cycles);
	cudaEventRecord(end);
	cudaEventSynchronize(end);
	cudaEventElapsedTime(&ms, begin, end);
	return ms;
}

int main()
{
	float forward = 0, backward = 0;

	kernels(1, 1000); // loads the module
	if (pitot_init(nullptr) < 1)
		return 1;
	for (int i = 0; i < 20; i++) {
		pitot::Scope step("step");

		forward += pitot::monitor("forward", kernels, 10, 1000000LL);
		backward += pitot::monitor("backward", kernels, 5, 4000000LL);
	}
	pitot_shutdown();
	std::printf("scope forward %.3f\nscope backward %.3f\nscope step %.3f\n", forward, backward, forward + backward);
	return 0;
}
