/*
 * topology.h: how the GPUs and network adapters of a machine are connected: from the files in which
 * Linux shows the PCI bus (sysfs), and of NVIDIA's GPUs from NVML.
 */
#ifndef PITOT_SYSTEM_TOPOLOGY_H
#define PITOT_SYSTEM_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "system/nvml.h"
#include "vendor/vendors.h"

#define TOPOLOGY_DEVICES_MAX 128u
#define TOPOLOGY_PATH_MAX 512u
#define PCI_ADDRESS_SIZE 16u /* "0000:41:00.0" */
#define TOPOLOGY_WAYS (topology_way_sys + 1)

/* By enum topology_way: the letters of nvidia-smi topo -m, and what a transfer crosses. */
struct topology_way_words {
	const char *letters, *meaning;
};
extern const struct topology_way_words topology_ways[TOPOLOGY_WAYS];

struct topology_device {
	enum topology_kind kind;
	char name[96]; /* "NVIDIA H200", "mlx5_0 eth2"; "": unknown */
	char pci[PCI_ADDRESS_SIZE];
	char path[TOPOLOGY_PATH_MAX]; /* real path of its folder: the bridges above it */
	int index; /* among the GPUs, or the network adapters */
	const struct vendor *vendor; /* of a GPU, else NULL */
	int numa; /* -1: unknown */
	unsigned pcie_generation, pcie_width; /* of the slower end of its link; 0: unknown */
	double pcie_gbs; /* nominal bandwidth in each direction, in GB/s; 0: unknown */
	bool nvlink_known; /* NVML has told; then: */
	unsigned nvlinks; /* active ones */
	unsigned nvlink_version; /* of the first one, without what follows its dot; 0: unknown */
	unsigned switch_links; /* those that lead to a switch */
};

struct topology_path {
	enum topology_way way;
	bool nvlink_known;
	unsigned nvlinks; /* between both, or of either to the switch */
	bool by_switch;
};

struct topology {
	struct topology_device
		devices[TOPOLOGY_DEVICES_MAX]; /* GPUs by their address, then others */
	unsigned count, gpus;
	struct topology_path *paths; /* count * count, by two devices */
};

/*
 * Reads sysfs, below the folder that PITOT_SYSTEM_ROOT names if it is set. 0 or -ENOMEM; release *t
 * in either case.
 */
int topology_find(struct topology *t) MUST_USE;
/* Whether there are GPUs of which NVML may say more. */
bool topology_has_nvml_gpus(const struct topology *t);
/* Adds what NVML says, after nvml_load(). Its calls can hang with a GPU. One thread at a time. */
void topology_add_nvml(struct topology *t);
void topology_release(struct topology *t);

static inline const struct topology_path *topology_path(const struct topology *t, unsigned a,
							unsigned b)
{
	return &t->paths[a * t->count + b];
}

/* Nominal bandwidth of NVLink in each direction, in GB/s; 0: unknown. */
double nvlink_gbs(unsigned version, unsigned links);
/* The same between two devices: of NVLink, else of the slower PCIe link. */
double topology_gbs(const struct topology *t, unsigned a, unsigned b);

/* Writes the rows of tables topology_device and topology_link: of links that a GPU has. */
struct writer;
void topology_write(const struct topology *t, struct writer *w);

#endif
