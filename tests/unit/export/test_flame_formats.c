/*
 * test_flame_formats.c: folded stacks, what is drawn, and what the formats share. Other formats:
 * tests/cli/test_flame.py.
 */
#include "export/flame/flame_formats.h"

#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/utf8.h"
#include "export/flame/flame_path.h"
#include "export/flame/flame_picture.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

struct graph {
	struct trace *trace;
	struct flame flame;
};

static void open_graph(struct graph *g, const char *folder, struct flame_options o)
{
	struct trace_options options = { .threads = 1 };
	struct error e = { 0 };

	if (trace_open(folder, &options, &g->trace, &e) < 0 ||
	    flame_init(&g->flame, g->trace, &o, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(flame_finish(&g->flame, false), 0);
}

static void close_graph(struct graph *g)
{
	flame_release(&g->flame);
	trace_free(g->trace);
}

static const struct flame_format *format_named(const char *name)
{
	const struct flame_format *f = flame_formats;

	while (strcmp(f->file.name, name) != 0)
		f++;
	return f;
}

/* What a format writes, as text. */
static void write_as(const struct graph *g, const char *folder, const char *format, bool xpu_perf,
		     struct strbuf *text)
{
	struct flame_write w = {
		.title = "app <&>", .recording = "r.pitot", .notes = "", .xpu_perf = xpu_perf
	};
	struct error e = { 0 };
	uint64_t bytes;
	char path[4096];

	snprintf(path, sizeof(path), "%s/out", folder);
	if (flame_write(&g->flame, format_named(format), &w, path, true, &bytes, &e) < 0)
		fail_msg("%s", e.text);
	strbuf_clear(text);
	assert_int_equal(io_read_file(path, 64 << 20, text), 0);
	assert_int_equal(text->length, bytes);
}

static void formats_by_name(void **state)
{
	static const struct {
		const char *path, *format;
	} paths[] = {
		{ "x.folded", "folded" },     { "x.svg", "svg" },
		{ "x.html", "html" },         { "x.pb.gz", "pprof" },
		{ "x.json", "firefox" },      { "x.speedscope.json", "speedscope" },
		{ "a/b.json.gz", "firefox" }, { "speedscope.json", "firefox" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_string_equal(flame_format_by_path(paths[i].path)->file.name,
				    paths[i].format);
	assert_null(flame_format_by_path("x"));
	assert_null(flame_format_by_path(".svg"));
	assert_null(flame_format_by_path("x.png"));
}

static void make_small(const char *folder, const char *hostile, uint64_t unit_ns)
{
	struct maker *m = maker_begin(folder, 100, 0, "./app");
	uint32_t a = maker_config(m, hostile, 1, 32), b = maker_config(m, "_Z3mulPf", 1, 32);

	maker_device(m, 0, 0);
	maker_thread(m, 10, "main", 0);
	maker_call(m, MAKER_RUNTIME_LAUNCH, 10, 1000, 1100, 1);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 10, 2000, 4499, 2);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, 5000, 5000, 3);
	maker_kernel(m, a, 7, 1200, 1200 + 14 * unit_ns, 1);
	maker_kernel(m, b, 7, 1200 + 20 * unit_ns, 1200 + 26 * unit_ns, 1);
	maker_memset(m, 4, 7, 1200 + 30 * unit_ns, 1200 + 30 * unit_ns + unit_ns, 1);
	maker_close(m, 1200 + 100 * unit_ns);
}

#define MERGED ((struct flame_options)FLAME_OPTIONS_INIT)

static void folded_by_hand(void **state)
{
	struct strbuf text = STRBUF_INIT;
	struct flame_options o = MERGED;
	struct graph g;

	make_small(*state, "a;b\nc", 100);
	open_graph(&g, *state, o);
	write_as(&g, *state, "folded", false, &text);
	/* 1.4, 0.6 and 0.1 us: 2.1 in all; 2.499 of waiting */
	assert_string_equal(strbuf_text(&text), "[GPU];[main];cudaLaunchKernel;a:b?c 1\n"
						"[GPU];[main];cudaLaunchKernel;mul 1\n"
						"[GPU];[main];cudaLaunchKernel;set (device) 0\n"
						"[wait];[main];cudaDeviceSynchronize 2\n"
						"[wait];[main];cudaStreamSynchronize 0\n");
	close_graph(&g);
	o.kinds = 1 << FLAME_GPU;
	open_graph(&g, *state, o);
	write_as(&g, *state, "folded", false, &text);
	assert_string_equal(strbuf_text(&text), "[main];cudaLaunchKernel;a:b?c 1\n"
						"[main];cudaLaunchKernel;mul 1\n"
						"[main];cudaLaunchKernel;set (device) 0\n");
	close_graph(&g);
	strbuf_release(&text);
}

static void folded_like_xpu_perf(void **state)
{
	struct flame_options o = { .kinds = 1 << FLAME_GPU,
				   .detail = STACK_XPU_PERF,
				   .only_kernels = true,
				   .until_ns = UINT64_MAX };
	struct strbuf text = STRBUF_INIT;
	struct graph g;

	/* 280 ms are 14 samples; 120 ms are 6; sets do not count */
	make_small(*state, "_Z3addPf", 20000000);
	open_graph(&g, *state, o);
	write_as(&g, *state, "folded", true, &text);
	assert_string_equal(strbuf_text(&text), "[main];cudaLaunchKernel;[GPU_Kernel]_Z3addPf 14\n"
						"[main];cudaLaunchKernel;[GPU_Kernel]_Z3mulPf 6\n");
	close_graph(&g);
	strbuf_release(&text);
}

/* Many small kernels with stacks of their own, and a few large ones. */
static uint64_t make_many(const char *folder, unsigned count)
{
	struct maker *m = maker_begin(folder, 100, 0, "./app");
	uint64_t total_ns = 0, now = 1000;
	char name[32];

	maker_device(m, 0, 0);
	for (unsigned i = 0; i < count; i++) {
		uint64_t ns = 1 + (i * UINT64_C(7919)) % 1301;

		snprintf(name, sizeof(name), "kernel_%u", i);
		maker_call(m, MAKER_LAUNCH, 10 + i % 50, now, now + 1, i + 1);
		maker_kernel(m, maker_config(m, name, 1, 32), 7, now, now + ns, i + 1);
		total_ns += ns;
		now += ns;
	}
	maker_close(m, now);
	return total_ns;
}

/* Rounding loses nothing: the sum of the lines is the rounded total. */
static void folded_totals_are_equal(void **state)
{
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	uint64_t total_ns = make_many(*state, 3000), sum = 0;
	struct strbuf text = STRBUF_INIT;
	struct graph g;

	open_graph(&g, *state, o);
	write_as(&g, *state, "folded", false, &text);
	for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1)
		sum += strtoull(memrchr(line, ' ', (size_t)(end - line)), NULL, 10);
	assert_int_equal(sum, (total_ns + 500) / 1000);
	close_graph(&g);
	strbuf_release(&text);
}

/*
 * Each level of a drawing lies inside the one above; what is left out is there as one box, so time
 * is conserved.
 */
static void check_drawing(const struct flame *f, size_t max, uint64_t fraction, uint64_t total_ns)
{
	struct flame_drawing d;
	uint64_t level_ns[FLAME_DEPTH_MAX + 2] = { 0 };
	size_t left_out = 0, drawn = 0;

	assert_int_equal(flame_draw(f, FLAME_GPU, max, fraction, &d), 0);
	for (size_t i = 0; i < d.boxes.count; i++) {
		const struct flame_box *b = &d.boxes.data[i];

		level_ns[b->depth] += b->ns;
		left_out += b->left_out;
		drawn += !b->left_out;
		assert_true(b->start_ns + b->ns <= total_ns);
		assert_true(i == 0 || b->depth <= d.boxes.data[i - 1].depth + 1);
		assert_true(i == 0 || b->left_out || b->ns >= d.least_ns);
	}
	assert_true(drawn <= max || drawn == 1);
	assert_int_equal(drawn + left_out, f->tree.nodes.count - 1);
	/* [GPU], threads, call: all of the time, drawn or not */
	for (size_t depth = 0; depth < MIN(d.levels, 3); depth++)
		assert_true(level_ns[depth] == total_ns || left_out);
	assert_int_equal(level_ns[0], total_ns);
	assert_int_equal(level_ns[1], d.levels > 1 ? total_ns : 0);
	flame_drawing_release(&d);
}

static void drawings_conserve_time(void **state)
{
	struct flame_options o = { .kinds = 1 << FLAME_GPU,
				   .levels = 1 << FLAME_BY_THREAD,
				   .until_ns = UINT64_MAX };
	uint64_t total_ns = make_many(*state, 3000);
	static const size_t most[] = { 1, 2, 10, 100, 1000, 2999, 3200, 100000 };
	struct graph g;

	open_graph(&g, *state, o);
	for (size_t i = 0; i < ARRAY_SIZE(most); i++) {
		check_drawing(&g.flame, most[i], 1000000000, total_ns);
		check_drawing(&g.flame, most[i], 1000, total_ns);
	}
	close_graph(&g);
}

static void walks_meet_all_time(void **state)
{
	struct flame_options o = { .kinds = 1 << FLAME_GPU, .until_ns = UINT64_MAX };
	uint64_t total_ns = make_many(*state, 500), sum_ns = 0;
	struct flame_path path;
	struct graph g;

	open_graph(&g, *state, o);
	path = flame_path_init(&g.flame, FLAME_GPU);
	while (flame_path_next(&path)) {
		assert_int_equal(path.nodes.count, 3); /* thread, call, kernel */
		sum_ns += g.flame.tree.nodes.data[path.nodes.data[2]].self_ns;
	}
	assert_int_equal(sum_ns, total_ns);
	flame_path_release(&path);
	path = flame_path_init(&g.flame, FLAME_WAIT);
	assert_false(flame_path_next(&path));
	flame_path_release(&path);
	close_graph(&g);
}

/* Names cannot leave the element that they stand in. */
static void hostile_names_stay_inside(void **state)
{
	static const char hostile[] = "</script><script>alert(1)</script><!--]]>";
	struct strbuf text = STRBUF_INIT;
	struct graph g;

	make_small(*state, hostile, 100);
	open_graph(&g, *state, MERGED);
	write_as(&g, *state, "html", false, &text);
	assert_null(strstr(strbuf_text(&text), "<script>alert"));
	assert_non_null(strstr(strbuf_text(&text), "\\u003c/script>"));
	assert_non_null(strstr(strbuf_text(&text), "<h1>app &lt;&amp;&gt;</h1>"));
	write_as(&g, *state, "svg", false, &text);
	assert_null(strstr(strbuf_text(&text), "alert(1)</"));
	close_graph(&g);
	strbuf_release(&text);
}

static void steps_of_changes(void **state)
{
	(void)state;
	assert_int_equal(flame_change_step(5, 5, 1000), 0);
	assert_int_equal(flame_change_step(6, 5, 1000), 1);
	assert_int_equal(flame_change_step(5, 6, 1000), -1);
	assert_int_equal(flame_change_step(8, 5, 1000), 2);
	assert_int_equal(flame_change_step(1000, 0, 1000), 5);
	assert_int_equal(flame_change_step(0, UINT64_MAX, UINT64_MAX), -5);
}

/* Nothing recorded: each format writes something that says so. */
static void empty_graphs(void **state)
{
	struct maker *m = maker_begin(*state, 100, 0, "./app");
	struct strbuf text = STRBUF_INIT;
	struct graph g;

	maker_close(m, 1000);
	open_graph(&g, *state, MERGED);
	for (const struct flame_format *x = flame_formats; x->file.name; x++) {
		write_as(&g, *state, x->file.name, false, &text);
		assert_true(strcmp(x->file.name, "folded") == 0 ? text.length == 0
								: text.length > 10);
	}
	close_graph(&g);
	strbuf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_by_name),
		folder_test(folded_by_hand),
		folder_test(folded_like_xpu_perf),
		folder_test(folded_totals_are_equal),
		folder_test(drawings_conserve_time),
		folder_test(walks_meet_all_time),
		folder_test(hostile_names_stay_inside),
		cmocka_unit_test(steps_of_changes),
		folder_test(empty_graphs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
