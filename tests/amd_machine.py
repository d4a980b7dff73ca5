"""A tree of the files in which Linux shows AMD's GPUs, made from what its documents say of them; PITOT_AMD_ROOT names it.
None of it comes from a machine with such a GPU."""

import pathlib
import struct


def write(root, files):
    for name, text in files.items():
        path = pathlib.Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def gpu_metrics(reasons, version=(1, 3)):
    """The driver's table; unknown fields are all ones."""
    table = bytearray(b"\xff" * 120)
    table[0:4] = struct.pack("<HBB", 120, *version)
    table[112:120] = struct.pack("<Q", reasons)
    return bytes(table)


def add_card(root, number, pci, **changes):
    """A card as MI200 has it; a change to None removes a file."""
    card = f"sys/class/drm/card{number}/device/"
    files = {
        "vendor": "0x1002\n", "device": "0x740f\n", "uevent": f"DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_SLOT_NAME={pci}\n",
        "unique_id": "a1b2c3d4e5f60718\n", "product_name": "AMD INSTINCT MI210\n", "gpu_busy_percent": "87\n",
        "mem_busy_percent": "31\n", "mem_info_vram_total": "68702699520\n", "mem_info_vram_used": "4294967296\n",
        "pp_dpm_sclk": "0: 500Mhz \n1: 800Mhz \n2: 1700Mhz *\n", "pp_dpm_mclk": "0: 400Mhz \n1: 1600Mhz *\n",
        "power/runtime_status": "active\n", "gpu_metrics": gpu_metrics(0),
        "hwmon/hwmon3/power1_average": "215000000\n", "hwmon/hwmon3/power1_cap": "300000000\n",
        "hwmon/hwmon3/energy1_input": "123456789\n",
        "hwmon/hwmon3/temp1_label": "edge\n", "hwmon/hwmon3/temp1_input": "45000\n",
        "hwmon/hwmon3/temp2_label": "junction\n", "hwmon/hwmon3/temp2_input": "58000\n",
        "hwmon/hwmon3/temp3_label": "mem\n", "hwmon/hwmon3/temp3_input": "52000\n",
        "ras/umc_err_count": "ue: 1\nce: 3\n", "ras/gfx_err_count": "ue: 0\nce: 4\n",
    }
    files.update({name.replace("__", "/"): text for name, text in changes.items()})
    write(root, {card + name: text for name, text in files.items() if text is not None})


def add_node(root, number, gpu_id, pci):
    """The same GPU as amdkfd, the part of the driver for computing, describes it."""
    domain, bus, rest = pci.split(":")
    device, function = rest.split(".")
    location = int(bus, 16) << 8 | int(device, 16) << 3 | int(function)
    node = f"sys/class/kfd/kfd/topology/nodes/{number}/"
    write(root, {node + "gpu_id": f"{gpu_id}\n", node + "properties":
                 f"cpu_cores_count 0\nsimd_count 416\nsimd_per_cu 4\nwave_front_size 64\nlds_size_in_kb 64\n"
                 f"gfx_target_version 90010\nlocation_id {location}\ndomain {int(domain, 16)}\nmax_engine_clk_fcompute 1700\n"})


def make(root):
    """A machine with one MI210, on which a program computes."""
    write(root, {"sys/module/amdgpu/version": "6.8.5\n", "dev/kfd": "", "opt/rocm/.info/version": "7.0.2-56\n",
                 "sys/class/kfd/kfd/topology/nodes/0/gpu_id": "0\n", "sys/class/kfd/kfd/topology/nodes/0/properties": "simd_count 0\n",
                 "sys/class/drm/card0/device/vendor": "0x1a03\n"})
    add_card(root, 1, "0000:83:00.0")
    add_node(root, 1, 12345, "0000:83:00.0")
