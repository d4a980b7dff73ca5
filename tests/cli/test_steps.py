"""pitot report --steps: goldens, and that what is said of slow steps is in the table."""
import json

import pytest

from golden import check_golden


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    make_recording(folder / "training.pitot", "training")
    make_recording(folder / "graph.pitot", kernels=20000, pattern="graph")
    make_recording(folder / "copies.pitot", kernels=2000, pattern="copies")
    make_recording(folder / "streams.pitot", kernels=2000, pattern="streams")
    return folder


def steps(pitot, folder, name, *options):
    text = pitot("report", f"{name}.pitot", "--steps", *options, cwd=folder).stdout
    return next(block for block in text.split("\n\n") if block.startswith("steps")).rstrip("\n") + "\n"


def test_goldens(pitot, folder):
    check_golden("report-steps.txt", "".join(f"{name}:\n{steps(pitot, folder, name)}"
                                             for name in ("training", "graph", "copies", "streams")))


@pytest.mark.parametrize("name", ["training", "graph", "copies", "streams"])
def test_numbers_of_steps_agree(pitot, folder, name):
    """Steps do not overlap, GPU work is in at most one, and what is slow is above the limit."""
    report = json.loads(pitot("report", f"{name}.pitot", "--steps", "--json", cwd=folder).stdout)
    found = report["steps"]
    assert sum(loop["count"] for loop in found["loops"]) == len(found["items"])
    for loop in found["loops"]:
        items = [item for item in found["items"] if item["pid"] == loop["pid"]]
        assert [item["number"] for item in items] == list(range(1, loop["count"] + 1))
        for before, after in zip(items, items[1:]):
            assert before["start_ns"] + before["duration_ns"] <= after["start_ns"]
        assert sum(item["duration_ns"] for item in items) == loop["total_ns"] <= loop["span_ns"]
        assert sum(item["work_ns"] for item in items) <= sum(gpu["busy"]["sum_ns"] for gpu in report["gpus"])
        durations = sorted(item["duration_ns"] for item in items)
        if items:
            assert loop["min_ns"] == durations[0] and loop["max_ns"] == durations[-1]
            assert loop["median_ns"] == durations[(len(items) + 1) // 2 - 1]
            assert sum(item["slow"] for item in items) == (loop["slow_count"] or 0)
            assert all(item["slow"] == (item["duration_ns"] > loop["slow_limit_ns"]) for item in items)
    for slow in found["slow"]:
        item = next(item for item in found["items"] if (item["pid"], item["number"]) == (slow["pid"], slow["number"]))
        assert item["slow"] and item["duration_ns"] == slow["duration_ns"]


def test_without_the_option(pitot, folder):
    assert json.loads(pitot("report", "training.pitot", "--json", cwd=folder).stdout)["steps"] is None
    assert "\nsteps" not in pitot("report", "training.pitot", cwd=folder).stdout


def test_of_a_window(pitot, folder):
    """A step belongs to a window that contains its part on the host."""
    found = json.loads(pitot("report", "training.pitot", "--steps", "--json", "--since", "150ms", "--until", "450ms",
                             cwd=folder).stdout)["steps"]
    assert 1 <= found["loops"][0]["count"] <= 3
    assert "none of them lies in the window" in steps(pitot, folder, "training", "--since", "10ms", "--until", "15ms")


def test_analyze_is_the_report_with_its_options(pitot, folder):
    options = ["--steps", "--critical-path", "--states"]
    assert pitot("analyze", "--json", folder / "training.pitot").stdout == pitot("report", "--json", *options, folder / "training.pitot").stdout
    assert "pitot analyze is pitot report --steps --critical-path --states" in pitot("report", "--help").stdout


@pytest.fixture(scope="module")
def powered(make_recording, tmp_path_factory):
    """The recorder read the power of the GPU."""
    return make_recording(tmp_path_factory.mktemp("powered") / "training.pitot", "training")


def test_energy_adds_up_and_has_a_price(pitot, powered):
    energy = pitot("report", powered, "--price", "2.50/h", "--json", json_output=True)["energy"]
    assert energy["joules"] > 0 and energy["uncertainty"] >= 0.05
    for parts in "kernels", "scopes":
        assert sum(part["joules"] for part in energy[parts]) + energy["idle_joules"] == pytest.approx(energy["joules"])
        for part in energy[parts]:
            assert part["cost"] == pytest.approx(part["gpu_ns"] / 3.6e12 * 2.5, rel=1e-3, abs=1e-12)
    assert "energy  " in pitot("report", powered, "--steps").stdout
    assert "cost" not in pitot("report", powered, "--steps", "--json", json_output=True)["energy"]["kernels"][0]


def test_prices_that_are_none(pitot, folder):
    for price in ("2.50", "/h", "0/h", "x/h", "-1/h", "2/hour"):
        assert "--price takes what an hour of a GPU costs, such as 2.50/h" in pitot("report", "--price", price, folder / "graph.pitot",
                                                                                   status=2).stderr
    assert "energy  unknown: no readings" in pitot("report", "--price", "2/h", folder / "graph.pitot").stdout
