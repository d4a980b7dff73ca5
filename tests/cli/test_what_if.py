"""pitot what-if: goldens, that its numbers agree, and what it refuses."""
import json

import pytest

from golden import check_golden


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("what-if")
    make_recording(folder / "training.pitot", "training")
    for pattern in ("train", "graph", "streams"):
        make_recording(folder / f"{pattern}.pitot", kernels=20000, pattern=pattern)
    return folder


COMMANDS = {
    "training": [], "train": ["kernel:*reduce* x0.5", "launch -2us"], "graph": ["gpu x0.9"], "streams": ["host x0.5"]}


def test_goldens(pitot, folder):
    printed = (f"pitot what-if {name} {words}:\n" + pitot("what-if", f"{name}.pitot", *words, cwd=folder).stdout
               for name, words in COMMANDS.items())
    check_golden("what-if.txt", "\n".join(printed))


@pytest.mark.parametrize("name", COMMANDS)
def test_numbers_agree(pitot, folder, name):
    """The recorded step is that of the report; classes tile the span; nothing changed is the corrected time."""
    def what_if(*words):
        return json.loads(pitot("what-if", "--json", f"{name}.pitot", *words, cwd=folder).stdout)

    found = what_if("gpu x1")
    for times in (found["recorded"], found["corrected"], found["predicted"]):
        assert sum(times["bounded_by"].values()) == times["span_ns"]
    assert found["predicted"] == found["corrected"]
    assert found["identity_ns"] <= found["recorded"]["step_ns"] / 100
    parts = found["uncertainty"].values()
    assert max(parts) <= found["uncertainty_ns"] <= sum(parts)
    assert what_if("gpu x1", "--call-cost", "0us")["predicted"] == found["recorded"]
    steps = json.loads(pitot("report", "--steps", "--json", f"{name}.pitot", cwd=folder).stdout)["steps"]
    durations = sorted(item["duration_ns"] for item in steps["items"][-50:][1:])
    if durations:
        assert found["recorded"]["step_ns"] == durations[(len(durations) + 1) // 2 - 1]
    candidates = what_if("-n", "0")["candidates"]
    assert candidates and candidates == sorted(candidates, key=lambda c: -c["gain_ns"])


def test_refusals(pitot, folder):
    """Also on several changes, the first of which is right; a recording that is none is no transform."""
    said = pitot("what-if", "training.pitot", "gpu x0.5", "kernel:sm90_gem_bf16 x2", cwd=folder, status=2).stderr
    assert "'kernel:sm90_gem_bf16 x2' changes nothing of what is simulated, did you mean 'sm90_gemm_bf16'?" in said
    for words, why in (("no straggler", "needs all ranks of a job"), ("comm x0.5", "needs all ranks of a job")):
        said = pitot("what-if", "training.pitot", words, cwd=folder, status=2).stderr
        assert f"'{words}' " in said and why in said
    assert "'wait remove' changes nothing" in pitot("what-if", "training.pitot", "wait remove", cwd=folder, status=2).stderr
    assert "did you mean 'streams'?" in pitot("what-if", "training.pitot", "stream split", cwd=folder, status=2).stderr
    said = pitot("what-if", "streams.pitot", "streams merge", "fuse 2", cwd=folder, status=2).stderr
    assert "'streams merge' and 'fuse 2' both change the order of work, which is simulated one at a time" in said
    assert "unknown transform 'faster please'" in pitot("what-if", "training.pitot", "faster please", cwd=folder, status=2).stderr
    assert "cannot open" in pitot("what-if", "none.pitot", "gpu x0.5", cwd=folder, status=1).stderr
    said = pitot("what-if", "training.pitot", "--call-cost", "2", "gpu x0.5", cwd=folder, status=2).stderr  # seconds
    assert "--call-cost takes a time of at most 1ms, such as 1.2us" in said


@pytest.mark.parametrize("name, change", [("streams", "streams merge"), ("train", "fuse 2"), ("train", "batch x1.0")])
def test_other_orders(pitot, folder, name, change):
    """In text and JSON; what bounds the predicted time tiles it."""
    found = json.loads(pitot("what-if", "--json", f"{name}.pitot", change, cwd=folder).stdout)
    assert found["transforms"][0]["matched"] > 0
    assert sum(found["predicted"]["bounded_by"].values()) == found["predicted"]["span_ns"]
    assert change in pitot("what-if", f"{name}.pitot", change, cwd=folder).stdout


def test_without_work(pitot, make_recording, tmp_path):
    said = pitot("what-if", make_recording(tmp_path / "cpu.pitot", "cpu_only"), status=1).stderr
    assert "there is no GPU work to simulate in this recording" in said


def test_the_newest_recording(pitot, folder, tmp_path):
    (tmp_path / "x.pitot").symlink_to(folder / "training.pitot")
    assert json.loads(pitot("what-if", "--json", "gpu x0.5", cwd=tmp_path).stdout)["steps"] == 8
