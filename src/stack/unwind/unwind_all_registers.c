#include "stack/unwind/unwind_all_registers.h"

#include "stack/unwind/unwind_snapshot.h"
#include "stack/safe_memory.h"

struct own_stack {
	struct stack_walker *w;
	const struct stack_map *map;
	struct walk_output *out;
};

static bool load(void *context, uint64_t address, uint64_t *value)
{
	const struct own_stack *own = context;

	return walk_load(own->w, address, value);
}

static const struct unwind_rule *rule(void *context, uint64_t frame, bool *known)
{
	const struct own_stack *own = context;

	return walk_rule(own->w, own->map, frame, known);
}

/*
 * Copies up to `size` bytes of code that end at `end`; fewer at the start of what is mapped. Their number.
 */
static unsigned code(void *context, uint64_t end, uint8_t *bytes, unsigned size)
{
	uint64_t start = end - size;

	(void)context;
	if (!memory_readable(start)) {
		start = end & ~(uint64_t)4095;
		if (end - start > size || !memory_readable(start))
			return 0;
	}
	for (uint64_t at = start; at < end; at++)
		__asm__("movb %1, %0" : "=q"(bytes[at - start]) : "m"(*(const uint8_t *)at));
	return (unsigned)(end - start);
}

static bool store(void *context, uint64_t frame)
{
	const struct own_stack *own = context;

	return walk_store(own->w, own->out, frame);
}

enum stack_end walk_full(struct stack_walker *w, const struct stack_map *map,
			 const struct stack_registers *start, struct walk_output *out)
{
	struct own_stack own = { w, map, out };
	const struct frame_source source = { &own, load, rule, code, store };

	return unwind_snapshot(&source, start);
}
