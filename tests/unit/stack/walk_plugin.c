/*
 * walk_plugin.c: a module that test_unwind_self.c loads and unloads; built twice, with different
 * code.
 */
#include <stdlib.h>

void plugin_call(void (*call)(void), int depth);

void plugin_call(void (*call)(void), int depth)
{
	volatile char room[PLUGIN_ROOM];

	room[depth] = (char)depth;
	if (depth == 0)
		call();
	else
		plugin_call(call, depth - 1);
	room[depth] = 0;
}
