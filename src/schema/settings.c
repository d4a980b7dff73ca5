#include "schema/settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct setting all[] = {
#define S(name, type, initial, most, choices, meaning)                                             \
	{ #name, SETTING_##type, offsetof(struct settings, name), initial, most, choices, meaning },
	SETTINGS(S)
#undef S
};

const struct setting *settings_all(size_t *count)
{
	*count = ARRAY_SIZE(all);
	return all;
}

static uint64_t *value_of(struct settings *s, const struct setting *setting)
{
	return (uint64_t *)(void *)((char *)s + setting->offset);
}

void settings_defaults(struct settings *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		*value_of(s, &all[i]) = all[i].initial;
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

static bool read_choice(const char *choices, const char *text, size_t length, uint64_t *out)
{
	for (uint64_t i = 0; *choices; i++) {
		size_t n = strcspn(choices, "|");

		if (n == length && memcmp(choices, text, n) == 0) {
			*out = i;
			return true;
		}
		choices += n + (choices[n] == '|');
	}
	return false;
}

static void set_one(struct settings *s, const struct setting *setting, const char *text,
		    size_t length)
{
	uint64_t value;

	if (setting->type == SETTING_CHOICE) {
		if (read_choice(setting->choices, text, length, &value))
			*value_of(s, setting) = value;
	} else if (read_number(text, length, &value)) {
		*value_of(s, setting) = MIN(value, setting->most);
	}
}

void settings_parse(struct settings *s, const char *text)
{
	while (*text) {
		size_t item = strcspn(text, ";"), key;
		const char *equals = memchr(text, '=', item);

		key = equals ? (size_t)(equals - text) : 0;
		for (size_t i = 0; equals && i < ARRAY_SIZE(all); i++)
			if (strlen(all[i].name) == key && memcmp(all[i].name, text, key) == 0)
				set_one(s, &all[i], equals + 1, item - key - 1);
		text += item;
		text += *text == ';';
	}
}

void settings_text(const struct settings *s, struct strbuf *out)
{
	const char *separator = "";

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint64_t value = *value_of((struct settings *)(uintptr_t)s, &all[i]);
		const char *choice = all[i].choices;

		if (value == all[i].initial)
			continue;
		strbuf_addf(out, "%s%s=", separator, all[i].name);
		if (all[i].type == SETTING_CHOICE) {
			for (uint64_t skip = value; skip; skip--)
				choice += strcspn(choice, "|") + 1;
			strbuf_add(out, choice, strcspn(choice, "|"));
		} else {
			strbuf_addf(out, "%" PRIu64, value);
		}
		separator = ";";
	}
}

/* A program with privileges that its user lacks takes no orders from its environment: secure_getenv. */
bool settings_read(struct settings *s)
{
	const char *directory = secure_getenv("PITOT_RECORDING");
	const char *options = secure_getenv("PITOT_OPTIONS");

	settings_defaults(s);
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
