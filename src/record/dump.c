/* dump.c: rings (--ring): what is written of them, when asked for and at the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "format/recording_dir.h"
#include "format/rows.h"
#include "record/recording.h"
#include "recover/recover.h"

/* Says in `pitot record`'s own segment from when on a dump is complete. */
static void write_start(struct recording *r, const char *what, uint64_t last_ns)
{
	const struct segment_ring *ring = &r->segments.ring;
	uint64_t now = clock_monotonic_ns(), since_ns = ring->complete_ns;
	char text[200], last[64] = "from the start";

	if (last_ns && last_ns < now)
		since_ns = MAX(since_ns, now - last_ns);
	if (since_ns)
		snprintf(last, sizeof(last), "for the last %.3g s",
			 (double)(now - since_ns) / (double)NS_PER_S);
	snprintf(text, sizeof(text),
		 "%s of a ring, complete %s; %llu older segment%s had been overwritten before",
		 what, last, (unsigned long long)ring->dropped, plural(ring->dropped));
	rows_capability(r->writer, feature_ring, capability_state_on, r->request->ring, NULL, text);
	writer_flush(r->writer);
}

/* Copies the files that are on the disk: recording.json, and our own segments. */
static int copy_files(const struct recording *r, int to)
{
	_cleanup_close_ int folder = folder_open_known(r->directory, &r->identity.folder);
	_cleanup_list_ DIR *list = folder < 0 ? NULL : folder_list(folder);
	const char *name;
	int err = list ? 0 : -EIO;

	while (err >= 0 && (name = folder_next(list))) {
		_cleanup_close_ int file = folder_open_file(folder, name, O_RDONLY, FOLDER_OWN);

		err = file < 0 ? 0 : segment_copy(file, to, name, UINT64_MAX);
	}
	return err;
}

/* Without it the dump is a recording all the same. */
static void add_unfinished(const struct recording *r, int folder)
{
	const struct segment_server *s = &r->segments;
	struct folder_id id;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", folder);
	for (size_t i = 0; i < s->memories.count && folder_identify(folder, &id) == 0; i++) {
		struct error e = { 0 };

		if (recover_unfinished(s->memories.data[i].fd, path, &id, &e) < 0)
			record_emit(r, RECORD_WARNING,
				    "the dump does not say what had not ended: %s", e.text);
	}
}

static int make_dump(struct recording *r, int folder, uint64_t last_ns)
{
	int err, count;

	write_start(r, "a dump", last_ns);
	err = copy_files(r, folder);
	count = err < 0 ? err : segment_ring_write(&r->segments.ring, folder, last_ns);
	if (count >= 0)
		add_unfinished(r, folder);
	return count;
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
	segment_server_dumped(s, make_dump(r, s->dump.folder, s->dump.last_ns));
	return true;
}

void record_finish_ring(struct recording *r)
{
	struct segment_server *s = &r->segments;
	int written;

	if (!s->ring.bytes)
		return;
	segment_ring_trim(&s->ring);
	write_start(r, "the end", 0);
	written = segment_ring_write(&s->ring, s->folder, 0);
	if (written < 0)
		record_emit(r, RECORD_WARNING, "the ring is incomplete: cannot write to '%s': %s",
			    r->shown, error_code_text(written));
}
