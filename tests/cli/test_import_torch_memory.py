"""`pitot import`: memory snapshots and memory timelines of PyTorch. PITOT_KINETO_TRACES may name a folder with further timelines."""
import gzip
import json
import os
import pickle
import random
from itertools import accumulate
from pathlib import Path

import pytest

from torch_allocator import KIB, MIB, Allocator

T0 = 1_700_000_000_000_000  # us
FOLDER = os.environ.get("PITOT_KINETO_TRACES")
TIMELINES = sorted(Path(FOLDER).glob("*.raw*")) if FOLDER else []


class Call:
    """A pickle of it runs a function."""

    def __reduce__(self):
        return os.system, ("touch /tmp/pitot-was-here",)


def snapshot():
    frames = [{"name": "inner", "filename": "model.py", "line": 7}, {"name": "main", "filename": "train.py", "line": 40}]

    def entry(action, at, addr, size, **more):
        return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": T0 + at, "frames": frames, **more}

    trace = [entry("segment_alloc", 1, 2**47, 2**21), entry("alloc", 2, 2**47, 1024), entry("alloc", 3, 2**47 + 1024, 2**33), entry("free_requested", 9, 2**47, 1024),
             entry("free_completed", 10, 2**47, 1024), {"action": "oom", "device_free": 5, "size": 2**40, "stream": 0, "time_us": T0 + 11, "frames": []},
             entry("snapshot", 12, 0, 0)]
    blocks = [{"size": 1024, "requested_size": 1000, "state": "inactive", "frames": []}, {"size": 2**33, "requested_size": 2**33, "state": "active_allocated", "frames": frames},
              {"size": 512, "requested_size": 500, "state": "active_allocated", "frames": []}]
    segment = {"device": 1, "address": 2**47, "total_size": 1536 + 2**33, "allocated_size": 512 + 2**33, "active_size": 512 + 2**33, "stream": 2**47 + 64,
               "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames, "blocks": blocks}
    return {"segments": [segment], "device_traces": [[], trace], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                                                                                        "expandable_segments": False, "last_allocator_settings": None}}


@pytest.fixture
def bring(pitot, tmp_path):
    def run(content):
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(content)
        said = pitot("import", path, "-o", "r.pitot", "--force", "--json", json_output=True)
        assert said["format"] == "torch_memory"

        def rows(table):
            return [json.loads(line) for line in pitot("view", "r.pitot", table, "--json", "--quiet").stdout.splitlines()]

        return said, rows

    return run


@pytest.mark.parametrize("protocol", range(2, 6))
def test_snapshot(bring, pitot, protocol):
    said, rows = bring(pickle.dumps({"bytes": b"abc", **snapshot()} if protocol > 2 else snapshot(), protocol))
    found = rows("allocation")
    base = min(row["time_ns"] for row in found if row["time_ns"] is not None)
    kinds = {"allocator_segment": "segment", "allocator_block": "block"}
    assert [(row["time_ns"] - base, row["operation"], kinds[row["kind"]], row["address"] - 2**47, row["bytes"], row["device"]) for row in found if row["time_ns"] is not None] == [
        (0, "allocation", "segment", 0, 2**21, 1), (1000, "allocation", "block", 0, 1024, 1), (2000, "allocation", "block", 1024, 2**33, 1),
        (9000, "release", "block", 0, 1024, 1)]
    assert [(kinds[row["kind"]], row["address"] - 2**47, row["bytes"]) for row in found if row["time_ns"] is None] == [
        ("block", 1024 + 2**33, 512), ("segment", 0, 1536 + 2**33 - 2**21)]
    assert [row["message"] for row in rows("nvtx")] == [f"out of memory: {2**40} B requested, 5 B free"]
    assert {"1 block is older than the history", "1 segment is older than the history",
            "1 block whose size is only known as requested or rounded"} <= set(said["notes"])
    assert {(row["function"], row["file"], row["line"]) for row in rows("stack_node")} == {("inner", "model.py", 7), ("main", "train.py", 40)}
    assert {row["stack"] for row in rows("api_call")} != {None} and not rows("loss")
    origins = {row["correlation"]: row["start_ns"] for row in rows("api_call")}
    assert len(origins) == 4 and {row["correlation"]: row["time_ns"] for row in found if row["time_ns"] is not None} == origins
    report = pitot("report", "r.pitot").stdout
    assert "8.0 GiB" in report and "what was imported contains none" in report, report


def test_what_calls_is_refused(pitot, tmp_path):
    """GLOBAL, REDUCE and BUILD are never executed."""
    for number, content in enumerate([{"segments": [], "x": Call()}, {"segments": Path("x")}]):
        (tmp_path / "s.pickle").write_bytes(pickle.dumps(content, 2 + number))
        said = pitot("import", "s.pickle", "-o", "x.pitot", status=1).stderr
        assert "which is no data: objects and calls are not read" in said
    assert not Path("/tmp/pitot-was-here").exists() and not (tmp_path / "x.pitot").exists()
    content = pickle.dumps(snapshot(), 4)
    (tmp_path / "s.pickle").write_bytes(content[:-20])
    assert "the pickle is damaged or cut off" in pitot("import", "s.pickle", "-o", "x.pitot", status=1).stderr
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({**snapshot(), "device_traces": [[]]}))
    assert "_record_memory_history()" in pitot("import", "s.pickle", "-o", "x.pitot", status=1).stderr


def test_small_pickles_of_much(pitot, tmp_path):
    """A pickle can have one value any number of times, and marks and lists of a byte each: neither time nor memory follow them."""
    entry = snapshot()["device_traces"][1][1]
    block = {"size": 512, "requested_size": 500, "state": "active_allocated", "frames": []}
    segment = {**snapshot()["segments"][0], "blocks": [block] * 1000}
    head = b"\x80\4\x8c\x08segments\x94"
    for content, why in [({"segments": [], "device_traces": [[entry] * 1000] * 1000}, "lists of the pickle have the same entries many times"),
                         ({"segments": [segment] * 1000, "device_traces": [[entry]]}, "lists of the pickle have the same entries many times"),
                         (head + b"(" * 70000, "a limit was reached"), (head + b"h\0" * 2**25, "a limit was reached")]:
        (tmp_path / "s.pickle").write_bytes(gzip.compress(content if isinstance(content, bytes) else pickle.dumps(content, 4), 1))
        assert why in pitot("import", "s.pickle", "-o", "x.pitot", status=1).stderr
    members = {f"member {i}": 0 for i in range(600)}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({**snapshot(), "device_traces": [[{**entry, **members}, {**members, **entry}]]}))
    said = pitot("import", "s.pickle", "-o", "x.pitot", "--json", json_output=True)
    assert said["records"] == 2 and said["rows"]["allocation"] >= 1  # the second one's members are too many


def run_allocator(allocator, seed, steps=600):
    """Sizes around all limits of the allocator, and caches that are emptied."""
    draw, live = random.Random(seed), []
    sizes = [1, 512, 513, 300 * KIB, MIB, MIB + 1, 3 * MIB, 9 * MIB, 10 * MIB, 19 * MIB, 25 * MIB]
    for _ in range(steps):
        if live and draw.random() < 0.48:
            allocator.free(live.pop(draw.randrange(len(live))))
        elif draw.random() < 0.03:
            allocator.empty_cache()
        else:
            live.append(allocator.malloc(max(1, draw.choice(sizes) - draw.randrange(600))))


@pytest.mark.parametrize("expandable, max_split", [(False, None), (False, 8 * MIB), (True, None)])
@pytest.mark.parametrize("late", [False, True])
def test_levels_are_those_of_the_allocator(bring, pitot, expandable, max_split, late):
    """Peaks of blocks and segments, to the byte, although the history has only what was requested."""
    allocator = Allocator(expandable, max_split)
    if late:  # the history begins when there are blocks
        run_allocator(allocator, 1, 40)
        allocator.peak_allocated, allocator.peak_reserved = allocator.allocated, allocator.reserved
    allocator.on = True
    run_allocator(allocator, 2)
    said, rows = bring(pickle.dumps(allocator.snapshot(), 4))
    groups = {group["kind"]: group for group in json.loads(pitot("report", "r.pitot", "--json").stdout)["memory"]}
    assert groups["allocator_segment"]["peak_bytes"] == allocator.peak_reserved
    assert groups["allocator_segment"]["live_bytes"] == allocator.reserved
    if late:
        assert any("history" in note or "rounded" in note for note in said["notes"])
        return
    assert groups["allocator_block"]["peak_bytes"] == allocator.peak_allocated
    assert groups["allocator_block"]["live_bytes"] == allocator.allocated
    assert not [note for note in said["notes"] if "block" in note or "segment" in note]


def curves(rows):
    """Bytes in use by category, whenever they change: of [time, action, bytes, category]."""
    found = {}
    for category in range(8):
        own = [row for row in rows if row[3] == category]
        sums = list(accumulate(row[2] for row in own))
        times = {row[0]: total for row, total in zip(own, sums) if row[0] > 0}
        before = [total for row, total in zip(own, sums) if row[0] < 0]
        found[category] = (before[-1] if before else 0, times)
    return found


@pytest.mark.parametrize("file", [None, *TIMELINES], ids=lambda file: file.name if file else "made")
def test_memory_timeline(bring, tmp_path, file):
    """A plain prefix sum; what is older than the timeline counts from its beginning."""
    rows = [[-1, 1, 512, 7], [-1, 1, 1024, 0], [T0 * 1000, 2, 4096, 4], [T0 * 1000, 2, 4096, 4], [T0 * 1000 + 5, 3, -4096, 4], [T0 * 1000 + 5, 3, 4096, 5],
            [T0 * 1000 + 9, 4, -512, 7]]
    if file:
        rows = json.load(gzip.open(file, "rt"))
    said, found = bring(gzip.compress(json.dumps(rows).encode()))
    base = json.loads((tmp_path / "r.pitot/recording.json").read_text())["start_realtime_ns"]
    names = ["parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown"]
    samples = found("counter_sample")
    first = min(row[0] for row in rows if row[0] > 0)
    for category, (before, times) in curves(rows).items():
        wanted = {**({first: before} if before else {}), **times}
        own = {base + row["time_ns"]: row["value"] for row in samples if row["counter"] == f"memory of category {names[category]}"}
        assert own == wanted, names[category]
    assert said["records"] == len(rows) and not found("loss")
