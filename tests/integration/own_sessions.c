/*
 * A program that records itself from its constructor on, in its child, on disks that are full or
 * read-only. Prints what the test knows.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pitot/pitot.h>

static int early;

__attribute__((constructor)) static void before_main(void)
{
	struct pitot_options options = { .size = sizeof(options), .directory = "early" };

	early = pitot_init(&options);
}

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void try(const char *directory)
{
	struct pitot_options options = { .size = sizeof(options), .directory = directory };
	struct pitot_session *session;

	session = pitot_start(&options);
	printf("%s: %s\n", directory, session ? "recorded" : pitot_error());
	if (session && (pitot_flush(session) < 0 || pitot_stop(session) < 0))
		printf("%s\n", pitot_error());
}

static void in_child(struct pitot_session *parents)
{
	struct pitot_options options = { .size = sizeof(options), .directory = "child" };
	pid_t child = fork();
	int status;

	if (child == 0) {
		pitot_stop(parents);
		pitot_mark("not recorded");
		printf("in child %d\n", pitot_init(&options));
		pitot_shutdown();
		_exit(pitot_flush(NULL));
	}
	waitpid(child, &status, 0);
	printf("child %d\n", status);
}

int main(int argc, char **argv)
{
	struct pitot_options options = { .size = sizeof(options), .directory = "parent" };
	struct pitot_session *session;

	setvbuf(stdout, NULL, _IONBF, 0);
	printf("early %d, alone %d\n", early, threads() == 1);
	session = pitot_start(&options);
	in_child(session);
	pitot_mark("recorded");
	pitot_stop(session);
	for (int i = 1; i < argc; i++)
		try(argv[i]);
	pitot_shutdown();
	printf("again %d\n", pitot_init(NULL));
	pitot_mark("again");
	pitot_shutdown();
	pitot_mark("after the end");
	return 0;
}
