/*
 * host_time.c: puts what several hosts have recorded on one CLOCK_MONOTONIC, that of the host that
 * was started first, by the CLOCK_REALTIME of each. Ranks that met in collectives are then aligned
 * more precisely (analysis/collectives.h).
 *
 * A host without a usable CLOCK_REALTIME keeps its times (trace_is_unaligned).
 *
 * Times of the other hosts become larger, so that none is below 0. One that would exceed 64 bits
 * becomes the largest number: times stay in order.
 */
#include "trace/trace_state.h"

#include <errno.h>

#define REALTIME_MAX (UINT64_MAX >> 1) /* in the year 2262 */

/* A clock that says less was never set: machines without a battery begin with 1970. */
#define REALTIME_MIN UINT64_C(946684800000000000) /* the year 2000 */

static uint64_t booted_at(const struct clock_columns *c, uint64_t row)
{
	return c->realtime_ns[row] > c->monotonic_ns[row] && c->realtime_ns[row] >= REALTIME_MIN &&
			       c->realtime_ns[row] <= REALTIME_MAX
		       ? c->realtime_ns[row] - c->monotonic_ns[row]
		       : 0;
}

uint64_t trace_booted_ns(const struct trace *t, size_t process)
{
	uint64_t end = trace_first_row(t, TABLE_clock, process + 1), booted = 0;

	for (uint64_t row = trace_first_row(t, TABLE_clock, process); row < end && !booted; row++)
		booted = booted_at(clock_columns(t), row);
	return booted;
}

#define ERROR_LIMIT_NS UINT64_C(16000000000) /* with more, an OS kernel says "unsynchronized" */
#define GROWTH 2000 /* 1 / 500 ppm: by so much a clock is allowed to drift from one reading on */

struct clock_readings {
	uint64_t first_ns, last_ns, error_ns;
	uint64_t first_booted, last_booted; /* they differ if the clock was stepped */
};

/*
 * The bound of a row, or UINT64_MAX. systemd-timesyncd and phc2sys set maxerror to 0, whatever the
 * error is: only who states an estimate states a bound.
 */
static uint64_t stated_error(const struct clock_columns *c, uint64_t row)
{
	uint64_t offset = 0;

	if (!column_has(c->valid.max_error_ns, row) ||
	    !column_has(c->valid.estimated_error_ns, row) || !c->estimated_error_ns[row] ||
	    c->estimated_error_ns[row] > c->max_error_ns[row])
		return UINT64_MAX;
	if (column_has(c->valid.offset_ns, row))
		offset = c->offset_ns[row] < 0 ? -(uint64_t)c->offset_ns[row]
					       : (uint64_t)c->offset_ns[row];
	return c->max_error_ns[row] < ERROR_LIMIT_NS && offset < ERROR_LIMIT_NS
		       ? c->max_error_ns[row] + offset
		       : UINT64_MAX;
}

static void add_reading(const struct clock_columns *c, uint64_t row, struct clock_readings *all,
			struct realtime_error *out)
{
	uint64_t booted = booted_at(c, row);

	all->first_ns = MIN(all->first_ns, c->monotonic_ns[row]);
	all->last_ns = MAX(all->last_ns, c->monotonic_ns[row]);
	all->first_booted = MIN(all->first_booted, booted);
	all->last_booted = MAX(all->last_booted, booted);
	if (!c->unsynchronized || !column_has(c->valid.unsynchronized, row))
		return;
	out->is_known = true;
	out->unsynchronized |= c->unsynchronized[row] != 0;
	all->error_ns = MAX(all->error_ns, stated_error(c, row));
}

struct realtime_error trace_realtime_error(const struct trace *t, uint32_t boot_id)
{
	struct realtime_error out = { .bound_ns = UINT64_MAX };
	struct clock_readings all = { .first_ns = UINT64_MAX, .first_booted = UINT64_MAX };
	uint64_t parts[3];

	for (size_t i = 0; i < t->processes.count; i++) {
		uint64_t end = trace_first_row(t, TABLE_clock, i + 1);

		if (t->processes.data[i].boot_id != boot_id)
			continue;
		for (uint64_t row = trace_first_row(t, TABLE_clock, i); row < end; row++)
			add_reading(clock_columns(t), row, &all, &out);
	}
	if (!out.is_known || out.unsynchronized || !all.first_booted)
		return out;
	parts[0] = all.error_ns;
	parts[1] = (all.last_ns - all.first_ns) / GROWTH;
	parts[2] = all.last_booted - all.first_booted;
	if (MAX(parts[0], MAX(parts[1], parts[2])) < 2 * ERROR_LIMIT_NS)
		out.bound_ns = parts[0] + parts[1] + parts[2];
	return out;
}

/* A process without the id of its host has only its own readings. */
static uint64_t host_booted_ns(const struct trace *t, const struct map *hosts, size_t process)
{
	uint64_t booted = 0;

	if (!t->processes.data[process].boot_id)
		return trace_booted_ns(t, process);
	map_get(hosts, t->processes.data[process].boot_id, &booted);
	return booted;
}

/* Finds the hosts and when each was started. */
static int find_hosts(const struct trace *t, struct map *hosts)
{
	for (size_t i = 0; i < t->processes.count; i++) {
		uint64_t *booted = t->processes.data[i].boot_id
					   ? map_at(hosts, t->processes.data[i].boot_id, 0)
					   : NULL;

		if (!booted && t->processes.data[i].boot_id)
			return -ENOMEM;
		if (booted && !*booted)
			*booted = trace_booted_ns(t, i);
	}
	return 0;
}

/* Times of imports may count since the epoch: then CLOCK_MONOTONIC says the same. */
static bool is_since_epoch(const struct trace *t, size_t process)
{
	uint64_t row = trace_first_row(t, TABLE_clock, process);

	return row < trace_first_row(t, TABLE_clock, process + 1) &&
	       clock_columns(t)->monotonic_ns[row] >= REALTIME_MIN;
}

/* Lists the hosts whose clocks are unknown. */
static int find_unaligned(struct trace *t, const struct map *hosts)
{
	for (size_t i = 0; i < t->processes.count; i++) {
		const struct trace_process *p = &t->processes.data[i];

		if (p->inside && !host_booted_ns(t, hosts, i) && !is_since_epoch(t, i) &&
		    !trace_is_unaligned(t, i) && vec_push(&t->unaligned, p->boot_id) < 0)
			return -ENOMEM;
	}
	return 0;
}

bool trace_is_unaligned(const struct trace *t, size_t process)
{
	for (size_t i = 0; i < t->unaligned.count; i++)
		if (t->unaligned.data[i] == t->processes.data[process].boot_id)
			return true;
	return false;
}

static uint64_t later(uint64_t time_ns, uint64_t by_ns)
{
	return MIN(time_ns, UINT64_MAX - by_ns) + by_ns;
}

void host_time_shift(uint64_t *times, const uint8_t *valid, size_t count, uint64_t by_ns)
{
	for (size_t i = 0; i < count; i++)
		if (times[i] && (!valid || valid[i]))
			times[i] = later(times[i], by_ns);
}

static void shift_segment(struct trace_segment *segment, uint64_t by_ns)
{
	struct segment *file = &segment->file;

	segment->shift_ns = by_ns;
	file->header.start_monotonic_ns = later(file->header.start_monotonic_ns, by_ns);
	for (size_t i = 0; i < file->block_count; i++) {
		struct block_header *header = &file->blocks[i].header;

		if (!header->end_ns)
			continue;
		header->start_ns = later(header->start_ns, by_ns);
		header->end_ns = later(header->end_ns, by_ns);
	}
}

/* Returns whether any time changed. */
static bool shift_all(struct trace *t, const struct map *hosts)
{
	uint64_t first = UINT64_MAX;
	bool changed = false;

	for (size_t i = 0; i < t->processes.count; i++) {
		uint64_t booted = host_booted_ns(t, hosts, i);

		first = booted ? MIN(first, booted) : first;
	}
	for (size_t i = 0; i < t->segments.count; i++) {
		struct trace_segment *segment = &t->segments.data[i];
		uint64_t booted =
			host_booted_ns(t, hosts, t->sessions.data[segment->session].process);

		if (booted <= first)
			continue;
		shift_segment(segment, booted - first);
		changed = true;
	}
	return changed;
}

int host_time_align(struct trace *t, struct error *e)
{
	_cleanup_(map_release) struct map hosts = MAP_INIT;
	bool several = false;
	uint32_t boot_id = 0;
	int rc = 0;

	for (size_t i = 0; i < t->processes.count; i++) {
		uint32_t own = t->processes.data[i].boot_id;

		several |= own && boot_id && own != boot_id;
		boot_id = own ? own : boot_id;
	}
	if (!several)
		return 0;
	rc = trace_load(t, TABLE_clock, COLUMN_BITS(clock, monotonic_ns, realtime_ns), e);
	if (rc >= 0) {
		rc = find_hosts(t, &hosts);
		if (rc >= 0)
			rc = find_unaligned(t, &hosts);
		if (rc < 0)
			error_errno(e, ENOMEM, "cannot read recording '%s'", t->path);
		else
			rc = shift_all(t, &hosts);
	}
	return rc;
}
