/*
 * losses.c: lists all known losses, from the recorder's rows and from damage found while reading.
 */
#include "base/plural.h"
#include "trace/trace_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

/*
 * Extends a loss without a count that `more` continues. A lasting loss has several rows, each of
 * which starts where the previous one ends.
 */
static bool extend(struct trace *t, const struct trace_loss *more)
{
	for (size_t i = t->losses.count; !more->count && i-- > 0;) {
		struct trace_loss *l = &t->losses.data[i];

		if (l->process != more->process || l->reason != more->reason)
			continue;
		if (l->count || l->end_ns != more->start_ns || strcmp(l->detail, more->detail) != 0)
			return false;
		l->end_ns = more->end_ns;
		return true;
	}
	return false;
}

static int add(struct trace *t, size_t process, enum loss_reason reason, uint64_t count,
	       uint64_t start_ns, uint64_t end_ns, const char *detail)
{
	struct trace_loss loss = {
		process, reason, count, start_ns, MAX(start_ns, end_ns), trace_copy_text(t, detail)
	};

	return extend(t, &loss) ? 0 : vec_push(&t->losses, loss);
}

static int add_rows(struct trace *t)
{
	for (uint64_t row = 0; row < trace_rows(t, TABLE_loss); row++) {
		bool missing;
		uint32_t detail =
			(uint32_t)trace_value(t, TABLE_loss, COLUMN_loss_detail, row, &missing);

		if (add(t, trace_row_process(t, TABLE_loss, row), loss_columns(t)->reason[row],
			loss_columns(t)->count[row], loss_columns(t)->start_ns[row],
			loss_columns(t)->end_ns[row], missing ? "" : trace_string(t, detail)) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Last process with the pid with which the file's name begins, or the number of processes. */
static size_t process_of_name(const struct trace *t, const char *name)
{
	char *end;
	unsigned long pid = strtoul(name, &end, 10);

	for (size_t i = t->processes.count; end != name && *end == '.' && i-- > 0;)
		if (t->processes.data[i].pid == pid)
			return i;
	return t->processes.count;
}

static int add_failed_files(struct trace *t)
{
	int result = 0;

	for (size_t i = 0; i < t->failed.count && result == 0; i++)
		result = add(t, process_of_name(t, t->failed.data[i].name),
			     loss_reason_damaged_file, 1, 0, 0, t->failed.data[i].reason);
	return result;
}

/* Blocks of a segment that decoding or trace_verify found damaged. */
struct file_damage {
	uint64_t blocks, rows;
	uint64_t start_ns, end_ns;
};

static void find_damage(const struct trace *t, struct file_damage *damage)
{
	for (size_t id = 1; id <= TABLE_MAX; id++) {
		for (size_t i = 0; i < t->tables[id].items.count; i++) {
			const struct block_item *item = &t->tables[id].items.data[i];
			const struct segment *file = &t->segments.data[item->segment].file;
			const struct block_header *header = &file->blocks[item->block].header;
			struct file_damage *d = &damage[item->segment];

			if (item->state == BLOCK_GOOD)
				continue;
			d->start_ns =
				d->blocks ? MIN(d->start_ns, header->start_ns) : header->start_ns;
			d->end_ns = MAX(d->end_ns, header->end_ns);
			d->blocks++;
			d->rows += header->rows;
		}
	}
}

static int add_damage(struct trace *t, const struct trace_segment *segment,
		      const struct file_damage *damage, struct strbuf *detail)
{
	const struct session *session = &t->sessions.data[segment->session];
	uint64_t start_ns = segment->file.header.start_monotonic_ns, end_ns = session->end_ns;
	uint64_t pieces = segment->damage + damage->blocks;

	if (segment->repeated)
		return add(t, session->process, loss_reason_damaged_file, 1, start_ns, end_ns,
			   detail->data);
	if (pieces == 0)
		return 0;
	if (damage->blocks)
		strbuf_addf(detail, ": %llu damaged block%s of %llu row%s",
			    (unsigned long long)damage->blocks, plural(damage->blocks),
			    (unsigned long long)damage->rows, plural(damage->rows));
	if (segment->damage)
		strbuf_addf(detail, ": %llu piece%s of damage, %llu byte%s skipped",
			    (unsigned long long)segment->damage, plural(segment->damage),
			    (unsigned long long)segment->file.skipped_bytes,
			    plural(segment->file.skipped_bytes));
	else if (damage->end_ns) {
		start_ns = damage->start_ns;
		end_ns = damage->end_ns;
	}
	return add(t, session->process, loss_reason_damaged_file, pieces, start_ns, end_ns,
		   strbuf_text(detail));
}

/*
 * Whether rows may be missing after the segment's end. Where the session goes on, another process
 * has read them from the memory of the one that died (recover/).
 */
static bool is_cut_off(const struct trace *t, const struct trace_segment *segment)
{
	const struct trace_segment *end = t->segments.data + t->segments.count, *next = segment + 1;

	return !segment->repeated && !segment->file.closed &&
	       (next == end || next->file.header.session != segment->file.header.session);
}

static int add_segment(struct trace *t, const struct trace_segment *segment,
		       const struct file_damage *damage)
{
	const struct session *session = &t->sessions.data[segment->session];
	_cleanup_strbuf_ struct strbuf detail = { 0 };
	int result;

	strbuf_adds(&detail, segment->name);
	if (segment->repeated)
		strbuf_addf(&detail, ": ignored, because another file has the same number %u",
			    segment->file.header.number);
	result = add_damage(t, segment, damage, &detail);
	if (result == 0 && is_cut_off(t, segment)) {
		strbuf_clear(&detail);
		strbuf_addf(&detail, "%s: not closed properly", segment->name);
		if (segment->file.missing_bytes)
			strbuf_addf(&detail, ", cut %llu byte%s before the end of a block",
				    (unsigned long long)segment->file.missing_bytes,
				    plural(segment->file.missing_bytes));
		result = add(t, session->process, loss_reason_truncated_file, 1, session->end_ns,
			     session->end_ns, strbuf_text(&detail));
	}
	return result;
}

static int add_segments(struct trace *t)
{
	_cleanup_free_ struct file_damage *damage = calloc(t->segments.count, sizeof(*damage));
	int result = damage ? 0 : -ENOMEM;

	if (damage)
		find_damage(t, damage);
	for (size_t i = 0; i < t->segments.count && result == 0; i++)
		result = add_segment(t, &t->segments.data[i], &damage[i]);
	return result;
}

/* Adds gaps in the numbers of a session's segments. A ring drops the ones before the first. */
static int add_gaps(struct trace *t)
{
	const struct segment_header *before = NULL;

	for (size_t i = 0; i < t->segments.count; i++) {
		const struct trace_segment *segment = &t->segments.data[i];
		const struct segment_header *header = &segment->file.header;
		enum loss_reason reason;
		uint32_t expected;
		char detail[128];

		if (segment->repeated)
			continue;
		if (before && before->session != header->session)
			before = NULL;
		expected = before ? before->number + 1 : 0;
		reason = !before && t->sessions.data[segment->session].is_ring
				 ? loss_reason_overwritten
				 : loss_reason_missing_segment;
		snprintf(detail, sizeof(detail), "segment %u%s of process %u", expected,
			 header->number - expected > 1 ? " and following" : "", header->pid);
		if (header->number != expected &&
		    add(t, t->sessions.data[segment->session].process, reason,
			header->number - expected, before ? before->start_monotonic_ns : 0,
			header->start_monotonic_ns, detail) < 0)
			return -ENOMEM;
		before = header;
	}
	return 0;
}

int trace_losses(struct trace *t, const struct trace_loss **losses, size_t *count, struct error *e)
{
	int result = trace_load(t, TABLE_loss, 0, e);

	if (result < 0)
		return result;
	t->losses.count = 0;
	if (add_rows(t) < 0 || add_failed_files(t) < 0 || add_segments(t) < 0 || add_gaps(t) < 0)
		return error_errno(e, ENOMEM, "cannot list losses");
	*losses = t->losses.data;
	*count = t->losses.count;
	return 0;
}

uint64_t trace_process_events(const struct trace *t, size_t process)
{
	uint64_t rows = 0;

	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		for (size_t i = 0; i < t->tables[id].items.count; i++) {
			const struct block_item *item = &t->tables[id].items.data[i];
			const struct trace_segment *segment = &t->segments.data[item->segment];

			if (schema_table(id)->roles[ROLE_START] >= 0 &&
			    t->sessions.data[segment->session].process == process)
				rows += segment->file.blocks[item->block].header.rows;
		}
	}
	return rows;
}
