// twice.cu: records itself twice, the second time with a stream created before; or, with an argument, launches forever.
// build: nvcc -Iinclude -o twice twice.cu -L<build> -lpitot
#include <cstdio>
#include <cstdlib>

#include <pitot/pitot.h>

__global__ void tiny(float *a)
{
	a[threadIdx.x] += 1;
}

static void work(cudaStream_t stream, float *a, long launches)
{
	for (long i = 0; i != launches; i++)
		tiny<<<1, 64, 0, i % 2 ? stream : 0>>>(a);
	cudaDeviceSynchronize();
}

static void record(const char *name, cudaStream_t stream, float *a)
{
	pitot_options options = {};
	pitot_session *session;

	options.size = sizeof(options);
	options.directory = name;
	session = pitot_start(&options);
	printf("%s: %s\n", name, session ? "recording" : pitot_error());
	work(stream, a, 1000);
	pitot_stop(session);
}

int main(int argc, char **)
{
	cudaStream_t stream;
	float *a;

	cudaMalloc(&a, 64 * sizeof(float));
	cudaStreamCreate(&stream);
	work(stream, a, argc > 1 ? -1 : 100);
	record("twice-1.pitot", stream, a);
	work(stream, a, 100);
	record("twice-2.pitot", stream, a);
	return 0;
}
