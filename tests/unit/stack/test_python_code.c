/* Ids of code objects that the test lays out as CPython 3.11 and 3.12 do. */
#include "support/cmocka_tests.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "stack/python/python_code.h"

#define CODE_BYTES 256

static uint64_t code_type[64], string_type[64], bytes_type[64];
static unsigned freed;

static void dealloc(void *code)
{
	(void)code;
	freed++;
}

static struct python_runtime runtime_of(uint32_t version)
{
	struct python_runtime r = { .version = version,
				    .code_type = (uintptr_t)code_type,
				    .string_type = (uintptr_t)string_type,
				    .bytes_type = (uintptr_t)bytes_type };

	code_type[6] = (uint64_t)(uintptr_t)dealloc; /* tp_dealloc */
	assert_int_equal(python_offsets_of(version, &r.offsets, NULL), 0);
	return r;
}

/* The head is count, type, length, hash, state, …; characters follow after 5, 6, 7 or 9 words. */
struct text {
	uint64_t head[9];
	uint8_t data[8192];
};

static uintptr_t make_text(const struct python_runtime *r, struct text *t, unsigned kind,
			   bool ascii, const void *characters, size_t length)
{
	memset(t, 0, sizeof(*t));
	t->head[1] = (uint64_t)(uintptr_t)string_type;
	t->head[2] = length;
	t->head[4] = 1 | kind << 2 | 1 << 5 | (unsigned)ascii << 6;
	assert_true(length * kind <= sizeof(t->data));
	memcpy((uint8_t *)t + (ascii ? r->offsets.string_head : r->offsets.string_head_wide),
	       characters, length * kind);
	return (uintptr_t)t;
}

struct code {
	uint64_t words[CODE_BYTES / 8];
	struct text name, file;
	uint64_t lines[8];
};

static void make_code(const struct python_runtime *r, struct code *c, const char *name,
		      const char *file, uint32_t line)
{
	const struct python_offsets *o = &r->offsets;

	memset(c, 0, sizeof(*c));
	c->words[1] = (uint64_t)(uintptr_t)code_type;
	c->words[o->code_name / 8] = (uint64_t)make_text(r, &c->name, 1, true, name, strlen(name));
	c->words[o->code_qualname / 8] = c->words[o->code_name / 8];
	c->words[o->code_file / 8] = (uint64_t)make_text(r, &c->file, 1, true, file, strlen(file));
	c->lines[1] = (uint64_t)(uintptr_t)bytes_type;
	c->lines[2] = 2;
	memcpy(&c->lines[4], (uint8_t[]){ 0x80 | 11 << 3 | 7, 0 },
	       2); /* 8 units, one line further */
	c->words[o->code_lines / 8] = (uint64_t)(uintptr_t)c->lines;
	memcpy((uint8_t *)c->words + o->code_first_line, &line, sizeof(line));
}

static uint32_t id_of(struct python_codes *codes, const struct code *c)
{
	struct python_frame frame = { .code = (uintptr_t)c };

	python_code_ids(codes, &frame, 1);
	return frame.id;
}

static void expect(struct python_codes *codes, uint32_t id, const char *name, const char *file,
		   uint32_t line)
{
	struct python_code code;

	assert_true(python_code_get(codes, id, &code));
	assert_int_equal(code.name_length, strlen(name));
	assert_memory_equal(code.name, name, code.name_length);
	assert_int_equal(code.file_length, strlen(file));
	assert_memory_equal(code.file, file, code.file_length);
	assert_int_equal(code.first_line, line);
	assert_int_equal(python_line(codes, id, 4), line + 1);
	assert_int_equal(python_line(codes, id, 16), 0);
}

static void test_ids(void **state)
{
	struct python_runtime r = runtime_of(0x030c00f0);
	struct python_codes *codes = python_codes_new(64, 4096);
	static struct code a, b;
	uint32_t id;

	(void)state;
	assert_non_null(codes);
	python_codes_attach(codes, &r);
	assert_int_equal(code_type[6], (uintptr_t)dealloc); /* 3.12: not watched */
	make_code(&r, &a, "f", "a.py", 10);
	make_code(&r, &b, "Class.method", "directory/b.py", 2000000);
	id = id_of(codes, &a);
	assert_int_equal(id_of(codes, &a), id);
	assert_int_not_equal(id_of(codes, &b), id);
	expect(codes, id, "f", "a.py", 10);
	expect(codes, id_of(codes, &b), "Class.method", "directory/b.py", 2000000);
	/*
	 * Another object at the same place, of which nothing that is compared differs but
	 * CPython's own number.
	 */
	make_code(&r, &a, "g", "a.py", 10);
	((uint32_t *)a.words)[r.offsets.code_version / 4] = 7;
	assert_int_not_equal(id_of(codes, &a), id);
	expect(codes, id, "f", "a.py", 10);
	expect(codes, id_of(codes, &a), "g", "a.py", 10);
	assert_false(python_code_get(codes, 0, &(struct python_code){ 0 }));
	assert_false(python_code_get(codes, 4000, &(struct python_code){ 0 }));
	assert_int_equal(python_line(codes, 0, 0), 0);
	assert_int_equal(python_line(codes, UINT32_MAX, 0), 0);
	a.words[1] = (uint64_t)(uintptr_t)string_type;
	make_code(&r, &b, "h", "b.py", 3);
	b.words[1] = 0;
	assert_int_equal(id_of(codes, &b), 0);
	assert_int_equal(python_code_losses(codes).not_code, 1);
	python_codes_free(codes);
}

/*
 * Before 3.12 deallocation is watched: the same place, with everything that is compared the same,
 * gets a new id.
 */
static void test_freed(void **state)
{
	struct python_runtime r = runtime_of(0x030b00f0);
	struct python_codes *codes = python_codes_new(4, 1 << 20);
	void (*now)(void *);
	static struct code c;
	char name[16];

	(void)state;
	python_codes_attach(codes, &r);
	assert_int_not_equal(code_type[6], (uintptr_t)dealloc);
	memcpy(&now, &code_type[6], sizeof(now));
	freed = 0;
	for (unsigned i = 0; i < 1000; i++) {
		uint32_t id;

		snprintf(name, sizeof(name), "f%04u", i);
		make_code(&r, &c, name, "a.py", 1);
		id = id_of(codes, &c);
		expect(codes, id, name, "a.py", 1);
		c.words[0]++; /* a reference more is the same code */
		assert_int_equal(id_of(codes, &c), id);
		now(&c);
	}
	assert_int_equal(freed, 1000);
	assert_int_equal(python_code_losses(codes).no_slot, 0);
	python_codes_free(codes);
	now(&c);
	assert_int_equal(freed, 1001);
}

/*
 * A table that is nearly full is followed by one whose ids are all new; the first one's stay
 * readable until it is forgotten.
 */
static void test_next(void **state)
{
	struct python_runtime r = runtime_of(0x030b00f0);
	struct python_codes *codes = python_codes_new(64, 4096), *next;
	static struct code many[40];
	uint32_t old, id;
	unsigned count = 0;

	(void)state;
	python_codes_attach(codes, &r);
	assert_false(python_codes_nearly_full(codes));
	while (count < ARRAY_SIZE(many) && !python_codes_nearly_full(codes)) {
		make_code(&r, &many[count], "a name of some length", "a file of some length.py",
			  count + 1);
		assert_int_not_equal(id_of(codes, &many[count++]), 0);
	}
	assert_true(count < ARRAY_SIZE(many));
	old = id_of(codes, &many[0]);
	next = python_codes_next(codes);
	assert_non_null(next);
	assert_false(python_codes_nearly_full(next));
	id = id_of(next, &many[0]);
	assert_true(python_codes_gives(codes, old) && !python_codes_gives(next, old));
	assert_true(python_codes_gives(next, id) && !python_codes_gives(codes, id));
	expect(codes, old, "a name of some length", "a file of some length.py", 1);
	expect(next, id, "a name of some length", "a file of some length.py", 1);
	assert_false(python_code_get(next, old, &(struct python_code){ 0 }));
	/* What is freed goes from both: a thread may still be at the old one. */
	((void (*)(void *))code_type[6])(&many[0]);
	assert_int_not_equal(id_of(codes, &many[0]), old);
	assert_int_not_equal(id_of(next, &many[0]), id);
	python_codes_forget(codes);
	assert_int_equal(id_of(codes, &many[1]), 0);
	assert_int_not_equal(id_of(next, &many[1]), 0);
	python_codes_free(next);
	python_codes_free(codes);
	code_type[6] = (uint64_t)(uintptr_t)dealloc;
}

static void test_ceilings(void **state)
{
	struct python_runtime r = runtime_of(0x030c00f0);
	struct python_codes *codes;
	static struct code many[8];
	unsigned without = 0;

	(void)state;
	assert_null(python_codes_new(3, 4096));
	assert_null(python_codes_new(0, 4096));
	assert_null(python_codes_new(64, (size_t)1 << 40));
	codes = python_codes_new(4, 4096);
	python_codes_attach(codes, &r);
	for (unsigned i = 0; i < 8; i++) {
		make_code(&r, &many[i], "f", "a.py", i);
		without += !id_of(codes, &many[i]);
	}
	assert_int_equal(without, 4);
	assert_int_equal(python_code_losses(codes).no_slot, 4);
	python_codes_free(codes);
	codes = python_codes_new(64, 70);
	python_codes_attach(codes, &r);
	assert_int_not_equal(id_of(codes, &many[0]), 0);
	assert_int_not_equal(id_of(codes, &many[1]), 0);
	assert_int_equal(id_of(codes, &many[2]), 0);
	assert_int_equal(id_of(codes, &many[2]), 0);
	assert_int_not_equal(id_of(codes, &many[1]), 0);
	assert_int_equal(python_code_losses(codes).no_room, 2);
	python_codes_free(codes);
}

/*
 * One that is cut at its end, two without lines, three without a name or a file: each counted as
 * what it is, and all kept.
 */
static void test_losses(void **state)
{
	struct python_runtime r = runtime_of(0x030c00f0);
	struct python_codes *codes = python_codes_new(64, 1 << 20);
	char long_name[PYTHON_NAME_MAX + 2] = "";
	struct python_code_losses losses;
	struct python_code code;
	static struct code many[7];

	(void)state;
	memset(long_name, 'n', sizeof(long_name) - 1);
	python_codes_attach(codes, &r);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		make_code(&r, &many[i], i == 0 ? long_name : "f", "a.py", 1);
	many[1].lines[2] = PYTHON_LINES_MAX + 1;
	many[2].lines[1] = (uint64_t)(uintptr_t)string_type;
	many[3].name.head[1] = many[4].file.head[1] = (uint64_t)(uintptr_t)bytes_type;
	many[5].words[r.offsets.code_file / 8] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		assert_true(python_code_get(codes, id_of(codes, &many[i]), &code));
		assert_int_equal(code.name_length, i == 0 ? PYTHON_NAME_MAX : i == 3 ? 0 : 1);
		assert_int_equal(code.file_length, i == 4 || i == 5 ? 0 : 4);
		assert_int_equal(code.first_line, 1);
	}
	losses = python_code_losses(codes);
	assert_int_equal(losses.cut_names, 1);
	assert_int_equal(losses.no_lines, 2);
	assert_int_equal(losses.bad_strings, 3);
	assert_int_equal(losses.no_slot + losses.no_room + losses.not_code, 0);
	python_codes_free(codes);
}

static void expect_text(const struct python_runtime *r, uintptr_t text, size_t max, bool tail,
			const char *expected, bool cut)
{
	char out[64];
	bool was_cut = false;
	size_t n = python_text(r, text, out, max, tail, &was_cut);

	assert_int_equal(n, strlen(expected));
	assert_memory_equal(out, expected, n);
	assert_int_equal(was_cut, cut);
}

static void test_text(void **state)
{
	static struct text t;
	static const uint16_t two[] = { 'a', 0xe9, 0x540d, 0xd800, 0xdcff, 'z' };
	static const uint32_t four[] = { 0x1d518, 0x10ffff, 0x110000, 'b' };

	(void)state;
	for (uint32_t version = 0x030b00f0; version <= 0x030c00f0; version += 0x10000) {
		struct python_runtime r = runtime_of(version);

		make_text(&r, &t, 1, true, "plain", 5);
		expect_text(&r, (uintptr_t)&t, 64, false, "plain", false);
		expect_text(&r, (uintptr_t)&t, 3, false, "pla", true);
		expect_text(&r, (uintptr_t)&t, 3, true, "ain", true);
		make_text(&r, &t, 1, false, "\xfc.\xff", 3);
		expect_text(&r, (uintptr_t)&t, 64, false, "ü.ÿ", false);
		expect_text(&r, (uintptr_t)&t, 4, false, "ü.", true);
		expect_text(&r, (uintptr_t)&t, 4, true, ".ÿ", true);
		make_text(&r, &t, 2, false, two, 6);
		expect_text(&r, (uintptr_t)&t, 64, false, "aé名\xef\xbf\xbd\xffz", false);
		make_text(&r, &t, 4, false, four, 4);
		expect_text(&r, (uintptr_t)&t, 64, false,
			    "𝔘\xf4\x8f\xbf\xbf\xef\xbf\xbd"
			    "b",
			    false);
		expect_text(&r, (uintptr_t)&t, 7, false, "𝔘", true);
		t.head[4] &= ~(uint64_t)(1 << 5); /* not compact */
		expect_text(&r, (uintptr_t)&t, 64, false, "", false);
		make_text(&r, &t, 1, true, "x", 1);
		t.head[4] |= 7 << 2; /* no such kind */
		expect_text(&r, (uintptr_t)&t, 64, false, "", false);
		make_text(&r, &t, 1, true, "x", 1);
		t.head[2] = UINT64_MAX;
		expect_text(&r, (uintptr_t)&t, 64, false, "", false);
		make_text(&r, &t, 1, true, "x", 1);
		t.head[1] = (uint64_t)(uintptr_t)bytes_type;
		expect_text(&r, (uintptr_t)&t, 64, false, "", false);
		expect_text(&r, 0, 64, false, "", false);
	}
}

#define THREADS 4
#define OBJECTS 400

static struct code shared[OBJECTS];
static struct python_codes *shared_codes;

static void *look_up(void *unused)
{
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < OBJECTS; i++) {
			char name[16];
			struct python_code code;

			snprintf(name, sizeof(name), "f%u", i);
			if (!python_code_get(shared_codes, id_of(shared_codes, &shared[i]),
					     &code) ||
			    code.name_length != strlen(name) ||
			    memcmp(code.name, name, code.name_length) != 0)
				return shared;
		}
	}
	return unused;
}

static void test_threads(void **state)
{
	struct python_runtime r = runtime_of(0x030c00f0);
	pthread_t threads[THREADS];
	char name[16];

	(void)state;
	shared_codes = python_codes_new(1024, 1 << 20);
	python_codes_attach(shared_codes, &r);
	for (unsigned i = 0; i < OBJECTS; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		make_code(&r, &shared[i], name, "a.py", i);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_up, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	python_codes_free(shared_codes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),      cmocka_unit_test(test_freed),
		cmocka_unit_test(test_ceilings), cmocka_unit_test(test_text),
		cmocka_unit_test(test_threads),  cmocka_unit_test(test_next),
		cmocka_unit_test(test_losses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
