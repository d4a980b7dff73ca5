/* NVTX from a client's tables to rows in a recording, with the real rings, writer and reader. */
#include "unit/capture/nvtx_fixture.h"

/* --- attaching --- */

static void test_attach_fills_both_tables(void **state)
{
	(void)state;
	client_reset();
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	assert_int_equal(offered.tool_version, 3);
	for (unsigned i = 1; i < NVTX_CORE_COUNT; i++)
		assert_non_null(*offered.core[i]);
	for (unsigned i = 1; i < NVTX_CORE2_COUNT; i++)
		assert_non_null(*offered.core2[i]);
}

static const void *nothing(uint32_t id)
{
	(void)id;
	return NULL;
}

static void test_attach_to_strange_clients(void **state)
{
	(void)state;
	assert_int_equal(nvtx_source_attach(NULL), 0);
	assert_int_equal(nvtx_source_attach((void *)nothing), 0);

	client_reset();
	offered.callbacks.struct_size = 8;
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 0);
	client_reset();
	offered.callbacks.get_table = NULL;
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 0);

	client_reset(); /* of version 1: no domains; and no version information */
	offered.core2_size = 0;
	offered.version.struct_size = 16;
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	assert_int_equal(offered.tool_version, 0);
	assert_null(*offered.core2[1]);

	client_reset(); /* fewer functions, one of them without a pointer; and more */
	offered.core_size = 5;
	offered.core[2] = NULL;
	offered.core2_size = NVTX_CORE2_COUNT + 1;
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	assert_non_null(nvtx.mark_ex);
	assert_null(nvtx.mark_a);
	assert_non_null(nvtx.start_ex);
	assert_null(nvtx.start_a);
	assert_non_null(nvtx2.initialize);
}

/* --- every function --- */

static void test_functions_of_the_default_domain(void **state)
{
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "ex");
	uint64_t range[3];

	(void)state;
	nvtx.mark_ex(&a);
	nvtx.mark_a("a");
	nvtx.mark_w(L"wäh €𝄞");
	range[0] = nvtx.start_ex(&a);
	range[1] = nvtx.start_a("started");
	range[2] = nvtx.start_w(L"started wide");
	nvtx.end(range[1]);
	assert_int_equal(nvtx.push_ex(&a), 0);
	assert_int_equal(nvtx.push_a("inner"), 1);
	assert_int_equal(nvtx.push_w(L"innermost"), 2);
	assert_int_equal(nvtx.pop(), 2);
	assert_int_equal(nvtx.pop(), 1);
	assert_int_equal(nvtx.pop(), 0);
	assert_true(nvtx.pop() < 0);
	read_rows();
	assert_int_equal(row_count, 14);
	assert_row(0, nvtx_kind_mark, 0, "ex");
	assert_row(1, nvtx_kind_mark, 0, "a");
	assert_row(2, nvtx_kind_mark, 0, "wäh €𝄞");
	assert_row(3, nvtx_kind_start, 0, "ex");
	assert_row(4, nvtx_kind_start, 0, "started");
	assert_row(5, nvtx_kind_start, 0, "started wide");
	assert_row(6, nvtx_kind_end, 0, "(none)");
	assert_row(7, nvtx_kind_push, 0, "ex");
	assert_row(8, nvtx_kind_push, 0, "inner");
	assert_row(9, nvtx_kind_push, 0, "innermost");
	for (size_t i = 10; i < 14; i++)
		assert_row(i, nvtx_kind_pop, 0, "(none)");
	assert_true(range[0] && range[1] > range[0] && range[2] > range[1]);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(rows[3 + i].range, range[i]);
	assert_int_equal(rows[6].range, range[1]);
	for (size_t i = 0; i < row_count; i++) {
		assert_int_equal(HAS(&rows[i], nvtx, range), i >= 3 && i <= 6);
		assert_false(HAS(&rows[i], nvtx, category));
		assert_false(HAS(&rows[i], nvtx, color));
		assert_false(HAS(&rows[i], nvtx, payload_kind));
		assert_false(HAS(&rows[i], nvtx, payload));
		assert_true(i == 0 || rows[i].time_ns >= rows[i - 1].time_ns);
	}
}

static void test_functions_with_domains(void **state)
{
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "in domain");
	void *first, *second, *string, *wide;
	uint32_t d;
	uint64_t range;
	size_t count, found = 0;
	struct row_nvtx_domain *domains;

	(void)state;
	nvtx2.initialize(NULL);
	first = nvtx2.domain_a("domain A");
	second = nvtx2.domain_w(L"domain Ω");
	assert_non_null(first);
	assert_non_null(second);
	assert_ptr_not_equal(first, second);
	assert_ptr_equal(first, nvtx2.domain_a("domain A"));
	string = nvtx2.string_a(first, "registered");
	wide = nvtx2.string_w(second, L"registrierť");
	assert_ptr_equal(string, nvtx2.string_a(first, "registered"));
	nvtx2.mark_ex(first, &a);
	range = nvtx2.start_ex(second, &a);
	nvtx2.end(second, range);
	a = attributes_with(NVTX_MESSAGE_REGISTERED, string);
	assert_int_equal(nvtx2.push_ex(first, &a), 0);
	assert_int_equal(nvtx2.push_ex(second, &a), 0);
	assert_int_equal(nvtx2.push_ex(NULL, &a), 0);
	a.message = wide;
	assert_int_equal(nvtx2.push_ex(first, &a), 1);
	assert_int_equal(nvtx2.pop(first), 1);
	assert_int_equal(nvtx2.pop(first), 0);
	assert_int_equal(nvtx2.pop(second), 0);
	assert_int_equal(nvtx2.pop(NULL), 0);
	nvtx2.domain_destroy(first);
	nvtx2.mark_ex(first, &a); /* wrong, and seen in the wild */
	read_rows();
	d = domain_number(first);
	assert_int_equal(domain_number(second), d + 1);
	assert_int_equal(row_count, 12);
	assert_row(0, nvtx_kind_mark, d, "in domain");
	assert_row(1, nvtx_kind_start, d + 1, "in domain");
	assert_row(2, nvtx_kind_end, d + 1, "(none)");
	assert_int_equal(rows[1].range, rows[2].range);
	assert_row(3, nvtx_kind_push, d, "registered");
	assert_row(4, nvtx_kind_push, d + 1, "registered");
	assert_row(5, nvtx_kind_push, 0, "registered");
	assert_row(6, nvtx_kind_push, d, "registrierť");
	assert_row(11, nvtx_kind_mark, d, "registrierť");
	domains = captured_rows(captured, TABLE_nvtx_domain, &count);
	for (size_t i = 0; i < count; i++) {
		const char *name = captured_text(captured, domains[i].name);

		if (domains[i].id == d)
			assert_string_equal(name, "domain A");
		if (domains[i].id == d + 1)
			assert_string_equal(name, "domain Ω");
		found += domains[i].id == d || domains[i].id == d + 1;
	}
	assert_int_equal(found, 2);
	free(domains);
}

static void test_payloads_and_colors(void **state)
{
	static const struct {
		int32_t type;
		uint64_t given, stored;
	} payloads[] = {
		{ 1, UINT64_MAX, UINT64_MAX },
		{ 2, (uint64_t)-5, (uint64_t)-5 },
		{ 3, 0x3ff8000000000000, 0x3ff8000000000000 },
		{ 4, 0xdeadbeef00000007, 7 },
		{ 5, 0xdeadbeefffffffff, 0xffffffff },
		{ 6, 0xdeadbeef3fc00000, 0x3fc00000 },
	};
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "p");
	uint64_t range;

	(void)state;
	a.color_type = NVTX_COLOR_TYPE_ARGB;
	a.color = 0xff00ff00;
	a.category = 12;
	for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) {
		a.payload_type = payloads[i].type;
		a.payload = payloads[i].given;
		nvtx.mark_ex(&a);
		range = nvtx.start_ex(&a);
		nvtx.end(range);
	}
	a.message = nvtx2.string_a(NULL, "registered, with payload");
	a.message_type = NVTX_MESSAGE_REGISTERED;
	nvtx.start_ex(&a);
	a.payload_type = (int32_t)0xdfbd0009; /* an extension's */
	a.color = 0;
	nvtx.mark_ex(&a);
	read_rows();
	assert_int_equal(row_count, 20);
	for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) {
		for (size_t k = 3 * i; k < 3 * i + 2; k++) {
			assert_row(k, k % 3 ? nvtx_kind_start : nvtx_kind_mark, 0, "p");
			assert_int_equal(rows[k].payload_kind, payloads[i].type);
			assert_true(rows[k].payload == payloads[i].stored);
			assert_int_equal(rows[k].color, 0xff00ff00);
			assert_int_equal(rows[k].category, 12);
		}
		assert_int_equal(rows[3 * i + 1].range, rows[3 * i + 2].range);
		assert_false(HAS(&rows[3 * i + 2], nvtx, payload));
	}
	assert_row(18, nvtx_kind_start, 0, "registered, with payload");
	assert_int_equal(rows[18].payload, 0x3fc00000);
	assert_true(HAS(&rows[18], nvtx, range));
	assert_true(HAS(&rows[19], nvtx, color));
	assert_int_equal(rows[19].color, 0);
	assert_false(HAS(&rows[19], nvtx, payload_kind));
}

static void test_categories_and_threads(void **state)
{
	void *domain = nvtx2.domain_a("with categories");
	struct nvtx_resource resource = { .version = 3,
					  .size = sizeof(resource),
					  .identifier_type = NVTX_RESOURCE_THREAD,
					  .identifier = 77003,
					  .message_type = NVTX_MESSAGE_TEXT,
					  .message = "third" };
	size_t count, found = 0;
	struct row_nvtx_category *categories;
	struct row_thread *threads;

	(void)state;
	nvtx.category_a(1, "one");
	nvtx.category_w(2, L"zwö");
	nvtx2.category_a(domain, 1, "one of the domain");
	nvtx2.category_w(domain, 2, L"zwö of the domain");
	nvtx.category_a(3, NULL);
	nvtx.thread_a(77001, "first");
	nvtx.thread_w(77002, L"seconđ");
	assert_non_null(nvtx2.resource_create(domain, &resource));
	nvtx2.resource_destroy(nvtx2.resource_create(domain, &resource));
	resource.size = 8;
	assert_non_null(nvtx2.resource_create(domain, &resource));
	assert_null(nvtx2.resource_create(domain, NULL));
	nvtx.thread_a(77001, "other");
	nvtx.thread_a(77001, "first"); /* again: the last one counts */
	drain(captured->writer);
	assert_true(nvtx_source.name_thread(captured->writer, 77001, ""));
	assert_false(nvtx_source.name_thread(captured->writer, 77009, ""));
	read_rows();
	assert_int_equal(row_count, 0);
	categories = captured_rows(captured, TABLE_nvtx_category, &count);
	for (size_t i = 0; i < count; i++) {
		static const char *const texts[2][2] = {
			{ "one", "zwö" }, { "one of the domain", "zwö of the domain" }
		};
		bool mine = categories[i].domain == domain_number(domain);

		if (!mine && categories[i].domain != 0)
			continue;
		assert_in_range(categories[i].id, 1, 2);
		assert_string_equal(captured_text(captured, categories[i].name),
				    texts[mine][categories[i].id - 1]);
		found++;
	}
	assert_int_equal(found, 4);
	free(categories);
	threads = captured_rows(captured, TABLE_thread, &count);
	assert_int_equal(count, 6);
	assert_int_equal(threads[0].tid, 77001);
	assert_int_equal(threads[1].tid, 77002);
	assert_string_equal(captured_text(captured, threads[1].name), "seconđ");
	assert_int_equal(threads[2].tid, 77003);
	assert_string_equal(captured_text(captured, threads[2].name), "third");
	for (size_t i = 4; i < 6; i++) {
		assert_int_equal(threads[i].tid, 77001);
		assert_string_equal(captured_text(captured, threads[i].name), "first");
	}
	free(threads);
}

/* --- levels --- */

static void assert_level(size_t i, enum nvtx_kind kind, int level)
{
	assert_true(i < row_count);
	assert_int_equal(rows[i].kind, kind);
	assert_int_equal(HAS(&rows[i], nvtx, level), level >= 0);
	if (level >= 0)
		assert_int_equal(rows[i].level, level);
}

static void test_levels(void **state)
{
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "in domain");
	void *domain = NULL, *beyond = NULL;
	size_t i = 0;
	char name[16];

	(void)state;
	for (int n = 0; n < 20; n++) { /* the last ones have no levels */
		snprintf(name, sizeof(name), "level %d", n);
		beyond = nvtx2.domain_a(name);
		domain = domain ? domain : beyond;
	}
	nvtx.pop(); /* nothing is open */
	for (int n = 0; n < 33; n++)
		nvtx.push_a("deep");
	nvtx.mark_a("mark");
	nvtx.end(nvtx.start_a("started"));
	nvtx2.push_ex(domain, &a);
	assert_true(nvtx2.push_ex(beyond, &a) < 0);
	assert_true(nvtx2.pop(beyond) < 0);
	nvtx2.pop(domain);
	for (int n = 0; n < 33; n++)
		nvtx.pop();
	read_rows();
	assert_int_equal(row_count, 74);
	assert_level(i++, nvtx_kind_pop, -1);
	for (int n = 0; n < 33; n++)
		assert_level(i++, nvtx_kind_push, n <= 30 ? n : -1);
	assert_level(i++, nvtx_kind_mark, -1);
	assert_level(i++, nvtx_kind_start, -1);
	assert_level(i++, nvtx_kind_end, -1);
	assert_level(i++, nvtx_kind_push, 0);
	assert_level(i++, nvtx_kind_push, -1);
	assert_level(i++, nvtx_kind_pop, -1);
	assert_level(i++, nvtx_kind_pop, 0);
	for (int n = 32; n >= 0; n--)
		assert_level(i++, nvtx_kind_pop, n <= 30 ? n : -1);
}

/* A full ring loses calls, but not the levels of those that follow. */
static void test_levels_outlast_a_full_ring(void **state)
{
	(void)state;
	nvtx.push_a("kept");
	for (uint32_t i = 0; i < RING_SLOTS; i++)
		nvtx.mark_a(NULL);
	nvtx.push_a("lost");
	drain(captured->writer);
	nvtx.push_a("kept too");
	nvtx.pop();
	nvtx.pop(); /* of the lost push */
	nvtx.pop();
	read_rows();
	assert_true(row_count > 5 && row_count < RING_SLOTS + 5);
	assert_level(0, nvtx_kind_push, 0);
	assert_level(row_count - 4, nvtx_kind_push, 2);
	assert_level(row_count - 3, nvtx_kind_pop, 2);
	assert_level(row_count - 2, nvtx_kind_pop, 1);
	assert_level(row_count - 1, nvtx_kind_pop, 0);
}

/* --- extensions --- */

static void test_the_payload_extension(void **state)
{
	intptr_t slots[63] = { 0 };
	struct nvtx_extension_segment segment = { 0, ARRAY_SIZE(slots), slots };
	struct nvtx_extension e = { 3,    sizeof(e), NVTX_EXTENSION_PAYLOAD, 0x0104, 1, &segment,
				    NULL, NULL };
	void *domain = nvtx2.domain_a("with payloads");
	uint64_t range;

	(void)state;
	assert_int_equal(nvtx_source_attach_extension(NULL), 0);
	e.struct_size = 8;
	assert_int_equal(nvtx_source_attach_extension(&e), 0);
	e.struct_size = sizeof(e);
	e.segment_count = 0;
	assert_int_equal(nvtx_source_attach_extension(&e), 0);
	e.segment_count = 1;
	e.module = 4;
	assert_int_equal(nvtx_source_attach_extension(&e), 1);
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++)
		assert_true(slots[i] == 0);
	e.module = NVTX_EXTENSION_PAYLOAD;
	segment.slot_count = 4;
	assert_int_equal(nvtx_source_attach_extension(&e), 1);
	assert_true(slots[3] != 0 && slots[4] == 0);
	segment.slot_count = ARRAY_SIZE(slots);
	assert_int_equal(nvtx_source_attach_extension(&e), 1);
	assert_int_equal(((uint8_t(*)(void *))slots[7])(domain), 1);
	((void (*)(void *, const void *, size_t))slots[2])(domain, NULL, 0);
	assert_int_equal(((int (*)(void *, const void *, size_t))slots[3])(domain, NULL, 3), 0);
	assert_int_equal(((int (*)(void *, const void *, size_t))slots[4])(domain, NULL, 3), 0);
	range = ((uint64_t(*)(void *, const void *, size_t))slots[5])(domain, NULL, 3);
	((void (*)(void *, uint64_t, const void *, size_t))slots[6])(domain, range, NULL, 0);
	read_rows();
	assert_int_equal(row_count, 5);
	for (int i = 0; i < 5; i++) {
		static const enum nvtx_kind kinds[] = { nvtx_kind_mark, nvtx_kind_push,
							nvtx_kind_pop, nvtx_kind_start,
							nvtx_kind_end };

		assert_row((size_t)i, kinds[i], domain_number(domain), "(none)");
	}
	assert_int_equal(rows[3].range, range);
	assert_int_equal(rows[4].range, range);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_attach_fills_both_tables),
		CASE(test_attach_to_strange_clients),
		CASE(test_functions_of_the_default_domain),
		CASE(test_functions_with_domains),
		CASE(test_payloads_and_colors),
		CASE(test_categories_and_threads),
		CASE(test_levels_outlast_a_full_ring),
		CASE(test_the_payload_extension),
		CASE(test_levels), /* uses up the domains with levels */
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(rows);
	return failed;
}
