"""What kernels waited for, as stalls_recording.c has it."""
import json
import shutil

import pytest

from golden import check_golden


@pytest.fixture(scope="module")
def recording(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("stalls") / "stalls.pitot", "stalls")


def stalls(pitot, recording, *options):
    return pitot("report", recording, "--json", *options, json_output=True)["stalls"]


def section(text):
    return text[text.index("\nstalls"):text.index("\nlaunches")]


def total(places):
    return sum(place["samples"] for place in places)


def test_text(pitot, recording):
    wide = pitot("report", recording, "--stalls", env={"COLUMNS": "140"}).stdout
    narrow = pitot("report", recording, "--stalls", "--top", "2", env={"COLUMNS": "80"}).stdout
    check_golden("report-stalls.txt", section(wide) + section(narrow))
    plain = section(pitot("report", recording, env={"COLUMNS": "100"}).stdout)
    check_golden("report-stalls-short.txt", plain)


def test_json(pitot, recording):
    printed = stalls(pitot, recording, "--stalls")
    check_golden("report-stalls.json", json.dumps(printed, indent=1) + "\n")
    short = stalls(pitot, recording)
    assert short["kernels"] == printed["kernels"] and short["reasons"] == printed["reasons"]
    assert short["lines"] == short["instructions"] == [] and short["without_line"] is None


@pytest.mark.parametrize("options, samples", [
    ([], 970), (["--since", "100ms"], 150), (["--until", "100ms"], 820), (["--process", "101"], 140), (["--device", "1"], 140),
    (["--kernel", "smooth"], 720), (["--kernel", "lib::*"], 130), (["--kernel", "scale", "--device", "0"], 110), (["--kernel", "no"], 0)])
def test_everything_adds_up(pitot, recording, options, samples):
    printed = stalls(pitot, recording, "--stalls", *options)
    assert printed["samples"] == samples == total(printed["kernels"]) == total(printed["reasons"]) == total(printed["instructions"])
    assert samples == total(printed["lines"]) + printed["without_line"] + printed["without_code"]
    assert printed["total"] == samples + sum(printed[key] for key in ("dropped", "other", "unwanted", "unaccounted"))
    assert printed["unaccounted"] == 0
    for place in printed["kernels"] + printed["lines"] + printed["instructions"]:
        assert total(place["reasons"]) == place["samples"]
        assert sum(reason["not_issued"] for reason in place["reasons"]) == place["not_issued"] <= place["samples"]


@pytest.mark.parametrize("options, filters", [
    (["--stream", "7"], "--stream is"), (["--scope", "x"], "--scope is"), (["--stream", "7", "--scope", "x"], "--stream and --scope are"), ([], None)])
def test_filters_that_do_not_apply(pitot, make_recording, recording, tmp_path, options, filters):
    counted = make_recording(tmp_path / "sass.pitot", "sass")
    for of, what in (recording, "samples"), (counted, "counts"):
        text = " ".join(pitot("report", of, *options).stdout.split())
        assert (f"{filters} ignored here: {what} belong to code, not to launches" in text) == (filters is not None)
        assert filters or "ignored here" not in text


def test_a_device_function_belongs_to_its_kernel(pitot, recording):
    [gather] = [i for i in stalls(pitot, recording, "--stalls")["instructions"] if i["offset"] == 0x1d0]
    assert (gather["kernel"], gather["samples"]) == ("smooth", 230)
    assert gather["frames"] == [{"function": "gather(float const*, int)", "file": "/src/kernel.cu", "line": 7}]


def test_advice_is_about_frequent_waits(pitot, recording):
    """From a twentieth of the samples on."""
    text = " ".join(pitot("report", recording, "--stalls", "--kernel", "smooth").stdout.split())
    assert "2.8% barrier" in text and text.count("what helps when warps are") == 2
    assert "what helps when warps are waiting out a fixed latency" in text


def test_without_samples(pitot, make_recording, tmp_path):
    varied = make_recording(tmp_path / "varied.pitot", "varied")
    assert "\nstalls" not in pitot("report", varied).stdout
    assert "to record them: pitot record --engine pc-sampling" in " ".join(pitot("report", varied, "--stalls").stdout.split())


def test_without_what_was_asked_for(pitot, recording):
    assert "\nstalls  no recorded sample matches the filters\n" in pitot(
        "report", recording, "--stalls", "--kernel", "nothing").stdout


def test_without_device_code(pitot, recording, tmp_path):
    """A cubin that is gone, or is none, is as one that was not kept; a device function is then a row of its own."""
    for change in ("gone", "broken"):
        copy = tmp_path / f"{change}.pitot"
        shutil.copytree(recording, copy)
        [cubin] = (copy / "cubins").iterdir()
        cubin.unlink()
        if change == "broken":
            cubin.write_bytes(b"\x7fELF" + b"\x02\x01\x01" + bytes(200))
        printed = stalls(pitot, copy, "--stalls")
        assert printed["without_code"] == printed["samples"] == 970 and printed["lines"] == []
        assert {kernel["label"]: kernel["samples"] for kernel in printed["kernels"]} == {
            "smooth": 690, "scale<float>": 120, "reduce": 120, "gather": 30, "copy": 10}


def test_the_verdict_names_the_first_wait(pitot, recording):
    text = " ".join(pitot("report", recording, "--until", "120ms").stdout.split())
    assert ("smooth has the most samples: its warps were mostly waiting for global or local memory (88.3% of 600 samples), "
            "hottest line kernel.cu:16 (53.3%); waits are named that have more than half of at least 100 samples") in text
    for options in ([], ["--device", "1"]):  # host-bound; GPU-bound, but the first wait is less than half of the samples
        assert "has the most samples" not in pitot("report", recording, *options).stdout
    assert "GPU-bound" in pitot("report", recording, "--device", "1").stdout
