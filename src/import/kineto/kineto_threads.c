/*
 * kineto_threads.c: what happened on threads. Events of a file are in no order, so the spans of a
 * thread are sorted first: ranges become pushes and pops, and the Python functions around a call
 * become its stack.
 */
#include <stdio.h>
#include <string.h>

#include "base/search.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"

#define SCOPES 1u /* id of Pitot's domain: operators and annotations are scopes */
#define LEVEL_MAX 30u /* as in tables.h */
#define FRAMES_MAX 256u
#define ROUNDING_NS 1000u /* by which a range may end after the one around it: whole microseconds */

struct open_range {
	uint64_t end_ns, id;
};

struct open_frame {
	uint64_t end_ns, frame;
};

struct sweep {
	struct kineto *k;
	uint32_t thread;
	VEC(struct open_range) ranges;
	VEC(struct open_frame) frames;
	uint32_t stack; /* of the open frames; 0: not known yet, or none */
};

/* Outer spans before inner ones; of equal ones, that with the lower id is the outer one. */
ORDER(compare_spans, struct kineto_span, UP(start_ns) ?: DOWN(end_ns) ?: UP(kind) ?: UP(id))

static void append_range(struct kineto *k, uint64_t time_ns, enum nvtx_kind kind, uint32_t thread,
			 uint32_t text, uint32_t category, uint64_t level)
{
	struct row_nvtx row = { .time_ns = time_ns,
				.kind = (uint8_t)kind,
				.thread = thread,
				.domain = SCOPES,
				.range = level,
				.category = category,
				.level = (uint8_t)level };
	bool nests = kind == nvtx_kind_push || kind == nvtx_kind_pop;

	if (text)
		row.message = writer_string(k->writer, k->texts.items[text - 1].text,
					    k->texts.items[text - 1].length);
	ROW_MISSING_IF(&row, nvtx, range, nests);
	ROW_MISSING_IF(&row, nvtx, message, !text);
	ROW_MISSING_IF(&row, nvtx, category, !text || !category);
	ROW_MISSING(&row, nvtx, color, payload_kind, payload);
	ROW_MISSING_IF(&row, nvtx, level, !nests || level > LEVEL_MAX);
	kineto_append(k, TABLE_nvtx, &row);
}

static void close_ranges(struct sweep *s, uint64_t time_ns)
{
	while (s->ranges.count && s->ranges.data[s->ranges.count - 1].end_ns <= time_ns) {
		s->ranges.count--;
		append_range(s->k, s->ranges.data[s->ranges.count].end_ns, nvtx_kind_pop, s->thread,
			     0, 0, s->ranges.count);
	}
}

static int open_range(struct sweep *s, const struct kineto_span *span)
{
	struct open_range range = { .end_ns = span->end_ns, .id = span->id };
	const struct open_range *outer =
		s->ranges.count ? &s->ranges.data[s->ranges.count - 1] : NULL;
	struct kineto *k = s->k;

	if (outer && outer->end_ns < range.end_ns && range.end_ns - outer->end_ns <= ROUNDING_NS) {
		range.end_ns = outer->end_ns;
		kineto_count(k, KINETO_SHORTENED_COUNT);
	} else if (outer && outer->end_ns < range.end_ns) {
		kineto_count(k, KINETO_CROSSING_COUNT);
		append_range(k, span->start_ns, nvtx_kind_start, s->thread, span->name,
			     span->category, k->counts[KINETO_CROSSING_COUNT]);
		append_range(k, span->end_ns, nvtx_kind_end, s->thread, 0, 0,
			     k->counts[KINETO_CROSSING_COUNT]);
		return 0;
	}
	append_range(k, span->start_ns, nvtx_kind_push, s->thread, span->name, span->category,
		     s->ranges.count);
	return vec_push(&s->ranges, range);
}

/* ---- stacks ---- */

/*
 * Splits "train.py(12): step", or JAX's "$train.py:12 step", into "step", its file and its line.
 */
static bool split_frame(const char **name, const char **function, size_t *file, uint32_t *line)
{
	const char *paren = strstr(*name, "): "), *colon = strchr(*name, ':');
	char end;

	if (**name == '$' && colon && sscanf(colon, ":%u%c", line, &end) == 2 && end == ' ') {
		(*name)++;
		*file = (size_t)(colon - *name);
		*function = strchr(colon, ' ') + 1;
		return **function;
	}

	for (const char *open = paren; open && open > *name; open--) {
		if (*open != '(')
			continue;
		*file = (size_t)(open - *name);
		*function = paren + 3;
		return sscanf(open, "(%u%c", line, &end) == 2 && end == ')' && **function;
	}
	return false;
}

void kineto_python_frame(void *kineto, struct writer *w, uint64_t frame, struct row_stack_node *row)
{
	const struct kineto *k = kineto;
	struct interned text = k->texts.items[(frame & ~FRAME_PYTHON) - 1];
	const char *name = text.text, *function = name;
	size_t file;

	row->missing = 0;
	if (split_frame(&name, &function, &file, &row->line)) {
		row->file = writer_string(w, name, file);
	} else {
		ROW_MISSING(row, stack_node, file, line);
	}
	row->function = rows_text(w, function);
}

static void close_frames(struct sweep *s, uint64_t time_ns)
{
	while (s->frames.count && s->frames.data[s->frames.count - 1].end_ns <= time_ns) {
		s->frames.count--;
		s->stack = 0;
	}
}

static uint32_t add_stack(struct kineto *k, const uint64_t *frames, unsigned count, bool whole)
{
	uint32_t id = count ? stack_tree_id(&k->stacks, k->writer, frames, count,
					    whole ? stack_end_complete : stack_end_depth, NULL)
			    : 0;

	k->counts[KINETO_STACKS_COUNT] += id != 0;
	return id;
}

/* The frames of an operator's "Call stack": innermost first, with ';' between them. */
static uint32_t stack_of_text(struct kineto *k, uint32_t text)
{
	uint64_t frames[FRAMES_MAX];
	const char *p = k->texts.items[text - 1].text, *end;
	unsigned count = 0;

	for (; *p && count < FRAMES_MAX; p = *end ? end + 1 : end) {
		uint32_t frame;

		end = p + strcspn(p, ";");
		frame = kineto_intern(k, p, (size_t)(end - p));
		if (frame)
			frames[count++] = frame | FRAME_PYTHON;
	}
	return add_stack(k, frames, count, !*p);
}

static uint32_t stack_of_call(struct sweep *s)
{
	struct kineto *k = s->k;
	uint64_t frames[FRAMES_MAX], text;
	size_t count = MIN(s->frames.count, FRAMES_MAX);

	for (size_t i = s->ranges.count; !s->frames.count && i-- > 0;)
		if (map_get(&k->call_stacks, s->ranges.data[i].id, &text))
			return stack_of_text(k, (uint32_t)text);
	if (s->stack) {
		kineto_count(k, KINETO_STACKS_COUNT);
		return s->stack;
	}
	for (size_t i = 0; i < count; i++)
		frames[i] = s->frames.data[s->frames.count - 1 - i].frame;
	return s->stack = add_stack(k, frames, (unsigned)count, count == s->frames.count);
}

static void append_call(struct kineto *k, const struct kineto_span *span, uint32_t thread,
			uint32_t stack)
{
	struct row_api_call row = { .start_ns = span->start_ns,
				    .end_ns = span->end_ns,
				    .thread = thread,
				    .correlation = span->id,
				    .stack = stack };
	uint64_t id = api_kind_untimed;

	if (span->kind == KINETO_CALL)
		map_get(&k->functions, span->name, &id);
	else
		row.end_ns = row.start_ns;
	row.function = (uint32_t)id;
	ROW_MISSING(&row, api_call, result);
	ROW_MISSING_IF(&row, api_call, stack, !stack);
	ROW_MISSING(&row, api_call, stream, event, context);
	writer_api_function(k->writer, row.function, NULL);
	kineto_append(k, TABLE_api_call, &row);
}

/* ---- all spans ---- */

static int sweep_span(struct sweep *s, const struct kineto_span *span)
{
	struct open_frame frame = { span->end_ns, span->name | FRAME_PYTHON };

	close_ranges(s, span->start_ns);
	close_frames(s, span->start_ns);
	switch ((enum kineto_kind)span->kind) {
	case KINETO_RANGE:
		return open_range(s, span);
	case KINETO_PYTHON:
		s->stack = 0;
		return vec_push(&s->frames, frame);
	case KINETO_CALL:
	case KINETO_UNTIMED:
		s->k->counts[KINETO_IN_OPERATORS_COUNT] +=
			s->ranges.count && span->kind == KINETO_CALL;
		append_call(s->k, span, s->thread, stack_of_call(s));
		kineto_write_collective(s->k, span->id, span->start_ns, s->thread);
	}
	return 0;
}

static bool is_cancelled(const struct kineto *k)
{
	return k->options->cancel && *k->options->cancel;
}

static int write_thread(struct kineto *k, struct kineto_thread *t)
{
	struct sweep s = { .k = k, .thread = t->tid };
	int rc = 0;

	vec_sort(&t->spans, compare_spans);
	for (size_t i = 0; i < t->spans.count && rc == 0; i++) {
		rc = sweep_span(&s, &t->spans.data[i]);
		if (i % 65536 == 65535 && rc == 0) {
			writer_flush(k->writer);
			rc = is_cancelled(k) ? -ECANCELED : 0;
		}
	}
	close_ranges(&s, UINT64_MAX);
	vec_release(&s.ranges);
	vec_release(&s.frames);
	vec_release(&t->spans);
	return rc;
}

/* ---- work without a call ---- */

/*
 * Joins GPU work with its calls. What is left, for example of a trace without runtime calls, is
 * placed into the operator that its External id names, by an untimed call.
 */
static int join_work(struct kineto *k)
{
	/* External id -> start, index of the thread */
	_cleanup_(map_release) struct map wanted = MAP_INIT, threads = MAP_INIT;
	uint64_t item, start_ns, thread;

	for (size_t t = 0; t < k->all_threads.count; t++)
		for (size_t i = 0; i < k->all_threads.data[t].spans.count; i++) {
			const struct kineto_span *s = &k->all_threads.data[t].spans.data[i];

			if (s->kind >= KINETO_CALL && map_remove(&k->work, s->id, &item))
				k->counts[KINETO_JOINED_COUNT] += k->all_work.data[item - 1].count;
		}
	for (size_t i = 0; i < k->all_work.count && k->work.count; i++) {
		const struct kineto_work *w = &k->all_work.data[i];

		if (w->external && map_get(&k->work, w->correlation, &item) && item == i + 1 &&
		    map_put(&wanted, w->external, 0) < 0)
			return -ENOMEM;
	}
	for (size_t t = 0; t < k->all_threads.count && wanted.count; t++)
		for (size_t i = 0; i < k->all_threads.data[t].spans.count; i++) {
			const struct kineto_span *s = &k->all_threads.data[t].spans.data[i];

			if (s->kind == KINETO_RANGE && map_get(&wanted, s->id, &item) &&
			    (map_put(&wanted, s->id, s->start_ns) < 0 ||
			     map_put(&threads, s->id, t) < 0))
				return -ENOMEM;
		}
	for (size_t i = 0; i < k->all_work.count; i++) {
		const struct kineto_work *w = &k->all_work.data[i];
		struct kineto_span span = { .id = w->correlation, .kind = KINETO_UNTIMED };

		if (!map_get(&k->work, w->correlation, &item) || item != i + 1)
			continue;
		if (!w->external || !map_get(&threads, w->external, &thread) ||
		    !map_get(&wanted, w->external, &start_ns)) {
			k->counts[KINETO_UNLINKED_COUNT] += w->count;
			continue;
		}
		k->counts[KINETO_PLACED_COUNT] += w->count;
		span.start_ns = span.end_ns = start_ns;
		kineto_add_span(k, k->all_threads.data[thread].tid, &span);
	}
	return 0;
}

static void append_names(struct kineto *k)
{
	struct row_nvtx_domain domain = { .id = SCOPES, .name = rows_text(k->writer, "pitot") };
	struct row_api_function untimed = { .id = api_kind_untimed,
					    .name = rows_text(k->writer, "launch (time unknown)"),
					    .kind = api_kind_untimed };

	ROW_MISSING(&untimed, api_function, waits_for);
	kineto_append(k, TABLE_nvtx_domain, &domain);
	for (uint32_t i = 1; i < k->category_count; i++) {
		struct interned text = k->texts.items[k->categories[i] - 1];
		struct row_nvtx_category row = { .domain = SCOPES,
						 .id = i,
						 .name = writer_string(k->writer, text.text,
								       text.length) };

		kineto_append(k, TABLE_nvtx_category, &row);
	}
	writer_api_function(k->writer, untimed.id, &untimed);
}

int kineto_write_threads(struct kineto *k)
{
	int rc = join_work(k);

	append_names(k);
	for (size_t i = 0; i < k->all_threads.count && rc == 0; i++)
		rc = write_thread(k, &k->all_threads.data[i]);
	return rc;
}
