"""`pitot import`: XSpace files of JAX, also of TPUs."""
import gzip
import json

import pytest

from golden import check_golden
from xspace_messages import T0, Plane, field, gpu, space, tpu


@pytest.fixture
def bring(pitot, tmp_path):
    def run(content):
        if isinstance(content, bytes):
            (tmp_path / "node0.xplane.pb").write_bytes(content)
            content = tmp_path / "node0.xplane.pb"
        said = pitot("import", content, "-o", "r.pitot", "--force", "--json", json_output=True)
        assert said["format"] == "xspace"

        def rows(table, *columns):
            lines = pitot("view", "r.pitot", table, "--json", "--quiet", *(["-c", ",".join(columns)] if columns else [])).stdout
            return [json.loads(line) for line in lines.splitlines()]

        return said, rows

    return run


def test_gpu(bring, tmp_path):
    """Picoseconds are rounded; work is joined with its calls, their functions of Python and their ranges."""
    said, rows = bring(gpu())
    base = json.loads((tmp_path / "r.pitot/recording.json").read_text())["start_realtime_ns"]
    [kernel] = rows("kernel")
    assert (base + kernel["start_ns"] - T0, kernel["duration_ns"], kernel["device"], kernel["stream"], kernel["config"]) == (10000, 2251, 1, 13, "fusion")
    assert [list(row.values()) for row in rows("kernel", "config.grid_x", "config.grid_y", "config.registers", "config.static_shared_bytes")] == [[4, 2, 32, 16]]
    assert [(row["kind"], row["bytes"], row["async"], row["context"]) for row in rows("memcpy")] == [("HtoD", 4096, 1, 1)]
    assert said["notes"] == ["read: 7 events, 2 items of GPU work, 2 joined with their calls", "threads: 2 calls, 2 inside of operators, 2 with a stack",
                             "left out: 1 GPU row that repeats other rows"]
    assert [row["message"] for row in rows("nvtx") if row["message"]] == ["PjitFunction(step)"]
    assert [row["name"] for row in rows("thread")] == ["python"]
    assert [(row["name"], row["compute_major"], row["multiprocessors"], row["memory_bytes"]) for row in rows("device")] == [("Nvidia GPU", 9, 132, 2**36)]
    assert [(row["host"], row["command"]) for row in rows("process")] == [("node3", "node0")]
    assert [(row["function"], row["file"], row["line"]) for row in rows("stack_node")] == [("step", "train.py", 12)]


def test_tpu(bring, pitot):
    """What encloses other operations is not counted twice."""
    said, rows = bring(tpu())
    assert sorted((row["config"], row["duration_ns"], row["stream"]) for row in rows("kernel")) == [
        ("copy.5", 0, 2), ("fusion.1", 40000, 2), ("fusion.2", 50000, 2), ("gather", 7000, 2 << 16 | 2)]
    assert said["notes"][-1] == "left out: 2 GPU rows that repeat other rows"
    check_golden("import-tpu.txt", pitot("report", "r.pitot").stdout)


def test_totals(bring):
    """Every event once, and the sum of all durations to the nanosecond."""
    events = [(f"fusion.{i % 7}", i * 3_000_700, 1_000_001 + i * 997, {}) for i in range(20000)]
    _, rows = bring(space(Plane("/device:TPU:3").line(5, "XLA Ops", events)))
    found = rows("kernel")
    assert len(found) == len(events) and sum(row["duration_ns"] for row in found) == sum((event[2] + 500) // 1000 for event in events)


def test_folder_of_hosts(bring, tmp_path):
    """JAX writes trace.json.gz next to it, which is the same trace."""
    folder = tmp_path / "2026_01_01"
    folder.mkdir()
    (folder / "node0.xplane.pb").write_bytes(gpu())
    (folder / "node1.xplane.pb.gz").write_bytes(gzip.compress(tpu()))
    with gzip.open(folder / "node0.trace.json.gz", "wt") as file:
        file.write('{"traceEvents": []}')
    said, rows = bring(folder)
    assert (said["sessions"], len(rows("process"))) == (2, 2)
    assert "left out: 1 file or folder that is no trace, such as 'node0.trace.json.gz'" in said["notes"]


@pytest.mark.parametrize("plane, reason", [
    (Plane("/device:GPU:0").line(1, "Stream #1", [("k", 2**63, 5, {}), ("k", 5, 2**64 - 1, {}), ("k", 5000, 5000, {"correlation_id": 2**64 - 1})]), ("no_time", 2)),
    (Plane("/custom:x").line(1, "a", [("k", 1, 1, {})]), ("unknown_record", 1)),
    (Plane("/device:GPU:64").line(1, "Stream #1", [("k", 1, 1, {})]), ("unknown_record", 1))])
def test_hostile_values(bring, plane, reason):
    _, rows = bring(space(Plane("/host:CPU").line(1, "\x1b[31m", [("x", 5000, 5000, {})]), plane))
    assert [(row["reason"], row["count"]) for row in rows("loss")] == [reason]


def test_truncated(bring, pitot, tmp_path):
    content = space(Plane("/host:CPU").line(1, "main", [("x", 5000, 5000, {})])) + gpu()
    said, rows = bring(content[:-100])
    assert said["rows"].get("kernel", 0) in (0, 1) and rows("loss")[0]["reason"] == "truncated_file"
    (tmp_path / "empty.xplane.pb").write_bytes(field(1, b"\x12\x09/host:CPU"))
    assert "contains no event with a time" in pitot("import", "empty.xplane.pb", "-o", "x.pitot", status=1).stderr
