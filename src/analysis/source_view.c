#include "analysis/source_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/groups.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"

#define FILE_MAX ((size_t)4 << 20)
#define OFFSET_END (UINT64_C(1) << 40)

static const char *keep_reason(struct source_view *v, const char *text)
{
	int64_t id = interner_add(&v->reasons, text, strlen(text), NULL);

	return id < 0 ? "out of memory" : v->reasons.items[id].text;
}

/* Adds the code and the instructions that have samples. */
static int add_codes(struct source_view *v)
{
	_cleanup_(map_release) struct map numbers = MAP_INIT;

	for (size_t i = 0; i < v->stalls.instructions.count; i++) {
		const struct stall_place *p = &v->stalls.instructions.items[i];
		uint64_t number = map_number(&numbers, p->function->code);
		struct source_instruction item = { .offset = p->offset, .place = p };
		struct source_code *code;

		if (!number ||
		    (number > v->codes.count &&
		     vec_push(&v->codes, (struct source_code){ .function = p->function }) < 0))
			return -ENOMEM;
		code = &v->codes.data[number - 1];
		code->samples += p->samples;
		sass_counts_add(&code->sass, &p->sass);
		if (vec_push(&code->items, item) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Disassembles the functions of a cubin that have samples. */
static int disassemble(struct source_view *v, const struct kept_cubin *kept,
		       const struct source_options *o, struct sass *out, const char **missing)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT, symbols = STRBUF_INIT;
	struct error e = { 0 };

	for (size_t i = 0; i < v->codes.count; i++) {
		const struct sampled_function *f = v->codes.data[i].function;
		uint32_t symbol = f->cubin == kept->cubin && f->is_found
					  ? cubin_symbol(f->cubin, &f->section)
					  : 0;

		if (symbol)
			strbuf_addf(&symbols, symbols.length ? ",%u" : "%u", symbol);
	}
	*missing = o->nvdisasm
			   ? NULL
			   : "nvdisasm, which comes with the CUDA toolkit, was not found or was "
			     "disabled";
	if (!o->nvdisasm || !symbols.length)
		return 0;
	if (!stalls_cubin_path(v->trace, kept->row, &path) || symbols.failed)
		return -ENOMEM;
	if (sass_read(out, o->nvdisasm, strbuf_text(&path), strbuf_text(&symbols), o->limit_s, &e) <
	    0)
		*missing = keep_reason(v, e.text);
	return e.code == -ENOMEM ? -ENOMEM : 0;
}

ORDER(by_offset, struct source_instruction, UP(offset))

/* Adds texts to the instructions, and instructions without samples. Skips impossible offsets. */
static int add_texts(struct source_code *code, const struct sass *s)
{
	uint64_t end = cubin_code_size(code->function->cubin, &code->function->section);
	size_t count, sampled = code->items.count;
	const struct sass_line *lines = sass_find(s, code->function->name, &count);

	if (!count) {
		code->missing = "nvdisasm printed no instructions of it";
		return 0;
	}
	vec_sort(&code->items, by_offset);
	for (size_t i = 0; i < count && lines[i].offset < end; i++) {
		struct source_instruction new = { .offset = lines[i].offset },
					  *item = code->items.data;
		size_t at = sorted_prefix(sampled, k, item[k].offset < new.offset);

		if (at == sampled || item[at].offset != new.offset) {
			if (vec_push(&code->items, new) < 0)
				return -ENOMEM;
			at = code->items.count - 1;
		}
		code->items.data[at].text = lines[i].text;
		code->items.data[at].label = lines[i].label;
	}
	return 0;
}

static int add_instructions(struct source_view *v, const struct source_options *o)
{
	for (size_t i = 0; i < v->codes.count; i++)
		v->codes.data[i].missing =
			v->codes.data[i].function->cubin
				? "its function is not in the device code that was kept"
				: "its device code is not in the recording";
	for (size_t i = 0; i < v->stalls.cubins.count; i++) {
		const struct kept_cubin *kept = &v->stalls.cubins.data[i];
		struct sass sass = { 0 };
		const char *missing;
		int rc = disassemble(v, kept, o, &sass, &missing);

		if (vec_push(&v->sass, sass) < 0) {
			sass_release(&sass);
			return -ENOMEM;
		}
		for (size_t k = 0; k < v->codes.count && rc == 0; k++) {
			struct source_code *code = &v->codes.data[k];

			if (code->function->cubin != kept->cubin || !code->function->is_found)
				continue;
			code->missing = missing;
			if (!missing)
				rc = add_texts(code, &sass);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Finds or adds an item of files, or -ENOMEM. */
static int64_t file_at(struct source_view *v, const char *path)
{
	int64_t id = interner_add(&v->paths, path, strlen(path), NULL);

	if (id >= 0 && (size_t)id == v->files.count) {
		struct source_file new = { .path = v->paths.items[id].text };

		if (vec_push(&v->files, new) < 0)
			return -ENOMEM;
	}
	return id;
}

/* Sets the line of an instruction: that of the innermost inlined function, as for its samples. */
static int find_line(struct source_view *v, const struct source_code *code,
		     struct source_instruction *item)
{
	struct source_frame frames[SOURCE_FRAMES_MAX];
	const struct sampled_function *f = code->function;
	int count =
		f->is_found ? cubin_find_frames(f->cubin, &f->section, item->offset, frames) : 0;
	const struct source_frame *inner = &frames[MAX(count, 1) - 1];
	int64_t file;

	item->file = SOURCE_NONE;
	if (count <= 0 || !inner->file || !inner->line)
		return MIN(count, 0);
	file = file_at(v, inner->file);
	item->file = (uint32_t)file;
	item->line = inner->line;
	return file < 0 ? -ENOMEM : 0;
}

ORDER(by_line, const struct stall_place *, ORDER_OF((*a)->line, (*b)->line))

static int add_lines(struct source_view *v)
{
	for (size_t i = 0; i < v->stalls.source.count; i++) {
		const struct stall_place *p = &v->stalls.source.items[i];
		int64_t file = file_at(v, p->file);

		if (file < 0 || vec_push(&v->files.data[file].heat, p) < 0)
			return -ENOMEM;
		v->files.data[file].samples += p->samples;
		sass_counts_add(&v->files.data[file].sass, &p->sass);
	}
	for (size_t i = 0; i < v->codes.count; i++) {
		struct source_code *code = &v->codes.data[i];

		vec_sort(&code->items, by_offset);
		for (size_t k = 0; k < code->items.count; k++)
			if (find_line(v, code, &code->items.data[k]) < 0)
				return -ENOMEM;
	}
	for (size_t i = 0; i < v->files.count; i++)
		vec_sort(&v->files.data[i].heat, by_line);
	return 0;
}

/*
 * Opens a source file at its path or, with `root`, at the longest end of its path that exists below
 * root. Negative: not found, or no file.
 */
static int open_source(const char *path, const char *root, struct stat *st)
{
	_cleanup_strbuf_ struct strbuf in = STRBUF_INIT;

	if (!root)
		return *path == '/' ? io_open_file(path, st) : -ENOENT;
	for (const char *part = path; part; part = strchr(part, '/')) {
		int fd;

		part += strspn(part, "/");
		strbuf_clear(&in);
		strbuf_addf(&in, "%s/%s", root, part);
		fd = in.failed || !*part || strstr(part, "../")
			     ? -ENOENT
			     : io_open_file(strbuf_text(&in), st);
		if (fd >= 0 || fd == E_NOT_FILE)
			return fd;
	}
	return -ENOENT;
}

/* Whether a file differs from the compiled one, by size and, unless it was moved, by time. */
static bool is_changed(struct source_view *v, const struct source_file *f, const struct stat *now,
		       bool moved)
{
	uint64_t time_s, size_bytes, start_ns, end_ns;
	bool known = false;

	for (size_t i = 0; i < v->stalls.cubins.count; i++) {
		cubin_source(v->stalls.cubins.data[i].cubin, f->path, &time_s, &size_bytes);
		if (size_bytes && size_bytes != (uint64_t)now->st_size)
			return true;
		if (time_s && !moved && time_s != (uint64_t)now->st_mtim.tv_sec)
			return true;
		known |= time_s || size_bytes;
	}
	trace_span(v->trace, &start_ns, &end_ns);
	return !known && !moved &&
	       now->st_mtim.tv_sec > trace_unix_ns(v->trace, start_ns) / (int64_t)NS_PER_S;
}

static int cut_lines(struct source_file *f)
{
	for (char *line = f->text.data, *end; line && *line; line = end) {
		size_t length = strcspn(line, "\n");

		end = line + length + (line[length] == '\n');
		line[length] = '\0';
		if (length && line[length - 1] == '\r')
			line[length - 1] = '\0';
		if (vec_push(&f->lines, line) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int read_source(struct source_view *v, struct source_file *f, const char *root)
{
	struct stat s;
	_cleanup_close_ int fd = open_source(f->path, root, &s);
	int rc = 0;

	f->missing = NULL;
	if (fd < 0 && fd != E_NOT_FILE)
		f->missing = root ? "it is not in the folder of --source-root"
				  : "it does not exist here: name its folder with --source-root";
	else if (fd < 0 || s.st_size > (off_t)FILE_MAX)
		f->missing = "it is not a text file, or too large";
	else if (is_changed(v, f, &s, root))
		f->missing =
			"it has changed since it was compiled: name a folder with the compiled "
			"version with --source-root";
	if (!f->missing) {
		rc = io_read_to_end(fd, FILE_MAX, &f->text);
		if (rc < 0 || (f->text.length && memchr(f->text.data, 0, f->text.length)))
			f->missing = "it cannot be read as text";
		else
			rc = cut_lines(f);
	}
	return rc == -ENOMEM ? rc : 0;
}

ORDER(by_samples, struct source_code, DOWN(samples) ?: DOWN(sass.of[SASS_EXECUTED]) ?: strcmp(a->function->name, b->function->name) ?: UP(function->code))

static int fill(struct source_view *v, const struct source_options *o)
{
	int rc = add_codes(v);

	if (rc == 0)
		rc = add_instructions(v, o);
	if (rc == 0)
		rc = add_lines(v);
	vec_sort(&v->codes, by_samples);
	for (size_t i = 0; i < v->files.count && rc == 0; i++)
		rc = read_source(v, &v->files.data[i], o->root);
	return rc;
}

int source_view_init(struct source_view *v, struct trace *t, const struct filter *filter,
		     const struct source_options *options, struct error *e)
{
	static const enum table_id tables[] = { TABLE_cubin,  TABLE_pc_reading, TABLE_pc_sample,
						TABLE_metric, TABLE_sass_value, TABLE_capability };
	struct selection selection;
	int rc = 0;

	*v = (struct source_view){ .trace = t };
	for (size_t i = 0; i < ARRAY_SIZE(tables) && rc >= 0; i++)
		rc = trace_load(t, tables[i], 0, e);
	if (rc >= 0)
		rc = selection_init(&selection, t, filter, NULL, e);
	if (rc < 0)
		return rc;
	interner_init(&v->paths);
	interner_init(&v->reasons);
	rc = stalls_init(&v->stalls, &selection, STALLS_SASS);
	if (rc == 0)
		rc = fill(v, options);
	selection_release(&selection);
	if (rc == 0)
		return 0;
	source_view_release(v);
	return error_set(e, rc, "out of memory");
}

void source_view_release(struct source_view *v)
{
	for (size_t i = 0; i < v->codes.count; i++)
		vec_release(&v->codes.data[i].items);
	for (size_t i = 0; i < v->files.count; i++) {
		vec_release(&v->files.data[i].heat);
		vec_release(&v->files.data[i].lines);
		strbuf_release(&v->files.data[i].text);
	}
	for (size_t i = 0; i < v->sass.count; i++)
		sass_release(&v->sass.data[i]);
	vec_release(&v->codes);
	vec_release(&v->files);
	vec_release(&v->sass);
	interner_release(&v->paths);
	interner_release(&v->reasons);
	stalls_release(&v->stalls);
}

const struct stall_place *source_heat(const struct source_file *f, uint32_t line)
{
	size_t at = sorted_prefix(f->heat.count, i, f->heat.data[i]->line < line);

	return at < f->heat.count && f->heat.data[at]->line == line ? f->heat.data[at] : NULL;
}

uint64_t source_weight(const struct source_view *v, uint64_t samples,
		       const struct sass_counts *sass)
{
	return v->stalls.samples ? samples : sass->of[SASS_EXECUTED];
}
