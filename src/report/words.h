/*
 * words.h: what the things of a recording are called in a report; all texts are safe for a
 * terminal.
 */
#ifndef PITOT_REPORT_WORDS_H
#define PITOT_REPORT_WORDS_H

#include "analysis/commands.h"
#include "analysis/report.h"
#include "analysis/sentence.h"

/* "python 4711 (pid 4700)" */
void report_thread_text(const struct report *r, uint32_t process, uint32_t thread,
			struct strbuf *out);
/* "train.py:57 step -> DataLoader.__next__"; callee: CALLER_NONE for none. */
void report_line_text(const struct report *r, uint32_t caller, uint32_t callee, struct strbuf *out);
/* "; stream 7 only; kernels matching '*gemm*'": the filters except the window. */
void report_choice_text(const struct filter *f, struct strbuf *out);
/* " (pid 4711)" if there are several processes. */
void report_of_process(const struct report *r, uint32_t process, struct strbuf *out);
/* A time as --since takes it. */
void report_since_text(uint64_t ns, struct strbuf *out);
/* "1.39", "-" of nothing */
void report_ratio_text(uint64_t part, uint64_t whole, struct strbuf *out);
/* "CPU-bound, single-threaded" and so on. */
const char *report_cpu_verdict(unsigned verdict);

/*
 * "the GPU context failed: CUDA_ERROR_ASSERT, returned by cuCtxSynchronize at x.py:6; last
 * launched: k (1)"; nothing where it did not. In section_failures.c.
 */
void report_failure_text(const struct report *r, struct strbuf *out);
/*
 * "140 blocks on 132 SMs x 1 slot, the last 8 fill 6.1% of the slots", if the last blocks of a
 * launch leave most of the GPU empty; else nothing. device, config: rows of the tables, or
 * TRACE_NO_ROW. In section_verdict.c.
 */
void report_tail_text(const struct report *r, uint32_t device, uint32_t config, struct strbuf *out);
/* Name of the kernel of a row of kernel_config: shortened, or with parameters. */
void report_kernel_text(const struct report *r, uint32_t config, bool full, struct strbuf *out);

/* Why a GPU's clocks are not higher, the bits of gpu_throttle_reasons, in words. */
#define THROTTLE_REASONS 9u

/* What a bit says: "power limit"; NULL: a bit that we do not know. */
const char *throttle_reason(unsigned bit);
/*
 * Whether it holds the clocks down against the wish of whoever runs the GPU: neither idleness nor a
 * setting of theirs.
 */
bool throttle_is_a_limit(unsigned bit);
/* "power limit, too hot": the limits among the bits; nothing where there are none. */
void throttle_text(uint64_t bits, struct strbuf *out);

#endif
