#include "analysis/cost.h"

#include <errno.h>
#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/report.h"
#include "base/human.h"
#include "schema/event_words.h"
#include "trace/events.h"

/* Number of distinct reasons and details; more are added to the last item of their reason. */
#define LOSSES_MAX 256

/* Whether a kind is measured by the program's clock rather than in CPU time. */
static bool is_clocked(unsigned kind)
{
	return kind != cost_kind_collector && kind != cost_kind_sampler;
}

static void sum_costs(const struct trace *t, struct cost *out)
{
	const struct cost_columns *c = cost_columns(t);

	for (uint64_t row = 0; row < trace_rows(t, TABLE_cost); row++) {
		struct cost_sum *sum = c->kind[row] < COST_KINDS ? &out->kinds[c->kind[row]] : NULL;

		if (!sum || (out->clock_replaced && is_clocked(c->kind[row])))
			continue;
		sum->any = true;
		sum->count += c->count[row];
		sum->total_ns += c->total_ns[row];
		sum->bytes += column_has(c->valid.bytes, row) ? c->bytes[row] : 0;
	}
	out->target_ns =
		out->kinds[cost_kind_callback].total_ns + out->kinds[cost_kind_setup].total_ns +
		out->kinds[cost_kind_replay].total_ns + out->kinds[cost_kind_exit].total_ns +
		out->kinds[cost_kind_buffer_request].total_ns +
		out->kinds[cost_kind_timer_sample].total_ns;
}

static void sum_overhead(const struct trace *t, struct cost *out)
{
	struct event_columns c = events_of(t, TABLE_overhead);

	out->overhead_count = c.rows;
	for (uint64_t row = 0; row < c.rows; row++)
		if (event_is_timed(&c, row))
			out->overhead_ns += c.end_ns[row] - c.start_ns[row];
}

static struct loss_sum *loss_of(struct cost *c, const struct trace_loss *l)
{
	struct loss_sum *same_reason = NULL;

	for (size_t i = 0; i < c->loss_count; i++) {
		if (c->losses[i].reason != l->reason)
			continue;
		same_reason = &c->losses[i];
		if (!strcmp(same_reason->detail, l->detail))
			return same_reason;
		/* many workers may end by _exit, and each lacks the same */
		if (l->reason == loss_reason_truncated_file) {
			same_reason->detail = "";
			return same_reason;
		}
	}
	if (c->loss_count >= LOSSES_MAX && same_reason)
		return same_reason;
	if (c->loss_count >= 2 * LOSSES_MAX)
		return &c->losses[c->loss_count - 1];
	c->losses[c->loss_count] = (struct loss_sum){ .reason = l->reason,
						      .detail = l->detail,
						      .start_ns = l->start_ns };
	return &c->losses[c->loss_count++];
}

static void add_to_share(struct lost_share *s, uint64_t count)
{
	add_lost(&s->lost, count);
	s->least |= !count;
}

static void count_events(const struct trace *t, struct cost *out)
{
	static const enum table_id gpu[] = {
		TABLE_kernel,   TABLE_memcpy,     TABLE_memset,          TABLE_graph_launch,
		TABLE_overhead, TABLE_cuda_event, TABLE_synchronization,
	};
	static const enum table_id others[] = { TABLE_nvtx, TABLE_api_call, TABLE_cpu_sample };

	for (size_t i = 0; i < ARRAY_SIZE(gpu); i++)
		out->gpu.recorded += trace_rows(t, gpu[i]);
	out->all.recorded = out->gpu.recorded;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		out->all.recorded += trace_rows(t, others[i]);
}

static int sum_losses(struct trace *t, struct cost *out, struct error *e)
{
	const struct trace_loss *losses;
	size_t count;
	int rc = trace_losses(t, &losses, &count, e);

	if (rc < 0)
		return rc;
	out->losses = calloc(2 * LOSSES_MAX, sizeof(*out->losses));
	if (!out->losses)
		return error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct loss_sum *sum = loss_of(out, &losses[i]);
		enum loss_items items = loss_items(losses[i].reason);

		sum->rows++;
		if (items == LOST_EVENTS || items == LOST_GPU_RECORDS)
			add_to_share(&out->all, losses[i].count);
		if (items == LOST_GPU_RECORDS)
			add_to_share(&out->gpu, losses[i].count);
		if (items == LOST_TAIL)
			sum->tails += trace_process_events(t, losses[i].process);
		add_lost(&sum->count, losses[i].count);
		sum->unknown |= !losses[i].count;
		sum->start_ns = MIN(sum->start_ns, losses[i].start_ns);
		sum->end_ns = MAX(sum->end_ns, losses[i].end_ns);
		add_lost(&sum->length_ns,
			 MAX(losses[i].end_ns, losses[i].start_ns) - losses[i].start_ns);
	}
	return 0;
}

static uint64_t recorded_of(const struct trace *t, const struct cost *c, const struct loss_sum *l)
{
	switch (loss_items(l->reason)) {
	case LOST_GPU_RECORDS:
	case LOST_GPU_TIMES:
		return c->gpu.recorded;
	case LOST_NAMES:
		return trace_rows(t, TABLE_cpu_sample) + trace_rows(t, TABLE_api_call);
	case LOST_TAIL:
		return l->tails;
	default:
		return c->all.recorded;
	}
}

static void grade_losses(const struct trace *t, struct cost *out)
{
	out->effect = MAX(lost_share_effect(&out->all), lost_share_effect(&out->gpu));
	for (size_t i = 0; i < out->loss_count; i++) {
		struct loss_sum *l = &out->losses[i];

		l->effect = loss_effect(loss_items(l->reason), l->unknown ? 0 : l->count,
					recorded_of(t, out, l));
		out->effect = MAX(out->effect, l->effect);
	}
}

int cost_analyze(struct trace *t, struct cost *out, struct error *e)
{
	struct capability_note clock;
	int rc = trace_load(t, TABLE_cost, 0, e);

	*out = (struct cost){ 0 };
	if (rc >= 0)
		rc = capability_find(t, feature_cost, &clock, e);
	if (rc >= 0)
		rc = trace_load(t, TABLE_overhead, COLUMN_BITS(overhead, start_ns, end_ns), e);
	if (rc >= 0)
		rc = sum_losses(t, out, e);
	if (rc < 0)
		return rc;
	capability_read(t, feature_own_profiler, &out->own_profiler);
	out->clock_replaced = clock.known && clock.state != capability_state_on;
	count_events(t, out);
	grade_losses(t, out);
	sum_costs(t, out);
	sum_overhead(t, out);
	return 0;
}

void cost_release(struct cost *c)
{
	free(c->losses);
	*c = (struct cost){ 0 };
}

const struct loss_sum *cost_find_loss(const struct cost *c, enum loss_reason reason)
{
	for (size_t i = 0; i < c->loss_count; i++)
		if (c->losses[i].reason == reason)
			return &c->losses[i];
	return NULL;
}

enum loss_effect lost_share_effect(const struct lost_share *s)
{
	return s->lost ? loss_effect(LOST_EVENTS, s->lost, s->recorded) : LOSS_CHANGES_NOTHING;
}

const struct loss_sum *cost_worst_loss(const struct cost *c)
{
	const struct loss_sum *worst = c->losses;

	for (size_t i = 1; i < c->loss_count; i++) {
		const struct loss_sum *l = &c->losses[i];

		if (l->effect > worst->effect ||
		    (l->effect == worst->effect &&
		     MAX(l->count, l->rows) > MAX(worst->count, worst->rows)))
			worst = l;
	}
	return c->loss_count ? worst : NULL;
}

void loss_sum_text(const struct loss_sum *l, struct strbuf *out)
{
	if (l->reason == loss_reason_own_profiler) {
		own_profiler_windows(out, l->length_ns, l->rows);
		return;
	}
	if (l->count)
		human_count(out, l->count);
	else
		strbuf_adds(out, "some");
	strbuf_addf(out, "%s %s", l->count && l->unknown ? " or more" : "",
		    loss_text(l->reason, l->unknown ? 0 : l->count));
}

const char *cost_kind_name(unsigned kind)
{
	return event_value_name(TABLE_cost, COLUMN_cost_kind, kind);
}

static int load(struct trace *t, struct error *e)
{
	int rc = 0;

	for (uint32_t id = 1; id <= TABLE_MAX && rc >= 0; id++)
		rc = trace_load(t, id, 1,
				e); /* loading any column verifies all blocks of a table */
	return rc;
}

static int run(struct report *r, void *out)
{
	return cost_analyze(r->trace, out, NULL);
}

/* Damage is known only for loaded tables, so losses are collected after all other analyses. */
const struct analysis analysis_cost = {
	.size = sizeof(struct cost),
	.needs = { { TABLE_cost, 0 },
		   { TABLE_loss, 0 },
		   { TABLE_overhead, COLUMN_BITS(overhead, start_ns, end_ns) } },
	.load = load,
	.run = run,
	.owned = { OWNS(struct cost, losses) },
	.reads_others = true,
};
