/*
 * topology.c: the real path of a PCI device in sysfs names all bridges above it, so that two paths
 * tell what is between their devices. NVML's word on two GPUs takes precedence.
 */
#include "system/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "base/io.h"
#include "base/search.h"
#include "format/writer.h"

#define FILE_MAX 256u
#define CLASS_DISPLAY 3u /* PCI classes: the upper byte of three */
#define CLASS_NETWORK 2u
#define CLASS_ACCELERATOR 0x12u
#define NO_INDEX (-1)

const struct topology_way_words topology_ways[TOPOLOGY_WAYS] = {
	[topology_way_unknown] = { "?", "unknown" },
	[topology_way_internal] = { "INT", "two GPUs of one board" },
	[topology_way_pix] = { "PIX", "one PCIe switch" },
	[topology_way_pxb] = { "PXB", "several PCIe switches" },
	[topology_way_phb] = { "PHB", "the host bridge" },
	[topology_way_node] = { "NODE", "host bridges of one NUMA node" },
	[topology_way_sys] = { "SYS", "the link between NUMA nodes" },
};

static const char *system_path(char *out, const char *path)
{
	const char *root = secure_getenv("PITOT_SYSTEM_ROOT");

	snprintf(out, TOPOLOGY_PATH_MAX, "%s%s", root ? root : "", path);
	return out;
}

/* Reads a number at the start of a file; false: there is none. */
static bool read_number(const char *folder, const char *file, int base, double *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[TOPOLOGY_PATH_MAX + 64], *end;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (io_read_file(path, FILE_MAX, &text) < 0)
		return false;
	*out = base ? (double)strtoll(strbuf_text(&text), &end, base)
		    : strtod(strbuf_text(&text), &end);
	return end != strbuf_text(&text);
}

static double lane_gbs(double transfers)
{
	/* GT/s; 8b/10b coding up to 5 GT/s, then 128b/130b */
	return transfers / 8 * (transfers < 8 ? 0.8 : 128.0 / 130);
}

static unsigned generation_of(double transfers)
{
	/* between 2.5 GT/s, 5, 8, 16, 32, 64 and 128 */
	static const double least[] = { 0, 4, 7, 12, 24, 48, 96 };
	unsigned generation = 0;

	while (generation < ARRAY_SIZE(least) && transfers > least[generation])
		generation++;
	return generation;
}

struct pcie_end {
	double transfers, width;
};

static bool read_end(const char *folder, struct pcie_end *end)
{
	return read_number(folder, "max_link_speed", 0, &end->transfers) &&
	       read_number(folder, "max_link_width", 10, &end->width) && end->transfers > 0 &&
	       end->width > 0;
}

/* The link above a device is as fast as its slower end, and as wide as its narrower one. */
static void read_link(struct topology_device *d)
{
	char above[TOPOLOGY_PATH_MAX];
	struct pcie_end own, other;

	if (!read_end(d->path, &own))
		return;
	snprintf(above, sizeof(above), "%s", d->path);
	*strrchr(above, '/') = '\0';
	if (read_end(above, &other)) {
		own.transfers = MIN(own.transfers, other.transfers);
		own.width = MIN(own.width, other.width);
	}
	d->pcie_generation = generation_of(own.transfers);
	d->pcie_width = (unsigned)own.width;
	d->pcie_gbs = lane_gbs(own.transfers) * own.width;
}

/* The maker of a GPU; NULL: it is none. */
static const struct vendor *find_vendor(unsigned class, unsigned vendor)
{
	if (class != CLASS_DISPLAY && class != CLASS_ACCELERATOR)
		return NULL;
	FOR_EACH_VENDOR(v)
	if ((*v)->pci_vendor == vendor)
		return *v;
	return NULL;
}

ORDER(compare_devices, struct topology_device, UP(kind) ?: strcmp(a->pci, b->pci))

static void add_device(struct topology *t, const char *folder, const char *address)
{
	struct topology_device d = { .numa = -1 };
	char path[TOPOLOGY_PATH_MAX], *real;
	double class, vendor, numa;

	if (snprintf(path, sizeof(path), "%s/%s", folder, address) >= (int)sizeof(path) ||
	    strlen(address) >= sizeof(d.pci) || !read_number(path, "class", 16, &class) ||
	    !read_number(path, "vendor", 16, &vendor))
		return;
	d.vendor = find_vendor((unsigned)class >> 16, (unsigned)vendor);
	if (d.vendor)
		d.kind = topology_kind_gpu;
	else if ((unsigned)class >> 16 == CLASS_NETWORK)
		d.kind = topology_kind_network;
	else
		return;
	real = realpath(path, NULL);
	if (!real || strlen(real) >= sizeof(d.path) || t->count == TOPOLOGY_DEVICES_MAX) {
		free(real);
		return;
	}
	memcpy(d.path, real, strlen(real));
	free(real);
	memcpy(d.pci, address, strlen(address));
	if (read_number(path, "numa_node", 10, &numa))
		d.numa = (int)numa;
	read_link(&d);
	t->devices[t->count++] = d;
}

/* Calls add(t, folder, name) for each entry of a folder. */
static void for_each(struct topology *t, const char *path,
		     void (*add)(struct topology *t, const char *folder, const char *name))
{
	char folder[TOPOLOGY_PATH_MAX];
	_cleanup_list_ DIR *all = opendir(system_path(folder, path));
	struct dirent *entry;

	while (all && (entry = readdir(all)))
		if (entry->d_name[0] != '.')
			add(t, folder, entry->d_name);
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && (!path[length] || path[length] == '/');
}

/* Adds the name of an interface to its adapter. */
static void add_interface(struct topology *t, const char *folder, const char *name)
{
	char path[TOPOLOGY_PATH_MAX], *real;

	if (snprintf(path, sizeof(path), "%s/%s/device", folder, name) >= (int)sizeof(path))
		return;
	real = realpath(path, NULL);
	for (unsigned i = 0; real && i < t->count; i++) {
		struct topology_device *d = &t->devices[i];
		size_t used = strlen(d->name);

		if (d->kind == topology_kind_network && is_below(real, d->path))
			snprintf(d->name + used, sizeof(d->name) - used, "%s%s", used ? " " : "",
				 name);
	}
	free(real);
}

/* The length of what two paths have in common, up to a '/' that both have there. */
static size_t common_prefix(const char *a, const char *b)
{
	size_t common = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			common = i;
	return common;
}

/* Number of folders in a path. */
static unsigned folders(const char *path)
{
	unsigned count = 0;

	for (; *path; path++)
		count += *path == '/';
	return count;
}

/* The way from one device to another, by the bridges above both. */
static enum topology_way way_of(const struct topology_device *a, const struct topology_device *b)
{
	size_t common = common_prefix(a->path, b->path);
	char shared[TOPOLOGY_PATH_MAX];
	const char *bridge;

	snprintf(shared, sizeof(shared), "%.*s", (int)common, a->path);
	bridge = strstr(shared, "/pci");
	if (!bridge)
		return a->numa < 0 || b->numa < 0 ? topology_way_unknown
		       : a->numa == b->numa       ? topology_way_node
						  : topology_way_sys;
	if (folders(bridge) == 1)
		return topology_way_phb;
	/* A switch is an upstream port with a downstream port for each device. */
	return folders(a->path + common) <= 2 && folders(b->path + common) <= 2 ? topology_way_pix
										: topology_way_pxb;
}

static void set_path(struct topology *t, unsigned a, unsigned b, struct topology_path path)
{
	t->paths[a * t->count + b] = t->paths[b * t->count + a] = path;
}

double nvlink_gbs(unsigned version, unsigned links)
{
	static const double each[] = { 0, 20, 25, 25, 25, 50 };

	return version < ARRAY_SIZE(each) ? each[version] * links : 0;
}

double topology_gbs(const struct topology *t, unsigned a, unsigned b)
{
	const struct topology_path *path = topology_path(t, a, b);

	return path->nvlinks ? nvlink_gbs(t->devices[a].nvlink_version, path->nvlinks)
			     : MIN(t->devices[a].pcie_gbs, t->devices[b].pcie_gbs);
}

/* The path of two GPUs: NVLinks from one to the other, or of both to switches. */
static void link_gpus(struct topology *t, unsigned a, unsigned b, unsigned direct)
{
	struct topology_path path = *topology_path(t, a, b);

	path.nvlink_known = true;
	path.nvlinks = direct;
	if (!direct) {
		path.nvlinks = MIN(t->devices[a].switch_links, t->devices[b].switch_links);
		path.by_switch = path.nvlinks != 0;
	}
	set_path(t, a, b, path);
}

/* NVML numbers the versions 1.0, 2.0, 2.2, 3.0, 3.1, 4.0 and 5.0 from 1; an H200 says 6. */
static unsigned nvlink_major(unsigned number)
{
	static const unsigned char majors[] = { 0, 1, 2, 2, 3, 3, 4, 5 };

	return number < ARRAY_SIZE(majors) ? majors[number] : 0;
}

/* What NVML knows of a GPU; links[i] becomes the number of its links to GPU i. */
static void ask_nvml(struct topology *t, struct topology_device *d, const struct nvml_device *gpu,
		     unsigned *links)
{
	struct nvml_link all[NVML_LINKS_MAX];
	unsigned count = nvml_links(gpu, all);

	d->nvlink_known = true;
	d->nvlinks = count;
	for (unsigned i = 0; i < count; i++) {
		d->nvlink_version = d->nvlink_version ?: nvlink_major(all[i].version);
		d->switch_links += all[i].to_switch;
		for (unsigned k = 0; k < t->gpus; k++)
			links[k] += !all[i].to_switch && !strcmp(t->devices[k].pci, all[i].pci);
	}
}

/* NVML writes eight digits of the domain, in capitals. */
static void short_address(const char *pci, char *out)
{
	unsigned domain, bus, device, function;

	*out = '\0';
	if (sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4)
		snprintf(out, PCI_ADDRESS_SIZE, "%04x:%02x:%02x.%x", domain & 0xffffff, bus & 0xff,
			 device & 0xff, function & 0xf);
}

void topology_add_nvml(struct topology *t)
{
	static unsigned links[NVML_DEVICES_MAX][TOPOLOGY_DEVICES_MAX];
	struct nvml_device gpus[NVML_DEVICES_MAX];
	int item[NVML_DEVICES_MAX];
	unsigned count = nvml_device_count();

	memset(links, 0, sizeof(links));
	for (unsigned g = 0; g < count; g++) {
		struct gpu_description found;
		char pci[PCI_ADDRESS_SIZE];

		item[g] = NO_INDEX;
		if (nvml_device_by_index(&gpus[g], g) != NVML_SUCCESS)
			continue;
		nvml_describe(&gpus[g], &found);
		short_address(found.pci, pci);
		for (unsigned i = 0; i < t->gpus; i++) {
			if (strcmp(t->devices[i].pci, pci) != 0)
				continue;
			item[g] = (int)i;
			snprintf(t->devices[i].name, sizeof(t->devices[i].name), "%s", found.name);
			ask_nvml(t, &t->devices[i], &gpus[g], links[g]);
		}
	}
	for (unsigned a = 0; a < count; a++) {
		for (unsigned b = a + 1; b < count; b++) {
			struct topology_path path;

			if (item[a] == NO_INDEX || item[b] == NO_INDEX)
				continue;
			path = *topology_path(t, (unsigned)item[a], (unsigned)item[b]);
			path.way = nvml_way(&gpus[a], &gpus[b]) ?: path.way;
			set_path(t, (unsigned)item[a], (unsigned)item[b], path);
			link_gpus(t, (unsigned)item[a], (unsigned)item[b], links[a][item[b]]);
		}
	}
}

int topology_find(struct topology *t)
{
	unsigned networks = 0;

	*t = (struct topology){ 0 };
	for_each(t, "/sys/bus/pci/devices", add_device);
	qsort(t->devices, t->count, sizeof(*t->devices), compare_devices);
	for (unsigned i = 0; i < t->count; i++)
		t->devices[i].index =
			(int)(t->devices[i].kind == topology_kind_gpu ? t->gpus++ : networks++);
	for_each(t, "/sys/class/infiniband", add_interface);
	for_each(t, "/sys/class/net", add_interface);
	t->paths = calloc((size_t)t->count * t->count + 1, sizeof(*t->paths));
	if (!t->paths)
		return -ENOMEM;
	for (unsigned a = 0; a < t->count; a++)
		for (unsigned b = a + 1; b < t->count; b++)
			set_path(t, a, b,
				 (struct topology_path){
					 .way = way_of(&t->devices[a], &t->devices[b]) });
	return 0;
}

bool topology_has_nvml_gpus(const struct topology *t)
{
	for (unsigned i = 0; i < t->gpus; i++)
		if (t->devices[i].vendor == vendors[VENDOR_nvidia])
			return true;
	return false;
}

void topology_release(struct topology *t)
{
	free(t->paths);
	t->paths = NULL;
}

/* --- rows --- */

static uint64_t bytes_per_s(double gbs)
{
	return (uint64_t)(gbs * 1e9 + 0.5);
}

static void write_device(const struct topology_device *d, uint32_t id, struct writer *w)
{
	struct row_topology_device row = {
		.id = id,
		.kind = d->kind,
		.name = writer_string(w, d->name, strlen(d->name)),
		.pci = writer_string(w, d->pci, strlen(d->pci)),
		.numa_node = (uint32_t)d->numa,
		.pcie_generation = d->pcie_generation,
		.pcie_width = d->pcie_width,
		.pcie_bytes_per_s = bytes_per_s(d->pcie_gbs),
		.nvlinks = d->nvlinks,
		.nvlink_version = d->nvlink_version,
		.switch_links = d->switch_links,
		.nvlink_bytes_per_s = bytes_per_s(nvlink_gbs(d->nvlink_version, d->nvlinks)),
	};

	ROW_MISSING_IF(&row, topology_device, name, !*d->name);
	ROW_MISSING_IF(&row, topology_device, numa_node, d->numa < 0);
	ROW_MISSING_IF(&row, topology_device, pcie_generation, !d->pcie_generation);
	ROW_MISSING_IF(&row, topology_device, pcie_width, !d->pcie_width);
	ROW_MISSING_IF(&row, topology_device, pcie_bytes_per_s, !row.pcie_bytes_per_s);
	ROW_MISSING_IF(&row, topology_device, nvlinks, !d->nvlink_known);
	ROW_MISSING_IF(&row, topology_device, switch_links, !d->nvlink_known);
	ROW_MISSING_IF(&row, topology_device, nvlink_version, !d->nvlink_version);
	ROW_MISSING_IF(&row, topology_device, nvlink_bytes_per_s, !row.nvlink_bytes_per_s);
	writer_append(w, TABLE_topology_device, &row);
}

static void write_link(const struct topology *t, unsigned a, unsigned b, struct writer *w)
{
	const struct topology_path *path = topology_path(t, a, b);
	struct row_topology_link row = {
		.a = a,
		.b = b,
		.way = path->way,
		.nvlinks = path->nvlinks,
		.nvlink_version = t->devices[a].nvlink_version,
		.by_switch = path->by_switch,
		.bytes_per_s = bytes_per_s(topology_gbs(t, a, b)),
	};

	ROW_MISSING_IF(&row, topology_link, way, path->way == topology_way_unknown);
	ROW_MISSING_IF(&row, topology_link, nvlinks, !path->nvlink_known);
	ROW_MISSING_IF(&row, topology_link, nvlink_version, !path->nvlinks || !row.nvlink_version);
	ROW_MISSING_IF(&row, topology_link, by_switch, !path->nvlinks);
	ROW_MISSING_IF(&row, topology_link, bytes_per_s,
		       !row.bytes_per_s || (b < t->gpus && !path->nvlink_known));
	writer_append(w, TABLE_topology_link, &row);
}

void topology_write(const struct topology *t, struct writer *w)
{
	for (unsigned a = 0; a < t->count; a++)
		write_device(&t->devices[a], a, w);
	for (unsigned a = 0; a < t->gpus; a++)
		for (unsigned b = a + 1; b < t->count; b++)
			write_link(t, a, b, w);
}
