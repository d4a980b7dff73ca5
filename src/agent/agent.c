#include "agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include "agent/agent_state.h"
#include "base/clock.h"
#include "base/io.h"
#include "rules/rule_plan.h"

#define RULES_NS NS_PER_S /* between evaluations of rules */
#define SHIP_NS (2 * NS_PER_S) /* longest time without a reading, but for what is begun then */
#define POLL_NS (100 * NS_PER_MS) /* of what is on its way */
#define FINISH_NS (10 * NS_PER_S) /* longest time that an end waits for what is on its way */
#define RETRY_MAX_NS (120 * NS_PER_S) /* between attempts to ship */
#define ROWS_BYTES_MAX ((size_t)8 << 20) /* that are not in objects */

static void warn(struct agent *a, int *problem, const struct error *e)
{
	a->counts.failures++;
	if (*problem != e->code)
		a->warn(a->user, e->text);
	*problem = e->code;
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

static void append_loss(struct agent *a, const char *reason, uint64_t count, const char *detail)
{
	struct fleet_loss row = { .missing = FLEET_BIT(loss, job) | FLEET_BIT(loss, rank) |
					     FLEET_BIT(loss, pid) | FLEET_BIT(loss, session),
				  .time_ns = clock_read_ns(CLOCK_REALTIME),
				  .count = count };
	struct utsname names;

	if (!count || uname(&names) < 0)
		return;
	row.host = fleet_text(&a->rows, names.nodename);
	row.lost_by = fleet_text(&a->rows, "agent");
	row.reason = fleet_text(&a->rows, reason);
	row.detail = fleet_text(&a->rows, detail);
	fleet_append(&a->rows, FLEET_loss, &row);
	a->counts.dropped_rows += count;
}

static void append_refused(struct agent *a)
{
	append_loss(a, "refused", a->spool.refused_rows,
		    "GPU work of profiles that the server refused");
	a->spool.refused_rows = 0;
}

/* What the spool had no room for is a loss of the agent. */
static void append_dropped(struct agent *a)
{
	static const char *const details[] = {
		[SPOOL_LAKE] = "rows of objects that the lake did not take in time",
		[SPOOL_KAFKA] = "rows that Kafka did not take in time",
		[SPOOL_PROFILES] = "GPU work of profiles that the server did not take in time",
	};

	for (enum spool_sink sink = 0; sink < ARRAY_SIZE(details); sink++)
		append_loss(a, "spool_full", a->spool.dropped_rows[sink], details[sink]);
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
	if (a->kafka && a->spool.dropped_rows[SPOOL_KAFKA])
		kafka_take_back(a->kafka);
	return 0;
}

/* --- shipping --- */

static int put_lake(void *user, int file, const char *table, const char *key, const char *name,
		    struct error *e)
{
	const struct agent *a = user;

	(void)table;
	(void)name;
	return lake_put(&a->lake, file, key, LAKE_ONCE, e);
}

/* Rows of one host of a job are in order: JOB.HOST is the key. */
static int put_kafka(void *user, int file, const char *table, const char *key, const char *name,
		     struct error *e)
{
	struct agent *a = user;
	size_t job = strcspn(name, "."), host = name[job] ? strcspn(name + job + 1, ".") + 1 : 0;
	char text[2 * LAKE_NAME_MAX + 8];

	(void)key;
	snprintf(text, sizeof(text), "%.*s", (int)(job + host), name);
	return kafka_send(a->kafka, file, table, text, name, e);
}

static int put_window(void *user, const char *name, const char *key, struct error *e)
{
	const struct agent *a = user;

	return lake_put_folder(&a->lake, a->spool.folder, name, key, e);
}

static int ship_lake(struct agent *a, uint64_t until_ns, bool *is_waiting, struct error *e)
{
	struct spool_shipped objects = { 0 }, windows = { 0 };
	int rc = spool_ship(&a->spool, SPOOL_LAKE, put_lake, a, until_ns, &objects, e);

	if (rc == 0)
		rc = spool_ship_windows(&a->spool, SPOOL_LAKE, put_window, a, until_ns, &windows,
					e);
	a->counts.objects += objects.objects;
	a->counts.windows += windows.objects;
	*is_waiting = objects.is_waiting || windows.is_waiting;
	return rc;
}

static int ship_kafka(struct agent *a, uint64_t until_ns, bool *is_waiting, struct error *e)
{
	struct spool_shipped objects = { 0 };
	int rc = !a->kafka
			 ? 0
			 : spool_ship(&a->spool, SPOOL_KAFKA, put_kafka, a, until_ns, &objects, e);

	a->counts.kafka_objects += objects.objects;
	*is_waiting = objects.is_waiting;
	return rc;
}

static int put_profile(void *user, int file, const char *table, const char *key, const char *name,
		       struct error *e)
{
	_cleanup_strbuf_ struct strbuf body = STRBUF_INIT;
	struct agent *a = user;
	int rc = io_read_to_end(file, PROFILE_BODY_MAX, &body);

	(void)table;
	(void)key;
	if (rc < 0)
		return error_set(e, rc, "cannot read '%s': %s", name, error_code_text(rc));
	rc = http_push_send(a->profiles, &body, e);
	if (rc != -EBADMSG)
		return rc;
	a->warn(a->user, e->text);
	return SPOOL_REFUSED;
}

static int ship_profiles(struct agent *a, uint64_t until_ns, bool *is_waiting, struct error *e)
{
	struct spool_shipped objects = { 0 };
	int rc = !a->profiles ? 0
			      : spool_ship(&a->spool, SPOOL_PROFILES, put_profile, a, until_ns,
					   &objects, e);

	append_refused(a);
	a->counts.profiles += objects.objects;
	*is_waiting = objects.is_waiting;
	return rc;
}

static int put_gpufl(void *user, const char *name, const char *key, struct error *e)
{
	const struct agent *a = user;

	(void)key;
	return gpufl_windows_put(&a->options->gpufl, a->spool.folder, name, e);
}

static int ship_gpufl(struct agent *a, uint64_t until_ns, bool *is_waiting, struct error *e)
{
	struct spool_shipped windows = { 0 };
	int rc = !a->options->gpufl.url ? 0
					: spool_ship_windows(&a->spool, SPOOL_GPUFL, put_gpufl, a,
							     until_ns, &windows, e);

	a->counts.gpufl_windows += windows.objects;
	*is_waiting = windows.is_waiting;
	return rc;
}

static int (*const shippers[])(struct agent *a, uint64_t until_ns, bool *is_waiting,
			       struct error *e) = {
	[SPOOL_LAKE] = ship_lake,
	[SPOOL_KAFKA] = ship_kafka,
	[SPOOL_PROFILES] = ship_profiles,
	[SPOOL_GPUFL] = ship_gpufl,
};

/*
 * Doubles with each failure; a random half of it keeps the agents of a fleet from trying again at
 * the same moment.
 */
static uint64_t retry_delay_ns(const struct agent *a, struct agent_sink *sink, uint64_t now)
{
	uint64_t longest = MIN(NS_PER_S << MIN(sink->failures, 10u), RETRY_MAX_NS);

	sink->failures++;
	return longest - hash_u64(a->spool.agent ^ now) % (longest / 2);
}

/* Ships what waits for a sink, until then, and sets when the rest is due. 0 or a negative code. */
static int ship(struct agent *a, enum spool_sink which, uint64_t until_ns, struct error *e)
{
	struct agent_sink *sink = &a->sinks[which];
	bool is_waiting;
	int rc = shippers[which](a, until_ns, &is_waiting, e);
	uint64_t now = clock_monotonic_ns();

	if (rc < 0) {
		/* What is on its way is tried again by the sink itself. */
		sink->due_ns = now + (rc == -EINPROGRESS ? NS_PER_S : retry_delay_ns(a, sink, now));
		return rc;
	}
	sink->due_ns = is_waiting ? now + POLL_NS : UINT64_MAX;
	sink->failures = 0;
	return 0;
}

/* Ships all there is. Returns 0 or a negative code: the spool has the rest. */
static int ship_all(struct agent *a, struct error *e)
{
	int code = 0;

	for (enum spool_sink which = 0; which < SPOOL_SINKS; which++) {
		uint64_t end_ns = clock_monotonic_ns() + FINISH_NS;
		struct error problem = { 0 };
		int rc;

		while ((rc = ship(a, which, UINT64_MAX, &problem)) == 0 &&
		       a->sinks[which].due_ns != UINT64_MAX && clock_monotonic_ns() < end_ns)
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
		while (rc == -EINPROGRESS && clock_monotonic_ns() < end_ns) {
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
			rc = ship(a, which, UINT64_MAX, &problem);
		}
		if (rc == 0 && a->sinks[which].due_ns != UINT64_MAX)
			rc = error_set(&problem, -ETIMEDOUT,
				       "some rows are not delivered yet; the spool has them");
		if (rc < 0 && !code) {
			*e = problem;
			code = rc;
		}
	}
	return code;
}

/* --- reading --- */

/*
 * Reads what is new of a source. Returns how many batches it was, or a negative code: the rest has
 * to wait.
 */
static int read_source(struct agent *a, struct source *source, struct error *e)
{
	const struct batch_profiles profiles = { &a->spool, a->options->profile_kind };
	const struct batch_profiles *to = a->profiles ? &profiles : NULL;
	struct source_place end = source_end(source);
	int batches = 0, rc;

	while ((rc = batch_read(&a->rows, &a->sources, source, to, e)) > 0) {
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

/* What is due of commit and ship. Returns 0 or a negative code. */
static int step_shipping(struct agent *a, uint64_t now, struct error *e)
{
	int rc = 0;

	if (now >= a->ship_due_ns) {
		rc = commit(a, e);
		a->ship_due_ns = now + a->options->ship_ns;
		for (enum spool_sink which = 0; which < SPOOL_SINKS; which++)
			if (!a->sinks[which].failures)
				a->sinks[which].due_ns = now;
	}
	for (enum spool_sink which = 0; which < SPOOL_SINKS && rc == 0; which++) {
		struct error problem = { 0 };

		if (now < a->sinks[which].due_ns)
			continue;
		if (ship(a, which, clock_monotonic_ns() + SHIP_NS, &problem) < 0)
			warn(a, &a->sinks[which].problem, &problem);
		else
			a->sinks[which].problem = 0;
	}
	return rc;
}

static void send_metrics(struct agent *a, uint64_t now)
{
	_cleanup_strbuf_ struct strbuf body = STRBUF_INIT;
	struct error problem = { 0 };

	a->otlp_due_ns = now + a->options->otlp_ns;
	a->options->render_metrics(a, a->options->service, &body);
	if (http_push_send(a->otlp, &body, &problem) < 0)
		warn(a, &a->otlp_problem, &problem);
	else
		a->otlp_problem = 0;
}

int agent_step(struct agent *a, uint64_t *due_ns, struct error *e)
{
	uint64_t now = clock_monotonic_ns();
	int rc = 0;

	if (now >= a->read_due_ns) {
		rc = read_all(a, false, e);
		a->read_due_ns = now + a->options->read_ns;
	}
	if (rc >= 0)
		rc = step_shipping(a, now, e);
	if (a->rows.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (rc < 0)
		warn(a, &a->problem, e);
	else
		a->problem = 0;
	*due_ns = MIN(a->read_due_ns, a->ship_due_ns);
	for (enum spool_sink which = 0; which < SPOOL_SINKS; which++)
		*due_ns = MIN(*due_ns, a->sinks[which].due_ns);
	if (a->otlp && now >= a->otlp_due_ns)
		send_metrics(a, now);
	if (a->otlp)
		*due_ns = MIN(*due_ns, a->otlp_due_ns);
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
	if (a->otlp)
		send_metrics(a, clock_monotonic_ns());
	rc = rc < 0 ? rc : commit(a, e);
	return rc < 0 ? rc : ship_all(a, e);
}

/* --- begin and end --- */

int agent_open(struct agent *a, struct error *e)
{
	_cleanup_strbuf_ struct strbuf state = STRBUF_INIT;
	int rc;

	fleet_rows_init(&a->rows);
	a->spool.folder = a->spool.lock = -1;
	a->spool.bytes_max = a->options->spool_bytes;
	a->sources.roots = a->options->recordings;
	a->sources.pids = a->options->pids;
	a->sources.pid_count = a->options->pid_count;
	a->sources.no_processes = a->options->no_processes;
	a->sources.keep_ns = a->options->hold_ns;
	a->lake.mode = a->options->mode;
	rc = lake_open(&a->lake, a->options->lake, &a->options->s3, e);
	if (rc == 0 && a->options->kafka.brokers)
		rc = kafka_open(&a->kafka, &a->options->kafka, e);
	if (rc == 0 && a->options->otlp.url)
		rc = http_push_open(&a->otlp, &a->options->otlp, e);
	if (rc == 0 && a->options->profiles.url)
		rc = http_push_open(&a->profiles, &a->options->profiles, e);
	if (rc == 0 && a->options->gpufl.url)
		rc = gpufl_windows_check(&a->options->gpufl, e);
	a->begun_ns = clock_read_ns(CLOCK_REALTIME);
	a->spool.window_sinks = 1u << SPOOL_LAKE | (a->options->gpufl.url ? 1u << SPOOL_GPUFL : 0);
	a->spool.has_kafka = a->kafka;
	rc = rc < 0 ? rc : spool_open(&a->spool, a->options->spool, &state, e);
	if (rc == 0 && state.length)
		rc = agent_state_read(&state, &a->spool, &a->sources, e);
	else if (rc == 0 && getrandom(&a->spool.agent, sizeof(a->spool.agent), 0) < 0)
		rc = error_errno(e, errno, "no random number");
	rc = rc < 0 ? rc : spool_recover(&a->spool, e);
	if (rc < 0)
		return rc;
	gpufl_windows_clean(a->spool.folder);
	append_dropped(a);
	append_refused(a);
	if (a->options->rules->count) {
		a->windows = windows_new(a->options->rules, &a->sources, &a->spool);
		if (!a->windows)
			return error_set(e, -ENOMEM, "out of memory");
		a->sources.keep_ns = MAX(a->sources.keep_ns,
					 windows_keep_ns(a->windows) + 2 * a->options->read_ns);
	}
	a->read_due_ns = clock_monotonic_ns();
	a->otlp_due_ns = a->read_due_ns + hash_u64(a->spool.agent) % a->options->otlp_ns;
	for (enum spool_sink which = 0; which < SPOOL_SINKS; which++)
		a->sinks[which].due_ns = a->read_due_ns;
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
	kafka_free(a->kafka);
	http_push_free(a->otlp);
	http_push_free(a->profiles);
}
