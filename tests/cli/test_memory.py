"""pitot report --memory: goldens, and parts that add up."""
import gzip
import json

import pytest

from golden import check_golden
from perfetto_trace import Trace
from pprof import Pprof
from timeline_page import read_page

MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    for kind in "memory", "training", "varied", "names":
        make_recording(folder / f"{kind}.pitot", kind)
    return folder


def report(pitot, folder, name, *options):
    return json.loads(pitot("report", f"{name}.pitot", "--memory", "--json", *options, cwd=folder).stdout)


def test_golden(pitot, folder):
    text = pitot("report", "memory.pitot", "--memory", cwd=folder).stdout
    check_golden("report-memory.txt", text[text.index("\nmemory at its peak\n"):text.index("\nloss ")])


@pytest.mark.parametrize("name", ["memory", "training", "varied", "names"])
def test_parts_add_up_to_the_peaks(pitot, folder, name):
    found = report(pitot, folder, name)
    groups = {(g["pid"], g["device"], g["kind"]): g for g in found["memory"]}
    for curve in found["memory_peak"]["curves"]:
        of = curve["pid"], curve["device"], curve["kind"]
        assert curve["peak_bytes"] == groups[of]["peak_bytes"]
        assert max([curve["base_bytes"], *(point["bytes"] for point in curve["points"])]) == curve["peak_bytes"]
        for by in "by_line", "by_scope", "by_step", "by_size":
            parts = [part for part in found["memory_peak"][by] if (part["pid"], part["device"], part["kind"]) == of]
            assert sum(part["bytes"] for part in parts) == curve["peak_bytes"]
        live = [part for part in found["memory_peak"]["live"] if (part["pid"], part["device"], part["kind"]) == of]
        assert sum(part["bytes"] for part in live) == groups[of]["live_bytes"]


def test_known_sizes(pitot, folder):
    """What memory_recording.c allocates."""
    found = report(pitot, folder, "memory")
    curve = found["memory_peak"]["curves"][0]
    assert (curve["base_bytes"], curve["peak_bytes"]) == (100 * MIB, (100 + 768 + 200 + 9 * 4) * MIB)
    assert (curve["set_by"], curve["set_by_bytes"]) == ("train.py:20 forward", 200 * MIB)
    assert {part["name"]: part["bytes"] // MIB for part in found["memory_peak"]["by_scope"] if part["kind"] == "device"} == {
        "(outside of scopes)": 768, "step/forward": 200, "(before the recording)": 100, "step": 36}
    leak, = found["memory_steps"]["leaks"]
    assert (leak["name"], leak["step_bytes"], leak["steps"], leak["last_bytes"]) == ("train.py:40 log_loss", 4 * MIB, 10, 40 * MIB)
    assert {row["name"]: (row["allocations"], row["releases"], row["synchronizing"]) for row in found["memory_steps"]["churn"]} == {
        "train.py:20 forward": (10, 0, 0), "train.py:31 step": (0, 10, 0), "train.py:40 log_loss": (10, 0, 10)}
    gpu, = found["memory_peak"]["gpus"]
    assert gpu["unexplained_bytes"] == gpu["used_bytes"] - gpu["tracked_bytes"] == (1509 - 1104) * MIB
    assert found["steps"]["loops"][0]["count"] == 10


def test_without_the_option_and_without_allocations(pitot, folder, make_recording, tmp_path):
    assert json.loads(pitot("report", "memory.pitot", "--json", cwd=folder).stdout)["memory_peak"] is None
    text = pitot("report", make_recording(tmp_path / "none.pitot", kernels=100), "--memory").stdout
    assert "no allocations in the recording" in text and "pitot record --memory" in text


def test_page_has_curves(pitot, folder, tmp_path):
    page = tmp_path / "x.html"
    pitot("report", "memory.pitot", "--memory", "-o", page, cwd=folder)
    html = page.read_text()
    assert html.count('<svg viewBox="0 0 960 82"') == 4 and "train.py:40 log_loss" in html


def test_flame_graphs_add_up_to_the_peaks(pitot, folder, tmp_path):
    """In all formats; the base has a frame of its own."""
    peaks = {f"{group['kind']}, device {group['device']}": group["peak_bytes"] for group in report(pitot, folder, "memory")["memory"]}
    said = pitot("flame", "memory.pitot", "--mode", "memory", "--json", cwd=folder, json_output=True)
    section, = said["sections"]
    assert section["total_bytes"] == sum(peaks.values()) and section["count"] == 15
    assert {node["name"]: node["total_bytes"] for node in section["nodes"] if node["parent"] == 0} == peaks

    def write(name):
        pitot("flame", "memory.pitot", "--mode", "memory", "-o", tmp_path / name, cwd=folder)
        return (tmp_path / name).read_bytes()

    lines = dict(line.rsplit(" ", 1) for line in write("x.folded").decode().splitlines())
    assert sum(map(int, lines.values())) == section["total_bytes"]
    assert lines["device, device 0;[before the recording]"] == str(100 * MIB)
    assert lines["device, device 0;log_loss (train.py:40)"] == str(36 * MIB)
    profile = Pprof(gzip.decompress(write("x.pb.gz")))
    assert ("memory_peak", "bytes") in profile.types and profile.sum("memory_peak") == section["total_bytes"]
    speedscope, = json.loads(write("x.speedscope.json"))["profiles"]
    assert speedscope["unit"] == "bytes" and sum(speedscope["weights"]) == section["total_bytes"]
    thread, = json.loads(write("x.json"))["threads"]
    assert thread["samples"]["weightType"] == "bytes" and sum(thread["samples"]["weight"]) == section["total_bytes"]
    assert b"log_loss" in write("x.svg") and b"kind-memory" in write("x.html")
    early = pitot("flame", "memory.pitot", "--mode", "memory", "--until", "3500us", "--json", cwd=folder, json_output=True)
    assert early["sections"][0]["total_bytes"] == (768 + 64) * MIB


def test_flame_without_memory(pitot, make_recording, tmp_path):
    made = make_recording(tmp_path / "none.pitot", kernels=100)
    assert "pitot record --memory" in pitot("flame", made, "--mode", "memory", "-o", tmp_path / "x.svg", status=1).stderr


def test_sql_has_the_same_owners(pitot, folder):
    found = report(pitot, folder, "memory")
    query = "SELECT at, part, kind, name, bytes, count FROM memory_owner"
    rows = [tuple(row.values()) for row in map(json.loads, pitot("sql", "memory.pitot", query, "--json", cwd=folder).stdout.splitlines())]
    wanted = [("peak", by, part["kind"], part["name"], part["bytes"], part["count"])
              for by in ("line", "scope", "step", "size") for part in found["memory_peak"][f"by_{by}"]]
    wanted += [("end", "line", part["kind"], part["name"], part["bytes"], part["count"]) for part in found["memory_peak"]["live"]]
    assert sorted(rows) == sorted(wanted)
    leak = json.loads(pitot("sql", "memory.pitot", "SELECT name, step_bytes FROM memory_leak", "--json", cwd=folder).stdout)
    assert leak == {"name": "train.py:40 log_loss", "step_bytes": 4 * MIB}


def test_exports_have_the_levels(pitot, folder, tmp_path):
    """The page, Chrome JSON and Perfetto: a level after each event, whose highest is the peak."""
    peaks = {f"memory: {group['kind']}, GPU 0": group["peak_bytes"] for group in report(pitot, folder, "memory")["memory"]}
    for name in "x.html", "x.json", "x.perfetto-trace":
        pitot("export", "memory.pitot", "-o", tmp_path / name, cwd=folder)
    found = {"page": {}, "chrome": {}, "perfetto": {}}
    for (_, name), readings in read_page(tmp_path / "x.html")[2].items():
        found["page"][name] = [value for _, value in readings]
    for event in json.loads((tmp_path / "x.json").read_text())["traceEvents"]:
        if event["ph"] == "C":
            found["chrome"].setdefault(event["name"], []).append(next(iter(event["args"].values())))
    for (_, name), readings in Trace((tmp_path / "x.perfetto-trace").read_bytes()).counters.items():
        found["perfetto"][name] = [value for _, value in readings]
    for format, levels in found.items():
        levels = {name: values for name, values in levels.items() if name.startswith("memory: ")}
        assert {name: max(values) for name, values in levels.items()} == peaks, format
        assert levels == {name: found["page"][name] for name in peaks}, format
    assert len(found["page"]["memory: device, GPU 0"]) == 32
