#include "analysis/sentence.h"

#include <string.h>

#include "base/human.h"

static void add_counted(struct strbuf *out, uint64_t n, const char *noun)
{
	size_t length = strlen(noun);
	bool sibilant = length > 1 && (noun[length - 1] == 's' || !strcmp(noun + length - 2, "ch"));
	const char *plural = sibilant ? "es" : "s";

	human_count(out, n);
	strbuf_addf(out, " %s%s", noun, n == 1 ? "" : plural);
}

void sentence_append(struct strbuf *out, const struct phrase *phrases, size_t count)
{
	for (const struct phrase *p = phrases; p < phrases + count; p++) {
		switch (p->kind) {
		case PHRASE_WORDS:
			strbuf_adds(out, p->words);
			break;
		case PHRASE_DURATION:
			human_duration(out, p->n);
			break;
		case PHRASE_NUMBER:
			human_count(out, p->n);
			break;
		case PHRASE_PERCENT:
			human_percent(out, p->n, p->whole);
			break;
		case PHRASE_BYTES:
			human_bytes(out, p->n);
			break;
		case PHRASE_COUNTED:
			add_counted(out, p->n, p->words);
			break;
		}
	}
}
