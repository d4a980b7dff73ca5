#include "capture/engines/pc_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/pc_readings.h"
#include "format/rows.h"

static uint64_t readings; /* in this recording */
static struct map crcs; /* checksums in this recording's samples */

static void write_reading(struct writer *w, const struct pc_reading *r)
{
	const struct row_pc_reading row = { .id = ++readings,
					    .start_ns = r->start_ns,
					    .end_ns = r->end_ns,
					    .device = r->device,
					    .context = r->context,
					    .period_cycles = r->period_cycles,
					    .total = r->total,
					    .dropped = r->dropped,
					    .other = r->other };

	writer_append(w, TABLE_pc_reading, &row);
	for (size_t i = 0; i < r->count; i++) {
		const struct pc_sample *s = &r->samples[i];
		const struct row_pc_sample sample = { .reading = row.id,
						      .crc = s->crc,
						      .function = rows_text(w, s->function),
						      .offset = s->offset,
						      .reason = rows_text(w, s->reason),
						      .samples = s->samples };

		writer_append(w, TABLE_pc_sample, &sample);
		if (map_add(&crcs, s->crc) == 1)
			pc_cubins_need(s->crc);
	}
}

static void write_cubin(struct writer *w, const struct pc_cubin *c)
{
	struct row_cubin row = { .crc = c->crc, .size_bytes = c->size };
	char file[64];

	snprintf(file, sizeof(file), PC_CUBIN_FILE, (unsigned long long)c->crc);
	row.file = rows_text(w, c->has_file ? file : NULL);
	ROW_MISSING_IF(&row, cubin, file, !c->has_file);
	ROW_MISSING_IF(&row, cubin, size_bytes, !c->size);
	writer_append(w, TABLE_cubin, &row);
}

uint64_t pc_rows_write(struct writer *w)
{
	struct pc_reading *r;
	struct pc_cubin cubin;
	uint64_t rows = 0;

	for (; (r = pc_readings_take()); rows += 1 + r->count, free(r))
		write_reading(w, r);
	for (; pc_cubins_take(&cubin); rows++)
		write_cubin(w, &cubin);
	return rows;
}

void pc_rows_begin(void)
{
	readings = 0;
	map_clear(&crcs);
}

void pc_rows_after_fork(void)
{
	readings = 0;
	memset(&crcs, 0, sizeof(crcs));
}
