/* thread_names.c: names of the command's threads, from /proc. */
#include "record/thread_names.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "format/segment.h"

#define THREADS_MAX 4096u /* further ones are left out */

void thread_names_release(struct thread_names *t)
{
	vec_release(&t->threads);
	map_release(&t->by_tid);
}

static struct named_thread *thread_of(struct thread_names *t, uint32_t tid)
{
	uint64_t *index;

	if (t->threads.count >= THREADS_MAX && !map_get(&t->by_tid, tid, &(uint64_t){ 0 }))
		return NULL;
	index = map_at(&t->by_tid, tid, t->threads.count);
	if (!index || (*index == t->threads.count &&
		       vec_push(&t->threads, ((struct named_thread){ .tid = tid })) < 0))
		return NULL;
	return &t->threads.data[*index];
}

static void read_name(struct thread_names *t, const char *tid)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct named_thread *thread;
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)t->pid, tid);
	if (io_read_file(path, THREAD_NAME_MAX - 1, &name) < 0)
		return;
	thread = thread_of(t, (uint32_t)strtoul(tid, NULL, 10));
	if (!thread)
		return;
	thread->time_ns = clock_monotonic_ns();
	snprintf(thread->name, sizeof(thread->name), "%.*s", (int)strcspn(strbuf_text(&name), "\n"),
		 strbuf_text(&name));
}

void thread_names_read(struct thread_names *t)
{
	struct dirent *entry;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)t->pid);
	tasks = opendir(path);
	if (!tasks)
		return;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] != '.')
			read_name(t, entry->d_name);
	}
	closedir(tasks);
}

void thread_names_write(const struct thread_names *t, const char *directory, struct writer *w)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

	strbuf_addf(&path, "%s/%d.0%s", directory, (int)t->pid, SEGMENT_SUFFIX);
	if (path.failed || access(path.data, F_OK) == 0)
		return;
	for (size_t i = 0; i < t->threads.count; i++) {
		const struct named_thread *thread = &t->threads.data[i];
		struct row_thread row = {
			.tid = thread->tid,
			.name = writer_string(w, thread->name, strlen(thread->name)),
			.time_ns = thread->time_ns,
		};

		writer_append(w, TABLE_thread, &row);
	}
}
