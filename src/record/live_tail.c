#include "record/live_tail.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "base/options.h"
#include "base/path.h"
#include "recover/recover.h"

#define RECORDER_THREAD "pitot" /* the writer's name */
#define MEMORY_LINK "/memfd:pitot (deleted)"
#define SEGMENT_LINK "/memfd:pitot segment (deleted)"
#define MAPS_BYTES ((size_t)16 << 20)
/* The process may be another user's, and hostile. */
#define TAIL_BYTES_MAX ((size_t)256 << 20)
#define TAIL_ROWS_MAX ((uint64_t)1 << 24)

/* --- descriptors of others --- */

static DIR *open_list(const char *path)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);

	return folder < 0 ? NULL : folder_list(folder);
}

static bool is_number(const char *name)
{
	uint64_t number;

	return parse_u64(name, &number) == 0 && number <= INT_MAX;
}

/* Sets *link to what a descriptor is. */
static bool read_link(const char *path, char link[PATH_MAX])
{
	ssize_t n = readlink(path, link, PATH_MAX - 1);

	link[MAX(n, 0)] = '\0';
	return n > 0;
}

static bool is_named(const char *folder, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[128];

	snprintf(path, sizeof(path), "%s/comm", folder);
	return io_read_text(path, 64, &text) == 0 && strcmp(strbuf_text(&text), name) == 0;
}

/* --- the segment --- */

/* Of several recordings of the process the one that began last has the most rows to come. */
static void consider_segment(struct live_tail *t, const char *path, const char *link)
{
	struct segment s;

	if (!has_suffix(link, SEGMENT_SUFFIX) && !has_suffix(link, SEGMENT_SUFFIX " (deleted)") &&
	    strcmp(link, SEGMENT_LINK) != 0)
		return;
	if (segment_open(path, &s, NULL) < 0)
		return;
	if (s.closed || (t->segment.path &&
			 t->segment.header.start_monotonic_ns >= s.header.start_monotonic_ns)) {
		segment_release(&s);
		return;
	}
	if (t->segment.path)
		segment_release(&t->segment);
	t->segment = s;
}

static int find_segment(struct live_tail *t, pid_t pid)
{
	char path[64], link[PATH_MAX];
	const char *task, *fd;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	_cleanup_list_ DIR *tasks = open_list(path);

	while (tasks && (task = folder_next(tasks))) {
		char folder[96], file[128];

		snprintf(folder, sizeof(folder), "/proc/%d/task/%.16s", (int)pid, task);
		if (!is_number(task) || !is_named(folder, RECORDER_THREAD))
			continue;
		snprintf(file, sizeof(file), "%s/fd", folder);
		_cleanup_list_ DIR *fds = open_list(file);

		while (fds && (fd = folder_next(fds))) {
			snprintf(file, sizeof(file), "%s/fd/%.16s", folder, fd);
			if (read_link(file, link))
				consider_segment(t, file, link);
		}
	}
	return !tasks ? -errno : t->segment.path ? 0 : -ESRCH;
}

/* --- the memory --- */

/* The inode of the memory that the process has mapped; 0: it has none. */
static uint64_t mapped_inode(pid_t pid)
{
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	const char *name;
	unsigned long long inode = 0;

	if (io_process_text(pid, "maps", MAPS_BYTES, &maps) < 0)
		return 0;
	name = strstr(strbuf_text(&maps), MEMORY_LINK);
	while (name && name > maps.data && name[-1] != '\n')
		name--;
	if (name)
		sscanf(name, "%*s %*s %*s %*s %llu", &inode);
	return inode;
}

static int open_memory_of(const char *launcher, uint64_t inode)
{
	char path[64], link[PATH_MAX];
	const char *fd;

	snprintf(path, sizeof(path), "/proc/%.16s/fd", launcher);
	_cleanup_list_ DIR *fds = open_list(path);

	while (fds && (fd = folder_next(fds))) {
		struct stat st;
		int memory;

		snprintf(path, sizeof(path), "/proc/%.16s/fd/%.16s", launcher, fd);
		if (!read_link(path, link) || strcmp(link, MEMORY_LINK) != 0)
			continue;
		memory = io_open_file(path, &st);
		if (memory >= 0 && st.st_ino == inode && recover_is_area(memory))
			return memory;
		if (memory >= 0)
			close(memory);
	}
	return -1;
}

/* Whoever records has the memory open: `pitot record`, or a `pitot top`. */
static int find_memory(pid_t pid)
{
	_cleanup_list_ DIR *processes = open_list("/proc");
	uint64_t inode = mapped_inode(pid);
	const char *name;
	int memory = -1;

	while (inode && memory < 0 && processes && (name = folder_next(processes))) {
		char folder[64];

		snprintf(folder, sizeof(folder), "/proc/%.16s", name);
		if (is_number(name) && is_named(folder, "pitot"))
			memory = open_memory_of(name, inode);
	}
	return memory;
}

int live_tail_open(struct live_tail *t, pid_t pid)
{
	int rc;

	*t = (struct live_tail){ .memory = -1 };
	rc = find_segment(t, pid);
	if (rc == 0)
		t->memory = find_memory(pid);
	return rc;
}

void live_tail_release(struct live_tail *t)
{
	if (t->segment.path)
		segment_release(&t->segment);
	if (t->memory >= 0)
		close(t->memory);
	*t = (struct live_tail){ .memory = -1 };
}

/* --- the copy --- */

static bool is_wanted(const struct block_ref *b, uint64_t since_ns)
{
	const struct table_schema *table = schema_table(b->header.table);

	return table && (table->repeated != REPEAT_NEVER || b->header.end_ns >= since_ns);
}

static int copy_bytes(const struct segment *s, uint64_t offset, size_t size, int to)
{
	_cleanup_free_ uint8_t *bytes = malloc(size);

	if (!bytes)
		return -ENOMEM;
	/* A block that the process is replacing is damaged for whoever reads the copy. */
	return segment_read(s, offset, bytes, size) ? io_write_all(to, bytes, size) : -ESRCH;
}

static int copy_segment(const struct segment *s, uint64_t since_ns, int folder)
{
	_cleanup_close_ int to = -1;
	size_t copied = 0;
	uint64_t rows = 0;
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "%u.0" SEGMENT_SUFFIX, s->header.pid);
	to = folder_create_file(folder, name);
	rc = to < 0 ? to : copy_bytes(s, 0, sizeof(s->header), to);
	for (size_t i = 0; i < s->block_count && rc == 0; i++) {
		const struct block_ref *b = &s->blocks[i];
		size_t size = sizeof(b->header) + (size_t)b->header.payload_bytes;

		if (!is_wanted(b, since_ns))
			continue;
		copied += size;
		rows += b->header.rows;
		rc = copied > TAIL_BYTES_MAX || rows > TAIL_ROWS_MAX
			     ? E_LIMIT
			     : copy_bytes(s, b->offset, size, to);
	}
	return rc;
}

/* The start of the last GPU work; 0: there is none. */
static uint64_t last_work(const struct segment *s)
{
	uint64_t last_ns = 0;

	for (size_t i = 0; i < s->block_count; i++)
		for (size_t k = 0; k < GPU_WORK_KINDS; k++)
			if (s->blocks[i].header.table == schema_gpu_work[k]->id)
				last_ns = MAX(last_ns, s->blocks[i].header.end_ns);
	return last_ns;
}

int live_tail_copy(struct live_tail *t, uint64_t window_ns, const char *directory,
		   const struct folder_id *id, uint64_t *end_ns, struct error *e)
{
	_cleanup_close_ int folder = folder_open_known(directory, id);
	int rc = folder < 0 ? folder : segment_refresh(&t->segment, e);
	uint64_t last_ns = last_work(&t->segment);

	if (rc >= 0)
		rc = t->segment.closed
			     ? -ESRCH
			     : copy_segment(&t->segment, last_ns - MIN(last_ns, window_ns), folder);
	if (rc < 0)
		return rc;
	*end_ns = last_ns;
	if (t->memory >= 0 && recover_unfinished(t->memory, directory, id, e) < 0)
		*e = (struct error){ 0 }; /* of another version: what it waits for is unknown */
	return 0;
}
