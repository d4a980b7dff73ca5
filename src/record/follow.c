/* follow.c: figures of a growing recording. */
#include "record/follow.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/human.h"
#include "base/map.h"
#include "base/path.h"
#include "base/search.h"
#include "base/vec.h"
#include "format/reader.h"

#define WINDOW_NS NS_PER_S /* utilization covers the latest second with data */
#define STALE_NS (5 * NS_PER_S) /* older data are not current: nothing is running */
#define DEVICES_MAX 64u

struct interval {
	uint64_t start_ns, end_ns;
};

struct followed {
	char name[64];
	struct segment segment;
	size_t blocks; /* number of blocks read */
	uint64_t size; /* file size at the last step */
	bool open, done; /* done: closed properly and read completely */
};

struct recent { /* unsorted kernels of a device in about the last window */
	struct interval *data;
	size_t count, capacity;
	uint64_t latest_ns;
};

struct follow {
	char *directory;
	VEC(struct followed) files;
	/* hash of the name -> index; after a collision one file is missing in the live line */
	struct map by_name;
	struct decoder *decoder;
	struct recent devices[DEVICES_MAX];
	struct follow_state state;
	uint64_t stepped_ns;
};

struct follow *follow_new(const char *directory)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->directory = strdup(directory);
	f->decoder = decoder_new();
	f->stepped_ns = clock_monotonic_ns();
	if (!f->directory || !f->decoder) {
		follow_free(f);
		return NULL;
	}
	return f;
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->files.count; i++) {
		if (f->files.data[i].open)
			segment_release(&f->files.data[i].segment);
	}
	for (size_t i = 0; i < DEVICES_MAX; i++)
		free(f->devices[i].data);
	vec_release(&f->files);
	map_release(&f->by_name);
	decoder_free(f->decoder);
	free(f->directory);
	free(f);
}

static void add_interval(struct recent *r, uint64_t start_ns, uint64_t end_ns)
{
	size_t kept = 0;

	r->latest_ns = MAX(r->latest_ns, end_ns);
	if (r->count == r->capacity && r->count) { /* drop intervals before the window */
		for (size_t i = 0; i < r->count; i++) {
			if (r->data[i].end_ns + WINDOW_NS > r->latest_ns)
				r->data[kept++] = r->data[i];
		}
		r->count = kept;
	}
	if (end_ns + WINDOW_NS > r->latest_ns)
		(void)!vec_push(r, ((struct interval){ start_ns, end_ns }));
}

/* Reads start and end of the kernels of a block. */
static void read_kernels(struct follow *f, const struct segment *s, const struct block_ref *b)
{
	uint32_t rows = b->header.rows;
	_cleanup_free_ uint64_t *starts = calloc(rows, sizeof(*starts));
	_cleanup_free_ uint64_t *ends = calloc(rows, sizeof(*ends));
	_cleanup_free_ uint32_t *devices = calloc(rows, sizeof(*devices));
	struct column_target targets[] = {
		{ .column = COLUMN_kernel_start_ns, .values = starts },
		{ .column = COLUMN_kernel_end_ns, .values = ends },
		{ .column = COLUMN_kernel_device, .values = devices },
	};

	if (!starts || !ends || !devices ||
	    block_decode(f->decoder, s, b, targets, ARRAY_SIZE(targets)) < 0)
		return;
	for (uint32_t i = 0; i < rows; i++) {
		if (starts[i] && ends[i] >= starts[i] && devices[i] < DEVICES_MAX)
			add_interval(&f->devices[devices[i]], starts[i], ends[i]);
	}
}

static void read_losses(struct follow *f, const struct segment *s, const struct block_ref *b)
{
	uint32_t rows = b->header.rows;
	_cleanup_free_ uint64_t *counts = calloc(rows, sizeof(*counts));
	struct column_target target = { .column = COLUMN_loss_count, .values = counts };

	if (!counts || block_decode(f->decoder, s, b, &target, 1) < 0)
		return;
	for (uint32_t i = 0; i < rows; i++)
		f->state.lost += MAX(counts[i], 1u);
}

static void read_block(struct follow *f, const struct segment *s, const struct block_ref *b)
{
	switch (b->header.table) {
	case TABLE_kernel:
		f->state.kernels += b->header.rows;
		read_kernels(f, s, b);
		break;
	case TABLE_loss:
		read_losses(f, s, b);
		break;
	default:
		break;
	}
}

static void step_file(struct follow *f, struct followed *file)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct stat st;

	strbuf_addf(&path, "%s/%s", f->directory, file->name);
	if (path.failed || stat(path.data, &st) < 0)
		return;
	if (file->done || (uint64_t)st.st_size == file->size)
		return;
	file->size = (uint64_t)st.st_size;
	/* A file without a complete header is tried again when it has grown. */
	if (file->open ? segment_refresh(&file->segment, NULL) < 0
		       : segment_open(path.data, &file->segment, NULL) < 0)
		return;
	file->open = true;
	for (; file->blocks < file->segment.block_count; file->blocks++)
		read_block(f, &file->segment, &file->segment.blocks[file->blocks]);
	if (!file->segment.closed)
		return;
	segment_release(&file->segment);
	file->open = false;
	file->done = true;
}

static struct followed *file_of(struct follow *f, const char *name)
{
	uint64_t *index = map_at(&f->by_name, hash_bytes(name, strlen(name)), UINT64_MAX);
	struct followed file = { 0 };

	if (!index)
		return NULL;
	if (*index == UINT64_MAX) {
		if ((size_t)snprintf(file.name, sizeof(file.name), "%s", name) >=
			    sizeof(file.name) ||
		    vec_push(&f->files, file) < 0)
			return NULL;
		*index = f->files.count - 1;
	}
	return &f->files.data[*index];
}

ORDER(by_start, struct interval, UP(start_ns))

/* Returns the union of the intervals within [from, to). Sorts them. */
static uint64_t union_ns(struct interval *intervals, size_t count, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t total = 0, reached = from_ns;

	qsort(intervals, count, sizeof(*intervals), by_start);
	for (size_t i = 0; i < count; i++) {
		uint64_t start = MAX(intervals[i].start_ns, reached),
			 end = MIN(intervals[i].end_ns, to_ns);

		if (end > start) {
			total += end - start;
			reached = end;
		}
	}
	return total;
}

static unsigned utilization_percent(struct follow *f, uint64_t now_ns)
{
	uint64_t busy = 0, latest = 0;

	f->state.gpus = 0;
	for (size_t i = 0; i < DEVICES_MAX; i++) {
		f->state.gpus += f->devices[i].latest_ns != 0;
		latest = MAX(latest, f->devices[i].latest_ns);
	}
	if (!f->state.gpus || latest + STALE_NS < now_ns || latest < WINDOW_NS)
		return 0;
	for (size_t i = 0; i < DEVICES_MAX; i++) {
		struct recent *r = &f->devices[i];

		busy += r->count ? union_ns(r->data, r->count, latest - WINDOW_NS, latest) : 0;
	}
	return (unsigned)(busy * 100 / (f->state.gpus * WINDOW_NS));
}

void follow_step(struct follow *f, struct follow_state *state)
{
	uint64_t now = clock_monotonic_ns(), kernels = f->state.kernels;
	_cleanup_list_ DIR *folder = opendir(f->directory);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		struct followed *file;

		if (!has_suffix(entry->d_name, SEGMENT_SUFFIX))
			continue;
		file = file_of(f, entry->d_name);
		if (file)
			step_file(f, file);
	}
	f->state.bytes = 0;
	for (size_t i = 0; i < f->files.count; i++)
		f->state.bytes += f->files.data[i].size;
	if (now > f->stepped_ns)
		f->state.kernels_per_s =
			(f->state.kernels - kernels) * NS_PER_S / (now - f->stepped_ns);
	f->stepped_ns = now;
	f->state.utilization_percent = utilization_percent(f, now);
	*state = f->state;
}

void follow_line(const struct follow_state *state, bool cpu_only, uint64_t elapsed_ns,
		 unsigned width, struct strbuf *out)
{
	size_t start = out->length;
	uint64_t seconds = elapsed_ns / NS_PER_S;

	strbuf_addf(out, "recording %u:%02u", (unsigned)(seconds / 60), (unsigned)(seconds % 60));
	if (state->gpus) {
		strbuf_adds(out, "  ");
		human_count(out, state->kernels_per_s);
		strbuf_addf(out, " kernels/s  GPU utilization %u%%", state->utilization_percent);
	} else if (!cpu_only) {
		strbuf_adds(out, "  no GPU work yet");
	}
	strbuf_adds(out, "  ");
	human_bytes(out, state->bytes);
	if (state->lost) {
		strbuf_adds(out, "  lost ");
		human_count(out, state->lost);
	} else {
		strbuf_adds(out, "  no loss");
	}
	if (!out->failed &&
	    out->length - start > width) { /* the line is ASCII: bytes are columns */
		out->length = start + width;
		out->data[out->length] = '\0';
	}
}
