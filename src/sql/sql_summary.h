/*
 * sql_summary.h: tables that are computed by the analyses of the report when a statement first
 * needs them, and the views on them. Their rows are few, whatever the recording's size.
 */
#ifndef PITOT_SQL_SQL_SUMMARY_H
#define PITOT_SQL_SQL_SUMMARY_H

#include "sql/sql_source.h"

/* Registers them. 0 or a negative code. */
int sql_summaries_add(struct sql *s, struct error *e) MUST_USE;
void sql_summaries_free(struct sql *s);
void sql_summaries_visit(sql_visit *visit, void *user);
bool sql_summary_known(const char *table);
/* False: there is no such table. */
bool sql_summary_columns(const char *table, sql_visit *visit, void *user);

#endif
