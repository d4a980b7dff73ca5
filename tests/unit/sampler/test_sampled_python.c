/*
 * Descriptions of code objects of a process that invents them: this one plays it. The structures
 * are private, so the module is included.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "sampler/python/sampled_python.c"

#define COMPACT 8u
#define ASCII 16u

static struct {
	uint64_t head[2];
	uint64_t length, hash;
	uint32_t state, unused;
	uint64_t rest;
	char text[2 * STRING_BYTES];
} string;

static struct {
	uint64_t head[2];
	uint64_t length, hash;
	uint8_t bytes[PYTHON_LINES_MAX];
} lines;

static struct sampled_python *new_python(uint32_t version)
{
	struct sampled_python *python = calloc(1, sizeof(*python));

	assert_non_null(python);
	assert_int_equal(python_offsets_of(version, &python->runtime.offsets, NULL), 0);
	python->pid = getpid();
	python->runtime.code_type = 1;
	python->runtime.string_type = string.head[1] = 2;
	python->runtime.bytes_type = lines.head[1] = 3;
	return python;
}

static void set_word(struct bpf_code_record *r, unsigned offset, const void *to)
{
	uint64_t address = (uintptr_t)to;

	memcpy(r->code + offset, &address, sizeof(address));
}

/* A code object whose name and file are `string`, and which has `lines`. */
static struct bpf_code_record new_record(const struct python_offsets *o)
{
	struct bpf_code_record r = { .head = { .kind = BPF_RECORD_CODE } };

	set_word(&r, o->object_type, (const void *)1);
	set_word(&r, o->code_file, &string);
	set_word(&r, o->code_qualname, &string);
	set_word(&r, o->code_lines, &lines);
	return r;
}

/* The text of a string whose characters have no bytes was read beyond the copy. */
static void test_string_of_no_kind(void **state)
{
	struct sampled_python *python = new_python(0x030a00f0);
	struct bpf_code_record r = new_record(&python->runtime.offsets);

	(void)state;
	string.length = STRING_BYTES;
	string.state = (COMPACT | ASCII) << python->runtime.offsets.string_kind_bit;
	lines.length = 8;
	sampled_python_add_code(python, &r, sizeof(r));
	assert_int_equal(python->codes.count, 1);
	assert_null(python->codes.data[0].function);
	sampled_python_free(python);
}

static void test_lines_are_limited(void **state)
{
	struct sampled_python *python = new_python(0x030c00f0);
	const struct python_offsets *o = &python->runtime.offsets;
	struct bpf_code_record r = new_record(o);
	struct bpf_code c = { .file = (uintptr_t)&string,
			      .name = (uintptr_t)&string,
			      .lines = (uintptr_t)&lines };
	unsigned limit = LINES_BYTES_MAX / PYTHON_LINES_MAX;

	(void)state;
	string.length = 1;
	string.text[0] = 'f';
	string.state = (COMPACT | ASCII | 1) << o->string_kind_bit;
	/* Those of 3.12 have a shorter head. */
	((char *)&string)[o->string_head] = 'f';
	lines.length = PYTHON_LINES_MAX;
	for (unsigned i = 0; i < limit + 2; i++) {
		c.version = i;
		memcpy(r.code + o->code_version, &c.version, sizeof(c.version));
		r.address = i;
		r.check = bpf_python_check(&c);
		sampled_python_add_code(python, &r, sizeof(r));
		assert_non_null(python->codes.data[i].function);
		assert_int_equal(python->codes.data[i].lines != NULL, i < limit);
	}
	assert_int_equal(python->lines_bytes, LINES_BYTES_MAX);
	/* One that is described again does not count twice. */
	sampled_python_add_code(python, &r, sizeof(r));
	lines.length = 1;
	r.address = 0;
	c.version = 0;
	memcpy(r.code + o->code_version, &c.version, sizeof(c.version));
	r.check = bpf_python_check(&c);
	sampled_python_add_code(python, &r, sizeof(r));
	assert_int_equal(python->lines_bytes, LINES_BYTES_MAX - PYTHON_LINES_MAX + 1);
	sampled_python_free(python);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_string_of_no_kind),
		cmocka_unit_test(test_lines_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
