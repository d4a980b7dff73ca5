#include "analysis/nvtx_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "report_fixture.h"

static const struct nvtx_range *find(const struct trace *t, const struct nvtx_ranges *n,
				     const char *text)
{
	for (size_t i = 0; i < n->count; i++)
		if (!strcmp(trace_string(t, n->items[i].message), text))
			return &n->items[i];
	fail_msg("no range %s", text);
	return NULL;
}

static void event_at(struct maker *m, enum nvtx_kind kind, uint32_t thread, uint32_t domain,
		     uint64_t range, int level, const char *text, uint64_t time_ns)
{
	struct row_nvtx row = { .time_ns = time_ns,
				.kind = (uint8_t)kind,
				.thread = thread,
				.domain = domain,
				.range = range,
				.level = (uint8_t)level };

	if (text)
		row.message = maker_string(m, text);
	else
		ROW_MISSING(&row, nvtx, message);
	if (!range)
		ROW_MISSING(&row, nvtx, range);
	if (level < 0)
		ROW_MISSING(&row, nvtx, level);
	writer_append(m->writer, TABLE_nvtx, &row);
}

static void event(struct maker *m, enum nvtx_kind kind, uint32_t thread, uint32_t domain,
		  uint64_t range, const char *text, uint64_t time_ns)
{
	event_at(m, kind, thread, domain, range, -1, text, time_ns);
}

static void push(struct maker *m, uint32_t domain, int level, const char *text, uint64_t time_ns)
{
	event_at(m, nvtx_kind_push, 10, domain, 0, level, text, time_ns);
}

static void pop(struct maker *m, uint32_t domain, int level, uint64_t time_ns)
{
	event_at(m, nvtx_kind_pop, 10, domain, 0, level, NULL, time_ns);
}

static void ranges_nest_by_thread_and_domain(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct nvtx_range *a, *b;
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;

	event(m, nvtx_kind_push, 10, 0, 0, "a", 1000);
	event(m, nvtx_kind_push, 10, 1, 0, "b", 1100); /* another domain */
	event(m, nvtx_kind_push, 10, 0, 0, "c", 1200);
	event(m, nvtx_kind_push, 11, 0, 0, "d", 1250); /* another thread */
	event(m, nvtx_kind_pop, 10, 1, 0, NULL, 1300); /* ends b, in the middle */
	event(m, nvtx_kind_push, 10, 0, 0, "e", 1350);
	event(m, nvtx_kind_pop, 10, 0, 0, NULL, 1400); /* e */
	event(m, nvtx_kind_pop, 10, 0, 0, NULL, 1500); /* c */
	event(m, nvtx_kind_pop, 10, 1, 0, NULL, 1550); /* nothing open in domain 1 */
	event(m, nvtx_kind_start, 10, 0, 5, "s", 1600);
	event(m, nvtx_kind_end, 11, 0, 5, NULL, 1700); /* by another thread */
	event(m, nvtx_kind_end, 11, 0, 5, NULL, 1800); /* twice */
	event(m, nvtx_kind_mark, 10, 0, 0, "mark", 1900);
	maker_call(m, MAKER_LAUNCH, 10, 1220, 1230, 1);
	maker_call(m, MAKER_LAUNCH, 10, 1320, 1330, 2);
	maker_call(m, MAKER_LAUNCH, 10, 1990, 1995, 3);
	maker_call(m, MAKER_LAUNCH, 12, 2000, 2001, 4);
	maker_close(m, 9000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, true, &e), 0);
	assert_int_equal(n.count, 6);
	assert_int_equal(n.unmatched, 2);
	a = find(t, &n, "a");
	assert_true(a->open);
	assert_int_equal(a->end_ns, 9000);
	assert_int_equal(a->parent, NVTX_NO_RANGE);
	b = find(t, &n, "b");
	assert_int_equal(b->end_ns, 1300);
	assert_ptr_equal(&n.items[b->parent], a);
	assert_ptr_equal(&n.items[find(t, &n, "c")->parent], b);
	assert_ptr_equal(&n.items[find(t, &n, "e")->parent], find(t, &n, "c"));
	assert_int_equal(find(t, &n, "c")->end_ns, 1500);
	assert_true(find(t, &n, "d")->open);
	assert_int_equal(find(t, &n, "s")->end_ns, 1700);
	assert_false(find(t, &n, "s")->pushed);
	assert_ptr_equal(&n.items[n.of_call[0]], find(t, &n, "c"));
	assert_ptr_equal(&n.items[n.of_call[1]], find(t, &n, "c"));
	assert_ptr_equal(&n.items[n.of_call[2]], a);
	assert_int_equal(n.of_call[3], NVTX_NO_RANGE);
	nvtx_ranges_release(&n);
	trace_free(t);
}

/* The same ranges found by time instead of by call. */
static void cursors_find_the_innermost_range(void **state)
{
	struct maker *m = begin(*state, 100);
	struct nvtx_ranges n;
	struct nvtx_cursor cursor = { .ranges = &n };
	struct error e = { 0 };
	struct trace *t;
	uint64_t seed = 7, at = 1000;

	for (uint64_t i = 1; i < 2000; i++) {
		uint32_t thread = 10 + (uint32_t)(random_u64(&seed) % 3);
		bool push = random_u64(&seed) % 2;

		at += 1 + random_u64(&seed) % 5;
		event(m, push ? nvtx_kind_push : nvtx_kind_pop, thread,
		      (uint32_t)(random_u64(&seed) % 2), 0, push ? "r" : NULL, at * 2);
		maker_call(m, MAKER_LAUNCH, thread, at * 2 + 1, at * 2 + 2, i);
	}
	maker_close(m, at * 2 + 100);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, true, &e), 0);
	for (uint64_t row = 0; row < trace_rows(t, TABLE_api_call); row++) {
		uint32_t range;

		assert_int_equal(
			nvtx_cursor_at(&cursor, 0,
				       trace_u32(t, TABLE_api_call, COLUMN_api_call_thread)[row],
				       trace_u64(t, TABLE_api_call, COLUMN_api_call_start_ns)[row],
				       &range),
			0);
		assert_int_equal(range, n.of_call[row]);
	}
	/* a process without ranges */
	assert_int_equal(nvtx_cursor_at(&cursor, 1, 10, at, &(uint32_t){ 0 }), 0);
	map_release(&cursor.last);
	nvtx_ranges_release(&n);
	trace_free(t);
}

static void assert_range(const struct trace *t, const struct nvtx_ranges *n, const char *text,
			 const char *parent, uint64_t end_ns)
{
	const struct nvtx_range *range = find(t, n, text);

	assert_int_equal(range->end_ns, end_ns);
	assert_false(range->open);
	if (parent)
		assert_ptr_equal(&n->items[range->parent], find(t, n, parent));
	else
		assert_int_equal(range->parent, NVTX_NO_RANGE);
}

static void lost_pops_end_with_what_follows(void **state)
{
	struct maker *m = begin(*state, 100);
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;

	push(m, 0, 0, "a", 1000);
	push(m, 0, 1, "b", 1100); /* its pop is lost */
	push(m, 1, 0, "other", 1150);
	push(m, 0, 1, "c", 1200); /* so b ends here */
	push(m, 0, 2, "d", 1300); /* as are the pops of these two */
	push(m, 0, 3, "e", 1400);
	pop(m, 0, 1, 1500); /* c, so d and e end here at the latest */
	pop(m, 1, 0, 1550);
	pop(m, 0, 0, 1600);
	push(m, 0, 0, "f", 1700);
	maker_call(m, MAKER_LAUNCH, 10, 1250, 1260, 1);
	maker_call(m, MAKER_LAUNCH, 10, 1560, 1570, 2);
	maker_call(m, MAKER_LAUNCH, 10, 1650, 1660, 3);
	maker_close(m, 9000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, true, &e), 0);
	assert_int_equal(n.unmatched, 0);
	assert_range(t, &n, "a", NULL, 1600);
	assert_range(t, &n, "b", "a", 1200);
	assert_range(t, &n, "other", "b", 1550);
	assert_range(t, &n, "c", "other", 1500);
	assert_range(t, &n, "d", "c", 1500);
	assert_range(t, &n, "e", "d", 1500);
	assert_true(find(t, &n, "f")->open);
	assert_ptr_equal(&n.items[n.of_call[0]], find(t, &n, "c"));
	assert_ptr_equal(&n.items[n.of_call[1]], find(t, &n, "a"));
	assert_int_equal(n.of_call[2], NVTX_NO_RANGE);
	nvtx_ranges_release(&n);
	trace_free(t);
}

static void lost_pushes_leave_the_others_alone(void **state)
{
	struct maker *m = begin(*state, 100);
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;

	pop(m, 0, 0, 900); /* began before the recording */
	push(m, 0, 0, "a", 1000);
	/* a push at 1 is lost */
	push(m, 0, 2, "c", 1200);
	pop(m, 0, 2, 1300);
	pop(m, 0, 1, 1400); /* of the lost push */
	push(m, 0, 1, "d", 1500);
	/* a push at 2, and d's pop too */
	pop(m, 0, 2, 1600); /* of the lost push */
	pop(m, 0, 0, 1700);
	maker_close(m, 9000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, false, &e), 0);
	assert_int_equal(n.unmatched, 3);
	assert_range(t, &n, "a", NULL, 1700);
	assert_range(t, &n, "c", "a", 1300);
	assert_range(t, &n, "d", "a", 1700);
	nvtx_ranges_release(&n);
	trace_free(t);
}

/* Ranges too deep for a level, of which the pops are paired as they come. */
static void unknown_levels_are_above_the_known(void **state)
{
	struct maker *m = begin(*state, 100);
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;

	push(m, 0, 30, "known", 1000);
	push(m, 0, -1, "deep", 1100);
	push(m, 0, -1, "deeper", 1200);
	pop(m, 0, -1, 1300);
	pop(m, 0, -1, 1400);
	pop(m, 0, -1, 1500); /* of a lost push: `known` is not so deep */
	push(m, 0, -1, "not ended", 1600);
	pop(m, 0, 30, 1700);
	maker_close(m, 9000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, false, &e), 0);
	assert_int_equal(n.unmatched, 1);
	assert_range(t, &n, "known", NULL, 1700);
	assert_range(t, &n, "deep", "known", 1400);
	assert_range(t, &n, "deeper", "deep", 1300);
	assert_range(t, &n, "not ended", "known", 1700);
	nvtx_ranges_release(&n);
	trace_free(t);
}

/* Pops without pushes and deep nesting in two domains must stay linear. */
static void odd_orders_stay_fast(void **state)
{
	struct maker *m = begin(*state, 100);
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;

	for (uint64_t i = 1; i <= 50000; i++) {
		event(m, nvtx_kind_push, 10, 0, 0, "x", i * 4);
		event(m, nvtx_kind_pop, 10, 2, 0, NULL, i * 4 + 1);
		event(m, nvtx_kind_push, 10, 1, 0, "y", i * 4 + 2);
	}
	for (uint64_t i = 1; i <= 50000; i++)
		event(m, nvtx_kind_pop, 10, 0, 0, NULL, 1000000 + i);
	maker_close(m, 2000000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, false, &e), 0);
	assert_int_equal(n.count, 100000);
	assert_int_equal(n.unmatched, 50000);
	assert_null(n.of_call);
	nvtx_ranges_release(&n);
	trace_free(t);
}

#define TOKEN nvtx_kind_token
#define PUSH nvtx_kind_push
#define POP nvtx_kind_pop

/*
 * Of tokens: known, used twice and after their scope has ended, given anew, never given, and of
 * another process.
 */
static void tokens_carry_scopes_to_other_threads(void **state)
{
	struct maker *m = begin(*state, 100), *other;
	const struct nvtx_range *step, *part, *carried;
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;

	maker_scope(m, PUSH, 10, "before", 0, 800);
	maker_scope(m, TOKEN, 10, NULL, 4, 810);
	maker_scope(m, POP, 10, NULL, 0, 820);
	maker_scope(m, TOKEN, 10, NULL, 4, 900); /* in no range: it names none any more */
	maker_scope(m, PUSH, 10, "step", 0, 1000);
	maker_scope(m, TOKEN, 10, NULL, 5, 1010);
	maker_nvtx(m, PUSH, 11, "loader", 1020);
	maker_scope(m, PUSH, 11, "carried", 5, 1030);
	maker_scope(m, PUSH, 11, "part", 0, 1040);
	maker_call(m, MAKER_LAUNCH, 11, 1050, 1060, 1);
	maker_scope(m, POP, 11, NULL, 0, 1070);
	maker_scope(m, TOKEN, 11, NULL, 6, 1080); /* names the carried one */
	maker_scope(m, POP, 11, NULL, 0, 1090);
	maker_call(m, MAKER_LAUNCH, 11, 1095, 1096, 2);
	maker_nvtx(m, POP, 11, NULL, 1100);
	maker_scope(m, POP, 10, NULL, 0, 1200);
	maker_scope(m, PUSH, 12, "again", 6, 1300);
	maker_scope(m, POP, 12, NULL, 0, 1400);
	maker_scope(m, PUSH, 12, "other", 0, 1500);
	maker_scope(m, TOKEN, 12, NULL, 5, 1510); /* another scope now */
	maker_scope(m, PUSH, 13, "carried other", 5, 1520);
	maker_scope(m, PUSH, 14, "unknown", 77, 1530);
	maker_scope(m, PUSH, 15, "of none", 4, 1540);
	maker_close(m, 9000);
	other = begin(*state, 200);
	maker_scope(other, PUSH, 10, "of another process", 5, 2000);
	maker_close(other, 9000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, true, &e), 0);
	assert_int_equal(n.unmatched, 0);
	step = find(t, &n, "step");
	carried = find(t, &n, "carried");
	part = find(t, &n, "part");
	assert_true(step->pitot && step->is_scope && !step->carried);
	assert_true(carried->carried && !carried->is_scope);
	assert_int_equal(carried->end_ns, 1090);
	assert_ptr_equal(&n.items[carried->parent], find(t, &n, "loader")); /* on its thread */
	assert_ptr_equal(&n.items[carried->outer], step);
	assert_int_equal(carried->path, step->path);
	assert_ptr_equal(&n.items[part->outer], carried);
	assert_int_equal(n.paths[part->path].parent, step->path);
	assert_int_equal(nvtx_path_of_call(&n, 0), part->path);
	assert_int_equal(nvtx_path_of_call(&n, 1), find(t, &n, "loader")->path);
	assert_int_equal(nvtx_path_of_call(&n, TRACE_NO_ROW), SCOPE_NONE);
	assert_ptr_equal(&n.items[find(t, &n, "again")->outer], step);
	assert_int_equal(nvtx_scope(n.items, (uint32_t)(find(t, &n, "again") - n.items)),
			 step - n.items);
	assert_int_equal(nvtx_scope(n.items, (uint32_t)(part - n.items)), part - n.items);
	assert_ptr_equal(&n.items[find(t, &n, "carried other")->outer], find(t, &n, "other"));
	for (unsigned i = 0; i < 3; i++) {
		const char *names[] = { "unknown", "of none", "of another process" };
		const struct nvtx_range *r = find(t, &n, names[i]);

		assert_int_equal(r->outer, NVTX_NO_RANGE);
		assert_true(r->carried && !r->is_scope);
		assert_int_equal(n.paths[r->path].message, r->message);
	}
	nvtx_ranges_release(&n);
	trace_free(t);
}

static void expect_paths(struct trace *t, enum scope_choice choice, const char *of_part,
			 const char *of_layer, size_t count)
{
	_cleanup_strbuf_ struct strbuf part = STRBUF_INIT, layer = STRBUF_INIT;
	struct nvtx_ranges n;
	struct error e = { 0 };

	assert_int_equal(nvtx_ranges_init(&n, t, choice, false, &e), 0);
	scope_path_text(&n, t, find(t, &n, "part")->path, &part);
	scope_path_text(&n, t, find(t, &n, "layer")->path, &layer);
	assert_string_equal(strbuf_text(&part), of_part);
	assert_string_equal(strbuf_text(&layer), of_layer);
	assert_int_equal(n.path_count, count);
	nvtx_ranges_release(&n);
}

static void scopes_are_of_a_domain_or_of_all(void **state)
{
	struct maker *m = begin(*state, 100), *other = begin(*state, 200);
	struct trace *t;

	maker_nvtx(m, PUSH, 10, "epoch", 1000);
	maker_scope(m, PUSH, 10, "step", 0, 1100);
	maker_nvtx(m, PUSH, 10, "layer", 1200);
	maker_scope(m, PUSH, 10, "part", 0, 1300);
	maker_scope(m, PUSH, 10, NULL, 0, 1400);
	event(m, nvtx_kind_start, 10, 0, 5, "crosses", 1500); /* never a scope */
	maker_close(m, 9000);
	event(other, PUSH, 10, 9, 0, "of another domain 9", 1000);
	maker_close(other, 9000);
	t = open_trace(*state);
	expect_paths(t, SCOPES_ALL, "epoch/step/layer/part", "epoch/step/layer", 6);
	expect_paths(t, SCOPES_PITOT, "step/part", "step", 3);
	expect_paths(t, SCOPES_NVTX, "epoch/layer", "epoch/layer", 3);
	trace_free(t);
}

static bool matches(const struct nvtx_ranges *n, const struct trace *t, const char *glob,
		    const char *range)
{
	uint8_t *all = scope_paths_match(n, t, glob);
	bool wanted = scope_path_selected(all, find(t, n, range)->path);

	assert_false(scope_path_selected(all, SCOPE_NONE));
	free(all);
	return wanted;
}

static void globs_match_levels(void **state)
{
	struct maker *m = begin(*state, 100);
	char many[200];
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;

	maker_scope(m, PUSH, 10, "epoch", 0, 1000);
	maker_scope(m, PUSH, 10, "step 1", 0, 1100);
	maker_scope(m, PUSH, 10, "forward", 0, 1200);
	maker_scope(m, PUSH, 10, "attention", 0, 1300);
	maker_scope(m, PUSH, 11, "forward", 0, 1350); /* in no step */
	maker_scope(m, PUSH, 11, "alone", 0, 1400);
	maker_scope(m, PUSH, 12, "a/b", 0, 1500);
	maker_close(m, 9000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, false, &e), 0);
	assert_true(matches(&n, t, "forward", "attention"));
	assert_true(matches(&n, t, "forward", "alone"));
	assert_false(matches(&n, t, "forward", "step 1"));
	assert_true(matches(&n, t, "step/forward", "attention")); /* as parts of names */
	assert_true(matches(&n, t, "st*1/for?ard", "forward"));
	assert_false(matches(&n, t, "step/forward", "alone"));
	assert_false(matches(&n, t, "st?p/forward", "attention")); /* a glob is a whole name */
	assert_false(matches(&n, t, "epoch/forward", "attention")); /* not directly inside */
	assert_true(matches(&n, t, "epoch/step/forward/attention", "attention"));
	assert_false(matches(&n, t, "x/epoch", "epoch"));
	assert_true(matches(&n, t, "a/b", "a/b"));
	assert_true(matches(&n, t, "", "epoch"));
	memset(many, '/', sizeof(many)); /* more levels than there can be */
	many[sizeof(many) - 1] = '\0';
	assert_false(matches(&n, t, many, "attention"));
	nvtx_ranges_release(&n);
	trace_free(t);
}

/* Of scopes that are too deep the innermost is known; texts of paths have an end. */
static void paths_have_a_limit(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct maker *m = begin(*state, 100);
	struct nvtx_ranges n;
	struct error e = { 0 };
	struct trace *t;
	uint32_t path;

	for (uint64_t i = 0; i < 1000; i++) {
		maker_scope(m, PUSH, 10, "again", 0, 1000 + i);
		/* A chain of tokens, each of a scope inside of what the one before names. */
		maker_scope(m, PUSH, 20 + (uint32_t)i, NULL, i, 1000 + i);
		maker_scope(m, PUSH, 20 + (uint32_t)i, "again", 0, 1000 + i);
		maker_scope(m, TOKEN, 20 + (uint32_t)i, NULL, i + 1, 1000 + i);
	}
	maker_scope(m, PUSH, 10, "innermost", 0, 3000);
	maker_close(m, 9000);
	t = open_trace(*state);
	assert_int_equal(nvtx_ranges_init(&n, t, SCOPES_ALL, false, &e), 0);
	assert_int_equal(n.path_count, 2 * SCOPE_DEPTH_MAX + 3); /* two chains, and `innermost` */
	path = find(t, &n, "innermost")->path;
	assert_int_equal(n.paths[path].depth, SCOPE_DEPTH_MAX);
	assert_string_equal(scope_path_name(&n, t, path), "innermost");
	scope_path_text(&n, t, path, &text);
	assert_true(text.length > 400 && text.length < 510);
	assert_memory_equal(strbuf_text(&text), "../again/again/", 15);
	assert_string_equal(strbuf_text(&text) + text.length - 16, "/again/innermost");
	nvtx_ranges_release(&n);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(ranges_nest_by_thread_and_domain),
		folder_test(cursors_find_the_innermost_range),
		folder_test(lost_pops_end_with_what_follows),
		folder_test(lost_pushes_leave_the_others_alone),
		folder_test(unknown_levels_are_above_the_known),
		folder_test(odd_orders_stay_fast),
		folder_test(tokens_carry_scopes_to_other_threads),
		folder_test(scopes_are_of_a_domain_or_of_all),
		folder_test(globs_match_levels),
		folder_test(paths_have_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
