"""The sums of every view of a recording are the sums of what CUPTI said on the tape."""
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "cli"))
TAPES = sorted(path.stem for path in (Path(__file__).parent.parent / "data" / "tapes").glob("*.tape"))
TABLES = {"CONCURRENT_KERNEL": "kernel", "MEMCPY": "memcpy", "MEMSET": "memset", "GRAPH_TRACE": "graph_launch",
          "SYNCHRONIZATION": "synchronization", "OVERHEAD": "overhead", "CUDA_EVENT": "cuda_event",
          "MEMORY2": "allocation", "MEMORY_POOL": "memory_pool"}
CATEGORIES = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "cuda_graph": "graph_launch"}


@pytest.fixture(params=TAPES)
def played(request, build, source, record):
    """A recording with all that is on a tape, and how many of what and how long the tape says: {table: (count, ns)}."""
    path = source / "tests" / "data" / "tapes" / f"{request.param}.tape"
    options = "sync=1;memory=1;api=all" + (";graphs=launch" if "graphs" in request.param else "")
    recording = record(request.param, options)
    summary = subprocess.run([build / "standin" / "tape-dump", "--summary", path], capture_output=True, text=True,
                             check=True).stdout
    tape = dict.fromkeys(TABLES.values(), (0, 0))
    for words in map(str.split, summary.splitlines()):
        if len(words) == 4 and words[0] in TABLES:
            tape[TABLES[words[0]]] = (int(words[1]), int(words[2]))
    return recording, tape


@pytest.fixture
def recorded(played, rows):
    """The same of the recording's rows, which CUPTI's clock and CLOCK_MONOTONIC may make a little longer or shorter."""
    recording, tape = played
    sums = {}
    for table, (count, total_ns) in tape.items():
        found = rows(recording, table)
        sums[table] = (len(found), sum(row["end_ns"] - row["start_ns"] for row in found if "end_ns" in row))
        assert sums[table][0] == count, table
        assert sums[table][1] == pytest.approx(total_ns, rel=1e-4, abs=2 * count), table  # both ends are rounded
    assert sums["kernel"][0] > 0
    return recording, sums


def test_report(recorded, pitot):
    recording, sums = recorded
    for by in ("kernel", "config", "stream", "device", "thread", "scope", "caller"):
        hotspots = pitot("report", recording, "--json", "--by", by, json_output=True)["hotspots"]
        assert (hotspots["kernels"], hotspots["total_ns"]) == sums["kernel"]
        times = [item["time"] for item in hotspots["items"]]
        assert (sum(t["count"] for t in times), sum(t.get("total_ns", 0) for t in times)) == sums["kernel"]
    report = pitot("report", recording, "--json", json_output=True)
    for key, table in (("kernels", "kernel"), ("copies", "memcpy"), ("sets", "memset"), ("graphs", "graph_launch")):
        parts = [gpu["busy"][key] for gpu in report["gpus"]]
        assert (sum(p["count"] for p in parts), sum(p["sum_ns"] for p in parts)) == sums[table]
    for of_sets, table in ((False, "memcpy"), (True, "memset")):
        groups = [group for group in report["copies"] if group["set"] == of_sets]
        assert (sum(g["count"] for g in groups), sum(g["total_ns"] for g in groups)) == sums[table]
    ranges = report["nvtx"]
    if ranges["items"]:
        assert ranges["gpu_ns"] == sum(ns for table, (_, ns) in sums.items() if table in CATEGORIES.values())
    if any(item["name"] == "step 0" for item in ranges["items"]):  # no others are outermost
        steps = sum(item["gpu_ns"] for item in ranges["items"] if item["name"].startswith("step"))
        assert 0 < steps == ranges["gpu_ns"] - ranges["outside_ns"]
    assert report["cost"]["cupti_overhead_ns"] == sums["overhead"][1]
    assert report["loss"] == []


def test_a_tape_knows_no_cost(record, pitot, rows):
    """Its clock stands still inside of calls and jumps between them: what was measured by it is left out, as capability `cost` says."""
    recording = record("launch", "", "--now")
    cost = pitot("report", recording, "--json", json_output=True)["cost"]
    assert set(cost) == {"collector", "target_ns", "cupti_overhead_ns"} and cost["target_ns"] is None
    assert [row["state"] for row in rows(recording, "capability") if row["name"] == "cost"] == ["degraded"]
    text = " ".join(pitot("report", recording).stdout.split())
    assert re.search("cost collector .*; other costs are unknown, because the program did not run on the machine's clock", text)


def test_in_real_time_the_cost_is_known(record, pitot, rows):
    recording = record("launch", "", "--realtime")
    cost = pitot("report", recording, "--json", json_output=True)["cost"]
    assert {"callback", "setup", "exit"} < set(cost) and 0 < cost["callback"]["total_ns"] <= cost["target_ns"]
    assert "cost" not in [row["name"] for row in rows(recording, "capability")]


def test_what_was_written(played, rows):
    """All but the row that says so, and the end of the file."""
    recording, _ = played
    written = sum(row["bytes"] for row in rows(recording, "cost") if row["kind"] == "write")
    size = sum(path.stat().st_size for path in recording.glob("*.pit"))
    assert size - 4096 < written < size


def test_chrome_json(recorded, pitot, tmp_path):
    recording, sums = recorded
    pitot("export", recording, "-o", tmp_path / "trace.json.gz")
    with gzip.open(tmp_path / "trace.json.gz") as file:
        events = json.load(file)["traceEvents"]
    for category, table in CATEGORIES.items():
        found = [round(event["dur"] * 1000) for event in events if event.get("cat") == category and event["ph"] == "X"]
        assert (len(found), sum(found)) == sums[table]


def test_perfetto(recorded, pitot, tmp_path):
    perfetto_trace = pytest.importorskip("perfetto_trace")
    recording, sums = recorded
    pitot("export", recording, "-o", tmp_path / "trace.pftrace")
    stages = perfetto_trace.Trace((tmp_path / "trace.pftrace").read_bytes()).stages
    work = [sums[table] for table in CATEGORIES.values()]
    assert len(stages) == sum(count for count, _ in work)
    assert sum(stage.duration for stage in stages) == sum(total_ns for _, total_ns in work)


def test_flame_graph(recorded, pitot):
    recording, sums = recorded
    sections = pitot("flame", recording, "--mode", "gpu", "--json", "-q", json_output=True)["sections"]
    work = [sums[table] for table in CATEGORIES.values()]
    assert sum(section["total_ns"] for section in sections) == sum(total_ns for _, total_ns in work)
    assert sum(section["count"] for section in sections) == sum(count for count, _ in work)


def test_what_is_outside_of_recorded_calls(pitot, record):
    """Nobody knows what else of CUDA a thread called, unless there are calls of other kinds (--api all), which no tape has."""
    assert "outside recorded calls" in pitot("report", record("kinds", "")).stdout


def test_the_slow_start_of_a_training_is_told_apart(pitot, record):
    """Its first step loads modules; the others are bound by launches."""
    recording = record("train", "")
    text = " ".join(pitot("report", recording).stdout.split())
    assert "verdict host-bound; after its start-up launch-bound" in text
    assert ">verdict: host-bound; after its start-up launch-bound</h2>" in pitot("report", recording, "-o", "-").stdout
    since = text.split("(exclude it with --since ")[1].split(")")[0]
    verdict = pitot("report", recording, "--json", "--since", since, json_output=True)["verdict"]
    assert (verdict["kind"], verdict["start_up"]) == ("launch", None)


def test_waits_for_other_than_events_have_no_record_of_one(record, rows):
    waits = rows(record("sync", "sync=1"), "synchronization", "-c", "kind,stream,event,event_record")
    assert {wait["kind"] for wait in waits} >= {"context", "stream", "event", "stream_wait_event"}
    for wait in waits:
        assert (wait["event"] is None) == (wait["event_record"] is None) == ("event" not in wait["kind"])
        assert (wait["stream"] is None) == (wait["kind"] in ("context", "event"))
