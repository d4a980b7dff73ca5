/* process_tree.c: reads the process tree below `pitot record` from /proc. */
#include "record/process_tree.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "format/rows.h"
#include "record/checks.h"
#include "record/run_queues.h"
#include "system/free_memory.h"
#include "system/job_rank.h"

#define RUNNING_MAX 65536u /* further processes are not followed */
#define COMMAND_MAX 8192 /* bytes; longer command lines are cut */
#define CHILDREN_MAX 16384 /* bytes of a list of children */
#define YOUNG_NS (2 * NS_PER_S) /* younger processes may exec, and are read at each scan */
#define REST_FACTOR 100 /* scans take at most 1/REST_FACTOR of the time */
#define SCAN_ALL_NS (2 * NS_PER_S) /* everything is read at least this often */

struct member {
	pid_t pid, parent;
	uint64_t start_ticks; /* since boot; detects that the pid was reused */
	uint64_t born_ns; /* start of its first image */
	uint64_t start_ns; /* of this image */
	uint64_t seen_ns;
	uint64_t image_ns; /* last time that command line and executable were read */
	uint64_t scan; /* number of the last scan that found it */
	uint64_t image; /* hash of command line and executable */
	uid_t uid;
	char *command, *executable, *directory;
	struct job_rank rank;
};

struct pid_list {
	pid_t *data;
	size_t count, capacity;
};

struct process_tree {
	struct writer *writer;
	VEC(struct member) running;
	struct map by_pid; /* index in running */
	struct pid_list roots; /* empty: this process's children */
	struct pid_list left_out; /* sessions */
	uint64_t scans, scanned_ns, boot_offset_ns;
	uint64_t rest_ns; /* pause after the last scan */
	uint64_t young_ns; /* time at which the last young process stops being young */
	char last_pid[16]; /* last pid in /proc/loadavg at the last scan */
	char host[256], boot_id[64];
	struct run_queues queues;
	uint64_t oom_kills; /* of our control group, whose processes are known or were before us */
	bool can_follow;
	bool foreign_proc; /* /proc belongs to another pid namespace */
};

static char *read_link(pid_t pid, const char *name)
{
	char path[64], target[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = readlink(path, target, sizeof(target) - 1);
	return strndup(target, n > 0 ? (size_t)n : 0);
}

/* Reads a command line, with its arguments joined by blanks. */
static char *read_command(pid_t pid)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	io_process_text(pid, "cmdline", COMMAND_MAX - 1, &text);
	return strndup(strbuf_text(&text), text.length);
}

static uid_t read_uid(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) < 0 ? 0 : st.st_uid;
}

static void release(struct member *p)
{
	free(p->command);
	free(p->executable);
	free(p->directory);
}

static void write_row(struct process_tree *tree, const struct member *p, uint64_t end_ns,
		      int status, bool is_oom)
{
	struct row_process row = {
		.pid = (uint32_t)p->pid,
		.parent_pid = (uint32_t)p->parent,
		.start_ns = p->start_ns,
		.end_ns = end_ns,
		.command = rows_text(tree->writer, p->command),
		.executable = rows_text(tree->writer, p->executable),
		.directory = rows_text(tree->writer, p->directory),
		.host = rows_text(tree->writer, tree->host),
		.boot_id = rows_text(tree->writer, tree->boot_id),
		.uid = p->uid,
		.source = process_source_record,
		.exit_status = status,
		.oom_killed = is_oom,
	};

	job_rank_columns(tree->writer, &p->rank, &row);
	if (!end_ns) {
		ROW_MISSING(&row, process, end_ns, exit_status);
	}
	ROW_MISSING_IF(&row, process, oom_killed, !is_oom);
	writer_append(tree->writer, TABLE_process, &row);
}

static void read_image(struct member *p)
{
	release(p);
	p->image_ns = clock_monotonic_ns();
	p->command = read_command(p->pid);
	p->executable = read_link(p->pid, "exe");
	p->directory = read_link(p->pid, "cwd");
	p->uid = read_uid(p->pid);
	job_rank_read_process(&p->rank, p->pid);
	p->image = hash_bytes(p->command ? p->command : "", p->command ? strlen(p->command) : 0) ^
		   hash_u64(hash_bytes(p->executable ? p->executable : "",
				       p->executable ? strlen(p->executable) : 0));
}

static struct member *find(struct process_tree *tree, pid_t pid)
{
	uint64_t index;

	return map_get(&tree->by_pid, (uint64_t)pid, &index) && index < tree->running.count &&
			       tree->running.data[index].pid == pid
		       ? &tree->running.data[index]
		       : NULL;
}

static void forget(struct process_tree *tree, struct member *p)
{
	size_t index = (size_t)(p - tree->running.data);

	release(p);
	*p = tree->running.data[--tree->running.count];
	if (index < tree->running.count)
		*map_at(&tree->by_pid, (uint64_t)p->pid, 0) = index;
}

/* Joins argv, for a process that ended before /proc was read. */
static char *join(char **argv)
{
	struct strbuf text = STRBUF_INIT;

	for (; *argv && text.length < COMMAND_MAX; argv++)
		strbuf_addf(&text, "%s%s", text.length ? " " : "", *argv);
	return text.data;
}

static struct member *add(struct process_tree *tree, pid_t pid, pid_t parent, uint64_t start_ticks,
			  uint64_t start_ns, char **argv)
{
	struct member *p, new = {
		.pid = pid,
		.parent = parent,
		.start_ticks = start_ticks,
		.born_ns = start_ns,
		.start_ns = start_ns,
		.seen_ns = clock_monotonic_ns(),
		.scan = tree->scans,
	};

	if (tree->running.count >= RUNNING_MAX ||
	    map_put(&tree->by_pid, (uint64_t)pid, tree->running.count) < 0 ||
	    vec_push(&tree->running, new) < 0)
		return NULL;
	p = &tree->running.data[tree->running.count - 1];
	read_image(p);
	if (argv && p->command && !*p->command) {
		free(p->command);
		p->command = join(argv);
	}
	write_row(tree, p, 0, 0, false);
	tree->young_ns = p->seen_ns + YOUNG_NS;
	return p;
}

/* Writes a row if the process has executed another program. */
static void update_image(struct process_tree *tree, struct member *p)
{
	uint64_t old = p->image, now = clock_monotonic_ns();

	read_image(p);
	if (p->image == old || !p->command || !*p->command)
		return;
	p->start_ns = now;
	p->seen_ns = now;
	tree->young_ns = now + YOUNG_NS;
	write_row(tree, p, 0, 0, false);
}

/*
 * Converts the start in /proc, which is rounded down to a tick (10 ms), but not before the
 * parent's.
 */
static uint64_t start_of(struct process_tree *tree, pid_t parent_pid, uint64_t ticks)
{
	uint64_t tick_ns = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start_ns = ticks * tick_ns - tree->boot_offset_ns;
	const struct member *parent = find(tree, parent_pid);

	return parent ? MAX(start_ns, parent->born_ns) : start_ns;
}

static bool is_left_out(const struct process_tree *tree, pid_t session)
{
	for (size_t i = 0; i < tree->left_out.count; i++)
		if (tree->left_out.data[i] == session)
			return true;
	return false;
}

/* Returns whether its children belong to the tree. */
static bool scan_process(struct process_tree *tree, pid_t pid)
{
	struct member *p = find(tree, pid);
	struct process_stat stat;
	uint64_t now;

	if (!io_process_stat(pid, &stat))
		return true;
	if (is_left_out(tree, stat.session))
		return false;
	if (p && p->start_ticks && p->start_ticks != stat.start_ticks) { /* the pid was reused */
		forget(tree, p);
		p = NULL;
	}
	if (!p && stat.state != 'Z')
		add(tree, pid, stat.parent, stat.start_ticks,
		    start_of(tree, stat.parent, stat.start_ticks), NULL);
	if (!p)
		return true;
	p->start_ticks = stat.start_ticks;
	p->scan = tree->scans;
	if (stat.state == 'Z') /* a zombie, until its parent waits for it */
		return true;
	now = clock_monotonic_ns();
	if (now - p->seen_ns < YOUNG_NS || now - p->image_ns >= SCAN_ALL_NS)
		update_image(tree, p);
	return true;
}

/* Appends the children of all threads of a process. */
static void add_children(pid_t pid, struct pid_list *pids)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_list_ DIR *tasks = folder_list_process(pid, "task");
	char name[64], *end;
	const char *task;

	while (tasks && (task = folder_next(tasks))) {
		snprintf(name, sizeof(name), "task/%.20s/children", task);
		strbuf_clear(&text);
		io_process_text(pid, name, CHILDREN_MAX, &text);
		for (const char *p = strbuf_text(&text); *p; p = end) {
			long child = strtol(p, &end, 10);

			if (end == p || pids->count >= RUNNING_MAX ||
			    vec_push(pids, (pid_t)child) < 0)
				break;
		}
	}
}

/* Whether the kernel has assigned a process or thread id since the last scan. */
static bool something_started(struct process_tree *tree)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *last;

	if (io_read_text("/proc/loadavg", 128, &text) < 0)
		return true;
	last = strrchr(strbuf_text(&text), ' ');
	if (!last || !strncmp(last, tree->last_pid, sizeof(tree->last_pid) - 1))
		return !last;
	snprintf(tree->last_pid, sizeof(tree->last_pid), "%s", last);
	return true;
}

static bool is_due(struct process_tree *tree, uint64_t now)
{
	if (now - tree->scanned_ns < tree->rest_ns)
		return false;
	return something_started(tree) || now < tree->young_ns ||
	       now - tree->scanned_ns >= SCAN_ALL_NS;
}

/* Adds the roots of a scan, without those that have ended, whose pids may have been reused. */
static void add_roots(struct process_tree *tree, struct pid_list *pids)
{
	if (!tree->roots.count)
		add_children(getpid(), pids);
	for (size_t i = 0; i < tree->roots.count; i++)
		if (find(tree, tree->roots.data[i]))
			(void)!vec_push(pids, tree->roots.data[i]);
}

void process_tree_scan(struct process_tree *tree, bool at_once)
{
	struct pid_list pids = VEC_INIT;
	uint64_t cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

	if (tree->foreign_proc)
		return;
	if (!at_once && !is_due(tree, clock_monotonic_ns()))
		return;
	tree->scans++;
	add_roots(tree, &pids);
	for (size_t i = 0; i < pids.count; i++) {
		if (scan_process(tree, pids.data[i]))
			add_children(pids.data[i], &pids);
	}
	vec_release(&pids);
	for (size_t i = tree->running.count; i-- > 0;) {
		if (tree->running.data[i].scan != tree->scans)
			forget(tree, &tree->running.data[i]);
	}
	tree->scanned_ns = clock_monotonic_ns();
	tree->rest_ns = (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) * REST_FACTOR;
}

void process_tree_add_command(struct process_tree *tree, pid_t pid, char **argv, uint64_t start_ns)
{
	struct process_stat stat = { .parent = getpid() };

	if (tree->foreign_proc)
		return;
	io_process_stat(pid, &stat);
	add(tree, pid, stat.parent, stat.start_ticks, start_ns, argv);
}

static void pids_of_running(const struct process_tree *tree, struct pid_list *out)
{
	for (size_t i = 0; i < tree->running.count; i++)
		if (vec_push(out, tree->running.data[i].pid) < 0)
			return;
}

void process_tree_read_queues(struct process_tree *tree)
{
	struct pid_list pids = VEC_INIT;

	if (tree->foreign_proc || !run_queues_are_due(&tree->queues))
		return;
	pids_of_running(tree, &pids);
	run_queues_read(&tree->queues, tree->writer, pids.data, pids.count);
	vec_release(&pids);
}

void process_tree_add_root(struct process_tree *tree, pid_t pid, uint64_t start_ns)
{
	struct pid_list pids = VEC_INIT;

	if (vec_push(&tree->roots, pid) < 0)
		return;
	process_tree_add_command(tree, pid, NULL, start_ns);
	process_tree_scan(tree, true);
	pids_of_running(tree, &pids);
	run_queues_read(&tree->queues, NULL, pids.data, pids.count);
	vec_release(&pids);
}

void process_tree_leave_out(struct process_tree *tree, pid_t session)
{
	(void)!vec_push(&tree->left_out, session);
}

/* Each kill that the kernel has counted is the end of one process. */
static bool is_oom_killed(struct process_tree *tree, int status)
{
	uint64_t kills = 0;
	bool is_oom =
		status == 128 + SIGKILL && memory_oom_kills("", &kills) && kills > tree->oom_kills;

	tree->oom_kills += is_oom;
	return is_oom;
}

bool process_tree_ended(struct process_tree *tree, pid_t pid, int status)
{
	struct member *p = find(tree, pid);
	bool is_oom = is_oom_killed(tree, status);

	if (!p)
		return is_oom;
	write_row(tree, p, clock_monotonic_ns(), status, is_oom);
	forget(tree, p);
	return is_oom;
}

struct process_tree *process_tree_new(struct writer *w)
{
	struct process_tree *tree = calloc(1, sizeof(*tree));
	_cleanup_strbuf_ struct strbuf boot_id = STRBUF_INIT;
	char path[64];

	if (!tree)
		return NULL;
	tree->writer = w;
	run_queues_init(&tree->queues, NULL, 0);
	(void)!memory_oom_kills("", &tree->oom_kills);
	tree->boot_offset_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_monotonic_ns();
	gethostname(tree->host, sizeof(tree->host) - 1);
	io_read_text("/proc/sys/kernel/random/boot_id", sizeof(tree->boot_id), &boot_id);
	snprintf(tree->boot_id, sizeof(tree->boot_id), "%s", strbuf_text(&boot_id));
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
	tree->foreign_proc = checks_foreign_proc();
	tree->can_follow = !tree->foreign_proc && access(path, R_OK) == 0;
	return tree;
}

void process_tree_free(struct process_tree *tree)
{
	if (!tree)
		return;
	while (tree->running.count)
		forget(tree, &tree->running.data[tree->running.count - 1]);
	run_queues_release(&tree->queues);
	vec_release(&tree->running);
	vec_release(&tree->roots);
	vec_release(&tree->left_out);
	map_release(&tree->by_pid);
	free(tree);
}

size_t process_tree_running(const struct process_tree *tree)
{
	return tree->running.count;
}

bool process_tree_is_complete(const struct process_tree *tree)
{
	return tree->can_follow;
}
