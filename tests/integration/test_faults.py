"""What a recording says of a CUPTI that fails: nothing is lost in silence, and nothing is made up."""
import json
import shutil

import pytest

KERNELS = 317  # on the tape


@pytest.fixture
def record_faults(build, source, pitot, tmp_path):
    """record_faults("call cuptiX returns 39"): what `pitot record --json` and `pitot report --json` say of a play."""
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")

    def play(fault, *options):
        script, recording = tmp_path / "faults", tmp_path / "faulty.pitot"
        script.write_text(fault + "\n")
        leaks = f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0"
        end = pitot("record", "--no-cpu", "--json", "--force", "-o", recording, "--", player, *(options or ["--now"]), "--faults", script,
                    source / "tests" / "data" / "tapes" / "kinds.tape", env={"LSAN_OPTIONS": leaks}).stderr
        pitot("info", "--verify", recording)
        rows = pitot("view", recording, "capability", "--json", "-q").stdout.splitlines()
        return (json.loads(end[end.index("{"):]), pitot("report", "--json", recording, json_output=True),
                {row["name"]: row for row in map(json.loads, rows)})

    return play


# Calls of cuptiActivityGetNextRecord: the first within a buffer, each further one the first of the next buffer.
IN_THE_MIDDLE = [f"#{n}" for n in range(200, 210)]


def next_records(result, calls):
    return "\n".join(f"call cuptiActivityGetNextRecord{call} returns {result}" for call in calls)


def losses(report):
    return {loss["reason"]: loss["count"] for loss in report["loss"]}


def test_without_faults(record_faults):
    end, report, capabilities = record_faults("# none")
    assert (end["kernels"], end["no_gpu_data"], end["lost"]) == (KERNELS, None, 0)
    assert report["loss"] == [] and report["verdict"]["no_gpu_data"] is None
    assert capabilities["api_call"]["state"] == "on" and capabilities["api_call"]["requested"] == "launches"
    assert capabilities["cpu"]["reason"] == "not requested"
    assert "clock" not in capabilities


def test_correlation_ids_that_go_round(record_faults, pitot, rows, tmp_path):
    """They have 32 bits: of 2^32 launches one has the id 0."""
    whole, report, _ = record_faults("# none")
    calls = rows(tmp_path / "faulty.pitot", "api_call")
    launch = next(row["correlation"] for row in calls if row["function"].startswith("cuLaunchKernel"))
    round_, report_of_round, _ = record_faults(f"shift-correlation {2**32 - launch}")
    assert rows(tmp_path / "faulty.pitot", "api_call", "--where", "correlation=0")
    assert (round_["launches"], round_["lost"]) == (whole["launches"], 0)
    assert report_of_round["launches"]["kernel_calls"]["count"] == report["launches"]["kernel_calls"]["count"]


def test_a_buffer_that_cannot_be_read_is_a_loss(record_faults):
    _, report, _ = record_faults(next_records(999, IN_THE_MIDDLE))
    assert 0 < report["hotspots"]["kernels"] < KERNELS
    assert losses(report) == {"unreadable_buffer": len(IN_THE_MIDDLE)}


@pytest.mark.parametrize("calls", [[""], IN_THE_MIDDLE])
def test_a_success_without_a_record(record_faults, calls):
    """What is behind it is lost; nothing is read that is not there, and nothing twice."""
    _, report, _ = record_faults(next_records(0, calls))
    assert report["hotspots"]["kernels"] < KERNELS and (len(calls) > 1 or report["hotspots"]["kernels"] == 0)
    assert losses(report)["unreadable_buffer"] >= 1


def test_no_buffer_can_be_read(record_faults):
    end, report, _ = record_faults("call cuptiActivityGetNextRecord returns 39")
    assert end["kernels"] == 0 and end["launches"] > 0
    assert end["no_gpu_data"] == "work was launched, but the GPU's profiling library delivered no records of it"
    assert report["verdict"]["no_gpu_data"] == end["no_gpu_data"]
    assert losses(report)["unreadable_buffer"] > 1


def test_cupti_breaks_down(record_faults):
    end, report, capabilities = record_faults("state fatal at 300")
    assert end["no_gpu_data"] == "CUPTI broke down while recording: scripted fatal error"
    assert losses(report)["gpu_runtime_failed"] == 1
    assert capabilities["cupti"]["state"] == "unavailable"


def test_cupti_breaks_down_in_the_middle(record_faults, pitot, tmp_path):
    """What came before is there. The report says first that it is all, and from when on."""
    end, report, capabilities = record_faults("state fatal at 3000", "--realtime", "--repeat", "3")
    assert KERNELS <= end["kernels"] < 3 * KERNELS and end["no_gpu_data"] is None
    [loss] = report["loss"]
    assert (loss["reason"], loss["count"], loss["detail"]) == ("gpu_runtime_failed", 1, "scripted fatal error")
    assert capabilities["cupti"]["state"] == "unavailable"
    [kernels] = [gpu["busy"]["last_ns"] for gpu in report["gpus"]]
    assert kernels < loss["start_ns"] <= loss["end_ns"], "what came before it is not missing"
    first = " ".join(pitot("report", tmp_path / "faulty.pitot").stdout.split("verdict")[0].split())
    assert "the GPU's library failed" in first and "after the start (see loss below): later GPU work is missing" in first


def test_kinds_cannot_be_enabled(record_faults):
    end, report, _ = record_faults("call cuptiActivityEnable returns 39")
    assert end["no_gpu_data"].startswith("cuptiActivityEnable: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
    assert report["verdict"]["no_gpu_data"] == end["no_gpu_data"]


def test_another_tool_holds_cupti(record_faults):
    end, _, _ = record_faults("call cuptiSubscribe_v2 returns 39")
    assert end["no_gpu_data"].startswith("another tool holds CUPTI in this process")


def test_calls_cannot_be_watched(record_faults):
    _, report, capabilities = record_faults("call cuptiEnableCallback returns 999")
    assert capabilities["api_call"]["state"] == "unavailable"
    assert capabilities["api_call"]["reason"] == "cuptiEnableCallback: CUPTI_ERROR_UNKNOWN"
    assert report["hotspots"]["kernels"] == KERNELS
    assert report["verdict"]["kind"] == "idle" and report["verdict"]["unknown_ns"] > 0
    assert report["verdict"]["host_ns"] == report["verdict"]["launch_ns"] == 0


def test_one_function_cannot_be_watched(record_faults):
    _, _, capabilities = record_faults("call cuptiEnableCallback#20 returns 999")
    assert capabilities["api_call"]["state"] == "degraded"


def test_cupti_has_no_clock(record, rows, pitot, tmp_path):
    script = tmp_path / "faults"
    script.write_text("call cuptiGetTimestamp returns 39\n")
    recording = record("kinds", "", "--faults", script)
    clocks = [row for row in rows(recording, "capability") if row["name"] == "clock"]
    assert [(row["state"], row["actual"]) for row in clocks] == [("degraded", "CLOCK_REALTIME")]
    report = pitot("report", "--json", recording, json_output=True)
    assert report["hotspots"]["kernels"] == KERNELS
    assert report["duration_ns"] < 10**9, "calls and kernels are on one clock"
    assert report["launches"]["started_before_call"] == 0


@pytest.mark.parametrize("fault, reason", [
    ("zero-times every 2", "no_time"), ("reverse-times every 2", "reversed_time"),
    ("incomplete every 2", "incomplete_record"), ("bad-kind every 2", "unknown_record"),
    ("drop-buffer 1", "gpu_records_dropped")])
def test_records_that_are_no_good_are_counted(record_faults, fault, reason):
    end, report, _ = record_faults(fault)
    assert list(losses(report)) == [reason]
    assert end["lost"] == losses(report)[reason] > 0
    if "times" in fault or "incomplete" in fault:
        assert report["hotspots"]["kernels"] == KERNELS and report["untimed"] > 0


@pytest.mark.parametrize("version, newer", [(130001, False), (130100, True)])
def test_records_that_are_newer_are_said(record_faults, version, newer):
    """Their beginning is read, and the recording says that it is not all."""
    end, _, capabilities = record_faults(f"version {version}")
    assert (end["kernels"], end["lost"]) == (KERNELS, 0)
    assert ("newer than this Pitot" in capabilities["cupti"]["reason"]) == newer


@pytest.mark.parametrize("version, known", [(21, False), (22, True)])
def test_overhead_belongs_to_a_call_where_cupti_says_so(record_faults, rows, tmp_path, version, known):
    """Since CUDA 12.4."""
    record_faults(f"version {version}")
    overhead = rows(tmp_path / "faulty.pitot", "overhead")
    calls = {row["correlation"] for row in rows(tmp_path / "faulty.pitot", "api_call")}
    ids = {row["correlation"] for row in overhead} - {None}
    assert overhead and bool(ids) == known and (not known or ids & calls)


@pytest.mark.parametrize("step_ms", [5000, -5000])
@pytest.mark.parametrize("place", [4700, 4900, 5100])
def test_a_clock_that_is_set(record, pitot, tmp_path, place, step_ms):
    """Wherever it happens: times and lengths are what they were, and the recording says so. (The tape is short: as
    fast as possible, the recorder reads the clocks at its ends only, and a longer time than the step would be
    anybody's guess.)"""
    def report(script_text):
        (tmp_path / "faults").write_text(script_text + "\n")
        recording = record("kinds", "", "--faults", tmp_path / "faults")
        said = pitot("report", "--json", recording, json_output=True)
        shutil.rmtree(recording)
        return said

    whole, stepped = report("# none"), report(f"step-realtime {step_ms}ms at {place}")
    assert losses(whole) == {} and losses(stepped) == {"clock_step": 1}
    assert stepped["hotspots"]["kernels"] == whole["hotspots"]["kernels"] == KERNELS
    # Which readings of the clocks a time is converted by is up to the collector: each length is rounded, in both recordings.
    assert stepped["hotspots"]["total_ns"] == pytest.approx(whole["hotspots"]["total_ns"], rel=1e-4, abs=2 * KERNELS)
    for key in ("union_ns", "first_ns", "last_ns"):
        assert stepped["gpus"][0]["busy"][key] == pytest.approx(whole["gpus"][0]["busy"][key], abs=1_000_000)


def test_the_time_after_the_window_is_not_idle(build, source, pitot, tmp_path):
    """The program goes on with work that is not recorded: no figure is about that time."""
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    pitot("record", "--no-cpu", "-o", "window.pitot", "--duration", "1s", "--", player, "--realtime", "--repeat", "6",
          source / "tests" / "data" / "tapes" / "kinds.tape")
    report = pitot("report", "--json", "window.pitot", json_output=True)
    [busy] = [gpu["busy"] for gpu in report["gpus"]]
    assert report["window"]["start_ns"] == 0
    assert max(busy["last_ns"], 10**9) <= report["window"]["end_ns"] < report["duration_ns"] - 10**8
    assert "; recorded only from 0 ns to" in " ".join(pitot("report", "window.pitot").stdout.split("verdict")[0].split())


def test_a_window_that_never_opens(build, source, pitot):
    """It is named as the reason, not that the command used no GPU."""
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    why = "the command ended before --delay was over"
    said = pitot("record", "--no-cpu", "-o", "late.pitot", "--delay", "1h", "--", player, "--now", source / "tests" / "data" / "tapes" / "kinds.tape")
    assert f"no GPU data: {why}" in said.stderr
    report = pitot("report", "late.pitot").stdout
    assert f"verdict  no GPU work\n  {why}\n" in report and "no samples: not requested" in report


def test_some_processes_have_no_gpu_data(build, source, pitot, tmp_path):
    player, tape = build / "standin" / "tape-play", source / "tests" / "data" / "tapes" / "kinds.tape"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    (tmp_path / "faults").write_text("call cuptiActivityRegisterCallbacks returns 39\n")
    command = "bash", "-c", f"{player} --now {tape} && {player} --now --faults faults {tape} && {player} --now --faults faults {tape}"
    said = pitot("record", "--no-cpu", "-o", "two.pitot", "--", *command).stderr
    assert "; no data of 2 processes: cuptiActivityRegisterCallbacks: CUPTI_ERROR" in said
    said = pitot("record", "--no-cpu", "--json", "-o", "two.pitot", "--force", "--", *command).stderr
    assert json.loads(said[said.index("{"):])["processes_without_gpu_data"] == 2
    assert pitot("report", "--json", "two.pitot", json_output=True)["verdict"]["processes_without_gpu_data"] == 2
    first = " ".join(pitot("report", "two.pitot").stdout.split("verdict")[0].split())
    assert "loss no GPU data of 2 processes (cuptiActivityRegisterCallbacks: CUPTI_ERROR" in first
    assert "all figures are of the others" in first
