/*
 * stack_kinds.c KIND: spins for 0.3 s of CPU time in spin(), at the end of a stack of some kind:
 * handler (of a signal that interrupted code), altstack (the same on a stack of its own), deep
 * (20,000 frames), plugin FILE (code that was loaded a moment ago), jit (called by code that was
 * made at run time), exec (in this program, which then becomes itself, and spins in after_exec()),
 * children (40 of them, 30 ms each), threads (the same with threads), endless (with threads, and no
 * end). Prints the CPU seconds of the process and of those that it waited for.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILDREN 40
#define DEPTH 20000

/* Behind a call, so that it is not made a jump. */
#define STAY() __asm__ volatile("")

static volatile sig_atomic_t handled;
static const char *self;

static double cpu_seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) int spin(double seconds)
{
	double end = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) + seconds;
	volatile unsigned sum = 0;

	do
		for (unsigned i = 0; i < 1000000; i++)
			sum += i * i;
	while (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < end);
	return (int)sum & 1;
}

/* --- signals --- */

__attribute__((noinline)) void handler(int number)
{
	(void)number;
	handled = 1 + spin(0.3);
}

__attribute__((noinline)) unsigned interrupted(void)
{
	unsigned sum = 0;

	while (!handled)
		sum = sum * 3 + 1;
	return sum;
}

static int with_signal(int flags)
{
	const struct itimerval soon = { .it_value.tv_usec = 1000 };
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };

	if (!stack.ss_sp || sigaltstack(&stack, NULL) < 0 ||
	    sigaction(SIGVTALRM, &action, NULL) < 0 || setitimer(ITIMER_VIRTUAL, &soon, NULL) < 0)
		return 1;
	return interrupted() == 12345;
}

/* --- other stacks --- */

__attribute__((noinline)) int deep(int depth)
{
	int result = depth ? deep(depth - 1) : spin(0.3);

	STAY();
	return result;
}

static int with_plugin(const char *file)
{
	void *plugin = dlopen(file, RTLD_NOW);
	int (*call)(int (*)(double)) = NULL;

	if (plugin)
		*(void **)&call = dlsym(plugin, "plugin_call");
	return call ? call(spin) & 2 : 1;
}

__attribute__((noinline)) int spin_from_jit(void)
{
	int result = spin(0.3);

	STAY();
	return result;
}

/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static int with_jit(void)
{
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*call)(int (*)(void));

	if (memory == MAP_FAILED)
		return 1;
	memcpy(memory, code, sizeof(code));
	if (mprotect(memory, 4096, PROT_READ | PROT_EXEC) < 0)
		return 1;
	*(void **)&call = memory;
	return call(spin_from_jit) & 2;
}

__attribute__((noinline)) int after_exec(void)
{
	int result = spin(0.3);

	STAY();
	return result;
}

static int with_exec(void)
{
	spin(0.3);
	execl("/proc/self/exe", self, "after_exec", NULL);
	return 1;
}

/* --- short lives --- */

static int with_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(spin(0.03) & 2);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			return 1;
	}
	return 0;
}

static void *thread_main(void *unused)
{
	spin(0.03);
	return unused;
}

static int with_threads(int count)
{
	for (int i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, thread_main, NULL) != 0)
			return 1;
		pthread_join(thread, NULL);
	}
	return 0;
}

static int run(const char *kind, const char *file)
{
	if (strcmp(kind, "handler") == 0)
		return with_signal(0);
	if (strcmp(kind, "altstack") == 0)
		return with_signal(SA_ONSTACK);
	if (strcmp(kind, "deep") == 0)
		return deep(DEPTH) & 1 << 30;
	if (strcmp(kind, "plugin") == 0)
		return with_plugin(file);
	if (strcmp(kind, "jit") == 0)
		return with_jit();
	if (strcmp(kind, "exec") == 0)
		return with_exec();
	if (strcmp(kind, "after_exec") == 0)
		return after_exec() & 2;
	if (strcmp(kind, "children") == 0)
		return with_children();
	if (strcmp(kind, "endless") == 0)
		return with_threads(INT_MAX);
	return strcmp(kind, "threads") == 0 ? with_threads(CHILDREN) : 2;
}

int main(int argc, char **argv)
{
	struct rusage children;
	int status;

	self = argv[0];
	status = run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
	getrusage(RUSAGE_CHILDREN, &children);
	printf("%f\n",
	       cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) +
		       (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
		       (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6);
	return status;
}
