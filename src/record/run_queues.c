#include "record/run_queues.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/strbuf.h"
#include "base/starts_with.h"

#define REST_FACTOR 200
#define THREADS_MAX 65536u /* ids that are remembered */
#define GROUPS_MAX 256u
#define STAT_BYTES (64u << 10)

/* Returns the number after a word at the start of a line; UINT64_MAX: there is none. */
static uint64_t number_after(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, word, length) && line[length] == ' ')
			return strtoull(line + length, NULL, 10);
	}
	return UINT64_MAX;
}

/* The run-queue time of a thread; UINT64_MAX: unknown. */
static uint64_t thread_wait_ns(pid_t pid, const char *tid)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	unsigned long long wait;
	char name[64];

	snprintf(name, sizeof(name), "task/%.20s/schedstat", tid);
	if (io_process_text(pid, name, 128, &text) < 0 ||
	    sscanf(strbuf_text(&text), "%*u %llu", &wait) != 1)
		return UINT64_MAX;
	return wait;
}

/* The recorder's threads in a process have names of their own; a main thread is the program's. */
static bool is_recorder_thread(pid_t pid, uint64_t tid)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char name[64];

	snprintf(name, sizeof(name), "task/%llu/comm", (unsigned long long)tid);
	return tid != (uint64_t)pid && io_process_text(pid, name, 64, &text) >= 0 &&
	       (!strcmp(strbuf_text(&text), "pitot") || starts_with(strbuf_text(&text), "pitot-"));
}

/* What the program's threads in a process waited since the last reading; false: unknown. */
static bool process_wait_ns(struct run_queues *q, pid_t pid, uint64_t *out)
{
	_cleanup_list_ DIR *tasks = folder_list_process(pid, "task");
	uint64_t before;
	bool known = false;
	const char *name;

	*out = 0;
	while (tasks && (name = folder_next(tasks))) {
		uint64_t *last, wait_ns, tid = strtoull(name, NULL, 10);

		if ((wait_ns = thread_wait_ns(pid, name)) == UINT64_MAX)
			continue;
		last = q->wait_ns.count < THREADS_MAX || map_get(&q->wait_ns, tid, &before)
			       ? map_at(&q->wait_ns, tid, 0)
			       : NULL;
		if (!last)
			continue;
		if (wait_ns != *last && !is_recorder_thread(pid, tid))
			*out += wait_ns - (*last <= wait_ns ? *last : 0); /* less: id reused */
		*last = wait_ns;
		known = true;
	}
	return known;
}

/* --- control groups --- */

/* Appends the cpu.stat of the group that limits a process. `line`: "4:cpu,cpuacct:/a", "0::/a" */
static bool add_group_path(const char *line, size_t length, struct strbuf *out)
{
	static const char *const mounts[] = { "", "/unified" };
	const char *names = memchr(line, ':', length), *end = line + length;
	const char *path = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
	bool version_1 = false;

	if (!path)
		return false;
	for (const char *p = names + 1; p < path; p++)
		version_1 |= (p[-1] == ':' || p[-1] == ',') && !strncmp(p, "cpu", 3) &&
			     (p[3] == ',' || p[3] == ':');
	if (!version_1 && path != names + 1)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		strbuf_clear(out);
		strbuf_addf(out, "/sys/fs/cgroup%s", version_1 ? "/cpu" : mounts[i]);
		strbuf_add(out, path + 1, (size_t)(end - path - 1));
		strbuf_adds(out, "/cpu.stat");
		if (!access(strbuf_text(out), R_OK))
			return true;
	}
	return false;
}

/* How long the group was throttled so far; false: it has no quota, or that is unknown. */
static bool read_throttled(const char *path, uint64_t *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t us;

	if (io_read_text(path, 4096, &text) < 0)
		return false;
	us = number_after(strbuf_text(&text), "throttled_usec");
	*out = us == UINT64_MAX ? number_after(strbuf_text(&text), "throttled_time")
				: us * NS_PER_US;
	return *out != UINT64_MAX;
}

/* A group that was not known before is limited from now on. */
static struct throttled_group *find_group(struct run_queues *q, const char *path,
					  uint64_t throttled_ns)
{
	struct throttled_group group = { NULL, throttled_ns, throttled_ns };

	for (size_t i = 0; i < q->groups.count; i++)
		if (!strcmp(q->groups.data[i].path, path))
			return &q->groups.data[i];
	if (q->groups.count >= GROUPS_MAX || !(group.path = strdup(path)))
		return NULL;
	if (vec_push(&q->groups, group) < 0) {
		free(group.path);
		return NULL;
	}
	return &q->groups.data[q->groups.count - 1];
}

/* For how long the group of a process has been throttled since the last reading. */
static bool process_throttled_ns(struct run_queues *q, pid_t pid, uint64_t *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, path = STRBUF_INIT;
	struct throttled_group *group;
	uint64_t now_ns;

	if (io_process_text(pid, "cgroup", STAT_BYTES, &text) < 0)
		return false;
	for (const char *line = strbuf_text(&text); *line; line += strcspn(line, "\n")) {
		line += *line == '\n';
		if (!add_group_path(line, strcspn(line, "\n"), &path) ||
		    !read_throttled(strbuf_text(&path), &now_ns))
			continue;
		group = find_group(q, strbuf_text(&path), now_ns);
		if (!group)
			return false;
		group->next_ns = now_ns;
		*out = now_ns - MIN(group->throttled_ns, now_ns);
		return true;
	}
	return false;
}

/* After all processes have been read, as several of them may share a group. */
static void advance_groups(struct run_queues *q)
{
	for (size_t i = 0; i < q->groups.count; i++)
		q->groups.data[i].throttled_ns = q->groups.data[i].next_ns;
}

/* --- the machine --- */

static uint64_t read_stolen_ns(void)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	unsigned long long ticks;

	if (io_read_text("/proc/stat", 512, &text) < 0 ||
	    sscanf(strbuf_text(&text), "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		return 0;
	return ticks * (NS_PER_S / (uint64_t)MAX(sysconf(_SC_CLK_TCK), 1L));
}

static void write_row(struct run_queues *q, struct writer *w, uint64_t now, pid_t pid,
		      uint64_t wait_ns, const uint64_t *throttled_ns)
{
	struct row_run_queue row = { .start_ns = q->read_ns,
				     .end_ns = now,
				     .pid = (uint32_t)pid,
				     .wait_ns = wait_ns,
				     .throttled_ns = throttled_ns ? *throttled_ns : 0 };

	if (!throttled_ns)
		ROW_MISSING(&row, run_queue, throttled_ns);
	writer_append(w, TABLE_run_queue, &row);
}

void run_queues_read(struct run_queues *q, struct writer *w, const pid_t *pids, size_t count)
{
	uint64_t begun = clock_read_ns(CLOCK_THREAD_CPUTIME_ID), now = clock_monotonic_ns();
	uint64_t stolen = read_stolen_ns(), wait_ns, throttled_ns;

	for (size_t i = 0; i < count; i++) {
		bool limited;

		if (!process_wait_ns(q, pids[i], &wait_ns))
			continue;
		limited = process_throttled_ns(q, pids[i], &throttled_ns);
		if (w && (wait_ns || (limited && throttled_ns)))
			write_row(q, w, now, pids[i], wait_ns, limited ? &throttled_ns : NULL);
	}
	advance_groups(q);
	if (w && stolen > q->stolen_ns)
		write_row(q, w, now, 0, stolen - q->stolen_ns, NULL);
	q->stolen_ns = stolen;
	q->read_ns = now;
	q->rest_ns = (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begun) * REST_FACTOR;
}

bool run_queues_are_due(const struct run_queues *q)
{
	return clock_monotonic_ns() - q->read_ns >= q->rest_ns;
}

void run_queues_init(struct run_queues *q, const pid_t *pids, size_t count)
{
	*q = (struct run_queues){ 0 };
	run_queues_read(q, NULL, pids, count);
}

void run_queues_release(struct run_queues *q)
{
	for (size_t i = 0; i < q->groups.count; i++)
		free(q->groups.data[i].path);
	vec_release(&q->groups);
	map_release(&q->wait_ns);
}
