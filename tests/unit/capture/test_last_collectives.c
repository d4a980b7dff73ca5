/*
 * Collectives that a process enqueues right before it is killed: no collector has read them, and
 * the recording has them all the same, with their communicators and NCCL's texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "capture/core/collector.c"
#include "capture/core/source.h"
#include "capture/nccl/nccl_abi.h"
#include "capture/nccl/nccl_plugin.h"
#include "capture/nccl/nccl_registry.h"
#include "recover/recover.h"
#include "unit/format/recording_fixture.h"

extern const struct source nccl_source;
extern const struct nccl_plugin ncclProfiler_v5;

static struct fixture fixture;
static pid_t child;
static int passed[2]; /* the child's memory comes by its number there */

/* --- the child --- */

static void *init(uint64_t hash, const char *name)
{
	int (*call)(void **, uint64_t, int *, const char *, int, int, int, const void *);
	static int mask;
	void *context = NULL;

	*(void **)&call = ncclProfiler_v5.init;
	if (call(&context, hash, &mask, name, 1, 8, 5, NULL) != 0)
		_exit(3);
	return context;
}

static void all_reduce(void *context, uint64_t sequence, const char *protocol)
{
	const struct nccl_event e = { .type = NCCL_COLLECTIVE,
				      .collective = { .sequence = sequence,
						      .function = "AllReduce",
						      .count = 1000,
						      .datatype = "ncclBfloat16",
						      .channels = 4,
						      .algorithm = "NVLS",
						      .protocol = protocol } };
	void *handle;

	ncclProfiler_v5.start_event(context, &handle, &e);
}

static void replayed(void *context)
{
	struct ring_event event[NCCL_EVENT_SLOTS] = {
		{ .a = 5,
		  .c = (uint32_t)(uintptr_t)context,
		  .kind = RING_COLLECTIVE,
		  .flags = NCCL_EVENT_REPLAY | NCCL_EVENT_CAPTURED },
	};

	ring_push(ring_get(), event, NCCL_EVENT_SLOTS);
}

/* A call in a group that is not launched any more, as NVTX says it. */
static void call_in_a_group(void *context)
{
	struct ring *r = ring_get();

	r->nccl_pending[0][0] =
		(struct ring_event){ .a = 7,
				     .b = 99,
				     .c = (uint32_t)(uintptr_t)context,
				     .kind = RING_COLLECTIVE,
				     .flags = NCCL_EVENT_NVTX | NCCL_EVENT_SEQUENCE };
	r->nccl_pending[0][1] =
		(struct ring_event){ .a = 4096, .c = nccl_text_number("Broadcast") };
	r->nccl.pending = 1;
}

static void child_main(bool is_new_text)
{
	struct writer_options options = { .directory = fixture.directory };
	void *early, *late;

	early = init(77, "tensor"); /* before there is a recording */
	shared_area_open();
	options.journal = shared_area_journal(&options.journal_bytes);
	if (!options.journal || writer_open(&options, &self.w, NULL) < 0 || !ring_get())
		_exit(2);
	nccl_source.start(NULL);
	nccl_plugin_record(true);
	late = init(78, NULL);
	all_reduce(early, 17, "SIMPLE");
	all_reduce(late, 3, "LL128");
	replayed(early);
	call_in_a_group(late);
	if (is_new_text) { /* as if its entry had not been written */
		struct area_nccl *area = shared_area_part(AREA_NCCL);

		for (unsigned i = 0; i < AREA_NCCL_TEXTS_MAX; i++)
			if (!strcmp(area->texts[i].text, "LL128"))
				area->texts[i].is_complete = 0;
	}
	(void)!write(passed[1], "x", 1);
	pause();
}

/* --- the parent --- */

static int open_memory(void)
{
	char path[300];
	struct dirent *entry;
	int fd = -1;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)child);
	list = opendir(path);
	while (list && (entry = readdir(list))) {
		char to[64] = "";

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)child, entry->d_name);
		if (readlink(path, to, sizeof(to) - 1) > 0 && strstr(to, "memfd:pitot"))
			fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	closedir(list);
	return fd;
}

static struct recovered kill_and_recover(bool is_new_text)
{
	struct folder_id folder = { 0 };
	struct recovered out;
	struct error e = { 0 };
	char byte;
	int memory;

	fixture_open(&fixture);
	assert_int_equal(pipe(passed), 0);
	child = fork();
	if (!child)
		child_main(is_new_text);
	assert_int_equal(read(passed[0], &byte, 1), 1);
	memory = open_memory();
	assert_true(memory >= 0);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	if (recover_area(memory, fixture.directory, &folder, &out, &e) != 1)
		fail_msg("%s", e.text);
	close(memory);
	close(passed[0]);
	close(passed[1]);
	return out;
}

#define ROWS_MAX 8u

/* The values of a column in all segments. */
static size_t read_column(enum table_id table, int column, uint64_t values[ROWS_MAX])
{
	size_t count = 0;
	char path[128];

	for (int n = 0; n < 4; n++) {
		struct segment s;

		snprintf(path, sizeof(path), "%s/%d.%d.pit", fixture.directory, (int)child, n);
		if (segment_open(path, &s, NULL) < 0)
			continue;
		for (size_t i = 0; i < s.block_count; i++) {
			struct decoded rows;

			if (s.blocks[i].header.table != table)
				continue;
			assert_int_equal(decode_block(&s, &s.blocks[i], &rows), 0);
			for (size_t k = 0; k < rows.rows && count < ROWS_MAX; k++)
				values[count++] =
					rows.valid[column][k] ? rows.values[column][k] : UINT64_MAX;
			decoded_free(&rows);
		}
		segment_release(&s);
	}
	return count;
}

static void has_values(enum table_id table, int column, size_t count, const uint64_t *wanted)
{
	uint64_t values[ROWS_MAX];

	assert_int_equal(read_column(table, column, values), count);
	for (size_t i = 0; i < count; i++) {
		bool is_there = false;

		for (size_t k = 0; k < count; k++)
			is_there |= values[k] == wanted[i];
		if (!is_there)
			fail_msg("column %d has no %llu", column, (unsigned long long)wanted[i]);
	}
}

static void test_collectives_of_the_last_moments(void **unused)
{
	struct recovered out = kill_and_recover(false);

	(void)unused;
	assert_int_equal(out.collectives, 3);
	assert_int_equal(out.unread_collectives + out.others, 0);
	has_values(TABLE_communicator, COLUMN_communicator_hash, 2, (uint64_t[]){ 77, 78 });
	has_values(TABLE_communicator, COLUMN_communicator_nodes, 2, (uint64_t[]){ 1, 1 });
	has_values(TABLE_communicator, COLUMN_communicator_ranks, 2, (uint64_t[]){ 8, 8 });
	has_values(TABLE_communicator, COLUMN_communicator_rank, 2, (uint64_t[]){ 5, 5 });
	has_values(TABLE_collective, COLUMN_collective_sequence, 3, (uint64_t[]){ 17, 3, 99 });
	has_values(TABLE_collective, COLUMN_collective_communicator, 3, (uint64_t[]){ 1, 2, 2 });
	has_values(TABLE_collective, COLUMN_collective_function, 3,
		   (uint64_t[]){ collective_function_all_reduce, collective_function_broadcast,
				 collective_function_all_reduce });
	has_values(TABLE_collective, COLUMN_collective_bytes, 3, (uint64_t[]){ 2000, 2000, 4096 });
	has_values(TABLE_collective, COLUMN_collective_datatype, 3,
		   (uint64_t[]){ nccl_datatype_bfloat16, nccl_datatype_bfloat16, UINT64_MAX });
	fixture_close(&fixture);
}

/* It is counted, so that nobody says that the rank had not called it. */
static void test_a_text_that_is_not_there(void **unused)
{
	struct recovered out = kill_and_recover(true);

	(void)unused;
	assert_int_equal(out.collectives, 2);
	assert_int_equal(out.unread_collectives, 1);
	has_values(TABLE_collective, COLUMN_collective_sequence, 2, (uint64_t[]){ 17, 99 });
	has_values(TABLE_loss, COLUMN_loss_reason, 1,
		   (uint64_t[]){ loss_reason_unread_collective });
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collectives_of_the_last_moments),
		cmocka_unit_test(test_a_text_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
