/*
 * hip_program.c: a program that uses HIP and ROCTx, the stand-ins': hip_program [ROUNDS [WHAT]].
 * WHAT: fork (a child of it calls HIP, too, in the middle), graphs (it launches two of them),
 * memory (it allocates some), rccl (all-reduces, of which RCCL tells its profiler plug-in), forced
 * or forced-later (before HIP or after the first round, it forces the tool FORCED_TOOL upon
 * ROCprofiler-SDK, and prints the status).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/nccl/nccl_abi.h"

struct dim3 {
	uint32_t x, y, z;
};
int hipLaunchKernel(uintptr_t f, struct dim3 grid, struct dim3 block, void **args, size_t shared,
		    uint64_t stream);
int hipExtModuleLaunchKernel(uintptr_t f, uint32_t x, uint32_t y, uint32_t z, uint32_t gx,
			     uint32_t gy, uint32_t gz, size_t shared, uint64_t stream);
int hipMemcpy(void *to, const void *from, size_t bytes, int kind);
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, uint64_t stream);
int hipGraphLaunch(uint64_t graph, uint64_t stream);
int hipMalloc(void **out, size_t bytes);
int hipFree(void *memory);
int hipHostMalloc(void **out, size_t bytes, unsigned flags);
int hipHostFree(void *memory);
int hipDeviceSynchronize(void);
int hipStreamSynchronize(uint64_t stream);
void roctxMarkA(const char *message);
int roctxRangePushA(const char *message);
int roctxRangePop(void);
uint64_t roctxRangeStartA(const char *message);
void roctxRangeStop(uint64_t id);

__attribute__((noinline)) static void launch_all(unsigned round)
{
	hipLaunchKernel(0, (struct dim3){ 8, 2, 1 }, (struct dim3){ 256, 1, 1 }, NULL, 512, 3);
	hipExtModuleLaunchKernel(1, 1000, 1, 1, 64, 1, 1, 0, 5);
	hipLaunchKernel(1, (struct dim3){ 4, 1, 1 }, (struct dim3){ 64, 4, 1 }, NULL, 0,
			round % 2 ? 9 : 0);
	hipMemcpyAsync(NULL, NULL, 4096, 1, 3);
	hipMemcpy(NULL, NULL, 1 << 20, 2);
	hipMemcpyAsync(NULL, NULL, 777, 4, 3);
}

/* Executable graphs 3 and 5, of 4 and 6 nodes. Work after a launch is in none. */
static void launch_graphs(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		hipGraphLaunch(3, 4);
		hipMemcpyAsync(NULL, NULL, 1, 1, 3);
		hipGraphLaunch(5, 6);
	}
}

static void use_memory(void)
{
	void *small, *large, *host, *none, *kept;

	hipMalloc(&small, 4096);
	hipMalloc(&large, (1 << 21) + 1); /* of the second GPU, by a handle */
	hipHostMalloc(&host, 8192, 0);
	hipMalloc(&none, 0);
	hipMalloc(&kept, 64);
	hipFree(small);
	hipFree(large);
	hipHostFree(host);
	hipFree((void *)0x1000); /* allocated before anybody looked */
}

static int mask; /* of events that the plug-in wants */

struct context {
	void *context;
	const struct nccl_plugin *plugin;
};

static void *start(struct context *c, void *parent, struct nccl_event event)
{
	void *handle = NULL;

	event.parent = parent;
	if (mask & (int)event.type)
		c->plugin->start_event(c->context, &handle, &event);
	return handle;
}

static void stop(struct context *c, void *handle)
{
	if (handle)
		c->plugin->stop_event(handle);
}

/* As RCCL enqueues a group of one: its launch, then what the launch carries. */
static void all_reduce(struct context *c, uint64_t sequence)
{
	void *group = start(c, NULL, (struct nccl_event){ .type = NCCL_GROUP_API });
	void *call = start(c, group,
			   (struct nccl_event){ .type = NCCL_COLLECTIVE_API,
						.collective_api = { .function = "AllReduce",
								    .count = 1000,
								    .datatype = "ncclFloat32" } });
	void *launch = start(c, group, (struct nccl_event){ .type = NCCL_KERNEL_LAUNCH });

	hipLaunchKernel(2, (struct dim3){ 64, 1, 1 }, (struct dim3){ 64, 1, 1 }, NULL, 0, 6);
	stop(c, launch);
	stop(c, start(c, call,
		      (struct nccl_event){ .type = NCCL_COLLECTIVE,
					   .collective = { .sequence = sequence,
							   .function = "AllReduce",
							   .count = 1000,
							   .datatype = "ncclFloat32",
							   .channels = 4,
							   .algorithm = "RING",
							   .protocol = "LL" } }));
	stop(c, call);
	stop(c, group);
}

static void use_rccl(unsigned rounds)
{
	const char *path = getenv("NCCL_PROFILER_PLUGIN");
	void *library = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*init)(void **context, uint64_t hash, int *mask, const char *name, int nodes,
		    int ranks, int rank, const void *logger);
	struct context c = { .context = NULL };

	c.plugin = library ? dlsym(library, "ncclProfiler_v5") : NULL;
	if (!c.plugin)
		return;
	*(void **)&init = c.plugin->init;
	init(&c.context, 77, &mask, "world", 1, 2, 0, NULL);
	/* The recorder sets it when its window opens, on a thread of its own. */
	for (unsigned i = 0; i < 30000 && !__atomic_load_n(&mask, __ATOMIC_RELAXED); i++)
		usleep(1000);
	for (unsigned i = 0; i < rounds; i++)
		all_reduce(&c, i);
	c.plugin->finalize(c.context);
}

static void force_tool(void)
{
	char path[4096];
	void *sdk, *tool;
	int (*force)(void *);

	snprintf(path, sizeof(path), "%s/lib/librocprofiler-sdk.so.1", getenv("ROCM_PATH"));
	sdk = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
	tool = dlopen(getenv("FORCED_TOOL"), RTLD_LAZY | RTLD_LOCAL);
	*(void **)&force = sdk && tool ? dlsym(sdk, "rocprofiler_force_configure") : NULL;
	if (!force)
		abort();
	printf("forced: %d\n", force(dlsym(tool, "rocprofiler_configure")));
}

int main(int argc, char **argv)
{
	const char *forced = argc > 2 && strncmp(argv[2], "forced", 6) == 0 ? argv[2] + 6 : NULL;
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 3;
	uint64_t range;

	if (forced && !*forced)
		force_tool();
	hipDeviceSynchronize();
	range = roctxRangeStartA("the whole");
	for (unsigned i = 0; i < rounds; i++) {
		roctxRangePushA("round");
		launch_all(i);
		roctxRangePop();
		if (forced && *forced && i == 0)
			force_tool();
	}
	if (argc > 2 && strcmp(argv[2], "graphs") == 0)
		launch_graphs(rounds);
	if (argc > 2 && strcmp(argv[2], "memory") == 0)
		use_memory();
	if (argc > 2 && strcmp(argv[2], "rccl") == 0)
		use_rccl(rounds);
	if (argc > 2 && strcmp(argv[2], "fork") == 0 && fork() == 0) {
		hipMemcpyAsync(NULL, NULL, 1, 1, 3);
		roctxMarkA("the child's");
		_exit(0);
	}
	wait(NULL);
	roctxMarkA("a mark");
	hipStreamSynchronize(77);
	hipDeviceSynchronize();
	roctxRangeStop(range);
	printf("done\n");
	return 7;
}
