"""
Engines that a program arms while it is recorded (arm_engine.c), over the stand-ins of test_pm_sampling.py and test_range_profiler.py: what
was measured is exactly what lies in the windows.
"""
import shutil
import subprocess

import pytest

PC, RANGE, PM, SASS = 3, 4, 5, 6  # enum pitot_engine
METRICS = "gpu__time_duration.sum,launch__correlation.sum,sm__cycles_active.avg"
LAUNCHES = 24 * 12  # that tape-make has, those of graphs aside
MS = 1_000_000
LONGER = 1, 4, 16  # windows are that many times as long on a machine where they are noticed late


class Armed:
    def __init__(self, folder, rows, output):
        self.folder, self.rows = folder, rows
        lines = [line.split("\t") for line in output.read_text().splitlines()]
        self.said = [(call, int(rc), why) for call, rc, why, _ in lines]
        self.took_s = [(call, float(ms) / 1000) for call, _, _, ms in lines]
        marks = [(row["message"], row["time_ns"]) for row in rows(folder, "nvtx") if row["kind"] == "mark"]
        # When each call began and had returned.
        self.times = [(call, before, after) for (word, before), (call, after) in zip(marks, marks[1:]) if word == "before"]
        capabilities = rows(folder, "capability")
        self.engine = [row for row in capabilities if row["name"] == "engine"]
        self.windows = [(row["state"], row["requested"], row["actual"]) for row in capabilities if row["name"] == "engine_window"]
        self.kernels = rows(folder, "kernel")

    def spans(self):
        """From each begin's return to the end's call, and from the begin's call to the end's return."""
        begins = [call for call in self.times if call[0] == "begin"]
        ends = [call for call in self.times if call[0] == "end"]
        return [((begin[2], end[1]), (begin[1], end[2])) for begin, end in zip(begins, ends, strict=True)]

    def samples(self):
        counters = {row["id"] for row in self.rows(self.folder, "counter") if row["id"] >= 128}
        return sorted({row["time_ns"] for row in self.rows(self.folder, "counter_sample", "-c", "time_ns,counter")
                       if row["counter"] in counters or row["counter"] in METRICS.split(",")})

    def measured(self, table="metric_value"):
        return sorted({row["correlation"] for row in self.rows(self.folder, table)})

    def launched(self, spans):
        """Correlation ids of launches in these spans, those of graphs aside."""
        single = {row["correlation"] for row in self.kernels if row["graph_node"] is None}
        return sorted(call["correlation"] for call in self.rows(self.folder, "api_call") if call["correlation"] in single
                      and any(first <= call["start_ns"] <= last for first, last in spans))


@pytest.fixture
def arm(record, rows, made_tape, source, tmp_path):
    """arm("120 begin 5 0 0 200; …", "options"): what was recorded while the program did that."""
    library, output, script = tmp_path / "arm.so", tmp_path / "said", tmp_path / "faults"
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-I", source / "include", source / "tests/integration/arm_engine.c", "-o", library], check=True)

    def play(calls, options="", *arguments, fault="", directory=None, **more):
        script.write_text(fault + "\n")
        for before in tmp_path / "recording.pitot", tmp_path / "own":
            shutil.rmtree(before, ignore_errors=True)
        folder = record(made_tape, f"counters_ns=0;metrics={METRICS};{options}", "--realtime", "--client", library, "--faults", script,
                        *arguments, ARM_SCRIPT=calls, ARM_OUTPUT=str(output), ARM_DIRECTORY=str(tmp_path / "own"), **more)
        return Armed(tmp_path / directory if directory else folder, rows, output)

    return play


def test_samples_in_two_windows(arm):
    for n in LONGER:
        armed = arm(f"0 init 0 0 0 0; 300 begin {PM} 0 0 {150 * n}; 300 end 0 0 0 {200 * n}; 500 begin {PM} 0 0 {150 * n}; 600 end 0 0 0 {100 * n};")
        assert [said[:2] for said in armed.said] == [("init", 1), ("begin", 0), ("end", 0), ("begin", 0), ("end", 0)]
        assert armed.windows == [("on", "pm-sampling", "pm-sampling"), ("off", "pm-sampling", "none")] * 2 and len(armed.kernels) == 408
        times, gaps, whole = armed.samples(), 0, True
        for (first, last), (low, high) in armed.spans():
            inside = [time for time in times if low <= time <= high]
            whole &= len(inside) > 100 and inside[0] - first < 60 * n * MS and last - inside[-1] < 60 * n * MS
            gaps += sum(round((after - before) / 500_000) - 1 for before, after in zip(inside, inside[1:]))
            times = [time for time in times if not low <= time <= high]
        assert not times, "nothing else"
        assert gaps == sum(row["count"] for row in armed.rows(armed.folder, "loss")), "without a gap that is not counted"
        if whole and not gaps:
            break
    else:
        pytest.fail(f"{gaps} samples are missing in {armed.spans()}: {armed.samples()}")


def test_exactly_the_kernels_in_it(arm):
    """Counted anew in each window; launches outside are in the trace alone."""
    armed = arm(f"0 init 0 0 0 0; 200 begin {RANGE} 0 0 0; 350 end 0 0 0 0; 550 begin {RANGE} 0 0 0; 650 end 0 0 0 0;", "kernel_count=20")
    assert [said[1] for said in armed.said] == [1, 0, 0, 0, 0]
    spans = [span for span, _ in armed.spans()]
    launched = [armed.launched([span]) for span in spans]
    assert all(len(some) > 20 for some in launched) and armed.measured() == sorted(launched[0][:20] + launched[1][:20])
    assert len(armed.kernels) == 408 and not armed.rows(armed.folder, "loss")


def test_all_kernels_in_it(arm):
    armed = arm(f"0 init 0 0 0 0; 200 begin {RANGE} 0 0 0; 350 end 0 0 0 0;", "kernel_count=0")
    launched = armed.launched([armed.spans()[0][0]])
    assert 30 < len(launched) < LAUNCHES and armed.measured() == launched


def test_scopes_at_the_edges_of_an_engine(arm):
    """Scopes of the program: two that are measured, one outside, one inside of which the engine ends, one across the recording's end."""
    armed = arm(f"0 init 0 0 0 0; 90 open 0 0 0 0; 110 close 0 0 0 0; 120 begin {RANGE} 0 0 0; 150 open 0 0 0 0; 200 close 0 0 0 0; 250 open 1 0 0 0;"
                f"260 open 0 0 0 0; 280 close 0 0 0 0; 300 close 0 0 0 0; 400 open 1 0 0 0; 420 end 0 0 0 0; 450 close 0 0 0 0; 460 begin {RANGE} 0 0 0;"
                "470 open 1 0 0 0; 480 shutdown 0 0 0 0; 490 close 0 0 0 0;", "kernel_count=0;measure=range;nvtx_include=scope,other")
    rows = [row for row in armed.rows(armed.folder, "range_value") if row["metric"] == "launch__correlation.sum"]
    assert [(row["kind"], row["name"], row["passes"]) for row in rows] == [("scope", "scope", 1), ("scope", "other", 1)]
    assert all(row["value"] > 5 for row in rows) and rows[0]["end_ns"] < rows[1]["start_ns"]
    assert sum(row["count"] for row in armed.rows(armed.folder, "loss") if row["reason"] == "unmeasured") >= 1


def test_a_window_that_ends_in_a_range(arm):
    """The first scope is measured, the next one left out, and the last one not over when the engine is."""
    armed = arm(f"0 init 0 0 0 0; 120 begin {RANGE} 0 0 0; 150 open 0 0 0 0; 170 close 0 0 0 0; 180 open 0 0 0 0; 190 close 0 0 0 0; 200 open 0 0 0 0;"
                "240 end 0 0 0 0; 280 close 0 0 0 0;", "kernel_count=0;measure=range;nvtx_include=scope")
    assert [row["metric"] for row in armed.rows(armed.folder, "range_value")].count("launch__correlation.sum") == 1
    assert sum(row["count"] for row in armed.rows(armed.folder, "loss") if row["reason"] == "unmeasured") == 1


def test_instructions_of_all_kernels_in_it(arm):
    """Records of kernels become others in the middle, of which each has one; what CUPTI counts it does from then on, in both windows."""
    armed = arm(f"0 init 0 0 0 0; 200 begin {SASS} 0 0 0; 350 end 0 0 0 0; 450 begin {SASS} 0 0 0; 550 end 0 0 0 0;", "kernel_count=0;metrics=default")
    assert [said[1] for said in armed.said] == [1, 0, 0, 0, 0]
    launched = armed.launched([span for span, _ in armed.spans()])
    assert len(launched) > 50 and armed.measured("sass_value") == launched
    assert len(armed.kernels) == 408 and not armed.rows(armed.folder, "loss")
    assert {row["correlation"] for row in armed.kernels if row["end_ns"] is None} == set(launched)
    said = [row for row in armed.rows(armed.folder, "capability") if row["name"] == "kernel"]
    assert [row["actual"] for row in said] == ["activity", "serialized"] and "CUDA was in use before" in said[-1]["reason"]


@pytest.mark.parametrize("first, second", [(RANGE, SASS), (SASS, RANGE)])
def test_a_second_kind_of_engine_gets_no_cupti(arm, first, second):
    """The first one stays attached to CUPTI, so the second one has nothing, and says so."""
    armed = arm(f"0 init 0 0 0 0; 200 begin {first} 0 0 0; 300 end 0 0 0 0; 400 begin {second} 0 0 0; 500 end 0 0 0 0;", "kernel_count=0;metrics=default")
    assert [said[1] for said in armed.said] == [1, 0, 0, 1, 0] and "is still attached" in armed.said[3][2]
    assert bool(armed.measured()) == (first == RANGE) and bool(armed.measured("sass_value")) == (first == SASS)
    asked = "sass-metrics" if second == SASS else "range-profiler"
    assert (armed.engine[-1]["state"], armed.engine[-1]["requested"], armed.engine[-1]["actual"]) == ("degraded", asked, "trace")


def test_a_window_closes_by_itself(arm):
    for n in LONGER:
        armed = arm(f"0 init 0 0 0 0; 300 begin {PM} {100 * n} {100 * n} {300 * n}; 400 begin {PM} 0 {60 * n} {150 * n};")
        said, windows, n_ms = [said[1] for said in armed.said], len(armed.windows), n * MS
        called = [before for call, before, _ in armed.times if call == "begin"]
        times = armed.samples()
        first, second = [time for time in times if time < called[1]], [time for time in times if time >= called[1]]
        assert not first or called[0] + 99 * n_ms <= first[0]
        if said == [1, 0, 0] and first and first[0] <= called[0] + 160 * n_ms and 60 * n_ms < first[-1] - first[0] < 160 * n_ms and \
           second and second[0] < called[1] + 60 * n_ms and 20 * n_ms < second[-1] - second[0] < 120 * n_ms:
            break
    else:
        pytest.fail(f"{said}, {times}")
    assert windows == 4


def test_the_engine_belongs_to_its_session(arm):
    """The engine is the recording's that asked for it and of those beside it; both have all else."""
    calls = f"100 start 2 0 0 0; 200 begin {RANGE} 0 0 0; 350 end 0 0 0 0; 500 stop 0 0 0 0;"
    armed = arm(calls, "kernel_count=0", directory="own")
    assert [said[1] for said in armed.said] == [0, 0, 0, 0]
    assert armed.windows == [("on", "range-profiler", "range-profiler"), ("off", "range-profiler", "none")]
    launched = armed.launched([armed.spans()[0][0]])
    assert len(launched) > 30 and armed.measured() == launched


def test_stopped_while_armed(arm):
    armed = arm(f"100 start 2 0 0 0; 200 begin {PM} 0 0 100; 500 stop 0 0 0 100; 510 begin {PM} 0 0 0;", directory="own")
    assert [said[1] for said in armed.said] == [0, 0, 0, -2] and "pitot_init or pitot_start first" in armed.said[-1][2]
    assert len(armed.samples()) > 100


def test_ended_while_armed(arm):
    armed = arm(f"0 init 0 0 0 0; 300 begin {PM} 0 0 100;")
    assert len(armed.samples()) > 100 and len(armed.kernels) == 408


def test_a_second_engine_is_refused(arm):
    busy = "is on or armed, and only one can be at a time"
    armed = arm(f"0 begin {PM} 0 0 0; 0 init 0 0 0 0; 1 end 0 0 0 0; 300 begin {PM} 0 0 0; 310 begin {PM} 0 0 0; 320 begin {RANGE} 0 0 0; 400 end 0 0 0 0;"
                f"410 race {RANGE} 0 0 0; 420 child {PM} 0 0 0; 430 end 0 0 0 0; 440 end 0 0 0 0; 450 begin 99 0 0 0; 460 begin 2 0 0 0; 465 begin 0 0 0 0;"
                "470 begin 8 0 0 0; 480 shutdown 0 0 0 0; 490 begin 5 0 0 0;")
    found = [(call, rc) for call, rc, _ in armed.said]
    assert found == [("begin", -2), ("init", 1), ("end", 0), ("begin", 0), ("begin", -16), ("begin", -16), ("end", 0),
                     ("race", 1), ("child", 2), ("end", 0), ("end", 0), ("begin", -22), ("begin", -22), ("begin", -22), ("begin", -22),
                     ("shutdown", 0), ("begin", -2)]
    said = [why for _, _, why in armed.said]
    assert f"engine pm-sampling {busy}" in said[4] and f"engine pm-sampling {busy}" in said[5]
    assert "there is no engine 99" in said[11] and "there is no engine 8" in said[14] and "pitot_init" in said[0]


def test_beside_an_engine_that_is_on(arm):
    armed = arm(f"0 init 0 0 0 0; 300 begin {PM} 0 0 0; 310 begin {RANGE} 0 0 0;", "engine=range-profiler;kernel_count=2")
    assert [said[1] for said in armed.said] == [1, -16, -16] and len(armed.measured()) == 2
    assert not armed.windows


def test_the_recordings_window_comes_first(arm):
    for n in LONGER:
        armed = arm(f"0 init 0 0 0 0; 60 begin {PM} 0 0 {2000 * n}; 500 begin {PM} 0 0 0;", f"delay_ns={1000 * n * MS};duration_ns={200 * n * MS}")
        assert [said[1] for said in armed.said] == [1, 0, -2] and "its window has closed" in armed.said[-1][2]
        times = armed.samples()
        assert not times or times[0] > 900 * n * MS
        if times and 100 * n * MS < times[-1] - times[0] < 300 * n * MS:
            break
    else:
        pytest.fail(f"{times}")


def test_a_window_after_the_recordings(arm):
    armed = arm(f"0 init 0 0 0 0; 300 begin {PM} 7200000 0 0;", "duration_ns=3600000000000")
    assert [said[1] for said in armed.said] == [1, -62] and not armed.samples()


@pytest.mark.parametrize("fault, engine, result, reason", [
    ("call cuptiPmSamplingEnable returns 35", PM, 1, "NVreg_RestrictProfilingToAdminUsers"),
    ("missing cuptiPmSamplingDecodeData", PM, 1, "this CUPTI lacks cuptiPmSamplingDecodeData"),
    ("missing cuptiRangeProfilerDecodeData", RANGE, 1, "this CUPTI lacks cuptiRangeProfilerDecodeData"),
    ("call cuptiActivityRegisterCallbacks returns 999", PM, -95, "cuptiActivityRegisterCallbacks"),
    ("state fatal at 150", RANGE, -95, "CUPTI broke down"),
])
def test_a_broken_cupti(arm, fault, engine, result, reason):
    """Twice the same answer; the trace goes on where there is one."""
    armed = arm(f"0 init 0 0 0 0; 500 begin {engine} 0 0 0; 510 end 0 0 0 0; 520 begin {engine} 0 0 0;", fault=fault)
    assert [said[1] for said in armed.said] == [1, result, 0, result]
    assert reason in armed.said[1][2] and reason in armed.said[3][2]
    assert not armed.samples() and not armed.measured() and (len(armed.kernels) == 408) == (result == 1)
    if result == 1:
        assert reason in armed.engine[-1]["reason"]
    else:
        assert not armed.windows, "the engine was never on"


def test_rights_that_are_missing_when_it_comes_to_it(arm):
    armed = arm(f"0 init 0 0 0 0; 300 begin {RANGE} 0 0 0; 500 end 0 0 0 0; 520 begin {RANGE} 0 0 0;", fault="call cuptiRangeProfilerEnable returns 35")
    assert [said[1] for said in armed.said] == [1, 0, 0, 1] and not armed.measured()
    assert "NVreg_Restrict" in armed.said[-1][2] and armed.engine[-1]["state"] == "degraded"


def test_without_cupti(arm):
    assert [said[1] for said in arm(f"0 init 0 0 0 0; 300 begin {PM} 0 0 0;", "cuda=0").said] == [1, -95]


def test_in_a_recording_without_a_trace(arm):
    """Of --engine monitor, the trace comes with the engine, and goes with it."""
    armed = arm(f"100 start 1 0 0 0; 200 begin {RANGE} 0 0 0; 350 end 0 0 0 0; 600 stop 0 0 0 0;", "kernel_count=0;engine=monitor", directory="own")
    assert [said[1] for said in armed.said] == [0, 0, 0, 0]
    launched = armed.launched([armed.spans()[0][0]])
    assert len(launched) > 30 and armed.measured() == launched
    (first, last), = [span for _, span in armed.spans()]
    assert all(first <= row["start_ns"] <= last for row in armed.rows(armed.folder, "api_call"))


def test_pc_samples_of_contexts_to_come(arm):
    """Asked for before the first context, and once more."""
    armed = arm(f"0 init 0 0 0 0; 0 begin {PC} 0 0 0; 400 end 0 0 0 0; 600 begin {PC} 0 0 0; 700 end 0 0 0 100;")
    assert [said[1] for said in armed.said] == [1, 0, 0, 0, 0]
    readings = armed.rows(armed.folder, "pc_reading")
    spans = [span for _, span in armed.spans()]
    assert [any(row["end_ns"] > first and row["start_ns"] < last for row in readings) for first, last in spans] == [True, True]
    assert not any(row["start_ns"] > spans[0][1] and row["end_ns"] < spans[1][0] for row in readings), "none between"
    assert armed.rows(armed.folder, "pc_sample")


def test_no_pc_samples_of_contexts_that_exist(arm):
    armed = arm(f"0 init 0 0 0 0; 300 begin {PC} 0 0 0; 400 end 0 0 0 0; 500 begin {PC} 0 0 0;")
    assert [said[1] for said in armed.said] == [1, 1, 0, 1]
    assert all("contexts that existed before are not sampled" in said[2] for said in armed.said[1::2])
    assert not armed.rows(armed.folder, "pc_sample") and armed.engine[-1]["state"] == "degraded"


# Seconds that pitot.h allows each call beside a GPU that hangs, and the calls that lead to it. Sanitizers wait ten times as long.
BESIDE_A_HANG = {
    "start": (1, f"200 start {PM} 0 0 0;"),
    "init": (1, "200 init 0 0 0 0;"),
    "begin": (0.5, f"0 init 0 0 0 0; 200 begin {PM} 0 0 0;"),
    "end": (0.5, f"0 init 0 0 0 0; 90 begin {PM} 0 0 0; 200 end 0 0 0 0;"),
    "flush": (2, "0 init 0 0 0 0; 200 flush 0 0 0 0;"),
    "shutdown": (2, "0 init 0 0 0 0; 200 shutdown 0 0 0 0;"),
    "stop": (2, "0 start 0 0 0 0; 200 stop 0 0 0 0;"),
}


@pytest.mark.parametrize("call", BESIDE_A_HANG)
def test_calls_beside_a_gpu_that_hangs(arm, build, call):
    seconds, calls = BESIDE_A_HANG[call]
    slowness = 1 if "PITOT_SANITIZE:STRING=\n" in (build / "CMakeCache.txt").read_text() else 10
    armed = arm(calls, fault="hang cuptiActivityFlushAll at 100")
    said, took_s = armed.took_s[-1]
    assert said == call and took_s < seconds * slowness + 1, armed.said
    assert "cuptiActivityFlushAll" in {row["detail"] for row in armed.rows(armed.folder, "loss") if row["reason"] == "gpu_hang"}
