/*
 * notify.h: tells a server of each dump that rules make (--notify URL): a POST of one JSON object,
 * on a thread of its own, so that a server that does not answer keeps nothing waiting.
 */
#ifndef PITOT_RECORD_NOTIFY_H
#define PITOT_RECORD_NOTIFY_H

#include "base/error.h"
#include "rules/rule_watch.h"

struct timed_work;

/* Whether a URL can be one to notify. Returns 0 or E_USAGE. */
int notify_check(const char *url, struct error *e) MUST_USE;
/*
 * Begins to send what fired and where the dump is. NULL: no memory. The texts are copied.
 */
struct timed_work *notify_begin(const char *url, const char *rule, const struct rule_firing *firing,
				const char *dump) MUST_USE;
/*
 * Waits until then, ends the matter, and says in *e, without the URL's secrets, why it failed.
 * Returns 0 or a negative code. w may be NULL.
 */
int notify_end(struct timed_work *w, uint64_t end_ns, struct error *e);

#endif
