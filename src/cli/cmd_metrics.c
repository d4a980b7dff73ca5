/* cmd_metrics.c: `pitot metrics`: what the hardware counters of a GPU can measure. */
#include <dlfcn.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/plural.h"
#include "cli/ui.h"
#include "cupti/cupti_find.h"
#include "cupti/profiler_host.h"
#include "report/text_table.h"
#include "vendor/nvidia/libcuda.h"

#define PASSES_MAX 300u /* metrics whose passes are computed; 1 to 70 ms each */
#define TOGETHER_MAX 64u

static const char *chip;

static const struct option options[] = {
	OPTION(STRING, "chip", 0, chip, "NAME",
	       "metrics of this chip, such as GH100, without a GPU; list: the names of all "
	       "chips (default: the first GPU's)"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot metrics --chip list", "the chips that CUPTI knows" },
	{ "pitot metrics '*bank_conflicts*'", "base metrics by a pattern" },
	{ "pitot metrics sm__warps_active", "one metric, with all its submetrics" },
	{ "pitot metrics 'sm__inst_executed.*per_cycle*'", "submetrics by a pattern" },
	{ "pitot metrics --chip AD102 memory", "the set that --metrics memory collects" },
	{ NULL, NULL },
};

#ifdef PITOT_HAS_PROFILER_HOST

struct listed {
	const char *name; /* as shown */
	const char *collected; /* a complete name; NULL: none */
	struct metric_properties properties;
	size_t passes; /* 0: unknown */
};

struct listing {
	struct profiler_host *host;
	VEC(struct listed) metrics;
	VEC(char *) names; /* owned */
	size_t together; /* passes of all of them together; 0: unknown */
};

static void listing_release(struct listing *l)
{
	for (size_t i = 0; i < l->names.count; i++)
		free(l->names.data[i]);
	vec_release(&l->names);
	vec_release(&l->metrics);
	profiler_host_free(l->host);
}

/* --- the operand --- */

static const char *join(struct listing *l, const char *base, const char *suffix)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	char *text;

	strbuf_addf(&name, "%s%s", base, suffix);
	text = strdup(strbuf_text(&name));
	if (text && vec_push(&l->names, text) < 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int add(struct listing *l, const char *name, const char *collected)
{
	struct listed m = { .name = name, .collected = collected };

	if (!name)
		return -ENOMEM;
	if (!profiler_host_properties(l->host, name, &m.properties))
		return 0;
	return vec_push(&l->metrics, m);
}

enum selection {
	SELECT_ALL,
	SELECT_BASES, /* base metrics that match a pattern */
	SELECT_ONE, /* one base metric with its submetrics */
	SELECT_COMPLETE, /* complete names that match a pattern */
};

static enum selection selection_of(const char *pattern)
{
	if (!pattern)
		return SELECT_ALL;
	if (pattern[metric_base_length(pattern)])
		return SELECT_COMPLETE;
	return strpbrk(pattern, "*?[") ? SELECT_BASES : SELECT_ONE;
}

static int add_submetrics(struct listing *l, const struct base_metric *base,
			  const struct submetrics *subs, const char *pattern)
{
	int err = 0;

	for (size_t i = 0; i < subs->names.count && err == 0; i++) {
		const char *name = join(l, base->name, subs->names.data[i]);

		if (!name)
			return -ENOMEM;
		if (!pattern || fnmatch(pattern, name, 0) == 0)
			err = add(l, name, name);
	}
	return err;
}

/* Measures the base metric by its first submetric: all submetrics use the same counters. */
static int add_base(struct listing *l, const struct base_metric *base,
		    const struct submetrics *subs)
{
	return add(l, base->name,
		   subs->names.count ? join(l, base->name, subs->names.data[0]) : NULL);
}

static bool may_match(const struct base_metric *base, enum selection selection, const char *pattern)
{
	size_t length = pattern ? metric_base_length(pattern) : 0;

	switch (selection) {
	case SELECT_ALL:
		return true;
	case SELECT_COMPLETE:
		/* Avoids listing submetrics: all metrics have 150,000 of them. */
		return memchr(pattern, '*', length) || memchr(pattern, '?', length) ||
		       memchr(pattern, '[', length) ||
		       (strlen(base->name) == length && memcmp(base->name, pattern, length) == 0);
	default:
		return fnmatch(pattern, base->name, 0) == 0;
	}
}

static int add_matching(struct listing *l, const char *pattern)
{
	enum selection selection = selection_of(pattern);
	struct submetrics subs = { VEC_INIT };
	size_t count;
	const struct base_metric *all = profiler_host_metrics(l->host, &count);
	int err = 0;

	for (size_t i = 0; i < count && err == 0; i++) {
		if (!may_match(&all[i], selection, pattern))
			continue;
		err = profiler_host_submetrics(l->host, &all[i], &subs);
		if (err == 0 && selection != SELECT_COMPLETE)
			err = add_base(l, &all[i], &subs);
		if (err == 0 && (selection == SELECT_ONE || selection == SELECT_COMPLETE))
			err = add_submetrics(l, &all[i], &subs,
					     selection == SELECT_COMPLETE ? pattern : NULL);
	}
	vec_release(&subs.names);
	return err;
}

static int add_set(struct listing *l, const char *const *names)
{
	int err = 0;

	for (; *names && err == 0; names++)
		if (profiler_host_passes(l->host, names, 1))
			err = add(l, *names, *names);
	return err;
}

static void find_passes(struct listing *l)
{
	const char *all[TOGETHER_MAX];
	size_t n = 0;

	if (l->metrics.count > PASSES_MAX)
		return;
	for (size_t i = 0; i < l->metrics.count; i++) {
		struct listed *m = &l->metrics.data[i];

		if (!m->collected)
			continue;
		m->passes = profiler_host_passes(l->host, &m->collected, 1);
		if (m->passes && n++ < TOGETHER_MAX)
			all[n - 1] = m->collected;
	}
	if (n && n <= TOGETHER_MAX)
		l->together = profiler_host_passes(l->host, all, n);
}

/* --- output --- */

static void print_text(const struct context *c, const struct listing *l, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT("metric"), LEFT("unit"), RIGHT("passes"),
						      LEFT("meaning") };
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < l->metrics.count; i++) {
		const struct listed *m = &l->metrics.data[i];

		text_table_add(&t, m->name);
		text_table_add(&t, m->properties.unit);
		if (m->passes)
			text_table_addf(&t, "%zu", m->passes);
		else
			text_table_add(&t, "");
		text_table_add(&t, m->properties.description);
	}
	text_table_print(&t, 0, UINT32_MAX, c->color, out);
	text_table_release(&t);
	if (l->together && l->metrics.count > 1)
		strbuf_addf(out, "\n%zu metrics, %zu pass%s together\n", l->metrics.count,
			    l->together, plural_es(l->together));
	else if (l->metrics.count > PASSES_MAX)
		strbuf_addf(out,
			    "\n%zu metrics; for at most %u of them passes are shown, too: "
			    "pitot metrics 'sm__*'\n",
			    l->metrics.count, PASSES_MAX);
}

static void print_json(const struct listing *l, const char *name, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	json_key_string(&j, "chip", name);
	json_key_known(&j, "passes", l->together, l->together);
	json_key_array(&j, "metrics");
	for (size_t i = 0; i < l->metrics.count; i++) {
		const struct listed *m = &l->metrics.data[i];

		json_object(&j);
		json_key_string(&j, "name", m->name);
		json_key_string(&j, "unit", m->properties.unit);
		json_key_string(&j, "hardware", m->properties.hardware);
		json_key_string(&j, "description", m->properties.description);
		json_key_known(&j, "passes", m->passes, m->passes);
		json_end(&j);
	}
	json_finish(&j);
}

static int list_chips(const struct context *c, void *cupti)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);
	struct error e = { 0 };
	const char *const *names = profiler_host_chips(cupti, &e);

	if (!names)
		return cli_fail(c, &e);
	if (c->json)
		json_array(&j);
	for (; *names; names++) {
		if (c->json)
			json_string(&j, *names);
		else
			strbuf_addf(&out, "%s\n", *names);
	}
	if (c->json)
		json_finish(&j);
	return cli_print(c, &out);
}

/* --- finding CUPTI and the chip --- */

/* CUPTI's spelling of a chip's name; an unknown name stays, for CUPTI's error. */
static const char *spelled(void *cupti, const char *name)
{
	struct error e = { 0 };
	const char *const *names = profiler_host_chips(cupti, &e);

	for (; names && *names; names++)
		if (!strcasecmp(*names, name))
			return *names;
	return name;
}

static bool accept_cupti(void *handle, void *user, struct strbuf *why)
{
	if (!dlsym(handle, "cuptiProfilerHostInitialize")) {
		strbuf_adds(why, "lacks cuptiProfilerHostInitialize: it is older than CUDA 12.6");
		return false;
	}
	*(void **)user = handle;
	return true;
}

static const char *chip_of_gpu(void *cupti, struct libcuda *cuda, struct error *e)
{
	char reason[512];
	const char *name = NULL;

	if (cuda->handle && libcuda_init(cuda, e) == 0 && libcuda_device_count(cuda))
		name = profiler_host_chip_of(cupti, 0, e);
	else if (machine_no_gpu_reason(reason, sizeof(reason)))
		error_set(e, E_UNSUPPORTED, "%s", reason);
	else if (!e->code)
		error_set(e, E_UNSUPPORTED, "the driver shows no GPU");
	if (!name)
		error_prefix(e, "cannot query a GPU for its chip");
	return name;
}

static int list(const struct context *c, struct listing *l, const char *name, const char *pattern)
{
	const char *const *set = pattern ? metric_set_named(pattern) : NULL;
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct error e = { 0 };

	if ((set ? add_set(l, set) : add_matching(l, pattern)) < 0)
		return cli_failf(c, "no memory for the metrics of %s", name);
	if (!l->metrics.count && selection_of(pattern) != SELECT_ALL) {
		if (strpbrk(pattern, "*?["))
			strbuf_addf(&out, "chip %s has no metric like '%s'", name, pattern);
		else
			profiler_host_explain(l->host, pattern, &out);
		error_set(&e, E_USAGE, "%s", strbuf_text(&out));
		return cli_fail(c, &e);
	}
	find_passes(l);
	if (c->json)
		print_json(l, name, &out);
	else
		print_text(c, l, &out);
	return cli_print(c, &out);
}

static int run_metrics(struct context *c, int argc, char **argv)
{
	struct listing l = { .host = NULL };
	struct libcuda cuda = { .handle = NULL };
	struct error e = { 0 }, no_driver = { 0 };
	const char *name = chip;
	void *cupti = NULL;
	int version = 0, status;

	if (libcuda_load(&cuda, &no_driver) == 0)
		cuda.driver_version(&version);
	else
		cuda.handle = NULL;
	if (cupti_find(secure_getenv("PITOT_CUPTI"), version, accept_cupti, &cupti, &e) < 0)
		return cli_fail(c, &e);
	if (name && strcasecmp(name, "list") == 0)
		return list_chips(c, cupti);
	if (name) {
		name = spelled(cupti, name);
	} else {
		e = no_driver;
		name = chip_of_gpu(cupti, &cuda, &e);
	}
	if (!name)
		return cli_failf(c, "%s; name a chip: `pitot metrics --chip list` lists them",
				 e.text);
	if (profiler_host_open(&l.host, cupti, name, PROFILER_OF_LAUNCHES, NULL, 0, &e) < 0)
		return cli_fail(c, &e);
	status = list(c, &l, name, argc > 1 ? argv[1] : NULL);
	listing_release(&l);
	return status;
}

#else

static int run_metrics(struct context *c, int argc, char **argv)
{
	(void)argc, (void)argv;
	return cli_failf(c, "this Pitot was built without the headers of CUDA 12.6 Update 2 or "
			    "later; build it again with them (README.md)");
}

#endif

const struct command cmd_metrics = {
	.name = "metrics",
	.group = COMMAND_MACHINE,
	.summary = "list what the hardware counters of a GPU can measure",
	.usage = "[options] [SET|METRIC|PATTERN]",
	.description =
		"Lists CUPTI's metrics of the first GPU, or of any chip by its name: name, unit, "
		"how often a kernel must run to measure it (passes), and meaning. Without an "
		"operand it lists all base metrics. A metric that can be collected has a submetric "
		"after the base name: sm__warps_active.avg. The operand can be a base name, which "
		"is shown with all its submetrics; a pattern, which matches complete names if it "
		"has a dot, else base names; or a set, which lists what `pitot record --engine "
		"range-profiler --metrics SET` collects.\n\n"
		"CUPTI is searched for in the same places as by a recording: $PITOT_CUPTI, else "
		"the loader's path and the folders of toolkits.",
	.options = options,
	.examples = examples,
	.operands = metric_set_names,
	.operands_max = 1,
	.run = run_metrics,
};
