"""pitot.torch.memory(): the caching allocator's history in recordings, with a model of the allocator in place of torch."""
import json
from pathlib import Path

import pytest

BEGIN = f"""
import random, time
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from torch_allocator import MIB, Allocator, stand_in
allocator = Allocator(clock=lambda: time.time_ns() // 1000)
sys.modules["torch"] = torch = stand_in(allocator)
import pitot.torch

def use(count, seed=3):
    draw, live = random.Random(seed), []
    for _ in range(count):
        if live and draw.random() < 0.4:
            allocator.free(live.pop(draw.randrange(len(live))))
        else:
            live.append(allocator.malloc(draw.choice([100, 5000, 3 * MIB, 30 * MIB]) + draw.randrange(9000)))

def peaks():
    return [allocator.peak_allocated, allocator.peak_reserved, allocator.allocated]
"""


@pytest.fixture
def found(pitot):
    def found(path):
        report = json.loads(pitot("report", path, "--memory", "--json").stdout)
        of = {group["kind"]: group for group in report["memory"]}
        return report, [of["allocator_block"]["peak_bytes"], of["allocator_segment"]["peak_bytes"], of["allocator_block"]["live_bytes"]]

    return found


def test_peaks_are_those_of_the_allocator(run, found, tmp_path):
    said = run(BEGIN + """
with pitot.record("a.pitot") as recording:
    with pitot.torch.memory():
        use(300)
    print(json.dumps([peaks(), torch.requested, os.getpid()]))
""")
    report, levels = found(tmp_path / "a.pitot")
    assert levels == said[0] and said[1]["enabled"] is None
    curve = next(c for c in report["memory_peak"]["curves"] if c["kind"] == "allocator_block")
    assert curve["pid"] == said[2] and curve["set_by"] == "train.py:1 main" and len(report["processes"]) == 1
    assert sum(part["bytes"] for part in report["memory_peak"]["by_line"] if part["kind"] == "allocator_block") == levels[0]


def test_recordings_that_end_meanwhile_and_at_exit(run, found, tmp_path):
    """Times are those of each recording: what is before it is its base."""
    said = run(BEGIN + """
pitot.torch.memory(max_entries=5000)
first = pitot.start("first.pitot")
use(50)
first.stop()
between = peaks()
second = pitot.start("second.pitot")
use(50, 4)
print(json.dumps([between, peaks(), torch.requested]))
""")
    assert found(tmp_path / "first.pitot")[1] == said[0] and found(tmp_path / "second.pitot")[1] == said[1]
    assert said[2] == {"enabled": "all", "context": "alloc", "stacks": "python", "max_entries": 5000}


def test_twice(run, found, rows, tmp_path, pitot):
    """A cell of a notebook that runs again, and a second history for a recording that has one: nothing counts twice."""
    said = run(BEGIN + """
import warnings
with pitot.record("a.pitot"):
    memory = pitot.torch.memory()
    use(50)
    assert pitot.torch.memory(max_entries=7) is memory and torch.requested["max_entries"] == 1_000_000
    use(50, 4)
    memory.stop()
    after = peaks()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pitot.torch.memory() as again:
            assert again is not memory
            use(20, 5)
print(json.dumps([after, [str(w.message) for w in caught], os.getpid()]))
""")
    assert found(tmp_path / "a.pitot")[1] == said[0]
    (warning,) = said[1]
    assert f"a.pitot' has the history of an allocator of process {said[2]}" in warning
    blocks = [row["address"] for row in rows(tmp_path / "a.pitot", "allocation") if row["operation"] == "allocation"]
    assert len(blocks) < 200 and "has the history" in pitot("import", warning.split()[-3], "--into", tmp_path / "a.pitot", status=1).stderr


def test_out_of_memory(run, tmp_path, rows):
    said = run(BEGIN + """
memory = pitot.torch.memory()
use(5)
torch.out_of_memory(1 << 40)
saved = memory._file
print(json.dumps([os.path.exists(saved), os.path.basename(saved), os.getpid()]))
sys.stdout.flush()
with pitot.record("a.pitot"):
    pass
memory.stop()
memory.stop()
assert not os.path.exists(saved) and not os.path.exists(os.path.dirname(saved))
""")
    assert said == [True, f"torch-{said[2]}.pickle", said[2]]
    assert {row["kind"] for row in rows(tmp_path / "a.pitot", "allocation")} == {"allocator_block", "allocator_segment"}


def test_what_does_not_work(run, tmp_path):
    said = run(BEGIN + """
import shutil, warnings
memory = pitot.torch.memory()
use(5)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    memory._add_to("gone.pitot")
kept = memory._file
memory.stop()
out = [str(w.message) for w in caught]
del torch.cuda.memory._record_memory_history
for wrong in "api", "torch":
    try:
        pitot.torch.memory()
    except pitot.Error as error:
        out.append(str(error))
    del sys.modules["torch"]
    sys.modules["torch"] = object()
print(json.dumps([out, kept]))
""")
    (warning, api, missing), kept = said
    assert "gone.pitot" in warning and "pitot import /" in warning and "--into gone.pitot" in warning and kept is None
    assert "torch 2.9.0 has no history" in api and "torch is not loaded" in missing


def test_import_into_wants_a_process(pitot, make_recording, tmp_path):
    made = make_recording(tmp_path / "two.pitot", kernels=200, processes=2)
    (tmp_path / "s.json").write_text("[[1700000000000000000, 2, 4096, 4], [1700000000000000005, 4, -4096, 4]]")
    assert "choose one with --pid" in pitot("import", tmp_path / "s.json", "--into", made, status=1).stderr
    assert "has no process 7" in pitot("import", tmp_path / "s.json", "--into", made, "--pid", "7", status=1).stderr
    assert "leave out -o" in pitot("import", tmp_path / "s.json", "--into", made, "-o", "x", status=2).stderr
    assert "--pid needs --into" in pitot("import", tmp_path / "s.json", "--pid", "7", status=2).stderr
    (tmp_path / "k.json").write_text('{"traceEvents": [{"ph": "X", "name": "f", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]}')
    assert "only torch_memory" in pitot("import", tmp_path / "k.json", "--into", made, status=1).stderr
