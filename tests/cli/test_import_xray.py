"""`pitot import`: logs of LLVM's XRay, basic and of the flight data recorder, with the names of a program's functions."""
import json
import os
import random
import struct

import pytest

NOW = 1_790_000_000_000_000_000
ENTER, EXIT, TAIL, ARGUMENT = range(4)
#: action, function, ns, thread
CALLS = [(ENTER, 1, 0, 7), (ENTER, 2, 100, 7), (EXIT, 2, 150, 7), (ENTER, 1, 120, 8), (ARGUMENT, 2, 200, 7), (TAIL, 2, 260, 7), (EXIT, 1, 300, 7), (EXIT, 1, 400, 8),
         (EXIT, 3, 410, 8), (ENTER, 2, 420, 8)]


def header(kind, version=3, frequency=10**9, buffer=4096):
    return struct.pack("<HHIQQQ", version, kind, 0xff7f0000 | 3, frequency, buffer, 0)


def basic(calls=CALLS, start=NOW, **options):
    records = b"".join(struct.pack("<HBBiQII8x", 0, 3, action, function, start + at, thread, 42) for action, function, at, thread in calls)
    return header(0, **options) + records


def metadata(kind, data=b""):
    return bytes([kind << 1 | 1]) + data.ljust(15, b"\0")


def buffers(calls=CALLS, start=NOW, version=5, size=4096):
    """A buffer for each thread; a number of bytes before it, or one of a fixed size."""
    out = b""
    for thread in sorted({call[3] for call in calls}):
        tsc, body = start, metadata(0, struct.pack("<i", thread)) + metadata(4, struct.pack("<qi", 5, 6))
        body += metadata(9, struct.pack("<i", 42)) if version > 2 else b""
        body += metadata(2, struct.pack("<HQ", 1, tsc))
        for action, function, at, of in calls:
            if of == thread:
                body += struct.pack("<II", action << 1 | function << 4, start + at - tsc)
                tsc = start + at
                body += metadata(6, struct.pack("<Q", 1)) if action == ARGUMENT else b""
        body += metadata(5, struct.pack("<iiH", 11, 0, 0)) + b"own event\0\0"
        out += metadata(7, struct.pack("<Q", len(body))) + body if version > 1 else (body + metadata(1)).ljust(size, b"\xee")
    return header(1, version, buffer=size) + out


def program():
    """An ELF file with three functions: places where they are entered and left, relative as of version 2."""
    names = b"\0_Z3onei\0two\0"
    functions = [(0x1000, 1), (0x1040, 9), (0x1080, 0)]
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", name, 2, 0, 1, address, 16) for address, name in functions if name)
    table, base = b"", 0x4000
    for address, _ in functions:
        for kind in (0, 1):
            at = base + len(table)
            table += struct.pack("<qqBBB13x", address - at, address - at - 8, kind, 1, 2)
    strings = b"\0.symtab\0.strtab\0xray_instr_map\0.shstrtab\0"
    parts, at, sections = [symbols, names, table, strings], 64, [bytes(64)]
    offsets = [at + sum(map(len, parts[:i])) for i in range(5)]
    for i, (name, kind, address, link, size) in enumerate([(1, 2, 0, 2, 24), (9, 3, 0, 0, 0), (17, 1, base, 0, 0), (32, 3, 0, 0, 0)]):
        sections.append(struct.pack("<IIQQQQIIQQ", name, kind, 2 if address else 0, address, offsets[i], len(parts[i]), link, 0, 1, size))
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), 3, 62, 1, 0, 0, offsets[4], 0, 64, 0, 0, 64, 5, 4)
    return head + b"".join(parts) + b"".join(sections)


@pytest.fixture
def bring(pitot, tmp_path):
    def run(content, **options):
        (tmp_path / "xray-log.app.AbCdEf").write_bytes(content)
        said = pitot("import", "xray-log.app.AbCdEf", "-o", "r.pitot", "--force", "--json", json_output=True, **options)

        def rows(table):
            return [json.loads(line) for line in pitot("view", "r.pitot", table, "--json", "--quiet").stdout.splitlines()]

        return said, rows

    return run


def calls_of(rows):
    """thread, start, end, name of each call, by the order in which they begin."""
    found, open_ = [], {}
    for row in rows("nvtx"):
        if row["kind"] == "push":
            found.append([row["thread"], row["time_ns"], None, row["message"]])
            open_.setdefault(row["thread"], []).append(found[-1])
        else:
            open_[row["thread"]].pop()[2] = row["time_ns"]
    first = min(call[1] for call in found)
    return [(thread, start - first, end - first, name) for thread, start, end, name in found]


EXPECTED = [(7, 0, 300, "one(int)"), (7, 100, 150, "two"), (8, 120, 400, "one(int)"), (7, 200, 260, "two"), (8, 420, 420, "two")]


@pytest.mark.parametrize("log", [basic(), buffers(), buffers(version=2), buffers(version=3), buffers(version=1)], ids=["basic", "v5", "v2", "v3", "v1"])
def test_calls(bring, tmp_path, log):
    (tmp_path / "app").write_bytes(program())
    said, rows = bring(log)
    assert said["format"] == "xray" and said["records"] == len(CALLS)
    assert sorted(calls_of(rows), key=lambda call: call[1]) == EXPECTED
    assert any("1 end of a range that never began" in note for note in said["notes"]) and any("1 range that did not end" in note for note in said["notes"])
    assert not any("numbers" in note for note in said["notes"])
    base = json.loads((tmp_path / "r.pitot/recording.json").read_text())["start_realtime_ns"]
    assert base == NOW
    if log[:2] != b"\2\0" and log[:2] != b"\1\0":
        assert [row["pid"] for row in rows("process")] == [42]


def test_counters_with_a_frequency(bring):
    """Cycles become nanoseconds; when it was is unknown."""
    said, rows = bring(basic([(ENTER, 5, 3_000_000_000_000_000, 1), (EXIT, 5, 3_000_000_000_000_300, 1)], 0, frequency=3 * 10**9))
    assert calls_of(rows) == [(1, 0, 100, "function 5")]
    assert any("there is no program 'app' beside the log" in note for note in said["notes"])


def test_a_folder_of_logs(pitot, tmp_path):
    """Each is a process; the program lies between them."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "app").write_bytes(program())
    for i in range(2):
        (folder / f"xray-log.app.{i}").write_bytes(basic())
    said = pitot("import", "logs", "-o", "r.pitot", "--json", json_output=True)
    assert (said["format"], said["sessions"]) == ("xray", 2) and any("such as 'app'" in note for note in said["notes"])
    assert '"one(int)"' in pitot("view", "r.pitot", "nvtx", "--json").stdout


@pytest.mark.parametrize("content, said", [
    (header(0)[:20], "cut off within its header"), (header(2), "is of XRay version 3, kind 2"), (header(0, version=9), "is of XRay version 9"),
    (header(0, frequency=0), "cycle_frequency cannot be 0"), (header(0), "no event with a time"), (header(1, version=1, buffer=0) + bytes(64), "no event with a time")])
def test_what_is_refused(pitot, tmp_path, content, said):
    (tmp_path / "a").write_bytes(content)
    assert said in pitot("import", "a", "--format", "xray", "-o", "r.pitot", status=1).stderr


@pytest.mark.parametrize("log, first", [(basic(), 64), (buffers(), 120), (buffers(version=1, size=256), 88)], ids=["basic", "v5", "v1"])
def test_cut_anywhere(pitot, tmp_path, log, first):
    """There is something as soon as the first call is there."""
    for length in range(0, len(log), 5):
        (tmp_path / "a").write_bytes(log[:length])
        result = pitot("import", "a", "--format", "xray", "-o", "r.pitot", "--force", "--json", status=None)
        assert result.returncode in (0, 1) and (result.returncode == 0) == (length >= first), (length, result.stderr)
        if result.returncode == 0 and log[2] == 0:
            assert json.loads(result.stdout)["records"] == (length - 32) // 32


def test_flipped_bits(pitot, tmp_path):
    generator = random.Random(5)
    (tmp_path / "app").write_bytes(program())
    for log in (basic(), buffers(), buffers(version=1, size=256)):
        for _ in range(25):
            damaged, elf = bytearray(log), bytearray(program())
            for bytes_ in (damaged, elf):
                for _ in range(3):
                    bytes_[generator.randrange(len(bytes_))] ^= 1 << generator.randrange(8)
            (tmp_path / "xray-log.app.x").write_bytes(damaged)
            (tmp_path / "app").write_bytes(elf)
            assert pitot("import", "xray-log.app.x", "--format", "xray", "-o", "r.pitot", "--force", status=None).returncode in (0, 1)


def test_programs_that_are_none(bring, tmp_path):
    """A pipe is not waited for; a text has no functions."""
    os.mkfifo(tmp_path / "app")
    said, rows = bring(basic())
    assert any("functions are numbers" in note for note in said["notes"]) and {call[3] for call in calls_of(rows)} == {"function 1", "function 2"}
    (tmp_path / "app").unlink()
    (tmp_path / "app").write_text("#!/bin/sh\n")
    said, rows = bring(basic())
    assert any("functions are numbers" in note for note in said["notes"])
