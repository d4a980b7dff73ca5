#include "capture/core/refusals.h"

#include <stdatomic.h>
#include <stdio.h>

enum state { NONE, BEING_SET, SET };

static struct {
	_Atomic(enum state) state;
	char why[400];
} refusals[REFUSALS];

void refusal_set(enum refused what, const char *why)
{
	enum state expected = NONE;

	if (!atomic_compare_exchange_strong(&refusals[what].state, &expected, BEING_SET))
		return;
	snprintf(refusals[what].why, sizeof(refusals[what].why), "%s", why);
	atomic_store(&refusals[what].state, SET);
}

const char *refusal_find(enum refused what)
{
	return atomic_load(&refusals[what].state) == SET ? refusals[what].why : NULL;
}

void refusals_clear(void)
{
	for (unsigned i = 0; i < REFUSALS; i++) {
		enum state expected = SET;

		atomic_compare_exchange_strong(&refusals[i].state, &expected, NONE);
	}
}

void refusals_after_fork(void)
{
	for (unsigned i = 0; i < REFUSALS; i++)
		atomic_store(&refusals[i].state, NONE);
}
