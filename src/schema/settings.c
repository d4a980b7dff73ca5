#include "schema/settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const setting_graphs_names[] = { [SETTING_GRAPHS_LAUNCH] = "launch",
					     [SETTING_GRAPHS_AUTO] = "auto",
					     [SETTING_GRAPHS_NODE] = "node",
					     NULL };
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
const char *const setting_preload_names[] = { [SETTING_PRELOAD_NONE] = "none",
					      [SETTING_PRELOAD_PYTHON] = "python",
					      [SETTING_PRELOAD_ALL] = "all",
					      NULL };

static const struct settings defaults = SETTINGS_INIT;

/* Settings as options, whose values lie in struct settings at `offset`. */
static const struct setting {
	size_t offset;
	enum setting_join join;
	struct option option;
} all[] = {
#define S(key_, type_, join_, initial, ...)                                                        \
	{ offsetof(struct settings, key_),                                                         \
	  SETTING_JOIN_##join_,                                                                    \
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
	default:
		*(uint64_t *)value = setting->option.most ? MIN(to, setting->option.most) : to;
	}
}

void settings_join(struct settings *to, const struct settings *more)
{
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint64_t a = get(to, &all[i]), b = get(more, &all[i]);

		switch (all[i].join) {
		case SETTING_JOIN_OWN:
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

/* Decimal digits up to the end of the value. */
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

static bool read_choice(const char *const *choices, const char *text, size_t length, uint64_t *out)
{
	for (uint64_t i = 0; choices[i]; i++) {
		if (strlen(choices[i]) == length && memcmp(choices[i], text, length) == 0) {
			*out = i;
			return true;
		}
	}
	return false;
}

static void read_value(struct settings *s, const struct setting *setting, const char *text,
		       size_t length)
{
	const struct option *o = &setting->option;
	uint64_t value;

	if (o->type == OPTION_ENUM ? read_choice(o->choices, text, length, &value)
				   : read_number(text, length, &value))
		set(s, setting, value);
}

void settings_parse(struct settings *s, const char *text)
{
	while (*text) {
		size_t item = strcspn(text, ";"), key;
		const char *equals = memchr(text, '=', item);

		key = equals ? (size_t)(equals - text) : 0;
		for (size_t i = 0; equals && i < ARRAY_SIZE(all); i++)
			if (strlen(all[i].option.key) == key &&
			    memcmp(all[i].option.key, text, key) == 0)
				read_value(s, &all[i], equals + 1, item - key - 1);
		text += item;
		text += *text == ';';
	}
}

void settings_text(const struct settings *s, struct strbuf *out)
{
	const char *separator = "";

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint64_t value = get(s, &all[i]);

		if (value == get(&defaults, &all[i]))
			continue;
		strbuf_addf(out, "%s%s=", separator, all[i].option.key);
		if (all[i].option.type == OPTION_ENUM)
			strbuf_adds(out, all[i].option.choices[value]);
		else
			strbuf_addf(out, "%" PRIu64, value);
		separator = ";";
	}
}

/* A program with privileges that its user lacks takes no orders from its environment: secure_getenv. */
bool settings_read(struct settings *s)
{
	const char *directory = secure_getenv("PITOT_RECORDING");
	const char *options = secure_getenv("PITOT_OPTIONS");

	*s = defaults;
	if (!directory || directory[0] != '/' || strlen(directory) >= sizeof(s->directory))
		return false;
	memcpy(s->directory, directory, strlen(directory));
	if (options)
		settings_parse(s, options);
	return true;
}

static uint64_t add_or_forever(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Without a delay the start does not matter: it may be of another clock, that of a tape that is played. */
uint64_t settings_window_start_ns(const struct settings *s)
{
	return s->delay_ns ? add_or_forever(s->start_ns, s->delay_ns) : 0;
}

uint64_t settings_window_end_ns(const struct settings *s)
{
	return s->duration_ns ? add_or_forever(s->start_ns + s->delay_ns, s->duration_ns)
			      : UINT64_MAX;
}
