#include "perfetto/perfetto_stack_packets.h"

#include "base/path.h"

enum { UNIT_NANOSECONDS = 1 };

#define BUILD_ID_BYTES 64

void perfetto_defined_clear(struct perfetto_defined *d)
{
	map_clear(&d->stacks);
	map_clear(&d->parts);
}

void perfetto_defined_release(struct perfetto_defined *d)
{
	map_release(&d->stacks);
	map_release(&d->parts);
}

/* Returns false if the build id is empty or malformed. */
static bool intern_build_id(struct strbuf *s, uint64_t iid, const char *id)
{
	uint8_t bytes[BUILD_ID_BYTES];
	size_t length = hex_decode(id, bytes, BUILD_ID_BYTES), token;

	if (!length)
		return false;
	token = proto_open(s, DATA_BUILD_IDS);
	proto_uint(s, 1, iid);
	proto_bytes(s, 2, bytes, length);
	proto_close(s, token);
	return true;
}

void perfetto_intern_mapping(struct strbuf *s, uint64_t iid, const struct perfetto_mapping *m)
{
	const char *path = m->path + (*m->path == '/'); /* readers prepend a slash to each part */
	bool has_id = intern_build_id(s, iid, m->build_id);
	size_t token;

	perfetto_intern_name(s, DATA_MAPPING_PATHS, iid, path, strlen(path));
	token = proto_open(s, DATA_MAPPINGS);
	proto_uint(s, 1, iid);
	if (has_id)
		proto_uint(s, 2, iid);
	if (m->start < m->end) { /* readers abort if start >= end */
		proto_uint(s, 3, m->offset);
		proto_uint(s, 4, m->start);
		proto_uint(s, 5, m->end);
		if (m->start - m->bias >= m->offset)
			proto_uint(s, 6, m->start - m->bias - m->offset);
	}
	proto_uint(s, 7, iid);
	proto_close(s, token);
}

void perfetto_intern_frame(struct strbuf *s, uint64_t iid, const struct perfetto_frame *f)
{
	size_t token = proto_open(s, DATA_FRAMES);

	proto_uint(s, 1, iid);
	if (f->name)
		proto_uint(s, 2, f->name);
	proto_uint(s, 3, f->mapping);
	if (f->address)
		proto_uint(s, 4, f->address);
	if (f->source)
		proto_uint(s, 5, f->source);
	if (f->line)
		proto_uint(s, 6, f->line);
	if (f->kind)
		proto_uint(s, 7, (uint64_t)f->kind);
	proto_close(s, token);
}

void perfetto_python_name(struct strbuf *out, const char *function, const char *file)
{
	strbuf_addf(out, "%s (%s)", function, base_name(file));
}

void perfetto_sample_defaults(struct strbuf *s, size_t defaults, bool off_cpu)
{
	size_t samples = proto_open(s, 100), counter;

	proto_string(s, 1, off_cpu ? "pitot off CPU" : "pitot CPU");
	counter = proto_open(s, 2);
	proto_string(s, 2, off_cpu ? "time off the CPU" : "CPU time");
	proto_uint(s, 3, UNIT_NANOSECONDS);
	proto_close(s, counter);
	proto_close(s, samples);
	proto_close(s, defaults);
}

void perfetto_sample_write(struct strbuf *s, const struct perfetto_sample *sample)
{
	size_t message = proto_open(s, PACKET_STACK_SAMPLE), part = proto_open(s, 1);

	proto_uint(s, 2, sample->pid);
	proto_uint(s, 3, sample->thread);
	proto_close(s, part);
	if (sample->cpu >= 0) {
		part = proto_open(s, 3);
		proto_uint(s, 2, (uint64_t)sample->cpu);
		proto_close(s, part);
	}
	proto_uint(s, 6, sample->stack_iid);
	proto_uint(s, 11, sample->weight_ns);
	proto_close(s, message);
}
