/* kineto_session.c: the process of a trace, what the trace lacks, and what is said of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/path.h"
#include "base/starts_with.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "schema/gpu_vendor.h"
#include "schema/theoretical_occupancy.h"

#define NODES_MAX (1u << 22) /* of the tree of stacks */

/* "trace_rank-3.json", "rank0.json.gz", "x_rank3_y.json" */
static int64_t rank_in_name(const char *path)
{
	const char *name = base_name(path), *found = strcasestr(name, "rank");
	unsigned rank;

	return found && sscanf(found + 4 + strspn(found + 4, "-_="), "%9u", &rank) == 1
		       ? (int64_t)rank
		       : -1;
}

static void append_process(struct kineto *k, bool is_whole)
{
	const struct import_target *into = k->options->into;
	uint64_t start_ns = k->first_ns, end_ns = MAX(k->last_ns, k->spans_ns[1]);
	struct row_process row = { .pid = k->pid, .missing = schema_missing(TABLE_process) };
	struct row_clock clock = { .missing = schema_missing(TABLE_clock) };
	const char *name = *k->name ? k->name : base_name(k->path);

	if (k->spans_ns[0])
		start_ns = MIN(start_ns, k->spans_ns[0]);
	row.start_ns = start_ns;
	row.end_ns = end_ns;
	row.missing &= ~((uint64_t)is_whole << COLUMN_process_end_ns);
	row.executable = row.command = rows_text(k->writer, name);
	row.rank = (uint32_t)k->rank;
	row.world_size = (uint32_t)k->ranks;
	PRESENT(&row, process, rank, k->rank >= 0);
	PRESENT(&row, process, world_size, k->ranks >= 0);
	/* The clocks of hosts differ. */
	row.boot_id = rows_text(k->writer, into ? into->boot_id : k->host);
	row.host = rows_text(k->writer, into ? into->host : k->host);
	if (into) {
		row.pid = into->pid;
		row.source = process_source_import;
	}
	clock.monotonic_ns = clock.boottime_ns = start_ns;
	clock.realtime_ns = start_ns + (into ? into->unix_offset_ns : 0);
	kineto_append(k, TABLE_clock, &clock);
	kineto_append(k, TABLE_process, &row);
	k->result->start_ns = k->result->start_ns ? MIN(k->result->start_ns, start_ns) : start_ns;
	k->result->end_ns = MAX(k->result->end_ns, end_ns);
	if (!*k->result->name)
		snprintf(k->result->name, sizeof(k->result->name), "%.63s", name);
}

/* By the name of a GPU. */
static uint8_t vendor_of(const char *name)
{
	uint8_t vendor = gpu_vendor_intel;

	while (vendor && !starts_with(name, gpu_vendor_title(vendor)))
		vendor--;
	return vendor;
}

/* NVIDIA's limits depend on the compute capability, which AMD's numbers only look like. */
static void append_devices(struct kineto *k)
{
	for (uint32_t id = 0; id < KINETO_DEVICES; id++) {
		struct row_device *row = &k->gpus[id];
		bool used = (k->used_gpus ? k->used_gpus : k->known_gpus) >> id & 1;
		const char *name;

		if (!used)
			continue;
		if (!(k->known_gpus >> id & 1))
			*row = (struct row_device){ .missing = schema_missing(TABLE_device),
						    .id = id };
		name = row->name ? k->texts.items[row->name - 1].text : "unknown GPU";
		if (!row->vendor)
			row->vendor = vendor_of(name);
		if (row->vendor == gpu_vendor_amd || row->vendor == gpu_vendor_intel)
			row->compute_major = row->compute_minor = 0;
		else
			occupancy_add_limits(row);
		PRESENT(row, device, vendor, row->vendor);
		row->name = rows_text(k->writer, name);
		row->driver_version = k->driver_version;
		kineto_append(k, TABLE_device, row);
	}
}

/* Records what the trace lacks, so that no report takes it for 0. */
static void append_gaps(struct kineto *k)
{
	const uint64_t *rows = k->rows;
	const struct {
		enum feature feature;
		bool is_lacking;
		const char *reason, *hint; /* hint: how torch.profiler is made to write it */
	} gaps[] = {
		{ feature_api_call, !k->counts[KINETO_CALLS_COUNT],
		  "the trace contains no runtime calls", "" },
		{ feature_synchronization, !rows[TABLE_synchronization],
		  "the trace contains no synchronization events",
		  ": torch.profiler writes them with enable_cuda_sync_events" },
		{ feature_allocation, !rows[TABLE_allocation],
		  "the trace contains no memory events", ": profile_memory=True" },
		{ feature_python_stacks, !k->counts[KINETO_STACKS_COUNT],
		  "the trace contains no Python stacks", ": with_stack=True" },
		{ feature_context, k->lacks_context, "the trace does not name contexts; all are 0",
		  "" },
		{ feature_device, k->lacks_device,
		  "the trace does not name the GPU of some work, which is attributed to GPU 0",
		  "" },
		{ feature_latency_timestamps, true,
		  "the trace does not contain when work was queued", "" },
		{ feature_cpu, true, "the trace contains no CPU samples", "" },
		{ feature_counters, !rows[TABLE_counter_sample], "the trace contains no counters",
		  "" },
	};

	rows_capability_at(k->writer, k->first_ns, feature_import, capability_state_on, NULL,
			   k->format->name, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(gaps); i++)
		if (gaps[i].is_lacking)
			rows_capability_at(k->writer, k->first_ns, gaps[i].feature,
					   capability_state_unavailable, NULL, NULL,
					   gaps[i].reason);
}

int kineto_flush(struct kineto *k)
{
	struct writer_stats stats;

	writer_flush(k->writer);
	writer_stats(k->writer, &stats);
	k->unflushed_bytes = 0;
	return stats.error ? error_errno(k->error, stats.error, "cannot write the recording") : 0;
}

static void append_losses(struct kineto *k)
{
	static const struct {
		enum kineto_count count;
		enum loss_reason reason;
		const char *detail;
	} losses[] = {
		{ KINETO_UNKNOWN_COUNT, loss_reason_unknown_record, "events of unknown kinds" },
		{ KINETO_UNTIMED_COUNT, loss_reason_no_time, "events that were left out" },
		{ KINETO_DAMAGED_COUNT, loss_reason_damaged_file, "values that cannot be" },
		{ KINETO_NO_ROOM_COUNT, loss_reason_string_limit, "names and ranges" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		rows_loss(k->writer, losses[i].reason, k->counts[losses[i].count], k->first_ns,
			  k->last_ns, losses[i].detail);
	if (*k->broken)
		rows_loss(k->writer,
			  k->at_end ? loss_reason_truncated_file : loss_reason_damaged_file, 1,
			  k->first_ns, k->last_ns, k->broken);
	k->result->unknown += k->counts[KINETO_UNKNOWN_COUNT];
	k->result->damaged += k->counts[KINETO_DAMAGED_COUNT] + (*k->broken != 0);
}

static int finish(struct kineto *k)
{
	int rc;

	if (!k->first_ns)
		return error_set(k->error, -ENODATA, "'%s' contains no event with a time", k->path);
	if (k->rank < 0)
		k->rank = rank_in_name(k->path);
	kineto_end_ranges(k);
	rc = kineto_write_threads(k);
	if (rc == -ENOMEM)
		return error_set(k->error, rc, "out of memory");
	if (rc < 0)
		return rc;
	append_process(k, !*k->broken);
	if (!k->options->into) {
		append_devices(k);
		append_gaps(k);
	}
	append_losses(k);
	return kineto_flush(k);
}

static void release(struct kineto *k)
{
	struct map *maps[] = { &k->threads,  &k->functions,   &k->function_ids,  &k->call_stacks,
			       &k->launches, &k->work,        &k->seen,          &k->contexts,
			       &k->counters, &k->metrics,     &k->event_records, &k->gpu_pids,
			       &k->gpu_rows, &k->collectives, &k->groups,        &k->sequences,
			       &k->begun };

	writer_abandon(&k->writer);
	json_pull_release(&k->json);
	strbuf_release(&k->event.text);
	strbuf_release(&k->scratch);
	interner_release(&k->texts);
	stack_tree_release(&k->stacks);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_release(maps[i]);
	for (size_t i = 0; i < k->all_threads.count; i++)
		vec_release(&k->all_threads.data[i].spans);
	vec_release(&k->all_threads);
	vec_release(&k->all_begun);
	vec_release(&k->all_launches);
	vec_release(&k->all_collectives);
	vec_release(&k->all_work);
}

ssize_t kineto_read_text(void *kineto, void *bytes, size_t size)
{
	struct kineto *k = kineto;
	ssize_t n = input_read(k->input, bytes, size);

	k->at_end = n == 0;
	k->unflushed_bytes += n > 0 ? (uint64_t)n : 0;
	import_files_progress(k->files, k->input);
	return n;
}

int kineto_end_text(struct kineto *k, int rc, const struct error *why)
{
	if (rc == E_FORMAT || (rc >= 0 && k->input->is_truncated))
		snprintf(k->broken, sizeof(k->broken), "%.159s",
			 k->input->is_truncated ? "the compressed file is damaged at its end"
						: why->text);
	else if (rc < 0)
		error_set(k->error, rc, "'%s': %s", k->path,
			  *why->text ? why->text : error_code_text(rc));
	return rc == E_FORMAT ? 0 : MIN(rc, 0);
}

static int read_session(struct kineto *k, const struct writer_options *o, kineto_reader *read)
{
	int rc = writer_open(o, &k->writer, k->error);

	if (rc >= 0)
		rc = read(k);
	if (rc >= 0)
		rc = finish(k);
	if (rc >= 0 && writer_close(&k->writer) < 0)
		rc = error_set(k->error, -EIO, "cannot write the recording");
	return rc;
}

int kineto_session(struct import_files *f, struct input *in, const char *path, kineto_reader *read,
		   struct error *e)
{
	_cleanup_free_ struct kineto *k = calloc(1, sizeof(*k));
	struct import_result *result = f->result;
	struct kineto_totals *totals = f->user;
	char prefix[48];
	struct writer_options o = { .directory = f->directory,
				    .prefix = prefix,
				    .background = true,
				    .session = (hash_bytes(path, strlen(path)) + result->sessions) |
					       1 };
	int rc;

	if (!k)
		return error_set(e, -ENOMEM, "out of memory");
	k->files = f;
	k->options = f->options;
	k->format = f->format;
	k->result = result;
	k->input = in;
	k->path = path;
	k->error = e;
	k->session = o.session;
	k->rank = k->ranks = -1;
	k->category_count = 1;
	interner_init(&k->texts);
	stack_tree_init(&k->stacks, NODES_MAX, kineto_python_frame, k);
	snprintf(prefix, sizeof(prefix), "trace-%llu", (unsigned long long)result->sessions);
	if (f->options->into) { /* beside sessions of other imports */
		o.session = hash_u64(o.session ^ clock_monotonic_ns()) | 1;
		snprintf(prefix, sizeof(prefix), "import-%u-%llx", f->options->into->pid,
			 (unsigned long long)o.session);
	}
	o.now_ns = &k->last_ns;
	rc = read_session(k, &o, read);
	if (rc >= 0) {
		result->sessions++;
		result->files++;
		result->bytes += in->raw_bytes;
		result->records += k->counts[KINETO_EVENTS_COUNT];
		for (size_t i = 0; i < KINETO_COUNTERS; i++)
			totals->counts[i] += k->counts[i];
		rc = import_add_part(result, path, k->rank, k->ranks, k->first_ns, k->last_ns, e);
	}
	release(k);
	return rc;
}

static void add_count(struct strbuf *out, const struct kineto_totals *t, enum kineto_count what)
{
#define KINETO_WORDS(id, one, many) { one, many },
	static const char *const words[][2] = { KINETO_COUNTS(KINETO_WORDS) };
	uint64_t n = t->counts[what];
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!n)
		return;
	human_count(&text, n);
	strbuf_addf(out, "%s%s %s", out->length ? ", " : "", strbuf_text(&text),
		    words[what][n != 1]);
}

static void add_note(struct import_result *result, const char *head, const struct kineto_totals *t,
		     enum kineto_count first, enum kineto_count last)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	for (enum kineto_count i = first; i <= last; i++)
		add_count(&text, t, i);
	if (text.length)
		import_note(result, "%s%s", head, strbuf_text(&text));
}

static void add_notes(struct import_result *result, const struct kineto_totals *t)
{
	add_note(result, "read: ", t, KINETO_EVENTS_COUNT, KINETO_UNLINKED_COUNT);
	add_note(result, "threads: ", t, KINETO_CALLS_COUNT, KINETO_STACKS_COUNT);
	add_note(result, "left out: ", t, KINETO_FLOWS_COUNT, KINETO_UNTIMED_COUNT);
	add_note(result, "changed: ", t, KINETO_DAMAGED_COUNT, KINETO_NO_ROOM_COUNT);
}

int kineto_read_all(const struct import_format *format, struct import_source *source,
		    const struct import_options *options, const char *directory,
		    struct import_result *result, struct error *e)
{
	struct error none = { 0 };
	struct kineto_totals totals = { { 0 } };
	struct import_files files = { .format = format,
				      .options = options,
				      .directory = directory,
				      .result = result,
				      .user = &totals };
	int rc = import_files(&files, source, e ? e : &none);

	if (rc >= 0)
		add_notes(result, &totals);
	return rc;
}
