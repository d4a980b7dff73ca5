"""What an export says leads to the rows of the recording: every event, id, flow, lane, mapping and reading, both ways.

Over all tapes, played into the recorder, and over all recordings that the tests generate. Times are absolute: a recording
starts when its command did, in every format.
"""
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "cli"))
perfetto_trace = pytest.importorskip("perfetto_trace")

TAPES = sorted(path.stem for path in (Path(__file__).parent.parent / "data" / "tapes").glob("*.tape"))
GENERATED = {
    "varied": {"kind": "varied"},
    "sampled": {"kind": "cpu_all"},
    "processes": {"kernels": 900, "processes": 3, "stacks": 50},
    **{pattern: {"kernels": 900, "stacks": 30, "pattern": pattern}
       for pattern in ("train", "graph", "streams", "copies")},
}
WORK = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset", "graph_launch": "cuda_graph"}
MOVED = 10_000_000  # added to process ids that are taken


class Recording:
    """The rows of a recording, as `pitot view` has them, in ns of CLOCK_MONOTONIC."""

    def __init__(self, pitot, path):
        self.path, self.pitot, self.tables = path, pitot, {}
        self.info = pitot("info", path, "--json", json_output=True)
        self.start = self.info["start_monotonic_ns"]

    def __getitem__(self, table):
        if table not in self.tables:
            text = self.pitot("view", self.path, table, "--json", "-n", 0).stdout
            rows = [json.loads(line) for line in text.splitlines()]
            for row in rows:
                row.setdefault("pid", self.info["processes"][0]["pid"])
                for key in ("start_ns", "end_ns", "time_ns"):
                    if row.get(key) is not None:
                        row[key] += self.start
            self.tables[table] = rows
        return self.tables[table]

    def timed(self, table):
        """Rows of events that have their times: only those are exported."""
        return [row for row in self[table] if row["start_ns"] is not None and row["end_ns"] is not None]

    def work(self):
        return [(table, row) for table in WORK for row in self.timed(table)]


@pytest.fixture(params=[*TAPES, *GENERATED])
def recording(request, pitot, make_recording, tmp_path):
    if request.param in TAPES:
        play = request.getfixturevalue("record")
        options = "sync=1;memory=1" + (";graphs=launch" if "graphs" in request.param else "")
        return Recording(pitot, play(request.param, options))
    return Recording(pitot, make_recording(tmp_path / "made.pitot", **GENERATED[request.param]))


def only(counter):
    """Keys that are there once: what is there twice cannot be told apart by its key."""
    return {key for key, count in counter.items() if count == 1}


# --- Chrome JSON ---


class Chrome:
    def __init__(self, pitot, recording, folder):
        pitot("export", recording.path, "-o", folder / "trace.json", "--force")
        trace = json.loads((folder / "trace.json").read_text())
        assert trace["baseTimeNanoseconds"] == recording.info["start_unix_ns"]
        self.events = trace["traceEvents"]
        for event in self.events:
            event["start"] = recording.start + round(event["ts"] * 1000)
            event["end"] = event["start"] + round(event.get("dur", 0) * 1000)
        self.recording = recording
        self.bases = self._correlation_bases()
        self.sessions = sorted({(chrome - own, pid) for chrome, (pid, own) in self.bases.items()})

    def complete(self, *categories):
        return [event for event in self.events if event["ph"] == "X" and event["cat"] in categories]

    def calls(self):
        return self.complete("cuda_runtime", "cuda_driver")

    def _correlation_bases(self):
        """What was added to the correlation ids of each session: {chrome's id: (pid, the row's id)} of its calls."""
        def key(pid, thread, start, end):
            return pid % MOVED, thread, start, end

        rows = self.recording["api_call"]
        assert Counter((row["pid"], row["start_ns"], row["end_ns"]) for row in rows) == \
            Counter((call["pid"] % MOVED, call["start"], call["end"]) for call in self.calls())
        known = Counter(key(row["pid"], row["thread"], row["start_ns"], row["end_ns"]) for row in rows)
        by_key = {key(row["pid"], row["thread"], row["start_ns"], row["end_ns"]): row for row in rows}
        found = {}
        for call in self.calls():
            place = key(call["pid"], call["tid"], call["start"], call["end"])
            if known.get(place) == 1:  # others are on a further lane
                row = by_key[place]
                assert row["function"].startswith(call["name"])
                assert found.setdefault(call["args"]["correlation"], (row["pid"], row["correlation"])) == \
                    (row["pid"], row["correlation"]), "one id for two"
        assert len(set(found)) == len(found)
        return found

    def session(self, correlation):
        """Base and pid of the session that has an id; None where it has no calls."""
        below = [base for base in self.sessions if base[0] < correlation]
        return below[-1] if below else None


def check_chrome_work_leads_to_one_row_each(recording, chrome):
    """And each lane to one stream of one context of one process."""
    lanes, named = defaultdict(set), defaultdict(set)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in chrome.events if e["name"] == "thread_name"}
    for table, category in WORK.items():
        found = []
        for event in chrome.complete(category):
            args = event["args"]
            session = chrome.session(args["correlation"])
            pid, own = (session[1], args["correlation"] - session[0]) if session else (None, args["correlation"])
            found.append((pid, event["start"], event["end"], args["device"], args["context"], args["stream"], own))
            lanes[event["pid"], event["tid"]].add((pid, args["context"], args["stream"]))
            named[event["pid"], names[event["pid"], event["tid"]]].add((pid, args["context"], args["stream"]))
            assert event["pid"] == args["device"]
        rows = [(row["pid"] if chrome.bases else None, row["start_ns"], row["end_ns"], row["device"], row["context"],
                 row["stream"], row["correlation"]) for row in recording.timed(table)]
        assert Counter(found) == Counter(rows), table
    assert all(len(streams) == 1 for streams in (*lanes.values(), *named.values())), named


def check_chrome_flows_connect_a_call_with_its_work(recording, chrome):
    starts, ends = {}, Counter()
    work = Counter((e["pid"], e["tid"], e["start"], e["args"]["correlation"])
                   for e in chrome.complete(*WORK.values(), "cuda_sync"))
    calls = Counter((e["pid"], e["tid"], e["start"], e["args"]["correlation"]) for e in chrome.calls())
    for event in chrome.events:
        place = event["pid"], event["tid"], event["start"], event.get("id")
        if event["ph"] == "s":
            assert calls[place] and event["id"] not in starts
            starts[event["id"]] = event
        elif event["ph"] == "f":
            assert work[place]
            ends[event["id"]] += 1
    assert set(starts) == set(ends)
    of_calls = {call[3] for call in calls}
    launched = Counter(id for _, _, _, id in work.elements() if id in of_calls)
    assert ends == launched, "each work of a recorded call has one arrow, from that call"
    for id, event in starts.items():
        assert chrome.bases.get(id, (event["pid"] % MOVED,))[0] == event["pid"] % MOVED


def check_chrome_waits(recording, chrome):
    rows = recording.timed("synchronization")
    found = chrome.complete("cuda_sync")
    assert Counter((e["start"], e["end"], e["args"]["context"], e["args"]["stream"]) for e in found) == \
        Counter((r["start_ns"], r["end_ns"], r["context"], -1 if r["stream"] is None else r["stream"]) for r in rows)
    lanes = defaultdict(set)
    for event in found:
        session = chrome.session(event["args"]["correlation"])
        lanes[event["pid"], event["tid"]].add((session, event["args"]["context"], event["args"]["stream"]))
    assert all(len(streams) == 1 for streams in lanes.values()), lanes
    assert not set(lanes) & {(e["pid"], e["tid"]) for e in chrome.complete(*WORK.values())}


def check_chrome_ranges_readings_and_the_rest(recording, chrome):
    nvtx = {kind: [(r["time_ns"], r["message"] or "(no message)") for r in recording["nvtx"] if r["kind"] == kind]
            for kind in ("push", "start", "mark")}
    assert Counter((e["start"], e["name"]) for e in chrome.complete("user_annotation")) == Counter(nvtx["push"])
    for phase in "be":
        pairs = [e for e in chrome.events if e["ph"] == phase and e.get("cat") == "nvtx_range"]
        assert sorted(e["name"] for e in pairs) == sorted(name for _, name in nvtx["start"])
        assert len({e["id"] for e in pairs}) == len(pairs)
    marks = [e for e in chrome.events if e["ph"] == "i" and e.get("cat") == "cpu_instant_event"]
    assert Counter((e["start"], e["name"]) for e in marks if e["name"] != "loss" and "loss: " not in e["name"]
                   and "address" not in str(e.get("args"))) >= Counter(nvtx["mark"])
    counters = [e for e in chrome.events if e["ph"] == "C"]
    check_memory(recording, [(e["name"], e["start"], float(value)) for e in counters if e["name"].startswith("memory: ")
                             for value in e["args"].values()])
    readings = [e for e in counters if not e["name"].startswith("memory: ")]
    assert Counter((e["start"], e["name"]) for e in readings) == \
        Counter((r["time_ns"], r["counter"]) for r in recording["counter_sample"])
    scale = {row["name"]: 10 ** row["decimals"] for row in recording["counter"]}
    for name, factor in scale.items():
        total = sum(r["value"] for r in recording["counter_sample"] if r["counter"] == name)
        shown = sum(float(value) for e in readings if e["name"] == name for value in e["args"].values())
        assert shown * factor == pytest.approx(total)
    assert Counter((e["start"], e["end"]) for e in chrome.complete("overhead")) == \
        Counter((r["start_ns"], r["end_ns"]) for r in recording.timed("overhead"))


# --- Perfetto ---


def stage_key(stage):
    return (stage.pid, stage.start, stage.start + stage.duration, stage.gpu, stage.args["stream"],
            stage.args["correlation"], stage.args.get("graph_id"), stage.args.get("graph_node_id"))


def row_key(row):
    return (row["pid"], row["start_ns"], row["end_ns"], row["device"], row["stream"], row["correlation"],
            row.get("graph"), row.get("graph_node"))


def rows_by_key(recording):
    return {row_key(row): row for _, row in recording.work()}


def check_perfetto_work_leads_to_one_row_each(recording, trace):
    """And each queue to one stream of one context of one process."""
    stages = [stage for stage in trace.stages if "event" not in stage.args]
    assert Counter(map(stage_key, stages)) == Counter(row_key(row) for _, row in recording.work())
    kernels = Counter(stage_key(stage) for stage in trace.kernels())
    assert kernels == Counter(row_key(row) for row in recording.timed("kernel") if row["config"])
    sizes = Counter((stage_key(stage), stage.args["bytes"]) for stage in stages if "bytes" in stage.args)
    assert sizes == Counter((row_key(row), row["bytes"]) for _, row in recording.work() if "bytes" in row)
    names = Counter((stage_key(stage), stage.kernel.name) for stage in trace.kernels())
    assert Counter((row_key(row), row["config"]) for row in recording.timed("kernel")
                   if row["config"] and row["config"].isprintable() and row["config"].isascii()) <= names
    rows, queues, streams = rows_by_key(recording), defaultdict(set), defaultdict(set)
    unique = only(Counter(map(stage_key, stages)))
    for stage in stages:
        if stage_key(stage) in unique:
            row = rows[stage_key(stage)]
            queues[stage.queue_iid].add((row["pid"], row["context"], row["stream"]))
            streams[row["pid"], row["context"], row["stream"]].add((stage.gpu, stage.queue, stage.queue_iid))
    assert all(len(found) == 1 for found in (*queues.values(), *streams.values())), (queues, streams)
    shown = Counter((gpu, name) for (gpu, name, _), in streams.values())
    assert set(shown.values()) <= {1}, "two queues have one name"


def check_perfetto_events_of_cuda_lead_to_one_row_each(recording, trace):
    found = [(s.pid, s.start, s.gpu, s.args["stream"], s.args["correlation"], s.args["event"])
             for s in trace.stages if "event" in s.args]
    assert Counter(found) == Counter((r["pid"], r["time_ns"], r["device"], r["stream"], r["correlation"], r["event"])
                                     for r in recording["cuda_event"] if r["time_ns"] is not None)


def check_perfetto_calls_lead_to_one_row_each(recording, trace):
    calls = [s for s in trace.slices if s.category in ("cuda_runtime", "cuda_driver")]
    assert Counter((c.pid, c.tid, c.start, c.end, c.notes["correlation"], c.notes.get("result")) for c in calls) == \
        Counter((r["pid"], r["thread"], r["start_ns"], r["end_ns"], r["correlation"], r["result"])
                for r in recording["api_call"])


def check_perfetto_flows_connect_a_call_with_its_work(recording, trace):
    stages = {stage.event_id: stage for stage in trace.stages}
    submitted = Counter(event for call in trace.slices for event in call.submitted)
    assert set(submitted.values()) <= {1}
    for call in trace.slices:
        for event in call.submitted:
            stage = stages[event]
            assert (call.pid, call.notes["correlation"]) == (stage.pid, stage.args["correlation"])
    known = {(row["pid"], row["correlation"]) for row in recording["api_call"]}
    linked = [event for event, stage in stages.items()
              if "event" not in stage.args and (stage.pid, stage.args["correlation"]) in known]
    assert set(linked) == set(submitted)


def check_perfetto_waits_end_with_the_last_work(recording, trace):
    stages = {stage.event_id: stage for stage in trace.stages}
    rows, waited = rows_by_key(recording), 0
    ends = defaultdict(list)
    for _, row in recording.work():
        ends[row["pid"], row["context"]].append((row["end_ns"], row["stream"]))
    waits = defaultdict(list)
    for row in recording.timed("synchronization"):
        waits[row["pid"], row["correlation"]].append(row)
    for call in trace.slices:
        for event in call.waited:
            row = rows[stage_key(stages[event])]
            fitting = [wait for wait in waits[call.pid, call.notes["correlation"]]
                       if wait["kind"] in ("stream", "context") and wait["context"] == row["context"]
                       and wait["start_ns"] <= row["end_ns"] <= wait["end_ns"]
                       and (wait["kind"] == "context" or wait["stream"] == row["stream"])]
            assert fitting, "not what it waited for"
            for wait in fitting:
                assert row["end_ns"] == max(
                    end for end, stream in ends[wait["pid"], wait["context"]]
                    if end <= wait["end_ns"] and (wait["kind"] == "context" or stream == wait["stream"]))
            waited += 1
    own = [s for s in trace.slices if s.category == "cuda_sync"]
    noted = [s for s in trace.slices if s.category in ("cuda_runtime", "cuda_driver") and "synchronization" in s.notes]
    assert len(own) + len(noted) >= len(set(waits)) and waited <= len(noted)


def check_memory(recording, levels):
    """A track for each kind of memory, whose steps are the allocations and releases of it."""
    of_kind = Counter(row["kind"] for row in recording["allocation"] if row["time_ns"] is not None)
    assert Counter(name.split(", ")[0] for name, _, _ in levels).keys() == {f"memory: {kind}" for kind in of_kind}
    assert len(levels) <= sum(of_kind.values()) and all(value >= 0 for _, _, value in levels)


def check_perfetto_readings(recording, trace):
    decimals = {row["name"]: row["decimals"] for row in recording["counter"]}
    series = defaultdict(list)
    for row in recording["counter_sample"]:
        owner = row["pid"] if row["device"] is None else row["device"]
        series[row["device"] is None, owner, row["counter"]].append((row["time_ns"], row["value"]))
    for (of_host, owner, name), rows in series.items():
        shown = [(time, value * 10 ** decimals[name]) for time, value in trace.counters[owner, name]]
        if not of_host:  # a value covers the time before it
            assert [time for time, _ in shown[:-1]] == [time for time, _ in rows] and shown[0][1] == 0
            shown = list(zip((time for time, _ in shown), (value for _, value in shown[1:])))
        assert [time for time, _ in shown] == [time for time, _ in rows]
        assert [value for _, value in shown] == pytest.approx([value for _, value in rows])
    levels = {name: shown for (_, name), shown in trace.counters.items() if name.startswith("memory: ")}
    check_memory(recording, [(name, time, value) for name, shown in levels.items() for time, value in shown])
    assert len(series) == len(trace.counters) - len(levels)


def check_perfetto_samples(recording, trace):
    samples = Counter((s.source, s.time, s.pid, s.tid, s.weight, s.cpu) for s in trace.samples)
    rows = [("pitot CPU", r["time_ns"], r["pid"], r["thread"], r["weight_ns"], r["cpu"]) for r in recording["cpu_sample"]]
    rows += [("pitot off CPU", r["start_ns"], r["pid"], r["thread"], r["end_ns"] - r["start_ns"], None)
             for r in recording.timed("off_cpu")]
    assert samples == Counter(rows)


def check_perfetto_mappings_lead_to_one_module_each(recording, trace):
    frames = [frame for s in (*trace.slices, *trace.samples) for frame in s.stack or []]
    modules = {((r["start_address"], r["end_address"], r["file_offset"]), "/" + r["path"].removeprefix("/"),
                r["build_id"] or "", r["load_bias"]) for r in recording["module"]}
    for mapping, place, build_id in {(f.mapping, f.place, f.build_id) for f in frames}:
        if mapping in ("/[python]", "/[kernel]", "/[unknown]"):
            assert place == (0, 0, 0, 0) and not build_id
            continue
        fitting = [m for m in modules if m[:3] == (place[:3], mapping, build_id)]
        assert len(fitting) == 1, (mapping, place, build_id)
        # Where the first byte of the file would be, against where its headers put it.
        assert place[3] == place[0] - fitting[0][3] - place[2]
    for frame in frames:
        if any(frame.place) and frame.address:
            start, end, offset, bias = frame.place
            assert offset + bias <= frame.address <= end - start + offset + bias


def check_perfetto_ranges_and_the_rest(recording, trace):
    slices = [s for s in trace.slices if s.category == "nvtx" and not s.track.startswith("NVTX on")]
    instants = [s for s in trace.instants if s.category == "nvtx"]
    for shown, kinds in (slices, ("push", "start")), (instants, ("mark",)):
        assert Counter((s.pid, s.start, s.name) for s in shown) == \
            Counter((r["pid"], r["time_ns"], r["message"] or "(no message)") for r in recording["nvtx"]
                    if r["kind"] in kinds)
    assert Counter((s.pid, s.tid, s.start) for s in slices if s.tid is not None) == \
        Counter((r["pid"], r["thread"], r["time_ns"]) for r in recording["nvtx"] if r["kind"] == "push")
    assert Counter((s.pid, s.start, s.end) for s in trace.slices if s.category == "overhead") == \
        Counter((r["pid"], r["start_ns"], r["end_ns"]) for r in recording.timed("overhead"))
    assert Counter((s.pid, s.start, s.name, s.notes["bytes"], s.notes["address"], s.notes["device"],
                    s.notes["correlation"]) for s in trace.instants if s.category == "memory") == \
        Counter((r["pid"], r["time_ns"], r["operation"], r["bytes"], r["address"], r["device"], r["correlation"])
                for r in recording["allocation"])
    losses = [s for s in (*trace.slices, *trace.instants) if s.category == "loss"]
    assert Counter((s.name, s.start, s.notes.get("count")) for s in losses) == \
        Counter((loss["reason"], recording.start + loss["start_ns"], loss["count"]) for loss in recording.info["loss"])


# --- the tests ---


def checks(prefix):
    return [check for name, check in globals().items() if name.startswith(prefix)]


def test_exports_and_rows(pitot, recording, tmp_path):
    chrome = Chrome(pitot, recording, tmp_path)
    for check in checks("check_chrome_"):
        check(recording, chrome)
    pitot("export", recording.path, "-o", tmp_path / "trace.pftrace")
    trace = perfetto_trace.Trace((tmp_path / "trace.pftrace").read_bytes())
    for check in checks("check_perfetto_"):
        check(recording, trace)
    for name in "x.json", "x.pftrace":
        check_window(pitot, recording, tmp_path / name)


def kernel_starts(pitot, recording, path, *options):
    """Of the kernels of an export, from the start of the recording on."""
    pitot("export", recording.path, "-o", path, *options)
    if path.suffix == ".json":
        events = json.loads(path.read_text())["traceEvents"]
        return sorted(round(e["ts"] * 1000) for e in events if e.get("cat") == "kernel")
    return sorted(kernel.start - recording.start for kernel in perfetto_trace.Trace(path.read_bytes()).kernels())


def check_window(pitot, recording, path):
    """--since counts from the start of the recording, as in view, and takes what starts from there on."""
    starts = sorted(row["start_ns"] - recording.start for row in recording.timed("kernel"))
    since = starts[len(starts) // 2]
    assert kernel_starts(pitot, recording, path, "--since", f"{since}ns") == [start for start in starts if start >= since]


def test_a_recording_starts_with_its_command(build, pitot, tmp_path):
    """Not with its first event: in every export, for --since, in JSON and in text."""
    player, tape = build / "standin" / "tape-play", Path(__file__).parent.parent / "data" / "tapes" / "kinds.tape"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    suppressions = f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0"
    pitot("record", "--gpu-only", "-o", "r.pitot", "--", "sh", "-c", f"sleep 0.3; exec {player} --now {tape}",
          env={"LSAN_OPTIONS": suppressions})
    recording = Recording(pitot, tmp_path / "r.pitot")
    recorded = json.loads((tmp_path / "r.pitot" / "recording.json").read_text())
    # `record` gets ready before it starts the command; start times of processes are in 10 ms.
    assert recording.info["start_unix_ns"] > recorded["start_realtime_ns"] - 20e6
    starts = sorted(row["start_ns"] - recording.start for row in recording.timed("kernel"))
    assert starts and starts[0] > 0.3e9
    for name in "x.json", "x.pftrace":
        assert kernel_starts(pitot, recording, tmp_path / name) == starts
        assert kernel_starts(pitot, recording, tmp_path / name, "--force", "--since", "0.3s") == starts
        nothing = pitot("export", recording.path, "-o", f"y{name}", "--until", "0.2s", "--kernel", "*", status=None)
        assert "kernels" not in nothing.stderr
    assert json.loads((tmp_path / "x.json").read_text())["baseTimeNanoseconds"] == recording.info["start_unix_ns"]
    first = min(line.split()[0] for line in pitot("view", recording.path, "kernel", "-c", "start").stdout.splitlines()[1:])
    assert float(first) * 1e9 == pytest.approx(starts[0], abs=1)
