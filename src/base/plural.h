/*
 * plural.h: endings of nouns after a number. tools/check-words finds numbers before plural nouns
 * that do not use them.
 *
 *	strbuf_addf(out, "%zu segment%s", count, plural(count));
 */
#ifndef PITOT_BASE_PLURAL_H
#define PITOT_BASE_PLURAL_H

#include <stdint.h>

/* For nouns such as "launch" see plural_es(), for others such as "copy" plural_of(). */
static inline const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static inline const char *plural_es(uint64_t count)
{
	return count == 1 ? "" : "es";
}

static inline const char *plural_of(uint64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

#endif
