/*
 * flame_folded.c: folded stacks such as "[GPU];main;step;kernel 1234", one line for each stack with
 * self time. The number is in microseconds, samples or bytes; a comparison has two, before and
 * after.
 *
 * Rounding errors are carried over to the next stack, so that the microseconds of a kind sum to its
 * rounded total. A stack that is shorter has a line all the same, with 0: a launch is a launch.
 */
#include <string.h>

#include "base/search.h"
#include "export/flame/flame_formats.h"

#define XPU_PERF_SAMPLE_NS 20000000u /* 50 Hz */

struct folding {
	const struct flame *flame;
	bool with_kind; /* prepend a frame such as [GPU] */
	bool xpu_perf;
	bool in_ns; /* unit of the current kind */
	struct strbuf line; /* path of the previous node */
	VEC(size_t) ends; /* per depth: length of the path up to there */
	unsigned __int128 sum_ns, before_sum_ns; /* of the current kind so far */
};

/* Appends a frame's name as UTF-8; characters that separate frames or lines are replaced. */
static void add_name(struct strbuf *out, const char *name)
{
	size_t start = out->length;

	strbuf_add_utf8(out, *name ? name : "?", *name ? strlen(name) : 1);
	if (out->failed)
		return;
	for (char *c = out->data + start; *c; c++)
		if (*c == ';' || (unsigned char)*c < ' ' || *c == 0x7f)
			*c = *c == ';' ? ':' : ' ';
}

/* Sets x->line to the path of a node. It starts with the path of the node's parent. */
static int set_path(struct folding *x, uint32_t node)
{
	const struct flame_node *n = &x->flame->tree.nodes.data[node];
	uint32_t depth = x->with_kind ? n->depth : n->depth - 1;

	if (x->ends.count <= depth && vec_push(&x->ends, 0) < 0)
		return -ENOMEM;
	if (x->line.data) {
		x->line.length = depth ? x->ends.data[depth - 1] : 0;
		x->line.data[x->line.length] = '\0';
	}
	if (depth)
		strbuf_addc(&x->line, ';');
	add_name(&x->line, flame_name(x->flame, node));
	x->ends.data[depth] = x->line.length;
	return x->line.failed ? -ENOMEM : 0;
}

static uint64_t microseconds(unsigned __int128 *sum_ns, uint64_t ns)
{
	uint64_t before = (uint64_t)((*sum_ns + 500) / 1000);

	*sum_ns += ns;
	return (uint64_t)((*sum_ns + 500) / 1000) - before;
}

/* Rounds half up, but no stack to zero. */
static uint64_t samples(uint64_t ns)
{
	uint64_t whole = ns / XPU_PERF_SAMPLE_NS;

	whole += ns % XPU_PERF_SAMPLE_NS >= XPU_PERF_SAMPLE_NS / 2;
	return ns && !whole ? 1 : whole;
}

static uint64_t number(const struct folding *x, unsigned __int128 *sum_ns, uint64_t ns)
{
	return !x->in_ns ? ns : x->xpu_perf ? samples(ns) : microseconds(sum_ns, ns);
}

static void add_line(struct folding *x, const struct flame_node *n, struct strbuf *out)
{
	uint64_t after = number(x, &x->sum_ns, n->self_ns);
	uint64_t before = x->flame->diff ? number(x, &x->before_sum_ns, n->before_self_ns) : 0;

	strbuf_add(out, x->line.data, x->line.length);
	strbuf_addc(out, ' ');
	if (x->flame->diff) {
		strbuf_addu(out, before);
		strbuf_addc(out, ' ');
	}
	strbuf_addu(out, after);
	strbuf_addc(out, '\n');
}

ORDER(compare_lines, char *, strcmp(*a, *b))

/* Sorts the lines, as xpu-perf does. */
static int sort_lines(struct strbuf *text, struct output *out)
{
	VEC(char *) lines = VEC_INIT;
	int r = text->failed ? -ENOMEM : 0;

	for (char *c = text->data, *end; c && *c && r >= 0; c = end + 1) {
		end = strchr(c, '\n');
		*end = '\0';
		r = vec_push(&lines, c);
	}
	vec_sort(&lines, compare_lines);
	for (size_t i = 0; i < lines.count && r >= 0; i++) {
		output_write(out, lines.data[i], strlen(lines.data[i]));
		output_write(out, "\n", 1);
	}
	vec_release(&lines);
	return r;
}

int flame_folded_write(const struct flame *f, const struct flame_write *w, struct output *out)
{
	struct folding x = {
		.flame = f,
		.with_kind = (f->kinds & (f->kinds - 1)) != 0 && !w->xpu_perf,
		.xpu_perf = w->xpu_perf,
	};
	_cleanup_strbuf_ struct strbuf buffer = STRBUF_INIT;
	int r = 0;

	for (uint32_t i = 1; i < f->tree.nodes.count && r >= 0; i++) {
		const struct flame_node *n = &f->tree.nodes.data[i];

		if (n->parent == FLAME_ROOT) {
			x.sum_ns = x.before_sum_ns = 0;
			x.in_ns = i != f->sections[FLAME_STALLS].node &&
				  i != f->sections[FLAME_MEMORY].node;
			if (!x.with_kind)
				continue;
		}
		r = set_path(&x, i);
		if (r < 0)
			break;
		if (n->self_count || n->self_ns || n->before_self_ns)
			add_line(&x, n, &buffer);
		if (!w->xpu_perf)
			r = flame_flush(&buffer, out, false);
	}
	if (r >= 0)
		r = w->xpu_perf ? sort_lines(&buffer, out) : flame_flush(&buffer, out, true);
	strbuf_release(&x.line);
	vec_release(&x.ends);
	return r;
}
