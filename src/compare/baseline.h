/*
 * baseline.h: measured runs under a name, in a file of the user, so that later recordings can be
 * compared with them when their own are gone.
 *
 * What is read back compares in all digits as the recordings themselves do: values are stored as
 * they are in memory, also those of single steps, which say how well the value of a run is known
 * while a side has few of them.
 *
 * The file is BASELINE_HEADER, a CRC-32C of what follows, and the runs: numbers as varints, doubles
 * in 8 bytes, texts after their length; of steps those that are not 0, each after the number of
 * zeros before it; kernels of a step by the numbers of their quantities. It is read by the version
 * of Pitot that wrote it and no other, because another one may measure differently. It is
 * untrusted.
 */
#ifndef PITOT_COMPARE_BASELINE_H
#define PITOT_COMPARE_BASELINE_H

#include "base/strbuf.h"
#include "compare/measured_run.h"

#define BASELINE_BYTES_MAX ((size_t)256 << 20)
#define BASELINE_STEPS_MAX (1u << 24) /* of a run */
#define BASELINE_VALUES_MAX (1u << 26) /* steps of all quantities of all runs */

#define BASELINE_WORD(name, ...) " " #name
#define BASELINE_HEADER                                                                            \
	"pitot baseline " PITOT_VERSION " 2:" QUANTITIES(BASELINE_WORD)                            \
		RUN_FACTS(BASELINE_WORD) "\n"

/* Appends the bytes of a file. 0 or E_LIMIT. */
int baseline_encode(const struct measured_run *runs, size_t count, struct strbuf *out,
		    struct error *e) MUST_USE;
/*
 * Sets runs[0 … *count), at most `most`, which the caller releases in any case. E_VERSION: another
 * version wrote it; E_FORMAT: it is damaged.
 */
int baseline_decode(const void *bytes, size_t length, struct measured_run *runs, size_t most,
		    size_t *count, struct error *e) MUST_USE;

/* --- baseline_store.c: the user's baselines --- */

#define BASELINE_NAME_MAX 100

struct baseline_entry {
	char name[BASELINE_NAME_MAX + 1];
	uint64_t bytes;
	int64_t saved_s; /* since 1970 */
};

struct baseline_list {
	VEC(struct baseline_entry) items; /* by name */
};

/* E_USAGE: it cannot be the name of a baseline. */
int baseline_check_name(const char *name, struct error *e) MUST_USE;
/* Writes it whole, or leaves what was there. -EEXIST without `replace`. */
int baseline_save(const char *name, const struct measured_run *runs, size_t count, bool replace,
		  struct error *e) MUST_USE;
/* Same as baseline_decode(). Errors name the baseline and what helps. */
int baseline_load(const char *name, struct measured_run *runs, size_t most, size_t *count,
		  struct error *e) MUST_USE;
int baseline_remove(const char *name, struct error *e) MUST_USE;
/* 0 or a negative code; release in any case. No folder yet is an empty list. */
int baseline_list_init(struct baseline_list *list, struct error *e) MUST_USE;
void baseline_list_release(struct baseline_list *list);

#endif
