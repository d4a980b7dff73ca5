#include "stack/unwind/unwind_self_state.h"

#include <unistd.h>

#include "base/safe_memory.h"
#include "stack/unwind/unwind_snapshot.h"

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
 * Copies up to `size` bytes of code that end at `end`, fewer at the start of mapped memory, and
 * returns their number. Code is never read directly, because it may be unmapped at any moment.
 */
static unsigned code(void *context, uint64_t end, uint8_t *bytes, unsigned size)
{
	uint64_t page = end & ~(uint64_t)4095;
	pid_t pid = getpid();

	(void)context;
	if (memory_copy_some(pid, bytes, end - size, size) == size)
		return size;
	size = (unsigned)MIN(end - page, (uint64_t)size);
	return memory_copy_some(pid, bytes, end - size, size) == size ? size : 0;
}

static bool store(void *context, uint64_t frame)
{
	const struct own_stack *own = context;

	return walk_store(own->w, own->out, frame);
}

enum stack_end unwind_all_registers(struct stack_walker *w, const struct stack_map *map,
				    const struct stack_registers *start, struct walk_output *out)
{
	struct own_stack own = { w, map, out };
	const struct frame_source source = { &own, load, rule, code, store };

	return unwind_snapshot(&source, start);
}
