"""NVML's counters from a tape of a real GPU: what it said is in the recording, what it refused has a reason."""
import re
import subprocess

import pytest

GPU = {"gpu_utilization", "gpu_memory_utilization", "gpu_sm_clock", "gpu_memory_clock", "gpu_power", "gpu_temperature",
       "gpu_memory_used", "gpu_energy", "gpu_throttle_reasons"}


@pytest.fixture
def counters(record, rows, tmp_path):
    """counters("call nvmlInit_v2 returns 9"): values by counter, and the row that says what came and what did not."""
    def play(fault, options="stacks=none"):
        script = tmp_path / "faults"
        script.write_text(fault + "\n")
        recording = record("train", "counters_ns=100000000;" + options, "--now", "--faults", str(script))
        values = {}
        for row in rows(recording, "counter_sample"):
            values.setdefault(row["counter"]["name"] if isinstance(row["counter"], dict) else row["counter"],
                              []).append(row["value"])
        return values, [row for row in rows(recording, "capability") if row["name"] == "nvml"][-1]

    return play


def said(build, source, function):
    """What a function gave on the tape."""
    dump = subprocess.run([build / "standin" / "tape-dump", source / "tests/data/tapes/train.tape"], capture_output=True,
                          text=True, check=True).stdout
    return {int(n) for n in re.findall(rf"CALL {function}\(.*gives (\d+)\n", dump)}


def test_all_values_of_a_gpu(counters, build, source):
    values, capability = counters("# none")
    assert set(values) == GPU and capability["state"] == "on" and capability.get("reason") is None
    assert set(values["gpu_power"]) <= said(build, source, "nvmlDeviceGetPowerUsage")
    assert set(values["gpu_energy"]) <= said(build, source, "nvmlDeviceGetTotalEnergyConsumption")
    assert set(values["gpu_sm_clock"] + values["gpu_memory_clock"]) <= said(build, source, "nvmlDeviceGetClockInfo")
    assert len(values["gpu_energy"]) < len(values["gpu_power"]), "energy is dear"


def test_a_counter_that_the_gpu_does_not_have(counters):
    values, capability = counters("call nvmlDeviceGetPowerUsage returns 3")
    assert set(values) == GPU - {"gpu_power"}
    assert (capability["state"], capability["reason"]) == ("degraded", "device 0 has no gpu_power: not supported")


def test_a_library_that_lacks_a_function(counters):
    values, capability = counters("missing nvmlDeviceGetTotalEnergyConsumption")
    assert set(values) == GPU - {"gpu_energy"}
    assert capability["reason"] == "device 0 has no gpu_energy: function not found"


def test_nvml_that_does_not_start(counters):
    values, capability = counters("call nvmlInit_v2 returns 9")
    assert not values
    assert (capability["state"], capability["reason"]) == ("unavailable", "nvmlInit_v2 failed: driver not loaded")


def test_system_all_reads_machine_and_process(counters):
    """What the stand-in does not have is absent, in one list; the machine and the process are there."""
    values, capability = counters("# none", "stacks=none;system=all")
    assert GPU < set(values)
    assert {"host_cpu_busy", "host_core_0_busy", "host_memory_used", "process_cpu", "process_memory"} <= set(values)
    assert not {name for name in values if name.startswith("gpu_")} - GPU
    assert capability["state"] == "degraded"
    assert capability["reason"].startswith("device 0 has no gpu_power_limit, gpu_memory_temperature, gpu_pcie_sent, ")
    for name in "process_cpu", "host_cpu_busy", "host_context_switches":
        assert values[name] == sorted(values[name]) and values[name][-1] > 0
