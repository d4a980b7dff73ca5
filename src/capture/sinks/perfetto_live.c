#include "capture/sinks/perfetto_live.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/globs.h"
#include "base/helper_thread.h"
#include "base/map.h"
#include "base/plural.h"
#include "capture/core/capability_notes.h"
#include "capture/core/collector.h"
#include "capture/core/log.h"
#include "capture/attach_server.h"
#include "capture/core/park.h"
#include "capture/sinks/perfetto_gpus.h"
#include "capture/core/process_exit.h"
#include "capture/core/session.h"
#include "capture/sinks/verbose_sink.h"
#include "cupti/profiler_host.h"
#include "perfetto/perfetto_counter_packets.h"
#include "perfetto/perfetto_sink.h"
#include "perfetto/producer.h"

#define SUFFIX "nv"
#define FLUSH_LIMIT_NS (PITOT_SLOWNESS * NS_PER_S)
#define STARTUP_LIMIT_NS (30 * NS_PER_S)
#define QUEUE_BYTES ((size_t)32 << 20) /* only used parts occupy memory */
#define WORKER_STACK_BYTES (256u << 10)
#define COUNTERS_MAX 256
#define SAMPLES_PER_S 99 /* the default rate */

enum live_source {
	SOURCE_COUNTERS, /* includes the GPU's work, as in perfetto-cupti-gpu-compute */
	SOURCE_COUNTERS_ALONE,
	SOURCE_WORK,
	SOURCE_WORK_SUFFIX,
	SOURCE_CALLS,
	SOURCE_SAMPLES,
	SOURCES,
};

/* A data source in a session of the tracing service. */
struct instance {
	struct instance *next;
	uint32_t id;
	enum live_source source;
	uint32_t buffer; /* of the service: instances with equal buffers belong to one trace */
	atomic_uint rows; /* enum perfetto_rows */
	atomic_bool restart;
	atomic_uint users; /* references: the list's and the sink's */
	bool is_open; /* or is being opened */
	bool is_gone; /* it was stopped while it was being opened */
	struct settings settings;
	struct session *session;
};

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

/* Protects the fields below; held only briefly. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	struct producer *producer;
	pid_t owner;
	uint64_t seed;
	char names[SOURCES][PRODUCER_NAME_MAX];
	const char *counters[COUNTERS_MAX]; /* announced ones; index: number - 1 */
	uint32_t counter_count, default_count; /* the default ones come first */
	struct instance *instances;
	bool is_waiting; /* a thread of the program waits for the startup, and opens the sessions */
	atomic_uint events; /* counts the events that this thread waits for; a futex */
	atomic_bool is_ending; /* the process: nothing is started any more */
	atomic_uint started; /* sources that were started at least once, as bits */
	struct session *verbose; /* of INJECTION_VERBOSE; lasts as long as the process */
} self;

/* --- slow requests run on threads of their own, so that packets continue to be sent --- */

struct request {
	uint32_t id;
	struct session *session; /* to close; NULL: a flush */
	bool answer;
};

static void *run_request(void *argument)
{
	struct request *r = argument;
	uint64_t lost;

	if (r->session)
		session_close(&r->session);
	else
		collector_flush(FLUSH_LIMIT_NS);
	lost = producer_lost(self.producer, r->id);
	if (lost)
		log_line("perfetto: %llu packets were lost", (unsigned long long)lost);
	if (r->answer)
		producer_done(self.producer, r->id);
	free(r);
	return NULL;
}

static void request(uint32_t id, struct session *session, bool answer)
{
	struct request *r = malloc(sizeof(*r));

	if (r)
		*r = (struct request){ id, session, answer };
	if (r && helper_thread_start(run_request, r, WORKER_STACK_BYTES) == 0)
		return;
	free(r);
	if (session)
		session_close(&session);
	if (answer)
		producer_done(self.producer, id);
}

/* --- instances --- */

static void release_instance(void *instance)
{
	struct instance *i = instance;

	if (atomic_fetch_sub(&i->users, 1) == 1)
		free(i);
}

static bool write_packet(void *user, uint32_t sequence, const void *packet, size_t length,
			 bool is_end)
{
	const struct instance *i = user;

	return producer_write(self.producer, i->id, sequence, packet, length, is_end);
}

static unsigned rows_of(enum live_source source)
{
	static const unsigned rows[] = {
		[SOURCE_COUNTERS] = PERFETTO_COUNTERS | PERFETTO_WORK,
		[SOURCE_COUNTERS_ALONE] = PERFETTO_COUNTERS,
		[SOURCE_WORK] = PERFETTO_WORK,
		[SOURCE_WORK_SUFFIX] = PERFETTO_WORK,
		[SOURCE_CALLS] = PERFETTO_CALLS | PERFETTO_RANGES,
		[SOURCE_SAMPLES] = PERFETTO_SAMPLES,
	};

	return rows[source];
}

static bool is_listed(const struct perfetto_texts *list, const char *category, bool exactly)
{
	for (uint32_t n = 0; n < list->count; n++)
		if (exactly ? !strcmp(list->items[n], category)
			    : glob_matches(list->items[n], strlen(list->items[n]), category))
			return true;
	return false;
}

/* Follows Perfetto's order: names before patterns, enabled before disabled categories. */
static bool has_category(const struct perfetto_config *config, const char *category)
{
	for (int pattern = 0; pattern < 2; pattern++) {
		if (is_listed(&config->enabled_categories, category, !pattern))
			return true;
		if (is_listed(&config->disabled_categories, category, !pattern))
			return false;
	}
	return true;
}

/* Excludes kinds of rows none of whose categories is enabled. */
static unsigned enabled_rows(enum live_source source, const struct perfetto_config *config)
{
	unsigned rows = rows_of(source);

	if (!has_category(config, "cuda_runtime") && !has_category(config, "cuda_driver"))
		rows &= ~(unsigned)PERFETTO_CALLS;
	if (!has_category(config, "nvtx") && !has_category(config, "scope"))
		rows &= ~(unsigned)PERFETTO_RANGES;
	return rows;
}

/* Moves the metrics of ranges to the instance with the ranges, or leaves them in only one. */
static void share_range_metrics(struct instance *from, struct instance *to)
{
	unsigned metrics = PERFETTO_RANGE_METRICS;

	if (from != to && atomic_load(&from->rows) & metrics &&
	    (to->source == SOURCE_CALLS || atomic_load(&to->rows) & metrics)) {
		atomic_fetch_and(&from->rows, ~metrics);
		atomic_fetch_or(&to->rows, metrics);
	}
}

/*
 * Ensures that work appears only once in a trace: from the data source for work, if there is one,
 * which then carries the metrics of other instances as arguments.
 */
static void share_work(void)
{
	for (struct instance *c = self.instances; c; c = c->next)
		for (struct instance *w = self.instances; w; w = w->next) {
			if (w->buffer != c->buffer)
				continue;
			share_range_metrics(c, w);
			if (w->source != SOURCE_WORK && w->source != SOURCE_WORK_SUFFIX)
				continue;
			if (c->source == SOURCE_COUNTERS)
				atomic_fetch_and(&c->rows, ~(unsigned)PERFETTO_WORK);
			if (atomic_load(&c->rows) & PERFETTO_METRICS)
				atomic_fetch_or(&w->rows, PERFETTO_ARGUMENTS);
		}
}

/* Appends a pattern to a comma-separated setting. Returns 1 if it is left out. */
static uint32_t add_glob(setting_TEXT list, const char *prefix, const char *glob)
{
	size_t length = strlen(list), more = strlen(prefix) + strlen(glob) + (length > 0);

	if (length + more >= OPTION_TEXT_MAX) {
		log_line("perfetto: pattern '%s' is left out: the patterns are too long together",
			 glob);
		return 1;
	}
	snprintf(list + length, OPTION_TEXT_MAX - length, "%s%s%s", length ? "," : "", prefix,
		 glob);
	for (char *at = list + length + 1; *at; at++)
		if (*at == ',')
			*at = '?';
	return 0;
}

/* Reads names, or numbers of announced counters. Returns how many are left out. */
static uint32_t read_counters(struct settings *s, const struct perfetto_config *config)
{
	uint32_t left_out = 0;

	if (config->counter_names.count || config->counter_id_count)
		s->metrics[0] = '\0';
	for (uint32_t n = 0; n < config->counter_names.count; n++)
		left_out += add_glob(s->metrics, "", config->counter_names.items[n]);
	for (uint32_t n = 0; n < config->counter_id_count; n++) {
		uint32_t i = config->counter_ids[n] - 1;

		left_out += i < self.counter_count ? add_glob(s->metrics, "", self.counters[i]) : 1;
	}
	return left_out;
}

static uint32_t read_globs(struct settings *s, const struct perfetto_config *config)
{
	static const char *const prefixes[] = {
		[PERFETTO_MANGLED_KERNEL_NAME] = "mangled=",
		[PERFETTO_DEMANGLED_KERNEL_NAME] = "demangled=",
		[PERFETTO_FUNCTION_NAME] = "function=",
	};

	uint32_t left_out = 0;

	if (config->name_filter_count)
		s->kernels[0] = '\0';
	for (uint32_t n = 0; n < config->name_filter_count; n++)
		left_out += add_glob(s->kernels, prefixes[config->name_filters[n].base],
				     config->name_filters[n].glob);
	for (uint32_t n = 0; n < config->nvtx_include.count; n++)
		left_out += add_glob(s->nvtx_include, "", config->nvtx_include.items[n]);
	for (uint32_t n = 0; n < config->nvtx_exclude.count; n++)
		left_out += add_glob(s->nvtx_exclude, "", config->nvtx_exclude.items[n]);
	return left_out;
}

/* A kernel in any range is measured; all are without ranges. Returns how many are left out. */
static uint32_t read_ranges(struct settings *s, const struct perfetto_config *config)
{
	size_t length = 0;

	s->kernel_skip = s->kernel_count = 0;
	for (uint32_t n = 0; n < config->range_count; n++) {
		const struct perfetto_range *range = &config->ranges[n];
		char text[32];
		int more = snprintf(text, sizeof(text), "%s%u+%u", length ? "," : "", range->skip,
				    range->count);

		if (length + (size_t)more >= OPTION_TEXT_MAX)
			return config->range_count - n;
		memcpy(s->kernel_ranges + length, text, (size_t)more + 1);
		length += (size_t)more;
	}
	return 0;
}

/*
 * Requests hardware counters of kernels, as `pitot record --engine range-profiler` does, if the
 * configuration requests instrumented sampling or the environment requests metrics.
 */
static void request_metrics(struct instance *i, const struct perfetto_config *config)
{
	const char *list = secure_getenv("INJECTION_METRICS");
	struct settings *s = &i->settings;
	uint32_t left_out = config->ignored_items;

	if (!config->instrumented && !list) {
		if (config->counter_names.count || config->counter_id_count)
			capability_note(feature_perfetto, capability_state_degraded, NULL, NULL,
					"the configuration's counters are measured per kernel; add "
					"'instrumented_sampling: true'");
		return;
	}
	s->engine = SETTING_ENGINE_RANGE_PROFILER;
	if (list && *list)
		injection_metrics_read(s->metrics, list);
	left_out += read_counters(s, config);
	left_out += read_globs(s, config);
	left_out += read_ranges(s, config);
	if (left_out)
		capability_note(
			feature_perfetto, capability_state_degraded, NULL, NULL,
			"%u %s left out: %s too long, too many, or not announced", left_out,
			plural_of(left_out, "name, pattern, id or range of the configuration is",
				  "names, patterns, ids or ranges of the configuration are"),
			plural_of(left_out, "it is", "they are"));
	atomic_fetch_or(&i->rows, PERFETTO_METRICS);
	if (s->measure != SETTING_MEASURE_KERNEL)
		atomic_fetch_or(&i->rows, PERFETTO_RANGE_METRICS);
}

static void read_settings(struct instance *i, const struct perfetto_config *config)
{
	unsigned rows = atomic_load(&i->rows);
	struct settings *s = &i->settings;

	*s = (struct settings)SETTINGS_INIT;
	(void)!settings_read(s, NULL, false, NULL);
	settings_clear_sinks(s);
	s->start_ns = s->delay_ns = s->duration_ns = 0; /* they are another recording's */
	s->perf = 0;
	if (i->source != SOURCE_SAMPLES)
		s->cpu = 0;
	else if (config->samples_per_s)
		s->cpu = MIN(config->samples_per_s, SETTING_CPU_HZ_MAX);
	else if (!s->cpu)
		s->cpu = SAMPLES_PER_S;
	if (!(rows & (PERFETTO_CALLS | PERFETTO_SAMPLES)))
		s->stacks = SETTING_STACKS_NONE;
	if (!(rows & (PERFETTO_CALLS | PERFETTO_WORK)))
		s->engine = SETTING_ENGINE_MONITOR;
	if (config->counter_period_ns)
		s->counters_ns = config->counter_period_ns;
	if (rows & PERFETTO_COUNTERS)
		request_metrics(i, config);
}

static int source_by_name(const char *name)
{
	for (int i = 0; i < SOURCES; i++)
		if (!strcmp(self.names[i], name))
			return i;
	return -1;
}

static struct instance *new_instance(uint32_t id, const struct perfetto_config *config)
{
	int source = source_by_name(config->source);
	struct instance *i = source < 0 ? NULL : calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->id = id;
	i->source = (enum live_source)source;
	i->buffer = config->target_buffer;
	atomic_init(&i->rows, enabled_rows(i->source, config));
	atomic_init(&i->users, 2);
	read_settings(i, config);
	return i;
}

static void open_instance(struct instance *i, enum session_trigger trigger)
{
	struct perfetto_sink_options options = {
		.rows = &i->rows,
		.restart = &i->restart,
		.seed = self.seed,
		.user = i,
		.write = write_packet,
		.released = release_instance,
		.gpu_number = perfetto_gpu_number,
	};
	struct sink *sink = perfetto_sink_new(&options);
	struct session *session = NULL, *orphan = NULL;

	atomic_fetch_add(&i->users, 1);
	if (sink)
		session = session_open(&i->settings, sink, trigger);
	else
		release_instance(i);
	log_line("perfetto: %s %s", self.names[i->source], session ? "starts" : "cannot start");
	pthread_mutex_lock(&lock);
	self.started |= 1u << i->source;
	if (i->is_gone)
		orphan = session;
	else
		i->session = session;
	pthread_mutex_unlock(&lock);
	if (orphan)
		request(i->id, orphan, false);
	release_instance(i);
}

/*
 * During cuInit only the thread that the driver called may use CUDA: another thread would wait for
 * the end of cuInit. So the waiting thread opens the sessions (wait_for_startup).
 */
static void start(void *user, uint32_t id, const struct perfetto_config *config)
{
	struct instance *i = new_instance(id, config);
	bool now;

	(void)user;
	if (!i)
		return;
	if (atomic_load(&self.is_ending)) {
		free(i);
		return;
	}
	/* Waits until self.producer is set. */
	pthread_mutex_lock(&starting);
	pthread_mutex_unlock(&starting);
	pthread_mutex_lock(&lock);
	i->next = self.instances;
	self.instances = i;
	share_work();
	now = i->is_open = !self.is_waiting;
	pthread_mutex_unlock(&lock);
	if (now)
		open_instance(i, SESSION_BY_PROGRAM);
	atomic_fetch_add(&self.events, 1);
	futex_wake(&self.events);
}

/* --- the service's commands, on the producer's thread --- */

static void flush(void *user, uint32_t id)
{
	(void)user;
	request(id, NULL, true);
}

/* Removes an instance from the list. Returns its session, or NULL if it has none. */
static struct session *remove_instance(uint32_t id)
{
	struct session *session = NULL;
	struct instance *found;

	pthread_mutex_lock(&lock);
	for (struct instance **at = &self.instances; *at; at = &(*at)->next)
		if ((*at)->id == id) {
			found = *at;
			*at = found->next;
			session = found->session;
			found->is_gone = true;
			self.started |= 1u << found->source; /* nobody needs to wait for it */
			release_instance(found);
			break;
		}
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&self.events, 1);
	futex_wake(&self.events);
	return session;
}

static void stop(void *user, uint32_t id)
{
	struct session *session = remove_instance(id);

	(void)user;
	if (session)
		request(id, session, true);
	else
		producer_done(self.producer, id);
}

static void clear(void *user, uint32_t id)
{
	(void)user;
	pthread_mutex_lock(&lock);
	for (struct instance *i = self.instances; i; i = i->next)
		if (i->id == id)
			atomic_store(&i->restart, true);
	pthread_mutex_unlock(&lock);
}

static void lost(void *user)
{
	(void)user;
	while (self.instances) { /* only this thread changes the list */
		uint32_t id = self.instances->id;
		struct session *session = remove_instance(id);

		if (session)
			request(id, session, false);
	}
}

static void refused(void *user, const char *path, unsigned uid)
{
	(void)user;
	log_line("perfetto: the service at '%s' is that of user %u", path, uid);
	capability_note(feature_perfetto, capability_state_unavailable, "live trace", "none",
			"the service at '%s' is that of user %u: start traced as root or as the "
			"user of the program",
			path, uid);
}

/* The collector ends first, so that its last rows are sent. */
static bool program_ended(void *user)
{
	(void)user;
	return !collector_running() && helper_threads_are_last();
}

/* --- the beginning --- */

static void name_sources(void)
{
	const char *name = secure_getenv("INJECTION_DATA_SOURCE_NAME");
	const char *suffix = secure_getenv("INJECTION_DATA_SOURCE_NAME_SUFFIX");

#define NAME(source, ...) snprintf(self.names[source], PRODUCER_NAME_MAX, __VA_ARGS__)
	suffix = suffix && *suffix ? suffix : SUFFIX;
	NAME(SOURCE_COUNTERS, "%s", name && *name ? name : "gpu.counters");
	NAME(SOURCE_COUNTERS_ALONE, "gpu.counters.%s", suffix);
	NAME(SOURCE_WORK, "gpu.renderstages");
	NAME(SOURCE_WORK_SUFFIX, "gpu.renderstages.%s", suffix);
	NAME(SOURCE_CALLS, "gpu.track_event");
	NAME(SOURCE_SAMPLES, "pitot.cpu_samples");
#undef NAME
}

/*
 * Lists the hardware counters of the named sets, for dialogs; only CUPTI knows all counters of a
 * chip (`pitot metrics`).
 */
static void list_counters(void)
{
	self.counter_count = 0;
	for (size_t set = 0; metric_set_names[set]; set++) {
		const char *const *m = metric_set_named(metric_set_names[set]);

		for (; *m && self.counter_count < COUNTERS_MAX; m++) {
			uint32_t i = 0;

			while (i < self.counter_count && strcmp(self.counters[i], *m) != 0)
				i++;
			self.counters[i] = *m;
			self.counter_count = MAX(self.counter_count, i + 1);
		}
		if (set == 0)
			self.default_count = self.counter_count;
	}
}

static bool is_set(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value;
}

static bool is_requested(bool injected, const char **socket)
{
	const char *own = secure_getenv("PITOT_PERFETTO");
	struct settings settings = SETTINGS_INIT;

	*socket = own && strchr(own, '/') ? own : NULL;
	(void)!settings_read(&settings, NULL, false, NULL);
	/* A setuid program reveals nothing: it is not known whose service would receive it. */
	if (settings.disabled || (own && !strcmp(own, "0")) || getauxval(AT_SECURE))
		return false;
	if ((own && *own) || is_set("INJECTION_DATA_SOURCE_NAME") || is_set("INJECTION_VERBOSE") ||
	    is_set("INJECTION_DATA_SOURCE_NAME_SUFFIX") || is_set("INJECTION_METRICS") ||
	    is_set("__TRACE_STARTUP"))
		return true;
	return injected && !settings_have_sink(&settings) && !attach_server_is_on();
}

/* Returns the sources that __TRACE_STARTUP names, as bits; ignores unknown names. */
static unsigned startup_sources(void)
{
	const char *list = secure_getenv("__TRACE_STARTUP");
	unsigned startup = 0;
	size_t length;

	for (; list && *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		for (int i = 0; i < SOURCES; i++)
			if (strlen(self.names[i]) == length && !memcmp(self.names[i], list, length))
				startup |= 1u << i;
	}
	return startup;
}

/*
 * Returns an instance without session: the one with the most demanding engine first, because CUPTI
 * must be subscribed to for it. NULL: there is none, and from now on each opens its own session.
 */
static struct instance *next_to_open(void)
{
	struct instance *found = NULL;

	pthread_mutex_lock(&lock);
	for (struct instance *i = self.instances; i; i = i->next)
		if (!i->is_open && (!found || i->settings.engine > found->settings.engine))
			found = i;
	if (found)
		found->is_open = true;
	else
		self.is_waiting = false;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Returns the sources that are or were traced, as bits. */
static unsigned present_sources(void)
{
	unsigned present = atomic_load(&self.started);

	pthread_mutex_lock(&lock);
	for (const struct instance *i = self.instances; i; i = i->next)
		present |= 1u << i->source;
	pthread_mutex_unlock(&lock);
	return present;
}

static void wait_for_startup(enum session_trigger trigger, unsigned startup)
{
	uint64_t begun = clock_machine_ns(), waited = 0;
	unsigned events;

	while (waited < STARTUP_LIMIT_NS) {
		events = atomic_load(&self.events);
		if (!(startup & ~present_sources()))
			break;
		futex_wait(&self.events, events, STARTUP_LIMIT_NS - waited);
		waited = clock_machine_ns() - begun;
	}
	for (struct instance *i; (i = next_to_open());)
		open_instance(i, trigger);
	if (startup & ~self.started)
		log_line("perfetto: not all sources of __TRACE_STARTUP were started");
}

static void describe(void *user, size_t source, struct strbuf *out)
{
	struct perfetto_counter counter = { .description = "" };
	size_t token;

	(void)user;
	if (!(rows_of((enum live_source)source) & PERFETTO_COUNTERS))
		return;
	token = proto_open(out, 5);
	for (uint32_t i = 0; i < self.counter_count; i++) {
		counter.number = i + 1;
		counter.name = self.counters[i];
		counter.unit = strstr(counter.name, ".pct") ? "percent" : "";
		counter.is_default = i < self.default_count;
		raw_reserve(out, 0);
		perfetto_counter_specify(out, &counter, PERFETTO_GROUP_COMPUTE);
	}
	proto_uint(out, 5, true); /* supports_instrumented_sampling */
	proto_uint(out, 7, true); /* supports_counter_names */
	proto_uint(out, 8, true); /* supports_counter_name_globs */
	proto_close(out, token);
}

static void start_producer(const char *socket)
{
	const char *names[SOURCES];
	struct producer_options options = {
		.socket = socket,
		.name = program_invocation_short_name,
		.sources = names,
		.source_count = SOURCES,
		.queue_bytes = QUEUE_BYTES,
		.handler = { .start = start,
			     .flush = flush,
			     .stop = stop,
			     .clear = clear,
			     .lost = lost,
			     .refused = refused,
			     .describe = describe,
			     .program_ended = program_ended },
	};
	struct error e = { 0 };

	for (int i = 0; i < SOURCES; i++)
		names[i] = self.names[i];
	self.owner = getpid();
	self.seed = hash_u64(clock_monotonic_ns() ^ (uint64_t)self.owner << 40);
	self.producer = producer_start(&options, &e);
	if (!self.producer) {
		log_line("perfetto: %s", e.text);
		return;
	}
	atexit(perfetto_live_exit);
	at_quick_exit(perfetto_live_exit);
	process_exit_watch_fork();
}

/* The producer remains the parent's; the child gets its own when it calls perfetto_live_start. */
static void after_fork(void)
{
	producer_after_fork(self.producer);
	self.producer = NULL;
	self.instances = NULL;
	self.verbose = NULL;
	self.is_waiting = false;
	self.started = 0;
	atomic_store(&self.is_ending, false);
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&starting, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

bool perfetto_live_start(enum session_trigger trigger)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool is_verbose = false;
	unsigned startup = 0;
	const char *socket;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&starting);
	if (self.owner != getpid() && is_requested(trigger > SESSION_BY_PROGRAM, &socket)) {
		log_open();
		name_sources();
		list_counters();
		startup = startup_sources();
		self.is_waiting = startup != 0;
		start_producer(socket);
		is_verbose = is_set("INJECTION_VERBOSE");
	}
	pthread_mutex_unlock(&starting);
	if (is_verbose)
		self.verbose = verbose_start(trigger);
	if (startup && self.producer)
		wait_for_startup(trigger, startup);
	return self.producer != NULL && self.owner == getpid();
}

void perfetto_live_exit(void)
{
	if (!self.producer || self.owner != getpid())
		return;
	atomic_store(&self.is_ending, true);
	session_exit();
	producer_stop(self.producer);
	session_exit(); /* ends a data source that was started in between */
}
