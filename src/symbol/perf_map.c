/* perf_map.c: reading of perf's maps of JIT code. */
#include "symbol/perf_map.h"

#include <stdbool.h>
#include <string.h>

#include "base/io.h"

struct line {
	struct jit_function function;
	size_t number;
};

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: no number, or too large. */
static bool take_hex(char **p, uint64_t *value)
{
	char *start;

	if ((*p)[0] == '0' && ((*p)[1] | 0x20) == 'x')
		*p += 2;
	start = *p;
	for (*value = 0; digit(**p) >= 0; ++*p) {
		if (*value >> 60)
			return false;
		*value = *value << 4 | (unsigned)digit(**p);
	}
	return *p > start;
}

static bool parse_line(char *text, struct jit_function *f)
{
	uint64_t size;

	if (!take_hex(&text, &f->start) || *text++ != ' ' || !take_hex(&text, &size) ||
	    *text++ != ' ' || size == 0 || size > UINT64_MAX - f->start)
		return false;
	f->end = f->start + size;
	f->name = text;
	return *text != 0;
}

/* By start; of equal starts the later line first. */
static int by_start(const void *pa, const void *pb)
{
	const struct line *a = pa, *b = pb;

	if (a->function.start != b->function.start)
		return a->function.start < b->function.start ? -1 : 1;
	return (a->number < b->number) - (a->number > b->number);
}

/*
 * Keeps a function where nothing later was put over it. Functions are not cut: one that was partly overwritten has gone.
 * `kept` is a stack whose functions do not overlap.
 */
static void keep(struct line *kept, size_t *count, const struct line *line)
{
	while (*count && kept[*count - 1].function.end > line->function.start) {
		if (kept[*count - 1].number > line->number)
			return;
		--*count;
	}
	kept[(*count)++] = *line;
}

int perf_map_parse(struct perf_map *m, const char *text, size_t length)
{
	VEC(struct line) lines = VEC_INIT;
	size_t kept = 0;
	int r = 0;

	*m = (struct perf_map){ .text = malloc(length + 1) };
	if (!m->text)
		return -ENOMEM;
	memcpy(m->text, text, length);
	m->text[length] = 0;
	for (char *p = m->text, *end = p + length; r == 0 && p < end;) {
		char *eol = memchr(p, '\n', (size_t)(end - p));
		struct line line = { .number = lines.count };

		if (!eol)
			break; /* being written */
		*eol = 0;
		if (parse_line(p, &line.function))
			r = vec_push(&lines, line);
		p = eol + 1;
	}
	if (lines.count)
		qsort(lines.data, lines.count, sizeof(*lines.data), by_start);
	for (size_t i = 0; i < lines.count; i++) {
		struct line line = lines.data[i];

		keep(lines.data, &kept, &line);
	}
	for (size_t i = 0; r == 0 && i < kept; i++)
		r = vec_push(&m->functions, lines.data[i].function);
	vec_release(&lines);
	if (r < 0)
		perf_map_release(m);
	return r;
}

int perf_map_open(struct perf_map *m, const char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int r = io_read_file(path, PERF_MAP_MAX, &text);

	if (r == 0)
		r = perf_map_parse(m, strbuf_text(&text), text.length);
	return r < 0 ? error_set(e, r, "cannot read '%s': %s", path, error_code_text(r)) : 0;
}

void perf_map_release(struct perf_map *m)
{
	vec_release(&m->functions);
	free(m->text);
	m->text = NULL;
}

const struct jit_function *perf_map_find(const struct perf_map *m, uint64_t address)
{
	size_t low = 0, high = m->functions.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->functions.data[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->functions.count && m->functions.data[low].start <= address
		       ? &m->functions.data[low]
		       : NULL;
}
