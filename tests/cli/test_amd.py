"""AMD's GPUs in monitor, devices and doctor, from trees of files made by hand: no such GPU has run here."""
import json
import os
import shutil

import pytest

import amd_machine

SHORT = ("--interval", "50ms", "--duration", "150ms")
GPU_0 = {"gpu_utilization": 87, "gpu_memory_utilization": 31, "gpu_sm_clock": 1700, "gpu_memory_clock": 1600,
         "gpu_power": 215, "gpu_power_limit": 300, "gpu_temperature": 45, "gpu_memory_temperature": 52,
         "gpu_memory_used": 4 << 30, "gpu_energy_per_s": 0, "gpu_ecc_corrected_per_s": 0, "gpu_ecc_uncorrected_per_s": 0,
         "gpu_processes": 1, "throttled_by": []}


@pytest.fixture
def machine(tmp_path):
    """The root of a machine with one GPU; its variables are those of machine.env."""
    root = tmp_path / "root"
    amd_machine.make(root)
    amd_machine.write(root, {f"sys/class/kfd/kfd/proc/{os.getpid()}/vram_12345": "1073741824\n",
                             f"sys/class/kfd/kfd/proc/{os.getpid()}/vram_999": "7\n"})
    return root


def readings(pitot, root):
    result = pitot("monitor", "--json", *SHORT, env={"PITOT_AMD_ROOT": str(root)})
    return json.loads(result.stdout.splitlines()[-1]), result.stderr


def card(root, number=1):
    return root / f"sys/class/drm/card{number}/device"


def test_every_reading(pitot, machine):
    last, _ = readings(pitot, machine)
    (gpu,) = last["gpus"]
    assert {name: gpu.get(name) for name in GPU_0} == GPU_0
    assert (gpu["name"], gpu["uuid"], gpu["memory_bytes"]) == ("AMD INSTINCT MI210", "GPU-a1b2c3d4e5f60718", 68702699520)
    assert [(p["pid"], p["memory_bytes"]) for p in gpu["processes"]] == [(os.getpid(), 1 << 30)]
    assert "gpu_sm_active" not in gpu and "gpu_pcie_sent_per_s" not in gpu, "what is not there is not 0"


@pytest.mark.parametrize("file, metric", [
    ("gpu_busy_percent", "gpu_utilization"), ("mem_busy_percent", "gpu_memory_utilization"), ("pp_dpm_sclk", "gpu_sm_clock"),
    ("hwmon/hwmon3/power1_average", "gpu_power"), ("hwmon/hwmon3/power1_cap", "gpu_power_limit"),
    ("mem_info_vram_used", "gpu_memory_used"), ("hwmon/hwmon3/energy1_input", "gpu_energy_per_s"), ("ras", "gpu_ecc_corrected_per_s"),
    ("gpu_metrics", "throttled_by"), ("hwmon", "gpu_temperature"), ("hwmon/hwmon3/temp3_label", "gpu_memory_temperature")])
def test_an_absent_file_is_no_value(pitot, machine, file, metric):
    path = card(machine) / file
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    last, _ = readings(pitot, machine)
    assert metric not in last["gpus"][0]
    rest = {name for name in GPU_0 if name in last["gpus"][0]}
    assert len(rest) >= (8 if file == "hwmon" else len(GPU_0) - 2), rest


def test_forms_of_other_chips(pitot, machine):
    """Power of now instead of an average, no edge sensor, other tables of the driver, reasons for low clocks."""
    sensors = card(machine) / "hwmon/hwmon3"
    (sensors / "power1_average").rename(sensors / "power1_input")
    (sensors / "temp1_label").unlink()
    for reasons, texts in ((1 << 2, ["power limit"]), (1 << 17, ["hardware slowdown"]), (1 << 36, ["thermal slowdown"]),
                           (1 << 56, []), (1 << 0 | 1 << 32, ["power limit", "thermal slowdown"])):
        (card(machine) / "gpu_metrics").write_bytes(amd_machine.gpu_metrics(reasons))
        gpu = readings(pitot, machine)[0]["gpus"][0]
        assert (gpu["gpu_power"], gpu["gpu_temperature"], gpu["throttled_by"]) == (215, 58, texts)
    for table in (amd_machine.gpu_metrics(4, (1, 5)), amd_machine.gpu_metrics(4)[:119], b"", amd_machine.gpu_metrics(2**64 - 1)):
        (card(machine) / "gpu_metrics").write_bytes(table)
        assert "throttled_by" not in readings(pitot, machine)[0]["gpus"][0]


@pytest.mark.parametrize("text", ["", "x", "99999999999999999999", "12 34", "-", "\0", "1" * 9000])
def test_files_that_are_no_numbers(pitot, machine, text):
    for file in ("gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total", "pp_dpm_sclk", "hwmon/hwmon3/temp1_input", "ras/umc_err_count"):
        (card(machine) / file).write_text(text)
    gpu = readings(pitot, machine)[0]["gpus"][0]
    assert not {"gpu_utilization", "gpu_memory_used", "gpu_sm_clock", "gpu_temperature", "memory_bytes"} & set(gpu)


def test_a_sleeping_gpu_is_not_woken(pitot, machine):
    (card(machine) / "power/runtime_status").write_text("suspended\n")
    gpu = readings(pitot, machine)[0]["gpus"][0]
    assert gpu["name"] == "AMD INSTINCT MI210" and not set(GPU_0) & set(gpu)


def test_gpus_are_in_order_of_their_addresses(pitot, machine):
    amd_machine.add_card(machine, 0, "0000:c3:00.0", unique_id=None, product_name="\n", gpu_busy_percent="3\n")
    result = pitot("devices", "--json", env={"PITOT_AMD_ROOT": str(machine)})
    first, second = json.loads(result.stdout)
    assert (first["id"], first["vendor"], first["pci"], first["multiprocessors"], first["warp_size"], first["clock_khz"],
            first["shared_per_multiprocessor_bytes"], first["l2_bytes"]) == (0, "AMD", "0000:83:00.0", 104, 64, 1700000, 65536, None)
    assert (second["id"], second["name"], second["uuid"], second["multiprocessors"]) == (1, "AMD GPU 0x740f", "", None)
    assert "gfx90a" in pitot("devices", env={"PITOT_AMD_ROOT": str(machine)}).stdout
    assert [gpu["gpu_utilization"] for gpu in readings(pitot, machine)[0]["gpus"]] == [87, 3]


def test_a_recording(pitot, machine, tmp_path):
    pitot("monitor", "-o", tmp_path / "m.pitot", *SHORT, env={"PITOT_AMD_ROOT": str(machine)})
    (device,) = [json.loads(line) for line in pitot("view", tmp_path / "m.pitot", "device", "--json").stdout.splitlines()]
    assert (device["vendor"], device["name"], device["memory_bytes"]) == ("amd", "AMD INSTINCT MI210", 68702699520)
    samples = [json.loads(line) for line in pitot("view", tmp_path / "m.pitot", "counter_sample", "--json").stdout.splitlines()]
    values = {sample["counter"]: sample["value"] for sample in samples if sample["device"] == 0}
    assert (values["gpu_energy"], values["gpu_ecc_corrected"], values["gpu_ecc_uncorrected"], values["gpu_throttle_reasons"],
            values["gpu_power"]) == (123456, 7, 1, 0, 215000)
    assert "nvml" not in pitot("info", tmp_path / "m.pitot").stdout
    assert "GPU 0 utilization" in pitot("report", tmp_path / "m.pitot").stdout


def test_doctor(pitot, machine, build):
    (machine / "opt/rocm/lib").mkdir(parents=True)
    shutil.copy(build / "standin/rocm/lib/librocprofiler-sdk.so.1", machine / "opt/rocm/lib/librocprofiler-sdk.so.1.0.0")

    def checks(**env):
        result = pitot("doctor", "--json", env={"PITOT_AMD_ROOT": str(machine), **env}, status=None)
        return {c["name"]: (c["state"], c["detail"]) for c in json.loads(result.stdout)["checks"] if c["vendor"] == "AMD"}, result

    found, result = checks()
    assert found["driver"] == ("ok", "amdgpu 6.8.5, 1 GPU (`pitot devices`)")
    assert found["ROCm"] == ("ok", "ROCm 7.0.2-56, ROCprofiler-SDK 1.0.0")
    assert found["/dev/kfd"][0] == "ok"
    assert found["GPU work"][0] == "limited" and "ROCprofiler-SDK 1.0.0; not yet run on AMD hardware" in found["GPU work"][1]
    (machine / "dev/kfd").unlink()
    shutil.rmtree(machine / "opt")
    shutil.rmtree(machine / "sys/class")
    found, result = checks()
    assert found["driver"] == ("missing", "the kernel driver amdgpu is loaded, but shows no GPU")
    assert found["/dev/kfd"][0] == "missing" and found["ROCm"] == ("limited", "no /opt/rocm")
    assert found["GPU work"][0] == "missing" and found["GPU work"][1].startswith("no ROCprofiler-SDK")
    assert {"start a container with --device /dev/kfd --device /dev/dri",
            "load the driver (modprobe amdgpu), or install a newer one"} <= {
                check["advice"] for check in json.loads(result.stdout)["checks"]}
    text = pitot("doctor", env={"PITOT_AMD_ROOT": str(machine)}, status=None).stdout
    assert "\nAMD\n" in text and "\nNVIDIA\n" in text
    shutil.rmtree(machine)
    if not os.path.exists("/dev/kfd") and not os.path.exists("/sys/module/amdgpu"):
        assert "AMD" not in pitot("doctor", status=None).stdout, "a vendor of whom nothing is there is not mentioned"
