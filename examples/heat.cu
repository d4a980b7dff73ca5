// heat.cu: the sample program of `make demo`: heat spreads over a plate, first launched step by step, then as a CUDA
// graph, while snapshots are copied back on a stream of their own.
//
//	nvcc -O2 -o heat heat.cu && pitot record -- ./heat
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

constexpr int side = 2048;
constexpr int steps = 400;
constexpr int steps_per_graph = 40;
constexpr int snapshot_every = 100;

__global__ void spread(const float *from, float *to)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
	int i = y * side + x;

	if (x == 0 || y == 0 || x == side - 1 || y == side - 1)
		to[i] = from[i];
	else
		to[i] = 0.25f * (from[i - 1] + from[i + 1] + from[i - side] + from[i + side]);
}

__global__ void total(const float *plate, float *sum)
{
	float mine = 0;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < side * side; i += gridDim.x * blockDim.x)
		mine += plate[i];
	atomicAdd(sum, mine);
}

struct plate {
	float *from, *to, *sum;
};

static void step(plate &p, cudaStream_t stream)
{
	spread<<<dim3(side / 32, side / 8), dim3(32, 8), 0, stream>>>(p.from, p.to);
	std::swap(p.from, p.to);
}

static cudaGraphExec_t make_graph(plate &p, cudaStream_t stream)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < steps_per_graph; i++)
		step(p, stream);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

int main()
{
	const size_t bytes = sizeof(float) * side * side;
	std::vector<float> initial(side * side, 0.0f);
	cudaStream_t compute, copies;
	cudaEvent_t stepped;
	float *snapshot, sum = 0;
	plate p;

	for (int x = 0; x < side; x++)
		initial[x] = 100.0f;
	CHECK(cudaMalloc(&p.from, bytes));
	CHECK(cudaMalloc(&p.to, bytes));
	CHECK(cudaMalloc(&p.sum, sizeof(float)));
	CHECK(cudaMallocHost(&snapshot, bytes));
	CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&stepped, cudaEventDisableTiming));
	CHECK(cudaMemcpy(p.from, initial.data(), bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemset(p.sum, 0, sizeof(float)));
	CHECK(cudaDeviceSynchronize());

	for (int i = 1; i <= steps; i++) {
		step(p, compute);
		if (i % snapshot_every)
			continue;
		CHECK(cudaEventRecord(stepped, compute));
		CHECK(cudaStreamWaitEvent(copies, stepped, 0));
		CHECK(cudaMemcpyAsync(snapshot, p.from, bytes, cudaMemcpyDeviceToHost, copies));
		CHECK(cudaStreamSynchronize(copies));
	}

	cudaGraphExec_t graph = make_graph(p, compute);
	for (int i = 0; i < steps / steps_per_graph; i++)
		CHECK(cudaGraphLaunch(graph, compute));
	total<<<256, 256, 0, compute>>>(p.from, p.sum);
	CHECK(cudaStreamSynchronize(compute));
	CHECK(cudaMemcpy(&sum, p.sum, sizeof(sum), cudaMemcpyDeviceToHost));
	printf("%d steps, mean temperature %.4f\n", 2 * steps, sum / (side * side));
	return 0;
}
