/*
 * sql_views.h: views: summaries from the report's JSON, and tables by the names that Nsight Systems
 * and rocprofv3 give them, for queries that were written for their databases.
 */
#ifndef PITOT_SQL_SQL_VIEWS_H
#define PITOT_SQL_SQL_VIEWS_H

#include "sql/sql_source.h"

int sql_views_add(struct sql *s, struct error *e) MUST_USE;
void sql_views_visit(sql_visit *visit, void *user);
/* Those that only have other names; the others, summaries, are few rows of the report. */
void sql_aliases_visit(sql_visit *visit, void *user);
/* The SELECT that it stands for; NULL: there is none of that name. */
const char *sql_alias_select(const char *name);
/* "TEXT", "REAL" or "INTEGER", for a column of a summary. */
const char *sql_summary_type(const char *column);
/* The name as it is written, if a view has it; else NULL. */
const char *sql_view_name(const char *name);

#endif
