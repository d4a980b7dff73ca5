#include "schema/loss_kinds.h"

#include "base/compiler.h"
#include "base/plural.h"
#include "schema/schema.h"

#define LOSS_KIND(reason, items, one, many) [loss_reason_##reason] = { items, one, many },
static const struct {
	enum loss_items items;
	const char *one, *many;
} kinds[] = { LOSS_KINDS(LOSS_KIND) };

#define ONE_KIND(reason, items, one, many) +1
#define ONE_REASON(E, name, value) +1
_Static_assert((0 LOSS_KINDS(ONE_KIND)) == (0 ENUM_loss_reason(ONE_REASON, )),
	       "each reason of a loss has one kind");

static unsigned known(unsigned reason)
{
	return reason < ARRAY_SIZE(kinds) && kinds[reason].one ? reason : loss_reason_unknown;
}

const char *loss_text(unsigned reason, uint64_t count)
{
	return plural_of(count, kinds[known(reason)].one, kinds[known(reason)].many);
}

enum loss_items loss_items(unsigned reason)
{
	return kinds[known(reason)].items;
}

/* Whether it is less than this part of all. */
static bool is_below(uint64_t lost, uint64_t all, uint64_t part)
{
	return lost < all / part + (all % part != 0);
}

enum loss_effect loss_effect(enum loss_items items, uint64_t lost, uint64_t recorded)
{
	uint64_t all = lost + recorded;

	switch (items) {
	case LOST_PART:
		return LOSS_UNSAFE;
	case LOST_BY_REQUEST:
		return LOSS_CHANGES_NOTHING;
	case LOST_NAMES:
		return lost && is_below(lost, all, 20) ? LOSS_CHANGES_NOTHING : LOSS_CHANGES_SOME;
	case LOST_TAIL:
		return recorded ? LOSS_CHANGES_SOME : LOSS_CHANGES_NOTHING;
	case LOST_DETAILS:
		return LOSS_CHANGES_SOME;
	default:
		return !lost                       ? LOSS_CHANGES_SOME
		       : is_below(lost, all, 1000) ? LOSS_CHANGES_NOTHING
		       : is_below(lost, all, 20)   ? LOSS_CHANGES_SOME
						   : LOSS_UNSAFE;
	}
}

const char *loss_effect_name(unsigned effect)
{
	static const char *const names[] = { "none", "some", "unsafe" };

	return names[effect];
}
