/*
 * A process that is killed at any instruction of the recorder: each call and each kernel is in the
 * recording exactly once, kernels with their times and names, even if all but the newest segment
 * were overwritten. The parent single-steps the child, and whenever a step has changed what
 * recovery reads, recovers a recording from the memory as it is and reads it. Compression is not
 * stepped through: it changes nothing of that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "capture/core/collector.c"
#include "capture/core/source.h"
#include "capture/cuda/activity.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/clock_pairs.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/records.h"
#include "recover/recover.h"
#include "unit/format/recording_fixture.h"

#define ROUNDS 2
#define CALLS 2 /* in a round */
#define KERNELS 2
#define IDS 4096 /* more than the child has of anything */
#define SLOTS_SEEN 12 /* slots whose changes count: more than the child uses */

/* What the child has begun and done, which it cannot take along. */
static struct witness {
	atomic_uint calls_begun, calls_done, kernels_begun, kernels_done;
} * witness;

static struct fixture fixture;
static pid_t child;

static void segment_path(char path[128], int n)
{
	snprintf(path, 128, "%s/%d.%d.pit", fixture.directory, (int)child, n);
}

/* --- the child --- */

static CUptiResult next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	size_t at =
		*record ? (size_t)((uint8_t *)*record - buffer) + sizeof(struct record_kernel) : 0;

	if (at >= valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(void *)(buffer + at);
	return CUPTI_SUCCESS;
}

static CUptiResult get_timestamp(uint64_t *now)
{
	*now = clock_monotonic_ns();
	return CUPTI_SUCCESS;
}

static const struct cupti cupti = { .version = CUPTI_13_0,
				    .ActivityGetNextRecord = next_record,
				    .GetTimestamp = get_timestamp };

static void call(void)
{
	struct ring_event event = { .a = 1,
				    .b = 2,
				    .c = atomic_fetch_add(&witness->calls_begun, 1) + 1,
				    .d = (unsigned)API_DRIVER << 16 | 307,
				    .kind = RING_API_CALL };

	ring_push(ring_get(), &event, 1);
	atomic_fetch_add(&witness->calls_done, 1);
}

static uint8_t *request(size_t *size)
{
	size_t records;
	uint8_t *buffer;

	buffers_on_request(&buffer, size, &records);
	return buffer;
}

static void run_kernel(uint8_t *buffer, size_t at)
{
	struct record_kernel record = { .kind = RECORD_CONCURRENT_KERNEL,
					.start = 5,
					.end = 7,
					.name = "kernel",
					.correlation =
						atomic_fetch_add(&witness->kernels_begun, 1) + 1 };

	memcpy(buffer + at * sizeof(record), &record, sizeof(record));
	atomic_fetch_add(&witness->kernels_done, 1);
}

static void decode_all(void)
{
	struct activity_decoded decoded;
	struct full_buffer full;

	clock_pairs_drain(self.w);
	while (buffers_take_full(&full)) {
		decoded = activity_decode(&cupti, self.w, full.bytes, full.valid, full.slot);
		buffers_give_back(&full, decoded.records, decoded.work_ns);
	}
}

/*
 * In each round CUPTI gets the buffer again that was decoded, before the rows are stored, and then
 * a new segment begins.
 */
static void play(void)
{
	uint8_t *buffer;
	size_t size;

	for (unsigned round = 0; round < ROUNDS; round++) {
		buffer = request(&size);
		for (unsigned i = 0; i < CALLS; i++)
			call();
		for (unsigned i = 0; i < KERNELS; i++)
			run_kernel(buffer, i);
		buffers_on_complete(NULL, 0, buffer, size, KERNELS * sizeof(struct record_kernel));
		drain_rings(1);
		decode_all();
		buffer = request(&size);
		run_kernel(buffer, 0);
		call();
		raise(SIGUSR1);
		(void)!writer_flush(self.w);
		buffers_on_complete(NULL, 0, buffer, size, sizeof(struct record_kernel));
	}
}

static void child_main(void)
{
	struct writer_options options = { .directory = fixture.directory, .segment_bytes = 1 };

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	shared_area_open();
	clock_pairs_read(&cupti); /* with the first context, before the collector's first tick */
	options.journal = shared_area_journal(&options.journal_bytes);
	if (!options.journal || writer_open(&options, &self.w, NULL) < 0 || !buffers_start() ||
	    !ring_get())
		_exit(2);
	activity_share(CUPTI_13_0);
	for (unsigned i = 0; i < RING_KINDS; i++)
		self.handlers[i] = source_handler(i);
	raise(SIGSTOP);
	play();
	raise(SIGSTOP);
	_exit(0);
}

/* --- the parent --- */

static int open_memory(pid_t pid)
{
	char path[300];
	struct dirent *entry;
	int fd = -1;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	list = opendir(path);
	while (list && (entry = readdir(list))) {
		char to[64] = "";

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
		if (readlink(path, to, sizeof(to) - 1) > 0 && strstr(to, "memfd:pitot"))
			fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	closedir(list);
	return fd;
}

/* What recovery depends on. */
struct state {
	struct journal journal;
	struct buffer_slot slots[SLOTS_SEEN];
	uint64_t head, tail;
	off_t file_bytes; /* of the newest segment */
	int segment;
	struct witness done;
};

static void read_state(const uint8_t *area, struct state *s)
{
	const struct ring *ring = (const void *)(area + area_offset(AREA_RINGS));
	static int newest;
	char path[128];
	struct stat st;

	memset(s, 0, sizeof(*s));
	memcpy(&s->journal, area + area_offset(AREA_JOURNAL), sizeof(s->journal));
	memcpy(s->slots, area + area_offset(AREA_SLOTS), sizeof(s->slots));
	s->head = ring->head;
	s->tail = ring->tail;
	memcpy(&s->done, witness, sizeof(s->done));
	for (; segment_path(path, newest), stat(path, &st) == 0; newest++)
		s->file_bytes = st.st_size;
	s->segment = newest--;
}

/*
 * Once a buffer is zeroed, CUPTI may have it again at the next instruction: the mark must not say
 * that its first records were decoded.
 */
static void check_mark(const uint8_t *area, const struct state *s)
{
	const struct journal_mark *mark = &s->journal.marks[s->journal.marks_made % 2];
	uint64_t slot = mark->source - AREA_SOURCE_BUFFER;
	const uint8_t *buffer = area + area_offset(AREA_BUFFERS);

	if (mark->source <= AREA_SOURCE_BUFFER || !mark->progress || s->slots[slot].is_full)
		return;
	assert_int_not_equal(load_u32(buffer + (slot - 1) * BUFFER_BYTES), 0);
}

/* Of a column's values in all segments: how often each is there, and in which segment last. */
struct values {
	unsigned found[IDS];
	int last[IDS];
};

static struct values calls, kernels, config_names, strings;

static void add_values(const struct decoded *rows, int column, int segment, struct values *v)
{
	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t value = rows->values[column][i];

		assert_in_range(value, 0, IDS - 1);
		v->found[value]++;
		v->last[value] = segment;
	}
}

static void read_block(const struct segment *s, const struct block_ref *b, int segment)
{
	struct decoded rows;

	assert_int_equal(decode_block(s, b, &rows), 0);
	switch (b->header.table) {
	case TABLE_kernel:
		add_values(&rows, COLUMN_kernel_correlation, segment, &kernels);
		for (size_t i = 0; i < rows.rows; i++)
			assert_true(rows.valid[COLUMN_kernel_start_ns][i]);
		break;
	case TABLE_kernel_config:
		add_values(&rows, COLUMN_kernel_config_name, segment, &config_names);
		break;
	case TABLE_string:
		add_values(&rows, COLUMN_string_id, segment, &strings);
		break;
	case TABLE_api_call:
		add_values(&rows, COLUMN_api_call_correlation, segment, &calls);
	}
	decoded_free(&rows);
}

static void check_once(const struct values *v, unsigned begun, unsigned done, const char *what)
{
	for (unsigned id = 1; id < IDS; id++)
		if (v->found[id] > (id <= begun) || v->found[id] < (id <= done))
			fail_msg("%s %u of %u is there %u times", what, id, done, v->found[id]);
}

static void check(int memory, const struct folder_id *folder)
{
	struct recovered out;
	struct error e = { 0 };
	char path[128];
	int n = 0;

	if (recover_area(memory, fixture.directory, folder, &out, &e) < 0)
		fail_msg("%s", e.text);
	memset(&calls, 0, sizeof(calls));
	memset(&kernels, 0, sizeof(kernels));
	memset(&config_names, 0, sizeof(config_names));
	memset(&strings, 0, sizeof(strings));
	for (; segment_path(path, n), access(path, F_OK) == 0; n++) {
		struct segment s;

		if (segment_open(path, &s, NULL) < 0) /* it has no header yet */
			continue;
		for (size_t i = 0; i < s.block_count; i++)
			read_block(&s, &s.blocks[i], n);
		segment_release(&s);
	}
	segment_path(path, n - 1);
	assert_int_equal(unlink(path), 0); /* the recovered one */
	check_once(&calls, witness->calls_begun, witness->calls_done, "call");
	check_once(&kernels, witness->kernels_begun, witness->kernels_done, "kernel");
	/* "" and "?" have the ids below 2. All others must be defined where they are used. */
	for (unsigned id = 0; id < IDS; id++)
		if (config_names.found[id] &&
		    (id < 2 || strings.last[id] < config_names.last[id] - 1))
			fail_msg("a kernel in segment %d has the name %u", config_names.last[id],
				 id);
}

/* Continues the child. Returns the signal with which it has stopped. */
static int step(pid_t pid, enum __ptrace_request how)
{
	int status;

	assert_int_equal(ptrace(how, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

/* Lets the child compress, up to its next write. */
static void skip_to_write(pid_t pid)
{
	struct __ptrace_syscall_info info;

	do {
		assert_int_equal(step(pid, PTRACE_SYSCALL), SIGTRAP | 0x80);
		assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0);
	} while (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_pwrite64);
}

static pid_t start_child(int *memory)
{
	int status;

	child = fork();
	if (!child)
		child_main();
	assert_int_equal(waitpid(child, &status, __WALL), child);
	if (!WIFSTOPPED(status))
		fail_msg("the child ended with %x", status);
	ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	*memory = open_memory(child);
	assert_true(*memory >= 0);
	return child;
}

static void test_each_row_once(void **unused)
{
	struct folder_id folder = { 0 };
	struct state last = { 0 }, now;
	unsigned steps = 0, states = 0;
	const uint8_t *area;
	int memory, stopped;
	pid_t pid;

	(void)unused;
	fixture_open(&fixture);
	witness = mmap(NULL, sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	pid = start_child(&memory);
	area = mmap(NULL, area_offset(AREA_PART_COUNT), PROT_READ, MAP_SHARED, memory, 0);
	assert_true(area != MAP_FAILED);
	do {
		read_state(area, &now);
		check_mark(area, &now);
		if (memcmp(&now, &last, sizeof(now)) != 0) {
			check(memory, &folder);
			last = now;
			states++;
		}
		steps++;
		stopped = step(pid, PTRACE_SINGLESTEP);
		if (stopped == SIGUSR1)
			skip_to_write(pid);
	} while (stopped != SIGSTOP);
	print_message("%u states in %u steps\n", states, steps);
	assert_int_equal(witness->calls_done, ROUNDS * (CALLS + 1));
	kill(pid, SIGKILL);
	waitpid(pid, &stopped, __WALL);
	close(memory);
	munmap((void *)(uintptr_t)area, area_offset(AREA_PART_COUNT));
	munmap(witness, sizeof(*witness));
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_row_once) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
