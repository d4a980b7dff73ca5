/*
 * leave.c: what a tracer leaves in a program's calls of CUDA when it has left CUPTI, in several
 * ways. Not part of the product. The library attaches when there is a file LEAVE_FILE.attach, and
 * leaves half a second later, as LEAVE says:
 * callbacks   subscribes to launches, and unsubscribes
 * kernels     enables records of kernels, and disables them
 * both        both of them, as Pitot does
 * finalize    and then calls cuptiFinalize where the next call of the driver that waits returns
 * thread      and then calls cuptiFinalize on a thread of its own
 * Then it makes the file LEAVE_FILE.left.
 * build: cc -O2 -shared -fPIC -pthread -o libleave.so leave.c -lcupti
 *        (with CUDA's include and lib folders)
 * use:   CUDA_INJECTION64_PATH=./libleave.so LEAVE=both LEAVE_FILE=/tmp/x ./program
 */
#include <cuda.h>
#include <cupti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static CUpti_SubscriberHandle subscriber;
static atomic_long callbacks, buffers, finalized_ns;
static atomic_int finalizes; /* 1: wanted, 2: being done, 3: done */

static int mode_is(const char *name)
{
	const char *mode = getenv("LEAVE");

	return mode && strcmp(mode, name) == 0;
}

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void finalize(void)
{
	long begun = now_ns();

	fprintf(stderr, "cuptiFinalize: %d\n", (int)cuptiFinalize());
	finalized_ns = now_ns() - begun;
	finalizes = 3;
}

static void buffer_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*size = 4 << 20;
	*buffer = aligned_alloc(64, *size);
	*max_records = 0;
}

static void buffer_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			    size_t valid)
{
	(void)context, (void)stream, (void)size, (void)valid;
	buffers++;
	free(buffer);
}

static void on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	int wanted = 1;

	(void)user, (void)domain, (void)id;
	callbacks++;
	if (((const CUpti_CallbackData *)data)->callbackSite == CUPTI_API_EXIT &&
	    atomic_compare_exchange_strong(&finalizes, &wanted, 2))
		finalize();
}

static void enable(int on, const uint32_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cuptiEnableCallback((uint32_t)on, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, ids[i]);
}

static const uint32_t launches[] = { CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
				     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx };
static const uint32_t waits[] = { CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
				  CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2,
				  CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize,
				  CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize };

static void attach_and_leave(void)
{
	int calls = !mode_is("kernels"), kernels = !mode_is("callbacks");

	if (calls && cuptiSubscribe(&subscriber, on_call, NULL) != CUPTI_SUCCESS)
		fprintf(stderr, "cannot subscribe\n");
	if (kernels) {
		cuptiActivityRegisterCallbacks(buffer_request, buffer_complete);
		cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	}
	if (calls)
		enable(1, launches, 2);
	usleep(500000);
	if (kernels) {
		cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
		cuptiActivityFlushAll(1);
	}
	if (calls)
		enable(0, launches, 2);
	if (mode_is("finalize")) {
		enable(1, waits, 4);
		finalizes = 1;
		for (int i = 0; i < 3000 && finalizes != 3; i++)
			usleep(1000);
	} else {
		if (calls)
			cuptiUnsubscribe(subscriber);
		if (mode_is("thread"))
			finalize();
	}
}

static void *run(void *file)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s.attach", (const char *)file);
	while (access(path, F_OK))
		usleep(10000);
	attach_and_leave();
	fprintf(stderr, "%s: %ld callbacks, %ld buffers, cuptiFinalize %s %.1f ms\n",
		getenv("LEAVE"), (long)callbacks, (long)buffers,
		finalizes == 3 ? "took" : "was not called", (double)finalized_ns / 1e6);
	snprintf(path, sizeof(path), "%s.left", (const char *)file);
	fclose(fopen(path, "w"));
	return NULL;
}

int InitializeInjection(void)
{
	pthread_t thread;
	char *file = getenv("LEAVE_FILE");

	if (file)
		pthread_create(&thread, NULL, run, file);
	return 1;
}
