// Two kinds of work side by side, each counted: an engine that measures the launches of beside_kernel must not break what goes on meanwhile.
// usage: beside [kernels|graph|instantiate|capture] [thread|turns] [global|local|relaxed]: what the main thread does, whether beside_kernel is launched by
// another thread or in turns with it, and how streams capture. Prints how much of both was done.
// build: nvcc -O2 -arch=native -o beside beside.cu -lpthread
#include <atomic>
#include <cstring>
#include <thread>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

#include "check.cuh"

static const int nodes = 20, rounds = 60;

__global__ void main_kernel(int *out) { ++*out; }
__global__ void beside_kernel(int *out) { ++*out; }

struct work {
	const char *kind;
	cudaStreamCaptureMode mode;
	cudaStream_t stream;
	int *out, done;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaError_t error; // the first one of a capture
};

static void launch_kernels(const work &w)
{
	for (int i = 0; i < nodes; i++) {
		main_kernel<<<1, 1, 0, w.stream>>>(w.out);
		usleep(100);
	}
}

// Returns whether there is a new graph.
static bool capture(work &w)
{
	cudaGraph_t graph = NULL;
	cudaError_t result = cudaStreamBeginCapture(w.stream, w.mode);

	launch_kernels(w);
	if (result == cudaSuccess)
		result = cudaStreamEndCapture(w.stream, &graph);
	if (result != cudaSuccess) {
		w.error = w.error == cudaSuccess ? result : w.error;
		cudaGetLastError();
		return false;
	}
	if (w.graph)
		CHECK(cudaGraphDestroy(w.graph));
	w.graph = graph;
	return true;
}

static void instantiate(work &w)
{
	if (w.exec)
		CHECK(cudaGraphExecDestroy(w.exec));
	CHECK(cudaGraphInstantiate(&w.exec, w.graph, 0));
}

static void do_round(work &w)
{
	if (strcmp(w.kind, "kernels") == 0) {
		launch_kernels(w);
	} else {
		if (strcmp(w.kind, "capture") == 0 && !capture(w))
			return;
		if (strcmp(w.kind, "graph") != 0)
			instantiate(w);
		CHECK(cudaGraphLaunch(w.exec, w.stream));
		usleep(2000);
	}
	CHECK(cudaStreamSynchronize(w.stream));
	w.done += nodes;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 3 ? argv[3] : "global";
	bool is_thread = argc <= 2 || strcmp(argv[2], "thread") == 0;
	std::atomic<bool> over(false);
	int beside = 0, failed = 0, sums[2];
	cudaStream_t stream;
	work w = {};

	w.kind = argc > 1 ? argv[1] : "kernels";
	w.mode = strcmp(mode, "local") == 0 ? cudaStreamCaptureModeThreadLocal
		 : strcmp(mode, "relaxed") == 0 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
	CHECK(cudaMalloc(&w.out, sizeof(sums)));
	CHECK(cudaMemset(w.out, 0, sizeof(sums)));
	CHECK(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	if (capture(w))
		instantiate(w);
	auto launch = [&] {
		beside_kernel<<<1, 1, 0, stream>>>(w.out + 1);
		failed += cudaGetLastError() != cudaSuccess;
		beside++;
	};
	std::thread launcher([&] {
		for (; is_thread && !over; usleep(300))
			launch();
	});
	for (int i = 0; i < rounds; i++) {
		nvtxRangePushA("main");
		do_round(w);
		nvtxRangePop();
		if (!is_thread) {
			launch();
			CHECK(cudaStreamSynchronize(stream));
		}
		nvtxRangePushA("between");
		usleep(1000);
		nvtxRangePop();
	}
	over = true;
	launcher.join();
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(sums, w.out, sizeof(sums), cudaMemcpyDeviceToHost));
	printf("%s: main %d of %d in %d of %d rounds (%s), beside %d of %d, %d failed\n", w.kind, sums[0], w.done, w.done / nodes, rounds,
	       cudaGetErrorName(w.error), sums[1], beside, failed);
	return 0;
}
