#include "sampler/perf/stack_snapshot.h"

#include <string.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "sampler/process_memory.h"
#include "stack/unwind/unwind_snapshot.h"

#define PAGE 4096u
/* A read this close after the copy means that the copy is short, not that stacks were switched. */
#define SAME_STACK_BYTES (UINT64_C(64) << 20)

#define INNER_WORDS 1024u /* words at the top of the copied stack that are searched for */
#define OUTER_WORDS 128u /* the data of its thread, and words at its other end */

struct snapshot_walk {
	struct targets *targets;
	struct target *target;
	const struct stack_snapshot *stack;
	uint64_t low; /* address of the first copied byte */
	uint64_t *frames;
	unsigned count, max;
	bool too_short; /* unwinding needed bytes after the copy */
};

static bool load(void *context, uint64_t address, uint64_t *value)
{
	struct snapshot_walk *k = context;
	uint64_t offset = address - k->low;

	if (address & 7)
		return false;
	if (offset < k->stack->size && k->stack->size - offset >= 8) {
		*value = load_u64(k->stack->bytes + offset);
		return true;
	}
	k->too_short = k->stack->cut && offset < k->stack->size + SAME_STACK_BYTES;
	return false;
}

static const struct unwind_rule *rule(void *context, uint64_t frame, bool *known)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE }, end = { .cfa = CFA_END };
	struct snapshot_walk *k = context;
	uint64_t pc = frame_lookup_address(frame);
	const struct target_range *range = target_range_at(k->targets, k->target, pc);
	const struct unwind_rule *rule = &none;

	*known = range && range->file;
	if (!range)
		return &none;
	if (range->parts)
		rule = unwind_parts_find(range->parts, pc - range->bias);
	else if (target_range_no_memory(k->targets, range))
		return NULL;
	return rule && rule->cfa == CFA_NONE && target_range_is_entry(k->targets, range, pc) ? &end
											     : rule;
}

static bool read_code(const struct snapshot_walk *k, const struct target_range *range,
		      uint64_t start, uint8_t *bytes, unsigned size)
{
	struct iovec local = { bytes, size }, remote = { (void *)(uintptr_t)start, size };

	return process_memory_read(target_pid(k->target), &local, 1, &remote, 1) == (ssize_t)size ||
	       target_range_own_code(k->targets, range, start, bytes, size);
}

/*
 * Reads the code before `end` from the process. Code does not change, so it may be read later than
 * the sample. Addresses outside of executable ranges are not read.
 */
static unsigned code(void *context, uint64_t end, uint8_t *bytes, unsigned size)
{
	const struct snapshot_walk *k = context;
	const struct target_range *range = target_range_at(k->targets, k->target, end - 1);
	unsigned in_page = (unsigned)(end & (PAGE - 1));

	if (!range)
		return 0;
	if (read_code(k, range, end - size, bytes, size))
		return size;
	if (in_page && in_page < size && read_code(k, range, end - in_page, bytes, in_page))
		return in_page;
	return 0;
}

static bool store(void *context, uint64_t frame)
{
	struct snapshot_walk *k = context;

	if (k->count == k->max)
		return false;
	k->frames[k->count++] = frame;
	return true;
}

unsigned stack_snapshot_walk(struct targets *t, struct target *p,
			     const struct stack_snapshot *stack, uint64_t *frames, unsigned max,
			     enum stack_end *end)
{
	struct snapshot_walk k = { .targets = t,
				   .target = p,
				   .stack = stack,
				   .low = stack->registers.at[REG_SP_],
				   .frames = frames,
				   .max = max };
	const struct frame_source source = { &k, load, rule, code, store };

	*end = unwind_snapshot(&source, &stack->registers);
	if (*end == stack_end_truncated && k.too_short)
		*end = stack_end_depth;
	return k.count;
}

uint64_t stack_snapshot_thread_base(const struct stack_snapshot *stack,
				    const struct python_memory *memory,
				    const struct python_offsets *offsets, pid_t tid)
{
	size_t inner = MIN(stack->size / 8, INNER_WORDS);
	size_t outer = MIN(stack->size / 8 - inner, OUTER_WORDS);
	uint64_t words[REG_COUNT_ + INNER_WORDS + OUTER_WORDS];
	size_t count = REG_COUNT_;

	memcpy(words, stack->registers.at, REG_COUNT_ * sizeof(*words));
	if (inner)
		memcpy(words + count, stack->bytes, 8 * inner);
	count += inner;
	if (outer)
		memcpy(words + count, stack->bytes + stack->size / 8 * 8 - 8 * outer, 8 * outer);
	count += outer;
	return sampled_thread_find(memory, offsets, tid, words, count);
}
