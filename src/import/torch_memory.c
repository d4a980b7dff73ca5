/*
 * torch_memory.c: converts memory snapshots of PyTorch's caching allocator (pickles, read by
 * pickle.c) and its raw memory timelines (JSON).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "import/pickle.h"
#include "import/torch_blocks.h"

#define FRAMES_MAX 256u
#define SNAPSHOT_BYTES_MAX ((size_t)1 << 31)
#define CATEGORIES 8u
#define NS_PER_US 1000u
#define RANGES_SEARCHED 20000u /* the latest, for parts of them: a file may have any number */

/* Memory that an entry of the history has reserved. Ranges may be released in other parts. */
struct range {
	uint64_t address, size;
	uint32_t device;
};

struct snapshot {
	struct kineto *k;
	struct pickle pickle;
	struct map stacks; /* list of frames -> id of the stack, or UINT64_MAX for none */
	struct map live; /* device << 48 ^ address -> size of blocks of the history */
	VEC(struct range) reserved; /* size 0: released */
	struct map range_at; /* device << 48 ^ address -> item of reserved */
	struct torch_blocks blocks; /* of the current device */
	bool is_expandable;
	uint64_t max_split_bytes;
	uint64_t correlation, older, older_segments, wrong_segments, guessed, wrong_blocks;
	size_t unvisited; /* values: a list can have one value any number of times */
};

/* ---- snapshots ---- */

static uint64_t integer(const struct snapshot *s, uint32_t dict, const char *key)
{
	int64_t value;

	return pickle_integer(&s->pickle, pickle_member(&s->pickle, dict, key), &value)
		       ? (uint64_t)value
		       : 0;
}

static struct pickle_text text(const struct snapshot *s, uint32_t dict, const char *key)
{
	return pickle_text(&s->pickle, pickle_member(&s->pickle, dict, key));
}

static bool is(struct pickle_text t, const char *word)
{
	return t.length == strlen(word) && !memcmp(t.bytes, word, t.length);
}

/* Counts an item of a list, which in a real snapshot is a value of its own. */
static int visit(struct snapshot *s)
{
	const struct import_options *o = s->k->options;

	if (o->cancel && *o->cancel)
		return error_set(s->k->error, -ECANCELED, "%s", error_code_text(-ECANCELED));
	if (!s->unvisited--)
		return error_set(s->k->error, E_FORMAT,
				 "'%s': lists of the pickle have the same entries many times",
				 s->k->path);
	return 0;
}

/* Frames are dictionaries, innermost first. Entries with one stack share the list. */
static uint32_t stack_of(struct snapshot *s, uint32_t list)
{
	struct pickle_items items = pickle_items(&s->pickle, list);
	uint64_t frames[FRAMES_MAX], *known = map_at(&s->stacks, list, UINT64_MAX);
	struct kineto *k = s->k;
	unsigned count = 0;

	if (!items.count || !known || *known != UINT64_MAX)
		return known && *known != UINT64_MAX ? (uint32_t)*known : 0;
	for (size_t i = 0; i < items.count && count < FRAMES_MAX; i++) {
		struct pickle_text file = text(s, items.values[i], "filename"),
				   name = text(s, items.values[i], "name");
		uint32_t frame;

		strbuf_clear(&k->scratch);
		strbuf_add(&k->scratch, file.bytes, file.length);
		strbuf_addf(&k->scratch, "(%u): ", (uint32_t)integer(s, items.values[i], "line"));
		strbuf_add(&k->scratch, name.bytes, name.length);
		frame = kineto_intern(k, strbuf_text(&k->scratch), k->scratch.length);
		if (frame)
			frames[count++] = frame | FRAME_PYTHON;
	}
	*known = stack_tree_id(&k->stacks, k->writer, frames, count,
			       count == items.count ? stack_end_complete : stack_end_depth, NULL);
	return (uint32_t)*known;
}

/* The stack belongs to a call, which is not known: an untimed one stands for it. */
static uint64_t add_origin(struct snapshot *s, uint32_t entry, uint64_t time_ns)
{
	struct row_api_call call = { .start_ns = time_ns,
				     .end_ns = time_ns,
				     .function = api_kind_untimed,
				     .correlation = s->correlation + 1,
				     .stack = stack_of(
					     s, pickle_member(&s->pickle, entry, "frames")) };

	if (!call.stack)
		return 0;
	kineto_count(s->k, KINETO_STACKS_COUNT);
	ROW_MISSING(&call, api_call, result, stream, event, context);
	writer_api_function(s->k->writer, api_kind_untimed, NULL);
	kineto_append(s->k, TABLE_api_call, &call);
	return ++s->correlation;
}

static void append(struct snapshot *s, struct row_allocation row, uint32_t entry, bool release,
		   uint64_t time_ns)
{
	uint64_t stream = integer(s, entry, "stream");

	row.missing = schema_missing(TABLE_allocation);
	row.time_ns = time_ns;
	row.operation = release ? memory_operation_release : memory_operation_allocation;
	row.correlation = time_ns ? add_origin(s, entry, time_ns) : 0;
	row.stream = (uint32_t)stream;
	PRESENT(&row, allocation, time_ns, time_ns);
	PRESENT(&row, allocation, bytes, 1);
	PRESENT(&row, allocation, stream, time_ns && stream <= UINT32_MAX);
	kineto_append(s->k, TABLE_allocation, &row);
}

static uint64_t block_key(uint64_t address, uint32_t device)
{
	return address ^ (uint64_t)device << 48;
}

static int allocate_block(struct snapshot *s, uint32_t entry, uint32_t device, uint64_t time_ns)
{
	struct row_allocation row = { .kind = memory_kind_allocator_block,
				      .address = integer(s, entry, "addr"),
				      .device = device };
	int rc = torch_blocks_allocate(&s->blocks, row.address, integer(s, entry, "size"),
				       &row.bytes);

	append(s, row, entry, false, time_ns);
	return rc < 0 ? rc : map_put(&s->live, block_key(row.address, device), row.bytes);
}

/* The size of a block that is older than the history is what was requested. */
static int free_block(struct snapshot *s, uint32_t entry, uint32_t device, uint64_t time_ns)
{
	struct row_allocation row = { .kind = memory_kind_allocator_block,
				      .address = integer(s, entry, "addr"),
				      .bytes = integer(s, entry, "size"),
				      .device = device };

	if (map_remove(&s->live, block_key(row.address, device), &row.bytes))
		torch_blocks_free(&s->blocks, row.address);
	else
		s->guessed++;
	append(s, row, entry, true, time_ns);
	return 0;
}

/* Of the history, or what stays of a range when the rest is released. */
static int reserve(struct snapshot *s, uint32_t entry, struct range r, uint64_t time_ns)
{
	append(s,
	       (struct row_allocation){ .kind = memory_kind_allocator_segment,
					.address = r.address,
					.bytes = r.size,
					.device = r.device },
	       entry, false, time_ns);
	if (vec_push(&s->reserved, r) < 0)
		return -ENOMEM;
	return map_put(&s->range_at, block_key(r.address, r.device), s->reserved.count - 1);
}

static int add_segment(struct snapshot *s, uint32_t entry, uint32_t device, uint64_t time_ns)
{
	struct range r = { integer(s, entry, "addr"), integer(s, entry, "size"), device };
	int rc = reserve(s, entry, r, time_ns);

	return rc < 0 ? rc : torch_blocks_add_segment(&s->blocks, r.address, r.size);
}

/*
 * The next reserved range that overlaps another, from item *from on, which is set to the item after
 * it. One with the same address is the only one, if it has the same size.
 */
static struct range *overlapping(const struct snapshot *s, const struct range *with, size_t *from)
{
	uint64_t item;

	if (!*from && map_get(&s->range_at, block_key(with->address, with->device), &item) &&
	    s->reserved.data[item].size == with->size) {
		*from = s->reserved.count;
		return &s->reserved.data[item];
	}
	if (!*from && s->reserved.count > RANGES_SEARCHED)
		*from = s->reserved.count - RANGES_SEARCHED;
	while (*from < s->reserved.count) {
		struct range *r = &s->reserved.data[(*from)++];

		if (r->device == with->device && r->address < with->address + with->size &&
		    with->address < r->address + r->size)
			return r;
	}
	return NULL;
}

static uint64_t common_bytes(const struct range *a, const struct range *b)
{
	return MIN(a->address + a->size, b->address + b->size) - MAX(a->address, b->address);
}

static int remove_segment(struct snapshot *s, uint32_t entry, uint32_t device, uint64_t time_ns)
{
	struct range gone = { integer(s, entry, "addr"), integer(s, entry, "size"), device }, *r;
	struct row_allocation row = { .kind = memory_kind_allocator_segment, .device = device };
	uint64_t end = gone.address + gone.size, known = 0;
	int rc = 0;

	torch_blocks_remove_segment(&s->blocks, gone.address);
	for (size_t from = 0; rc == 0 && (r = overlapping(s, &gone, &from));) {
		struct range before = { r->address, gone.address - r->address, device };
		struct range after = { end, r->address + r->size - end, device };
		bool has_before = r->address < gone.address, has_after = end < r->address + r->size;

		row.address = r->address;
		row.bytes = r->size;
		append(s, row, entry, true, time_ns);
		known += common_bytes(r, &gone);
		r->size = 0;
		if (has_before)
			rc = reserve(s, entry, before, time_ns);
		if (rc == 0 && has_after)
			rc = reserve(s, entry, after, time_ns);
	}
	row.address = gone.address;
	row.bytes = gone.size - MIN(known, gone.size); /* older than the history */
	if (row.bytes && rc == 0)
		append(s, row, entry, true, time_ns);
	return rc;
}

static int add_mark(struct snapshot *s, uint32_t entry, uint32_t device, uint64_t time_ns)
{
	struct row_nvtx row = { .missing = schema_missing(TABLE_nvtx),
				.time_ns = time_ns,
				.kind = nvtx_kind_mark };
	char message[96];

	(void)device;
	snprintf(message, sizeof(message), "out of memory: %llu B requested, %llu B free",
		 (unsigned long long)integer(s, entry, "size"),
		 (unsigned long long)integer(s, entry, "device_free"));
	row.message = rows_text(s->k->writer, message);
	PRESENT(&row, nvtx, message, 1);
	kineto_append(s->k, TABLE_nvtx, &row);
	return 0;
}

/* A block is used until free_completed; free_requested may wait for other streams. */
static int add_entry(struct snapshot *s, uint32_t entry, uint32_t device)
{
	static const struct {
		const char *action;
		int (*add)(struct snapshot *s, uint32_t entry, uint32_t device, uint64_t time_ns);
	} actions[] = {
		{ "alloc", allocate_block },
		{ "free_completed", free_block },
		{ "segment_alloc", add_segment },
		{ "segment_map", add_segment },
		{ "segment_free", remove_segment },
		{ "segment_unmap", remove_segment },
		{ "oom", add_mark },
	};
	struct pickle_text action = text(s, entry, "action");
	uint64_t time_ns = integer(s, entry, "time_us");

	kineto_count(s->k, KINETO_EVENTS_COUNT);
	if (!time_ns || time_ns > INT64_MAX / NS_PER_US) {
		kineto_count(s->k, KINETO_UNTIMED_COUNT);
		return 0;
	}
	time_ns = kineto_own_time(s->k, time_ns * NS_PER_US);
	kineto_extend(s->k, time_ns, time_ns);
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (is(action, actions[i].action))
			return actions[i].add(s, entry, device, time_ns);
	if (is(action, "free_requested") || is(action, "snapshot"))
		kineto_count(s->k, KINETO_MARKERS_COUNT);
	else
		kineto_count(s->k, KINETO_UNKNOWN_COUNT);
	return 0;
}

/* Memory that is older than the trace has no time: only the snapshot shows it. */
static void add_old(struct snapshot *s, uint8_t kind, uint32_t device, uint64_t address,
		    uint64_t bytes)
{
	append(s,
	       (struct row_allocation){
		       .kind = kind, .address = address, .bytes = bytes, .device = device },
	       PICKLE_NONE, false, 0);
}

static void check_block(struct snapshot *s, uint32_t block, uint32_t device, uint64_t address,
			uint64_t size)
{
	uint64_t known;

	if (!is(text(s, block, "state"), "active_allocated"))
		return;
	if (map_get(&s->live, block_key(address, device), &known)) {
		s->wrong_blocks += known != size;
		return;
	}
	s->older++;
	add_old(s, memory_kind_allocator_block, device, address, size);
}

/* What of a segment no entry of the history has reserved. */
static uint64_t older_bytes(const struct snapshot *s, const struct range *segment)
{
	const struct range *r;
	uint64_t known = 0;

	for (size_t from = 0; (r = overlapping(s, segment, &from));)
		known += common_bytes(r, segment);
	return segment->size - MIN(known, segment->size);
}

/* Old snapshots have no addresses of blocks: the order implies them. */
static int read_segment(struct snapshot *s, uint32_t segment)
{
	struct pickle_items blocks =
		pickle_items(&s->pickle, pickle_member(&s->pickle, segment, "blocks"));
	struct range whole = { integer(s, segment, "address"), integer(s, segment, "total_size"),
			       (uint32_t)integer(s, segment, "device") };
	uint64_t address = whole.address, sum = 0, active = 0, older = older_bytes(s, &whole);
	int rc = visit(s);

	for (size_t i = 0; i < blocks.count && rc == 0; i++) {
		uint64_t size = integer(s, blocks.values[i], "size");

		rc = visit(s);
		if (integer(s, blocks.values[i], "address"))
			address = integer(s, blocks.values[i], "address");
		active += is(text(s, blocks.values[i], "state"), "active_allocated") ? size : 0;
		check_block(s, blocks.values[i], whole.device, address, size);
		address += size;
		sum += size;
	}
	s->wrong_segments += sum != whole.size || active != integer(s, segment, "allocated_size");
	s->older_segments += older != 0;
	if (older)
		add_old(s, memory_kind_allocator_segment, whole.device, whole.address, older);
	return rc;
}

static void read_settings(struct snapshot *s)
{
	uint32_t settings = pickle_member(&s->pickle, s->pickle.top, "allocator_settings");
	uint64_t bytes = integer(s, settings, "max_split_size");

	s->is_expandable = integer(s, settings, "expandable_segments") == 1;
	s->max_split_bytes = bytes && bytes <= INT64_MAX ? bytes : UINT64_MAX;
}

static int read_device(struct snapshot *s, uint32_t trace, uint32_t device)
{
	struct pickle_items entries = pickle_items(&s->pickle, trace);
	int rc = 0;

	torch_blocks_init(&s->blocks);
	s->blocks.is_expandable = s->is_expandable;
	s->blocks.max_split_bytes = s->max_split_bytes;
	for (size_t i = 0; i < entries.count && rc == 0; i++) {
		rc = visit(s);
		if (rc == 0 && add_entry(s, entries.values[i], device) < 0)
			rc = error_set(s->k->error, -ENOMEM, "out of memory");
		if (rc == 0 && i % 65536 == 65535)
			rc = kineto_flush(s->k);
	}
	s->guessed += s->blocks.guessed;
	torch_blocks_release(&s->blocks);
	return rc;
}

static void note(const struct snapshot *s, uint64_t count, const char *one, const char *many)
{
	if (count)
		import_note(s->k->result, "%llu %s", (unsigned long long)count,
			    plural_of(count, one, many));
}

static int convert(struct snapshot *s)
{
	const struct pickle *p = &s->pickle;
	struct pickle_items devices = pickle_items(p, pickle_member(p, p->top, "device_traces"));
	struct pickle_items segments = pickle_items(p, pickle_member(p, p->top, "segments"));
	struct kineto *k = s->k;
	int rc = 0;

	s->unvisited = p->values.count;
	read_settings(s);
	for (size_t d = 0; d < devices.count && rc == 0; d++)
		rc = read_device(s, devices.values[d], (uint32_t)d);
	if (rc == 0 && !k->first_ns)
		return error_set(k->error, -ENODATA,
				 "'%s' contains no history: call "
				 "torch.cuda.memory._record_memory_history() before",
				 k->path);
	for (size_t i = 0; i < segments.count && rc == 0; i++)
		rc = read_segment(s, segments.values[i]);
	note(s, s->older, "block is older than the history", "blocks are older than the history");
	note(s, s->older_segments, "segment is older than the history",
	     "segments are older than the history");
	note(s, s->wrong_segments, "segment whose blocks do not add up to its size",
	     "segments whose blocks do not add up to their size");
	note(s, s->guessed, "block whose size is only known as requested or rounded",
	     "blocks whose sizes are only known as requested or rounded");
	note(s, s->wrong_blocks, "block that is larger or smaller than the history says",
	     "blocks that are larger or smaller than the history says");
	return rc;
}

static int read_snapshot(struct kineto *k)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	struct snapshot s = { .k = k };
	int rc = import_read_all(k->files, k->input, k->path, SNAPSHOT_BYTES_MAX, &bytes, k->error);

	if (rc == 0)
		rc = pickle_read(&s.pickle, bytes.data, bytes.length, k->error);
	if (rc < 0)
		error_prefix(k->error, "'%s'", k->path);
	else
		rc = convert(&s);
	pickle_release(&s.pickle);
	map_release(&s.stacks);
	map_release(&s.live);
	vec_release(&s.reserved);
	map_release(&s.range_at);
	return rc;
}

/* ---- memory timelines ---- */

static const char *const categories[CATEGORIES] = { "parameter",       "optimizer state",
						    "input",           "temporary",
						    "activation",      "gradient",
						    "autograd detail", "unknown" };

struct timeline {
	int64_t bytes[CATEGORIES]; /* in use */
	uint64_t changed; /* bits: categories whose sample is not written yet */
	uint64_t time_ns;
};

static void write_samples(struct kineto *k, struct timeline *t)
{
	for (uint32_t i = 0; i < CATEGORIES; i++) {
		struct row_counter_sample row = { .time_ns = t->time_ns,
						  .counter = i + 1,
						  .value = t->bytes[i] };

		if (!(t->changed >> i & 1) || !t->time_ns)
			continue;
		ROW_MISSING(&row, counter_sample, thread, device);
		kineto_append(k, TABLE_counter_sample, &row);
	}
	t->changed = t->time_ns ? 0 : t->changed;
}

/* [time, action, bytes, category]: the sum of bytes is what is in use; time -1: before. */
static void add_change(struct kineto *k, struct timeline *t, const int64_t *row)
{
	kineto_count(k, KINETO_EVENTS_COUNT);
	if (row[3] < 0 || row[3] >= CATEGORIES || row[0] == 0 || row[0] < -1) {
		kineto_count(k, KINETO_DAMAGED_COUNT);
		return;
	}
	if (row[0] > 0 && kineto_own_time(k, (uint64_t)row[0]) != t->time_ns) {
		write_samples(k, t);
		t->time_ns = kineto_own_time(k, (uint64_t)row[0]);
		kineto_extend(k, t->time_ns, t->time_ns);
	}
	if (__builtin_add_overflow(t->bytes[row[3]], row[2], &t->bytes[row[3]]))
		kineto_count(k, KINETO_DAMAGED_COUNT);
	t->changed |= UINT64_C(1) << row[3];
}

static int read_rows(struct kineto *k, struct timeline *t)
{
	struct json_pull *p = &k->json;
	int64_t row[4];
	size_t count = 0;
	int rc;

	while ((rc = json_pull_next(p, k->error)) > 0) {
		if (rc == JSON_PULL_CLOSE && p->depth == 1 && count == 4)
			add_change(k, t, row);
		else if (rc == JSON_PULL_CLOSE && p->depth == 1)
			kineto_count(k, KINETO_DAMAGED_COUNT);
		if (p->kind == JSON_NUMBER && rc == JSON_PULL_VALUE && p->depth == 2 && count < 4) {
			char *end;

			row[count++] = strtoll(strbuf_text(&p->text), &end, 10);
			count = *end ? 5 : count;
		} else if (rc == JSON_PULL_CLOSE || p->depth != 2) {
			count = 0;
		}
	}
	return MIN(rc, 0);
}

static int read_timeline(struct kineto *k)
{
	struct error own = { 0 }, *error = k->error;
	struct timeline t = { .time_ns = 0 };
	int rc;

	k->json = (struct json_pull){ .read = kineto_read_text, .user = k };
	for (uint32_t i = 0; i < CATEGORIES; i++) {
		struct row_counter counter = { .id = i + 1, .unit = rows_text(k->writer, "bytes") };

		strbuf_clear(&k->scratch);
		strbuf_addf(&k->scratch, "memory of category %s", categories[i]);
		counter.name = rows_text(k->writer, strbuf_text(&k->scratch));
		kineto_append(k, TABLE_counter, &counter);
	}
	k->error = &own;
	rc = read_rows(k, &t);
	k->error = error;
	write_samples(k, &t);
	return kineto_end_text(k, rc, &own);
}

/* ---- files ---- */

static bool is_pickle(const struct input *in)
{
	return in->head_length > 2 && in->head[0] == '\x80' && in->head[1] >= 2 && in->head[1] <= 5;
}

static int sniff_head(const struct input *in)
{
	char head[128];
	long long time, bytes;
	int action, category;
	size_t length = MIN(in->head_length, sizeof(head) - 1);

	if (is_pickle(in))
		return memmem(in->head, in->head_length, "segments", 8) ? 85 : 0;
	if (length)
		memcpy(head, in->head, length);
	head[length] = '\0';
	return sscanf(head, " [ [ %lld , %d , %lld , %d ]", &time, &action, &bytes, &category) == 4
		       ? 70
		       : 0;
}

static int read_file(struct kineto *k)
{
	return is_pickle(k->input) ? read_snapshot(k) : read_timeline(k);
}

/* No name in a folder has a slash: folders are not searched for them. */
KINETO_IMPORTER(torch_memory, "PyTorch's memory", "/", sniff_head, read_file)
