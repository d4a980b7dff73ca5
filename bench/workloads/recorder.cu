// recorder.cu: programs that end badly or launch steadily, for bench/gpu_recorder.py.
// usage: recorder hang | illegal | assert | memory
//        recorder kill COUNTS        launches for ever, and counts into the file COUNTS
//        recorder steady COUNTS S    launches 20,000 kernels a second for S seconds, and prints how late it was
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#include <algorithm>

__global__ void tiny(float *a) { a[threadIdx.x] += 1; }
__global__ void waits_for_flag(volatile int *flag) { while (!*flag); }
__global__ void writes_nowhere(int *at) { *at = 1; }
__global__ void asserts(int n) { assert(n < 0); }

struct counts { // of the file: what the program knows of itself
	volatile unsigned long long launched, ended, ended_ns;
};

static unsigned long long now_ns()
{
	timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static counts *open_counts(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *at = fd < 0 || ftruncate(fd, sizeof(counts)) < 0 ? MAP_FAILED
		   : mmap(nullptr, sizeof(counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		exit(10);
	return static_cast<counts *>(at);
}

static int ended(const char *what)
{
	cudaError_t error = cudaDeviceSynchronize();

	fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
	return error == cudaSuccess ? 11 : 3;
}

static void kill_me(float *a, counts *c)
{
	for (unsigned burst = 1;; burst = burst % 250 + 1) { // waits after 1 to 250 launches
		for (unsigned i = 0; i < burst; i++) {
			tiny<<<1, 32>>>(a);
			c->launched = c->launched + 1;
		}
		cudaDeviceSynchronize();
		c->ended_ns = now_ns();
		c->ended = c->launched;
		if (burst % 50 == 0)
			usleep(3000);
	}
}

static void steady(float *a, counts *c, unsigned seconds)
{
	const unsigned long long gap_ns = 50000, start = now_ns();
	std::vector<unsigned> late; // of each launch, in ns

	late.reserve(seconds * 20000u);
	for (unsigned long long i = 0; i < seconds * 20000ull; i++) {
		unsigned long long due = start + i * gap_ns, now;

		while ((now = now_ns()) < due)
			;
		tiny<<<1, 32>>>(a);
		late.push_back(std::min<unsigned long long>(now - due, 4000000000u));
		c->launched = i + 1;
		if (i % 1000 == 999)
			cudaDeviceSynchronize();
	}
	cudaDeviceSynchronize();
	std::sort(late.begin(), late.end());
	printf("{\"launched\": %llu, \"late_us\": {\"p50\": %.1f, \"p99\": %.1f, \"p99.99\": %.1f, \"max\": %.1f}}\n", c->launched,
	       late[late.size() / 2] / 1e3, late[late.size() / 100 * 99] / 1e3, late[late.size() / 10000 * 9999] / 1e3,
	       late.back() / 1e3);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	float *a;
	int *flag;

	if (cudaMalloc(&a, 4096) != cudaSuccess || cudaHostAlloc(&flag, sizeof(*flag), cudaHostAllocMapped) != cudaSuccess)
		return 12;
	for (int i = 0; i < 200; i++)
		tiny<<<1, 32>>>(a);
	if (cudaDeviceSynchronize() != cudaSuccess)
		return 13;
	if (!strcmp(what, "hang")) {
		*flag = 0;
		waits_for_flag<<<1, 1>>>(flag);
		for (int i = 0; i < 5; i++)
			tiny<<<1, 32>>>(a);
		return ended(what);
	}
	if (!strcmp(what, "illegal")) {
		writes_nowhere<<<1, 1>>>((int *)0x10);
		ended(what);
		abort();
	}
	if (!strcmp(what, "assert")) {
		asserts<<<1, 32>>>(7);
		return ended(what);
	}
	if (!strcmp(what, "memory")) {
		void *all;

		fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(cudaMalloc(&all, 1ull << 44)));
		return 3;
	}
	if (!strcmp(what, "kill") && argc == 3)
		kill_me(a, open_counts(argv[2]));
	if (!strcmp(what, "steady") && argc == 4)
		steady(a, open_counts(argv[2]), atoi(argv[3]));
	return 0;
}
