/* lake_ddl.h: statements with which engines read the tables of a lake. */
#ifndef PITOT_AGENT_LAKE_DDL_H
#define PITOT_AGENT_LAKE_DDL_H

#include "agent/lake.h"

/* Writes sql/duckdb.sql, sql/clickhouse.sql and sql/spark.sql. Returns 0 or a negative code. */
int lake_ddl_write(const struct lake *lake, struct error *e) MUST_USE;

#endif
