#include "agent/lake_merge.h"

#include <errno.h>
#include <string.h>

#include "agent/fleet_read.h"
#include "agent/lake.h"
#include "base/search.h"

#define OBJECT_ROWS ((size_t)512 << 10) /* about as many in one */

void lake_merge_init(struct lake_merge *m, enum fleet_table table)
{
	*m = (struct lake_merge){ .table = table };
	fleet_rows_init(&m->rows);
}

void lake_merge_release(struct lake_merge *m)
{
	fleet_rows_release(&m->rows);
}

bool lake_is_made(const char *name)
{
	return strstr(name, LAKE_MADE) != NULL;
}

size_t lake_merge_rows(const struct lake_merge *m)
{
	return fleet_row_count(&m->rows, m->table);
}

static bool is_of_one_job(const char *a, const char *b)
{
	size_t length = strcspn(a, ".");

	return length == strcspn(b, ".") && !strncmp(a, b, length);
}

bool lake_merge_fits(const struct lake_merge *m, const char *name)
{
	return !m->first || (is_of_one_job(m->first, name) && lake_merge_rows(m) < OBJECT_ROWS);
}

int lake_merge_add(struct lake_merge *m, const char *name, const struct strbuf *bytes,
		   struct error *e)
{
	if (!lake_merge_rows(m))
		m->first = name;
	return fleet_read(&m->rows, m->table, strbuf_text(bytes), bytes->length, e);
}

/* Rows are near those that are like them: of a process, in the order of time. */
struct row_key {
	uint64_t host, rank, session, time_ns;
	size_t row;
};

ORDER(by_process, struct row_key, UP(host) ?: UP(rank) ?: UP(session) ?: UP(time_ns) ?: UP(row))

_Static_assert((int)FLEET_step_rank == (int)FLEET_loss_rank &&
		       (int)FLEET_step_session == (int)FLEET_loss_session,
	       "these columns have the same places in all tables");

static int sort_rows(const struct lake_merge *m, uint64_t **sorted, uint64_t *from_ns,
		     uint64_t *until_ns)
{
	const struct fleet_schema *schema = &fleet_schemas[m->table];
	size_t words = 1 + schema->column_count, rows = lake_merge_rows(m);
	const uint64_t *values = m->rows.values[m->table].data;
	_cleanup_free_ struct row_key *keys = calloc(rows, sizeof(*keys));

	*sorted = calloc(rows, words * sizeof(uint64_t));
	if (!keys || !*sorted)
		return -ENOMEM;
	*from_ns = UINT64_MAX;
	for (size_t i = 0; i < rows; i++) {
		const uint64_t *row = values + i * words;
		uint64_t time_ns = row[1 + schema->time_column];

		keys[i] = (struct row_key){ row[1 + schema->host_column], row[1 + FLEET_step_rank],
					    row[1 + FLEET_step_session], time_ns, i };
		*from_ns = MIN(*from_ns, time_ns);
		*until_ns = MAX(*until_ns, time_ns);
	}
	qsort(keys, rows, sizeof(*keys), by_process);
	for (size_t i = 0; i < rows; i++)
		memcpy(*sorted + i * words, values + keys[i].row * words, words * sizeof(uint64_t));
	return 0;
}

int lake_merge_write(struct lake_merge *m, int folder, const char *tag, struct strbuf *name,
		     struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	_cleanup_free_ uint64_t *sorted = NULL;
	size_t rows = lake_merge_rows(m);
	uint64_t from_ns = 0, until_ns = 0;
	int rc = sort_rows(m, &sorted, &from_ns, &until_ns);

	if (rc < 0)
		return error_set(e, rc, "out of memory");
	strbuf_add(name, m->first, strcspn(m->first, "."));
	strbuf_adds(name, ".%.");
	lake_add_time(name, from_ns);
	strbuf_addc(name, '-');
	lake_add_time(name, until_ns);
	strbuf_addf(name, LAKE_MADE "%s.parquet", tag);
	strbuf_addf(&path, "/proc/self/fd/%d/%s", folder, strbuf_text(name));
	if (name->failed || path.failed)
		return error_set(e, -ENOMEM, "out of memory");
	rc = fleet_write(m->table, sorted, rows, &m->rows.texts, strbuf_text(&path), NULL, e);
	fleet_rows_clear(&m->rows);
	return rc;
}
