#include "replay/call_timing.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/search.h"
#include "replay/replay_gpu.h"

#define BATCH 64u /* launches, fewer than wait in a stream without blocking the next one */
#define BATCHES (CALL_TIMING_LAUNCHES / BATCH)
#define WARM_UP 8u /* batches */
#define MEMORY_BYTES (256u << 10)
#define CACHE_LINE 64u

extern const char stand_in_ptx[];

struct loop {
	struct cuda_driver driver;
	int device;
	cuda_context context;
	cuda_module module;
	cuda_function function;
	cuda_address slot;
	volatile unsigned char *memory;
};

static int loop_open(struct loop *l, struct error *e)
{
	int rc = cuda_driver_open(&l->driver, e);

	if (rc == 0)
		rc = libcuda_check(&l->driver.base, "cuDeviceGet",
				   l->driver.base.device_get(&l->device, 0), e);
	if (rc == 0)
		rc = CUDA(l, context_retain, &l->context, l->device);
	if (rc == 0)
		rc = CUDA(l, context_set, l->context);
	if (rc == 0)
		rc = CUDA(l, module_load, &l->module, stand_in_ptx);
	if (rc == 0)
		rc = CUDA(l, module_function, &l->function, l->module, "pitot_deadline");
	if (rc == 0)
		rc = CUDA(l, allocate, &l->slot, sizeof(struct replay_slot));
	if (rc == 0)
		rc = CUDA(l, set_async, l->slot, 0, sizeof(struct replay_slot), NULL);
	l->memory = calloc(1, MEMORY_BYTES);
	return rc == 0 && !l->memory ? error_set(e, -ENOMEM, "out of memory") : rc;
}

static void loop_close(struct loop *l)
{
	if (l->slot)
		l->driver.free(l->slot);
	if (l->context)
		l->driver.context_release(l->device);
	free((void *)(uintptr_t)l->memory);
}

static int time_batch(struct loop *l, uint64_t *launch_ns, uint64_t *synchronize_ns,
		      struct error *e)
{
	uint64_t none = 0, start_ns = clock_monotonic_ns();
	uint32_t order = ORDER_OF_NODE, after_count = 0;
	void *parameters[] = { &l->slot, &none, &none, &none, &none, &order, &after_count };
	int rc = 0;

	for (unsigned i = 0; i < BATCH && rc == 0; i++) {
		for (size_t k = 0; k < MEMORY_BYTES; k += CACHE_LINE)
			l->memory[k]++;
		rc = CUDA(l, launch, l->function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
	}
	*launch_ns = (clock_monotonic_ns() - start_ns) / BATCH;
	if (rc == 0)
		rc = CUDA(l, stream_synchronize, NULL);
	start_ns = clock_monotonic_ns();
	if (rc == 0)
		rc = CUDA(l, stream_synchronize, NULL);
	*synchronize_ns = clock_monotonic_ns() - start_ns;
	return rc;
}

static int compare_ns(const void *a, const void *b)
{
	return ORDER_OF(*(const uint64_t *)a, *(const uint64_t *)b);
}

static int time_calls(struct loop *l, struct calibration *out, struct error *e)
{
	uint64_t launch_ns[BATCHES], synchronize_ns[BATCHES];
	int rc = 0;

	for (unsigned i = 0; i < WARM_UP && rc == 0; i++)
		rc = time_batch(l, launch_ns, synchronize_ns, e);
	for (unsigned i = 0; i < BATCHES && rc == 0; i++)
		rc = time_batch(l, &launch_ns[i], &synchronize_ns[i], e);
	if (rc < 0)
		return rc;
	qsort(launch_ns, BATCHES, sizeof(*launch_ns), compare_ns);
	qsort(synchronize_ns, BATCHES, sizeof(*synchronize_ns), compare_ns);
	out->launch_ns = launch_ns[BATCHES / 10];
	out->synchronize_ns = synchronize_ns[BATCHES / 10];
	return 0;
}

int call_timing_measure(struct calibration *out, struct error *e)
{
	struct loop l = { .context = NULL };
	int version = 0, rc = loop_open(&l, e);

	if (rc == 0)
		rc = time_calls(&l, out, e);
	if (rc == 0)
		rc = libcuda_check(&l.driver.base, "cuDeviceGetName",
				   l.driver.base.device_name(out->gpu, sizeof(out->gpu), l.device),
				   e);
	if (rc == 0)
		rc = libcuda_check(&l.driver.base, "cuDriverGetVersion",
				   l.driver.base.driver_version(&version), e);
	out->driver_version = (uint64_t)version;
	loop_close(&l);
	return rc;
}
