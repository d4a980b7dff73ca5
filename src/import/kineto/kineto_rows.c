/* kineto_rows.c: what an event becomes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/starts_with.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "schema/event_words.h"

#define SPANS_MAX ((uint64_t)1 << 26) /* 2 GiB */
#define TEXT_BYTES_MAX ((size_t)128 << 20)
#define OWN_FUNCTIONS 0xc000u /* numbers of functions without one */
#define DRIVER 1u /* APIs */
#define RUNTIME 2u
#define EXTERNAL_KIND 3u /* CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, as Kineto has it */

void kineto_append(struct kineto *k, enum table_id table, const void *row)
{
	writer_append(k->writer, table, row);
	k->result->rows[table]++;
	k->rows[table]++;
}

uint32_t kineto_intern(struct kineto *k, const char *text, size_t length)
{
	int64_t item;

	if (k->texts.bytes + length > TEXT_BYTES_MAX || k->texts.count >= KINETO_NAMES_MAX - 1)
		item = interner_find(&k->texts, text, length);
	else
		item = interner_add(&k->texts, text, length, NULL);
	k->counts[KINETO_NO_ROOM_COUNT] += item < 0;
	return (uint32_t)(item + 1);
}

void kineto_add_span(struct kineto *k, uint32_t tid, const struct kineto_span *span)
{
	struct kineto_thread thread = { .tid = tid };
	uint64_t index = k->all_threads.count;

	if (!map_get(&k->threads, tid, &index) && index < KINETO_KINDS_MAX &&
	    (vec_push(&k->all_threads, thread) < 0 || map_put(&k->threads, tid, index) < 0))
		index = KINETO_KINDS_MAX;
	if (index >= k->all_threads.count || k->span_count >= SPANS_MAX ||
	    vec_push(&k->all_threads.data[index].spans, *span) < 0)
		kineto_count(k, KINETO_NO_ROOM_COUNT);
	else
		k->span_count++;
}

bool kineto_has_times(struct kineto *k, bool span)
{
	const struct kineto_event *v = &k->event;

	if (v->start_ns && (v->has_end || !span)) {
		kineto_extend(k, v->start_ns, MAX(v->start_ns, v->end_ns));
		return true;
	}
	kineto_count(k, KINETO_UNTIMED_COUNT);
	return false;
}

/* Negative thread ids are made positive, as Kineto does; names of threads are numbered. */
static uint32_t thread_of(struct kineto *k)
{
	const char *text = kineto_text(k, KINETO_TID);
	uint32_t tid;

	if (!*text)
		return 0;
	if (*text == '-' && text[1] >= '0' && text[1] <= '9')
		return (uint32_t)strtoull(text + 1, NULL, 10);
	if (!(k->event.strings >> KINETO_TID & 1) && kineto_u32(k, KINETO_TID, &tid))
		return tid;
	return UINT32_MAX - kineto_intern(k, text, strlen(text));
}

/* ---- threads ---- */

void kineto_add_function(struct kineto *k, uint32_t name, unsigned api, uint32_t number)
{
	uint64_t *id = map_at(&k->functions, name, 0);
	struct interned text = k->texts.items[name - 1];
	struct row_api_function row = { .kind = (uint8_t)api_kind_of_function(text.text) };

	if (!id || *id)
		return;
	*id = (uint64_t)api << 16 | number;
	if (k->functions.count > KINETO_KINDS_MAX) {
		*id = (uint64_t)api << 16 | 0xffff;
		text = (struct interned){ "[further functions]", strlen("[further functions]") };
		row.kind = api_kind_other;
	} else if (!number || number >= OWN_FUNCTIONS || map_add(&k->function_ids, *id) <= 0) {
		*id = (api << 16 | OWN_FUNCTIONS) + k->functions.count;
	}
	row.id = (uint32_t)*id;
	row.waits_for = (uint8_t)synchronization_of_function(text.text);
	ROW_MISSING_IF(&row, api_function, waits_for, !row.waits_for);
	row.name = writer_string(k->writer, text.text, text.length);
	writer_api_function(k->writer, row.id, &row);
}

/* What AMD's calls contain about the work. */
static void keep_launch(struct kineto *k, uint64_t correlation)
{
	struct kineto_launch launch = { .bytes = UINT64_MAX };

	if (kineto_has(k, KINETO_GRID) && kineto_has(k, KINETO_BLOCK))
		memcpy(launch.sizes, k->event.sizes, sizeof(launch.sizes));
	else if (!kineto_u64(k, KINETO_SIZE, &launch.bytes))
		return;
	if (k->all_launches.count >= KINETO_WORK_MAX ||
	    map_put(&k->launches, correlation, k->all_launches.count) < 0 ||
	    vec_push(&k->all_launches, launch) < 0)
		kineto_count(k, KINETO_NO_ROOM_COUNT);
}

static uint32_t intern_field(struct kineto *k, enum kineto_field field)
{
	const char *text = kineto_text(k, field);

	return kineto_intern(k, text, strlen(text));
}

static void add_thread_span(struct kineto *k, struct kineto_span span)
{
	span.start_ns = k->event.start_ns;
	span.end_ns = k->event.end_ns;
	if (!k->pid && !(k->event.strings >> KINETO_PID & 1))
		kineto_u32(k, KINETO_PID, &k->pid);
	if (span.name || span.kind == KINETO_RANGE)
		kineto_add_span(k, thread_of(k), &span);
}

static void add_python(struct kineto *k, unsigned unused)
{
	(void)unused;
	if (kineto_has_times(k, true))
		add_thread_span(k, (struct kineto_span){ .kind = KINETO_PYTHON,
							 .name = intern_field(k, KINETO_NAME) });
}

/* The event as a range: its name, External id and category. */
static struct kineto_span range_of(struct kineto *k)
{
	struct kineto_span span = { .kind = KINETO_RANGE };
	uint32_t text, n = 1;
	uint64_t external = 0;

	span.name = intern_field(k, KINETO_NAME) & (KINETO_NAMES_MAX - 1);
	kineto_u64(k, KINETO_EXTERNAL, &external);
	span.id = external;
	text = *kineto_text(k, KINETO_CAT) ? intern_field(k, KINETO_CAT) : 0;
	while (n < k->category_count && k->categories[n] != text)
		n++;
	if (text && n < KINETO_CATEGORIES_MAX) {
		k->categories[n] = text;
		k->category_count = MAX(k->category_count, n + 1);
		span.category = n & (KINETO_CATEGORIES_MAX - 1);
	}
	return span;
}

static void add_range(struct kineto *k, unsigned unused)
{
	struct kineto_span span;

	(void)unused;
	if (!kineto_has_times(k, true))
		return;
	span = range_of(k);
	if (*kineto_text(k, KINETO_CALL_STACK) && span.id &&
	    map_put(&k->call_stacks, span.id, intern_field(k, KINETO_CALL_STACK)) < 0)
		kineto_count(k, KINETO_NO_ROOM_COUNT);
	add_thread_span(k, span);
}

/*
 * B and E nest on their thread; b and e have an id in their category. The thread is that of the
 * beginning.
 */
static void add_half(struct kineto *k, char phase)
{
	const char *id = kineto_text(k, KINETO_FLOW), *category = kineto_text(k, KINETO_CAT),
		   *pid = kineto_text(k, KINETO_PID);
	bool nests = phase == 'B' || phase == 'E';
	uint64_t key[] = { nests, hash_bytes(pid, strlen(pid)), nests ? thread_of(k) : 0,
			   nests ? 0 : hash_bytes(id, strlen(id)),
			   nests ? 0 : hash_bytes(category, strlen(category)) };
	struct kineto_span span;

	if (!kineto_has_times(k, false))
		return;
	if (phase == 'E' || phase == 'e') {
		kineto_end_range(k, hash_bytes(key, sizeof(key)), k->event.start_ns);
		return;
	}
	span = range_of(k);
	span.start_ns = k->event.start_ns;
	if (kineto_begin_range(k, hash_bytes(key, sizeof(key)), thread_of(k), &span) < 0)
		kineto_count(k, KINETO_NO_ROOM_COUNT);
}

static void add_call(struct kineto *k, unsigned api)
{
	struct row_external_correlation row = { .kind = EXTERNAL_KIND };
	struct kineto_span span = { .kind = KINETO_CALL };
	uint32_t number = 0;

	if (!kineto_has_times(k, true))
		return;
	span.name = intern_field(k, KINETO_NAME) & (KINETO_NAMES_MAX - 1);
	span.id = row.correlation = kineto_correlation(k);
	kineto_count(k, KINETO_CALLS_COUNT);
	if (!kineto_u32(k, KINETO_CBID, &number))
		kineto_u32(k, KINETO_CID, &number);
	if (span.name)
		kineto_add_function(k, span.name, api, number);
	keep_launch(k, span.id);
	if (kineto_u64(k, KINETO_EXTERNAL, &row.id) && row.id)
		kineto_append(k, TABLE_external_correlation, &row);
	add_thread_span(k, span);
}

/* unitrace: the flow that follows a call has the id of its GPU work. */
static void add_flow(struct kineto *k)
{
	const char *category = kineto_text(k, KINETO_CAT);
	struct kineto_span span = { .start_ns = k->event.start_ns,
				    .end_ns = k->event.start_ns,
				    .kind = KINETO_UNTIMED };
	uint32_t tid = thread_of(k);
	struct kineto_span *call;
	uint64_t index;

	kineto_count(k, KINETO_FLOWS_COUNT);
	if (*kineto_text(k, KINETO_PH) != 's' || !strstr(category, "Flow_H2D_") ||
	    !kineto_u64(k, KINETO_FLOW, &span.id) || !map_get(&k->threads, tid, &index) ||
	    index >= k->all_threads.count || !k->all_threads.data[index].spans.count)
		return;
	call = k->all_threads.data[index].spans.data + k->all_threads.data[index].spans.count - 1;
	if (call->kind == KINETO_CALL && call->start_ns == span.start_ns && !call->id)
		call->id = span.id;
	else
		kineto_add_span(k, tid, &span);
}

/* ---- others ---- */

static void add_overhead(struct kineto *k, unsigned unused)
{
	struct row_overhead row = { .start_ns = k->event.start_ns,
				    .end_ns = k->event.end_ns,
				    .thread = thread_of(k) };

	(void)unused;
	if (!kineto_has_times(k, true))
		return;
	for (uint8_t kind = 0; kind <= overhead_kind_uvm_init; kind++)
		if (!strcmp(kineto_text(k, KINETO_NAME), overhead_name(kind)))
			row.kind = kind;
	ROW_MISSING(&row, overhead, correlation);
	kineto_append(k, TABLE_overhead, &row);
}

static void add_allocation(struct kineto *k)
{
	static const struct kineto_argument arguments[] = {
		KINETO_ARGUMENT(allocation, address, ADDRESS, false),
		KINETO_ARGUMENT(allocation, device, DEVICE_ID, false),
		KINETO_ARGUMENT(allocation, pool_used_bytes, TOTAL_ALLOCATED, false),
		KINETO_ARGUMENT(allocation, pool_bytes, TOTAL_RESERVED, false),
	};
	const char *bytes = kineto_text(k, KINETO_ALLOCATED_BYTES);
	bool releases = *bytes == '-';
	struct row_allocation row;
	uint32_t type;

	if (!kineto_has_times(k, false))
		return;
	kineto_fill(k, TABLE_allocation, arguments, ARRAY_SIZE(arguments), &row);
	row.time_ns = k->event.start_ns;
	row.operation = releases ? memory_operation_release : memory_operation_allocation;
	row.bytes = strtoull(bytes + releases, NULL, 10);
	row.kind = !kineto_u32(k, KINETO_DEVICE_TYPE, &type) ? memory_kind_unknown
		   : type                                    ? memory_kind_allocator_block
							     : memory_kind_pageable;
	PRESENT(&row, allocation, time_ns, 1);
	PRESENT(&row, allocation, bytes, *bytes);
	kineto_append(k, TABLE_allocation, &row);
}

static void add_mark(struct kineto *k)
{
	struct row_nvtx row = { .time_ns = k->event.start_ns,
				.kind = nvtx_kind_mark,
				.missing = schema_missing(TABLE_nvtx),
				.thread = thread_of(k) };

	if (!kineto_has_times(k, false))
		return;
	row.message = rows_text(k->writer, kineto_text(k, KINETO_NAME));
	PRESENT(&row, nvtx, message, 1);
	kineto_append(k, TABLE_nvtx, &row);
}

/* A series named "value", as ours and TraceSmith's, has the name of the counter. */
static void add_counter(struct kineto *k, const char *key, const char *text)
{
	const char *pid = kineto_text(k, KINETO_PID);
	struct row_counter counter = { .reading = counter_reading_real };
	struct row_counter_sample row = { .time_ns = k->event.start_ns };
	double value = strtod(text, NULL);
	size_t known = k->counters.count;
	unsigned device;
	char end;

	if (known >= KINETO_KINDS_MAX) {
		kineto_count(k, KINETO_NO_ROOM_COUNT);
		return;
	}
	if (!strcmp(key, "value"))
		key = "";
	strbuf_clear(&k->scratch);
	strbuf_addf(&k->scratch, "%s%s%s", kineto_text(k, KINETO_NAME), *key ? " " : "", key);
	row.counter = counter.id = (uint32_t)map_number(
		&k->counters, kineto_intern(k, strbuf_text(&k->scratch), k->scratch.length));
	if (k->counters.count > known) {
		counter.name = rows_text(k->writer, strbuf_text(&k->scratch));
		ROW_MISSING(&counter, counter, kind);
		kineto_append(k, TABLE_counter, &counter);
	}
	memcpy(&row.value, &value, sizeof(value));
	ROW_MISSING(&row, counter_sample, thread);
	if (sscanf(pid, "GPU %u Counter%c", &device, &end) == 2)
		row.device = device;
	else
		ROW_MISSING(&row, counter_sample, device);
	kineto_append(k, TABLE_counter_sample, &row);
}

static void add_counters(struct kineto *k)
{
	const struct kineto_event *v = &k->event;

	if (!kineto_has_times(k, false))
		return;
	for (size_t i = 0; i < v->other_count; i++)
		add_counter(k, v->text.data + v->others[i].key, v->text.data + v->others[i].value);
	/* A series may have the name of some argument. */
	for (enum kineto_field f = KINETO_MEMBERS_END; f < KINETO_FIELDS; f++)
		if (kineto_has(k, f) && !(v->strings >> f & 1) && f != KINETO_GRID &&
		    f != KINETO_BLOCK)
			add_counter(k, kineto_field_name(f), kineto_text(k, f));
}

/* Kineto's "thread 12 (python)". Its GPUs are processes, too, with their number as process id. */
static void name_thread(struct kineto *k, const char *name)
{
	struct row_thread row = { .tid = thread_of(k), .time_ns = k->first_ns };
	size_t length = strlen(name);
	uint64_t process;
	int head = 0;

	if (starts_with(name, "stream ") || !kineto_u64(k, KINETO_PID, &process) ||
	    (k->pid && process != k->pid))
		return;
	sscanf(name, "thread %*u%n", &head);
	if (head && name[head] == ' ' && name[head + 1] == '(' && name[length - 1] == ')')
		row.name = writer_string(k->writer, name + head + 2, length - (size_t)head - 3);
	else if (!head || name[head])
		row.name = writer_string(k->writer, name, length);
	if (row.name && k->thread_names++ < KINETO_KINDS_MAX)
		kineto_append(k, TABLE_thread, &row);
}

/* Names of processes and threads; those of JAX and unitrace say which are a GPU's. */
static void add_name(struct kineto *k)
{
	const char *what = kineto_text(k, KINETO_NAME), *name = kineto_text(k, KINETO_ARG_NAME);
	const char *pid = kineto_text(k, KINETO_PID), *gpu = strstr(name, "/device:");
	const char *host = strstr(name, "HOST<"), *number = strrchr(name, gpu ? ':' : '#');
	uint64_t key = hash_bytes(pid, strlen(pid)), device;
	bool is_gpu = gpu || strstr(name, "DEVICE<");
	long long rank;

	kineto_count(k, KINETO_MARKERS_COUNT);
	if (!strcmp(what, "process_name")) {
		device = number ? strtoul(number + 1, NULL, 10) : 0;
		if (is_gpu && map_put(&k->gpu_pids, key, MIN(device, 1023u)) < 0)
			kineto_count(k, KINETO_NO_ROOM_COUNT);
		if (sscanf(name, "RANK %lld ", &rank) == 1 && rank >= 0)
			k->rank = rank;
		if (host)
			snprintf(k->host, sizeof(k->host), "%.*s", (int)strcspn(host + 5, ">"),
				 host + 5);
		if (!is_gpu && !*k->name && *name && strcmp(name, "CUPTI Overhead") != 0 &&
		    !(k->event.strings >> KINETO_PID & 1))
			snprintf(k->name, sizeof(k->name), "%s", name);
	} else if (!strcmp(what, "thread_name") && map_get(&k->gpu_pids, key, &device)) {
		/* JAX's other rows of a GPU repeat the same work, by module and by step. */
		if (starts_with(name, "Stream #") || !strcmp(name, "XLA Ops"))
			if (map_put(&k->gpu_rows, key << 32 | thread_of(k), 1) < 0)
				kineto_count(k, KINETO_NO_ROOM_COUNT);
	} else if (!strcmp(what, "thread_name") && *name) {
		name_thread(k, name);
	}
}

static void count(struct kineto *k, unsigned what)
{
	kineto_count(k, what);
}

/* Spans without a category: JAX's and other programs'. */
static void add_plain_span(struct kineto *k, unsigned unused)
{
	const char *pid = kineto_text(k, KINETO_PID), *name = kineto_text(k, KINETO_NAME);
	uint64_t key = hash_bytes(pid, strlen(pid)), value;

	if (!map_get(&k->gpu_pids, key, &value))
		(*name == '$' ? add_python : add_range)(k, unused);
	else if (map_get(&k->gpu_rows, key << 32 | thread_of(k), &value))
		kineto_add_work(k, 0);
	else
		kineto_count(k, KINETO_DERIVED_COUNT);
}

/* The profiler's own span. */
static void add_profiler_span(struct kineto *k, unsigned unused)
{
	(void)unused;
	kineto_count(k, KINETO_MARKERS_COUNT);
	if (k->event.has_end && k->event.start_ns) {
		k->spans_ns[0] = k->event.start_ns;
		k->spans_ns[1] = k->event.end_ns;
	}
}

/* unitrace's calls, such as zeCommandListCreate, are operators, too. */
static void add_operator(struct kineto *k, unsigned unused)
{
	const char *name = kineto_text(k, KINETO_NAME);

	if ((starts_with(name, "ze") || starts_with(name, "cl")) && name[2] >= 'A' &&
	    name[2] <= 'Z')
		add_call(k, RUNTIME);
	else
		add_range(k, unused);
}

/* On the CPU, what it is does not matter. */
static void add_other_span(struct kineto *k)
{
	uint64_t device;

	if (kineto_u64(k, KINETO_DEVICE, &device))
		kineto_count(k, KINETO_UNKNOWN_COUNT);
	else
		add_range(k, 0);
}

static void add_span(struct kineto *k)
{
	static const struct {
		const char *text;
		void (*add)(struct kineto *k, unsigned what);
		unsigned what;
	} categories[] = {
		{ "cpu_op", add_operator, 0 },
		{ "python_function", add_python, 0 },
		{ "cuda_runtime", add_call, RUNTIME },
		{ "kernel", kineto_add_work, TABLE_kernel },
		{ "gpu_memcpy", kineto_add_work, TABLE_memcpy },
		{ "gpu_memset", kineto_add_work, TABLE_memset },
		{ "cuda_driver", add_call, DRIVER },
		{ "user_annotation", add_operator, 0 },
		{ "gpu_user_annotation", count, KINETO_DERIVED_COUNT },
		{ "cuda_sync", kineto_add_synchronization, 0 },
		{ "xpu_sync", kineto_add_synchronization, 0 },
		{ "cuda_event", kineto_add_cuda_event, 0 },
		{ "overhead", add_overhead, 0 },
		{ "Trace", add_profiler_span, 0 },
		{ "gpu_op", kineto_add_work, 0 },
		{ "mtia_ccp_events", kineto_add_work, 0 },
		{ "hip_runtime", add_call, RUNTIME },
		{ "xpu_runtime", add_call, RUNTIME },
		{ "xpu_driver", add_call, DRIVER },
		{ "mtia_runtime", add_call, RUNTIME },
		{ "glow_runtime", add_call, RUNTIME },
		{ "privateuse1_runtime", add_call, RUNTIME },
		{ "privateuse1_driver", add_call, DRIVER },
		{ "", add_plain_span, 0 },
		/* of 2021 */
		{ "operator", add_operator, 0 },
		{ "Operator", add_operator, 0 },
		{ "runtime", add_call, RUNTIME },
		{ "Runtime", add_call, RUNTIME },
		{ "Kernel", kineto_add_work, TABLE_kernel },
		{ "Memcpy", kineto_add_work, TABLE_memcpy },
		{ "memcpy", kineto_add_work, TABLE_memcpy },
		{ "Memset", kineto_add_work, TABLE_memset },
		{ "memset", kineto_add_work, TABLE_memset },
		{ "python", add_python, 0 },
		{ "cuda_profiler_range", count, KINETO_DERIVED_COUNT },
	};
	const char *text = kineto_text(k, KINETO_CAT);

	for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
		if (!strcmp(text, categories[i].text)) {
			categories[i].add(k, categories[i].what);
			return;
		}
	add_other_span(k);
}

static void add_instant(struct kineto *k)
{
	const char *name = kineto_text(k, KINETO_NAME);

	if (!strcmp(name, "[memory]")) {
		add_allocation(k);
	} else if (!*kineto_text(k, KINETO_CAT) && k->event.strings >> KINETO_PID & 1) {
		kineto_count(k, KINETO_MARKERS_COUNT);
		if (!strcmp(name, "Record Window End"))
			k->spans_ns[1] = k->event.start_ns;
	} else {
		add_mark(k);
	}
}

/* Sets the times of the event, where it has usable ones. */
static void read_times(struct kineto *k)
{
	struct kineto_event *v = &k->event;
	int64_t start, duration;
	uint64_t wide;

	v->start_ns = v->end_ns = 0;
	v->has_end = false;
	if (!kineto_time(kineto_text(k, KINETO_TS), &start) ||
	    __builtin_add_overflow(k->base_ns, start, &wide) || wide == 0 || wide > INT64_MAX)
		return;
	v->start_ns = wide;
	if (!kineto_time(kineto_text(k, KINETO_DUR), &duration) || duration < 0 ||
	    wide + (uint64_t)duration > INT64_MAX)
		return;
	v->end_ns = wide + (uint64_t)duration;
	v->has_end = true;
}

void kineto_add_event(struct kineto *k)
{
	const char *phase = kineto_text(k, KINETO_PH);

	kineto_count(k, KINETO_EVENTS_COUNT);
	read_times(k);
	switch (*phase) {
	case 'X':
		add_span(k);
		break;
	case 'B':
	case 'E':
	case 'b':
	case 'e':
		add_half(k, *phase);
		break;
	case 's':
	case 't':
	case 'f':
		add_flow(k);
		break;
	case 'i':
	case 'I':
	case 'R':
		add_instant(k);
		break;
	case 'C':
		add_counters(k);
		break;
	case 'M':
		add_name(k);
		break;
	default:
		kineto_count(k, KINETO_UNKNOWN_COUNT);
	}
}
