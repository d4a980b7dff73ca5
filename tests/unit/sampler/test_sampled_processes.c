/* link: test_support pitot_trace */
/*
 * Processes that are sampled: their mappings, files, segments and rows; events are made up, code is
 * this program's.
 */
#include "sampler/sampled_processes.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "sampler/sampled_processes_state.h"
#include "stack/python/python_code.h"
#include "support/cmocka_tests.h"
#include "trace/trace.h"

#define PAGES 64u
#define PAGE 4096u
#define FIRST 0x100000u

static struct targets *new_targets(const char *folder, uint64_t max_bytes, uint32_t processes_max)
{
	const struct targets_options options = { .directory = folder,
						 .max_bytes = max_bytes,
						 .period_ns = 1000,
						 .processes_max = processes_max };
	struct targets *t;

	assert_int_equal(targets_new(&options, &t, NULL), 0);
	return t;
}

static struct trace *open_rows(const char *folder, const enum table_id *tables)
{
	const struct trace_options options = { .threads = 1 };
	struct trace *t;

	assert_int_equal(trace_open(folder, &options, &t, NULL), 0);
	for (; *tables; tables++)
		assert_int_equal(trace_load(t, *tables, 0, NULL), 0);
	return t;
}

static const char *text(struct trace *t, enum table_id table, int column, uint64_t row)
{
	return trace_string(t, (uint32_t)trace_value(t, table, column, row, NULL));
}

/* --- mappings --- */

/* What each page should be: number of the mapping, and its place in the mapping's file. */
struct page {
	unsigned mapping;
	uint64_t offset;
};

static void check_pages(struct target *p, const struct page *pages)
{
	size_t count;
	const struct target_range *ranges = target_ranges(p, &count);

	for (size_t i = 0; i < count; i++) {
		assert_true(ranges[i].start < ranges[i].end);
		assert_true(i == 0 || ranges[i - 1].end <= ranges[i].start);
	}
	assert_int_equal(p->origins.count, count);
	for (unsigned i = 0; i < PAGES; i++) {
		uint64_t address = FIRST + i * PAGE;
		size_t index;
		const struct target_range *r = target_range_find(p, address + 7, &index);

		assert_int_equal(r != NULL, pages[i].mapping != 0);
		if (!r)
			continue;
		assert_int_equal(p->origins.data[index].inode, pages[i].mapping);
		assert_int_equal(p->origins.data[index].file_offset + (address - r->start),
				 pages[i].offset);
	}
}

static void mappings_replace_what_they_cover(void **state)
{
	struct targets *t = new_targets(*state, 0, 0);

	srand(1);
	for (unsigned round = 0; round < 50; round++) {
		struct page pages[PAGES] = { 0 };

		targets_exec(t, 1, round + 1);
		for (unsigned n = 1; n < 60; n++) {
			unsigned start = (unsigned)rand() % PAGES;
			unsigned count = 1 + (unsigned)rand() % MIN(PAGES - start, 20u);
			const struct target_mapping m = { .start = FIRST + start * PAGE,
							  .end = FIRST + (start + count) * PAGE,
							  .file_offset = n * 0x100000u,
							  .inode = n,
							  .path = "/nowhere" };

			for (unsigned i = 0; i < count; i++)
				pages[start + i] = (struct page){ n, m.file_offset + i * PAGE };
			targets_map(t, 1, &m, round + 1);
			check_pages(targets_find(t, 1), pages);
		}
		targets_fork(t, 1, 2, round + 1);
		check_pages(targets_find(t, 2), pages);
	}
	assert_int_equal(targets_free(t, NULL), 0);
}

static void memory_without_a_file_grows_as_one(void **state)
{
	struct targets *t = new_targets(*state, 0, 0);
	size_t count;

	targets_exec(t, 1, 1);
	for (unsigned i = 0; i < 1000; i++) {
		const struct target_mapping m = { .start = FIRST + i * PAGE,
						  .end = FIRST + (i + 1) * PAGE,
						  .path = "//anon" };

		targets_map(t, 1, &m, 2);
	}
	target_ranges(targets_find(t, 1), &count);
	assert_int_equal(count, 1);
	assert_null(target_range_at(t, targets_find(t, 1), FIRST)->parts);
	assert_int_equal(targets_free(t, NULL), 0);
}

static int check_module(struct dl_phdr_info *info, size_t size, void *targets)
{
	struct targets *t = targets;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + ph->p_vaddr;
		const struct target_range *r;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		r = target_range_at(t, targets_find(t, getpid()), start);
		assert_non_null(r);
		assert_int_equal(r->bias, info->dlpi_addr);
		assert_true(r->file != 0 && r->parts != NULL);
	}
	return 0;
}

static void our_own_modules(void **state)
{
	struct targets *t = new_targets(*state, 0, 0);

	assert_non_null(targets_running(t, getpid(), clock_monotonic_ns()));
	dl_iterate_phdr(check_module, t);
	assert_int_equal(targets_free(t, NULL), 0);
}

static const char *libc_path(void)
{
	static Dl_info info;

	assert_true(dladdr(dlsym(RTLD_DEFAULT, "qsort"), &info) != 0);
	return info.dli_fname;
}

/* A file that was replaced is not taken for the one that is mapped. */
static void another_file_of_that_name(void **state)
{
	struct targets *t = new_targets(*state, 0, 0);
	const struct target_mapping m = {
		.start = FIRST, .end = FIRST + 16 * PAGE, .inode = 1, .path = "/proc/self/exe"
	};
	const struct target_range *r;

	targets_exec(t, 1, 1);
	targets_map(t, 1, &m, 2);
	r = target_range_at(t, targets_find(t, 1), FIRST);
	assert_non_null(r);
	assert_true(r->file == 0 && !r->parts);
	assert_int_equal(targets_free(t, NULL), 0);
}

/* Rules at the beginnings of its pages, the first 4096 of them. */
static void ask_everywhere(struct unwind_parts *parts)
{
	for (uint64_t at = parts->base; at < parts->base + 4096 * PAGE; at += PAGE) {
		const struct unwind_rule *rule = unwind_parts_find(parts, at);

		assert_true(!rule || rule->cfa <= CFA_SIGNAL);
	}
}

/* A library of which some rounds change bytes, anywhere or in the headers, or cut its end off. */
static unsigned damage(struct targets *t, const char *path, const char *library,
		       uint64_t file_offset, unsigned rounds)
{
	const struct target_mapping m = {
		.start = FIRST, .end = FIRST + 4096 * PAGE, .file_offset = file_offset, .path = path
	};
	struct strbuf whole = STRBUF_INIT;
	unsigned with_rules = 0;

	assert_int_equal(io_read_file(library, 64 << 20, &whole), 0);
	for (unsigned round = 0; round < rounds; round++) {
		struct strbuf damaged = STRBUF_INIT;
		const struct target_range *range;
		FILE *f = fopen(path, "we");

		strbuf_add(&damaged, whole.data, whole.length);
		for (unsigned i = 0; i < 1 + round % 20; i++) {
			size_t room = round & 1 ? 512 : whole.length;
			size_t from = round & 2 ? whole.length - MIN(room, 2500u) : 0;

			damaged.data[from + (size_t)rand() % MIN(room, whole.length - from)] =
				(char)rand();
		}
		if (round % 5 == 0)
			damaged.length = (size_t)rand() % damaged.length;
		assert_non_null(f);
		assert_int_equal(fwrite(damaged.data, 1, damaged.length, f), damaged.length);
		fclose(f);
		strbuf_release(&damaged);
		targets_exec(t, 0x7ffffff0, round + 1);
		targets_map(t, 0x7ffffff0, &m, round + 1);
		range = target_range_at(t, targets_find(t, 0x7ffffff0), FIRST);
		with_rules += range->parts != NULL;
		/* Then it shrinks, too. */
		if (round % 7 == 0)
			assert_int_equal(truncate(path, (off_t)(whole.length / 2)), 0);
		if (range->parts)
			ask_everywhere(range->parts);
		/* Another time of change, also where clocks are coarse: another file. */
		unlink(path);
	}
	strbuf_release(&whole);
	return with_rules;
}

/*
 * Bytes of files are hostile: any of their headers and of their call frame information may be
 * anything.
 */
static void damaged_files(void **state)
{
	const char *path = temp_file(*state, "damaged");
	struct targets *t = new_targets(*state, 0, 0);
	struct target *self = targets_running(t, getpid(), 1000);
	size_t index;

	assert_non_null(self);
	assert_non_null(target_range_find(self, (uintptr_t)dlsym(RTLD_DEFAULT, "qsort"), &index));
	srand(1);
	/* Code is in the second segment. */
	assert_true(damage(t, path, "/lib64/ld-linux-x86-64.so.2", PAGE, 400) > 10);
	/* This one is large enough to be read piece by piece. */
	assert_true(damage(t, path, libc_path(), self->origins.data[index].file_offset, 60) > 10);
	assert_int_equal(targets_free(t, NULL), 0);
}

/* Of a large file only what is asked for is read and compiled, also where it cannot stay open. */
static void large_files(void **state)
{
	for (unsigned open = 0; open <= 64; open += 64) {
		struct targets *t = new_targets(*state, 0, 0);
		struct target *p = targets_running(t, getpid(), 1000);
		const struct target_range *r;
		const struct target_file *file;
		uint64_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "qsort");

		assert_non_null(p);
		t->files.open = open;
		r = target_range_at(t, p, address);
		assert_true(r && r->parts);
		file = target_file_at(&t->files, r->file);
		assert_int_equal(unwind_parts_find(r->parts, address - r->bias)->cfa, CFA_REGISTER);
		assert_int_equal(r->parts->compiled.count, 1);
		assert_true(r->parts->part_count > 50);
		assert_int_equal(file->source.fd >= 0, open == 0);
		if (open == 0)
			assert_true(file->source.read_bytes <
				    r->parts->input.section.size + (64u << 10));
		ask_everywhere(r->parts);
		assert_int_equal(r->parts->damaged, 0);
		assert_int_equal(targets_free(t, NULL), 0);
	}
}

/* --- rows --- */

static void sample(struct targets *t, pid_t pid, uint64_t time_ns, const uint64_t *frames,
		   unsigned count)
{
	const struct target_stack stack = { .user = frames, .user_count = count };

	targets_cpu_sample(t, targets_find(t, pid), pid + 1, time_ns, 1000, 2, &stack);
}

static void a_process_from_fork_to_exit(void **state)
{
	static const enum table_id tables[] = { TABLE_process, TABLE_cpu_sample, TABLE_stack,
						TABLE_thread,  TABLE_module,     0 };
	struct targets *t = new_targets(*state, 0, 0);
	uint64_t frames[2] = { (uintptr_t)a_process_from_fork_to_exit + 5, 0x1234 };
	struct trace *trace;

	assert_non_null(targets_running(t, getpid(), 1000));
	/* Pids that no process can have. */
	targets_fork(t, getpid(), 0x7ffffff0, 2000);
	targets_thread_name(t, 0x7ffffff0, 0x7ffffff1, "worker", 2500);
	sample(t, 0x7ffffff0, 3000, frames, 2);
	sample(t, 0x7ffffff0, 4000, frames, 2);
	targets_exec(t, 0x7ffffff0, 5000);
	assert_null(target_range_at(t, targets_find(t, 0x7ffffff0), frames[0]));
	sample(t, 0x7ffffff0, 6000, frames + 1, 1);
	targets_exit(t, 0x7ffffff0, 7000);
	assert_null(targets_find(t, 0x7ffffff0));
	assert_int_equal(targets_free(t, NULL), 0);

	trace = open_rows(*state, tables);
	assert_int_equal(trace_process_count(trace), 2);
	assert_int_equal(trace_process(trace, 0)->start_ns, 2000);
	assert_int_equal(trace_process(trace, 0)->end_ns, 5000);
	assert_int_equal(trace_process(trace, 0)->parent_pid, getpid());
	assert_non_null(strstr(trace_process(trace, 0)->command, "test_sampled_processes"));
	assert_int_equal(trace_process(trace, 1)->start_ns, 5000);
	assert_int_equal(trace_process(trace, 1)->end_ns, 7000);
	assert_int_equal(trace_rows(trace, TABLE_cpu_sample), 3);
	assert_int_equal(trace_rows(trace, TABLE_stack), 2);
	assert_string_equal(text(trace, TABLE_thread, COLUMN_thread_name, 0), "worker");
	assert_int_equal(trace_rows(trace, TABLE_module), 1);
	assert_non_null(
		strstr(text(trace, TABLE_module, COLUMN_module_path, 0), "test_sampled_processes"));
	trace_free(trace);
}

static void all_kinds_of_frames(void **state)
{
	static const enum table_id tables[] = { TABLE_stack_node, TABLE_stack, 0 };
	static const uint64_t kernel[] = { UINT64_C(0xffffffff81000010),
					   UINT64_C(0xffffffff81000020) };
	struct targets *t = new_targets(*state, 0, 0);
	struct target *p = targets_running(t, getpid(), 1000);
	uint64_t python = target_python_frame(p, "train", "train.py", 12);
	uint64_t user[] = { 0x5000 | FRAME_INTERRUPTED, python, 0x6000 };
	const struct target_stack stack = { kernel, user, 2, 3, stack_end_complete };
	static const uint8_t kinds[] = { frame_kind_native, frame_kind_python,
					 frame_kind_interrupted, frame_kind_kernel,
					 frame_kind_kernel };
	/*
	 * The innermost address in the kernel is that of the instruction, the others are return
	 * addresses.
	 */
	const uint64_t addresses[] = { 0x6000, python_frame_code(python), 0x5000, kernel[1],
				       kernel[0] + 1 };
	struct trace *trace;

	assert_true(python && python == target_python_frame(p, "train", "train.py", 12));
	assert_true(python != target_python_frame(p, "train", "train.py", 13));
	assert_true(python != target_python_frame(p, "train", "other.py", 12));
	targets_cpu_sample(t, p, getpid(), 2000, 1, 0, &stack);
	targets_off_cpu(t, p, getpid(), 3000, 4000, off_cpu_state_sleeping, &stack);
	assert_int_equal(targets_free(t, NULL), 0);

	trace = open_rows(*state, tables);
	assert_int_equal(trace_rows(trace, TABLE_stack), 1);
	assert_int_equal(trace_rows(trace, TABLE_stack_node), ARRAY_SIZE(kinds));
	for (uint64_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		assert_int_equal(
			trace_value(trace, TABLE_stack_node, COLUMN_stack_node_kind, i, NULL),
			kinds[i]);
		assert_int_equal(
			trace_value(trace, TABLE_stack_node, COLUMN_stack_node_address, i, NULL),
			addresses[i]);
	}
	assert_string_equal(text(trace, TABLE_stack_node, COLUMN_stack_node_function, 1), "train");
	assert_string_equal(text(trace, TABLE_stack_node, COLUMN_stack_node_file, 1), "train.py");
	assert_int_equal(trace_value(trace, TABLE_stack_node, COLUMN_stack_node_line, 1, NULL), 12);
	trace_free(trace);
}

static uint64_t lost(struct trace *t, enum loss_reason reason)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < trace_rows(t, TABLE_loss); i++)
		if (trace_value(t, TABLE_loss, COLUMN_loss_reason, i, NULL) == reason)
			count += trace_value(t, TABLE_loss, COLUMN_loss_count, i, NULL);
	return count;
}

/* A row of cpu_sample, as far as it matters here. */
struct sampled {
	size_t process; /* of the recording */
	uint32_t thread;
	uint64_t weight_ns;
	bool has_stack;
};

static void check_samples(struct trace *trace, const struct sampled *expected, size_t count)
{
	assert_int_equal(trace_rows(trace, TABLE_cpu_sample), count);
	for (size_t i = 0; i < count; i++) {
		bool no_stack = false;

		assert_int_equal(trace_row_process(trace, TABLE_cpu_sample, i),
				 expected[i].process);
		assert_int_equal(
			trace_value(trace, TABLE_cpu_sample, COLUMN_cpu_sample_thread, i, NULL),
			expected[i].thread);
		assert_int_equal(
			trace_value(trace, TABLE_cpu_sample, COLUMN_cpu_sample_weight_ns, i, NULL),
			expected[i].weight_ns);
		trace_value(trace, TABLE_cpu_sample, COLUMN_cpu_sample_stack, i, &no_stack);
		assert_int_equal(!no_stack, expected[i].has_stack);
	}
}

/* Of threads that had samples, and of one that had none. The period is 1000 ns. */
static void time_after_the_last_sample(void **state)
{
	static const enum table_id tables[] = { TABLE_cpu_sample, TABLE_thread, 0 };
	static const struct sampled expected[] = {
		{ 0, 7, 500, false },          { 0, 0x7ffffff1, 1000, true },
		{ 0, 0x7ffffff1, 1000, true }, { 0, 0x7ffffff1, 1, false },
		{ 0, 8, 2500, false },         { 0, 0x7ffffff1, 400, false },
	};
	struct targets *t = new_targets(*state, 0, 0);
	uint64_t frame = 0x1234;
	struct target *p = targets_running(t, 0x7ffffff0, 1000);
	struct trace *trace;

	targets_thread_name(t, 0x7ffffff0, 7, "first", 1500);
	targets_cpu_remainder(t, p, 7, 2000, 500); /* waits for a segment */
	targets_cpu_remainder(t, p, 7, 2000, 0);
	sample(t, 0x7ffffff0, 3000, &frame, 1);
	targets_cpu_remainder(t, p, 0x7ffffff1, 4000, 1001);
	targets_cpu_remainder(t, p, 8, 5000, 2500);
	targets_cpu_remainder(t, p, 0x7ffffff1, 6000, 400); /* another thread with this id */
	assert_int_equal(targets_free(t, NULL), 0);

	trace = open_rows(*state, tables);
	check_samples(trace, expected, ARRAY_SIZE(expected));
	assert_string_equal(text(trace, TABLE_thread, COLUMN_thread_name, 0), "first");
	trace_free(trace);
}

/*
 * A shell that had a sample starts two that have none, of which one starts another; a third child
 * is there at the end. And one is left that its parent has not waited for.
 */
static void processes_without_samples(void **state)
{
	enum { SHELL = 0x7fffffe0, ONE = SHELL + 2, TWO, INNER, ALIVE, ORPHAN, INNER_ALIVE };
	static const enum table_id tables[] = { TABLE_cpu_sample, TABLE_thread, 0 };
	static const struct sampled expected[] = {
		{ 0, SHELL + 1, 1000, true },   { 0, ONE, 10, false },    { 0, INNER, 20, false },
		{ 0, TWO, 40, false },          { 0, ORPHAN, 80, false }, { 0, ALIVE, 160, false },
		{ 0, INNER_ALIVE, 320, false },
	};
	struct targets *t = new_targets(*state, 0, 0);
	uint64_t frame = 0x1234;
	struct trace *trace;

	targets_running(t, SHELL, 1000);
	sample(t, SHELL, 2000, &frame, 1);
	targets_fork(t, SHELL, ONE, 2100);
	targets_thread_name(t, ONE, ONE, "one", 2100);
	targets_cpu_remainder(t, targets_find(t, ONE), ONE, 2200, 10);
	targets_exit(t, ONE, 2200);
	targets_fork(t, SHELL, TWO, 2300);
	targets_fork(t, TWO, INNER, 2400);
	targets_thread_name(t, INNER, INNER, "inner", 2400);
	targets_cpu_remainder(t, targets_find(t, INNER), INNER, 2500, 20);
	targets_exit(t, INNER, 2500);
	targets_cpu_remainder(t, targets_find(t, TWO), TWO, 2600, 40);
	targets_exit(t, TWO, 2600);
	targets_fork(t, 0x7fffff00, ORPHAN, 2700);
	targets_cpu_remainder(t, targets_find(t, ORPHAN), ORPHAN, 2800, 80);
	targets_exit(t, ORPHAN, 2800);
	targets_fork(t, SHELL, ALIVE, 2900);
	targets_cpu_remainder(t, targets_find(t, ALIVE), ALIVE, 3000, 160);
	targets_fork(t, ALIVE, INNER_ALIVE, 3000);
	targets_cpu_remainder(t, targets_find(t, INNER_ALIVE), INNER_ALIVE, 3100, 320);
	assert_int_equal(targets_free(t, NULL), 0);

	trace = open_rows(*state, tables);
	assert_int_equal(trace_process_count(trace), 1);
	check_samples(trace, expected, ARRAY_SIZE(expected));
	assert_string_equal(text(trace, TABLE_thread, COLUMN_thread_name, 1), "one");
	assert_string_equal(text(trace, TABLE_thread, COLUMN_thread_name, 2), "inner");
	trace_free(trace);
}

static void losses_find_a_segment(void **state)
{
	static const enum table_id tables[] = { TABLE_loss, TABLE_process, 0 };
	struct targets *t = new_targets(*state, 0, 2);
	uint64_t frame = 0x1234;
	struct trace *trace;

	/* Nobody has one yet. */
	targets_loss(t, NULL, loss_reason_samples_dropped, 5, 10, 20);
	for (pid_t pid = 0x7ffffff0; pid < 0x7ffffff4; pid++) {
		targets_exec(t, pid, 100);
		sample(t, pid, 200, &frame, 1);
		sample(t, pid, 300, &frame, 1);
		targets_exit(t, pid, 400);
	}
	/* All that had one have ended. */
	targets_loss(t, NULL, loss_reason_samples_dropped, 7, 500, 600);
	assert_int_equal(targets_free(t, NULL), 0);
	trace = open_rows(*state, tables);
	assert_int_equal(trace_process_count(trace), 2);
	assert_int_equal(lost(trace, loss_reason_samples_dropped), 12);
	assert_int_equal(lost(trace, loss_reason_process_limit), 2);
	trace_free(trace);
}

static void the_limit_of_size(void **state)
{
	static const enum table_id tables[] = { TABLE_loss, TABLE_cpu_sample, 0 };
	struct targets *t = new_targets(*state, 100000, 0);
	struct trace *trace;

	targets_exec(t, 0x7ffffff0, 1);
	for (uint64_t i = 1; i <= 40000; i++) {
		/* Stacks that have nothing in common. */
		uint64_t frames[4] = { hash_u64(i) >> 20, hash_u64(~i) >> 20, i, 5 };

		sample(t, 0x7ffffff0, 1000 * i, frames, 4);
		if (i % 500 == 0)
			targets_flush(t, i * NS_PER_S, false);
	}
	targets_free(t, NULL);
	trace = open_rows(*state, tables);
	assert_true(trace_file_bytes(trace) < 150000);
	assert_true(trace_rows(trace, TABLE_cpu_sample) > 1000);
	assert_true(lost(trace, loss_reason_size_limit) + trace_rows(trace, TABLE_cpu_sample) >=
		    40000);
	trace_free(trace);
}

/* The limit is of all segments: those of processes that have ended count, each of them. */
static void bytes_of_all_that_have_ended(void **state)
{
	struct targets *t = new_targets(*state, 0, 0);
	uint64_t frame = 0x1234, bytes = 0;
	char path[4200];

	for (pid_t pid = 0x7ffffff0; pid < 0x7ffffff3; pid++) {
		struct stat st;

		targets_exec(t, pid, 1000);
		sample(t, pid, 2000, &frame, 1);
		targets_exec(t, 0x7fffff00 + (pid & 15), 1500); /* not the last with segments */
		sample(t, 0x7fffff00 + (pid & 15), 2000, &frame, 1);
		t->loss_owner = targets_find(t, 0x7fffff00 + (pid & 15));
		targets_exit(t, pid, 3000);
		snprintf(path, sizeof(path), "%s/cpu-%d.0.pit", (const char *)*state, (int)pid);
		assert_int_equal(stat(path, &st), 0);
		bytes += (uint64_t)st.st_size;
		/* The end of a file is written when it is closed. */
		assert_true(t->closed_bytes <= bytes && t->closed_bytes > bytes / 2);
	}
	assert_int_equal(targets_free(t, NULL), 0);
}

/* Told once each, whenever rows are written. */
static void stacks_without_room(void **state)
{
	static const enum table_id tables[] = { TABLE_loss, 0 };
	struct targets *t = new_targets(*state, 0, 0);
	uint64_t frame = 0x1234;
	struct trace *trace;

	targets_exec(t, 0x7ffffff0, 1000);
	sample(t, 0x7ffffff0, 2000, &frame, 1);
	for (unsigned i = 1; i <= 3; i++) {
		targets_find(t, 0x7ffffff0)->tree.refused += i;
		targets_flush(t, clock_monotonic_ns(), true);
	}
	assert_int_equal(targets_free(t, NULL), 0);
	trace = open_rows(*state, tables);
	assert_int_equal(lost(trace, loss_reason_stack_limit), 6);
	trace_free(trace);
}

/* What a parent's segment has, a child's does not. */
static void a_child_in_the_same_code(void **state)
{
	static const enum table_id tables[] = { TABLE_module, TABLE_thread, 0 };
	struct targets *t = new_targets(*state, 0, 0);
	uint64_t frames[] = { (uintptr_t)a_child_in_the_same_code + 5,
			      (uintptr_t)dlsym(RTLD_DEFAULT, "qsort") + 5 };
	struct trace *trace;

	assert_non_null(targets_running(t, getpid(), 1000));
	sample(t, getpid(), 2000, frames, 2);
	targets_fork(t, getpid(), 0x7ffffff0, 3000);
	targets_thread_name(t, 0x7ffffff0, 0x7ffffff1, "early", 3500);
	sample(t, 0x7ffffff0, 4000, frames, 1);
	targets_thread_name(t, 0x7ffffff0, 0x7ffffff1, "late", 4500);
	sample(t, 0x7ffffff0, 5000, frames, 1);
	assert_int_equal(targets_free(t, NULL), 0);

	trace = open_rows(*state, tables);
	assert_int_equal(trace_rows(trace, TABLE_module), 3);
	assert_int_equal(trace_row_process(trace, TABLE_module, 1), 0);
	assert_int_equal(trace_row_process(trace, TABLE_module, 2), 1);
	assert_int_equal(trace_rows(trace, TABLE_thread), 3);
	assert_string_equal(text(trace, TABLE_thread, COLUMN_thread_name, 1), "early");
	assert_string_equal(text(trace, TABLE_thread, COLUMN_thread_name, 2), "late");
	trace_free(trace);
}

/* Segments need not begin at a page of their file, but mappings do. */
static void segments_within_pages(void **state)
{
	const struct target_file file = {
		.segments = { { 0x1234, 0x401234, 0x500 }, { 0x3000, 0x404000, 0x1800 } },
		.segment_count = 2,
	};
	uint64_t bias = 0;

	(void)state;
	assert_true(target_file_bias(&file, 0x70001000, 0x1000, &bias));
	assert_int_equal(bias, 0x70001234 - 0x401234);
	assert_true(target_file_bias(&file, 0x70004000, 0x4000, &bias));
	assert_int_equal(bias, 0x70003000 - 0x404000);
	assert_false(target_file_bias(&file, 0x70002000, 0x2000, &bias));
	assert_false(target_file_bias(&file, 0x70005000, 0x5000, &bias));
}

static void a_folder_that_is_gone(void **state)
{
	struct targets *t = new_targets("/nonexistent/folder", 0, 0);
	uint64_t frame = 0x1234;
	struct error e = { 0 };

	(void)state;
	targets_exec(t, 0x7ffffff0, 1);
	sample(t, 0x7ffffff0, 200, &frame, 1);
	sample(t, 0x7ffffff0, 300, &frame, 1);
	assert_int_equal(targets_free(t, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/folder"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(mappings_replace_what_they_cover),
		folder_test(memory_without_a_file_grows_as_one),
		folder_test(our_own_modules),
		folder_test(another_file_of_that_name),
		folder_test(damaged_files),
		folder_test(large_files),
		folder_test(a_process_from_fork_to_exit),
		folder_test(all_kinds_of_frames),
		folder_test(time_after_the_last_sample),
		folder_test(processes_without_samples),
		folder_test(losses_find_a_segment),
		folder_test(the_limit_of_size),
		folder_test(bytes_of_all_that_have_ended),
		folder_test(stacks_without_room),
		folder_test(a_child_in_the_same_code),
		cmocka_unit_test(segments_within_pages),
		folder_test(a_folder_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
