#include "agent/lake_manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/fleet_read.h"
#include "agent/lake_merge.h"

#define DATE_LENGTH 10u

void lake_manifest_add_key(struct strbuf *out, enum fleet_table table, const char *date,
			   uint32_t generation)
{
	strbuf_addf(out, LAKE_MANIFESTS "/%s/%s.%08" PRIu32 ".parquet", fleet_schemas[table].name,
		    date, generation);
}

bool lake_manifest_parse(const char *name, char date[16], uint32_t *generation)
{
	char again[64];

	if (strlen(name) <= DATE_LENGTH || name[DATE_LENGTH] != '.')
		return false;
	snprintf(date, 16, "%.*s", (int)DATE_LENGTH, name);
	*generation = (uint32_t)strtoul(name + DATE_LENGTH + 1, NULL, 10);
	snprintf(again, sizeof(again), "%s.%08" PRIu32 ".parquet", date, *generation);
	return *generation && !strcmp(name, again);
}

static int read_one(const struct lake *lake, const char *key, struct lake_manifest *m,
		    struct error *e)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	int rc = s3_read(lake->s3, key, LAKE_OBJECT_BYTES_MAX, &bytes, e);

	if (rc == 0)
		rc = fleet_read(&m->rows, FLEET_compacted, strbuf_text(&bytes), bytes.length, e);
	if (rc < 0)
		error_prefix(e, "cannot read '%s/%s'", lake->path, key);
	return rc;
}

static int set_states(struct lake_manifest *m)
{
	const struct fleet_compacted *row = (const void *)m->rows.values[FLEET_compacted].data;

	m->states = calloc(m->rows.texts.count + 1, sizeof(*m->states));
	if (!m->states)
		return -ENOMEM;
	for (size_t i = fleet_row_count(&m->rows, FLEET_compacted); i-- > 0; row++)
		m->states[row->object] = MAX(m->states[row->object], (uint32_t)row->state);
	return 0;
}

int lake_manifest_read(const struct lake *lake, enum fleet_table table, const char *date,
		       uint32_t generation, struct lake_manifest *out, struct error *e)
{
	int rc = 0;

	*out = (struct lake_manifest){ .generation = generation };
	fleet_rows_init(&out->rows);
	for (uint32_t i = 1; i <= generation && rc == 0; i++) {
		_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;

		lake_manifest_add_key(&key, table, date, i);
		rc = key.failed ? -ENOMEM : read_one(lake, strbuf_text(&key), out, e);
	}
	rc = rc < 0 ? rc : set_states(out);
	return rc == -ENOMEM ? error_set(e, rc, "out of memory") : rc;
}

void lake_manifest_release(struct lake_manifest *m)
{
	fleet_rows_release(&m->rows);
	free(m->states);
	m->states = NULL;
}

enum lake_object_state lake_manifest_state(const struct lake_manifest *m, const char *name)
{
	int64_t text = interner_find(&m->rows.texts, name, strlen(name));

	if (text < 0)
		return lake_is_made(name) ? LAKE_OBJECT_PENDING : LAKE_OBJECT_LIVE;
	return m->states[text] == LAKE_OBJECT_LIVE ? LAKE_OBJECT_LIVE : LAKE_OBJECT_REPLACED;
}
