#include "capture/tape/tape_writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"

enum {
	CHUNK_BYTES = 1 << 20,		/* a chunk is closed when it is at least this long */
	COMPRESSION = 9,
	STRINGS_MAX = 1 << 20,
};

#define CHUNK_AGE_NS (250 * NS_PER_MS)	/* … or this old: what a killed process can lose */

struct tape_writer {
	pthread_mutex_t lock;
	int fd;
	bool failed;
	struct strbuf raw, record, packed;	/* the chunk, one record's payload, the zstd frame */
	ZSTD_CCtx *compressor;
	uint64_t last_time, chunk_time;
	uint64_t lost;				/* records too long for a chunk */
	uint32_t threads;
	struct interner texts;
	struct map pointers;			/* pointer -> id of the text that was last seen there */
};

struct tape_writer *tape_writer_new(int fd)
{
	struct tape_writer *w = calloc(1, sizeof(*w));

	if (w)
		w->compressor = ZSTD_createCCtx();
	if (!w || !w->compressor || pthread_mutex_init(&w->lock, NULL)) {
		if (w)
			ZSTD_freeCCtx(w->compressor);
		free(w);
		close(fd);
		return NULL;
	}
	ZSTD_CCtx_setParameter(w->compressor, ZSTD_c_compressionLevel, COMPRESSION);
	interner_init(&w->texts);
	w->fd = fd;
	w->chunk_time = clock_monotonic_ns();
	w->failed = io_write_all(fd, TAPE_MAGIC, TAPE_MAGIC_BYTES) < 0;
	return w;
}

static void release(struct tape_writer *w)
{
	close(w->fd);
	ZSTD_freeCCtx(w->compressor);
	strbuf_release(&w->raw);
	strbuf_release(&w->record);
	strbuf_release(&w->packed);
	interner_release(&w->texts);
	map_release(&w->pointers);
	free(w);
}

void tape_writer_abandon(struct tape_writer *w)
{
	if (w)
		release(w);
}

bool tape_writer_failed(const struct tape_writer *w)
{
	return w->failed;
}

void tape_writer_lock(struct tape_writer *w)
{
	pthread_mutex_lock(&w->lock);
}

void tape_writer_unlock(struct tape_writer *w)
{
	pthread_mutex_unlock(&w->lock);
}

uint32_t tape_new_thread(struct tape_writer *w)
{
	return __atomic_add_fetch(&w->threads, 1, __ATOMIC_RELAXED);
}

static void put_number(struct strbuf *s, uint64_t v)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(s, bytes, varint_put(bytes, v));
}

static void put_bytes(struct strbuf *s, const void *bytes, size_t length)
{
	put_number(s, length);
	if (length)
		strbuf_add(s, bytes, length);
}

static void put_text(struct strbuf *s, const char *text)
{
	put_bytes(s, text, text ? strnlen(text, TAPE_TEXT_MAX) : 0);
}

static void write_chunk(struct tape_writer *w)
{
	struct tape_chunk head = { .magic = TAPE_CHUNK_MAGIC, .raw_bytes = (uint32_t)w->raw.length };
	size_t packed;

	w->chunk_time = clock_monotonic_ns();
	if (!w->raw.length || w->failed)
		return;
	strbuf_clear(&w->packed);
	if (!strbuf_reserve(&w->packed, sizeof(head) + ZSTD_compressBound(w->raw.length))) {
		w->failed = true;
		return;
	}
	packed = ZSTD_compress2(w->compressor, w->packed.data + sizeof(head),
				w->packed.capacity - sizeof(head) - 1, w->raw.data, w->raw.length);
	if (ZSTD_isError(packed)) {
		w->failed = true;
		return;
	}
	head.packed_bytes = (uint32_t)packed;
	head.crc = crc32c(0, w->packed.data + sizeof(head), packed);
	memcpy(w->packed.data, &head, sizeof(head));
	w->failed = io_write_all(w->fd, w->packed.data, sizeof(head) + packed) < 0;
	strbuf_clear(&w->raw);
}

/* The lock is held. Puts w->record, the payload, on the tape. */
static void put_record(struct tape_writer *w, enum tape_type type, struct tape_mark at)
{
	struct strbuf *raw = &w->raw;

	if (w->failed)
		return;
	if (w->record.failed || w->record.length > TAPE_RAW_MAX / 2) {
		w->record.failed = false;
		w->lost++;
		return;
	}
	strbuf_addc(raw, (char)type);
	put_number(raw, at.thread);
	put_number(raw, zigzag((int64_t)(at.time - w->last_time)));
	put_bytes(raw, w->record.data, w->record.length);
	w->last_time = at.time;
	if (raw->failed)
		w->failed = true;
	else if (raw->length >= CHUNK_BYTES || clock_monotonic_ns() - w->chunk_time > CHUNK_AGE_NS)
		write_chunk(w);
}

static void begin(struct tape_writer *w)
{
	tape_writer_lock(w);
	strbuf_clear(&w->record);
}

static void end(struct tape_writer *w, enum tape_type type, struct tape_mark at)
{
	put_record(w, type, at);
	tape_writer_unlock(w);
}

/* The lock is held and no payload has been begun. Id of a text on the tape, 0 for NULL. Notes it down when it is new. */
static uint64_t string_id(struct tape_writer *w, struct tape_mark at, const char *text)
{
	size_t length = text ? strnlen(text, TAPE_TEXT_MAX) : 0;
	uint64_t pointer = (uintptr_t)text, known = 0;
	bool is_new;
	int64_t id;

	if (!text || w->failed)
		return 0;
	if (w->texts.count >= STRINGS_MAX || w->pointers.count >= STRINGS_MAX) {
		w->lost++;
		return 0;
	}
	id = interner_add(&w->texts, text, length, &is_new) + 1;
	if (id <= 0 || (map_get(&w->pointers, pointer, &known) && known == (uint64_t)id))
		return id <= 0 ? 0 : (uint64_t)id;
	if (map_put(&w->pointers, pointer, (uint64_t)id) < 0)
		return 0;
	strbuf_clear(&w->record);
	put_number(&w->record, (uint64_t)id);
	put_number(&w->record, pointer);
	if (is_new)
		put_bytes(&w->record, text, length);
	put_record(w, TAPE_STRING, at);
	strbuf_clear(&w->record);
	return (uint64_t)id;
}

void tape_put_hello(struct tape_writer *w, struct tape_mark at, const struct tape_fact *facts, size_t count)
{
	begin(w);
	put_number(&w->record, count);
	for (size_t i = 0; i < count; i++) {
		put_text(&w->record, facts[i].key);
		put_text(&w->record, facts[i].value);
	}
	end(w, TAPE_HELLO, at);
}

void tape_put_thread(struct tape_writer *w, struct tape_mark at, uint64_t tid, const char *name)
{
	begin(w);
	put_number(&w->record, tid);
	put_text(&w->record, name);
	end(w, TAPE_THREAD, at);
}

void tape_put_call(struct tape_writer *w, struct tape_mark at, const struct tape_call *call)
{
	begin(w);
	put_number(&w->record, call->function);
	put_number(&w->record, zigzag(call->result));
	put_number(&w->record, call->duration_ns);
	put_number(&w->record, call->argument_count);
	for (unsigned i = 0; i < call->argument_count; i++)
		put_number(&w->record, call->arguments[i]);
	put_bytes(&w->record, call->output, call->output_length);
	end(w, TAPE_RESULT, at);
}

static void put_api(struct tape_writer *w, struct tape_mark at, const CUpti_CallbackData *d)
{
	uint64_t function = string_id(w, at, d->functionName);
	uint64_t symbol = string_id(w, at, d->symbolName);
	bool returned = d->callbackSite == CUPTI_API_EXIT && d->functionReturnValue;

	put_number(&w->record, d->callbackSite);
	put_number(&w->record, function);
	put_number(&w->record, symbol);
	put_number(&w->record, (uintptr_t)d->context);
	put_number(&w->record, d->contextUid);
	put_number(&w->record, d->correlationId);
	put_number(&w->record, returned);
	put_number(&w->record, returned ? zigzag(*(const int *)d->functionReturnValue) : 0);
}

static void put_graph(struct strbuf *s, const CUpti_GraphData *g)
{
	put_number(s, TAPE_DESCRIPTOR_GRAPH);
	put_number(s, (uintptr_t)g->graph);
	put_number(s, (uintptr_t)g->originalGraph);
	put_number(s, (uintptr_t)g->node);
	put_number(s, (uintptr_t)g->originalNode);
	put_number(s, (uint32_t)g->nodeType);
	put_number(s, (uintptr_t)g->dependency);
	put_number(s, (uintptr_t)g->graphExec);
}

static void put_resource(struct strbuf *s, CUpti_CallbackId cbid, const CUpti_ResourceData *d)
{
	const CUpti_ModuleResourceData *module = d->resourceDescriptor;
	const CUpti_StreamAttrData *attribute = d->resourceDescriptor;

	put_number(s, (uintptr_t)d->context);
	put_number(s, (uintptr_t)d->resourceHandle.stream);
	if (!d->resourceDescriptor) {
		put_number(s, TAPE_DESCRIPTOR_NONE);
	} else if (cbid >= CUPTI_CBID_RESOURCE_MODULE_LOADED && cbid <= CUPTI_CBID_RESOURCE_MODULE_PROFILED) {
		put_number(s, TAPE_DESCRIPTOR_MODULE);
		put_number(s, module->moduleId);
		put_number(s, module->cubinSize);
	} else if (cbid == CUPTI_CBID_RESOURCE_STREAM_ATTRIBUTE_CHANGED) {
		put_number(s, TAPE_DESCRIPTOR_STREAM_ATTRIBUTE);
		put_number(s, (uintptr_t)attribute->stream);
		put_number(s, (uint32_t)attribute->attr);
	} else if (cbid >= CUPTI_CBID_RESOURCE_GRAPH_CREATED && cbid <= CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS) {
		put_graph(s, d->resourceDescriptor);
	} else {
		put_number(s, TAPE_DESCRIPTOR_NONE);
	}
}

void tape_put_callback(struct tape_writer *w, struct tape_mark at, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
		       const void *data)
{
	const CUpti_SynchronizeData *sync = data;
	const CUpti_StateData *state = data;
	const CUpti_CallbackData *api = data;
	bool is_api = domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API;
	uint64_t message = 0;

	begin(w);
	if (is_api && data) {	/* strings are records of their own, and come first */
		string_id(w, at, api->functionName);
		string_id(w, at, api->symbolName);
	} else if (domain == CUPTI_CB_DOMAIN_STATE && data) {
		message = string_id(w, at, state->notification.message);
	}
	put_number(&w->record, domain);
	put_number(&w->record, cbid);
	if (is_api && data) {
		put_api(w, at, data);
	} else if (domain == CUPTI_CB_DOMAIN_RESOURCE && data) {
		put_resource(&w->record, cbid, data);
	} else if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE && data) {
		put_number(&w->record, (uintptr_t)sync->context);
		put_number(&w->record, (uintptr_t)sync->stream);
	} else if (domain == CUPTI_CB_DOMAIN_STATE && data) {
		put_number(&w->record, zigzag(state->notification.result));
		put_number(&w->record, message);
	}
	end(w, TAPE_CALLBACK, at);
}

void tape_put_request(struct tape_writer *w, struct tape_mark at, size_t size, size_t max_records)
{
	begin(w);
	put_number(&w->record, size);
	put_number(&w->record, max_records);
	end(w, TAPE_BUFFER_REQUEST, at);
}

static void note_strings(struct tape_writer *w, struct tape_mark at, const uint8_t *record, size_t size)
{
	uint32_t kind = size >= sizeof(kind) ? load_u32(record) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(tape_pointers); i++) {
		const struct tape_pointer *p = &tape_pointers[i];

		if (p->kind == kind && p->text && p->offset + sizeof(uint64_t) <= size)
			string_id(w, at, (const char *)(uintptr_t)load_u64(record + p->offset));
	}
}

void tape_put_buffer(struct tape_writer *w, struct tape_mark at, const struct tape_buffer *b)
{
	const uint8_t *record = b->bytes;

	begin(w);
	for (size_t i = 0; i < b->run_count; i++)
		for (uint32_t n = 0; n < b->runs[i].count; n++, record += b->runs[i].size)
			note_strings(w, at, record, b->runs[i].size);
	put_number(&w->record, b->context);
	put_number(&w->record, b->stream);
	put_number(&w->record, b->size);
	put_number(&w->record, zigzag(b->end_result));
	put_number(&w->record, b->run_count);
	for (size_t i = 0; i < b->run_count; i++) {
		put_number(&w->record, b->runs[i].size);
		put_number(&w->record, b->runs[i].count);
	}
	put_bytes(&w->record, b->bytes, b->valid);
	end(w, TAPE_BUFFER_COMPLETE, at);
}

void tape_put_nvtx(struct tape_writer *w, struct tape_mark at, const struct tape_nvtx *call)
{
	begin(w);
	put_number(&w->record, call->module);
	put_number(&w->record, call->id);
	put_number(&w->record, call->domain);
	put_number(&w->record, call->range);
	put_number(&w->record, call->text != NULL);
	put_text(&w->record, call->text);
	put_number(&w->record, call->category);
	put_number(&w->record, call->color);
	put_number(&w->record, (uint32_t)call->payload_kind);
	put_number(&w->record, call->payload);
	end(w, TAPE_NVTX, at);
}

void tape_writer_finish(struct tape_writer *w, uint64_t time)
{
	if (!w)
		return;
	begin(w);
	put_number(&w->record, 1);
	put_number(&w->record, w->lost);
	put_record(w, TAPE_END, (struct tape_mark){ 0, time });
	write_chunk(w);
	tape_writer_unlock(w);
	pthread_mutex_destroy(&w->lock);
	release(w);
}
