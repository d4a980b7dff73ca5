/* throttle.h: the bits of the metric gpu_throttle_reasons. */
#ifndef PITOT_SYSTEM_THROTTLE_H
#define PITOT_SYSTEM_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

/* Number of known bits of gpu_throttle_reasons: why a GPU's clocks are not higher. */
#define THROTTLE_REASONS 9u
/* Those that other vendors have, too. */
enum { THROTTLE_POWER_LIMIT = 2, THROTTLE_HARDWARE = 3, THROTTLE_THERMAL = 5 };

/* Text of a bit, "power limit"; NULL: unknown bit. */
const char *throttle_reason(unsigned bit);
/* Whether a reason is a real limit, rather than idleness or a setting of the user. */
bool throttle_is_a_limit(unsigned bit);
/* "power limit, thermal slowdown": the limits among the bits; nothing if there are none. */
void throttle_text(uint64_t bits, struct strbuf *out);

#endif
