/*
 * timeline_served.h: a timeline whose page asks for the slices that it shows. Memory is about ten
 * bytes a slice; a window is answered from blocks of slices, of which only those are decoded that
 * are wider than a pixel.
 */
#ifndef PITOT_EXPORT_PAGE_TIMELINE_SERVED_H
#define PITOT_EXPORT_PAGE_TIMELINE_SERVED_H

#include "base/error.h"
#include "trace/trace.h"

struct timeline_served;

/* -ENODATA: there is nothing to show. The trace can be freed afterwards. */
int timeline_served_new(struct trace *t, struct timeline_served **out, struct error *e) MUST_USE;
void timeline_served_free(struct timeline_served *s);
/*
 * The page; it asks for "slices?from=NS&until=NS&pixels=N", "slices?correlation=ID", and
 * "slices?from=NS&until=NS&sums=1".
 */
const struct strbuf *timeline_served_page(const struct timeline_served *s);
/* The page adds "&instance=N", of the timeline that it belongs to. */
uint64_t timeline_served_instance(const struct timeline_served *s);

/*
 * Both append a part: JSON on a line, then columns. Times are ns from the begin of the page, and
 *
 *	{"from","until","merged":true,"rows":[[slices, bytes of each column…],…],
 *	 "classes":{NUMBER:[kind, name, {detail}],…},"collectives":[…]}
 *
 * with the rows of all tracks in their order, and collectives as in timeline.h. Two columns are
 * added to those of rows of slices: how many others a slice stands for, and if there are any, the
 * time that all of them fill. "merged": some do.
 */

/* Slices of a window; what is narrower than one of so many pixels is merged into one. */
int timeline_served_window(struct timeline_served *s, uint64_t from_ns, uint64_t until_ns,
			   uint32_t pixels, struct strbuf *out) MUST_USE;
/* A call with the work that it caused, wherever they are. */
int timeline_served_related(struct timeline_served *s, uint64_t correlation,
			    struct strbuf *out) MUST_USE;

/*
 * Appends JSON on a line: {"sums":{CLASS:[slices, ns],…},"classes":{…}}, of what overlaps a window,
 * each slice with its time inside.
 */
int timeline_served_sums(struct timeline_served *s, uint64_t from_ns, uint64_t until_ns,
			 struct strbuf *out) MUST_USE;

#endif
