/*
 * rule_plan.h: which firings make a dump: exactly one for one cause.
 *
 * A firing plans a dump, of the time from `before_ns` before it until `after_ns` later; the dump is
 * made then. What fires until then joins the dump. The first firing of another rule makes it longer
 * in both directions, so that the dump has the windows of all of its causes; further firings do
 * not, or a rule that holds again and again would put the dump off for ever. Later firings of a
 * rule have none for `cooldown_ns` after its last, and there are at most PLAN_DUMPS_MAX dumps in an
 * hour, so that a rule that is too eager fills no disk. Faults that follow from another fault of
 * the same process have none, whenever they come.
 */
#ifndef PITOT_RULES_RULE_PLAN_H
#define PITOT_RULES_RULE_PLAN_H

#include "rules/rule_list.h"
#include "rules/rule_watch.h"
#include "schema/schema.h"

#define PLAN_BEFORE_NS UINT64_C(30000000000)
#define PLAN_AFTER_NS UINT64_C(5000000000)
#define PLAN_COOLDOWN_NS UINT64_C(60000000000)
#define PLAN_DUMPS_MAX 10u

struct rule_plan {
	uint64_t cooldown_ns;
	uint64_t before_ns[RULES_MAX], after_ns[RULES_MAX]; /* by rule */
	uint32_t dump; /* number of the last dump, from 1 */
	bool is_pending;
	uint32_t rules; /* that have fired for that dump: bits */
	uint64_t from_ns, due_ns; /* of that dump; CLOCK_MONOTONIC */
	uint64_t cooled_ns[RULES_MAX]; /* by rule: until then it has no dump */
	uint64_t made_ns[PLAN_DUMPS_MAX]; /* times of the last dumps */
};

/* Sets what dumps have from before and after a moment: the rules' own times, or the others. */
void rule_plan_init(struct rule_plan *plan, const struct rule_list *rules, uint64_t before_ns,
		    uint64_t after_ns);
/*
 * Decides about a firing. A dump that was due before it must have been made. plan->dump is then the
 * dump that it begins or joins.
 */
enum trigger_outcome rule_plan_add(struct rule_plan *plan, const struct rule_firing *firing);
/* Whether the planned dump is to be made; then it is planned no more. */
bool rule_plan_is_due(struct rule_plan *plan, uint64_t now_ns);

#endif
