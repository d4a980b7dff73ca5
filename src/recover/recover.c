#include "recover/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/plural.h"
#include "format/reader.h"
#include "format/rows.h"
#include "recover/recover_state.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Rows of each table that are in blocks behind the commit. */
struct stored {
	uint64_t rows[TABLE_MAX + 1];
	uint32_t segments; /* number of the next segment in the session */
};

bool recovery_read(const struct recovery *r, enum area_part part, uint64_t offset, void *to,
		   size_t bytes)
{
	uint64_t size = area_part_bytes(part);

	return offset <= size && bytes <= size - offset &&
	       io_read_at(r->memory, area_offset(part) + offset, to, bytes) == bytes;
}

uint32_t recovery_string(const struct recovery *r, enum area_part part, uint64_t offset,
			 size_t bytes)
{
	_cleanup_free_ char *text = malloc(bytes + 1);

	return text && recovery_read(r, part, offset, text, bytes)
		       ? writer_string(r->w, text, bytes)
		       : 0;
}

/* Calls and records of the last moments are near the current half of the ids (correlation.h). */
uint64_t recovery_call(const struct recovery *r, uint32_t correlation)
{
	uint32_t half = r->head.correlation_half;

	if (half == UINT32_MAX || !correlation)
		return correlation;
	half -= half && (half & 1) != correlation >> 31;
	return (uint64_t)(half / 2) << 32 | correlation;
}

bool recover_is_area(int memory)
{
	int seals = fcntl(memory, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & SEALS) == SEALS && fstat(memory, &st) == 0 &&
	       (uint64_t)st.st_size == area_offset(AREA_PART_COUNT);
}

bool recover_has_rest(int memory)
{
	const struct recovery r = { .memory = memory };
	struct journal journal;

	return recovery_read(&r, AREA_JOURNAL, 0, &journal, sizeof(journal)) && journal.session;
}

void recover_end_recording(int memory)
{
	const uint32_t over = 1;

	if (recover_is_area(memory))
		(void)!pwrite(
			memory, &over, sizeof(over),
			(off_t)(area_offset(AREA_HEAD) + offsetof(struct area_head, is_over)));
}

/* --- rows that are in segments already --- */

static void count_stored(const struct segment *s, const struct journal_commit *commit,
			 struct stored *stored)
{
	uint64_t from = s->header.number == commit->segment ? commit->end : 0;

	stored->segments = MAX(stored->segments, s->header.number + 1);
	for (size_t i = 0; i < s->block_count && s->header.number >= commit->segment; i++) {
		const struct block_ref *b = &s->blocks[i];

		if (b->offset >= from && schema_table(b->header.table))
			stored->rows[b->header.table] += b->header.rows;
	}
}

/* Reads the segments of the session, whose names begin with the process id. */
static int read_segments(const struct recovery *r, const char *directory,
			 const struct folder_id *id, struct stored *stored, struct error *e)
{
	const struct journal_commit *commit = &r->journal.commits[r->journal.commits_made % 2];
	_cleanup_close_ int folder = folder_open_known(directory, id);
	_cleanup_list_ DIR *list = folder < 0 ? NULL : folder_list(folder);
	char prefix[16];
	const char *name;

	if (!list)
		return error_set(e, folder < 0 ? folder : -errno, "cannot list '%s'", directory);
	snprintf(prefix, sizeof(prefix), "%u.", r->head.pid);
	while ((name = folder_next(list))) {
		_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
		struct segment segment;

		if (strncmp(name, prefix, strlen(prefix)) != 0)
			continue;
		strbuf_addf(&path, "%s/%s", directory, name);
		if (path.failed || segment_open(strbuf_text(&path), &segment, NULL) < 0)
			continue;
		if (segment.header.session == r->journal.session)
			count_stored(&segment, commit, stored);
		segment_release(&segment);
	}
	return 0;
}

/* --- the journal --- */

/* Returns the bytes from the commit on, or NULL: there are none, or no memory. */
static uint8_t *read_journal(const struct recovery *r, uint64_t from, size_t *length)
{
	uint64_t size = r->journal.size, start = from % size;
	uint8_t *bytes;
	size_t first;

	*length = (size_t)(r->journal.head - from);
	first = MIN(*length, (size_t)(size - start));
	bytes = *length ? malloc(*length) : NULL;
	if (bytes &&
	    (!recovery_read(r, AREA_JOURNAL, sizeof(r->journal) + start, bytes, first) ||
	     !recovery_read(r, AREA_JOURNAL, sizeof(r->journal), bytes + first, *length - first))) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

/* Whether the entry at `at` is a whole row. */
static bool is_row(const struct journal_entry *entry, const struct table_schema **table,
		   size_t left)
{
	*table = schema_table(entry->table);
	if (!*table || entry->length < (*table)->row_size || left < entry->length)
		return false;
	return entry->length == (*table)->row_size || (*table)->id == TABLE_string;
}

static void append_row(struct recovery *r, const struct table_schema *table,
		       const struct journal_entry *entry, const uint8_t *bytes)
{
	_Alignas(8) uint8_t row[1024];
	struct row_string *string = (void *)row;

	if (table->row_size > sizeof(row))
		return;
	memcpy(row, bytes, table->row_size);
	if (table->id == TABLE_string)
		string->text = (struct bytes_value){ bytes + table->row_size,
						     entry->length - table->row_size };
	writer_append(r->w, table->id, row);
	r->out->rows += table->repeated == REPEAT_NEVER;
}

/*
 * Appends the rows that no segment has. Rows behind the mark that are no definitions come from an
 * input that is read again.
 */
static void recover_rows(struct recovery *r, const uint8_t *bytes, size_t length, uint64_t position,
			 struct stored *stored)
{
	const struct table_schema *table;
	struct journal_entry entry;
	size_t at = 0;

	while (length - at >= sizeof(entry)) {
		bool is_tentative = r->mark.source && position + at >= r->mark.position;
		const uint8_t *row = bytes + at + sizeof(entry);

		memcpy(&entry, bytes + at, sizeof(entry));
		if (!is_row(&entry, &table, length - at - sizeof(entry)))
			break;
		if (stored->rows[table->id])
			stored->rows[table->id]--;
		else if (!is_tentative || table->repeated != REPEAT_NEVER)
			append_row(r, table, &entry, row);
		if (journal_entry_bytes(entry.length) >= length - at)
			return;
		at += journal_entry_bytes(entry.length);
	}
	r->out->lost += length - at != 0;
}

static int recover_journal(struct recovery *r, struct stored *stored)
{
	const struct journal_commit *commit = &r->journal.commits[r->journal.commits_made % 2];
	uint64_t from = commit->position;
	uint8_t *bytes;
	size_t length;

	r->out->lost += r->journal.skipped - MIN(r->journal.skipped, commit->skipped);
	if (r->journal.head - from > r->journal.size) { /* damaged */
		r->out->lost++;
		return 0;
	}
	bytes = read_journal(r, from, &length);
	if (!bytes)
		return length ? -ENOMEM : 0;
	recover_rows(r, bytes, length, from, stored);
	free(bytes);
	return 0;
}

/* --- the segment --- */

static void write_unknown(struct recovery *r)
{
	const struct unknown_record *u = &r->out->first_unknown;
	char size[40] = "of unknown size", text[300];

	if (u->size)
		snprintf(size, sizeof(size), "of size %u", (unsigned)u->size);
	snprintf(text, sizeof(text),
		 "buffers of the last moments, from the first record that cannot be read on: kind "
		 "%u %s%s at %llu, behind %llu record%s of a buffer that CUPTI %s, which has %llu "
		 "byte%s from there on",
		 (unsigned)u->kind, size,
		 u->is_begun_kernel ? " (a kernel record that CUPTI had begun)" : "",
		 (unsigned long long)u->offset, (unsigned long long)u->before, plural(u->before),
		 u->is_delivered ? "had completed" : "was filling", (unsigned long long)u->left,
		 plural(u->left));
	rows_loss(r->w, loss_reason_unread_records, r->out->unknown, r->now_ns, r->now_ns, text);
}

static void write_result(struct recovery *r)
{
	const struct recovered *o = r->out;
	char text[300];

	rows_loss(r->w, loss_reason_incomplete_record, o->incomplete, r->now_ns, r->now_ns,
		  "GPU work whose end CUPTI had not recorded when the process died (table "
		  "unfinished)");
	rows_loss(r->w, loss_reason_incomplete_record, o->begun, r->now_ns, r->now_ns,
		  "kernel records that CUPTI had begun and not completed when the process died; "
		  "of which launches is unknown");
	rows_loss(r->w, loss_reason_unread_event, o->others, r->now_ns, r->now_ns,
		  "synchronizations, overhead, counters and others that only the process itself "
		  "could read");
	rows_loss(r->w, loss_reason_unread_collective, o->unread_collectives, r->now_ns, r->now_ns,
		  "whose communicator or texts of NCCL were new when the process died");
	write_unknown(r);
	rows_loss(r->w, loss_reason_ring_full, o->lost, r->now_ns, r->now_ns,
		  "rows and events of the last moments for which there was no room");
	snprintf(text, sizeof(text),
		 "the process ended without closing its recording: %llu row%s, %llu call%s, %llu "
		 "range event%s and %llu GPU record%s of its last moments were read from its "
		 "memory",
		 (unsigned long long)o->rows, plural(o->rows), (unsigned long long)o->calls,
		 plural(o->calls), (unsigned long long)o->ranges, plural(o->ranges),
		 (unsigned long long)o->records, plural(o->records));
	rows_capability(r->w, feature_last_moments, capability_state_on, NULL, NULL, text);
}

static int write_segment(struct recovery *r, const char *directory, const struct folder_id *folder,
			 struct stored *stored, struct error *e)
{
	char prefix[16];
	struct writer_options options = { .directory = directory,
					  .folder = *folder,
					  .prefix = prefix,
					  .session = r->journal.session,
					  .pid = r->head.pid,
					  .number = stored->segments,
					  .first_string = (uint32_t)r->journal.last_string + 1,
					  .first_config = (uint32_t)r->journal.last_config + 1 };
	int rc, closed;

	snprintf(prefix, sizeof(prefix), "%u", r->head.pid);
	rc = writer_open(&options, &r->w, e);
	if (rc < 0)
		return rc;
	rc = r->only_unfinished ? 0 : recover_journal(r, stored);
	if (rc == 0)
		rc = recover_rings(r);
	if (rc == 0)
		rc = recover_records(r);
	if (rc == 0)
		recover_launches_write(r);
	if (!r->only_unfinished)
		write_result(r);
	closed = writer_close(&r->w);
	rc = rc < 0 ? rc : closed;
	return rc < 0 ? error_errno(e, -rc, "cannot add to '%s'", directory) : 1;
}

static int read_area(int memory, bool only_unfinished, const char *directory,
		     const struct folder_id *folder, struct recovered *out, struct error *e)
{
	struct recovery r = { .memory = memory,
			      .out = out,
			      .now_ns = clock_monotonic_ns(),
			      .only_unfinished = only_unfinished };
	struct stored *stored;
	int rc;

	*out = (struct recovered){ 0 };
	if (!recover_is_area(memory) || !recovery_read(&r, AREA_HEAD, 0, &r.head, sizeof(r.head)) ||
	    memcmp(r.head.magic, AREA_MAGIC, sizeof(r.head.magic)) != 0 ||
	    r.head.layout != AREA_LAYOUT ||
	    (r.head.ring_bytes && r.head.ring_bytes != sizeof(struct ring)) ||
	    (r.head.slot_bytes && r.head.slot_bytes != sizeof(struct buffer_slot)))
		return error_set(e, E_VERSION, "the memory of a process is not of this version");
	out->pid = r.head.pid;
	if (!recovery_read(&r, AREA_JOURNAL, 0, &r.journal, sizeof(r.journal)))
		return error_set(e, E_FORMAT, "the memory of process %u cannot be read", out->pid);
	if (!r.journal.session)
		return 0;
	if (!r.journal.size || r.journal.size > AREA_JOURNAL_BYTES || r.journal.size % 8)
		return error_set(e, E_FORMAT, "the memory of process %u is damaged", out->pid);
	r.mark = r.journal.marks[r.journal.marks_made % 2];
	stored = calloc(1, sizeof(*stored));
	if (!stored)
		return error_set(e, -ENOMEM, "out of memory");
	rc = read_segments(&r, directory, folder, stored, e);
	if (rc >= 0)
		rc = write_segment(&r, directory, folder, stored, e);
	map_release(&r.launch_of);
	map_release(&r.launch_names);
	vec_release(&r.launches);
	free(stored);
	return rc;
}

int recover_area(int memory, const char *directory, const struct folder_id *folder,
		 struct recovered *out, struct error *e)
{
	return read_area(memory, false, directory, folder, out, e);
}

int recover_unfinished(int memory, const char *directory, const struct folder_id *folder,
		       struct error *e)
{
	struct recovered out;

	return read_area(memory, true, directory, folder, &out, e);
}
