#include "agent/fleet_read.h"

#include <errno.h>
#include <string.h>

#include "export/tables/parquet_read.h"

static enum parquet_type type_of(enum flat_type type)
{
	switch (type) {
	case FLAT_TEXT:
		return PARQUET_TEXT;
	case FLAT_F64:
		return PARQUET_DOUBLE;
	case FLAT_I32:
	case FLAT_U32:
		return PARQUET_I32;
	default:
		return PARQUET_I64;
	}
}

/* The column of a file; -1: it has none, as it is of an older version. */
static int find(const struct parquet_file *f, const struct fleet_column *column)
{
	for (size_t i = 0; i < f->column_count; i++)
		if (!strcmp(f->columns[i].name, column->name))
			return (int)i;
	return -1;
}

/* Whether a file has no column that this version does not know, and all that it needs. */
static int check(const struct parquet_file *f, const struct fleet_schema *schema, struct error *e)
{
	size_t known = 0;

	for (size_t i = 0; i < schema->column_count; i++) {
		const struct fleet_column *column = &schema->columns[i];
		int at = find(f, column);

		known += at >= 0;
		if (at < 0 ? !column->maybe
			   : f->columns[at].type != type_of(column->type) ||
				     (f->columns[at].maybe && !column->maybe))
			return error_set(e, E_FORMAT, "it has no column '%s' of this version",
					 column->name);
	}
	return known == f->column_count
		       ? 0
		       : error_set(e, E_FORMAT, "it has columns that this version does not know");
}

struct reading {
	struct fleet_rows *rows;
	uint64_t *to; /* the first new row */
	size_t words; /* of a row */
	uint64_t *values;
	uint8_t *valid;
};

static int read_group(struct reading *r, const struct parquet_file *f, size_t group,
		      const struct fleet_schema *schema, struct error *e)
{
	size_t rows = (size_t)f->groups.data[group].rows;

	for (size_t i = 0; i < schema->column_count; i++) {
		int at = find(f, &schema->columns[i]);
		bool is_signed = schema->columns[i].type == FLAT_I32;
		int rc = at < 0 ? 0
				: parquet_file_read(f, group, (size_t)at, &r->rows->texts,
						    r->values, r->valid, e);

		if (rc < 0)
			return rc;
		for (size_t row = 0; row < rows; row++) {
			uint64_t *to = r->to + row * r->words;

			to[0] = (i ? to[0] : 0) | (uint64_t)(at < 0 || !r->valid[row]) << i;
			to[1 + i] = at < 0      ? 0
				    : is_signed ? (uint64_t)(int32_t)r->values[row]
						: r->values[row];
		}
	}
	r->to += rows * r->words;
	return 0;
}

int fleet_read(struct fleet_rows *rows, enum fleet_table table, const void *bytes, size_t size,
	       struct error *e)
{
	const struct fleet_schema *schema = &fleet_schemas[table];
	struct reading r = { .rows = rows, .words = 1 + schema->column_count };
	struct parquet_file f;
	uint64_t count = 0;
	int rc = parquet_file_open(&f, bytes, size, e);

	rc = rc < 0 ? rc : check(&f, schema, e);
	for (size_t g = 0; g < f.groups.count && rc == 0; g++)
		count += f.groups.data[g].rows;
	if (rc == 0 && count) {
		r.values = calloc(FLAT_ROWS, sizeof(*r.values));
		r.valid = malloc(FLAT_ROWS);
		if (!r.values || !r.valid ||
		    vec_reserve(&rows->values[table], (size_t)count * r.words) < 0)
			rc = error_set(e, -ENOMEM, "out of memory");
	}
	if (rc == 0 && count)
		r.to = rows->values[table].data + rows->values[table].count;
	for (size_t g = 0; g < f.groups.count && rc == 0; g++)
		rc = read_group(&r, &f, g, schema, e);
	if (rc == 0)
		rows->values[table].count += (size_t)count * r.words;
	free(r.values);
	free(r.valid);
	parquet_file_release(&f);
	return rc;
}
