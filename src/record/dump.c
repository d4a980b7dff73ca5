/* dump.c: rings (--ring): what is written of them, when asked for and at the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "format/recording_dir.h"
#include "format/rows.h"
#include "record/dump_parts.h"
#include "record/recording.h"
#include "recover/recover.h"

/* How long ago that was. */
static uint64_t ago(uint64_t realtime_ns)
{
	uint64_t now = clock_read_ns(CLOCK_REALTIME);

	return now - MIN(now, realtime_ns);
}

/* Says in `pitot record`'s own segment from when on a dump is complete. */
static void write_start(struct recording *r, const char *what,
			const struct segment_interval *interval)
{
	const struct segment_ring *ring = &r->segments.ring;
	uint64_t now = clock_monotonic_ns(), since_ns = ring->complete_ns;
	char text[600], last[64] = "from the start", until[64] = "";

	if (ago(interval->from_ns) < now)
		since_ns = MAX(since_ns, now - ago(interval->from_ns));
	if (interval->until_ns)
		snprintf(until, sizeof(until), ", except for the last %.3g s",
			 (double)ago(interval->until_ns) / (double)NS_PER_S);
	if (since_ns)
		snprintf(last, sizeof(last), "for the last %.3g s",
			 (double)(now - since_ns) / (double)NS_PER_S);
	snprintf(text, sizeof(text),
		 "%s of a ring, complete %s%s; %llu older segment%s had been overwritten before",
		 what, last, until, (unsigned long long)ring->dropped, plural(ring->dropped));
	rows_capability(r->writer, feature_ring, capability_state_on, r->request->ring, NULL, text);
}

void record_note_ring(struct recording *r)
{
	rows_capability(r->writer, feature_ring, capability_state_off, r->request->ring, NULL,
			"`pitot record` held the GPU work in memory (--ring) and has not written "
			"it: it was killed, or runs still (pitot dump)");
	writer_flush(r->writer);
}

/* Copies the files of a folder, without its folders. */
static int copy_folder(int folder, int to)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	int err = list ? 0 : -EIO;

	while (err >= 0 && (name = folder_next(list))) {
		_cleanup_close_ int file = folder_open_file(folder, name, O_RDONLY, FOLDER_OWN);

		err = file < 0 ? 0 : segment_copy(file, to, name, UINT64_MAX);
	}
	return err;
}

/* Copies what is on the disk: recording.json, our own segments, and device code. */
static int copy_files(const struct recording *r, int to)
{
	_cleanup_close_ int folder = folder_open_known(r->directory, &r->identity.folder);
	_cleanup_close_ int cubins = -1, to_cubins = -1;
	int err = folder < 0 ? folder : copy_folder(folder, to);

	if (err == 0)
		cubins = folder_enter(folder, RECORDING_CUBINS, FOLDER_OWN);
	if (cubins < 0)
		return err;
	if (mkdirat(to, RECORDING_CUBINS, 0700) < 0 && errno != EEXIST)
		return -errno;
	to_cubins = folder_enter(to, RECORDING_CUBINS, FOLDER_OWN);
	return to_cubins < 0 ? to_cubins : copy_folder(cubins, to_cubins);
}

/*
 * Adds what is under way in processes that live, and the last moments of those that have died.
 * Without it the dump is a recording all the same.
 */
static void add_memories(const struct recording *r, int folder)
{
	const struct segment_server *s = &r->segments;
	struct folder_id id;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", folder);
	for (size_t i = 0; i < s->memories.count && folder_identify(folder, &id) == 0; i++) {
		const struct held_memory *memory = &s->memories.data[i];
		struct recovered found;
		struct error e = { 0 };
		int rc;

		if (memory->process >= 0 && !process_has_ended(memory->process))
			rc = recover_unfinished(memory->fd, path, &id, &e);
		else
			rc = recover_area(memory->fd, path, &id, &found, &e);
		if (rc < 0)
			record_emit(r, RECORD_WARNING,
				    "the dump does not say what had not ended: %s", e.text);
	}
}

int record_make_dump(struct recording *r, int folder, const struct segment_interval *interval,
		     const char *why)
{
	/* What is under way now is of no interval of the past. */
	bool has_now = !interval->until_ns || !ago(interval->until_ns);
	struct dump_parts parts = { 0 };
	int err, count;

	if (has_now)
		parts = dump_parts_begin(r, folder);
	write_start(r, why, interval);
	count = segment_ring_write(&r->segments.ring, folder, interval);
	if (has_now)
		dump_parts_finish(r, &parts);
	writer_flush(r->writer);
	err = copy_files(r, folder);
	record_note_ring(r);
	if (count > 0 && has_now)
		add_memories(r, folder);
	return err < 0 ? err : count;
}

bool record_serve_ring(struct recording *r)
{
	struct segment_server *s = &r->segments;

	if (!s->ring.bytes)
		return false;
	segment_ring_trim(&s->ring);
	segment_server_trim_memories(s);
	if (s->dump.folder < 0)
		return false;
	segment_server_dumped(s, record_make_dump(r, s->dump.folder, &s->dump.interval, "a dump"));
	return true;
}

/* Disk space that the ring leaves for the last moments, which are read afterwards. */
#define RESERVE_BYTES_MAX ((off_t)8 << 20)

/* Returns a file without a name that has the space, or -1: the file system has no such files. */
static int reserve_space(int folder)
{
	int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0 && fallocate(fd, 0, 0, RESERVE_BYTES_MAX) == 0)
		return fd;
	fd_close(&fd);
	return -1;
}

void record_finish_ring(struct recording *r)
{
	static const struct segment_interval all;
	struct segment_server *s = &r->segments;
	int reserve, written;

	if (!s->ring.bytes)
		return;
	segment_ring_trim(&s->ring);
	write_start(r, "the end", &all);
	reserve = reserve_space(s->folder);
	written = segment_ring_write(&s->ring, s->folder, &all);
	fd_close(&reserve);
	if (written >= 0)
		return;
	record_write_loss(r, written);
	record_emit(r, RECORD_WARNING, "the ring is incomplete: cannot write to '%s': %s", r->shown,
		    error_code_text(written));
}
