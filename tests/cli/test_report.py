"""pitot report: goldens, options, and that every view sums to the same GPU time."""
import json
import os
import subprocess
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parent / "goldens"


def check_golden(name, text):
    """Compares with goldens/<name>; PITOT_UPDATE_GOLDENS=1 writes it instead."""
    path = GOLDENS / name
    if os.environ.get("PITOT_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"differs from {path}; PITOT_UPDATE_GOLDENS=1 accepts it"


@pytest.fixture(scope="module")
def recordings(build, tmp_path_factory):
    """varied.pitot, and synthetic ones of every pattern with 2,000 kernels."""
    folder = tmp_path_factory.mktemp("recordings")
    subprocess.run([build / "tests/cli/make-varied-recording", folder / "varied.pitot"], check=True)
    for pattern in ("train", "graph", "streams", "copies"):
        subprocess.run([build / "tests/support/make-recording", folder / f"{pattern}.pitot", "--kernels", "2000",
                        "--pattern", pattern, "--seed", "1"], check=True)
    return folder


def report(pitot, recordings, name, *options, **keywords):
    return pitot("report", f"{name}.pitot", *options, cwd=recordings, **keywords)


@pytest.mark.parametrize("name", ["varied", "train", "graph", "streams", "copies"])
def test_golden(pitot, recordings, name):
    check_golden(f"report-{name}.txt", report(pitot, recordings, name).stdout)


@pytest.mark.parametrize("width", [80, 140])
def test_golden_of_other_widths(pitot, recordings, width):
    text = report(pitot, recordings, "train", "--top", "3", env={"COLUMNS": str(width)}).stdout
    check_golden(f"report-train-{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width


def test_golden_json(pitot, recordings):
    check_golden("report-varied.json", report(pitot, recordings, "varied", "--json").stdout)


def test_groups_sum_to_all_kernels(pitot, recordings):
    for name in ("varied", "train", "graph", "streams", "copies"):
        totals = set()
        for by in ("kernel", "config", "stream", "device", "thread", "nvtx"):
            result = report(pitot, recordings, name, "--json", "--by", by, json_output=True)
            items = result["hotspots"]["items"]
            sums = (sum(item["time"].get("total_ns", 0) for item in items),
                    sum(item["time"]["count"] + item["untimed"] for item in items))
            assert sums == (result["hotspots"]["total_ns"], result["hotspots"]["kernels"])
            assert sums[0] == sum(gpu["busy"]["kernels"]["sum_ns"] for gpu in result["gpus"] if "busy" in gpu)
            totals.add(sums)
        assert len(totals) == 1


def test_totals_equal_the_rows(pitot, recordings):
    for name in ("varied", "train", "graph", "streams", "copies"):
        rows = [json.loads(line) for line in
                pitot("view", f"{name}.pitot", "kernel", "--json", cwd=recordings).stdout.splitlines()]
        timed = [row["duration_ns"] for row in rows if row["duration_ns"] is not None]
        hotspots = report(pitot, recordings, name, "--json", json_output=True)["hotspots"]
        assert hotspots["kernels"] == len(rows)
        assert hotspots["untimed"] == len(rows) - len(timed)
        assert hotspots["total_ns"] == sum(timed)


def test_busy_and_idle_are_all_of_the_window(pitot, recordings):
    for window in ([], ["--since", "3ms", "--until", "9ms"]):
        result = report(pitot, recordings, "train", "--json", *window, json_output=True)
        length = result["window"]["end_ns"] - result["window"]["start_ns"]
        for gpu in result["gpus"]:
            assert gpu["busy"]["union_ns"] + gpu["idle"]["total_ns"] == length
            assert sum(gpu["idle"]["cause_ns"].values()) == gpu["idle"]["total_ns"]
            assert sum(gpu["busy"]["streams_ns"]) == gpu["busy"]["union_ns"]


def test_windows_share_the_kernels(pitot, recordings):
    whole = report(pitot, recordings, "train", "--json", json_output=True)["hotspots"]
    parts = [report(pitot, recordings, "train", "--json", *window, json_output=True)["hotspots"]
             for window in (["--until", "5ms"], ["--since", "5ms", "--until", "10ms"], ["--since", "10ms"])]
    assert all(part["kernels"] for part in parts)
    for key in ("kernels", "total_ns"):
        assert sum(part[key] for part in parts) == whole[key]


def test_filters(pitot, recordings):
    def kernels(name, *options):
        return report(pitot, recordings, name, "--json", *options, json_output=True)["hotspots"]["kernels"]

    by_stream = report(pitot, recordings, "streams", "--json", "--by", "stream", json_output=True)["hotspots"]["items"]
    for item in by_stream:
        assert kernels("streams", "--stream", str(item["stream"])) == item["time"]["count"]
    assert kernels("varied", "--process", "3") + kernels("varied", "--process", "100") == kernels("varied")
    assert 0 < kernels("varied", "--kernel", "saxpy*") == kernels("varied", "-k", "axp") < kernels("varied")
    assert kernels("varied", "--kernel", "no such kernel") == 0
    by_range = report(pitot, recordings, "train", "--json", "--by", "nvtx", json_output=True)["hotspots"]["items"]
    forward = next(item for item in by_range if item.get("range") == "forward")
    assert kernels("train", "--nvtx", "forward") == forward["time"]["count"]


def test_nothing_lost_is_said(pitot, recordings):
    lines = report(pitot, recordings, "train").stdout.splitlines()
    assert "loss      nothing lost" in lines
    assert any(line.startswith("cost      ") for line in lines)
    assert any(line.startswith("loss      17 events lost") for line in report(pitot, recordings, "varied").stdout.splitlines())


def test_hostile_names_reach_no_terminal(pitot, recordings):
    for options in ([], ["--full-names"], ["--by", "config"], ["--by", "nvtx"], ["--by", "thread"]):
        result = report(pitot, recordings, "varied", *options, text=False)
        assert not any(byte < 32 and byte != 10 or byte == 127 for byte in result.stdout)
        result.stdout.decode()


def test_no_colours_and_bars_in_a_pipe(pitot, recordings):
    text = report(pitot, recordings, "copies").stdout
    assert "\033" not in text and "\u2588" not in text
    assert "\033[1m" in report(pitot, recordings, "copies", "--color", "always").stdout


def test_newest_recording_is_found(pitot, recordings, tmp_path):
    for age, name in enumerate(("train", "graph")):
        (tmp_path / f"{name}.pitot").mkdir()
        for file in (recordings / f"{name}.pitot").iterdir():
            (tmp_path / f"{name}.pitot" / file.name).write_bytes(file.read_bytes())
        os.utime(tmp_path / f"{name}.pitot", (1000 - age, 1000 - age))
    result = pitot("report")
    assert "train.pitot" in result.stderr
    assert result.stdout == report(pitot, recordings, "train").stdout


@pytest.mark.parametrize("options, words", [
    (["--since", "2s", "--until", "1s"], "--since must be before --until"),
    (["--by", "colour"], "colour"),
    (["--top", "-1"], "-1"),
    (["--tpo", "1"], "--top"),
])
def test_wrong_usage(pitot, recordings, options, words):
    result = report(pitot, recordings, "train", *options, status=2)
    assert words in result.stderr and not result.stdout


def test_no_recording(pitot, tmp_path):
    assert "pitot record" in pitot("report", status=1).stderr
    (tmp_path / "text.pitot").write_text("no recording")
    assert "text.pitot" in pitot("report", "text.pitot", status=1).stderr
    assert "missing" in pitot("report", "missing", status=1).stderr


def test_empty_recording(pitot, build, tmp_path):
    subprocess.run([build / "tests/support/make-recording", tmp_path / "empty.pitot", "--kernels", "0"], check=True)
    text = pitot("report", "empty.pitot").stdout
    assert "no GPU work" in text and "nothing lost" in text
    assert pitot("report", "empty.pitot", "--json", json_output=True)["verdict"]["kind"] == "no_work"


def test_truncated_recordings_still_report(pitot, recordings, tmp_path):
    data = next((recordings / "train.pitot").glob("*.pit")).read_bytes()
    (tmp_path / "cut.pitot").mkdir()
    for length in range(64, len(data), len(data) // 40):
        (tmp_path / "cut.pitot" / "1000.0.pit").write_bytes(data[:length])
        result = pitot("report", "cut.pitot", "--json", json_output=True)
        assert [loss["reason"] for loss in result["loss"]] == ["truncated_file"]
