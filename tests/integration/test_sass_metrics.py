"""
--engine sass-metrics over the stand-in for CUPTI, which refuses calls that break a rule of the interface and ends the process at those
that would do harm: what instructions of a launch count is known (tests/standin/standin_sass_metrics.c).
"""
import collections

import pytest

NAMES = ["inst_executed", "thread_inst_executed", "thread_inst_executed_pred_on", "sectors_mem_global", "branch_targets", "sectors_mem_local",
         "sectors_mem_global_ideal"]
NAMES = ["smsp__sass_" + name for name in NAMES]
IDEAL = NAMES[-1]
DEFAULT = {*NAMES[:4], IDEAL}
OFFSETS = 0x10, 0x20, 0x130
LAUNCHES = 24 * 12  # that tape-make has, those of graphs aside


def values_of(metrics):
    """Of a launch, by metric and offset."""
    found = {(name, offset): 1000 * (NAMES.index(name) + 1) + offset for name in metrics for offset in OFFSETS if name != IDEAL}
    return {**found, **({(IDEAL, 0x20): 7000 + 0x20} if IDEAL in metrics else {})}


class Measured:
    def __init__(self, folder, rows):
        self.folder = folder
        self.metrics = {row["name"]: row for row in rows(folder, "metric")}
        self.losses, self.costs, self.cubins = rows(folder, "loss"), rows(folder, "cost"), rows(folder, "cubin")
        capabilities = rows(folder, "capability")
        self.said = {name: [row for row in capabilities if row["name"] == name] for name in ("engine", "metrics", "graph_metrics", "kernel")}
        self.kernels = {}
        for row in rows(folder, "kernel"):
            self.kernels.setdefault(row["correlation"], []).append(row)
        self.calls = {row["correlation"]: row for row in rows(folder, "api_call")}
        self.launches, self.functions = {}, {}
        for row in rows(folder, "sass_value"):
            values = self.launches.setdefault(row["correlation"], collections.Counter())
            values[row["metric"], row["offset"]] += row["value"]
            self.functions.setdefault(row["correlation"], set()).add(row["function"])
            assert row["device"] == 0 and {cubin["crc"] for cubin in self.cubins} == {row["crc"]}

    def check(self, count, metrics=DEFAULT):
        """So many launches, each with what one launch counts, under its kernel's name."""
        assert len(self.launches) == count and set(self.metrics) == (metrics if count else set())
        for correlation, values in self.launches.items():
            assert values == values_of(metrics)
            if self.kernels:
                [kernel] = self.kernels[correlation]
                assert self.functions[correlation] == {kernel["config"]}

    def lost(self, reason="unmeasured"):
        return sum(row["count"] for row in self.losses if row["reason"] == reason)

    def single(self):
        """Launches of single kernels, in their order."""
        return sorted(correlation for correlation, kernels in self.kernels.items() if len(kernels) == 1)


@pytest.fixture
def measure(record, rows, made_tape, tmp_path):
    """measure("a fault", "options", "--repeat", "9"): what was recorded."""
    def play(fault="", options="", *arguments, **more):
        script = tmp_path / "faults"
        script.write_text(fault + "\n")
        return Measured(record(made_tape, f"engine=sass-metrics;{options}", "--faults", str(script), *arguments, **more), rows)

    return play


def test_each_launch_has_its_own_values(measure):
    measured = measure(options="kernel_count=0")
    measured.check(LAUNCHES)
    assert sum(map(len, measured.kernels.values())) == 408 and not measured.losses
    assert measured.metrics[IDEAL]["description"] == "# of sectors at best"
    [engine] = measured.said["engine"]
    assert (engine["state"], engine["requested"], engine["actual"]) == ("on", "sass-metrics", "sass-metrics")
    assert engine["reason"].startswith("device 0 (GH100): 5 instruction metrics; measured kernels run patched code")
    [kernel] = measured.said["kernel"]
    assert (kernel["state"], kernel["actual"]) == ("degraded", "serialized") and kernel["reason"].endswith("kernels whose instructions it counts have no end time")
    [graphs] = measured.said["graph_metrics"]
    assert graphs["reason"] == "kernels of CUDA graphs are not measured"
    replays = [row for row in measured.costs if row["kind"] == "replay"]  # one in each period
    assert sum(row["count"] for row in replays) == LAUNCHES and all(row["total_ns"] > 0 for row in replays)


def test_flushes_meanwhile(measure):
    """The stand-in aborts where a flush meets a launch that is counted: on a GPU both wait for each other. A launch may be left out for one."""
    measured = measure("", "kernel_count=0", "--now", "--repeat", "60")
    assert len(measured.launches) + measured.lost() == 60 * LAUNCHES and measured.lost() < LAUNCHES
    assert all(values == values_of(DEFAULT) for values in measured.launches.values())


def test_deep_has_samples_and_counts(measure, rows):
    """With samples of the same kernels: neither misses what the other does."""
    measured = measure(options="engine=deep;kernel_skip=5;kernel_count=7")
    measured.check(7)
    assert [row["requested"] for row in measured.said["engine"] if row["state"] == "on"] == ["pc-sampling", "sass-metrics"]
    readings, samples = rows(measured.folder, "pc_reading"), rows(measured.folder, "pc_sample")
    assert sum(row["samples"] for row in samples) + sum(row["other"] + row["dropped"] for row in readings) == sum(row["total"] for row in readings) > 0
    assert {row["crc"] for row in samples} <= {row["crc"] for row in measured.cubins}
    assert sum(map(len, measured.kernels.values())) == 408 and not measured.losses


def test_deep_where_it_cannot_measure(measure, rows):
    """Samples go on."""
    measured = measure("call cuptiSassMetricsEnable returns 27", "engine=deep")
    measured.check(0)
    assert "cuptiSassMetricsEnable" in measured.said["engine"][-1]["reason"] and rows(measured.folder, "pc_sample")


def test_times(measure):
    """Those of patched code are not the kernel's own: it has a beginning alone. All others are as ever."""
    measured = measure(options="kernel_skip=5;kernel_count=7")
    measured.check(7)
    for correlation, kernels in measured.kernels.items():
        for kernel in kernels:
            assert kernel["start_ns"] and (kernel["end_ns"] is None) == (correlation in measured.launches)
    assert not measured.losses


@pytest.mark.parametrize("fault", ["", "drop-buffer 1"], ids=["all", "dropped"])
def test_reused_correlation_ids(measure, fault):
    """After 2^32 calls the id of a launch that was measured is one of another, whose end counts; also where the first had no record."""
    measured = measure(fault, f"kernel_count={LAUNCHES}", "--repeat", "3", "--ids", str(2**31))
    assert len(measured.launches) == LAUNCHES and max(measured.launches) < 2**31
    assert bool(set(measured.launches) - set(measured.kernels)) == bool(fault)
    last = [kernel for correlation, kernels in measured.kernels.items() if correlation >= 2**32 for kernel in kernels]
    assert {correlation - 2**32 for correlation in measured.kernels} >= set(measured.launches)
    assert len(last) == 408 and all(kernel["end_ns"] for kernel in last)


def test_without_counts(measure):
    """The launches are lost, and that is said."""
    measured = measure("sass-zero", "kernel_count=0")
    measured.check(0)
    assert "CUPTI counted no instruction in 3 launches in a row" in measured.said["engine"][-1]["reason"]
    assert measured.lost() == 3 and sum(map(len, measured.kernels.values())) == 408


def test_launches_without_counts_among_others(measure):
    """Only those one after the other are too many."""
    measured = measure("\n".join(f"call cuptiSassMetricsFlushData#{n} returns 0" for n in (1, 2, 4, 6, 7)), "kernel_count=20")
    measured.check(15)
    assert measured.lost() == 5 and [row["state"] for row in measured.said["engine"]] == ["on"]


def test_counts_that_may_be_zero(measure):
    measured = measure("sass-zero", f"kernel_count=5;metrics={NAMES[3]}")
    assert len(measured.launches) == 5 and not measured.lost()


def test_without_records_one_after_the_other(measure):
    """Those at the same time are recorded, and nothing is measured."""
    measured = measure("call cuptiActivityEnable#1 returns 14")
    measured.check(0)
    assert "refuses records of serialized kernels (CUPTI_ERROR_NOT_COMPATIBLE)" in measured.said["engine"][-1]["reason"]
    assert sum(map(len, measured.kernels.values())) == 408 and [row["state"] for row in measured.said["kernel"]] == ["on"]
    assert all(kernel["end_ns"] for kernels in measured.kernels.values() for kernel in kernels)


def test_device_code_has_its_checksum(measure):
    """Under the half of CUPTI's checksum that values of instructions have, whatever of both was known first."""
    measured = measure()
    measured.check(100)
    [cubin] = measured.cubins
    assert not cubin["crc"] >> 32 and cubin["size_bytes"] == 3000
    assert (measured.folder / cubin["file"]).stat().st_size == 3000


@pytest.mark.parametrize("metrics", [{NAMES[4]}, {NAMES[0], NAMES[5]}, {IDEAL}, set(NAMES)])
def test_chosen_metrics(measure, metrics):
    measure(options="kernel_count=2;metrics=" + ",".join(sorted(metrics)) + "," + min(metrics)).check(2, metrics)


def test_wrong_names_do_not_spoil_the_others(measure):
    measured = measure(options=f"kernel_count=2;metrics=nonsense,default,smsp__sass_inst_execute,{NAMES[5]}")
    measured.check(2, {*DEFAULT, NAMES[5]})
    [row] = measured.said["metrics"]
    assert row["state"] == "degraded" and row["reason"] == (
        "chip GH100 has no instruction metric 'nonsense'; chip GH100 has no instruction metric 'smsp__sass_inst_execute'")


def test_no_metric_at_all(measure):
    measured = measure(options="metrics=nonsense")
    measured.check(0)
    assert measured.said["engine"][0]["reason"].startswith("no metric of 'nonsense': chip GH100 has no instruction metric 'nonsense'")


def test_skip_count_and_names(measure):
    measured = measure(options="kernel_skip=5;kernel_count=7;kernels=gemm")
    measured.check(7)
    assert sorted(measured.launches) == [c for c in measured.single() if "gemm" in measured.kernels[c][0]["config"]][5:12]


@pytest.mark.parametrize("fault, reason", [
    ("call cuptiProfilerInitialize returns 15", "cuptiProfilerInitialize: CUPTI_ERROR_NOT_INITIALIZED"),
    ("call cuptiDeviceGetChipName returns 999", "cuptiDeviceGetChipName: "),
    ("call cuptiSassMetricsGetProperties returns 27", "no metric of 'default': none is known of chip GH100"),
    ("call cuptiSassMetricsSetConfig returns 35", "NVreg_RestrictProfilingToAdminUsers=0"),
    ("call cuptiSassMetricsSetConfig returns 8", "cuptiSassMetricsSetConfig: CUPTI_ERROR_OUT_OF_MEMORY: out of memory on the GPU"),
    ("call cuptiSassMetricsEnable returns 27", "this GPU, driver or CUPTI cannot"),
    ("call cuptiSassMetricsEnable returns 1", "cuptiSassMetricsEnable: CUPTI_ERROR_INVALID_PARAMETER, at 3 launches in a row"),
    ("call cuptiSassMetricsGetDataProperties returns 7", "cuptiSassMetricsGetDataProperties: "),
    ("call cuptiSassMetricsFlushData returns 1", "cuptiSassMetricsFlushData: "),
    ("call cuptiCtxSynchronize returns 700", "cuCtxSynchronize: "),
    ("call cuptiSassMetricsEnable returns 14", "cuptiSassMetricsEnable: CUPTI_ERROR_NOT_COMPATIBLE"),
    ("call cuptiActivityFlushPeriod returns 15", "cuptiActivityFlushPeriod: CUPTI_ERROR_NOT_INITIALIZED"),
    ("missing cuptiActivityFlushPeriod", "this CUPTI lacks cuptiActivityFlushPeriod"),
    ("missing cuptiSassMetricsFlushData", "this CUPTI lacks cuptiSassMetricsFlushData: instruction metrics need CUDA 12.6 Update 2"),
    ("missing cuCtxSynchronize", "lacks the driver's cuCtxSynchronize"),
    ("missing cuStreamIsCapturing", "the driver lacks cuStreamIsCapturing"),
])
def test_without_metrics_the_trace_goes_on(measure, fault, reason):
    measured = measure(fault)
    measured.check(0)
    assert sum(map(len, measured.kernels.values())) == 408
    engine = measured.said["engine"][-1]
    assert (engine["state"], engine["requested"], engine["actual"]) == ("degraded", "sass-metrics", "trace")
    assert reason in engine["reason"]


def test_a_disable_that_fails_is_the_last(measure):
    measured = measure("call cuptiSassMetricsDisable#3 returns 999")
    measured.check(2)
    assert "cuptiSassMetricsDisable: CUPTI_ERROR_UNKNOWN, at 1 launch" in measured.said["engine"][-1]["reason"]


def test_only_three_failures_in_a_row_stop_the_engine(measure):
    """Three are too many only one after the other, and a launch that failed has no values of another."""
    measured = measure("\n".join(f"call cuptiSassMetricsFlushData#{n} returns 999" for n in (1, 2, 4, 7, 8)), "kernel_count=0")
    measured.check(LAUNCHES - 5)
    assert measured.lost() == 5 and [row["state"] for row in measured.said["engine"]] == ["on"]


def test_dropped_records(measure):
    measured = measure("sass-dropped 9", "kernel_count=4")
    measured.check(4)
    assert measured.lost("gpu_records_dropped") == 36


def test_names_that_are_the_clients(measure):
    """Freed, each once: the sanitizer says if not."""
    measure("pc-own-names", "kernel_count=0").check(LAUNCHES)


def test_streams_that_capture(measure):
    measured = measure("capturing every 3", "kernel_count=60")
    measured.check(60)
    assert measured.lost() == 0


def test_launches_that_fail(measure):
    measured = measure("fail-launches every 5", "kernel_count=0")
    assert measured.launches and set(measured.launches) <= set(measured.kernels)
    measured.check(len(measured.launches))


def test_a_context_that_goes_while_a_launch_is_measured(measure):
    """The stand-in aborts at a call for it after that."""
    measured = measure("sass-destroy at 30", "kernel_count=0")
    measured.check(len(measured.launches))
    assert len(measured.launches) >= LAUNCHES - 1 and measured.lost() >= 1


def test_unloaded_modules_lose_no_counts(measure):
    measured = measure("sass-unload every 7", "kernel_count=0", "--repeat", "3")
    measured.check(len(measured.launches))
    assert len(measured.launches) > LAUNCHES and len(measured.launches) + measured.lost() == 3 * LAUNCHES


def test_threads_at_once(measure):
    """Who finds the profiler in use is counted, and nobody has another's values."""
    measured = measure("slow-launches 100", "kernel_count=0", "--parallel", "--now", "--repeat", "4")
    measured.check(len(measured.launches))
    assert measured.launches and len(measured.launches) + measured.lost() >= 4 * LAUNCHES


def test_forks(measure):
    """Also while a launch is measured: the parent goes on, and a child has nothing of it."""
    measured = measure("", "kernel_count=0", "--fork-every", "13")
    measured.check(len(measured.launches))
    assert len(measured.launches) >= LAUNCHES - 0


def test_a_window(measure, in_window):
    measured = in_window(lambda window, *arguments: measure("", f"kernel_count=0;{window}", *arguments), lambda found: found.launches)
    assert 0 < len(measured.launches) < 40 * LAUNCHES
    assert all(values == values_of(DEFAULT) for values in measured.launches.values())


def test_a_window_that_never_opens(measure):
    measured = measure("", "delay_ns=3600000000000", "--repeat", "5", "--now")
    assert not measured.launches and not measured.metrics and not measured.losses


def test_nothing_of_it_without_the_engine(record, rows, made_tape):
    assert not rows(record(made_tape, "engine=trace"), "sass_value")


def test_record(pitot, build, made_tape, rows, tmp_path):
    folder = tmp_path / "rec.pitot"
    pitot("record", "-q", "--no-cpu", "--stacks", "none", "--engine", "sass-metrics", "--metrics", NAMES[0], "--skip", "2", "--count", "3",
          "-o", folder, "--", build / "standin/tape-play", made_tape)
    Measured(folder, rows).check(3, {NAMES[0]})


def test_hints_name_kernels_as_people_do(measure, pitot):
    text = pitot("report", measure().folder).stdout
    assert "divergent: 1.8 of 32 threads, gemm<128, 128>+0x130" in text and ", _Z" not in text
