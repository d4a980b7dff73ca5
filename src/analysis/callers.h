/*
 * callers.h: finds the line of the program that is responsible for a call, a sample or a stack.
 *
 * It is the innermost frame of the first of these classes that the stack has:
 *
 *	1. a Python line of the user: outside of site-packages, dist-packages and Python's own
 *	   library
 *	2. a Python line
 *	3. a native function of the user: outside of CUDA, Pitot, Python, frameworks and the
 *	   system's libraries
 *	4. a node of PyTorch's autograd, such as MmBackward0, which an autograd thread runs
 *	5. a native function of a library other than CUDA's whose name is known
 *	6. a native function, else one of the operating system's kernel
 *
 * Equal lines have equal ids, in all processes. Beside a caller stands its callee, the next frame
 * inwards: a Python function, or a native function that does not belong to the interpreter.
 */
#ifndef PITOT_ANALYSIS_CALLERS_H
#define PITOT_ANALYSIS_CALLERS_H

#include "analysis/stacks.h"
#include "base/strbuf.h"
#include "trace/columns.h"
#include "trace/id_table.h"

#define CALLER_NONE UINT32_MAX

/* Texts are ids of callers.stacks; 0 is "". Line 0 is unknown. */
struct caller {
	uint32_t function, file, line;
	uint8_t class; /* enum frame_class */
	bool library; /* not the user's own */
	uint8_t rank; /* enum caller_rank, of native frames */
	bool plumbing; /* of CUDA, the interpreter or a framework's wrapper: hidden in tables */
};

/* From the most informative to the least. */
enum caller_rank { CALLER_USER, CALLER_NODE, CALLER_NAMED, CALLER_OTHER, CALLER_RANKS };

/* The caller of a stack; items of callers.items or CALLER_NONE. */
struct caller_place {
	uint32_t caller;
	/* function that the line called, towards the innermost frame; its line is 0 */
	uint32_t callee;
	bool in_kernel; /* the innermost frame is in the operating system's kernel */
};

struct caller_node;

struct callers {
	struct stacks stacks; /* by address */
	VEC(struct caller) items;
	struct interner keys;
	struct map expansions; /* item of stacks.expansions -> its caller */
	struct caller_node *nodes; /* by row of stack_node; filled on demand */
	VEC(uint32_t) climb;
	uint32_t *of_stack; /* by row of table stack: caller plus 1; 0: not the stack of a call */
	/* by row of api_call: id of its stack; NULL: no stacks were recorded */
	const uint32_t *call_stacks;
	const uint8_t *call_stacks_valid;
	uint32_t *of_kernel; /* by row of kernel, after callers_captures; else NULL */
	bool any; /* calls have stacks */
};

/* Loads what it needs. 0 or a negative code; after an error, do not release *c. */
int callers_init(struct callers *c, struct trace *t, bool with_calls, struct error *e) MUST_USE;
void callers_release(struct callers *c);
/*
 * Finds the lines that captured the kernels of CUDA graphs: CALLER_NONE for other kernels, and if
 * the capture was not recorded. 0 or a negative code.
 */
int callers_captures(struct callers *c, struct trace *t, struct error *e) MUST_USE;

/* Finds the caller of stack `id` of a process; CALLER_NONE for unknown ids and 0. 0 or -ENOMEM. */
int callers_place(struct callers *c, size_t process, uint32_t id,
		  struct caller_place *place) MUST_USE;
/* Finds the function of a caller: the caller without its line. 0 or -ENOMEM. */
int callers_function(struct callers *c, uint32_t caller, uint32_t *function) MUST_USE;
/* Makes a caller of the frame of any row of stack_node. 0 or -ENOMEM. */
int callers_frame(struct callers *c, size_t process, uint32_t node, uint32_t *caller) MUST_USE;

/*
 * Appends "train.py:57 step -> DataLoader.__next__", "kernels.cu:12 launch", "app+0x10" or "(no
 * stack)". callee: CALLER_NONE for none.
 */
void caller_text(const struct callers *c, uint32_t caller, uint32_t callee, struct strbuf *out);

/* Row of table stack of a call (a row of api_call or TRACE_NO_ROW), or TRACE_NO_ROW. */
static inline uint32_t callers_stack_of_call(const struct callers *c, size_t process, uint32_t call)
{
	bool known = call != TRACE_NO_ROW && c->call_stacks &&
		     column_has(c->call_stacks_valid, call) && c->call_stacks[call];

	return known ? id_table_get(&c->stacks.stack_ids[process], c->call_stacks[call])
		     : TRACE_NO_ROW;
}

/* Caller of a row of table stack that callers_stack_of_call returned. */
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
