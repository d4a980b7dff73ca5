/*
 * stacks.h: the call stacks of a recording as readable frames.
 *
 * Equal frames have equal ids, in all processes. A Python frame is named `function (file.py:line)`
 * or `function (file.py)`, a native frame by its function without parameters, and code of an
 * unknown function `library+0x…`. An inlined function has a frame of its own.
 *
 * Frames are resolved on demand, once for each distinct address or Python line.
 */
#ifndef PITOT_ANALYSIS_STACKS_H
#define PITOT_ANALYSIS_STACKS_H

#include "base/map.h"
#include "base/vec.h"
#include "trace/id_table.h"
#include "trace/trace.h"

/* Class of a frame, which decides its colour. */
enum frame_class {
	FRAME_NATIVE,
	FRAME_INLINED,
	FRAME_PYTHON,
	FRAME_SYSTEM, /* code of the operating system's kernel */
	FRAME_CALL, /* CUDA API function */
	FRAME_KERNEL, /* GPU work: a kernel, copy, memory set or graph */
	FRAME_COPY,
	FRAME_SET,
	FRAME_GRAPH,
	FRAME_LEVEL, /* thread, stream … from --by */
	FRAME_NOTE, /* note in brackets that replaces missing frames */
	FRAME_CODE, /* source line of a kernel, or of a function inlined into it */
	FRAME_STALL, /* state of a kernel's warps */
	FRAME_CLASSES,
};

enum stack_detail {
	STACK_FUNCTIONS, /* frames are functions */
	/* a native frame is an address with all functions inlined there (stack_line) */
	STACK_ADDRESSES,
	STACK_XPU_PERF, /* names as in xpu-perf: function+0xOFFSET, mangled names of kernels */
};

/* Texts are ids of stacks.texts; 0 is "". */
struct stack_frame {
	uint32_t name; /* displayed name */
	uint32_t full_name; /* with parameters; of kernels not shortened */
	uint32_t system_name; /* mangled name of a kernel; else 0 */
	uint32_t file, line; /* 0: unknown */
	uint32_t module; /* row of table module, or TRACE_NO_ROW */
	/* STACK_ADDRESSES: items of stacks.lines, innermost first */
	uint32_t first_line, line_count;
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
	uint32_t innermost; /* text: name of the innermost function, without parameters */
	bool vendor; /* code of the CUDA libraries or of Pitot */
	bool python; /* a Python frame */
	bool runs_python; /* code that runs Python, hidden between Python frames */
};

/* Parent of a row of table stack_node. */
struct stack_parent {
	uint32_t row; /* the caller's node, or TRACE_NO_ROW */
	uint16_t depth; /* 1: outermost */
	bool cut; /* outer frames are missing, because the stack was too deep */
};

struct stack_symbol;
struct stack_module;

struct stacks {
	const struct trace *trace;
	enum stack_detail detail;
	bool full_names;
	/* Python frames are functions, not lines; set it before the first frame is resolved */
	bool no_lines;
	struct interner texts;
	struct interner keys; /* frames by their content */
	VEC(struct stack_frame) frames;
	VEC(struct stack_line) lines;

	VEC(uint32_t) expanded; /* ids of frames */
	VEC(struct stack_expansion) expansions;
	struct map *addresses; /* one per process: address -> expansion */
	struct interner python; /* function, file, line -> item of python_expansions */
	VEC(uint32_t) python_expansions;

	struct stack_symbol *symbols; /* sorted */
	size_t symbol_count;
	struct stack_module *modules; /* sorted */
	size_t module_count;
	/* one per process, built on demand: id -> row; parents: by row - first row */
	struct id_table *node_ids, *stack_ids;
	struct stack_parent **parents;
};

/*
 * Loads the tables of stacks, symbols and modules. 0 or a negative code; after an error, do not
 * release *s.
 */
int stacks_init(struct stacks *s, struct trace *t, enum stack_detail detail, bool full_names,
		struct error *e) MUST_USE;
void stacks_release(struct stacks *s);

const char *stacks_text(const struct stacks *s, uint32_t text);
/* Id of a text, or -ENOMEM. */
int64_t stacks_add_text(struct stacks *s, const char *text, size_t length) MUST_USE;
/* Id of a frame without code, or -ENOMEM; full_name and system_name may be NULL. */
int64_t stacks_add_frame(struct stacks *s, enum frame_class class, const char *name,
			 const char *full_name, const char *system_name) MUST_USE;

/* The same for a frame with a function, file and line ("" and 0: unknown). */
int64_t stacks_add_line(struct stacks *s, enum frame_class class, const char *name,
			const char *function, const char *file, uint32_t line) MUST_USE;

/*
 * Finds the innermost node of stack `id` of a process (a row of stack_node, TRACE_NO_ROW if the
 * stack is not in the recording), and why its outer end is where it is. 0 or -ENOMEM.
 */
int stacks_find(struct stacks *s, size_t process, uint32_t id, uint32_t *node,
		enum stack_end *end) MUST_USE;
/* Finds the row of table stack for stack `id` of a process, or TRACE_NO_ROW. 0 or -ENOMEM. */
int stacks_find_row(struct stacks *s, size_t process, uint32_t id, uint32_t *row) MUST_USE;
/* Finds the caller's node, always a smaller row; TRACE_NO_ROW: none. 0 or -ENOMEM. */
int stacks_parent(struct stacks *s, size_t process, uint32_t node, uint32_t *parent) MUST_USE;
/* Returns the frames of a node, as an item of s->expansions, or -ENOMEM. */
int64_t stacks_expand(struct stacks *s, size_t process, uint32_t node) MUST_USE;

#endif
