/*
 * flame.h: time by call stack: sampled CPU time, GPU time under the stack that launched the work,
 * host time of threads that waited for the GPU or launched work, and time off the CPU.
 *
 * Each kind of time is a section, a separate tree below a frame such as [GPU]; kinds are never
 * added up. The GPU section contains each kernel, copy, set and (if nodes are not recorded) graph
 * once; its total is the sum of CUPTI's durations. The total of the CPU section is the sum of the
 * samples' weights, that of the stalls section the number of kernel samples, that of the memory
 * section the sum of the peaks of all kinds of memory.
 */
#ifndef PITOT_ANALYSIS_FLAME_FLAME_H
#define PITOT_ANALYSIS_FLAME_FLAME_H

#include "analysis/flame/flame_tree.h"

enum flame_kind {
	FLAME_CPU,
	FLAME_GPU,
	FLAME_WAIT,
	FLAME_LAUNCHES,
	FLAME_OFF_CPU,
	FLAME_STALLS, /* counts kernel samples, not ns */
	FLAME_MEMORY, /* bytes live at the peak, not ns */
	FLAME_KINDS,
};

/* Whether a kind consists of samples of threads, which have no device and no stream. */
static inline bool flame_kind_is_sampled(enum flame_kind kind)
{
	return kind == FLAME_CPU || kind == FLAME_OFF_CPU;
}

/* Optional levels between a section and its stacks. */
enum flame_level {
	FLAME_BY_PROCESS,
	FLAME_BY_THREAD, /* thread that ran, launched or waited */
	FLAME_BY_DEVICE,
	FLAME_BY_STREAM,
	FLAME_BY_SCOPE, /* scopes around the launch or the sample, outermost first */
	FLAME_LEVELS,
};

struct flame_options {
	unsigned kinds; /* 1 << FLAME_GPU … */
	unsigned levels; /* 1 << FLAME_BY_PROCESS …, in this order */
	enum stack_detail detail;
	bool full_names;
	bool no_lines; /* Python by function, not by line; not with STACK_ADDRESSES */
	bool interpreter; /* also show the interpreter's frames between Python frames */
	bool only_kernels; /* no other GPU work, as in xpu-perf */
	bool captures; /* graph nodes below the stack that captured them, if it is known */
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC: since <= start of a row < until */
	const char *scope; /* inside of matching scopes, see scope_paths_match; NULL: all */
	/* Whether to include a row; called once per row; NULL: all rows. */
	bool (*select)(void *user, enum table_id table, uint64_t row);
	void *user;
};

#define FLAME_OPTIONS_INIT                                                                         \
	{                                                                                          \
		.kinds = 1 << FLAME_GPU | 1 << FLAME_WAIT, .until_ns = UINT64_MAX                  \
	}

struct flame_section {
	uint32_t frame; /* "[GPU]" */
	uint32_t node; /* valid after flame_finish; FLAME_NONE if the section is empty */
	uint64_t total_ns, count; /* of all added events, before flame_filter */
	uint64_t untimed; /* GPU work without times, which is not in the tree */
	uint64_t unmatched, unmatched_ns; /* GPU work or samples below [no launch] */
	uint64_t uncaptured; /* graph nodes without a capture stack, shown below their launch */
	uint64_t stackless; /* samples without a stack, shown below their thread */
	uint64_t before_total_ns; /* total of the baseline, after flame_compare */
};

struct flame {
	struct stacks stacks;
	struct flame_tree tree;
	struct flame_section sections[FLAME_KINDS];
	unsigned kinds;
	bool diff; /* flame_compare was called: before_… of nodes are set */
	bool inverted;
	uint64_t calls_with_stack, calls; /* calls that launched shown work, or that waited */
};

/* The kinds for which a recording has rows: 1 << FLAME_GPU … Needs no loaded tables. */
unsigned flame_kinds_recorded(const struct trace *t);
/* Builds the trees of a recording. 0 or a negative code; after an error, do not release *f. */
int flame_init(struct flame *f, struct trace *t, const struct flame_options *options,
	       struct error *e) MUST_USE;
void flame_release(struct flame *f);

/* Adds a baseline that was built with the same options, for a diff. 0 or -ENOMEM. */
int flame_compare(struct flame *f, const struct flame *before) MUST_USE;
/*
 * Keeps the stacks with a frame that matches `focus`, and drops those with a frame that matches
 * `ignore`: POSIX extended regular expressions or NULL. 0, E_USAGE for a bad expression, or
 * -ENOMEM.
 */
int flame_filter(struct flame *f, const char *focus, const char *ignore, struct error *e) MUST_USE;
/* Inverts the tree if requested, then sums and orders it for display. 0 or -ENOMEM. */
int flame_finish(struct flame *f, bool inverted) MUST_USE;

const char *flame_kind_title(enum flame_kind kind); /* "GPU time" */
const char *flame_kind_frame(enum flame_kind kind); /* "[GPU]" */
/* Noun for `count` items: "operation", "operations". */
const char *flame_kind_item(enum flame_kind kind, uint64_t count);
/* Unit of total_ns …: that of most kinds is time. */
enum flame_unit { FLAME_NS, FLAME_SAMPLES, FLAME_BYTES };
enum flame_unit flame_kind_unit(enum flame_kind kind);
const char *flame_kind_unit_name(enum flame_kind kind); /* "ns", "samples", "bytes" */
/* Explains to people how samples were attributed to stacks; NULL: no explanation needed. */
const char *flame_kind_attribution(enum flame_kind kind);
/* Appends "1.23 ms", "1,234". */
void flame_amount(struct strbuf *out, enum flame_kind kind, uint64_t ns);
/* Appends "1.23 ms of GPU time in 5 operations", "1,234 samples of kernels". */
void flame_whole(struct strbuf *out, enum flame_kind kind, const struct flame_node *n);
const char *flame_level_name(enum flame_level level); /* "thread" */
const char *frame_class_name(enum frame_class class); /* "Python", for legends */

static inline const struct stack_frame *flame_frame(const struct flame *f, uint32_t node)
{
	return &f->stacks.frames.data[f->tree.nodes.data[node].frame];
}

static inline const char *flame_name(const struct flame *f, uint32_t node)
{
	return stacks_text(&f->stacks, flame_frame(f, node)->name);
}

#endif
