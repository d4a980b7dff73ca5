#include "agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include "agent/agent_state.h"
#include "base/clock.h"
#include "rules/rule_plan.h"

#define RULES_NS NS_PER_S /* between evaluations of rules */
#define ROWS_BYTES_MAX ((size_t)8 << 20) /* that are not in objects */

static void warn(struct agent *a, const struct error *e)
{
	a->counts.failures++;
	if (a->problem != e->code)
		a->warn(a->user, e->text);
	a->problem = e->code;
}

/* --- rows to objects --- */

static bool has_rows(const struct agent *a)
{
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++)
		if (a->rows.values[t].count)
			return true;
	return false;
}

static size_t row_bytes(const struct agent *a)
{
	size_t bytes = a->rows.texts.bytes;

	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++)
		bytes += a->rows.values[t].count * sizeof(uint64_t);
	return bytes;
}

/* What the spool had no room for is a loss of the agent. */
static void append_dropped(struct agent *a)
{
	struct utsname names;
	struct fleet_loss row = { .missing = FLEET_BIT(loss, job) | FLEET_BIT(loss, rank) |
					     FLEET_BIT(loss, pid) | FLEET_BIT(loss, session),
				  .time_ns = clock_read_ns(CLOCK_REALTIME),
				  .count = a->spool.dropped_rows };

	if (!row.count || uname(&names) < 0)
		return;
	row.host = fleet_text(&a->rows, names.nodename);
	row.lost_by = fleet_text(&a->rows, "agent");
	row.reason = fleet_text(&a->rows, "spool_full");
	row.detail = fleet_text(&a->rows, "rows of objects that the lake did not take in time");
	fleet_append(&a->rows, FLEET_loss, &row);
	a->counts.dropped_rows += row.count;
}

/* Makes objects of all rows, and lets the state say so. 0 or a negative code. */
static int commit(struct agent *a, struct error *e)
{
	_cleanup_strbuf_ struct strbuf state = STRBUF_INIT;
	int rc;

	if (!has_rows(a))
		return 0;
	rc = spool_write(&a->spool, &a->rows, e);
	if (rc < 0)
		return rc;
	agent_state_render(&a->spool, &a->sources, &state);
	rc = spool_commit(&a->spool, &state, e);
	if (rc < 0)
		return rc;
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++)
		a->counts.rows[t] += fleet_row_count(&a->rows, t);
	a->counts.batches++;
	fleet_rows_clear(&a->rows);
	append_dropped(a);
	return 0;
}

static int ship(struct agent *a, struct error *e)
{
	struct error problem = { 0 };

	a->counts.objects += spool_ship(&a->spool, &a->lake, &problem);
	if (!problem.code)
		a->counts.windows += spool_ship_windows(&a->spool, &a->lake, &problem);
	if (problem.code)
		*e = problem;
	return problem.code;
}

/* --- reading --- */

/*
 * Reads what is new of a source. Returns how many batches it was, or a negative code: the rest has
 * to wait.
 */
static int read_source(struct agent *a, struct source *source, struct error *e)
{
	struct source_place end = source_end(source);
	int batches = 0, rc;

	while ((rc = batch_read(&a->rows, &a->sources, source, e)) > 0) {
		batches++;
		if (row_bytes(a) > ROWS_BYTES_MAX && (rc = commit(a, e)) < 0)
			return rc;
		if (source_is_at(source, &end))
			return batches;
	}
	if (rc < 0)
		a->rows.failed = true; /* some of the batch may be in them */
	else if (!batches)
		batch_end_steps(&a->rows, source);
	return rc < 0 ? rc : batches;
}

/* Returns how many batches of finished recordings were read, or a negative code. */
static int read_all(struct agent *a, bool now, struct error *e)
{
	int rc = 0, batches = 0;

	if (row_bytes(a) > ROWS_BYTES_MAX && (rc = commit(a, e)) < 0)
		return rc;
	sources_search(&a->sources, now);
	for (size_t i = 0; i < a->sources.all.count && rc >= 0; i++) {
		rc = read_source(a, a->sources.all.data[i], e);
		batches += a->sources.all.data[i]->is_live ? 0 : rc;
	}
	return rc < 0 ? rc : batches;
}

int agent_step(struct agent *a, uint64_t *due_ns, struct error *e)
{
	uint64_t now = clock_monotonic_ns();
	int rc = 0;

	if (now >= a->read_due_ns) {
		rc = read_all(a, false, e);
		a->read_due_ns = now + a->options->read_ns;
	}
	if (rc >= 0 && now >= a->ship_due_ns) {
		rc = commit(a, e);
		rc = rc < 0 ? rc : ship(a, e);
		a->ship_due_ns = now + a->options->ship_ns;
		if (rc >= 0)
			a->problem = 0;
	}
	if (a->rows.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (rc < 0)
		warn(a, e);
	*due_ns = MIN(a->read_due_ns, a->ship_due_ns);
	if (a->windows) { /* after the reading, which knows whose they are */
		windows_step(a->windows);
		*due_ns = MIN(*due_ns, now + RULES_NS);
	}
	return 0;
}

/* Twice more than segments that are missing are waited for, and steps. */
#define FINISH_READINGS 5u

int agent_finish(struct agent *a, bool all, struct error *e)
{
	int rc = 1;

	for (unsigned i = 0; rc >= 0 && (i < (all ? FINISH_READINGS : 1) || (all && rc > 0)); i++)
		rc = read_all(a, true, e);
	if (a->windows)
		windows_step(a->windows);
	if (a->rows.failed)
		return error_set(e, -ENOMEM, "out of memory");
	rc = rc < 0 ? rc : commit(a, e);
	return rc < 0 ? rc : ship(a, e);
}

/* --- begin and end --- */

int agent_open(struct agent *a, struct error *e)
{
	_cleanup_strbuf_ struct strbuf state = STRBUF_INIT;
	int rc;

	fleet_rows_init(&a->rows);
	a->lake.folder = a->spool.folder = a->spool.lock = -1;
	a->spool.bytes_max = a->options->spool_bytes;
	a->sources.roots = a->options->recordings;
	a->sources.pids = a->options->pids;
	a->sources.pid_count = a->options->pid_count;
	a->sources.no_processes = a->options->no_processes;
	a->lake.mode = a->options->mode;
	rc = lake_open(&a->lake, a->options->lake, e);
	rc = rc < 0 ? rc : spool_open(&a->spool, a->options->spool, &state, e);
	if (rc == 0 && state.length)
		rc = agent_state_read(&state, &a->spool, &a->sources, e);
	else if (rc == 0 && getrandom(&a->spool.agent, sizeof(a->spool.agent), 0) < 0)
		rc = error_errno(e, errno, "no random number");
	rc = rc < 0 ? rc : spool_recover(&a->spool, e);
	if (rc < 0)
		return rc;
	append_dropped(a);
	if (a->options->rules->count) {
		a->sources.keep_ns = PLAN_BEFORE_NS + 2 * PLAN_AFTER_NS + 2 * a->options->read_ns;
		a->windows = windows_new(a->options->rules, &a->sources, &a->spool);
		if (!a->windows)
			return error_set(e, -ENOMEM, "out of memory");
	}
	a->read_due_ns = clock_monotonic_ns();
	/* Not all agents of a fleet at once. */
	a->ship_due_ns = a->read_due_ns + hash_u64(a->spool.agent) % a->options->ship_ns;
	return 0;
}

void agent_release(struct agent *a)
{
	sources_release(&a->sources);
	windows_free(a->windows);
	fleet_rows_release(&a->rows);
	spool_release(&a->spool);
	lake_release(&a->lake);
}
