"""pitot report --memory: goldens, and parts that add up."""
import json

import pytest

from golden import check_golden

MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    for kind in "memory", "training", "varied", "names":
        make_recording(folder / f"{kind}.pitot", kind)
    return folder


def report(pitot, folder, name, *options):
    return json.loads(pitot("report", f"{name}.pitot", "--memory", "--json", *options, cwd=folder).stdout)


def test_golden(pitot, folder):
    text = pitot("report", "memory.pitot", "--memory", cwd=folder).stdout
    check_golden("report-memory.txt", text[text.index("\nmemory at its peak\n"):text.index("\nloss ")])


@pytest.mark.parametrize("name", ["memory", "training", "varied", "names"])
def test_parts_add_up_to_the_peaks(pitot, folder, name):
    found = report(pitot, folder, name)
    groups = {(g["pid"], g["device"], g["kind"]): g for g in found["memory"]}
    for curve in found["memory_peak"]["curves"]:
        of = curve["pid"], curve["device"], curve["kind"]
        assert curve["peak_bytes"] == groups[of]["peak_bytes"]
        assert max([curve["base_bytes"], *(point["bytes"] for point in curve["points"])]) == curve["peak_bytes"]
        for by in "by_line", "by_scope", "by_step", "by_size":
            parts = [part for part in found["memory_peak"][by] if (part["pid"], part["device"], part["kind"]) == of]
            assert sum(part["bytes"] for part in parts) == curve["peak_bytes"]
        live = [part for part in found["memory_peak"]["live"] if (part["pid"], part["device"], part["kind"]) == of]
        assert sum(part["bytes"] for part in live) == groups[of]["live_bytes"]


def test_known_sizes(pitot, folder):
    """What memory_recording.c allocates."""
    found = report(pitot, folder, "memory")
    curve = found["memory_peak"]["curves"][0]
    assert (curve["base_bytes"], curve["peak_bytes"]) == (100 * MIB, (100 + 768 + 200 + 9 * 4) * MIB)
    assert (curve["set_by"], curve["set_by_bytes"]) == ("train.py:20 forward", 200 * MIB)
    assert {part["name"]: part["bytes"] // MIB for part in found["memory_peak"]["by_scope"] if part["kind"] == "device"} == {
        "(outside of scopes)": 768, "step/forward": 200, "(before the recording)": 100, "step": 36}
    leak, = found["memory_steps"]["leaks"]
    assert (leak["name"], leak["step_bytes"], leak["steps"], leak["last_bytes"]) == ("train.py:40 log_loss", 4 * MIB, 10, 40 * MIB)
    assert {row["name"]: (row["allocations"], row["releases"], row["synchronizing"]) for row in found["memory_steps"]["churn"]} == {
        "train.py:20 forward": (10, 0, 0), "train.py:31 step": (0, 10, 0), "train.py:40 log_loss": (10, 0, 10)}
    gpu, = found["memory_peak"]["gpus"]
    assert gpu["unexplained_bytes"] == gpu["used_bytes"] - gpu["tracked_bytes"] == (1509 - 1104) * MIB
    assert found["steps"]["loops"][0]["count"] == 10


def test_without_the_option_and_without_allocations(pitot, folder, make_recording, tmp_path):
    assert json.loads(pitot("report", "memory.pitot", "--json", cwd=folder).stdout)["memory_peak"] is None
    text = pitot("report", make_recording(tmp_path / "none.pitot", kernels=100), "--memory").stdout
    assert "no allocations in the recording" in text and "pitot record --memory" in text


def test_page_has_curves(pitot, folder, tmp_path):
    page = tmp_path / "x.html"
    pitot("report", "memory.pitot", "--memory", "-o", page, cwd=folder)
    html = page.read_text()
    assert html.count('<svg viewBox="0 0 960 82"') == 4 and "train.py:40 log_loss" in html
