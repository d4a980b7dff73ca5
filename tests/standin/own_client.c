/*
 * A program's own client of CUPTI, like torch.profiler: two sessions over a tape, each with a
 * subscription, a timestamp callback, external correlation ids, a forced flush, and cuptiFinalize()
 * in the exit callback of a call. It writes each record as a line to the file OWN_CLIENT_OUT, with
 * the number of its session.
 *
 * A session ends at a synchronization, when the GPU is idle.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>
#include <cupti.h>

#include "base/clock.h"
#include "base/compiler.h"

#define BUFFER_BYTES (256u << 10)
#define BUFFERS_MAX 256u
#define CLOCK_AHEAD_NS (1000000 * NS_PER_S) /* our clock minus CLOCK_MONOTONIC */
#define SESSIONS 2u

#ifdef BY_DLSYM
static void *lookup(const char *name)
{
	const char *own = getenv("OWN_CLIENT_CUPTI"); /* the client's own, as with Triton */
	void *library =
		own ? dlopen(own, RTLD_NOW) : dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
	void *function = library ? dlsym(library, name) : NULL;

	if (!function)
		abort();
	return function;
}
#define C(name) (*(__typeof__(name) *)lookup(#name))
#else
#define C(name) name
#endif

static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMSET,
	CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
};

static struct {
	CUpti_SubscriberHandle subscriber;
	unsigned session; /* 1, 2; 0: none has begun */
	bool active, has_paused;
	atomic_bool ending; /* cuptiFinalize() is due */
	size_t next_end; /* step from which on the session may end */
	pthread_mutex_t lock;
	uint8_t *lent[BUFFERS_MAX];
	struct ready {
		uint8_t *bytes;
		size_t valid;
	} ready[BUFFERS_MAX];
	unsigned lent_count, ready_count;
	unsigned enters, exits; /* counts of our callback with the call's word intact */
	FILE *out;
} self = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread bool pushed;

static void must(CUptiResult result, const char *what)
{
	if (result == CUPTI_SUCCESS)
		return;
	fprintf(stderr, "client: %s: %d\n", what, (int)result);
	abort();
}
#define MUST(name, ...) must(C(name)(__VA_ARGS__), #name)

static uint64_t CUPTIAPI our_clock(void)
{
	return clock_monotonic_ns() + CLOCK_AHEAD_NS;
}

static void CUPTIAPI on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	pthread_mutex_lock(&self.lock);
	*buffer = self.lent_count < BUFFERS_MAX ? malloc(BUFFER_BYTES) : NULL;
	*size = BUFFER_BYTES;
	*max_records = 0;
	if (*buffer)
		memset(*buffer, 0xee, BUFFER_BYTES);
	if (*buffer)
		self.lent[self.lent_count++] = *buffer;
	pthread_mutex_unlock(&self.lock);
}

static void CUPTIAPI on_complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	(void)context;
	(void)stream;
	pthread_mutex_lock(&self.lock);
	for (unsigned i = 0; i < self.lent_count; i++)
		if (self.lent[i] == buffer && size == BUFFER_BYTES &&
		    self.ready_count < BUFFERS_MAX) {
			self.lent[i] = self.lent[--self.lent_count];
			self.ready[self.ready_count++] = (struct ready){ buffer, valid };
			buffer = NULL;
			break;
		}
	pthread_mutex_unlock(&self.lock);
	if (buffer) {
		fputs("client: a buffer that is not ours\n", stderr);
		abort();
	}
}

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const CUpti_CallbackData *data)
{
	(void)id;
	if (user != &self ||
	    (domain != CUPTI_CB_DOMAIN_RUNTIME_API && domain != CUPTI_CB_DOMAIN_DRIVER_API))
		return;
	if (data->callbackSite == CUPTI_API_ENTER) {
		if (*data->correlationData)
			abort();
		*data->correlationData = data->correlationId + UINT64_C(1);
		self.enters++;
		return;
	}
	self.exits += *data->correlationData == data->correlationId + UINT64_C(1);
	if (!self.exits || !atomic_exchange(&self.ending, false))
		return;
	fprintf(self.out, "%u callbacks %s 0 0 0\n", self.session,
		self.enters ? "paired" : "alone");
	MUST(cuptiUnsubscribe, self.subscriber);
	MUST(cuptiFinalize);
	self.subscriber = NULL;
}

/* --- what it got --- */

static void write_record(const CUpti_Activity *record)
{
	const CUpti_ActivityKernel10 *k = (const void *)record;
	const CUpti_ActivityMemcpy6 *m = (const void *)record;
	const CUpti_ActivityMemset4 *s = (const void *)record;
	const CUpti_ActivityExternalCorrelation *e = (const void *)record;

	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		fprintf(self.out, "%u kernel %u %s %" PRIu64 " %" PRIu64 "\n", self.session,
			k->correlationId, k->name, k->end - k->start, k->start);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		fprintf(self.out, "%u memcpy %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			self.session, m->correlationId, (uint64_t)m->bytes, m->end - m->start,
			m->start);
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		fprintf(self.out, "%u memset %u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			self.session, s->correlationId, (uint64_t)s->bytes, s->end - s->start,
			s->start);
		break;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		fprintf(self.out, "%u external %u %u %" PRIu64 " 0\n", self.session,
			e->correlationId, (unsigned)e->externalKind, (uint64_t)e->externalId);
		break;
	default:
		fprintf(self.out, "%u kind %u 0 0 0\n", self.session, (unsigned)record->kind);
		break;
	}
}

static void read_buffers(void)
{
	for (unsigned i = 0; i < self.ready_count; i++) {
		CUpti_Activity *record = NULL;
		CUptiResult result;

		while ((result = C(cuptiActivityGetNextRecord)(self.ready[i].bytes,
							       self.ready[i].valid, &record)) ==
		       CUPTI_SUCCESS)
			write_record(record);
		if (result != CUPTI_ERROR_MAX_LIMIT_REACHED)
			fprintf(self.out, "%u unreadable %d 0 0 0\n", self.session, (int)result);
		free(self.ready[i].bytes);
	}
	self.ready_count = 0;
}

/* --- sessions --- */

/* Only this library has CUPTI in its scope, so the result of dlsym() depends on the caller. */
static void check_scope(void)
{
#ifndef BY_DLSYM
	if (dlsym(RTLD_DEFAULT, "cuptiGetVersion") && dlsym(RTLD_NEXT, "cuptiGetVersion"))
		return;
	fprintf(stderr, "client: dlsym() does not find CUPTI in our scope\n");
	abort();
#endif
}

static void begin(size_t index, size_t count)
{
	CUptiResult result;

	check_scope();
	result = C(cuptiSubscribe)(&self.subscriber, (CUpti_CallbackFunc)on_callback, &self);

	self.session++;
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		fprintf(self.out, "%u refused 0 0 0 0\n", self.session);
		self.subscriber = NULL;
		return;
	}
	must(result, "cuptiSubscribe");
	self.active = true;
	self.next_end = index + count / 4;
	MUST(cuptiActivityRegisterTimestampCallback, our_clock);
	MUST(cuptiActivityRegisterCallbacks, on_request, on_complete);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		MUST(cuptiActivityEnable, kinds[i]);
}

/* OWN_CLIENT_PAUSE: idle milliseconds after the first session. */
static void pause_between(void)
{
	const char *ms = getenv("OWN_CLIENT_PAUSE");

	self.has_paused = true;
	if (ms)
		usleep((useconds_t)strtoul(ms, NULL, 10) * 1000);
}

static void finish(void)
{
	size_t dropped = 0;

	self.active = false;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		MUST(cuptiActivityDisable, kinds[i]);
	MUST(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	MUST(cuptiActivityGetNumDroppedRecords, NULL, 0, &dropped);
	read_buffers();
	fprintf(self.out, "%u dropped %zu 0 0 0\n", self.session, dropped);
	MUST(cuptiEnableDomain, 1, self.subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
	MUST(cuptiEnableDomain, 1, self.subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
	self.enters = self.exits = 0;
	atomic_store(&self.ending, true);
}

EXPORT void client_step(size_t index, size_t count, const char *function, unsigned site);
EXPORT void client_step(size_t index, size_t count, const char *function, unsigned site)
{
	const char *wanted =
		getenv("OWN_CLIENT_SYNC"); /* the call that waits for all of the work */
	bool is_synchronized =
		function && wanted && strcmp(function, wanted) == 0 && site == CUPTI_API_EXIT;

	if (!self.out)
		self.out = fopen(getenv("OWN_CLIENT_OUT"), "we");
	if (pushed)
		MUST(cuptiActivityPopExternalCorrelationId, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
		     NULL);
	pushed = false;
	if (!self.active && !self.subscriber && self.session == 1 && !self.has_paused)
		pause_between();
	if (self.active && index >= self.next_end && is_synchronized)
		finish();
	else if (!self.active && !self.subscriber && self.session < SESSIONS &&
		 index >= self.session * count / 2 && is_synchronized)
		begin(index, count);
	if (self.active && function && site == CUPTI_API_ENTER) {
		MUST(cuptiActivityPushExternalCorrelationId,
		     CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, index);
		pushed = true;
	}
}

EXPORT void client_end(void);
EXPORT void client_end(void)
{
	if (self.active)
		finish();
	fclose(self.out);
}
