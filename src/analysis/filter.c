#include "analysis/filter.h"

#include <fnmatch.h>
#include <string.h>

#include "names/demangle.h"
#include "trace/columns.h"

bool text_matches(const char *pattern, const char *text)
{
	if (!strpbrk(pattern, "*?["))
		return strstr(text, pattern) != NULL;
	return fnmatch(pattern, text, 0) == 0;
}

bool kernel_name_matches(const char *pattern, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	bool found = text_matches(pattern, name);

	if (!found) {
		demangle(name, &text);
		found = text_matches(pattern, strbuf_text(&text));
	}
	if (!found) {
		strbuf_clear(&text);
		kernel_name_short(name, &text);
		found = text_matches(pattern, strbuf_text(&text));
	}
	return found;
}

bool row_walk_next_process(struct row_walk *w)
{
	while (w->next_process < trace_process_count(w->trace)) {
		w->process = w->next_process++;
		w->row = trace_first_row(w->trace, w->table, w->process);
		w->end = trace_first_row(w->trace, w->table, w->process + 1);
		if (w->row < w->end && (!w->selected || w->selected[w->process]))
			return true;
	}
	w->row = w->end = 0;
	return false;
}

const char *row_text(const struct trace *t, enum table_id table, int column, uint64_t row)
{
	bool missing;
	uint64_t id = trace_value(t, table, column, row, &missing);

	return missing ? "" : trace_string(t, (uint32_t)id);
}
