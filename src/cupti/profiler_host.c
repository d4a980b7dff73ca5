#include "cupti/profiler_host.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cupti_profiler_host.h>
#include <cupti_target.h>

#include "base/arena.h"
#include "base/globs.h"
#include "base/options.h"
#include "base/plural.h"
#include "base/search.h"

#define NEAREST_MAX 3

#define FUNCTIONS(F)                                                                               \
	F(ProfilerHostGetSupportedChips)                                                           \
	F(ProfilerHostInitialize)                                                                  \
	F(ProfilerHostDeinitialize)                                                                \
	F(ProfilerHostGetBaseMetrics)                                                              \
	F(ProfilerHostGetSubMetrics)                                                               \
	F(ProfilerHostGetMetricProperties)                                                         \
	F(ProfilerHostConfigAddMetrics)                                                            \
	F(ProfilerHostGetConfigImageSize)                                                          \
	F(ProfilerHostGetConfigImage)                                                              \
	F(ProfilerHostGetNumOfPasses)                                                              \
	F(ProfilerHostEvaluateToGpuValues)                                                         \
	F(DeviceGetChipName)

struct functions {
#define F(name) __typeof__(cupti##name) *name;
	FUNCTIONS(F)
#undef F
};

struct profiler_host {
	struct functions cupti;
	enum profiler_kind kind;
	CUpti_Profiler_Host_Object *object;
	char *chip;
	uint8_t *availability;
	struct arena texts;
	VEC(struct base_metric) metrics;
};

#define PARAMETERS(what, ...)                                                                      \
	{                                                                                          \
		.structSize = CUpti_Profiler_Host_##what##_Params_STRUCT_SIZE, __VA_ARGS__         \
	}

static int resolve(struct functions *f, void *cupti, struct error *e)
{
#define F(name)                                                                                    \
	*(void **)&f->name = dlsym(cupti, "cupti" #name);                                          \
	if (!f->name)                                                                              \
		return error_set(e, E_UNSUPPORTED,                                                 \
				 "this CUPTI lacks cupti" #name                                    \
				 ": hardware metrics need CUDA 12.6 Update 2 or later");
	FUNCTIONS(F)
#undef F
	return 0;
}

static int failed(struct error *e, const char *function, CUptiResult result)
{
	return error_set(e, E_UNSUPPORTED, "%s: error %d of CUPTI%s", function, (int)result,
			 result == CUPTI_ERROR_NOT_INITIALIZED || result == CUPTI_ERROR_UNKNOWN
				 ? " (is libnvperf_host.so of the same version beside libcupti.so?)"
				 : "");
}

const char *const *profiler_host_chips(void *cupti, struct error *e)
{
	static const char *names[256];
	CUpti_Profiler_Host_GetSupportedChips_Params p = PARAMETERS(GetSupportedChips, );
	struct functions f;
	CUptiResult result;

	if (resolve(&f, cupti, e) < 0)
		return NULL;
	result = f.ProfilerHostGetSupportedChips(&p);
	if (result != CUPTI_SUCCESS) {
		failed(e, "cuptiProfilerHostGetSupportedChips", result);
		return NULL;
	}
	for (size_t i = 0; i < p.numChips && i < ARRAY_SIZE(names) - 1; i++)
		names[i] = p.ppChipNames[i];
	names[MIN(p.numChips, ARRAY_SIZE(names) - 1)] = NULL;
	return names;
}

const char *profiler_host_chip_of(void *cupti, unsigned device, struct error *e)
{
	CUpti_Device_GetChipName_Params p = { .structSize =
						      CUpti_Device_GetChipName_Params_STRUCT_SIZE,
					      .deviceIndex = device };
	struct functions f;
	CUptiResult result;

	if (resolve(&f, cupti, e) < 0)
		return NULL;
	result = f.DeviceGetChipName(&p);
	if (result != CUPTI_SUCCESS || !p.pChipName) {
		failed(e, "cuptiDeviceGetChipName", result);
		return NULL;
	}
	return p.pChipName;
}

/* --- a chip --- */

static CUptiResult new_object(const struct profiler_host *h, CUpti_Profiler_Host_Object **object)
{
	CUpti_Profiler_Host_Initialize_Params p = PARAMETERS(
		Initialize,
		.profilerType = h->kind == PROFILER_OF_SAMPLES ? CUPTI_PROFILER_TYPE_PM_SAMPLING
							       : CUPTI_PROFILER_TYPE_RANGE_PROFILER,
		.pChipName = h->chip, .pCounterAvailabilityImage = h->availability);
	CUptiResult result = h->cupti.ProfilerHostInitialize(&p);

	if (result == CUPTI_SUCCESS)
		*object = p.pHostObject;
	return result;
}

static void free_object(const struct profiler_host *h, CUpti_Profiler_Host_Object *object)
{
	CUpti_Profiler_Host_Deinitialize_Params p = PARAMETERS(Deinitialize, .pHostObject = object);

	if (object)
		h->cupti.ProfilerHostDeinitialize(&p);
}

static const char *copy(struct profiler_host *h, const char *text)
{
	return text ? arena_strndup(&h->texts, text, strlen(text)) : "";
}

static int add_metrics(struct profiler_host *h, CUpti_MetricType type)
{
	CUpti_Profiler_Host_GetBaseMetrics_Params p =
		PARAMETERS(GetBaseMetrics, .pHostObject = h->object, .metricType = type);

	if (h->cupti.ProfilerHostGetBaseMetrics(&p) != CUPTI_SUCCESS)
		return 0;
	for (size_t i = 0; i < p.numMetrics; i++) {
		struct base_metric m = { copy(h, p.ppMetricNames[i]), (int)type };

		if (!m.name || vec_push(&h->metrics, m) < 0)
			return -ENOMEM;
	}
	return 0;
}

ORDER(by_name, struct base_metric, strcmp(a->name, b->name))

static int open_chip(struct profiler_host *h, struct error *e)
{
	CUptiResult result = new_object(h, &h->object);

	if (result != CUPTI_SUCCESS)
		return error_set(e, E_UNSUPPORTED,
				 "CUPTI does not know chip '%s' (cuptiProfilerHostInitialize: "
				 "error %d); `pitot metrics --chip list` lists those that it knows",
				 h->chip, (int)result);
	for (int type = 0; type < CUPTI_METRIC_TYPE__COUNT; type++)
		if (add_metrics(h, (CUpti_MetricType)type) < 0)
			return error_set(e, -ENOMEM, "no memory for the names of metrics");
	if (!h->metrics.count)
		return error_set(e, E_UNSUPPORTED, "CUPTI names no metrics of chip '%s'", h->chip);
	vec_sort(&h->metrics, by_name);
	return 0;
}

int profiler_host_open(struct profiler_host **host, void *cupti, const char *chip,
		       enum profiler_kind kind, const uint8_t *availability,
		       size_t availability_bytes, struct error *e)
{
	struct profiler_host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return error_set(e, -ENOMEM, "no memory for a chip's metrics");
	h->kind = kind;
	h->chip = strdup(chip);
	if (availability && availability_bytes)
		h->availability = malloc(availability_bytes);
	if (h->availability)
		memcpy(h->availability, availability, availability_bytes);
	err = resolve(&h->cupti, cupti, e);
	if (err == 0)
		err = h->chip ? open_chip(h, e)
			      : error_set(e, -ENOMEM, "no memory for a chip's metrics");
	if (err < 0) {
		profiler_host_free(h);
		return err;
	}
	*host = h;
	return 0;
}

void profiler_host_free(struct profiler_host *h)
{
	if (!h)
		return;
	free_object(h, h->object);
	free(h->chip);
	free(h->availability);
	arena_release(&h->texts);
	vec_release(&h->metrics);
	free(h);
}

const struct base_metric *profiler_host_metrics(const struct profiler_host *h, size_t *count)
{
	*count = h->metrics.count;
	return h->metrics.data;
}

int profiler_host_submetrics(struct profiler_host *h, const struct base_metric *base,
			     struct submetrics *out)
{
	CUpti_Profiler_Host_GetSubMetrics_Params p =
		PARAMETERS(GetSubMetrics, .pHostObject = h->object,
			   .metricType = (CUpti_MetricType)base->type, .pMetricName = base->name);

	out->names.count = 0;
	if (h->cupti.ProfilerHostGetSubMetrics(&p) != CUPTI_SUCCESS)
		return 0;
	for (size_t i = 0; i < p.numOfSubmetrics; i++) {
		const char *name = copy(h, p.ppSubMetrics[i]);

		if (!name || vec_push(&out->names, name) < 0)
			return -ENOMEM;
	}
	return 0;
}

bool profiler_host_properties(struct profiler_host *h, const char *name,
			      struct metric_properties *out)
{
	CUpti_Profiler_Host_GetMetricProperties_Params p =
		PARAMETERS(GetMetricProperties, .pHostObject = h->object, .pMetricName = name);

	if (h->cupti.ProfilerHostGetMetricProperties(&p) != CUPTI_SUCCESS)
		return false;
	*out = (struct metric_properties){ copy(h, p.pDescription), copy(h, p.pDimUnit),
					   copy(h, p.pHwUnit) };
	return out->description && out->unit && out->hardware;
}

/* --- configurations --- */

static size_t passes_of(const struct profiler_host *h, uint8_t *config, size_t bytes)
{
	CUpti_Profiler_Host_GetNumOfPasses_Params p =
		PARAMETERS(GetNumOfPasses, .configImageSize = bytes, .pConfigImage = config);

	return h->cupti.ProfilerHostGetNumOfPasses(&p) == CUPTI_SUCCESS ? p.numOfPasses : 0;
}

static uint8_t *image_of(const struct profiler_host *h, CUpti_Profiler_Host_Object *object,
			 size_t *bytes)
{
	CUpti_Profiler_Host_GetConfigImageSize_Params size =
		PARAMETERS(GetConfigImageSize, .pHostObject = object);
	CUpti_Profiler_Host_GetConfigImage_Params image =
		PARAMETERS(GetConfigImage, .pHostObject = object);

	if (h->cupti.ProfilerHostGetConfigImageSize(&size) != CUPTI_SUCCESS ||
	    !size.configImageSize)
		return NULL;
	image.configImageSize = *bytes = size.configImageSize;
	image.pConfigImage = calloc(1, size.configImageSize);
	if (image.pConfigImage && h->cupti.ProfilerHostGetConfigImage(&image) != CUPTI_SUCCESS) {
		free(image.pConfigImage);
		return NULL;
	}
	return image.pConfigImage;
}

/* Uses a new host object, because metrics of an object accumulate. Returns NULL if CUPTI fails. */
static uint8_t *configure(const struct profiler_host *h, const char *const *names, size_t count,
			  size_t *bytes, size_t *passes)
{
	CUpti_Profiler_Host_Object *object = NULL;
	CUpti_Profiler_Host_ConfigAddMetrics_Params p = PARAMETERS(ConfigAddMetrics, );
	uint8_t *config = NULL;

	if (new_object(h, &object) != CUPTI_SUCCESS)
		return NULL;
	p.pHostObject = object;
	p.ppMetricNames = (const char **)(uintptr_t)names;
	p.numMetrics = count;
	if (h->cupti.ProfilerHostConfigAddMetrics(&p) == CUPTI_SUCCESS)
		config = image_of(h, object, bytes);
	*passes = config ? passes_of(h, config, *bytes) : 0;
	if (config && !*passes) {
		free(config);
		config = NULL;
	}
	free_object(h, object);
	return config;
}

size_t profiler_host_passes(struct profiler_host *h, const char *const *names, size_t count)
{
	size_t bytes, passes = 0;

	free(configure(h, names, count, &bytes, &passes));
	return passes;
}

/* --- invalid names --- */

static const struct base_metric *find_base(const struct profiler_host *h, const char *name)
{
	struct base_metric key = { name, 0 };

	return h->metrics.count
		       ? bsearch(&key, h->metrics.data, h->metrics.count, sizeof(key), by_name)
		       : NULL;
}

/*
 * Appends the nearest entries of `known` (NULL-terminated, modified) after `before`. Returns their
 * number.
 */
static size_t add_nearest(const char *word, const char **known, const char *before,
			  struct strbuf *out)
{
	const char *nearest;
	size_t n = 0;

	while (n < NEAREST_MAX && (nearest = options_nearest(word, known))) {
		strbuf_addf(out, "%s%s%s'", n++ ? " or '" : ", did you mean '", before, nearest);
		for (const char **k = known; *k; k++) {
			if (*k != nearest)
				continue;
			for (; *k; k++)
				k[0] = k[1];
			break;
		}
	}
	if (n)
		strbuf_addc(out, '?');
	return n;
}

static void explain_submetric(struct profiler_host *h, const struct base_metric *base,
			      const char *suffix, struct strbuf *out)
{
	struct submetrics subs = { VEC_INIT };

	if (profiler_host_submetrics(h, base, &subs) == 0 && subs.names.count &&
	    vec_push(&subs.names, NULL) == 0) {
		strbuf_addf(out, *suffix ? "'%s' has no '%s'" : "'%s' needs one of its submetrics",
			    base->name, suffix);
		if (!*suffix || !add_nearest(suffix, subs.names.data, base->name, out))
			strbuf_addf(out, ", such as '%s%s'; `pitot metrics %s` lists them",
				    base->name, subs.names.data[0], base->name);
	} else {
		strbuf_addf(out, "no submetric of '%s' can be collected", base->name);
	}
	vec_release(&subs.names);
}

size_t metric_base_length(const char *name)
{
	const char *unit = strstr(name, "__");
	size_t before = unit ? (size_t)(unit - name) : 0;

	return before + strcspn(name + before, ".");
}

void profiler_host_explain(struct profiler_host *h, const char *name, struct strbuf *out)
{
	size_t length = metric_base_length(name);
	_cleanup_free_ char *base = strndup(name, length);
	VEC(const char *) known = VEC_INIT;
	const struct base_metric *found = base ? find_base(h, base) : NULL;
	size_t n = 0;

	if (found) {
		explain_submetric(h, found, name + length, out);
		return;
	}
	strbuf_addf(out, "chip %s has no metric '%s'", h->chip, name);
	for (const char *const *set = metric_set_names; *set && !strstr(name, "__"); set++)
		(void)!vec_push(&known, *set);
	if (base && vec_reserve(&known, h->metrics.count + 1) == 0) {
		for (size_t i = 0; i < h->metrics.count; i++)
			known.data[known.count++] = h->metrics.data[i].name;
		known.data[known.count] = NULL;
		n = add_nearest(base, known.data, "", out);
	}
	if (!n)
		strbuf_adds(out, "; `pitot metrics` lists them");
	vec_release(&known);
}

/* --- sets --- */

static bool has_name(const struct metric_set *set, const char *name)
{
	for (size_t i = 0; i < set->names.count; i++)
		if (strcmp(set->names.data[i], name) == 0)
			return true;
	return false;
}

/* Begins the text about another name that is left out. */
static struct strbuf *leave_out(struct metric_set *set)
{
	strbuf_adds(&set->left_out, set->left_out.length ? "; " : "");
	return &set->left_out;
}

/* Drops the last name if samples would need more than one pass with it. */
static void drop_unless_one_pass(struct metric_set *set, size_t passes)
{
	const char *name = set->names.data[set->names.count - 1];

	if (set->host->kind != PROFILER_OF_SAMPLES ||
	    profiler_host_passes(set->host, set->names.data, set->names.count) == 1)
		return;
	set->names.count--;
	if (passes == 1)
		strbuf_addf(leave_out(set),
			    "'%s' does not fit into one pass with the metrics before it", name);
	else
		strbuf_addf(leave_out(set), "'%s' needs %zu passes, and sampling has only one",
			    name, passes);
}

/*
 * CUPTI patches the code of kernels to count these. In ranges of the user's they are 0 beside
 * records of concurrent kernels, and 0 in graphs (H100, CUPTI 13.0).
 */
static bool is_of_patched_code(struct metric_set *set, const char *name)
{
	if (set->host->kind != PROFILER_OF_RANGES || !strstr(name, "__sass_"))
		return false;
	if (!set->left_out_patched)
		strbuf_addf(leave_out(set),
			    "'%s' and others with __sass_ in their names count in patched code, "
			    "which only launches of kernels have",
			    name);
	set->left_out_patched = true;
	return true;
}

static int add_name(struct metric_set *set, const char *name, bool of_set)
{
	unsigned most = set->host->kind == PROFILER_OF_SAMPLES ? SAMPLED_METRICS_MAX : METRICS_MAX;
	size_t passes;

	if (has_name(set, name) || is_of_patched_code(set, name))
		return 0;
	if (set->names.count >= most) {
		strbuf_addf(leave_out(set), "'%s' exceeds the limit of %u metrics", name, most);
		return 0;
	}
	passes = profiler_host_passes(set->host, &name, 1);
	if (passes) {
		name = copy(set->host, name);
		if (!name || vec_push(&set->names, name) < 0)
			return -ENOMEM;
		drop_unless_one_pass(set, passes);
	} else if (of_set) {
		set->lacking++;
	} else {
		profiler_host_explain(set->host, name, leave_out(set));
	}
	return 0;
}

/* Adds matching metrics of the named sets; a chip has a hundred thousand complete names. */
static int add_matching(struct metric_set *set, const char *glob)
{
	bool any = false;
	int err = 0;

	for (size_t i = 0; metric_set_names[i]; i++)
		for (const char *const *m = metric_set_named(metric_set_names[i]); *m && err == 0;
		     m++)
			if (glob_matches(glob, strlen(glob), *m)) {
				any = true;
				err = add_name(set, *m, true);
			}
	if (!any)
		strbuf_addf(leave_out(set), "no metric of the named sets matches '%s'", glob);
	return err;
}

static int add_word(struct metric_set *set, const char *word)
{
	const char *const *named = metric_set_named(word);
	int err = 0;

	if (strpbrk(word, "*?"))
		return add_matching(set, word);
	if (!named)
		return add_name(set, word, false);
	for (; *named && err == 0; named++)
		err = add_name(set, *named, true);
	return err;
}

static int add_words(struct metric_set *set, const char *text)
{
	int err = 0;

	while (*text && err == 0) {
		size_t length = strcspn(text, ", ");
		_cleanup_free_ char *word = strndup(text, length);

		if (!word)
			return -ENOMEM;
		if (length)
			err = add_word(set, word);
		text += length + (text[length] != '\0');
	}
	return err;
}

int metric_set_make(struct metric_set *set, struct profiler_host *host, const char *text,
		    const char *also, struct error *e)
{
	int err;

	*set = (struct metric_set){ .host = host };
	err = add_words(set, text);
	if (err == 0 && also && set->names.count && set->names.count < METRICS_MAX &&
	    profiler_host_passes(host, &also, 1))
		err = add_name(set, also, true);
	if (err < 0 || set->left_out.failed)
		err = error_set(e, -ENOMEM, "no memory for metrics");
	else if (!set->names.count)
		err = error_set(e, E_USAGE, "no metric of '%s' can be collected%s%s", text,
				set->left_out.length ? ": " : "", strbuf_text(&set->left_out));
	else
		set->config = configure(host, set->names.data, set->names.count, &set->config_bytes,
					&set->passes);
	if (err == 0 && !set->config)
		err = error_set(e, E_UNSUPPORTED, "CUPTI cannot collect %zu metric%s together",
				set->names.count, plural(set->names.count));
	if (err < 0)
		metric_set_release(set);
	return err;
}

void metric_set_release(struct metric_set *set)
{
	vec_release(&set->names);
	free(set->config);
	strbuf_release(&set->left_out);
	memset(set, 0, sizeof(*set));
}

int metric_set_evaluate(const struct metric_set *set, const uint8_t *image, size_t bytes,
			size_t range, double *values)
{
	const struct profiler_host *h = set->host;
	CUpti_Profiler_Host_EvaluateToGpuValues_Params p =
		PARAMETERS(EvaluateToGpuValues, .pHostObject = h->object,
			   .pCounterDataImage = image, .counterDataImageSize = bytes,
			   .rangeIndex = range, .ppMetricNames = set->names.data,
			   .numMetrics = set->names.count, .pMetricValues = values);

	return (int)h->cupti.ProfilerHostEvaluateToGpuValues(&p);
}

#endif
