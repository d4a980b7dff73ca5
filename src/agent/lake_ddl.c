/*
 * lake_ddl.c: the columns of the statements are those of fleet_tables.h, which Parquet files have,
 * too. A column that a later version adds is NULL in older objects. Nothing is loaded: the tables
 * are external.
 */
#include "agent/lake_ddl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/fleet_tables.h"
#include "base/folder.h"

#define FOLDER "sql"

/* A text of SQL, with its quotes. */
static void add_text(struct strbuf *out, const char *text)
{
	strbuf_addc(out, '\'');
	for (; *text; text++)
		strbuf_adds(out, *text == '\'' ? "''" : (char[]){ *text, 0 });
	strbuf_addc(out, '\'');
}

static void add_path(struct strbuf *out, const char *root, const char *table, const char *rest)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

	strbuf_addf(&path, "%s/%s%s", root, table, rest);
	add_text(out, strbuf_text(&path));
}

static void add_head(struct strbuf *out, const char *engine, const char *how)
{
	strbuf_addf(
		out,
		"-- Tables of a lake of `pitot agent`, for %s. Written by `pitot lake init`.\n%s",
		engine, how);
}

static void render_duckdb(const char *root, struct strbuf *out)
{
	add_head(out, "DuckDB", "-- duckdb -init duckdb.sql\n");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		strbuf_addf(out,
			    "\n-- %s\nCREATE OR REPLACE VIEW %s AS SELECT * FROM read_parquet(",
			    fleet_schemas[t].meaning, fleet_schemas[t].name);
		add_path(out, root, fleet_schemas[t].name, "/*/*.parquet");
		strbuf_adds(out, ", hive_partitioning = true, union_by_name = true);\n");
	}
}

static const char *clickhouse_type(enum flat_type type)
{
	switch (type) {
	case FLAT_TIME:
		return "DateTime64(9, 'UTC')";
	case FLAT_U64:
		return "UInt64";
	case FLAT_I32:
		return "Int32";
	case FLAT_U32:
		return "UInt32";
	default:
		return "String";
	}
}

static void render_clickhouse(const char *root, struct strbuf *out)
{
	add_head(out, "ClickHouse",
		 "-- The lake is below its user_files_path; of object storage, use s3() for "
		 "file().\n");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		const struct fleet_schema *s = &fleet_schemas[t];
		_cleanup_strbuf_ struct strbuf columns = STRBUF_INIT;

		for (size_t i = 0; i < s->column_count; i++)
			strbuf_addf(&columns, s->columns[i].maybe ? "%s%s Nullable(%s)" : "%s%s %s",
				    i ? ", " : "", s->columns[i].name,
				    clickhouse_type(s->columns[i].type));
		strbuf_addf(out, "\n-- %s\nCREATE OR REPLACE VIEW %s AS SELECT * FROM file(",
			    s->meaning, s->name);
		add_path(out, root, s->name, "/*/*.parquet");
		strbuf_adds(out, ", 'Parquet', ");
		add_text(out, strbuf_text(&columns));
		strbuf_adds(out, ");\n");
	}
}

static void render_spark(const char *root, struct strbuf *out)
{
	add_head(out, "Spark",
		 "-- spark-sql -i spark.sql; times are nanoseconds since 1970\n\n"
		 "SET spark.sql.legacy.parquet.nanosAsLong = true;\n");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		strbuf_addf(out,
			    "\n-- %s\nCREATE OR REPLACE TEMPORARY VIEW %s USING parquet OPTIONS "
			    "(mergeSchema 'true', path ",
			    fleet_schemas[t].meaning, fleet_schemas[t].name);
		add_path(out, root, fleet_schemas[t].name, "");
		strbuf_adds(out, ");\n");
	}
}

static const struct {
	const char *file;
	void (*render)(const char *root, struct strbuf *out);
} engines[] = {
	{ "duckdb.sql", render_duckdb },
	{ "clickhouse.sql", render_clickhouse },
	{ "spark.sql", render_spark },
};

/* An object without rows: engines know the columns before there is another one. */
static int write_schema(const struct lake *lake, enum fleet_table table, struct error *e)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT, path = STRBUF_INIT;
	_cleanup_close_ int folder = -1, file = -1;
	struct interner texts;
	int rc;

	strbuf_addf(&key, "%s/date=1970-01-01/" LAKE_SCHEMA, fleet_schemas[table].name);
	folder = lake_enter(lake, strbuf_text(&key));
	if (folder < 0)
		return error_set(e, folder, "cannot write '%s/%s': %s", lake->path,
				 strbuf_text(&key), error_code_text(folder));
	strbuf_addf(&path, "/proc/self/fd/%d/" LAKE_SCHEMA, folder);
	interner_init(&texts);
	rc = fleet_write(table, NULL, 0, &texts, strbuf_text(&path), NULL, e);
	interner_release(&texts);
	if (rc == 0)
		file = folder_open_file(folder, LAKE_SCHEMA, O_RDONLY, FOLDER_OWN);
	if (file >= 0)
		(void)!fchmod(file, lake->mode);
	return rc;
}

int lake_ddl_write(const struct lake *lake, struct error *e)
{
	_cleanup_free_ char *root = realpath(lake->path, NULL);
	_cleanup_close_ int folder = lake_enter(lake, FOLDER "/");
	int rc = folder < 0 ? folder : root ? 0 : -errno;

	for (size_t i = 0; i < ARRAY_SIZE(engines) && rc == 0; i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		engines[i].render(root, &text);
		rc = folder_write_file(folder, engines[i].file, &text, false);
		if (rc == 0 && fchmodat(folder, engines[i].file, lake->mode, 0) < 0)
			rc = -errno;
	}
	if (rc < 0)
		return error_set(e, rc, "cannot write '%s/" FOLDER "': %s", lake->path,
				 error_code_text(rc));
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT && rc == 0; t++)
		rc = write_schema(lake, t, e);
	return rc;
}
