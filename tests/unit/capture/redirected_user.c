/*
 * redirected_user.c: a library that calls a function of CUPTI, once directly and once by its
 * address.
 */
#include "base/compiler.h"

int cuptiThing(void);
EXPORT int call_thing(void);

EXPORT extern int (*redirected_user_thing)(void);
int (*redirected_user_thing)(void) = cuptiThing;

int call_thing(void)
{
	return cuptiThing() * 10 + redirected_user_thing();
}
