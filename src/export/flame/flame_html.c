/*
 * flame_html.c: a flame graph as a self-contained page drawn by flame_html.js, for graphs too large
 * for SVG. The page contains the boxes as JSON:
 *
 *	{"inverted":true, "classes":["native",…], "class_names":[…],
 *	 "frames":[[name, class, full name, file, line],…],
 *	 "sections":[{"title","kind","items","head","depth":[],"frame":[],"ns":[],"count":[],
 *	  "rest":{},"before":[],"step":[]}]}
 *
 * Boxes are in the order of flame_draw.c. `rest` maps a box to the number of frames that it stands
 * for; only comparisons have `before` and `step`.
 */
#include "export/flame/flame_html.h"

#include <string.h>

#include "base/json.h"
#include "export/flame/flame_picture.h"

#define BOXES_MAX 200000
#define FRACTION 10000000
#define FULL_NAME_MAX 600 /* bytes */

struct page {
	const struct flame *flame;
	const struct flame_write *write;
	struct output *out; /* NULL: the page stays in `text` */
	size_t boxes_max;
	struct strbuf text, quoted;
	struct flame_drawing drawings[FLAME_KINDS];
	/* per frame: its position in the page's list, from 1; 0: not in the list */
	uint32_t *numbers;
	VEC(uint32_t) frames; /* the page's list */
	bool classes[FRAME_CLASSES];
};

/* Appends a JSON string that cannot close the surrounding <script> element. */
static void add_string(struct page *p, const char *text, size_t length)
{
	strbuf_clear(&p->quoted);
	json_quote(&p->quoted, text, length);
	p->text.failed |= p->quoted.failed;
	html_add_json(&p->text, strbuf_text(&p->quoted), p->quoted.length);
}

static int collect_frames(struct page *p)
{
	p->numbers = calloc(p->flame->stacks.frames.count + 1, sizeof(*p->numbers));
	if (!p->numbers)
		return -ENOMEM;
	for (size_t k = 0; k < FLAME_KINDS; k++)
		for (size_t i = 0; i < p->drawings[k].boxes.count; i++) {
			uint32_t frame =
				p->flame->tree.nodes.data[p->drawings[k].boxes.data[i].node].frame;

			if (p->numbers[frame])
				continue;
			if (vec_push(&p->frames, frame) < 0)
				return -ENOMEM;
			p->numbers[frame] = (uint32_t)p->frames.count;
			if (i) /* a kind's root box has its own color */
				p->classes[p->flame->stacks.frames.data[frame].class] = true;
		}
	return 0;
}

static int add_frames(struct page *p)
{
	const struct stacks *s = &p->flame->stacks;
	int r = 0;

	strbuf_adds(&p->text, "\"frames\":[\n");
	for (size_t i = 0; i < p->frames.count && r >= 0; i++) {
		const struct stack_frame *f = &s->frames.data[p->frames.data[i]];
		const char *full = f->full_name == f->name ? "" : stacks_text(s, f->full_name);

		strbuf_adds(&p->text, i ? ",\n[" : "[");
		add_string(p, stacks_text(s, f->name), s->texts.items[f->name].length);
		strbuf_addf(&p->text, ",%u", f->class);
		if (*full || f->file) {
			strbuf_addc(&p->text, ',');
			add_string(p, full, MIN(strlen(full), FULL_NAME_MAX));
		}
		if (f->file) {
			strbuf_addc(&p->text, ',');
			add_string(p, stacks_text(s, f->file), s->texts.items[f->file].length);
			strbuf_addf(&p->text, ",%u", f->line);
		}
		strbuf_addc(&p->text, ']');
		r = flame_flush(&p->text, p->out, false);
	}
	strbuf_adds(&p->text, "],\n");
	return r;
}

enum column { COLUMN_DEPTH, COLUMN_FRAME, COLUMN_NS, COLUMN_COUNT, COLUMN_BEFORE, COLUMN_STEP };

static int64_t column_value(const struct page *p, const struct flame_drawing *d,
			    const struct flame_box *box, enum column column)
{
	const struct flame_box *whole = &d->boxes.data[0];

	switch (column) {
	case COLUMN_DEPTH:
		return box->depth;
	case COLUMN_FRAME:
		return (int64_t)p->numbers[p->flame->tree.nodes.data[box->node].frame] - 1;
	case COLUMN_NS:
		return (int64_t)MIN(box->ns, INT64_MAX);
	case COLUMN_COUNT:
		return (int64_t)MIN(box->count, INT64_MAX);
	case COLUMN_BEFORE:
		return (int64_t)MIN(box->before_ns, INT64_MAX);
	case COLUMN_STEP:
		return flame_change_step(box->ns, box->before_ns, MAX(whole->ns, whole->before_ns));
	}
	return 0;
}

static int add_column(struct page *p, const struct flame_drawing *d, enum column column,
		      const char *name)
{
	int r = 0;

	strbuf_addf(&p->text, "\"%s\":[", name);
	for (size_t i = 0; i < d->boxes.count && r >= 0; i++) {
		int64_t value = column_value(p, d, &d->boxes.data[i], column);

		if (i)
			strbuf_addc(&p->text, ',');
		if (value < 0)
			strbuf_addc(&p->text, '-');
		strbuf_addu(&p->text, value < 0 ? -(uint64_t)value : (uint64_t)value);
		r = flame_flush(&p->text, p->out, false);
	}
	strbuf_adds(&p->text, "],\n");
	return r;
}

static int add_section(struct page *p, enum flame_kind kind)
{
	static const char *const names[] = { "depth", "frame", "ns", "count", "before", "step" };
	const struct flame_drawing *d = &p->drawings[kind];
	_cleanup_strbuf_ struct strbuf head = STRBUF_INIT;
	bool any = false;
	int r = 0;

	flame_section_text(&head, p->flame, kind);
	p->text.failed |= head.failed;
	strbuf_addf(&p->text,
		    "{\"title\":\"%s\",\"kind\":\"%s\",\"items\":[\"%s\",\"%s\"],"
		    "\"head\":\"%s\",\n",
		    flame_kind_title(kind), flame_kind_word(kind), flame_kind_item(kind, 1),
		    flame_kind_item(kind, 2), strbuf_text(&head));
	for (enum column c = 0; c < (p->flame->diff ? 6 : 4) && r >= 0; c++)
		r = add_column(p, d, c, names[c]);
	strbuf_adds(&p->text, "\"rest\":{");
	for (size_t i = 0; i < d->boxes.count && r >= 0; i++) {
		if (!d->boxes.data[i].left_out)
			continue;
		strbuf_addf(&p->text, "%s\"%zu\":%u", any ? "," : "", i, d->boxes.data[i].left_out);
		any = true;
		r = flame_flush(&p->text, p->out, false);
	}
	strbuf_adds(&p->text, "}}");
	return r;
}

static void add_classes(struct page *p)
{
	strbuf_adds(&p->text,
		    p->flame->inverted ? "{\"inverted\":true,\"classes\":[" : "{\"classes\":[");
	for (size_t i = 0; i < FRAME_CLASSES; i++)
		strbuf_addf(&p->text, "%s\"%s\"", i ? "," : "",
			    flame_class_word((enum frame_class)i));
	strbuf_adds(&p->text, "],\"class_names\":[");
	for (size_t i = 0; i < FRAME_CLASSES; i++)
		strbuf_addf(&p->text, "%s\"%s\"", i ? "," : "",
			    frame_class_name((enum frame_class)i));
	strbuf_adds(&p->text, "],\n");
}

static int add_data(struct page *p)
{
	bool any = false;
	int r;

	strbuf_adds(&p->text, "<script type=\"application/json\" id=\"data\">");
	add_classes(p);
	r = add_frames(p);
	strbuf_adds(&p->text, "\"sections\":[\n");
	for (enum flame_kind kind = 0; kind < FLAME_KINDS && r >= 0; kind++) {
		if (!(p->flame->kinds & 1u << kind))
			continue;
		strbuf_adds(&p->text, any ? ",\n" : "");
		any = true;
		r = add_section(p, kind);
	}
	strbuf_adds(&p->text, "]}\n</script>\n");
	return r;
}

static void add_escaped(struct page *p, const char *text)
{
	html_escape(&p->text, text, strlen(text));
}

static void add_legend_item(struct page *p, const char *word, const char *name)
{
	strbuf_addf(&p->text, "<span><i style=\"background:var(--%s)\"></i>%s</span>\n", word,
		    name);
}

static void add_head(struct page *p)
{
	const struct flame_write *w = p->write;

	strbuf_adds(&p->text,
		    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width\">\n");
	html_add_policy(&p->text);
	strbuf_adds(&p->text, "<title>");
	add_escaped(p, w->title);
	strbuf_addf(&p->text, " - flame graph</title>\n<style>\n%s</style>\n</head>\n",
		    flame_html_css);
	html_add_body(&p->text);
	strbuf_adds(&p->text, "<header>\n<div class=\"bar\"><h1>");
	add_escaped(p, w->title);
	strbuf_adds(&p->text,
		    "</h1>\n<input id=\"search\" type=\"search\" placeholder=\"Search (press /)\""
		    " aria-label=\"search\" title=\"part of a name; a|b: either, .*: anything, ^ "
		    "and $: "
		    "begin and end\">\n"
		    "<button id=\"around\" disabled title=\"of the zoomed or found function\">"
		    "Callers and callees</button>\n"
		    "<button id=\"reset\" disabled>Show all</button>\n"
		    "<button id=\"theme\">Light / dark</button></div>\n<p>");
	add_escaped(p, w->recording);
	if (w->before) {
		strbuf_adds(&p->text, " compared with ");
		add_escaped(p, w->before);
	}
	if (*w->notes) {
		strbuf_adds(&p->text, " \xc2\xb7 ");
		add_escaped(p, w->notes);
	}
	strbuf_adds(&p->text, "</p>\n<div class=\"legend\">\n");
	if (p->flame->diff) {
		add_legend_item(p, "g4", "grew");
		add_legend_item(p, "s4", "shrank");
		add_legend_item(p, "d0", "unchanged");
	}
	for (size_t i = 0; i < FRAME_CLASSES && !p->flame->diff; i++)
		if (p->classes[i])
			add_legend_item(p, flame_class_word((enum frame_class)i),
					frame_class_name((enum frame_class)i));
	add_legend_item(p, "rest", "smaller frames, combined");
	strbuf_adds(&p->text,
		    "<span>click: zoom \xc2\xb7 shift-click or <kbd>c</kbd>: callers and callees "
		    "of the "
		    "function \xc2\xb7 <kbd>Esc</kbd> or <kbd>r</kbd>: all \xc2\xb7 "
		    "<kbd>\xe2\x86\x91</kbd>: caller</span></div>\n<nav "
		    "id=\"kinds\"></nav>\n</header>\n"
		    "<main id=\"function\" hidden></main>\n<main id=\"graphs\"></main>\n<div "
		    "id=\"tip\" hidden></div>\n");
}

static int write_page(struct page *p)
{
	int r = 0;

	for (enum flame_kind kind = 0; kind < FLAME_KINDS && r >= 0; kind++)
		if (p->flame->kinds & 1u << kind)
			r = flame_draw(p->flame, kind, p->boxes_max, FRACTION, &p->drawings[kind]);
	if (r >= 0)
		r = collect_frames(p);
	if (r < 0)
		return r;
	add_head(p);
	r = add_data(p);
	html_add_script(&p->text, "");
	strbuf_addf(&p->text, "%s%s</script>\n</body>\n</html>\n", page_search_js, flame_html_js);
	return r < 0 ? r : flame_flush(&p->text, p->out, true);
}

static void release(struct page *p)
{
	for (size_t i = 0; i < FLAME_KINDS; i++)
		flame_drawing_release(&p->drawings[i]);
	free(p->numbers);
	vec_release(&p->frames);
	strbuf_release(&p->text);
	strbuf_release(&p->quoted);
}

int flame_html_write(const struct flame *f, const struct flame_write *w, struct output *out)
{
	struct page p = { .flame = f, .write = w, .out = out, .boxes_max = BOXES_MAX };
	int r = write_page(&p);

	release(&p);
	return r;
}

int flame_html_append(const struct flame *f, const struct flame_write *w, size_t boxes,
		      struct strbuf *page)
{
	struct page p = { .flame = f, .write = w, .boxes_max = boxes };
	int r = write_page(&p);

	if (r >= 0)
		strbuf_add(page, strbuf_text(&p.text), p.text.length);
	release(&p);
	return r < 0 || page->failed ? -ENOMEM : 0;
}
