/* perf_map.c: reads perf's maps of JIT-compiled code. */
#include "symbol/perf_map.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/search.h"

#define BUFFER_BYTES ((size_t)65536) /* longer lines are ignored */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns false if there is no number, or it is too large. */
static bool read_hex(char **p, uint64_t *value)
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

	if (!read_hex(&text, &f->start) || *text++ != ' ' || !read_hex(&text, &size) ||
	    *text++ != ' ' || size == 0 || size > UINT64_MAX - f->start)
		return false;
	f->end = f->start + size;
	f->name = text;
	return *text != 0;
}

ORDER(by_start, struct jit_function, UP(start))

/*
 * The address space, cut at each start and end of a function. next[i]: the first piece from i that
 * no function has claimed yet.
 */
struct pieces {
	uint64_t *starts;
	size_t *next;
	size_t count;
};

static size_t piece_at(const struct pieces *p, uint64_t address)
{
	return (size_t)((uint64_t *)bsearch(&address, p->starts, p->count, sizeof(address),
					    order_u64) -
			p->starts);
}

static size_t next_free(struct pieces *p, size_t i)
{
	while (p->next[i] != i) {
		p->next[i] = p->next[p->next[i]];
		i = p->next[i];
	}
	return i;
}

/*
 * Claims the memory of a function. Returns false if a later function has claimed some of it, so
 * that this one was overwritten.
 */
static bool claim(struct pieces *p, const struct jit_function *f)
{
	size_t first = piece_at(p, f->start), end = piece_at(p, f->end), taken = 0;

	for (size_t i = next_free(p, first); i < end; i = next_free(p, i)) {
		p->next[i] = i + 1;
		taken++;
	}
	return taken == end - first;
}

static int cut(struct pieces *p, const struct perf_map *m)
{
	size_t count = 2 * m->functions.count;

	p->starts = malloc((count + 1) * sizeof(*p->starts));
	p->next = malloc((count + 1) * sizeof(*p->next));
	if (!p->starts || !p->next)
		return -ENOMEM;
	for (size_t i = 0; i < m->functions.count; i++) {
		p->starts[2 * i] = m->functions.data[i].start;
		p->starts[2 * i + 1] = m->functions.data[i].end;
	}
	qsort(p->starts, count, sizeof(*p->starts), order_u64);
	for (size_t i = 0; i < count; i++)
		if (!i || p->starts[p->count - 1] != p->starts[i])
			p->starts[p->count++] = p->starts[i];
	for (size_t i = 0; i < p->count; i++)
		p->next[i] = i;
	return 0;
}

/* Removes the functions that were overwritten by later ones, and sorts the others by address. */
static int drop_overwritten(struct perf_map *m)
{
	struct pieces pieces = { 0 };
	struct jit_function *all = m->functions.data;
	size_t first = m->functions.count;
	int rc = first ? cut(&pieces, m) : 0;

	for (size_t i = m->functions.count; rc == 0 && i-- > 0;)
		if (claim(&pieces, &all[i]))
			all[--first] = all[i];
	free(pieces.starts);
	free(pieces.next);
	if (rc < 0 || !m->functions.count)
		return rc;
	m->functions.count -= first;
	memmove(all, all + first, m->functions.count * sizeof(*all));
	qsort(all, m->functions.count, sizeof(*all), by_start);
	return 0;
}

/* Adds the function of a line. Returns 0 or -ENOMEM. */
static int add_line(struct perf_map *m, char *line, size_t length)
{
	struct jit_function f;

	if (!parse_line(line, &f))
		return 0;
	m->is_cut |=
		m->functions.count == PERF_MAP_FUNCTIONS || m->names.bytes >= PERF_MAP_NAME_BYTES;
	if (m->is_cut)
		return 0;
	f.name = arena_strndup(&m->names, f.name, (size_t)(line + length - f.name));
	return f.name ? vec_push(&m->functions, f) : -ENOMEM;
}

/*
 * Adds the complete lines of a buffer, and moves the rest to its start. A line that fills the
 * buffer is dropped, and ends with *is_long false. Returns 0 or -ENOMEM.
 */
static int add_lines(struct perf_map *m, char *buffer, size_t *length, bool *is_long)
{
	char *line = buffer, *end = buffer + *length, *eol;
	int rc = 0;

	while (rc == 0 && (eol = memchr(line, '\n', (size_t)(end - line)))) {
		*eol = 0;
		rc = *is_long ? 0 : add_line(m, line, (size_t)(eol - line));
		*is_long = false;
		line = eol + 1;
	}
	*is_long |= line == buffer;
	*length = *is_long ? 0 : (size_t)(end - line);
	memmove(buffer, line, *length);
	return rc;
}

int perf_map_read(struct perf_map *m, int fd)
{
	_cleanup_free_ char *buffer = malloc(BUFFER_BYTES);
	size_t length = 0;
	uint64_t total = 0;
	bool is_long = false;
	ssize_t n = 0;
	int rc = buffer ? 0 : -ENOMEM;

	*m = (struct perf_map){ 0 };
	/* The last line is still being written if it has no end. */
	while (rc == 0 && !m->is_cut &&
	       (n = read(fd, buffer + length, BUFFER_BYTES - length)) > 0) {
		total += (uint64_t)n;
		length += (size_t)n;
		m->is_cut = total > PERF_MAP_BYTES;
		rc = add_lines(m, buffer, &length, &is_long);
	}
	if (n < 0)
		rc = -errno;
	if (rc == 0)
		rc = drop_overwritten(m);
	if (rc < 0)
		perf_map_release(m);
	return rc;
}

void perf_map_release(struct perf_map *m)
{
	vec_release(&m->functions);
	arena_release(&m->names);
}

const struct jit_function *perf_map_find(const struct perf_map *m, uint64_t address)
{
	const struct jit_function *all = m->functions.data;
	size_t at = sorted_prefix(m->functions.count, i, all[i].end <= address);

	return at < m->functions.count && all[at].start <= address ? &all[at] : NULL;
}
