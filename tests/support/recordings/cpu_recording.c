/*
 * cpu_recording.c: a training loop in Python whose GPU mostly waits for the CPU, as it is seen from
 * inside (process 100: work, calls with stacks) and by a CPU sampler outside (100 and its worker
 * 101). Nothing in it was measured.
 *
 * A step of 10 ms:
 *
 *	ms  0 ...... 3 ....................... 6.1 ... 6.3 ............ 7.8 ......... 10
 *	    loads    copies, launches 4        .item() launches, waits  optimizer
 *	    GPU idle GPU busy, with gaps               GPU busy         GPU idle
 */
#include <string.h>

#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START (NS_PER_S)
#define STEPS 10
#define US UINT64_C(1000)
#define WEIGHT (1000 * US)
#define MAIN 100
#define BACKWARD 102
#define WORKER 101

#define PYTHON UINT64_C(0x400000)
#define TORCH UINT64_C(0x7f1000000000)
#define LIBC UINT64_C(0x7f2000000000)
#define CUDART UINT64_C(0x7f3000000000)
#define CUDA UINT64_C(0x7f4000000000)
#define KERNEL UINT64_C(0xffffffff81000000)

#define DATALOADER "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py"
#define LINEAR "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py"
#define QUEUES "/usr/lib/python3.11/multiprocessing/queues.py"
#define TRAIN "/home/user/train.py"

static void place(struct maker *m, uint64_t address, const char *function, const char *module,
		  const char *file, uint32_t line)
{
	uint64_t bias = address < TORCH || address >= KERNEL ? 0 : address & ~UINT64_C(0xfffff);

	maker_symbol(m, address, 0, function, module, file, line, address - bias - 0x10);
}

static void modules(struct maker *m)
{
	static const char python[] = "/usr/bin/python3.11", cuda[] = "/usr/lib/libcuda.so.1",
			  torch[] = "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so",
			  libc[] = "/usr/lib/x86_64-linux-gnu/libc.so.6",
			  cudart[] = "/usr/local/cuda/lib64/libcudart.so.12";

	maker_module(m, python, "00112233", PYTHON, PYTHON + 0x100000, 0);
	maker_module(m, torch, "aa112233", TORCH, TORCH + 0x100000, TORCH);
	maker_module(m, libc, "bb112233", LIBC, LIBC + 0x100000, LIBC);
	maker_module(m, cudart, NULL, CUDART, CUDART + 0x100000, CUDART);
	maker_module(m, cuda, NULL, CUDA, CUDA + 0x100000, CUDA);
	place(m, PYTHON + 0x110, "main", python, "/build/Programs/python.c", 15);
	place(m, PYTHON + 0x210, "list_sort", python, "/build/Objects/listobject.c", 2310);
	place(m, TORCH + 0x110, "at::native::addmm_out(at::Tensor&)", torch, "/build/linear.cpp",
	      88);
	place(m, TORCH + 0x210, "at::native::adam_step(at::Tensor&)", torch, "/build/adam.cpp", 41);
	place(m, LIBC + 0x110, "read", libc, NULL, 0);
	place(m, CUDART + 0x110, "cudaLaunchKernel", cudart, NULL, 0);
	place(m, CUDART + 0x210, "cudaStreamSynchronize", cudart, NULL, 0);
	place(m, KERNEL + 0x110, "ksys_read", "[kernel]", NULL, 0);
	place(m, KERNEL + 0x210, "copy_page_to_iter", "[kernel]", NULL, 0);
}

/* Adds the outermost frames of all stacks of the main thread, with their line of train.py. */
static uint32_t train(struct maker *m, uint32_t line)
{
	uint32_t node = maker_native(m, 0, PYTHON + 0x110);

	node = maker_python(m, node, "<module>", TRAIN, 80);
	return maker_python(m, node, "step", TRAIN, line);
}

static uint32_t linear(struct maker *m)
{
	return maker_native(m, maker_python(m, train(m, 60), "Linear.forward", LINEAR, 125),
			    TORCH + 0x110);
}

static uint32_t whole(struct maker *m, uint32_t node)
{
	return maker_stack(m, node, 5, stack_end_complete);
}

/* --- from inside: calls and work --- */

static void call(struct maker *m, enum maker_function function, uint32_t stack, uint64_t start_us,
		 uint64_t end_us, uint64_t correlation)
{
	m->stack = stack;
	maker_call(m, function, MAIN, START + start_us * US, START + end_us * US, correlation);
}

static void kernel(struct maker *m, uint32_t config, uint64_t start_us, uint64_t length_us,
		   uint64_t correlation)
{
	maker_kernel(m, config, 7, START + start_us * US, START + (start_us + length_us) * US,
		     correlation);
}

static void range(struct maker *m, const char *name, uint64_t at_us)
{
	maker_nvtx(m, name ? nvtx_kind_push : nvtx_kind_pop, MAIN, name, START + at_us * US);
}

static void work(struct maker *m)
{
	uint32_t gemm = maker_config(m, "_Z4gemmPfS_S_", 128, 256);
	uint32_t adam = maker_config(m, "_Z4adamPfS_", 64, 128);
	uint32_t forward = whole(m, maker_native(m, linear(m), CUDART + 0x110));
	uint32_t load = whole(m, train(m, 58)), item = whole(m, train(m, 63));
	uint32_t update = whole(
		m, maker_native(m, maker_native(m, train(m, 64), TORCH + 0x210), CUDART + 0x110));
	uint32_t wait = whole(m, maker_native(m, train(m, 65), CUDART + 0x210));

	for (uint64_t i = 0; i < STEPS; i++) {
		uint64_t at = 1000 + i * 10000, id = 1 + i * 100;

		range(m, "step", at);
		call(m, MAKER_MEMCPY, load, at + 3000, at + 3005, id);
		maker_memcpy(m, copy_kind_HtoD, 4 << 20, 7, START + (at + 3010) * US,
			     START + (at + 3210) * US, id);
		range(m, "forward", at + 3250);
		for (uint64_t k = 0; k < 4; k++) {
			call(m, MAKER_RUNTIME_LAUNCH, forward, at + 3300 + k * 700,
			     at + 3305 + k * 700, id + 1 + k);
			kernel(m, gemm, at + 3310 + k * 700, 500, id + 1 + k);
		}
		range(m, NULL, at + 6000);
		call(m, MAKER_MEMCPY_BLOCKING, item, at + 6100, at + 6140, id + 5);
		maker_memcpy(m, copy_kind_DtoH, 4, 7, START + (at + 6110) * US,
			     START + (at + 6130) * US, id + 5);
		call(m, MAKER_RUNTIME_LAUNCH, update, at + 6300, at + 6305, id + 6);
		kernel(m, adam, at + 6310, 1500, id + 6);
		call(m, MAKER_STREAM_SYNCHRONIZE, wait, at + 6310, at + 7820, id + 7);
		range(m, NULL, at + 9900);
	}
	m->stack = 0;
}

/* --- samples --- */

static void sample(struct maker *m, uint32_t thread, uint64_t at_us, uint32_t stack)
{
	maker_cpu_sample(m, thread, START + at_us * US, WEIGHT, stack);
}

static void main_samples(struct maker *m, bool off_cpu)
{
	uint32_t loader = maker_python(m, train(m, 57), "DataLoader.__next__", DATALOADER, 630);
	uint32_t get = maker_python(m, loader, "Queue.get", QUEUES, 103);
	uint32_t reading = maker_native(m, get, LIBC + 0x110), optimizer = train(m, 66), stacks[10];

	stacks[0] =
		whole(m, maker_exact(m, maker_exact(m, reading, frame_kind_kernel, KERNEL + 0x110),
				     frame_kind_kernel, KERNEL + 0x210));
	stacks[1] = stacks[2] = whole(m, get);
	stacks[3] = whole(m, linear(m));
	stacks[4] = stacks[5] =
		whole(m, maker_exact(m, linear(m), frame_kind_interrupted, CUDART + 0x118));
	/* spins in the driver while waiting */
	stacks[6] = stacks[7] =
		whole(m, maker_exact(m, maker_native(m, train(m, 65), CUDART + 0x210),
				     frame_kind_interrupted, CUDA + 0x500));
	stacks[8] = whole(m, maker_exact(m, optimizer, frame_kind_interrupted, PYTHON + 0x210));
	stacks[9] = maker_stack(m, optimizer, 3, stack_end_truncated);
	for (uint64_t i = 0; i < STEPS; i++) {
		for (uint64_t k = 0; k < 10; k++)
			sample(m, MAIN, 1500 + i * 10000 + k * 1000, stacks[k]);
		sample(m, BACKWARD, 5000 + i * 10000, 0);
		if (off_cpu)
			maker_off_cpu(m, MAIN, START + (2600 + i * 10000) * US,
				      START + (3400 + i * 10000) * US, off_cpu_state_sleeping,
				      whole(m, reading));
	}
}

static void worker_samples(struct maker *m, bool off_cpu)
{
	uint32_t node = maker_python(m, maker_native(m, 0, PYTHON + 0x110), "Images.__getitem__",
				     "/home/user/images.py", 21);
	uint32_t stack = whole(m, maker_exact(m, node, frame_kind_interrupted, PYTHON + 0x210));

	for (uint64_t i = 0; i < 40; i++)
		sample(m, WORKER, 1700 + i * 2000, stack);
	if (off_cpu)
		maker_off_cpu(m, WORKER, START + 90000 * US, START + 95000 * US,
			      off_cpu_state_runnable, 0);
}

static void names(struct maker *m)
{
	maker_thread(m, MAIN, "python", START);
	maker_thread(m, BACKWARD, "pt_autograd_0", START);
}

static void write_inside(const char *folder, bool samples, bool sampled)
{
	struct maker *m = maker_begin(folder, MAIN, START, "python train.py");

	maker_device(m, 0, START);
	names(m);
	modules(m);
	work(m);
	if (samples)
		main_samples(m, false);
	if (samples)
		maker_capability_actual(m, feature_cpu, capability_state_degraded,
					"timer at 1000 Hz",
					"perf_event_open is not allowed here (seccomp)");
	else if (!sampled)
		maker_capability(m, feature_cpu, capability_state_off, "not asked for (--no-cpu)");
	maker_close(m, START + 110000 * US);
}

static void write_sampled(const char *folder, bool off_cpu)
{
	struct maker *m = maker_begin_sampler(folder, MAIN, START + 500, "python train.py");

	maker_capability_actual(m, feature_cpu, capability_state_on, "perf_event at 1000 Hz", NULL);
	modules(m);
	names(m);
	main_samples(m, off_cpu);
	maker_close(m, START + 109000 * US);
	m = maker_begin_sampler(folder, WORKER, START + 1600 * US, "python train.py");
	modules(m);
	maker_thread(m, WORKER, "python", START + 1600 * US);
	worker_samples(m, off_cpu);
	maker_close(m, START + 108000 * US);
}

/* search() calls itself 100 deep and checks; a third of the time it looks something up half way. */
void recording_cpu_deep(const char *folder)
{
	struct maker *m = maker_begin_sampler(folder, MAIN, START, "python search.py");
	uint32_t node = maker_python(m, 0, "<module>", "/home/user/search.py", 20), half = 0;

	for (int depth = 0; depth < 100; depth++) {
		node = maker_python(m, node, "search", "/home/user/search.py", 7);
		half = depth == 49 ? node : half;
	}
	node = whole(m, maker_python(m, node, "check", "/home/user/search.py", 3));
	half = whole(m, maker_python(m, half, "look_up", "/home/user/search.py", 12));
	for (uint64_t i = 0; i < 30; i++)
		sample(m, MAIN, 1000 + i * 1000, i % 3 ? node : half);
	maker_close(m, START + 40000 * US);
}

/* A process whose threads, numbered from its pid on, are sampled every ms from start to end. */
static void write_command(const char *folder, uint32_t pid, const char *command, uint32_t threads,
			  uint64_t start_ms, uint64_t end_ms, uint64_t samples)
{
	struct maker *m = maker_begin_sampler(folder, pid, START + start_ms * 1000 * US, command);
	bool in_kernel = !strncmp(command, "cat", 3);
	uint32_t stack;

	maker_capability(m, feature_gpu, capability_state_off, "--cpu-only");
	maker_capability_actual(m, feature_cpu, capability_state_on, "perf_event at 1000 Hz", NULL);
	maker_module(m, "/usr/bin/tool", "cc112233", PYTHON, PYTHON + 0x100000, 0);
	place(m, PYTHON + 0x110, "main", "/usr/bin/tool", "/build/tool.c", 15);
	place(m, KERNEL + 0x110, "ksys_read", "[kernel]", NULL, 0);
	stack = maker_native(m, 0, PYTHON + 0x110);
	if (in_kernel)
		stack = maker_exact(m, stack, frame_kind_kernel, KERNEL + 0x110);
	stack = whole(m, stack);
	for (uint32_t thread = 0; thread < threads; thread++)
		for (uint64_t i = 0; i < samples; i++)
			sample(m, pid + thread, (start_ms + i) * 1000, stack);
	maker_close(m, START + end_ms * 1000 * US);
}

void recording_cpu_commands(const char *folder)
{
	write_command(folder, 200, "bash -c 'make && python3 -u /x/train.py'", 1, 0, 200, 1);
	write_command(folder, 210, "/usr/lib/gcc/cc1 -quiet a.c", 1, 10, 50, 40);
	write_command(folder, 220, "/usr/lib/gcc/cc1 -quiet b.c", 1, 30, 70, 36);
	write_command(folder, 230, "cat big", 1, 70, 100, 20);
	write_command(folder, 240, "python3 -u /x/train.py --lr 1", 3, 100, 200, 60);
}

void recording_cpu_unsampled(const char *folder)
{
	write_command(folder, 200, "sleep 1", 1, 0, 100, 0);
}

void recording_cpu_all(const char *folder)
{
	write_sampled(folder, true);
	write_inside(folder, false, true);
}

void recording_cpu_cpu(const char *folder)
{
	write_sampled(folder, false);
	write_inside(folder, false, true);
}

void recording_cpu_inside(const char *folder)
{
	write_inside(folder, true, true);
}

void recording_cpu_none(const char *folder)
{
	write_inside(folder, false, false);
}

void recording_cpu_only(const char *folder)
{
	write_sampled(folder, true);
}
