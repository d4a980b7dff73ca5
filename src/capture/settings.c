#include "capture/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define CPU_HZ_MAX 10000u
#define COUNTERS_NS (500 * NS_PER_MS)

static bool key_is(const char *text, size_t length, const char *key)
{
	return strlen(key) == length && memcmp(text, key, length) == 0;
}

/* Decimal digits up to the end of the value; anything else leaves *out as it was. */
static void read_u64(const char *value, size_t length, uint64_t *out)
{
	uint64_t v = 0;

	if (length == 0 || length > 19)
		return;
	for (size_t i = 0; i < length; i++) {
		if (value[i] < '0' || value[i] > '9')
			return;
		v = v * 10 + (uint64_t)(value[i] - '0');
	}
	*out = v;
}

static void set_stacks(struct settings *s, const char *value, size_t length)
{
	bool all = key_is(value, length, "all");

	s->native_stacks = all || key_is(value, length, "native");
	s->python_stacks = all || key_is(value, length, "python");
}

static void set_cpu(struct settings *s, const char *value, size_t length)
{
	uint64_t hz = 0;

	read_u64(value, length, &hz);
	s->cpu_hz = (uint32_t)MIN(hz, CPU_HZ_MAX);
}

static void set_preload(struct settings *s, const char *value, size_t length)
{
	s->preload_once = key_is(value, length, "once");
	s->preload = s->preload_once || key_is(value, length, "1");
}

static void set_one(struct settings *s, const char *key, size_t key_length, const char *value,
		    size_t length)
{
	bool yes = key_is(value, length, "1");

	if (key_is(key, key_length, "graphs"))
		s->graph_nodes = !key_is(value, length, "launch");
	else if (key_is(key, key_length, "sync"))
		s->synchronization = yes;
	else if (key_is(key, key_length, "memory"))
		s->memory = yes;
	else if (key_is(key, key_length, "stacks"))
		set_stacks(s, value, length);
	else if (key_is(key, key_length, "counters_ns"))
		read_u64(value, length, &s->counters_ns);
	else if (key_is(key, key_length, "api"))
		s->all_api_calls = key_is(value, length, "all");
	else if (key_is(key, key_length, "cpu"))
		set_cpu(s, value, length);
	else if (key_is(key, key_length, "perf"))
		read_u64(value, length, &s->perf_namespace);
	else if (key_is(key, key_length, "preload"))
		set_preload(s, value, length);
	else if (key_is(key, key_length, "cuda"))
		s->cuda = !key_is(value, length, "0");
	else if (key_is(key, key_length, "start_ns"))
		read_u64(value, length, &s->start_ns);
	else if (key_is(key, key_length, "delay_ns"))
		read_u64(value, length, &s->delay_ns);
	else if (key_is(key, key_length, "duration_ns"))
		read_u64(value, length, &s->duration_ns);
	else if (key_is(key, key_length, "max_bytes"))
		read_u64(value, length, &s->max_bytes);
	else if (key_is(key, key_length, "segment_bytes"))
		read_u64(value, length, &s->segment_bytes);
	else if (key_is(key, key_length, "stacks_max"))
		read_u64(value, length, &s->stacks_max);
}

void settings_parse(struct settings *s, const char *text)
{
	while (*text) {
		size_t item = strcspn(text, ";");
		const char *equals = memchr(text, '=', item);

		if (equals)
			set_one(s, text, (size_t)(equals - text), equals + 1,
				(size_t)(text + item - equals - 1));
		text += item;
		text += *text == ';';
	}
}

/* Without a delay the start does not matter: it may be of another clock, that of a tape that is played. */
bool settings_window(const struct settings *s, uint64_t now_ns, bool *over)
{
	uint64_t since = now_ns > s->start_ns ? now_ns - s->start_ns : 0;
	bool begun = since >= s->delay_ns;
	bool ended = begun && s->duration_ns != 0 && since - s->delay_ns >= s->duration_ns;

	if (over)
		*over = ended;
	return begun && !ended;
}

bool settings_read(struct settings *s)
{
	const char *directory = getenv("PITOT_RECORDING"), *options = getenv("PITOT_OPTIONS");

	*s = (struct settings){ .graph_nodes = true, .counters_ns = COUNTERS_NS, .cuda = true };
	if (!directory || directory[0] != '/' || strlen(directory) >= sizeof(s->directory))
		return false;
	strncpy(s->directory, directory, sizeof(s->directory) - 1);
	if (options)
		settings_parse(s, options);
	return true;
}
