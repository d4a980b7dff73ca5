/*
 * hanging_disk DISK FOLDER [recovers]: records on a disk that begins to hang (slow_disk.c) and on
 * one that does not. Prints how many milliseconds each call takes, and what it returns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pitot/pitot.h>

#define HANGING 12 /* recordings */

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static char hangs[4096];
static const char *disk, *folder;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void print(const char *call, long begun_ms, int rc)
{
	long took = now_ms() - begun_ms;

	pthread_mutex_lock(&printing);
	printf("%s %ld %d\n", call, took, rc);
	fflush(stdout);
	pthread_mutex_unlock(&printing);
}

static struct pitot_session *start(const char *call, const char *where, int number)
{
	char path[4096];
	struct pitot_options options = { .size = sizeof(options), .directory = path };
	struct pitot_session *session;
	long begun = now_ms();

	snprintf(path, sizeof(path), "%s/%d.pitot", where, number);
	session = pitot_start(&options);
	print(call, begun, session ? 0 : -errno);
	return session;
}

static void stop(const char *call, struct pitot_session *session)
{
	long begun = now_ms();

	print(call, begun, pitot_stop(session));
}

static void *stop_hanging(void *session)
{
	stop("stop-hanging", session);
	return NULL;
}

static void *start_hanging(void *unused)
{
	start("start-hanging", disk, HANGING);
	return unused;
}

static void wait_for_a_seal(void)
{
	usleep(500000);
}

int main(int argc, char **argv)
{
	struct pitot_options common = { .size = sizeof(common) };
	struct pitot_session *hanging[HANGING], *other;
	pthread_t threads[HANGING], starter;
	char path[4096];
	long begun;

	if (argc < 3)
		return 2;
	disk = argv[1];
	folder = argv[2];
	snprintf(hangs, sizeof(hangs), "%s/hangs", disk);
	for (int i = 0; i < HANGING; i++)
		hanging[i] = start("start", disk, i);
	close(open(hangs, O_CREAT | O_WRONLY, 0600));
	pitot_mark("hanging");
	wait_for_a_seal();
	begun = now_ms();
	print("flush", begun, pitot_flush(NULL));
	pthread_create(&starter, NULL, start_hanging, NULL);
	for (int i = 0; i < HANGING; i++)
		pthread_create(&threads[i], NULL, stop_hanging, hanging[i]);
	/* While they hang: */
	for (int i = 0; i < 3; i++) {
		other = start("start-beside", folder, i);
		pitot_mark("beside");
		stop("stop-beside", other);
	}
	snprintf(path, sizeof(path), "%s/common.pitot", folder);
	common.directory = path;
	begun = now_ms();
	print("init", begun, pitot_init(&common));
	begun = now_ms();
	pitot_engine_begin(NULL, PITOT_ENGINE_PM_SAMPLING, 0, 0);
	print("engine", begun, 0);
	begun = now_ms();
	pitot_shutdown();
	print("shutdown", begun, 0);
	for (int i = 0; i < HANGING; i++)
		pthread_join(threads[i], NULL);
	/* They have given up; the disk still hangs. */
	other = start("start-after", folder, 3);
	pitot_mark("after");
	stop("stop-after", other);
	if (argc > 3) /* the disk recovers */
		unlink(hangs);
	begun = now_ms();
	if (argc > 3)
		pthread_join(starter, NULL);
	print("end", begun, 0);
	return 0;
}
