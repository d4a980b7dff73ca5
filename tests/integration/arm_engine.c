/*
 * A program that arms engines while a tape is played: a client of tape-play. ARM_SCRIPT is "STEP
 * CALL ENGINE DELAY_MS DURATION_MS PAUSE_MS;…": before step STEP of the tape it makes the call, and
 * then pauses. ARM_OUTPUT gets a line for each: what it returned, why, and after how long.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pitot/pitot.h>

#define MS 1000000ull
#define THREADS 4

#define F(name) (*(__typeof__(pitot_##name) *)function("pitot_" #name))

static struct pitot_session *session; /* NULL: pitot_init's */
static FILE *output;

static void *function(const char *name)
{
	void *library = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
	void *found = library ? dlsym(library, name) : NULL;

	if (!found)
		abort();
	return found;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void tell(const char *call, int rc, double began_ms)
{
	fprintf(output, "%s\t%d\t%s\t%.3f\n", call, rc, F(error)(), now_ms() - began_ms);
	fflush(output);
}

static void pause_ms(unsigned long ms)
{
	struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000 * MS) };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static void *race(void *engine)
{
	int rc = F(engine_begin)(session, (enum pitot_engine)(long)engine, 0, 0);

	return (void *)(long)(rc == 0 ? 1 : rc == -EBUSY ? 0 : 1000);
}

/* Several threads at once: one wins. */
static int begin_at_once(enum pitot_engine engine)
{
	pthread_t threads[THREADS];
	long won = 0;
	void *result;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, race, (void *)(long)engine);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		won += (long)result;
	}
	return (int)won;
}

static int begin_in_child(enum pitot_engine engine)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(-F(engine_begin)(session, engine, 0, 0) +
		      (F(engine_end)(session) == -ENOENT ? 0 : 100));
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int start(const char *variable, enum pitot_engine engine)
{
	struct pitot_options o = { .size = sizeof(o),
				   .directory = getenv(variable),
				   .engine = engine };

	session = F(start)(&o);
	return session ? 0 : -errno;
}

static void call(const char *name, enum pitot_engine engine, unsigned long delay,
		 unsigned long duration)
{
	double began_ms = now_ms();
	int rc = 0;

	if (strcmp(name, "init") == 0)
		rc = F(init)(NULL);
	else if (strcmp(name, "shutdown") == 0)
		F(shutdown)();
	else if (strcmp(name, "start") == 0)
		rc = start("ARM_DIRECTORY", engine);
	else if (strcmp(name, "stop") == 0)
		rc = F(stop)(session), session = NULL;
	else if (strcmp(name, "open") == 0)
		F(scope_begin)(engine ? "other" : "scope");
	else if (strcmp(name, "close") == 0)
		F(scope_end)();
	else if (strcmp(name, "flush") == 0)
		rc = F(flush)(session);
	else if (strcmp(name, "begin") == 0)
		rc = F(engine_begin)(session, engine, delay * MS, duration * MS);
	else if (strcmp(name, "end") == 0)
		rc = F(engine_end)(session);
	else if (strcmp(name, "race") == 0)
		rc = begin_at_once(engine);
	else if (strcmp(name, "child") == 0)
		rc = begin_in_child(engine);
	else
		abort();
	tell(name, rc, began_ms);
}

/* Scopes are the main thread's: before whatever step comes next on it. */
static bool is_thread_of(const char *name)
{
	return (strcmp(name, "open") != 0 && strcmp(name, "close") != 0) || gettid() == getpid();
}

void client_step(size_t index, size_t count, const char *name, unsigned site);
void client_step(size_t index, size_t count, const char *name, unsigned site)
{
	static const char *script;
	unsigned long step, engine, delay, duration, pause;
	char what[16];
	int length;

	(void)count, (void)name, (void)site;
	if (!script) {
		script = getenv("ARM_SCRIPT");
		output = fopen(getenv("ARM_OUTPUT"), "we");
	}
	while (sscanf(script, " %lu %15s %lu %lu %lu %lu ;%n", &step, what, &engine, &delay,
		      &duration, &pause, &length) == 6 &&
	       step <= index && is_thread_of(what)) {
		script += length;
		F(mark)("before");
		call(what, (enum pitot_engine)engine, delay, duration);
		F(mark)(what);
		pause_ms(pause);
	}
}

void client_end(void);
void client_end(void)
{
	fclose(output);
}
