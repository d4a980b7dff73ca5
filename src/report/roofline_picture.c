/*
 * roofline_picture.c: both axes are logarithmic. A kernel has a point for each level of memory and
 * type of number; the roofs are the highest peaks that were measured.
 */
#include "report/section.h"

#include <math.h>
#include <string.h>

#include "analysis/counters.h"
#include "base/html.h"
#include "base/human.h"
#include "names/demangle.h"

/* From src/report/, by cmake/PitotEmbed.cmake. */
extern const char roofline_css[];

#define WIDTH 960
#define X_START 92.0
#define X_END 944.0
#define Y_END 20.0
#define Y_START 440.0
#define LEGEND 496 /* y of its first line */
#define ROW 18
#define KERNELS_MAX 20 /* in the legend */
#define NAME_MAX_BYTES 110
#define LABEL_WIDTH 170 /* of a type's roof */
#define DECADES_MAX 18
#define RADIUS_MIN 4.0
#define RADIUS_MORE 9.0 /* for all of the measured time */

/* A logarithmic axis over whole decades. */
struct axis {
	double first, last; /* exponents of ten */
	double start, end; /* in pixels */
};

struct plot {
	const struct report_view *v;
	const struct roofline *roofline;
	const struct counters *counters;
	struct strbuf *out;
	struct axis x, y;
	double peaks[ROOFS_END]; /* 0: unknown */
	double total_ns; /* of all measured kernels */
};

/* Whether the point has a place on logarithmic axes. */
static bool is_drawn(const struct roofline_point *p)
{
	return p->flops > 0 && isfinite(p->flops) && p->intensity > 0 && isfinite(p->intensity);
}

static double position(const struct axis *a, double value)
{
	return a->start + (log10(value) - a->first) / (a->last - a->first) * (a->end - a->start);
}

static void axis_include(struct axis *a, double value)
{
	double exponent = log10(value);

	a->first = MIN(a->first, floor(exponent));
	a->last = MAX(a->last, ceil(exponent));
}

/* Where the bandwidth of a level reaches a number of operations per second. */
static double ridge(const struct plot *p, unsigned level, double flops)
{
	return flops / p->peaks[level];
}

static double highest_type(const struct plot *p)
{
	double highest = 0;

	for (unsigned i = ROOF_TYPES; i < ROOFS_END; i++)
		highest = MAX(highest, p->peaks[i]);
	return highest;
}

static bool measure(struct plot *p)
{
	const struct roofline *r = p->roofline;
	bool any = false;

	p->x = (struct axis){ INFINITY, -INFINITY, X_START, X_END };
	p->y = (struct axis){ INFINITY, -INFINITY, Y_START, Y_END };
	for (size_t i = 0; i < r->count; i++) {
		const struct roofline_point *point = &r->items[i];

		if (point->type < ROOFS_END && point->peak_flops > p->peaks[point->type])
			p->peaks[point->type] = point->peak_flops;
		if (point->peak_bandwidth > p->peaks[point->level])
			p->peaks[point->level] = point->peak_bandwidth;
		if (!is_drawn(point))
			continue;
		any = true;
		axis_include(&p->x, point->intensity);
		axis_include(&p->y, point->flops);
	}
	if (!any)
		return false;
	for (unsigned i = ROOF_TYPES; i < ROOFS_END; i++) {
		if (!p->peaks[i])
			continue;
		axis_include(&p->y, 1.5 * p->peaks[i]);
		for (unsigned level = 0; level < ROOF_TYPES; level++)
			if (p->peaks[level])
				axis_include(&p->x, 4 * ridge(p, level, p->peaks[i]));
	}
	/* Counters can have any value, a picture cannot. */
	p->x.last = MIN(MAX(p->x.last, p->x.first + 1), p->x.first + DECADES_MAX);
	p->y.first = MAX(MIN(p->y.first, p->y.last - 1), p->y.last - DECADES_MAX);
	for (size_t i = 0; i < p->counters->kernel_count; i++)
		if (p->counters->kernels[i].kind == COUNTED_KERNEL)
			p->total_ns += p->counters->kernels[i].total_ns;
	return true;
}

/* --- axes --- */

/* "10 GFLOP/s" */
static void add_power(struct strbuf *out, int exponent)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
	int prefix = exponent < 0 ? 0 : MIN(exponent / 3, (int)ARRAY_SIZE(prefixes) - 1);

	strbuf_addf(out, "%g %sFLOP/s", pow(10, exponent - 3 * prefix), prefixes[prefix]);
}

static void add_axes(struct plot *p)
{
	for (double i = p->x.first; i <= p->x.last; i++) {
		double at = position(&p->x, pow(10, i));

		strbuf_addf(p->out,
			    "<path class=\"grid\" d=\"M%.2f %.0fV%.0f\"/>"
			    "<text class=\"soft middle x\" x=\"%.2f\" y=\"%.0f\">%g</text>\n",
			    at, Y_END, Y_START, at, Y_START + 16, pow(10, i));
	}
	for (double i = p->y.first; i <= p->y.last; i++) {
		double at = position(&p->y, pow(10, i));

		strbuf_addf(p->out,
			    "<path class=\"grid\" d=\"M%.0f %.2fH%.0f\"/>"
			    "<text class=\"soft end y\" x=\"%.0f\" y=\"%.2f\">",
			    X_START, at, X_END, X_START - 6, at + 4);
		add_power(p->out, (int)i);
		strbuf_adds(p->out, "</text>\n");
	}
	strbuf_addf(p->out,
		    "<text class=\"soft middle\" x=\"%.0f\" y=\"%.0f\">"
		    "arithmetic intensity: FLOP per byte of a level of memory</text>\n",
		    (X_START + X_END) / 2, Y_START + 34);
}

/* --- roofs --- */

static void add_level_roof(struct plot *p, unsigned level)
{
	double first = pow(10, p->x.first), highest = highest_type(p);
	double top = highest > 0 ? highest : pow(10, p->y.last), x, y;
	/* the line enters at the left or at the bottom, and ends at the highest roof */
	double from = MAX(first, ridge(p, level, pow(10, p->y.first)));
	double to = MIN(pow(10, p->x.last), ridge(p, level, top));
	double slope = (p->y.start - p->y.end) / (p->y.last - p->y.first) /
		       ((p->x.end - p->x.start) / (p->x.last - p->x.first));

	if (!p->peaks[level] || !(from < to))
		return;
	x = position(&p->x, from);
	y = position(&p->y, from * p->peaks[level]);
	strbuf_addf(p->out, "<path class=\"level l%u\" d=\"M%.2f %.2fL%.2f %.2f\"/>", level, x, y,
		    position(&p->x, to), position(&p->y, to * p->peaks[level]));
	strbuf_addf(p->out,
		    "<text class=\"l%u\" transform=\"translate(%.2f %.2f) rotate(%.2f)\" x=\"10\" "
		    "y=\"-5\">%s ",
		    level, x, y, -atan(slope) * 180 / M_PI, roof_name(level));
	human_si(p->out, p->peaks[level], "B/s");
	strbuf_adds(p->out, "</text>\n");
}

/* Labels of roofs that are close to each other stand side by side. */
static void add_type_roofs(struct plot *p)
{
	double taken[ROOFS_END], fastest = 0;
	size_t labels = 0;

	for (unsigned level = 0; level < ROOF_TYPES; level++)
		fastest = MAX(fastest, p->peaks[level]);
	for (unsigned i = ROOF_TYPES; i < ROOFS_END; i++) {
		double from = pow(10, p->x.first), y, column = 0;

		if (!p->peaks[i])
			continue;
		if (fastest > 0)
			from = MIN(MAX(from, p->peaks[i] / fastest), pow(10, p->x.last));
		y = position(&p->y, p->peaks[i]);
		for (size_t k = 0; k < labels; k++)
			column += fabs(taken[k] - y) < 14;
		taken[labels++] = y;
		strbuf_addf(p->out,
			    "<path class=\"type\" d=\"M%.2f %.2fH%.0f\"/>"
			    "<text class=\"end\" x=\"%.0f\" y=\"%.2f\">%s ",
			    position(&p->x, from), y, X_END, X_END - 4 - LABEL_WIDTH * column,
			    y - 4, roof_name(i));
		human_si(p->out, p->peaks[i], "FLOP/s");
		strbuf_adds(p->out, "</text>\n");
	}
}

/* --- points --- */

/* most: bytes */
static void add_kernel_name(struct plot *p, uint32_t name, size_t most)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t length;

	kernel_name_text(trace_string(p->v->report->trace, name), p->v->full_names, &text);
	length = MIN(text.length, most);
	while (length < text.length && length && ((unsigned char)text.data[length] & 0xc0) == 0x80)
		length--;
	html_escape(p->out, strbuf_text(&text), length);
	if (length < text.length)
		strbuf_adds(p->out, "\u2026");
}

/* "gemm: 100 GFLOP/s FP32, 10 FLOP/byte of DRAM; 50.0% of the attainable 200 GFLOP/s (DRAM)" */
static void add_tooltip(struct plot *p, const struct roofline_point *point)
{
	strbuf_adds(p->out, "<title>");
	add_kernel_name(p, point->kernel, SIZE_MAX);
	strbuf_adds(p->out, ": ");
	human_si(p->out, point->flops, "FLOP/s ");
	strbuf_addf(p->out, "%s, ", roof_name(point->type));
	human_real(p->out, point->intensity);
	strbuf_addf(p->out, " FLOP/byte of %s", roof_name(point->level));
	if (!isnan(point->attainable)) {
		strbuf_addf(p->out, "; %.1f%% of the attainable ", point->percent);
		human_si(p->out, point->attainable, "FLOP/s");
		strbuf_addf(p->out, " (%s)", roof_name(point->limit));
	}
	strbuf_adds(p->out, "</title>");
}

/* rank: of its kernel, from 1 */
static void add_point(struct plot *p, const struct roofline_point *point, unsigned rank)
{
	const struct counted_kernel *k = &p->counters->kernels[point->number];
	double x = position(&p->x, point->intensity), y = position(&p->y, point->flops);
	double share = p->total_ns > 0 ? k->total_ns / p->total_ns : 0;
	double r = RADIUS_MIN + RADIUS_MORE * sqrt(MIN(MAX(share, 0), 1));

	if (x > X_END || y > Y_START)
		return;
	strbuf_addf(p->out, "<g class=\"l%u\">", point->level);
	if (point->type < ROOF_TENSOR_FP64)
		strbuf_addf(p->out, "<circle class=\"point\" cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\">",
			    x, y, r);
	else
		strbuf_addf(
			p->out,
			"<path class=\"point\" d=\"M%.2f %.2fl%.2f %.2fl%.2f %.2fl%.2f %.2fz\">", x,
			y - r, r, r, -r, r, -r, -r);
	add_tooltip(p, point);
	strbuf_adds(p->out, point->type < ROOF_TENSOR_FP64 ? "</circle></g>" : "</path></g>");
	if (rank <= KERNELS_MAX)
		strbuf_addf(p->out, "<text class=\"number\" x=\"%.2f\" y=\"%.2f\">%u</text>",
			    x + r + 3, y + 4, rank);
	strbuf_adds(p->out, "\n");
}

static void add_legend(struct plot *p)
{
	static const char *const marks[] = {
		"<circle class=\"point\" cx=\"5\" cy=\"-4\" r=\"5\"/>",
		"<path class=\"point\" d=\"M5 -9l5 5l-5 5l-5 -5z\"/>"
	};
	static const char *const texts[] = {
		"FP64, FP32, FP16",
		"tensor cores",
	};

	for (unsigned level = 0; level < ROOF_TYPES; level++)
		strbuf_addf(p->out, "<text class=\"l%u number\" x=\"%.0f\" y=\"%d\">%s</text>\n",
			    level, X_START + 60 * level, LEGEND, roof_name(level));
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		strbuf_addf(p->out,
			    "<g class=\"soft\" transform=\"translate(%.0f %d)\">%s"
			    "<text class=\"soft\" x=\"16\">%s</text></g>\n",
			    X_START + 200 + 150 * (double)i, LEGEND, marks[i], texts[i]);
	strbuf_addf(
		p->out,
		"<text class=\"soft\" x=\"%.0f\" y=\"%d\">size: share of measured time</text>\n",
		X_START + 490, LEGEND);
}

static void add_kernel(struct plot *p, const struct counted_kernel *k, unsigned rank)
{
	unsigned y = LEGEND + 8 + ROW * rank;

	strbuf_addf(p->out,
		    "<text class=\"number end\" x=\"%.0f\" y=\"%u\">%u</text>"
		    "<text x=\"%.0f\" y=\"%u\">",
		    X_START + 12, y, rank, X_START + 22, y);
	if (p->total_ns > 0)
		strbuf_addf(p->out, "%.1f%%  ", 100 * k->total_ns / p->total_ns);
	add_kernel_name(p, k->name, NAME_MAX_BYTES);
	strbuf_adds(p->out, "</text>\n");
}

/* Kernels have numbers if they have points: points come by kernel. Returns how many are listed. */
static unsigned add_points(struct plot *p)
{
	const struct roofline_point *last = NULL;
	unsigned rank = 0;

	for (size_t i = 0; i < p->roofline->count; i++) {
		const struct roofline_point *point = &p->roofline->items[i];

		if (!is_drawn(point))
			continue;
		if (!last || last->number != point->number)
			if (++rank <= KERNELS_MAX)
				add_kernel(p, &p->counters->kernels[point->number], rank);
		add_point(p, point, rank);
		last = point;
	}
	return MIN(rank, KERNELS_MAX);
}

bool roofline_picture(const struct report_view *v, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf inside = STRBUF_INIT;
	struct plot p = { .v = v,
			  .counters = v->report->counters,
			  .roofline = &v->report->counters->roofline,
			  .out = &inside };
	unsigned height;

	if (!measure(&p))
		return false;
	add_axes(&p);
	for (unsigned level = 0; level < ROOF_TYPES; level++)
		add_level_roof(&p, level);
	add_type_roofs(&p);
	add_legend(&p);
	height = LEGEND + ROW * (add_points(&p) + 1);
	strbuf_addf(out,
		    "<svg class=\"roofline\" xmlns=\"http://www.w3.org/2000/svg\" "
		    "viewBox=\"0 0 %d %u\" width=\"%d\" height=\"%u\">\n<style>\n%s</style>\n"
		    "<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n%s</svg>\n",
		    WIDTH, height, WIDTH, height, roofline_css, strbuf_text(&inside));
	out->failed |= inside.failed;
	return true;
}
