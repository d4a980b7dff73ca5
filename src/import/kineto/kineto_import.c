/*
 * kineto_import.c: reads a file of Chrome trace JSON, or those in a folder: one for each rank. Each
 * file becomes a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/folder.h"
#include "base/options.h"
#include "base/path.h"
#include "base/plural.h"
#include "base/search.h"
#include "base/starts_with.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "schema/theoretical_occupancy.h"

#define FLUSH_BYTES ((uint64_t)8 << 20) /* of text */
#define NODES_MAX (1u << 22)
#define FILES_MAX 65536u
/* Stamps before 1973 are relative to a base, which may come after the events. */
#define ABSOLUTE_NS (INT64_C(100000000) * 1000000000)
#define BASE_KEY "\"baseTimeNanoseconds\""

struct totals {
	uint64_t counts[KINETO_COUNTERS];
	uint64_t files_bytes, done_bytes; /* of the files, for the progress */
};

/* ---- the text ---- */

static ssize_t read_text(void *kineto, void *bytes, size_t size)
{
	struct kineto *k = kineto;
	ssize_t n = input_read(k->input, bytes, size);

	k->at_end = n == 0;
	k->unflushed_bytes += n > 0 ? (uint64_t)n : 0;
	return n;
}

/* Returns the number that follows a key in an input; false if the key is not there. */
static bool scan_for_number(struct input *in, const char *key, uint64_t *value)
{
	char text[65536 + 64];
	size_t length = 0;
	const char *found = NULL;
	char digits[24];
	ssize_t n;

	while ((n = input_read(in, text + length, sizeof(text) - 1 - length)) > 0) {
		length += (size_t)n;
		found = memmem(text, length, key, strlen(key));
		if (found && (length - (size_t)(found - text) > 63 || length < sizeof(text) - 1))
			break;
		if (length > 64) {
			memmove(text, text + length - 64, 64);
			length = 64;
		}
	}
	text[length] = '\0';
	return found && sscanf(found + strlen(key), " : %20[0-9]", digits) == 1 &&
	       parse_u64(digits, value) == 0;
}

/*
 * Finds a base that comes after the events, which other tools have moved there: reads the whole
 * file ahead. Without one, the time of the events is unknown, as is that of JAX's.
 */
static void find_base(struct kineto *k)
{
	struct input ahead = { .fd = -1 };
	off_t at = lseek(k->input->fd, 0, SEEK_CUR);

	k->has_base = true;
	k->base_ns = NS_PER_S; /* time stamps may be 0 */
	if (at < 0 || lseek(k->input->fd, 0, SEEK_SET) != 0)
		return;
	if (input_open(&ahead, fcntl(k->input->fd, F_DUPFD_CLOEXEC, 3), k->path, k->options->cancel,
		       NULL) == 0)
		scan_for_number(&ahead, BASE_KEY, &k->base_ns);
	input_close(&ahead);
	lseek(k->input->fd, at, SEEK_SET);
}

/* ---- the header ---- */

static bool is_key(const struct kineto *k, const char *key)
{
	return !strcmp(strbuf_text(&k->json.key), key);
}

static int read_distributed(struct kineto *k)
{
	size_t depth = k->json.depth + 1;
	uint64_t value;
	int rc;

	while ((rc = json_pull_next(&k->json, k->error)) > 0 && k->json.depth >= depth) {
		bool good = k->json.kind == JSON_NUMBER && k->json.depth == depth &&
			    parse_u64(strbuf_text(&k->json.text), &value) == 0 &&
			    value <= UINT32_MAX;

		if (good && is_key(k, "rank"))
			k->rank = (int64_t)value;
		if (good && is_key(k, "world_size"))
			k->ranks = (int64_t)value;
	}
	return MIN(rc, 0);
}

/* Sets a limit of a GPU by its key in deviceProperties. */
static void set_property(struct row_device *row, const char *key, uint64_t value)
{
#define PROPERTY(key, column)                                                                      \
	{                                                                                          \
		key, offsetof(struct row_device, column), COLUMN_device_##column                   \
	}
	static const struct {
		const char *key;
		size_t offset;
		int column;
	} all[] = {
		PROPERTY("id", id),
		PROPERTY("computeMajor", compute_major),
		PROPERTY("computeMinor", compute_minor),
		PROPERTY("numSms", multiprocessors),
		PROPERTY("warpSize", warp_size),
		PROPERTY("maxThreadsPerBlock", max_threads_per_block),
		PROPERTY("maxThreadsPerMultiprocessor", max_threads_per_multiprocessor),
		PROPERTY("regsPerBlock", registers_per_block),
		PROPERTY("regsPerMultiprocessor", registers_per_multiprocessor),
		PROPERTY("sharedMemPerBlock", shared_per_block_bytes),
		PROPERTY("sharedMemPerBlockOptin", shared_per_block_optin_bytes),
		PROPERTY("sharedMemPerMultiprocessor", shared_per_multiprocessor_bytes),
		PROPERTY("maxSharedMemoryPerMultiProcessor", shared_per_multiprocessor_bytes),
	};
#undef PROPERTY
	uint32_t narrow = (uint32_t)value;

	if (!strcmp(key, "totalGlobalMem"))
		row->memory_bytes = value;
	for (size_t i = 0; i < ARRAY_SIZE(all) && value <= UINT32_MAX; i++)
		if (!strcmp(key, all[i].key)) {
			memcpy((char *)row + all[i].offset, &narrow, sizeof(narrow));
			row->missing &= ~(UINT64_C(1) << all[i].column);
		}
}

static int read_devices(struct kineto *k)
{
	struct json_pull *p = &k->json;
	size_t depth = p->depth + 1;
	struct row_device row = { .missing = schema_missing(TABLE_device), .id = UINT32_MAX };
	uint64_t value;
	int rc;

	while ((rc = json_pull_next(p, k->error)) > 0 && p->depth >= depth) {
		const char *text = strbuf_text(&p->text);

		if (rc == JSON_PULL_CLOSE && p->depth == depth) {
			if (row.id < KINETO_DEVICES) {
				k->gpus[row.id] = row;
				k->known_gpus |= UINT64_C(1) << row.id;
			}
			row = (struct row_device){ .missing = schema_missing(TABLE_device),
						   .id = UINT32_MAX };
		} else if (rc == JSON_PULL_VALUE && is_key(k, "name")) {
			row.name = kineto_intern(k, text, strlen(text));
		} else if (rc == JSON_PULL_VALUE && parse_u64(text, &value) == 0) {
			set_property(&row, strbuf_text(&p->key), value);
		}
	}
	return MIN(rc, 0);
}

static int flush(struct kineto *k)
{
	struct writer_stats stats;

	writer_flush(k->writer);
	writer_stats(k->writer, &stats);
	k->unflushed_bytes = 0;
	return stats.error ? error_errno(k->error, stats.error, "cannot write the recording") : 0;
}

static int read_events(struct kineto *k, struct totals *t)
{
	struct json_pull *p = &k->json;
	size_t depth = p->depth + 1;
	int64_t stamp;
	int rc;

	while ((rc = json_pull_next(p, k->error)) > 0 && p->depth >= depth) {
		if (p->kind != JSON_OBJECT) {
			kineto_count(k, KINETO_DAMAGED_COUNT);
			rc = json_pull_skip(p, k->error);
		} else {
			rc = kineto_read_event(k);
			if (rc == 0 && !k->has_base &&
			    kineto_time(kineto_text(k, KINETO_TS), &stamp) && stamp > 0 &&
			    stamp < ABSOLUTE_NS)
				find_base(k);
			if (rc == 0 && k->event.has)
				kineto_add_event(k);
		}
		if (rc == 0 && k->unflushed_bytes >= FLUSH_BYTES) {
			rc = flush(k);
			if (k->options->progress)
				k->options->progress(k->options->progress_user,
						     t->done_bytes + k->input->raw_bytes,
						     t->files_bytes);
		}
		if (rc < 0)
			break;
	}
	return MIN(rc, 0);
}

static int read_member(struct kineto *k, struct totals *t)
{
	struct json_pull *p = &k->json;
	const char *text = strbuf_text(&p->text);
	uint64_t number;

	if (is_key(k, "traceEvents") && p->kind == JSON_ARRAY)
		return read_events(k, t);
	if (is_key(k, "distributedInfo") && p->kind == JSON_OBJECT)
		return read_distributed(k);
	if (is_key(k, "deviceProperties") && p->kind == JSON_ARRAY)
		return read_devices(k);
	if (is_key(k, "baseTimeNanoseconds") && !k->has_base && parse_u64(text, &k->base_ns) == 0)
		k->has_base = true;
	else if (is_key(k, "host_name") && p->kind == JSON_STRING)
		snprintf(k->host, sizeof(k->host), "%s", text);
	else if (is_key(k, "cuda_driver_version") && parse_u64(text, &number) == 0)
		k->driver_version = (uint32_t)MIN(number, UINT32_MAX);
	return json_pull_skip(p, k->error);
}

/* Reads the object, or the bare array of events. */
static int read_json(struct kineto *k, struct totals *t)
{
	int rc = json_pull_next(&k->json, k->error);

	if (rc > 0 && k->json.kind == JSON_ARRAY)
		return read_events(k, t);
	while (rc > 0 && (rc = json_pull_next(&k->json, k->error)) == JSON_PULL_VALUE)
		rc = read_member(k, t) < 0 ? k->error->code : 1;
	return MIN(rc, 0);
}

/* ---- the process ---- */

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
	if (k->rank >= 0) {
		strbuf_clear(&k->scratch);
		strbuf_addf(&k->scratch, "%s (rank %lld)", name, (long long)k->rank);
		row.command = rows_text(k->writer, strbuf_text(&k->scratch));
	}
	row.host = rows_text(k->writer, k->host);
	clock.monotonic_ns = clock.realtime_ns = clock.boottime_ns = start_ns;
	kineto_append(k, TABLE_clock, &clock);
	kineto_append(k, TABLE_process, &row);
	k->result->start_ns = k->result->start_ns ? MIN(k->result->start_ns, start_ns) : start_ns;
	k->result->end_ns = MAX(k->result->end_ns, end_ns);
	if (!*k->result->name)
		snprintf(k->result->name, sizeof(k->result->name), "%.63s", name);
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
		if (starts_with(name, "AMD") || starts_with(name, "Intel"))
			row->compute_major = row->compute_minor = 0;
		else
			occupancy_add_limits(row);
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
		const char *reason;
	} gaps[] = {
		{ feature_api_call, !k->counts[KINETO_CALLS_COUNT],
		  "the trace contains no runtime calls" },
		{ feature_synchronization, !rows[TABLE_synchronization],
		  "the trace contains no cuda_sync events: Kineto writes them with "
		  "enable_cuda_sync_events" },
		{ feature_allocation, !rows[TABLE_allocation],
		  "the trace contains no memory events: profile_memory=True" },
		{ feature_python_stacks, !k->counts[KINETO_STACKS_COUNT],
		  "the trace contains no Python stacks: with_stack=True" },
		{ feature_context, k->lacks_context,
		  "the trace does not name contexts; all are 0" },
		{ feature_device, k->lacks_device,
		  "the trace does not name the GPU of some work, which is attributed to GPU 0" },
		{ feature_latency_timestamps, true, "Kineto does not write when work was queued" },
		{ feature_cpu, true, "the trace contains no CPU samples" },
		{ feature_counters, !rows[TABLE_counter_sample], "the trace contains no counters" },
	};

	rows_capability_at(k->writer, k->first_ns, feature_import, capability_state_on, NULL,
			   "Chrome trace JSON", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(gaps); i++)
		if (gaps[i].is_lacking)
			rows_capability_at(k->writer, k->first_ns, gaps[i].feature,
					   capability_state_unavailable, NULL, NULL,
					   gaps[i].reason);
}

static void append_losses(struct kineto *k, const char *broken)
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
	if (broken)
		rows_loss(k->writer,
			  k->at_end ? loss_reason_truncated_file : loss_reason_damaged_file, 1,
			  k->first_ns, k->last_ns, broken);
	k->result->unknown += k->counts[KINETO_UNKNOWN_COUNT];
	k->result->damaged += k->counts[KINETO_DAMAGED_COUNT] + (broken != NULL);
}

static int finish(struct kineto *k, const char *broken)
{
	int rc;

	if (!k->first_ns)
		return error_set(k->error, -ENODATA, "'%s' contains no event with a time", k->path);
	if (k->rank < 0)
		k->rank = rank_in_name(k->path);
	rc = kineto_write_threads(k);
	if (rc == -ENOMEM)
		return error_set(k->error, rc, "out of memory");
	if (rc < 0)
		return rc;
	append_devices(k);
	append_process(k, !broken);
	append_gaps(k);
	append_losses(k, broken);
	return flush(k);
}

static void release(struct kineto *k)
{
	struct map *maps[] = { &k->threads,  &k->functions, &k->function_ids,  &k->call_stacks,
			       &k->launches, &k->work,      &k->seen,          &k->contexts,
			       &k->counters, &k->metrics,   &k->event_records, &k->gpu_pids,
			       &k->gpu_rows };

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
	vec_release(&k->all_launches);
	vec_release(&k->all_work);
}

/* Reads what is left of a broken file as a loss. */
static int read_file(struct kineto *k, struct totals *t)
{
	struct error own = { 0 }, *error = k->error;
	int rc;

	k->error = &own;
	rc = read_json(k, t);
	k->error = error;
	if (rc >= 0 && k->input->is_truncated)
		snprintf(own.text, sizeof(own.text), "the compressed file is damaged at its end");
	else if (rc == E_FORMAT || rc >= 0)
		rc = 0;
	if (rc < 0) {
		*error = own;
		return error_prefix(error, "'%s'", k->path);
	}
	return finish(k, *own.text ? own.text : NULL);
}

static int import_file(struct input *in, const char *path, const struct import_options *options,
		       const char *directory, struct import_result *result, struct totals *t,
		       struct error *e)
{
	_cleanup_free_ struct kineto *k = calloc(1, sizeof(*k));
	char prefix[32];
	struct writer_options o = { .directory = directory, .prefix = prefix, .background = true };
	int rc;

	if (!k)
		return error_set(e, -ENOMEM, "out of memory");
	k->options = options;
	k->result = result;
	k->input = in;
	k->path = path;
	k->error = e;
	k->json = (struct json_pull){ .read = read_text, .user = k, .accepts_nan = true };
	k->rank = k->ranks = -1;
	k->category_count = 1;
	interner_init(&k->texts);
	stack_tree_init(&k->stacks, NODES_MAX, kineto_python_frame, k);
	snprintf(prefix, sizeof(prefix), "kineto-%llu", (unsigned long long)result->sessions);
	k->session = o.session = (hash_bytes(path, strlen(path)) + result->sessions) | 1;
	o.now_ns = &k->last_ns;
	rc = writer_open(&o, &k->writer, e);
	if (rc >= 0)
		rc = read_file(k, t);
	if (rc >= 0 && writer_close(&k->writer) < 0)
		rc = error_set(e, -EIO, "cannot write the recording");
	if (rc >= 0) {
		result->sessions++;
		result->files++;
		result->bytes += in->raw_bytes;
		result->records += k->counts[KINETO_EVENTS_COUNT];
		for (size_t i = 0; i < KINETO_COUNTERS; i++)
			t->counts[i] += k->counts[i];
		rc = import_add_part(result, path, k->rank, k->ranks, k->first_ns, k->last_ns, e);
	}
	release(k);
	return rc;
}

/* ---- what was done ---- */

static void add_count(struct strbuf *out, const struct totals *t, enum kineto_count what)
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

static void add_note(struct import_result *result, const char *head, const struct totals *t,
		     enum kineto_count first, enum kineto_count last)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	for (enum kineto_count i = first; i <= last; i++)
		add_count(&text, t, i);
	if (text.length)
		import_note(result, "%s%s", head, strbuf_text(&text));
}

static void add_notes(struct import_result *result, const struct totals *t)
{
	add_note(result, "read: ", t, KINETO_EVENTS_COUNT, KINETO_UNLINKED_COUNT);
	add_note(result, "threads: ", t, KINETO_CALLS_COUNT, KINETO_STACKS_COUNT);
	add_note(result, "left out: ", t, KINETO_FLOWS_COUNT, KINETO_UNTIMED_COUNT);
	add_note(result, "changed: ", t, KINETO_DAMAGED_COUNT, KINETO_NO_ROOM_COUNT);
}

/* ---- files ---- */

static bool contains(const struct input *in, const char *text)
{
	return memmem(in->head, in->head_length, text, strlen(text)) != NULL;
}

/* An object with traceEvents, Kineto's header, or a bare array of events. */
static int sniff_head(const struct input *in)
{
	size_t blank = 0;

	while (blank < in->head_length && strchr(" \t\r\n", in->head[blank]))
		blank++;
	if (blank == in->head_length)
		return 0;
	if (in->head[blank] == '{')
		return contains(in, "\"traceEvents\"") ? 85
		       : contains(in, "\"schemaVersion\"") &&
				       (contains(in, "\"deviceProperties\"") ||
					contains(in, "\"distributedInfo\""))
			       ? 70
			       : 0;
	return in->head[blank] == '[' && contains(in, "\"ph\"") && contains(in, "\"ts\"") ? 60 : 0;
}

struct file_name {
	char *text;
};
ORDER(compare_names, struct file_name, strcmp(a->text, b->text))

/* Lists the files of a folder, by name. */
static int list_files(const struct import_source *source, struct file_name **names, size_t *count,
		      struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(source->folder);
	VEC(struct file_name) all = VEC_INIT;
	const char *name;
	int rc = 0;

	if (!list)
		return error_errno(e, errno, "cannot read '%s'", source->path);
	while (rc == 0 && all.count < FILES_MAX && (name = folder_next(list))) {
		struct file_name copy = { strdup(name) };

		rc = copy.text ? vec_push(&all, copy) : -ENOMEM;
		if (rc < 0)
			free(copy.text);
	}
	vec_sort(&all, compare_names);
	*names = all.data;
	*count = all.count;
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

static void free_names(struct file_name *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i].text);
	free(names);
}

/* Opens a file of the folder; a result of input_open() that is not 0 is no reason to stop. */
static int open_name(const struct import_source *source, const char *name, struct input *in)
{
	return input_open(in, folder_open_file(source->folder, name, O_RDONLY, FOLDER_ANY), name,
			  source->input.cancel, NULL);
}

static int import_folder(struct import_source *source, const struct import_options *options,
			 const char *directory, struct import_result *result, struct totals *t,
			 struct error *e)
{
	struct file_name *names = NULL;
	size_t count = 0, others = 0, read = 0;
	const char *other = NULL;
	struct stat st;
	int rc = list_files(source, &names, &count, e);

	for (size_t i = 0; i < count; i++)
		if (folder_stat(source->folder, names[i].text, &st) == 0 && S_ISREG(st.st_mode))
			t->files_bytes += (uint64_t)st.st_size;
	for (size_t i = 0; i < count && rc >= 0; i++) {
		struct input in = { .fd = -1 };

		if (open_name(source, names[i].text, &in) == 0 && sniff_head(&in)) {
			in.cancel = options->cancel;
			rc = import_file(&in, names[i].text, options, directory, result, t, e);
			read++;
			if (rc == -ENODATA)
				import_note(result, "%s", e->text);
			if (rc == -ENODATA)
				rc = 0;
		} else if (!others++) {
			other = names[i].text;
		}
		t->done_bytes += in.raw_bytes;
		input_close(&in);
	}
	if (rc >= 0 && others)
		import_note(result,
			    "left out: %zu file%s or folder%s that %s no trace, such as '%s'",
			    others, plural(others), plural(others), plural_of(others, "is", "are"),
			    other);
	if (rc >= 0 && !read)
		rc = error_set(e, -ENODATA, "no Chrome trace JSON in '%s'", source->path);
	free_names(names, count);
	return rc;
}

int kineto_run(struct import_source *source, const struct import_options *options,
	       const char *directory, struct import_result *result, struct error *e)
{
	struct error none = { 0 };
	struct totals t = { .done_bytes = 0 };
	struct stat st;
	int rc;

	e = e ? e : &none;
	if (source->folder >= 0) {
		rc = import_folder(source, options, directory, result, &t, e);
	} else {
		if (fstat(source->input.fd, &st) == 0)
			t.files_bytes = (uint64_t)st.st_size;
		rc = import_file(&source->input, source->path, options, directory, result, &t, e);
	}
	if (rc >= 0)
		add_notes(result, &t);
	return rc;
}

int kineto_sniff(const struct import_source *source)
{
	struct file_name *names = NULL;
	size_t count = 0;
	int score = 0;

	if (source->folder < 0)
		return sniff_head(&source->input);
	if (list_files(source, &names, &count, NULL) < 0)
		count = 0;
	for (size_t i = 0; i < count && !score; i++) {
		struct input in = { .fd = -1 };

		if (strstr(names[i].text, ".json") && open_name(source, names[i].text, &in) == 0)
			score = MIN(sniff_head(&in), 75);
		input_close(&in);
	}
	free_names(names, count);
	return score;
}
