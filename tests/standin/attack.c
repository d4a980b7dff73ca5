/*
 * attack: a CUDA program that does something to its process that a recorder inside must survive:
 * attack CALLER WAY FILE. Launches LAUNCHES times before and after it. Prints failures to standard
 * output.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCHES 1000
#define CHILDREN 60
#define TICKS 30000 /* of a millisecond: longest wait for a child */
#define DESCRIPTORS 64
#define SMALL_STACK (16u << 10)
#define SEAL_MS 500

static void (*launch)(void);
static const char *file;

static void launch_often(void)
{
	for (int i = 0; i < LAUNCHES; i++)
		launch();
}

static void expect(bool condition, const char *what)
{
	if (!condition)
		printf("%s\n", what);
}

/* Whether the child has ended by itself. */
static bool has_ended(pid_t child)
{
	for (int i = 0; i < TICKS; i++) {
		if (waitpid(child, NULL, WNOHANG) == child)
			return true;
		usleep(1000);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return false;
}

/*
 * Closes all descriptors and reuses their numbers for another file, while nothing is written: the
 * recorder checks whose a descriptor is just before it writes, and no lock keeps the two together.
 */
static void take_descriptors(void)
{
	struct stat st;
	int own;

	usleep(SEAL_MS * 1000);
	close_range(3, ~0u, 0);
	own = open(file, O_CREAT | O_TRUNC | O_RDWR, 0600);
	for (int fd = 3; fd < DESCRIPTORS; fd++)
		if (fd != own)
			dup2(own, fd);
	launch_often();
	usleep(SEAL_MS * 1000);
	for (int fd = 3; fd < DESCRIPTORS; fd++)
		expect(fstat(fd, &st) == 0 && st.st_size == 0, "a descriptor is not the program's");
}

static void use_up_descriptors(void)
{
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ DESCRIPTORS, DESCRIPTORS });
	while (open("/dev/null", O_RDONLY) >= 0)
		;
}

static void use_up_memory(void)
{
	struct rlimit limit;
	unsigned long pages = 0;
	FILE *size = fopen("/proc/self/statm", "r");

	expect(size && fscanf(size, "%lu", &pages) == 1, "no /proc/self/statm");
	getrlimit(RLIMIT_AS, &limit);
	limit.rlim_cur = pages * 4096;
	setrlimit(RLIMIT_AS, &limit);
	while (malloc(LAUNCHES))
		;
}

/* Makes children that launch and exit, with a system call unseen by pthread_atfork handlers. */
static void make_raw_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

		if (child == 0) {
			launch();
			if (i % 3 == 0)
				exit(0);
			if (i % 3 == 1)
				_exit(0);
			raise(SIGTERM);
			_exit(0);
		}
		expect(has_ended(child), "a child hangs");
	}
}

/* vfork children run in the memory of their parent. */
static void make_vfork_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = vfork();

		if (child == 0) {
			launch();
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void *launch_in_thread(void *unused)
{
	launch_often();
	return unused;
}

static void use_small_stacks(void)
{
	pthread_attr_t attributes;
	pthread_t threads[8];

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, SMALL_STACK);
	for (int i = 0; i < 8; i++)
		expect(!pthread_create(&threads[i], &attributes, launch_in_thread, NULL),
		       "no thread");
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

/* Makes the recording inaccessible, and changes to another user. */
static void drop_rights(void)
{
	expect(!chroot("/proc/self/fdinfo") && !chdir("/"), "no other root");
	expect(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534), "still root");
}

static void nothing(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "descriptors-taken", take_descriptors }, { "descriptors-used-up", use_up_descriptors },
	{ "memory-used-up", use_up_memory },       { "raw-children", make_raw_children },
	{ "vfork-children", make_vfork_children }, { "small-stacks", use_small_stacks },
	{ "rights-dropped", drop_rights },         { "no-modes", nothing },
};

int main(int argc, char **argv)
{
	void *caller;

	if (argc == 4 && strcmp(argv[2], "no-modes") == 0)
		umask(0777);
	caller = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!caller || !(*(void **)&launch = dlsym(caller, "launch"))) {
		printf("usage: attack CALLER WAY FILE\n");
		return 2;
	}
	file = argv[3];
	launch_often();
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (strcmp(ways[i].name, argv[2]) == 0)
			ways[i].run();
	launch_often();
	usleep(SEAL_MS * 1000);
	launch_often();
	return 0;
}
