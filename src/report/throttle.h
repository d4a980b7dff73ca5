/* throttle.h: why a GPU's clocks are not higher, the bits of gpu_throttle_reasons, in words. */
#ifndef PITOT_REPORT_THROTTLE_H
#define PITOT_REPORT_THROTTLE_H

#include <stdbool.h>

#include "base/strbuf.h"

#define THROTTLE_REASONS 9u

/* What a bit says: "power limit"; NULL: a bit that we do not know. */
const char *throttle_reason(unsigned bit);
/* Whether it holds the clocks down against the wish of whoever runs the GPU: neither idleness nor a setting of theirs. */
bool throttle_is_a_limit(unsigned bit);
/* "power limit, too hot": the limits among the bits; nothing where there are none. */
void throttle_text(uint64_t bits, struct strbuf *out);

#endif
