#include "analysis/stalls.h"

#include "report_fixture.h"
#include "stall_rows.h"

#define WITH_LINES ((struct report_options){ .filter = FILTER_ALL, .stalls = true })

static uint64_t samples_of(const struct stall_places *places)
{
	uint64_t samples = 0;

	for (size_t i = 0; i < places->count; i++) {
		const struct stall_place *p = &places->items[i];
		uint64_t of_reasons = 0, not_issued = 0;

		if (i)
			assert_true(p->samples <= places->items[i - 1].samples);
		for (size_t k = 0; k < p->reason_count; k++) {
			of_reasons += p->reasons[k].samples;
			not_issued += p->reasons[k].not_issued;
			if (k)
				assert_true(p->reasons[k].samples <= p->reasons[k - 1].samples);
		}
		assert_int_equal(of_reasons, p->samples);
		assert_int_equal(not_issued, p->not_issued);
		samples += p->samples;
	}
	return samples;
}

/* Everything adds up, whatever was asked for. */
static void check_sums(const struct report *r)
{
	const struct stalls *s = r->stalls;
	uint64_t of_reasons = 0, not_issued = 0;

	for (size_t i = 0; i < s->reason_count; i++) {
		of_reasons += s->reasons[i].samples;
		not_issued += s->reasons[i].not_issued;
	}
	assert_int_equal(of_reasons, s->samples);
	assert_int_equal(not_issued, s->not_issued);
	assert_int_equal(samples_of(&s->kernels), s->samples);
	assert_int_equal(samples_of(&s->instructions), s->samples);
	assert_int_equal(samples_of(&s->lines) + s->without_line + s->without_code, s->samples);
	assert_int_equal(samples_of(&s->source), samples_of(&s->lines));
	assert_int_equal(samples_of(&s->whole), s->samples);
	for (size_t i = 0; i < s->kernels.count; i++) {
		const struct stall_place *hottest = s->kernels.items[i].hottest;

		for (size_t k = 0; k < s->lines.count; k++)
			if (s->lines.items[k].kernel_name == s->kernels.items[i].kernel_name)
				assert_true(hottest &&
					    hottest->samples >= s->lines.items[k].samples);
	}
	assert_int_equal(s->samples + s->excluded + s->dropped + s->other + s->unaccounted,
			 s->total);
}

static const struct stall_place *find_kernel(const struct stalls *s, const char *name)
{
	for (size_t i = 0; i < s->kernels.count; i++)
		if (!strcmp(s->kernels.items[i].kernel_name, name))
			return &s->kernels.items[i];
	return NULL;
}

static void names_of_reasons(void **state)
{
	struct stall_name n = stall_name_of(REASON("not_selected_not_issued"));

	(void)state;
	assert_true(n.not_issued);
	assert_int_equal(n.length, strlen("not_selected"));
	assert_memory_equal(n.state, "not_selected", n.length);
	n = stall_name_of(MEMORY);
	assert_false(n.not_issued);
	assert_string_equal(n.state, "long_scoreboard");
	assert_int_equal(n.length, strlen(n.state));
	/* No more is taken away than what is known. */
	assert_string_equal(stall_name_of("other__long_scoreboard").state,
			    "other__long_scoreboard");
	assert_string_equal(stall_name_of(REASON("")).state, REASON(""));
	assert_false(stall_name_of("_not_issued").not_issued);
	assert_false(stall_reason_of("selected").is_wait);
	assert_false(stall_reason_of("not_selected").is_wait);
	assert_true(stall_reason_of("wait").is_wait);
	assert_string_equal(stall_reason_of("long_scoreboard").words,
			    "waiting for global or local memory");
	assert_string_equal(stall_reason_of("new_unit").words, "new_unit");
	assert_string_equal(stall_reason_of("new_unit").advice, "");
	assert_true(stall_reason_of("new_unit").is_wait);
}

/*
 * Twins are samples of their reason, too; one instruction in two readings and two processes is one.
 */
static void added_up(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct stall_place *p;
	const struct stalls *s;
	struct analyzed a;

	add_sample(m, 1, 5, "k", 16, MEMORY, 60);
	add_sample(m, 1, 5, "k", 16, MEMORY "_not_issued", 40);
	add_sample(m, 1, 5, "k", 16, REASON("selected"), 70);
	add_sample(m, 2, 5, "k", 16, MEMORY, 6);
	add_sample(m, 2, 5, "k", 32, REASON("barrier"), 4);
	add_sample(m, 2, 6, "k", 16, MEMORY, 1); /* other device code with a kernel of this name */
	add_reading(m, 1, 1000, 175, 2, 3);
	add_reading(m, 2, 2000, 11, 0, 0);
	maker_close(m, 9000);
	m = begin(*state, 101);
	add_sample(m, 1, 5, "k", 16, MEMORY "_not_issued", 2);
	add_sample(m, 1, 5, "k", 16, MEMORY, 3);
	add_reading(m, 1, 1000, 15, 0, 0);
	maker_close(m, 9000);
	analyze(&a, *state, WITH_LINES);
	s = a.report.stalls;
	check_sums(&a.report);
	assert_int_equal(s->rows, 8);
	assert_int_equal(s->readings, 3);
	assert_int_equal(s->period_cycles, 1024);
	assert_int_equal(s->samples, 186);
	assert_int_equal(s->not_issued, 42);
	assert_int_equal(s->unaccounted, 10);
	assert_int_equal(s->without_code, 186);
	assert_int_equal(s->kernels.count, 1);
	assert_int_equal(s->instructions.count, 3);
	p = &s->instructions.items[0];
	assert_int_equal(p->offset, 16);
	assert_int_equal(p->function->crc, 5);
	assert_int_equal(p->samples, 181);
	assert_int_equal(p->not_issued, 42);
	assert_string_equal(p->kernel_name, "k");
	assert_int_equal(p->reason_count, 2);
	assert_string_equal(p->reasons[1].what.name, "selected");
	assert_string_equal(stalls_first_wait(p)->what.name, "long_scoreboard");
	assert_int_equal(stalls_first_wait(p)->samples, 111);
	assert_int_equal(s->reasons[0].samples, 112);
	assert_string_equal(s->reasons[1].what.name, "selected");
	assert_int_equal(s->reason_count, 3);
	analyzed_release(&a);
}

/* Readings of several contexts may differ; then no period is that of all. */
static void periods(void **state)
{
	struct maker *m = begin(*state, 100);
	struct row_pc_reading row = {
		.id = 2, .start_ns = 2000, .end_ns = 3000, .period_cycles = 4096, .total = 1
	};
	struct report_options options = WITH_LINES;
	struct analyzed a;

	add_reading(m, 1, 1000, 1, 0, 1);
	add_sample(m, 2, 5, "k", 16, MEMORY, 1);
	writer_append(m->writer, TABLE_pc_reading, &row);
	maker_close(m, 9000);
	analyze(&a, *state, options);
	assert_int_equal(a.report.stalls->period_cycles, 0);
	analyzed_release(&a);
	options.filter.since_ns = 2000;
	analyze(&a, *state, options);
	assert_int_equal(a.report.stalls->period_cycles, 4096);
	analyzed_release(&a);
}

static void lines_and_inlined_calls(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct stall_place *p;
	const struct stalls *s;
	struct analyzed a;

	put_cubin(*state, "5.cubin", "lineinfo");
	put_cubin(*state, "6.cubin", "plain");
	add_cubin(m, 5, "cubins/5.cubin");
	add_cubin(m, 6, "cubins/6.cubin");
	add_sample(m, 1, 5, SMOOTH, 0xe0, REASON("wait"), 40);
	add_sample(m, 1, 5, SMOOTH, 0x110, REASON("wait"), 10);
	add_sample(m, 1, 5, SMOOTH, 0xd0, MEMORY, 45);
	add_sample(m, 1, 5, GATHER, 0x40, MEMORY, 3);
	add_sample(m, 1, 5, SMOOTH, GATHER_START + 0x40, MEMORY, 20);
	add_sample(m, 1, 6, SMOOTH, 0xd0, MEMORY, 7);
	add_sample(m, 1, 5, "nobody", 0, MEMORY, 1);
	add_reading(m, 1, 1000, 126, 0, 0);
	maker_close(m, 9000);
	analyze(&a, *state, WITH_LINES);
	s = a.report.stalls;
	check_sums(&a.report);
	assert_int_equal(s->unaccounted, 0);
	assert_int_equal(s->without_line, 8);
	assert_int_equal(s->without_code, 0);
	assert_int_equal(s->kernels.count, 2);
	assert_string_equal(s->kernels.items[0].kernel_name, SMOOTH);
	assert_int_equal(s->kernels.items[0].samples, 125);
	/* One line of a header, inlined twice. */
	assert_int_equal(s->lines.count, 3);
	assert_string_equal(s->lines.items[0].file, "/src/math.h");
	assert_int_equal(s->lines.items[0].line, 3);
	assert_int_equal(s->lines.items[0].samples, 50);
	assert_int_equal(s->lines.items[1].line, 16);
	assert_int_equal(s->lines.items[2].line, 7);
	assert_int_equal(s->lines.items[2].samples, 23);
	p = &s->instructions.items[1];
	assert_int_equal(p->offset, 0xe0);
	assert_int_equal(p->frame_count, 3);
	assert_int_equal(p->frames[0].line, 16);
	assert_int_equal(p->frames[1].line, 8);
	assert_int_equal(p->frames[2].line, 3);
	/* A device function, whatever it is called. */
	p = &s->instructions.items[2];
	assert_int_equal(p->offset, GATHER_START + 0x40);
	assert_int_equal(p->samples, 23);
	assert_string_equal(p->function->name, SMOOTH);
	assert_string_equal(p->frames[0].function, GATHER);
	analyzed_release(&a);
}

/* Only files of the recording are read: whoever sends one does not choose which of ours are. */
static void files_of_the_recording(void **state)
{
	const char *folder = strrchr(*state, '/') + 1;
	char around[128];
	const char *const names[] = { CUBINS "/lineinfo", around,   "cubins/../cubins/5.cubin",
				      "cubins/none",      "cubins", "",
				      "recording.json",   ".." };
	struct maker *m = begin(*state, 100);
	struct analyzed a;

	snprintf(around, sizeof(around), "../%s/cubins/5.cubin", folder);
	put_cubin(*state, "5.cubin", "lineinfo");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		add_cubin(m, i, names[i]);
		add_sample(m, 1, i, SMOOTH, 0, MEMORY, 1);
	}
	add_cubin(m, 50, "./cubins/5.cubin");
	add_cubin(m, 50, NULL);
	add_sample(m, 1, 50, SMOOTH, 0, MEMORY, 1);
	add_reading(m, 1, 1000, 9, 0, 0);
	maker_close(m, 9000);
	m = begin(*state, 101);
	add_cubin(m, 0, NULL);
	maker_close(m, 9000);
	analyze(&a, *state, WITH_LINES);
	check_sums(&a.report);
	assert_int_equal(a.report.stalls->without_code, 8);
	assert_int_equal(a.report.stalls->lines.count, 1);
	analyzed_release(&a);
}

static void choose(struct analyzed *a, const char *folder, struct report_options options)
{
	analyze(a, folder, options);
	check_sums(&a->report);
}

static void filters(void **state)
{
	struct report_options o = WITH_LINES;
	struct maker *m = begin(*state, 100);
	struct analyzed a;

	put_cubin(*state, "5.cubin", "lineinfo");
	add_cubin(m, 5, "cubins/5.cubin");
	add_reading(m, 1, 1000, 30, 1, 2);
	add_reading(m, 2, 2000, 9, 0, 4);
	add_sample(m, 1, 5, SMOOTH, 0, MEMORY, 20);
	add_sample(m, 1, 5, GATHER, 0, MEMORY, 6);
	add_sample(m, 1, 5, SCALE, 0, REASON("barrier"), 1);
	add_sample(m, 2, 5, SMOOTH, 0, MEMORY, 5);
	maker_close(m, 9000);
	m = begin(*state, 101);
	m->device = 3;
	add_reading(m, 1, 1500, 8, 0, 0);
	add_sample(m, 1, 5, SCALE, 0, MEMORY, 8);
	add_sample(m, 77, 5, SCALE, 0, MEMORY, 50); /* its reading is lost */
	maker_close(m, 9000);

	o.filter = (struct filter)FILTER_ALL;
	o.filter.since_ns = 1500;
	o.filter.until_ns = 2001;
	choose(&a, *state, o);
	assert_int_equal(a.report.stalls->readings, 2);
	assert_int_equal(a.report.stalls->samples, 13);
	assert_int_equal(a.report.stalls->total, 17);
	analyzed_release(&a);

	o.filter.until_ns = 2000;
	choose(&a, *state, o);
	assert_int_equal(a.report.stalls->samples, 8);
	analyzed_release(&a);

	o.filter = (struct filter)FILTER_ALL;
	o.filter.pid = 100;
	choose(&a, *state, o);
	assert_int_equal(a.report.stalls->samples, 32);
	assert_int_equal(a.report.stalls->rows, 6);
	assert_int_equal(a.report.stalls->dropped, 1);
	assert_int_equal(a.report.stalls->other, 6);
	analyzed_release(&a);

	o.filter = (struct filter)FILTER_ALL;
	o.filter.device = 3;
	choose(&a, *state, o);
	assert_int_equal(a.report.stalls->samples, 8);
	assert_int_equal(a.report.stalls->total, 8);
	analyzed_release(&a);

	o.filter.device = -1;
	o.filter.pid = 100;
	o.filter.kernel = "smooth";
	choose(&a, *state, o);
	assert_int_equal(a.report.stalls->samples, 31);
	assert_int_equal(a.report.stalls->excluded, 1);
	assert_int_equal(a.report.stalls->kernels.count, 1);
	assert_int_equal(a.report.stalls->reason_count, 1);
	analyzed_release(&a);

	o.stalls = false;
	choose(&a, *state, o);
	assert_int_equal(a.report.stalls->samples, 31);
	analyzed_release(&a);
}

/* Thousands of random rows, many kinds of reasons, offsets beyond all code. */
static void random_rows(void **state)
{
	static const char *const functions[] = { SMOOTH, SCALE, GATHER, "other", "" };
	struct maker *m = begin(*state, 100);
	uint64_t seed = 11, total = 0;
	const struct stalls *s;
	struct analyzed a;

	put_cubin(*state, "5.cubin", "lineinfo");
	add_cubin(m, 5, "cubins/5.cubin");
	for (unsigned i = 0; i < 6000; i++) {
		uint64_t r = random_u64(&seed), samples = random_u64(&seed) % 100;
		uint64_t offset = i % 500 ? random_u64(&seed) % 0x60 * 16 : random_u64(&seed);
		char reason[64];

		snprintf(reason, sizeof(reason), REASON("kind_%u"), i < 3000 ? i / 2 : i % 7);
		add_sample(m, 1, 4 + r % 3, functions[r / 8 % ARRAY_SIZE(functions)], offset,
			   reason, samples);
		total += samples;
	}
	add_reading(m, 1, 1000, total + 5, 2, 3);
	maker_close(m, 9000);
	analyze(&a, *state, WITH_LINES);
	s = a.report.stalls;
	check_sums(&a.report);
	assert_int_equal(s->samples, total);
	assert_int_equal(s->unaccounted, 0);
	assert_int_equal(s->reason_count, 1500);
	assert_non_null(find_kernel(s, "other"));
	assert_non_null(find_kernel(s, GATHER)); /* of the code that was not kept */
	assert_true(s->lines.count > 5);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_reasons),
		folder_test(added_up),
		folder_test(periods),
		folder_test(lines_and_inlined_calls),
		folder_test(files_of_the_recording),
		folder_test(filters),
		folder_test(random_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
