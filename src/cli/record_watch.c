/* record_watch.c: the tree of processes below `pitot record`, from /proc. */
#include "cli/record_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "cli/checks.h"

#define RUNNING_MAX 65536u /* further processes are not followed */
#define COMMAND_MAX 8192 /* bytes of a command line that are kept */
#define YOUNG_NS (2 * NS_PER_S) /* so long a process is looked at again each time: it may exec */
#define REST_FACTOR 100 /* looking takes at most this part of the time */
#define LOOK_ALL_NS (2 * NS_PER_S) /* at least so often everything is looked at */

struct watched {
	pid_t pid, parent;
	uint64_t start_ticks; /* since boot: tells a process from a later one with its id */
	uint64_t born_ns; /* start of its first image */
	uint64_t start_ns; /* of this image */
	uint64_t seen_ns;
	uint64_t image_ns; /* when command line and executable were read last */
	uint64_t look; /* number of the last look that found it */
	uint64_t image; /* hash of command line and executable */
	uid_t uid;
	char *command, *executable, *directory;
};

struct pid_list {
	pid_t *data;
	size_t count, capacity;
};

struct watch {
	struct writer *writer;
	VEC(struct watched) running;
	struct map by_pid; /* index in running */
	uint64_t looks, looked_ns, boot_offset_ns;
	uint64_t rest_ns; /* not before so long after the last look */
	uint64_t young_ns; /* until then some process is young */
	char last_pid[16]; /* of /proc/loadavg at the last look */
	char host[256], boot_id[64];
	bool can_follow;
	bool blind; /* /proc is of other processes */
};

/* The first bytes of a file of /proc, terminated. Returns the length, 0 when it cannot be read. */
static size_t read_start(const char *path, char *buffer, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;
	size_t length = 0;

	while (fd >= 0 && length < size - 1) {
		n = read(fd, buffer + length, size - 1 - length);
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	buffer[length] = '\0';
	return length;
}

static char *read_link(pid_t pid, const char *name)
{
	char path[64], target[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = readlink(path, target, sizeof(target) - 1);
	return strndup(target, n > 0 ? (size_t)n : 0);
}

/* Arguments with blanks between them; what cannot be said in one line is left to the reader of the bytes. */
static char *read_command(pid_t pid)
{
	char path[64], text[COMMAND_MAX];
	size_t length;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	length = read_start(path, text, sizeof(text));
	while (length && !text[length - 1])
		length--;
	for (size_t i = 0; i < length; i++) {
		if (!text[i])
			text[i] = ' ';
	}
	return strndup(text, length);
}

/* false when the process is gone. */
static bool read_stat(pid_t pid, pid_t *parent, uint64_t *start_ticks, char *state)
{
	char path[64], text[1024], *p;
	unsigned long long ticks;
	int ppid;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (!read_start(path, text, sizeof(text)))
		return false;
	p = strrchr(text, ')'); /* the name before may hold anything */
	if (!p || sscanf(p + 1,
			 " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
			 "%*d %llu",
			 state, &ppid, &ticks) != 3)
		return false;
	*parent = ppid;
	*start_ticks = ticks;
	return true;
}

static uid_t read_uid(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &st) < 0 ? 0 : st.st_uid;
}

static void release(struct watched *p)
{
	free(p->command);
	free(p->executable);
	free(p->directory);
}

static uint32_t string_id(struct watch *watch, const char *text)
{
	return writer_string(watch->writer, text, text ? strlen(text) : 0);
}

static void write_row(struct watch *watch, const struct watched *p, uint64_t end_ns, int status)
{
	struct row_process row = {
		.pid = (uint32_t)p->pid,
		.parent_pid = (uint32_t)p->parent,
		.start_ns = p->start_ns,
		.end_ns = end_ns,
		.command = string_id(watch, p->command),
		.executable = string_id(watch, p->executable),
		.directory = string_id(watch, p->directory),
		.host = string_id(watch, watch->host),
		.boot_id = string_id(watch, watch->boot_id),
		.uid = p->uid,
		.source = process_source_record,
		.exit_status = status,
	};

	if (!end_ns) {
		ROW_MISSING(&row, process, end_ns);
		ROW_MISSING(&row, process, exit_status);
	}
	writer_append(watch->writer, TABLE_process, &row);
}

static void read_image(struct watched *p)
{
	release(p);
	p->image_ns = clock_monotonic_ns();
	p->command = read_command(p->pid);
	p->executable = read_link(p->pid, "exe");
	p->directory = read_link(p->pid, "cwd");
	p->uid = read_uid(p->pid);
	p->image = hash_bytes(p->command ? p->command : "", p->command ? strlen(p->command) : 0) ^
		   hash_u64(hash_bytes(p->executable ? p->executable : "",
				       p->executable ? strlen(p->executable) : 0));
}

static struct watched *find(struct watch *watch, pid_t pid)
{
	uint64_t index;

	return map_get(&watch->by_pid, (uint64_t)pid, &index) && index < watch->running.count &&
			       watch->running.data[index].pid == pid
		       ? &watch->running.data[index]
		       : NULL;
}

static void forget(struct watch *watch, struct watched *p)
{
	size_t index = (size_t)(p - watch->running.data);

	release(p);
	*p = watch->running.data[--watch->running.count];
	if (index < watch->running.count)
		*map_at(&watch->by_pid, (uint64_t)p->pid, 0) = index;
}

static struct watched *add(struct watch *watch, pid_t pid, pid_t parent, uint64_t start_ticks,
			   uint64_t start_ns)
{
	struct watched *p, new = {
		.pid = pid,
		.parent = parent,
		.start_ticks = start_ticks,
		.born_ns = start_ns,
		.start_ns = start_ns,
		.seen_ns = clock_monotonic_ns(),
		.look = watch->looks,
	};

	if (watch->running.count >= RUNNING_MAX ||
	    map_put(&watch->by_pid, (uint64_t)pid, watch->running.count) < 0 ||
	    vec_push(&watch->running, new) < 0)
		return NULL;
	p = &watch->running.data[watch->running.count - 1];
	read_image(p);
	write_row(watch, p, 0, 0);
	watch->young_ns = p->seen_ns + YOUNG_NS;
	return p;
}

/* A process may have become another program since. */
static void look_at_image(struct watch *watch, struct watched *p)
{
	uint64_t old = p->image, now = clock_monotonic_ns();

	read_image(p);
	if (p->image == old || !p->command || !*p->command)
		return;
	p->start_ns = now;
	p->seen_ns = now;
	watch->young_ns = now + YOUNG_NS;
	write_row(watch, p, 0, 0);
}

/* /proc rounds down to a tick (10 ms), which may be before the parent began. */
static uint64_t start_of(struct watch *watch, pid_t parent_pid, uint64_t ticks)
{
	uint64_t tick_ns = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start_ns = ticks * tick_ns - watch->boot_offset_ns;
	const struct watched *parent = find(watch, parent_pid);

	return parent ? MAX(start_ns, parent->born_ns) : start_ns;
}

static void look_at(struct watch *watch, pid_t pid)
{
	struct watched *p = find(watch, pid);
	uint64_t ticks, now;
	pid_t parent;
	char state;

	if (!read_stat(pid, &parent, &ticks, &state))
		return;
	if (p && p->start_ticks &&
	    p->start_ticks != ticks) { /* its id was given to another process */
		forget(watch, p);
		p = NULL;
	}
	if (!p && state != 'Z')
		add(watch, pid, parent, ticks, start_of(watch, parent, ticks));
	if (!p)
		return;
	p->start_ticks = ticks;
	p->look = watch->looks;
	if (state == 'Z') /* until its parent asks how it ended */
		return;
	now = clock_monotonic_ns();
	if (now - p->seen_ns < YOUNG_NS || now - p->image_ns >= LOOK_ALL_NS)
		look_at_image(watch, p);
}

/* Appends the children of all threads of a process. */
static void add_children(pid_t pid, struct pid_list *pids)
{
	char path[96], text[16384], *end, *p;
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid,
			 entry->d_name);
		read_start(path, text, sizeof(text));
		for (p = text; *p; p = end) {
			long child = strtol(p, &end, 10);

			if (end == p || pids->count >= RUNNING_MAX ||
			    vec_push(pids, (pid_t)child) < 0)
				break;
		}
	}
	closedir(tasks);
}

/* Whether the kernel has given out a process or thread id since the last look. */
static bool something_started(struct watch *watch)
{
	char text[128], *last;

	if (!read_start("/proc/loadavg", text, sizeof(text)))
		return true;
	last = strrchr(text, ' ');
	if (!last || !strncmp(last, watch->last_pid, sizeof(watch->last_pid) - 1))
		return !last;
	snprintf(watch->last_pid, sizeof(watch->last_pid), "%s", last);
	return true;
}

static bool is_due(struct watch *watch, uint64_t now)
{
	if (now - watch->looked_ns < watch->rest_ns)
		return false;
	return something_started(watch) || now < watch->young_ns ||
	       now - watch->looked_ns >= LOOK_ALL_NS;
}

bool watch_look(struct watch *watch, bool at_once)
{
	struct pid_list pids = VEC_INIT;
	uint64_t cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

	if (watch->blind)
		return false;
	if (!at_once && !is_due(watch, clock_monotonic_ns()))
		return false;
	watch->looks++;
	add_children(getpid(), &pids);
	for (size_t i = 0; i < pids.count; i++) {
		look_at(watch, pids.data[i]);
		add_children(pids.data[i], &pids);
	}
	vec_release(&pids);
	for (size_t i = watch->running.count; i-- > 0;) {
		if (watch->running.data[i].look != watch->looks)
			forget(watch, &watch->running.data[i]);
	}
	watch->looked_ns = clock_monotonic_ns();
	watch->rest_ns = (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) * REST_FACTOR;
	return true;
}

void watch_command(struct watch *watch, pid_t pid, uint64_t start_ns)
{
	uint64_t ticks = 0;
	pid_t parent = getpid();
	char state;

	if (watch->blind)
		return;
	read_stat(pid, &parent, &ticks, &state);
	add(watch, pid, parent, ticks, start_ns);
}

void watch_ended(struct watch *watch, pid_t pid, int status)
{
	struct watched *p = find(watch, pid);

	if (!p)
		return;
	write_row(watch, p, clock_monotonic_ns(), status);
	forget(watch, p);
}

struct watch *watch_new(struct writer *w)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	char path[64];

	if (!watch)
		return NULL;
	watch->writer = w;
	watch->boot_offset_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_monotonic_ns();
	gethostname(watch->host, sizeof(watch->host) - 1);
	read_start("/proc/sys/kernel/random/boot_id", watch->boot_id, sizeof(watch->boot_id));
	watch->boot_id[strcspn(watch->boot_id, "\n")] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
	watch->blind = checks_foreign_proc();
	watch->can_follow = !watch->blind && access(path, R_OK) == 0;
	return watch;
}

void watch_free(struct watch *watch)
{
	if (!watch)
		return;
	while (watch->running.count)
		forget(watch, &watch->running.data[watch->running.count - 1]);
	vec_release(&watch->running);
	map_release(&watch->by_pid);
	free(watch);
}

size_t watch_running(const struct watch *watch)
{
	return watch->running.count;
}

bool watch_can_follow(const struct watch *watch)
{
	return watch->can_follow;
}
