// endings.cu: launches kernels and leaves in the way that the first argument names.
// usage: endings return|exit|_exit|kill|term|abort|segv|reset|thread-exit|exec|loop [launches = 20000]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csignal>
#include <cuda_runtime.h>
#include <string>
#include <thread>
#include <unistd.h>

__global__ void add(float *a)
{
	a[threadIdx.x] += 1;
}

static void launch_some(float *a, int n)
{
	for (int i = 0; i < n; i++)
		add<<<1, 64>>>(a);
}

int main(int argc, char **argv)
{
	std::string how = argc > 1 ? argv[1] : "return";
	int launches = argc > 2 ? atoi(argv[2]) : 20000;
	float *a;

	if (cudaMalloc(&a, 4096) != cudaSuccess)
		return 9;
	launch_some(a, launches);
	cudaDeviceSynchronize();
	printf("launched=%d\n", launches);
	fflush(stdout);
	if (how == "exit")
		exit(3);
	if (how == "_exit")
		_exit(4);
	if (how == "kill")
		raise(SIGKILL);
	if (how == "term")
		raise(SIGTERM);
	if (how == "abort")
		abort();
	if (how == "segv")
		*(volatile int *)8 = 1;
	if (how == "exec")
		execlp("true", "true", (char *)nullptr);
	if (how == "reset") {
		cudaDeviceReset();
		if (cudaMalloc(&a, 4096) != cudaSuccess)
			return 9;
		launch_some(a, launches);
		cudaDeviceSynchronize();
		return cudaGetLastError() != cudaSuccess;
	}
	if (how == "thread-exit") {	// the process ends while another thread launches
		std::thread([=] { for (;;) launch_some(a, 1000); }).detach();
		usleep(200000);
		exit(0);
	}
	if (how == "loop")
		for (;;) {
			launch_some(a, 1000);
			cudaDeviceSynchronize();
		}
	return 0;
}
