#include "stack/python/python_walk.h"

static inline uintptr_t read_pointer(uintptr_t base, unsigned offset)
{
	return *(const uintptr_t *)(base + offset);
}

static inline int32_t read_int(uintptr_t base, unsigned offset)
{
	return *(const int32_t *)(base + offset);
}

static unsigned walk_frame_objects(const struct python_offsets *o, uintptr_t frame,
				   struct python_frame *out, unsigned max, bool *complete)
{
	unsigned n = 0;

	for (; frame && n < max; frame = read_pointer(frame, o->frame_previous)) {
		int32_t last = read_int(frame, o->frame_last);

		out[n++] = (struct python_frame){ .code = read_pointer(frame, o->frame_code),
						  .last = last > 0 ? (uint32_t)last * o->index_unit
								   : 0,
						  .entry = true };
	}
	*complete = !frame;
	return n;
}

/*
 * The bytecode that the frame runs, in free-threaded builds: they have copies of it, of which the
 * first is in the code object.
 */
static uintptr_t copied_bytecode(const struct python_offsets *o, uintptr_t frame, uintptr_t code)
{
	int32_t index = read_int(frame, o->frame_tlbc);
	const uintptr_t *copies =
		__atomic_load_n((const uintptr_t *const *)(code + o->code_tlbc), __ATOMIC_ACQUIRE);

	if (index <= 0 || !copies || (uintptr_t)index >= copies[0])
		return code + o->code_bytecode;
	return copies[1 + index];
}

/* What the walks of 3.11 on differ in, known when they are compiled. */
struct kind {
	bool flagged; /* PYTHON_ENTRY_FLAG */
	bool copies; /* of the bytecode */
};

/* Writes the frame, unless Python would not show it: its cells or its generator are being made. */
static inline bool visible(const struct python_offsets *o, struct kind kind, uintptr_t frame,
			   unsigned owner, struct python_frame *out)
{
	uintptr_t code = read_pointer(frame, o->frame_code) & ~PYTHON_TAG_BITS;
	uintptr_t bytecode;
	int64_t last;

	if (unlikely(!code))
		return false;
	bytecode = kind.copies ? copied_bytecode(o, frame, code) : code + o->code_bytecode;
	last = (int64_t)(read_pointer(frame, o->frame_last) - bytecode);
	if (unlikely(last < 2 * (int64_t)read_int(code, o->code_traceable))) {
		if (owner != PYTHON_OWNER_GENERATOR)
			return false;
		last = MAX(last, 0);
	}
	*out = (struct python_frame){ .code = code, .last = (uint32_t)last };
	return true;
}

/*
 * 3.11 on: one evaluation runs a chain of frames. Where the chain ends, the last frame written is
 * marked; if none of it was visible, an empty frame keeps the place of the evaluation.
 */
static inline __attribute__((always_inline)) unsigned
walk_frames(const struct python_offsets *offsets, struct kind kind, uintptr_t frame, uintptr_t base,
	    struct python_frame *out, unsigned max, bool *complete)
{
	const struct python_offsets copy = *offsets,
				    *o = &copy; /* that no store to out can change */
	bool open = false;
	unsigned n = 0;

	for (; frame && frame != base; frame = read_pointer(frame, o->frame_previous)) {
		unsigned owner = *(const uint8_t *)(frame + o->frame_owner);
		bool ends = kind.flagged ? *(const uint8_t *)(frame + o->frame_is_entry)
					 : owner == PYTHON_OWNER_ENTRY;

		if (n == max && (owner < PYTHON_OWNER_ENTRY || !open))
			break;
		if (owner < PYTHON_OWNER_ENTRY && visible(o, kind, frame, owner, &out[n])) {
			n++;
			open = true;
		}
		if (!ends)
			continue;
		if (open)
			out[n - 1].entry = true;
		else
			out[n++] = (struct python_frame){ .entry = true };
		open = false;
	}
	*complete = !frame || frame == base;
	if (*complete && open)
		out[n - 1].entry = true;
	return n;
}

uintptr_t python_thread_state(const struct python_runtime *runtime)
{
	return runtime->finalizing() ? 0 : (uintptr_t)runtime->thread_state();
}

unsigned python_walk(const struct python_runtime *runtime, struct python_frame *out, unsigned max,
		     bool *complete)
{
	return python_walk_from(runtime, python_thread_state(runtime), out, max, complete);
}

unsigned python_walk_from(const struct python_runtime *runtime, uintptr_t state,
			  struct python_frame *out, unsigned max, bool *complete)
{
	const struct python_offsets *o = &runtime->offsets;
	uintptr_t frame, base;

	*complete = true;
	if (!state)
		return 0;
	frame = read_pointer(state, o->state_frame);
	if (o->has_cframe && frame)
		frame = read_pointer(frame, o->cframe_frame);
	if (o->layout == PYTHON_FRAME_OBJECTS)
		return walk_frame_objects(o, frame, out, max, complete);
	if (o->layout == PYTHON_ENTRY_FLAG)
		return walk_frames(o, (struct kind){ .flagged = true }, frame, 0, out, max,
				   complete);
	base = o->state_base ? read_pointer(state, o->state_base) : 0;
	if (!o->code_tlbc)
		return walk_frames(o, (struct kind){ 0 }, frame, base, out, max, complete);
	return walk_frames(o, (struct kind){ .copies = true }, frame, base, out, max, complete);
}
