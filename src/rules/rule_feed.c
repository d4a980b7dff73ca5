#include "rules/rule_feed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/nvtx_ranges.h"
#include "analysis/steps.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "rules/fact_queue.h"

#define NOT_READY 600
#define CAPTURE_INVALIDATED 901 /* these two end a capture all the same */
#define CAPTURE_UNJOINED 904
#define DEPTH_COUNTED 32u /* more than the depths of rows */
#define NAMES_MAX 64u

/* A text that rules name. */
struct known_text {
	uint32_t rules, instance;
};

struct known_counter {
	uint32_t rules;
	uint32_t decimals;
	uint32_t of_percent; /* of these rules: those that compare with the size of the memory */
	bool is_real, grows;
};

struct rule_segment {
	struct segment segment;
	size_t blocks; /* read so far */
	uint32_t process; /* number in the watch */
	uint32_t scope_text, scope_domain; /* ids of Pitot's domain of NVTX and its name; 0: none */
	struct map texts; /* string id -> item of known; others are not in it */
	VEC(struct known_text) known;
	struct map counters; /* id -> item of counter_list */
	VEC(struct known_counter) counter_list;
	struct map counter_name; /* string id -> rules that name it */
	struct map functions; /* id -> kind | waits << 8 */
	struct map memory; /* device -> bytes */
	struct map communicators; /* id -> hash */
	struct map depths; /* thread and domain -> ranges open */
};

struct range_name {
	uint32_t instance;
	char text[STEP_NAME_MAX];
};

struct rule_feed {
	const struct rule *rules;
	unsigned count;
	struct rule_watch *watch;
	struct decoder *decoder;
	uint64_t tables; /* that the rules need: bits */
	bool needs_begins; /* of GPU work */
	struct fact_queue facts;
	VEC(struct range_name) names; /* of ranges, at most NAMES_MAX */
	rule_fact_seen *seen; /* NULL: nobody else needs them */
	void *user;
};

/* --- columns of a block as 64-bit values --- */

#define COLUMNS_READ 8u

struct cells {
	const struct table_schema *table;
	struct column_target targets[COLUMNS_READ];
	size_t count;
};

static void cells_release(struct cells *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->targets[i].values);
		free(c->targets[i].valid);
	}
}

static bool cells_read(struct rule_feed *f, const struct rule_segment *s, const struct block_ref *b,
		       const int *columns, size_t count, struct cells *c)
{
	bool has_room = true;

	*c = (struct cells){ .table = schema_table(b->header.table), .count = count };
	for (size_t i = 0; i < count; i++) {
		struct column_target *t = &c->targets[i];

		t->column = columns[i];
		t->values = calloc(b->header.rows, c->table->columns[columns[i]].width);
		t->valid = calloc(b->header.rows, 1);
		has_room = has_room && t->values && t->valid;
	}
	if (has_room && block_decode(f->decoder, &s->segment, b, c->targets, count) == 0)
		return true;
	cells_release(c);
	return false;
}

static bool cell_has(const struct cells *c, size_t i, uint32_t row)
{
	return c->targets[i].valid[row];
}

static uint64_t cell(const struct cells *c, size_t i, uint32_t row)
{
	const void *values = c->targets[i].values;

	switch (c->table->columns[c->targets[i].column].width) {
	case 1:
		return ((const uint8_t *)values)[row];
	case 4:
		return ((const uint32_t *)values)[row];
	default:
		return ((const uint64_t *)values)[row];
	}
}

/* Reads these columns of a block of the table, and runs `body` for each row. */
#define EACH_ROW(f, s, b, body, ...)                                                               \
	do {                                                                                       \
		static const int columns_[] = { __VA_ARGS__ };                                     \
		struct cells c;                                                                    \
		if (!cells_read(f, s, b, columns_, ARRAY_SIZE(columns_), &c))                      \
			return;                                                                    \
		for (uint32_t row = 0; row < (b)->header.rows; row++)                              \
			body;                                                                      \
		cells_release(&c);                                                                 \
	} while (0)

/* --- definitions --- */

static uint32_t name_hash(const char *text)
{
	return (uint32_t)(hash_bytes(text, strlen(text)) & ((1u << 20) - 1));
}

const char *rule_feed_range_name(const struct rule_feed *f, uint32_t instance)
{
	for (size_t i = 0; i < f->names.count; i++)
		if (f->names.data[i].instance == instance)
			return f->names.data[i].text;
	return "";
}

uint64_t rule_feed_forgotten(const struct rule_feed *f)
{
	return f->facts.forgotten;
}

static void know_name(struct rule_feed *f, uint32_t instance, const char *text)
{
	struct range_name name = { .instance = instance };

	if (f->names.count >= NAMES_MAX || *rule_feed_range_name(f, instance))
		return;
	snprintf(name.text, sizeof(name.text), "%s", text);
	(void)!vec_push(&f->names, name);
}

static void know_text(struct rule_feed *f, struct rule_segment *s, uint32_t id, const char *text)
{
	struct known_text known = { .instance = name_hash(text) };
	char step[STEP_NAME_MAX];

	if (!strcmp(text, SCOPE_DOMAIN))
		s->scope_text = id;
	for (unsigned i = 0; i < f->count; i++) {
		const struct rule *rule = &f->rules[i];
		enum rule_family family = rule_metrics[rule->metric].family;
		bool is_named = !strcmp(rule->key, text);

		if (family == RULE_OF_RANGE && !*rule->key && step_name_read(text, step)) {
			is_named = true;
			known.instance = name_hash(step);
			know_name(f, known.instance, step);
		} else if (is_named && family == RULE_OF_RANGE) {
			know_name(f, known.instance, text);
		}
		if (is_named && (family == RULE_OF_RANGE || family == RULE_OF_NAME))
			known.rules |= UINT32_C(1) << i;
		if (family == RULE_OF_COUNTER &&
		    !strcmp(text, rule->metric == RULE_counter    ? rule->key
				  : rule->metric == RULE_xid      ? "gpu_xid"
				  : rule->metric == RULE_gpu_lost ? "gpu_lost"
				  : rule->metric == RULE_ecc      ? "gpu_ecc_uncorrected"
				  : rule->metric == RULE_throttle ? "gpu_throttle_reasons"
								  : "gpu_memory_used")) {
			uint64_t *rules = map_at(&s->counter_name, id, 0);

			if (rules)
				*rules |= UINT64_C(1) << i;
		}
	}
	if (known.rules && vec_push(&s->known, known) == 0)
		(void)!map_put(&s->texts, id, s->known.count - 1);
}

static void read_strings(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	_cleanup_free_ uint32_t *ids = calloc(b->header.rows, sizeof(*ids));
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct bytes_column texts = { NULL, NULL };
	struct column_target targets[] = {
		{ .column = COLUMN_string_id, .values = ids },
		{ .column = COLUMN_string_text, .values = &texts },
	};

	if (!ids || block_decode(f->decoder, &s->segment, b, targets, ARRAY_SIZE(targets)) < 0)
		return;
	for (uint32_t i = 0; i < b->header.rows; i++) {
		strbuf_clear(&text);
		strbuf_add(&text, texts.data + texts.offsets[i],
			   texts.offsets[i + 1] - texts.offsets[i]);
		if (!text.failed)
			know_text(f, s, ids[i], strbuf_text(&text));
	}
	free(texts.offsets);
	free(texts.data);
}

static void know_counter(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
			 uint32_t row)
{
	struct known_counter known = {
		.decimals = (uint32_t)MIN(cell(c, 2, row), 18u),
		.is_real = cell_has(c, 3, row) && cell(c, 3, row) == counter_reading_real,
		.grows = cell_has(c, 4, row) && cell(c, 4, row) == counter_kind_sum
	};
	uint64_t rules = 0;

	if (!map_get(&s->counter_name, cell(c, 1, row), &rules))
		return;
	known.rules = (uint32_t)rules;
	for (unsigned i = 0; i < f->count; i++)
		if (rules >> i & 1 && f->rules[i].metric == RULE_memory)
			known.of_percent |= UINT32_C(1) << i;
	if (vec_push(&s->counter_list, known) == 0)
		(void)!map_put(&s->counters, cell(c, 0, row), s->counter_list.count - 1);
}

static void read_counters(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, know_counter(f, s, &c, row), COLUMN_counter_id, COLUMN_counter_name,
		 COLUMN_counter_decimals, COLUMN_counter_reading, COLUMN_counter_kind);
}

static void read_functions(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, (void)!map_put(&s->functions, cell(&c, 0, row), cell(&c, 1, row)),
		 COLUMN_api_function_id, COLUMN_api_function_kind);
}

static void read_devices(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, (void)!map_put(&s->memory, cell(&c, 0, row), cell(&c, 1, row)),
		 COLUMN_device_id, COLUMN_device_memory_bytes);
}

static void know_domain(struct rule_segment *s, uint64_t id, uint64_t name)
{
	if (s->scope_text && name == s->scope_text)
		s->scope_domain = (uint32_t)id;
}

static void read_domains(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, know_domain(s, cell(&c, 0, row), cell(&c, 1, row)), COLUMN_nvtx_domain_id,
		 COLUMN_nvtx_domain_name);
}

/* --- events --- */

void rule_feed_add(struct rule_feed *f, struct fact fact)
{
	fact_queue_add(&f->facts, &fact);
}

void rule_feed_pass(struct rule_feed *f, uint64_t until_ns)
{
	struct fact fact;

	while (fact_queue_take(&f->facts, until_ns, &fact)) {
		if (f->seen)
			f->seen(f->user, &fact);
		rule_watch_add(f->watch, &fact);
	}
}

static void call_made(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
		      uint32_t row)
{
	struct fact fact = { .time_ns = cell(c, 1, row), .process = s->process };
	uint64_t kind = api_kind_other, result = cell_has(c, 4, row) ? cell(c, 4, row) : 0;

	(void)!map_get(&s->functions, cell(c, 2, row), &kind);
	if (result && result != NOT_READY && kind != api_kind_untimed) {
		if (kind == api_kind_end_capture &&
		    (result == CAPTURE_INVALIDATED || result == CAPTURE_UNJOINED)) {
			fact.kind = FACT_CAPTURE;
			rule_feed_add(f, fact);
		}
		fact.kind = FACT_FAILURE;
		fact.value = result;
	} else if (result) {
		return;
	} else if (kind == api_kind_launch || kind == api_kind_graph_launch) {
		fact.kind = FACT_LAUNCH;
		fact.time_ns = cell(c, 0, row);
		fact.value = cell(c, 3, row);
	} else if (f->seen && (kind == api_kind_memcpy || kind == api_kind_memset)) {
		fact.kind = FACT_COPY;
		fact.time_ns = cell(c, 0, row);
		fact.value = cell(c, 3, row);
	} else if (kind == api_kind_synchronize) {
		fact.kind = FACT_WAITED;
	} else if (kind == api_kind_begin_capture || kind == api_kind_end_capture) {
		fact.kind = FACT_CAPTURE;
		fact.value = kind == api_kind_begin_capture;
	} else {
		return;
	}
	rule_feed_add(f, fact);
}

static void read_calls(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, call_made(f, s, &c, row), COLUMN_api_call_start_ns,
		 COLUMN_api_call_end_ns, COLUMN_api_call_function, COLUMN_api_call_correlation,
		 COLUMN_api_call_result);
}

static void work_done(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
		      uint32_t row)
{
	struct fact fact = { .process = s->process,
			     .time_ns = cell(c, 0, row),
			     .other_ns = cell(c, 1, row),
			     .instance = (uint32_t)cell(c, 3, row),
			     .kind = FACT_WORK_BEGINS,
			     .value = cell(c, 2, row) };

	if (cell_has(c, 0, row) && !cell_has(c, 1, row))
		return; /* it had begun, and not ended */
	if (!cell_has(c, 0, row) || fact.other_ns < fact.time_ns) {
		fact.kind = FACT_LOST; /* it has ended, and one does not know when */
		rule_feed_add(f, fact);
		return;
	}
	if (f->needs_begins)
		rule_feed_add(f, fact);
	fact.time_ns = cell(c, 1, row);
	fact.other_ns = cell(c, 0, row);
	fact.kind = FACT_WORK_ENDS;
	rule_feed_add(f, fact);
}

static void read_work(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	const struct table_schema *table = schema_table(b->header.table);
	const int columns[] = { table->roles[ROLE_START], table->roles[ROLE_END],
				table->roles[ROLE_CORRELATION], table->roles[ROLE_DEVICE] };
	struct cells c;

	if (!cells_read(f, s, b, columns, ARRAY_SIZE(columns), &c))
		return;
	for (uint32_t row = 0; row < b->header.rows; row++)
		work_done(f, s, &c, row);
	cells_release(&c);
}

/*
 * Ranges that nest are known by their depth on the thread. Where rows do not have it, pushes and
 * pops are counted.
 */
static uint64_t depth_of(struct rule_segment *s, const struct cells *c, uint32_t row)
{
	bool is_push = cell(c, 1, row) == nvtx_kind_push;
	uint64_t *depth;

	if (cell_has(c, 6, row))
		return cell(c, 6, row);
	depth = map_at(&s->depths, cell(c, 2, row) << 32 | cell(c, 3, row), 0);
	if (!depth)
		return 0;
	if (!is_push && *depth)
		--*depth;
	return DEPTH_COUNTED + (is_push ? (*depth)++ : *depth);
}

static uint64_t range_key(struct rule_segment *s, const struct cells *c, uint32_t row)
{
	uint64_t kind = cell(c, 1, row), key;

	if (kind == nvtx_kind_push || kind == nvtx_kind_pop)
		key = hash_u64(cell(c, 2, row) << 32 | cell(c, 3, row)) ^ depth_of(s, c, row);
	else
		key = ~cell(c, 4, row);
	return hash_u64(hash_u64((uint64_t)s->process + 1) ^ key);
}

static void range_event(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
			uint32_t row)
{
	static const uint8_t kinds[] = {
		[nvtx_kind_push] = FACT_OPENS,  [nvtx_kind_pop] = FACT_CLOSES,
		[nvtx_kind_start] = FACT_OPENS, [nvtx_kind_end] = FACT_CLOSES,
		[nvtx_kind_mark] = FACT_MARK,
	};
	uint64_t kind = cell(c, 1, row), known;
	struct fact fact = { .process = s->process,
			     .time_ns = cell(c, 0, row),
			     .thread = (uint32_t)cell(c, 2, row),
			     .is_scope = s->scope_domain && cell(c, 3, row) == s->scope_domain,
			     .value = range_key(s, c, row) };

	if (kind >= ARRAY_SIZE(kinds))
		return;
	fact.kind = kinds[kind];
	if (cell_has(c, 5, row) && map_get(&s->texts, cell(c, 5, row), &known)) {
		fact.rules = s->known.data[known].rules;
		fact.instance = s->known.data[known].instance;
	}
	rule_feed_add(f, fact);
}

static void read_ranges(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, range_event(f, s, &c, row), COLUMN_nvtx_time_ns, COLUMN_nvtx_kind,
		 COLUMN_nvtx_thread, COLUMN_nvtx_domain, COLUMN_nvtx_range, COLUMN_nvtx_message,
		 COLUMN_nvtx_level);
}

static void read_communicators(struct rule_feed *f, struct rule_segment *s,
			       const struct block_ref *b)
{
	EACH_ROW(f, s, b, (void)!map_put(&s->communicators, cell(&c, 0, row), cell(&c, 1, row)),
		 COLUMN_communicator_id, COLUMN_communicator_hash);
}

/* What is captured into a graph runs later, if at all. Sends and receives are between two ranks. */
static void collective_enqueued(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
				uint32_t row)
{
	uint64_t function = cell(c, 4, row), hash;
	struct fact fact = { .process = s->process,
			     .time_ns = cell(c, 0, row),
			     .kind = FACT_COLLECTIVE,
			     .value = cell(c, 1, row) };

	if (!cell_has(c, 1, row) || (cell_has(c, 2, row) && cell(c, 2, row)))
		return;
	if (function != collective_function_send && function != collective_function_recv &&
	    cell_has(c, 3, row) && cell_has(c, 5, row) &&
	    map_get(&s->communicators, cell(c, 3, row), &hash)) {
		fact.thread = (uint32_t)hash_u64(hash);
		fact.other_ns = hash_u64(hash_u64(hash ^ function) ^ cell(c, 5, row)) | 1;
	}
	rule_feed_add(f, fact);
}

static void read_collectives(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, collective_enqueued(f, s, &c, row), COLUMN_collective_time_ns,
		 COLUMN_collective_correlation, COLUMN_collective_captured,
		 COLUMN_collective_communicator, COLUMN_collective_function,
		 COLUMN_collective_sequence);
}

static void counter_read(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
			 uint32_t row)
{
	uint64_t at, bits = cell(c, 3, row), device = cell(c, 2, row), bytes = 0;
	const struct known_counter *known;
	struct fact fact = { .process = s->process,
			     .time_ns = cell(c, 0, row),
			     .kind = FACT_COUNTER };

	if (!map_get(&s->counters, cell(c, 1, row), &at))
		return;
	known = &s->counter_list.data[at];
	fact.rules = known->rules & ~known->of_percent;
	fact.grows = known->grows;
	fact.instance = cell_has(c, 2, row) ? (uint32_t)device + 1 : 0;
	if (known->is_real)
		memcpy(&fact.real, &bits, sizeof(bits));
	else
		fact.real = (double)(int64_t)bits / pow(10, known->decimals);
	if (fact.rules)
		rule_feed_add(f, fact);
	fact.rules = known->of_percent;
	if (!fact.rules || !map_get(&s->memory, device, &bytes) || !bytes)
		return;
	fact.real *= 100 / (double)bytes;
	rule_feed_add(f, fact);
}

static void read_samples(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, counter_read(f, s, &c, row), COLUMN_counter_sample_time_ns,
		 COLUMN_counter_sample_counter, COLUMN_counter_sample_device,
		 COLUMN_counter_sample_value);
}

static void process_seen(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
			 uint32_t row)
{
	struct fact fact = { .process = s->process, .time_ns = cell(c, 1, row), .kind = FACT_ENDS };

	if (!cell_has(c, 1, row))
		return;
	if (cell(c, 2, row) != process_source_inside) {
		if (!cell_has(c, 3, row))
			return;
		fact.kind = FACT_EXIT;
		fact.process = (uint32_t)cell(c, 0, row);
		fact.value = cell(c, 3, row);
		fact.other_ns = cell_has(c, 4, row) && cell(c, 4, row);
	}
	rule_feed_add(f, fact);
}

static void read_processes(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, process_seen(f, s, &c, row), COLUMN_process_pid, COLUMN_process_end_ns,
		 COLUMN_process_source, COLUMN_process_exit_status, COLUMN_process_oom_killed);
}

static void state_noted(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
			uint32_t row)
{
	uint64_t name = cell(c, 1, row), state = cell(c, 2, row);
	struct fact fact = { .process = s->process, .time_ns = cell(c, 0, row) };

	if (name == feature_cupti && state == capability_state_on)
		fact.kind = FACT_RECORDS;
	else if (name == feature_kernel && state != capability_state_on)
		fact.kind = FACT_LOST; /* degraded: kernels have no ends */
	else if (name == feature_window && state == capability_state_off)
		fact.kind = FACT_WINDOW_ENDS;
	else
		return;
	rule_feed_add(f, fact);
}

static void read_capabilities(struct rule_feed *f, struct rule_segment *s,
			      const struct block_ref *b)
{
	EACH_ROW(f, s, b, state_noted(f, s, &c, row), COLUMN_capability_time_ns,
		 COLUMN_capability_name, COLUMN_capability_state);
}

static void loss_noted(struct rule_feed *f, struct rule_segment *s, const struct cells *c,
		       uint32_t row)
{
	static const uint64_t of_work = UINT64_C(1) << loss_reason_gpu_records_dropped |
					UINT64_C(1) << loss_reason_no_buffer |
					UINT64_C(1) << loss_reason_unreadable_buffer |
					UINT64_C(1) << loss_reason_gpu_runtime_failed |
					UINT64_C(1) << loss_reason_own_profiler |
					UINT64_C(1) << loss_reason_unknown_record;
	uint64_t reason = cell(c, 1, row);

	if (reason < 64 && of_work >> reason & 1)
		rule_feed_add(f, (struct fact){ .process = s->process,
						.time_ns = cell(c, 0, row),
						.kind = FACT_LOST });
}

static void read_losses(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b)
{
	EACH_ROW(f, s, b, loss_noted(f, s, &c, row), COLUMN_loss_end_ns, COLUMN_loss_reason);
}

/* --- tables --- */

#define OF(family) (1u << RULE_OF_##family)
#define OF_WORK (OF(HANG) | OF(IDLE) | OF(BUSY) | OF(COLLECTIVE) | OF(STRAGGLER))
#define OF_CALLS (OF_WORK | OF(RATE) | OF(ERROR))
#define OF_BEGINS (OF(IDLE) | OF(BUSY))

enum table_phase { PHASE_TEXTS, PHASE_DEFINITIONS, PHASE_EVENTS };

typedef void table_reader(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b);

static const struct {
	uint8_t table;
	uint16_t families; /* that need it; 0: all */
	enum table_phase phase;
	table_reader *read;
} tables[] = {
	{ TABLE_string, OF(RANGE) | OF(NAME) | OF(COUNTER), PHASE_TEXTS, read_strings },
	{ TABLE_counter, OF(COUNTER), PHASE_DEFINITIONS, read_counters },
	{ TABLE_device, OF(COUNTER), PHASE_DEFINITIONS, read_devices },
	{ TABLE_api_function, OF_CALLS, PHASE_DEFINITIONS, read_functions },
	{ TABLE_api_call, OF_CALLS, PHASE_EVENTS, read_calls },
	{ TABLE_kernel, OF_WORK, PHASE_EVENTS, read_work },
	{ TABLE_memcpy, OF_WORK, PHASE_EVENTS, read_work },
	{ TABLE_memset, OF_WORK, PHASE_EVENTS, read_work },
	{ TABLE_graph_launch, OF_WORK, PHASE_EVENTS, read_work },
	{ TABLE_communicator, OF(STRAGGLER), PHASE_DEFINITIONS, read_communicators },
	{ TABLE_collective, OF(COLLECTIVE) | OF(STRAGGLER), PHASE_EVENTS, read_collectives },
	{ TABLE_nvtx_domain, OF(RANGE), PHASE_DEFINITIONS, read_domains },
	{ TABLE_nvtx, OF(RANGE) | OF(NAME), PHASE_EVENTS, read_ranges },
	{ TABLE_counter_sample, OF(COUNTER), PHASE_EVENTS, read_samples },
	{ TABLE_capability, OF_CALLS, PHASE_EVENTS, read_capabilities },
	{ TABLE_loss, OF_WORK, PHASE_EVENTS, read_losses },
	{ TABLE_process, 0, PHASE_EVENTS, read_processes },
};

static void read_block(struct rule_feed *f, struct rule_segment *s, const struct block_ref *b,
		       enum table_phase phase)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables) && b->header.rows; i++)
		if (tables[i].table == b->header.table && f->tables >> i & 1 &&
		    tables[i].phase == phase)
			tables[i].read(f, s, b);
}

static void need_tables(struct rule_feed *f, unsigned families)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		if (!tables[i].families || tables[i].families & families)
			f->tables |= UINT64_C(1) << i;
	f->needs_begins |= families & OF_BEGINS;
}

struct rule_feed *rule_feed_new(const struct rule *rules, unsigned count, struct rule_watch *watch)
{
	struct rule_feed *f = calloc(1, sizeof(*f));
	unsigned families = 0;

	if (!f)
		return NULL;
	f->rules = rules;
	f->count = MIN(count, RULES_MAX);
	f->watch = watch;
	f->decoder = decoder_new();
	for (unsigned i = 0; i < f->count; i++)
		families |= 1u << rule_metrics[rules[i].metric].family;
	need_tables(f, families);
	if (f->decoder)
		return f;
	rule_feed_free(f);
	return NULL;
}

struct rule_watch *rule_feed_watch(const struct rule_feed *f)
{
	return f->watch;
}

void rule_feed_observe(struct rule_feed *f, rule_fact_seen *seen, void *user)
{
	f->seen = seen;
	f->user = user;
	need_tables(f, OF_CALLS);
}

void rule_feed_free(struct rule_feed *f)
{
	if (!f)
		return;
	decoder_free(f->decoder);
	fact_queue_release(&f->facts);
	vec_release(&f->names);
	free(f);
}

/* --- segments --- */

int rule_segment_open(struct rule_feed *f, const char *path, struct rule_segment **out,
		      struct error *e)
{
	struct rule_segment *s = calloc(1, sizeof(*s));
	int64_t process;
	int rc = s ? segment_open(path, &s->segment, e) : error_set(e, -ENOMEM, "out of memory");

	*out = NULL;
	if (rc < 0) {
		free(s);
		return rc;
	}
	process = rule_watch_process(f->watch, s->segment.header.session, s->segment.header.pid);
	if (process < 0) {
		rule_segment_free(s);
		return error_set(e, (int)process, "out of memory");
	}
	s->process = (uint32_t)process;
	*out = s;
	return 0;
}

void rule_segment_free(struct rule_segment *s)
{
	if (!s)
		return;
	segment_release(&s->segment);
	map_release(&s->texts);
	map_release(&s->counters);
	map_release(&s->counter_name);
	map_release(&s->functions);
	map_release(&s->memory);
	map_release(&s->communicators);
	map_release(&s->depths);
	vec_release(&s->known);
	vec_release(&s->counter_list);
	free(s);
}

/* Texts come first: counters have names. */
static void read_new(struct rule_feed *f, struct rule_segment *s, enum table_phase first,
		     enum table_phase last)
{
	for (unsigned phase = first; phase <= last; phase++)
		for (size_t i = s->blocks; i < s->segment.block_count; i++)
			read_block(f, s, &s->segment.blocks[i], (enum table_phase)phase);
}

int rule_segment_read(struct rule_feed *f, struct rule_segment *s)
{
	int rc = segment_refresh(&s->segment, NULL);

	if (rc < 0)
		return rc;
	read_new(f, s, PHASE_TEXTS, PHASE_EVENTS);
	s->blocks = s->segment.block_count;
	return 0;
}

void rule_segment_define(struct rule_feed *f, struct rule_segment *s)
{
	read_new(f, s, PHASE_TEXTS, PHASE_DEFINITIONS);
}

void rule_segment_skip(struct rule_feed *f, struct rule_segment *s, uint64_t since_ns)
{
	size_t first = 0;

	while (first < s->segment.block_count && s->segment.blocks[first].header.end_ns < since_ns)
		first++;
	for (unsigned phase = PHASE_TEXTS; phase <= PHASE_DEFINITIONS; phase++)
		for (size_t i = s->blocks; i < first; i++)
			read_block(f, s, &s->segment.blocks[i], (enum table_phase)phase);
	s->blocks = first;
}

const struct segment *rule_segment_blocks(const struct rule_segment *s)
{
	return &s->segment;
}

void rule_segment_read_block(struct rule_feed *f, struct rule_segment *s, size_t block)
{
	read_block(f, s, &s->segment.blocks[block], PHASE_EVENTS);
}

uint32_t rule_segment_process(const struct rule_segment *s)
{
	return s->process;
}
