"""
--engine range-profiler over the stand-in for CUPTI, which refuses calls that break a rule of the interface: what launches measured is
known (tests/standin/standin_range_profiler.c), so each value says whose it is.
"""
import collections
import signal
import struct
import time

import pytest

from waiting import wait_until

METRICS = "gpu__time_duration.sum,launch__correlation.sum,sm__cycles_active.avg"
LAUNCHES = 24 * 12  # that tape-make has, those of graphs aside


class Measured:
    def __init__(self, folder, rows):
        self.folder = folder
        self.metrics = {row["name"]: row for row in rows(folder, "metric")}
        self.losses, self.costs = rows(folder, "loss"), rows(folder, "cost")
        capabilities = rows(folder, "capability")
        self.said = {name: [row for row in capabilities if row["name"] == name] for name in ("engine", "metrics", "graph_metrics")}
        self.kernels, self.calls = {}, {}
        for row in rows(folder, "api_call"):
            self.calls.setdefault(row["correlation"], []).append(row)
        for row in rows(folder, "kernel"):
            self.kernels.setdefault(row["correlation"], []).append(row)
        self.without = len(rows(folder, "metric_value", "--where", "value=-"))
        self.launches = {}
        for row in rows(folder, "metric_value"):
            values = self.launches.setdefault(row["correlation"], {})
            assert row["metric"] in self.metrics and row["metric"] not in values, "once each"
            values[row["metric"]] = row["value"]

    def check(self, count, timed=True):
        """So many launches, each with its own values, at their kernels, whose times are those of the last run."""
        assert len(self.launches) == count
        for correlation, values in self.launches.items():
            [kernel] = self.kernels[correlation]
            [call] = self.calls[correlation]
            if timed:
                assert call["start_ns"] < kernel["end_ns"] <= call["end_ns"]
                assert kernel["end_ns"] - kernel["start_ns"] == int(values["gpu__time_duration.sum"])
            assert values["launch__correlation.sum"] == correlation
            assert values["gpu__time_duration.sum"] > 1000
            assert values["sm__cycles_active.avg"] == len(kernel["config"])

    def lost(self):
        return sum(row["count"] for row in self.losses if row["reason"] == "unmeasured")


@pytest.fixture
def measure(record, rows, made_tape, tmp_path):
    """measure("a fault", "options", "--repeat", "9"): what was recorded."""
    def play(fault="", options="", *arguments, metrics=METRICS, **more):
        script = tmp_path / "faults"
        script.write_text(fault + "\n")
        folder = record(made_tape, f"engine=range-profiler;metrics={metrics};{options}", "--faults", str(script), *arguments, **more)
        return Measured(folder, rows)

    return play


def test_each_launch_has_its_own_values(measure):
    measured = measure(options="kernel_count=0")
    measured.check(LAUNCHES)
    assert len({values["gpu__time_duration.sum"] for values in measured.launches.values()}) == LAUNCHES
    assert sum(map(len, measured.kernels.values())) == 408 and not measured.losses
    assert {name: (row["unit"], row["description"]) for name, row in measured.metrics.items()} == {
        "gpu__time_duration.sum": ("nanosecond", "time"), "launch__correlation.sum": ("", "id of the call"),
        "sm__cycles_active.avg": ("cycle", "# of cycles with warps")}
    [engine] = measured.said["engine"]
    assert (engine["state"], engine["requested"], engine["actual"]) == ("on", "range-profiler", "range-profiler")
    assert engine["reason"].startswith("device 0 (GH100): 3 metrics in 1 pass; set up in ")
    assert not measured.said["metrics"]
    [graphs] = measured.said["graph_metrics"]
    assert (graphs["state"], graphs["reason"]) == ("unavailable", "kernels of CUDA graphs are not measured")
    replays = [row for row in measured.costs if row["kind"] == "replay"]  # one for each period
    assert sum(row["count"] for row in replays) == LAUNCHES and all(row["total_ns"] > 0 for row in replays)
    assert len([row for row in measured.costs if row["kind"] == "setup"]) == 2, "the recorder's, and the context's"


def test_reused_correlation_ids(measure):
    """After 2^32 calls the id of a launch that was measured is one of another, which has no time rather than that one's."""
    measured = measure("zero-times every 2", f"kernel_count={LAUNCHES}", "--repeat", "3", "--ids", str(2**31))
    assert len(measured.launches) == LAUNCHES and max(measured.launches) < 2**31
    assert {correlation - 2**32 for correlation in measured.kernels} >= set(measured.launches)
    timed = [[kernel for kernel in measured.kernels.get(correlation, []) if kernel["start_ns"]] for correlation in measured.launches]
    assert {len(kernels) for kernels in timed} - {0} == {1}


def test_several_rounds_in_several_segments(measure):
    """The rows that say what a metric is are repeated where they are needed."""
    measured = measure("", "kernel_count=0;segment_bytes=20000", "--repeat", "9", "--now")
    measured.check(9 * LAUNCHES)


def test_skip_and_count(measure):
    measured = measure(options="kernel_skip=5;kernel_count=7", metrics=METRICS + ",sm__cycles_active.avg")
    measured.check(7)
    launched = sorted(correlation for correlation, [*kernels] in measured.kernels.items() if len(kernels) == 1)
    assert sorted(measured.launches) == launched[5:12]


def test_the_count_without_an_option(measure):
    measure().check(100)


@pytest.mark.parametrize("pattern, matches", [
    ("gemm", lambda name: "gemm" in name), ("*gemm*", lambda name: "gemm" in name), ("*[gemm", lambda name: False),
    ("_Z?*", lambda name: name.startswith("_Z")), ("gemm*", lambda name: name.startswith("gemm")), ("?", lambda name: len(name) == 1)])
def test_kernels_by_name(measure, rows, made_tape, pattern, matches):
    measured = measure(options=f"kernels={pattern};kernel_count=0")
    names = {name for [*kernels] in measured.kernels.values() for name in [kernels[0]["config"]]}
    wanted = [correlation for correlation, kernels in measured.kernels.items() if len(kernels) == 1 and matches(kernels[0]["config"])]
    assert sorted(measured.launches) == sorted(wanted) and names


def test_wrong_names_do_not_spoil_the_others(measure):
    measured = measure(metrics="sm__cycle_active.avg,launch__correlation.sum,sm__throughput,nonsense", options="kernel_count=2")
    assert set(measured.metrics) == {"launch__correlation.sum", "gpu__time_duration.sum"} and len(measured.launches) == 2
    [row] = measured.said["metrics"]
    assert row["state"] == "degraded" and row["reason"] == (
        "chip GH100 has no metric 'sm__cycle_active.avg', did you mean 'sm__cycles_active' or 'sm__warps_active'?; "
        "'sm__throughput' needs one of its submetrics, such as 'sm__throughput.avg.pct_of_peak_sustained_elapsed'; "
        "`pitot metrics sm__throughput` lists them; chip GH100 has no metric 'nonsense'; `pitot metrics` lists them")


def test_a_set_that_the_chip_has_a_part_of(measure):
    measured = measure(metrics="memory", options="kernel_count=2")
    assert set(measured.metrics) == {"gpu__time_duration.sum", "dram__bytes_read.sum", "l1tex__t_sector_hit_rate.pct"}
    [row] = measured.said["metrics"]
    assert row["state"] == "on" and row["reason"] == "GH100 lacks 16 of the metrics of these sets"
    assert measured.without == 2
    for values in measured.launches.values():
        assert values["l1tex__t_sector_hit_rate.pct"] is None and values["dram__bytes_read.sum"] == 0.5


def test_no_metric_at_all(measure):
    measured = measure(metrics="nonsense")
    assert not measured.launches and "chip GH100 has no metric 'nonsense'" in measured.said["engine"][0]["reason"]


@pytest.mark.parametrize("fault, reason", [
    ("call cuptiRangeProfilerEnable returns 35", "NVreg_RestrictProfilingToAdminUsers=0"),
    ("call cuptiRangeProfilerEnable returns 26", "another profiler has the GPU's counters"),
    ("call cuptiRangeProfilerEnable returns 7", "another profiler has the GPU's counters"),
    ("call cuptiRangeProfilerEnable returns 27", "this GPU, driver or CUPTI cannot"),
    ("call cuptiRangeProfilerGetCounterDataSize returns 8", "out of memory on the GPU or the host"),
    ("call cuptiProfilerInitialize returns 15", "cuptiProfilerInitialize: CUPTI_ERROR_NOT_INITIALIZED"),
    ("call cuptiDeviceGetChipName returns 999", "cuptiDeviceGetChipName: error 999"),
    ("call cuptiProfilerHostInitialize returns 46", "CUPTI does not know chip 'GH100'"),
    ("call cuptiProfilerHostConfigAddMetrics returns 1", "no metric of '"),
    ("call cuptiRangeProfilerSetConfig returns 1", "cuptiRangeProfilerSetConfig: CUPTI_ERROR_INVALID_PARAMETER, at 3 launches"),
    ("call cuptiRangeProfilerCounterDataImageInitialize returns 8", "cuptiRangeProfilerCounterDataImageInitialize: "),
    ("call cuptiRangeProfilerStart returns 26", "cuptiRangeProfilerStart: CUPTI_ERROR_HARDWARE_BUSY, at 3 launches in a row"),
    ("call cuptiRangeProfilerStart returns 8", "cuptiRangeProfilerStart: CUPTI_ERROR_OUT_OF_MEMORY, at 3 launches in a row: out of memory, "
     "probably for saving the kernel's output between passes; exclude it with --kernels, or measure what runs once with --measure range"),
    ("call cuptiRangeProfilerStop returns 8", "cuptiRangeProfilerStop: CUPTI_ERROR_OUT_OF_MEMORY, at 1 launch: out of memory, probably for saving"),
    ("call cuptiRangeProfilerStop returns 999", "cuptiRangeProfilerStop: CUPTI_ERROR_UNKNOWN, at 1 launch"),
    ("call cuptiRangeProfilerDecodeData returns 999", "cuptiRangeProfilerDecodeData: "),
    ("call cuptiRangeProfilerGetCounterDataInfo returns 1", "cuptiRangeProfilerGetCounterDataInfo: "),
    ("call cuptiProfilerHostEvaluateToGpuValues returns 17", "cuptiProfilerHostEvaluateToGpuValues: "),
    ("missing cuptiRangeProfilerDecodeData", "this CUPTI lacks cuptiRangeProfilerDecodeData: hardware counters need CUDA 12.6 Update 2"),
    ("missing cuptiProfilerHostGetSubMetrics", "this CUPTI lacks cuptiProfilerHostGetSubMetrics"),
    ("missing cuStreamIsCapturing", "the driver lacks cuStreamIsCapturing"),
])
def test_without_counters_the_trace_goes_on(measure, fault, reason):
    measured = measure(fault)
    assert not measured.launches and sum(map(len, measured.kernels.values())) == 408
    engine = measured.said["engine"][-1]
    assert (engine["state"], engine["requested"], engine["actual"]) == ("degraded", "range-profiler", "trace")
    assert reason in engine["reason"]


def test_only_three_failures_in_a_row_stop_the_engine(measure):
    """Three are too many only one after the other, and one launch that failed has no values of another."""
    measured = measure("\n".join(f"call cuptiRangeProfilerDecodeData#{n} returns 999" for n in (1, 2, 4, 7, 8)), "kernel_count=0")
    measured.check(LAUNCHES - 5)
    assert measured.lost() == 5 and [row["state"] for row in measured.said["engine"]] == ["on"]


def test_some_kernels_are_too_large_to_save(measure):
    """The others are measured, and the loss says how many were not."""
    faults = "\n".join(f"call cuptiRangeProfilerStart#{n} returns 8" for n in range(2, 60, 2))
    measured = measure(faults, "kernel_count=0")
    measured.check(LAUNCHES - 29)
    assert measured.lost() == 29 and [row["state"] for row in measured.said["engine"]] == ["on"]


def test_sixty_passes(measure):
    """Kernels are measured as with few passes, and the recording says how many there were."""
    measured = measure("passes 60", "kernel_count=5")
    measured.check(5)
    assert measured.said["engine"][0]["reason"].startswith("device 0 (GH100): 3 metrics in 60 passes; set up in ")


def test_20000_kernels(record, rows, make_tape, pitot, tmp_path):
    (tmp_path / "faults").write_text("storm 20000-names\n")
    folder = record(make_tape("fast", 20000), f"engine=range-profiler;kernel_count=0;metrics={METRICS}", "--faults", tmp_path / "faults")
    assert not rows(folder, "loss")
    counters = pitot("report", folder, "--json", json_output=True)["counters"]
    assert (counters["launches"], len(counters["kernels"])) == (20000, 20000)
    assert len({row["kernel"] for row in counters["metrics"] if row["metric"] == "launch__correlation.sum"}) == 20000
    text = pitot("report", folder, "--counters").stdout
    assert "20,000 launches of 20,000 kernels measured; 10 of 20,000 shown" in text and len(text) < 20000


def test_without_the_image_of_availability(measure):
    measure("call cuptiProfilerGetCounterAvailability returns 999", "kernel_count=3").check(3)


def test_a_launch_of_another_thread_in_the_same_range(measure):
    """Whose values they are is not known, so nobody has them."""
    measured = measure("range-extra every 4", "kernel_count=0")
    measured.check(LAUNCHES - LAUNCHES // 4)
    assert measured.lost() == LAUNCHES // 4


def test_a_stream_that_captures(measure):
    """Such a launch does not run now; it does not count."""
    measured = measure("capturing every 3", "kernel_count=60")
    measured.check(60)
    assert measured.lost() == 0
    launched = sorted(correlation for correlation, [*kernels] in measured.kernels.items() if len(kernels) == 1)
    assert sorted(measured.launches) == [correlation for i, correlation in enumerate(launched) if i % 3 != 2][:60]


@pytest.mark.parametrize("options, reason", [
    ("kernels=nosuch", "no launch of a kernel that matches --kernels 'nosuch'"),
    ("kernels=nosuch;nvtx_include=a,b", "no launch of a kernel that matches --kernels 'nosuch' in a range that matches --nvtx 'a,b'"),
    ("nvtx_include=a", "no launch in a range that matches --nvtx 'a'"),
    (f"kernel_skip={LAUNCHES}", f"--skip {LAUNCHES} leaves none of the {LAUNCHES} launches"),
    ("kernel_skip=100000", f"--skip 100000 leaves none of the {LAUNCHES} launches"),
    ("measure=range;nvtx_include=a", "no range that matches --nvtx 'a' occurred as often as the metrics need passes"),
])
def test_nothing_selected(measure, pitot, options, reason):
    """The end of the recording says that nothing was, and so does the report."""
    measured = measure(options=options)
    assert not measured.launches
    [engine] = measured.said["engine"]
    assert (engine["state"], engine["reason"]) == ("degraded", f"nothing was measured: {reason}")
    assert f"counters nothing was measured: {reason}" in " ".join(pitot("report", measured.folder, "--counters").stdout.split())


def test_all_launches_captured(measure):
    """They match, but do not run now: nothing is said of the selection."""
    measured = measure("capturing every 1", "kernels=_Z*")
    assert not measured.launches and [row["state"] for row in measured.said["engine"]] in ([], ["on"])


def test_nothing_launched(measure):
    """That is not because of the selection."""
    assert [row["state"] for row in measure("", "delay_ns=3600000000000").said["engine"]] in ([], ["on"])


@pytest.mark.parametrize("engine, table", [("range-profiler", "metric_value"), ("sass-metrics", "sass_value")])
def test_launches_beside_a_capture(record, rows, make_tape, engine, table):
    """To measure them would break the capture."""
    folder = record(make_tape("captures", 20), f"engine={engine};kernel_count=0" + (f";metrics={METRICS}" if table == "metric_value" else ""))
    names = {row["correlation"]: row["config"] for row in rows(folder, "kernel")}
    assert collections.Counter(names.values()) == {"_Z5afterv": 20, "_Z6besidev": 20}
    launches = {row["correlation"] for row in rows(folder, table)}
    assert {names[launch] for launch in launches} == {"_Z5afterv"} and len(launches) == 20
    assert sum(row["count"] for row in rows(folder, "loss") if row["reason"] == "unmeasured") == 20


def test_launches_that_fail(measure):
    measured = measure("fail-launches every 5", "kernel_count=0")
    assert measured.launches and set(measured.launches) <= set(measured.kernels)
    measured.check(len(measured.launches))


def test_a_context_that_goes_while_a_launch_is_measured(measure):
    """The stand-in aborts at a call for it after that."""
    measured = measure("range-destroy at 30", "kernel_count=0")
    measured.check(LAUNCHES - 1)
    assert measured.lost() == 1


def test_threads_at_once(measure):
    """Who finds the profiler in use is counted, and nobody has another's values."""
    measured = measure("slow-launches 100", "kernel_count=0", "--parallel", "--now", "--repeat", "4")
    measured.check(len(measured.launches), timed=False)
    assert len(measured.launches) + measured.lost() >= 4 * LAUNCHES > 0 < len(measured.launches)


def test_a_window(measure, in_window):
    measured = in_window(lambda window, *arguments: measure("", f"kernel_count=0;{window}", *arguments), lambda found: found.launches)
    measured.check(len(measured.launches))
    assert 0 < len(measured.launches) < 40 * LAUNCHES


def test_a_window_in_which_the_process_is_stopped(start_play):
    """It is over when the recorder runs again, and the recording says so."""
    play = start_play("train", options="delay_ns=3000000000;duration_ns=100000000")
    wait_until(lambda: list(play.recording.iterdir()), "the recording begins", play.process)
    play.process.send_signal(signal.SIGSTOP)
    time.sleep(3.2)
    play.process.send_signal(signal.SIGCONT)
    play.end()
    [row] = play.rows("capability", "--where", "name=window")
    assert (row["state"], row["requested"], row["actual"]) == ("unavailable", "100 ms", "none")
    assert "after the window had closed" in row["reason"] and play.count("kernel") == 0


def test_a_window_that_never_opens(measure):
    measured = measure("", "delay_ns=3600000000000", "--repeat", "5", "--now")
    assert not measured.launches and not measured.metrics and not measured.losses


def test_all_calls_recorded(measure):
    """The recorder's own calls of the driver are none of the program's."""
    measure(options="api=all;kernel_count=0").check(LAUNCHES)


def test_nothing_of_it_without_the_engine(record, rows, made_tape):
    assert not rows(record(made_tape, f"engine=trace;metrics={METRICS}"), "metric_value")


def test_record(pitot, build, made_tape, rows, tmp_path):
    folder = tmp_path / "rec.pitot"
    pitot("record", "-q", "--no-cpu", "--stacks", "none", "--engine", "range-profiler", "--metrics", METRICS, "--skip", "2", "--count", "3",
          "-o", folder, "--", build / "standin/tape-play", made_tape)
    Measured(folder, rows).check(3)


@pytest.mark.parametrize("total, free, got, measured", [
    (1 << 50, 0, "none", False), (1 << 30, (1 << 29) - (1 << 19), "range-profiler", True), (1 << 30, 1 << 29, None, True)])
def test_memory_that_cannot_be_saved(record, rows, made_tape, tmp_path, total, free, got, measured):
    """CUPTI saves what is allocated on the GPU before it runs a kernel again, and what has no room there on the host, without asking."""
    script = tmp_path / "faults"
    script.write_text(f"passes 2\ngpu-memory {total}\ngpu-memory-free {free}\n")
    folder = record(made_tape, "engine=range-profiler;metrics=launch__correlation.sum", "--faults", str(script))
    notes = [row for row in rows(folder, "capability") if row["name"] == "replay_memory"]
    assert [row["actual"] for row in notes] == [got] * (got is not None)
    assert bool(rows(folder, "metric_value")) == measured
    assert any(row["reason"] == "unmeasured" for row in rows(folder, "loss")) == (not measured)
    if got == "range-profiler":
        assert notes[0]["reason"].startswith("each measured launch must save 0.5 GiB of GPU memory, of which 0.0 GiB go to the host")


def test_one_pass_needs_no_memory(record, rows, made_tape, tmp_path):
    script = tmp_path / "faults"
    script.write_text(f"passes 1\ngpu-memory {1 << 50}\ngpu-memory-free 0\n")
    folder = record(made_tape, "engine=range-profiler;metrics=launch__correlation.sum", "--faults", str(script))
    assert rows(folder, "metric_value") and not [row for row in rows(folder, "capability") if row["name"] == "replay_memory"]
