/* tables_topology.h: the tables of a machine's devices and links; tables.h explains the macros. */
#ifndef PITOT_SCHEMA_TABLES_TOPOLOGY_H
#define PITOT_SCHEMA_TABLES_TOPOLOGY_H

/* clang-format off */
/*
 * Written by `pitot record` on a machine with GPUs: all devices on the PCI bus, also those that a
 * process does not see. Column pci leads from a row of table device to one of topology_device.
 * Bandwidths are nominal, in each direction. What the machine or NVML does not say is missing.
 */
#define SCHEMA_topology_device(C, T)                                                                                   \
	C(T, id, U32, ALWAYS, NONE, "", "number within the machine, from 0")                                           \
	C(T, kind, ENUM, ALWAYS, topology_kind, "", "what it is")                                                      \
	C(T, name, STRING, MAYBE, NONE, "", "GPUs: marketing name; network adapters: names of the interfaces")         \
	C(T, pci, STRING, ALWAYS, NONE, "", "PCI address domain:bus:device.function, in lower case")                   \
	C(T, numa_node, U32, MAYBE, NONE, "", "NUMA node")                                                             \
	C(T, pcie_generation, U32, MAYBE, NONE, "", "generation of its PCIe link: of the older end")                   \
	C(T, pcie_width, U32, MAYBE, NONE, "lanes", "width of its PCIe link: of the narrower end")                     \
	C(T, pcie_bytes_per_s, U64, MAYBE, NONE, "bytes/s", "bandwidth of its PCIe link")                              \
	C(T, nvlinks, U32, MAYBE, NONE, "", "active NVLinks")                                                          \
	C(T, nvlink_version, U32, MAYBE, NONE, "", "version of NVLink")                                                \
	C(T, switch_links, U32, MAYBE, NONE, "", "NVLinks that lead to a switch")                                      \
	C(T, nvlink_bytes_per_s, U64, MAYBE, NONE, "bytes/s", "bandwidth of all of its NVLinks")
#define TRAITS_topology_device(X, T) X(T, LAST_OF, id) X(T, LABEL, pci)
#define ENUM_topology_kind(V, E) V(E, gpu, 0) V(E, network, 1)

/* Of two GPUs, bytes_per_s is missing if it is unknown whether they have NVLinks. */
#define SCHEMA_topology_link(C, T)                                                                                     \
	C(T, a, REF, ALWAYS, topology_device, "", "a GPU")                                                             \
	C(T, b, REF, ALWAYS, topology_device, "", "a GPU or network adapter with a larger number")                     \
	C(T, way, ENUM, MAYBE, topology_way, "", "what a transfer by PCIe crosses")                                    \
	C(T, nvlinks, U32, MAYBE, NONE, "", "NVLinks from one to the other, or of either to the switch between them")  \
	C(T, nvlink_version, U32, MAYBE, NONE, "", "version of these NVLinks")                                         \
	C(T, by_switch, U8, MAYBE, NONE, "", "1: the NVLinks lead through a switch")                                   \
	C(T, bytes_per_s, U64, MAYBE, NONE, "bytes/s", "bandwidth: of the NVLinks, else of the slower PCIe link")
#define TRAITS_topology_link(X, T) X(T, LAST_OF, a, b) X(T, LABEL, way)
/* The letters of nvidia-smi topo -m, from few hops to many; internal: two GPUs of one board. */
#define ENUM_topology_way(V, E)                                                                                        \
	V(E, unknown, 0) V(E, internal, 1) V(E, pix, 2) V(E, pxb, 3) V(E, phb, 4) V(E, node, 5) V(E, sys, 6)
/* clang-format on */

#endif
