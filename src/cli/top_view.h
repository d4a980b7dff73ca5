/* top_view.h: the output of `pitot top`. All texts are safe for a terminal. */
#ifndef PITOT_CLI_TOP_VIEW_H
#define PITOT_CLI_TOP_VIEW_H

#include "record/programs.h"

enum top_sort { TOP_BY_GPU, TOP_BY_MEMORY, TOP_BY_CPU, TOP_BY_LAUNCHES, TOP_BY_PID, TOP_SORTS };
extern const char *const top_sort_names[]; /* by top_sort; ends with NULL */

/* What the user has chosen to see. */
struct top_view {
	int sort; /* enum top_sort */
	bool reverse;
	char filter[64]; /* of command, user or pid; "": all */
	pid_t selected; /* 0: the first */
	const char *prompt; /* shown in the last line instead of the keys; NULL: none */
};

/* Sorts the programs. Returns how many the filter leaves, which are the first ones. */
size_t top_sort_programs(const struct top_view *v, struct programs *p);
/*
 * Appends a screen of at most so many lines and columns; `lines` 0: a listing that shows the work
 * of all programs. `count` is the result of top_sort_programs().
 */
void top_print(const struct top_view *v, const struct programs *p, size_t count,
	       const struct monitor *m, unsigned columns, unsigned lines, bool color,
	       struct strbuf *out);
/* Appends one JSON object and a newline. What is unknown is null. */
void top_json(const struct programs *p, size_t count, const struct monitor *m, struct strbuf *out);

#endif
