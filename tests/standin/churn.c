/*
 * churn: initializes CUDA while two threads load and unload a library, as programs with plug-ins
 * do: churn RUNS CUDART LIBRARY. Each run is a separate process, into which CUDA_INJECTION64_PATH
 * loads the recorder. The first run that hangs is reported with status 3.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICKS 30000 /* of a millisecond; a run takes less than one second */
#define STATUS_HUNG 3

static const char *library;

static void *load_and_unload(void *unused)
{
	(void)unused;
	for (;;) {
		void *handle = dlopen(library, RTLD_NOW);

		if (handle)
			dlclose(handle);
	}
	return NULL;
}

static void run(const char *cudart)
{
	pthread_t thread;
	int (*init)(unsigned);
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

	if (!cuda || !dlopen(cudart, RTLD_NOW)) {
		fprintf(stderr, "churn: %s\n", dlerror());
		_exit(1);
	}
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, load_and_unload, NULL))
			_exit(1);
	*(void **)&init = dlsym(cuda, "cuInit");
	_exit(init(0) ? 1 : 0);
}

static int wait_for(pid_t child)
{
	int status;

	for (int i = 0; i < TICKS; i++) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		usleep(1000);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return STATUS_HUNG;
}

int main(int argc, char **argv)
{
	long runs = argc == 4 ? strtol(argv[1], NULL, 10) : 0;

	if (runs <= 0)
		return 2;
	library = argv[3];
	for (long i = 0; i < runs; i++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			run(argv[2]);
		status = child > 0 ? wait_for(child) : 1;
		if (status) {
			fprintf(stderr, "churn: run %ld %s\n", i,
				status == STATUS_HUNG ? "does not end" : "failed");
			return status;
		}
	}
	return 0;
}
