/*
 * report_text.h: the report as a person reads it: about one screen, the most important things
 * first.
 */
#ifndef PITOT_CLI_REPORT_TEXT_H
#define PITOT_CLI_REPORT_TEXT_H

#include "analysis/report.h"
#include "cli/command.h"
#include "cli/text_table.h"

#define REPORT_WIDTH_MIN 72u
#define REPORT_WIDTH_MAX 180u

struct report_view {
	const struct report *report;
	const char *path; /* of the recording */
	unsigned width; /* columns to fill, within the limits above */
	bool color;
	bool bars; /* draw bars: on a terminal only */
	bool full_names; /* kernel names with parameters and template arguments */
	uint64_t callers; /* lines that are named for each kernel */
	uint64_t top; /* rows of each table */
	struct strbuf *out;
};

/* The whole report. */
void report_print_text(const struct report_view *v);

/* Sections that are tables; each prints nothing when it has no data. */
void report_print_hotspots(const struct report_view *v);
void report_print_copies(const struct report_view *v);
void report_print_syncs(const struct report_view *v);
void report_print_launches(const struct report_view *v);
void report_print_graphs(const struct report_view *v);
void report_print_memory(const struct report_view *v);

/* Text of a thread: "python 4711 of 4700"; safe for a terminal. */
void report_thread_text(const struct report *r, uint32_t process, uint32_t thread,
			struct strbuf *out);

/* "; stream 7 only; kernels like '*gemm*'": what else than a window was asked for. */
void report_choice_text(const struct filter *f, struct strbuf *out);

/* "\ntitle  rest" */
void report_title(const struct report_view *v, const char *title, const char *rest);

/* Text of the group of a hotspot: kernel name, "stream 7", "python (4711)"; safe for a terminal. */
void report_hotspot_name(const struct report *r, const struct hotspot *h, bool full_names,
			 struct strbuf *out);

#endif
