"""Many processes at once, many kernel names, and very long ones."""
import json
import re

import pytest

KERNELS = 317  # on the tape of kinds


@pytest.fixture
def play(player, source, pitot, tmp_path):
    """play("kinds", "storm 20000-names", "--repeat", "3"): a recording of a tape with a fault."""

    def run(tape, fault, *options):
        script, recording = tmp_path / "faults", tmp_path / "played.pitot"
        script.write_text(fault + "\n")
        pitot("record", "--no-cpu", "--stacks", "none", "-o", recording, "--", player, "--now", "--faults", script,
              *options, source / "tests" / "data" / "tapes" / f"{tape}.tape",
              env={"LSAN_OPTIONS": f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0"})
        return recording

    return run


def test_ten_processes_at_once(player, source, pitot, tmp_path):
    tape = source / "tests" / "data" / "tapes" / "kinds.tape"
    recording = tmp_path / "ten.pitot"
    script = f"for i in 1 2 3 4 5 6 7 8 9 10; do '{player}' --now '{tape}' & done; wait"
    end = pitot("record", "--no-cpu", "--stacks", "none", "--json", "-o", recording, "--", "sh", "-c", script,
                env={"LSAN_OPTIONS": f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0"}).stderr
    end = json.loads(end[end.index("{"):])
    assert (end["kernels"], end["processes_inside"], end["lost"]) == (10 * KERNELS, 10, 0)
    report = pitot("report", recording, "--json", json_output=True)
    assert len(report["gpus"]) == 1, "the same GPU for all"
    assert report["hotspots"]["kernels"] == 10 * KERNELS
    busy = report["gpus"][0]["busy"]
    assert busy["union_ns"] <= busy["sum_ns"]
    streams = pitot("report", recording, "--by", "stream", "--top", "0").stdout
    assert len(set(re.findall(r" stream \d+ \(pid (\d+)\)", streams))) == 10
    text = pitot("info", "--verify", recording).stdout
    assert any(line.split()[:4] == ["10", "processes", "kernel", "on"] for line in text.splitlines())


def test_twenty_thousand_kernel_names(play, pitot, tmp_path):
    recording = play("launch", "storm 20000-names", "--repeat", "4")
    report = pitot("report", recording, "--json", json_output=True)
    assert (report["hotspots"]["kernels"], report["hotspots"]["groups"]) == (28000, 20000)
    assert sum(item["time"]["count"] for item in report["hotspots"]["items"]) == 28000
    assert report["loss"] == []
    assert "; 10 of 20,000 shown" in pitot("report", recording).stdout
    pitot("export", recording, "-o", tmp_path / "x.json.gz")
    pitot("export", recording, "-o", tmp_path / "x.pftrace")


def test_names_of_64_kib(play, pitot, tmp_path):
    recording = play("kinds", "huge-names 65536")
    report = pitot("report", recording, "--json", json_output=True)
    assert report["hotspots"]["kernels"] == KERNELS
    assert {len(item["symbol"]) for item in report["hotspots"]["items"]} == {65536}
    assert max(map(len, pitot("report", recording, env={"COLUMNS": "80"}).stdout.splitlines())) <= 80
    pitot("export", recording, "-o", tmp_path / "x.json")
    kernels = [event for event in json.loads((tmp_path / "x.json").read_text())["traceEvents"]
               if event.get("cat") == "kernel"]
    assert len(kernels) == KERNELS


def test_no_room_at_all_is_said(player, source, pitot, tmp_path):
    end = pitot("record", "--no-cpu", "--stacks", "none", "--max-size", "1", "-o", tmp_path / "none.pitot", "--", player,
                "--now", source / "tests" / "data" / "tapes" / "kinds.tape",
                env={"LSAN_OPTIONS": f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0"}).stderr
    assert "no GPU data: --max-size was reached" in end and "rows dropped: --max-size was reached" in end
    assert "unknown inside the command" in end
