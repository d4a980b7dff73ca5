/* sampled_processes.c: the list of sampled processes, updated by events. */
#include "sampler/sampled_processes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "sampler/proc_tree.h"
#include "sampler/process_memory.h"
#include "sampler/sampled_processes_state.h"

#define TEXTS_BYTES_MAX ((size_t)64 << 20)
#define COMMAND_BYTES_MAX ((size_t)65536)
#define PROCESSES_DEFAULT 4096u
#define ENTRY_BYTES 96u /* length of a program's entry code, up to its first calls */

uint32_t targets_text(struct targets *t, const char *text, size_t length)
{
	int64_t id = interner_find(&t->texts, text, length);

	if (id < 0 && t->texts.bytes + length <= TEXTS_BYTES_MAX)
		id = interner_add(&t->texts, text, length, NULL);
	return id < 0 ? 0 : (uint32_t)id;
}

const char *targets_text_of(const struct targets *t, uint32_t id)
{
	return id < t->texts.count ? t->texts.items[id].text : "";
}

static uint32_t file_text(struct targets *t, const char *path, size_t max)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	io_read_text(path, max, &text);
	return targets_text(t, strbuf_text(&text), text.length);
}

int targets_new(const struct targets_options *options, struct targets **out, struct error *e)
{
	struct targets *t = calloc(1, sizeof(*t));
	char host[256] = "";

	if (!t)
		return error_set(e, -ENOMEM, "out of memory");
	t->options = *options;
	if (!t->options.processes_max)
		t->options.processes_max = PROCESSES_DEFAULT;
	interner_init(&t->texts);
	if (target_files_init(&t->files) < 0 || interner_add(&t->texts, "", 0, NULL) < 0) {
		targets_free(t, NULL);
		return error_set(e, -ENOMEM, "out of memory");
	}
	t->files.file_copies = options->file_copies;
	gethostname(host, sizeof(host) - 1);
	t->host = targets_text(t, host, strlen(host));
	t->boot_id = file_text(t, "/proc/sys/kernel/random/boot_id", 64);
	*out = t;
	return 0;
}

/* --- the list --- */

static void free_target(struct targets *t, struct target *p)
{
	for (size_t i = 0; i < t->all.count; i++)
		if (t->all.data[i] == p) {
			t->all.data[i] = t->all.data[--t->all.count];
			break;
		}
	vec_release(&p->ranges);
	vec_release(&p->origins);
	vec_release(&p->threads);
	vec_release(&p->remainders);
	map_release(&p->threads_index);
	interner_release(&p->python);
	map_release(&p->allocated);
	free(p);
}

struct target *targets_find(struct targets *t, pid_t pid)
{
	uint64_t p;

	return map_get(&t->index, (uint64_t)pid, &p) ? (struct target *)(uintptr_t)p : NULL;
}

pid_t target_pid(const struct target *p)
{
	return p->memory_id;
}

static struct target *new_target(struct targets *t, pid_t pid, uint64_t time_ns)
{
	struct target *p = t->all.count < TARGETS_MAX ? calloc(1, sizeof(*p)) : NULL;

	if (!p || vec_push(&t->all, p) < 0) {
		free(p);
		return NULL;
	}
	p->pid = p->memory_id = pid;
	p->start_ns = time_ns;
	interner_init(&p->python);
	if (map_put(&t->index, (uint64_t)pid, (uintptr_t)p) < 0) {
		free_target(t, p);
		return NULL;
	}
	return p;
}

void targets_choose_loss_owner(struct targets *t)
{
	struct target *old = t->loss_owner;

	if (old && !old->end_ns)
		return;
	for (size_t i = 0; i < t->all.count; i++)
		if (t->all.data[i]->writer && !t->all.data[i]->end_ns) {
			t->loss_owner = t->all.data[i];
			break;
		}
	if (old && old != t->loss_owner) {
		target_close(t, old);
		free_target(t, old);
	}
}

static void end_target(struct targets *t, struct target *p, uint64_t time_ns)
{
	p->end_ns = MAX(time_ns, p->start_ns);
	if (targets_find(t, p->pid) == p)
		*map_at(&t->index, (uint64_t)p->pid, 0) = 0;
	target_pass_remainders(t, p, false);
	if (t->loss_owner == p) {
		targets_choose_loss_owner(t);
		return;
	}
	target_close(t, p);
	free_target(t, p);
}

/* --- data from /proc --- */

static uint32_t link_text(struct targets *t, pid_t pid, const char *name)
{
	char path[64], target[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = readlink(path, target, sizeof(target));
	return targets_text(t, target, n > 0 ? (size_t)n : 0);
}

static uint32_t thread_name(struct targets *t, pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	return file_text(t, path, 64);
}

/* Reads owner, executable, directory, parent and command, unless the process is gone. */
static void identify(struct targets *t, struct target *p)
{
	char path[64];
	struct stat st;
	pid_t parent;

	snprintf(path, sizeof(path), "/proc/%d", (int)p->pid);
	if (stat(path, &st) < 0)
		return;
	p->uid = st.st_uid;
	p->executable = link_text(t, p->pid, "exe");
	p->directory = link_text(t, p->pid, "cwd");
	parent = proc_parent(p->pid);
	p->parent_pid = parent ? parent : p->parent_pid;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)p->pid);
	p->command = file_text(t, path, COMMAND_BYTES_MAX);
}

/* The memory of a process whose main thread has ended can be read by another one's id only. */
static pid_t find_memory_id(pid_t pid)
{
	_cleanup_list_ DIR *threads = NULL;
	struct process_stat stat;
	const char *name;

	if (!io_process_stat(pid, &stat) || stat.state != 'Z')
		return pid;
	threads = folder_list_process(pid, "task");
	while (threads && (name = folder_next(threads))) {
		pid_t tid = (pid_t)strtol(name, NULL, 10);

		if (io_process_stat(tid, &stat) && !strchr("ZX", stat.state))
			return tid;
	}
	return pid;
}

struct target *targets_running(struct targets *t, pid_t pid, uint64_t time_ns)
{
	struct target *p = targets_find(t, pid);

	if (p)
		return p;
	p = new_target(t, pid, time_ns);
	if (!p)
		return NULL;
	identify(t, p);
	p->memory_id = find_memory_id(pid);
	p->name = thread_name(t, pid, pid);
	target_maps_read(t, p, time_ns);
	return p;
}

struct target *targets_core(struct targets *t, pid_t pid, const char *name, const char *command,
			    uint64_t time_ns)
{
	struct target *p = new_target(t, pid, time_ns);

	if (!p)
		return NULL;
	p->memory_id = CORE_PROCESS;
	p->name = targets_text(t, name, strlen(name));
	p->command = targets_text(t, command, strlen(command));
	target_maps_read(t, p, time_ns);
	return p;
}

/* --- events --- */

void targets_fork(struct targets *t, pid_t parent, pid_t child, uint64_t time_ns)
{
	struct target *from = targets_find(t, parent), *p = targets_find(t, child);

	if (p)
		end_target(t, p, time_ns);
	if (!from) {
		targets_running(t, child, time_ns);
		return;
	}
	p = new_target(t, child, time_ns);
	if (!p)
		return;
	p->parent_pid = parent;
	p->command = from->command;
	p->executable = from->executable;
	p->directory = from->directory;
	p->name = from->name;
	p->uid = from->uid;
	if (target_maps_copy(p, from) < 0)
		target_maps_read(t, p, time_ns);
}

void targets_exec(struct targets *t, pid_t pid, uint64_t time_ns)
{
	struct target *old = targets_find(t, pid), *p;
	pid_t parent = old ? old->parent_pid : 0;

	if (old)
		end_target(t, old, time_ns);
	p = new_target(t, pid, time_ns);
	if (!p)
		return;
	p->parent_pid = parent;
	identify(t, p);
}

void targets_exit(struct targets *t, pid_t pid, uint64_t time_ns)
{
	struct target *p = targets_find(t, pid);

	if (p)
		end_target(t, p, time_ns);
}

struct target_thread *target_thread(struct targets *t, struct target *p, pid_t tid)
{
	struct target_thread fresh = { .named_ns = clock_monotonic_ns() };
	uint64_t *index = map_at(&p->threads_index, (uint64_t)tid, UINT64_MAX);

	if (!index)
		return NULL;
	if (*index != UINT64_MAX)
		return &p->threads.data[*index];
	if (p->threads.count >= TARGET_THREADS_MAX || vec_push(&p->threads, fresh) < 0)
		return NULL;
	*index = p->threads.count - 1;
	p->threads.data[*index].name =
		p->memory_id == CORE_PROCESS ? 0 : thread_name(t, p->pid, tid);
	if (!p->threads.data[*index].name)
		p->threads.data[*index].name = p->name;
	return &p->threads.data[*index];
}

void targets_thread_name(struct targets *t, pid_t pid, pid_t tid, const char *name,
			 uint64_t time_ns)
{
	struct target *p = targets_find(t, pid);
	struct target_thread *thread = p ? target_thread(t, p, tid) : NULL;

	if (!thread)
		return;
	thread->name = targets_text(t, name, strlen(name));
	thread->named_ns = time_ns;
	thread->segment = 0;
	if (tid == pid)
		p->name = thread->name;
}

void targets_map(struct targets *t, pid_t pid, const struct target_mapping *mapping,
		 uint64_t time_ns)
{
	struct target *p = targets_find(t, pid);

	if (p)
		target_map(t, p, mapping, time_ns);
}

void targets_maps_read(struct targets *t, pid_t pid, uint64_t time_ns)
{
	struct target *p = targets_find(t, pid);

	if (p)
		target_maps_read(t, p, time_ns);
}

/* --- address ranges --- */

const struct target_range *target_ranges(const struct target *p, size_t *count)
{
	*count = p->ranges.count;
	return p->ranges.data;
}

const struct target_range *target_range_at(struct targets *t, struct target *p, uint64_t address)
{
	size_t index;
	struct target_range *range = target_range_find(p, address, &index);

	if (range)
		target_range_look_up(t, p, index);
	return range;
}

bool target_range_no_memory(const struct targets *t, const struct target_range *range)
{
	const struct target_file *file = target_file_at(&t->files, range->file);

	return file && file->no_memory;
}

bool target_range_is_entry(const struct targets *t, const struct target_range *range,
			   uint64_t address)
{
	const struct target_file *file = target_file_at(&t->files, range->file);

	return file && file->entry && address - range->bias - file->entry < ENTRY_BYTES;
}

bool target_range_own_code(const struct targets *t, const struct target_range *range,
			   uint64_t address, uint8_t *bytes, size_t size)
{
	const struct target_file *file = target_file_at(&t->files, range->file);
	uint64_t own = getauxval(AT_SYSINFO_EHDR);

	if (!file || !file->is_vdso || !own || address < range->start || address >= range->end ||
	    range->end - address < size)
		return false;
	memcpy(bytes, (const void *)(uintptr_t)(own + address - range->bias), size);
	return true;
}

/* --- the end --- */

int targets_free(struct targets *t, struct error *e)
{
	int failure;

	if (!t)
		return 0;
	for (size_t i = 0; i < t->all.count; i++)
		target_pass_remainders(t, t->all.data[i], true);
	targets_write_losses(t);
	while (t->all.count) {
		target_close(t, t->all.data[0]);
		free_target(t, t->all.data[0]);
	}
	failure = t->failure;
	vec_release(&t->all);
	map_release(&t->index);
	interner_release(&t->texts);
	target_files_release(&t->files);
	if (failure)
		error_errno(e, failure, "cannot write CPU samples to '%s'", t->options.directory);
	free(t);
	return -failure;
}
