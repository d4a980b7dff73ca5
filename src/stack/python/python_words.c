#include "stack/python/python_words.h"

#include "stack/python/python_walk.h"

static bool add_word(struct python_words *out, uintptr_t address, uint64_t *value)
{
	*value = *(const uint64_t *)address;
	if (out->word_count == out->words_max)
		return false;
	out->words[out->word_count++] = (struct memory_word){ address, *value };
	return true;
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

/* What tells the code object from an earlier one at its address, as python_code.c sees it. */
static bool add_code(const struct python_offsets *o, uintptr_t code, struct python_words *out)
{
	uint64_t name;

	return add_word(out, code + o->code_name, &name) &&
	       add_half(out, code + o->code_first_line, UINT32_MAX) &&
	       (!o->code_version || add_half(out, code + o->code_version, UINT32_MAX));
}

/* A frame, up to its caller's; what it runs unless it runs nothing. */
static bool add_frame(const struct python_offsets *o, uintptr_t frame, struct python_words *out,
		      uint64_t *previous)
{
	uint64_t code, last;
	bool runs;

	if (!add_word(out, frame + o->frame_previous, previous) ||
	    !add_word(out, frame + o->frame_code, &code))
		return false;
	if (o->layout == PYTHON_FRAME_OBJECTS)
		return add_half(out, frame + o->frame_last, UINT32_MAX) && add_code(o, code, out);
	if (!add_half(out, frame + o->frame_owner, UINT8_MAX) ||
	    (o->layout == PYTHON_ENTRY_FLAG &&
	     !add_half(out, frame + o->frame_is_entry, UINT8_MAX)))
		return false;
	runs = *(const uint8_t *)(frame + o->frame_owner) < PYTHON_OWNER_ENTRY;
	return !runs || !code ||
	       (add_word(out, frame + o->frame_last, &last) &&
		add_code(o, code & ~PYTHON_TAG_BITS, out));
}

bool python_words_add(const struct python_runtime *runtime, uintptr_t state,
		      struct python_words *out)
{
	const struct python_offsets *o = &runtime->offsets;
	uint64_t frame;

	if (o->code_tlbc || !add_word(out, state + o->state_frame, &frame))
		return false;
	if (o->has_cframe && frame && !add_word(out, frame + o->cframe_frame, &frame))
		return false;
	while (frame)
		if (!add_frame(o, frame, out, &frame))
			return false;
	return true;
}
