"""pitot timeline: goldens in several widths, that a line fits, that numbers agree with the report, and what it refuses."""
import json

import pytest

from golden import check_golden


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline")
    make_recording(folder / "training.pitot", "training")
    for pattern in ("streams", "graph", "copies"):
        make_recording(folder / f"{pattern}.pitot", kernels=2000, pattern=pattern)
    return folder


@pytest.mark.parametrize("width", [40, 80, 132])
def test_goldens(pitot, folder, width):
    texts = [f"{' '.join(words)}:\n" + pitot("timeline", *words, cwd=folder, env={"COLUMNS": str(width), "LC_ALL": "C.UTF-8"}).stdout
             for words in (["training.pitot"], ["training.pitot", "--step", "3..4"], ["streams.pitot", "--top", "2"])]
    check_golden(f"timeline-{width}.txt", "\n".join(texts))
    for line in "".join(texts).splitlines():
        assert len(line) <= width or line.endswith(":"), line


def test_without_utf8(pitot, folder):
    text = pitot("timeline", "training.pitot", cwd=folder, env={"COLUMNS": "80", "LC_ALL": "C"}).stdout
    assert text.isascii() and "#" in text and "\x1b" not in text
    check_golden("timeline-ascii.txt", text)


@pytest.mark.parametrize("name", ["training", "streams", "graph", "copies"])
def test_numbers_agree(pitot, folder, name):
    found = json.loads(pitot("timeline", f"{name}.pitot", "--json", "--top", "0", cwd=folder).stdout)
    report = json.loads(pitot("report", f"{name}.pitot", "--steps", "--json", cwd=folder).stdout)
    for lane in found["lanes"]:
        assert sum(lane["columns_ns"]) == lane["busy_ns"] and max(lane["columns_ns"]) <= found["column_ns"]
        assert all(wait <= all_ns for wait, all_ns in zip(lane.get("waiting_ns", []), lane["columns_ns"]))
    busy = {gpu["gpu"]: gpu["busy"]["union_ns"] for gpu in report["gpus"] if "busy" in gpu}
    assert {lane["gpu"]: lane["busy_ns"] for lane in found["lanes"] if lane["kind"] == "gpu"} == busy
    assert [step["number"] for step in found["steps"]] == [item["number"] for item in report["steps"]["items"]]
    lengths = [gap["length_ns"] for gap in found["gaps"]]
    assert lengths == sorted(lengths, reverse=True)


def test_a_step(pitot, folder):
    """The window is from the beginning of the step on the host to the end of its work."""
    found = json.loads(pitot("timeline", "training.pitot", "--json", "--step", "3", cwd=folder).stdout)
    item = json.loads(pitot("report", "training.pitot", "--steps", "--json", cwd=folder).stdout)["steps"]["items"][2]
    assert found["end_ns"] - found["start_ns"] == item["start_ns"] + item["duration_ns"] - item["host_start_ns"]
    assert 3 in [step["number"] for step in found["steps"]]


@pytest.mark.parametrize("words, said", [
    (["--step", "9"], "--step: there is no step 9: they are 1 to 8"),
    (["--step", "0"], "--step takes a number, such as 17, or two, such as 17..19"),
    (["--step", "4..3"], "--step takes a number"),
    (["--step", "1..2x"], "--step takes a number"),
    (["--step", "1", "--since", "1s"], "--step is a window of its own"),
    (["--process", "1"], "no process 1 in this recording")])
def test_refusals(pitot, folder, words, said):
    assert said in pitot("timeline", "training.pitot", *words, cwd=folder, status=2).stderr


def test_without_steps_and_work(pitot, folder, make_recording, tmp_path):
    assert "no steps were found" in pitot("timeline", "streams.pitot", "--step", "1", cwd=folder, status=2).stderr
    said = pitot("timeline", make_recording(tmp_path / "cpu.pitot", "cpu_only"), status=1)
    assert "nothing to show: no GPU work and no CUDA calls here; `pitot report` says why" in said.stderr and not said.stdout
