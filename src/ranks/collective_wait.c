#include "ranks/collective_wait.h"

#include "schema/schema.h"

static uint32_t end_of(const struct collective_match *m)
{
	return (uint32_t)m->first + m->parts;
}

/* The item of the root; UINT32_MAX: it is unknown. */
static uint32_t find_root(const struct collective_part *parts, const struct collective_match *m)
{
	for (uint32_t i = (uint32_t)m->first; i < end_of(m); i++)
		if (parts[i].root >= 0 && parts[i].member == parts[i].root)
			return i;
	return UINT32_MAX;
}

/* The other one of two, unless a part ended before that began: for whom else could it wait? */
static uint32_t find_peer(const struct collective_part *parts, const struct collective_match *m,
			  uint32_t own)
{
	uint32_t peer = own == m->first ? own + 1 : (uint32_t)m->first;

	return m->parts == 2 && parts[peer].start_ns <= parts[own].end_ns ? peer : own;
}

static uint32_t need_of(const struct collective_part *parts, const struct collective_match *m,
			uint32_t own, uint32_t root)
{
	if (parts[own].mutual)
		return NEEDS_ALL;
	switch ((enum collective_function)parts[own].function) {
	case collective_function_broadcast:
	case collective_function_scatter:
		return root == UINT32_MAX ? find_peer(parts, m, own) : root;
	case collective_function_reduce:
	case collective_function_gather:
		return root == UINT32_MAX ? find_peer(parts, m, own)
		       : root == own      ? NEEDS_ALL
					  : own;
	default: /* a send, or kernels with sends and receives */
		return find_peer(parts, m, own);
	}
}

void collective_find_needs(const struct collective_part *parts, const struct collective_match *m,
			   uint32_t *needs)
{
	uint32_t root = find_root(parts, m);

	for (uint32_t i = 0; i < m->parts; i++)
		needs[i] = need_of(parts, m, (uint32_t)m->first + i, root);
}

void collective_find_last(const struct collective_part *parts, const struct collective_match *m,
			  const uint32_t *needs, uint64_t uncertainty_ns, uint32_t *last)
{
	uint32_t all = (uint32_t)m->first;

	for (uint32_t i = all + 1; i < end_of(m); i++)
		if (parts[i].start_ns > parts[all].start_ns)
			all = i;
	for (uint32_t i = 0; i < m->parts; i++) {
		uint32_t own = (uint32_t)m->first + i,
			 needed = needs[i] == NEEDS_ALL ? all : needs[i];
		uint64_t start_ns = parts[own].start_ns;

		last[i] = parts[needed].start_ns > start_ns &&
					  parts[needed].start_ns - start_ns > uncertainty_ns
				  ? needed
				  : own;
	}
}
