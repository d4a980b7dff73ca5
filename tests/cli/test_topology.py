"""pitot devices --topology, and the same in recordings: a machine of files and libraries that the test makes."""
import json
import os

import pytest

import machine_files

# Two switches below one host bridge, and another host bridge on the other socket.
GPUS = {  # PCI address: (path below /sys/devices, NUMA node, vendor)
    "0000:03:00.0": ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0", 0, "0x10de"),
    "0000:04:00.0": ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", 0, "0x10de"),
    "0000:08:00.0": ("pci0000:00/0000:00:02.0/0000:06:00.0/0000:07:00.0/0000:08:00.0", 0, "0x10de"),
    "0000:83:00.0": ("pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0", 1, "0x1002"),
}
NICS = {
    "0000:05:00.0": ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0", 0, "0x15b3"),
    "0000:41:00.0": ("pci0000:40/0000:40:01.0/0000:41:00.0", 0, "0x15b3"),
}
INTERFACES = (("infiniband", "mlx5_0", "0000:05:00.0"), ("net", "eth2", "0000:05:00.0"), ("net", "eth0", "0000:41:00.0"))

# A driver whose clock only copies advance: 50 GB/s from the host, 40 to it, 2,000 within a GPU and 400 between two.
CUDA = """
#include <stdlib.h>
#include <string.h>
typedef unsigned long long address;
static double now_ms;
static int failing = -1;
int cuInit(unsigned flags) { failing = getenv("FAILING") ? atoi(getenv("FAILING")) : -1; return (int)flags; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetErrorString(int error, const char **text) { *text = error == 2 ? "out of memory" : "unknown error"; return 0; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) { return 999; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { return 999; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return 999; }
int cuDeviceGetPCIBusId(char *id, int length, int device) { strcpy(id, device ? "0000:04:00.0" : "0000:03:00.0"); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return 999; }
static int current;
int cuDevicePrimaryCtxRetain(void **out, int device) { *out = (void *)(size_t)(device + 1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { current = (int)(size_t)context - 1; return 0; }
int cuMemAlloc_v2(address *out, size_t bytes) { *out = current == failing ? 0 : 4096; return current == failing ? 2 : 0; }
int cuMemFree_v2(address a) { return 0; }
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) { *out = malloc(8); return flags != 1; }
int cuMemFreeHost(void *p) { free(p); return 0; }
int cuStreamCreateWithPriority(void **out, unsigned flags, int priority) { *out = out; return flags != 1; }
int cuStreamDestroy_v2(void *s) { return 0; }
int cuStreamSynchronize(void *s) { return 0; }
int cuEventCreate(double **out, unsigned flags) { *out = calloc(1, sizeof(**out)); return 0; }
int cuEventDestroy_v2(double *event) { free(event); return 0; }
int cuEventRecord(double *event, void *stream) { *event = now_ms; return 0; }
int cuEventElapsedTime(float *ms, double *start, double *end) { *ms = (float)(*end - *start); return 0; }
static int copy(size_t bytes, double gbs) { now_ms += (double)bytes / gbs / 1e6; return 0; }
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream) { return copy(bytes, 50); }
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream) { return copy(bytes, 40); }
int cuMemcpyAsync(address to, address from, size_t bytes, void *stream) { return copy(bytes, 2000); }
int cuMemcpyPeerAsync(address to, void *a, address from, void *b, size_t bytes, void *stream) { return copy(bytes, 400); }
int cuDeviceCanAccessPeer(int *can, int device, int peer) { *can = device < peer; return 0; }
int cuCtxEnablePeerAccess(void *peer, unsigned flags) { return 704; }
"""


@pytest.fixture(name="machine")
def fixture_machine(tmp_path):
    """machine(level=…): the environment in which Pitot sees the machine that was made."""
    machine_files.make_machine(tmp_path / "root", GPUS | NICS, INTERFACES)
    (tmp_path / "lib").mkdir()

    def make(links=1, remote=2, level=70, gpus=2, nvml=True, hangs=0):
        if nvml:
            machine_files.make_nvml(tmp_path / "lib", ("00000000:04:00.0", "00000000:03:00.0", "00000000:08:00.0"), links=links,
                                    remote=remote, level=level, hangs=hangs)  # in another order
        if gpus:
            machine_files.compile_library(tmp_path / "lib", "libcuda.so.1", CUDA, COUNT=gpus)
        return {"PITOT_SYSTEM_ROOT": str(tmp_path / "root"), "LD_LIBRARY_PATH": str(tmp_path / "lib")}

    return make


@pytest.fixture(name="devices")
def fixture_devices(pitot, machine):
    """devices("--topology", level=…, status=…): the output on the machine that was made."""

    def run(*options, env=None, status=0, **made):
        return pitot("devices", *options, env={**machine(**made), **(env or {})}, status=status)

    return run


@pytest.fixture(name="recorded")
def fixture_recorded(pitot, rows, machine):
    """recorded(nvml=False): devices, links by their addresses, and what is said about them, of a recording on the machine."""

    def run(env=None, **made):
        pitot("record", "--no-cpu", "--force", "-o", "x.pitot", "--", "true", env={**machine(gpus=0, **made), **(env or {})})
        columns = ",".join(["a.pci", "b.pci", "way", "nvlinks", "nvlink_version", "by_switch", "bytes_per_s"])
        links = {(link["a.pci"], link["b.pci"]): link for link in rows("x.pitot", "topology_link", "--columns", columns)}
        return rows("x.pitot", "topology_device"), links, [
            (row["state"], row["actual"], row["reason"]) for row in rows("x.pitot", "capability") if row["name"] == "topology"]

    return run


def ways(text):
    """{("GPU 0", "NIC 1"): "PHB"} of the matrix."""
    lines = text.split("\n\n")[1].splitlines()
    heads = [f"{kind} {number}" for kind, number in zip(lines[0].split()[::2], lines[0].split()[1::2])]
    cells = {line[2:7]: line[7:].split() for line in lines[1:] if line[2:5] in ("GPU", "NIC")}
    return {(a, b): way for a, row in cells.items() for b, way in zip(heads, row)}


def test_what_lies_between_devices(devices):
    """Without NVML the bus alone tells; nothing of NVLink is known."""
    said = devices("--topology", nvml=False, gpus=0)
    found = ways(said.stdout)
    assert said.stdout.startswith("4 GPUs, 2 network adapters on the PCI bus\n") and "NVLink is unknown: libnvidia-ml.so.1" in said.stderr
    assert found["GPU 0", "GPU 1"] == "PIX" and found["GPU 0", "GPU 2"] == "PHB" and found["GPU 0", "GPU 3"] == "SYS"
    assert found["GPU 0", "NIC 0"] == "PIX" and found["GPU 0", "NIC 1"] == "NODE" and found["NIC 1", "GPU 3"] == "SYS"
    assert found["GPU 2", "NIC 0"] == "PHB" and found["GPU 1", "GPU 1"] == "X"
    lines = said.stdout.splitlines()
    assert lines[2].split() == ["GPU", "0", "0000:03:00.0", "0", "63.0", "GB/s", "-"]
    assert lines[6].split()[:8] == ["NIC", "0", "0000:05:00.0", "0", "31.5", "GB/s", "-", "mlx5_0"]


def test_several_switches(devices, tmp_path):
    """A switch below a switch."""
    path = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:03.0/0000:0a:00.0/0000:0b:00.0/0000:0c:00.0"
    machine = machine_files.make_machine(tmp_path / "other", {**GPUS, **NICS, "0000:0c:00.0": (path, 0, "0x10de")})
    found = ways(devices("--topology", nvml=False, gpus=0, env={"PITOT_SYSTEM_ROOT": str(machine)}).stdout)
    assert found["GPU 0", "GPU 3"] == "PXB" and found["GPU 0", "GPU 1"] == "PIX"


def test_links_through_a_switch(devices):
    said = devices("--topology")
    assert ways(said.stdout)["GPU 0", "GPU 1"] == ways(said.stdout)["GPU 1", "GPU 2"] == "NV18"
    assert "18 of version 4, to a switch, 450 GB/s" in said.stdout and "NVn n NVLinks, through the switch; " in said.stdout
    assert "NVIDIA H200" in said.stdout and "NVLink is unknown" not in said.stderr
    assert ways(said.stdout)["GPU 2", "GPU 3"] == "SYS"  # of another vendor


def test_links_from_one_gpu_to_another(devices):
    found = json.loads(devices("--topology", "--json", remote=0, level=30).stdout)
    paths = {(path["a"], path["b"]): path for path in found["paths"]}
    assert paths[0, 1] == {"a": 0, "b": 1, "way": "phb", "nvlinks": 18, "by_switch": False}  # NVML's word on the way
    assert paths[0, 2]["nvlinks"] == 0 and paths[0, 4]["nvlinks"] is None and paths[0, 4]["way"] == "pix"
    gpu, adapter = found["devices"][0], found["devices"][5]
    assert (gpu["kind"], gpu["name"], gpu["pci"], gpu["numa_node"]) == ("gpu", "NVIDIA H200", "0000:03:00.0", 0)
    assert gpu["pcie_gbs"] == pytest.approx(63.0, abs=0.1) and (gpu["nvlinks"], gpu["nvlink_version"], gpu["switch_links"]) == (18, 4, 0)
    assert (adapter["kind"], adapter["name"], adapter["nvlinks"]) == ("network", "eth0", None) and "copies" not in found
    assert found["devices"][3]["nvlinks"] is None and paths[0, 3]["nvlinks"] is None  # NVML does not know it


def test_copies_that_are_measured(devices):
    found = {(copy["from"], copy["to"]): copy for copy in json.loads(devices("--measure", "--json").stdout)["copies"]}
    assert {pair: round(copy["gbs"]) for pair, copy in found.items()} == {
        (None, 0): 50, (0, None): 40, (0, 0): 2000, (0, 1): 400, (1, 0): 400, (1, 1): 2000, (None, 1): 50, (1, None): 40}
    assert all(copy["latency_us"] > 0 and copy["why"] is None for copy in found.values())
    assert found[0, 1]["direct"] and not found[1, 0]["direct"] and found[0, 1]["nominal_gbs"] == 450
    assert found[None, 0]["nominal_gbs"] == pytest.approx(63.0, abs=0.1) and found[0, 0]["nominal_gbs"] is None
    text = devices("--measure").stdout
    assert "400.0 GB/s  450.0 GB/s" in text and "through the host" in text and "not measured" not in text


def test_what_cannot_be_measured(devices):
    text = devices("--measure", gpus=1).stdout
    assert "50.0 GB/s" in text and "not measured: copies between GPUs, because CUDA shows one" in text
    found = {(copy["from"], copy["to"]): copy for copy in json.loads(devices("--measure", "--json", env={"FAILING": "0"}).stdout)["copies"]}
    assert found[0, 0]["gbs"] is None and found[0, 1]["why"] == "out of memory (error 2)" and round(found[1, 1]["gbs"]) == 2000
    said = devices("--measure", gpus=0, env={"LD_LIBRARY_PATH": os.devnull}, status=1)
    assert "nothing was measured: libcuda.so.1 cannot be loaded" in said.stderr and "PIX" in said.stdout


def test_a_picture(devices):
    text = devices("--dot").stdout
    assert text.startswith("strict graph machine {") and '"0000:03:00.0" -- "0000:04:00.0" [style=bold, label="NV18"]' in text
    assert '"0000:01:00.0" -- "0000:02:00.0"' in text and 'label="NIC 0\\nmlx5_0 eth2"' in text
    assert "--dot draws the topology" in devices("--dot", "--json", status=2).stderr


def test_a_machine_without_devices(devices, tmp_path):
    (tmp_path / "empty").mkdir()
    said = devices("--topology", nvml=False, gpus=0, env={"PITOT_SYSTEM_ROOT": str(tmp_path / "empty")})
    assert said.stdout == "0 GPUs, 0 network adapters on the PCI bus\n" and not said.stderr


# --- in recordings ---

GPU0, GPU1, GPU2, OTHER = GPUS
NIC0, NIC1 = NICS


def test_what_a_recording_has(recorded):
    devices, links, said = recorded()
    assert [device["pci"] for device in devices] == [*GPUS, *NICS] and said == [("on", None, None)]
    gpu, other, adapter = devices[0], devices[3], devices[4]
    assert (gpu["kind"], gpu["name"], gpu["numa_node"], gpu["pcie_generation"], gpu["pcie_width"]) == ("gpu", "NVIDIA H200", 0, 5, 16)
    assert gpu["pcie_bytes_per_s"] == pytest.approx(63e9, rel=0.01) and gpu["nvlink_bytes_per_s"] == 450e9
    assert (gpu["nvlinks"], gpu["nvlink_version"], gpu["switch_links"]) == (18, 4, 18)
    assert other["nvlinks"] is other["nvlink_version"] is other["nvlink_bytes_per_s"] is None and other["numa_node"] == 1
    assert (adapter["kind"], adapter["name"], adapter["pcie_generation"]) == ("network", "mlx5_0 eth2", 4)
    assert len(links) == 6 + 8  # of GPUs, and of these with adapters
    link = links[GPU0, GPU1]
    assert (link["nvlinks"], link["nvlink_version"], link["by_switch"], link["bytes_per_s"]) == (18, 4, 1, 450e9)
    assert links[GPU0, OTHER]["bytes_per_s"] is links[GPU0, OTHER]["nvlinks"] is None and links[GPU0, OTHER]["way"] == "sys"
    assert links[GPU0, NIC0]["way"] == "pix" and links[GPU0, NIC0]["bytes_per_s"] == pytest.approx(31.5e9, rel=0.01)


def test_links_without_a_switch_and_without_any(recorded):
    link = recorded(remote=0, level=30)[1][GPU0, GPU1]
    assert (link["way"], link["nvlinks"], link["by_switch"]) == ("phb", 18, 0)
    link = recorded(links=0)[1][GPU0, GPU1]
    assert (link["nvlinks"], link["by_switch"], link["nvlink_version"]) == (0, None, None)
    assert link["bytes_per_s"] == pytest.approx(63e9, rel=0.01)


def test_a_recording_without_nvml(recorded):
    """The bus is known; whether there are NVLinks, and so how fast GPUs reach each other, is not."""
    devices, links, said = recorded(nvml=False)
    assert said == [("degraded", "PCI bus", "libnvidia-ml.so.1 cannot be loaded; it comes with NVIDIA's driver")]
    assert devices[0]["nvlinks"] is None and devices[0]["name"] is None and devices[0]["pcie_width"] == 16
    assert (links[GPU0, GPU1]["way"], links[GPU0, GPU1]["bytes_per_s"]) == ("pix", None)
    assert links[GPU0, NIC0]["bytes_per_s"] > 0


def test_nvml_that_hangs_holds_up_nothing(recorded):
    devices, links, said = recorded(hangs=1)
    assert said == [("degraded", "PCI bus", "NVML does not answer")] and len(devices) == 6
    assert links[GPU0, GPU1]["nvlinks"] is None


def test_machines_of_which_nothing_is_recorded(recorded, tmp_path):
    """Adapters alone are no topology of GPUs; one GPU has no link but those with adapters."""
    machine = machine_files.make_machine(tmp_path / "adapters", NICS)
    assert recorded(env={"PITOT_SYSTEM_ROOT": str(machine)}) == ([], {}, [])
    machine = machine_files.make_machine(tmp_path / "one", {GPU0: GPUS[GPU0]})
    devices, links, said = recorded(env={"PITOT_SYSTEM_ROOT": str(machine)})
    assert len(devices) == 1 and not links and said == [("on", None, None)]
