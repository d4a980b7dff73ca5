#include "capture/cuda/launch_names.h"

#include <string.h>

#include "capture/cuda/correlation.h"
#include "format/rows.h"

#define ONE_MODULE (UINT64_C(1) << 48) /* addresses are shorter */
#define PLACES 8u /* at which a name is looked for */

atomic_uint_fast64_t launch_names[AREA_LAUNCH_NAMES_MAX];
atomic_uint_fast64_t launch_names_modules = ONE_MODULE;

static atomic_uint shared_bytes;

/* On the launching thread, where the name is valid, and before its kernel can do anything. */
static void share_name(unsigned number, const char *name)
{
	struct area_launch_names *area = shared_area_part(AREA_LAUNCH_NAMES);
	size_t length = area ? strnlen(name, AREA_LAUNCH_NAME_MAX) : 0;
	uint32_t offset = atomic_fetch_add(&shared_bytes, (uint32_t)length);

	if (!length || offset > AREA_LAUNCH_NAMES_BYTES - AREA_LAUNCH_NAME_MAX)
		return;
	memcpy(area->text + offset, name, length);
	area->names[number].offset = offset;
	atomic_store_explicit(&area->names[number].length, (uint32_t)length, memory_order_release);
}

NOINLINE unsigned launch_names_find(uint64_t key, unsigned first, const char *name)
{
	if (key < ONE_MODULE)
		return 0;
	for (unsigned i = 0; i < PLACES; i++) {
		unsigned at = (first + i) % AREA_LAUNCH_NAMES_MAX;
		uint64_t seen = atomic_load(&launch_names[at]);

		if (!at)
			continue;
		if (!seen && atomic_compare_exchange_strong(&launch_names[at], &seen, key)) {
			share_name(at, name);
			return at;
		}
		if (seen == key)
			return at;
	}
	return 0;
}

static void write_last(struct writer *w, const struct ring *r, unsigned count,
		       const struct area_launch_names *area)
{
	uint64_t word = atomic_load(&r->launched[(count - 1) % RING_LAUNCHED]);
	struct row_unfinished row = { .time_ns = clock_monotonic_ns(),
				      .kind = unfinished_kind_launch,
				      .missing = schema_missing(TABLE_unfinished) };
	struct ring_launched launched;
	unsigned length;

	memcpy(&launched, &word, sizeof(launched));
	length = atomic_load(&area->names[launched.kernel].length);
	if (!length)
		return;
	row.correlation = correlation_widen(launched.correlation, row.time_ns);
	row.name = writer_string(w, area->text + area->names[launched.kernel].offset, length);
	ROW_PRESENT(&row, unfinished, name);
	writer_append(w, TABLE_unfinished, &row);
}

void launch_names_write(struct writer *w)
{
	const struct area_launch_names *area = shared_area_part(AREA_LAUNCH_NAMES);
	struct ring *r;

	for (unsigned i = 0; area && (r = ring_at(i)); i++) {
		unsigned count = atomic_load(&r->launched_count);

		if (count)
			write_last(w, r, count, area);
	}
}

void launch_names_module_unloaded(void)
{
	uint64_t modules = atomic_load(&launch_names_modules);

	/* From the highest number it becomes 0. */
	while (modules &&
	       !atomic_compare_exchange_weak(&launch_names_modules, &modules, modules + ONE_MODULE))
		;
}

void launch_names_after_fork(void)
{
	memset(launch_names, 0, sizeof(launch_names));
	atomic_store(&shared_bytes, 0);
}
