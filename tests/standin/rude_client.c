/*
 * A client of CUPTI that does one unusual thing, RUDE_CLIENT, and writes CUPTI's answers to the
 * file OWN_CLIENT_OUT. It begins at a synchronization in the first half of the tape and ends at one
 * in the second half, unless it does everything at once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <cupti.h>

#include "base/compiler.h"

#define BUFFER_BYTES (64u << 10)
#define BUFFERS_MAX 1024u
#define ROUNDS 300u
#define CHILD_STATUS 7

static struct {
	FILE *out;
	CUpti_SubscriberHandle subscriber;
	unsigned state; /* number of actions so far */
	/* Of the first and the second pair of callbacks: */
	uint8_t *lent[2][BUFFERS_MAX];
	unsigned lent_count[2], kernels[2], strays;
	pid_t child; /* forked in a callback; 0: not yet */
	bool is_child;
} self;

static void answer(const char *what, long value)
{
	fprintf(self.out, "%s %ld\n", what, value);
	fflush(self.out);
}
#define ANSWER(name, ...) answer(#name, cupti##name(__VA_ARGS__))

/* --- buffers --- */

static void lend(unsigned to, uint8_t **buffer, size_t *size, size_t *most)
{
	*size = BUFFER_BYTES;
	*most = 0;
	*buffer = self.lent_count[to] < BUFFERS_MAX ? malloc(BUFFER_BYTES) : NULL;
	if (*buffer)
		self.lent[to][self.lent_count[to]++] = *buffer;
}

static void take(unsigned from, uint8_t *buffer, size_t valid)
{
	CUpti_Activity *record = NULL;
	bool is_lent = false;

	for (unsigned i = 0; i < self.lent_count[from]; i++)
		is_lent |= self.lent[from][i] == buffer;
	self.strays += !is_lent;
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		self.kernels[from] += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
}

static void CUPTIAPI first_request(uint8_t **buffer, size_t *size, size_t *most)
{
	lend(0, buffer, size, most);
}

static void CUPTIAPI first_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
				    size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size;
	take(0, buffer, valid);
}

static void CUPTIAPI second_request(uint8_t **buffer, size_t *size, size_t *most)
{
	lend(1, buffer, size, most);
}

static void CUPTIAPI second_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
				     size_t size, size_t valid)
{
	(void)context, (void)stream, (void)size;
	take(1, buffer, valid);
}

/* --- callbacks --- */

static void end_all(void)
{
	cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	cuptiUnsubscribe(self.subscriber);
	cuptiFinalize();
	cuptiFinalize();
}

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	(void)user, (void)domain, (void)id, (void)data;
	if (strcmp(getenv("RUDE_CLIENT"), "fork") != 0 || self.child || self.is_child)
		return;
	self.child = fork();
	self.is_child = self.child == 0;
}

static CUptiResult subscribe(CUpti_SubscriberHandle *handle)
{
	return cuptiSubscribe(handle, (CUpti_CallbackFunc)on_callback, NULL);
}

static void begin_session(void)
{
	ANSWER(ActivityRegisterCallbacks, first_request, first_complete);
	ANSWER(ActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

/* --- what it does --- */

/* Excludes the first two, which may hang in a CUDA call if CUPTI itself answers. */
static void ask_for_counters(bool all)
{
	static const char *const names[] = {
		"cuptiPCSamplingEnable",     "cuptiPmSamplingEnable",
		"cuptiSassMetricsSetConfig", "cuptiSassMetricsEnable",
		"cuptiRangeProfilerEnable",  "cuptiEventGroupEnable",
		"cuptiProfilerDeInitialize",
	};
	void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);

	for (size_t i = all ? 0 : 2; i < ARRAY_SIZE(names); i++) {
		uint64_t parameters[64] = { 0 };
		CUptiResult (*function)(void *) = NULL;

		*(void **)&function = dlsym(library, names[i]);
		if (function)
			answer(names[i], (long)function(parameters));
	}
	ANSWER(GetLastError, );
}

static void get_attribute(CUpti_ActivityAttribute a)
{
	size_t value = 0, size = sizeof(value);

	ANSWER(ActivityGetAttribute, a, &size, &value);
	answer("value", (long)value);
}

static void get_type(void)
{
	CUpti_ActivityThreadIdType type = (CUpti_ActivityThreadIdType)99;

	ANSWER(GetThreadIdType, &type);
	answer("type", (long)type);
}

static void use_attributes(void)
{
	CUpti_ActivityAttribute a = CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE;
	size_t value = 12345678, size = sizeof(value), small = 1, large = 64;

	get_attribute(a);
	ANSWER(ActivitySetAttribute, a, &size, &value);
	ANSWER(ActivityGetAttribute, a, &small, &value);
	get_attribute(a);
	ANSWER(ActivitySetAttribute, a, &large, &value);
	ANSWER(ActivitySetAttribute, (CUpti_ActivityAttribute)4711, &size, &value);
	ANSWER(ActivitySetAttribute, a, NULL, &value);
	ANSWER(ActivityGetAttribute, a, &size, NULL);
	ANSWER(GetLastError, );
	ANSWER(GetLastError, );
	get_type();
	ANSWER(SetThreadIdType, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	get_type();
	ANSWER(Finalize, );
	get_attribute(a);
	get_type();
}

static pthread_barrier_t both;
static atomic_uint won;

static void *subscribe_at_once(void *unused)
{
	CUpti_SubscriberHandle handle;

	for (unsigned i = 0; i < ROUNDS; i++) {
		bool has;

		pthread_barrier_wait(&both);
		has = subscribe(&handle) == CUPTI_SUCCESS;
		atomic_fetch_add(&won, has);
		pthread_barrier_wait(&both);
		if (has)
			cuptiUnsubscribe(handle);
	}
	return unused;
}

static void subscribe_twice_at_once(void)
{
	pthread_t other;

	pthread_barrier_init(&both, NULL, 2);
	if (pthread_create(&other, NULL, subscribe_at_once, NULL) != 0)
		abort();
	subscribe_at_once(NULL);
	pthread_join(other, NULL);
	answer("won", (long)atomic_load(&won));
}

static void wait_for_child(void)
{
	int status = 0;

	answer("forked", self.child > 0 && waitpid(self.child, &status, 0) == self.child);
	answer("status", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static void act(const char *how)
{
	unsigned at = self.state++;
	bool forks = strcmp(how, "fork") == 0;

	if (strstr(how, "counters") && !at)
		ask_for_counters(how[0] == 'c');
	if (strcmp(how, "attributes") == 0 && !at)
		use_attributes();
	if (strcmp(how, "second-version") == 0 && !at)
		ANSWER(Subscribe_v2, &self.subscriber, (CUpti_CallbackFunc)on_callback, NULL, NULL);
	if (strcmp(how, "threads") == 0 && !at)
		subscribe_twice_at_once();
	if ((strcmp(how, "silent") == 0 || strcmp(how, "buffers") == 0 || forks) && !at)
		begin_session();
	if (forks && !at) {
		ANSWER(Subscribe, &self.subscriber, (CUpti_CallbackFunc)on_callback, NULL);
		ANSWER(EnableDomain, 1, self.subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
	}
	if (forks && at)
		wait_for_child();
	if (strcmp(how, "buffers") == 0 && at == 1)
		ANSWER(ActivityRegisterCallbacks, second_request, second_complete);
	if (strcmp(how, "again") == 0 && at < 2) {
		begin_session();
		ANSWER(Subscribe, &self.subscriber, (CUpti_CallbackFunc)on_callback, NULL);
		ANSWER(Finalize, );
		ANSWER(Finalize, );
	}
	if (strcmp(how, "again") == 0 && at == 1)
		begin_session();
}

EXPORT void client_step(size_t index, size_t count, const char *function, unsigned site);
EXPORT void client_step(size_t index, size_t count, const char *function, unsigned site)
{
	const char *wanted = getenv("OWN_CLIENT_SYNC");

	if (self.is_child) {
		end_all();
		_exit(CHILD_STATUS);
	}
	if (!self.out)
		self.out = fopen(getenv("OWN_CLIENT_OUT"), "we");
	if (function && strcmp(function, wanted) == 0 && site == CUPTI_API_EXIT &&
	    index >= self.state * count / 3 && self.state < 3)
		act(getenv("RUDE_CLIENT"));
}

EXPORT void client_end(void);
EXPORT void client_end(void)
{
	if (strcmp(getenv("RUDE_CLIENT"), "silent") != 0)
		cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	answer("strays", self.strays);
	answer("first", self.kernels[0]);
	answer("second", self.kernels[1]);
	fclose(self.out);
}
