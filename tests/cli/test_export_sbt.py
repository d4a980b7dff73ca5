"""`pitot export --format sbt`: read by an independent reader, by TraceSmith's own, and by `pitot import`."""
import json
import os
import pathlib
import subprocess
from collections import Counter

import pytest

from sbt_bytes import BEGIN, DTOH, END, HTOD, KERNEL, MARK, SET, STREAM, Reader, Sbt

# Prints what TraceSmith's reader finds: type, timestamp, duration, stream, correlation id, frames, bytes of the name.
PROGRAM = """
#include <cstdio>
#include "tracesmith/format/sbt_format.hpp"
int main(int, char **argv)
{
	tracesmith::SBTReader reader(argv[1]);
	tracesmith::TraceRecord record;
	if (!reader.isOpen() || !reader.isValid() || !reader.readAll(record))
		return 1;
	std::printf("%s|%s|%u\\n", record.metadata().application_name.c_str(), record.metadata().command_line.c_str(), record.metadata().process_id);
	for (const auto &e : record.events())
		std::printf("%d %llu %llu %u %llu %zu %zu\\n", (int)e.type, (unsigned long long)e.timestamp, (unsigned long long)e.duration, e.stream_id,
			    (unsigned long long)e.correlation_id, e.call_stack ? e.call_stack->frames.size() : 0, e.name.size());
}
"""


@pytest.fixture
def view(pitot):
    def rows(recording, table, *columns):
        lines = pitot("view", recording, table, "--json", "--quiet", *(["-c", ",".join(columns)] if columns else [])).stdout
        return [json.loads(line) for line in lines.splitlines()]

    return rows


KINDS = [{"kind": "varied"}, {"kernels": 3000, "stacks": 9}, {"kernels": 900, "pattern": "copies"}, {"kernels": 2500, "pattern": "graph"},
         {"kernels": 800, "processes": 3, "pattern": "threads"}]


@pytest.fixture(params=KINDS, ids=lambda options: "-".join(map(str, options.values())))
def exported(request, pitot, make_recording, tmp_path):
    """A recording and its SBT file."""
    recording = make_recording(tmp_path / "r.pitot", **request.param)
    pitot("export", recording, "-o", "r.sbt")
    return recording, tmp_path / "r.sbt"


def timed(rows):
    return [list(row.values()) for row in rows if row["duration_ns"] is not None]


def test_every_kernel_once(exported, view):
    recording, path = exported
    found = Reader(path.read_bytes())
    kernels = [v for v in found.events if v["type"] == KERNEL]
    rows = timed(view(recording, "kernel", "config", "duration_ns", "start_ns", "config.grid_x", "config.block_x"))
    offset = min((row[2] for row in rows), default=0) - min((v["time"] for v in kernels), default=0)
    assert Counter((v["name"], v["duration"], v["time"] + offset, *(v["kernel"] or [None] * 8)[0:4:3]) for v in kernels) == Counter(map(tuple, rows))
    times = [v["time"] for v in found.events]
    assert times == sorted(times) and all(v["correlation"] for v in kernels)
    processes = view(recording, "process", "command", "host", "pid")
    assert [found.metadata[1], found.metadata[4], found.metadata[5]] in [list(p.values()) for p in processes]
    assert {d[1] for d in found.devices} == {d["name"] for d in view(recording, "device")}


def test_it_comes_back(pitot, exported, view):
    """What SBT has is as it was: durations, sizes, names, threads, stacks of launches."""
    recording, path = exported
    pitot("import", "r.sbt", "-o", "back.pitot")
    for table, columns in {"kernel": ("config", "duration_ns", "config.grid_x", "config.registers"), "memcpy": ("duration_ns", "bytes"),
                           "memset": ("duration_ns", "bytes"), "synchronization": ("duration_ns", "kind")}.items():
        before, after = (Counter(map(tuple, timed(view(path, table, *columns)))) for path in (recording, "back.pitot"))
        assert before == after, table
    ranges = [Counter(row["message"] for row in view(path, "nvtx", "kind", "message") if row["kind"] in ("push", "start", "mark"))
              for path in (recording, "back.pitot")]
    losses = sum(v["name"].startswith(("loss: ", "overhead: ", "graph")) or v["name"].startswith("event ") for v in Reader(path.read_bytes()).events)
    assert not ranges[0] - ranges[1] and sum((ranges[1] - ranges[0]).values()) <= losses
    assert any(v.get("frames") for v in Reader(path.read_bytes()).events) == any(row["stack"] for row in view("back.pitot", "api_call", "stack"))


def test_round_trip_of_sbt(pitot, view, tmp_path):
    """Types, streams of two GPUs with one number, ranges that cross, and no stack."""
    s = Sbt().event(KERNEL, "a", 0, 10, device=0, correlation=1, kernel=range(1, 9)).event(KERNEL, "b", 5, 10, device=1, correlation=2)
    s.event(HTOD, "c", 20, 5, memory=(0, 0, 64)).event(DTOH, "c", 30, 5).event(SET, "s", 40, 5, memory=(0, 0, 32)).event(STREAM, "w", 50, 5)
    s.event(BEGIN, "x", 60, thread=1, correlation=1).event(MARK, "m", 70, thread=1).event(END, "x", 80, thread=1, correlation=1)
    (tmp_path / "a.sbt").write_bytes(bytes(s))
    pitot("import", "a.sbt", "-o", "a.pitot")
    pitot("export", "a.pitot", "-o", "b.sbt")
    events = Reader((tmp_path / "b.sbt").read_bytes()).events
    work = [(v["type"], v["device"], v["duration"], v["memory"] and v["memory"][2]) for v in events]
    assert work == [(KERNEL, 0, 10, None), (KERNEL, 1, 10, None), (HTOD, 0, 5, 64), (DTOH, 0, 5, None), (SET, 0, 5, 32), (STREAM, 0, 5, None),
                    (BEGIN, 0, None, None), (MARK, 0, None, None), (END, 0, None, None)]
    assert events[0]["stream"] == 7 and events[1]["stream"] > 65535 and events[0]["kernel"] == list(range(1, 9))
    assert [v["time"] for v in events] == [s.base + at for at in (0, 5, 20, 30, 40, 50, 60, 70, 80)]


@pytest.fixture(scope="session")
def tracesmith(tmp_path_factory):
    """TraceSmith's reader, of its source package (tracesmith 0.8.3), as a program."""
    source = os.environ.get("PITOT_TRACESMITH")
    if not source:
        pytest.skip("PITOT_TRACESMITH does not name the unpacked source package of TraceSmith")
    folder = tmp_path_factory.mktemp("tracesmith")
    (folder / "read.cpp").write_text(PROGRAM)
    subprocess.run(["c++", "-std=c++17", f"-I{source}/include", folder / "read.cpp", *pathlib.Path(source, "src/format").glob("*.cpp"),
                    "-o", folder / "read"], check=True)
    return folder / "read"


def test_tracesmiths_own_reader(exported, tracesmith):
    _, path = exported
    found = Reader(path.read_bytes())
    head, *lines = subprocess.run([tracesmith, path], capture_output=True, text=True, check=True).stdout.splitlines()
    assert head == f"{found.metadata[0]}|{found.metadata[1]}|{found.metadata[5]}"
    assert lines == [f"{v['type']} {v['time']} {v['duration'] or 0} {v['stream']} {v['correlation']} {len(v.get('frames', []))} {v['bytes']}"
                     for v in found.events]
