/* The reader of tapes against tapes that are cut, damaged, or made of hostile bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "base/io.h"
#include "base/map.h"
#include "layouts.h"
#include "tape_reader.h"

#define RECORDS 40

static struct strbuf whole; /* a tape of many small chunks */

static void put_records(struct tape_writer *w)
{
	const struct tape_fact facts[] = { { "pid", "7" }, { "program", "x" } };
	uint8_t kernel[216] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL };
	const char *name = "kernel";
	struct tape_run run = { sizeof(kernel), 1 };
	struct tape_buffer buffer = {
		.runs = &run, .run_count = 1, .bytes = kernel, .valid = sizeof(kernel)
	};
	CUpti_CallbackData api = { .functionName = "cuLaunchKernel",
				   .symbolName = name,
				   .correlationId = 9 };
	uint32_t id = 3;
	struct tape_call call = { .function = TAPE_cuptiGetContextId,
				  .argument_count = 1,
				  .output = &id,
				  .output_length = sizeof(id) };
	struct tape_nvtx nvtx = { .module = 1, .id = 2, .text = "mark" };
	const uint64_t parameters[] = { 0x77, 0x5e };
	CUpti_CallbackData wait = { .functionName = "cuEventRecord_ptsz",
				    .functionParams = parameters };
	const uint8_t descriptor[] = { 1, 2, 3 };
	struct tape_nccl nccl = {
		.interface = 5,
		.communicator = 1,
		.call = TAPE_NCCL_START,
		.type = 2,
		.handle = 8,
		.parent = 7,
		.descriptor = descriptor,
		.descriptor_bytes = sizeof(descriptor),
		.texts = { { 32, "AllReduce", 0 }, { 72, "ncclFloat32", 0 } },
		.text_count = 2,
	};
	struct tape_nccl init = { .interface = 5,
				  .communicator = 1,
				  .call = TAPE_NCCL_INIT,
				  .hash = 99,
				  .nodes = 1,
				  .ranks = 2,
				  .rank = 1,
				  .texts[0].text = "world" };

	memcpy(kernel + 104, &name, sizeof(name));
	tape_put_hello(w, (struct tape_mark){ 1, 100 }, facts, 2);
	tape_put_thread(w, (struct tape_mark){ 1, 101 }, 7, "main");
	tape_put_nccl(w, (struct tape_mark){ 1, 102 }, &init);
	tape_put_nccl(w, (struct tape_mark){ 1, 103 }, &nccl);
	tape_put_callback(w, (struct tape_mark){ 1, 104 }, CUPTI_CB_DOMAIN_DRIVER_API, 5, &wait);
	for (uint64_t i = 0; i < RECORDS; i++) {
		struct tape_mark at = { 1 + (uint32_t)(i % 2), 200 + 10 * i };

		tape_put_callback(w, at, CUPTI_CB_DOMAIN_DRIVER_API, 307, &api);
		tape_put_call(w, at, &call);
		tape_put_buffer(w, at, &buffer);
		tape_put_nvtx(w, at, &nvtx);
	}
}

static int make_tape(void **state)
{
	char path[] = "/tmp/tape-reader-XXXXXX";
	int fd = mkstemp(path);
	struct tape_writer *w = tape_writer_new();

	(void)state;
	assert_true(fd >= 0 && w);
	assert_int_equal(tape_writer_start(w, fd), 0);
	put_records(w);
	tape_writer_finish(w, 10000);
	tape_writer_free(w);
	assert_int_equal(io_read_file(path, 1 << 20, &whole), 0);
	unlink(path);
	return 0;
}

static int drop_tape(void **state)
{
	(void)state;
	strbuf_release(&whole);
	return 0;
}

/*
 * Decodes all that can be decoded; the sanitizers watch. Returns a hash, so that nothing is
 * optimized away.
 */
static uint64_t decode(const struct tape *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->records.count; i++) {
		const struct tape_record *r = &t->records.data[i];
		struct tape_delivery d;
		struct tape_string string;
		struct tape_thread thread;
		struct tape_event event;
		struct tape_nvtx nvtx;
		struct tape_text text;
		struct tape_call call;
		struct tape_nccl nccl;
		struct tape_run run;
		uint64_t a, b;

		if (tape_get_event(r, &event) && tape_text_of(t, event.symbol))
			sum += strlen(tape_text_of(t, event.symbol));
		if (tape_get_call(r, &call))
			sum ^= hash_bytes(call.output, call.output_length);
		if (tape_get_nvtx(r, &nvtx, &text) && text.text)
			sum ^= hash_bytes(text.text, text.length);
		if (tape_get_nccl(r, &nccl)) {
			sum ^= hash_bytes(nccl.descriptor, nccl.descriptor_bytes);
			for (unsigned n = 0; n < nccl.text_count; n++)
				sum ^= hash_bytes(nccl.texts[n].text, nccl.texts[n].length);
		}
		sum += tape_get_string(r, &string) + tape_get_thread(r, &thread) +
		       tape_get_request(r, &a, &b);
		if (!tape_get_delivery(r, &d))
			continue;
		for (const uint8_t *at = d.buffer.bytes; tape_next_run(&d, &run);)
			for (uint32_t n = 0; n < run.count; n++, at += run.size)
				sum ^= hash_bytes(at, run.size) + record_correlation(at, run.size);
	}
	return sum;
}

static size_t parse(const void *bytes, size_t length)
{
	uint8_t *exact = malloc(length + 1); /* so that a byte too far is noticed */
	size_t count = 0;
	struct tape t;

	assert_non_null(exact);
	memcpy(exact, bytes, length);
	if (tape_parse(exact, length, &t, NULL) == 0) {
		decode(&t);
		count = t.records.count;
		assert_true(t.damage[0] || t.complete || length == TAPE_MAGIC_BYTES || count > 0);
	}
	tape_release(&t);
	free(exact);
	return count;
}

static void reads_what_was_written(void **state)
{
	struct tape t;

	(void)state;
	assert_int_equal(tape_parse((const uint8_t *)whole.data, whole.length, &t, NULL), 0);
	assert_true(t.complete);
	assert_string_equal(t.damage, "");
	assert_int_equal(t.records.count, 5 + 4 * RECORDS + 4); /* three texts, end */
	assert_int_equal(tape_fact_number(&t, "pid"), 7);
	assert_string_equal(tape_text_of(&t, 3), "kernel");
	assert_int_equal(t.threads, 3);
	tape_release(&t);
}

static void assert_text(const char *text, size_t length, const char *expected)
{
	assert_int_equal(length, strlen(expected));
	assert_memory_equal(text, expected, length);
}

static void has_what_nccl_said(void **state)
{
	struct tape_nccl init, start;
	struct tape t;

	(void)state;
	assert_int_equal(tape_parse((const uint8_t *)whole.data, whole.length, &t, NULL), 0);
	assert_int_equal(t.records.data[2].type, TAPE_NCCL);
	assert_true(tape_get_nccl(&t.records.data[2], &init));
	assert_int_equal(init.call, TAPE_NCCL_INIT);
	assert_int_equal(init.hash, 99);
	assert_int_equal(init.nodes, 1);
	assert_int_equal(init.ranks, 2);
	assert_int_equal(init.rank, 1);
	assert_text(init.texts[0].text, init.texts[0].length, "world");
	assert_true(tape_get_nccl(&t.records.data[3], &start));
	assert_int_equal(start.interface, 5);
	assert_int_equal(start.call, TAPE_NCCL_START);
	assert_int_equal(start.type, 2);
	assert_int_equal(start.handle, 8);
	assert_int_equal(start.parent, 7);
	assert_int_equal(start.descriptor_bytes, 3);
	assert_int_equal(start.descriptor[2], 3);
	assert_int_equal(start.text_count, 2);
	assert_int_equal(start.texts[1].offset, 72);
	assert_text(start.texts[1].text, start.texts[1].length, "ncclFloat32");
	tape_release(&t);
}

static void has_parameters_of_what_streams_wait_for(void **state)
{
	struct tape_event event = { .parameter_count = 0 };
	struct tape t;

	(void)state;
	assert_int_equal(tape_parse((const uint8_t *)whole.data, whole.length, &t, NULL), 0);
	for (size_t i = 0; i < t.records.count && !event.parameter_count; i++)
		if (t.records.data[i].type == TAPE_CALLBACK)
			assert_true(tape_get_event(&t.records.data[i], &event));
	assert_string_equal(tape_text_of(&t, event.function), "cuEventRecord_ptsz");
	assert_int_equal(event.parameter_count, 2);
	assert_int_equal(event.parameters[0], 0x77);
	assert_int_equal(event.parameters[1], 0x5e);
	assert_int_equal(tape_parameter_words("cuEventRecordWithFlags"), 3);
	assert_int_equal(tape_parameter_words("cuEventRecorder"), 0);
	assert_int_equal(tape_parameter_words("cuLaunchKernel"), 0);
	tape_release(&t);
}

static void is_usable_up_to_a_cut(void **state)
{
	size_t before = 0;

	(void)state;
	for (size_t length = 0; length < whole.length; length++) {
		size_t count = parse(whole.data, length);

		assert_true(count >= before); /* more bytes, more records */
		before = count;
	}
}

static void survives_flipped_bits(void **state)
{
	(void)state;
	for (size_t i = 0; i < whole.length * 8; i++) {
		whole.data[i / 8] ^= (char)(1 << i % 8);
		parse(whole.data, whole.length);
		whole.data[i / 8] ^= (char)(1 << i % 8);
	}
}

/* A tape of one chunk with these records. */
static size_t pack(const uint8_t *raw, size_t length, uint8_t *out, size_t room)
{
	struct tape_chunk head = { .magic = TAPE_CHUNK_MAGIC, .raw_bytes = (uint32_t)length };
	uint8_t *frame = out + TAPE_MAGIC_BYTES + sizeof(head);
	size_t packed =
		ZSTD_compress(frame, room - TAPE_MAGIC_BYTES - sizeof(head), raw, length, 1);

	assert_false(ZSTD_isError(packed));
	head.packed_bytes = (uint32_t)packed;
	head.crc = crc32c(0, frame, packed);
	memcpy(out, TAPE_MAGIC, TAPE_MAGIC_BYTES);
	memcpy(out + TAPE_MAGIC_BYTES, &head, sizeof(head));
	return TAPE_MAGIC_BYTES + sizeof(head) + packed;
}

/*
 * Damage behind the checksum: what a hostile writer can do. Compressing is all that takes time, and
 * fuzz_tape.c goes further.
 */
static void survives_hostile_records(void **state)
{
	static uint8_t raw[1 << 16], bad[sizeof(raw)], tape[2 * sizeof(raw)];
	const uint8_t *chunk = (const uint8_t *)whole.data + TAPE_MAGIC_BYTES;
	struct tape_chunk head;
	uint64_t random = 1;

	(void)state;
	memcpy(&head, chunk, sizeof(head));
	assert_true(head.raw_bytes <= sizeof(raw));
	assert_int_equal(ZSTD_decompress(raw, sizeof(raw), chunk + sizeof(head), head.packed_bytes),
			 head.raw_bytes);
	for (int i = 0; i < 2000; i++) {
		memcpy(bad, raw, head.raw_bytes);
		for (int n = 0; n <= i % 4; n++) {
			random = hash_u64(random + 1);
			bad[random % head.raw_bytes] = (uint8_t)(random >> 40);
		}
		parse(tape, pack(bad, head.raw_bytes, tape, sizeof(tape)));
	}
}

static void refuses_what_is_no_tape(void **state)
{
	struct error e = { 0 };
	struct tape t;

	(void)state;
	assert_int_equal(tape_parse((const uint8_t *)"PITOTPIT1234", 12, &t, &e), E_FORMAT);
	tape_release(&t);
	assert_int_equal(tape_load("/nonexistent/tape", &t, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/tape"));
	tape_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_was_written),
		cmocka_unit_test(has_what_nccl_said),
		cmocka_unit_test(has_parameters_of_what_streams_wait_for),
		cmocka_unit_test(is_usable_up_to_a_cut),
		cmocka_unit_test(survives_flipped_bits),
		cmocka_unit_test(survives_hostile_records),
		cmocka_unit_test(refuses_what_is_no_tape),
	};

	return cmocka_run_group_tests_name("tape reader", tests, make_tape, drop_tape);
}
