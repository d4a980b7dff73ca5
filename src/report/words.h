/* words.h: texts for threads, lines, kernels and so on; all are safe for a terminal. */
#ifndef PITOT_REPORT_WORDS_H
#define PITOT_REPORT_WORDS_H

#include <stdbool.h>

#include "analysis/commands.h"
#include "analysis/critical_path.h"
#include "analysis/report.h"
#include "analysis/sentence.h"
#include "report/report_view.h"

struct memory_group;
struct last_work;
struct step_loop;

/* "python 4711 (pid 4700)" */
void report_thread_text(const struct report *r, uint32_t process, uint32_t thread,
			struct strbuf *out);
/* "train.py:57 step -> DataLoader.__next__"; callee: CALLER_NONE for none. */
void report_line_text(const struct report *r, uint32_t caller, uint32_t callee, struct strbuf *out);
/* "; stream 7 only; kernels matching '*gemm*'": the filters except the window. */
void report_choice_text(const struct filter *f, struct strbuf *out);
/* " (pid 4711)" if there are several processes. */
void report_of_process(const struct report *r, uint32_t process, struct strbuf *out);
/* A time in the syntax of --since. */
void report_since_text(uint64_t ns, struct strbuf *out);
/* "1.39"; "-" if whole is 0 */
void report_ratio_text(uint64_t part, uint64_t whole, struct strbuf *out);
/* "CPU-bound, single-threaded" and so on. */
const char *report_cpu_verdict(unsigned verdict);

/*
 * "the GPU context failed: CUDA_ERROR_ASSERT, returned by cuCtxSynchronize at x.py:6; last kernel
 * launched: k (launch 1)"; nothing if no context failed. In section_failures.c.
 */
void report_failure_text(const struct report *r, struct strbuf *out);
/*
 * "140 blocks on 132 SMs x 1 slot, the last 8 fill 6.1% of the slots", if the last blocks of a
 * launch leave most of the GPU empty; else nothing. device, config: rows of the tables, or
 * TRACE_NO_ROW. In section_verdict.c.
 */
void report_tail_text(const struct report *r, uint32_t device, uint32_t config, struct strbuf *out);
/* Appends a line about filters that do not apply to `what`, which belongs to code; else nothing. */
void report_unfiltered_text(const struct report *r, const char *what, struct strbuf *out);
/*
 * Appends a value in a well-known unit of CUPTI: "1.91 TB/s" for byte/second; false: the unit must
 * be shown beside the value.
 */
bool report_amount_text(const char *unit, double value, struct strbuf *out);
/*
 * Appends sentences about the ranks of a job, one a line. True: *heading is the verdict; else it is
 * the verdict on one GPU. In section_ranks.c.
 */
bool report_job_text(const struct report *r, struct strbuf *heading, struct strbuf *out);
/* kernel_name_text() of the name of a row of kernel_config, made safe. */
void report_kernel_text(const struct report *r, uint32_t config, bool full, struct strbuf *out);
const char *report_memory_kind(const struct memory_group *g); /* "device" */
/* "device, device 0", "pinned, device 0 (pid 4711)". In section_memory.c. */
void report_memory_text(const struct report *r, const struct memory_group *g, struct strbuf *out);
/* The kernel, or the kind of other work. In section_last_words.c. */
void report_work_text(const struct report *r, const struct last_work *work, struct strbuf *out);
/* Appends the name of a launch's kernel (last_words_name()). Returns whether it is known. */
bool report_launch_name(const struct report *r, uint32_t name, struct strbuf *out);
/* Owner of a part of the critical path: "host before train.py:57". In section_critical_path.c. */
void report_place_text(const struct report_view *v, struct path_place p, struct strbuf *out);
/* "scopes like step": by what steps were found; why there are none. In section_steps.c. */
void report_steps_source(const struct report *r, const struct step_loop *l, struct strbuf *out);
const char *report_steps_reason(unsigned reason);

#endif
