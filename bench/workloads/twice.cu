// twice.cu: records itself twice, the second time with a stream from before; or, with an argument, launches for ever.
// build: nvcc -Iinclude -o twice twice.cu -L<build> -lpitot
#include <cstdio>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

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
	char folder[4096], path[5000];

	if (!getcwd(folder, sizeof(folder)))
		exit(1);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	mkdir(path, 0700);
	setenv("PITOT_RECORDING", path, 1);
	printf("%s: pitot_init says %d\n", name, pitot_init());
	work(stream, a, 1000);
	pitot_stop();
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
