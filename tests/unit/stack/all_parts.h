/* all_parts.h: unwind rules of all code of a process, compiled before anybody asks: for tests. */
#ifndef PITOT_TESTS_ALL_PARTS_H
#define PITOT_TESTS_ALL_PARTS_H

#include "base/clock.h"
#include "stack/unwind/modules.h"

static inline void compile_wanted_parts(struct stack_modules *m)
{
	while (stack_modules_update(m, NS_PER_S) > 0)
		;
}

static inline struct stack_map *want_all_parts(struct stack_modules *m)
{
	struct stack_map *map = atomic_load(&m->map);

	for (size_t i = 0; i < map->count; i++) {
		struct stack_module *module = map->ranges[i].module;

		for (uint32_t n = 0; n < module->part_count; n++)
			stack_module_rule(m, module,
					  module->code_start + ((uint64_t)n << UNWIND_PART_SHIFT));
	}
	return map;
}

static inline struct stack_map *compile_all_parts(struct stack_modules *m)
{
	struct stack_map *map;

	compile_wanted_parts(m);
	map = want_all_parts(m);
	compile_wanted_parts(m);
	return map;
}

#endif
