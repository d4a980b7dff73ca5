#include "format/sbt_file.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"

#define STRINGS_MAX (1u << 24) /* of a file; texts behind them are unknown */

#define KNOWN_FLAGS (SBT_HAS_DURATION | SBT_HAS_KERNEL | SBT_HAS_MEMORY | SBT_HAS_STACK)
static const char first_bytes[] = "SBT\0\0\0\1\0\3\0\0\0\x48"; /* version 0.1, flags, size */

/* ---- reading ---- */

static struct sbt_text read_text(struct cursor *c)
{
	uint64_t length = cursor_varint(c);
	struct sbt_text t = { (const char *)cursor_bytes(c, length), length };

	if (!t.bytes)
		t = (struct sbt_text){ "", 0 };
	return t;
}

static uint32_t read_u32(struct cursor *c)
{
	uint64_t value = cursor_varint(c);

	c->failed |= value > UINT32_MAX;
	return (uint32_t)value;
}

const struct sbt_text *sbt_string(const struct sbt_reader *s, uint64_t number)
{
	return number < s->strings.count ? &s->strings.data[number] : NULL;
}

struct sbt_frame sbt_next_frame(struct cursor *frames)
{
	struct sbt_frame f = { .address = cursor_varint(frames) };

	f.function = cursor_varint(frames);
	f.file = cursor_varint(frames);
	f.line = cursor_varint(frames);
	return f;
}

/* Reads an event. Returns false if it is none: the next one cannot be found. */
static bool read_event(struct sbt_reader *s, struct cursor *c, struct sbt_event *v)
{
	*v = (struct sbt_event){ .type = cursor_u8(c), .flags = cursor_u8(c) };
	s->time_ns += cursor_varint(c); /* modulo 2^64: the step may be backwards */
	v->time_ns = s->time_ns;
	if (v->flags & SBT_HAS_DURATION)
		v->duration_ns = cursor_varint(c);
	v->device = read_u32(c);
	v->stream = read_u32(c);
	v->correlation = cursor_varint(c);
	v->name = cursor_varint(c);
	for (size_t i = 0; i < ARRAY_SIZE(v->kernel) && v->flags & SBT_HAS_KERNEL; i++)
		v->kernel[i] = read_u32(c);
	for (size_t i = 0; i < ARRAY_SIZE(v->memory) && v->flags & SBT_HAS_MEMORY; i++)
		v->memory[i] = cursor_varint(c);
	if (v->flags & SBT_HAS_STACK) {
		v->thread = (uint32_t)cursor_varint(c);
		v->frame_count = cursor_varint(c);
		v->frames = *c;
	}
	for (uint64_t i = 0; i < v->frame_count && !c->failed; i++)
		sbt_next_frame(c);
	return !c->failed && !(v->flags & ~KNOWN_FLAGS);
}

/* The section at an offset, behind its tag. Returns false if it has no such tag. */
static bool section_at(const struct sbt_reader *s, uint64_t offset, uint8_t tag, struct cursor *c)
{
	if (offset < SBT_HEADER_BYTES || offset >= s->size || s->bytes[offset] != tag)
		return false;
	*c = cursor_of(s->bytes + offset + 1, s->size - offset - 1);
	return true;
}

static void read_metadata(struct sbt_reader *s, struct cursor *c)
{
	struct sbt_metadata *m = &s->metadata;

	m->name = read_text(c);
	m->command = read_text(c);
	m->start_ns = cursor_varint(c);
	m->end_ns = cursor_varint(c);
	m->host = read_text(c);
	m->pid = cursor_varint(c);
}

bool sbt_next_device(struct sbt_reader *s, struct sbt_device *d)
{
	struct cursor *c = &s->devices;

	if (!s->device_count || c->failed)
		return false;
	s->device_count--;
	d->id = read_u32(c);
	d->name = read_text(c);
	d->vendor = read_text(c);
	for (size_t i = 0; i < ARRAY_SIZE(d->values); i++)
		d->values[i] = sbt_device_columns[i] == COLUMN_device_memory_bytes
				       ? cursor_varint(c)
				       : read_u32(c);
	return !c->failed;
}

/* Keeps the place of the section, and goes to its end, which is that of an incomplete file. */
static void read_devices(struct sbt_reader *s, struct cursor *c)
{
	struct sbt_device unused;
	struct cursor begin;
	uint64_t count = s->device_count = cursor_varint(c);

	begin = s->devices = *c;
	while (sbt_next_device(s, &unused))
		;
	*c = s->devices;
	s->devices = begin;
	s->device_count = count;
}

/* A text has at least one byte: the count cannot be larger than what is left. */
static int read_strings(struct sbt_reader *s, struct cursor *c)
{
	uint64_t count = cursor_varint(c);

	s->strings.count = 0;
	c->failed |= count > cursor_left(c);
	for (; count; count--) {
		struct sbt_text t = read_text(c);

		if (c->failed)
			return 0;
		if (s->strings.count < STRINGS_MAX && vec_push(&s->strings, t) < 0)
			return -ENOMEM;
	}
	return !c->failed;
}

/*
 * Whether a byte 2 where an event should be begins the strings of a file without offsets: they
 * end at the last byte of the file, which is 255. An event of that type has less than 16 where the
 * strings have their count, so that no more is read twice.
 */
static int is_string_table(struct sbt_reader *s, struct cursor c)
{
	int rc;

	if (cursor_u8(&c) != SBT_STRINGS)
		return 0;
	rc = read_strings(s, &c);
	if (rc > 0 && (cursor_u8(&c) != SBT_END || c.failed || cursor_left(&c)))
		s->strings.count = 0, rc = 0;
	return rc;
}

/*
 * Reads up to `count` events, and adds them if `add`; else stops at the strings, which are then the
 * end of the events. Returns how many there are, or a negative code.
 */
static int64_t read_events(struct sbt_reader *s, struct cursor *events, uint64_t count, bool add)
{
	struct cursor c = *events;
	uint64_t done = 0;
	struct sbt_event v;
	int rc = 0;

	s->time_ns = cursor_varint(&c);
	while (rc == 0 && done < count && cursor_left(&c)) {
		if (!add && (rc = is_string_table(s, c)) > 0)
			events->end = c.p;
		if (rc || !read_event(s, &c, &v))
			break;
		rc = add ? s->add(s->user, &v) : 0;
		done++;
	}
	return rc < 0 ? rc : (int64_t)done;
}

/* Checks the header. Returns 0 or a negative code that names what cannot be. */
static int check_header(const struct sbt_reader *s, struct error *e)
{
	const uint8_t *b = s->bytes;
	uint32_t size;

	if (s->size < 4 || memcmp(b, first_bytes, 4))
		return error_set(e, E_FORMAT, "'%s' is no SBT file", s->path);
	if (s->size < SBT_HEADER_BYTES)
		return error_set(e, E_FORMAT, "'%s' is cut off within its header of 72 bytes",
				 s->path);
	size = load_u32(b + 12);
	if (load_u16(b + 4) != 0)
		return error_set(e, E_UNSUPPORTED, "'%s' is of SBT version %u.%u; Pitot reads 0.x",
				 s->path, load_u16(b + 4), load_u16(b + 6));
	if ((load_u32(b + 8) & 5) != 1 || b[64])
		return error_set(e, E_UNSUPPORTED,
				 "'%s' is big-endian or compressed (flags %#x, compression %u)",
				 s->path, load_u32(b + 8), b[64]);
	if (size < SBT_HEADER_BYTES || size > s->size)
		return error_set(e, E_FORMAT, "'%s': its header_size cannot be %u", s->path, size);
	return 0;
}

/* The sections of a file that was never completed follow each other. */
static int64_t recover(struct sbt_reader *s)
{
	struct cursor c = cursor_of(s->bytes + SBT_HEADER_BYTES, s->size - SBT_HEADER_BYTES);
	uint8_t tag = cursor_u8(&c);
	int64_t count;

	for (; !c.failed && (tag == SBT_METADATA || tag == SBT_DEVICES); tag = cursor_u8(&c))
		(tag == SBT_METADATA ? read_metadata : read_devices)(s, &c);
	if (c.failed || tag != SBT_EVENTS)
		return 0;
	count = read_events(s, &c, UINT64_MAX, false);
	if (count > 0)
		count = read_events(s, &c, UINT64_MAX, true);
	if (count >= 0)
		snprintf(s->broken, sizeof(s->broken),
			 "the file was never completed: %" PRId64 " event%s recovered%s", count,
			 plural((uint64_t)count), s->strings.count ? "" : ", names are lost");
	return count;
}

static int64_t read_complete(struct sbt_reader *s)
{
	const uint8_t *b = s->bytes;
	uint64_t wanted = load_u64(b + 56), offset = load_u64(b + 40);
	struct cursor c;
	int64_t count = 0;

	if (section_at(s, load_u64(b + 16), SBT_METADATA, &c))
		read_metadata(s, &c);
	if (section_at(s, load_u64(b + 32), SBT_DEVICES, &c))
		read_devices(s, &c);
	if (section_at(s, load_u64(b + 24), SBT_STRINGS, &c) && read_strings(s, &c) < 0)
		return -ENOMEM;
	if (section_at(s, offset, SBT_EVENTS, &c))
		count = read_events(s, &c, wanted, true);
	if (count >= 0 && (uint64_t)count < wanted)
		snprintf(s->broken, sizeof(s->broken),
			 "the file ends, or cannot be read, after event %" PRId64 " of %" PRIu64,
			 count, wanted);
	return count;
}

int sbt_read(struct sbt_reader *s, struct error *e)
{
	const uint8_t *b = s->bytes;
	int64_t rc = check_header(s, e);

	if (rc < 0)
		return (int)rc;
	s->metadata.name = s->metadata.command = s->metadata.host = (struct sbt_text){ "", 0 };
	rc = load_u64(b + 56) || load_u64(b + 24) || load_u64(b + 40) || s->size == SBT_HEADER_BYTES
		     ? read_complete(s)
		     : recover(s);
	if (rc == -ENOMEM)
		error_set(e, -ENOMEM, "out of memory");
	return (int)MIN(rc, 0);
}

void sbt_reader_release(struct sbt_reader *s)
{
	vec_release(&s->strings);
}

/* ---- writing ---- */

static void put_varint(struct sbt_writer *w, uint64_t value)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(&w->out, bytes, varint_put(bytes, value));
}

static void put_text(struct sbt_writer *w, const char *text, size_t length)
{
	put_varint(w, length);
	strbuf_add(&w->out, text, length);
}

/* `field`: of the header's offsets. */
static void begin_section(struct sbt_writer *w, size_t field, uint8_t tag)
{
	w->offsets[field] = w->out.length;
	strbuf_addc(&w->out, (char)tag);
}

void sbt_begin(struct sbt_writer *w, const struct sbt_metadata *m)
{
	*w = (struct sbt_writer){ .out = STRBUF_INIT };
	interner_init(&w->strings);
	strbuf_add(&w->out, (const char[SBT_HEADER_BYTES]){ 0 }, SBT_HEADER_BYTES);
	begin_section(w, 0, SBT_METADATA);
	put_text(w, m->name.bytes, m->name.length);
	put_text(w, m->command.bytes, m->command.length);
	put_varint(w, m->start_ns);
	put_varint(w, m->end_ns);
	put_text(w, m->host.bytes, m->host.length);
	put_varint(w, m->pid);
}

void sbt_begin_devices(struct sbt_writer *w, size_t count)
{
	begin_section(w, 2, SBT_DEVICES);
	put_varint(w, count);
}

void sbt_put_device(struct sbt_writer *w, const struct sbt_device *d)
{
	put_varint(w, d->id);
	put_text(w, d->name.bytes, d->name.length);
	put_text(w, d->vendor.bytes, d->vendor.length);
	for (size_t i = 0; i < ARRAY_SIZE(d->values); i++)
		put_varint(w, d->values[i]);
}

uint64_t sbt_number(struct sbt_writer *w, const char *text, size_t length)
{
	int64_t item = interner_add(&w->strings, text, length, NULL);

	w->out.failed |= item < 0;
	return (uint64_t)MAX(item, 0);
}

void sbt_put_event(struct sbt_writer *w, const struct sbt_event *v)
{
	if (!w->events++) {
		begin_section(w, 3, SBT_EVENTS);
		put_varint(w, v->time_ns);
		w->last_ns = v->time_ns;
	}
	strbuf_addc(&w->out, (char)v->type);
	strbuf_addc(&w->out, (char)v->flags);
	put_varint(w, v->time_ns - w->last_ns);
	w->last_ns = v->time_ns;
	if (v->flags & SBT_HAS_DURATION)
		put_varint(w, v->duration_ns);
	put_varint(w, v->device);
	put_varint(w, v->stream);
	put_varint(w, v->correlation);
	put_varint(w, v->name);
	for (size_t i = 0; i < ARRAY_SIZE(v->kernel) && v->flags & SBT_HAS_KERNEL; i++)
		put_varint(w, v->kernel[i]);
	for (size_t i = 0; i < ARRAY_SIZE(v->memory) && v->flags & SBT_HAS_MEMORY; i++)
		put_varint(w, v->memory[i]);
	if (v->flags & SBT_HAS_STACK) {
		put_varint(w, v->thread);
		put_varint(w, v->frame_count);
	}
}

void sbt_put_frame(struct sbt_writer *w, const struct sbt_frame *f)
{
	put_varint(w, f->address);
	put_varint(w, f->function);
	put_varint(w, f->file);
	put_varint(w, f->line);
}

int sbt_finish(struct sbt_writer *w, struct error *e)
{
	begin_section(w, 1, SBT_STRINGS);
	put_varint(w, w->strings.count);
	for (size_t i = 0; i < w->strings.count; i++)
		put_text(w, w->strings.items[i].text, w->strings.items[i].length);
	strbuf_addc(&w->out, (char)SBT_END);
	if (w->out.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (w->out.length > SBT_FILE_BYTES_MAX)
		return error_set(e, E_LIMIT, "more than %zu MiB of SBT", SBT_FILE_BYTES_MAX >> 20);
	memcpy(w->out.data, first_bytes, sizeof(first_bytes));
	for (size_t i = 0; i < ARRAY_SIZE(w->offsets); i++)
		store_u64(w->out.data + 16 + 8 * i, w->offsets[i]);
	store_u64(w->out.data + 56, w->events);
	return 0;
}

void sbt_writer_release(struct sbt_writer *w)
{
	strbuf_release(&w->out);
	interner_release(&w->strings);
}
