/*
 * settings_read.c: reads settings from the environment and from a configuration file, including
 * those of gpufl.
 */
#include "schema/settings.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/json_read.h"

#define FILE_MAX (1u << 20)
#define VARIABLE_MAX 64

/* Only the first problem is reported. */
static void first(struct error *e, const struct error *next)
{
	if (e && !e->code)
		*e = *next;
}

/* Returns our variable, or else gpufl's. An empty one counts as unset. */
static const char *variable(const char *ours, const char *theirs)
{
	const char *value = secure_getenv(ours);

	if ((!value || !*value) && theirs)
		value = secure_getenv(theirs);
	return value && *value ? value : NULL;
}

/* gpufl takes other values of its variable for "no". */
static bool is_switched_off(struct error *e)
{
	const char *text = variable("PITOT_DISABLED", NULL);
	const char *gpufl = variable("GPUFL_DISABLED", NULL);
	struct error problem;
	bool off = false, gpufl_off;

	if (text && !parse_switch(text, &off)) {
		error_set(&problem, E_USAGE, "PITOT_DISABLED takes 1 or 0, not '%.100s'", text);
		first(e, &problem);
	}
	return off || (gpufl && parse_switch(gpufl, &gpufl_off) && gpufl_off);
}

static void set_name(struct settings *s, const char *name)
{
	snprintf(s->name, sizeof(s->name), "%s", name);
}

/* --- gpufl's names --- */

/* PcSampling equals pc-sampling: so are gpufl's engines named, also future ones. */
static bool is_same_word(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "-_");
		b += strspn(b, "-_");
		if (!*a || strncasecmp(a, b, 1) != 0)
			return !*a && !*b;
	}
}

static int set_gpufl_engine(struct settings *s, const char *text, enum setting_source source,
			    const char *subject, struct error *e)
{
	const char *name;

	/* RangeProfiler measures scopes, this one kernels. */
	if (is_same_word("range-profiler-kernel-replay", text)) {
		settings_put(s, SETTING_ID_engine, SETTING_ENGINE_RANGE_PROFILER, source);
		return 0;
	}
	for (uint64_t value = 0; (name = settings_choice(SETTING_ID_engine, value)); value++) {
		if (!is_same_word(name, text))
			continue;
		settings_put(s, SETTING_ID_engine, value, source);
		if (value == SETTING_ENGINE_RANGE_PROFILER)
			settings_put(s, SETTING_ID_measure, SETTING_MEASURE_RANGE, source);
		return 0;
	}
	return error_set(e, E_USAGE,
			 "%s takes Monitor, Trace, PcSampling, SassMetrics, RangeProfiler, Deep, "
			 "PmSampling or RangeProfilerKernelReplay, not '%.100s'",
			 subject, text);
}

static int set_gpufl_rate(struct settings *s, const char *text, enum setting_source source,
			  const char *subject, struct error *e)
{
	uint64_t ms;

	if (parse_u64(text, &ms) < 0 || ms > UINT64_MAX / NS_PER_MS)
		return error_set(e, E_USAGE, "%s takes milliseconds, not '%s'", subject, text);
	settings_put(s, SETTING_ID_counters_ns, ms * NS_PER_MS, source);
	settings_put(s, SETTING_ID_system, SETTING_SYSTEM_ALL, source);
	return 0;
}

static int set_gpufl_interval(struct settings *s, const char *text, enum setting_source source,
			      const char *subject, struct error *e)
{
	uint64_t us;

	if (parse_u64(text, &us) < 0 || us > UINT64_MAX / NS_PER_US)
		return error_set(e, E_USAGE, "%s takes microseconds, not '%s'", subject, text);
	settings_put(s, SETTING_ID_pm_interval_ns, us * NS_PER_US, source);
	return 0;
}

static int set_gpufl_metrics(struct settings *s, const char *text, enum setting_source source,
			     const char *subject, struct error *e)
{
	return *text ? settings_set(s, SETTING_ID_metrics, text, source, subject, e) : 0;
}

/* Switches of gpufl, and the values of a setting that they stand for. */
static const struct {
	const char *key;
	enum setting_id id;
	uint64_t off, on;
} gpufl_switches[] = {
	{ "continuous_system_sampling", SETTING_ID_counters_always, false, true },
	{ "enable_stack_trace", SETTING_ID_stacks, SETTING_STACKS_NONE, SETTING_STACKS_ALL },
	{ "enable_memory_tracking", SETTING_ID_memory, false, true },
	{ "enable_cuda_graphs_tracking", SETTING_ID_graphs, SETTING_GRAPHS_NODE,
	  SETTING_GRAPHS_LAUNCH },
};

/*
 * Other keys of gpufl's configuration file. Those with `set` NULL are not settings of the recorder:
 * gpufl's API reads them (settings_file_text).
 */
static const struct {
	const char *key;
	int (*set)(struct settings *s, const char *text, enum setting_source source,
		   const char *subject, struct error *e);
} gpufl_keys[] = {
	{ "profiling_engine", set_gpufl_engine },
	{ "system_sample_rate_ms", set_gpufl_rate },
	{ "pm_sampling_interval_us", set_gpufl_interval },
	{ "pm_sampling_metrics", set_gpufl_metrics },
	{ "log_path", NULL },
	{ "backend_url", NULL },
	{ "api_key", NULL },
	{ "api_path", NULL },
	{ "remote_upload", NULL },
	{ "backend", NULL },
	{ "enable_debug_output", NULL },
	{ "deep_window_only", NULL },
	{ "flush_logs_always", NULL },
	{ "kernel_sample_rate_ms", NULL },
	{ "enable_source_collection", NULL },
	{ "enable_external_correlation", NULL },
	{ "enable_synchronization", NULL },
	{ "pm_sampling_max_samples", NULL },
	{ "pm_sampling_preset", NULL },
	{ "pm_sampling_scope_only", NULL },
};

/* Sets what a key of gpufl's stands for. Returns 1, 0 if gpufl has no such key, or E_USAGE. */
static int set_gpufl_key(struct settings *s, const char *key, const char *text, const char *subject,
			 struct error *e)
{
	bool on;

	for (size_t i = 0; i < ARRAY_SIZE(gpufl_switches); i++) {
		if (strcmp(gpufl_switches[i].key, key) != 0)
			continue;
		if (!parse_switch(text, &on))
			return error_set(e, E_USAGE, "%s takes true or false, not '%s'", subject,
					 text);
		settings_put(s, gpufl_switches[i].id,
			     on ? gpufl_switches[i].on : gpufl_switches[i].off, SETTING_BY_FILE);
		return 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(gpufl_keys); i++) {
		if (strcmp(gpufl_keys[i].key, key) != 0)
			continue;
		if (gpufl_keys[i].set &&
		    gpufl_keys[i].set(s, text, SETTING_BY_FILE, subject, e) < 0)
			return e->code;
		return 1;
	}
	return 0;
}

/* --- the file --- */

static int unknown_key(const char *key, struct error *e)
{
	const char *known[SETTINGS_COUNT + 3] = { "enabled", "app-name" };
	size_t n = 2;

	for (int i = 0; i < SETTINGS_COUNT; i++)
		if (settings_option(i)->name)
			known[n++] = settings_option(i)->name;
	error_set(e, E_USAGE, "unknown key '%s'", key);
	return error_suggest(e, key, known, "");
}

/* Appends a member's value as text: of an array its items, separated by commas. */
static int add_text(const struct json_members *m, struct strbuf *out, struct error *e)
{
	_cleanup_members_ struct json_members items = JSON_ITEMS(m->value, m->value_length);
	int err = 0;

	if (m->kind != JSON_ARRAY) {
		strbuf_add(out, m->text.data, m->text.length);
		return 0;
	}
	while ((err = json_members_next(&items, e)) > 0)
		strbuf_addf(out, "%s%s", out->length ? "," : "", strbuf_text(&items.text));
	return err;
}

static int set_member(struct settings *s, const struct json_members *m, struct error *e)
{
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;
	const char *key = strbuf_text(&m->key), *text;
	char subject[VARIABLE_MAX];
	int id = settings_find(key), rc;

	if (add_text(m, &value, e) < 0)
		return e->code;
	text = strbuf_text(&value);
	snprintf(subject, sizeof(subject), "'%s'", key);
	rc = set_gpufl_key(s, key, text, subject, e);
	if (rc)
		return rc;
	if (m->kind >= JSON_NULL)
		return error_set(e, E_USAGE, "%s takes a text, a number, true or false", subject);
	if (id >= 0)
		return settings_set(s, id, text, SETTING_BY_FILE, subject, e);
	if (is_same_word(key, "app-name")) {
		if (!*s->name)
			set_name(s, text);
		return 0;
	}
	if (strcmp(key, "enabled") != 0)
		return unknown_key(key, e);
	s->disabled |= m->kind == JSON_FALSE;
	return m->kind == JSON_TRUE || m->kind == JSON_FALSE
		       ? 0
		       : error_set(e, E_USAGE, "'enabled' takes true or false");
}

static int load_file(const char *path, struct strbuf *text, struct error *e)
{
	int err = io_read_file(path, FILE_MAX, text);

	return err < 0 ? error_set(e, err, "cannot read the configuration file '%s': %s", path,
				   error_code_text(err))
		       : 0;
}

static void read_file(struct settings *s, const char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct error problem = { 0 };
	_cleanup_members_ struct json_members m = { 0 };
	int err;

	if (load_file(path, &text, &problem) < 0) {
		first(e, &problem);
		return;
	}
	m = (struct json_members)JSON_MEMBERS(strbuf_text(&text), text.length);
	while ((err = json_members_next(&m, &problem)) > 0) {
		if (set_member(s, &m, &problem) >= 0)
			continue;
		error_prefix(&problem, "%s:%u", path, m.line);
		first(e, &problem);
	}
	if (err < 0) {
		error_prefix(&problem, "%s", path);
		first(e, &problem);
	}
}

static const char *file_of(const char *file)
{
	return file ? file : variable("PITOT_CONFIG_FILE", "GPUFL_CONFIG_FILE");
}

int settings_file_text(const char *file, const char *key, struct strbuf *out, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_members_ struct json_members m = { 0 };
	int err, found = 0;

	file = file_of(file);
	if (!file)
		return 0;
	err = load_file(file, &text, e);
	if (err < 0)
		return err;
	m = (struct json_members)JSON_MEMBERS(strbuf_text(&text), text.length);
	while ((err = json_members_next(&m, e)) > 0) {
		if (strcmp(strbuf_text(&m.key), key) != 0 || m.kind == JSON_OBJECT)
			continue;
		strbuf_clear(out);
		found = 1;
		err = add_text(&m, out, e);
		if (err < 0)
			return err;
	}
	return err < 0 ? err : found;
}

static bool is_off_in_file(const char *file)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	return settings_file_text(file, "enabled", &text, NULL) > 0 &&
	       !strcmp(strbuf_text(&text), "false");
}

/* --- the environment --- */

static void variable_name(const struct option *o, char name[VARIABLE_MAX])
{
	size_t length = (size_t)snprintf(name, VARIABLE_MAX, "PITOT_%s", o->name);

	for (size_t i = 0; i < length; i++) {
		if (name[i] == '-')
			name[i] = '_';
		else if (name[i] >= 'a' && name[i] <= 'z')
			name[i] -= 'a' - 'A';
	}
}

/* Called before our variables are read, which override it. */
static void read_gpufl_engine(struct settings *s, struct error *e)
{
	const char *name = "GPUFL_PROFILING_ENGINE", *text = variable(name, NULL);
	struct error problem = { 0 };

	if (text && set_gpufl_engine(s, text, SETTING_BY_ENVIRONMENT, name, &problem) < 0)
		first(e, &problem);
}

static void read_variables(struct settings *s, struct error *e)
{
	struct error problem = { 0 };
	char name[VARIABLE_MAX];
	const char *text;

	for (int i = 0; i < SETTINGS_COUNT; i++) {
		if (!settings_option(i)->name)
			continue;
		variable_name(settings_option(i), name);
		text = variable(name, NULL);
		if (text && settings_set(s, i, text, SETTING_BY_ENVIRONMENT, name, &problem) < 0)
			first(e, &problem);
	}
}

/* A program with more privileges than its user ignores the environment: secure_getenv. */
static void read_path(const char *name, char path[SETTINGS_PATH_MAX], struct error *e)
{
	const char *value = variable(name, NULL);
	struct error problem;

	if (!value || *path)
		return;
	if (value[0] == '/' && strlen(value) < SETTINGS_PATH_MAX) {
		memcpy(path, value, strlen(value) + 1);
		return;
	}
	error_set(&problem, E_USAGE, "%s='%.100s' is not an absolute path of a folder", name,
		  value);
	first(e, &problem);
}

static void refuse_relative(char *path, struct error *e)
{
	struct error problem;

	if (!*path || *path == '/')
		return;
	error_set(&problem, E_USAGE, "'%.100s' in sinks is not an absolute path", path);
	first(e, &problem);
	path[0] = '\0';
}

/* Others than the code name no folder for an `own` recording, as PITOT_RECORDING does not. */
static void place_sinks(struct settings *s, bool own, struct error *e)
{
	bool by_code = s->source[SETTING_ID_sinks] == SETTING_BY_CODE;
	bool has_directory = by_code || *s->directory, has_log = by_code || *s->log_path;
	struct error problem = { 0 };

	if (settings_place_sinks(s, &problem) < 0)
		first(e, &problem);
	if (!has_log)
		refuse_relative(s->log_path, e);
	if (!has_directory)
		refuse_relative(s->directory, e);
	if (own && !has_directory)
		s->directory[0] = '\0';
}

int settings_read(struct settings *s, const char *file, bool own, struct error *e)
{
	const char *options = variable("PITOT_OPTIONS", NULL);
	const char *name = variable("PITOT_APP_NAME", "GPUFL_APP_NAME");
	bool by_record = options && settings_are_by_record(options);
	struct error unused = { 0 };

	e = e ? e : &unused;
	s->disabled |= is_switched_off(e);
	if (name && !*s->name)
		set_name(s, name);
	if (!own)
		read_path("PITOT_RECORDING", s->directory, e);
	if (!own && *s->directory)
		snprintf(s->launcher, sizeof(s->launcher), "%s",
			 variable("PITOT_LAUNCHER", NULL) ?: "");
	read_path("PITOT_GPUFL", s->log_path, e);
	if (by_record && !own) {
		settings_parse(s, options);
		s->disabled |= file && is_off_in_file(file);
		place_sinks(s, own, e);
		return e->code;
	}
	read_gpufl_engine(s, e);
	if (options && !by_record)
		settings_parse(s, options);
	read_variables(s, e);
	file = file_of(file);
	if (file)
		read_file(s, file, e);
	place_sinks(s, own, e);
	return e->code;
}
