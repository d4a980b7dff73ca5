/*
 * flame_text.c: prints one line per frame: total, share, bar, and the indented name. The only child
 * of a frame is not indented further, because the order of the lines shows the call. A recursion is
 * one line.
 */
#include "base/plural.h"
#include "cli/flame_print.h"

#include <string.h>

#include "base/human.h"
#include "report/text_table.h"

#define BAR_COLUMNS 12
#define INDENT_MAX 40 /* columns; deeper branches are not indented further */

static enum style style_of(uint8_t class)
{
	switch (class) {
	case FRAME_PYTHON:
		return STYLE_YELLOW;
	case FRAME_KERNEL:
		return STYLE_GREEN;
	case FRAME_COPY:
	case FRAME_SET:
	case FRAME_GRAPH:
	case FRAME_CODE:
		return STYLE_CYAN;
	case FRAME_STALL:
		return STYLE_RED;
	case FRAME_CALL:
		return STYLE_BLUE;
	case FRAME_NOTE:
		return STYLE_DIM;
	case FRAME_LEVEL:
		return STYLE_BOLD;
	default:
		return STYLE_NONE;
	}
}

/* Appends a bar in eighths of a column. */
static void add_bar(const struct flame_text *t, uint64_t part, uint64_t whole)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	uint64_t n = whole ? (uint64_t)((unsigned __int128)part * BAR_COLUMNS * 8 / whole) : 0;
	size_t columns = 0;

	if (!t->bars)
		return;
	n = MIN(n, BAR_COLUMNS * 8);
	for (; n >= 8; n -= 8, columns++)
		strbuf_adds(t->out, "█");
	if (n) {
		strbuf_adds(t->out, eighths[n]);
		columns++;
	}
	strbuf_addf(t->out, "%*s", (int)(BAR_COLUMNS - columns + 1), "");
}

/* Appends right-aligned text. */
static void add_field(const struct flame_text *t, int columns, const struct strbuf *text)
{
	strbuf_addf(t->out, "%*s", columns, strbuf_text(text));
}

/* One kind of time while its tree is printed. */
struct tree {
	const struct flame_text *text;
	enum flame_kind kind;
	const struct flame_node *nodes;
	uint64_t total_ns; /* 100 % of the shares */
	uint64_t whole_ns; /* the larger of before and after */
};

static void add_change(const struct tree *tree, uint64_t after, uint64_t before)
{
	const struct flame_text *t = tree->text;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t change = after > before ? after - before : before - after;

	if (change) {
		strbuf_addc(&text, after > before ? '+' : '-');
		flame_amount(&text, tree->kind, change);
	} else {
		strbuf_addc(&text, '=');
	}
	strbuf_adds(t->out, style_begin(t->color, !change          ? STYLE_DIM
						  : after > before ? STYLE_RED
								   : STYLE_GREEN));
	add_field(t, 11, &text);
	if (t->color)
		strbuf_adds(t->out, style_begin(true, STYLE_NONE));
}

/*
 * An open node: the indentation of its children, and whether it is its parent's only shown child.
 */
struct level {
	uint32_t node, end;
	unsigned indent;
	bool only;
};

/* Appends the columns before a name. */
static void add_numbers(const struct tree *tree, const struct flame_node *n)
{
	const struct flame_text *t = tree->text;
	_cleanup_strbuf_ struct strbuf time = STRBUF_INIT, share = STRBUF_INIT;

	flame_amount(&time, tree->kind, n->total_ns);
	human_percent(&share, n->total_ns, tree->total_ns);
	add_field(t, 9, &time);
	if (t->flame->diff)
		add_change(tree, n->total_ns, n->before_total_ns);
	add_field(t, 8, &share);
	strbuf_addc(t->out, ' ');
	add_bar(t, n->total_ns, tree->total_ns);
}

static void add_name(const struct flame_text *t, unsigned indent, enum style style,
		     const char *name, const char *note)
{
	_cleanup_strbuf_ struct strbuf safe = STRBUF_INIT;
	unsigned used = 18 + (t->flame->diff ? 11 : 0) + (t->bars ? BAR_COLUMNS + 1 : 0) + indent +
			(unsigned)strlen(note);

	text_safe(&safe, name, strlen(name));
	text_shorten(&safe, t->width > used + 20 ? t->width - used : 20);
	strbuf_addf(t->out, "%*s", (int)indent, "");
	style_add(t->out, t->color, style, strbuf_text(&safe));
	style_add(t->out, t->color, STYLE_DIM, note);
	strbuf_addc(t->out, '\n');
}

/* Whether a node has a line. A comparison also shows nodes that have become small. */
static bool is_shown(const struct tree *tree, const struct flame_node *n)
{
	const struct flame_text *t = tree->text;
	uint64_t ns = MAX(n->total_ns, n->before_total_ns);

	return (unsigned __int128)ns * 1000 >=
		       (unsigned __int128)tree->whole_ns * t->least_percent_tenths &&
	       (!t->depth || n->depth <= t->depth);
}

/* Sums up the children of a node that have no line: too small, or below the deepest shown level. */
static void add_rest(const struct tree *tree, const struct level *parent)
{
	const struct flame_text *t = tree->text;
	const struct flame_node *nodes = tree->nodes;
	struct flame_node rest = { .depth = nodes[parent->node].depth };
	bool deeper = t->depth && rest.depth >= t->depth;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t count = 0;

	for (uint32_t i = parent->node + 1; i < parent->end; i = nodes[i].end) {
		if (is_shown(tree, &nodes[i]))
			continue;
		rest.total_ns += nodes[i].total_ns;
		rest.before_total_ns += nodes[i].before_total_ns;
		count += nodes[i].end - i;
	}
	if (!rest.total_ns || !is_shown(tree, &rest))
		return;
	add_numbers(tree, &rest);
	human_count(&text, count);
	strbuf_addf(&text, " %s frame%s", deeper ? "deeper" : "smaller", plural(count));
	add_name(t, parent->indent, STYLE_DIM, strbuf_text(&text), "");
}

/* Counts the shown children of a node, up to two. */
static unsigned shown_children(const struct tree *tree, uint32_t node)
{
	unsigned count = 0;

	for (uint32_t i = node + 1; i < tree->nodes[node].end && count < 2; i = tree->nodes[i].end)
		count += is_shown(tree, &tree->nodes[i]);
	return count;
}

/* Finds the innermost node of a recursion in which no other callee has a line. */
static uint32_t end_of_recursion(const struct tree *tree, uint32_t i)
{
	const struct flame_node *n = &tree->nodes[i];

	for (; i + 1 < n->end && n[1].frame == n->frame && shown_children(tree, i) == 1; i++, n++) {
		struct flame_node rest = { .total_ns = n->total_ns - n[1].total_ns,
					   .before_total_ns =
						   n->before_total_ns - n[1].before_total_ns };

		if (!is_shown(tree, &n[1]) || (rest.total_ns && is_shown(tree, &rest)))
			break;
	}
	return i;
}

/*
 * Prints the line of a node and its recursion; returns the last node of it, the parent of the rest.
 */
static struct level add_node(const struct tree *tree, uint32_t i, const struct level *parent)
{
	const struct flame *f = tree->text->flame;
	uint32_t last = end_of_recursion(tree, i);
	struct level level = { last, tree->nodes[last].end, parent->indent,
			       shown_children(tree, parent->node) == 1 };
	_cleanup_strbuf_ struct strbuf times = STRBUF_INIT;

	if (last > i)
		strbuf_addf(&times, " (%u times)", last - i + 1);
	add_numbers(tree, &tree->nodes[i]);
	add_name(tree->text, parent->indent, style_of(flame_frame(f, i)->class), flame_name(f, i),
		 strbuf_text(&times));
	if (!level.only || shown_children(tree, last) > 1)
		level.indent = MIN(level.indent + 2, INDENT_MAX);
	return level;
}

static void add_tree(const struct flame_text *t, enum flame_kind kind, uint32_t first)
{
	const struct flame_node *nodes = t->flame->tree.nodes.data;
	struct tree tree = { t, kind, nodes, nodes[first].total_ns,
			     MAX(nodes[first].total_ns, nodes[first].before_total_ns) };
	VEC(struct level) open = VEC_INIT;
	struct level level = { first, nodes[first].end, 0, true };

	if (vec_push(&open, level) < 0)
		t->out->failed = true;
	for (uint32_t i = first + 1; i < nodes[first].end && !t->out->failed;) {
		while (i >= open.data[open.count - 1].end)
			add_rest(&tree, &open.data[--open.count]);
		if (!is_shown(&tree, &nodes[i])) {
			i = nodes[i].end;
			continue;
		}
		level = add_node(&tree, i, &open.data[open.count - 1]);
		if (vec_push(&open, level) < 0)
			t->out->failed = true;
		i = level.node + 1;
	}
	while (open.count && !t->out->failed)
		add_rest(&tree, &open.data[--open.count]);
	vec_release(&open);
}

static void add_head(const struct flame_text *t, enum flame_kind kind)
{
	const struct flame_section *s = &t->flame->sections[kind];
	const struct flame_node *n = s->node == FLAME_NONE ? &(struct flame_node){ 0 }
							   : &t->flame->tree.nodes.data[s->node];
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	flame_whole(&line, kind, n);
	if (n->total_ns < s->total_ns) {
		strbuf_adds(&line, ", of ");
		flame_amount(&line, kind, s->total_ns);
	}
	if (t->flame->diff) {
		strbuf_adds(&line, "; before: ");
		flame_amount(&line, kind, n->before_total_ns);
	}
	style_add(t->out, t->color, STYLE_BOLD, strbuf_text(&line));
	strbuf_addc(t->out, '\n');
}

void flame_text_print(const struct flame_text *t)
{
	bool any = false;

	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++) {
		const struct flame_section *s = &t->flame->sections[kind];

		if (!(t->flame->kinds & 1u << kind))
			continue;
		if (any)
			strbuf_addc(t->out, '\n');
		any = true;
		add_head(t, kind);
		if (s->node != FLAME_NONE)
			add_tree(t, kind, s->node);
	}
}
