"""`pitot export`: what holds for all formats, and Chrome JSON as its readers want it."""
import gzip
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter, defaultdict

import pytest

from exported import PATTERNS, make_exported, timed, view
from perfetto_trace import Trace
from timeline_page import read_page
from waiting import PATIENCE


@pytest.fixture(scope="module")
def train(make_recording, tmp_path_factory):
    return make_exported(make_recording, "train", tmp_path_factory.mktemp("train") / "train.pitot")


@pytest.fixture(scope="module", params=PATTERNS + ("varied", "processes"))
def recording(request, make_recording, tmp_path_factory):
    return make_exported(make_recording, request.param, tmp_path_factory.mktemp(request.param) / "r.pitot")


@pytest.fixture(scope="module")
def varied(make_recording, tmp_path_factory):
    return make_exported(make_recording, "varied", tmp_path_factory.mktemp("varied") / "r.pitot")


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def no_duplicates(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def strict(text):
    return json.loads(text, parse_constant=refuse, object_pairs_hook=no_duplicates)


def export(pitot, recording, tmp_path, *options):
    out = tmp_path / "out.json"
    pitot("export", recording, "-o", out, "--force", *options)
    return strict(out.read_bytes().decode("utf-8"))


def ns(value):
    return round(value * 1000)


def complete(trace, *categories):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and (not categories or e["cat"] in categories)]


# --- Chrome JSON ---


def test_top_level(pitot, varied, tmp_path):
    trace = export(pitot, varied, tmp_path)
    assert list(trace)[:2] == ["schemaVersion", "deviceProperties"] and list(trace)[-1] == "traceName"
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms" and trace["traceName"] == "out.json"
    assert trace["baseTimeNanoseconds"] > 1.7e18
    assert [d["id"] for d in trace["deviceProperties"]] == [0, 1]
    assert trace["deviceProperties"][0]["numSms"] == 132
    assert trace["traceEvents"][0]["ph"] == "M" and trace["traceEvents"][-1]["name"] == "Record Window End"


def test_every_event_has_what_readers_need(pitot, recording, tmp_path):
    for event in export(pitot, recording, tmp_path)["traceEvents"]:
        assert isinstance(event["name"], str) and event["ph"] in "XMCisfbe"
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["cat"]
        if event["ph"] in "sf":
            assert event["id"] > 0 and event["cat"] == event["name"] == "ac2g"
        for key in ("pid", "tid"):
            assert isinstance(event[key], str) or 0 <= event[key] < 2**32
        if isinstance(event["pid"], int) and event["pid"] > 0 and event["ph"] in "Xsf":
            assert event["tid"] != 0, "readers take tid 0 for the pid"


def test_slices_of_a_row_nest_and_gpu_work_does_not_overlap(pitot, recording, tmp_path):
    trace = export(pitot, recording, tmp_path)
    rows = defaultdict(list)
    for event in complete(trace):
        rows[event["pid"], event["tid"]].append(event)
    for events in rows.values():
        stack = []
        for event in sorted(events, key=lambda e: ns(e["ts"])):  # at one time: as in the file
            start, end = ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or (end <= stack[-1] and "stream" not in event.get("args", {}))
            stack.append(end)


def test_flows_stand_behind_their_slices(pitot, recording, tmp_path):
    events = export(pitot, recording, tmp_path)["traceEvents"]
    starts, ends = Counter(), Counter()
    for before, event in zip(events, events[1:]):
        if event["ph"] not in "sf":
            continue
        assert before["ph"] == "X"
        assert [event[k] for k in ("pid", "tid", "ts")] == [before[k] for k in ("pid", "tid", "ts")]
        assert before["args"]["correlation"] == event["id"]
        assert ("stream" in before["args"]) == (event["ph"] == "f")
        (starts if event["ph"] == "s" else ends)[event["id"]] += 1
    assert set(starts.values()) <= {1} and set(starts) == set(ends)


def test_json_conserves_the_recording(pitot, recording, tmp_path):
    trace = export(pitot, recording, tmp_path)
    zero = None
    for table, category in (("kernel", "kernel"), ("memcpy", "gpu_memcpy"), ("memset", "gpu_memset"),
                            ("synchronization", "cuda_sync")):
        rows, events = timed(view(pitot, recording, table)), complete(trace, category)
        if zero is None:
            zero = min(ns(e["ts"]) for e in events) - min(r["start_ns"] for r in rows)
        assert Counter((ns(e["ts"]) - zero, ns(e["dur"]), e["args"]["stream"]) for e in events) == \
            Counter((r["start_ns"], r["duration"], -1 if r["stream"] is None else r["stream"]) for r in rows)
    calls = complete(trace, "cuda_runtime", "cuda_driver")
    assert Counter((ns(c["ts"]) - zero, ns(c["dur"])) for c in calls) == \
        Counter((r["start_ns"], r["duration"]) for r in timed(view(pitot, recording, "api_call")))
    assert not [c for c in calls if "stream" in c["args"] or "device" in c["args"]]


def test_gpu_work_names_its_place(pitot, recording, tmp_path):
    trace = export(pitot, recording, tmp_path)
    correlations = Counter(e["args"]["correlation"] for e in complete(trace, "cuda_runtime", "cuda_driver"))
    assert set(correlations.values()) == {1}, "correlation ids of calls are not unique"
    for event in complete(trace, "kernel", "gpu_memcpy", "gpu_memset"):
        args = event["args"]
        assert event["pid"] == args["device"] and args["context"] > 0 and args["correlation"] > 0
        if event["cat"] == "kernel":
            assert len(args["grid"]) == len(args["block"]) == 3 and args["registers per thread"] >= 0


def test_json_of_the_varied_recording(pitot, varied, tmp_path):
    trace = export(pitot, varied, tmp_path)
    by_name = defaultdict(list)
    for event in trace["traceEvents"]:
        by_name[event["name"]].append(event)
    assert "kernel" not in by_name and len(by_name["Kernel"]) == 2
    assert by_name["bad\ufffd\ufffd\"\\\n\t\x01name"] or by_name["bad\ufffd\ufffd\"\\\n\t\x01name\0end"]
    names = {(e["pid"], e["args"]["name"]) for e in by_name["process_name"]}
    assert {(0, "GPU 0 (NVIDIA H200)"), (1, "GPU 1 (NVIDIA H200)"), (100, "app"), (10000003, "app 3")} <= names
    wait, = by_name["Event Sync"]
    assert wait["args"]["wait_on_stream"] == 13 and wait["args"]["wait_on_cuda_event_id"] == 3
    record, = by_name["cudaEventRecord"]
    assert wait["args"]["wait_on_cuda_event_record_corr_id"] == record["args"]["correlation"]
    assert [e["args"]["stream"] for e in by_name["Context Sync"]] == [-1, -1]
    step, *on_gpu = sorted(by_name["step"], key=lambda e: -e["pid"])
    assert step["pid"] == step["tid"] == 100 and step["cat"] == "user_annotation"
    assert {e["cat"] for e in on_gpu} == {"gpu_user_annotation"} and {e["pid"] for e in on_gpu} == {0}
    assert len(on_gpu) == 2 and {ns(e["dur"]) for e in on_gpu} == {10000}
    assert max(by_name["other domain"], key=lambda e: e["pid"])["tid"] != 100
    assert by_name["never ends"][0]["args"]["finished"] == "false"
    assert sorted(e["ph"] for e in by_name["a"] + by_name["b"]) == ["b", "b", "e", "e"]
    assert by_name["mark"][0]["args"]["payload"] == "nan"
    assert [e["args"][""] for e in by_name["gpu_power"]] == [345.678, 346.678, 347.678, 348.678]
    assert by_name["loss: ring_full"][0]["args"]["count"] == 17
    assert sorted(e["args"]["External id"] for e in trace["traceEvents"] if "External id" in e.get("args", {})) == \
        [4711, 4711]
    peer, = by_name["Memcpy PtoP (Device -> Device)"]
    assert peer["args"]["fromDevice"] == 0 and peer["args"]["toDevice"] == 1


def test_gzip_is_the_same(pitot, train, tmp_path):
    trace = export(pitot, train, tmp_path)
    pitot("export", train, "-o", tmp_path / "out.json.gz")
    packed = strict(gzip.decompress((tmp_path / "out.json.gz").read_bytes()).decode())
    assert packed.pop("traceName") == "out.json.gz" and trace.pop("traceName") == "out.json"
    assert packed == trace


def test_rank(pitot, train, tmp_path):
    for options, rank in (((), 0), (("--rank", 5), 5)):
        trace = export(pitot, train, tmp_path, *options)
        text = (tmp_path / "out.json").read_text()
        found = re.search(r'"rank":\s+(\d+)', text)
        assert int(found.group(1)) == trace["distributedInfo"]["rank"] == rank
        assert found.start() < text.index('"traceEvents"')


def test_holistic_trace_analysis(pitot, train, tmp_path):
    from hta.trace_analysis import TraceAnalysis

    folder = tmp_path / "traces"
    folder.mkdir()
    pitot("export", train, "-o", folder / "rank0.json.gz")
    pitot("export", train, "-o", folder / "rank1.json", "--rank", 1)
    analysis = TraceAnalysis(trace_dir=str(folder))
    assert sorted(analysis.t.get_ranks()) == [0, 1]
    rows = timed(view(pitot, train, "kernel"))
    copies = view(pitot, train, "memcpy") + view(pitot, train, "memset")
    frame = analysis.t.get_trace(0)
    assert (frame["stream"] >= 0).sum() == len(rows) + len(copies) + len(
        [s for s in view(pitot, train, "synchronization") if s["stream"] is not None])
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    # HTA rounds each kernel inwards to whole microseconds.
    compute = types.set_index("kernel_type")["sum"]["COMPUTATION"] / 2
    true = sum(r["duration"] for r in rows) / 1000
    assert true - 2 * len(rows) <= compute <= true
    assert set(kernels["rank"]) == {0, 1}
    assert analysis.get_temporal_breakdown(visualize=False)["compute_time(us)"].min() > 0
    assert not analysis.get_queue_length_summary().empty
    assert not analysis.get_memory_bw_summary().empty


# --- stacks ---


def outwards(trace, node):
    """Names from a node of stackFrames to the outermost."""
    while node:
        frame = trace["stackFrames"][str(node)]
        yield frame["name"]
        assert frame.get("parent", 0) < node
        node = frame.get("parent")


def test_calls_have_a_place_in_the_tree_of_stacks(pitot, sampled, tmp_path):
    trace = export(pitot, sampled, tmp_path)
    calls = [e for e in trace["traceEvents"] if e.get("cat") == "cuda_runtime"]
    assert len(calls) == 80
    stacks = Counter((c["args"]["caller"], *outwards(trace, c["sf"])) for c in calls)
    base = ("<module> (train.py:80)", "main")
    linear, step = "Linear.forward (linear.py:125)", "step (train.py:64)"
    assert stacks[(linear, "at::native::addmm_out", linear, "step (train.py:60)", *base)] == 40
    assert stacks[(step, "at::native::adam_step", step, *base)] == 10
    assert trace["stackFrames"][str(calls[1]["sf"])] == {
        "category": "libtorch_cpu.so", "name": "at::native::addmm_out", "parent": 5}
    assert set(range(1, len(trace["stackFrames"]) + 1)) == {int(node) for node in trace["stackFrames"]}


def test_json_without_stacks(pitot, sampled, tmp_path):
    trace = export(pitot, sampled, tmp_path, "--no-stacks")
    assert "stackFrames" not in trace
    assert not [e for e in trace["traceEvents"] if "sf" in e or "caller" in e.get("args", {})]


def test_json_has_one_process_for_what_was_sampled_too(pitot, sampled, tmp_path):
    trace = export(pitot, sampled, tmp_path)
    named = [e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert sorted(named) == [0, 100, 101]


# --- the command ---


def test_format_by_name(pitot, train, tmp_path):
    for name, start in (("a.perfetto-trace", b"\n"), ("a.pftrace", b"\n"), ("a.perfetto", b"\n"), ("a.json", b"{"),
                        ("a.json.gz", b"\x1f\x8b")):
        pitot("export", train, "-o", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    pitot("export", train, "-o", tmp_path / "odd.name", "--format", "json")
    strict((tmp_path / "odd.name").read_text())


def test_default_name(pitot, train, tmp_path):
    pitot("export", train)
    assert (tmp_path / "train.perfetto-trace").stat().st_size > 0
    pitot("export", str(train) + "/", "--format", "json")
    assert (tmp_path / "train.json").stat().st_size > 0


@pytest.mark.parametrize("name, stem", [("a.b.pitot", "a.b"), ("plain", "plain"), (".hidden", ".hidden"), (".x.pitot", ".x"), ("d.pitot/", "d")])
def test_default_name_of_any_recording(pitot, train, tmp_path, name, stem):
    shutil.copytree(train, tmp_path / name)
    pitot("export", name)
    assert (tmp_path / f"{stem}.perfetto-trace").stat().st_size > 0


def test_standard_output(pitot, train, tmp_path):
    for format_name, suffix in (("json", "json"), ("perfetto", "perfetto-trace")):
        piped = pitot("export", train, "-o", "-", "--format", format_name, text=False).stdout
        pitot("export", train, "-o", tmp_path / f"f.{suffix}")
        written = (tmp_path / f"f.{suffix}").read_bytes()
        assert piped.replace(b'"traceName": "-"', b'"traceName": "f.json"') == written


def test_bad_usage(pitot, train, tmp_path):
    for arguments, said in (
        (["-o", "x.txt"], "no format has files like 'x.txt'"),
        (["-o", "x", "--format", "xml"], "'--format' takes perfetto, json, html, gpufl, parquet, arrow, csv, sqlite, sbt or dot, not 'xml'"),
        (["-o", "-"], "standard output needs --format"),
        (["-o", "-", "--format", "json", "--json"], "--json goes to standard output"),
        (["--since", "2s", "--until", "1s"], "--since must be before --until"),
        (["--rank", 2**40], "--rank"),
    ):
        result = pitot("export", train, *arguments, status=2)
        assert said in result.stderr and result.stdout == ""
    assert os.listdir(tmp_path) == []


def test_existing_file_needs_force(pitot, train, tmp_path):
    for name in ("x.json", "x.perfetto-trace"):
        (tmp_path / name).write_text("precious")
        result = pitot("export", train, "-o", name, status=1)
        assert f"'{name}' exists" in result.stderr and "--force" in result.stderr
        assert (tmp_path / name).read_text() == "precious"
        pitot("export", train, "-o", name, "--force")
        assert (tmp_path / name).read_bytes() != b"precious"
    assert sorted(os.listdir(tmp_path)) == ["x.json", "x.perfetto-trace"]


@pytest.mark.parametrize("arguments, said", [
    (["-o", "x.json", "--split-size", "64K"], "json is one file"),
    (["-o", "-", "--format", "perfetto", "--split-size", "64K"], "standard output is one file"),
])
def test_what_a_format_cannot_do(pitot, train, tmp_path, arguments, said):
    assert said in pitot("export", train, *arguments, status=2).stderr
    assert os.listdir(tmp_path) == []


def test_a_part_that_exists_spoils_all(pitot, train, tmp_path):
    (tmp_path / "x-3.perfetto-trace").write_text("precious")
    result = pitot("export", train, "-o", "x.perfetto-trace", "--split-size", "64K", status=1)
    assert "'x-3.perfetto-trace' exists" in result.stderr
    assert os.listdir(tmp_path) == ["x-3.perfetto-trace"]


def test_unwritable(pitot, train, tmp_path):
    result = pitot("export", train, "-o", tmp_path / "no" / "x.json", status=1)
    assert "no/x.json" in result.stderr and len(result.stderr.splitlines()) == 1


def test_full_disk(pitot, train):
    for format_name in ("json", "perfetto"):
        result = pitot("export", train, "-o", "/dev/full", "--format", format_name, status=1)
        assert "'/dev/full'" in result.stderr and "space" in result.stderr


def test_no_recording(pitot, tmp_path):
    result = pitot("export", "missing.pitot", "-o", "x.json", status=1)
    assert "missing.pitot" in result.stderr and os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("suffix", ["perfetto-trace", "json.gz"])
def test_interrupted(make_recording, program, environment, tmp_path, number, suffix):
    recording, out = tmp_path / "r.pitot", tmp_path / f"out.{suffix}"
    for kernels in 300_000, 1_200_000, 4_800_000:
        shutil.rmtree(recording, ignore_errors=True)
        make_recording(recording, kernels=kernels)
        process = subprocess.Popen([program, "export", recording, "-o", out], env=environment, stderr=subprocess.PIPE)
        while not list(tmp_path.glob("*.partial")) and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
        if process.returncode:
            break
        out.unlink()  # it was done before it was interrupted
    assert process.returncode == 128 + number, said
    assert os.listdir(tmp_path) == ["r.pitot"]


def test_recording_cut_off(pitot, make_recording, tmp_path):
    recording = tmp_path / "r.pitot"
    make_exported(make_recording, "varied", recording)
    segment = next(recording.glob("100.*"))
    data = segment.read_bytes()
    exported = 0
    for length in range(0, len(data), max(1, len(data) // 25)):
        segment.write_bytes(data[:length])
        for name in ("cut.json", "cut.perfetto-trace"):
            result = pitot("export", recording, "-o", name, "--force", status=None)
            assert result.returncode in (0, 1), result.stderr
            exported += result.returncode == 0
        if (tmp_path / "cut.json").exists():
            strict((tmp_path / "cut.json").read_text())
    assert exported > 20


def test_payloads_by_their_types(pitot, make_recording, tmp_path):
    """An unsigned number above 2^63 is not negative; JSON has no form for infinities, and JavaScript none for most integers above 2^53."""
    recording = make_recording(tmp_path / "r.pitot", "payloads")
    expected = {"u64": [11400714819323198485], "i64": [-2**63], "u32": [2**32 - 1], "i32": [-1], "f32": [0.5], "f64": [0.1, "inf", "-inf", "nan"]}
    for name in "o.json", "o.html", "o.perfetto-trace":
        pitot("export", recording, "-o", name)
    found = defaultdict(list)
    for e in strict((tmp_path / "o.json").read_text())["traceEvents"]:
        if "payload" in e.get("args", {}):
            found[e["name"]].append(e["args"]["payload"])
    assert found == expected
    found = defaultdict(list)
    for mark in read_page(tmp_path / "o.html")[1]:
        if "payload" in mark["details"]:
            found[mark["name"]].append(mark["details"]["payload"])
    assert found == {name: [str(value) if isinstance(value, int) and abs(value) > 2**53 else value for value in values] for name, values in expected.items()}
    found = defaultdict(list)
    for mark in Trace((tmp_path / "o.perfetto-trace").read_bytes()).instants:
        if "payload" in mark.notes:
            value = mark.notes["payload"]
            found[mark.name].append(value if isinstance(value, int) or math.isfinite(value) else str(value))
    assert found == expected


def test_texts_are_utf8(pitot, make_recording, tmp_path):
    """Whatever bytes a name has: in every format of text, by every kind of name."""
    recording = make_recording(tmp_path / "r.pitot", "names")
    flames = [("--format", "folded", "--by", by) for by in ("stack", "thread", "process", "stream", "device", "scope")]
    flames += [("--format", "folded", "--xpu-perf-compat"), *(("--format", name) for name in ("svg", "html", "speedscope", "firefox"))]
    for options in flames:
        pitot("flame", recording, "--force", "-o", "o.flame", *options)
        (tmp_path / "o.flame").read_bytes().decode("utf-8")
    for name in "o.json", "o.html":
        pitot("export", recording, "-o", name)
        assert "\N{REPLACEMENT CHARACTER}" in (tmp_path / name).read_bytes().decode("utf-8")
