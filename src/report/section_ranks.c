/* section_ranks.c: where the time of each rank went, and which rank the others wait for. */
#include "report/section.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/rank_times.h"
#include "base/human.h"
#include "report/rank_doubts.h"
#include "report/section_html.h"
#include "report/words.h"

static size_t index_of(const struct report_view *v, const void *row)
{
	return (size_t)((const struct rank_time *)row - v->report->rank_times->items);
}

static const struct job_rank *job_rank_of(const struct report_view *v, const void *row)
{
	return &v->report->collectives->ranks[index_of(v, row)];
}

/* All ranks by their numbers; if there are more than the text shows, by how late they are. */
static const void *rank_row(const struct report_view *v, const void *result, size_t i)
{
	const struct rank_times *t = result;

	if (i >= t->count)
		return NULL;
	return &t->items[t->count > v->top ? t->by_late[i] : i];
}

static const char *state_name(unsigned state)
{
	static const char *const names[RANK_STATES] = {
		[RANK_COMPUTE] = "compute",   [RANK_COPY] = "copy", [RANK_HOST] = "host",
		[RANK_TRANSFER] = "transfer", [RANK_WAIT] = "wait",
	};

	return names[state];
}

static void add_place_text(const struct report *r, const struct rank_place *place,
			   struct strbuf *out)
{
	const struct interned *text = &r->rank_times->texts.items[place->text];

	if (place->kind == PLACE_UNKNOWN) {
		strbuf_adds(out, "(unknown)");
		return;
	}
	strbuf_adds(out, place->kind == PLACE_RANGE ? "range " : "");
	text_safe(out, text->text, text->length);
}

ROW_READ(read_number, void, out->n = job_rank_of(v, row)->number)
ROW_READ(read_gpu, void, out->n = job_rank_of(v, row)->gpu_number)
ROW_READ(read_pid, void, out->n = job_rank_of(v, row)->pid)
ROW_READ(read_cause_rank, struct late_cause,
	 out->n = v->report->collectives->ranks[row->rank].number)
ROW_READ(read_place, struct late_cause, add_place_text(v->report, &row->place, &out->text))

static uint32_t number_of(const struct report *r, uint32_t rank)
{
	return r->collectives->ranks[rank].number;
}

/* Appends why a rank is late: "its GPU was idle while the host was in range data". */
static void add_place(const struct report *r, const struct rank_place *place, const char *whose,
		      struct strbuf *out)
{
	static const char *const words[RANK_STATES] = {
		[RANK_COMPUTE] = " GPU ran kernels launched in ",
		[RANK_COPY] = " GPU copied or set memory for ",
		[RANK_HOST] = " GPU was idle while the host was in ",
		[RANK_TRANSFER] = " GPU was in collectives of ",
	};

	if (place->state == RANK_HOST && place->kind == PLACE_KERNEL) {
		strbuf_addf(out, "%s GPU was idle before the launch of ", whose);
	} else {
		strbuf_addf(out, "%s%s", whose, words[place->state]);
	}
	add_place_text(r, place, out);
}

static void add_cause(const struct report *r, const struct late_cause *c, const char *whose,
		      struct strbuf *out)
{
	add_place(r, &c->place, whose, out);
	sentence_add(out, WORDS(": "), COUNTED_AS(c->count, "time"), WORDS(", for "),
		     DURATION(c->excess_ns / c->count),
		     WORDS(" longer than the others; that delayed them by "),
		     DURATION(c->late_ns / c->count), WORDS(" each time"));
}

static const char *round_name(unsigned kind)
{
	static const char *const names[ROUND_KINDS] = {
		[ROUND_COLLECTIVE] = "collective",
		[ROUND_REPETITION] = "round",
		[ROUND_STEP] = "step",
	};

	return names[kind];
}

#define SHARE_WHOLE 1000000u

/* Groups of ranks may each have a late one at the same time. */
static uint64_t share_n(double share)
{
	return (uint64_t)llround(fmin(share, 1) * SHARE_WHOLE);
}

/* " (37.1%; 34.8% to 39.2% by resampled steps)" */
static void add_share(const struct rank_times *t, const struct late_share *share,
		      struct strbuf *out)
{
	sentence_add(out, WORDS(" ("), PERCENT(share_n(share->value), SHARE_WHOLE));
	if (!isnan(share->low))
		sentence_add(out, WORDS("; "), PERCENT(share_n(share->low), SHARE_WHOLE),
			     WORDS(" to "), PERCENT(share_n(share->high), SHARE_WHOLE),
			     WORDS(" by resampled "), WORDS(round_name(t->rounds.kind)),
			     WORDS("s"));
	strbuf_adds(out, ")");
}

/* "that is 1.02 ms a step, and in 29 of 30 steps" */
static void add_rounds(const struct rank_times *t, struct strbuf *out)
{
	sentence_add(out, WORDS("that is "),
		     DURATION(rank_times_round_ns(t, t->evidence.own.value)), WORDS(" a "),
		     WORDS(round_name(t->rounds.kind)), WORDS(", and in "), NUMBER(t->late_rounds),
		     WORDS(" of "), COUNTED_AS(t->rounds.items.count, round_name(t->rounds.kind)));
	if (t->rounds.items.count < LATE_ROUNDS_LEAST)
		strbuf_adds(out, ", which are too few to tell a habit from chance");
	strbuf_adds(out, "\n");
}

static void add_late(const struct report *r, struct strbuf *out)
{
	const struct rank_times *t = r->rank_times;
	struct rank_time sum = { 0 };

	for (uint32_t i = t->rank; i < t->count && number_of(r, i) == number_of(r, t->rank); i++) {
		sum.last += t->items[i].last;
		sum.late_ns += t->items[i].late_ns;
	}
	sentence_add(out, WORDS("rank "), NUMBER(number_of(r, t->rank)), WORDS(" was the last at "),
		     NUMBER(sum.last), WORDS(" of "), COUNTED_AS(t->compared, "collective"),
		     WORDS(", and delayed the other ranks by "), DURATION(sum.late_ns),
		     WORDS(" of "), DURATION(t->span_ns));
	add_share(t, &t->evidence.own, out);
	strbuf_adds(out, "\n");
	add_rounds(t, out);
	if (t->cause && t->cause->count) {
		add_cause(r, t->cause, "its", out);
		strbuf_addc(out, '\n');
	}
}

#define TURNS_SHOWN 4
#define TURN_PERCENT 10 /* of the delays: less is not told */

/* The ranks that are late in turn, because of their common place if there is one. */
static void add_turns(const struct report *r, struct strbuf *out)
{
	const struct rank_times *t = r->rank_times;
	struct late_cause all = { 0 };
	uint32_t alike = 0, told = 0;

	sentence_add(out, WORDS("several ranks delayed the others by "), DURATION(t->late_ns),
		     WORDS(" of "), DURATION(t->span_ns));
	add_share(t, &t->evidence.all, out);
	strbuf_adds(out, "\n");
	for (size_t i = 0; t->cause && i < t->cause_count; i++) {
		const struct late_cause *c = &t->causes[i];

		if (!c->count || !rank_place_equal(c->place, t->cause->place))
			continue;
		all.place = c->place;
		all.count += c->count;
		all.late_ns += c->late_ns;
		all.excess_ns += c->excess_ns;
		alike++;
	}
	if (alike > TURNS_SHOWN) {
		sentence_add(out, COUNTED_AS(alike, "rank"), WORDS(": "));
		add_cause(r, &all, "a", out);
		strbuf_addc(out, '\n');
		return;
	}
	for (size_t i = 0; i < t->cause_count && told < TURNS_SHOWN; i++) {
		const struct late_cause *c = &t->causes[i];

		if (!c->count || c->late_ns < t->late_ns / 100 * TURN_PERCENT ||
		    (t->cause && !rank_place_equal(c->place, t->cause->place)))
			continue;
		sentence_add(out, WORDS("rank "), NUMBER(number_of(r, c->rank)), WORDS(": "));
		add_cause(r, c, "its", out);
		strbuf_addc(out, '\n');
		told++;
	}
	if (!told)
		strbuf_adds(out,
			    "no rank and no place of the program is to blame for much of that\n");
}

/* The last call of a process; NULL: none is known, or only ranks were read. */
static const struct task *last_call(const struct report *r, uint32_t process)
{
	const struct task *last = NULL;

	for (size_t i = 0; i < causes_task_count(&r->causes); i++) {
		const struct task *task = &r->causes.tasks.data[i];

		if (task->kind == TASK_CALL &&
		    r->causes.lanes.data[task->lane].process == process &&
		    (!last || task->start_ns > last->start_ns))
			last = task;
	}
	return last;
}

/* What the rank that did not come did last, and how its threads are found. */
static void add_last_call(const struct report *r, struct strbuf *out)
{
	const struct job_rank *rank = &r->collectives->ranks[r->rank_times->rank];
	const struct task *call = last_call(r, rank->process);
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	if (call) {
		path_place_text(r, path_place_of_call(r, call), false, &name);
		sentence_add(out, WORDS("its last call was "),
			     DURATION(r->end_ns - MIN(call->end_ns, r->end_ns)),
			     WORDS(" before the end: "));
		text_safe(out, strbuf_text(&name), name.length);
		strbuf_adds(out, " from ");
		report_line_text(r, path_place_of_host(r, call).key, CALLER_NONE, out);
		strbuf_adds(out, "\n");
	}
	strbuf_addf(out, "where its threads are while it hangs: pitot dump --stacks %u\n",
		    rank->pid);
}

static void add_hung(const struct report *r, struct strbuf *out)
{
	const struct rank_times *t = r->rank_times;
	const struct collective_part *first = &r->collectives->parts.data[t->hung->first];

	sentence_add(out, WORDS("rank "), NUMBER(number_of(r, t->rank)), WORDS(" did not come to "),
		     WORDS(schema_value_name(
			     &schema_table(TABLE_collective)->columns[COLUMN_collective_function],
			     first->function)),
		     WORDS(" number "), NUMBER(first->sequence + first->inferred),
		     WORDS(", for which "), COUNTED_AS(t->hung->parts, "rank"),
		     WORDS(" waited until the end of the recording, "), DURATION(t->hung_ns),
		     WORDS("\n"));
	add_last_call(r, out);
}

/* What collectives cost all ranks. */
static void add_communication(const struct report *r, struct strbuf *out)
{
	const struct rank_times *t = r->rank_times;
	uint64_t total = rank_times_total(t), wait = rank_times_sum(t, RANK_WAIT);
	uint64_t transfer = rank_times_sum(t, RANK_TRANSFER);

	if (!total)
		return;
	sentence_add(out, WORDS("exposed communication "), PERCENT(wait + transfer, total),
		     WORDS(" of the GPUs' time, of which waiting for other ranks "),
		     PERCENT(wait, wait + transfer), WORDS("\n"));
}

/* By how much ranks that are alike delay each other, and why that is no verdict. */
static void add_alike(const struct report *r, struct strbuf *out)
{
	const struct rank_times *t = r->rank_times;
	const struct late_share *all = &t->evidence.all;

	sentence_add(out, COUNTED_AS(t->count, "rank"),
		     WORDS(" are bound alike: they delay each other by "), DURATION(t->late_ns),
		     WORDS(" of "), DURATION(t->span_ns));
	add_share(t, all, out);
	if (all->value * 100 <= JOB_LATE_PERCENT)
		strbuf_adds(out, "\n");
	else if (late_share_proven(all) * 100 <= JOB_LATE_PERCENT ||
		 rank_times_is_long(t, all->value))
		strbuf_adds(out, ", which may be chance\n");
	else
		sentence_add(out, WORDS(", rank "), NUMBER(number_of(r, t->latest)),
			     WORDS(" most; "), DURATION(rank_times_round_ns(t, all->value)),
			     WORDS(" a "), WORDS(round_name(t->rounds.kind)),
			     WORDS(" is no more than ranks of balanced programs differ by, "),
			     DURATION(JOB_LATE_NS), WORDS("\n"));
}

bool report_job_text(const struct report *r, struct strbuf *heading, struct strbuf *out)
{
	const struct rank_times *t = r->rank_times;
	const struct collectives *c = r->collectives;

	if (c->repeated && !c->mixed)
		ranks_add_restarted(c, out);
	switch (t->kind) {
	case JOB_SINGLE:
		return false;
	case JOB_UNKNOWN:
		ranks_add_unknown(r, out);
		return false;
	case JOB_HUNG:
		strbuf_addf(heading, "hung: rank %u did not come", number_of(r, t->rank));
		add_hung(r, out);
		return true;
	case JOB_RANK:
		strbuf_addf(heading, "bound by rank %u", number_of(r, t->rank));
		add_late(r, out);
		break;
	case JOB_TURNS:
		strbuf_adds(heading, "bound by several ranks");
		add_turns(r, out);
		break;
	case JOB_COMMUNICATION:
		strbuf_adds(heading, "communication-bound, all ranks alike");
		break;
	default:
		add_alike(r, out);
		break;
	}
	add_communication(r, out);
	return t->kind != JOB_ALIKE;
}

static const char *job_name(unsigned kind)
{
	static const char *const names[JOB_KINDS] = {
		[JOB_SINGLE] = "single", [JOB_UNKNOWN] = "unknown",
		[JOB_HUNG] = "hung",     [JOB_RANK] = "rank",
		[JOB_TURNS] = "turns",   [JOB_COMMUNICATION] = "communication",
		[JOB_ALIKE] = "alike",
	};

	return names[kind];
}

ROW_IF(is_measured, struct rank_time, row->collectives)
ROW_IF(knows_wait, struct rank_time, row->collectives && v->report->rank_times->waits_known)
ROW_IF(knows_late, struct rank_time,
       row->collectives &&rank_times_late_known(v->report->rank_times))

#define TIME(member) MEMBER(struct rank_time, member)
#define STATE(state) TIME(state_ns[RANK_##state])
#define IF_MEASURED .when = is_measured, .null = true
#define IF_WAIT .when = knows_wait, .null = true
#define IF_LATE .when = knows_late, .null = true

static const struct field rank_fields[] = {
	FIELD("rank", "rank", ID, .value = read_number),
	FIELD("gpu", "GPU", ID, .value = read_gpu),
	FIELD("pid", "pid", ID, .value = read_pid),
	FIELD("compute_ns", "kernels", NS, STATE(COMPUTE), IF_MEASURED),
	FIELD("copy_ns", "copies", NS, STATE(COPY), IF_MEASURED),
	FIELD("host_ns", "idle", NS, STATE(HOST), IF_MEASURED),
	FIELD("transfer_ns", "transfers", NS, STATE(TRANSFER), IF_WAIT),
	FIELD("wait_ns", "waiting", NS, STATE(WAIT), IF_WAIT),
	FIELD("collectives", NULL, COUNT, TIME(collectives)),
	FIELD("last", "last", COUNT, TIME(last), IF_LATE),
	FIELD("late_ns", "late by", NS, TIME(late_ns), IF_LATE),
};

/* --- measures --- */

#define X(id, key, head, unit) { key, head, UNIT_##unit },
static const struct measure {
	const char *key, *head;
	enum unit unit;
} measures[] = { RANK_MEASURES(X) };
#undef X

static void read_measure(const struct rank_measures *m, enum rank_measure measure,
			 struct value *out)
{
	double value = m->values[measure];

	if (isfinite(value))
		out->n = (uint64_t)llround(value);
	else
		out->state = VALUE_UNKNOWN;
}

ROW_READ(read_measured, struct rank_measures,
	 out->n = v->report->collectives->ranks[row - v->report->rank_times->measured.items].number)

#define X(id, ...)                                                                                 \
	ROW_READ(read_measure_##id, struct rank_measures, read_measure(row, MEASURE_##id, out))
RANK_MEASURES(X)
#undef X

#define X(id, key, head, unit)                                                                     \
	FIELD(key, head, unit, .value = read_measure_##id,                                         \
	      HEAT(struct rank_measures, heat[MEASURE_##id])),
static const struct field measure_fields[] = { FIELD("rank", "rank", ID, .value = read_measured),
					       RANK_MEASURES(X) };
#undef X

static const void *measured_row(const struct report_view *v, const void *result, size_t i)
{
	const struct rank_times *t = result;
	const struct rank_time *time = rank_row(v, result, i);

	return time ? &t->measured.items[time - t->items] : NULL;
}

static void add_amount(const struct report_view *v, const struct rank_outlier *o, double amount,
		       struct strbuf *out)
{
	const struct field f = { .unit = measures[o->measure].unit };

	value_text(v, &f, &(struct value){ .n = (uint64_t)llround(amount) }, out);
}

ROW_READ(read_outlier, struct rank_outlier,
	 out->n = v->report->collectives->ranks[row->rank].number)
ROW_READ(read_outlier_key, struct rank_outlier, strbuf_adds(&out->text, measures[row->measure].key))
ROW_READ(read_outlier_head, struct rank_outlier,
	 strbuf_adds(&out->text, measures[row->measure].head))
ROW_READ(read_outlier_amount, struct rank_outlier, add_amount(v, row, row->value, &out->text))
ROW_READ(read_outlier_median, struct rank_outlier, add_amount(v, row, row->median, &out->text))

#define OUTLIER(member) MEMBER(struct rank_outlier, member)

static const struct field outlier_fields[] = {
	FIELD(NULL, "outlier in", TEXT, .value = read_outlier_head, LEFT_COLUMN),
	FIELD("rank", "rank", ID, .value = read_outlier),
	FIELD("measure", NULL, TEXT, .value = read_outlier_key),
	FIELD("value", NULL, REAL, OUTLIER(value)),
	FIELD("median", NULL, REAL, OUTLIER(median)),
	FIELD(NULL, "value", TEXT, .value = read_outlier_amount, .layout = LAYOUT_RIGHT),
	FIELD(NULL, "median", TEXT, .value = read_outlier_median, .layout = LAYOUT_RIGHT),
	FIELD("score", "score", REAL, OUTLIER(score)),
};

ROW_IF(has_outliers, struct rank_times, row->count >= SPREAD_VALUES_MIN)

static void add_rules(const struct report_view *v, struct strbuf *out)
{
	const struct rank_times *t = v->report->rank_times;

	if (v->html && t->count > 1)
		strbuf_adds(out, "colours: below (blue) or above (orange) the median of the ranks, "
				 "stronger up to twice the smallest difference that counts\n");
	report_links_text(v->report, out);
	if (t->count > 1 && t->count < SPREAD_VALUES_MIN)
		sentence_add(out, WORDS("outliers are not judged: there are fewer than "),
			     COUNTED_AS(SPREAD_VALUES_MIN, "rank"), WORDS("\n"));
}

/* --- evidence --- */

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

ROW_IF(is_judged, struct rank_times, row->rounds.items.count)
ROW_IF(has_latest, struct rank_times, row->evidence.own.value > 0)
ROW_READ(read_latest, struct rank_times, out->n = number_of(v->report, row->latest))

#define PERCENT_OF(name, share)                                                                    \
	ROW_READ(read_##name, struct rank_times, out->n = bits_of(100 * row->evidence.share))
PERCENT_OF(all, all.value)
PERCENT_OF(all_low, all.low)
PERCENT_OF(all_high, all.high)
PERCENT_OF(own, own.value)
PERCENT_OF(own_low, own.low)
PERCENT_OF(own_high, own.high)
PERCENT_OF(part, part.value)
PERCENT_OF(part_low, part.low)
PERCENT_OF(part_high, part.high)

#define SHARE_FIELDS(key, name)                                                                    \
	FIELD(key "_percent", NULL, REAL, .value = read_##name),                                   \
		FIELD(key "_percent_low", NULL, REAL, .value = read_##name##_low),                 \
		FIELD(key "_percent_high", NULL, REAL, .value = read_##name##_high)

static const struct field evidence_fields[] = {
	FIELD("round", NULL, CHOICE, MEMBER(struct rank_times, rounds.kind), .names = round_name),
	FIELD("rounds", NULL, COUNT, MEMBER(struct rank_times, rounds.items.count)),
	SHARE_FIELDS("late", all),
	FIELD("rank", NULL, ID, .value = read_latest, .when = has_latest, .null = true),
	FIELD("rank_rounds", NULL, COUNT, MEMBER(struct rank_times, late_rounds)),
	SHARE_FIELDS("rank", own),
	SHARE_FIELDS("rank_part", part),
};

static const struct field cause_fields[] = {
	FIELD("late_ns", "late by", NS, MEMBER(struct late_cause, late_ns)),
	FIELD("excess_ns", "longer", NS, MEMBER(struct late_cause, excess_ns)),
	FIELD("count", "count", COUNT, MEMBER(struct late_cause, count)),
	FIELD("rank", "rank", ID, .value = read_cause_rank),
	FIELD("state", "because of", CHOICE, MEMBER(struct late_cause, place.state),
	      .names = state_name, LEFT_COLUMN),
	FIELD("place", "place", TEXT, .value = read_place, FLEXIBLE_COLUMN),
};

/* --- clocks of hosts --- */

/* The hosts of the job; none if there is only one. */
static const void *host_row(const struct report_view *v, const void *result, size_t i)
{
	const struct collectives *c = v->report->collectives;

	(void)result;
	return c->host_count > 1 && i < c->host_count ? &c->hosts[i] : NULL;
}

static bool is_reference(const struct report_view *v, const struct job_host *h)
{
	const struct collectives *c = v->report->collectives;

	return h == &c->hosts[c->ranks[0].host];
}

static const char *clock_method(const struct report_view *v, const struct job_host *h)
{
	return is_reference(v, h)  ? "reference"
	       : h->clock.by_limit ? "realtime"
	       : h->clock.count    ? "collectives"
				   : "none";
}

/* What the OS kernel says of it. */
static void add_realtime(const struct realtime_error *e, struct strbuf *out)
{
	if (!e->is_known || e->unsynchronized || e->bound_ns == UINT64_MAX) {
		strbuf_adds(out, !e->is_known        ? "unknown"
				 : e->unsynchronized ? "not synchronized"
						     : "synchronized");
		return;
	}
	strbuf_adds(out, "within ");
	human_duration(out, e->bound_ns);
}

static void add_signed(int64_t ns, struct strbuf *out)
{
	strbuf_adds(out, ns < 0 ? "-" : "");
	human_duration(out, ns < 0 ? -(uint64_t)ns : (uint64_t)ns);
}

ROW_IF(has_clock, struct job_host, row->clock.count)
ROW_IF(has_word, struct job_host, row->realtime.is_known)
ROW_IF(has_bound, struct job_host, row->realtime.is_known && row->realtime.bound_ns != UINT64_MAX)
ROW_READ(read_synchronized, struct job_host, out->n = !row->realtime.unsynchronized)
ROW_READ(read_realtime, struct job_host, add_realtime(&row->realtime, &out->text))
ROW_READ(read_host_name, struct job_host, ranks_add_host(v->report, row, &out->text))
ROW_READ(read_method, struct job_host, strbuf_adds(&out->text, clock_method(v, row)))
ROW_READ(read_ahead, struct job_host, out->n = bits_of((double)row->clock.pieces[0].offset_ns))
ROW_READ(read_ahead_text, struct job_host, add_signed(row->clock.pieces[0].offset_ns, &out->text))
ROW_READ(read_drift, struct job_host, out->n = bits_of(1e6 * row->clock.pieces[0].rate))
ROW_READ(read_drift_text, struct job_host,
	 strbuf_addf(&out->text, "%.2f ppm", 1e6 * row->clock.pieces[0].rate))
ROW_READ(read_steps, struct job_host, out->n = row->clock.count - 1)

#define IF_CLOCK .when = has_clock, .null = true

static const struct field host_fields[] = {
	FIELD("host", "host", TEXT, .value = read_host_name, LEFT_COLUMN),
	FIELD("realtime", NULL, FLAG, MEMBER(struct job_host, has_realtime)),
	FIELD("method", "clock by", TEXT, .value = read_method, LEFT_COLUMN),
	FIELD("ahead_ns", NULL, REAL, .value = read_ahead, IF_CLOCK),
	FIELD(NULL, "ahead by", TEXT, .value = read_ahead_text, .layout = LAYOUT_RIGHT, IF_CLOCK),
	FIELD("drift_ppm", NULL, REAL, .value = read_drift, IF_CLOCK),
	FIELD(NULL, "drift", TEXT, .value = read_drift_text, .layout = LAYOUT_RIGHT, IF_CLOCK),
	FIELD("uncertainty_ns", "uncertainty", NS, MEMBER(struct job_host, clock.uncertainty_ns),
	      IF_CLOCK),
	FIELD("steps", "steps", COUNT, .value = read_steps, IF_CLOCK),
	FIELD("collectives", "collectives", COUNT, MEMBER(struct job_host, clock.meetings)),
	FIELD("synchronized", NULL, FLAG, .value = read_synchronized, .when = has_word,
	      .null = true),
	FIELD("realtime_error_ns", NULL, NS, MEMBER(struct job_host, realtime.bound_ns),
	      .when = has_bound, .null = true),
	FIELD(NULL, "CLOCK_REALTIME", TEXT, .value = read_realtime, LEFT_COLUMN),
};

ROW_IF(is_minor, struct late_cause, row->late_ns < v->report->rank_times->late_ns / 50)
ROW_IF(has_compared, struct rank_times, row->compared)
ROW_IF(has_late, struct rank_times, rank_times_late_known(row))
ROW_IF(names_rank, struct rank_times, row->kind == JOB_RANK || row->kind == JOB_HUNG)
ROW_READ(read_late_rank, struct rank_times, out->n = number_of(v->report, row->rank))

static const struct field fields[] = {
	FIELD("kind", NULL, CHOICE, MEMBER(struct rank_times, kind), .names = job_name),
	FIELD("rank", NULL, ID, .value = read_late_rank, .when = names_rank, .null = true),
	LIST("ranks", ITEMS(struct rank_times, items, count), rank_fields, .item = rank_row),
	LIST("causes", ITEMS(struct rank_times, causes, cause_count), cause_fields,
	     .ends = is_minor),
	LIST("measures", ITEMS(struct rank_times, measured.items, measured.count), measure_fields,
	     .item = measured_row),
	{
		.key = "outliers",
		.unit = UNIT_LIST,
		.when = has_outliers,
		.null = true,
		.list = &(const struct list){ ITEMS(struct rank_times, measured.outliers,
						    measured.outlier_count),
					      FIELDS(outlier_fields) },
	},
	LIST("hosts", ITEMS(struct rank_times, items, count), host_fields, .item = host_row),
	FIELD("span_ns", NULL, NS, MEMBER(struct rank_times, span_ns), .when = has_compared,
	      .null = true),
	FIELD("late_ns", NULL, NS, MEMBER(struct rank_times, late_ns), .when = has_late,
	      .null = true),
	OBJECT("evidence", evidence_fields, .when = is_judged, .null = true),
	FIELD("compared", NULL, COUNT, MEMBER(struct rank_times, compared)),
	FIELD("uncertain", NULL, COUNT, MEMBER(struct rank_times, uncertain)),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct rank_times *t = v->report->rank_times;

	if (!t->span_ns) {
		strbuf_adds(out, "no collectives to compare");
		return;
	}
	sentence_add(out, COUNTED_AS(t->compared, "collective"), WORDS(", ranks are late by "));
	if (rank_times_late_known(t))
		sentence_add(out, PERCENT(t->late_ns, t->span_ns), WORDS(" of "),
			     DURATION(t->span_ns));
	else
		sentence_add(out, WORDS("an unknown part of "), DURATION(t->span_ns));
	if (v->report->collectives->inferred)
		strbuf_adds(out, "; some are matched by name and order only");
}

ROW_IF(has_ranks, void, v->report->rank_times->count > 1)

static bool shown(const struct report_view *v)
{
	return has_ranks(v, NULL);
}

const struct section section_ranks = {
	.key = "job",
	.title = "ranks",
	RESULT(rank_times),
	FIELDS(fields),
	.shown = shown,
	.remark = add_remark,
	.after = add_rules,
};

/* Which recording it is, and how much of the job it has. */
static void print_head(const struct report_view *v)
{
	const struct collectives *c = v->report->collectives;
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT, text = STRBUF_INIT;
	size_t count = 0; /* a restarted rank is one */

	for (size_t i = 0; i < c->rank_count; i++)
		count += !i || c->ranks[i].number != c->ranks[i - 1].number;
	text_safe(&path, v->path, strlen(v->path));
	report_heading(v, strbuf_text(&path));
	sentence_add(&text, COUNTED_AS(count, "rank"));
	if (c->world > count)
		sentence_add(&text, WORDS(" of "), NUMBER(c->world));
	sentence_add(&text, WORDS(" with collectives, on "), COUNTED_AS(c->host_count, "host"));
	report_paragraph(v, 0, strbuf_text(&text));
}

void report_print_ranks(const struct report_view *v, bool json)
{
	_cleanup_strbuf_ struct strbuf heading = STRBUF_INIT, text = STRBUF_INIT;
	struct json j = JSON_PRETTY(v->out);

	if (json) {
		json_object(&j);
		json_key_string(&j, "recording", v->path);
		section_print_json(&section_ranks, v, &j);
		section_print_json(&section_topology, v, &j);
		section_print_json(&section_rank_path, v, &j);
		section_print_json(&section_rank_waits, v, &j);
		json_end(&j);
		strbuf_addc(v->out, '\n');
		return;
	}
	report_job_text(v->report, &heading, &text);
	ranks_add_absent(v->report, &text);
	if (v->report->rank_times->kind == JOB_SINGLE)
		strbuf_adds(&text, "fewer than two ranks with collectives\n");
	if (v->html) {
		html_begin(v, "report");
		html_section_begin(v, "header");
	}
	print_head(v);
	if (v->html) {
		html_section_end(v);
		html_section_begin(v, "verdict");
	}
	report_verdict(v, STYLE_YELLOW, heading.length ? strbuf_text(&heading) : "ranks", "");
	report_paragraph(v, 2, strbuf_text(&text));
	if (v->html) {
		html_section_end(v);
		html_section_begin(v, "ranks");
	}
	section_print_text(&section_ranks, v);
	section_print_text(&section_rank_path, v);
	section_print_text(&section_rank_waits, v);
	if (v->html) {
		html_section_end(v);
		html_end(v);
	}
}
