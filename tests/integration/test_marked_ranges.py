"""
--measure graph and range over the stand-in for CUPTI (standin_range_profiler.c), in which what a range measured is known: how many launches
its last pass had, how many passes there were, and how long its name is.
"""
import json

import pytest

from perfetto_trace import Trace

METRICS = "gpu__time_duration.sum,launch__correlation.sum,sm__cycles_active.avg"
TWO_PASSES = METRICS + ",dram__bytes_read.sum"
GRAPHS, STEPS = 6, 23  # of tape-make; its first step begins before CUDA is there
MEASURED = 18  # steps: one is left out after the 1st, 2nd, 4th, 8th and 16th
LAUNCHES = 12, 13  # of a step; every fourth has the launch of a graph


class Ranges:
    def __init__(self, folder, rows):
        self.rows, self.folder = rows, folder
        self.measured = {}
        for row in rows(folder, "range_value"):
            key = row["start_ns"], row["end_ns"], row["thread"], row["kind"], row["name"], row["correlation"], row["passes"]
            values = self.measured.setdefault(key, {})
            assert row["metric"] not in values, "once each"
            values[row["metric"]] = row["value"]
        self.keys = sorted(self.measured)

    def check(self, kind, name, passes=1, launches=(1,)):
        """Every measurement has its own values; none overlaps another."""
        for (start, end, _, of_kind, of_name, _, of_passes), values in self.measured.items():
            assert (of_kind, of_name, of_passes) == (kind, name, passes) and start < end
            assert values["gpu__time_duration.sum"] == 1000 + passes and values["sm__cycles_active.avg"] == len(name)
            assert values["launch__correlation.sum"] in launches
        assert all(one[1] <= other[0] for one, other in zip(self.keys, self.keys[1:]))
        return len(self.keys)

    def lost(self):
        return sum(row["count"] for row in self.rows(self.folder, "loss") if row["reason"] == "unmeasured")

    def said(self, name):
        return [row["reason"] for row in self.rows(self.folder, "capability") if row["name"] == name]


@pytest.fixture
def measure(record, rows, made_tape, tmp_path):
    def play(measure, options="kernel_count=0", *arguments, metrics=METRICS, fault="", **more):
        script = tmp_path / "faults"
        script.write_text(fault + "\n")
        folder = record(made_tape, f"engine=range-profiler;measure={measure};metrics={metrics};{options}", "--faults", str(script), *arguments, **more)
        return Ranges(folder, rows)

    return play


def test_graphs(measure, rows):
    """Each launch of a graph is measured in its call; nodes are as they are without."""
    ranges = measure("graph")
    assert ranges.check("graph", "graph 7") == GRAPHS
    calls = {row["correlation"]: row for row in rows(ranges.folder, "api_call") if row["function"] == "cuGraphLaunch"}
    assert {key[5] for key in ranges.keys} == set(calls)
    for start, end, thread, _, _, correlation, _ in ranges.keys:
        assert start <= calls[correlation]["start_ns"] and end >= calls[correlation]["end_ns"] and thread == calls[correlation]["thread"]
    assert not ranges.said("graph_metrics") and not ranges.lost() and not rows(ranges.folder, "metric_value")
    kernels = rows(ranges.folder, "kernel")
    assert len(kernels) == 408 and all(kernel["start_ns"] < kernel["end_ns"] for kernel in kernels)


def measured_slices(pitot, folder, tmp_path):
    """Arguments of the slices that were measured, as (name, start in ns, arguments), from both formats, which agree."""
    pitot("export", folder, "-o", tmp_path / "x.pftrace", "-q")
    pitot("export", folder, "-o", tmp_path / "x.json", "-q")

    def chosen(args):
        return {name: value for name, value in args.items() if name == "passes" or "__" in name}

    trace = Trace((tmp_path / "x.pftrace").read_bytes())
    made = sorted((s.start, s.name, s.category, chosen(s.notes)) for s in trace.slices if "passes" in s.notes)
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    chrome = sorted((e["ts"], e["name"], chosen(e["args"])) for e in events if "passes" in e.get("args", {}))
    assert [(name, values) for _, name, _, values in made] == [(name, values) for _, name, values in chrome]
    return made


@pytest.mark.parametrize("kind, slice, category", [("range", "step", "nvtx"), ("graph", "cuGraphLaunch", "cuda_driver")])
@pytest.mark.parametrize("metrics", [METRICS, TWO_PASSES])
def test_exports(measure, rows, pitot, tmp_path, kind, slice, category, metrics):
    """Each value is an argument of the slice whose last occurrence was measured."""
    ranges = measure(kind, metrics=metrics)
    made = measured_slices(pitot, ranges.folder, tmp_path)
    start = pitot("info", ranges.folder, "--json", json_output=True)["start_monotonic_ns"]
    assert len(made) == len(ranges.keys) > 2
    for (at, name, of, args), key in zip(made, ranges.keys):
        assert (name, of, args) == (slice, category, {"passes": key[6], **ranges.measured[key]})
        assert start + key[0] <= at < start + key[1]
    kinds = {(row["device"], row["domain"], row["level"]) for row in rows(ranges.folder, "range_value")}
    assert kinds == {(0, 0, 0) if kind == "range" else (0, None, None)}


def test_ranges_of_the_program(measure, rows, pitot):
    ranges = measure("range")
    assert ranges.check("nvtx", "step", launches=LAUNCHES) == MEASURED
    launches = sum(values["launch__correlation.sum"] for values in ranges.measured.values())
    graphs = [row["start_ns"] for row in rows(ranges.folder, "api_call") if row["function"] == "cuGraphLaunch"]
    assert launches == 12 * MEASURED + sum(key[0] < start < key[1] for key in ranges.keys for start in graphs)
    events = [row["time_ns"] for row in rows(ranges.folder, "nvtx") if row["kind"] in ("push", "pop")]
    spans = list(zip(events[::2], events[1::2]))[1:]
    assert all(sum(key[0] <= begin and end <= key[1] for begin, end in spans) == 1 for key in ranges.keys)
    [replay] = [sum(row["count"] for row in rows(ranges.folder, "cost") if row["kind"] == "replay")]
    assert replay == MEASURED
    counters = pitot("report", ranges.folder, "--json", json_output=True)["counters"]
    [row] = counters["ranges"]
    assert (row["range"], row["kind"], row["measurements"], row["occurrences"], row["mean_ns"]) == ("step", "NVTX range", MEASURED, MEASURED, 1001)
    assert counters["kernels"] == [] and counters["roofline"] == [] and (counters["launches"], counters["measurements"]) == (0, MEASURED)
    assert {(row["metric"], row["kind"], row["count"], row["mean"]) for row in counters["metrics"]} == {
        ("gpu__time_duration.sum", "NVTX range", MEASURED, 1001), ("launch__correlation.sum", "NVTX range", MEASURED, launches / MEASURED), ("sm__cycles_active.avg", "NVTX range", MEASURED, 4)}
    text = pitot("report", ranges.folder, "--counters").stdout
    assert f"1 range measured {MEASURED} times" in text
    assert pitot("report", ranges.folder, "--json", "--kernel", "gemm", json_output=True)["counters"]["ranges"] == []
    middle = ranges.keys[MEASURED // 2][0]
    some = pitot("report", ranges.folder, "--json", "--until", f"{middle}ns", json_output=True)["counters"]["ranges"][0]
    assert some["measurements"] == MEASURED // 2


def test_a_launch_whose_id_is_0(measure, rows, tmp_path):
    """Ids wrap, and a range itself has none: such a launch does not end it."""
    first = measure("range").folder.rename(tmp_path / "first.pitot")
    launched = rows(first, "api_call", "--where", "function=cuLaunchKernel")
    ranges = measure("range", "kernel_count=0", "--repeat", "2", "--ids", str(2**32 - launched[len(launched) // 2]["correlation"]))
    assert ranges.check("nvtx", "step", launches=LAUNCHES) == 41 and not ranges.lost()


@pytest.mark.parametrize("kind, name, occurrences", [("graph", "graph 7", GRAPHS), ("range", "step", MEASURED)])
def test_a_pass_for_each_occurrence(measure, kind, name, occurrences):
    ranges = measure(kind, metrics=TWO_PASSES)
    found = ranges.check("nvtx" if kind == "range" else "graph", name, passes=2, launches=LAUNCHES if kind == "range" else (1,))
    assert found == occurrences // 2 and not ranges.lost()


@pytest.mark.parametrize("passes", [9, 60])
def test_many_passes(measure, passes):
    """As many occurrences as passes, or the recording says that there were too few of them."""
    ranges = measure("range", fault=f"passes {passes}")
    assert ranges.check("nvtx", "step", passes=passes, launches=LAUNCHES) == (2 if passes == 9 else 0)
    said = "nothing was measured: no range occurred as often as the metrics need passes"
    assert (said in ranges.said("engine")) == (passes == 60)
    assert any(f"3 metrics in {passes} passes" in reason for reason in ranges.said("engine"))


def test_skip_and_count_of_each_range(measure, rows):
    ranges = measure("range", "kernel_skip=5;kernel_count=7")
    pushes = [row["time_ns"] for row in rows(ranges.folder, "nvtx") if row["kind"] == "push"][1:]
    assert [sum(push < key[0] for push in pushes) for key in ranges.keys] == [5, 7, 9, 10, 12, 13, 14]


@pytest.mark.parametrize("pattern, found", [("st*", MEASURED), ("step", MEASURED), ("nothing", 0), ("nothing,?tep", MEASURED)])
def test_ranges_by_name(measure, pattern, found):
    assert len(measure("range", f"kernel_count=0;nvtx_include={pattern}").keys) == found


def test_kernels_inside_ranges(measure, rows):
    ranges = measure("kernel", "kernel_count=0;nvtx_include=step")
    assert not ranges.keys
    measured = {row["correlation"] for row in rows(ranges.folder, "metric_value")}
    assert len(measured) == (STEPS + 1) * 8, "of the thread that has the ranges; others' are outside"


@pytest.mark.parametrize("fault, times, reason", [
    ("call cuptiRangeProfilerPushRange returns 1", 3, "cuptiRangeProfilerPushRange: CUPTI_ERROR_INVALID_PARAMETER, at 3 launches "),
    ("call cuptiRangeProfilerPopRange returns 1", 1, "cuptiRangeProfilerPopRange: CUPTI_ERROR_INVALID_PARAMETER, at 1 launch"),
    ("call cuptiRangeProfilerStart returns 1", 3, "cuptiRangeProfilerStart: CUPTI_ERROR_INVALID_PARAMETER, at 3 launches "),
    ("call cuptiRangeProfilerDecodeData returns 1", 3, "cuptiRangeProfilerDecodeData: CUPTI_ERROR_INVALID_PARAMETER, at 3 launches "),
    ("call cuptiRangeProfilerEnable returns 35", 0, "NVreg_RestrictProfilingToAdminUsers=0")])
@pytest.mark.parametrize("kind", ["graph", "range"])
def test_faults(measure, rows, kind, fault, times, reason):
    ranges = measure(kind, fault=fault)
    assert not ranges.keys and any(reason in said for said in ranges.said("engine")) and ranges.lost() == times
    assert len(rows(ranges.folder, "kernel")) == 408


def test_one_pass_that_fails(measure):
    """The next occurrence makes up for it."""
    ranges = measure("range", fault="call cuptiRangeProfilerStart#4 returns 1", metrics=TWO_PASSES)
    assert ranges.check("nvtx", "step", passes=2, launches=LAUNCHES) == MEASURED // 2 and ranges.lost() == 1
