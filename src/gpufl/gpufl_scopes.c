/*
 * gpufl_scopes.c: scopes, which are push-pop ranges of a separate domain, and NVTX ranges.
 *
 * A scope becomes two rows with an instance id; its path (a|b|c) is the user_scope of kernels
 * launched inside. Any other range becomes one record when it ends. Levels resynchronize pushes and
 * pops after lost calls (docs/format.md, section 5).
 */
#include "gpufl/gpufl_sink_state.h"

#define MISSING(row, column) ((row)->missing >> COLUMN_nvtx_##column & 1)
#define PROBES 8 /* slots probed for a thread */

static bool is_at(const struct gpufl_thread_ranges *t, uint32_t thread, uint32_t domain)
{
	return t->depth && t->thread == thread && t->domain == domain;
}

static size_t slot_of(uint32_t thread, uint32_t domain, size_t probe)
{
	return (hash_u64((uint64_t)domain << 32 | thread) + probe) % GPUFL_THREADS;
}

/* Returns NULL if the thread has no open range. */
static struct gpufl_thread_ranges *find_thread(const struct gpufl_sink *s, uint32_t thread,
					       uint32_t domain)
{
	for (size_t i = 0; i < PROBES; i++) {
		struct gpufl_thread_ranges *t = &s->threads[slot_of(thread, domain, i)];

		if (is_at(t, thread, domain))
			return t;
	}
	return NULL;
}

/* Finds or claims the slot of a thread; NULL if too many threads have open ranges. */
static struct gpufl_thread_ranges *claim_thread(struct gpufl_sink *s, uint32_t thread,
						uint32_t domain)
{
	struct gpufl_thread_ranges *found = find_thread(s, thread, domain);

	for (size_t i = 0; i < PROBES && !found; i++) {
		struct gpufl_thread_ranges *t = &s->threads[slot_of(thread, domain, i)];

		if (t->depth)
			continue;
		t->thread = thread;
		t->domain = domain;
		return t;
	}
	return found;
}

static bool is_scope(const struct gpufl_sink *s, uint32_t domain)
{
	return domain && domain == s->scope_domain;
}

uint32_t gpufl_scope_path(const struct gpufl_sink *s, uint32_t thread)
{
	const struct gpufl_thread_ranges *t =
		s->scope_domain ? find_thread(s, thread, s->scope_domain) : NULL;

	return t ? t->ranges[t->depth - 1].label : LABEL_GLOBAL;
}

/* ---- output ---- */

static void write_scope(struct gpufl_sink *s, const struct gpufl_thread_ranges *t, unsigned depth,
			uint64_t time_ns, bool ends, uint64_t runs)
{
	const struct gpufl_range *r = &t->ranges[depth];

	GPUFL_ROW(&s->log, scope, gpufl_time(s, time_ns), NULL, r->instance, r->name, ends, depth,
		  runs & UINT32_MAX, runs >> 32, gpufl_time(s, time_ns), t->thread);
}

/* Writes the record of an NVTX range. Push-pop ranges are those of a thread, at its depth. */
static void write_range(struct gpufl_sink *s, const struct gpufl_thread_ranges *on, uint32_t domain,
			uint32_t label, uint64_t start_ns, uint64_t end_ns)
{
	struct strbuf *out = gpufl_identified_line(s, GPUFL_SCOPE, "nvtx_marker_event");

	TEXT(out, ",\"name\":\"");
	gpufl_add_label(s, out, label);
	TEXT(out, "\",\"domain\":\"");
	gpufl_add_label(s, out, domain < ARRAY_SIZE(s->domains) ? s->domains[domain] : 0);
	TEXT(out, "\"");
	TEXT_U64(out, "start_ns", gpufl_time(s, start_ns));
	TEXT_U64(out, "end_ns", gpufl_time(s, end_ns));
	TEXT_U64(out, "duration_ns", end_ns - start_ns);
	TEXT_U64(out, "marker_id", ++s->next_id);
	if (on) {
		TEXT_U64(out, "thread_id", on->thread);
		TEXT_U64(out, "depth", on->depth - 1);
	}
	TEXT(out, "}\n");
}

/* Ends the innermost range of a thread. */
static void end_range(struct gpufl_sink *s, struct gpufl_thread_ranges *t, uint64_t time_ns)
{
	const struct gpufl_range *r = &t->ranges[t->depth - 1];

	time_ns = MAX(time_ns, r->start_ns);
	if (r->instance)
		write_scope(s, t, t->depth - 1, time_ns, true, 0);
	else if (!is_scope(s, t->domain))
		write_range(s, t, t->domain, r->label, r->start_ns, time_ns);
	t->depth--;
}

/* ---- rows ---- */

static struct gpufl_open *open_at(const struct gpufl_sink *s, uint64_t range)
{
	return &s->open[range % GPUFL_OPEN_MAX];
}

/*
 * A push with a range continues a scope that another thread opened: it is nested in that scope.
 * Without a name of its own it is the same scope, whose rows are already written.
 */
static uint32_t continued_path(const struct gpufl_sink *s, const struct row_nvtx *n)
{
	const struct gpufl_open *token = open_at(s, n->range);

	return !MISSING(n, range) && token->used && token->range == n->range ? token->label : 0;
}

static void push(struct gpufl_sink *s, const struct row_nvtx *n, struct gpufl_thread_ranges *t)
{
	struct bytes_value name = gpufl_text(s, MISSING(n, message) ? 0 : n->message);
	struct gpufl_range *r = &t->ranges[t->depth];
	uint32_t parent = t->depth ? t->ranges[t->depth - 1].label : 0, carried = 0;
	bool scope = is_scope(s, n->domain);
	bool runs = !MISSING(n, payload_kind) && n->payload_kind == nvtx_payload_runs;

	*r = (struct gpufl_range){ .start_ns = n->time_ns,
				   .level = MISSING(n, level) ? UINT8_MAX : n->level };
	t->depth++;
	if (scope)
		carried = continued_path(s, n);
	parent = carried ? carried : scope ? parent : 0;
	r->label = carried && !name.length ? carried : gpufl_label(s, parent, name);
	if (!scope || (carried && !name.length))
		return;
	r->instance = ++s->next_id;
	r->name = gpufl_name(&s->log, DICTIONARY_scope_name, name.data, name.length);
	write_scope(s, t, t->depth - 1, n->time_ns, false, runs ? n->payload : 0);
}

/*
 * Ranges still open at the new range's level or above have lost their end, or end here. A missing
 * level is above all others.
 */
static void push_or_pop(struct gpufl_sink *s, const struct row_nvtx *n)
{
	bool pushes = n->kind == nvtx_kind_push;
	struct gpufl_thread_ranges *t = pushes ? claim_thread(s, n->thread, n->domain)
					       : find_thread(s, n->thread, n->domain);

	if (!t)
		return;
	while (t->depth && !MISSING(n, level) && t->ranges[t->depth - 1].level >= n->level)
		end_range(s, t, n->time_ns);
	if (pushes && t->depth < GPUFL_DEPTH_MAX)
		push(s, n, t);
	else if (!pushes && t->depth && MISSING(n, level))
		end_range(s, t, n->time_ns);
}

static void start(struct gpufl_sink *s, const struct row_nvtx *n)
{
	*open_at(s, n->range) = (struct gpufl_open){
		.range = n->range,
		.start_ns = n->time_ns,
		.domain = n->domain,
		.used = true,
		.label = gpufl_label(s, 0, gpufl_text(s, MISSING(n, message) ? 0 : n->message)),
	};
}

static void end(struct gpufl_sink *s, const struct row_nvtx *n)
{
	struct gpufl_open *o = open_at(s, n->range);

	if (o->used && o->range == n->range && n->time_ns >= o->start_ns) {
		write_range(s, NULL, o->domain, o->label, o->start_ns, n->time_ns);
		o->used = false;
	}
}

void gpufl_nvtx(struct gpufl_sink *s, const struct row_nvtx *n)
{
	s->last_ns = MAX(s->last_ns, n->time_ns);
	switch (n->kind) {
	case nvtx_kind_push:
	case nvtx_kind_pop:
		push_or_pop(s, n);
		break;
	case nvtx_kind_start:
		start(s, n);
		break;
	case nvtx_kind_end:
		end(s, n);
		break;
	case nvtx_kind_mark:
		if (is_scope(s, n->domain) && !MISSING(n, message))
			gpufl_system_mark(s, n);
		break;
	case nvtx_kind_token:
		*open_at(s, n->range) = (struct gpufl_open){
			.range = n->range, .used = true, .label = gpufl_scope_path(s, n->thread)
		};
		break;
	}
}

void gpufl_nvtx_domain(struct gpufl_sink *s, const struct row_nvtx_domain *d)
{
	struct bytes_value name = gpufl_text(s, d->name);

	if (name.length == 5 && !memcmp(name.data, "pitot", 5))
		s->scope_domain = d->id;
	if (d->id < ARRAY_SIZE(s->domains))
		s->domains[d->id] = gpufl_label(s, 0, name);
}
