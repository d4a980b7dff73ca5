// Captures graphs on one stream, each within an NVTX range "capture", while another thread launches beside_kernel on a stream of its own: an engine
// that measures launches or ranges must not break the captures.
// usage: captures [rounds = 60] [global|thread|relaxed]; prints how many captures, graphs and other kernels did what they are to do.
// build: nvcc -O2 -arch=native -o captures captures.cu -lpthread
#include <atomic>
#include <cstring>
#include <thread>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

#include "check.cuh"

const int nodes = 20;

__global__ void captured_kernel(int *out) { ++*out; }
__global__ void beside_kernel(int *out) { ++*out; }

static cudaStreamCaptureMode mode_of(const char *name)
{
	return strcmp(name, "thread") == 0 ? cudaStreamCaptureModeThreadLocal
	       : strcmp(name, "relaxed") == 0 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
}

static cudaError_t capture(cudaStream_t stream, cudaStreamCaptureMode mode, int *out, cudaGraph_t *graph)
{
	cudaError_t result = cudaStreamBeginCapture(stream, mode);

	for (int i = 0; i < nodes && result == cudaSuccess; i++) {
		captured_kernel<<<1, 1, 0, stream>>>(out);
		usleep(100);
	}
	return result == cudaSuccess ? cudaStreamEndCapture(stream, graph) : result;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 60, captured = 0, sums[2], *out;
	cudaStreamCaptureMode mode = mode_of(argc > 2 ? argv[2] : "global");
	cudaStream_t one, other;
	cudaError_t first_error = cudaSuccess;
	std::atomic<bool> over(false);
	int beside = 0, failed_beside = 0;

	CHECK(cudaMalloc(&out, sizeof(sums)));
	CHECK(cudaMemset(out, 0, sizeof(sums)));
	CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	captured_kernel<<<1, 1, 0, one>>>(out); // loads the module
	CHECK(cudaDeviceSynchronize());
	std::thread launcher([&] {
		for (; !over; beside++, usleep(300)) {
			beside_kernel<<<1, 1, 0, other>>>(out + 1);
			failed_beside += cudaGetLastError() != cudaSuccess;
		}
	});
	for (int i = 0; i < rounds; i++) {
		cudaGraph_t graph = NULL;
		cudaGraphExec_t exec;

		nvtxRangePushA("capture");
		cudaError_t result = capture(one, mode, out, &graph);
		nvtxRangePop();
		if (result == cudaSuccess && graph && cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess) {
			captured++;
			CHECK(cudaGraphLaunch(exec, one));
			CHECK(cudaStreamSynchronize(one));
			CHECK(cudaGraphExecDestroy(exec));
			CHECK(cudaGraphDestroy(graph));
		} else {
			first_error = first_error == cudaSuccess ? result : first_error;
			cudaGetLastError();
		}
		nvtxRangePushA("between");
		usleep(2000);
		nvtxRangePop();
	}
	over = true;
	launcher.join();
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(sums, out, sizeof(sums), cudaMemcpyDeviceToHost));
	printf("captures %d of %d (%s), their kernels %d of %d, beside %d of %d (%d failed)\n", captured, rounds, cudaGetErrorName(first_error),
	       sums[0] - 1, captured * nodes, sums[1], beside, failed_beside);
	return 0;
}
