"""The critical path of tapes of real GPUs: its pieces tile the window, and its graph contradicts no times."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest

TAPES = pathlib.Path(__file__).parent.parent / "data" / "tapes"
NAMES = sorted(str(p.relative_to(TAPES).with_suffix("")) for p in [*TAPES.glob("*.tape"), *TAPES.glob("ranks/*.0.tape")])


@pytest.mark.parametrize("tape", NAMES)
def test_paths_and_states_of_tapes(record, pitot, tape):
    report = json.loads(pitot("report", "--critical-path", "--states", "--json", record(tape, "stacks=none")).stdout)
    path = report["critical_path"]
    rows = report["states"]["rows"]
    for row in rows:
        states = ("running", "queued", "waiting", "starved", "idle", "unknown")
        assert sum(row[state + "_ns"] for state in states) == report["states"]["window_ns"]
    assert [row["running_ns"] for row in rows if row["stream"] is None] == [
        gpu["busy"]["union_ns"] for gpu in report["gpus"] if "busy" in gpu]
    assert sum(owner["total_ns"] for owner in path["owners"]) == path["window_ns"] > 0
    assert path["path_work_ns"] == sum(o["total_ns"] for o in path["owners"] if o["class"] in ("kernel", "copy", "memset", "graph"))
    assert path["path_work_ns"] + path["tight_work_ns"] <= path["work_ns"]
    assert path["identity_ns"] <= path["window_ns"] / 100
    assert all(owner["potential_ns"] is None or owner["potential_ns"] <= path["window_ns"] for owner in path["owners"])
    edges = sum(edge["count"] for edge in path["edges"])
    assert path["contradictions"] <= edges / 200, path["edges"]
    assert path["unknown"]["work_without_call"] == 0 and path["unknown"]["untimed_work"] <= 1


def test_a_path_through_events_and_a_graph(record, pitot, make_tape):
    """The host waits for a stream that waits for another by an event: hardly anything of that is unknown."""
    recording = record(make_tape("waits", 20), "stacks=none")
    path = json.loads(pitot("report", "--critical-path", "--json", recording).stdout)["critical_path"]
    count = {owner["name"]: owner["count"] for owner in path["owners"]}
    edges = {edge["kind"]: edge["count"] for edge in path["edges"]}
    assert count["producer"] == count["consumer"] == 20
    assert edges["event"] == 20 and edges["sync_event"] == 20 and edges["graph"] > 18
    assert path["unknown_ns"] == 0 and not any(path["unknown"].values()), path["unknown"]
    text = pitot("report", "--critical-path", recording).stdout
    assert "\ncritical path  of " in text and ", 0.0% unknown\n" in text and "not known" not in text


def test_graphs_of_several_streams_can_be_drawn(record, pitot, tmp_path):
    """Threads and streams that wait for each other: dot places them if it is told to rank nodes before clusters."""
    pitot("export", record("kinds", "stacks=none"), "-o", tmp_path / "x.dot", "--quiet")
    text = (tmp_path / "x.dot").read_text()
    assert "newrank=true;" in text and text.count("subgraph") > 10
    if shutil.which("dot"):
        drawn = subprocess.run(["dot", "-Tsvg", tmp_path / "x.dot"], capture_output=True, text=True, check=False)
        assert (drawn.returncode, drawn.stderr) == (0, "")
        assert drawn.stdout.count('class="node"') == len(re.findall(r"^\t\tt\d+ \[", text, re.M))


def test_without_the_option(record, pitot, make_tape):
    recording = record(make_tape("waits", 1), "stacks=none")
    assert json.loads(pitot("report", "--json", recording).stdout)["critical_path"] is None
    assert "critical path in detail" not in pitot("report", recording).stdout


def test_steps_of_a_tape(record, pitot):
    """Four steps of a training, marked by NVTX, of which the first one loads kernels and takes 50 times as long."""
    found = json.loads(pitot("report", "--steps", "--json", record("train", "stacks=none")).stdout)["steps"]
    (loop,) = found["loops"]
    assert (loop["source"], loop["count"], loop["name"]) == ("ranges", 4, "step 0")
    assert loop["max_ns"] > 20 * loop["median_ns"]
    launches = [item["launches"] for item in found["items"]]
    assert launches[0] > launches[1] and max(launches[1:]) - min(launches[1:]) <= 10


@pytest.mark.parametrize("tape", NAMES)
def test_simulations_of_tapes(record, pitot, tape):
    """A simulation without a change is the recording, and cheaper work never makes it longer."""
    recording = record(tape, "stacks=none")
    found = [json.loads(pitot("what-if", "--json", recording, f"gpu x{factor}").stdout) for factor in (1, 0.5, 0)]
    assert found[0]["identity_ns"] <= found[0]["recorded"]["step_ns"] / 100
    times = [one["predicted"]["step_ns"] for one in found]
    assert found[0]["corrected"]["step_ns"] == times[0] >= times[1] >= times[2]
