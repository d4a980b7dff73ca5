#include "tape_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/io.h"

#define FILE_BYTES_MAX (4ull << 30)
#define RAW_BYTES_MAX (8ull << 30)

static void damaged(struct tape *t, const char *why)
{
	snprintf(t->damage, sizeof(t->damage), "%s", why);
}

static int remember_text(struct tape *t, uint64_t id, const uint8_t *bytes, size_t length)
{
	struct tape_text text = { arena_strndup(&t->arena, (const char *)bytes, length), length };

	if (!text.text)
		return -ENOMEM;
	if (id <= t->texts.count) {
		t->texts.data[id - 1] = text;
		return 0;
	}
	return vec_push(&t->texts, text);
}

static int note_string(struct tape *t, const struct tape_record *r)
{
	struct cursor c = cursor_of(r->payload, r->length);
	uint64_t id = cursor_varint(&c), length;
	const uint8_t *bytes;

	cursor_varint(&c);
	if (c.failed || id == 0 || id > t->texts.count + 1)
		return E_FORMAT;
	if (cursor_left(&c) == 0) /* an id from before, behind another pointer */
		return tape_text_of(t, id) ? 0 : E_FORMAT;
	length = cursor_varint(&c);
	bytes = cursor_bytes(&c, length);
	return bytes ? remember_text(t, id, bytes, length) : E_FORMAT;
}

static char *take_text(struct tape *t, struct cursor *c)
{
	uint64_t length = cursor_varint(c);
	const uint8_t *bytes = cursor_bytes(c, length);

	return bytes ? arena_strndup(&t->arena, (const char *)bytes, length) : NULL;
}

static int note_hello(struct tape *t, const struct tape_record *r)
{
	struct cursor c = cursor_of(r->payload, r->length);
	uint64_t count = cursor_varint(&c);

	for (uint64_t i = 0; i < count && !c.failed; i++) {
		struct tape_fact fact = { take_text(t, &c), NULL };

		fact.value = take_text(t, &c);
		if (c.failed || !fact.key || !fact.value)
			return E_FORMAT;
		if (vec_push(&t->facts, fact) < 0)
			return -ENOMEM;
	}
	return c.failed ? E_FORMAT : 0;
}

static int note_record(struct tape *t, const struct tape_record *r)
{
	if (r->thread >= t->threads)
		t->threads = r->thread + 1;
	if (r->type == TAPE_STRING)
		return note_string(t, r);
	if (r->type == TAPE_HELLO)
		return note_hello(t, r);
	t->complete = r->type == TAPE_END;
	return 0;
}

/* The records of one unpacked chunk. */
static int take_records(struct tape *t, const uint8_t *raw, size_t length, uint64_t *time)
{
	struct cursor c = cursor_of(raw, length);

	while (cursor_left(&c)) {
		struct tape_record r = { .type = cursor_u8(&c) };
		uint64_t thread = cursor_varint(&c);
		int status;

		*time += (uint64_t)unzigzag(cursor_varint(&c));
		r.time = *time;
		r.length = cursor_varint(&c);
		r.payload = cursor_bytes(&c, r.length);
		if (c.failed || thread > UINT16_MAX)
			return E_FORMAT;
		r.thread = (uint32_t)thread;
		status = note_record(t, &r);
		if (status < 0)
			return status;
		if (vec_push(&t->records, r) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* 1: a chunk was taken, 0: the rest cannot be used, < 0: no memory. */
static int take_chunk(struct tape *t, struct cursor *c, uint64_t *time)
{
	struct tape_chunk head;
	const uint8_t *bytes = cursor_bytes(c, sizeof(head));
	uint8_t *raw;
	int status;

	if (!bytes)
		return damaged(t, "cut inside the head of a chunk"), 0;
	memcpy(&head, bytes, sizeof(head));
	if (head.magic != TAPE_CHUNK_MAGIC || !head.raw_bytes || head.raw_bytes > TAPE_RAW_MAX ||
	    t->raw_bytes + head.raw_bytes > RAW_BYTES_MAX)
		return damaged(t, "damaged head of a chunk"), 0;
	bytes = cursor_bytes(c, head.packed_bytes);
	if (!bytes)
		return damaged(t, "cut inside a chunk"), 0;
	if (crc32c(0, bytes, head.packed_bytes) != head.crc)
		return damaged(t, "checksum of a chunk does not match"), 0;
	raw = malloc(head.raw_bytes);
	if (!raw || vec_push(&t->chunks, raw) < 0) {
		free(raw);
		return -ENOMEM;
	}
	if (ZSTD_decompress(raw, head.raw_bytes, bytes, head.packed_bytes) != head.raw_bytes)
		return damaged(t, "a chunk cannot be unpacked"), 0;
	t->raw_bytes += head.raw_bytes;
	status = take_records(t, raw, head.raw_bytes, time);
	if (status == E_FORMAT)
		return damaged(t, "a damaged record"), 0;
	return status < 0 ? status : 1;
}

int tape_parse(const uint8_t *bytes, size_t length, struct tape *t, struct error *e)
{
	struct cursor c = cursor_of(bytes, length);
	const uint8_t *magic = cursor_bytes(&c, TAPE_MAGIC_BYTES);
	uint64_t time = 0;
	int r;

	*t = (struct tape){ .records = VEC_INIT };
	if (!magic || memcmp(magic, TAPE_MAGIC, TAPE_MAGIC_BYTES) != 0)
		return error_set(e, E_FORMAT, "not a tape");
	do {
		r = cursor_left(&c) ? take_chunk(t, &c, &time) : 0;
	} while (r > 0);
	return r < 0 ? error_set(e, r, "no memory for the tape") : 0;
}

int tape_load(const char *path, struct tape *t, struct error *e)
{
	_cleanup_strbuf_ struct strbuf file = STRBUF_INIT;
	int r = io_read_file(path, FILE_BYTES_MAX, &file);

	*t = (struct tape){ .records = VEC_INIT };
	if (r >= 0)
		r = tape_parse((const uint8_t *)strbuf_text(&file), file.length, t, e);
	else
		error_set(e, r, "%s", error_code_text(r));
	if (r < 0)
		error_prefix(e, "cannot read tape '%s'", path);
	return r;
}

void tape_release(struct tape *t)
{
	for (size_t i = 0; i < t->chunks.count; i++)
		free(t->chunks.data[i]);
	vec_release(&t->chunks);
	vec_release(&t->records);
	vec_release(&t->texts);
	vec_release(&t->facts);
	arena_release(&t->arena);
}

const char *tape_fact_text(const struct tape *t, const char *key)
{
	for (size_t i = 0; i < t->facts.count; i++)
		if (strcmp(t->facts.data[i].key, key) == 0)
			return t->facts.data[i].value;
	return "";
}

uint64_t tape_fact_number(const struct tape *t, const char *key)
{
	return strtoull(tape_fact_text(t, key), NULL, 10);
}

const char *tape_text_of(const struct tape *t, uint64_t id)
{
	return id >= 1 && id <= t->texts.count ? t->texts.data[id - 1].text : NULL;
}

bool tape_get_string(const struct tape_record *r, struct tape_string *out)
{
	struct cursor c = cursor_of(r->payload, r->length);

	out->id = cursor_varint(&c);
	out->pointer = cursor_varint(&c);
	return !c.failed;
}

bool tape_get_thread(const struct tape_record *r, struct tape_thread *out)
{
	struct cursor c = cursor_of(r->payload, r->length);
	uint64_t length;
	const uint8_t *name;

	out->tid = cursor_varint(&c);
	length = cursor_varint(&c);
	name = cursor_bytes(&c, length);
	if (name)
		snprintf(out->name, sizeof(out->name), "%.*s", (int)MIN(length, (uint64_t)63),
			 name);
	return name != NULL;
}

bool tape_get_call(const struct tape_record *r, struct tape_call *out)
{
	struct cursor c = cursor_of(r->payload, r->length);
	uint64_t function = cursor_varint(&c), count;

	*out = (struct tape_call){ .function = function < TAPE_FUNCTION_LIMIT ? function : 0 };
	out->result = unzigzag(cursor_varint(&c));
	out->duration_ns = cursor_varint(&c);
	count = cursor_varint(&c);
	if (count > TAPE_ARGUMENTS_MAX)
		return false;
	out->argument_count = (unsigned)count;
	for (unsigned i = 0; i < count; i++)
		out->arguments[i] = cursor_varint(&c);
	out->output_length = cursor_varint(&c);
	out->output = cursor_bytes(&c, out->output_length);
	return !c.failed;
}

static void get_api(struct cursor *c, struct tape_event *out)
{
	out->site = (uint32_t)cursor_varint(c);
	out->function = cursor_varint(c);
	out->symbol = cursor_varint(c);
	out->context = cursor_varint(c);
	out->context_uid = (uint32_t)cursor_varint(c);
	out->correlation = (uint32_t)cursor_varint(c);
	out->returned = cursor_varint(c) != 0;
	out->return_value = (int)unzigzag(cursor_varint(c));
	out->parameter_count = cursor_left(c) ? (unsigned)cursor_varint(c) : 0;
	if (out->parameter_count > TAPE_PARAMETERS_MAX)
		out->parameter_count = 0; /* of a later format */
	for (unsigned i = 0; i < out->parameter_count; i++)
		out->parameters[i] = cursor_varint(c);
}

static void get_resource(struct cursor *c, struct tape_event *out)
{
	static const unsigned counts[] = {
		[TAPE_DESCRIPTOR_MODULE] = 2,
		[TAPE_DESCRIPTOR_GRAPH] = 7,
		[TAPE_DESCRIPTOR_STREAM_ATTRIBUTE] = 2,
	};
	uint64_t descriptor;

	out->context = cursor_varint(c);
	out->stream = cursor_varint(c);
	descriptor = cursor_varint(c);
	if (descriptor >= ARRAY_SIZE(counts))
		return;
	out->descriptor = (enum tape_descriptor)descriptor;
	for (unsigned i = 0; i < counts[descriptor]; i++)
		out->numbers[i] = cursor_varint(c);
	if (descriptor == TAPE_DESCRIPTOR_MODULE && cursor_left(c) &&
	    cursor_varint(c) == out->numbers[1])
		out->cubin = cursor_bytes(c, out->numbers[1]);
}

bool tape_get_event(const struct tape_record *r, struct tape_event *out)
{
	struct cursor c = cursor_of(r->payload, r->length);

	*out = (struct tape_event){ .domain = (uint32_t)cursor_varint(&c) };
	out->cbid = (uint32_t)cursor_varint(&c);
	out->empty = cursor_left(&c) == 0;
	if (out->empty)
		return !c.failed;
	switch (out->domain) {
	case CUPTI_CB_DOMAIN_DRIVER_API:
	case CUPTI_CB_DOMAIN_RUNTIME_API:
		get_api(&c, out);
		break;
	case CUPTI_CB_DOMAIN_RESOURCE:
		get_resource(&c, out);
		break;
	case CUPTI_CB_DOMAIN_SYNCHRONIZE:
		out->context = cursor_varint(&c);
		out->stream = cursor_varint(&c);
		break;
	case CUPTI_CB_DOMAIN_STATE:
		out->result = (int)unzigzag(cursor_varint(&c));
		out->message = cursor_varint(&c);
		break;
	default:
		break;
	}
	return !c.failed;
}

bool tape_get_request(const struct tape_record *r, uint64_t *size, uint64_t *max_records)
{
	struct cursor c = cursor_of(r->payload, r->length);

	*size = cursor_varint(&c);
	*max_records = cursor_varint(&c);
	return !c.failed;
}

bool tape_get_delivery(const struct tape_record *r, struct tape_delivery *out)
{
	struct cursor c = cursor_of(r->payload, r->length);
	uint64_t total = 0;

	*out = (struct tape_delivery){ .buffer.context = cursor_varint(&c) };
	out->buffer.stream = (uint32_t)cursor_varint(&c);
	out->buffer.size = cursor_varint(&c);
	out->buffer.end_result = (int)unzigzag(cursor_varint(&c));
	out->runs_left = out->buffer.run_count = cursor_varint(&c);
	out->runs = c;
	for (size_t i = 0; i < out->runs_left && !c.failed; i++) {
		uint64_t size = cursor_varint(&c), count = cursor_varint(&c);

		if (size > UINT32_MAX || count > UINT32_MAX || size < sizeof(uint32_t))
			return false;
		total += size * count;
		if (total > TAPE_RAW_MAX)
			return false;
	}
	out->buffer.valid = cursor_varint(&c);
	out->buffer.bytes = cursor_bytes(&c, out->buffer.valid);
	return !c.failed && total <= out->buffer.valid;
}

bool tape_next_run(struct tape_delivery *d, struct tape_run *run)
{
	if (!d->runs_left)
		return false;
	d->runs_left--;
	run->size = (uint32_t)cursor_varint(&d->runs);
	run->count = (uint32_t)cursor_varint(&d->runs);
	return true;
}

bool tape_get_nvtx(const struct tape_record *r, struct tape_nvtx *call, struct tape_text *text)
{
	struct cursor c = cursor_of(r->payload, r->length);
	bool has_text;

	*call = (struct tape_nvtx){ .module = (unsigned)cursor_varint(&c) };
	call->id = (unsigned)cursor_varint(&c);
	call->domain = (unsigned)cursor_varint(&c);
	call->range = cursor_varint(&c);
	has_text = cursor_varint(&c) != 0;
	text->length = cursor_varint(&c);
	text->text = (const char *)cursor_bytes(&c, text->length);
	if (!has_text)
		text->text = NULL;
	call->category = (unsigned)cursor_varint(&c);
	call->color = (unsigned)cursor_varint(&c);
	call->payload_kind = (int)cursor_varint(&c);
	call->payload = cursor_varint(&c);
	return !c.failed;
}

static void get_nccl_text(struct cursor *c, struct tape_nccl *call, unsigned i)
{
	call->texts[i].length = cursor_varint(c);
	call->texts[i].text = (const char *)cursor_bytes(c, call->texts[i].length);
}

static void get_nccl_start(struct cursor *c, struct tape_nccl *call)
{
	uint64_t count;

	call->parent = cursor_varint(c);
	call->descriptor_bytes = cursor_varint(c);
	call->descriptor = cursor_bytes(c, call->descriptor_bytes);
	count = cursor_varint(c);
	call->text_count = (unsigned)MIN(count, (uint64_t)TAPE_NCCL_TEXTS);
	for (unsigned i = 0; i < call->text_count; i++) {
		call->texts[i].offset = (unsigned)cursor_varint(c);
		get_nccl_text(c, call, i);
	}
}

bool tape_get_nccl(const struct tape_record *r, struct tape_nccl *call)
{
	struct cursor c = cursor_of(r->payload, r->length);

	*call = (struct tape_nccl){ .interface = (unsigned)cursor_varint(&c) };
	call->call = (enum tape_nccl_call)cursor_varint(&c);
	call->communicator = (unsigned)cursor_varint(&c);
	if (call->call == TAPE_NCCL_INIT) {
		call->hash = cursor_varint(&c);
		call->text_count = 1;
		get_nccl_text(&c, call, 0);
		call->nodes = (unsigned)cursor_varint(&c);
		call->ranks = (unsigned)cursor_varint(&c);
		call->rank = (unsigned)cursor_varint(&c);
	} else if (call->call != TAPE_NCCL_FINALIZE) {
		if (call->call == TAPE_NCCL_START)
			call->type = cursor_varint(&c);
		call->handle = cursor_varint(&c);
	}
	if (call->call == TAPE_NCCL_STATE)
		call->state = cursor_varint(&c);
	if (call->call == TAPE_NCCL_START)
		get_nccl_start(&c, call);
	return !c.failed;
}
