#include "system/proc_text.h"

#include <string.h>

#define SECTOR_BYTES 512u /* in /proc/diskstats, for all disks */

struct text {
	const char *p, *end;
};

/* Reads the next line. Returns false if there is none. */
static bool next_line(struct text *t, struct text *line)
{
	const char *end = t->p < t->end ? memchr(t->p, '\n', (size_t)(t->end - t->p)) : NULL;

	if (t->p >= t->end)
		return false;
	*line = (struct text){ t->p, end ? end : t->end };
	t->p = end ? end + 1 : t->end;
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == ':';
}

/* Reads the next word. Words end before a blank or colon: "eth0:123" is two. */
static bool next_word(struct text *line, struct text *word)
{
	while (line->p < line->end && is_blank(*line->p))
		line->p++;
	*word = (struct text){ line->p, line->p };
	while (line->p < line->end && !is_blank(*line->p))
		line->p++;
	word->end = line->p;
	return word->end > word->p;
}

static bool is_word(const struct text *word, const char *what)
{
	size_t length = (size_t)(word->end - word->p);

	return length == strlen(what) && !memcmp(word->p, what, length);
}

/* Converts a word that consists of decimal digits. */
static bool to_number(const struct text *word, uint64_t *out)
{
	uint64_t v = 0;

	for (const char *p = word->p; p < word->end; p++)
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	*out = v;
	return word->p < word->end;
}

/* Reads `count` words, all of which must be numbers. */
static bool next_numbers(struct text *line, uint64_t *out, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct text word;

		if (!next_word(line, &word) || !to_number(&word, &out[i]))
			return false;
	}
	return true;
}

/* Multiplies, saturating: no real sum is near the limit. */
static int64_t times(uint64_t value, uint64_t factor)
{
	uint64_t v;

	return __builtin_mul_overflow(value, factor, &v) || v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static bool is_listed(const struct text *word, const char *names, size_t length)
{
	for (const char *p = names; p < names + length; p += strlen(p) + 1)
		if (is_word(word, p))
			return true;
	return !length;
}

/* --- the machine --- */

/*
 * "cpu0 user nice system idle iowait irq softirq …": "user" has "guest"; "steal" is ignored.
 */
static bool cpu_line(struct text line, uint64_t *busy, uint64_t *io_wait)
{
	uint64_t v[7];

	if (!next_numbers(&line, v, ARRAY_SIZE(v)))
		return false;
	*busy = add(add(add(v[0], v[1]), add(v[2], v[5])), v[6]);
	*io_wait = v[4];
	return true;
}

void proc_parse_stat(const char *text, size_t length, const struct proc_units *units,
		     proc_emit *emit, void *user)
{
	struct text t = { text, text + length }, line, word;
	uint64_t core, next_core = 0, busy, io_wait, switches;
	bool total = false, switched = false;

	/* in hundredths of a second */
#define TIME(ticks) times(ticks, 100) / (int64_t)units->ticks_per_s
	while (next_line(&t, &line)) {
		if (!next_word(&line, &word))
			continue;
		if (is_word(&word, "cpu") && !total && cpu_line(line, &busy, &io_wait)) {
			total = true;
			emit(user, METRIC_host_cpu_busy, TIME(busy));
			emit(user, METRIC_host_cpu_io_wait, TIME(io_wait));
		} else if (is_word(&word, "ctxt") && !switched &&
			   next_numbers(&line, &switches, 1)) {
			switched = true;
			emit(user, METRIC_host_context_switches, times(switches, 1));
		} else if (word.end - word.p > 3 && !memcmp(word.p, "cpu", 3)) {
			word.p += 3;
			/* Processors are in order; offline ones are missing. */
			if (!to_number(&word, &core) || core < next_core ||
			    core >= METRIC_END - METRIC_CORE_FIRST ||
			    !cpu_line(line, &busy, &io_wait))
				continue;
			next_core = core + 1;
			emit(user, METRIC_CORE_FIRST + (uint32_t)core, TIME(busy));
		}
	}
#undef TIME
}

void proc_parse_meminfo(const char *text, size_t length, const struct proc_units *units,
			proc_emit *emit, void *user)
{
	static const char *const names[] = { "MemTotal", "MemAvailable", "SwapTotal", "SwapFree" };
	enum { TOTAL, AVAILABLE, SWAP_TOTAL, SWAP_FREE };
	struct text t = { text, text + length }, line, word;
	uint64_t kib[ARRAY_SIZE(names)];
	bool has[ARRAY_SIZE(names)] = { false };

	(void)units;
	while (next_line(&t, &line) && next_word(&line, &word))
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (is_word(&word, names[i]) && next_numbers(&line, &kib[i], 1))
				has[i] = true;
	if (has[AVAILABLE])
		emit(user, METRIC_host_memory_available, times(kib[AVAILABLE], 1024));
	if (has[TOTAL] && has[AVAILABLE] && kib[TOTAL] >= kib[AVAILABLE])
		emit(user, METRIC_host_memory_used, times(kib[TOTAL] - kib[AVAILABLE], 1024));
	if (has[SWAP_TOTAL] && has[SWAP_FREE] && kib[SWAP_TOTAL] >= kib[SWAP_FREE])
		emit(user, METRIC_host_swap_used, times(kib[SWAP_TOTAL] - kib[SWAP_FREE], 1024));
}

/* Parses "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", in microseconds; then "full …". */
static void parse_pressure(const char *text, size_t length, uint32_t some, uint32_t full,
			   proc_emit *emit, void *user)
{
	struct text t = { text, text + length }, line, word;

	while (next_line(&t, &line)) {
		uint32_t *id = NULL;
		uint64_t us;

		if (!next_word(&line, &word))
			continue;
		id = is_word(&word, "some") ? &some : is_word(&word, "full") ? &full : NULL;
		while (id && *id && next_word(&line, &word)) {
			if (word.end - word.p <= 6 || memcmp(word.p, "total=", 6) != 0)
				continue;
			word.p += 6;
			if (to_number(&word, &us))
				emit(user, *id, times(us, 1));
			*id = 0;
		}
	}
}

/* For a whole machine, the line "full" is meaningless. */
void proc_parse_cpu_pressure(const char *text, size_t length, const struct proc_units *units,
			     proc_emit *emit, void *user)
{
	(void)units;
	parse_pressure(text, length, METRIC_host_cpu_pressure, 0, emit, user);
}

void proc_parse_memory_pressure(const char *text, size_t length, const struct proc_units *units,
				proc_emit *emit, void *user)
{
	(void)units;
	parse_pressure(text, length, METRIC_host_memory_pressure, METRIC_host_memory_pressure_full,
		       emit, user);
}

void proc_parse_io_pressure(const char *text, size_t length, const struct proc_units *units,
			    proc_emit *emit, void *user)
{
	(void)units;
	parse_pressure(text, length, METRIC_host_io_pressure, METRIC_host_io_pressure_full, emit,
		       user);
}

/* "major minor name reads merged sectors ms writes merged sectors …" */
void proc_parse_diskstats(const char *text, size_t length, const struct proc_units *units,
			  proc_emit *emit, void *user)
{
	struct text t = { text, text + length }, line, word;
	uint64_t v[7], read = 0, written = 0;
	bool any = false;

	while (next_line(&t, &line)) {
		if (!next_numbers(&line, v, 2) || !next_word(&line, &word) ||
		    !is_listed(&word, units->disks, units->disks_length) ||
		    !next_numbers(&line, v, ARRAY_SIZE(v)))
			continue;
		any = true;
		read = add(read, v[2]);
		written = add(written, v[6]);
	}
	if (!any)
		return;
	emit(user, METRIC_host_disk_read, times(read, SECTOR_BYTES));
	emit(user, METRIC_host_disk_written, times(written, SECTOR_BYTES));
}

/* "name: bytes packets errors dropped fifo frame compressed multicast bytes …" */
void proc_parse_network(const char *text, size_t length, const struct proc_units *units,
			proc_emit *emit, void *user)
{
	struct text t = { text, text + length }, line, word;
	uint64_t v[9], received = 0, sent = 0;
	bool any = false;

	while (next_line(&t, &line)) {
		if (!next_word(&line, &word) || is_word(&word, "lo") ||
		    !is_listed(&word, units->networks, units->networks_length) ||
		    !next_numbers(&line, v, ARRAY_SIZE(v)))
			continue;
		any = true;
		received = add(received, v[0]);
		sent = add(sent, v[8]);
	}
	if (!any)
		return;
	emit(user, METRIC_host_network_received, times(received, 1));
	emit(user, METRIC_host_network_sent, times(sent, 1));
}

/* --- the process --- */

/* "size resident …", in pages */
void proc_parse_statm(const char *text, size_t length, const struct proc_units *units,
		      proc_emit *emit, void *user)
{
	struct text t = { text, text + length }, line;
	uint64_t v[2];

	if (next_line(&t, &line) && next_numbers(&line, v, ARRAY_SIZE(v)))
		emit(user, METRIC_process_memory, times(v[1], units->page_bytes));
}

void proc_parse_io(const char *text, size_t length, const struct proc_units *units, proc_emit *emit,
		   void *user)
{
	struct text t = { text, text + length }, line, word;
	uint64_t bytes;
	bool read = false, written = false;

	(void)units;
	while (next_line(&t, &line) && next_word(&line, &word)) {
		if (is_word(&word, "read_bytes") && !read && next_numbers(&line, &bytes, 1)) {
			read = true;
			emit(user, METRIC_process_disk_read, times(bytes, 1));
		} else if (is_word(&word, "write_bytes") && !written &&
			   next_numbers(&line, &bytes, 1)) {
			written = true;
			emit(user, METRIC_process_disk_written, times(bytes, 1));
		}
	}
}
