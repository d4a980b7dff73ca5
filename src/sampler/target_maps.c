/* target_maps.c: the executable ranges of a target, from events and from /proc/PID/maps. */
#include "sampler/sampled_processes_state.h"

#include <errno.h>
#include <string.h>

#include "base/search.h"
#include "sampler/sampled_processes.h"

/* Index of the first range that ends behind an address. */
static size_t first_behind(const struct target *p, uint64_t address)
{
	return sorted_prefix(p->ranges.count, i, p->ranges.data[i].end <= address);
}

struct target_range *target_range_find(struct target *p, uint64_t address, size_t *index)
{
	*index = first_behind(p, address);
	if (*index == p->ranges.count || p->ranges.data[*index].start > address)
		return NULL;
	return &p->ranges.data[*index];
}

static void move_tail(struct target *p, size_t from, size_t to)
{
	size_t count = p->ranges.count - from;

	memmove(&p->ranges.data[to], &p->ranges.data[from], count * sizeof(*p->ranges.data));
	memmove(&p->origins.data[to], &p->origins.data[from], count * sizeof(*p->origins.data));
	p->ranges.count = p->origins.count = to + count;
}

/* Makes room for `count` ranges at `index`. Both arrays must have the capacity. */
static void open_gap(struct target *p, size_t index, size_t count)
{
	move_tail(p, index, index + count);
}

static void cut_start(struct target *p, size_t i, uint64_t start)
{
	p->origins.data[i].file_offset += start - p->ranges.data[i].start;
	p->origins.data[i].segment = 0;
	p->ranges.data[i].start = start;
}

/*
 * Removes what was mapped in [start, end). Both arrays must have capacity for one more range.
 * Returns the index at which a range for [start, end) belongs.
 */
static size_t clear_range(struct target *p, uint64_t start, uint64_t end)
{
	size_t i = first_behind(p, start), last;

	if (i < p->ranges.count && p->ranges.data[i].start < start) {
		if (p->ranges.data[i].end > end) {
			open_gap(p, i + 1, 1);
			p->ranges.data[i + 1] = p->ranges.data[i];
			p->origins.data[i + 1] = p->origins.data[i];
			cut_start(p, i + 1, end);
		}
		p->ranges.data[i++].end = start;
	}
	last = i;
	while (last < p->ranges.count && p->ranges.data[last].end <= end)
		last++;
	move_tail(p, last, i);
	if (i < p->ranges.count && p->ranges.data[i].start < end)
		cut_start(p, i, end);
	return i;
}

/* Memory for JIT-compiled code grows piece by piece: adjacent pieces are one range. */
static bool joins_last(const struct target *p, size_t i, const struct target_mapping *m,
		       uint32_t path)
{
	const struct range_origin *o = &p->origins.data[i - 1];

	return !m->inode && !o->inode && o->path == path && p->ranges.data[i - 1].end == m->start &&
	       m->path[0] != '[';
}

void target_map(struct targets *t, struct target *p, const struct target_mapping *m,
		uint64_t time_ns)
{
	uint32_t path = targets_text(t, m->path, strlen(m->path));
	size_t i;

	if (m->start >= m->end || p->ranges.count >= TARGET_RANGES_MAX ||
	    vec_reserve(&p->ranges, 2) < 0 || vec_reserve(&p->origins, 2) < 0)
		return;
	i = clear_range(p, m->start, m->end);
	if (i && joins_last(p, i, m, path)) {
		p->ranges.data[i - 1].end = m->end;
		return;
	}
	open_gap(p, i, 1);
	p->ranges.data[i] = (struct target_range){ .start = m->start, .end = m->end };
	p->origins.data[i] = (struct range_origin){
		.file_offset = m->file_offset, .inode = m->inode, .mapped_ns = time_ns, .path = path
	};
}

int target_maps_copy(struct target *to, const struct target *from)
{
	if (!from->ranges.count)
		return 0;
	if (vec_reserve(&to->ranges, from->ranges.count) < 0 ||
	    vec_reserve(&to->origins, from->origins.count) < 0)
		return -ENOMEM;
	to->ranges.count = to->origins.count = from->ranges.count;
	memcpy(to->ranges.data, from->ranges.data, to->ranges.count * sizeof(*to->ranges.data));
	memcpy(to->origins.data, from->origins.data, to->origins.count * sizeof(*to->origins.data));
	for (size_t i = 0; i < to->origins.count; i++)
		to->origins.data[i].segment = 0;
	return 0;
}

struct reading {
	struct targets *targets;
	struct target *target;
	uint64_t time_ns;
};

static int add_mapping(void *context, const struct target_mapping *m)
{
	const struct reading *r = context;

	target_map(r->targets, r->target, m, r->time_ns);
	return 0;
}

void target_maps_read(struct targets *t, struct target *p, uint64_t time_ns)
{
	struct reading reading = { t, p, time_ns };

	proc_maps_read(target_pid(p), add_mapping, &reading);
}

int targets_open_mapped(struct targets *t, pid_t pid, const struct target_mapping *m)
{
	const struct target_mapped mapped = {
		.pid = pid,
		.start = m->start,
		.end = m->end,
		.file_offset = m->file_offset,
		.inode = m->inode,
		.path = m->path,
	};
	struct stat st;

	return target_file_open_mapped(&t->files, &mapped, &st);
}

void target_range_look_up(struct targets *t, struct target *p, size_t index)
{
	struct target_range *range = &p->ranges.data[index];
	struct range_origin *o = &p->origins.data[index];
	const struct target_mapped mapped = {
		.pid = target_pid(p),
		.start = range->start,
		.end = range->end,
		.file_offset = o->file_offset,
		.inode = o->inode,
		.path = targets_text_of(t, o->path),
	};
	const struct target_file *file;

	if (o->looked_up)
		return;
	o->looked_up = true;
	/*
	 * Of a file that cannot be opened, the offset in the file is all that is known of an
	 * address; usually, it is the ELF virtual address.
	 */
	if (target_is_file(mapped.path))
		range->bias = range->start - o->file_offset;
	file = target_file_open(&t->files, &mapped);
	if (!file || !target_file_bias(file, range->start, o->file_offset, &range->bias))
		return;
	range->file = file->number;
	range->parts = file->parts;
}
