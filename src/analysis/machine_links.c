#include "analysis/machine_links.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/collectives.h"
#include "analysis/filter.h"
#include "analysis/report.h"

#define ADDRESS_MAX 64 /* longer ones are cut: they are none of PCI */

/* Key of a device: drivers write addresses in different cases. */
static uint64_t device_key(uint64_t boot_id, const char *pci)
{
	char address[ADDRESS_MAX];
	size_t length = 0;

	for (; pci[length] && length < sizeof(address); length++)
		address[length] = (char)tolower((unsigned char)pci[length]);
	return hash_u64(boot_id ^ hash_bytes(address, length));
}

static uint64_t text_hash(const char *text)
{
	return hash_bytes(text, strlen(text));
}

static int intern(struct machine_links *m, const char *text, uint32_t *item)
{
	int64_t rc = interner_add(&m->texts, text, strlen(text), NULL);

	*item = rc < 0 ? 0 : (uint32_t)rc;
	return rc < 0 ? -ENOMEM : 0;
}

/* Adds a device, or replaces what another recording of the machine did not know. */
static int add_device(struct machine_links *m, const struct trace *t, uint32_t process,
		      uint64_t row, uint32_t *item)
{
	const struct trace_process *p = trace_process(t, process);
	const char *boot_id = trace_string(t, p->boot_id);
	struct machine_device d;
	const char *pci;
	uint64_t *index;

	trace_row(t, TABLE_topology_device, row, &d.row);
	pci = trace_string(t, d.row.pci);
	index = map_at(&m->device_index, device_key(text_hash(boot_id), pci), m->device_count);
	if (!index)
		return -ENOMEM;
	*item = (uint32_t)*index;
	if (*index < m->device_count &&
	    (row_has(&m->devices[*index].row, COLUMN_topology_device_nvlinks) ||
	     !row_has(&d.row, COLUMN_topology_device_nvlinks)))
		return 0;
	if (intern(m, boot_id, &d.boot_id) < 0 || intern(m, p->host, &d.host) < 0 ||
	    intern(m, pci, &d.row.pci) < 0 ||
	    intern(m, trace_string(t, d.row.name), &d.row.name) < 0)
		return -ENOMEM;
	m->devices[*index] = d;
	m->device_count += *index == m->device_count;
	return 0;
}

static int add_link(struct machine_links *m, const struct trace *t, const uint32_t *items,
		    uint64_t row)
{
	const struct topology_link_columns *c = topology_link_columns(t);
	struct machine_link l;
	uint64_t *index;

	if (c->a[row] == TRACE_NO_ROW || c->b[row] == TRACE_NO_ROW)
		return 0;
	l.a = items[c->a[row]];
	l.b = items[c->b[row]];
	trace_row(t, TABLE_topology_link, row, &l.row);
	index = map_at(&m->link_index, (uint64_t)MIN(l.a, l.b) << 32 | MAX(l.a, l.b),
		       m->link_count);
	if (!index)
		return -ENOMEM;
	if (*index < m->link_count &&
	    (row_has(&m->links[*index].row, COLUMN_topology_link_nvlinks) ||
	     !row_has(&l.row, COLUMN_topology_link_nvlinks)))
		return 0;
	m->links[*index] = l;
	m->link_count += *index == m->link_count;
	return 0;
}

/* Reads the tables, which are loaded. 0 or -ENOMEM; release *out in either case. */
static int read_links(const struct trace *t, struct machine_links *out)
{
	uint64_t devices = trace_rows(t, TABLE_topology_device);
	uint64_t links = trace_rows(t, TABLE_topology_link);
	_cleanup_free_ uint32_t *items = calloc(devices + 1, sizeof(*items));
	int rc = items ? 0 : -ENOMEM;

	*out = (struct machine_links){ .devices = calloc(devices + 1, sizeof(*out->devices)),
				       .links = calloc(links + 1, sizeof(*out->links)),
				       .device_index = MAP_INIT,
				       .link_index = MAP_INIT };
	interner_init(&out->texts);
	if (!out->devices || !out->links)
		rc = -ENOMEM;
	for (struct row_walk w = all_rows(t, TABLE_topology_device); rc >= 0 && row_walk_next(&w);)
		rc = add_device(out, t, w.process, w.row, &items[w.row]);
	for (uint64_t row = 0; row < links && rc >= 0; row++)
		rc = add_link(out, t, items, row);
	return rc;
}

int machine_links_load(struct trace *t, struct machine_links *out, struct error *e)
{
	int rc = trace_load(t, TABLE_topology_device, 0, e);

	*out = (struct machine_links){ 0 };
	if (rc >= 0)
		rc = trace_load(t, TABLE_topology_link, 0, e);
	return rc < 0 ? rc : read_links(t, out);
}

static bool find_device(const struct machine_links *m, const struct collectives *c, uint32_t rank,
			uint64_t *item)
{
	const struct job_rank *r = &c->ranks[rank];
	const char *boot_id = c->texts.items[c->hosts[r->host].boot_id].text;

	return r->pci != NO_PCI &&
	       map_get(&m->device_index,
		       device_key(text_hash(boot_id), c->texts.items[r->pci].text), item);
}

const struct machine_link *machine_links_of_ranks(const struct machine_links *m,
						  const struct collectives *c, uint32_t a,
						  uint32_t b)
{
	uint64_t from, to, item;

	if (!m->link_count || !find_device(m, c, a, &from) || !find_device(m, c, b, &to) ||
	    !map_get(&m->link_index, MIN(from, to) << 32 | MAX(from, to), &item))
		return NULL;
	return &m->links[item];
}

static int run(struct report *r, void *result)
{
	return read_links(r->trace, result);
}

static void release(void *result)
{
	struct machine_links *m = result;

	free(m->devices);
	free(m->links);
	interner_release(&m->texts);
	map_release(&m->device_index);
	map_release(&m->link_index);
}

const struct analysis analysis_machine_links = {
	.size = sizeof(struct machine_links),
	.needs = { { TABLE_topology_device, 0 }, { TABLE_topology_link, 0 } },
	.run = run,
	.release = release,
};
