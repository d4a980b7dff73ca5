"""r.memory and pitot.diff(): the same as the commands say, and their displays."""
import json
import re

import pytest


@pytest.fixture(scope="module")
def recorded(shared_folder, make_recording):
    def fill(folder):
        make_recording(folder / "memory.pitot", "memory")
        make_recording(folder / "training.pitot", "training")

    return shared_folder("python-memory", fill)


def test_memory(package, pitot, recorded):
    memory = package.open(recorded / "memory.pitot").memory
    report = json.loads(pitot("report", recorded / "memory.pitot", "--memory", "--json").stdout)
    assert memory == {"kinds": report["memory"], **report["memory_peak"], **report["memory_steps"]}
    assert memory["leaks"][0]["name"] == "train.py:40 log_loss"
    assert "memory at its peak" in repr(memory) and "srcdoc=" in memory._repr_html_() and "log_loss" in memory._repr_html_()
    assert re.fullmatch('<iframe sandbox="allow-scripts" style="[^"<>]*" srcdoc="[^"<>]*"></iframe>', memory._repr_html_())


def test_diff(package, pitot, recorded):
    a, b = recorded / "training.pitot", recorded / "memory.pitot"
    same = package.diff(a, [a])
    assert same == json.loads(pitot("diff", a, a, "--json").stdout) and same["verdict"] == "same"
    assert "<pre" in same._repr_html_() and "step" in repr(same)
    shown = package.diff(a, a, fail_if=["kernel:<script>&* > 1%"])._repr_html_()
    assert re.findall("<[^>]*>", shown) == ['<pre style="line-height: 1.2">', "</pre>"] and "kernel:&lt;script&gt;&amp;* &gt; 1%" in shown
    failed = package.diff([str(a), a], [b, b], fail_if=["launches > 0", "step < -1%"])
    printed = pitot("diff", a, a, "--", b, b, "--json", "--fail-if", "launches > 0", "--fail-if", "step < -1%", status=1).stdout
    assert failed == json.loads(printed) and len(failed["conditions"]) == 2
    with pytest.raises(package.Error, match="nothing.pitot"):
        package.diff(a, "nothing.pitot")


def test_baseline(package, pitot, recorded, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    a, b = recorded / "training.pitot", recorded / "memory.pitot"
    pitot("baseline", "save", "main", a, env={"XDG_DATA_HOME": str(tmp_path)})
    assert package.diff(b, against="main", fail_if=["step > 2%"]) == package.diff(a, b, fail_if=["step > 2%"])
    assert "step" in repr(package.diff([b], against="main"))
    with pytest.raises(package.Error, match="no baseline 'mian', did you mean 'main'"):
        package.diff(b, against="mian")
    for sides in ((a,), (a, b)):
        with pytest.raises(TypeError, match="or with against="):
            package.diff(*sides, against="main" if len(sides) == 2 else None)
