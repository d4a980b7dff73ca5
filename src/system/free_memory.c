#include "system/free_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/io.h"

#define TEXT_MAX (64u << 10)

static const struct hierarchy {
	const char *line; /* of /proc/self/cgroup, up to the path */
	const char *folder, *limit, *used, *events;
} hierarchies[] = {
	{ "0::", "/sys/fs/cgroup", "memory.max", "memory.current", "memory.events" },
	{ ":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
	  "memory.oom_control" },
};

static bool read_text(const char *root, const char *folder, const char *name, struct strbuf *text)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

	strbuf_addf(&path, "%s%s/%s", root, folder, name);
	strbuf_clear(text);
	return !path.failed && io_read_file(strbuf_text(&path), TEXT_MAX, text) >= 0;
}

/* Reads the number after `key` at the start of a line; "" is the start of the text. */
static bool number_after(const struct strbuf *text, const char *key, uint64_t *value)
{
	const char *at = strbuf_text(text);
	char *end;

	while (strncmp(at, key, strlen(key)) != 0) {
		at = strchr(at, '\n');
		if (!at++)
			return false;
	}
	at += strlen(key);
	at += strspn(at, " \t");
	if (*at < '0' || *at > '9')
		return false; /* "max" */
	errno = 0;
	*value = strtoull(at, &end, 10);
	return !errno;
}

/* What the limit of one group leaves. */
static uint64_t left_in(const char *root, const struct hierarchy *h, const char *folder)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t limit, used, files = 0;

	if (!read_text(root, folder, h->limit, &text) || !number_after(&text, "", &limit) ||
	    !read_text(root, folder, h->used, &text) || !number_after(&text, "", &used))
		return UINT64_MAX;
	if (read_text(root, folder, "memory.stat", &text) &&
	    !number_after(&text, "total_inactive_file ", &files))
		number_after(&text, "inactive_file ", &files);
	used -= MIN(used, files);
	return limit - MIN(limit, used);
}

/* What the process's group and those around it leave. */
static uint64_t left_by(const char *root, const struct hierarchy *h, const char *groups)
{
	_cleanup_strbuf_ struct strbuf folder = STRBUF_INIT;
	const char *path = strstr(groups, h->line);
	uint64_t left = UINT64_MAX;

	strbuf_adds(&folder, h->folder);
	if (path) {
		path += strlen(h->line);
		strbuf_add(&folder, path, strcspn(path, "\n"));
	}
	while (!folder.failed && folder.length >= strlen(h->folder)) {
		left = MIN(left, left_in(root, h, strbuf_text(&folder)));
		while (folder.length && folder.data[--folder.length] != '/')
			;
		folder.data[folder.length] = '\0';
	}
	return left;
}

uint64_t free_memory(const char *root)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t available = UINT64_MAX, kib;

	if (read_text(root, "/proc", "meminfo", &text) &&
	    number_after(&text, "MemAvailable:", &kib))
		available = kib * 1024;
	if (!read_text(root, "/proc", "self/cgroup", &text))
		strbuf_clear(&text);
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++)
		available = MIN(available, left_by(root, &hierarchies[i], strbuf_text(&text)));
	return available;
}

bool memory_oom_kills(const char *root, uint64_t *count)
{
	_cleanup_strbuf_ struct strbuf groups = STRBUF_INIT, text = STRBUF_INIT;

	if (!read_text(root, "/proc", "self/cgroup", &groups))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		const char *path = strstr(strbuf_text(&groups), hierarchies[i].line);
		_cleanup_strbuf_ struct strbuf folder = STRBUF_INIT;

		if (!path)
			continue;
		path += strlen(hierarchies[i].line);
		strbuf_adds(&folder, hierarchies[i].folder);
		strbuf_add(&folder, path, strcspn(path, "\n"));
		if (!folder.failed &&
		    read_text(root, strbuf_text(&folder), hierarchies[i].events, &text) &&
		    number_after(&text, "oom_kill ", count))
			return true;
	}
	return false;
}
