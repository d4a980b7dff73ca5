/* catalog.c: lists the segments of a recording, its sessions, and the blocks of each table. */
#include "trace/trace_state.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/path.h"
#include "base/search.h"
#include "base/starts_with.h"
#include "base/strbuf.h"

#define SAMPLER_PREFIX "cpu-" /* of segments that a CPU sampler outside writes */
#define FILES_MAX (1 << 20)

/* Adds a file that cannot be read; the reason has the file's name in place of its path. */
static int add_failed(struct trace *t, const char *path, const char *name, const struct error *e)
{
	struct failed_file failed = { .name = name, .code = e->code };
	const char *at = strstr(e->text, path);
	struct strbuf reason = { 0 };

	strbuf_add(&reason, e->text, at ? (size_t)(at - e->text) : 0);
	if (at)
		strbuf_addf(&reason, "%s%s", name, at + strlen(path));
	else
		strbuf_addf(&reason, "segment '%s': %s", name, e->text);
	failed.reason = trace_copy_text(t, strbuf_text(&reason));
	strbuf_release(&reason);
	return e->code == -ENOMEM ? -ENOMEM : vec_push(&t->failed, failed);
}

/* Unreadable files are added to t->failed. Fails only with -ENOMEM. */
static int open_file(struct trace *t, const char *path, const char *name)
{
	int64_t id = trace_intern(t, name, strlen(name));
	struct trace_segment segment = { 0 };
	struct error e = { 0 };

	if (id < 0)
		return -ENOMEM;
	segment.name = t->strings.items[id].text;
	if (segment_open(path, &segment.file, &e) < 0)
		return add_failed(t, path, segment.name, &e);
	segment.damage = segment.file.damaged_blocks;
	if (vec_push(&t->segments, segment) < 0) {
		segment_release(&segment.file);
		return -ENOMEM;
	}
	return 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int select_segment(const struct dirent *entry)
{
	return has_suffix(entry->d_name, SEGMENT_SUFFIX);
}

static int select_symbols(const struct dirent *entry)
{
	return has_suffix(entry->d_name, SEGMENT_SUFFIX) &&
	       strncmp(entry->d_name, "symbols.", 8) == 0;
}

static int select_others(const struct dirent *entry)
{
	return has_suffix(entry->d_name, SEGMENT_SUFFIX) && !select_symbols(entry);
}

/* Whether a segment is of the process that the options name, or has symbols. */
static bool is_wanted(const struct trace *t, const char *name)
{
	const char *process = t->options.process;

	if (!process || starts_with(name, "symbols."))
		return true;
	name += starts_with(name, SAMPLER_PREFIX) ? strlen(SAMPLER_PREFIX) : 0;
	return starts_with(name, process) && name[strlen(process)] == '.';
}

bool trace_process_files(const struct trace *t, size_t process, struct strbuf *out)
{
	for (size_t i = 0; i < t->segments.count; i++) {
		const struct trace_segment *s = &t->segments.data[i];
		const char *dot = strchr(s->name, '.');

		if (t->sessions.data[s->session].process != process ||
		    t->sessions.data[s->session].by_record || s->repeated || !dot)
			continue;
		strbuf_add(out, s->name, (size_t)(dot - s->name));
		return true;
	}
	return false;
}

static int open_folder(struct trace *t, const char *folder, int (*select)(const struct dirent *),
		       struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = { 0 };
	struct dirent **entries;
	int count = scandir(folder, &entries, select, compare_names), result = 0;

	if (count < 0)
		return error_errno(e, errno, "cannot list '%s'", folder);
	if (count > FILES_MAX)
		result = error_set(e, E_LIMIT, "more than %d segments in '%s'", FILES_MAX, folder);
	for (int i = 0; i < count; i++) {
		if (result == 0 && is_wanted(t, entries[i]->d_name)) {
			strbuf_clear(&path);
			strbuf_addf(&path, "%s/%s", folder, entries[i]->d_name);
			result =
				path.failed ? -ENOMEM : open_file(t, path.data, entries[i]->d_name);
		}
		free(entries[i]);
	}
	free(entries);
	return result;
}

static int open_directory(struct trace *t, struct error *e)
{
	int result;

	if (!t->options.symbols)
		return open_folder(t, t->path, select_segment, e);
	result = open_folder(t, t->path, select_others, e);
	return result < 0 ? result : open_folder(t, t->options.symbols, select_symbols, e);
}

/* Sets the error for a recording without a readable segment. */
static int no_segment_error(struct trace *t, struct error *e)
{
	const struct failed_file *first = t->failed.data;
	const char *way_out = t->failed.count && first->code == E_FORMAT
				      ? "; copy it again, or record again"
				      : "";

	if (t->failed.count == 0)
		return error_set(e, E_FORMAT,
				 "'%s' is not a recording: no %s segment in it; name a folder that "
				 "`pitot record` has made",
				 t->path, SEGMENT_SUFFIX);
	if (t->failed.count == 1)
		return error_set(e, first->code, "cannot read recording '%s': %s%s", t->path,
				 first->reason, way_out);
	return error_set(e, first->code,
			 "cannot read recording '%s': none of its %zu segments can be read: %s%s",
			 t->path, t->failed.count, first->reason, way_out);
}

int catalog_open(struct trace *t, struct error *e)
{
	const char *slash = strrchr(t->path, '/');
	int result = t->is_file ? open_file(t, t->path, slash ? slash + 1 : t->path)
				: open_directory(t, e);

	if (result == -ENOMEM)
		return error_errno(e, ENOMEM, "cannot read recording '%s'", t->path);
	if (result < 0)
		return result;
	return t->segments.count ? 0 : no_segment_error(t, e);
}

/* If two files have the same number, the larger one comes first and is used. */
ORDER(compare_segments, struct trace_segment,
      UP(file.header.session) ?: UP(file.header.number) ?: DOWN(file.size) ?: strcmp(a->name, b->name))

ORDER(compare_numbers, struct trace_segment, UP(file.header.session) ?: UP(file.header.number))

ORDER(compare_sessions, struct session, UP(start_ns) ?: UP(id))

static void session_add(struct session *session, const struct trace_segment *segment,
			uint32_t number_before)
{
	uint32_t number = segment->file.header.number;

	/* for the first segment number_before is UINT32_MAX, and wraps around to number 0 */
	session->missing_segments += number - (number_before + 1);
	session->segments++;
	session->closed = segment->file.closed;
	session->start_ns = MIN(session->start_ns, segment->file.header.start_monotonic_ns);
	session->end_ns = MAX(session->end_ns, segment->file.header.start_monotonic_ns);
	for (size_t i = 0; i < segment->file.block_count; i++)
		session->end_ns = MAX(session->end_ns, segment->file.blocks[i].header.end_ns);
}

/* Groups the sorted segments into sessions. */
static int group_segments(struct trace *t)
{
	struct trace_segment *before = NULL;

	t->sessions.count = 0;
	for (size_t i = 0; i < t->segments.count; i++) {
		struct trace_segment *segment = &t->segments.data[i];
		const struct segment_header *header = &segment->file.header;
		bool same = before && before->file.header.session == header->session;
		struct session fresh = { .id = header->session,
					 .pid = header->pid,
					 .first_number = header->number,
					 .start_ns = UINT64_MAX };

		segment->repeated = same && before->file.header.number == header->number;
		if (segment->repeated)
			continue;
		if (!same && vec_push(&t->sessions, fresh) < 0)
			return -ENOMEM;
		session_add(&t->sessions.data[t->sessions.count - 1], segment,
			    same ? before->file.header.number : UINT32_MAX);
		before = segment;
	}
	return 0;
}

int catalog_sessions(struct trace *t)
{
	_cleanup_(map_release) struct map index = MAP_INIT;
	int result = 0;

	vec_sort(&t->segments, compare_segments);
	if (group_segments(t) < 0)
		return -ENOMEM;
	vec_sort(&t->sessions, compare_sessions);
	for (size_t i = 0; i < t->sessions.count && result == 0; i++) {
		t->sessions.data[i].process = i;
		result = map_put(&index, t->sessions.data[i].id, i);
	}
	for (size_t i = 0; i < t->segments.count && result == 0; i++) {
		uint64_t session = 0;

		map_get(&index, t->segments.data[i].file.header.session, &session);
		t->segments.data[i].session = (uint32_t)session;
	}
	return result;
}

/* Orders the blocks of a table by process, session, time, and then as they were written. */
static int compare_items(const void *a, const void *b, void *trace)
{
	const struct trace *t = trace;
	const struct block_item *x = a, *y = b;
	const struct trace_segment *p = &t->segments.data[x->segment],
				   *q = &t->segments.data[y->segment];
	size_t process_x = t->sessions.data[p->session].process,
	       process_y = t->sessions.data[q->session].process;
	uint64_t start_x = p->file.blocks[x->block].header.start_ns;
	uint64_t start_y = q->file.blocks[y->block].header.start_ns;

	return ORDER_OF(process_x, process_y)
		       ?: ORDER_OF(p->session, q->session)
		       ?: ORDER_OF(start_x, start_y)
		       ?: ORDER_OF(x->segment, y->segment)
		       ?: ORDER_OF(x->block, y->block);
}

static int list_blocks(struct trace *t, uint32_t index)
{
	const struct segment *file = &t->segments.data[index].file;

	for (size_t i = 0; i < file->block_count; i++) {
		const struct block_header *header = &file->blocks[i].header;
		struct block_item item = { .segment = index,
					   .block = (uint32_t)i,
					   .rows = header->rows };
		struct table_data *table;

		if (!schema_table(header->table) || header->rows == 0)
			continue;
		table = &t->tables[header->table];
		if (vec_push(&table->items, item) < 0)
			return -ENOMEM;
		table->size.rows += header->rows;
		table->size.blocks++;
		table->size.bytes += sizeof(*header) + header->payload_bytes;
	}
	return 0;
}

int catalog_blocks(struct trace *t)
{
	for (size_t i = 1; i <= TABLE_MAX; i++)
		table_release(&t->tables[i]);
	for (size_t i = 0; i < t->segments.count; i++)
		if (!t->segments.data[i].repeated && list_blocks(t, (uint32_t)i) < 0)
			return -ENOMEM;
	for (size_t i = 1; i <= TABLE_MAX; i++)
		if (t->tables[i].items.count)
			qsort_r(t->tables[i].items.data, t->tables[i].items.count,
				sizeof(struct block_item), compare_items, t);
	return 0;
}

int trace_only_new(struct trace *t, enum table_id table, const struct trace *before)
{
	_cleanup_free_ uint64_t *known = calloc(t->segments.count + 1, sizeof(*known));
	struct table_data *data = &t->tables[table];
	size_t at = 0, kept = 0;

	if (!known)
		return -ENOMEM;
	for (size_t i = 0; i < t->segments.count; i++) {
		while (at < before->segments.count &&
		       compare_numbers(&before->segments.data[at], &t->segments.data[i]) < 0)
			at++;
		if (at < before->segments.count &&
		    compare_numbers(&before->segments.data[at], &t->segments.data[i]) == 0)
			known[i] = before->segments.data[at].file.parsed_bytes;
	}
	for (size_t i = 0; i < data->items.count; i++) {
		struct block_item item = data->items.data[i];
		const struct segment *file = &t->segments.data[item.segment].file;

		if (file->blocks[item.block].offset >= known[item.segment])
			data->items.data[kept++] = item;
		else
			data->size.rows -= item.rows;
	}
	data->is_partial = true;
	data->items.count = kept;
	return 0;
}

void table_release(struct table_data *table)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->columns); i++) {
		free(table->columns[i].values);
		free(table->columns[i].valid);
	}
	for (size_t i = 0; i < table->ids_count; i++)
		id_table_release(&table->ids[i]);
	vec_release(&table->items);
	free(table->first_row);
	free(table->permutation);
	free(table->ids);
	free(table->spare);
	free(table->launches);
	memset(table, 0, sizeof(*table));
}

void catalog_release(struct trace *t)
{
	for (size_t i = 1; i <= TABLE_MAX; i++)
		table_release(&t->tables[i]);
	for (size_t i = 0; i < t->segments.count; i++)
		segment_release(&t->segments.data[i].file);
	vec_release(&t->segments);
	vec_release(&t->failed);
	vec_release(&t->sessions);
	vec_release(&t->processes);
}
