#include "schema/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"

const char *const setting_engine_names[] = { [SETTING_ENGINE_MONITOR] = "monitor",
					     [SETTING_ENGINE_TRACE] = "trace",
#define E(value, name, help, start) [SETTING_ENGINE_##value] = name,
					     SETTING_ENGINES_BEYOND_TRACE(E)
#undef E
						     NULL };
static const char *const needs_start[] = { [SETTING_ENGINE_TRACE] = NULL,
#define E(value, name, help, start) [SETTING_ENGINE_##value] = start,
					   SETTING_ENGINES_BEYOND_TRACE(E)
#undef E
};

const char *setting_engine_needs_start(int engine)
{
	return engine >= 0 && engine < SETTING_ENGINES ? needs_start[engine] : NULL;
}

const char *const setting_graphs_names[] = {
	[SETTING_GRAPHS_LAUNCH] = "launch", [SETTING_GRAPHS_NODE] = "node", NULL
};
const char *const setting_api_names[] = {
	[SETTING_API_LAUNCHES] = "launches", [SETTING_API_ALL] = "all", NULL
};
const char *const setting_stacks_names[] = { [SETTING_STACKS_NONE] = "none",
					     [SETTING_STACKS_NATIVE] = "native",
					     [SETTING_STACKS_PYTHON] = "python",
					     [SETTING_STACKS_ALL] = "all",
					     NULL };
const char *const setting_own_profiler_names[] = {
	[SETTING_OWN_PROFILER_KEEP] = "keep", [SETTING_OWN_PROFILER_SHARE] = "share", NULL
};
const char *const setting_measure_names[] = { [SETTING_MEASURE_KERNEL] = "kernel",
					      [SETTING_MEASURE_GRAPH] = "graph",
					      [SETTING_MEASURE_RANGE] = "range",
					      NULL };
const char *const setting_system_names[] = {
	[SETTING_SYSTEM_BASIC] = "basic", [SETTING_SYSTEM_ALL] = "all", NULL
};
/* Beyond "on". */
const char *const setting_memory_names[] = { "torch", NULL };
const char *const setting_preload_names[] = { [SETTING_PRELOAD_NONE] = "none",
					      [SETTING_PRELOAD_PYTHON] = "python",
					      [SETTING_PRELOAD_ALL] = "all",
					      NULL };

static const char *const source_names[] = {
	[SETTING_BY_DEFAULT] = "default", [SETTING_BY_PROGRAM] = "program",
	[SETTING_BY_FILE] = "file",       [SETTING_BY_ENVIRONMENT] = "environment",
	[SETTING_BY_RECORD] = "record",   [SETTING_BY_CODE] = "code",
};

static const struct settings defaults = SETTINGS_INIT;

/* Settings as options; the value is at `offset` in struct settings. */
static const struct setting {
	size_t offset;
	enum setting_join join;
	struct option option;
} all[SETTINGS_COUNT] = {
#define S(key_, type_, join_, initial, ...)                                                        \
	[SETTING_ID_##key_] = { offsetof(struct settings, key_),                                   \
				SETTING_JOIN_##join_,                                              \
				{ .key = #key_, .type = OPTION_##type_, __VA_ARGS__ } },
	SETTINGS(S)
#undef S
};

static uint64_t get(const struct settings *s, const struct setting *setting)
{
	const void *value = (const char *)s + setting->offset;

	switch (setting->option.type) {
	case OPTION_FLAG:
		return *(const bool *)value;
	case OPTION_ENUM:
		return (uint64_t) * (const int *)value;
	case OPTION_TEXT:
		return (uintptr_t)value;
	default:
		return *(const uint64_t *)value;
	}
}

static void set(struct settings *s, const struct setting *setting, uint64_t to)
{
	void *value = (char *)s + setting->offset;

	switch (setting->option.type) {
	case OPTION_FLAG:
		*(bool *)value = to != 0;
		break;
	case OPTION_ENUM:
		*(int *)value = (int)to;
		break;
	case OPTION_TEXT:
		if (value != (const void *)(uintptr_t)to)
			strncpy(value, (const char *)(uintptr_t)to, OPTION_TEXT_MAX - 1);
		break;
	default:
		to = setting->option.most ? MIN(to, setting->option.most) : to;
		*(uint64_t *)value = to ? MAX(to, setting->option.least) : 0;
	}
}

static uint64_t count(const char *const *names)
{
	uint64_t n = 0;

	while (names && names[n])
		n++;
	return n;
}

const char *settings_choice(enum setting_id id, uint64_t value)
{
	const struct option *o = &all[id].option;

	return value < count(o->choices) ? o->choices[value] : NULL;
}

void settings_put(struct settings *s, enum setting_id id, uint64_t value,
		  enum setting_source source)
{
	uint64_t there = all[id].option.type == OPTION_ENUM ? count(all[id].option.choices) : 0;

	if (source < s->source[id])
		return;
	s->source[id] = (uint8_t)source;
	set(s, &all[id], there ? MIN(value, there - 1) : value);
}

/* Compares with text typed by a user: '_' is '-', and case is ignored. */
static bool is_name(const char *name, const char *text)
{
	for (; *name && *text; name++, text++)
		if (*name != (*text == '_' ? '-' : *text | (*text >= 'A' && *text <= 'Z' ? 32 : 0)))
			return false;
	return *name == *text;
}

int settings_find(const char *name)
{
	for (int i = 0; i < SETTINGS_COUNT; i++)
		if (all[i].option.name && is_name(all[i].option.name, name))
			return i;
	return -1;
}

const struct option *settings_option(enum setting_id id)
{
	return &all[id].option;
}

int settings_set(struct settings *s, enum setting_id id, const char *text,
		 enum setting_source source, const char *subject, struct error *e)
{
	struct settings value = { 0 };
	struct option o = all[id].option;
	int err;

	o.value = (char *)&value + all[id].offset;
	err = option_set(&o, subject, text, e);
	if (err < 0)
		return err;
	settings_put(s, id, get(&value, &all[id]), source);
	return 0;
}

void settings_join(struct settings *to, const struct settings *more)
{
	bool has_engine = more->engine > to->engine;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint64_t a = get(to, &all[i]), b = get(more, &all[i]);

		switch (all[i].join) {
		case SETTING_JOIN_OWN:
			break;
		case SETTING_JOIN_ENGINE:
			set(to, &all[i], has_engine ? b : a);
			break;
		case SETTING_JOIN_MOST:
			set(to, &all[i], MAX(a, b));
			break;
		case SETTING_JOIN_LEAST:
			set(to, &all[i], a && b ? MIN(a, b) : a | b);
			break;
		case SETTING_JOIN_BITS:
			set(to, &all[i], a | b);
			break;
		}
	}
}

static bool is_equal(const struct setting *setting, const struct settings *a,
		     const struct settings *b)
{
	uint64_t one = get(a, setting), other = get(b, setting);

	return setting->option.type == OPTION_TEXT
		       ? !strcmp((const char *)(uintptr_t)one, (const char *)(uintptr_t)other)
		       : one == other;
}

bool settings_measure_alike(const struct settings *a, const struct settings *b)
{
	bool alike = a->engine == b->engine;

	for (size_t i = 0; i < ARRAY_SIZE(all) && alike; i++)
		alike = all[i].join != SETTING_JOIN_ENGINE || is_equal(&all[i], a, b);
	return alike;
}

/* Reads a value that consists of decimal digits only. */
static bool read_number(const char *text, size_t length, uint64_t *out)
{
	uint64_t v = 0;

	if (length == 0 || length > 19)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(text[i] - '0');
	}
	*out = v;
	return true;
}

static bool read_choice(enum setting_id id, const char *text, size_t length, uint64_t *out)
{
	const char *name;

	for (uint64_t i = 0; (name = settings_choice(id, i)); i++) {
		if (strlen(name) == length && memcmp(name, text, length) == 0) {
			*out = i;
			return true;
		}
	}
	return false;
}

static void read_value(struct settings *s, enum setting_id id, const char *text, size_t length,
		       enum setting_source source)
{
	const struct option *o = &all[id].option;
	uint64_t value;

	if (o->type == OPTION_TEXT) {
		char copy[OPTION_TEXT_MAX] = "";

		memcpy(copy, text, MIN(length, sizeof(copy) - 1));
		settings_put(s, id, (uintptr_t)copy, source);
		return;
	}
	if (o->type == OPTION_ENUM ? read_choice(id, text, length, &value)
				   : read_number(text, length, &value))
		settings_put(s, id, value, source);
}

/* Only `pitot record` writes start_ns. */
bool settings_are_by_record(const char *options)
{
	return strstr(options, "start_ns=") != NULL;
}

void settings_parse(struct settings *s, const char *text)
{
	enum setting_source source =
		settings_are_by_record(text) ? SETTING_BY_RECORD : SETTING_BY_ENVIRONMENT;

	while (*text) {
		size_t item = strcspn(text, ";"), key;
		const char *equals = memchr(text, '=', item);

		key = equals ? (size_t)(equals - text) : 0;
		for (int i = 0; equals && i < SETTINGS_COUNT; i++)
			if (strlen(all[i].option.key) == key &&
			    memcmp(all[i].option.key, text, key) == 0)
				read_value(s, i, equals + 1, item - key - 1, source);
		text += item;
		text += *text == ';';
	}
}

void settings_text(const struct settings *s, struct strbuf *out)
{
	const char *separator = "";

	for (int i = 0; i < SETTINGS_COUNT; i++) {
		const struct option *o = &all[i].option;
		uint64_t value = get(s, &all[i]);

		if (is_equal(&all[i], s, &defaults))
			continue;
		strbuf_addf(out, "%s%s=", separator, o->key);
		if (o->type == OPTION_ENUM)
			strbuf_adds(out, o->choices[value]);
		else if (o->type == OPTION_TEXT)
			strbuf_adds(out, (const char *)(uintptr_t)value);
		else
			strbuf_addu(out, value);
		separator = ";";
	}
}

static void add_value(const struct option *o, uint64_t value, struct strbuf *out)
{
	switch (o->type) {
	case OPTION_ENUM:
		strbuf_adds(out, o->choices[value]);
		break;
	case OPTION_TEXT:
		strbuf_adds(out, (const char *)(uintptr_t)value);
		break;
	case OPTION_FLAG:
		strbuf_adds(out, value ? "on" : "off");
		break;
	case OPTION_DURATION:
		human_duration(out, value);
		break;
	case OPTION_SIZE:
		human_bytes(out, value);
		break;
	default:
		strbuf_addu(out, value);
	}
}

static void add_setting(const struct settings *s, const struct setting *setting, struct strbuf *out)
{
	const struct option *o = &setting->option;

	strbuf_addf(out, "%s%s=", out->length ? ", " : "", o->name);
	if (o->negatable && o->bare && !get(s, setting))
		strbuf_adds(out, "off");
	else
		add_value(o, get(s, setting), out);
}

void settings_sources(const struct settings *s, struct strbuf *out)
{
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		if (!s->source[i] || !all[i].option.name)
			continue;
		add_setting(s, &all[i], out);
		strbuf_addf(out, " (%s)", source_names[s->source[i]]);
	}
}

void settings_differences(const struct settings *s, const struct settings *actual,
			  struct strbuf *out)
{
	for (int i = 0; i < SETTINGS_COUNT; i++)
		if (s->source[i] == SETTING_BY_CODE && all[i].option.name &&
		    !is_equal(&all[i], s, actual))
			add_setting(s, &all[i], out);
}

int setting_engine_find(const char *text)
{
	uint64_t engine;

	return read_choice(SETTING_ID_engine, text, strcspn(text, " "), &engine) ? (int)engine : -1;
}

int settings_sources_choice(const char *text, enum setting_id id)
{
	const char *name = all[id].option.name;
	size_t length = strlen(name);
	uint64_t value;

	for (const char *at = text; (at = strstr(at, name)); at += length)
		if ((at == text || at[-1] == ' ') && at[length] == '=')
			return read_choice(id, at + length + 1, strcspn(at + length + 1, " "),
					   &value)
				       ? (int)value
				       : -1;
	return -1;
}

static uint64_t add_or_forever(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/*
 * start_ns does not matter without a delay. It may be from another clock than a tape that is
 * played.
 */
uint64_t settings_window_start_ns(const struct settings *s)
{
	return s->delay_ns ? add_or_forever(s->start_ns, s->delay_ns) : 0;
}

uint64_t settings_window_end_ns(const struct settings *s)
{
	return s->duration_ns ? add_or_forever(s->start_ns + s->delay_ns, s->duration_ns)
			      : UINT64_MAX;
}

bool settings_window_within(struct settings *s, const struct settings *outer, uint64_t now_ns)
{
	uint64_t start, end;

	s->start_ns = now_ns;
	start = MAX(MAX(settings_window_start_ns(s), settings_window_start_ns(outer)), now_ns);
	s->delay_ns = start - now_ns;
	end = MIN(settings_window_end_ns(s), settings_window_end_ns(outer));
	s->duration_ns = end == UINT64_MAX ? 0 : end - MIN(start, end);
	return start < end;
}

/* Length of "NAME:" at the beginning of a text, or 0. */
static size_t name_length(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz");

	return length && text[length] == ':' ? length + 1 : 0;
}

bool settings_next_sink(const char **list, struct setting_sink *out)
{
	const char *where, *end;
	size_t name;

	*list += **list == ',';
	name = name_length(*list);
	if (!name || name > sizeof(out->name))
		return false;
	snprintf(out->name, sizeof(out->name), "%.*s", (int)name - 1, *list);
	where = *list + name;
	for (end = where; *end && (*end != ',' || !name_length(end + 1)); end++)
		continue;
	snprintf(out->where, sizeof(out->where), "%.*s", (int)(end - where), where);
	*list = end;
	return true;
}

static const char *const sink_names[] = {
#define S(name, where) #name,
	SINKS(S) NULL
#undef S
};

int setting_unknown_sink(const char *name, struct error *e)
{
	error_set(e, E_USAGE, "there is no sink '%s'", name);
	return error_suggest(e, name, sink_names, NULL);
}

static bool is_sink(const char *name)
{
	const char *const *known = sink_names;

	while (*known && strcmp(*known, name))
		known++;
	return *known;
}

int settings_place_sinks(struct settings *s, struct error *e)
{
	setting_TEXT all_sinks, others = "";
	const char *list = all_sinks;
	unsigned placed = 0;
	struct setting_sink item;
	size_t length = 0; /* of `others`, which is a part of all_sinks */

	memcpy(all_sinks, s->sinks, sizeof(all_sinks));
	s->sinks[0] = '\0';
	while (settings_next_sink(&list, &item)) {
		bool is_recording = !strcmp(item.name, "recording");
		bool is_log = !strcmp(item.name, "gpufl");
		char *path = is_recording ? s->directory : s->log_path;
		unsigned kind = 1u << is_log;

		if (!is_sink(item.name))
			return setting_unknown_sink(item.name, e);
		if (!is_recording && !is_log) {
			length += (size_t)snprintf(others + length, sizeof(others) - length,
						   "%s%s:%s", length ? "," : "", item.name,
						   item.where);
			continue;
		}
		if (!*item.where || placed & kind)
			return error_set(e, E_USAGE,
					 "sinks has '%s:%.100s': name one folder for %s, such as "
					 "%s:DIR",
					 item.name, item.where, item.name, item.name);
		placed |= kind;
		if (!*path)
			snprintf(path, SETTINGS_PATH_MAX, "%s", item.where);
	}
	if (*list)
		return error_set(e, E_USAGE,
				 "sinks are NAME:WHERE, separated by commas, such as "
				 "recording:DIR, not '%.100s'",
				 list);
	memcpy(s->sinks, others, sizeof(others));
	return 0;
}
