"""--engine pc-sampling over the stand-in for CUPTI: every launch is sampled 48 times, 3 of them elsewhere; faults; windows; cubins."""
import collections
import stat
import subprocess
import time

import pytest

from waiting import PATIENCE, wait_until

PREFIX = "smsp__pcsamp_warps_issue_"
# Samples of one launch, by offset and reason. CUPTI counts 30 under long_scoreboard, of which 20 are those of its twin.
OF_A_LAUNCH = {(0x10, PREFIX + "selected"): 10, (0x20, PREFIX + "stalled_long_scoreboard"): 10,
               (0x20, PREFIX + "stalled_long_scoreboard_not_issued"): 20, (0x130, PREFIX + "stalled_barrier"): 5}
LAUNCHES = 24 * 12  # that tape-make has, those of graphs aside
FUNCTIONS = 3


class Sampled:
    def __init__(self, folder, rows):
        self.folder = folder
        self.readings, self.samples, self.cubins, self.losses, self.costs = (
            rows(folder, table) for table in ("pc_reading", "pc_sample", "cubin", "loss", "cost"))
        self.engine = [row for row in rows(folder, "capability") if row["name"] == "engine"]
        self.kernels = len(rows(folder, "kernel"))

    def total(self, key):
        return sum(row[key] for row in self.readings)

    def check_sums(self):
        """Each reading adds up, and no sample is of none."""
        placed = collections.Counter()
        for row in self.samples:
            placed[row["reading"]] += row["samples"]
        for row in self.readings:
            assert placed.pop(row["id"], 0) + row["other"] + row["dropped"] == row["total"]
        assert not placed
        assert [row["id"] for row in self.readings] == list(range(1, len(self.readings) + 1))
        for before, after in zip(self.readings, self.readings[1:]):
            assert before["start_ns"] <= before["end_ns"] <= after["start_ns"] <= after["end_ns"]


@pytest.fixture
def sample(record, rows, made_tape, tmp_path):
    """sample("a fault", "options", "--repeat", "9"): what was recorded."""
    def play(fault="", options="", *arguments, **more):
        script = tmp_path / "faults"
        script.write_text(fault + "\n")
        sampled = Sampled(record(made_tape, f"engine=pc-sampling;{options}", "--faults", str(script), *arguments, **more), rows)
        sampled.check_sums()
        return sampled

    return play


def check_complete(sampled, rounds=1):
    """Every launch, with its samples, under its function."""
    found = collections.Counter()
    functions = collections.Counter()
    for row in sampled.samples:
        found[row["offset"], row["reason"]] += row["samples"]
        functions[row["function"]] += row["samples"]
    assert found == {key: count * LAUNCHES * rounds for key, count in OF_A_LAUNCH.items()}
    assert len(functions) == FUNCTIONS and set(functions.values()) == {45 * LAUNCHES * rounds // FUNCTIONS}
    assert sampled.total("other") == 3 * LAUNCHES * rounds


def test_all_that_was_sampled(sample):
    sampled = sample(options="pc_period=12")
    check_complete(sampled)
    assert sampled.kernels == 408 and not sampled.losses
    assert {(row["device"], row["context"], row["period_cycles"]) for row in sampled.readings} == {(0, 1, 4096)}
    assert sampled.total("dropped") == 0
    [engine] = sampled.engine
    assert (engine["state"], engine["requested"], engine["actual"]) == ("on", "pc-sampling", "pc-sampling")
    assert engine["reason"].startswith("context 1 of device 0: 4 stall reasons, every 4096 cycles; set up in ")
    assert len([row for row in sampled.costs if row["kind"] == "setup"]) == 2, "the recorder's, and the context's"


def test_the_period_without_an_option(sample):
    """Not the driver's own, with which a busy GPU gives no samples."""
    sampled = sample()
    check_complete(sampled)
    assert {row["period_cycles"] for row in sampled.readings} == {1 << 18}


def test_device_code_is_stored_once(sample):
    """In a file of its own, for its owner; named by the checksum that samples have."""
    sampled = sample()
    [cubin] = sampled.cubins
    assert {row["crc"] for row in sampled.samples} == {cubin["crc"]}
    assert cubin["file"] == f"cubins/{cubin['crc']:016x}.cubin" and cubin["size_bytes"] == 3000
    path = sampled.folder / cubin["file"]
    code = path.read_bytes()
    assert len(code) == 3000 and code.startswith(b"\177ELF") and code[259] == (259 * 7 + 1) % 256
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_code_without_a_checksum(sample):
    """Samples lead to no code, and that is said."""
    sampled = sample("call cuptiGetCubinCrc#1 returns 1")
    check_complete(sampled)
    [cubin] = sampled.cubins
    assert cubin["file"] is None and cubin["size_bytes"] is None
    assert [(row["reason"], row["count"], row["detail"]) for row in sampled.losses] == [
        ("no_memory", 1, "modules whose device code is not kept")]


def test_processes_on_one_gpu(build, environment, rows, made_tape, tmp_path):
    """CUPTI samples for one of them, and would break the recording of the others without a word."""
    folder, library = tmp_path / "both.pitot", str(build / "libpitot.so")
    folder.mkdir()
    variables = {"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library, "PITOT_RECORDING": str(folder),
                 "PITOT_OPTIONS": "stacks=none;engine=pc-sampling"}

    def play(end):
        return subprocess.Popen([build / "standin/tape-play", "--end-when", end, made_tape],
                                env={**environment, **variables})

    ends = [tmp_path / f"end{i}" for i in range(3)]
    sampled = play(ends[0])
    wait_until(lambda: rows(folder, "kernel", status=None), "kernels", sampled)
    other = play(ends[1])
    wait_until(lambda: len({row["pid"] for row in rows(folder, "kernel", status=None)}) == 2, "kernels of both", other)
    for process, end in (other, ends[1]), (sampled, ends[0]):
        end.touch()
        assert process.wait(PATIENCE) == 0
    third = play(ends[2])  # nobody samples any more
    ends[2].touch()
    assert third.wait(PATIENCE) == 0
    kernels = collections.Counter(row["pid"] for row in rows(folder, "kernel"))
    assert kernels[sampled.pid] == kernels[other.pid] == kernels[third.pid] > 100
    assert {row["pid"] for row in rows(folder, "pc_sample")} == {sampled.pid, third.pid}
    engine = {row["pid"]: row for row in rows(folder, "capability") if row["name"] == "engine"}
    assert (engine[other.pid]["state"], engine[other.pid]["actual"]) == ("degraded", "trace")
    assert "another process samples this GPU" in engine[other.pid]["reason"]
    assert engine[sampled.pid]["state"] == engine[third.pid]["state"] == "on"


def test_more_than_one_call_gives(sample):
    sampled = sample("pc-most 2")
    check_complete(sampled)
    assert len(sampled.readings) == 1, "one reading is many calls"


def test_many_readings(sample):
    sampled = sample("pc-unload every 50", "", "--repeat", "20", "--now")
    check_complete(sampled, 20)
    assert len(sampled.readings) >= 20 * LAUNCHES // 50 and len(sampled.cubins) == 1


def test_20000_kernels(record, rows, make_tape, pitot, tmp_path):
    """More than a call or a reading gives; each with its own samples."""
    (tmp_path / "faults").write_text("storm 20000-names\n")
    sampled = Sampled(record(make_tape("fast", 20000), "engine=pc-sampling", "--faults", tmp_path / "faults"), rows)
    sampled.check_sums()
    assert not sampled.losses and sampled.total("other") == 3 * 20000
    stalls = pitot("report", sampled.folder, "--stalls", "--json", json_output=True)["stalls"]
    assert len(stalls["kernels"]) == 20000 and {kernel["samples"] for kernel in stalls["kernels"]} == {45}
    text = pitot("report", sampled.folder, "--stalls").stdout
    assert "900,000 samples of 20,000 kernels" in text and len(text) < 20000


def test_dropped_samples(sample):
    sampled = sample("pc-dropped 7")
    check_complete(sampled)
    assert sampled.total("dropped") == 7 * len(sampled.readings) and sampled.total("total") == 48 * LAUNCHES + 7 * len(sampled.readings)


def test_a_full_buffer(sample):
    sampled = sample("call cuptiPCSamplingGetData#2 returns 8\npc-unload every 1000", "", "--repeat", "20", "--now")
    [loss] = sampled.losses
    assert (loss["reason"], loss["count"]) == ("gpu_records_dropped", 1) and "--pc-period" in loss["detail"]


def test_readings_that_fail(sample):
    """What is left when sampling is disabled is there still."""
    check_complete(sample("call cuptiPCSamplingGetData returns 999"))


def test_readings_that_fail_for_good(sample):
    """Also those at unloaded modules count; that is said once."""
    sampled = sample("call cuptiPCSamplingGetData returns 999\npc-unload every 20", "", "--repeat", "300", "--now")
    assert [row["state"] for row in sampled.engine] == ["on", "degraded"]
    assert " times: no samples of context 1 any more" in sampled.engine[1]["reason"]


@pytest.mark.parametrize("fault, reason", [
    ("call cuptiPCSamplingEnable returns 35", "NVreg_RestrictProfilingToAdminUsers=0"),
    ("call cuptiPCSamplingEnable returns 26", "another profiler has the GPU's counters"),
    ("call cuptiPCSamplingEnable returns 7", "another profiler has the GPU's counters"),
    ("call cuptiPCSamplingEnable returns 27", "this GPU, driver or CUPTI cannot"),
    ("call cuptiPCSamplingGetStallReasons returns 999", "cuptiPCSamplingGetStallReasons: "),
    ("call cuptiPCSamplingSetConfigurationAttribute returns 8", "out of memory on the GPU or the host"),
    ("missing cuptiPCSamplingGetData", "this CUPTI lacks cuptiPCSamplingGetData"),
    ("version 24", "CUDA 12.8 Update 1"),
])
def test_without_samples_the_trace_goes_on(sample, fault, reason):
    sampled = sample(fault)
    assert not sampled.readings and not sampled.samples and sampled.kernels == 408
    [engine] = sampled.engine
    assert (engine["state"], engine["requested"], engine["actual"]) == ("degraded", "pc-sampling", "trace")
    assert reason in engine["reason"]


def test_readers_say_why_there_is_nothing(sample, pitot):
    folder = sample("call cuptiPCSamplingEnable returns 35").folder
    why = "INSUFFICIENT_PRIVILEGES: that needs the rights of an administrator"
    assert why in " ".join(pitot("report", folder, "--stalls").stdout.split())
    for command in (["source", folder], ["report", folder, "--source"], ["flame", folder, "--mode", "stalls"]):
        assert why in pitot(*command, status=1).stderr
    text = " ".join(pitot("report", folder, "--counters").stdout.split())
    assert why not in text and "no hardware counters were recorded" in text, "they were not requested"


def test_smaller_hardware_buffer_after_a_refusal(sample):
    """The hardware's buffer was too large."""
    check_complete(sample("call cuptiPCSamplingSetConfigurationAttribute#1 returns 8"))


def test_a_full_buffer_outside_of_a_window(sample):
    assert not sample("call cuptiPCSamplingGetData returns 8", "delay_ns=3600000000000", "--repeat", "20", "--now").losses


def test_a_refused_context_is_not_set_up_later(sample):
    sampled = sample("call cuptiPCSamplingEnable#1 returns 7", "", "--repeat", "20", "--now")
    assert not sampled.samples and [row["state"] for row in sampled.engine] == ["degraded"]


def test_a_window(sample, rows, pitot, slowly):
    """Contexts are sampled and kernels recorded from their creation on; what was before the window and after it is thrown away."""
    begun = time.monotonic_ns()
    sampled = sample("pc-unload every 500", "delay_ns=300000000;duration_ns=600000000", *slowly(200))
    assert [row["state"] for row in sampled.engine] == ["on"] and sampled.samples
    start = pitot("info", sampled.folder, "--json", json_output=True)["start_monotonic_ns"]
    assert start + sampled.readings[0]["start_ns"] >= begun + 300e6, "the delay is counted from when the recorder is loaded"
    # The recorder may notice late that it ends, but not after the program, which plays for four seconds at least.
    [end] = [row["end_ns"] for row in rows(sampled.folder, "process") if row["end_ns"]]
    assert sampled.readings[-1]["end_ns"] < end
    calls = {row["correlation"] for row in rows(sampled.folder, "api_call")}
    assert {row["correlation"] for row in rows(sampled.folder, "kernel")} <= calls
    assert [row["state"] for row in rows(sampled.folder, "capability") if row["name"] == "kernel"] == ["on"]
    launches = sampled.kernels * LAUNCHES / 408  # of the window; kernels of graphs are not sampled
    assert 0.7 * launches < sampled.total("total") / 48 < 1.3 * launches < 200 * LAUNCHES


def test_a_window_that_never_opens(sample):
    sampled = sample("pc-unload every 50\npc-dropped 7", "delay_ns=3600000000000", "--repeat", "20", "--now")
    assert not sampled.readings and not sampled.samples and not sampled.cubins and not sampled.losses


def test_nothing_of_it_without_the_engine(record, rows, made_tape):
    folder = record(made_tape, "engine=trace")
    assert not rows(folder, "pc_reading") and not (folder / "cubins").exists()


def test_record_and_replace(pitot, build, environment, made_tape, rows, tmp_path):
    """By the command line; --force replaces a recording with its code, and leaves one with something else in it."""
    folder = tmp_path / "rec.pitot"
    command = ("record", "-q", "--no-cpu", "--stacks", "none", "--engine", "pc-sampling", "--pc-period", "20", "-o", folder, "-f", "--",
               build / "standin/tape-play", made_tape)
    for _ in range(2):
        pitot(*command)
        check_complete(Sampled(folder, rows))
        assert len(list((folder / "cubins").iterdir())) == 1
    (folder / "cubins" / "mine").touch()
    assert "contains 'cubins'" in pitot(*command, status=2).stderr
