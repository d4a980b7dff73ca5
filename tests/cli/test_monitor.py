"""pitot monitor: the machine, and GPUs that a stand-in for NVML shows."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from screen_model import Terminal
from waiting import wait_until

SHORT = ("--interval", "50ms", "--duration", "150ms")


@pytest.fixture
def nvml(build):
    """Variables with which the program finds the stand-in: nvml("throttle=4")."""
    def use(script=""):
        return {"LD_LIBRARY_PATH": str(build / "tests/unit/capture/nvml/whole"), "NVML_STANDIN": script}

    return use


def has_driver():
    return os.path.exists("/proc/driver/nvidia/version")


def objects(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_of_gpus(pitot, nvml):
    first, *_, last = objects(pitot("monitor", "--json", *SHORT, env=nvml("throttle=39 xid=79")))
    zero, one = last["gpus"]
    assert (zero["name"], zero["gpu_utilization"], zero["gpu_power"]) == ("Stand-in 1", 97, 700.123)
    assert zero["throttled_by"] == ["power limit", "thermal slowdown"] and one["throttled_by"] == []
    assert "gpu_utilization" not in one and one["gpu_power"] == 1400.246, "what is not there is not 0"
    assert zero["gpu_sm_active"] == 2.4 and zero["gpu_pcie_received_per_s"] == 0
    assert "gpu_pcie_received_per_s" not in first["gpus"][0], "a rate needs two readings"
    assert first["gpus"][0]["gpu_xid"] == 79 and "gpu_xid" not in zero, "an event is told once"
    known, unknown = zero["processes"]
    assert known["name"] == "pitot" and known["memory_bytes"] == 123 << 20
    assert unknown["name"] is None and "memory_bytes" not in unknown
    assert last["monotonic_ns"] > first["monotonic_ns"]


def test_more_processes_than_are_listed(pitot, nvml):
    """NVML gives none at all if there is no room for all of them."""
    for processes in 16, 17, 1000:
        *_, last = objects(pitot("monitor", "--json", *SHORT, env=nvml(f"processes={processes}")))
        assert last["gpus"][0]["gpu_processes"] == processes
        assert [entry["name"] for entry in last["gpus"][0]["processes"]] == ["pitot"] + [None] * 15


def test_json_of_the_machine(pitot):
    *_, last = objects(pitot("monitor", "--json", *SHORT))
    host = last["host"]
    with open("/proc/meminfo") as file:
        total = int(file.readline().split()[1]) << 10
    assert host["host_memory_used"] + host["host_memory_available"] == total
    assert 0 <= host["host_cpu_busy_per_s"] <= len(host["processors"]) * 1.5
    assert len(host["processors"]) == os.cpu_count()


def test_without_a_driver(pitot):
    if has_driver():
        pytest.skip("there is one")
    result = pitot("monitor", *SHORT)
    assert "no GPUs: libnvidia-ml.so.1 cannot be loaded" in result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) >= 2 and all(line[8:13] == " CPU " for line in lines)


@pytest.mark.parametrize("script, said", [
    ("init_status=18", "nvmlInit_v2 failed: the driver and its library have different versions"),
    ("init_status=9", "nvmlInit_v2 failed: driver not loaded")])
def test_nvml_that_does_not_start(pitot, nvml, script, said):
    result = pitot("monitor", "--json", *SHORT, env=nvml(script))
    assert said in result.stderr and all(line["gpus"] == [] for line in objects(result))


def test_lines(pitot, nvml):
    zero, one, host, *_ = pitot("monitor", *SHORT, env=nvml("throttle=39")).stdout.splitlines()
    assert zero.endswith("GPU 0: use 97%, memory 953.7 MiB / 140.4 GiB, power 700 W / 700, SM clock 1980 MHz, 41 C, "
                         "throttled by: power limit, thermal slowdown"), "idleness and settings hold nothing down"
    assert "GPU 1: use -" in one and "throttled" not in one and " processor" in host


def test_a_lost_gpu(pitot, nvml):
    *_, last = objects(pitot("monitor", "--json", *SHORT, env=nvml("power_status=15")))
    assert [gpu["lost"] for gpu in last["gpus"]] == [True, True]
    assert "gpu_power" not in last["gpus"][0]
    first, *_, last = objects(pitot("monitor", "--json", *SHORT, env=nvml("lost_after=3 xid=79")))
    assert not first["gpus"][0]["lost"] and first["gpus"][0]["gpu_power"] and last["gpus"][0]["lost"]
    assert not [key for key in last["gpus"][0] if key.startswith("gpu_")], "what it said before it was lost is not what it says"
    lines = pitot("monitor", *SHORT, env=nvml("power_status=15")).stdout
    assert "throttled by: the GPU is lost" in lines


def test_what_is_missing_has_a_reason(pitot, nvml):
    said = pitot("monitor", "-v", *SHORT, env=nvml("power_status=4")).stderr
    assert "GPU 0 has no gpu_power: no permission" in said
    assert "GPU 1 has no gpu_utilization, gpu_memory_utilization: not supported" in said


def test_a_terminal(terminal, program, environment, nvml):
    environment.update(nvml("throttle=4"))
    for columns in 40, 80, 200:
        said = terminal([program, "monitor", *SHORT], columns)
        frames = said.split("\033[J")
        assert len(frames) >= 2
        for frame in frames[1:-1]:
            moved = frame.rsplit("\033[", 1)[1]
            body = frame.rsplit("\033[", 1)[0]
            assert moved == f"{body.count(chr(10))}A", "the cursor goes back to the first line"
        plain = frames[-1].replace("\033[2m", "").replace("\033[0m", "")
        assert "power limit" in plain and "97%" in plain and ("Stand-in 1" in plain) == (columns == 200)
        assert all(len(line) <= columns for line in plain.splitlines()), plain
    environment["TERM"] = "dumb"
    assert "\033[" not in terminal([program, "monitor", *SHORT], 80)


def test_keys(program, environment, nvml, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what others record may be dumped
    environment.update(nvml(), TERM="xterm")
    terminal = Terminal([program, "monitor", "--interval", "100ms", "-o", tmp_path / "m.pitot"], environment, 140, 40)
    try:
        terminal.wait(lambda s: "c capture a step  ? all keys  q quit" in s.text() and "97%" in s.text(), "the table, and the keys")
        terminal.type("?m")
        terminal.wait(lambda s: "keys: m mark, d dump the last 30 s of the ring, c capture a step, e capture a step with hardware counters, q quit"
                      in s.text() and "mark 1" in s.text(),
                      "the help, and a mark")
        terminal.wait(lambda s: s.text().rstrip().endswith("q quit"), "the table is drawn below")
        terminal.type("d")
        terminal.wait(lambda s: any(said in s.text() for said in ("being recorded", "are recording", "segment", "on the disk", "made no dump")),
                      "what `pitot dump` says")
        terminal.type("q")
        terminal.end()
    finally:
        terminal.close()
    assert [row["message"] for row in rows(tmp_path / "m.pitot", "nvtx", "-c", "kind,message")] == ["mark 1"]


def test_a_key_measures_a_step(program, environment):
    """Of the only prepared program; other tests may have theirs."""
    terminal = Terminal([program, "monitor", "--interval", "100ms"], {**environment, "TERM": "xterm"}, 160, 40)
    try:
        terminal.wait(lambda s: "q quit" in s.text(), "the table")
        terminal.type("e")
        terminal.wait(lambda s: any(said in s.text() for said in ("is being recorded", "such processes", "waiting for 1 step", "was not prepared")),
                      "what `pitot capture` says")
        terminal.type("q")
        terminal.end()
    finally:
        terminal.close()


def test_a_mark_needs_a_recording(program, environment):
    terminal = Terminal([program, "monitor", "--interval", "100ms"], {**environment, "TERM": "xterm"}, 100, 40)
    try:
        terminal.wait(lambda s: "q quit" in s.text(), "the table")
        terminal.type("m")
        terminal.wait(lambda s: "a mark needs a recording: -o DIR" in s.text(), "why there is none")
        terminal.type("q")
        terminal.end()
    finally:
        terminal.close()


def test_a_recording(pitot, nvml, tmp_path):
    path = tmp_path / "m.pitot"
    end = pitot("monitor", "-o", path, *SHORT, env=nvml("throttle=39 xid=79"))
    assert not end.stdout and f"next: pitot report {path}" in end.stderr
    known = json.loads((path / "recording.json").read_text())
    assert (known["engine"], known["state"], known["command"]) == ("monitor", "complete", ["pitot", "monitor"])
    info = pitot("info", path, "--json", json_output=True)
    assert [device["name"] for device in info["devices"]] == ["Stand-in 1", "Stand-in 2"]
    assert info["devices"][0]["multiprocessors"] is None and info["devices"][0]["clock_khz"] == 1980000
    [process] = info["processes"]
    assert process["command"] == "pitot monitor"
    rows = [json.loads(line) for line in pitot("view", path, "counter_sample", "--json").stdout.splitlines()]
    power = [row["value"] for row in rows if row["counter"] == "gpu_power" and row.get("device") == 1]
    assert len(power) >= 2 and set(power) == {1400246}
    times = {name: [row["time_ns"] for row in rows if row["counter"] == name and row.get("device") == 0] for name in ("gpu_energy", "gpu_limited_by_power", "gpu_power")}
    assert all(times[name][-1] >= times["gpu_power"][-1] for name in times), "sums that are read seldom are read at the end"
    assert all(row.get("device") is None for row in rows if row["counter"].startswith("host_"))
    assert sum(row["counter"] == "gpu_xid" for row in rows) == 1
    reasons = [row["reason"] for row in info["capabilities"] if row["name"] == "counters"]
    assert "GPU 1 has no gpu_utilization, gpu_memory_utilization, gpu_pcie_sent, " in reasons[0]
    text = pitot("report", path).stdout
    assert "pitot monitor records readings, and no work" in text
    assert re.search(r"^cost +collector \(own thread\) \S+ ms$", text, re.M), text
    for line in (r"GPU 1 power +1,400 W +1,400 W +1,400 W +1,400 W", r"0 +power limit +\S+ ms +0 ns", r"0 +thermal slowdown +\S+ ms +0 ns",
                 r"GPU 0 sm active +2\.4%", r"0 +79 +\S+ [mu]s", r"host memory used +\S+ [GM]iB"):
        assert re.search(rf"^ *{line}", text, re.M), (line, text)
    assert "host core" not in text and "idle" not in re.findall(r"throttled by.*?mean", text, re.S)[0]
    assert re.search(r"^ *0 +application clocks +\S+ ms", text, re.M)
    system = pitot("report", path, "--json", json_output=True)["system"]
    assert {"gpu": 0, "xid": 79}.items() <= system["errors"][0].items()
    assert any(counter["name"] == "host_core_0_busy" for counter in system["counters"])
    pitot("export", path, "-o", tmp_path / "x.json")
    with open(tmp_path / "x.json") as file:
        tracks = {(event["name"], event["pid"]) for event in json.load(file)["traceEvents"] if event["ph"] == "C"}
    assert {("gpu_power", "GPU 1 Counters"), ("host_cpu_busy", process["pid"])} <= tracks
    assert "exists" in pitot("monitor", "-o", path, *SHORT, status=1).stderr
    pitot("monitor", "-o", path, "--force", *SHORT)
    assert "its parent folder does not exist" in pitot("monitor", "-o", tmp_path / "no/x", *SHORT, status=1).stderr
    assert "cannot create '/proc/x': no folders can be created in its parent folder" in pitot("monitor", "-o", "/proc/x", *SHORT, status=1).stderr


def test_a_signal_ends_it(program, environment, tmp_path):
    """At once, also while it sleeps, with status 0 and a complete recording."""
    path = tmp_path / "m.pitot"
    process = subprocess.Popen([program, "monitor", "-o", path, "--interval", "1h"], env=environment, stderr=subprocess.DEVNULL)
    wait_until(lambda: list(path.glob("*.pit")), "the recording begins", process)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    assert json.loads((path / "recording.json").read_text())["state"] == "complete"


def test_a_driver_that_hangs(program, environment, nvml):
    """The first signal asks to end, which never comes; another one ends the program."""
    process = subprocess.Popen([program, "monitor"], env={**environment, **nvml("hang=1")}, stdout=subprocess.DEVNULL)

    def ended():
        process.send_signal(signal.SIGINT)
        return process.poll() is not None

    wait_until(ended, "a signal ends it")
    assert process.returncode == -signal.SIGINT


def test_bad_usage(pitot):
    assert "at least 10ms" in pitot("monitor", "--interval", "1ms", status=2).stderr
    assert pitot("monitor", "--interval", "0", status=2).stderr
    assert pitot("monitor", "x", status=2).stderr
