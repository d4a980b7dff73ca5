#include "stack/python/python_interrupted.h"

#include <string.h>

#include "stack/safe_memory.h"

#define PAGE_BITS 12
#define PAGES 32u /* remembered as readable; a power of two */
#define STEPS_MAX 4096u /* from frame to frame: links that are no good may lead in a circle */
#define REFERENCES_MAX                                                                             \
	(INT64_C(1) << 33) /* of a code object that is alive; immortal ones have 2^32 */

struct reader {
	const struct python_runtime *runtime;
	const struct python_offsets *o;
	uint64_t pages[PAGES]; /* number + 1 */
	bool failed;
};

/* --- reading --- */

static bool readable(struct reader *r, uintptr_t address)
{
	uint64_t page = (address >> PAGE_BITS) + 1; /* 0: none */
	uint64_t *known = &r->pages[page % PAGES];

	if (*known == page)
		return true;
	if (!memory_readable(address & ~(uintptr_t)7))
		return false;
	*known = page;
	return true;
}

/* At most 8 bytes; zeros where they cannot be read, and then r->failed. */
static uint64_t read_bytes(struct reader *r, uintptr_t base, unsigned offset, unsigned size)
{
	uintptr_t address = base + offset;
	uint64_t value = 0;

	if (base == 0 || !readable(r, address) || !readable(r, address + size - 1))
		r->failed = true;
	else
		memcpy(&value, (const void *)address, size);
	return value;
}

static uintptr_t read_pointer(struct reader *r, uintptr_t base, unsigned offset)
{
	return (uintptr_t)read_bytes(r, base, offset, 8);
}

static bool is_code(struct reader *r, uintptr_t code)
{
	int64_t references = (int64_t)read_bytes(r, code, 0, 8);

	if (r->failed || read_pointer(r, code, r->o->object_type) != r->runtime->code_type)
		return false;
	/* Objects of free-threaded builds begin otherwise. */
	return r->runtime->free_threaded || (references > 0 && references < REFERENCES_MAX);
}

/* --- 3.9, 3.10 --- */

static unsigned walk_objects(struct reader *r, uintptr_t frame, struct python_frame *out,
			     unsigned max, bool *complete)
{
	unsigned n = 0;

	while (frame && n < max) {
		uintptr_t code = read_pointer(r, frame, r->o->frame_code);
		int32_t last = (int32_t)read_bytes(r, frame, r->o->frame_last, 4);

		if (!is_code(r, code))
			break;
		out[n++] =
			(struct python_frame){ .code = code,
					       .last = last > 0 ? (uint32_t)last * r->o->index_unit
								: 0,
					       .entry = true };
		frame = read_pointer(r, frame, r->o->frame_previous);
	}
	*complete = !frame && !r->failed;
	return n;
}

/* --- 3.11 on --- */

static bool ends_run(struct reader *r, uintptr_t frame, unsigned *owner)
{
	*owner = (unsigned)read_bytes(r, frame, r->o->frame_owner, 1);
	if (r->o->layout == PYTHON_ENTRY_FLAG)
		return read_bytes(r, frame, r->o->frame_is_entry, 1) != 0;
	return *owner == PYTHON_OWNER_ENTRY;
}

/* The frame that called the evaluation which runs `frame`; 0 also when it cannot be found. */
static uintptr_t caller_of_run(struct reader *r, uintptr_t frame)
{
	unsigned owner;

	for (unsigned i = 0; frame && i < STEPS_MAX && !r->failed; i++) {
		bool ends = ends_run(r, frame, &owner);

		frame = read_pointer(r, frame, r->o->frame_previous);
		if (ends)
			return frame;
	}
	r->failed = true;
	return 0;
}

/*
 * The innermost frame. With C frames (3.11, 3.12): what the newest one has is its own only when
 * its run was called by what the one before has; else its evaluation is being entered or left.
 */
static uintptr_t top_frame(struct reader *r, uintptr_t state)
{
	uintptr_t top = read_pointer(r, state, r->o->state_frame), frame, before, caller;

	if (!r->o->has_cframe || !top)
		return top;
	frame = read_pointer(r, top, r->o->cframe_frame);
	before = read_pointer(r, top, r->o->cframe_frame + 8u);
	if (r->failed || !before)
		return frame;
	caller = read_pointer(r, before, r->o->cframe_frame);
	if (r->failed)
		return 0;
	if (frame && caller_of_run(r, frame) == caller && !r->failed)
		return frame;
	r->failed = false;
	return caller;
}

static uintptr_t bytecode_of(struct reader *r, uintptr_t frame, uintptr_t code)
{
	uintptr_t copies;
	int32_t index;

	if (!r->o->code_tlbc)
		return code + r->o->code_bytecode;
	index = (int32_t)read_bytes(r, frame, r->o->frame_tlbc, 4);
	copies = read_pointer(r, code, r->o->code_tlbc);
	if (index <= 0 || !copies || (uintptr_t)index >= read_pointer(r, copies, 0))
		return code + r->o->code_bytecode;
	return read_pointer(r, copies, 8 * (1 + (unsigned)index));
}

/* Writes the frame, unless Python would not show it: its cells or its generator are being made. */
static bool visible(struct reader *r, uintptr_t frame, unsigned owner, struct python_frame *out)
{
	uintptr_t code = read_pointer(r, frame, r->o->frame_code) & ~PYTHON_TAG_BITS;
	int64_t last, first;

	if (!is_code(r, code))
		return false;
	last = (int64_t)(read_pointer(r, frame, r->o->frame_last) - bytecode_of(r, frame, code));
	first = 2 * (int64_t)(int32_t)read_bytes(r, code, r->o->code_traceable, 4);
	if (r->failed)
		return false;
	if (last < first) {
		if (owner != PYTHON_OWNER_GENERATOR)
			return false;
		last = MAX(last, 0);
	}
	*out = (struct python_frame){ .code = code, .last = (uint32_t)last };
	return true;
}

static unsigned walk_runs(struct reader *r, uintptr_t frame, uintptr_t base,
			  struct python_frame *out, unsigned max, bool *complete)
{
	bool open = false; /* the run has a frame in `out` */
	unsigned n = 0, owner;

	for (unsigned steps = 0; frame && frame != base && steps < STEPS_MAX && !r->failed;
	     steps++) {
		bool ends = ends_run(r, frame, &owner);

		if (r->failed || (n == max && (owner < PYTHON_OWNER_ENTRY || !open)))
			break;
		if (owner < PYTHON_OWNER_ENTRY && visible(r, frame, owner, &out[n])) {
			n++;
			open = true;
		}
		frame = read_pointer(r, frame, r->o->frame_previous);
		if (!ends)
			continue;
		if (open)
			out[n - 1].entry = true;
		else
			out[n++] = (struct python_frame){ .entry = true };
		open = false;
	}
	*complete = (!frame || frame == base) && !r->failed;
	if ((!frame || frame == base) && open)
		out[n - 1].entry = true;
	return n;
}

unsigned python_walk_interrupted(const struct python_runtime *runtime, struct python_frame *out,
				 unsigned max, bool *complete)
{
	struct reader r = { .runtime = runtime, .o = &runtime->offsets };
	uintptr_t state, frame, base;

	*complete = true;
	if (runtime->finalizing())
		return 0;
	state = (uintptr_t)runtime->thread_state();
	if (!state)
		return 0;
	frame = top_frame(&r, state);
	if (r.o->layout == PYTHON_FRAME_OBJECTS)
		return walk_objects(&r, frame, out, max, complete);
	base = r.o->state_base ? read_pointer(&r, state, r.o->state_base) : 0;
	return walk_runs(&r, frame, base, out, max, complete);
}

unsigned python_align_interrupted(const struct python_eval *eval, const uint64_t *native,
				  unsigned native_count, struct python_frame *frames,
				  unsigned count)
{
	unsigned evaluations = 0, runs = 0;

	for (unsigned i = 0; i < native_count; i++)
		evaluations += python_eval_has(eval, native[i]);
	for (unsigned i = 0; i < count; i++)
		runs += frames[i].entry;
	if (evaluations != runs + 1)
		return count;
	memmove(frames + 1, frames, count * sizeof(*frames));
	frames[0] = (struct python_frame){ .entry = true };
	return count + 1;
}
