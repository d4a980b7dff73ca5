/*
 * hostile.c KIND [ARGUMENT…]: programs that make the sampling of a CPU hard. Each burns a few
 * tenths of a second, prints what does not depend on time, and ends with status 3, unless said
 * otherwise:
 *
 *	plain [MS]	nothing, for 300 ms or as many
 *	jit		calls through code that it has made, in anonymous memory
 *	framed		the same, 20 calls deep, and the code keeps frame pointers
 *	overflow	runs out of stack, again and again; the handler has a stack of its own,
 *			burns, and jumps out
 *	fibers		four ucontexts that take turns
 *	deep		20,000 calls
 *	children	300 children of a few milliseconds, each with its own status
 *	forks		a tree of forks without exec, all of which burn
 *	execs [N]	becomes itself 50 times
 *	killed		ends by SIGKILL
 *	plugin FILE	opens and closes a library all the time, and burns in it, in two threads
 *	calls FILE	burns in that library, in qsort()
 *	memfd [MS]	becomes a copy of itself that is in no file system
 *	strict		may only read, write and return from signals
 *	left, exited	the main thread ends before the other one, by pthread_exit() or exit(2);
 *			status 0
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STATUS 3
#define DEPTH 20000
#define CHILDREN 300
#define EXECS 50
#define STAY() __asm__ volatile("") /* behind a call, so that it is not made a jump */

static volatile unsigned sink;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void burn(unsigned ms)
{
	double end = now() + ms / 1e3;

	do
		for (unsigned i = 0; i < 20000; i++)
			sink += i * i;
	while (now() < end);
	STAY();
}

static int plain(char **argv)
{
	burn(argv[2] ? (unsigned)atoi(argv[2]) : 300);
	puts("plain");
	return STATUS;
}

/*
 * Makes `code` executable at the end of a page, calls it 30 times with 10 and burn(), and takes it
 * away.
 */
static void run_code(const uint8_t *code, size_t size)
{
	uint8_t *page =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at = page + 4096 - size; /* up to the end of what can be read */
	void (*call)(unsigned, void (*)(unsigned));

	munmap(page + 4096, 4096);
	memcpy(at, code, size);
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	memcpy(&call, &at, sizeof(call));
	for (int i = 0; i < 30; i++)
		call(10, burn);
}

static int jit(char **argv)
{
	/* push rbx; sub $16, rsp; call *rdi; add $16, rsp; pop rbx; ret: without a frame pointer */
	static const uint8_t code[] = { 0x53, 0x48, 0x83, 0xec, 0x10, 0xbf, 10,   0,    0,
					0,    0xff, 0xd6, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3 };

	(void)argv;
	run_code(code, sizeof(code));
	puts("jit");
	return STATUS;
}

static int framed(char **argv)
{
	/*
	 * mov $20, ecx; f: push rbp; mov rsp, rbp; dec ecx; jz 1f; call f; pop rbp; ret;
	 * 1: mov $10, edi; call *rsi; pop rbp; ret
	 */
	static const uint8_t code[] = { 0xb9, 20,   0,    0,    0,    0x55, 0x48, 0x89, 0xe5, 0xff,
					0xc9, 0x74, 0x07, 0xe8, 0xf3, 0xff, 0xff, 0xff, 0x5d, 0xc3,
					0xbf, 10,   0,    0,    0,    0xff, 0xd6, 0x5d, 0xc3 };

	(void)argv;
	run_code(code, sizeof(code));
	puts("framed");
	return STATUS;
}

/* --- stacks --- */

static sigjmp_buf out_of_stack;

static void on_overflow(int number)
{
	burn(5);
	siglongjmp(out_of_stack, number);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) static unsigned endless(unsigned n)
{
	volatile char room[200];

	room[n % 200] = (char)n;
	sink += endless(n + 1);
	return sink + (unsigned)room[0];
}

static int overflow(char **argv)
{
	stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
	struct sigaction act = { .sa_handler = on_overflow, .sa_flags = SA_ONSTACK };
	struct rlimit limit = { 1 << 20, 1 << 20 };
	volatile int times = 0;

	(void)argv;
	setrlimit(RLIMIT_STACK, &limit);
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &act, NULL);
	for (volatile int i = 0; i < 40; i++)
		if (sigsetjmp(out_of_stack, 1) == 0)
			endless(0);
		else
			times++;
	printf("overflow %d\n", times);
	return STATUS;
}

static ucontext_t fiber[5];
static unsigned turns;

static void run_fiber(int me)
{
	for (int i = 0; i < 40; i++) {
		burn(2);
		turns++;
		swapcontext(&fiber[me], &fiber[me % 4 + 1]);
	}
}

static int fibers(char **argv)
{
	(void)argv;
	for (int i = 1; i <= 4; i++) {
		getcontext(&fiber[i]);
		fiber[i].uc_stack.ss_sp = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		fiber[i].uc_stack.ss_size = 1 << 16;
		fiber[i].uc_link = &fiber[0];
		makecontext(&fiber[i], (void (*)(void))run_fiber, 1, i);
	}
	swapcontext(&fiber[0], &fiber[1]);
	printf("fibers %u\n", turns);
	return STATUS;
}

__attribute__((noinline)) static void deeper(int depth)
{
	if (depth)
		deeper(depth - 1);
	else
		burn(300);
	STAY();
}

static int deep(char **argv)
{
	(void)argv;
	deeper(DEPTH);
	puts("deep");
	return STATUS;
}

/* --- processes --- */

static int wait_for(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

static int children(char **argv)
{
	pid_t pids[CHILDREN];
	long sum = 0;

	(void)argv;
	for (int i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			burn((unsigned)i % 4);
			_exit(i % 100);
		}
		if (i >= 8)
			sum += (i - 7) * wait_for(pids[i - 8]);
	}
	for (int i = CHILDREN - 8; i < CHILDREN; i++)
		sum += (i + 1) * wait_for(pids[i]);
	printf("children %ld\n", sum);
	return STATUS;
}

static int tree(int depth)
{
	pid_t left, right;

	burn(20);
	if (!depth)
		return 1;
	left = fork();
	if (left == 0)
		_exit(tree(depth - 1));
	right = fork();
	if (right == 0)
		_exit(tree(depth - 1));
	return 1 + wait_for(left) + wait_for(right);
}

static int forks(char **argv)
{
	(void)argv;
	printf("forks %d\n", tree(4));
	return STATUS;
}

static int execs(char **argv)
{
	int n = argv[2] ? atoi(argv[2]) : 0;
	char number[16];

	burn(4);
	if (n == EXECS) {
		printf("execs %d\n", n);
		return STATUS;
	}
	snprintf(number, sizeof(number), "%d", n + 1);
	execl("/proc/self/exe", argv[0], argv[1], number, NULL);
	return 1;
}

static int killed(char **argv)
{
	(void)argv;
	puts("killed");
	fflush(stdout);
	burn(300);
	raise(SIGKILL);
	return 1;
}

static int from_memory(char **argv)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
	    to = (int)syscall(SYS_memfd_create, "packed", 1u);
	char *plain_arguments[] = { argv[0], "plain", argv[2], NULL }, bytes[4096];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			return 1;
	fexecve(to, plain_arguments, environ);
	return 1;
}

/* --- libraries --- */

static void *open_and_close(void *path)
{
	for (int i = 0; i < 60; i++) {
		void *library = dlopen(path, RTLD_NOW);
		int (*call)(int (*)(double), double);

		if (!library)
			return "no library";
		*(void **)&call = dlsym(library, "hostile_call");
		if (call)
			call(NULL, 0.003);
		dlclose(library);
	}
	return NULL;
}

static int plugin(char **argv)
{
	pthread_t other;
	void *failed = NULL;

	pthread_create(&other, NULL, open_and_close, argv[2]);
	printf("plugin %d\n", open_and_close(argv[2]) == NULL);
	pthread_join(other, &failed);
	return failed ? 1 : STATUS;
}

static int (*compared)(const void *, const void *);

static int calls(char **argv)
{
	void *library = dlopen(argv[2], RTLD_NOW);
	int numbers[2000];

	if (!library)
		return 1;
	*(void **)&compared = dlsym(library, "hostile_compare");
	for (int round = 0; round < 30; round++) {
		for (int i = 0; i < 2000; i++)
			numbers[i] = i * 7919 % 2003;
		qsort(numbers, 2000, sizeof(numbers[0]), compared);
	}
	printf("calls %d %d\n", numbers[0], numbers[1999]);
	return STATUS;
}

static int strict(char **argv)
{
	(void)argv;
	burn(100);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
		return 1;
	for (unsigned i = 0; i < 300000000; i++)
		sink += i;
	(void)!write(1, "strict\n", 7);
	syscall(SYS_exit, STATUS); /* not exit_group() */
	return 1;
}

static void *last_thread(void *word)
{
	burn(200);
	puts(word);
	fflush(stdout);
	return NULL;
}

static int left(char **argv)
{
	pthread_t other;

	pthread_create(&other, NULL, last_thread, argv[1]);
	pthread_exit(NULL);
}

static int exited(char **argv)
{
	pthread_t other;

	pthread_create(&other, NULL, last_thread, argv[1]);
	syscall(SYS_exit, STATUS);
	return 1;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(char **);
	} kinds[] = {
		{ "plain", plain },       { "jit", jit },           { "framed", framed },
		{ "overflow", overflow }, { "fibers", fibers },     { "deep", deep },
		{ "children", children }, { "forks", forks },       { "execs", execs },
		{ "killed", killed },     { "memfd", from_memory }, { "plugin", plugin },
		{ "calls", calls },       { "strict", strict },     { "left", left },
		{ "exited", exited },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			return kinds[i].run(argv);
	return 2;
}
