/* section_values.h: what the declarations of section.h refer to in a report; for its two renderers. */
#ifndef PITOT_REPORT_SECTION_VALUES_H
#define PITOT_REPORT_SECTION_VALUES_H

#include "report/section.h"

const void *section_result(const struct section *s, const struct report *r);

/* The i-th row of a list of a result or a row; NULL: there are no more. */
const void *list_row(const struct list *list, const struct report_view *v, const void *of,
		     size_t i);

/* *out is zero before; the caller releases out->text. */
void value_read(const struct report_view *v, const struct field *f, const void *result,
		const void *row, struct value *out);
/* Appends a known value as people read it; safe for a terminal. */
void value_text(const struct report_view *v, const struct field *f, const struct value *value,
		struct strbuf *out);
/* Whether values with this unit are in value.text. */
bool value_is_text(enum unit unit);
/* Text of a value of a field with UNIT_NAME; "?" where the schema has none. */
const char *value_name(const struct field *f, uint64_t value);

#endif
