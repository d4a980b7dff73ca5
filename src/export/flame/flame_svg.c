/*
 * flame_svg.c: a flame graph as a self-contained SVG. It is readable without its script, which adds
 * zoom and search. The kinds of time are stacked vertically, each at full width.
 */
#include <string.h>

#include "base/human.h"
#include "export/flame/flame_formats.h"
#include "export/flame/flame_picture.h"

#define WIDTH 1200u
#define MARGIN 12u
#define INNER (WIDTH - 2 * MARGIN)
#define ROW 17u
#define HEADER 92u
#define SECTION_GAP 44u
#define BOXES_MAX 20000
#define FRACTION 12000 /* boxes below a tenth of a pixel are left out */
#define TEXT_WIDTH 7u /* width of a character */

struct picture {
	const struct flame *flame;
	const struct flame_write *write;
	struct output *out;
	struct strbuf text;
	struct flame_drawing drawings[FLAME_KINDS];
	bool classes[FRAME_CLASSES]; /* classes that occur */
};

/* Appends thousandths of a pixel as "12.345". */
static void add_pixels(struct strbuf *out, uint64_t thousandths)
{
	strbuf_addf(out, "%llu.%03u", (unsigned long long)(thousandths / 1000),
		    (unsigned)(thousandths % 1000));
}

static uint64_t scaled(uint64_t ns, uint64_t total_ns)
{
	return (uint64_t)((unsigned __int128)ns * INNER * 1000 / (total_ns ? total_ns : 1));
}

/* Appends the label of an unzoomed box; flame_svg.js truncates labels in the same way. */
static void add_label(struct strbuf *out, const char *name, uint64_t width)
{
	size_t room = width / 1000 < 4 ? 0 : (size_t)(width / 1000 - 4) / TEXT_WIDTH;
	size_t length = strlen(name), end = 0, columns = 0;

	if (room < 4)
		return;
	while (end < length && columns < room) {
		end++;
		while (end < length && ((unsigned char)name[end] & 0xc0) == 0x80)
			end++;
		columns++;
	}
	if (end < length) { /* drop one more column for the ellipsis */
		do {
			end--;
		} while (end && ((unsigned char)name[end] & 0xc0) == 0x80);
		html_escape(out, name, end);
		strbuf_adds(out, "\xe2\x80\xa6");
	} else {
		html_escape(out, name, length);
	}
}

static void add_classes(struct picture *p, enum flame_kind kind, const struct flame_box *box,
			uint64_t whole_ns)
{
	const struct stack_frame *frame = flame_frame(p->flame, box->node);
	int step;

	strbuf_adds(&p->text, "<g class=\"f ");
	if (box->left_out) {
		strbuf_adds(&p->text, "rest");
	} else if (p->flame->diff) {
		step = flame_change_step(box->ns, box->before_ns, whole_ns);
		strbuf_addf(&p->text, "%c%d", step > 0 ? 'g' : step < 0 ? 's' : 'd', abs(step));
	} else if (!box->depth) {
		strbuf_adds(&p->text, flame_kind_word(kind));
	} else {
		p->classes[frame->class] = true;
		strbuf_addf(&p->text, "%s v%u", flame_class_word((enum frame_class)frame->class),
			    (unsigned)(hash_u64(frame->name) % 4));
	}
	strbuf_addf(&p->text, "\" data-ns=\"%llu\">", (unsigned long long)box->ns);
}

static void add_name(struct picture *p, const struct flame_box *box, struct strbuf *name)
{
	if (!box->left_out) {
		strbuf_adds(name, flame_name(p->flame, box->node));
		return;
	}
	human_count(name, box->left_out);
	strbuf_adds(name, box->left_out == 1 ? " smaller frame" : " smaller frames");
}

/* Appends the tooltip: name, time, share, count and change. */
static void add_title(struct picture *p, enum flame_kind kind, const struct flame_box *box,
		      const char *name, uint64_t total_ns)
{
	const struct stack_frame *frame = flame_frame(p->flame, box->node);
	const char *full = stacks_text(&p->flame->stacks, frame->full_name);
	const char *file = stacks_text(&p->flame->stacks, frame->file);
	struct strbuf *out = &p->text;

	strbuf_adds(out, "<title>");
	html_escape(out, name, strlen(name));
	strbuf_addc(out, '\n');
	flame_amount(out, kind, box->ns);
	strbuf_adds(out, ", ");
	human_percent(out, box->ns, total_ns);
	strbuf_addf(out, " of %s", flame_kind_title(kind));
	if (kind != FLAME_STALLS) {
		strbuf_adds(out, ", ");
		human_count(out, box->count);
		strbuf_addf(out, " %s", flame_kind_item(kind, box->count));
	}
	if (p->flame->diff) {
		strbuf_adds(out, "\nbefore: ");
		flame_amount(out, kind, box->before_ns);
	}
	if (!box->left_out && strcmp(full, name) != 0) {
		strbuf_addc(out, '\n');
		html_escape(out, full, MIN(strlen(full), 400));
	}
	if (!box->left_out && *file) {
		strbuf_addc(out, '\n');
		html_escape(out, file, strlen(file));
		if (frame->line)
			strbuf_addf(out, ":%u", frame->line);
	}
	strbuf_adds(out, "</title>");
}

static int add_box(struct picture *p, enum flame_kind kind, const struct flame_box *box,
		   uint64_t total_ns, uint64_t whole_ns, unsigned top)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint64_t x = scaled(box->start_ns, total_ns),
		 width = scaled(box->start_ns + box->ns, total_ns) - x;
	unsigned y = top + box->depth * ROW;

	add_name(p, box, &name);
	if (name.failed)
		return -ENOMEM;
	add_classes(p, kind, box, whole_ns);
	add_title(p, kind, box, strbuf_text(&name), total_ns);
	strbuf_addf(&p->text, "<rect%s x=\"", width >= 4000 ? " class=\"w\"" : "");
	add_pixels(&p->text, x + MARGIN * 1000);
	strbuf_addf(&p->text, "\" y=\"%u\" width=\"", y);
	add_pixels(&p->text, width);
	strbuf_addf(&p->text, "\" height=\"%u\"/><text x=\"", ROW - 1);
	add_pixels(&p->text, x + MARGIN * 1000 + 3000);
	strbuf_addf(&p->text, "\" y=\"%u\">", y + 12);
	add_label(&p->text, strbuf_text(&name), width);
	strbuf_adds(&p->text, "</text></g>\n");
	return flame_flush(&p->text, p->out, false);
}

static int add_section(struct picture *p, enum flame_kind kind, unsigned top)
{
	const struct flame_drawing *d = &p->drawings[kind];
	_cleanup_strbuf_ struct strbuf title = STRBUF_INIT;
	uint64_t total_ns, whole_ns;
	int r = 0;

	flame_section_text(&title, p->flame, kind);
	p->text.failed |= title.failed;
	strbuf_addf(&p->text, "<text class=\"head\" x=\"%u\" y=\"%u\">%s</text>\n", MARGIN, top - 8,
		    strbuf_text(&title));
	if (!d->boxes.count)
		return flame_flush(&p->text, p->out, false);
	total_ns = d->boxes.data[0].ns;
	whole_ns = MAX(total_ns, d->boxes.data[0].before_ns);
	strbuf_addf(&p->text, "<g class=\"section\" data-kind=\"%s\">\n", flame_kind_title(kind));
	for (size_t i = 0; i < d->boxes.count && r >= 0; i++)
		r = add_box(p, kind, &d->boxes.data[i], total_ns, whole_ns, top);
	strbuf_adds(&p->text, "</g>\n");
	return r;
}

static void add_escaped(struct picture *p, const char *text, size_t max)
{
	size_t length = strlen(text);

	html_escape(&p->text, text, MIN(length, max));
	if (length > max)
		strbuf_adds(&p->text, "\xe2\x80\xa6");
}

static void add_header(struct picture *p, unsigned height)
{
	const struct flame_write *w = p->write;

	strbuf_addf(
		&p->text,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" viewBox=\"0 0 %u %u\" "
		"width=\"%u\" height=\"%u\">\n<style>\n%s</style>\n"
		"<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n",
		WIDTH, height, WIDTH, height, flame_svg_css);
	strbuf_addf(&p->text, "<text class=\"title\" x=\"%u\" y=\"28\">", MARGIN);
	add_escaped(p, w->title, 90);
	strbuf_addf(&p->text, "</text>\n<text class=\"sub\" x=\"%u\" y=\"46\">", MARGIN);
	add_escaped(p, w->recording, 60);
	if (w->before) {
		strbuf_adds(&p->text, " compared with ");
		add_escaped(p, w->before, 60);
	}
	if (*w->notes) {
		strbuf_adds(&p->text, " \xc2\xb7 ");
		add_escaped(p, w->notes, 110);
	}
	strbuf_addf(&p->text,
		    "</text>\n<text class=\"button off\" id=\"reset\" x=\"%u\" y=\"28\" "
		    "text-anchor=\"end\">Reset zoom</text>\n"
		    "<text class=\"button off\" id=\"search\" x=\"%u\" y=\"28\" "
		    "text-anchor=\"end\">Search</text>\n"
		    "<text class=\"sub\" id=\"found\" x=\"%u\" y=\"84\" text-anchor=\"end\"/>\n",
		    WIDTH - MARGIN - 90, WIDTH - MARGIN, WIDTH - MARGIN);
}

static void add_legend_item(struct picture *p, const char *word, const char *name, unsigned *x)
{
	strbuf_addf(&p->text,
		    "<g class=\"%s\"><rect x=\"%u\" y=\"56\" width=\"12\" height=\"12\"/></g>"
		    "<text class=\"sub\" x=\"%u\" y=\"66\">%s</text>\n",
		    word, *x, *x + 17, name);
	*x += 17 + 7 * (unsigned)strlen(name) + 16;
}

static void add_legend(struct picture *p)
{
	unsigned x = MARGIN;

	if (p->flame->diff) {
		add_legend_item(p, "g4", "grew", &x);
		add_legend_item(p, "s4", "shrank", &x);
		add_legend_item(p, "d0", "unchanged", &x);
		add_legend_item(p, "rest", "smaller frames, combined", &x);
		return;
	}
	for (size_t i = 0; i < FRAME_CLASSES; i++)
		if (p->classes[i])
			add_legend_item(p, flame_class_word((enum frame_class)i),
					frame_class_name((enum frame_class)i), &x);
	add_legend_item(p, "rest", "smaller frames, combined", &x);
}

static int write_picture(struct picture *p)
{
	unsigned height = HEADER, top = HEADER + 24;
	int r = 0;

	for (enum flame_kind kind = 0; kind < FLAME_KINDS && r >= 0; kind++) {
		if (!(p->flame->kinds & 1u << kind))
			continue;
		r = flame_draw(p->flame, kind, BOXES_MAX, FRACTION, &p->drawings[kind]);
		height += p->drawings[kind].levels * ROW + SECTION_GAP;
	}
	if (r < 0)
		return r;
	add_header(p, height);
	for (enum flame_kind kind = 0; kind < FLAME_KINDS && r >= 0; kind++) {
		if (!(p->flame->kinds & 1u << kind))
			continue;
		r = add_section(p, kind, top);
		top += p->drawings[kind].levels * ROW + SECTION_GAP;
	}
	add_legend(p);
	strbuf_addf(&p->text, "<script><![CDATA[\n%s%s]]></script>\n</svg>\n", page_search_js,
		    flame_svg_js);
	return r < 0 ? r : flame_flush(&p->text, p->out, true);
}

int flame_svg_write(const struct flame *f, const struct flame_write *w, struct output *out)
{
	struct picture p = { .flame = f, .write = w, .out = out };
	int r = write_picture(&p);

	for (size_t i = 0; i < FLAME_KINDS; i++)
		flame_drawing_release(&p.drawings[i]);
	strbuf_release(&p.text);
	return r;
}
