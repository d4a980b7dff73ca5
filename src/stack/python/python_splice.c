#include "stack/python/python_splice.h"

#include <string.h>

struct splice {
	const struct python_stacks *in;
	unsigned next; /* index of the next Python frame */
	uint64_t *out;
	unsigned max, count;
};

static void put(struct splice *s, uint64_t frame)
{
	if (s->count < s->max)
		s->out[s->count] = frame;
	s->count++;
}

/* Emits the Python frames of one evaluation, or of all; the native frame if none is visible. */
static void put_run(struct splice *s, uint64_t native, bool all)
{
	const struct python_stacks *in = s->in;
	unsigned before = s->count;

	while (s->next < in->python_count) {
		const struct python_frame *frame = &in->python[s->next++];

		if (frame->code)
			put(s, python_frame_encode(frame->id, frame->last));
		if (frame->entry && !all)
			break;
	}
	if (s->count == before && native)
		put(s, native);
}

static enum python_match compare(unsigned evaluations, unsigned runs,
				 const struct python_stacks *in)
{
	if (!evaluations && !runs)
		return PYTHON_MATCH_NONE;
	if (evaluations == runs)
		return in->native_complete && in->python_complete ? PYTHON_MATCH_EXACT
								  : PYTHON_MATCH_PARTIAL;
	/* A truncated stack may have less than the other, never more. */
	if (evaluations < runs ? !in->native_complete : !in->python_complete)
		return PYTHON_MATCH_PARTIAL;
	return PYTHON_MATCH_UNSURE;
}

static unsigned count_evaluations(const struct python_eval *eval, const uint64_t *native,
				  unsigned count)
{
	unsigned evaluations = 0;

	for (unsigned i = 0; i < count; i++)
		evaluations += python_eval_has(eval, native[i]);
	return evaluations;
}

static unsigned count_runs(const struct python_frame *frames, unsigned count)
{
	unsigned runs = 0;

	for (unsigned i = 0; i < count; i++)
		runs += frames[i].entry;
	return runs;
}

unsigned python_splice(const struct python_eval *eval, const struct python_stacks *in,
		       uint64_t *out, unsigned max, enum python_match *match)
{
	struct splice s = { .in = in, .out = out, .max = max };
	unsigned evaluations = count_evaluations(eval, in->native, in->native_count);
	unsigned runs = count_runs(in->python, in->python_count);
	bool is_cut = in->python_count && !in->python_complete;
	bool is_open = in->python_count && !in->python[in->python_count - 1].entry;
	bool unsure;

	/* Frames after the last entry are a run whose outer end is missing. */
	runs += is_open;
	*match = compare(evaluations, runs, in);
	unsure = *match == PYTHON_MATCH_UNSURE;
	for (unsigned i = 0; i < in->native_count; i++) {
		bool is_evaluation = python_eval_has(eval, in->native[i]);

		if (is_cut && s.next == in->python_count && (is_open || is_evaluation))
			return s.count;
		if (is_evaluation && s.next < in->python_count)
			put_run(&s, in->native[i], unsure);
		else
			put(&s, in->native[i]);
	}
	/* Frames that the native stack did not reach, or had no evaluation for. */
	put_run(&s, 0, true);
	return s.count;
}

enum stack_end python_splice_end(const struct python_stacks *in, enum stack_end native,
				 unsigned count, unsigned max)
{
	if (count > max)
		return stack_end_depth;
	if (!in->python_count || in->python_complete)
		return native;
	return in->python_count < STACK_PYTHON_MAX ? stack_end_truncated : stack_end_depth;
}

unsigned python_align_interrupted(const struct python_eval *eval, const uint64_t *native,
				  unsigned native_count, struct python_frame *frames,
				  unsigned count)
{
	if (count_evaluations(eval, native, native_count) != count_runs(frames, count) + 1)
		return count;
	memmove(frames + 1, frames, count * sizeof(*frames));
	frames[0] = (struct python_frame){ .entry = true };
	return count + 1;
}
