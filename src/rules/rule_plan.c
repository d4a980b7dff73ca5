#include "rules/rule_plan.h"

#include "base/clock.h"

#define HOUR_NS (3600 * NS_PER_S)

enum trigger_outcome rule_plan_add(struct rule_plan *plan, const struct rule_firing *firing)
{
	uint64_t now = firing->time_ns;
	uint64_t *oldest = &plan->made_ns[plan->dump % PLAN_DUMPS_MAX];

	if (plan->is_pending) {
		plan->cooled_ns[firing->rule] = plan->due_ns + plan->cooldown_ns;
		return trigger_outcome_joined;
	}
	if (firing->follows)
		return trigger_outcome_follows;
	if (now < plan->cooled_ns[firing->rule])
		return trigger_outcome_cooldown;
	if (*oldest && now < *oldest + HOUR_NS)
		return trigger_outcome_limit;
	*oldest = now ? now : 1;
	plan->dump++;
	plan->is_pending = true;
	plan->from_ns = now - MIN(now, plan->before_ns);
	plan->due_ns = now + plan->after_ns;
	plan->cooled_ns[firing->rule] = plan->due_ns + plan->cooldown_ns;
	return trigger_outcome_dump;
}

bool rule_plan_is_due(struct rule_plan *plan, uint64_t now_ns)
{
	bool is_due = plan->is_pending && now_ns > plan->due_ns;

	plan->is_pending &= !is_due;
	return is_due;
}
