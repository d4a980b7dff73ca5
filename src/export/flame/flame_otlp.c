/*
 * flame_otlp.c: OpenTelemetry's profiles, package profiles.v1development, as in version 1.45 of its
 * definitions. The signal is alpha: other versions have other numbers.
 *
 * A kind of time is a Profile. Tables of the dictionary are sets of encoded messages; an index is
 * the position in its table, and 0 is the empty message that each table begins with.
 */
#include <errno.h>
#include <string.h>

#include "base/proto.h"
#include "export/flame/flame_formats.h"
#include "export/flame/flame_path.h"
#include "trace/columns.h"

#define SCOPE "pitot"
#define TEXT_BYTES_MAX ((size_t)16 << 10) /* of names; the rest is cut */

/* Field numbers: tables of ProfilesDictionary. */
enum table {
	MAPPINGS = 1,
	LOCATIONS,
	FUNCTIONS,
	LINKS,
	STRINGS,
	ATTRIBUTES,
	STACKS,
	TABLES,
};

/* Field numbers, by message. */
enum {
	DATA_RESOURCE_PROFILES = 1,
	DATA_DICTIONARY = 2,
	RESOURCE_PROFILES_RESOURCE = 1,
	RESOURCE_PROFILES_SCOPE_PROFILES = 2,
	RESOURCE_ATTRIBUTES = 1,
	KEY_VALUE_KEY = 1, /* also of KeyValueAndUnit */
	KEY_VALUE_VALUE = 2,
	ANY_VALUE_STRING = 1,
	SCOPE_PROFILES_SCOPE = 1,
	SCOPE_PROFILES_PROFILES = 2,
	SCOPE_NAME = 1,
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLES = 2,
	PROFILE_TIME = 3,
	PROFILE_DURATION = 4,
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,
	SAMPLE_STACK = 1,
	SAMPLE_ATTRIBUTES = 2,
	SAMPLE_VALUES = 4,
	MAPPING_START = 1,
	MAPPING_LIMIT = 2,
	MAPPING_OFFSET = 3,
	MAPPING_FILENAME = 4,
	MAPPING_ATTRIBUTES = 5,
	STACK_LOCATIONS = 1,
	LOCATION_MAPPING = 1,
	LOCATION_ADDRESS = 2,
	LOCATION_LINES = 3,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_NAME = 1,
	FUNCTION_SYSTEM_NAME = 2,
	FUNCTION_FILENAME = 3,
};

struct otlp {
	const struct flame *flame;
	struct strbuf text; /* of the resource's profiles */
	struct interner tables[TABLES];
	struct strbuf entries[TABLES]; /* that are being encoded, one of each */
	struct strbuf packed; /* a list of a sample or a stack */
	struct map locations; /* frame -> index */
	bool failed;
};

/* --- the dictionary --- */

static struct strbuf *begin(struct otlp *o, enum table table)
{
	struct strbuf *entry = &o->entries[table];

	o->failed |= entry->failed;
	entry->length = 0;
	raw_reserve(entry, 0);
	return entry;
}

static uint64_t add(struct otlp *o, enum table table, const struct strbuf *entry)
{
	int64_t index = interner_add(&o->tables[table], strbuf_text(entry), entry->length, NULL);

	o->failed |= index < 0 || entry->failed;
	return index < 0 ? 0 : (uint64_t)index;
}

static uint64_t add_text(struct otlp *o, const char *text)
{
	struct strbuf *entry = begin(o, STRINGS);

	strbuf_add_utf8(entry, text, strnlen(text, TEXT_BYTES_MAX));
	return add(o, STRINGS, entry);
}

static uint64_t add_attribute(struct otlp *o, const char *key, const char *value)
{
	uint64_t name = add_text(o, key);
	struct strbuf *entry = begin(o, ATTRIBUTES);
	size_t message;

	proto_uint(entry, KEY_VALUE_KEY, name);
	message = proto_open(entry, KEY_VALUE_VALUE);
	proto_text(entry, ANY_VALUE_STRING, value, strnlen(value, TEXT_BYTES_MAX));
	proto_close(entry, message);
	return add(o, ATTRIBUTES, entry);
}

static void pack(struct otlp *o, uint64_t value)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(&o->packed, bytes, varint_put(bytes, value));
}

static void add_packed(struct otlp *o, struct strbuf *to, uint32_t field)
{
	o->failed |= o->packed.failed;
	proto_bytes(to, field, strbuf_text(&o->packed), o->packed.length);
	strbuf_clear(&o->packed);
}

static uint64_t add_mapping(struct otlp *o, uint32_t row)
{
	const struct trace *t = o->flame->stacks.trace;
	uint64_t values[COLUMNS_module], build_id, name;
	bool missing[COLUMNS_module];
	uint8_t packed[VARINT_MAX];
	struct strbuf *entry;

	for (int i = 0; i < COLUMNS_module; i++)
		values[i] = trace_value(t, TABLE_module, i, row, &missing[i]);
	name = add_text(o, trace_string(t, (uint32_t)values[COLUMN_module_path]));
	build_id =
		missing[COLUMN_module_build_id]
			? 0
			: add_attribute(o, "process.executable.build_id.gnu",
					trace_string(t, (uint32_t)values[COLUMN_module_build_id]));
	entry = begin(o, MAPPINGS);
	proto_uint(entry, MAPPING_START, values[COLUMN_module_start_address]);
	proto_uint(entry, MAPPING_LIMIT, values[COLUMN_module_end_address]);
	proto_uint(entry, MAPPING_OFFSET, values[COLUMN_module_file_offset]);
	proto_uint(entry, MAPPING_FILENAME, name);
	if (build_id)
		proto_bytes(entry, MAPPING_ATTRIBUTES, packed, varint_put(packed, build_id));
	return add(o, MAPPINGS, entry);
}

static void add_line(struct otlp *o, struct strbuf *location, const char *name,
		     const char *system_name, const char *file, uint32_t line)
{
	const uint64_t texts[] = { add_text(o, name), add_text(o, system_name), add_text(o, file) };
	struct strbuf *entry = begin(o, FUNCTIONS);
	uint64_t function;
	size_t message;

	proto_uint(entry, FUNCTION_NAME, texts[0]);
	proto_uint(entry, FUNCTION_SYSTEM_NAME, texts[1]);
	proto_uint(entry, FUNCTION_FILENAME, texts[2]);
	function = add(o, FUNCTIONS, entry);
	raw_reserve(location, 0);
	message = proto_open(location, LOCATION_LINES);
	proto_uint(location, LINE_FUNCTION, function);
	if (line)
		proto_uint(location, LINE_LINE, line);
	proto_close(location, message);
}

static uint64_t add_location(struct otlp *o, uint32_t frame)
{
	const struct stacks *s = &o->flame->stacks;
	const struct stack_frame *f = &s->frames.data[frame];
	uint64_t mapping = f->module == TRACE_NO_ROW ? 0 : add_mapping(o, f->module);
	struct strbuf *entry = begin(o, LOCATIONS);

	if (mapping)
		proto_uint(entry, LOCATION_MAPPING, mapping);
	if (f->address)
		proto_uint(entry, LOCATION_ADDRESS, f->address);
	for (uint32_t i = 0; i < f->line_count; i++) {
		const struct stack_line *line = &s->lines.data[f->first_line + i];

		add_line(o, entry, stacks_text(s, s->full_names ? line->full_name : line->function),
			 stacks_text(s, line->full_name), stacks_text(s, line->file), line->line);
	}
	if (!f->line_count)
		add_line(o, entry, stacks_text(s, f->name),
			 stacks_text(s, f->system_name ? f->system_name : f->name), "", 0);
	return add(o, LOCATIONS, entry);
}

static uint64_t location_of(struct otlp *o, uint32_t frame)
{
	uint64_t *index = map_at(&o->locations, frame, 0);

	o->failed |= !index;
	if (index && !*index)
		*index = add_location(o, frame);
	return index ? *index : 0;
}

static void add_dictionary(struct otlp *o, struct strbuf *out)
{
	size_t message;

	raw_reserve(out, 0);
	message = proto_open(out, DATA_DICTIONARY);
	for (enum table table = MAPPINGS; table < TABLES; table++)
		for (size_t i = 0; i < o->tables[table].count; i++)
			proto_bytes(out, table, o->tables[table].items[i].text,
				    o->tables[table].items[i].length);
	proto_close(out, message);
}

/* --- samples --- */

/* The innermost frame is first; inverted graphs have it first already. */
static uint64_t add_stack(struct otlp *o, const struct flame_path *path)
{
	const struct flame *f = o->flame;
	struct strbuf *entry;

	for (size_t i = 0; i < path->nodes.count; i++) {
		size_t k = f->inverted ? i : path->nodes.count - 1 - i;
		uint32_t frame = f->tree.nodes.data[path->nodes.data[k]].frame;

		if (f->stacks.frames.data[frame].class != FRAME_LEVEL)
			pack(o, location_of(o, frame));
	}
	entry = begin(o, STACKS);
	add_packed(o, entry, STACK_LOCATIONS);
	return add(o, STACKS, entry);
}

static void add_levels(struct otlp *o, const struct flame_path *path)
{
	const struct stacks *s = &o->flame->stacks;

	for (size_t i = 0; i < path->nodes.count; i++) {
		const struct stack_frame *f = flame_frame(o->flame, path->nodes.data[i]);

		if (f->class == FRAME_LEVEL)
			pack(o, add_attribute(o, stacks_text(s, f->system_name),
					      stacks_text(s, f->name)));
	}
}

static void add_sample(struct otlp *o, const struct flame_path *path)
{
	uint64_t stack = add_stack(o, path);
	size_t message;

	raw_reserve(&o->text, 0);
	message = proto_open(&o->text, PROFILE_SAMPLES);
	proto_uint(&o->text, SAMPLE_STACK, stack);
	add_levels(o, path);
	if (o->packed.length)
		add_packed(o, &o->text, SAMPLE_ATTRIBUTES);
	pack(o, MIN(o->flame->tree.nodes.data[path->node - 1].self_ns, INT64_MAX));
	add_packed(o, &o->text, SAMPLE_VALUES);
	proto_close(&o->text, message);
}

static void add_profile(struct otlp *o, enum flame_kind kind, uint64_t from_ns, uint64_t until_ns)
{
	static const char *const units[] = {
		[FLAME_NS] = "ns", [FLAME_SAMPLES] = "count", [FLAME_BYTES] = "By"
	};
	const uint64_t time_ns = (uint64_t)trace_unix_ns(o->flame->stacks.trace, from_ns);
	_cleanup_(flame_path_release) struct flame_path path = flame_path_init(o->flame, kind);
	uint64_t type = add_text(o, flame_type_names[kind]),
		 unit = add_text(o, units[flame_kind_unit(kind)]);
	size_t profile, message;

	raw_reserve(&o->text, 0);
	profile = proto_open(&o->text, SCOPE_PROFILES_PROFILES);
	message = proto_open(&o->text, PROFILE_SAMPLE_TYPE);
	proto_uint(&o->text, VALUE_TYPE_TYPE, type);
	proto_uint(&o->text, VALUE_TYPE_UNIT, unit);
	proto_close(&o->text, message);
	proto_tag(&o->text, PROFILE_TIME, PROTO_FIXED64);
	raw_add(&o->text, &time_ns, sizeof(time_ns));
	proto_uint(&o->text, PROFILE_DURATION, until_ns - from_ns);
	while (!o->failed && flame_path_next(&path))
		add_sample(o, &path);
	proto_close(&o->text, profile);
	o->failed |= path.failed || o->text.failed;
}

static void add_resource(struct otlp *o, const struct flame_write *w)
{
	size_t resource = proto_open(&o->text, RESOURCE_PROFILES_RESOURCE);

	for (size_t i = 0; i < w->attribute_count; i++) {
		const struct flame_attribute *a = &w->attributes[i];
		size_t attribute, value;

		raw_reserve(&o->text, 0);
		attribute = proto_open(&o->text, RESOURCE_ATTRIBUTES);
		proto_text(&o->text, KEY_VALUE_KEY, a->name, strlen(a->name));
		raw_reserve(&o->text, 0);
		value = proto_open(&o->text, KEY_VALUE_VALUE);
		proto_text(&o->text, ANY_VALUE_STRING, a->value, strlen(a->value));
		proto_close(&o->text, value);
		proto_close(&o->text, attribute);
	}
	proto_close(&o->text, resource);
}

static void add_profiles(struct otlp *o, const struct flame_write *w)
{
	const struct flame *f = o->flame;
	uint64_t from_ns = w->from_ns, until_ns = w->until_ns;
	size_t resource_profiles = proto_open(&o->text, DATA_RESOURCE_PROFILES);
	size_t scope_profiles, scope;

	if (!until_ns)
		trace_span(f->stacks.trace, &from_ns, &until_ns);
	add_resource(o, w);
	raw_reserve(&o->text, 0);
	scope_profiles = proto_open(&o->text, RESOURCE_PROFILES_SCOPE_PROFILES);
	scope = proto_open(&o->text, SCOPE_PROFILES_SCOPE);
	proto_string(&o->text, SCOPE_NAME, SCOPE);
	proto_close(&o->text, scope);
	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++)
		if (f->kinds & 1u << kind)
			add_profile(o, kind, from_ns, until_ns);
	proto_close(&o->text, scope_profiles);
	proto_close(&o->text, resource_profiles);
}

int flame_otlp_write(const struct flame *f, const struct flame_write *w, struct output *out)
{
	struct otlp o = { .flame = f };
	int rc;

	o.failed = !raw_init(&o.text);
	for (enum table table = MAPPINGS; table < TABLES; table++) {
		interner_init(&o.tables[table]);
		o.failed |= !raw_init(&o.entries[table]) ||
			    interner_add(&o.tables[table], "", 0, NULL) < 0;
	}
	if (!o.failed)
		add_profiles(&o, w);
	if (!o.failed)
		add_dictionary(&o, &o.text);
	rc = o.failed ? -ENOMEM : flame_flush(&o.text, out, true);
	for (enum table table = MAPPINGS; table < TABLES; table++) {
		interner_release(&o.tables[table]);
		strbuf_release(&o.entries[table]);
	}
	map_release(&o.locations);
	strbuf_release(&o.packed);
	strbuf_release(&o.text);
	return rc;
}
