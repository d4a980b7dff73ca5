/*
 * flame.h: where time went by call stack: CPU time as it was sampled, GPU time under the stack that
 * launched the work, time that threads waited for the GPU, what launching cost them, and time that
 * they did not run.
 *
 * Each kind of time is a section with a tree of its own, below a frame such as [GPU]: kinds are
 * never added up. The GPU section has every kernel, copy, set and (where nodes are not recorded)
 * graph once; its total is the sum of CUPTI's durations. The total of the CPU section is the sum of
 * the samples' weights, that of the stalls the number of samples of kernels.
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
	FLAME_STALLS, /* samples of kernels, where others have ns */
	FLAME_KINDS,
};

/*
 * Kinds that are samples of threads, not work of GPUs or calls: they have no device and no stream.
 */
static inline bool flame_kind_is_sampled(enum flame_kind kind)
{
	return kind == FLAME_CPU || kind == FLAME_OFF_CPU;
}

/* What can stand between a section and the stacks. */
enum flame_level {
	FLAME_BY_PROCESS,
	FLAME_BY_THREAD, /* that ran, launched or waited */
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
	bool interpreter; /* its own frames between Python frames, too */
	bool only_kernels; /* of GPU work, as xpu-perf */
	bool captures; /* nodes of graphs below the stack that captured them, where it is known */
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC, of the start of a row */
	const char *scope; /* inside of such scopes, see scope_paths_match; NULL: all */
	/* Rows to leave out, by table; NULL: none. Called once a row. */
	bool (*wanted)(void *user, enum table_id table, uint64_t row);
	void *user;
};

#define FLAME_OPTIONS_INIT                                                                         \
	{                                                                                          \
		.kinds = 1 << FLAME_GPU | 1 << FLAME_WAIT, .until_ns = UINT64_MAX                  \
	}

struct flame_section {
	uint32_t frame; /* "[GPU]" */
	uint32_t node; /* after flame_finish; FLAME_NONE when there is nothing */
	uint64_t total_ns, count; /* all that was taken, before any filter */
	uint64_t untimed; /* GPU work without times: not in the tree */
	uint64_t unmatched, unmatched_ns; /* GPU work (samples) below [no launch] */
	uint64_t uncaptured; /* nodes of graphs without such a stack: below their launch */
	uint64_t stackless; /* samples without a stack: below their thread */
	uint64_t before_total_ns; /* of the recording that is compared with */
};

struct flame {
	struct stacks stacks;
	struct flame_tree tree;
	struct flame_section sections[FLAME_KINDS];
	unsigned kinds;
	bool diff; /* before_… of nodes are set */
	bool inverted;
	uint64_t calls_with_stack, calls; /* that work was found below, or that waited */
};

/* The kinds that a recording has rows of: 1 << FLAME_GPU … Nothing need be loaded. */
unsigned flame_kinds_recorded(const struct trace *t);
/* Adds up a recording. 0 or a negative code, and then there is nothing to release. */
int flame_init(struct flame *f, struct trace *t, const struct flame_options *options,
	       struct error *e) MUST_USE;
void flame_release(struct flame *f);

/* Adds what another recording, built with the same options, had before. 0 or -ENOMEM. */
int flame_compare(struct flame *f, const struct flame *before) MUST_USE;
/*
 * Keeps stacks with a frame that matches `focus`, and drops those with one that matches `ignore`:
 * POSIX extended regular expressions, NULL for none. 0, E_USAGE for a wrong expression, or -ENOMEM.
 */
int flame_filter(struct flame *f, const char *focus, const char *ignore, struct error *e) MUST_USE;
/* Orders the tree, turned around first if `inverted`. Then it can be shown. 0 or -ENOMEM. */
int flame_finish(struct flame *f, bool inverted) MUST_USE;

const char *flame_kind_title(enum flame_kind kind); /* "GPU time" */
const char *flame_kind_frame(enum flame_kind kind); /* "[GPU]" */
/* What is counted: "operation", "operations". */
const char *flame_kind_item(enum flame_kind kind, uint64_t count);
const char *flame_kind_unit(enum flame_kind kind); /* "ns", "samples": of total_ns … */
/* How samples came to their stacks, for people; NULL: nothing had to be decided. */
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
