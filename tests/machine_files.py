"""A machine of files: what Linux shows of its PCI bus, and a library that takes the place of NVML."""
import subprocess

NVML = """
#include <stdio.h>
#include <string.h>
typedef struct gpu { const char *pci; } *handle;
struct pci { char legacy[16]; unsigned domain, bus, device, ids[2]; char id[32]; };
static struct gpu gpus[] = { GPUS };
int nvmlInit_v2(void) { if (HANGS) pause(); return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, handle *out) { return 6; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = sizeof(gpus) / sizeof(*gpus); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *out) { *out = &gpus[index]; return 0; }
int nvmlDeviceGetName(handle d, char *name, unsigned size) { snprintf(name, size, "NVIDIA H200"); return 0; }
int nvmlDeviceGetPciInfo_v3(handle d, struct pci *out) { memset(out, 0, sizeof(*out)); strcpy(out->id, d->pci); return 0; }
int nvmlDeviceGetNvLinkState(handle d, unsigned link, unsigned *active)
{
	if (link >= 18)
		return 2;
	*active = LINKS;
	return 0;
}
int nvmlDeviceGetNvLinkVersion(handle d, unsigned link, unsigned *version) { *version = 6; return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(handle d, unsigned link, int *type) { *type = TYPE; return 0; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(handle d, unsigned link, struct pci *out)
{
	memset(out, 0, sizeof(*out));
	sscanf(gpus[d == &gpus[0]].pci, "%x:%x:%x", &out->domain, &out->bus, &out->device);
	return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(handle a, handle b, int *level) { *level = LEVEL; return 0; }
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def make_machine(root, devices, interfaces=()):
    """devices: {PCI address: (path below /sys/devices, NUMA node, vendor)}; interfaces: (class, name, PCI address)."""
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    for address, (path, numa, vendor) in devices.items():
        folder = root / "sys/devices" / path
        network = vendor not in ("0x10de", "0x1002")
        for name, text in {"class": "0x020000" if network else "0x030200", "vendor": vendor, "numa_node": numa,
                           "max_link_speed": "16.0 GT/s PCIe" if network else "32.0 GT/s PCIe", "max_link_width": 16}.items():
            write(folder / name, text)
        write(folder.parent / "max_link_speed", "32.0 GT/s PCIe")  # the port above
        write(folder.parent / "max_link_width", 16)
        (root / "sys/bus/pci/devices" / address).symlink_to(folder)
    for kind, name, address in interfaces:
        if address in devices:
            folder = root / "sys/class" / kind / name
            folder.mkdir(parents=True)
            (folder / "device").symlink_to(root / "sys/devices" / devices[address][0])
    write(root / "sys/bus/pci/devices/0000:00:00.0/class", "0x060000")
    return root


def compile_library(folder, name, text, **defines):
    (folder / "x.c").write_text(text)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", folder / name, folder / "x.c", *(f"-D{key}={value}" for key, value in defines.items())],
                   check=True)


def make_nvml(folder, gpus, links=1, remote=2, level=70, hangs=0):
    """A libnvidia-ml.so.1 of GPUs at these addresses, with 18 NVLinks each; remote 2: to a switch, 0: from the first two to each other."""
    compile_library(folder, "libnvidia-ml.so.1", NVML, GPUS=", ".join(f'{{ "{pci}" }}' for pci in gpus), LINKS=links, TYPE=remote,
                    LEVEL=level, HANGS=hangs)
