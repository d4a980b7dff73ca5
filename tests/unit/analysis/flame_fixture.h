/* flame_fixture.h: what the tests of flame graphs share. */
#ifndef PITOT_TESTS_FLAME_FIXTURE_H
#define PITOT_TESTS_FLAME_FIXTURE_H

#include <string.h>

#include "analysis/flame/flame.h"
#include "report_fixture.h"

#define APP UINT64_C(0x400000)
#define CUDART UINT64_C(0x700000)

static inline struct flame_options all_kinds(void)
{
	struct flame_options o = FLAME_OPTIONS_INIT;

	o.kinds |= 1 << FLAME_LAUNCHES;
	return o;
}

static inline void release(struct flame *f, struct trace *t)
{
	flame_release(f);
	trace_free(t);
}

static inline void build(struct flame *f, struct trace *t, const struct flame_options *o)
{
	struct error e = { 0 };

	if (flame_init(f, t, o, &e) < 0)
		fail_msg("%s", e.text);
}

static inline void build_in_order(struct flame *f, struct trace *t, const struct flame_options *o)
{
	build(f, t, o);
	assert_int_equal(flame_finish(f, false), 0);
}

/* Every node as a line: one blank a level, name, self and total time, events. */
static inline void dump(const struct flame *f, struct strbuf *out)
{
	strbuf_clear(out);
	for (uint32_t i = 1; i < f->tree.nodes.count; i++) {
		const struct flame_node *n = &f->tree.nodes.data[i];

		strbuf_addf(out, "%*s%s %llu/%llu", (int)n->depth, "", flame_name(f, i),
			    (unsigned long long)n->self_ns, (unsigned long long)n->total_ns);
		if (f->diff)
			strbuf_addf(out, " was %llu", (unsigned long long)n->before_total_ns);
		strbuf_addf(out, " x%llu\n", (unsigned long long)n->total_count);
	}
}

static inline void assert_tree(const struct flame *f, const char *expected)
{
	struct strbuf text = STRBUF_INIT;

	dump(f, &text);
	assert_string_equal(strbuf_text(&text), expected);
	strbuf_release(&text);
}

/* What holds for all finished trees. */
static inline void assert_sound(const struct flame *f)
{
	const struct flame_node *nodes = f->tree.nodes.data;
	size_t count = f->tree.nodes.count;
	uint64_t *sums = calloc(count, sizeof(*sums)), *last = malloc(count * sizeof(*last));

	memset(last, 0xff, count * sizeof(*last));
	for (size_t i = 1; i < count; i++) {
		const struct flame_node *n = &nodes[i], *parent = &nodes[n->parent];

		assert_true(n->parent < i && i < parent->end);
		assert_true(n->end > i && n->end <= parent->end);
		if (n->parent == FLAME_ROOT)
			assert_int_equal(n->depth, 0);
		else
			assert_int_equal(n->depth, parent->depth + 1);
		assert_true(n->parent == FLAME_ROOT || n->total_ns <= last[n->parent]);
		last[n->parent] = n->total_ns;
		sums[n->parent] += n->total_ns;
	}
	for (size_t i = 0; i < count; i++)
		assert_int_equal(sums[i] + nodes[i].self_ns, nodes[i].total_ns);
	free(sums);
	free(last);
}

#endif
