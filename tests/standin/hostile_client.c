/*
 * A client of CUPTI that misbehaves on all threads of the program: it never reads, gives no or tiny
 * buffers, flushes and unsubscribes in callbacks, subscribes twice, enables unknown kinds, uses
 * invalid handles, and finalizes twice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <cupti.h>

#include "base/compiler.h"

static atomic_uint steps, buffers;
static _Atomic(CUpti_SubscriberHandle) subscriber;

static void CUPTIAPI on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	unsigned n = atomic_fetch_add(&buffers, 1);
	size_t dropped;

	cuptiActivityFlushAll(0);
	cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
	*size = n % 3 == 1 ? 100 : 4096;
	*buffer = n % 3 == 0 ? NULL : malloc(*size);
	*max_records = n % 5;
}

static void CUPTIAPI on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context;
	(void)stream;
	(void)size;
	cuptiActivityGetNextRecord(buffer, valid, &record);
	cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMSET);
	cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
	free(buffer);
}

static uint64_t CUPTIAPI bad_clock(void)
{
	static atomic_uint_fast64_t n;
	uint64_t at = atomic_fetch_add(&n, 7919);

	return at % 3 ? UINT64_MAX - at : at;
}

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	unsigned n = atomic_fetch_add(&steps, 1);

	(void)user;
	(void)data;
	if (n % 97 == 0)
		cuptiUnsubscribe(atomic_load(&subscriber));
	if (n % 89 == 0)
		cuptiEnableCallback(n & 1, atomic_load(&subscriber), domain, id);
	if (n % 211 == 0)
		cuptiActivityFlushAll(0);
	if (n % 503 == 0)
		cuptiFinalize();
}

static void subscribe(void)
{
	CUpti_SubscriberHandle handle, other;

	if (cuptiSubscribe(&handle, (CUpti_CallbackFunc)on_callback, NULL) == CUPTI_SUCCESS)
		atomic_store(&subscriber, handle);
	if (cuptiSubscribe(&other, (CUpti_CallbackFunc)on_callback, NULL) == CUPTI_SUCCESS)
		atomic_store(&subscriber, other);
	cuptiSubscribe(NULL, NULL, NULL);
	cuptiEnableDomain(1, atomic_load(&subscriber), CUPTI_CB_DOMAIN_DRIVER_API);
	cuptiEnableDomain(1, atomic_load(&subscriber), (CUpti_CallbackDomain)77);
	cuptiEnableCallback(1, (CUpti_SubscriberHandle)(void *)&steps, CUPTI_CB_DOMAIN_DRIVER_API,
			    307);
	cuptiEnableCallback(1, atomic_load(&subscriber), CUPTI_CB_DOMAIN_DRIVER_API, UINT32_MAX);
}

static void enable(void)
{
	cuptiActivityRegisterCallbacks(NULL, NULL);
	cuptiActivityRegisterTimestampCallback(NULL);
	cuptiActivityRegisterTimestampCallback(bad_clock);
	cuptiActivityRegisterCallbacks(on_request, on_complete);
	for (unsigned kind = 0; kind < 80; kind++)
		if (kind != CUPTI_ACTIVITY_KIND_KERNEL && kind != CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
			cuptiActivityEnable((CUpti_ActivityKind)kind);
	cuptiActivityEnable((CUpti_ActivityKind)0x7fffffff);
}

static void set_attributes(unsigned n)
{
	uint64_t value = 1;
	size_t size = n % 40;
	uint8_t buffer[512] = { 0xff };
	CUpti_Activity *record = NULL;

	cuptiActivitySetAttribute((CUpti_ActivityAttribute)(n % 20),
				  n % 3 ? &(size_t){ sizeof(value) } : NULL, &value);
	cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size,
				  size <= sizeof(value) ? &value : NULL);
	cuptiActivityGetNextRecord(buffer, sizeof(buffer), &record);
	cuptiActivityGetNextRecord(NULL, 100, &record);
}

EXPORT void client_step(size_t index, size_t count, const char *function, unsigned site);
EXPORT void client_step(size_t index, size_t count, const char *function, unsigned site)
{
	unsigned n = atomic_fetch_add(&steps, 1);

	(void)count;
	(void)function;
	(void)site;
	(void)index;
	if (n % 40 == 0)
		subscribe();
	if (n % 60 == 7)
		enable();
	if (n % 30 == 3)
		set_attributes(n);
	if (n % 400 == 11)
		cuptiActivityFlushAll(n % 2);
	if (n % 1000 == 901) {
		cuptiFinalize();
		cuptiFinalize();
	}
}

EXPORT void client_end(void);
EXPORT void client_end(void)
{
	cuptiUnsubscribe(NULL);
	cuptiFinalize();
	cuptiFinalize();
	cuptiUnsubscribe(atomic_load(&subscriber));
}
