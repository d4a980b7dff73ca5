/* section_topology.c: what lies between the GPUs of a job's ranks. */
#include "report/section.h"

#include "analysis/collectives.h"
#include "analysis/machine_links.h"
#include "base/human.h"
#include "report/words.h"
#include "system/topology.h"

#define KINDS_MAX 8 /* of links; further ones are not shown as text */

#define DEVICE(member) MEMBER(struct machine_device, row.member)
#define LINK(member) MEMBER(struct machine_link, row.member)

static void add_text(const struct report_view *v, uint32_t item, struct strbuf *out)
{
	const struct interned *text = &v->report->machine_links->texts.items[item];

	text_safe(out, text->text, text->length);
}

#define HAS(name, table, type, column)                                                             \
	ROW_IF(name, struct type, row_has(&row->row, COLUMN_topology_##table##_##column))
HAS(has_name, device, machine_device, name)
HAS(has_numa, device, machine_device, numa_node)
HAS(has_generation, device, machine_device, pcie_generation)
HAS(has_width, device, machine_device, pcie_width)
HAS(has_pcie, device, machine_device, pcie_bytes_per_s)
HAS(has_nvlinks, device, machine_device, nvlinks)
HAS(has_version, device, machine_device, nvlink_version)
HAS(has_switch, device, machine_device, switch_links)
HAS(has_nvlink_rate, device, machine_device, nvlink_bytes_per_s)
HAS(has_way, link, machine_link, way)
HAS(has_links, link, machine_link, nvlinks)
HAS(has_link_version, link, machine_link, nvlink_version)
HAS(has_by_switch, link, machine_link, by_switch)
HAS(has_rate, link, machine_link, bytes_per_s)
#undef HAS

ROW_READ(read_host, struct machine_device, add_text(v, row->host, &out->text))
ROW_READ(read_name, struct machine_device, add_text(v, row->row.name, &out->text))
ROW_READ(read_pci, struct machine_device, add_text(v, row->row.pci, &out->text))

#define IF(condition) .when = condition, .null = true

static const struct field device_fields[] = {
	FIELD("host", NULL, TEXT, .value = read_host),
	FIELD("kind", NULL, NAME, DEVICE(kind), ENUM(topology_device, kind)),
	FIELD("name", NULL, TEXT, .value = read_name, IF(has_name)),
	FIELD("pci", NULL, TEXT, .value = read_pci),
	FIELD("numa_node", NULL, ID, DEVICE(numa_node), IF(has_numa)),
	FIELD("pcie_generation", NULL, ID, DEVICE(pcie_generation), IF(has_generation)),
	FIELD("pcie_width", NULL, COUNT, DEVICE(pcie_width), IF(has_width)),
	FIELD("pcie_bytes_per_s", NULL, COUNT, DEVICE(pcie_bytes_per_s), IF(has_pcie)),
	FIELD("nvlinks", NULL, COUNT, DEVICE(nvlinks), IF(has_nvlinks)),
	FIELD("nvlink_version", NULL, ID, DEVICE(nvlink_version), IF(has_version)),
	FIELD("switch_links", NULL, COUNT, DEVICE(switch_links), IF(has_switch)),
	FIELD("nvlink_bytes_per_s", NULL, COUNT, DEVICE(nvlink_bytes_per_s), IF(has_nvlink_rate)),
};

static const struct field link_fields[] = {
	FIELD("a", NULL, ID, MEMBER(struct machine_link, a)),
	FIELD("b", NULL, ID, MEMBER(struct machine_link, b)),
	FIELD("way", NULL, NAME, LINK(way), ENUM(topology_link, way), IF(has_way)),
	FIELD("nvlinks", NULL, COUNT, LINK(nvlinks), IF(has_links)),
	FIELD("nvlink_version", NULL, ID, LINK(nvlink_version), IF(has_link_version)),
	FIELD("by_switch", NULL, FLAG, LINK(by_switch), IF(has_by_switch)),
	FIELD("bytes_per_s", NULL, COUNT, LINK(bytes_per_s), IF(has_rate)),
};

static const struct field fields[] = {
	LIST("devices", ITEMS(struct machine_links, devices, device_count), device_fields),
	LIST("links", ITEMS(struct machine_links, links, link_count), link_fields),
};

/* In JSON only. */
const struct section section_topology = {
	.key = "topology",
	RESULT(machine_links),
	FIELDS(fields),
};

/* Links that are alike, and how many pairs of ranks have one. */
struct link_kind {
	const struct row_topology_link *row;
	uint64_t pairs;
};

static bool is_alike(const struct row_topology_link *a, const struct row_topology_link *b)
{
	return a->missing == b->missing && a->nvlinks == b->nvlinks && a->way == b->way &&
	       a->by_switch == b->by_switch && a->bytes_per_s == b->bytes_per_s;
}

static size_t count_kinds(const struct report *r, struct link_kind *kinds)
{
	const struct collectives *c = r->collectives;
	size_t count = 0, k;

	for (uint32_t a = 0; a < c->rank_count; a++) {
		for (uint32_t b = a + 1; b < c->rank_count; b++) {
			const struct machine_link *l = NULL;

			if (c->ranks[a].host == c->ranks[b].host)
				l = machine_links_of_ranks(r->machine_links, c, a, b);
			for (k = 0; l && k < count && !is_alike(kinds[k].row, &l->row);)
				k++;
			if (!l || k == KINDS_MAX)
				continue;
			if (k == count)
				kinds[count++] = (struct link_kind){ .row = &l->row };
			kinds[k].pairs++;
		}
	}
	return count;
}

static void add_kind(const struct link_kind *k, struct strbuf *out)
{
	const struct row_topology_link *row = k->row;

	sentence_add(out, COUNTED_AS(k->pairs, "pair"), WORDS(" of ranks: "));
	if (row_has(row, COLUMN_topology_link_nvlinks) && row->nvlinks)
		sentence_add(out, COUNTED_AS(row->nvlinks, "NVLink"),
			     WORDS(row->by_switch ? " through a switch" : ""));
	else
		sentence_add(out, WORDS("PCIe through "),
			     WORDS(topology_ways[MIN(row->way, TOPOLOGY_WAYS - 1)].meaning));
	if (row_has(row, COLUMN_topology_link_bytes_per_s)) {
		strbuf_adds(out, ", ");
		human_si(out, (double)row->bytes_per_s, "B/s");
		strbuf_adds(out, " in each direction");
	} else if (!row_has(row, COLUMN_topology_link_nvlinks)) {
		strbuf_adds(out, ", NVLinks unknown");
	}
	strbuf_addc(out, '\n');
}

void report_links_text(const struct report *r, struct strbuf *out)
{
	struct link_kind kinds[KINDS_MAX];
	size_t count = count_kinds(r, kinds);

	for (size_t i = 0; i < count; i++)
		add_kind(&kinds[i], out);
}
