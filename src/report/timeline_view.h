/* timeline_view.h: what GPUs, streams and threads did over time, as lanes of text, and as JSON. */
#ifndef PITOT_REPORT_TIMELINE_VIEW_H
#define PITOT_REPORT_TIMELINE_VIEW_H

#include "analysis/steps.h"
#include "report/report_view.h"

/*
 * Append the timeline of the report's window, v->width columns wide, with at most v->top streams of
 * each GPU and v->top threads. `steps` are those of the whole recording. v->bars: with characters
 * beyond ASCII. 0, -ENOMEM or, of the text, -ENODATA: there is no lane.
 */
int timeline_text(const struct report_view *v, const struct steps *steps);
int timeline_json(const struct report_view *v, const struct steps *steps);

#endif
