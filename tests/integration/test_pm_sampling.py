"""
--engine pm-sampling over the stand-in for CUPTI, which refuses calls that break a rule of the interface: what samples say is known
(tests/standin/standin_pm_sampling.c), so each value says when and which it is.
"""
import collections
import json
import re
import time

import pytest

METRICS = "gpu__time_duration.sum,launch__correlation.sum,sm__cycles_active.avg"
UNITS = {"gpu__time_duration.sum": "nanosecond", "launch__correlation.sum": "", "sm__cycles_active.avg": "cycle"}
PLAY = ("--now", "--repeat", "80")
FIRST_ID = 128  # of counters that are sampled


class Sampled:
    def __init__(self, folder, rows):
        self.folder, self.losses, self.costs = folder, rows(folder, "loss"), rows(folder, "cost")
        self.counters = {row["id"]: row for row in rows(folder, "counter") if row["id"] >= FIRST_ID}
        self.said = collections.defaultdict(list)
        for row in rows(folder, "capability"):
            self.said[row["name"]].append(row)
        self.rows = rows
        self.clock = [row for row in rows(folder, "clock") if row["gpu_ns"]][-1:]
        self.samples = collections.defaultdict(dict)
        for row in rows(folder, "counter_sample"):
            counter = self.counters.get(row["counter"]) or next((c for c in self.counters.values() if c["name"] == row["counter"]), None)
            if counter:
                assert row["device"] == 0 and counter["name"] not in self.samples[row["time_ns"]]
                self.samples[row["time_ns"]][counter["name"]] = row["value"] / 10 ** counter["decimals"]

    def kernels(self):
        """When they started."""
        return [row["start_ns"] for row in self.rows(self.folder, "kernel", "--columns", "start_ns")]

    def check(self, interval_ns=500_000):
        """Each sample is complete, and stands at its time. The lengths of the runs without a gap."""
        assert {row["name"]: row["unit"] for row in self.counters.values()} == UNITS
        [clock] = self.clock
        runs, before = [], None
        for time_ns, values in sorted(self.samples.items()):
            assert set(values) == set(UNITS) and values["gpu__time_duration.sum"] == interval_ns
            gpu_ns = time_ns + clock["gpu_ns"] - clock["monotonic_ns"]
            off = (gpu_ns - values["launch__correlation.sum"] * 1000 + 5e8) % 1e9 - 5e8
            assert abs(off) < 2e6, "the clocks' pairs are milliseconds apart at most"
            number = values["sm__cycles_active.avg"]
            assert number > 0, "the first begins before the start"
            if before is not None and number == before + 1:
                runs[-1] += 1
            else:
                runs.append(1)
            before = number
        return runs

    def check_whole(self, interval_ns=500_000):
        """How many there are from the first to the last: on a machine that is busy for half a second, with those whose loss is counted."""
        runs = self.check(interval_ns)
        numbers = sorted(values["sm__cycles_active.avg"] for values in self.samples.values())
        assert self.lost() == numbers[-1] - numbers[0] + 1 - sum(runs)
        return int(numbers[-1] - numbers[0]) + 1

    def lost(self):
        return sum(row["count"] for row in self.losses if row["reason"] == "gpu_records_dropped")


@pytest.fixture
def sample(record, rows, made_tape, tmp_path):
    """sample("a fault", "options", "--repeat", "9"): what was recorded."""
    def play(fault="", options="", *arguments, metrics=METRICS, **more):
        script = tmp_path / "faults"
        script.write_text(fault + "\n")
        folder = record(made_tape, f"engine=pm-sampling;counters_ns=0;metrics={metrics};{options}", "--faults", str(script),
                        *(arguments or PLAY), **more)
        return Sampled(folder, rows)

    return play


def test_samples_at_their_times(sample):
    sampled = sample()
    run = sampled.check_whole()
    starts = sampled.kernels()
    assert run > 100 and len(starts) == 80 * 408
    times = sorted(sampled.samples)
    assert times[-1] - times[0] == pytest.approx((run - 1) * 500_000, abs=2e6)
    assert min(starts) - 3e8 < times[0] < times[-1] < max(starts) + 3e8
    [engine] = sampled.said["engine"]
    assert (engine["state"], engine["requested"], engine["actual"]) == ("on", "pm-sampling", "pm-sampling")
    assert engine["reason"].startswith("device 0 (GH100): 3 metrics in 1 pass; set up in ") and not sampled.said["metrics"]
    assert [row["description"] for row in sampled.counters.values() if row["name"] == "sm__cycles_active.avg"] == ["# of cycles with warps"]
    assert len([row for row in sampled.costs if row["kind"] == "setup"]) == 2, "the recorder's, and the device's"


@pytest.mark.parametrize("interval, taken", [(20_000, 20_000), (10**10, 1_000_000), (1, 20_000)])
def test_intervals(sample, interval, taken):
    """Also more samples in a reading than an image has room for."""
    sampled = sample(options=f"pm_interval_ns={interval}")
    assert sum(sampled.check(taken)) > 50
    said = [row["reason"] for row in sampled.said["sampling_interval"]]
    assert said == ([f"sampled every {'20us' if interval < taken else '1ms'}: --pm-interval may be from 20us to 1ms"] if interval != taken else [])


def test_segments_repeat_what_a_counter_is(sample):
    run = sample("", "segment_bytes=20000;pm_interval_ns=100000").check_whole(100_000)
    assert run > 500


def test_a_buffer_that_was_full(sample):
    """What is missing is counted by the gaps; sampling goes on."""
    sampled = sample("pm-most 10", "pm_interval_ns=100000")
    runs = sampled.check(100_000)
    assert len(runs) > 1 and sampled.said["engine"][-1]["state"] == "on"
    numbers = [values["sm__cycles_active.avg"] for _, values in sorted(sampled.samples.items())]
    assert sampled.lost() == numbers[-1] - numbers[0] + 1 - len(numbers) > 0
    assert "--pm-interval" in sampled.losses[0]["detail"]


@pytest.mark.parametrize("function", ["cuptiPmSamplingCounterDataGetSampleInfo", "cuptiProfilerHostEvaluateToGpuValues"])
def test_a_sample_that_cannot_be_read(sample, function):
    sampled = sample(f"call {function}#30 returns 1")
    assert len(sampled.check()) == 2 and sampled.lost() == 1


def test_only_three_failures_in_a_row_stop_the_engine(sample):
    """Three are too many only one after the other."""
    faults = "\n".join(f"call cuptiPmSamplingDecodeData#{n} returns {result}" for n, result in ((5, 8), (10, 999), (15, 8), (20, 8)))
    sampled = sample(faults, "pm_interval_ns=20000")
    assert len(sampled.check(20_000)) >= 5 and sampled.lost() > 0, "counted from 0 after each; more on a busy machine"
    assert [row["state"] for row in sampled.said["engine"]] == ["on"]


@pytest.mark.parametrize("fault, reason", [
    ("call cuptiPmSamplingEnable returns 35", "device 0: cuptiPmSamplingEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: that needs the rights"),
    ("call cuptiPmSamplingEnable returns 7", "another profiler has the GPU's counters"),
    ("call cuptiPmSamplingEnable returns 27", "this GPU, driver or CUPTI cannot"),
    ("call cuptiPmSamplingSetConfig returns 27", "device 0: cuptiPmSamplingSetConfig: "),
    ("call cuptiPmSamplingGetCounterDataSize returns 8", "out of memory on the GPU or the host"),
    ("call cuptiPmSamplingStart returns 26", "cuptiPmSamplingStart: CUPTI_ERROR_HARDWARE_BUSY: another profiler"),
    ("call cuptiProfilerInitialize returns 15", "cuptiProfilerInitialize: CUPTI_ERROR_NOT_INITIALIZED"),
    ("call cuptiDeviceGetChipName returns 999", "cuptiDeviceGetChipName: error 999"),
    ("call cuptiPmSamplingCounterDataImageInitialize returns 1", "cuptiPmSamplingCounterDataImageInitialize: "),
    ("call cuptiPmSamplingDecodeData returns 8", "cuptiPmSamplingDecodeData: CUPTI_ERROR_OUT_OF_MEMORY, 3 times in a row: a longer"),
    ("call cuptiPmSamplingGetCounterDataInfo returns 1", "cuptiPmSamplingGetCounterDataInfo: CUPTI_ERROR_INVALID_PARAMETER, 3 times"),
    ("missing cuptiPmSamplingDecodeData", "this CUPTI lacks cuptiPmSamplingDecodeData: sampling needs CUDA 12.6 Update 2 or later"),
])
def test_without_samples_the_trace_goes_on(sample, fault, reason):
    sampled = sample(fault, "pm_interval_ns=20000")
    assert not sampled.samples and not sampled.counters and len(sampled.kernels()) == 80 * 408
    engine = sampled.said["engine"][-1]
    assert (engine["state"], engine["requested"], engine["actual"]) == ("degraded", "pm-sampling", "trace") and reason in engine["reason"]


@pytest.mark.parametrize("fault", ["call cuptiPmSamplingCounterDataGetSampleInfo returns 1", "call cuptiProfilerHostEvaluateToGpuValues returns 17"])
def test_samples_that_cannot_be_read(sample, fault):
    assert not sample(fault).samples


@pytest.mark.parametrize("function", ["Stop", "Disable", "GetCounterAvailability"])
def test_calls_without_which_it_goes(sample, function):
    assert sum(sample(f"call cuptiPmSampling{function} returns 999").check()) > 100


def test_a_device_without_a_trigger_by_time(sample):
    sampled = sample("call cuptiPmSamplingSetConfig#1 returns 27")
    assert sum(sampled.check(1_000_000)) > 50
    [row] = sampled.said["sampling_interval"]
    assert row["state"] == "degraded" and "500000 cycles of its system clock" in row["reason"]


def test_a_gpu_that_hangs(sample):
    """The program ends all the same."""
    assert sample("hang cuptiPmSamplingDecodeData at 200", "pm_interval_ns=20000").kernels()


def test_names_that_do_not_fit(sample):
    metrics = f"sm__cycle_active.avg,{METRICS},dram__bytes_read.sum,l1tex__t_sector_hit_rate.pct,gpu__time_duration.avg"
    sampled = sample(metrics=metrics)
    sampled.check()
    [row] = sampled.said["metrics"]
    assert row["state"] == "degraded" and row["reason"] == (
        "chip GH100 has no metric 'sm__cycle_active.avg', did you mean 'sm__cycles_active' or 'sm__warps_active'?; "
        "'dram__bytes_read.sum' needs 2 passes, and sampling has only one; "
        "'gpu__time_duration.avg' does not fit into one pass with the metrics before it")


def test_sixty_passes(sample):
    sampled = sample("passes 60")
    assert not sampled.samples and sampled.kernels()
    assert "needs 60 passes, and sampling has only one" in " ".join(row["reason"] for row in sampled.said["engine"] + sampled.said["metrics"])


def test_no_metric_at_all(sample):
    assert "no metric of 'sampling' can be collected" in sample(metrics="default").said["engine"][-1]["reason"]


def test_a_window(sample, rows, pitot, in_window):
    begun = time.monotonic_ns()
    sampled = in_window(lambda window, *arguments: sample("", window, *arguments), lambda found: found.samples)
    run = sampled.check_whole()
    times = sorted(sampled.samples)
    [end] = [row["end_ns"] for row in rows(sampled.folder, "process") if row["end_ns"]]
    start = pitot("info", sampled.folder, "--json", json_output=True)["start_monotonic_ns"]
    assert run > 0 and start + times[0] > begun + 200e6 and times[-1] < end, "the end may be noticed late, but not after four seconds"


def test_a_window_that_never_opens(sample):
    sampled = sample("", "delay_ns=3600000000000", "--repeat", "20", "--now")
    assert not sampled.samples and not sampled.said["engine"] and not sampled.losses


def test_forks(sample):
    """The children do nothing; the parent's samples are complete."""
    assert sum(sample("", "", *PLAY, "--fork-every", "20000").check()) > 100


def test_nothing_of_it_without_the_engine(record, rows, made_tape):
    assert not rows(record(made_tape, f"engine=trace;metrics={METRICS}", *PLAY), "counter_sample")


def test_record_and_report(pitot, build, made_tape, tmp_path, rows):
    folder = tmp_path / "rec.pitot"
    pitot("record", "-q", "--no-cpu", "--stacks", "none", "--engine", "pm-sampling", "--metrics", METRICS, "--pm-interval", "200us",
          "-o", folder, "--", build / "standin/tape-play", *PLAY, made_tape)
    run = Sampled(folder, rows).check(200_000)
    found = {row["name"]: row for row in pitot("report", folder, "--json", json_output=True)["system"]["counters"]}
    assert found["gpu__time_duration.sum"]["mean"] == 200_000 and found["gpu__time_duration.sum"]["readings"] == sum(run)
    assert re.search(rf"^ +GPU 0 gpu__time_duration\.sum +{sum(run):,} +200 us ", pitot("report", folder, "--system").stdout, re.M)
    assert "\nsystem  hardware counters were sampled over time; to show their means: pitot report --system\n" in pitot("report", folder).stdout


def test_the_report_says_why_there_are_none(sample, pitot):
    folder = sample("call cuptiPmSamplingEnable returns 35", "counters_ns=0").folder
    assert "INSUFFICIENT_PRIVILEGES: that needs the rights of an administrator" in " ".join(pitot("report", folder, "--system").stdout.split())
    assert "pitot report --system" not in pitot("report", folder).stdout


def test_the_end_of_record_says_what_is_not_measured(pitot, build, made_tape, tmp_path):
    """The user learns it without reading the capabilities."""
    faults = tmp_path / "faults"
    for metrics, fault, said in (
        (METRICS, "", []),
        (f"{METRICS},nonsense", "", ["chip GH100 has no metric 'nonsense'"]),
        (METRICS, "call cuptiPmSamplingEnable returns 35", ["NVreg_RestrictProfilingToAdminUsers=0' in /etc/modprobe.d, then a reboot)"]),
    ):
        faults.write_text(fault + "\n")
        command = "record", "--force", "--no-cpu", "--stacks", "none", "--engine", "pm-sampling", "--metrics", metrics, "-o", tmp_path / "rec.pitot"
        played = "--", build / "standin/tape-play", *PLAY, "--faults", faults, made_tape
        limits = json.loads(pitot(*command, "--json", *played).stderr.splitlines()[-1])["engine"]
        lines = [line for line in pitot(*command, *played).stderr.splitlines() if line.startswith("  engine ")]
        assert len(limits) == len(lines) == len(said)
        for text in said:
            assert text in limits[0] and text in lines[0]


def test_an_exit_while_the_library_is_being_loaded(sample):
    """Its destructors then come before the recorder's exit handler, and it must not be called again: the stand-in aborts."""
    run = sample("delay cuptiProfilerHostInitialize 300ms", "", "--now")
    assert not run.samples
    assert "the process ended while its metrics were prepared" in " ".join(row["reason"] for row in run.said["engine"])
