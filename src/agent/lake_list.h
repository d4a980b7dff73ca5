/* lake_list.h: what is in a lake. Its names are untrusted: others may write into it. */
#ifndef PITOT_AGENT_LAKE_LIST_H
#define PITOT_AGENT_LAKE_LIST_H

#include "agent/lake.h"
#include "base/folder.h"
#include "base/vec.h"

/* TABLE/date=DATE/NAME, and /FILE of a window. */
struct lake_key {
	char table[32], date[16], name[256], file[256]; /* file "": it has none */
};

/* False: it is none of these. */
bool lake_key_split(const char *key, struct lake_key *out);

struct lake_table {
	char name[32];
	char first[16], last[16]; /* dates of objects */
	uint64_t objects, bytes;
};

struct lake_window {
	char name[256], date[16];
	uint64_t bytes;
	bool is_whole; /* of all that are listed */
};

struct lake_list {
	VEC(struct lake_table) tables; /* by name */
	VEC(struct lake_window) windows; /* oldest first */
};

/* Returns 0 or a negative code; release in any case. */
int lake_list_read(const struct lake *lake, struct lake_list *out, struct error *e) MUST_USE;
void lake_list_release(struct lake_list *l);

/*
 * Copies the files of a window into an empty folder. `name` is that of a list. Returns how many
 * they are, or a negative code.
 */
int lake_get_window(const struct lake *lake, const char *name, const char *directory,
		    const struct folder_id *id, struct error *e) MUST_USE;

#endif
