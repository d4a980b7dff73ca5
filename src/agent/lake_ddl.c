/*
 * lake_ddl.c: the columns of the statements are those of fleet_tables.h, which Parquet files have,
 * too. A column that a later version adds is NULL in older objects. Nothing is loaded: the tables
 * are external.
 */
#include "agent/lake_ddl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/fleet_tables.h"
#include "base/io.h"

#define FOLDER "sql"

/* A text of SQL, with its quotes. */
static void add_text(struct strbuf *out, const char *text)
{
	strbuf_addc(out, '\'');
	for (; *text; text++)
		strbuf_adds(out, *text == '\'' ? "''" : (char[]){ *text, 0 });
	strbuf_addc(out, '\'');
}

/* Where engines find the lake. */
struct place {
	const char *root; /* a path, or s3://… */
	const char *address; /* of a bucket; NULL: it is a folder */
};

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

static void render_duckdb(const struct place *p, struct strbuf *out)
{
	add_head(out, "DuckDB",
		 p->address ? "-- duckdb -init duckdb.sql; first, with the endpoint and the "
			      "region of the bucket: INSTALL httpfs;\n"
			      "-- CREATE SECRET (TYPE s3, PROVIDER credential_chain);\n"
			    : "-- duckdb -init duckdb.sql\n");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		strbuf_addf(out,
			    "\n-- %s\nCREATE OR REPLACE VIEW %s AS SELECT * FROM read_parquet(",
			    fleet_schemas[t].meaning, fleet_schemas[t].name);
		add_path(out, p->root, fleet_schemas[t].name, "/*/*.parquet");
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

/* The date is that of the rows: they have one day. */
static void render_clickhouse(const struct place *p, struct strbuf *out)
{
	add_head(out, "ClickHouse",
		 p->address ? "-- The server's credentials, or those of s3(url, key, secret, …).\n"
			    : "-- The lake is below its user_files_path.\n");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		const struct fleet_schema *s = &fleet_schemas[t];
		_cleanup_strbuf_ struct strbuf columns = STRBUF_INIT;

		for (size_t i = 0; i < s->column_count; i++)
			strbuf_addf(&columns, s->columns[i].maybe ? "%s%s Nullable(%s)" : "%s%s %s",
				    i ? ", " : "", s->columns[i].name,
				    clickhouse_type(s->columns[i].type));
		strbuf_addf(out,
			    "\n-- %s\nCREATE OR REPLACE VIEW %s AS SELECT *, toDate(%s, 'UTC') "
			    "AS date FROM %s(",
			    s->meaning, s->name, s->columns[s->time_column].name,
			    p->address ? "s3" : "file");
		add_path(out, p->address ? p->address : p->root, s->name, "/*/*.parquet");
		strbuf_adds(out, ", 'Parquet', ");
		add_text(out, strbuf_text(&columns));
		strbuf_adds(out, ") SETTINGS use_hive_partitioning = 0;\n");
	}
}

static void render_spark(const struct place *p, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf root = STRBUF_INIT;

	/* Hadoop's name of the scheme. */
	strbuf_addf(&root, p->address ? "s3a%s" : "%s", p->address ? p->root + 2 : p->root);
	add_head(out, "Spark",
		 "-- spark-sql -i spark.sql; times are nanoseconds since 1970\n\n"
		 "SET spark.sql.legacy.parquet.nanosAsLong = true;\n");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		strbuf_addf(out,
			    "\n-- %s\nCREATE OR REPLACE TEMPORARY VIEW %s USING parquet OPTIONS "
			    "(mergeSchema 'true', path ",
			    fleet_schemas[t].meaning, fleet_schemas[t].name);
		add_path(out, strbuf_text(&root), fleet_schemas[t].name, "");
		strbuf_adds(out, ");\n");
	}
}

static const struct {
	const char *file;
	void (*render)(const struct place *p, struct strbuf *out);
} engines[] = {
	{ "duckdb.sql", render_duckdb },
	{ "clickhouse.sql", render_clickhouse },
	{ "spark.sql", render_spark },
};

/* An object without rows: engines know the columns before there is another one. */
static int put_schema(const struct lake *lake, enum fleet_table table, const char *file,
		      struct error *e)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	_cleanup_close_ int fd = -1;
	struct interner texts;
	int rc;

	interner_init(&texts);
	rc = fleet_write(table, NULL, 0, &texts, file, NULL, e);
	interner_release(&texts);
	if (rc < 0)
		return rc;
	fd = io_open_file(file, NULL);
	unlink(file);
	strbuf_addf(&key, "%s/date=1970-01-01/" LAKE_SCHEMA, fleet_schemas[table].name);
	if (fd < 0 || key.failed)
		return error_set(e, fd < 0 ? fd : -ENOMEM, "cannot read '%s'", file);
	return lake_put(lake, fd, strbuf_text(&key), LAKE_REPLACE, e);
}

static int put_schemas(const struct lake *lake, struct error *e)
{
	const char *temporary = getenv("TMPDIR");
	char folder[3000], file[3100];
	int rc = 0;

	snprintf(folder, sizeof(folder), "%s/pitot-lake-XXXXXX",
		 temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(folder))
		return error_errno(e, errno, "cannot make a folder '%s'", folder);
	snprintf(file, sizeof(file), "%s/" LAKE_SCHEMA, folder);
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT && rc == 0; t++)
		rc = put_schema(lake, t, file, e);
	rmdir(folder);
	return rc;
}

int lake_ddl_write(const struct lake *lake, struct error *e)
{
	_cleanup_free_ char *root = lake->s3 ? NULL : realpath(lake->path, NULL);
	struct place p = { .root = root ? root : lake->path,
			   .address = lake->s3 ? s3_address(lake->s3) : NULL };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(engines) && rc == 0; i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		char key[64];

		engines[i].render(&p, &text);
		snprintf(key, sizeof(key), FOLDER "/%s", engines[i].file);
		rc = text.failed ? error_set(e, -ENOMEM, "out of memory")
				 : lake_put_text(lake, key, &text, e);
	}
	return rc < 0 ? rc : put_schemas(lake, e);
}
