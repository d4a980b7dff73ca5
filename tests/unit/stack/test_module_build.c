/*
 * Parts of a module's unwind rules from copies of its pages: with and without a search table, and
 * of memory that goes away.
 */
#include "stack/unwind/module_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "all_parts.h"

#define PAGE UINT64_C(4096)
#define OMIT 0xff

static struct stack_modules modules;
static struct unwind_store store;

/* The C library, whose code is large and whose call frame information is of every kind. */
static struct stack_module *real_module(void)
{
	const struct stack_range *range =
		stack_map_find(atomic_load(&modules.map), (uint64_t)(uintptr_t)qsort);

	assert_non_null(range);
	return range->module;
}

/* It with its call frame information elsewhere; all that is in there is relative to itself. */
static struct stack_module moved_module(uint8_t **pages)
{
	struct stack_module module = *real_module();
	uint64_t start = module.segment_start & ~(PAGE - 1), size = module.segment_end - start, to;

	*pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(*pages, MAP_FAILED);
	memcpy(*pages, (const void *)(uintptr_t)start, size);
	to = (uint64_t)(uintptr_t)*pages - start;
	module.bias += to;
	module.header += to;
	module.segment_start += to;
	module.segment_end += to;
	return module;
}

static void drop(const struct stack_module *module, uint8_t *pages)
{
	munmap(pages, module->segment_end - (uint64_t)(uintptr_t)pages);
}

static const struct unwind_rule *rule_at(const struct unwind_part *part, uint32_t row)
{
	return unwind_store_rule(&store, part->rows[row] & (UNWIND_STORE_RULES_MAX - 1));
}

static void assert_same_part(const struct unwind_part *part, const struct unwind_part *real)
{
	assert_int_equal(part->count, real->count);
	for (uint32_t row = 0; row < part->count; row++) {
		uint32_t rule = real->rows[row] & (UNWIND_STORE_RULES_MAX - 1);

		assert_int_equal(part->rows[row] >> UNWIND_STORE_RULES_SHIFT,
				 real->rows[row] >> UNWIND_STORE_RULES_SHIFT);
		assert_memory_equal(rule_at(part, row), &modules.rules[rule],
				    sizeof(struct unwind_rule));
	}
}

/* Every part is that of the real module. */
static void compare_all(struct stack_module *module)
{
	const struct stack_module *real = real_module();
	struct module_build *b = module_build_new(module, &store);
	size_t rows = 0;

	assert_non_null(b);
	for (uint32_t n = 0; n < real->part_count; n++) {
		struct unwind_part *part = module_build_part(b, n);

		assert_non_null(part);
		assert_same_part(part, atomic_load(&real->parts[n]));
		rows += part->count;
		free(part);
	}
	assert_true(rows > 1000);
	module_build_free(b);
}

static void with_a_search_table(void **state)
{
	uint8_t *pages;
	struct stack_module module = moved_module(&pages);

	(void)state;
	compare_all(&module);
	drop(&module, pages);
}

static void without_a_search_table(void **state)
{
	uint8_t *pages;
	struct stack_module module = moved_module(&pages);
	uint8_t *header = (uint8_t *)(uintptr_t)module.header;
	struct module_build *b;

	(void)state;
	header[2] = header[3] = OMIT;
	b = module_build_new(&module, &store);
	assert_true(module_build_reads_all(b));
	module_build_free(b);
	compare_all(&module);
	drop(&module, pages);
}

/* Neither a part nor a row that says "unknown" comes of it. */
static void memory_that_goes_away(void **state)
{
	uint8_t *pages;
	struct stack_module module = moved_module(&pages);
	struct module_build *b = module_build_new(&module, &store);
	struct unwind_part *part;

	(void)state;
	part = module_build_part(b, 1);
	assert_non_null(part);
	free(part);
	drop(&module, pages);
	assert_null(module_build_part(b, module.part_count / 2));
	module_build_free(b);
	assert_null(module_build_new(&module, &store));
}

static void a_header_that_makes_no_sense(void **state)
{
	uint8_t *pages;
	struct stack_module module = moved_module(&pages);
	struct unwind_part *part;
	struct module_build *b;

	(void)state;
	*(uint8_t *)(uintptr_t)module.header = 77;
	b = module_build_new(&module, &store);
	part = module_build_part(b, 1);
	assert_int_equal(part->count, 1);
	assert_int_equal(rule_at(part, 0)->cfa, CFA_NONE);
	free(part);
	module_build_free(b);
	drop(&module, pages);
}

static void a_full_store(void **state)
{
	size_t before = store.bytes;
	struct module_build *b;

	(void)state;
	b = module_build_new(real_module(), &store);
	store.bytes_max = store.bytes;
	assert_null(module_build_part(b, 0));
	module_build_free(b);
	store.bytes_max = 0;
	assert_null(module_build_new(real_module(), &store));
	store.bytes_max = SIZE_MAX;
	/* What is left are the rules. */
	assert_in_range(store.bytes, before, before + 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_a_search_table),
		cmocka_unit_test(without_a_search_table),
		cmocka_unit_test(memory_that_goes_away),
		cmocka_unit_test(a_header_that_makes_no_sense),
		cmocka_unit_test(a_full_store),
	};
	int failed;

	stack_modules_init(&modules, STACK_RULE_BYTES);
	compile_all_parts(&modules);
	if (unwind_store_init(&store, SIZE_MAX) < 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unwind_store_release(&store);
	stack_modules_release(&modules);
	return failed;
}
