#include "record/live_tail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "record/live_segment.h"
#include "record/segment_cut.h"
#include "recover/recover.h"

#define MEMORY_LINK "/memfd:pitot (deleted)"
#define MAPS_BYTES ((size_t)16 << 20)

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

struct wanted_memory {
	uint64_t inode;
	int fd; /* -1: not found */
};

static void consider(void *user, const char *path, const char *link)
{
	struct wanted_memory *wanted = user;
	struct stat st;
	int memory = wanted->fd < 0 ? io_open_file(path, &st) : -1;

	(void)link;
	if (memory >= 0 && st.st_ino == wanted->inode && recover_is_area(memory))
		wanted->fd = memory;
	else if (memory >= 0)
		close(memory);
}

/* Whoever records has the memory open: `pitot record`, or a `pitot top`. */
int live_memory_find(pid_t pid)
{
	struct wanted_memory wanted = { mapped_inode(pid), -1 };

	if (wanted.inode)
		live_launchers_visit(MEMORY_LINK, consider, &wanted);
	return wanted.fd;
}

int live_tail_open(struct live_tail *t, pid_t pid)
{
	int rc;

	*t = (struct live_tail){ .memory = -1 };
	rc = live_segment_find(pid, 0, &t->live);
	if (rc == 0)
		t->memory = live_memory_find(pid);
	return rc;
}

void live_tail_release(struct live_tail *t)
{
	live_segment_release(&t->live);
	fd_close(&t->memory);
	*t = (struct live_tail){ .memory = -1 };
}

/* --- the copy --- */

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
	struct segment *segment = &t->live.segment;
	int rc = folder < 0 ? folder : segment_refresh(segment, e);
	uint64_t last_ns = last_work(segment);
	struct copy_interval interval = { last_ns - MIN(last_ns, window_ns), UINT64_MAX };
	char name[64];

	snprintf(name, sizeof(name), "%u.0" SEGMENT_SUFFIX, segment->header.pid);
	if (rc >= 0)
		rc = segment->closed ? -ESRCH
				     : segment_copy_interval(segment, &interval, folder, name,
							     segment->header.number);
	if (rc < 0)
		return rc;
	*end_ns = last_ns;
	if (t->memory >= 0 && recover_unfinished(t->memory, directory, id, e) < 0)
		*e = (struct error){ 0 }; /* of another version: what it waits for is unknown */
	return 0;
}
