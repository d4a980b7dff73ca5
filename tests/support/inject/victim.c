/*
 * A program into which a library is loaded from outside: victim SLEEP WORK THREADS
 *
 * One thread sleeps as SLEEP says, again and again, and the others, THREADS of them, WORK. Whatever
 * the sleeping call returns that it would not return by itself ends the program with status 3.
 * SIGTERM ends it with status 0, SIGHUP executes it again.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#define NEVER_MS 1000000
#define MOMENT_MS 300

static int never[2]; /* a pipe into which nobody writes */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;

static void wrong(const char *what, long result)
{
	fprintf(stderr, "%s: %ld, %s\n", what, result, strerror(errno));
	_exit(3);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- sleeping --- */

static int poll_for(int ms)
{
	struct pollfd p = { .fd = never[0], .events = POLLIN };

	return poll(&p, 1, ms);
}

/* Any function may change vector registers, but poll() leaves this one alone. */
static void sleep_in_poll(void)
{
	static const double kept[2] = { 1.5, -2.25 };
	struct pollfd p = { .fd = never[0], .events = POLLIN };
	int (*function)(struct pollfd *, nfds_t, int) = poll;
	double after[2] = { 0 };
	long result;

	errno = EXDEV;
	__asm__ volatile("movupd %[kept], %%xmm15\n\t"
			 "mov %%rsp, %%rbx\n\t"
			 "and $-16, %%rsp\n\t"
			 "call *%[function]\n\t"
			 "mov %%rbx, %%rsp\n\t"
			 "movupd %%xmm15, %[after]"
			 : "=a"(result), [after] "=m"(after)
			 : [kept] "m"(kept), [function] "r"(function), "D"(&p), "S"(1L),
			   "d"((long)MOMENT_MS)
			 : "rbx", "rcx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3",
			   "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
			   "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
	if ((int)result != 0 || errno != EXDEV)
		wrong("poll", result);
	if (memcmp(after, kept, sizeof(kept)) != 0)
		wrong("a register", 0);
}

static void sleep_in_nanosleep(void)
{
	const struct timespec t = { 0, MOMENT_MS * 1000000L };
	long begun = now_ms(), result = nanosleep(&t, NULL);

	if (result != 0 || now_ms() - begun < MOMENT_MS)
		wrong("nanosleep", result);
}

static void sleep_in_select(void)
{
	struct timeval t = { 0, MOMENT_MS * 1000 };
	fd_set set;
	int result;

	FD_ZERO(&set);
	FD_SET(never[0], &set);
	result = select(never[0] + 1, &set, NULL, NULL, &t);
	if (result != 0)
		wrong("select", result);
}

static void sleep_in_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0), result;

	epoll_ctl(fd, EPOLL_CTL_ADD, never[0], &event);
	result = epoll_wait(fd, &event, 1, -1);
	wrong("epoll_wait", result);
}

static void sleep_in_read(void)
{
	char byte;
	ssize_t result = read(never[0], &byte, 1);

	wrong("read", result);
}

static void sleep_in_condition(void)
{
	pthread_mutex_lock(&mutex);
	pthread_cond_wait(&condition, &mutex); /* may return at any time */
	pthread_mutex_unlock(&mutex);
}

static void sleep_in_semaphore(void)
{
	int result = sem_wait(&semaphore);

	wrong("sem_wait", result);
}

/* Those below are not to be disturbed. */

static void sleep_for_lock(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
}

static void handler(int number)
{
	(void)number;
	poll_for(NEVER_MS);
}

static void sleep_in_handler(void)
{
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
}

static void sleep_on_another_stack(void)
{
	static char bytes[65536];
	const stack_t stack = { .ss_sp = bytes, .ss_size = sizeof(bytes) };
	const struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static int compare(const void *a, const void *b)
{
	(void)a, (void)b;
	return poll_for(NEVER_MS);
}

static void sleep_in_callback(void)
{
	int numbers[2] = { 1, 2 };

	qsort(numbers, 2, sizeof(int), compare);
}

static void sleep_in_constructor(void)
{
	dlopen(getenv("SLEEPS_LIBRARY"), RTLD_NOW);
}

/* Code without a file, as a compiler at run time makes it: call *%rdi; ret */
static void wait_a_while(void)
{
	poll_for(NEVER_MS);
}

static void sleep_below_code(void)
{
	static const unsigned char bytes[] = { 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
					       0x48, 0x83, 0xc4, 0x08, 0xc3 };
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*function)(void (*)(void));

	memcpy(code, bytes, sizeof(bytes));
	memcpy(&function, &code, sizeof(code));
	function(wait_a_while);
}

static void do_not_sleep(void)
{
	for (volatile int i = 0; i < 1000; i++)
		;
}

static const struct {
	const char *name;
	void (*once)(void);
} sleeps[] = {
	{ "poll", sleep_in_poll },           { "nanosleep", sleep_in_nanosleep },
	{ "select", sleep_in_select },       { "epoll", sleep_in_epoll },
	{ "read", sleep_in_read },           { "condition", sleep_in_condition },
	{ "semaphore", sleep_in_semaphore }, { "lock", sleep_for_lock },
	{ "handler", sleep_in_handler },     { "altstack", sleep_on_another_stack },
	{ "callback", sleep_in_callback },   { "constructor", sleep_in_constructor },
	{ "code", sleep_below_code },        { "not", do_not_sleep },
};

/* --- working --- */

static void allocate(void)
{
	static __thread void *kept[256];
	static __thread unsigned seed;
	unsigned at = (seed = seed * 1103515245 + 12345) >> 8;

	free(kept[at % 256]);
	kept[at % 256] = malloc(1 + at % 100000);
}

static void load(void)
{
	void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

	library = library ? library : dlopen("libutil.so.1", RTLD_NOW);
	dlclose(library);
	library = dlopen(getenv("LOADED_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
	if (library)
		dlclose(library);
}

static void map(void)
{
	void *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at != MAP_FAILED)
		munmap(at, 1 << 20);
}

static const struct {
	const char *name;
	void (*once)(void);
} works[] = {
	{ "spin", do_not_sleep }, { "malloc", allocate }, { "dlopen", load }, { "mmap", map }
};

static void *work_on(void *once)
{
	void (*function)(void);

	memcpy(&function, once, sizeof(function));
	for (;;)
		function();
	return NULL;
}

static void end(int number)
{
	(void)number;
	_exit(0);
}

static char **arguments;

static void begin_again(int number)
{
	(void)number;
	execv("/proc/self/exe", arguments);
}

static void *sleep_on(void *once)
{
	void (*function)(void);

	memcpy(&function, once, sizeof(function));
	for (;;)
		function();
	return NULL;
}

static void start(void *(*run)(void *), const void *argument)
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, (void *)argument) != 0)
		_exit(5);
}

int main(int argc, char **argv)
{
	int threads = argc > 3 ? atoi(argv[3]) : 0;

	if (pipe(never) < 0 || sem_init(&semaphore, 0, 0) < 0 || argc < 4)
		return 2;
	for (unsigned i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		for (int n = 0; n < threads; n++)
			if (strcmp(argv[2], works[i].name) == 0 || strcmp(argv[2], "all") == 0)
				start(work_on, &works[i].once);
	arguments = argv;
	signal(SIGTERM, end);
	signal(SIGHUP, begin_again);
	signal(SIGPIPE, SIG_IGN);
	printf("ready\n");
	fflush(stdout);
	for (unsigned i = 0; i < sizeof(sleeps) / sizeof(sleeps[0]); i++)
		if (strcmp(argv[1], sleeps[i].name) == 0)
			sleep_on((void *)&sleeps[i].once);
	return 2;
}
