#include "tape/tape_writer.h"

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
	CHUNK_BYTES = 1 << 20, /* a chunk is closed when it is at least this long */
	COMPRESSION = 9,
	STRINGS_BYTES_MAX = 256 << 20,
	POINTERS_MAX = 1 << 20,
};

#define CHUNK_AGE_NS (250 * NS_PER_MS) /* … or this old: what a killed process can lose */

struct tape_writer {
	pthread_mutex_t lock;
	bool running;
	int fd;
	struct strbuf raw, record, packed; /* the chunk, one record's payload, the zstd frame */
	ZSTD_CCtx *compressor;
	uint64_t last_time, chunk_time;
	uint64_t lost; /* records or strings that did not fit */
	uint32_t threads;
	struct interner texts;
	struct map pointers; /* pointer -> id of the text that was last seen there */
};

struct tape_writer *tape_writer_new(void)
{
	struct tape_writer *w = calloc(1, sizeof(*w));

	if (w && pthread_mutex_init(&w->lock, NULL)) {
		free(w);
		return NULL;
	}
	return w;
}

/* The lock is held. */
static void stop(struct tape_writer *w)
{
	if (!w->running)
		return;
	__atomic_store_n(&w->running, false, __ATOMIC_RELAXED);
	close(w->fd);
	ZSTD_freeCCtx(w->compressor);
	strbuf_release(&w->raw);
	strbuf_release(&w->record);
	strbuf_release(&w->packed);
	interner_release(&w->texts);
	map_release(&w->pointers);
}

void tape_writer_free(struct tape_writer *w)
{
	if (!w)
		return;
	stop(w);
	strbuf_release(&w->record);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int tape_writer_start(struct tape_writer *w, int fd)
{
	ZSTD_CCtx *compressor = ZSTD_createCCtx();
	int r = compressor ? io_write_all(fd, TAPE_MAGIC, TAPE_MAGIC_BYTES) : -ENOMEM;

	if (r < 0) {
		ZSTD_freeCCtx(compressor);
		close(fd);
		return r;
	}
	ZSTD_CCtx_setParameter(compressor, ZSTD_c_compressionLevel, COMPRESSION);
	tape_writer_lock(w);
	stop(w);
	w->compressor = compressor;
	w->fd = fd;
	w->last_time = w->lost = 0;
	w->threads = 0;
	w->chunk_time = clock_monotonic_ns();
	interner_init(&w->texts);
	__atomic_store_n(&w->running, true, __ATOMIC_RELAXED);
	tape_writer_unlock(w);
	return 0;
}

bool tape_writer_running(const struct tape_writer *w)
{
	return __atomic_load_n(&w->running, __ATOMIC_RELAXED);
}

void tape_writer_forget(struct tape_writer *w)
{
	stop(w);
	pthread_mutex_init(&w->lock, NULL);
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

void tape_put_number(struct strbuf *s, uint64_t v)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(s, bytes, varint_put(bytes, v));
}

static void put_bytes(struct strbuf *s, const void *bytes, size_t length)
{
	tape_put_number(s, length);
	if (length)
		strbuf_add(s, bytes, length);
}

void tape_put_text(struct strbuf *s, const char *text)
{
	put_bytes(s, text, text ? strnlen(text, TAPE_TEXT_MAX) : 0);
}

static int pack_chunk(struct tape_writer *w)
{
	struct tape_chunk head = { .magic = TAPE_CHUNK_MAGIC,
				   .raw_bytes = (uint32_t)w->raw.length };
	size_t bound = ZSTD_compressBound(w->raw.length), packed;

	strbuf_clear(&w->packed);
	if (!strbuf_reserve(&w->packed, sizeof(head) + bound))
		return -ENOMEM;
	packed = ZSTD_compress2(w->compressor, w->packed.data + sizeof(head), bound, w->raw.data,
				w->raw.length);
	if (ZSTD_isError(packed))
		return -EIO;
	head.packed_bytes = (uint32_t)packed;
	head.crc = crc32c(0, w->packed.data + sizeof(head), packed);
	memcpy(w->packed.data, &head, sizeof(head));
	return io_write_all(w->fd, w->packed.data, sizeof(head) + packed);
}

/* The lock is held, the tape runs. */
static void write_chunk(struct tape_writer *w)
{
	int r = w->raw.length ? pack_chunk(w) : 0;

	strbuf_clear(&w->raw);
	w->chunk_time = clock_monotonic_ns();
	if (r < 0)
		stop(w);
}

/* The lock is held. Puts w->record, the payload, on the tape. */
static void put_record(struct tape_writer *w, enum tape_type type, struct tape_mark at)
{
	struct strbuf *raw = &w->raw;

	if (!w->running)
		return;
	if (w->record.failed || w->record.length > TAPE_RAW_MAX / 2) {
		w->record.failed = false;
		w->lost++;
		return;
	}
	strbuf_addc(raw, (char)type);
	tape_put_number(raw, at.thread);
	tape_put_number(raw, zigzag((int64_t)(at.time - w->last_time)));
	put_bytes(raw, w->record.data, w->record.length);
	w->last_time = at.time;
	if (raw->failed) /* half a record cannot be written */
		stop(w);
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

/*
 * The lock is held and no payload has been begun. Id of a text, 0 for NULL. A text that is new, or
 * new behind this pointer, goes on the tape.
 */
static uint64_t string_id(struct tape_writer *w, struct tape_mark at, const char *text)
{
	size_t length = text ? strnlen(text, TAPE_TEXT_MAX) : 0;
	uint64_t pointer = (uintptr_t)text, known = 0, id;
	bool is_new = false;
	int64_t index;

	if (!text || !w->running)
		return 0;
	index = w->texts.bytes < STRINGS_BYTES_MAX ? interner_add(&w->texts, text, length, &is_new)
						   : interner_find(&w->texts, text, length);
	if (index < 0) {
		w->lost++;
		return 0;
	}
	id = (uint64_t)index + 1;
	if (map_get(&w->pointers, pointer, &known) && known == id)
		return id;
	if (w->pointers.count >= POINTERS_MAX || map_put(&w->pointers, pointer, id) < 0)
		w->lost++;
	strbuf_clear(&w->record);
	tape_put_number(&w->record, id);
	tape_put_number(&w->record, pointer);
	if (is_new)
		put_bytes(&w->record, text, length);
	put_record(w, TAPE_STRING, at);
	strbuf_clear(&w->record);
	return id;
}

void tape_put_hello(struct tape_writer *w, struct tape_mark at, const struct tape_fact *facts,
		    size_t count)
{
	begin(w);
	tape_put_number(&w->record, count);
	for (size_t i = 0; i < count; i++) {
		tape_put_text(&w->record, facts[i].key);
		tape_put_text(&w->record, facts[i].value);
	}
	end(w, TAPE_HELLO, at);
}

void tape_put_thread(struct tape_writer *w, struct tape_mark at, uint64_t tid, const char *name)
{
	begin(w);
	tape_put_number(&w->record, tid);
	tape_put_text(&w->record, name);
	end(w, TAPE_THREAD, at);
}

void tape_put_call(struct tape_writer *w, struct tape_mark at, const struct tape_call *call)
{
	begin(w);
	tape_put_number(&w->record, call->function);
	tape_put_number(&w->record, zigzag(call->result));
	tape_put_number(&w->record, call->duration_ns);
	tape_put_number(&w->record, call->argument_count);
	for (unsigned i = 0; i < call->argument_count; i++)
		tape_put_number(&w->record, call->arguments[i]);
	put_bytes(&w->record, call->output, call->output_length);
	end(w, TAPE_RESULT, at);
}

static void put_api(struct strbuf *s, const CUpti_CallbackData *d, uint64_t function,
		    uint64_t symbol)
{
	bool returned = d->callbackSite == CUPTI_API_EXIT && d->functionReturnValue;
	const uint8_t *parameters = d->functionParams;
	unsigned words = parameters ? tape_parameter_words(d->functionName) : 0;

	tape_put_number(s, d->callbackSite);
	tape_put_number(s, function);
	tape_put_number(s, symbol);
	tape_put_number(s, (uintptr_t)d->context);
	tape_put_number(s, d->contextUid);
	tape_put_number(s, d->correlationId);
	tape_put_number(s, returned);
	tape_put_number(s, returned ? zigzag(*(const int *)d->functionReturnValue) : 0);
	tape_put_number(s, words);
	for (unsigned i = 0; i < words; i++)
		tape_put_number(s, load_u64(parameters + 8 * i));
}

static void put_graph(struct strbuf *s, const CUpti_GraphData *g)
{
	tape_put_number(s, TAPE_DESCRIPTOR_GRAPH);
	tape_put_number(s, (uintptr_t)g->graph);
	tape_put_number(s, (uintptr_t)g->originalGraph);
	tape_put_number(s, (uintptr_t)g->node);
	tape_put_number(s, (uintptr_t)g->originalNode);
	tape_put_number(s, (uint32_t)g->nodeType);
	tape_put_number(s, (uintptr_t)g->dependency);
	tape_put_number(s, (uintptr_t)g->graphExec);
}

static void put_resource(struct strbuf *s, CUpti_CallbackId cbid, const CUpti_ResourceData *d)
{
	const CUpti_ModuleResourceData *module = d->resourceDescriptor;
	const CUpti_StreamAttrData *attribute = d->resourceDescriptor;

	tape_put_number(s, (uintptr_t)d->context);
	tape_put_number(s, (uintptr_t)d->resourceHandle.stream);
	if (!d->resourceDescriptor) {
		tape_put_number(s, TAPE_DESCRIPTOR_NONE);
	} else if (cbid >= CUPTI_CBID_RESOURCE_MODULE_LOADED &&
		   cbid <= CUPTI_CBID_RESOURCE_MODULE_PROFILED) {
		tape_put_number(s, TAPE_DESCRIPTOR_MODULE);
		tape_put_number(s, module->moduleId);
		tape_put_number(s, module->cubinSize);
		if (module->pCubin && module->cubinSize <= TAPE_CUBIN_MAX)
			put_bytes(s, module->pCubin, module->cubinSize);
	} else if (cbid == CUPTI_CBID_RESOURCE_STREAM_ATTRIBUTE_CHANGED) {
		tape_put_number(s, TAPE_DESCRIPTOR_STREAM_ATTRIBUTE);
		tape_put_number(s, (uintptr_t)attribute->stream);
		tape_put_number(s, (uint32_t)attribute->attr);
	} else if (cbid >= CUPTI_CBID_RESOURCE_GRAPH_CREATED &&
		   cbid <= CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS) {
		put_graph(s, d->resourceDescriptor);
	} else {
		tape_put_number(s, TAPE_DESCRIPTOR_NONE);
	}
}

void tape_put_callback(struct tape_writer *w, struct tape_mark at, CUpti_CallbackDomain domain,
		       CUpti_CallbackId cbid, const void *data)
{
	const CUpti_SynchronizeData *sync = data;
	const CUpti_StateData *state = data;
	const CUpti_CallbackData *api = data;
	bool is_api = domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API;
	uint64_t text = 0, symbol = 0;

	begin(w);
	if (is_api && data) { /* strings are records of their own, and come first */
		text = string_id(w, at, api->functionName);
		symbol = string_id(w, at, api->symbolName);
	} else if (domain == CUPTI_CB_DOMAIN_STATE && data) {
		text = string_id(w, at, state->notification.message);
	}
	tape_put_number(&w->record, domain);
	tape_put_number(&w->record, cbid);
	if (is_api && data) {
		put_api(&w->record, data, text, symbol);
	} else if (domain == CUPTI_CB_DOMAIN_RESOURCE && data) {
		put_resource(&w->record, cbid, data);
	} else if (domain == CUPTI_CB_DOMAIN_SYNCHRONIZE && data) {
		tape_put_number(&w->record, (uintptr_t)sync->context);
		tape_put_number(&w->record, (uintptr_t)sync->stream);
	} else if (domain == CUPTI_CB_DOMAIN_STATE && data) {
		tape_put_number(&w->record, zigzag(state->notification.result));
		tape_put_number(&w->record, text);
	}
	end(w, TAPE_CALLBACK, at);
}

void tape_put_request(struct tape_writer *w, struct tape_mark at, size_t size, size_t max_records)
{
	begin(w);
	tape_put_number(&w->record, size);
	tape_put_number(&w->record, max_records);
	end(w, TAPE_BUFFER_REQUEST, at);
}

static void note_strings(struct tape_writer *w, struct tape_mark at, const uint8_t *record,
			 size_t size)
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
	tape_put_number(&w->record, b->context);
	tape_put_number(&w->record, b->stream);
	tape_put_number(&w->record, b->size);
	tape_put_number(&w->record, zigzag(b->end_result));
	tape_put_number(&w->record, b->run_count);
	for (size_t i = 0; i < b->run_count; i++) {
		tape_put_number(&w->record, b->runs[i].size);
		tape_put_number(&w->record, b->runs[i].count);
	}
	put_bytes(&w->record, b->bytes, b->valid);
	end(w, TAPE_BUFFER_COMPLETE, at);
}

void tape_put_nvtx(struct tape_writer *w, struct tape_mark at, const struct tape_nvtx *call)
{
	begin(w);
	tape_put_number(&w->record, call->module);
	tape_put_number(&w->record, call->id);
	tape_put_number(&w->record, call->domain);
	tape_put_number(&w->record, call->range);
	tape_put_number(&w->record, call->text != NULL);
	tape_put_text(&w->record, call->text);
	tape_put_number(&w->record, call->category);
	tape_put_number(&w->record, call->color);
	tape_put_number(&w->record, (uint32_t)call->payload_kind);
	tape_put_number(&w->record, call->payload);
	end(w, TAPE_NVTX, at);
}

void tape_put_nccl(struct tape_writer *w, struct tape_mark at, const struct tape_nccl *call)
{
	begin(w);
	tape_put_number(&w->record, call->interface);
	tape_put_number(&w->record, call->call);
	tape_put_number(&w->record, call->communicator);
	if (call->call == TAPE_NCCL_INIT) {
		tape_put_number(&w->record, call->hash);
		tape_put_text(&w->record, call->texts[0].text);
		tape_put_number(&w->record, call->nodes);
		tape_put_number(&w->record, call->ranks);
		tape_put_number(&w->record, call->rank);
	} else if (call->call != TAPE_NCCL_FINALIZE) {
		if (call->call == TAPE_NCCL_START)
			tape_put_number(&w->record, call->type);
		tape_put_number(&w->record, call->handle);
	}
	if (call->call == TAPE_NCCL_STATE)
		tape_put_number(&w->record, call->state);
	if (call->call == TAPE_NCCL_START) {
		tape_put_number(&w->record, call->parent);
		put_bytes(&w->record, call->descriptor, call->descriptor_bytes);
		tape_put_number(&w->record, call->text_count);
		for (unsigned i = 0; i < call->text_count; i++) {
			tape_put_number(&w->record, call->texts[i].offset);
			tape_put_text(&w->record, call->texts[i].text);
		}
	}
	end(w, TAPE_NCCL, at);
}

void tape_writer_flush(struct tape_writer *w)
{
	if (!w || !tape_writer_running(w))
		return;
	tape_writer_lock(w);
	if (w->running)
		write_chunk(w);
	tape_writer_unlock(w);
}

void tape_writer_finish(struct tape_writer *w, uint64_t time)
{
	begin(w);
	tape_put_number(&w->record, 1);
	tape_put_number(&w->record, w->lost);
	put_record(w, TAPE_END, (struct tape_mark){ 0, time });
	if (w->running)
		write_chunk(w);
	stop(w);
	tape_writer_unlock(w);
}
