/*
 * walk_in_python.c: for test_walk_python.py: walks the stack of a Python process wherever it is
 * called, and compares it with glibc's.
 */
#include <execinfo.h>

#include "base/clock.h"
#include "stack/unwind/unwind_self.h"

#define FRAMES_MAX 512u

struct counts {
	uint64_t stacks, complete, partial, frames, wrong;
};

void walk_here(struct counts *counts);

static struct stack_modules modules;
static struct stack_walker walker;

static void update(void)
{
	while (stack_modules_update(&modules, NS_PER_S) > 0)
		;
}

static bool ready(void)
{
	if (walker.modules)
		return true;
	stack_modules_init(&modules, STACK_RULE_BYTES);
	update();
	return stack_walker_init(&walker, &modules);
}

void walk_here(struct counts *counts)
{
	uint64_t ours[FRAMES_MAX], theirs[FRAMES_MAX];
	struct stack_registers registers;
	enum stack_end end;
	unsigned n, m;

	if (!ready())
		return;
	STACK_CAPTURE(&registers);
	n = stack_walk(&walker, &registers, ours, FRAMES_MAX, &end);
	m = (unsigned)backtrace((void **)theirs, FRAMES_MAX);
	counts->stacks++;
	counts->complete += end == stack_end_complete;
	counts->partial += end == stack_end_partial;
	if (end == stack_end_partial)
		update();
	if (end != stack_end_complete)
		return;
	counts->frames += n;
	counts->wrong += n != m;
	for (unsigned i = 1; i < n && i < m; i++)
		counts->wrong += ours[i] != theirs[i];
}
