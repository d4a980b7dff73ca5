"""`pitot import`: TraceSmith's SBT files, complete, never completed, cut and damaged."""
import json
import os
import random

import pytest

from sbt_bytes import (ALLOC, BEGIN, COMPLETE, DEVICE, DTOH, END, EVENT, FREE, HTOD, KERNEL, MARK, NCCL, NCCL_END, RECORD, SET, STREAM, T0, Sbt, varint)

SIZES = 64, 1, 2, 256, 1, 1, 1024, 16


@pytest.fixture
def bring(pitot, tmp_path):
    def run(content, **keywords):
        (tmp_path / "a.sbt").write_bytes(bytes(content))
        said = pitot("import", "a.sbt", "-o", "r.pitot", "--force", "--json", json_output=True, **keywords)
        assert said["format"] == "sbt"
        base = json.loads((tmp_path / "r.pitot/recording.json").read_text())["start_realtime_ns"]

        def rows(table, *columns):
            lines = pitot("view", "r.pitot", table, "--json", "--quiet", *(["-c", ",".join(columns)] if columns else [])).stdout
            found = [json.loads(line) for line in lines.splitlines()]
            return [{k: v + base - T0 if k in ("start_ns", "time_ns") and v is not None else v for k, v in row.items()} for row in found]

        return said, rows

    return run


def demo():
    """The kernel with its stack, a copy, and a mark that lies 100 ns before the copy."""
    s = Sbt().event(KERNEL, "saxpy", 0, 900, correlation=1, kernel=SIZES, thread=4243, frames=[(0x401136, "main", "demo.c", 12)])
    s.event(DTOH, "Memcpy DtoH", 1500, 250, correlation=2, memory=(0x7f0000000000, 0x5000, 4096))
    return s.event(MARK, "mark", 1400, stream=0)


def test_what_becomes_what(bring):
    said, rows = bring(demo())
    assert said["records"] == 3 and said["rows"]["kernel"] == said["rows"]["memcpy"] == 1
    [kernel] = rows("kernel", "config", "start_ns", "duration_ns", "stream", "correlation", "config.grid_z", "config.block_x",
                    "config.dynamic_shared_bytes", "config.registers")
    assert list(kernel.values()) == ["saxpy", 1000, 900, 7, 1, 2, 256, 1024, 16]
    assert [(row["kind"], row["bytes"], row["start_ns"], row["duration_ns"]) for row in rows("memcpy")] == [("DtoH", 4096, 2500, 250)]
    assert [(row["kind"], row["message"], row["time_ns"]) for row in rows("nvtx")] == [("mark", "mark", 2400)]
    [call] = rows("api_call")
    assert (call["thread"], call["correlation"]) == (4243, 1) and call["stack"]
    assert [(row["address"], row["function"], row["file"], row["line"]) for row in rows("symbol")] == [(0x401136, "main", "demo.c", 12)]
    [device] = rows("device")
    assert [device[c] for c in ("name", "vendor", "compute_major", "memory_bytes", "memory_bus_bits", "multiprocessors", "clock_khz", "warp_size")] == [
        "GPU0", "nvidia", 9, 1 << 30, 5120, 132, 1980000, 32]
    assert [(row["command"], row["host"], row["pid"]) for row in rows("process")] == [("demo -n 2", "host1", 4242)]
    assert any(row["name"] == "context" and row["state"] == "unavailable" for row in rows("capability"))


def test_launches_and_completions(bring):
    """TraceSmith records a launch at the start and a completion at the end; one of both is no duration."""
    s = Sbt()
    for i in range(3):
        s.event(KERNEL, "k", i * 100, correlation=i + 1, kernel=SIZES).event(COMPLETE, "k", i * 100 + 60 + i, correlation=i + 1)
    s.event(KERNEL, "k", 400, 10, correlation=4).event(COMPLETE, "k", 410, correlation=4)  # a repeat
    s.event(KERNEL, "lost", 500, correlation=5).event(COMPLETE, "lost", 600, correlation=6)
    said, rows = bring(s)
    assert [(row["config"], row["duration_ns"]) for row in rows("kernel")] == [("k", 60), ("k", 61), ("k", 62), ("k", 10), ("lost", None)]
    assert "left out: 1 GPU row that repeats other rows, 1 event without a usable time" in said["notes"]


def test_all_types(bring):
    s = Sbt().event(HTOD, "c", 0, 5, memory=(1, 2, 8)).event(SET, "s", 10, 5, memory=(0, 2, 16)).event(STREAM, "w", 20, 5).event(DEVICE, "w", 30, 5)
    s.event(EVENT, "w", 40, 5).event(ALLOC, "m", 50, memory=(0, 4096, 64)).event(FREE, "m", 60, memory=(0, 4096, 64))
    s.event(BEGIN, "step", 100, thread=1).event(BEGIN, "inner", 110, thread=1).event(END, "inner", 120, thread=1).event(END, "step", 130, thread=1)
    s.event(NCCL, "AllReduce", 140, thread=1, correlation=9).event(NCCL_END, "AllReduce", 150, thread=1, correlation=9)
    s.event(BEGIN, "open", 160, thread=2).event(END, "never", 170, thread=2).event(RECORD, "r", 180).event(77, "new", 190)
    said, rows = bring(s)
    assert [(row["kind"], row["bytes"], row["start_ns"]) for row in rows("memcpy")] == [("HtoD", 8, 1000)]
    assert [row["bytes"] for row in rows("memset")] == [16]
    assert [(row["kind"], row["stream"]) for row in rows("synchronization")] == [("stream", 7), ("context", None), ("event", None)]
    assert [(row["operation"], row["address"], row["bytes"]) for row in rows("allocation")] == [("allocation", 4096, 64), ("release", 4096, 64)]
    assert sorted((row["time_ns"], row["message"] or row["kind"]) for row in rows("nvtx")) == [
        (1100, "step"), (1110, "inner"), (1120, "pop"), (1130, "pop"), (1140, "AllReduce"), (1150, "pop"), (1160, "open"), (1180, "[EventRecord] r"),
        (1190, "[type 77] new"), (1190, "pop")]
    assert any("1 end of a range that never began" in note for note in said["notes"])


def test_never_completed(bring):
    """Names are there only if the strings were written."""
    for strings in False, True:
        said, rows = bring(demo().event(COMPLETE, "saxpy", 3000, correlation=1).unfinished(strings))
        assert said["records"] == 4 and [row["config"] for row in rows("kernel")] == ["saxpy" if strings else "unknown"]
        [loss] = [row["detail"] for row in rows("loss") if row["reason"] == "truncated_file"]
        assert loss == f"the file was never completed: 4 events recovered{'' if strings else ', names are lost'}"


def test_totals(bring):
    r = random.Random(1)
    s, ns = Sbt(), 0
    for i in range(20000):
        duration = r.randrange(1, 5000)
        ns += duration
        s.event(KERNEL, f"k{i % 50}", r.randrange(10**9), duration, device=i % 2, stream=r.randrange(5), correlation=i + 1, kernel=SIZES)
    said, rows = bring(s)
    found = rows("kernel")
    assert len(found) == 20000 and sum(row["duration_ns"] for row in found) == ns and not said["damaged"]


def test_ranges_that_overlap(bring):
    """Ends belong to the last begin with their id, else with their name, on their thread."""
    s = Sbt()
    for at, kind, name, correlation, thread in [
            (0, BEGIN, "a", 0, 1), (10, BEGIN, "a", 0, 1), (20, BEGIN, "b", 5, 1), (30, BEGIN, "a", 0, 2), (40, END, "a", 0, 1),
            (35, END, "", 5, 1), (60, END, "a", 0, 1), (70, END, "a", 0, 2), (80, NCCL_END, "a", 0, 1)]:
        s.event(kind, name, at, correlation=correlation, thread=thread)
    said, rows = bring(s)
    assert "1 end of a range that never began" in str(said)
    assert [(row["time_ns"] - 1000, row["kind"], row["thread"], row["message"]) for row in rows("nvtx")] == [
        (0, "push", 1, "a"), (10, "push", 1, "a"), (20, "push", 1, "b"), (30, "push", 2, "a"), (35, "pop", 1, None),
        (40, "pop", 1, None), (60, "pop", 1, None), (70, "pop", 2, None)]
    begun = Sbt()
    for i in range(50000):
        begun.event(BEGIN, "a", i, thread=1).event(KERNEL, "k", i, correlation=i + 1)
    for i in range(100000):
        begun.event(END, "b", 50000 + i, thread=1)
    said, rows = bring(begun)  # in seconds: an end does not search what has begun
    assert "100,000 ends of ranges that never began" in str(said) and said["rows"]["kernel"] == 50000


def test_refused(pitot, tmp_path):
    whole = bytes(demo())
    for at, byte, says in (4, 1, "is of SBT version 1.1"), (8, 2, "flags 0x2"), (8, 7, "flags 0x7"), (64, 1, "compression 1"), (12, 71, "header_size cannot be 71"):
        (tmp_path / "a.sbt").write_bytes(whole[:at] + bytes([byte]) + whole[at + 1:])
        assert says in pitot("import", "a.sbt", "-o", "r.pitot", status=1).stderr
        assert not (tmp_path / "r.pitot").exists()


def import_any(pitot, tmp_path, data):
    (tmp_path / "a.sbt").write_bytes(data)
    result = pitot("import", "a.sbt", "-o", "r.pitot", "--force", "--json", "--quiet", status=None)
    assert result.returncode in (0, 1) and not [name for name in os.listdir(tmp_path) if "tmp" in name]
    return json.loads(result.stdout) if result.returncode == 0 else None


def loss_rows(pitot, tmp_path, data):
    import_any(pitot, tmp_path, data)
    return [json.loads(line) for line in pitot("view", "r.pitot", "loss", "--json", "--quiet").stdout.splitlines()]


def test_cut_and_damaged(pitot, tmp_path):
    """Every event that is whole is read, and what is missing is said."""
    whole, r = bytes(demo()), random.Random(2)
    metadata, devices, events, _ = demo().sections()
    ends = [72 + len(metadata + devices + events) - sum(map(len, demo().events[i:])) for i in range(1, 4)]
    for size in range(1, len(whole), 2):
        said = import_any(pitot, tmp_path, whole[:size])
        assert (said["records"] if said else 0) == sum(size >= end for end in ends)
        assert not said or said["damaged"] or size == len(whole) - 1
    assert "the file ends, or cannot be read, after event 2 of 3" in [row["detail"] for row in loss_rows(pitot, tmp_path, whole[:ends[1]])]
    for _ in range(60):
        data = bytearray(whole)
        data[r.randrange(72, len(data))] = r.randrange(256)
        import_any(pitot, tmp_path, data)
    bomb = Sbt().event(KERNEL, "k", 0, 1, flags=0)
    bomb.strings = []
    metadata, devices, events, _ = bomb.sections()
    head = bytearray(bytes(bomb)[:72])
    head[56:64] = (2**62).to_bytes(8, "little")
    import_any(pitot, tmp_path, bytes(head) + metadata + devices + events + b"\2" + b"\xff" * 8 + b"\x7f")


def test_ends_that_match_nothing_are_found_at_once(bring):
    """200,000 ranges are open; each of 200,000 ends looks for its own one."""
    ids = range(200_000)
    s = Sbt()
    begin, end = (bytes([kind, 8]) + varint(1) + varint(0) * 2 for kind in (BEGIN, END))
    s.index("r")
    s.events = [begin + varint(i + 1) + b"\0\1\0" for i in ids] + [end + varint(i + 1_000_000) + b"\0\1\0" for i in ids]
    said, _ = bring(s)
    assert said["records"] == 400_000 and any("200,000 ends of ranges that never began" in note for note in said["notes"])
