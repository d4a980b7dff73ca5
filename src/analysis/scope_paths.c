#include "analysis/nvtx_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/filter.h"
#include "base/vec.h"

#define LEVELS_MAX 32u /* parts of a glob, one bit each */
#define TEXT_MAX 500u /* bytes of a path's text, except for its innermost level */

static bool is_chosen(const struct nvtx_range *r, enum scope_choice choice)
{
	return (r->pushed || r->pitot) &&
	       (choice == SCOPES_ALL || r->pitot == (choice == SCOPES_PITOT));
}

/* Outer ranges come before the ranges inside of them, so their paths are already set. */
int scope_paths_find(struct nvtx_ranges *n, enum scope_choice choice)
{
	struct map index = MAP_INIT; /* (path around + 1) << 32 | message -> path */
	VEC(struct scope_path) paths = VEC_INIT;
	int code = 0;

	for (size_t i = 0; i < n->count && code >= 0; i++) {
		struct nvtx_range *r = &n->items[i];
		uint32_t around = nvtx_path(n, r->outer);
		struct scope_path path = { .message = r->message };
		uint64_t *at;

		r->path = around;
		if (!is_chosen(r, choice) || nvtx_scope(n->items, (uint32_t)i) != i)
			continue;
		/* at the depth limit a scope replaces its parent */
		if (around != SCOPE_NONE && paths.data[around].depth == SCOPE_DEPTH_MAX)
			around = paths.data[around].parent;
		path.parent = around;
		path.depth = around == SCOPE_NONE ? 0 : paths.data[around].depth + 1;
		at = map_at(&index, (around + UINT64_C(1)) << 32 | r->message, paths.count);
		code = at && (*at < paths.count || vec_push(&paths, path) == 0) ? 0 : -ENOMEM;
		if (at)
			r->path = (uint32_t)*at;
		r->is_scope = !r->carried;
	}
	map_release(&index);
	n->paths = paths.data;
	n->path_count = paths.count;
	return code;
}

uint8_t *scope_paths_match(const struct nvtx_ranges *n, const struct trace *t, const char *glob)
{
	char *parts[LEVELS_MAX], *copy = strdup(glob);
	uint32_t *begun = calloc(n->path_count + 1, sizeof(*begun));
	uint8_t *matches = calloc(n->path_count + 1, 1);
	unsigned count = 1;

	if (!copy || !begun || !matches) {
		free(matches);
		matches = NULL;
		goto done;
	}
	parts[0] = copy;
	for (char *c = copy; *c && count < LEVELS_MAX; c++)
		if (*c == '/') {
			*c = '\0';
			parts[count++] = c + 1;
		}
	/* bit k of begun[path]: the path ends with a match of the first k + 1 parts */
	for (size_t i = 0; i < n->path_count; i++) {
		uint32_t parent = n->paths[i].parent;
		uint32_t before = parent == SCOPE_NONE ? 1 : begun[parent] << 1 | 1;
		const char *name = scope_path_name(n, t, (uint32_t)i);

		for (unsigned k = 0; k < count; k++)
			if (before >> k & 1 && text_matches(parts[k], name))
				begun[i] |= 1u << k;
		matches[i] = begun[i] >> (count - 1) & 1 ||
			     (parent != SCOPE_NONE && matches[parent]) ||
			     (count > 1 && text_matches(glob, name));
	}
done:
	free(begun);
	free(copy);
	return matches;
}

const char *scope_path_name(const struct nvtx_ranges *n, const struct trace *t, uint32_t path)
{
	const char *name = trace_string(t, n->paths[path].message);

	return *name ? name : NO_SCOPE_NAME;
}

void scope_path_text(const struct nvtx_ranges *n, const struct trace *t, uint32_t path,
		     struct strbuf *out)
{
	const char *names[SCOPE_DEPTH_MAX + 1];
	size_t count = 0, length = 0;

	for (; path != SCOPE_NONE && count < ARRAY_SIZE(names); path = n->paths[path].parent) {
		const char *name = scope_path_name(n, t, path);

		length += strlen(name) + 1;
		if (count && length > TEXT_MAX) {
			strbuf_adds(out, "../");
			break;
		}
		names[count++] = name;
	}
	while (count--)
		strbuf_addf(out, "%s%s", names[count], count ? "/" : "");
}
