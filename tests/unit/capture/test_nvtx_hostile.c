/*
 * NVTX when the program, the moment or the amount is bad: nothing breaks, and what is missing is
 * counted.
 */
#include "unit/capture/nvtx_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "capture/nvtx/nvtx_calls.h"

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
	a.color_type = NVTX_COLOR_TYPE_ARGB;
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
	assert_int_equal(loss("truncated texts of NVTX and scopes"), cut);
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
	nvtx.mark_a("from the program");
	read_rows();
	/* A handler's two calls are refused together: when it interrupted another call. */
	assert_int_equal(row_count + loss("NVTX and scope calls in signal handlers that "
					  "interrupted an NVTX call") /
					     2,
			 marks + 1 + (uint64_t)signals);
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
	nvtx.push_a("before the window closes");
	source_window(&nvtx_source, false, NULL);
	assert_int_equal(drain(captured->writer), 1);
	assert_int_equal(nvtx.push_a("outside"), 1);
	assert_int_equal(ring_available(ring_get()), 0);
	nvtx2.domain_a("made outside the window");
	source_window(&nvtx_source, true, NULL);
	assert_int_equal(nvtx.push_a("inside"), 2);
	assert_int_equal(nvtx.pop(), 2);
	assert_int_equal(nvtx.pop(), 1); /* of the range that began outside: nothing to belong to */
	read_rows();
	assert_int_equal(row_count, 4);
	assert_row(0, nvtx_kind_push, 0, "before the window closes"); /* and drained later */
	assert_row(1, nvtx_kind_push, 0, "inside");
	assert_row(2, nvtx_kind_pop, 0, "(none)");
	assert_row(3, nvtx_kind_pop, 0, "(none)");
	nvtx.pop();
}

/* Runs first: the state is that of a process whose collector has not begun. */
static void test_events_before_the_collector(void **state)
{
	(void)state;
	client_reset();
	nvtx_source.start(&(struct source_start){ .open = true });
	nvtx_source_attach((void *)client_export_table);
	nvtx.push_a("the very first");
	nvtx.pop();
	captured = captured_begin();
	source_window(&nvtx_source, true, NULL);
	read_rows();
	assert_int_equal(row_count, 2);
	assert_row(0, nvtx_kind_push, 0, "the very first");
	captured_free(captured);

	/* and now with --delay: they are dropped, and the program's threads learn it */
	nvtx_source.after_fork();
	source_window(&nvtx_source, true, NULL);
	nvtx.mark_a("early");
	nvtx_source.after_fork();
	captured = captured_begin();
	assert_int_equal(drain(captured->writer), 1);
	nvtx.mark_a("early");
	assert_int_equal(ring_available(ring_get()), 0);
	source_window(&nvtx_source, true, NULL);
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
	nvtx_source.after_fork();
	nvtx2.mark_ex(domain, &a);
	assert_int_equal(ring_at(0) ? ring_available(ring_at(0)) : 0, 0);
	writer_abandon(&captured->writer);
	captured = captured_begin();
	source_window(&nvtx_source, true, NULL);
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
	assert_int_equal(loss("names of NVTX and scopes beyond the limit"), 26);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_before_the_collector),
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
		CASE(test_many_domains),
		CASE(test_names_beyond_the_limit),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(rows);
	return failed;
}
