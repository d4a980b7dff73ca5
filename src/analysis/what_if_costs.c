/* what_if_costs.c: what recording adds to calls and graphs, measured or assumed. */
#include <math.h>

#include "analysis/graphs.h"
#include "analysis/what_if.h"

/*
 * On a busy machine a calibration is less certain than what is assumed without one: the mean of
 * both, each weighed by the square of how certain it is.
 */
static void weigh_calibration(struct what_if *w, uint64_t ns, uint64_t spread_ns)
{
	double measured, sum,
		assumed = 1 / ((double)WHAT_IF_CALL_SPREAD_NS * WHAT_IF_CALL_SPREAD_NS);

	w->call_ns = ns;
	if (!spread_ns || spread_ns == CALIBRATION_UNKNOWN)
		return;
	measured = 1 / ((double)spread_ns * (double)spread_ns);
	sum = measured + assumed;
	w->call_ns = (uint64_t)((measured * (double)ns + assumed * WHAT_IF_CALL_NS) / sum);
	w->call_spread_ns = (uint64_t)sqrt(1 / sum);
}

int what_if_choose_costs(struct what_if *w, const uint64_t *call_ns, const struct calibration *c,
			 struct error *e)
{
	struct trace *t = w->report->trace;
	bool is_ours = trace_process(t, w->process)->inside;
	struct calibration recorded;
	int code = calibration_recorded(&recorded, t, w->process, e);
	bool fits, has_eager;

	if (code < 0)
		return code;
	if (code)
		c = &recorded;
	has_eager = c && c->eager_ns != CALIBRATION_UNKNOWN;
	fits = is_ours && c && (code || calibration_fits(c, t, w->process, NULL) == 0);
	w->graph_launch_ns = fits ? c->graph_launch_bare_ns : CALIBRATION_UNKNOWN;
	w->graph_node_ns = fits ? c->node_call_bare_ns : CALIBRATION_UNKNOWN;
	w->node_latency_ns = fits ? c->node_latency_ns : CALIBRATION_UNKNOWN;
	if (call_ns) {
		w->call_source = CALL_COST_option;
		w->call_ns = *call_ns;
	} else if (fits) {
		w->call_source = CALL_COST_calibration;
		weigh_calibration(w, has_eager ? c->eager_ns : c->launch_ns,
				  has_eager ? c->eager_spread_ns : c->launch_spread_ns);
		w->synchronize_ns = c->synchronize_ns;
		if (c->graph_launch_ns != CALIBRATION_UNKNOWN &&
		    c->node_call_ns != CALIBRATION_UNKNOWN) {
			w->graph_added_ns = c->graph_launch_ns;
			w->node_added_ns = c->node_call_ns;
		}
		if (c->node_gap_ns != CALIBRATION_UNKNOWN) {
			w->node_gap_ns = c->node_gap_ns - c->node_gap_ns / 4;
			w->node_gap_bar_ns = c->node_gap_ns;
		}
	} else if (is_ours) {
		w->call_ns = WHAT_IF_CALL_NS;
		if (!gpus_are_amd(&w->report->gpus)) {
			w->graph_added_ns = GRAPHS_LAUNCH_NS;
			w->node_added_ns = GRAPHS_NODE_NS;
			w->node_gap_ns = WHAT_IF_NODE_GAP_NS;
			w->node_gap_bar_ns = WHAT_IF_NODE_GAP_NS;
		}
	}
	return 0;
}
