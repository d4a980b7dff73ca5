/*
 * stacks.h: the call stacks of a recording as frames that people can read.
 *
 * A frame is what a stack is made of when it is shown: equal frames have equal ids, in all
 * processes. Python frames are called `function (file.py:line)` or `function (file.py)`, native
 * ones by their function without its parameters, and code whose function is not known
 * `library+0x…`. What was inlined is a frame of its own.
 *
 * Everything here is resolved when it is first asked for, once a distinct address or Python line.
 */
#ifndef PITOT_ANALYSIS_STACKS_H
#define PITOT_ANALYSIS_STACKS_H

#include "base/map.h"
#include "base/vec.h"
#include "trace/id_table.h"
#include "trace/trace.h"

/* What a frame is; decides its colour. */
enum frame_class {
	FRAME_NATIVE,
	FRAME_INLINED,
	FRAME_PYTHON,
	FRAME_SYSTEM, /* code of the operating system's kernel */
	FRAME_CALL, /* function of CUDA that was called */
	FRAME_KERNEL, /* the rest ran on a GPU */
	FRAME_COPY,
	FRAME_SET,
	FRAME_GRAPH,
	FRAME_LEVEL, /* a thread, stream … that --by asked for */
	FRAME_NOTE, /* in brackets: what is known instead of a frame */
	FRAME_CODE, /* a line of a kernel, or of what is inlined there */
	FRAME_STALL, /* what warps of a kernel waited for */
	FRAME_CLASSES,
};

enum stack_detail {
	STACK_FUNCTIONS, /* frames are functions */
	/* a native frame is an address with all that is inlined there (stack_line) */
	STACK_ADDRESSES,
	STACK_XPU_PERF, /* as xpu-perf names frames: function+0xOFFSET, names of kernels mangled */
};

/* Ids of texts are those of stacks.texts; 0 is "". */
struct stack_frame {
	uint32_t name; /* what is shown */
	uint32_t full_name; /* with parameters, and of kernels without any shortening */
	uint32_t system_name; /* of kernels as the compiler made it; else 0 */
	uint32_t file, line; /* 0: unknown */
	uint32_t module; /* row of table module, or TRACE_NO_ROW */
	uint32_t first_line,
		line_count; /* STACK_ADDRESSES: items of stacks.lines, innermost first */
	uint64_t address; /* STACK_ADDRESSES: of native frames */
	uint8_t class; /* enum frame_class */
};

/* One function at an address, or a Python line. */
struct stack_line {
	uint32_t function, full_name, file, line;
};

/* The frames of an address or a Python line, outermost first. */
struct stack_expansion {
	uint32_t first, count; /* items of stacks.expanded */
	uint32_t innermost; /* text: its function, without parameters */
	bool vendor; /* code of the CUDA libraries, or our own */
	bool python; /* a Python frame */
	bool machinery; /* of what runs Python: it tells nothing about a Python frame further in */
};

/* Of a row of table stack_node. */
struct stack_parent {
	uint32_t row; /* of the caller's node, or TRACE_NO_ROW */
	uint16_t depth; /* 1: the outermost */
	bool cut; /* further out it was too deep */
};

struct stack_symbol;
struct stack_module;

struct stacks {
	const struct trace *trace;
	enum stack_detail detail;
	bool full_names;
	/*
	 * Python frames are functions, not lines of them; may be set before the first is asked for
	 */
	bool no_lines;
	struct interner texts;
	struct interner keys; /* of frames: equal ids */
	VEC(struct stack_frame) frames;
	VEC(struct stack_line) lines;

	VEC(uint32_t) expanded; /* ids of frames */
	VEC(struct stack_expansion) expansions;
	struct map *addresses; /* one a process: address -> expansion */
	struct interner python; /* function, file, line -> python_expansions */
	VEC(uint32_t) python_expansions;

	struct stack_symbol *symbols; /* sorted */
	size_t symbol_count;
	struct stack_module *modules; /* sorted */
	size_t module_count;
	struct id_table *node_ids,
		*stack_ids; /* one a process, made when it is needed: id -> row */
	struct stack_parent *
		*parents; /* one a process, made when it is needed: by row - first row */
};

/*
 * Loads the tables of stacks, symbols and modules. 0 or a negative code; then nothing needs a
 * release.
 */
int stacks_init(struct stacks *s, struct trace *t, enum stack_detail detail, bool full_names,
		struct error *e) MUST_USE;
void stacks_release(struct stacks *s);

const char *stacks_text(const struct stacks *s, uint32_t text);
/* Id of a text, or -ENOMEM. */
int64_t stacks_add_text(struct stacks *s, const char *text, size_t length) MUST_USE;
/*
 * Id of a frame without code: its class and names (full_name, system_name may be NULL), or -ENOMEM.
 */
int64_t stacks_add_frame(struct stacks *s, enum frame_class class, const char *name,
			 const char *full_name, const char *system_name) MUST_USE;

/* The same for a frame with a line ("" and 0: unknown) of a function. */
int64_t stacks_add_line(struct stacks *s, enum frame_class class, const char *name,
			const char *function, const char *file, uint32_t line) MUST_USE;

/*
 * Row of the stack_node where stack `id` of a process ends, and why it ends where it does;
 * TRACE_NO_ROW when that stack is not in the recording. 0 or -ENOMEM.
 */
int stacks_find(struct stacks *s, size_t process, uint32_t id, uint32_t *node,
		enum stack_end *end) MUST_USE;
/* Row of table stack for stack `id` of a process, or TRACE_NO_ROW. 0 or -ENOMEM. */
int stacks_find_row(struct stacks *s, size_t process, uint32_t id, uint32_t *row) MUST_USE;
/* Row of the caller's node, which is always smaller; TRACE_NO_ROW: outermost. 0 or -ENOMEM. */
int stacks_parent(struct stacks *s, size_t process, uint32_t node, uint32_t *parent) MUST_USE;
/* Frames of a node, as an item of s->expansions; or -ENOMEM. */
int64_t stacks_expand(struct stacks *s, size_t process, uint32_t node) MUST_USE;

#endif
