#include "cli/devices_topology.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/ui.h"
#include "report/text_table.h"
#include "system/topology.h"
#include "vendor/nvidia/cuda_copies.h"

#define MATRIX_MAX 32u /* devices: for more the text lists pairs of GPUs only */

struct view {
	const struct context *c;
	struct topology t;
	struct cuda_copies copies;
	bool measured;
	struct strbuf why; /* NVML's reason */
};

static void add_name(const struct topology_device *d, struct strbuf *out)
{
	strbuf_addf(out, "%s %d", d->kind == topology_kind_gpu ? "GPU" : "NIC", d->index);
}

static void add_way(const struct topology_path *p, struct strbuf *out)
{
	if (p->nvlinks)
		strbuf_addf(out, "NV%u", p->nvlinks);
	else
		strbuf_adds(out, topology_ways[p->way].letters);
}

/* The device of a GPU by its CUDA ordinal, or NULL. */
static const struct topology_device *device_of(const struct view *v, int ordinal)
{
	const char *pci = ordinal < 0 ? "" : v->copies.pci[ordinal];

	for (unsigned i = 0; i < v->t.gpus; i++)
		if (strcasecmp(v->t.devices[i].pci, pci) == 0)
			return &v->t.devices[i];
	return NULL;
}

/* Nominal bandwidth of a copy in GB/s: of NVLink, or the slower of the PCIe links. 0: unknown. */
static double nominal_gbs(const struct view *v, const struct cuda_copy *c)
{
	const struct topology_device *from = device_of(v, c->from), *to = device_of(v, c->to);

	if (c->from == c->to)
		return 0;
	if (c->from == COPY_HOST || c->to == COPY_HOST)
		return from ? from->pcie_gbs : to ? to->pcie_gbs : 0;
	if (!from || !to)
		return 0;
	return topology_gbs(&v->t, (unsigned)(from - v->t.devices), (unsigned)(to - v->t.devices));
}

static void add_gbs(struct text_table *t, double gbs)
{
	if (gbs > 0)
		text_table_addf(t, "%.1f GB/s", gbs);
	else
		text_table_add(t, "-");
}

/* --- text --- */

static void add_matrix(struct view *v, struct strbuf *out)
{
	const struct topology *t = &v->t;
	unsigned shown = t->count <= MATRIX_MAX ? t->count : MIN(t->gpus, MATRIX_MAX);
	struct text_column columns[MATRIX_MAX + 1] = { LEFT("") };
	char heads[MATRIX_MAX][16];
	_cleanup_table_ struct text_table table = { .columns = columns,
						    .column_count = shown + 1,
						    .fixed = true };

	for (unsigned i = 0; i < shown; i++) {
		snprintf(heads[i], sizeof(heads[i]), "%s %d",
			 t->devices[i].kind == topology_kind_gpu ? "GPU" : "NIC",
			 t->devices[i].index);
		columns[i + 1] = (struct text_column)LEFT(heads[i]);
	}
	for (unsigned a = 0; a < shown; a++) {
		text_table_add(&table, heads[a]);
		for (unsigned b = 0; b < shown; b++) {
			if (a == b)
				text_table_add(&table, "X");
			else
				add_way(topology_path(t, a, b), text_table_begin(&table));
		}
	}
	text_table_print(&table, 2, v->c->width, v->c->color, out);
}

static void add_legend(const struct topology *t, struct strbuf *out)
{
	bool used[TOPOLOGY_WAYS] = { 0 }, links = false, by_switch = false;

	for (unsigned a = 0; a < t->count; a++) {
		for (unsigned b = a + 1; b < t->count; b++) {
			const struct topology_path *p = topology_path(t, a, b);

			used[p->way] |= !p->nvlinks;
			links |= p->nvlinks != 0;
			by_switch |= p->by_switch;
		}
	}
	strbuf_adds(out, links || t->count > 1 ? "  between them: " : "");
	if (links)
		strbuf_addf(out, "NVn n NVLinks%s; ", by_switch ? ", through the switch" : "");
	for (unsigned w = 0; w < TOPOLOGY_WAYS; w++)
		if (used[w])
			strbuf_addf(out, "%s %s; ", topology_ways[w].letters,
				    topology_ways[w].meaning);
	if (t->count > 1) {
		out->length -= 2;
		strbuf_adds(out, "\n");
	}
}

static void add_nvlinks(struct text_table *table, const struct topology_device *d)
{
	double gbs = nvlink_gbs(d->nvlink_version, d->nvlinks);
	struct strbuf *out = text_table_begin(table);

	strbuf_addf(out, "%u", d->nvlinks);
	if (d->nvlink_version)
		strbuf_addf(out, " of version %u", d->nvlink_version);
	if (d->switch_links)
		strbuf_adds(out, ", to a switch");
	if (gbs > 0)
		strbuf_addf(out, ", %.0f GB/s", gbs);
}

static void add_devices(struct view *v, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT(""),      LEFT("PCI"),    RIGHT("NUMA"),
						      RIGHT("PCIe"), LEFT("NVLink"), FLEXIBLE("") };
	_cleanup_table_ struct text_table table = TEXT_TABLE_INIT(columns);

	for (unsigned i = 0; i < v->t.count; i++) {
		const struct topology_device *d = &v->t.devices[i];

		add_name(d, text_table_begin(&table));
		text_table_add(&table, d->pci);
		if (d->numa >= 0)
			text_table_addf(&table, "%d", d->numa);
		else
			text_table_add(&table, "-");
		add_gbs(&table, d->pcie_gbs);
		if (d->nvlinks)
			add_nvlinks(&table, d);
		else
			text_table_add(&table, d->nvlink_known ? "none" : "-");
		text_table_safe(&table, d->name);
	}
	text_table_print(&table, 2, v->c->width, v->c->color, out);
}

static void add_end(struct text_table *t, int ordinal)
{
	if (ordinal == COPY_HOST)
		text_table_add(t, "host");
	else
		text_table_addf(t, "CUDA %d", ordinal);
}

static void add_copies(struct view *v, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT("from"),      RIGHT("to"),
						      RIGHT("measured"), RIGHT("nominal"),
						      RIGHT("latency"),  FLEXIBLE("") };
	struct text_table table = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < v->copies.list.count; i++) {
		const struct cuda_copy *c = &v->copies.list.data[i];
		bool pair = c->from != COPY_HOST && c->to != COPY_HOST && c->from != c->to;

		add_end(&table, c->from);
		add_end(&table, c->to);
		add_gbs(&table, c->gbs);
		add_gbs(&table, nominal_gbs(v, c));
		if (c->gbs > 0)
			text_table_addf(&table, "%.1f us", c->latency_us);
		else
			text_table_add(&table, "-");
		text_table_safe(&table, *c->why              ? c->why
					: pair && !c->direct ? "through the host"
					: !pair && c->from == c->to
						? "reads and writes as much each"
						: "");
	}
	strbuf_adds(out, "\ncopies of 256 MiB; latency of 8 bytes\n");
	text_table_print(&table, 2, v->c->width, v->c->color, out);
	text_table_release(&table);
	if (v->copies.gpus < 2)
		strbuf_adds(out, "  not measured: copies between GPUs, because CUDA shows one\n");
}

static void add_text(struct view *v, struct strbuf *out)
{
	const struct topology *t = &v->t;

	cli_add_count(out, "", t->gpus, "GPU", "GPUs");
	cli_add_count(out, ", ", t->count - t->gpus, "network adapter", "network adapters");
	strbuf_adds(out, " on the PCI bus\n");
	if (t->count)
		add_devices(v, out);
	if (t->count > 1) {
		strbuf_addc(out, '\n');
		add_matrix(v, out);
		add_legend(t, out);
	}
	if (v->measured)
		add_copies(v, out);
}

/* --- JSON --- */

static void json_gbs(struct json *j, const char *key, double gbs)
{
	json_key(j, key);
	json_double(j, gbs > 0 ? gbs : NAN);
}

static void add_device_json(struct json *j, const struct topology_device *d)
{
	json_object(j);
	json_key_string(j, "kind", d->kind == topology_kind_gpu ? "gpu" : "network");
	json_key_i64(j, "index", d->index);
	json_key_string(j, "name", *d->name ? d->name : NULL);
	json_key_string(j, "pci", d->pci);
	json_key_known(j, "numa_node", d->numa >= 0, (uint64_t)d->numa);
	json_key_known(j, "pcie_generation", d->pcie_generation != 0, d->pcie_generation);
	json_key_known(j, "pcie_width", d->pcie_width != 0, d->pcie_width);
	json_gbs(j, "pcie_gbs", d->pcie_gbs);
	json_key_known(j, "nvlinks", d->nvlink_known, d->nvlinks);
	json_key_known(j, "nvlink_version", d->nvlink_version != 0, d->nvlink_version);
	json_key_known(j, "switch_links", d->nvlink_known, d->switch_links);
	json_end(j);
}

static const char *way_name(unsigned way)
{
	return schema_value_name(
		&schema_table(TABLE_topology_link)->columns[COLUMN_topology_link_way], way);
}

static void add_path_json(struct json *j, const struct topology *t, unsigned a, unsigned b)
{
	const struct topology_path *p = topology_path(t, a, b);

	json_object(j);
	json_key_u64(j, "a", a);
	json_key_u64(j, "b", b);
	json_key_string(j, "way", p->way ? way_name(p->way) : NULL);
	json_key_known(j, "nvlinks", p->nvlink_known, p->nvlinks);
	json_key(j, "by_switch");
	if (p->nvlink_known)
		json_bool(j, p->by_switch);
	else
		json_null(j);
	json_end(j);
}

static void add_copy_json(struct json *j, const struct view *v, const struct cuda_copy *c)
{
	json_object(j);
	json_key_known(j, "from", c->from != COPY_HOST, (uint64_t)c->from);
	json_key_known(j, "to", c->to != COPY_HOST, (uint64_t)c->to);
	json_gbs(j, "gbs", c->gbs);
	json_gbs(j, "nominal_gbs", nominal_gbs(v, c));
	json_gbs(j, "latency_us", c->latency_us);
	json_key_bool(j, "direct", c->direct);
	json_key_string(j, "why", *c->why ? c->why : NULL);
	json_end(j);
}

static void add_json(struct view *v, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	json_key_array(&j, "devices");
	for (unsigned i = 0; i < v->t.count; i++)
		add_device_json(&j, &v->t.devices[i]);
	json_end(&j);
	json_key_array(&j, "paths");
	for (unsigned a = 0; a < v->t.count; a++)
		for (unsigned b = a + 1; b < v->t.count; b++)
			add_path_json(&j, &v->t, a, b);
	json_end(&j);
	if (v->measured) {
		json_key_array(&j, "copies");
		for (size_t i = 0; i < v->copies.list.count; i++)
			add_copy_json(&j, v, &v->copies.list.data[i]);
		json_end(&j);
	}
	json_finish(&j);
}

/* --- Graphviz --- */

/* Bridges and devices are nodes by their place in sysfs, so that the tree of the bus is drawn. */
static void add_bus(const struct topology_device *d, struct strbuf *out)
{
	const char *from = strstr(d->path, "/pci"), *to;

	for (; from && (to = strchr(from + 1, '/')); from = to) {
		const char *end = strchr(to + 1, '/') ?: to + strlen(to);

		strbuf_addf(out, "  \"%.*s\" -- \"%.*s\"\n", (int)(to - from - 1), from + 1,
			    (int)(end - to - 1), to + 1);
	}
}

static void add_dot(const struct topology *t, struct strbuf *out)
{
	strbuf_adds(out, "strict graph machine {\n  node [shape=point]\n");
	for (unsigned i = 0; i < t->count; i++) {
		const struct topology_device *d = &t->devices[i];

		strbuf_addf(out, "  \"%s\" [shape=box, label=\"", d->pci);
		add_name(d, out);
		for (const char *name = d->name; *name; name++) /* nothing that ends the text */
			if (*name != '"' && *name != '\\' && *name >= ' ')
				strbuf_addf(out, "%s%c", name == d->name ? "\\n" : "", *name);
		strbuf_adds(out, "\"]\n");
		add_bus(d, out);
	}
	for (unsigned a = 0; a < t->gpus; a++) {
		for (unsigned b = a + 1; b < t->gpus; b++) {
			const struct topology_path *p = topology_path(t, a, b);

			if (p->nvlinks)
				strbuf_addf(out,
					    "  \"%s\" -- \"%s\" [style=bold, label=\"NV%u\"]\n",
					    t->devices[a].pci, t->devices[b].pci, p->nvlinks);
		}
	}
	strbuf_adds(out, "}\n");
}

int devices_print_topology(const struct context *c, bool measure, bool dot)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct view v = { .c = c, .measured = measure };
	struct error e = { 0 };
	bool has_nvml;
	int status;

	if (topology_find(&v.t) < 0)
		return cli_failf(c, "out of memory");
	has_nvml = nvml_load(&(struct metric_sink){ 0 }, &v.why);
	if (has_nvml)
		topology_add_nvml(&v.t);
	else if (v.t.gpus)
		cli_note(c, "NVLink is unknown: %s", strbuf_text(&v.why));
	if (measure && cuda_copies_measure(&v.copies, &e) < 0) {
		v.measured = false;
		cli_warn(c, "nothing was measured: %s", e.text);
	}
	if (dot)
		add_dot(&v.t, &out);
	else if (c->json)
		add_json(&v, &out);
	else
		add_text(&v, &out);
	status = cli_print(c, &out);
	if (measure && !v.measured)
		status = EXIT_FAILED;
	vec_release(&v.copies.list);
	topology_release(&v.t);
	strbuf_release(&v.why);
	return status;
}
