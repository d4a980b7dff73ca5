/*
 * test_event_names.c: what events are called, for every value and for those that are not known yet.
 */
#include "export/event_names.h"

#include <stdio.h>

#include "support/cmocka_tests.h"

static const char *const memories[] = { "Unknown", "Pageable", "Pinned",        "Device",
					"Array",   "Managed",  "Device Static", "Managed Static",
					"Unknown", "Unknown" };

static void test_memory(void **state)
{
	struct strbuf name = STRBUF_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(memories); i++) {
		char expected[64];

		strbuf_clear(&name);
		memset_name(&name, (uint8_t)i);
		snprintf(expected, sizeof(expected), "Memset (%s)", memories[i]);
		assert_string_equal(name.data, expected);
		strbuf_clear(&name);
		memcpy_name(&name, copy_kind_DtoH, (uint8_t)i, memory_kind_pinned);
		snprintf(expected, sizeof(expected), "Memcpy DtoH (%s -> Pinned)", memories[i]);
		assert_string_equal(name.data, expected);
	}
	strbuf_clear(&name);
	memcpy_name(&name, 255, memory_kind_device, memory_kind_array);
	assert_string_equal(name.data, "Memcpy unknown (Device -> Array)");
	strbuf_release(&name);
}

static void test_synchronization(void **state)
{
	static const char *const names[] = { "Unknown Sync", "Event Sync",   "Stream Wait Event",
					     "Stream Sync",  "Context Sync", "Unknown Sync" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(synchronization_name((uint8_t)i), names[i]);
	assert_string_equal(synchronization_name(255), "Unknown Sync");
}

static void test_overhead(void **state)
{
	static const struct {
		uint8_t kind;
		const char *name;
	} names[] = {
		{ overhead_kind_unknown, "Unknown" },
		{ overhead_kind_compiler, "Driver Compiler" },
		{ overhead_kind_buffer_flush, "Buffer Flush" },
		{ overhead_kind_instrumentation, "Instrumentation" },
		{ overhead_kind_resource, "Resource" },
		{ overhead_kind_module_loading, "Runtime Triggered Module Loading" },
		{ overhead_kind_lazy_function_loading, "Lazy Function Loading" },
		{ overhead_kind_command_buffer_full, "Command Buffer Full" },
		{ overhead_kind_buffer_request, "Activity Buffer Request" },
		{ overhead_kind_uvm_init, "UVM Activity Initialization" },
		{ 255, "Unknown" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(overhead_name(names[i].kind), names[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_synchronization),
		cmocka_unit_test(test_overhead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
