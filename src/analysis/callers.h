/*
 * callers.h: the line of the program that stands behind a call, a sample or a stack.
 *
 * A stack is read from its innermost frame outwards, and the first that there is counts:
 *
 *	1. a Python line of the user: outside of site-packages, dist-packages and Python's own
 *	   library
 *	2. a Python line
 *	3. a native function of the user: outside of CUDA, Pitot, Python, frameworks and the
 *	   system's libraries
 *	4. a node of PyTorch's autograd, such as MmBackward0: what its threads work on
 *	5. a native function of a library that has a name, and is not CUDA's
 *	6. a native function, else one of the operating system's kernel
 *
 * Equal lines have equal ids, in all processes. What it called there, on the way inwards, may be
 * told with it: the next Python function, or the next native one that is not the interpreter's.
 */
#ifndef PITOT_ANALYSIS_CALLERS_H
#define PITOT_ANALYSIS_CALLERS_H

#include "analysis/stacks.h"
#include "base/strbuf.h"
#include "trace/columns.h"
#include "trace/id_table.h"

#define CALLER_NONE UINT32_MAX

/* Texts are those of callers.stacks; 0 is "", line 0 is unknown. */
struct caller {
	uint32_t function, file, line;
	uint8_t class; /* enum frame_class */
	bool library; /* not the user's own */
	uint8_t rank; /* enum caller_rank, of native ones */
	/* CUDA, the interpreter, wrappers of frameworks: names nothing that is anyone's work */
	bool plumbing;
};

/* From the one that says most. */
enum caller_rank { CALLER_USER, CALLER_NODE, CALLER_NAMED, CALLER_OTHER, CALLER_RANKS };

/* What a stack comes to; items of callers.items or CALLER_NONE. */
struct caller_place {
	uint32_t caller;
	/* the function that the line called, on the way to the innermost frame: line 0 */
	uint32_t callee;
	bool in_kernel; /* the innermost frame is of the operating system's kernel */
};

struct caller_node;

struct callers {
	struct stacks stacks; /* by address */
	VEC(struct caller) items;
	struct interner keys;
	struct map expansions; /* item of stacks.expansions -> caller of it */
	struct caller_node *nodes; /* by row of stack_node: filled when needed */
	VEC(uint32_t) climb;
	uint32_t *of_stack; /* by row of table stack, of those of calls: its caller plus 1, or 0 */
	/* by row of api_call: id of its stack; NULL: none is recorded */
	const uint32_t *call_stacks;
	const uint8_t *call_stacks_valid;
	uint32_t *of_kernel; /* by row of kernel, after callers_captures; else NULL */
	bool any; /* calls have stacks */
};

/* Loads what it needs. 0 or a negative code; then nothing needs a release. */
int callers_init(struct callers *c, struct trace *t, bool with_calls, struct error *e) MUST_USE;
void callers_release(struct callers *c);
/*
 * Finds the lines that captured the kernels of CUDA graphs: CALLER_NONE for others, and where that
 * was not recorded. 0 or a negative code.
 */
int callers_captures(struct callers *c, struct trace *t, struct error *e) MUST_USE;

/*
 * What stack `id` of a process comes to; all CALLER_NONE for id 0 and unknown ones. 0 or -ENOMEM.
 */
int callers_place(struct callers *c, size_t process, uint32_t id,
		  struct caller_place *place) MUST_USE;
/* The caller without its line: the function. 0 or -ENOMEM. */
int callers_function(struct callers *c, uint32_t caller, uint32_t *function) MUST_USE;
/* The frame of a row of stack_node as a caller, whatever it is. 0 or -ENOMEM. */
int callers_frame(struct callers *c, size_t process, uint32_t node, uint32_t *caller) MUST_USE;

/*
 * Appends "train.py:57 step -> DataLoader.__next__", "kernels.cu:12 launch", "app+0x10" or "(no
 * stack)". callee: CALLER_NONE for none.
 */
void caller_text(const struct callers *c, uint32_t caller, uint32_t callee, struct strbuf *out);

/*
 * The row of table stack of a call of the process (a row of api_call or TRACE_NO_ROW), or
 * TRACE_NO_ROW.
 */
static inline uint32_t callers_stack_of_call(const struct callers *c, size_t process, uint32_t call)
{
	bool known = call != TRACE_NO_ROW && c->call_stacks &&
		     column_has(c->call_stacks_valid, call) && c->call_stacks[call];

	return known ? id_table_get(&c->stacks.stack_ids[process], c->call_stacks[call])
		     : TRACE_NO_ROW;
}

/* The caller of such a stack. */
static inline uint32_t callers_of_stack(const struct callers *c, uint32_t stack)
{
	return stack == TRACE_NO_ROW ? CALLER_NONE : c->of_stack[stack] - 1;
}

static inline uint32_t callers_of_call(const struct callers *c, size_t process, uint32_t call)
{
	return callers_of_stack(c, callers_stack_of_call(c, process, call));
}

static inline const struct caller *caller_at(const struct callers *c, uint32_t caller)
{
	return &c->items.data[caller];
}

#endif
