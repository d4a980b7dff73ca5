#include "cli/source_print.h"

#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/instructions.h"
#include "analysis/sentence.h"
#include "base/human.h"
#include "base/json.h"
#include "base/options.h"
#include "base/path.h"
#include "export/source/source_page.h"
#include "report/text_table.h"
#include "names/demangle.h"

#define AROUND 4u /* lines before and after the line of --at */

struct printing {
	const struct context *context;
	const struct source_print *options;
	const struct source_view *view;
	struct strbuf *out;
	char *file; /* the file of FILE:LINE, or NULL */
	uint64_t line;
};

static void add_safe(struct text_table *t, const char *text)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT;

	for (; *text; text++)
		strbuf_adds(&plain, *text == '\t' ? "    " : (char[]){ *text, '\0' });
	text_table_safe(t, strbuf_text(&plain));
	t->failed |= plain.failed;
}

/* A column without head and text has no width. */
#define PLACE_COLUMNS(p)                                                                           \
	RIGHT("share"), RIGHT((p)->view->stalls.samples ? "samples" : ""),                         \
		RIGHT((p)->view->stalls.sass.known ? "executed" : ""),                             \
		RIGHT((p)->view->stalls.sass.known ? "threads" : ""),                              \
		RIGHT((p)->view->stalls.sass.of[SASS_IDEAL] ? "sectors/ideal" : "")
#define WARPS(p) ((p)->view->stalls.samples ? "its warps were" : "")

/* Adds the cells of the figures of a place; NULL: empty cells. */
static void add_share(const struct printing *p, struct text_table *t,
		      const struct stall_place *place)
{
	_cleanup_strbuf_ struct strbuf threads = STRBUF_INIT, sectors = STRBUF_INIT;
	const struct stalls *s = &p->view->stalls;
	static const struct sass_counts none;
	const struct sass_counts *sass = place ? &place->sass : &none;

	if (place)
		text_table_percent(t, source_weight(p->view, place->samples, sass),
				   source_weight(p->view, s->samples, &s->sass));
	else
		text_table_add(t, "");
	if (place && s->samples)
		text_table_count(t, place->samples);
	else
		text_table_add(t, "");
	if (sass->known & 1 << SASS_EXECUTED)
		text_table_count(t, sass->of[SASS_EXECUTED]);
	else
		text_table_add(t, "");
	sass_threads_text(sass, &threads);
	sass_sectors_text(sass, &sectors);
	text_table_add(t, strbuf_text(&threads));
	text_table_add(t, strbuf_text(&sectors));
}

static void add_reasons(struct text_table *t, const struct stall_place *place)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (place)
		stalls_describe(place, 1, &text);
	text_table_add(t, strbuf_text(&text));
}

static void print_table(const struct printing *p, struct text_table *t)
{
	if (text_table_rows(t))
		text_table_print(t, 2, p->context->width, p->context->color, p->out);
	text_table_release(t);
}

/* Appends "720 samples, 1,024 executed instructions". */
static void add_amounts(const struct printing *p, uint64_t samples, const struct sass_counts *sass)
{
	bool has_samples = samples || !p->view->stalls.sass.known;

	if (has_samples)
		sentence_add(p->out, COUNTED_AS(samples, "sample"));
	if (sass->known & 1 << SASS_EXECUTED)
		sentence_add(p->out, WORDS(has_samples ? ", " : ""),
			     COUNTED_AS(sass->of[SASS_EXECUTED], "executed instruction"));
}

static void add_title(const struct printing *p, const char *name, uint64_t samples,
		      const struct sass_counts *sass, const char *what, const char *missing)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_addc(p->out, '\n');
	text_safe(&line, name, strlen(name));
	style_add(p->out, p->context->color, STYLE_BOLD, strbuf_text(&line));
	strbuf_adds(p->out, "  ");
	add_amounts(p, samples, sass);
	if (missing)
		strbuf_addf(p->out, "; no %s: %s", what, missing);
	strbuf_addc(p->out, '\n');
	p->out->failed |= line.failed;
}

static bool wants_file(const struct printing *p, const struct source_file *f)
{
	const struct source_print *o = p->options;

	if (o->file && !text_matches(o->file, f->path))
		return false;
	return !p->file || strcmp(f->path, p->file) == 0 ||
	       strcmp(base_name(f->path), p->file) == 0;
}

static bool has_file(const struct printing *p)
{
	for (size_t i = 0; i < p->view->files.count; i++)
		if (wants_file(p, &p->view->files.data[i]))
			return true;
	return false;
}

static void add_line(const struct printing *p, struct text_table *t, const struct source_file *f,
		     uint32_t line)
{
	const struct stall_place *place = source_heat(f, line);

	add_share(p, t, place);
	text_table_addf(t, "%u", line);
	add_safe(t, line - 1 < f->lines.count ? f->lines.data[line - 1] : "");
	add_reasons(t, place);
}

/* Prints the hottest lines in source order, or those around the line of --at. */
static void print_file(const struct printing *p, const struct source_file *f)
{
	const struct text_column columns[] = { PLACE_COLUMNS(p), RIGHT("line"), FLEXIBLE("source"),
					       LEFT(WARPS(p)) };
	struct text_table t = TEXT_TABLE_INIT(columns);
	uint64_t least = 0;

	if (p->file) {
		uint64_t around = f->missing ? 0 : AROUND, end = MAX(p->line, f->lines.count);

		for (uint64_t i = p->line - MIN(p->line - 1, around);
		     i <= MIN(end, p->line + around); i++)
			add_line(p, &t, f, (uint32_t)i);
	} else if (p->view->stalls.source.count > p->options->top) {
		const struct stall_place *last = &p->view->stalls.source.items[p->options->top - 1];

		least = source_weight(p->view, last->samples, &last->sass);
	}
	for (size_t i = 0; i < f->heat.count && !p->file; i++)
		if (source_weight(p->view, f->heat.data[i]->samples, &f->heat.data[i]->sass) >=
		    least)
			add_line(p, &t, f, f->heat.data[i]->line);
	if (text_table_rows(&t))
		add_title(p, f->path, f->samples, &f->sass, "text", f->missing);
	print_table(p, &t);
}

static bool wants_instruction(const struct printing *p, const struct source_instruction *i)
{
	if (!p->file)
		return true;
	return i->file != SOURCE_NONE && i->line == p->line &&
	       wants_file(p, &p->view->files.data[i->file]);
}

static void print_code(const struct printing *p, const struct source_code *c)
{
	const struct text_column columns[] = { PLACE_COLUMNS(p), RIGHT("offset"), LEFT("line"),
					       FLEXIBLE("instruction"), LEFT(WARPS(p)) };
	struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	for (size_t k = 0; k < c->items.count; k++) {
		const struct source_instruction *i = &c->items.data[k];

		if (!wants_instruction(p, i))
			continue;
		add_share(p, &t, i->place);
		text_table_addf(&t, "0x%llx", (unsigned long long)i->offset);
		if (i->file == SOURCE_NONE)
			text_table_add(&t, "-");
		else
			text_table_addf(&t, "%s:%u", base_name(p->view->files.data[i->file].path),
					i->line);
		add_safe(&t, i->text ? i->text : "-");
		add_reasons(&t, i->place);
	}
	kernel_name_short(c->function->name, &name);
	if (text_table_rows(&t))
		add_title(p, strbuf_text(&name), c->samples, &c->sass, "text of instructions",
			  c->missing);
	print_table(p, &t);
	p->out->failed |= name.failed;
}

static void print_hints(const struct printing *p)
{
	struct instruction_hint hints[INSTRUCTION_HINTS_MAX];
	size_t count = instruction_hints(&p->view->stalls, hints);

	for (size_t i = 0; i < count; i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		instruction_hint_text(&hints[i], &text);
		text_safe(p->out, strbuf_text(&text), text.length);
		strbuf_addc(p->out, '\n');
	}
}

static void print_text(const struct printing *p)
{
	const struct stalls *s = &p->view->stalls;

	add_amounts(p, s->samples, &s->sass);
	strbuf_adds(p->out, " of kernels");
	if (s->launches)
		sentence_add(p->out, WORDS(", counted in "), COUNTED_AS(s->launches, "launch"));
	if (s->without_line + s->without_code) {
		strbuf_adds(p->out, ", ");
		human_percent(p->out, s->without_line + s->without_code, s->samples);
		strbuf_adds(p->out, " of them of code without known lines");
	}
	strbuf_addc(p->out, '\n');
	print_hints(p);
	for (size_t i = 0; i < p->view->files.count; i++)
		if (wants_file(p, &p->view->files.data[i]))
			print_file(p, &p->view->files.data[i]);
	for (size_t i = 0; i < p->view->codes.count && p->options->at; i++)
		print_code(p, &p->view->codes.data[i]);
	if (!p->options->at)
		strbuf_adds(p->out, "\n  instructions: pitot source --at KERNEL or --at FILE:LINE; "
				    "all of it as a page: pitot source -o x.html\n");
}

static int write_page(const struct context *c, const struct source_view *v,
		      const struct source_print *o)
{
	_cleanup_strbuf_ struct strbuf size = STRBUF_INIT;
	struct error e = { 0 };
	uint64_t bytes = 0;

	if (source_page_write(v, o->file, o->recording, o->output, o->overwrite, &bytes, &e) < 0)
		return cli_fail(c, &e);
	human_bytes(&size, bytes);
	if (strcmp(o->output, "-") != 0)
		cli_note(c, "%s: %s", o->output, strbuf_text(&size));
	return EXIT_DONE;
}

/* Nothing was selected, or nothing was recorded. */
static int fail_empty(const struct printing *p)
{
	const struct trace *t = p->view->trace;
	const char *why = capability_engine_refusal(t, "pc-sampling");

	if (!*why)
		why = capability_engine_refusal(t, "sass-metrics");
	if (trace_rows(t, TABLE_pc_sample) + trace_rows(t, TABLE_sass_value)) {
		if (p->options->at)
			return cli_failf(p->context, "no sampled or counted kernel matches '%s'",
					 p->options->at);
		return cli_failf(p->context, "none of the recorded samples match");
	}
	if (*why)
		return cli_failf(p->context, "no kernel was sampled: %s", why);
	return cli_failf(p->context, SOURCE_NOTHING);
}

static int show(struct printing *p)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);

	if (!p->view->stalls.samples && !p->view->stalls.sass.known && !p->context->json)
		return fail_empty(p);
	if (p->file && !has_file(p))
		return cli_failf(p->context, "no file '%s' has sampled or counted lines", p->file);
	if (p->options->output)
		return write_page(p->context, p->view, p->options);
	p->out = &out;
	if (p->context->json) {
		source_json(p->view, p->options->file, &j);
		strbuf_addc(&out, '\n');
	} else {
		print_text(p);
	}
	return cli_print(p->context, &out);
}

/* Parses "kernel.cu:16"; returns false if it is the name of a kernel. */
static bool parse_place(struct printing *p, char *at)
{
	char *colon = strrchr(at, ':');

	if (!colon || colon == at || parse_u64(colon + 1, &p->line) < 0 || !p->line ||
	    p->line > UINT32_MAX)
		return false;
	*colon = '\0';
	p->file = at;
	return true;
}

int source_print(const struct context *c, struct trace *t, const struct source_print *o,
		 struct progress *progress)
{
	_cleanup_strbuf_ struct strbuf program = STRBUF_INIT;
	_cleanup_free_ char *at = o->at ? strdup(o->at) : NULL;
	struct printing p = { .context = c, .options = o };
	struct source_options options = { .root = o->root,
					  .nvdisasm = o->nvdisasm,
					  .limit_s = o->limit_s };
	struct filter filter = o->filter;
	struct source_view view;
	struct error e = { 0 };
	int status;

	if (o->at && !at)
		return cli_failf(c, "out of memory");
	if (at && !parse_place(&p, at))
		filter.kernel = o->at;
	if (o->no_sass)
		options.nvdisasm = NULL;
	else if (!options.nvdisasm && sass_program(&program))
		options.nvdisasm = strbuf_text(&program);
	status = source_view_init(&view, t, &filter, &options, &e);
	progress_end(progress);
	if (status < 0)
		return cli_fail(c, &e);
	p.view = &view;
	status = show(&p);
	source_view_release(&view);
	return status;
}
