/* layer: base */
/*
 * Any bytes as a tape. Compression and checksums would keep a fuzzer out, so the input is read
 * twice: as it is, and as the records of one chunk that is right.
 */
#include "fuzz.h"

#include <stdlib.h>

#include <zstd.h>

#include "standin/tape_reader.h"

static volatile uint64_t sink;

/* Reads every byte that the decoded record points to, so that a sanitizer sees it. */
static void touch(const void *bytes, size_t length)
{
	for (size_t i = 0; bytes && i < length; i++)
		sink += ((const uint8_t *)bytes)[i];
}

static void read_delivery(const struct tape_record *r)
{
	struct tape_delivery delivery;
	struct tape_run run;
	uint64_t total = 0;

	if (!tape_get_delivery(r, &delivery))
		return;
	touch(delivery.buffer.bytes, delivery.buffer.valid);
	while (tape_next_run(&delivery, &run))
		total += (uint64_t)run.size * run.count;
	if (total > delivery.buffer.valid)
		abort();
}

/* As each of the types: the player trusts the type that the record says it has. */
static void read_record(const struct tape_record *r)
{
	struct tape_string string;
	struct tape_thread thread;
	struct tape_event event;
	struct tape_nvtx nvtx;
	struct tape_text text;
	struct tape_call call;
	uint64_t size, max;

	touch(r->payload, r->length);
	tape_get_string(r, &string);
	if (tape_get_thread(r, &thread))
		touch(thread.name, strlen(thread.name));
	if (tape_get_call(r, &call))
		touch(call.output, call.output_length);
	tape_get_event(r, &event);
	tape_get_request(r, &size, &max);
	if (tape_get_nvtx(r, &nvtx, &text) && text.text)
		touch(text.text, text.length);
	read_delivery(r);
}

static void read_tape(const uint8_t *bytes, size_t size)
{
	struct tape t;

	if (tape_parse(bytes, size, &t, NULL) == 0) {
		for (size_t i = 0; i < t.records.count; i++)
			read_record(&t.records.data[i]);
		for (uint64_t id = 0; id <= t.texts.count + 1; id++)
			if (tape_text_of(&t, id))
				touch(tape_text_of(&t, id), t.texts.data[id - 1].length + 1);
		tape_fact_number(&t, "pid");
	}
	tape_release(&t);
}

/* The input as what a chunk holds. */
static void read_as_records(const uint8_t *bytes, size_t size)
{
	struct tape_chunk chunk = { .magic = TAPE_CHUNK_MAGIC, .raw_bytes = (uint32_t)size };
	size_t head = TAPE_MAGIC_BYTES + sizeof(chunk), room = ZSTD_compressBound(size), packed;
	uint8_t *tape = malloc(head + room), *copy;

	if (!tape)
		return;
	packed = ZSTD_compress(tape + head, room, bytes, size, 1);
	chunk.packed_bytes = (uint32_t)packed;
	chunk.crc = crc32c(0, tape + head, packed);
	memcpy(tape, TAPE_MAGIC, TAPE_MAGIC_BYTES);
	memcpy(tape + TAPE_MAGIC_BYTES, &chunk, sizeof(chunk));
	copy = realloc(tape, head + packed);
	tape = copy ? copy : tape;
	read_tape(tape, head + packed);
	free(tape);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	read_tape(bytes, size);
	if (size)
		read_as_records(bytes, size);
	return 0;
}
