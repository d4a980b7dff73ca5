#include "perfetto/perfetto_slice_packets.h"

#include <errno.h>

/* Types of TrackEvent. */
enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3 };

#define CATEGORY_NAME(id, name) [CATEGORY_##id] = name,
static const char *const categories[CATEGORY_END] = { SLICE_CATEGORIES(CATEGORY_NAME) };
#define ANNOTATION_NAME(id, name) [ANNOTATION_##id] = name,
static const char *const annotations[ANNOTATION_END] = { SLICE_ANNOTATIONS(ANNOTATION_NAME) };

void perfetto_slices_restart(struct perfetto_slices *t)
{
	t->sequence.started = false;
	map_clear(&t->names);
}

void perfetto_slices_release(struct perfetto_slices *t)
{
	map_release(&t->names);
}

static void intern_all(struct strbuf *s, uint32_t field, const char *const *names, size_t count)
{
	for (size_t i = 1; i < count; i++)
		perfetto_intern_name(s, field, i, names[i], strlen(names[i]));
}

/* Interns what the packet of a slice defines. An iid is 0 if the text was interned before. */
static int define(struct strbuf *s, const struct perfetto_slice *slice, uint64_t name_iid,
		  uint64_t scope_iid, bool is_first)
{
	size_t token = proto_open(s, PACKET_INTERNED_DATA);
	int r = 0;

	if (is_first) {
		intern_all(s, DATA_EVENT_CATEGORIES, categories, ARRAY_SIZE(categories));
		intern_all(s, DATA_ANNOTATION_NAMES, annotations, ARRAY_SIZE(annotations));
	}
	if (name_iid)
		perfetto_intern_name(s, DATA_EVENT_NAMES, name_iid, slice->name.text,
				     slice->name.length);
	if (scope_iid)
		perfetto_intern_name(s, DATA_ANNOTATION_TEXTS, scope_iid, slice->scope.text,
				     slice->scope.length);
	if (slice->define_stack)
		r = slice->define_stack(slice->user, s, slice->stack_iid);
	proto_close(s, token);
	return r;
}

/* Writes the default track of a sequence's events. */
static void write_defaults(struct strbuf *s, const struct perfetto_slices *t, size_t defaults)
{
	size_t event = proto_open(s, 11);

	proto_uint(s, 11, t->uuid);
	proto_close(s, event);
	proto_close(s, defaults);
}

static void annotate_interned(struct strbuf *s, uint32_t name_iid, uint64_t text_iid)
{
	size_t token = proto_open(s, 4);

	proto_uint(s, 1, name_iid);
	proto_uint(s, 17, text_iid);
	proto_close(s, token);
}

/* Returns 0 if out of memory. */
static uint64_t iid_of(struct perfetto_slices *t, const struct track_name *name, bool *is_new)
{
	size_t known = t->names.count;
	uint64_t iid = map_number(&t->names, name->key);

	*is_new = t->names.count > known;
	return iid;
}

int perfetto_slice_begin(struct perfetto_slices *t, struct strbuf *s,
			 const struct perfetto_slice *slice, struct open_slice *open)
{
	bool new_name, new_scope = false;
	uint64_t name_iid = iid_of(t, &slice->name, &new_name), scope_iid = 0;
	size_t defaults;
	int r = 0;

	if (slice->scope.text)
		scope_iid = iid_of(t, &slice->scope, &new_scope);
	if (!name_iid || (slice->scope.text && !scope_iid))
		return -ENOMEM;
	open->out = s;
	open->packet = perfetto_sequence_open(s, &t->sequence, slice->time_ns, &defaults);
	if (unlikely(defaults))
		write_defaults(s, t, defaults);
	if (unlikely(new_name || new_scope || slice->define_stack || defaults))
		r = define(s, slice, new_name ? name_iid : 0, new_scope ? scope_iid : 0,
			   defaults != 0);
	open->event = proto_open(s, PACKET_TRACK_EVENT);
	proto_uint(s, 9, slice->instant ? TYPE_INSTANT : TYPE_SLICE_BEGIN);
	if (slice->lane)
		proto_uint(s, 11, t->uuid + slice->lane);
	proto_uint(s, 3, slice->category);
	proto_uint(s, 10, name_iid);
	open->has_stack = slice->stack_iid != 0;
	if (open->has_stack)
		proto_uint(s, 56, slice->stack_iid);
	if (scope_iid)
		annotate_interned(s, ANNOTATION_SCOPE, scope_iid);
	return r;
}

void perfetto_slice_close(struct open_slice *open)
{
	proto_close(open->out, open->event);
	proto_close(open->out, open->packet);
}

void perfetto_slice_end_open(const struct perfetto_slices *t, struct strbuf *s, size_t lane,
			     uint64_t time_ns, struct open_slice *open)
{
	bool started = t->sequence.started;
	struct perfetto_packet head = { time_ns, started ? 0 : PERFETTO_MONOTONIC, t->sequence.id,
					started ? PERFETTO_NEEDS_STATE : 0 };

	open->out = s;
	open->packet = perfetto_packet_open(s, &head);
	open->event = proto_open(s, PACKET_TRACK_EVENT);
	proto_uint(s, 9, TYPE_SLICE_END);
	if (lane || !started)
		proto_uint(s, 11, t->uuid + lane);
}

void perfetto_slice_end(const struct perfetto_slices *t, struct strbuf *s, size_t lane,
			uint64_t time_ns)
{
	struct open_slice open;

	perfetto_slice_end_open(t, s, lane, time_ns, &open);
	perfetto_slice_close(&open);
}

void perfetto_annotate_unsigned(struct strbuf *s, uint32_t name_iid, uint64_t value)
{
	size_t token = proto_open(s, 4);

	proto_uint(s, 1, name_iid);
	proto_uint(s, 3, value);
	proto_close(s, token);
}

void perfetto_annotate_double(struct strbuf *s, uint32_t name_iid, double value)
{
	size_t token = proto_open(s, 4);

	proto_uint(s, 1, name_iid);
	proto_double(s, 5, value);
	proto_close(s, token);
}

void perfetto_annotate_text(struct strbuf *s, uint32_t name_iid, const char *text, size_t length)
{
	size_t token = proto_open(s, 4);

	proto_uint(s, 1, name_iid);
	proto_text(s, 6, text, length);
	proto_close(s, token);
}

void perfetto_annotate_wait(struct strbuf *s, const struct row_synchronization *row)
{
	perfetto_annotate(s, ANNOTATION_CONTEXT, row->context);
	if (!(row->missing >> COLUMN_synchronization_stream & 1))
		perfetto_annotate(s, ANNOTATION_STREAM, row->stream);
	if (!(row->missing >> COLUMN_synchronization_event & 1))
		perfetto_annotate(s, ANNOTATION_EVENT, row->event);
}

void perfetto_annotate_passes(struct strbuf *s, uint32_t passes)
{
	size_t token = proto_open(s, 4);

	proto_string(s, 10, "passes");
	proto_int(s, 4, passes);
	proto_close(s, token);
}

void perfetto_annotate_metric(struct strbuf *s, const char *name, double value)
{
	size_t token;

	raw_reserve(s, 0);
	token = proto_open(s, 4);
	proto_text(s, 10, name, strlen(name));
	proto_double(s, 5, value);
	proto_close(s, token);
}
