#include "rules/rule_plan.h"

#include "base/clock.h"

#define HOUR_NS (3600 * NS_PER_S)

void rule_plan_init(struct rule_plan *plan, const struct rule_list *rules, uint64_t before_ns,
		    uint64_t after_ns)
{
	*plan = (struct rule_plan){ .cooldown_ns = PLAN_COOLDOWN_NS };
	for (unsigned i = 0; i < rules->count; i++) {
		const struct rule *rule = &rules->rules[i];

		plan->before_ns[i] = rule->has_before ? rule->before_ns : before_ns;
		plan->after_ns[i] = rule->has_after ? rule->after_ns : after_ns;
	}
}

/* The window of a firing, as part of that of the dump. */
static void extend(struct rule_plan *plan, const struct rule_firing *firing)
{
	uint64_t now = firing->time_ns, from_ns = now - MIN(now, plan->before_ns[firing->rule]);
	uint32_t bit = UINT32_C(1) << firing->rule;

	if (!(plan->rules & bit)) {
		plan->from_ns = plan->rules ? MIN(plan->from_ns, from_ns) : from_ns;
		plan->due_ns =
			MAX(plan->rules ? plan->due_ns : 0, now + plan->after_ns[firing->rule]);
	}
	plan->rules |= bit;
	plan->cooled_ns[firing->rule] = plan->due_ns + plan->cooldown_ns;
}

enum trigger_outcome rule_plan_add(struct rule_plan *plan, const struct rule_firing *firing)
{
	uint64_t now = firing->time_ns;
	uint64_t *oldest = &plan->made_ns[plan->dump % PLAN_DUMPS_MAX];

	if (plan->is_pending) {
		extend(plan, firing);
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
	plan->rules = 0;
	extend(plan, firing);
	return trigger_outcome_dump;
}

bool rule_plan_is_due(struct rule_plan *plan, uint64_t now_ns)
{
	bool is_due = plan->is_pending && now_ns > plan->due_ns;

	plan->is_pending &= !is_due;
	return is_due;
}
