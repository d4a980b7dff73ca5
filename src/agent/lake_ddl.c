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
#include "agent/lake_manifest.h"
#include "agent/lake_merge.h"
#include "base/io.h"

#define FOLDER "sql"

/* A text of SQL in quotes, which are doubled in it. */
static void add_quoted(struct strbuf *out, const char *text, char quote)
{
	strbuf_addc(out, quote);
	for (; *text; text++) {
		if (*text == quote)
			strbuf_addc(out, quote);
		strbuf_addc(out, *text);
	}
	strbuf_addc(out, quote);
}

static void add_text(struct strbuf *out, const char *text)
{
	add_quoted(out, text, '\'');
}

/*
 * Of a bucket, views leave out what compaction has replaced, and what it has made and not committed
 * (lake_manifest.h). Manifests are named once, so that they are listed once.
 */
#define LIVE(name, manifests)                                                                      \
	"\n\tLEFT JOIN (SELECT object, max(state) AS state FROM " manifests                        \
	" GROUP BY object) AS c ON " name " = c.object\n\tWHERE coalesce(c.state, 0) = 1 OR "      \
	"(coalesce(c.state, 0) = 0 AND " name " NOT LIKE '%%" LAKE_MADE "%%')"

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

static void add_manifests(struct strbuf *out, const char *root, enum fleet_table table)
{
	char folder[64];

	snprintf(folder, sizeof(folder), LAKE_MANIFESTS "/%s", fleet_schemas[table].name);
	add_path(out, root, folder, "/*.parquet");
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
		strbuf_addf(out, "\n-- %s\nCREATE OR REPLACE VIEW %s AS ", fleet_schemas[t].meaning,
			    fleet_schemas[t].name);
		strbuf_addf(out, "SELECT %s FROM read_parquet(",
			    p->address ? "o.* EXCLUDE filename" : "*");
		add_path(out, p->root, fleet_schemas[t].name, "/*/*.parquet");
		strbuf_addf(out, ", hive_partitioning = true, union_by_name = true%s",
			    p->address ? ", filename = true) AS o" : ")");
		if (p->address) {
			_cleanup_strbuf_ struct strbuf manifests = STRBUF_INIT;

			add_manifests(&manifests, p->root, t);
			strbuf_addf(out, LIVE("parse_filename(o.filename)", "read_parquet(%s)"),
				    strbuf_text(&manifests));
		}
		strbuf_adds(out, ";\n");
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
			    "\n-- %s\nCREATE OR REPLACE VIEW %s AS SELECT o.*, toDate(o.%s, 'UTC') "
			    "AS date FROM %s(",
			    s->meaning, s->name, s->columns[s->time_column].name,
			    p->address ? "s3" : "file");
		add_path(out, p->address ? p->address : p->root, s->name, "/*/*.parquet");
		strbuf_adds(out, ", 'Parquet', ");
		add_text(out, strbuf_text(&columns));
		strbuf_adds(out, ") AS o");
		if (p->address) {
			_cleanup_strbuf_ struct strbuf manifests = STRBUF_INIT;

			add_manifests(&manifests, p->address, t);
			strbuf_addf(
				out,
				LIVE("o._file", "s3(%s, 'Parquet', 'object String, state UInt32')"),
				strbuf_text(&manifests));
		}
		strbuf_adds(out, " SETTINGS use_hive_partitioning = 0;\n");
	}
}

static void add_folder(struct strbuf *out, const char *root, const char *folder, const char *name)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

	strbuf_addf(&path, "%s/%s%s", root, folder, name);
	strbuf_adds(out, "parquet.");
	add_quoted(out, strbuf_text(&path), '`');
}

/* A view that lists its files whenever it is read, and knows their names: a folder as a table. */
static void add_spark_bucket(const char *root, const struct fleet_schema *s, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf manifests = STRBUF_INIT;

	add_folder(&manifests, root, LAKE_MANIFESTS "/", s->name);
	strbuf_addf(out, "CREATE OR REPLACE TEMPORARY VIEW %s AS SELECT o.* FROM ", s->name);
	add_folder(out, root, "", s->name);
	strbuf_adds(out, " AS o");
	strbuf_addf(out, LIVE("o._metadata.file_name", "%s") ";\n", strbuf_text(&manifests));
}

static void render_spark(const struct place *p, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf root = STRBUF_INIT;

	/* Hadoop's name of the scheme. */
	strbuf_addf(&root, p->address ? "s3a%s" : "%s", p->address ? p->root + 2 : p->root);
	add_head(out, "Spark",
		 "-- spark-sql -i spark.sql; times are nanoseconds since 1970\n\n"
		 "SET spark.sql.legacy.parquet.nanosAsLong = true;\n");
	if (p->address)
		strbuf_adds(out, "SET spark.sql.parquet.mergeSchema = true;\n");
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++) {
		strbuf_addf(out, "\n-- %s\n", fleet_schemas[t].meaning);
		if (p->address) {
			add_spark_bucket(strbuf_text(&root), &fleet_schemas[t], out);
			continue;
		}
		strbuf_addf(out,
			    "CREATE OR REPLACE TEMPORARY VIEW %s USING parquet OPTIONS "
			    "(mergeSchema 'true', path ",
			    fleet_schemas[t].name);
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
static int put_schema(const struct lake *lake, const struct lake_temporary *files,
		      enum fleet_table table, const char *key, struct error *e)
{
	_cleanup_close_ int fd = -1;
	struct interner texts;
	char file[3100];
	int rc;

	snprintf(file, sizeof(file), "%s/" LAKE_SCHEMA, files->path);
	interner_init(&texts);
	rc = fleet_write(table, NULL, 0, &texts, file, NULL, e);
	interner_release(&texts);
	if (rc < 0)
		return rc;
	fd = io_open_file(file, NULL);
	unlink(file);
	return fd < 0 ? error_set(e, fd, "cannot read '%s'", file)
		      : lake_put(lake, fd, key, LAKE_REPLACE, e);
}

static int put_schemas(const struct lake *lake, struct error *e)
{
	struct lake_temporary files = { .folder = 0 };
	int rc = lake_temporary_make(&files, e);
	char key[96];

	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT && rc == 0; t++) {
		snprintf(key, sizeof(key), "%s/" LAKE_DATE "1970-01-01/" LAKE_SCHEMA,
			 fleet_schemas[t].name);
		rc = put_schema(lake, &files, t, key, e);
		snprintf(key, sizeof(key), LAKE_MANIFESTS "/%s/" LAKE_SCHEMA,
			 fleet_schemas[t].name);
		if (rc == 0 && lake->s3)
			rc = put_schema(lake, &files, FLEET_compacted, key, e);
	}
	lake_temporary_remove(&files);
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
