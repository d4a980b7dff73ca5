/*
 * Samples beside source and instructions: what is whose, where names are equal; and without memory.
 */
#include "failing_alloc.h"

#include <errno.h>

#include "analysis/flame/flame.h"
#include "analysis/source_view.h"
#include "report_fixture.h"
#include "stall_rows.h"

/*
 * Kernels of one name in two pieces of device code, one of them without lines, and in one that was
 * not kept.
 */
static struct trace *make_trace(const char *folder)
{
	struct maker *m = begin(folder, 100);

	put_cubin(folder, "5.cubin", "lineinfo");
	put_cubin(folder, "6.cubin", "plain");
	put_cubin(folder, "8.cubin", "blackwell");
	add_cubin(m, 5, "cubins/5.cubin");
	add_cubin(m, 6, "cubins/6.cubin");
	add_cubin(m, 8, "cubins/8.cubin");
	maker_call(m, MAKER_LAUNCH, 100, 900, 950, 1);
	maker_kernel(m, maker_config(m, SMOOTH, 1, 32), 7, 1000, 2000, 1);
	add_sample(m, 1, 5, SMOOTH, 0xd0, MEMORY, 10);
	add_sample(m, 1, 5, GATHER, 0x40, MEMORY, 7); /* in smooth */
	add_sample(m, 1, 5, SCALE, 0x100, REASON("wait"), 5);
	add_sample(m, 1, 6, SMOOTH, 0xd0, MEMORY, 20);
	add_sample(m, 1, 7, SMOOTH, 0xd0, MEMORY, 3);
	add_sample(m, 1, 7, GATHER, 0xd0, MEMORY, 2);
	add_sample(m, 1, 8, SMOOTH, 0xd0, MEMORY, 1);
	add_sample(m, 1, 5, "nobody", 0xd0, MEMORY, 4);
	add_reading(m, 1, 1000, 52, 0, 0);
	maker_close(m, 9000);
	return open_trace(folder);
}

static const struct source_code *code_of(const struct source_view *v, uint64_t crc,
					 const char *name)
{
	for (size_t i = 0; i < v->codes.count; i++)
		if (v->codes.data[i].function->crc == crc &&
		    !strcmp(v->codes.data[i].function->name, name))
			return &v->codes.data[i];
	fail_msg("no %s", name);
	return NULL;
}

static void equal_names(void **state)
{
	struct trace *t = make_trace(*state);
	struct source_options options = { .limit_s = 60 };
	struct filter filter = FILTER_ALL;
	const struct source_code *smooth;
	uint64_t of_codes = 0, of_files = 0;
	struct source_view v;
	struct error e = { 0 };

	assert_int_equal(source_view_init(&v, t, &filter, &options, &e), 0);
	assert_int_equal(v.codes.count, 7);
	for (size_t i = 0; i < v.codes.count; i++) {
		assert_true(!i || v.codes.data[i].samples <= v.codes.data[i - 1].samples);
		assert_non_null(v.codes.data[i].missing);
		of_codes += v.codes.data[i].samples;
	}
	for (size_t i = 0; i < v.files.count; i++)
		of_files += v.files.data[i].samples;
	assert_int_equal(of_codes, 52);
	assert_int_equal(of_files + v.stalls.without_line + v.stalls.without_code, 52);
	assert_int_equal(v.stalls.without_code, 5);
	assert_int_equal(v.stalls.without_line, 24);
	smooth = code_of(&v, 5, SMOOTH);
	assert_int_equal(smooth->samples, 17);
	assert_int_equal(smooth->items.count, 2);
	assert_int_equal(smooth->items.data[1].offset, GATHER_START + 0x40);
	assert_int_equal(smooth->items.data[1].line, 7);
	assert_int_equal(code_of(&v, 6, SMOOTH)->samples, 20);
	assert_int_equal(code_of(&v, 6, SMOOTH)->items.data[0].file, SOURCE_NONE);
	assert_int_equal(code_of(&v, 7, GATHER)->samples, 2);
	/* The line of smooth in both pieces that have lines; that of nobody else. */
	assert_string_equal(v.files.data[0].path, "/src/kernel.cu");
	assert_int_equal(source_heat(&v.files.data[0], 16)->samples, 11);
	assert_int_equal(source_heat(&v.files.data[0], 22)->samples, 5);
	assert_null(source_heat(&v.files.data[0], 15));
	assert_null(source_heat(&v.files.data[0], 99));
	source_view_release(&v);
	trace_free(t);
}

/*
 * Each piece of device code is read by itself: a program in nvdisasm's place says which one it was
 * given.
 */
static void texts_of_their_own_code(void **state)
{
	struct trace *t = make_trace(*state);
	char path[512];
	struct source_options options = { .nvdisasm = path, .limit_s = 600 };
	struct filter filter = FILTER_ALL;
	struct source_view v;
	struct error e = { 0 };
	FILE *program;

	snprintf(path, sizeof(path), "%s/program", (const char *)*state);
	program = fopen(path, "w");
	assert_non_null(program);
	fprintf(program, "#!/bin/sh\nfor code in lineinfo plain blackwell; do\n"
			 "cmp -s \"$4\" " CUBINS "/$code && "
			 "printf '\\t.section\\t.text.%%s,\\n/*00d0*/ %%s ;\\n' " SMOOTH
			 " $code\ndone\ntrue\n");
	assert_int_equal(fchmod(fileno(program), 0700), 0);
	fclose(program);
	assert_int_equal(source_view_init(&v, t, &filter, &options, &e), 0);
	assert_string_equal(code_of(&v, 5, SMOOTH)->items.data[0].text, "lineinfo");
	assert_string_equal(code_of(&v, 6, SMOOTH)->items.data[0].text, "plain");
	assert_string_equal(code_of(&v, 8, SMOOTH)->items.data[0].text, "blackwell");
	assert_null(code_of(&v, 7, SMOOTH)->items.data[0].text);
	source_view_release(&v);
	trace_free(t);
}

static int make_all(struct trace *t, const char *root)
{
	struct flame_options o = { .kinds = 1 << FLAME_STALLS, .until_ns = UINT64_MAX };
	/*
	 * Without nvdisasm: test_sass has its failures, and hundreds of children would take long.
	 */
	struct source_options options = { .root = root };
	struct filter filter = FILTER_ALL;
	struct error e = { 0 };
	struct source_view v;
	struct flame f;
	int r = source_view_init(&v, t, &filter, &options, &e);

	if (r < 0)
		return r;
	source_view_release(&v);
	r = flame_init(&f, t, &o, &e);
	if (r < 0)
		return r;
	r = flame_finish(&f, false);
	flame_release(&f);
	return r;
}

static void every_allocation_fails_once(void **state)
{
	struct trace *t = make_trace(*state);
	char path[512];
	FILE *source;
	int r = make_all(t, *state); /* loads the tables */

	snprintf(path, sizeof(path), "%s/kernel.cu", (const char *)*state);
	source = fopen(path, "w");
	assert_non_null(source);
	fputs("one\ntwo\n", source);
	fclose(source);
	assert_int_equal(r, 0);
	FOR_EACH_FAILURE(n)
	{
		r = make_all(t, *state);
		assert_true(r == 0 || (r == -ENOMEM && failing_alloc_failed));
	}
	assert_int_equal(r, 0);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(equal_names),
		folder_test(texts_of_their_own_code),
		folder_test(every_allocation_fails_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
