/*
 * probe.c: a small injection library for testing tapes and their player. It enables everything that
 * CUPTI offers and writes what it received as lines to $PROBE_OUTPUT at exit. Like the recorder, it
 * calls the libcupti named by PITOT_CUPTI.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "capture/cuda/vendor.h"
#include "layouts.h"

#define BUFFER_BYTES_DEFAULT (8u << 20)

int InitializeInjection(void);

static struct cupti cupti;
static struct driver driver;
static size_t buffer_bytes = BUFFER_BYTES_DEFAULT;
static atomic_uint_fast64_t domains[CUPTI_CB_DOMAIN_SIZE], records[KINDS_MAX],
	duration_ns[KINDS_MAX];
static atomic_uint_fast64_t buffers, unknown, incomplete, reversed, zero, unnamed, name_bytes,
	wrong_ids, backwards, fatal;
static atomic_uint_fast64_t last_correlation, last_time;
static unsigned missing; /* number of functions in the table that CUPTI lacks */

static void on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			const void *data)
{
	const CUpti_CallbackData *api = data;
	uint64_t now = clock_monotonic_ns();
	uint32_t id;

	(void)userdata;
	atomic_fetch_add(&domains[domain], 1);
	if (now < atomic_exchange(&last_time, now))
		atomic_fetch_add(&backwards, 1);
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
		if (api->callbackSite == CUPTI_API_ENTER)
			*api->correlationData = api->correlationId;
		else if (*api->correlationData != api->correlationId)
			atomic_fetch_add(&wrong_ids, 1);
		atomic_store(&last_correlation, api->correlationId);
	} else if (domain == CUPTI_CB_DOMAIN_RESOURCE &&
		   cbid == CUPTI_CBID_RESOURCE_STREAM_CREATED) {
		const CUpti_ResourceData *r = data;

		if (cupti.GetStreamIdEx(r->context, r->resourceHandle.stream, 0, &id) !=
		    CUPTI_SUCCESS)
			atomic_fetch_add(&wrong_ids, 1);
	} else if (domain == CUPTI_CB_DOMAIN_STATE && cbid == CUPTI_CBID_STATE_FATAL_ERROR) {
		atomic_fetch_add(&fatal, 1);
	}
}

static void on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*buffer = calloc(1, buffer_bytes);
	*size = *buffer ? buffer_bytes : 0;
	*max_records = 0;
}

static void take_record(const uint8_t *record, size_t left)
{
	uint32_t kind = *(const uint32_t *)(const void *)record;
	unsigned start = record_start_offset(kind);
	uint64_t from = 0, to = 0;
	const char *name;

	if (kind >= KINDS_MAX) {
		atomic_fetch_add(&unknown, 1);
		return;
	}
	atomic_fetch_add(&records[kind], 1);
	if (start && left >= start + 16u) {
		memcpy(&from, record + start, sizeof(from));
		memcpy(&to, record + start + 8, sizeof(to));
		if (from == 0)
			atomic_fetch_add(&zero, 1);
		else if (to == 0)
			atomic_fetch_add(&incomplete, 1);
		else if (from > to)
			atomic_fetch_add(&reversed, 1);
		else
			atomic_fetch_add(&duration_ns[kind], to - from);
	}
	if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && left >= 112) {
		memcpy(&name, record + 104, sizeof(name));
		atomic_fetch_add(name ? &name_bytes : &unnamed, name ? strlen(name) : 1);
	}
}

static void on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context;
	(void)stream;
	(void)size;
	atomic_fetch_add(&buffers, 1);
	while (cupti.ActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		take_record((const uint8_t *)record, valid - (size_t)((uint8_t *)record - buffer));
	free(buffer);
}

static void write_report(void)
{
	const char *path = getenv("PROBE_OUTPUT");
	FILE *f = path ? fopen(path, "we") : NULL;
	size_t dropped = 0;

	cupti.ActivityFlushAll(1);
	if (!f)
		return;
	cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped);
	fprintf(f,
		"version %u\nbuffers %lu\ndropped %zu\nunknown %lu\nincomplete %lu\nreversed "
		"%lu\nzero %lu\nunnamed %lu\nname_bytes %lu\n",
		cupti.version, buffers, dropped, unknown, incomplete, reversed, zero, unnamed,
		name_bytes);
	fprintf(f, "missing %u\n", missing);
	fprintf(f, "wrong_ids %lu\nbackwards %lu\nfatal %lu\nlast_correlation %lu\n", wrong_ids,
		backwards, fatal, last_correlation);
	for (unsigned i = 0; i < CUPTI_CB_DOMAIN_SIZE; i++)
		if (domains[i])
			fprintf(f, "domain_%u %lu\n", i, domains[i]);
	for (unsigned i = 0; i < KINDS_MAX; i++)
		if (records[i])
			fprintf(f, "%s %lu %lu ns\n", kind_name(i), records[i], duration_ns[i]);
	fprintf(f, "time %lu\n", (unsigned long)clock_monotonic_ns());
	fclose(f);
}

static void fill_tables(void *libcupti, void *libcuda)
{
#define F(name, need)                                                                              \
	*(void **)&cupti.name = dlsym(libcupti, "cupti" #name);                                    \
	missing += !cupti.name;
	CUPTI_FUNCTIONS(F)
#undef F
#define F(name, symbol, ...) *(void **)&driver.name = dlsym(libcuda, symbol);
	DRIVER_FUNCTIONS(F)
#undef F
}

static void ask_about_devices(void)
{
	char name[64];
	CUdevice device;
	int count = 0;

	driver.DeviceGetCount(&count);
	for (int i = 0; i < count; i++)
		if (driver.DeviceGet(&device, i) == CUDA_SUCCESS)
			driver.DeviceGetName(name, sizeof(name), device);
}

static void enable_everything(void)
{
	CUpti_SubscriberHandle subscriber;

	if (cupti.Subscribe(&subscriber, on_callback, NULL) != CUPTI_SUCCESS)
		return;
	for (int domain = 1; domain < CUPTI_CB_DOMAIN_SIZE; domain++)
		if (cupti.EnableDomain(1, subscriber, (CUpti_CallbackDomain)domain) !=
		    CUPTI_SUCCESS)
			return;
	if (cupti.ActivityRegisterCallbacks(on_request, on_complete) != CUPTI_SUCCESS)
		return;
	for (int kind = 1; kind < KINDS_MAX; kind++)
		if (cupti.ActivityEnable((CUpti_ActivityKind)kind) != CUPTI_SUCCESS)
			return;
}

EXPORT int InitializeInjection(void)
{
	const char *named = getenv("PITOT_CUPTI");
	void *libcupti =
		named ? dlopen(named, RTLD_NOW) : dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
	void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const char *bytes = getenv("PROBE_BUFFER_BYTES");
	uint64_t now;

	if (!libcupti || !libcuda)
		return 0;
	fill_tables(libcupti, libcuda);
	if (bytes)
		buffer_bytes = strtoul(bytes, NULL, 10);
	cupti.GetVersion(&cupti.version);
	ask_about_devices();
	cupti.GetTimestamp(&now);
	enable_everything();
	cupti.GetTimestamp(&now);
	atexit(write_report);
	return 1;
}
