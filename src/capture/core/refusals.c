#include "capture/core/refusals.h"

#include <stdio.h>

struct refusal refusals[REFUSALS];

bool refusal_set_with(struct refusal *r, const char *format, va_list args)
{
	enum refusal_state expected = REFUSAL_NONE;

	if (!atomic_compare_exchange_strong(&r->state, &expected, REFUSAL_BEING_SET))
		return false;
	vsnprintf(r->why, sizeof(r->why), format, args);
	atomic_store(&r->state, REFUSAL_SET);
	return true;
}

bool refusal_set(struct refusal *r, const char *format, ...)
{
	va_list args;
	bool is_first;

	va_start(args, format);
	is_first = refusal_set_with(r, format, args);
	va_end(args);
	return is_first;
}

void refusal_clear(struct refusal *r)
{
	enum refusal_state expected = REFUSAL_SET;

	atomic_compare_exchange_strong(&r->state, &expected, REFUSAL_NONE);
}

void refusals_clear(void)
{
	for (unsigned i = 0; i < REFUSALS; i++)
		refusal_clear(&refusals[i]);
}

void refusals_after_fork(void)
{
	for (unsigned i = 0; i < REFUSALS; i++)
		atomic_store(&refusals[i].state, REFUSAL_NONE);
}
