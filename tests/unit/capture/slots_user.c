/*
 * slots_user.c: a library that calls a function of CUPTI, once as a call and once by its address.
 */
#include "base/compiler.h"

int cuptiThing(void);
EXPORT int call_thing(void);

EXPORT extern int (*slots_user_thing)(void);
int (*slots_user_thing)(void) = cuptiThing;

int call_thing(void)
{
	return cuptiThing() * 10 + slots_user_thing();
}
