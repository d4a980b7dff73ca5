/*
 * sql_views.h: views: summaries from the report's JSON, and tables by the names that Nsight Systems
 * and rocprofv3 give them, for queries that were written for their databases.
 */
#ifndef PITOT_SQL_SQL_VIEWS_H
#define PITOT_SQL_SQL_VIEWS_H

#include "sql/sql_source.h"

int sql_views_add(struct sql *s, struct error *e) MUST_USE;
void sql_views_visit(sql_visit *visit, void *user);
/* The name as it is written, if a view has it; else NULL. */
const char *sql_view_name(const char *name);

#endif
