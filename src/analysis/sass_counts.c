#include "analysis/sass_counts.h"

#include <string.h>

#include "base/compiler.h"

#define PREFIX "smsp__sass_"
#define SHARE_MIN 10u /* hints are about at least 1/10 of all */
#define THREADS_FEW 24u /* divergent: fewer active threads, of 32 */
#define SECTORS_MANY 2u /* uncoalesced: at least this multiple of the ideal number */

static const struct {
	const char *name;
	enum sass_count count;
	bool is_part;
} metrics[] = {
	{ PREFIX "inst_executed", SASS_EXECUTED, false },
	{ PREFIX "thread_inst_executed", SASS_THREADS, false },
	{ PREFIX "thread_inst_executed_pred_on", SASS_PREDICATED, false },
	{ PREFIX "sectors_mem_global", SASS_SECTORS, false },
	{ PREFIX "sectors_mem_global_op_ld", SASS_SECTORS, true },
	{ PREFIX "sectors_mem_global_op_st", SASS_SECTORS, true },
	{ PREFIX "sectors_mem_global_ideal", SASS_IDEAL, false },
	{ PREFIX "sectors_mem_global_op_ld_ideal", SASS_IDEAL, true },
	{ PREFIX "sectors_mem_global_op_st_ideal", SASS_IDEAL, true },
};

int sass_count_of(const char *metric, bool *is_part)
{
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		if (strcmp(metrics[i].name, metric) != 0)
			continue;
		*is_part = metrics[i].is_part;
		return (int)metrics[i].count;
	}
	return -1;
}

void sass_counts_add(struct sass_counts *sum, const struct sass_counts *c)
{
	for (size_t i = 0; i < SASS_COUNTS; i++)
		sum->of[i] += c->of[i];
	sum->known |= c->known;
}

static void add_quotient(struct strbuf *out, uint64_t x, uint64_t y)
{
	if (y)
		strbuf_addf(out, "%.1f", (double)x / (double)y);
}

void sass_threads_text(const struct sass_counts *c, struct strbuf *out)
{
	if (c->known & 1 << SASS_THREADS)
		add_quotient(out, c->of[SASS_THREADS], c->of[SASS_EXECUTED]);
}

void sass_sectors_text(const struct sass_counts *c, struct strbuf *out)
{
	add_quotient(out, c->of[SASS_RATED], c->of[SASS_IDEAL]);
}

bool sass_is_divergent(const struct sass_counts *c, const struct sass_counts *whole)
{
	return (c->known & 1 << SASS_THREADS) && c->of[SASS_EXECUTED] &&
	       c->of[SASS_EXECUTED] >= whole->of[SASS_EXECUTED] / SHARE_MIN &&
	       c->of[SASS_THREADS] / c->of[SASS_EXECUTED] < THREADS_FEW;
}

bool sass_is_uncoalesced(const struct sass_counts *c, const struct sass_counts *whole)
{
	return c->of[SASS_IDEAL] && c->of[SASS_RATED] >= whole->of[SASS_RATED] / SHARE_MIN &&
	       c->of[SASS_RATED] / c->of[SASS_IDEAL] >= SECTORS_MANY;
}
