/*
 * section_html.c: renders sections as a self-contained page: no requests, which its policy forbids,
 * light or dark as the system is. Its script sorts tables.
 */
#include "report/section_html.h"

#include <math.h>
#include <string.h>

#include "base/html.h"

/* From src/report/, by cmake/PitotEmbed.cmake. */
extern const char report_css[], report_js[];

/* First bytes of cells that are more than their text. */
#define BAR '\002' /* the length of a bar in percent follows */
#define SHARE '\003' /* text that begins with a percentage follows */
#define NAMED '\004' /* a short name and a full one follow, with this byte between them */
#define HEAT '\005' /* '+' or '-', how far from the middle in percent, HEAT and text follow */

static const char *const style_words[] = {
	[STYLE_NONE] = "",     [STYLE_BOLD] = "",       [STYLE_DIM] = "dim",
	[STYLE_RED] = "red",   [STYLE_GREEN] = "green", [STYLE_YELLOW] = "yellow",
	[STYLE_BLUE] = "blue", [STYLE_CYAN] = "cyan",
};

static void add(const struct report_view *v, const char *markup)
{
	strbuf_adds(v->out, markup);
}

static void add_text(const struct report_view *v, const char *text)
{
	html_escape(v->out, text, strlen(text));
}

void html_begin(const struct report_view *v, const char *what)
{
	add(v, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	       "<meta name=\"viewport\" content=\"width=device-width\">\n");
	html_add_policy(v->out);
	add(v, "<title>");
	add_text(v, v->path);
	strbuf_addf(v->out, " - %s</title>\n<style>\n%s</style>\n</head>\n", what, report_css);
	html_add_body(v->out);
	add(v, "<main>\n");
}

void html_end(const struct report_view *v)
{
	add(v, "</main>\n");
	html_add_script(v->out, " type=\"module\"");
	strbuf_addf(v->out, "%s</script>\n</body>\n</html>\n", report_js);
}

void html_section_begin(const struct report_view *v, const char *name)
{
	strbuf_addf(v->out, "<section id=\"%s\">\n", name);
}

void html_section_end(const struct report_view *v)
{
	add(v, "</section>\n");
}

void html_heading(const struct report_view *v, const char *text)
{
	add(v, "<h1>");
	add_text(v, text);
	add(v, "</h1>\n");
}

void html_title(const struct report_view *v, enum style style, const char *title, const char *rest)
{
	strbuf_addf(v->out, "<h2 class=\"%s\">", style_words[style]);
	add_text(v, title);
	add(v, " <small>");
	add_text(v, rest);
	add(v, "</small></h2>\n");
}

void html_verdict(const struct report_view *v, enum style style, const char *verdict,
		  const char *rest)
{
	strbuf_addf(v->out, "<h2 class=\"%s\">verdict: ", style_words[style]);
	add_text(v, verdict);
	add_text(v, rest);
	add(v, "</h2>\n");
}

void html_labelled(const struct report_view *v, enum style style, const char *label,
		   const char *text)
{
	strbuf_addf(v->out, "<p class=\"labelled %s\"><b>", style_words[style]);
	add_text(v, label);
	add(v, "</b> <span>");
	add_text(v, text);
	add(v, "</span></p>\n");
}

void html_frame(const struct report_view *v, const char *title, const char *page)
{
	html_title(v, STYLE_NONE, title, "");
	strbuf_addf(v->out, "<iframe title=\"%s\" srcdoc=\"", title);
	add_text(v, page);
	add(v, "\"></iframe>\n");
}

void html_paragraph(const struct report_view *v, const char *text)
{
	for (size_t length; *text; text += length + (text[length] == '\n')) {
		length = strcspn(text, "\n");
		if (!length)
			continue;
		add(v, "<p>");
		html_escape(v->out, text, length);
		add(v, "</p>\n");
	}
}

void html_bar(struct text_table *t, uint64_t part, uint64_t whole)
{
	text_table_addf(t, "%c%llu", BAR, (unsigned long long)(whole ? 100 * part / whole : 0));
}

void html_share(struct text_table *t, const char *text)
{
	text_table_addf(t, "%c%s", SHARE, text);
}

void html_heat(struct text_table *t, const char *text, double heat)
{
	text_table_addf(t, "%c%c%.0f%c%s", HEAT, heat < 0 ? '-' : '+', 100 * fabs(heat), HEAT,
			text);
}

void html_named(struct text_table *t, const char *text, const char *full)
{
	text_table_addf(t, "%c%s%c%s", NAMED, text, NAMED, full);
}

/* Returns the percentage at the start of a text, in tenths; 0: none. */
static unsigned tenths_of(const char *text)
{
	unsigned whole = 0, length = 0, tenths = 0;

	for (; length < 3 && *text >= '0' && *text <= '9'; text++, length++)
		whole = 10 * whole + (unsigned)(*text - '0');
	if (*text == '.' && text[1] >= '0' && text[1] <= '9')
		tenths = (unsigned)(text[1] - '0');
	return MIN(10 * whole + tenths, 1000u);
}

static void add_cell(const struct report_view *v, const struct text_column *column,
		     const char *text)
{
	const char *full;

	if (*text == BAR) {
		strbuf_addf(v->out, "<td class=\"bar\"><i style=\"width:%s%%\"></i></td>",
			    text + 1);
		return;
	}
	if (*text == SHARE) {
		unsigned tenths = tenths_of(text + 1);

		strbuf_addf(v->out, "<td class=\"share\" style=\"--part:%u.%u%%\">", tenths / 10,
			    tenths % 10);
		add_text(v, text + 1);
		add(v, "</td>");
		return;
	}
	if (*text == NAMED) {
		full = strchr(text + 1, NAMED);
		add(v, "<td class=\"text\" title=\"");
		add_text(v, full + 1);
		add(v, "\">");
		html_escape(v->out, text + 1, (size_t)(full - text - 1));
		add(v, "</td>");
		return;
	}
	if (*text == HEAT) {
		full = strchr(text + 1, HEAT);
		strbuf_addf(v->out,
			    "<td class=\"%s\" style=\"--heat:", text[1] == '-' ? "low" : "high");
		html_escape(v->out, text + 2, (size_t)(full - text - 2));
		add(v, "%\">");
		add_text(v, full + 1);
		add(v, "</td>");
		return;
	}
	add(v, column->left ? "<td class=\"text\">" : "<td>");
	add_text(v, text);
	add(v, "</td>");
}

static void add_row(const struct report_view *v, const struct text_table *t, size_t row)
{
	const char *note = text_table_note_of(t, row);

	if (!note) {
		add(v, "<tr>");
		for (size_t c = 0; c < t->column_count; c++)
			add_cell(v, &t->columns[c], text_table_cell(t, row, c));
		add(v, "</tr>\n");
		return;
	}
	strbuf_addf(v->out, "<tr class=\"note\"><td class=\"text\" colspan=\"%zu\">",
		    t->column_count);
	add_text(v, note);
	add(v, "</td></tr>\n");
}

void html_table(const struct report_view *v, struct text_table *t)
{
	v->out->failed |= t->failed || t->text.failed;
	if (v->out->failed)
		return;
	add(v, t->fixed ? "<div class=\"table\"><table class=\"fixed\">\n"
			: "<div class=\"table\"><table>\n");
	if (!t->headless) {
		add(v, "<tr>");
		for (size_t c = 0; c < t->column_count; c++) {
			add(v, t->columns[c].left ? "<th class=\"text\">" : "<th>");
			add_text(v, t->columns[c].head);
			add(v, "</th>");
		}
		add(v, "</tr>\n");
	}
	for (size_t row = 0; row < text_table_rows(t); row++)
		add_row(v, t, row);
	add(v, "</table></div>\n");
}
