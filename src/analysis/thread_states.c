#include "analysis/thread_states.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "analysis/report.h"
#include "base/search.h"
#include "base/starts_with.h"

bool thread_is_gpu_call(const char *function)
{
	static const char *const prefixes[] = { "cuda", "nccl", "hip", "rccl", "cu" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (starts_with(function, prefixes[i]))
			return isupper((unsigned char)function[strlen(prefixes[i])]);
	return false;
}

static int add_frame(struct report *r, struct thread_states *out, struct thread_at_dump *thread,
		     struct thread_frame frame)
{
	if (vec_push(&out->frames, frame) < 0)
		return -ENOMEM;
	thread->frame_count++;
	/* The outermost one is the program's call; inner ones are the library's own. */
	if (!frame.is_python && thread_is_gpu_call(stacks_text(&r->callers.stacks, frame.name)))
		thread->gpu_call = frame.name;
	return 0;
}

/* A native frame is an address with all functions that are inlined there, innermost first. */
static int add_frames(struct report *r, struct thread_states *out, struct thread_at_dump *thread,
		      const struct stack_expansion *x)
{
	const struct stacks *s = &r->callers.stacks;
	int rc = 0;

	for (uint32_t i = x->count; i > 0 && rc == 0; i--) {
		struct stack_frame f = s->frames.data[s->expanded.data[x->first + i - 1]];

		if (f.class == FRAME_PYTHON || !f.line_count)
			rc = add_frame(r, out, thread,
				       (struct thread_frame){ f.name, f.file, f.line,
							      f.class == FRAME_PYTHON });
		for (uint32_t n = 0; n < f.line_count && f.class != FRAME_PYTHON && rc == 0; n++) {
			const struct stack_line *line = &s->lines.data[f.first_line + n];

			rc = add_frame(r, out, thread,
				       (struct thread_frame){ line->function, line->file,
							      line->line, false });
		}
	}
	return rc;
}

static int add_stack(struct report *r, struct thread_states *out, struct thread_at_dump *thread,
		     uint32_t process, uint32_t stack)
{
	struct stacks *s = &r->callers.stacks;
	struct caller_place place;
	enum stack_end end;
	uint32_t node;
	int rc = callers_place(&r->callers, process, stack, &place);

	thread->caller = place.caller;
	thread->callee = place.callee;
	if (rc == 0)
		rc = stacks_find(s, process, stack, &node, &end);
	if (rc == 0)
		thread->is_complete = end == stack_end_complete || end == stack_end_guessed;
	while (rc == 0 && node != TRACE_NO_ROW) {
		int64_t at = stacks_expand(s, process, node);

		rc = at < 0 ? (int)at : add_frames(r, out, thread, &s->expansions.data[at]);
		if (rc == 0)
			rc = stacks_parent(s, process, node, &node);
	}
	return rc;
}

static int add_row(struct report *r, struct thread_states *out, uint32_t process, uint64_t row)
{
	const struct unfinished_columns *u = unfinished_columns(r->trace);
	struct thread_at_dump thread = {
		.process = (uint32_t)trace_process(r->trace, process)->subject,
		.thread = u->thread[row],
		.time_ns = u->time_ns[row],
		.state = u->state[row],
		.system_call = u->system_call[row],
		.reason = u->reason[row],
		.caller = CALLER_NONE,
		.callee = CALLER_NONE,
		.first_frame = out->frames.count,
	};
	int rc = 0;

	if (column_has(u->valid.stack, row))
		rc = add_stack(r, out, &thread, process, u->stack[row]);
	return rc < 0 ? rc : vec_push(&out->threads, thread);
}

ORDER(compare_threads, struct thread_at_dump,
      UP(process) ?: ORDER_OF(!a->gpu_call, !b->gpu_call) ?: UP(thread) ?: UP(time_ns))

static int run(struct report *r, void *result)
{
	const struct unfinished_columns *u = unfinished_columns(r->trace);
	struct thread_states *out = result;
	int rc = 0;

	for (struct row_walk w = selection_rows(&r->selection, TABLE_unfinished);
	     rc == 0 && row_walk_next(&w);)
		if (u->kind[w.row] == unfinished_kind_thread)
			rc = add_row(r, out, w.process, w.row);
	vec_sort(&out->threads, compare_threads);
	return rc;
}

const struct analysis analysis_thread_states = {
	.size = sizeof(struct thread_states),
	.needs = { { TABLE_unfinished, 0 } },
	.run = run,
	.owned = { OWNS(struct thread_states, threads.data),
		   OWNS(struct thread_states, frames.data) },
	.reads_others = true, /* alone, since it adds to the callers */
};
