#include "stack/python/python_words.h"

#include "stack/python/python_walk.h"

#define KEY_FRAMES 16u

bool python_words_begin(struct python_words *out)
{
	if (out->frame_count == out->frames_max)
		return false;
	out->frames[out->frame_count++] =
		(struct frame_words){ (uint16_t)out->word_count, (uint16_t)out->half_count };
	return true;
}

bool python_words_add(struct python_words *out, uintptr_t address, uint64_t value)
{
	if (out->word_count == out->words_max)
		return false;
	out->words[out->word_count++] = (struct memory_word){ address, value };
	return true;
}

static bool add_word(struct python_words *out, uintptr_t address, uint64_t *value)
{
	*value = *(const uint64_t *)address;
	return python_words_add(out, address, *value);
}

static bool add_half(struct python_words *out, uintptr_t address, uint32_t mask)
{
	uintptr_t aligned = address & ~(uintptr_t)3;
	uint32_t shift = (uint32_t)(address - aligned) * 8;

	if (out->half_count == out->halves_max)
		return false;
	mask <<= shift;
	out->halves[out->half_count++] =
		(struct memory_half){ aligned, mask, *(const uint32_t *)aligned & mask };
	return true;
}

/*
 * Adds what distinguishes the code object from an earlier one at its address, as in python_code.c:
 * its version, which is unique, if it has one.
 */
static bool add_code(const struct python_offsets *o, uintptr_t code, struct python_words *out)
{
	uint64_t name;

	if (o->code_version && !add_half(out, code + o->code_version, UINT32_MAX))
		return false;
	if (o->code_version && *(const uint32_t *)(code + o->code_version))
		return true;
	return add_word(out, code + o->code_name, &name) &&
	       add_half(out, code + o->code_first_line, UINT32_MAX);
}

/* Whether the frame runs code; otherwise it is one of the interpreter's own. */
static bool runs_code(const struct python_offsets *o, uintptr_t frame)
{
	return o->layout == PYTHON_FRAME_OBJECTS ||
	       *(const uint8_t *)(frame + o->frame_owner) < PYTHON_OWNER_ENTRY;
}

/* Adds a frame and, if it runs code, its code. *previous is its caller's frame. */
static bool add_frame(const struct python_offsets *o, uintptr_t frame, struct python_words *out,
		      uint64_t *previous)
{
	uint64_t code, last;

	if (!add_word(out, frame + o->frame_previous, previous) ||
	    !add_word(out, frame + o->frame_code, &code))
		return false;
	if (o->layout == PYTHON_FRAME_OBJECTS)
		return add_half(out, frame + o->frame_last, UINT32_MAX) && add_code(o, code, out);
	if (!add_half(out, frame + o->frame_owner, UINT8_MAX) ||
	    (o->layout == PYTHON_ENTRY_FLAG &&
	     !add_half(out, frame + o->frame_is_entry, UINT8_MAX)))
		return false;
	return !runs_code(o, frame) || !code ||
	       (add_word(out, frame + o->frame_last, &last) &&
		add_code(o, code & ~PYTHON_TAG_BITS, out));
}

bool python_words_walk(const struct python_runtime *runtime, uintptr_t state,
		       struct python_words *out)
{
	const struct python_offsets *o = &runtime->offsets;
	uint64_t frame;

	if (o->code_tlbc || !python_words_begin(out) ||
	    !add_word(out, state + o->state_frame, &frame))
		return false;
	if (o->has_cframe && frame && !add_word(out, frame + o->cframe_frame, &frame))
		return false;
	while (frame)
		if (!python_words_begin(out) || !add_frame(o, frame, out, &frame))
			return false;
	return true;
}

static uint64_t last_of(const struct python_offsets *o, uintptr_t frame)
{
	if (o->layout == PYTHON_FRAME_OBJECTS)
		return *(const uint64_t *)(frame + o->frame_code) +
		       *(const uint32_t *)(frame + o->frame_last);
	return *(const uint64_t *)(frame + o->frame_last);
}

uint64_t python_words_key(const struct python_runtime *runtime, uintptr_t state)
{
	const struct python_offsets *o = &runtime->offsets;
	uint64_t frame, key = 0;

	if (o->code_tlbc)
		return 0;
	frame = *(const uint64_t *)(state + o->state_frame);
	if (o->has_cframe && frame)
		frame = *(const uint64_t *)(frame + o->cframe_frame);
	for (unsigned i = 0; frame && i < KEY_FRAMES; i++) {
		if (runs_code(o, frame))
			key = (key ^ last_of(o, frame)) * UINT64_C(0x9e3779b97f4a7c15);
		frame = *(const uint64_t *)(frame + o->frame_previous);
	}
	return key;
}
