/*
 * flame_pprof.c: pprof's profile.proto. The values of a sample are CPU ns, GPU ns, waiting ns,
 * launching ns, off-CPU ns, stall samples, and launches; kinds that the flame graph lacks are
 * omitted. Levels (process, thread, device, stream, NVTX ranges) are labels.
 *
 * A native frame is a location with its address, its mapping and all functions inlined there; other
 * frames have neither address nor mapping. Location ids are frame numbers of the flame graph plus
 * 1; functions are interned by their texts.
 */
#include <string.h>

#include "analysis/main_process.h"
#include "export/flame/flame_formats.h"
#include "export/flame/flame_path.h"
#include "base/proto.h"
#include "trace/columns.h"

/* Field numbers, by message. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_STR = 2,
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILENAMES = 8,
	MAPPING_HAS_LINES = 9,
	MAPPING_HAS_INLINES = 10,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILENAME = 4,
};

struct pprof {
	const struct flame *flame;
	struct output *out;
	struct strbuf text;
	struct interner strings; /* the string table; 0 is "" */
	struct interner functions; /* (name, system name, file) -> number, from 0 */
	struct map mappings; /* row of table module -> number, from 1 */
	/* frame of a level -> its label in `labels`: offset << 32 | length */
	struct map label_positions;
	struct strbuf labels; /* encoded */
	struct strbuf packed; /* values of a repeated field */
	uint8_t *used; /* per frame: whether a sample contains it */
	bool failed;
};

static size_t open_message(struct strbuf *s, uint32_t field)
{
	raw_reserve(s, 0);
	return proto_open(s, field);
}

static uint64_t intern_string(struct pprof *p, const char *text)
{
	int64_t id = interner_add(&p->strings, text, strlen(text), NULL);

	p->failed |= id < 0;
	return id < 0 ? 0 : (uint64_t)id;
}

/* Interns a text as UTF-8, as string fields require; invalid bytes become U+FFFD. */
static uint64_t intern_utf8(struct pprof *p, const char *text)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	strbuf_add_utf8(&clean, text, strlen(text));
	p->failed |= clean.failed;
	return intern_string(p, strbuf_text(&clean));
}

static void add_value_type(struct pprof *p, const char *type, const char *unit)
{
	size_t message = open_message(&p->text, PROFILE_SAMPLE_TYPE);

	proto_uint(&p->text, VALUE_TYPE_TYPE, intern_string(p, type));
	proto_uint(&p->text, VALUE_TYPE_UNIT, intern_string(p, unit));
	proto_close(&p->text, message);
}

static void add_types(struct pprof *p)
{
	static const char *const units[] = { "nanoseconds", "count", "bytes" };

	for (size_t kind = 0; kind < FLAME_KINDS; kind++)
		if (p->flame->kinds & 1u << kind)
			add_value_type(p, flame_type_names[kind], units[flame_kind_unit(kind)]);
	if (p->flame->kinds & 1u << FLAME_LAUNCHES)
		add_value_type(p, "launches", "count");
}

static void pack(struct pprof *p, uint64_t value)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(&p->packed, bytes, varint_put(bytes, value));
}

static void add_packed(struct pprof *p, uint32_t field)
{
	p->failed |= p->packed.failed;
	proto_bytes(&p->text, field, strbuf_text(&p->packed), p->packed.length);
	strbuf_clear(&p->packed);
}

/* Writes the values of all types; a kind sets one or two of them. */
static void add_values(struct pprof *p, enum flame_kind kind, const struct flame_node *n)
{
	for (enum flame_kind k = 0; k < FLAME_KINDS; k++)
		if (p->flame->kinds & 1u << k)
			pack(p, k == kind ? MIN(n->self_ns, INT64_MAX) : 0);
	if (p->flame->kinds & 1u << FLAME_LAUNCHES)
		pack(p, kind == FLAME_LAUNCHES ? n->self_count : 0);
	add_packed(p, SAMPLE_VALUE);
}

/* Writes the innermost frame first; inverted graphs have it first already. */
static void add_sample_locations(struct pprof *p, const struct flame_path *path)
{
	const struct flame *f = p->flame;

	for (size_t i = 0; i < path->nodes.count; i++) {
		size_t k = f->inverted ? i : path->nodes.count - 1 - i;
		uint32_t frame = f->tree.nodes.data[path->nodes.data[k]].frame;

		if (f->stacks.frames.data[frame].class == FRAME_LEVEL)
			continue;
		p->used[frame] = 1;
		pack(p, (uint64_t)frame + 1);
	}
	add_packed(p, SAMPLE_LOCATION);
}

/* Writes a label; each is encoded once. */
static void add_label(struct pprof *p, uint32_t frame)
{
	const struct stacks *s = &p->flame->stacks;
	uint64_t *position = map_at(&p->label_positions, frame, 0);
	size_t start = p->labels.length;

	if (!position) {
		p->failed = true;
		return;
	}
	if (!*position) {
		raw_reserve(&p->labels, 0);
		proto_uint(&p->labels, LABEL_KEY,
			   intern_string(p, stacks_text(s, s->frames.data[frame].system_name)));
		proto_uint(&p->labels, LABEL_STR,
			   intern_utf8(p, stacks_text(s, s->frames.data[frame].name)));
		p->failed |= p->labels.failed || p->labels.length > UINT32_MAX;
		*position = (uint64_t)start << 32 | (p->labels.length - start);
	}
	if (!p->failed)
		proto_bytes(&p->text, SAMPLE_LABEL, p->labels.data + (*position >> 32),
			    *position & UINT32_MAX);
}

static void add_sample(struct pprof *p, enum flame_kind kind, const struct flame_path *path)
{
	const struct flame *f = p->flame;
	const struct flame_node *nodes = f->tree.nodes.data;
	size_t message = open_message(&p->text, PROFILE_SAMPLE);

	add_sample_locations(p, path);
	add_values(p, kind, &nodes[path->node - 1]);
	for (size_t i = 0; i < path->nodes.count; i++) {
		uint32_t frame = nodes[path->nodes.data[i]].frame;

		if (f->stacks.frames.data[frame].class == FRAME_LEVEL)
			add_label(p, frame);
	}
	proto_close(&p->text, message);
}

static int add_samples(struct pprof *p, enum flame_kind kind)
{
	_cleanup_(flame_path_release) struct flame_path path = flame_path_init(p->flame, kind);
	int r = 0;

	while (r >= 0 && flame_path_next(&path)) {
		add_sample(p, kind, &path);
		r = flame_flush(&p->text, p->out, false);
	}
	return path.failed || p->failed ? -ENOMEM : r;
}

/*
 * Returns the number of a function, from 1. pprof shortens names that equal their system names, as
 * it takes them for C++: "<module>" would become empty.
 */
static uint64_t function_of(struct pprof *p, const char *name, const char *system_name,
			    const char *file)
{
	if (strpbrk(name, "<(") && !strcmp(name, system_name))
		system_name = "";

	const uint64_t key[] = { intern_utf8(p, name), intern_utf8(p, system_name),
				 intern_utf8(p, file) };
	int64_t id = interner_add(&p->functions, key, sizeof(key), NULL);

	p->failed |= id < 0;
	return (uint64_t)id + 1;
}

static void add_line(struct pprof *p, const char *name, const char *system_name, const char *file,
		     uint32_t line)
{
	size_t message = open_message(&p->text, LOCATION_LINE);

	proto_uint(&p->text, LINE_FUNCTION, function_of(p, name, system_name, file));
	if (line)
		proto_uint(&p->text, LINE_LINE, line);
	proto_close(&p->text, message);
}

static uint64_t mapping_of(struct pprof *p, uint32_t module)
{
	uint64_t *number = map_at(&p->mappings, module, p->mappings.count + 1);

	p->failed |= !number;
	return number ? *number : 0;
}

static void add_location(struct pprof *p, size_t frame)
{
	const struct stacks *s = &p->flame->stacks;
	const struct stack_frame *f = &s->frames.data[frame];
	size_t message = open_message(&p->text, PROFILE_LOCATION);

	proto_uint(&p->text, LOCATION_ID, frame + 1);
	if (f->module != TRACE_NO_ROW)
		proto_uint(&p->text, LOCATION_MAPPING, mapping_of(p, f->module));
	if (f->address)
		proto_uint(&p->text, LOCATION_ADDRESS, f->address);
	for (uint32_t i = 0; i < f->line_count; i++) {
		const struct stack_line *line = &s->lines.data[f->first_line + i];

		add_line(p, stacks_text(s, s->full_names ? line->full_name : line->function),
			 stacks_text(s, line->full_name), stacks_text(s, line->file), line->line);
	}
	if (!f->line_count)
		add_line(p, stacks_text(s, f->name),
			 stacks_text(s, f->system_name ? f->system_name : f->name), "", 0);
	proto_close(&p->text, message);
}

static int add_locations(struct pprof *p)
{
	const struct stacks *s = &p->flame->stacks;
	int r = 0;

	for (size_t i = 0; i < s->frames.count && r >= 0; i++) {
		if (!p->used[i])
			continue;
		add_location(p, i);
		r = p->failed ? -ENOMEM : flame_flush(&p->text, p->out, false);
	}
	return r;
}

static void add_mapping(struct pprof *p, uint32_t row, uint64_t id)
{
	const struct trace *t = p->flame->stacks.trace;
	uint64_t values[COLUMNS_module];
	bool missing[COLUMNS_module];
	size_t message = open_message(&p->text, PROFILE_MAPPING);

	for (int i = 0; i < COLUMNS_module; i++)
		values[i] = trace_value(t, TABLE_module, i, row, &missing[i]);
	proto_uint(&p->text, MAPPING_ID, id);
	proto_uint(&p->text, MAPPING_START, values[COLUMN_module_start_address]);
	proto_uint(&p->text, MAPPING_LIMIT, values[COLUMN_module_end_address]);
	proto_uint(&p->text, MAPPING_OFFSET, values[COLUMN_module_file_offset]);
	proto_uint(&p->text, MAPPING_FILENAME,
		   intern_utf8(p, trace_string(t, (uint32_t)values[COLUMN_module_path])));
	if (!missing[COLUMN_module_build_id])
		proto_uint(
			&p->text, MAPPING_BUILD_ID,
			intern_utf8(p, trace_string(t, (uint32_t)values[COLUMN_module_build_id])));
	if (trace_rows(t, TABLE_symbol))
		for (uint32_t field = MAPPING_HAS_FUNCTIONS; field <= MAPPING_HAS_INLINES; field++)
			proto_uint(&p->text, field, 1);
	proto_close(&p->text, message);
}

/* Returns the module row of the main process's executable, or TRACE_NO_ROW if it has no mapping. */
static uint32_t main_program(const struct pprof *p)
{
	const struct trace *t = p->flame->stacks.trace;
	const struct trace_process *process = main_process(t);
	const uint32_t *paths = module_columns(t)->path;
	uint64_t id;

	for (uint64_t row = 0; process && paths && row < trace_rows(t, TABLE_module); row++)
		if (map_get(&p->mappings, row, &id) &&
		    strcmp(trace_string(t, paths[row]), process->executable) == 0)
			return (uint32_t)row;
	return TRACE_NO_ROW;
}

/* pprof names the profile after its first mapping. */
static void add_mappings(struct pprof *p)
{
	uint64_t rows = trace_rows(p->flame->stacks.trace, TABLE_module), id;
	uint32_t first = main_program(p);

	if (first != TRACE_NO_ROW && map_get(&p->mappings, first, &id))
		add_mapping(p, first, id);
	for (uint64_t row = 0; row < rows; row++)
		if (row != first && map_get(&p->mappings, row, &id))
			add_mapping(p, (uint32_t)row, id);
}

static int add_functions(struct pprof *p)
{
	int r = 0;

	for (size_t i = 0; i < p->functions.count && r >= 0; i++) {
		size_t message = open_message(&p->text, PROFILE_FUNCTION);
		uint64_t key[3];

		memcpy(key, p->functions.items[i].text, sizeof(key));
		proto_uint(&p->text, FUNCTION_ID, i + 1);
		proto_uint(&p->text, FUNCTION_NAME, key[0]);
		proto_uint(&p->text, FUNCTION_SYSTEM_NAME, key[1]);
		proto_uint(&p->text, FUNCTION_FILENAME, key[2]);
		proto_close(&p->text, message);
		r = flame_flush(&p->text, p->out, false);
	}
	return r;
}

/* Returns the kind shown first: GPU time or, without it, the first kind in the profile. */
static unsigned default_kind(const struct flame *f)
{
	return f->kinds & 1u << FLAME_GPU ? FLAME_GPU : (unsigned)__builtin_ctz(f->kinds);
}

static void add_profile_info(struct pprof *p, const struct flame_write *w)
{
	const struct trace *t = p->flame->stacks.trace;
	uint64_t start_ns = w->from_ns, end_ns = w->until_ns;

	if (!end_ns)
		trace_span(t, &start_ns, &end_ns);
	raw_reserve(&p->text, 0);
	proto_int(&p->text, PROFILE_TIME_NANOS, trace_unix_ns(t, start_ns));
	proto_uint(&p->text, PROFILE_DURATION_NANOS, end_ns - start_ns);
	proto_uint(&p->text, PROFILE_COMMENT, intern_utf8(p, w->title));
	if (*w->notes)
		proto_uint(&p->text, PROFILE_COMMENT, intern_utf8(p, w->notes));
	if (p->flame->kinds)
		proto_uint(&p->text, PROFILE_DEFAULT_SAMPLE_TYPE,
			   intern_string(p, flame_type_names[default_kind(p->flame)]));
}

static int write_profile(struct pprof *p, const struct flame_write *w)
{
	int r = 0;

	p->used = calloc(p->flame->stacks.frames.count + 1, 1);
	if (!p->used || !raw_init(&p->text) || !raw_init(&p->labels))
		return -ENOMEM;
	intern_string(p, "");
	add_types(p);
	for (enum flame_kind kind = 0; kind < FLAME_KINDS && r >= 0; kind++)
		if (p->flame->kinds & 1u << kind)
			r = add_samples(p, kind);
	if (r >= 0)
		r = add_locations(p);
	if (r >= 0)
		r = add_functions(p);
	add_mappings(p);
	add_profile_info(p, w);
	for (size_t i = 0; i < p->strings.count && r >= 0; i++) {
		proto_bytes(&p->text, PROFILE_STRING, p->strings.items[i].text,
			    p->strings.items[i].length);
		r = flame_flush(&p->text, p->out, false);
	}
	if (r >= 0)
		r = p->failed ? -ENOMEM : flame_flush(&p->text, p->out, true);
	return r;
}

int flame_pprof_write(const struct flame *f, const struct flame_write *w, struct output *out)
{
	struct pprof p = { .flame = f, .out = out };
	int r;

	interner_init(&p.strings);
	interner_init(&p.functions);
	r = write_profile(&p, w);
	interner_release(&p.strings);
	interner_release(&p.functions);
	map_release(&p.mappings);
	map_release(&p.label_positions);
	strbuf_release(&p.labels);
	strbuf_release(&p.packed);
	free(p.used);
	strbuf_release(&p.text);
	return r;
}
