"""Scopes, as scopes_recording.c has them, in all commands that know them."""
import collections
import json

import pytest

from golden import check_golden
from perfetto_trace import Trace


@pytest.fixture(scope="module")
def recording(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("scopes") / "scopes.pitot", "scopes")


def report(pitot, recording, *options):
    return pitot("report", recording, "--json", *options, json_output=True)


def test_report(pitot, recording):
    wide = pitot("report", recording, "--scopes", env={"COLUMNS": "140"}).stdout
    narrow = pitot("report", recording, "--scopes", "--top", "1", env={"COLUMNS": "72"}).stdout
    check_golden("report-scopes.txt", "".join(text[text.index("\nscopes"):text.index("\nsynchronizing")]
                                              for text in (wide, narrow)))
    assert "scopes and NVTX ranges" not in wide and "scopes and NVTX ranges" in pitot("report", recording).stdout
    check_golden("report-scopes.json", json.dumps(report(pitot, recording, "--scopes")["scopes"], indent=1) + "\n")
    assert report(pitot, recording)["scopes"] == {"gpu_ns": None, "outside_ns": None, "count": None, "items": []}
    assert len(report(pitot, recording, "--scopes", "--top", "1")["scopes"]["items"]) == 5 < len(
        report(pitot, recording, "--scopes")["scopes"]["items"])


def test_counters(pitot, recording):
    counters = report(pitot, recording, "--scopes")["scope_counters"]["items"]
    check_golden("report-scope-counters.json", json.dumps(counters, indent=1) + "\n")
    assert report(pitot, recording)["scope_counters"] == {"items": []}
    sums = {item["path"]: item["sum"] for item in counters if item["counter"] == "tokens"}
    assert sums == {None: 7, "epoch": 8198, "epoch/step": 8198, "epoch/step/load": 8192, "epoch/step/backward": 6}
    assert sum(item["self"] for item in counters if item["counter"] == "tokens") == 7 + 8198
    inside = report(pitot, recording, "--scopes", "--scope", "load")["scope_counters"]["items"]
    assert {item["path"]: item["self"] for item in inside} == {"epoch": 0, "epoch/step": 0, "epoch/step/load": 8192}
    few = report(pitot, recording, "--scopes", "--top", "1")["scope_counters"]["items"]
    assert few == counters[:5]
    assert "2 of 7 rows are not shown; to show all: --top 0\n" in pitot("report", recording, "--scopes", "--top", "1").stdout
    rows = [json.loads(line) for line in pitot("view", recording, "counter_addition", "--json", "-c", "scope").stdout.splitlines()]
    assert [row.get("scope") for row in rows] == [None] + 2 * ["epoch/step/load", "epoch/step/backward"]
    gauges = pitot("view", recording, "counter_sample", "--json", "-c", "scope").stdout.splitlines()
    assert [json.loads(line)["scope"] for line in gauges] == 2 * ["epoch/step"]


def test_which_ranges_are_scopes(pitot, recording):
    def names(*options):
        return [item["path"] for item in report(pitot, recording, *options)["scopes"]["items"]]

    assert names("--scopes") == names("--scopes=all")
    assert names("--scopes=nvtx") == ["layer", "MmBackward0"]
    assert set(names("--scopes")) - set(names("--scopes=pitot")) == {
        "epoch/step/forward/layer", "epoch/step/backward/MmBackward0"}
    none = pitot("report", recording, "--scopes=pitot", "--scope", "layer").stdout
    assert "\nscopes  no recorded scope matches the filters\n" in none
    assert "none of 13 match the filters (inside scopes matching 'layer')" in none


def test_kernels_by_scope(pitot, recording):
    by_scope = report(pitot, recording, "--by", "scope")["hotspots"]
    assert by_scope["by"] == "scope"
    assert {item["label"]: item["time"]["count"] for item in by_scope["items"]} == {
        "backward": 4, "bucket": 2, "MmBackward0": 2, "layer": 2, "forward": 2, "(outside any scope)": 1}


@pytest.mark.parametrize("glob, kernels", [("step", 12), ("backward", 8), ("step/fo*", 4), ("epoch/forward", 0), ("none", 0)])
def test_filters_agree(pitot, recording, tmp_path, glob, kernels):
    assert report(pitot, recording, "--scope", glob)["hotspots"]["kernels"] == kernels
    rows = pitot("view", recording, "kernel", "--json", "-w", f"scope={glob}").stdout.splitlines()
    assert len(rows) == kernels
    flame = pitot("flame", recording, "--json", "--scope", glob, "--mode", "gpu", json_output=True)
    assert flame["sections"][0]["count"] == kernels
    pitot("export", recording, "-o", tmp_path / "x.json", "--scope", glob)
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    assert sum(e.get("cat") == "kernel" for e in events) == kernels
    assert sum(e["name"] == "cuLaunchKernel" for e in events) == kernels
    waits = 2 if glob in ("step", "backward") else 0
    assert sum(e["name"] == "cudaStreamSynchronize" for e in events) == waits
    assert sum(e["name"] == "Stream Sync" for e in events) == waits


def test_nothing_is_left(pitot, make_recording, tmp_path):
    make_recording(tmp_path / "r.pitot", "sass")
    said = pitot("export", "r.pitot", "-o", "x.json", "--scope", "none", status=1).stderr
    assert "nothing to export: nothing is inside scopes that match 'none'; `pitot report --scopes`" in said


def test_flame(pitot, recording):
    text = pitot("flame", recording, "--by", "scope", "--format", "folded").stdout
    check_golden("flame-scopes.txt", text)
    cpu = pitot("flame", recording, "--by", "scope", "--mode", "cpu", "--scope", "load", "--format", "folded").stdout
    wait = pitot("flame", recording, "--by", "scope", "--mode", "wait", "--scope", "load", status=1)
    assert "nothing to show" in wait.stderr
    assert cpu == "epoch;step;load;[main] 400\n"


def test_chrome(pitot, recording, tmp_path):
    pitot("export", recording, "-o", tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    epoch, = (e for e in ranges if e["name"] == "epoch")
    assert epoch["args"] == {"domain": "pitot", "repeats": 2, "warmups": 1} and epoch["dur"] == 3400
    carried = [e for e in ranges if "continues" in e["args"]]
    assert [(e["name"], e["tid"], e["args"]["continues"]) for e in carried] == [("backward", 101, "epoch/step/backward")] * 2
    assert len(ranges) == 17, "tokens are no events"
    launches = [e for e in events if e["name"] == "cuLaunchKernel"]
    assert [e["args"].get("scope") for e in launches[2:4] + launches[-1:]] == [
        "epoch/step/backward", "epoch/step/backward/bucket", None]
    on_gpu = [e["name"] for e in events if e.get("cat") == "gpu_user_annotation"]
    assert sorted(on_gpu) == sorted(["epoch"] * 2 + ["step", "backward"] * 4 + ["forward", "layer", "bucket", "MmBackward0"] * 2)
    assert {e["dur"] for e in events if e.get("cat") == "gpu_user_annotation" and e["name"] == "backward"} == {150, 165}


def test_perfetto(pitot, recording, tmp_path):
    pitot("export", recording, "-o", tmp_path / "x.pftrace")
    trace = Trace((tmp_path / "x.pftrace").read_bytes())
    scopes = [s for s in trace.slices if s.category == "scope" and s.tid is not None]
    assert len(scopes) == 13 and {s.name for s in trace.slices if s.category == "nvtx"} == {"layer", "MmBackward0"}
    epoch, = (s for s in scopes if s.name == "epoch")
    assert epoch.notes == {"domain": "pitot", "repeats": 2, "warmups": 1}
    assert {(s.name, s.tid) for s in scopes if s.notes.get("continues") == "epoch/step/backward"} == {("backward", 101)}
    assert [i.name for i in trace.instants if i.category == "scope"] == ["done"]
    launches = sorted((s for s in trace.slices if s.name == "cuLaunchKernel"), key=lambda s: s.start)
    assert [s.notes.get("scope") for s in launches[2:4] + launches[-1:]] == [
        "epoch/step/backward", "epoch/step/backward/bucket", None]
    # On several threads, several times: a text is interned for each of them, before it is used.
    pitot("export", recording, "-o", tmp_path / "x.json")
    chrome = [e for e in json.loads((tmp_path / "x.json").read_text())["traceEvents"] if e["name"] == "cuLaunchKernel"]
    by_correlation = {e["args"]["correlation"]: (e["tid"], e["args"].get("scope")) for e in chrome}
    assert {s.notes["correlation"]: (s.tid, s.notes.get("scope")) for s in launches} == by_correlation
    assert max(collections.Counter(by_correlation.values()).values()) > 1 < len({tid for tid, scope in by_correlation.values() if scope})


def test_view(pitot, recording, sampled):
    def scopes(table, *options, path=recording):
        text = pitot("view", path, table, "--json", "-c", "scope", *options).stdout
        return [json.loads(line)["scope"] for line in text.splitlines()]

    assert scopes("kernel")[:3] == ["epoch/step/forward/layer", "epoch/step/forward", "epoch/step/backward"]
    assert scopes("kernel")[-1] is None and scopes("api_call")[4] == "epoch/step/backward"
    assert scopes("cpu_sample") == (["epoch/step/load"] * 2 + ["epoch/step/backward"]) * 2
    assert scopes("nvtx", "-w", "kind=token") == ["epoch/step/backward"] * 2
    assert scopes("kernel", "-w", "scope!=forward") == [
        "epoch/step/backward", "epoch/step/backward/bucket", "epoch/step/backward", "epoch/step/backward/MmBackward0"] * 2
    assert scopes("kernel", "-w", "scope=-") == [None]
    assert "epoch/step/load" in pitot("view", recording, "cpu_sample", "-c", "time,scope").stdout
    assert "step/forward" in scopes("cpu_sample", path=sampled), "sampled from outside"
    assert "no column 'scope'" in pitot("view", recording, "device", "-c", "scope", status=2).stderr
