// kinds.cu: one of everything that a recording can hold: kernels of every launch kind, copies and sets of every kind,
// synchronizations, events, graphs, streams, threads, allocations, NVTX. Prints what it did, for tests to compare with.
// build: nvcc -arch=sm_90 -std=c++17 -O2 -o kinds kinds.cu
#include <atomic>
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <thread>
#include <vector>

static std::atomic<long> kernels, copies, sets;

#define CHECK(call)                                                                                \
	do {                                                                                       \
		cudaError_t error_ = (call);                                                       \
		if (error_ != cudaSuccess) {                                                       \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

// A function of the driver without linking it: the program builds on machines that have none.
#define DRIVER(name) ((decltype(&name))dlsym(dlopen("libcuda.so.1", RTLD_NOW), #name))

__global__ void scale(float *a, int n, float f)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		a[i] = a[i] * f + 0.5f;
}

__global__ void spin(long long cycles)
{
	long long start = clock64();
	while (clock64() - start < cycles)
		;
}

template <typename T, int N> __global__ void reduce_rows(const T *in, T *out)
{
	__shared__ T part[N];
	part[threadIdx.x] = in[blockIdx.x * N + threadIdx.x];
	__syncthreads();
	if (threadIdx.x == 0) {
		T sum = 0;
		for (int i = 0; i < N; i++)
			sum += part[i];
		out[blockIdx.x] = sum;
	}
}

__global__ void cooperative(float *a)
{
	cooperative_groups::this_grid().sync();
	a[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void __cluster_dims__(2, 1, 1) clustered(float *a)
{
	cooperative_groups::this_cluster().sync();
	a[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

static const int N = 1 << 20;

static void launches(float *a, float *b)
{
	nvtxRangePushA("launches");
	for (int i = 0; i < 10; i++, kernels++)
		scale<<<(N + 255) / 256, 256>>>(a, N, 1.5f);
	reduce_rows<float, 128><<<N / 128, 128>>>(a, b);
	kernels++;
	scale<<<dim3(4, 2, 1), dim3(32, 4, 2), 1024>>>(a, 1024, 2.0f);
	kernels++;
	void *args[] = { &a };
	CHECK(cudaLaunchCooperativeKernel((void *)cooperative, dim3(16), dim3(64), args, 0, 0));
	kernels++;
	clustered<<<8, 64>>>(a);
	kernels++;
	CHECK(cudaGetLastError());
	nvtxRangePop();
}

static void copy_everything(float *a, float *b)
{
	std::vector<float> pageable(N);
	float *pinned, *managed;
	cudaArray_t array;
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();

	nvtxRangePushA("copies");
	CHECK(cudaMallocHost(&pinned, N * 4));
	CHECK(cudaMallocManaged(&managed, N * 4));
	CHECK(cudaMallocArray(&array, &format, 256, 256));
	CHECK(cudaMemcpy(a, pageable.data(), N * 4, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpyAsync(a, pinned, N * 4, cudaMemcpyHostToDevice, 0));
	CHECK(cudaMemcpyAsync(pinned, a, N * 4, cudaMemcpyDeviceToHost, 0));
	CHECK(cudaMemcpy(pageable.data(), a, N * 4, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(b, a, N * 4, cudaMemcpyDeviceToDevice));
	CHECK(cudaMemcpyAsync(managed, a, N * 4, cudaMemcpyDefault, 0));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, a, 1024, 1024, 256, cudaMemcpyDeviceToDevice));
	CHECK(cudaMemcpy2DFromArray(pinned, 1024, array, 0, 0, 1024, 256, cudaMemcpyDeviceToHost));
	copies += 8;
	CHECK(cudaMemset(a, 0, N * 4));
	CHECK(cudaMemsetAsync(b, 1, N, 0));
	CHECK(DRIVER(cuMemsetD32Async)((CUdeviceptr)b, 7, N, 0) == CUDA_SUCCESS ? cudaSuccess : cudaErrorUnknown);
	sets += 3;
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFreeArray(array));
	CHECK(cudaFree(managed));
	CHECK(cudaFreeHost(pinned));
	nvtxRangePop();
}

static void wait_everyhow(float *a)
{
	cudaStream_t s, t;
	cudaEvent_t e, f;

	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithPriority(&t, cudaStreamDefault, -1));
	CHECK(cudaEventCreate(&e));
	CHECK(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));
	spin<<<1, 1, 0, s>>>(2000000);
	CHECK(cudaEventRecord(e, s));
	CHECK(cudaStreamWaitEvent(t, e, 0));
	scale<<<16, 256, 0, t>>>(a, 4096, 1.0f);
	CHECK(cudaEventRecord(f, t));
	CHECK(cudaEventSynchronize(e));
	CHECK(cudaStreamSynchronize(t));
	spin<<<1, 1, 0, s>>>(1000000);
	kernels += 3;
	CHECK(cudaDeviceSynchronize());
	CHECK(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS ? cudaSuccess : cudaErrorUnknown);
	CHECK(cudaEventDestroy(e));
	CHECK(cudaEventDestroy(f));
	CHECK(cudaStreamDestroy(s));
	CHECK(cudaStreamDestroy(t));
}

static void graphs(float *a, float *b)
{
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamCreate(&s));
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 20; i++)
		scale<<<16, 256, 0, s>>>(a, 4096, 1.0f + i);
	CHECK(cudaMemcpyAsync(b, a, 4096, cudaMemcpyDeviceToDevice, s));
	CHECK(cudaMemsetAsync(b, 0, 4096, s));
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 5; i++, kernels += 20, copies++, sets++)
		CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(s));
}

static void worker(int number)
{
	cudaStream_t streams[2];
	float *a;
	char name[32];

	snprintf(name, sizeof(name), "worker %d", number);
	nvtxNameOsThreadA(0, name);
	nvtxDomainHandle_t domain = nvtxDomainCreateA("workers");
	nvtxEventAttributes_t attributes = {};
	attributes.version = NVTX_VERSION;
	attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
	attributes.message.ascii = name;
	attributes.category = 3;
	attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
	attributes.payload.llValue = number;
	nvtxRangeId_t range = nvtxDomainRangeStartEx(domain, &attributes);
	CHECK(cudaMallocAsync(&a, 4096 * 4, 0));
	for (auto &s : streams)
		CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CHECK(cudaStreamSynchronize(0));
	for (int i = 0; i < 50; i++, kernels++) {
		nvtxDomainMarkEx(domain, &attributes);
		scale<<<16, 256, 0, streams[i % 2]>>>(a, 4096, 1.0f);
	}
	for (auto &s : streams) {
		CHECK(cudaStreamSynchronize(s));
		CHECK(cudaStreamDestroy(s));
	}
	CHECK(cudaFreeAsync(a, 0));
	nvtxDomainRangeEnd(domain, range);
}

int main()
{
	float *a, *b;

	CHECK(cudaMalloc(&a, N * 4));
	CHECK(cudaMalloc(&b, N * 4));
	launches(a, b);
	copy_everything(a, b);
	wait_everyhow(a);
	graphs(a, b);
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(worker, i);
	for (auto &t : threads)
		t.join();
	nvtxMarkA("done");
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	printf("kernels=%ld copies=%ld sets=%ld\n", kernels.load(), copies.load(), sets.load());
	return 0;
}
