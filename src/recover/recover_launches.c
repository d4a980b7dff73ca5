/* recover_launches.c: the kernels that each thread launched last. */
#include <stdlib.h>
#include <string.h>

#include "capture/cuda/records.h"
#include "recover/recover_state.h"

#define LAUNCHED_OFFSET                                                                            \
	(RING_SLOTS * sizeof(struct ring_event) + RING_COUNTERS * sizeof(struct ring_addition))

int recover_launches_read(struct recovery *r, unsigned ring)
{
	struct ring_launched launched[RING_LAUNCHED];

	if (!recovery_read(r, AREA_RING_MEMORY, ring * (uint64_t)AREA_RING_BYTES + LAUNCHED_OFFSET,
			   launched, sizeof(launched)))
		return 0;
	for (unsigned n = 0; n < RING_LAUNCHED; n++) {
		struct recovered_launch launch = { .correlation = launched[n].correlation,
						   .kernel = launched[n].kernel };

		if (launch.correlation &&
		    (map_put(&r->launch_of, launch.correlation, r->launches.count) < 0 ||
		     vec_push(&r->launches, launch) < 0))
			return -ENOMEM;
	}
	return 0;
}

static uint32_t word_at(const uint8_t *bytes, size_t size, size_t at)
{
	uint32_t word = 0;

	if (at <= size && size - at >= sizeof(word))
		memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* In all versions of CUPTI these records have the kind and the id at the same places. */
void recover_launches_search(struct recovery *r, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += sizeof(uint32_t)) {
		uint32_t kind = word_at(bytes, size, i), id = 0;
		uint64_t at;

		if (kind == RECORD_KERNEL || kind == RECORD_CONCURRENT_KERNEL)
			id = word_at(bytes, size, i + offsetof(struct record_kernel, correlation));
		else if (kind == RECORD_GRAPH_LAUNCH)
			id = word_at(bytes, size,
				     i + offsetof(struct record_graph_launch, correlation));
		if (id && map_get(&r->launch_of, id, &at))
			r->launches.data[at].is_unread = true;
	}
}

/* Returns the string of a name; 0: it is unknown. */
static uint32_t name_of(struct recovery *r, uint16_t number)
{
	struct area_launch_name name;
	uint64_t *id = map_at(&r->launch_names, number, 0);

	if (!id || *id || number % AREA_LAUNCH_NAMES_MAX == 0)
		return id ? (uint32_t)*id : 0;
	if (recovery_read(r, AREA_LAUNCH_NAMES, number % AREA_LAUNCH_NAMES_MAX * sizeof(name),
			  &name, sizeof(name)) &&
	    name.length && name.length <= AREA_LAUNCH_NAME_MAX &&
	    name.offset <= AREA_LAUNCH_NAMES_BYTES - AREA_LAUNCH_NAME_MAX)
		*id = recovery_string(r, AREA_LAUNCH_NAMES,
				      offsetof(struct area_launch_names, text) + name.offset,
				      name.length);
	return (uint32_t)*id;
}

uint32_t recover_launch_name(struct recovery *r, uint32_t correlation)
{
	uint64_t at;

	return map_get(&r->launch_of, correlation, &at) ? name_of(r, r->launches.data[at].kernel)
							: 0;
}

void recover_launches_write(struct recovery *r)
{
	for (size_t i = 0; i < r->launches.count; i++) {
		const struct recovered_launch *launch = &r->launches.data[i];
		struct row_unfinished row = { .time_ns = r->now_ns,
					      .kind = launch->is_unread
							      ? unfinished_kind_unread_launch
							      : unfinished_kind_launch,
					      .correlation = recovery_call(r, launch->correlation),
					      .name = name_of(r, launch->kernel),
					      .missing = schema_missing(TABLE_unfinished) };

		if (row.name)
			ROW_PRESENT(&row, unfinished, name);
		writer_append(r->w, TABLE_unfinished, &row);
	}
}
