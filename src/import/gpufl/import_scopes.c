/*
 * import_scopes.c: converts scopes to pushes and pops of Pitot's domain, and NVTX ranges to pushes
 * and pops of their thread if it is known, else to starts and ends.
 *
 * gpufl's own logs contain the depth of a scope but not its thread. A scope is assigned to a thread
 * with that many open scopes, preferably the thread of the previous event. Such threads are
 * numbered 1, 2, 3 …
 */
#include <stdio.h>
#include <string.h>

#include "base/search.h"
#include "import/gpufl/import_session.h"
#include "schema/event_words.h"

#define SCOPE_DOMAIN_ID 1u
#define SCOPES_MAX (1u << 20) /* in which kernels are searched */
#define OPEN_MAX (1u << 16)
#define RANGES_MAX (1u << 20) /* that wait to be written in order */
#define THREADS_MAX 64u /* of logs without threads */
#define DOMAINS_MAX 1000u
#define LEVEL_MAX 30u /* as in tables.h */
#define PATH_MAX_BYTES 4096

static uint64_t map_value(const struct map *m, uint64_t key)
{
	uint64_t value;

	return map_get(m, key, &value) ? value : 0;
}

static uint32_t domain_id(struct import_session *s, const char *name)
{
	bool is_scopes = !strcmp(name, "pitot");
	uint64_t text = import_text(s, name), *id;
	struct row_nvtx_domain row;

	if (!text || s->domains.count >= DOMAINS_MAX)
		return 0;
	id = map_at(&s->domains, text, 0);
	if (!id || *id)
		return id ? (uint32_t)*id : 0;
	*id = is_scopes ? SCOPE_DOMAIN_ID : SCOPE_DOMAIN_ID + s->domains.count;
	row = (struct row_nvtx_domain){ .id = (uint32_t)*id, .name = import_string(s, text) };
	import_append(s, TABLE_nvtx_domain, &row);
	return row.id;
}

static void append(struct import_session *s, uint64_t time_ns, enum nvtx_kind kind, uint32_t thread,
		   uint32_t domain, uint64_t range, uint64_t message, uint32_t level, uint64_t runs)
{
	struct row_nvtx row = { .time_ns = time_ns,
				.kind = (uint8_t)kind,
				.thread = thread,
				.domain = domain,
				.range = range,
				.message = import_string(s, message),
				.payload_kind = nvtx_payload_runs,
				.payload = runs,
				.level = (uint8_t)level };
	bool nests = kind == nvtx_kind_push || kind == nvtx_kind_pop;

	ROW_MISSING_IF(&row, nvtx, range, !range);
	ROW_MISSING_IF(&row, nvtx, message, !message);
	ROW_MISSING(&row, nvtx, category, color);
	ROW_MISSING_IF(&row, nvtx, payload_kind, !runs);
	ROW_MISSING_IF(&row, nvtx, payload, !runs);
	ROW_MISSING_IF(&row, nvtx, level, !nests || level > LEVEL_MAX);
	import_append(s, TABLE_nvtx, &row);
}

/* ---- scopes ---- */

static uint32_t depth_of(const struct import_session *s, uint64_t path)
{
	uint32_t depth = 0;

	for (; path && depth < 2 * LEVEL_MAX; path = map_value(&s->parents, path))
		depth++;
	return depth;
}

static uint32_t guess_thread(struct import_session *s, uint32_t depth)
{
	uint32_t best = 0;

	for (uint32_t thread = 1; thread <= THREADS_MAX; thread++) {
		if (depth_of(s, map_value(&s->inner, thread)) != depth)
			continue;
		if (!best || thread == s->last_thread)
			best = thread;
	}
	return s->last_thread = best ? best : 1;
}

/* Returns "outer|inner", the form in which kernels name paths. */
static uint64_t path_below(struct import_session *s, uint64_t outer, uint64_t name)
{
	struct interned around = import_text_of(s, outer), own = import_text_of(s, name);
	char text[PATH_MAX_BYTES];

	snprintf(text, sizeof(text), "%s%s%s", around.text, outer ? "|" : "", own.text);
	return import_text(s, text);
}

static void begin_scope(struct import_session *s, uint64_t time_ns, uint64_t instance,
			uint32_t thread, uint64_t name, uint32_t level, uint64_t runs)
{
	uint64_t outer = map_value(&s->inner, thread), path = path_below(s, outer, name);
	struct import_scope scope = { .path = path, .begin_ns = time_ns, .thread = thread };

	append(s, time_ns, nvtx_kind_push, thread, domain_id(s, "pitot"), 0, name, level, runs);
	if (s->open.count >= OPEN_MAX)
		map_clear(&s->open); /* their ends are lost */
	import_put(s, &s->open, instance, path << 32 | thread);
	if (path && path != outer) {
		import_put(s, &s->parents, path, outer);
		import_put(s, &s->inner, thread, path);
	}
	if (s->scopes.count >= SCOPES_MAX || vec_push(&s->scopes, scope) < 0)
		import_add_loss(s, loss_reason_string_limit, 1,
				"scopes that kernels were launched in");
	s->is_sorted = false;
}

static void end_scope(struct import_session *s, uint64_t time_ns, uint64_t instance, uint32_t level)
{
	uint64_t found;

	if (!map_get(&s->open, instance, &found)) {
		import_add_loss(s, loss_reason_incomplete_record, 1,
				"ends of scopes without a beginning");
		return;
	}
	append(s, time_ns, nvtx_kind_pop, (uint32_t)found, domain_id(s, "pitot"), 0, 0, level, 0);
	import_put(s, &s->inner, (uint32_t)found, map_value(&s->parents, found >> 32));
	s->last_thread = (uint32_t)found;
}

/* Reads which scope a row of a batch is about, and whether it ends. */
static bool read_instance(struct import_session *s, struct record *r, uint64_t *instance,
			  bool *ends)
{
	uint64_t event; /* odd: end of a scope, or of its part in a segment */

	if (!import_required(s, r, "scope_instance_id", UINT64_MAX, instance) ||
	    !import_required(s, r, "event_type", 3, &event))
		return false;
	*ends = event & 1;
	return true;
}

/* Converts a row of a batch, or a record of the first releases, whose path serves as instance. */
void import_scope(struct import_session *s, struct record *r)
{
	const char *type = record_text(r, "type"), *key = type ? "scope_depth" : "depth";
	bool ends = type && !strcmp(type, "scope_end");
	uint64_t depth = UINT32_MAX, instance, thread, name, time_ns;

	record_integer(r, key, UINT32_MAX, &depth);
	if (type)
		instance = import_text(s, record_text(r, "user_scope"));
	else if (!read_instance(s, r, &instance, &ends))
		return;
	time_ns = import_time(s, r, type ? "ts_ns" : "start_ns", "beginnings and ends of scopes");
	if (!time_ns)
		return;
	if (ends) {
		end_scope(s, time_ns, instance, (uint32_t)depth);
		return;
	}
	if (!record_integer(r, "thread_id", UINT32_MAX, &thread))
		thread = guess_thread(s, (uint32_t)depth);
	name = type ? import_text(s, record_text(r, "name"))
		    : import_name(s, NAMES_SCOPE, r, "name_id");
	begin_scope(s, time_ns, instance, (uint32_t)thread, name, (uint32_t)depth,
		    record_number(r, "warmup", UINT32_MAX) << 32 |
			    record_number(r, "repeat", UINT32_MAX));
}

ORDER(compare_scopes, struct import_scope, UP(path) ?: UP(begin_ns))

/* Returns the last scope of a path that began by time_ns. */
static const struct import_scope *find_path(const struct import_session *s, uint64_t path,
					    uint64_t time_ns)
{
	const struct import_scope *scopes = s->scopes.data;
	size_t after = sorted_prefix(
		s->scopes.count, i,
		scopes[i].path < path || (scopes[i].path == path && scopes[i].begin_ns <= time_ns));

	return after && scopes[after - 1].path == path ? &scopes[after - 1] : NULL;
}

/* "process:app|step" of an injected library may exist only as scope "step". */
const struct import_scope *import_scope_find(struct import_session *s, uint64_t path,
					     uint64_t time_ns)
{
	const char *text = import_text_of(s, path).text;
	const struct import_scope *found = NULL;

	if (!s->is_sorted)
		vec_sort(&s->scopes, compare_scopes);
	s->is_sorted = true;
	while (!(found = find_path(s, path, time_ns)) && (text = strchr(text, '|'))) {
		text++;
		path = (uint64_t)(interner_find(&s->texts, text, strlen(text)) + 1);
	}
	return found;
}

/* ---- NVTX ranges ---- */

ORDER(compare_ranges, struct import_range, UP(thread) ?: UP(domain) ?: UP(start_ns) ?: UP(level))

/* Ranges of a thread and domain nest by their levels. */
void import_ranges_write(struct import_session *s)
{
	const struct import_range *open[LEVEL_MAX + 2];
	size_t depth = 0;

	vec_sort(&s->ranges, compare_ranges);
	for (size_t i = 0; i <= s->ranges.count; i++) {
		const struct import_range *r = i < s->ranges.count ? &s->ranges.data[i] : NULL;

		for (; depth; depth--) {
			const struct import_range *o = open[depth - 1];

			if (r && o->thread == r->thread && o->domain == r->domain &&
			    o->level < r->level && o->end_ns >= r->start_ns)
				break;
			append(s, o->end_ns, nvtx_kind_pop, o->thread, o->domain, 0, 0, o->level,
			       0);
		}
		if (!r)
			break;
		append(s, r->start_ns, nvtx_kind_push, r->thread, r->domain, 0, r->message,
		       r->level, 0);
		open[depth++] = r;
	}
	s->ranges.count = 0;
}

/* gpufl's own logs do not name the thread: such a range is one of start and end. */
void import_nvtx_range(struct import_session *s, struct record *r)
{
	const char *domain = record_text(r, "domain");
	struct import_range range = { .start_ns = record_time(r, "start_ns"),
				      .end_ns = record_time(r, "end_ns"),
				      .message = import_text(s, record_text(r, "name")),
				      .domain = domain ? domain_id(s, domain) : 0 };
	uint64_t thread, level;

	if (!import_span(s, range.start_ns, range.end_ns)) {
		import_add_loss(s, loss_reason_no_time, 1, "nvtx_marker_event");
		return;
	}
	if (s->ranges.count >= RANGES_MAX)
		import_ranges_write(s);
	if (record_integer(r, "thread_id", UINT32_MAX, &thread) &&
	    record_integer(r, "depth", LEVEL_MAX, &level)) {
		range.thread = (uint32_t)thread;
		range.level = (uint32_t)level;
		if (vec_push(&s->ranges, range) < 0)
			import_add_loss(s, loss_reason_no_memory, 1, NULL);
		return;
	}
	s->next_id++;
	append(s, range.start_ns, nvtx_kind_start, 0, range.domain, s->next_id, range.message, 0,
	       0);
	append(s, range.end_ns, nvtx_kind_end, 0, range.domain, s->next_id, 0, 0, 0);
}

/* The spans between such marks need not nest, so they are start-end ranges. */
void import_system_mark(struct import_session *s, struct record *r)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *name = record_text(r, "name");
	uint64_t time_ns = import_time(s, r, "ts_ns", "system_start and system_stop");
	bool starts = !strcmp(record_text(r, "type"), "system_start");

	strbuf_addf(&text, "%s%s", starts ? SYSTEM_MARK_START : SYSTEM_MARK_STOP, name ? name : "");
	if (time_ns)
		append(s, time_ns, nvtx_kind_mark, 0, domain_id(s, "pitot"), 0,
		       import_text(s, strbuf_text(&text)), 0, 0);
}
