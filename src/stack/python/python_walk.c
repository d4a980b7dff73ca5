/*
 * python_walk.c: one walk, compiled for each kind of interpreter, checked and unchecked.
 *
 * python_walk_interrupted() trusts nothing: memory is probed before it is read (safe_memory.h),
 * code objects are verified, and where the interpreter links an evaluation in several steps (3.11,
 * 3.12: first the C frame, later its contents), the links of both ends are compared.
 */
#include "stack/python/python_walk.h"

#include <stdatomic.h>
#include <string.h>

#include "base/safe_memory.h"

#define PAGE_BITS 12
#define PAGES 32u /* pages known to be readable; a power of two */
#define STEPS_MAX (1u << 17) /* most frames; invalid links may form a circle */
#define REFERENCES_MAX (INT64_C(1) << 33) /* of a live code object; immortal ones have 2^32 */

/* Variants of the walk, known at compile time. */
struct kind {
	bool checked; /* trusts nothing */
	bool foreign; /* another process: checked, and read by a function */
	bool flagged; /* PYTHON_ENTRY_FLAG */
	bool copies; /* the bytecode has copies */
};

struct reader {
	const struct python_runtime *runtime;
	struct python_offsets o; /* a copy, which no store to frames can change */
	bool failed; /* if checked: memory was unreadable */
	const struct python_memory *memory; /* if foreign */
	uint64_t pages[PAGES]; /* page number + 1 */
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

/* Reads at most 8 bytes; 0 if they are unreadable. */
ALWAYS_INLINE uint64_t read_bytes(struct reader *r, struct kind kind, uintptr_t base,
				  unsigned offset, unsigned size)
{
	uintptr_t address = base + offset;
	uint64_t value = 0;

	if (kind.foreign) {
		if (!r->memory->read(r->memory->context, address, &value, size))
			r->failed = true;
	} else if (kind.checked &&
		   (base == 0 || !readable(r, address) || !readable(r, address + size - 1)))
		r->failed = true;
	else
		memcpy(&value, (const void *)address, size);
	return value;
}

ALWAYS_INLINE uintptr_t read_pointer(struct reader *r, struct kind kind, uintptr_t base,
				     unsigned offset)
{
	return (uintptr_t)read_bytes(r, kind, base, offset, sizeof(uintptr_t));
}

ALWAYS_INLINE int32_t read_int(struct reader *r, struct kind kind, uintptr_t base, unsigned offset)
{
	return (int32_t)read_bytes(r, kind, base, offset, sizeof(int32_t));
}

ALWAYS_INLINE bool is_code(struct reader *r, struct kind kind, uintptr_t code)
{
	int64_t references;

	if (!kind.checked)
		return likely(code != 0);
	references = (int64_t)read_bytes(r, kind, code, 0, 8);
	if (r->failed || read_pointer(r, kind, code, r->o.object_type) != r->runtime->code_type)
		return false;
	/* Objects of free-threaded builds have another head. */
	return r->runtime->free_threaded || (references > 0 && references < REFERENCES_MAX);
}

/* --- 3.9, 3.10 --- */

ALWAYS_INLINE unsigned walk_objects(struct reader *r, struct kind kind, uintptr_t frame,
				    struct python_frame *out, unsigned max, bool *complete)
{
	unsigned n = 0;

	while (frame && n < max) {
		uintptr_t code = read_pointer(r, kind, frame, r->o.frame_code);
		int32_t last = read_int(r, kind, frame, r->o.frame_last);

		if (!is_code(r, kind, code))
			break;
		out[n++] =
			(struct python_frame){ .code = code,
					       .last = last > 0 ? (uint32_t)last * r->o.index_unit
								: 0,
					       .entry = true };
		frame = read_pointer(r, kind, frame, r->o.frame_previous);
	}
	*complete = !frame && !(kind.checked && r->failed);
	return n;
}

/* --- 3.11 on --- */

/*
 * Returns the bytecode that the frame runs. Free-threaded builds have copies of it, of which the
 * first is in the code object.
 */
ALWAYS_INLINE uintptr_t bytecode_of(struct reader *r, struct kind kind, uintptr_t frame,
				    uintptr_t code)
{
	uintptr_t copies;
	int32_t index;

	if (!kind.copies)
		return code + r->o.code_bytecode;
	index = read_int(r, kind, frame, r->o.frame_tlbc);
	copies = read_pointer(r, kind, code, r->o.code_tlbc);
	/*
	 * Another thread may just have published them. The reads through the pointer depend on it,
	 * so only the compiler must be kept from reading earlier.
	 */
	atomic_signal_fence(memory_order_acquire);
	if (index <= 0 || !copies || (uintptr_t)index >= read_pointer(r, kind, copies, 0))
		return code + r->o.code_bytecode;
	return read_pointer(r, kind, copies, 8 * (1 + (unsigned)index));
}

/* Writes the frame, unless Python would not show it: its cells or generator are being made. */
ALWAYS_INLINE bool visible(struct reader *r, struct kind kind, uintptr_t frame, unsigned owner,
			   struct python_frame *out)
{
	uintptr_t code = read_pointer(r, kind, frame, r->o.frame_code) & ~PYTHON_TAG_BITS;
	int64_t last, first;

	if (!is_code(r, kind, code))
		return false;
	last = (int64_t)(read_pointer(r, kind, frame, r->o.frame_last) -
			 bytecode_of(r, kind, frame, code));
	first = 2 * (int64_t)read_int(r, kind, code, r->o.code_traceable);
	if (kind.checked && r->failed)
		return false;
	if (unlikely(last < first)) {
		if (owner != PYTHON_OWNER_GENERATOR)
			return false;
		last = MAX(last, 0);
	}
	*out = (struct python_frame){ .code = code, .last = (uint32_t)last };
	return true;
}

ALWAYS_INLINE bool ends_run(struct reader *r, struct kind kind, uintptr_t frame, unsigned *owner)
{
	*owner = (unsigned)read_bytes(r, kind, frame, r->o.frame_owner, 1);
	return kind.flagged ? read_bytes(r, kind, frame, r->o.frame_is_entry, 1) != 0
			    : *owner == PYTHON_OWNER_ENTRY;
}

/*
 * An evaluation runs a chain of frames. At the end of the chain, the last frame written is marked;
 * if no frame was visible, an empty frame represents the evaluation.
 */
ALWAYS_INLINE unsigned walk_runs(struct reader *r, struct kind kind, uintptr_t frame,
				 uintptr_t base, struct python_frame *out, unsigned max,
				 bool *complete)
{
	bool open = false; /* the run has a frame in `out` */
	unsigned n = 0, steps = 0, owner;

	while (frame && frame != base) {
		bool ends = ends_run(r, kind, frame, &owner);

		if (kind.checked && (r->failed || ++steps > STEPS_MAX))
			break;
		if (n == max && (owner < PYTHON_OWNER_ENTRY || !open))
			break;
		if (owner < PYTHON_OWNER_ENTRY && visible(r, kind, frame, owner, &out[n])) {
			n++;
			open = true;
		}
		frame = read_pointer(r, kind, frame, r->o.frame_previous);
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
	if (kind.checked && r->failed)
		*complete = false;
	return n;
}

/* --- the innermost frame --- */

/*
 * Whether the evaluation of `frame` was called by `caller`. An evaluation of more than STEPS_MAX
 * frames is believed to be.
 */
static bool is_called_by(struct reader *r, struct kind kind, uintptr_t frame, uintptr_t caller)
{
	unsigned owner;

	for (unsigned i = 0; i < STEPS_MAX; i++) {
		bool ends = frame && ends_run(r, kind, frame, &owner);

		if (!frame || r->failed)
			return false;
		frame = read_pointer(r, kind, frame, r->o.frame_previous);
		if (ends)
			return frame == caller && !r->failed;
	}
	return true;
}

/*
 * Returns the innermost frame. With C frames (3.11, 3.12), if checked: the newest C frame's frame
 * is valid only if its run was called by the previous C frame's frame; else its evaluation is being
 * entered or left.
 */
ALWAYS_INLINE uintptr_t top_frame(struct reader *r, struct kind kind, uintptr_t state)
{
	uintptr_t top = read_pointer(r, kind, state, r->o.state_frame), frame, before, caller;

	if (!r->o.has_cframe || !top)
		return top;
	frame = read_pointer(r, kind, top, r->o.cframe_frame);
	if (!kind.checked)
		return frame;
	before = read_pointer(r, kind, top, r->o.cframe_frame + 8u);
	if (r->failed || !before)
		return frame;
	caller = read_pointer(r, kind, before, r->o.cframe_frame);
	if (r->failed)
		return 0;
	if (is_called_by(r, kind, frame, caller))
		return frame;
	r->failed = false;
	return caller;
}

uintptr_t python_thread_state(const struct python_runtime *runtime)
{
	return runtime->finalizing() ? 0 : (uintptr_t)runtime->thread_state();
}

/* `checked` is known at compile time, as is that nothing is foreign without `memory`. */
ALWAYS_INLINE unsigned walk(const struct python_runtime *runtime, uintptr_t state, bool checked,
			    const struct python_memory *memory, struct python_frame *out,
			    unsigned max, bool *complete)
{
	const bool flagged = runtime->offsets.layout == PYTHON_ENTRY_FLAG, foreign = memory;
	const struct kind kind = { .checked = checked, .foreign = foreign, .flagged = flagged };
	struct reader r;
	uintptr_t frame, base;

	*complete = true;
	if (!state)
		return 0;
	r.runtime = runtime;
	r.o = runtime->offsets;
	r.failed = false;
	r.memory = memory;
	if (checked && !foreign)
		memset(r.pages, 0, sizeof(r.pages));
	frame = top_frame(&r, kind, state);
	if (r.o.layout == PYTHON_FRAME_OBJECTS)
		return walk_objects(&r, kind, frame, out, max, complete);
	if (flagged)
		return walk_runs(
			&r,
			(struct kind){ .checked = checked, .foreign = foreign, .flagged = true },
			frame, 0, out, max, complete);
	base = r.o.state_base ? read_pointer(&r, kind, state, r.o.state_base) : 0;
	if (!r.o.code_tlbc)
		return walk_runs(&r, (struct kind){ .checked = checked, .foreign = foreign }, frame,
				 base, out, max, complete);
	return walk_runs(&r,
			 (struct kind){ .checked = checked, .foreign = foreign, .copies = true },
			 frame, base, out, max, complete);
}

unsigned python_walk(const struct python_runtime *runtime, struct python_frame *out, unsigned max,
		     bool *complete)
{
	return python_walk_from(runtime, python_thread_state(runtime), out, max, complete);
}

unsigned python_walk_from(const struct python_runtime *runtime, uintptr_t state,
			  struct python_frame *out, unsigned max, bool *complete)
{
	return walk(runtime, state, false, NULL, out, max, complete);
}

unsigned python_walk_interrupted(const struct python_runtime *runtime, struct python_frame *out,
				 unsigned max, bool *complete)
{
	return walk(runtime, python_thread_state(runtime), true, NULL, out, max, complete);
}

unsigned python_walk_foreign(const struct python_runtime *runtime,
			     const struct python_memory *memory, uintptr_t state,
			     struct python_frame *out, unsigned max, bool *complete)
{
	return walk(runtime, state, true, memory, out, max, complete);
}
