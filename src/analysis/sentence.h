/*
 * sentence.h: sentences with numbers in them, for people.
 *
 *	sentence_add(out, DURATION(cpu_ns), WORDS(" in "), COUNTED_AS(threads, "thread"));
 *
 * appends "1.20 s in 3 threads". WORDS are appended unchanged: text from outside must be made safe
 * before (text_safe).
 */
#ifndef PITOT_ANALYSIS_SENTENCE_H
#define PITOT_ANALYSIS_SENTENCE_H

#include "base/strbuf.h"

enum phrase_kind {
	PHRASE_WORDS,
	PHRASE_DURATION,
	PHRASE_NUMBER,
	PHRASE_PERCENT,
	PHRASE_BYTES,
	PHRASE_COUNTED,
};

struct phrase {
	enum phrase_kind kind;
	const char *words;
	uint64_t n, whole;
};

#define WORDS(text)                                                                                \
	{                                                                                          \
		.words = (text)                                                                    \
	}
#define DURATION(ns)                                                                               \
	{                                                                                          \
		PHRASE_DURATION, NULL, (ns), 0                                                     \
	}
#define NUMBER(count)                                                                              \
	{                                                                                          \
		PHRASE_NUMBER, NULL, (count), 0                                                    \
	}
#define PERCENT(part, of)                                                                          \
	{                                                                                          \
		PHRASE_PERCENT, NULL, (part), (of)                                                 \
	}
#define BYTES(count)                                                                               \
	{                                                                                          \
		PHRASE_BYTES, NULL, (count), 0                                                     \
	}
/* "1 sample", "2 samples", "2 processes", "2 launches" */
#define COUNTED_AS(count, noun)                                                                    \
	{                                                                                          \
		PHRASE_COUNTED, (noun), (count), 0                                                 \
	}

#define sentence_add(out, ...)                                                                     \
	sentence_append(out, (const struct phrase[]){ __VA_ARGS__ },                               \
			sizeof((const struct phrase[]){ __VA_ARGS__ }) / sizeof(struct phrase))
void sentence_append(struct strbuf *out, const struct phrase *phrases, size_t count);

#endif
