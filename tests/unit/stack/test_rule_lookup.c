/*
 * Rules that are read one at a time are those that are compiled, and bytes of any kind do no harm.
 */
#include "stack/unwind/rule_lookup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "all_parts.h"
#include "base/safe_memory.h"

#define ROWS_A_PART 200u
#define DAMAGES 20000u
#define HEADER_BYTES 4096u

static struct stack_modules modules;
static struct rule_lookup_room room;

static unsigned compare_at(struct stack_module *module, uint64_t address)
{
	const struct unwind_rule *wanted = stack_module_rule(&modules, module, address);
	struct unwind_rule rule;

	assert_non_null(wanted);
	if (!rule_lookup(&room, module->header, module->bias + address, &rule))
		fail_msg("no rule for %#lx", address);
	if (memcmp(&rule, wanted, sizeof(rule)) != 0)
		fail_msg("%#lx: cfa %u %u %d, must be %u %u %d", address, rule.cfa, rule.base,
			 rule.offset, wanted->cfa, wanted->base, wanted->offset);
	return 1;
}

/* Some rows of a part, and what comes before them. */
static unsigned compare_part(struct stack_module *module, uint32_t number)
{
	const struct unwind_part *part = atomic_load(&module->parts[number]);
	uint64_t start = module->code_start + ((uint64_t)number << UNWIND_PART_SHIFT);
	uint32_t step = part->count / ROWS_A_PART + 1;
	unsigned compared = 0;

	for (uint32_t row = 0; row < part->count; row += step) {
		uint64_t address = start + (part->rows[row] >> UNWIND_STORE_RULES_SHIFT);

		compared += compare_at(module, address);
		if (address > module->code_start)
			compared += compare_at(module, address - 1);
	}
	return compared;
}

static void rules_are_those_that_are_compiled(void **state)
{
	const struct stack_map *map = compile_all_parts(&modules);
	unsigned compared = 0;

	(void)state;
	for (size_t i = 0; i < map->count; i++)
		for (uint32_t n = 0; n < map->ranges[i].module->part_count; n++)
			compared += compare_part(map->ranges[i].module, n);
	print_message("%u rules\n", compared);
	assert_true(compared > 8000);
}

static const struct stack_module *own_module(void)
{
	const struct stack_range *range =
		stack_map_find(atomic_load(&modules.map), (uint64_t)(uintptr_t)own_module);

	assert_non_null(range);
	return range->module;
}

static void the_dynamic_linker_knows_the_header(void **state)
{
	uint64_t header = rule_lookup_header((uint64_t)(uintptr_t)own_module);

	(void)state;
	if (!header)
		skip(); /* glibc before 2.35 */
	assert_int_equal(header, own_module()->header);
	assert_int_equal(rule_lookup_header((uint64_t)(uintptr_t)&header), 0);
	assert_int_equal(rule_lookup_header(1), 0);
}

static void what_is_not_there_is_no_rule(void **state)
{
	uint64_t pc = (uint64_t)(uintptr_t)own_module;
	struct unwind_rule rule;
	uint8_t *pages;

	(void)state;
	errno = 77;
	assert_false(rule_lookup(&room, 16, pc, &rule));
	assert_false(rule_lookup(&room, UINT64_MAX - 3, pc, &rule));
	assert_int_equal(errno, 77);
	/* The header is there, but not the search table behind it. */
	pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory_copy(pages + 4096 - 12, own_module()->header, 12));
	munmap(pages + 4096, 4096);
	assert_false(rule_lookup(&room, (uint64_t)(uintptr_t)pages + 4096 - 12, pc, &rule));
	munmap(pages, 4096);
}

/* A header of random damage leads anywhere. */
static void damaged_headers(void **state)
{
	static uint8_t header[HEADER_BYTES];
	uint64_t at = (uint64_t)(uintptr_t)header, random = 88172645463325252u;
	unsigned found = 0;

	(void)state;
	for (unsigned i = 0; i < DAMAGES; i++) {
		struct unwind_rule rule;

		assert_true(memory_copy(header, own_module()->header, sizeof(header)));
		for (unsigned k = 0; k < 1 + i % 8; k++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			header[(random >> 8) % (i % 2 ? HEADER_BYTES : 16)] = (uint8_t)random;
		}
		found += rule_lookup(&room, at, at + (int32_t)(random >> 16), &rule);
		found += rule_lookup(&room, at, at + (random >> 60), &rule);
	}
	print_message("%u rules found\n", found);
	assert_true(found < 2 * DAMAGES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_those_that_are_compiled),
		cmocka_unit_test(the_dynamic_linker_knows_the_header),
		cmocka_unit_test(what_is_not_there_is_no_rule),
		cmocka_unit_test(damaged_headers),
	};

	stack_modules_init(&modules, STACK_RULE_BYTES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
