#include "compare/condition.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const condition_states[] = { "passed", "failed", "unknown" };

#define WAY_OUT                                                                                    \
	"write it like 'step > 2%%', 'kernel:*gemm* > 50us', 'launches > 0' or 'memory > 1%%'"

static const struct {
	const char *text;
	enum quantity_unit unit;
	double factor;
} units[] = {
	{ "ns", QUANTITY_NS, 1 },          { "us", QUANTITY_NS, 1e3 },
	{ "ms", QUANTITY_NS, 1e6 },        { "s", QUANTITY_NS, 1e9 },
	{ "B", QUANTITY_BYTES, 1 },        { "KiB", QUANTITY_BYTES, 1024 },
	{ "MiB", QUANTITY_BYTES, 0x1p20 }, { "GiB", QUANTITY_BYTES, 0x1p30 },
	{ "", QUANTITY_COUNT, 1 },
};

static size_t trimmed(const char *text, size_t length)
{
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	return length;
}

static int parse_quantity(const char *text, size_t length, struct condition *out, struct error *e)
{
	const char *colon = memchr(text, ':', length);
	size_t name = colon ? (size_t)(colon - text) : length;

	for (unsigned i = 0; i < QUANTITY_KINDS; i++) {
		const struct quantity_type *type = &quantity_types[i];

		if (strlen(type->name) != name || memcmp(type->name, text, name) != 0)
			continue;
		if (type->has_parts != (colon != NULL))
			return error_set(e, E_USAGE, "'%s': %s %s; " WAY_OUT, out->text, type->name,
					 colon ? "has no parts"
					       : "needs a pattern, such as kernel:*gemm*");
		out->kind = (enum quantity_kind)i;
		out->pattern = colon ? strndup(colon + 1, length - name - 1) : strdup("");
		return out->pattern ? 0 : error_set(e, -ENOMEM, "out of memory");
	}
	return error_set(e, E_USAGE, "'%s': there is no quantity '%.*s'; " WAY_OUT, out->text,
			 (int)MIN(name, 40), text);
}

static int parse_limit(const char *text, struct condition *out, struct error *e)
{
	char *end;

	out->limit = strtod(text, &end);
	if (end == text || !isfinite(out->limit))
		return error_set(e, E_USAGE, "'%s' has no number; " WAY_OUT, out->text);
	end += strspn(end, " ");
	if (!strcmp(end, "%")) {
		out->relative = true;
		out->limit /= 100;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (units[i].unit != quantity_types[out->kind].unit || strcmp(units[i].text, end))
			continue;
		out->limit *= units[i].factor;
		return 0;
	}
	return error_set(e, E_USAGE, "'%s': %s has no unit '%s'; " WAY_OUT, out->text,
			 quantity_types[out->kind].name, end);
}

int condition_parse(const char *text, struct condition *out, struct error *e)
{
	const char *sign = text + strlen(text);
	int rc;

	*out = (struct condition){ .text = text, .state = CONDITION_UNKNOWN };
	/* Names of kernels have '<' and '>', limits have none. */
	while (sign > text && *sign != '>' && *sign != '<')
		sign--;
	if (sign == text)
		return error_set(e, E_USAGE, "'%s' compares nothing; " WAY_OUT, text);
	out->above = *sign == '>';
	text += strspn(text, " ");
	rc = parse_quantity(text, trimmed(text, (size_t)(sign - text)), out, e);
	return rc < 0 ? rc : parse_limit(sign + 1 + strspn(sign + 1, " "), out, e);
}

void condition_release(struct condition *c)
{
	free(c->pattern);
}

static bool is_met(const struct condition *c, double value)
{
	return c->above ? value > c->limit : value < c->limit;
}

int condition_check(struct condition *c, const struct comparison *of, bool on_point)
{
	struct sample_difference *d = &c->difference;
	double estimate, nearest;
	int rc = comparison_sum(of, c->kind, c->pattern, d, &c->parts);

	if (rc < 0 || !c->parts || of->reasons.count)
		return rc;
	if (quantity_types[c->kind].values == QUANTITY_OF_RUN && of->is_few)
		on_point = true;
	estimate = c->relative ? d->ratio : d->b - d->a;
	if (c->relative)
		nearest = c->above ? d->low : d->high;
	else
		nearest = c->above ? d->change_low : d->change_high;
	if (isnan(on_point ? estimate : nearest))
		return 0;
	if (is_met(c, on_point ? estimate : nearest))
		c->state = CONDITION_FAILED;
	else if (on_point || !of->is_few || !is_met(c, estimate))
		c->state = CONDITION_PASSED;
	return 0;
}
