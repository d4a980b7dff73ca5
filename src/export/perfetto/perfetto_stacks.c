/*
 * perfetto_stacks.c: frames, mappings and texts have the same iids in all sequences: their numbers
 * in struct stacks, from 1. A sequence therefore only tracks which of them it has defined.
 */
#include "export/perfetto/perfetto_stacks.h"

#include <errno.h>

#include "export/perfetto/perfetto_writer.h"

/* Mappings for code outside any file; the rows of table module follow. */
enum { MAPPING_UNKNOWN = 1, MAPPING_PYTHON, MAPPING_SYSTEM, MAPPING_MODULES };

#define FRAME_NO_LINE (UINT64_C(1) << 31) /* added to the number of a frame without lines */

int perfetto_stacks_init(struct perfetto *p, struct error *e)
{
	struct export_view *v = &p->view;
	int r = export_view_load_samples(v, e);

	return r < 0 || v->options->no_stacks ? r : export_stacks_init(&p->stacks, v->trace, e);
}

int perfetto_call_stack(struct perfetto *p, struct perfetto_defined *d, uint32_t process,
			uint32_t stack, uint64_t *iid, bool *is_new)
{
	uint64_t *known = map_at(&d->stacks, stack, 0);

	*is_new = false;
	if (!known)
		return -ENOMEM;
	if (!*known) {
		if (export_stacks_find(&p->stacks, process, stack, true) < 0)
			return -ENOMEM;
		*is_new = p->stacks.frames.count > 0;
		*known = *is_new ? 1 : 2;
	}
	*iid = *known == 1 ? stack : 0;
	return 0;
}

/* Returns 1 if the sequence has not defined the number yet, 0 if it has, or -ENOMEM. */
static int add_part(struct perfetto_defined *d, uint32_t field, uint64_t number)
{
	return map_add(&d->parts, (uint64_t)field << 40 | number);
}

/* Returns the iid of a text of struct stacks, and defines it if it is new; 0 for "". -ENOMEM. */
static int64_t intern_text(struct perfetto *p, struct strbuf *s, struct perfetto_defined *d,
			   uint32_t field, uint32_t text)
{
	const char *t = stacks_text(&p->stacks.stacks, text);
	int r;

	if (!*t)
		return 0;
	r = add_part(d, field, text);
	if (r > 0)
		perfetto_intern_name(s, field, text + UINT64_C(1), t, strlen(t));
	return r < 0 ? r : (int64_t)text + 1;
}

static struct perfetto_mapping module_mapping(struct perfetto *p, uint32_t row)
{
	const struct module_columns *m = module_columns(p->view.trace);
	size_t length;

	return (struct perfetto_mapping){
		.path = export_text(&p->view, TABLE_module, COLUMN_module_path, row, &length),
		.build_id =
			export_text(&p->view, TABLE_module, COLUMN_module_build_id, row, &length),
		.start = m->start_address[row],
		.end = m->end_address[row],
		.offset = m->file_offset[row],
		.bias = m->load_bias[row],
	};
}

static int64_t intern_mapping(struct perfetto *p, struct strbuf *s, struct perfetto_defined *d,
			      const struct stack_frame *f)
{
	static const char *const names[MAPPING_MODULES] = { [MAPPING_UNKNOWN] = "[unknown]",
							    [MAPPING_PYTHON] = "[python]",
							    [MAPPING_SYSTEM] = "[kernel]" };
	struct perfetto_mapping mapping = { .build_id = "" };
	uint64_t iid = MAPPING_UNKNOWN;
	int r;

	if (f->module != TRACE_NO_ROW)
		iid = (uint64_t)f->module + MAPPING_MODULES;
	else if (f->class == FRAME_PYTHON)
		iid = MAPPING_PYTHON;
	else if (f->class == FRAME_SYSTEM)
		iid = MAPPING_SYSTEM;
	r = add_part(d, DATA_MAPPINGS, iid);
	if (r <= 0)
		return r < 0 ? r : (int64_t)iid;
	if (iid >= MAPPING_MODULES)
		mapping = module_mapping(p, f->module);
	else
		mapping.path = names[iid];
	perfetto_intern_mapping(s, iid, &mapping);
	return (int64_t)iid;
}

/* Returns the address relative to the file's own headers. */
static uint64_t file_address(const struct perfetto *p, const struct stack_frame *f)
{
	if (f->module == TRACE_NO_ROW)
		return f->address;
	return f->address - module_columns(p->view.trace)->load_bias[f->module];
}

static int frame_kind(const struct stack_frame *f)
{
	return f->class == FRAME_PYTHON   ? KIND_INTERPRETED
	       : f->class == FRAME_SYSTEM ? KIND_SYSTEM
					  : KIND_NATIVE;
}

/* All frames of a Python function share the iid of the first one's name. */
static int64_t intern_python_name(struct perfetto *p, struct strbuf *s, struct perfetto_defined *d,
				  uint32_t name, const struct stack_line *l)
{
	const struct stacks *stacks = &p->stacks.stacks;
	uint64_t *known = map_at(&p->python_names, (uint64_t)l->function << 32 | l->file, name);
	struct strbuf *text = &p->gpus.text;
	int r = known ? add_part(d, DATA_FUNCTION_NAMES, *known) : -ENOMEM;

	if (r < 0)
		return r;
	if (r > 0) {
		strbuf_clear(text);
		perfetto_python_name(text, stacks_text(stacks, l->function),
				     stacks_text(stacks, l->file));
		perfetto_intern_name(s, DATA_FUNCTION_NAMES, *known + 1, strbuf_text(text),
				     text->length);
	}
	return (int64_t)*known + 1;
}

/* Defines one function of a frame; `line` counts from the innermost. */
static int intern_line(struct perfetto *p, struct strbuf *s, struct perfetto_defined *d,
		       uint32_t frame, uint32_t line, uint64_t iid)
{
	const struct stacks *stacks = &p->stacks.stacks;
	const struct stack_frame *f = &stacks->frames.data[frame];
	const struct stack_line *l =
		f->line_count ? &stacks->lines.data[f->first_line + line] : NULL;
	struct perfetto_frame message = { .line = l ? l->line : 0 };
	int64_t name, mapping, source = 0;

	if (l && f->class == FRAME_PYTHON && l->file)
		name = intern_python_name(p, s, d, f->name, l);
	else
		name = intern_text(p, s, d, DATA_FUNCTION_NAMES, l ? l->function : f->name);
	mapping = intern_mapping(p, s, d, f);
	if (l)
		source = intern_text(p, s, d, DATA_SOURCE_PATHS, l->file);
	if (name < 0 || mapping < 0 || source < 0)
		return -ENOMEM;
	message.name = (uint64_t)name;
	message.mapping = (uint64_t)mapping;
	message.source = (uint64_t)source;
	if (f->address)
		message.address = file_address(p, f);
	if (f->class != FRAME_NOTE)
		message.kind = frame_kind(f);
	perfetto_intern_frame(s, iid, &message);
	return 0;
}

static uint64_t line_iid(const struct stack_frame *f, uint32_t frame, uint32_t line)
{
	return f->line_count ? f->first_line + line + UINT64_C(1) : FRAME_NO_LINE + frame;
}

int perfetto_intern_frames(struct perfetto *p, struct strbuf *s, struct perfetto_defined *d,
			   uint64_t iid)
{
	const struct export_stacks *x = &p->stacks;
	size_t token, lines = 0;

	for (size_t i = 0; i < x->frames.count; i++) {
		uint32_t frame = x->frames.data[i];
		const struct stack_frame *f = &x->stacks.frames.data[frame];
		uint32_t count = MAX(f->line_count, 1u);

		lines += count;
		for (uint32_t line = 0; line < count; line++) {
			uint64_t number = line_iid(f, frame, line);
			int r = add_part(d, DATA_FRAMES, number);

			if (r > 0)
				r = intern_line(p, s, d, frame, line, number);
			if (r < 0)
				return r;
		}
	}
	raw_reserve(s, lines * PROTO_FIELD_MAX);
	token = proto_open(s, DATA_CALLSTACKS);
	proto_uint(s, 1, iid);
	for (size_t i = 0; i < x->frames.count; i++) {
		const struct stack_frame *f = &x->stacks.frames.data[x->frames.data[i]];

		for (uint32_t line = MAX(f->line_count, 1u); line-- > 0;)
			proto_uint(s, 2, line_iid(f, x->frames.data[i], line));
	}
	proto_close(s, token);
	return 0;
}
