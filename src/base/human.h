/* human.h: appends human-readable numbers to a strbuf. Nothing else is allocated. */
#ifndef PITOT_BASE_HUMAN_H
#define PITOT_BASE_HUMAN_H

#include "base/strbuf.h"

/* "1.23 ms": three significant digits, ns us ms s */
void human_duration(struct strbuf *out, uint64_t ns);
void human_bytes(struct strbuf *out, uint64_t bytes);	/* "1.2 GiB" */
void human_count(struct strbuf *out, uint64_t n);	/* "1,002,000" */
/* "12.3%"; "-" when whole is 0 */
void human_percent(struct strbuf *out, uint64_t part, uint64_t whole);
/* "1,234,567", "12.35", "0.00123": four significant digits, or more before the point */
void human_real(struct strbuf *out, double value);
/* "12.3 TFLOP/s": three significant digits; values below 1000 are whole numbers */
void human_si(struct strbuf *out, double value, const char *unit);
/* "12.3 GB/s", decimal; "-" when ns is 0 */
void human_rate(struct strbuf *out, uint64_t bytes, uint64_t ns);

#endif
