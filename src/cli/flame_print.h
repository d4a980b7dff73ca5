/*
 * flame_print.h: what `pitot flame` prints in addition to the graph: JSON for scripts, and notes on
 * missing data; the conditions of --where; and flame graphs for `pitot record --flame`.
 */
#ifndef PITOT_CLI_FLAME_PRINT_H
#define PITOT_CLI_FLAME_PRINT_H

#include "analysis/capabilities.h"
#include "analysis/flame/flame.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "read/view_where.h"

/* What `pitot record --flame` writes. */
struct flame_request {
	const char *output; /* file */
	bool gpu_only, cpu_only; /* which time; default: both */
	bool xpu_perf, overwrite;
};

/*
 * Checks before a recording whether the file can be written and has a known format, and chooses
 * what flame_write_recording() writes. Returns an exit status.
 */
int flame_prepare(const struct context *c, const struct flame_request *request);
/* Writes the flame graph of a recording. Returns an exit status. */
int flame_write_recording(struct context *c, char *recording);

/* Appends one JSON object (docs/flame.md) and a newline. */
void flame_print_json(const struct flame *f, struct strbuf *out);

/*
 * Appends why the graph is empty, or returns false if it is not. `narrowed`: --since, --until or
 * --where was given.
 */
bool flame_print_empty(const struct flame *f, bool narrowed, struct strbuf *out);

/*
 * Appends notes on work without times, work without a launch, calls and samples without a stack,
 * and on why there are no CPU samples (with `cpu_wanted` even if none were requested). Appends
 * nothing if nothing is missing. cpu is NULL if CPU time is not shown.
 */
void flame_print_gaps(const struct flame *f, const struct capability_note *cpu, bool cpu_wanted,
		      struct strbuf *out);

/* Prints a flame graph as an indented tree for a terminal. */
struct flame_text {
	const struct flame *flame;
	unsigned width; /* columns */
	bool color, bars;
	uint64_t least_percent_tenths; /* smaller frames are counted, not shown */
	uint64_t depth; /* levels of the tree; 0: all */
	struct strbuf *out;
};

void flame_text_print(const struct flame_text *t);

/*
 * The conditions of --where, which are those of `pitot view`, for all tables of a flame graph. If a
 * table lacks a column of a condition, all its rows are left out.
 */
#define FLAME_TABLES (GPU_WORK_KINDS + 3)

struct flame_where {
	struct view_table tables[FLAME_TABLES];
	struct view_where conditions[FLAME_TABLES];
	bool left_out[FLAME_TABLES];
};

/*
 * Reads the conditions and loads the columns that they need. The texts must outlive w. Returns 0,
 * E_USAGE or another negative code. Release w in any case.
 */
int flame_where_init(struct flame_where *w, struct trace *t, const struct option_list *conditions,
		     struct error *e) MUST_USE;
void flame_where_release(struct flame_where *w);
/* For flame_options.select; user is the struct. */
bool flame_where_holds(void *user, enum table_id table, uint64_t row);

#endif
