/* roofline_picture.h: the roofline of measured kernels as an SVG. */
#ifndef PITOT_REPORT_ROOFLINE_PICTURE_H
#define PITOT_REPORT_ROOFLINE_PICTURE_H

#include "report/section.h"

/*
 * Appends an svg element, which stands alone as a file or in a page. False, and nothing is
 * appended: no measured kernel computed and used memory.
 */
bool roofline_picture(const struct report_view *v, struct strbuf *out);

#endif
