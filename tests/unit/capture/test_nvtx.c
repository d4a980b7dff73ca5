/* NVTX from a client's tables to rows in a recording, with the real rings, writer and reader. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "capture/nvtx/nvtx_names.h"
#include "capture/nvtx/nvtx_source.h"
#include "capture/nvtx/nvtx_text.h"
#include "capture/tape/tape.h"
#include "unit/capture/captured_rows.h"
#include "unit/capture/nvtx_client.h"

/* --- what the rest of the recorder would be --- */

atomic_bool collector_idle;
static bool taping;
static struct {
	struct tape_nvtx call;
	char text[64];
} taped[32];
static unsigned taped_count;

void collector_wake(void)
{
	atomic_store(&collector_idle, false);
}

bool tape_running(void)
{
	return taping;
}

void tape_nvtx(const struct tape_nvtx *call)
{
	unsigned i = taped_count++ % ARRAY_SIZE(taped);

	taped[i].call = *call;
	snprintf(taped[i].text, sizeof(taped[i].text), "%s", call->text ? call->text : "(none)");
}

/* As the collector does it. */
static uint64_t drain(struct writer *w)
{
	uint64_t events = 0;
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		while (ring_available(r)) {
			uint64_t slots = nvtx_source_event(w, r, atomic_load(&r->tail));

			assert_in_range(slots, 1, ring_available(r));
			ring_consume(r, slots);
			events++;
		}
		if (atomic_load(&r->state) == RING_DEAD)
			ring_recycle(r);
	}
	return events;
}

static struct captured *captured;

static int begin(void **state)
{
	(void)state;
	rings_after_fork();
	nvtx_source_after_fork();
	client_reset();
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	captured = captured_begin();
	nvtx_source_window(true);
	while (nvtx.pop() >= 0)
		;
	nvtx_source_window(false);
	drain(captured->writer);
	nvtx_source_window(true);
	return 0;
}

static int finish(void **state)
{
	(void)state;
	captured_free(captured);
	taping = false;
	return 0;
}

static struct row_nvtx *rows;
static size_t row_count;

/* Ends the recording and reads its table nvtx. */
static void read_rows(void)
{
	drain(captured->writer);
	captured_close(captured);
	free(rows);
	rows = captured_rows(captured, TABLE_nvtx, &row_count);
}

static const char *text_of(const struct row_nvtx *row)
{
	return HAS(row, nvtx, message) ? captured_text(captured, row->message) : "(none)";
}

static void assert_row(size_t i, enum nvtx_kind kind, uint32_t domain, const char *text)
{
	assert_true(i < row_count);
	assert_int_equal(rows[i].kind, kind);
	assert_int_equal(rows[i].domain, domain);
	assert_string_equal(text_of(&rows[i]), text);
	assert_int_equal(rows[i].thread, syscall(SYS_gettid));
}

/* Sum of the counts of loss rows with this detail. */
static uint64_t loss(const char *detail)
{
	size_t count;
	struct row_loss *losses = captured_rows(captured, TABLE_loss, &count);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(losses[i].reason, loss_reason_string_limit);
		assert_true(losses[i].start_ns <= losses[i].end_ns);
		if (strcmp(captured_text(captured, losses[i].detail), detail) == 0)
			sum += losses[i].count;
	}
	free(losses);
	return sum;
}

static uint32_t domain_number(void *handle)
{
	const struct nvtx_name *domain = nvtx_names_check(handle, NVTX_NAMED_DOMAIN);

	assert_non_null(domain);
	return domain->domain;
}

static struct nvtx_attributes attributes_with(int32_t type, const void *text)
{
	return (struct nvtx_attributes){ .version = 3,
					 .size = sizeof(struct nvtx_attributes),
					 .message_type = type,
					 .message = text };
}

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
	a.color_type = NVTX_COLOR_ARGB;
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
	assert_true(nvtx_source_thread_row(captured->writer, 77001));
	assert_false(nvtx_source_thread_row(captured->writer, 77009));
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

/* --- hostile arguments --- */

static void test_attributes_of_every_size(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "text");

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	a.category = 5;
	a.color_type = NVTX_COLOR_ARGB;
	a.color = 6;
	a.payload_type = 1;
	a.payload = 7;
	/* The byte after what `size` covers cannot be read. */
	for (uint16_t size = 4; size <= sizeof(a); size++) {
		a.size = size;
		memcpy(pages + page - size, &a, size);
		nvtx.push_ex(pages + page - size);
	}
	a.size = UINT16_MAX;
	memcpy(pages + page - sizeof(a), &a, sizeof(a));
	nvtx.push_ex(pages + page - sizeof(a));
	a.size = 0;
	nvtx.push_ex(&a);
	nvtx.push_ex(NULL);
	read_rows();
	assert_int_equal(row_count, 45 + 3);
	for (size_t i = 0; i < row_count; i++) {
		size_t size = i < 45 ? i + 4 : i == 45 ? sizeof(a) : 0;

		assert_string_equal(text_of(&rows[i]), size >= 48 ? "text" : "(none)");
		assert_int_equal(HAS(&rows[i], nvtx, category), size >= 8);
		assert_int_equal(HAS(&rows[i], nvtx, color), size >= 16);
		assert_int_equal(HAS(&rows[i], nvtx, payload), size >= 32);
	}
	munmap(pages, 2 * page);
}

static void test_messages_that_are_none(void **state)
{
	static const int32_t types[] = { -1, 0, 1, 2, 3, 4, 0x7fffffff };
	struct nvtx_attributes a = attributes_with(0, NULL);
	void *string = nvtx2.string_a(NULL, "good"), *domain = nvtx2.domain_a("good");
	void *handles[] = { (char *)string + 1,
			    (char *)string + 8,
			    (char *)string + (32 << 16),
			    (void *)16,
			    (void *)-1,
			    &a,
			    domain };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		a.message_type = types[i];
		a.payload_type = types[i] > 3 ? 7 : -1;
		nvtx.mark_ex(&a);
	}
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
		a = attributes_with(NVTX_MESSAGE_REGISTERED, handles[i]);
		nvtx.mark_ex(&a);
		if (handles[i] != domain)
			nvtx2.mark_ex(handles[i], &a);
	}
	nvtx.mark_a(NULL);
	nvtx.push_w(NULL);
	nvtx.start_a(NULL);
	nvtx.end(UINT64_MAX);
	nvtx2.end((void *)1, 0);
	assert_null(nvtx2.domain_a(NULL));
	assert_null(nvtx2.string_w(domain, NULL));
	read_rows();
	assert_int_equal(row_count, 7 + 13 + 5);
	for (size_t i = 0; i < row_count; i++) {
		assert_string_equal(text_of(&rows[i]), "(none)");
		assert_int_equal(rows[i].domain, 0);
		assert_false(HAS(&rows[i], nvtx, payload_kind));
	}
}

static void test_texts_of_every_length(void **state)
{
	char *text = malloc(65537);
	wchar_t *wide = malloc(65537 * sizeof(*wide));
	uint64_t cut = 5; /* three marks, two names */

	(void)state;
	for (size_t i = 0; i < 65536; i++) {
		text[i] = (char)('a' + i % 26);
		wide[i] = i % 2 ? L'€' : L'x'; /* four bytes for two */
	}
	text[65536] = '\0';
	wide[65536] = L'\0';
	for (size_t length = 0; length <= 4200; length += length < 70 ? 1 : 59)
		nvtx.mark_a(text + 65536 - length);
	nvtx.mark_a(text);
	nvtx.mark_w(wide);
	wmemset(wide, L'€', 65536);
	nvtx.mark_w(wide);
	drain(captured->writer);
	nvtx2.string_a(NULL, text);
	nvtx.category_w(1000, wide);
	read_rows();
	for (size_t i = 0, length = 0; length <= 4200; i++, length += length < 70 ? 1 : 59) {
		size_t kept = MIN(length, (size_t)RING_TEXT_MAX);

		assert_int_equal(strlen(text_of(&rows[i])), kept);
		assert_memory_equal(text_of(&rows[i]), text + 65536 - length, kept);
		cut += length > kept;
	}
	assert_int_equal(strlen(text_of(&rows[row_count - 3])), RING_TEXT_MAX);
	assert_int_equal(strlen(text_of(&rows[row_count - 2])), RING_TEXT_MAX);
	assert_int_equal(strlen(text_of(&rows[row_count - 1])),
			 RING_TEXT_MAX - 1); /* € as a whole or not */
	assert_int_equal(loss("NVTX texts cut"), cut);
	free(text);
	free(wide);
}

static void test_cutting_and_narrowing(void **state)
{
	static const wchar_t strange[] = { 0x41,     0xd800, 0xdfff, 0x110000, (wchar_t)0xffffffff,
					   0x10ffff, 0xffff, 0x7ff,  0x7f,     0 };
	char out[64], unaligned[sizeof(strange) + 1];
	bool cut;

	(void)state;
	memset(out, '#', sizeof(out));
	assert_int_equal(nvtx_text_copy(out, 3, "a€", &cut), 1);
	assert_true(cut);
	assert_int_equal(nvtx_text_copy(out, 4, "a€", &cut), 4);
	assert_false(cut);
	assert_int_equal(nvtx_text_copy(out, 4, "\x80\x80\x80\x80\x80\x80", &cut),
			 4); /* no UTF-8: as it is */
	assert_true(cut);
	assert_int_equal(nvtx_text_copy(out, 0, "a", &cut), 0);
	assert_true(cut);
	assert_int_equal(nvtx_text_copy(out, 0, "", &cut), 0);
	assert_false(cut);
	memcpy(unaligned + 1, strange, sizeof(strange));
	assert_int_equal(nvtx_text_narrow(out, sizeof(out), unaligned + 1, &cut),
			 1 + 4 * 3 + 4 + 3 + 2 + 1);
	assert_false(cut);
	assert_memory_equal(out,
			    "A\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf4\x8f\xbf\xbf\xef"
			    "\xbf\xbf\xdf\xbf\x7f",
			    23);
	assert_int_equal(out[23], '#');
	for (size_t room = 0; room < 23; room++) {
		assert_true(nvtx_text_narrow(out, room, strange, &cut) <= room);
		assert_true(cut);
	}
}

/* --- loss --- */

static void test_a_full_ring_is_counted(void **state)
{
	struct ring *r = ring_get();
	uint64_t lost = atomic_load(&r->lost), n = 0;
	char text[200];

	(void)state;
	drain(captured->writer);
	memset(text, 't', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (; atomic_load(&r->lost) == lost; n++)
		assert_int_equal(nvtx.push_a(text), n);
	assert_int_equal(nvtx.push_a(text), n);
	for (uint64_t i = 0; i <= n; i++)
		assert_int_equal(nvtx.pop(),
				 n - i); /* what is returned does not depend on what is recorded */
	assert_int_equal(nvtx.pop(), -1);
	lost = atomic_load(&r->lost) - lost;
	read_rows();
	assert_int_equal(row_count + lost, 2 * (n + 1) + 1);
	assert_true(row_count >= RING_SLOTS / 8);
	for (size_t i = 0; i < row_count; i++)
		if (rows[i].kind == nvtx_kind_push)
			assert_string_equal(text_of(&rows[i]), text);
}

static void test_around_the_end_of_the_ring(void **state)
{
	char text[400];

	(void)state;
	memset(text, 'w', sizeof(text));
	for (unsigned i = 0; i < 3 * RING_SLOTS / 13; i++) {
		text[i % 399] = (char)('a' + i % 26);
		text[399] = '\0';
		nvtx.mark_a(text + i % 7);
		if (i % 50 == 0)
			drain(captured->writer);
		text[i % 399] = 'w';
	}
	read_rows();
	assert_int_equal(row_count, 3 * RING_SLOTS / 13);
	for (size_t i = 0; i < row_count; i++) {
		const char *t = text_of(&rows[i]);
		size_t at = i % 399;

		assert_int_equal(strlen(t), 399 - i % 7);
		if (at >= i % 7)
			assert_int_equal(t[at - i % 7], 'a' + i % 26);
	}
}

/* --- threads, signals, windows, forks --- */

static void *shared_string;
static void *shared_domain;

static void *register_names(void *unused)
{
	(void)unused;
	shared_domain = nvtx2.domain_a("made by another thread");
	shared_string = nvtx2.string_a(shared_domain, "named by another thread");
	return NULL;
}

static void test_names_of_other_threads(void **state)
{
	struct nvtx_attributes a;
	pthread_t thread;

	(void)state;
	nvtx.mark_a("this ring is drained first");
	pthread_create(&thread, NULL, register_names, NULL);
	pthread_join(thread, NULL);
	a = attributes_with(NVTX_MESSAGE_REGISTERED, shared_string);
	nvtx2.mark_ex(shared_domain, &a);
	read_rows();
	assert_int_equal(row_count, 2);
	assert_row(1, nvtx_kind_mark, domain_number(shared_domain), "named by another thread");
}

#define BUSY_THREADS 4
#define BUSY_CALLS 20000
static atomic_uint busy_left;
static atomic_uint_fast64_t busy_lost;

static void *be_busy(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument;
	uint64_t lost = atomic_load(&ring_get()->lost);

	for (unsigned i = 0; i < BUSY_CALLS; i++) {
		struct nvtx_attributes a;
		char name[32];

		snprintf(name, sizeof(name), "string %u", i % 300);
		a = attributes_with(NVTX_MESSAGE_REGISTERED, nvtx2.string_a(NULL, name));
		a.payload_type = nvtx_payload_u64;
		a.payload = (uint64_t)number << 32 | i;
		nvtx.mark_ex(&a);
	}
	atomic_fetch_add(&busy_lost, atomic_load(&ring_get()->lost) - lost);
	atomic_fetch_sub(&busy_left, 1);
	return NULL;
}

static void test_many_threads(void **state)
{
	pthread_t threads[BUSY_THREADS];
	uint32_t names = nvtx_names_count();

	(void)state;
	atomic_store(&busy_left, BUSY_THREADS);
	atomic_store(&busy_lost, 0);
	for (uintptr_t i = 0; i < BUSY_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, be_busy, (void *)i), 0);
	while (atomic_load(&busy_left))
		drain(captured->writer);
	for (unsigned i = 0; i < BUSY_THREADS; i++)
		pthread_join(threads[i], NULL);
	read_rows();
	assert_int_equal(row_count + atomic_load(&busy_lost), BUSY_THREADS * BUSY_CALLS);
	for (size_t i = 0; i < row_count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "string %u",
			 (unsigned)(rows[i].payload & UINT32_MAX) % 300);
		assert_string_equal(text_of(&rows[i]), name);
	}
	assert_int_equal(nvtx_names_count(), names + 300);
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
	nvtx.mark_a("from a handler");
	nvtx2.string_a(NULL, "registered by a handler");
}

static void test_calls_in_signal_handlers(void **state)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, before;
	struct itimerval timer = { { 0, 200 }, { 0, 200 } }, none = { { 0, 0 }, { 0, 0 } };
	uint64_t marks = 0;

	(void)state;
	sigaction(SIGALRM, &act, &before);
	setitimer(ITIMER_REAL, &timer, NULL);
	while (signals < 300) {
		char name[32];

		snprintf(name, sizeof(name), "name %d", (int)(marks % 100));
		nvtx.mark_a("from the program");
		nvtx2.string_a(NULL, name);
		if (++marks % 1000 == 0)
			drain(captured->writer);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	sigaction(SIGALRM, &before, NULL);
	read_rows();
	assert_true(row_count >= marks && row_count <= marks + (uint64_t)signals);
	for (size_t i = 0; i < row_count; i++)
		if (strcmp(text_of(&rows[i]), "from the program") != 0)
			assert_string_equal(text_of(&rows[i]), "from a handler");
}

static void test_errno_stays(void **state)
{
	(void)state;
	rings_after_fork(); /* so that a ring is claimed now */
	errno = 12345;
	nvtx.push_a("x");
	nvtx2.string_a(NULL, "a string for errno");
	nvtx.pop();
	assert_int_equal(errno, 12345);
}

static void test_the_window(void **state)
{
	(void)state;
	nvtx.push_a("before the collector knows");
	nvtx_source_window(false);
	assert_int_equal(drain(captured->writer), 1);
	assert_int_equal(nvtx.push_a("outside"), 1);
	assert_int_equal(ring_available(ring_get()), 0);
	nvtx2.domain_a("made outside the window");
	nvtx_source_window(true);
	assert_int_equal(nvtx.push_a("inside"), 2);
	assert_int_equal(nvtx.pop(), 2);
	assert_int_equal(nvtx.pop(), 1); /* of the range that began outside: nothing to belong to */
	read_rows();
	assert_int_equal(row_count, 3);
	assert_row(0, nvtx_kind_push, 0, "inside");
	assert_row(1, nvtx_kind_pop, 0, "(none)");
	assert_row(2, nvtx_kind_pop, 0, "(none)");
	nvtx.pop();
}

/* Runs first: the state is that of a process whose collector has not begun. */
static void test_events_before_the_collector(void **state)
{
	(void)state;
	client_reset();
	nvtx_source_attach((void *)client_export_table);
	nvtx.push_a("the very first");
	nvtx.pop();
	captured = captured_begin();
	nvtx_source_window(true);
	read_rows();
	assert_int_equal(row_count, 2);
	assert_row(0, nvtx_kind_push, 0, "the very first");
	captured_free(captured);

	nvtx_source_after_fork(); /* and now with --delay: they are dropped, and the program's threads learn it */
	nvtx_source_window(true);
	nvtx.mark_a("early");
	nvtx_source_after_fork();
	captured = captured_begin();
	assert_int_equal(drain(captured->writer), 1);
	nvtx.mark_a("early");
	assert_int_equal(ring_available(ring_get()), 0);
	nvtx_source_window(true);
	nvtx.mark_a("in time");
	read_rows();
	assert_int_equal(row_count, 1);
	assert_row(0, nvtx_kind_mark, 0, "in time");
	captured_free(captured);
}

static void in_the_child(void *domain)
{
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "child");

	rings_after_fork();
	nvtx_source_after_fork();
	nvtx2.mark_ex(domain, &a);
	assert_int_equal(ring_at(0) ? ring_available(ring_at(0)) : 0, 0);
	writer_abandon(&captured->writer);
	captured = captured_begin();
	nvtx_source_window(true);
	nvtx2.mark_ex(domain, &a);
	assert_non_null(nvtx2.string_a(domain, "a new string of the child"));
	read_rows();
	assert_int_equal(row_count, 1);
	assert_row(0, nvtx_kind_mark, domain_number(domain), "child");
	free(captured_rows(captured, TABLE_nvtx_domain, &row_count));
	assert_true(row_count > 0);
	free(captured_rows(captured, TABLE_thread, &row_count));
	assert_int_equal(row_count, 0);
	captured_free(captured);
}

static void test_a_fork(void **state)
{
	void *domain = nvtx2.domain_a("from before the fork");
	int status;
	pid_t pid;

	(void)state;
	nvtx.thread_a(77050, "a thread of the parent");
	drain(captured->writer);
	pid = fork();
	if (pid == 0) {
		in_the_child(domain);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* --- tapes, extensions --- */

static void assert_taped(unsigned i, unsigned module, unsigned id, uint32_t domain,
			 const char *text)
{
	assert_int_equal(taped[i].call.module, module);
	assert_int_equal(taped[i].call.id, id);
	assert_int_equal(taped[i].call.domain, domain);
	assert_string_equal(taped[i].text, text);
}

static void test_tapes_get_the_calls(void **state)
{
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "ex");
	void *domain, *string;
	uint32_t d;

	(void)state;
	taping = true;
	taped_count = 0;
	a.category = 4;
	a.color_type = NVTX_COLOR_ARGB;
	a.color = 5;
	a.payload_type = nvtx_payload_i32;
	a.payload = 6;
	domain = nvtx2.domain_w(L"taped");
	string = nvtx2.string_a(domain, "taped string");
	nvtx2.push_ex(domain, &a);
	a.message_type = NVTX_MESSAGE_REGISTERED;
	a.message = string;
	nvtx2.start_ex(domain, &a);
	nvtx.pop();
	nvtx.category_a(9, "taped category");
	nvtx.thread_a(77060, "taped thread");
	nvtx_source_window(false);
	nvtx.mark_w(L"outside"); /* a tape has everything */
	d = domain_number(domain);
	assert_int_equal(taped_count, 8);
	assert_taped(0, 5, 13, d, "taped");
	assert_taped(1, 5, 10, d, "taped string");
	assert_taped(2, 5, 4, d, "ex");
	assert_int_equal(taped[2].call.category, 4);
	assert_int_equal(taped[2].call.color, 5);
	assert_int_equal(taped[2].call.payload_kind, nvtx_payload_i32);
	assert_int_equal(taped[2].call.payload, 6);
	assert_taped(3, 5, 2, d, "taped string");
	assert_true(taped[3].call.range > 0);
	assert_taped(4, 1, 11, 0, "(none)");
	assert_taped(5, 1, 12, 0, "taped category");
	assert_int_equal(taped[5].call.category, 9);
	assert_taped(6, 1, 14, 0, "taped thread");
	assert_int_equal(taped[6].call.range, 77060);
	assert_taped(7, 1, 3, 0, "outside");
}

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

/* --- ceilings; uses them up, so it runs last --- */

static void test_many_domains(void **state)
{
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "deep");
	void *domains[40];

	(void)state;
	for (int i = 0; i < 40; i++) {
		char name[32];
		int level;

		snprintf(name, sizeof(name), "domain number %d", i);
		domains[i] = nvtx2.domain_a(name);
		level = nvtx2.push_ex(domains[i], &a);
		assert_true(level == 0 || level == NVTX_NO_LEVEL);
		assert_int_equal(nvtx2.pop(domains[i]), level);
	}
	read_rows();
	assert_int_equal(row_count, 80);
	for (int i = 0; i < 40; i++)
		assert_row(2 * (size_t)i, nvtx_kind_push, domain_number(domains[i]), "deep");
}

static void test_names_beyond_the_limit(void **state)
{
	uint64_t refused = nvtx_names_refused(), wanted = NVTX_NAMES_MAX - nvtx_names_count() + 25;
	char name[64];
	void *first = NULL;
	struct nvtx_attributes a;

	(void)state;
	for (uint64_t i = 0; i < wanted; i++) {
		void *handle;

		snprintf(name, sizeof(name), "one of far too many %u", (unsigned)i);
		handle = nvtx2.string_a(NULL, name);
		first = first ? first : handle;
		if (i + 25 >= wanted)
			assert_null(handle);
	}
	assert_int_equal(nvtx_names_refused() - refused, 25);
	assert_null(nvtx2.domain_a("no room for this domain"));
	assert_ptr_equal(nvtx2.string_a(NULL, "one of far too many 0"),
			 first); /* those that are there go on */
	a = attributes_with(NVTX_MESSAGE_REGISTERED, first);
	nvtx.mark_ex(&a);
	read_rows();
	assert_int_equal(row_count, 1);
	assert_row(0, nvtx_kind_mark, 0, "one of far too many 0");
	assert_int_equal(loss("NVTX names beyond the limit"), 26);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_before_the_collector),
		CASE(test_attach_fills_both_tables),
		CASE(test_attach_to_strange_clients),
		CASE(test_functions_of_the_default_domain),
		CASE(test_functions_with_domains),
		CASE(test_payloads_and_colors),
		CASE(test_categories_and_threads),
		CASE(test_attributes_of_every_size),
		CASE(test_messages_that_are_none),
		CASE(test_texts_of_every_length),
		cmocka_unit_test(test_cutting_and_narrowing),
		CASE(test_a_full_ring_is_counted),
		CASE(test_around_the_end_of_the_ring),
		CASE(test_names_of_other_threads),
		CASE(test_many_threads),
		CASE(test_calls_in_signal_handlers),
		CASE(test_errno_stays),
		CASE(test_the_window),
		CASE(test_a_fork),
		CASE(test_tapes_get_the_calls),
		CASE(test_the_payload_extension),
		CASE(test_many_domains),
		CASE(test_names_beyond_the_limit),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(rows);
	return failed;
}
