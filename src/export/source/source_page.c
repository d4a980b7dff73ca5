#include "export/source/source_page.h"

#include <errno.h>
#include <string.h>

#include "analysis/instructions.h"
#include "export/flame/flame_picture.h"
#include "names/demangle.h"

/* Embedded from src/export/source/ by cmake/PitotEmbed.cmake. */
extern const char source_css[], source_js[];

/* {"long_scoreboard": 12, …} */
static void add_reasons(struct json *j, const struct stall_place *p)
{
	json_key_object(j, "reasons");
	for (size_t i = 0; p && i < p->reason_count; i++)
		json_key_u64(j, p->reasons[i].what.name, p->reasons[i].samples);
	json_end(j);
}

/* Counts that were not measured are null. */
static void add_counts(struct json *j, const struct sass_counts *c)
{
	static const char *const keys[SASS_COUNTS] = { "executed", "threads", "predicated",
						       "sectors",  "ideal",   "rated" };

	for (size_t i = 0; i < SASS_RATED; i++)
		json_key_known(j, keys[i], c && (c->known & 1u << i), c ? c->of[i] : 0);
	json_key_known(j, keys[SASS_RATED], c && (c->known & 1 << SASS_IDEAL),
		       c ? c->of[SASS_RATED] : 0);
}

static void add_hints(struct json *j, const struct source_view *v)
{
	struct instruction_hint hints[INSTRUCTION_HINTS_MAX];
	size_t count = instruction_hints(&v->stalls, hints);

	json_key_array(j, "hints");
	for (size_t i = 0; i < count; i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		const struct stall_place *p = hints[i].place;

		instruction_hint_text(&hints[i], &text);
		json_object(j);
		json_key_string(j, "hint", instruction_hint_kind(&hints[i]));
		json_key_string(j, "text", strbuf_text(&text));
		json_key_string(j, "path", p->file);
		json_key_known(j, "line", p->file, p->line);
		json_end(j);
	}
	json_end(j);
}

static void add_text(struct json *j, const struct source_file *f, bool with_text)
{
	if (!with_text || f->missing) {
		json_key_string(j, "lines", NULL);
		json_key_string(j, "missing", with_text ? f->missing : "excluded by --file");
		return;
	}
	json_key_array(j, "lines");
	for (size_t i = 0; i < f->lines.count; i++)
		json_string(j, f->lines.data[i]);
	json_end(j);
	json_key_string(j, "missing", NULL);
}

static void add_file(struct json *j, const struct source_file *f, bool with_text)
{
	json_object(j);
	json_key_string(j, "path", f->path);
	json_key_u64(j, "samples", f->samples);
	add_counts(j, &f->sass);
	json_key_array(j, "heat");
	for (size_t i = 0; i < f->heat.count; i++) {
		json_object(j);
		json_key_u64(j, "line", f->heat.data[i]->line);
		json_key_u64(j, "samples", f->heat.data[i]->samples);
		json_key_u64(j, "not_issued", f->heat.data[i]->not_issued);
		add_counts(j, &f->heat.data[i]->sass);
		add_reasons(j, f->heat.data[i]);
		json_end(j);
	}
	json_end(j);
	add_text(j, f, with_text);
	json_end(j);
}

static void add_instruction(struct json *j, const struct source_instruction *i)
{
	json_object(j);
	json_key_u64(j, "offset", i->offset);
	json_key_string(j, "label", i->label);
	json_key_string(j, "text", i->text);
	json_key_known(j, "file", i->file != SOURCE_NONE, i->file);
	json_key_known(j, "line", i->file != SOURCE_NONE, i->line);
	json_key_u64(j, "samples", i->place ? i->place->samples : 0);
	json_key_u64(j, "not_issued", i->place ? i->place->not_issued : 0);
	add_counts(j, i->place ? &i->place->sass : NULL);
	add_reasons(j, i->place);
	json_end(j);
}

static void add_code(struct json *j, const struct source_code *c)
{
	_cleanup_strbuf_ struct strbuf label = STRBUF_INIT, name = STRBUF_INIT, crc = STRBUF_INIT;

	kernel_name_short(c->function->name, &label);
	demangle(c->function->name, &name);
	strbuf_addf(&crc, "%016llx", (unsigned long long)c->function->crc);
	j->out->failed |= label.failed || name.failed || crc.failed;
	json_object(j);
	json_key_string(j, "label", strbuf_text(&label));
	json_key_string(j, "name", strbuf_text(&name));
	json_key_string(j, "symbol", c->function->name);
	json_key_string(j, "crc", strbuf_text(&crc));
	json_key_u64(j, "samples", c->samples);
	add_counts(j, &c->sass);
	json_key_string(j, "missing", c->missing);
	json_key_array(j, "instructions");
	for (size_t i = 0; i < c->items.count; i++)
		add_instruction(j, &c->items.data[i]);
	json_end(j);
	json_end(j);
}

static void add_reason(struct json *j, const struct stall_count *c)
{
	json_object(j);
	json_key_string(j, "reason", c->what.name);
	json_key_string(j, "text", c->what.words);
	json_key_bool(j, "wait", c->what.is_wait);
	json_key_string(j, "advice", c->what.advice);
	json_key_u64(j, "samples", c->samples);
	json_end(j);
}

void source_json(const struct source_view *v, const char *file, struct json *j)
{
	json_object(j);
	json_key_u64(j, "samples", v->stalls.samples);
	json_key_known(j, "launches", v->stalls.launches || !v->stalls.sass.known,
		       v->stalls.launches);
	add_counts(j, &v->stalls.sass);
	add_hints(j, v);
	json_key_u64(j, "without_line", v->stalls.without_line);
	json_key_u64(j, "without_code", v->stalls.without_code);
	json_key_array(j, "reasons");
	for (size_t i = 0; i < v->stalls.reason_count; i++)
		add_reason(j, &v->stalls.reasons[i]);
	json_end(j);
	json_key_array(j, "files");
	for (size_t i = 0; i < v->files.count; i++)
		add_file(j, &v->files.data[i], !file || text_matches(file, v->files.data[i].path));
	json_end(j);
	json_key_array(j, "kernels");
	for (size_t i = 0; i < v->codes.count; i++)
		add_code(j, &v->codes.data[i]);
	json_end(j);
	json_end(j);
}

/* Appends JSON that cannot close the surrounding <script> element. '<' occurs only in strings. */
static void add_data(struct strbuf *out, const struct source_view *v, const char *file)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct json j = JSON_INIT(&text);

	source_json(v, file, &j);
	for (const char *p = strbuf_text(&text); *p; p += *p == '<') {
		size_t length = strcspn(p, "<");

		strbuf_add(out, p, length);
		p += length;
		if (*p)
			strbuf_adds(out, "\\u003c");
	}
	out->failed |= text.failed;
}

void source_page(const struct source_view *v, const char *file, const char *recording,
		 struct strbuf *out)
{
	strbuf_adds(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			 "<meta name=\"viewport\" content=\"width=device-width\">\n");
	html_add_policy(out);
	strbuf_adds(out, "<title>");
	html_escape(out, recording, strlen(recording));
	strbuf_addf(out, " - source and samples</title>\n<style>\n%s</style>\n</head>\n",
		    source_css);
	html_add_body(out);
	strbuf_adds(out, "<script type=\"application/json\" id=\"data\">");
	add_data(out, v, file);
	strbuf_adds(out, "</script>\n<header><h1>");
	html_escape(out, recording, strlen(recording));
	strbuf_adds(out,
		    "</h1><span id=\"summary\"></span><button id=\"theme\">Light / dark</button>"
		    "</header>\n<main></main>\n");
	html_add_script(out, "");
	strbuf_addf(out, "%s</script>\n</body>\n</html>\n", source_js);
}

int source_page_write(const struct source_view *v, const char *file, const char *recording,
		      const char *path, bool overwrite, uint64_t *bytes, struct error *e)
{
	struct output *out = output_open(path, overwrite, e);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!out)
		return e->code;
	source_page(v, file, recording, &text);
	if (text.failed) {
		output_abort(&out);
		return error_set(e, -ENOMEM, "out of memory");
	}
	output_write(out, text.data, text.length);
	return output_commit(&out, bytes, e);
}
