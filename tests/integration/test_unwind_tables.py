"""The unwind tables of ELF files, whole ones and those compiled by parts, row by row, against
`readelf --debug-dump=frames-interp`.

In CI a sample of the machine's libraries; all of them, which takes minutes, with

    PITOT_UNWIND_FILES=all pytest tests/integration/test_unwind_tables.py
"""
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

SAMPLE_BYTES = 3_000_000  # of a file, so that CI takes seconds
SAMPLE_FILES = 40

HEAD = re.compile(r"^[0-9a-f]+ [0-9a-f]+ (?:[0-9a-f]+ )?(CIE|FDE)\b.*?(?:pc=([0-9a-f]+)\.\.([0-9a-f]+))?$")
# What readelf calls registers, and what we ask about, in the order of unwind_query's answer.
ASKED = ("ra", "rbp", "rbx")


def is_elf(path):
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and head[4] == 2 and head[18:20] == b"\x3e\x00"


def candidates():
    folders = [Path("/usr/lib/x86_64-linux-gnu"), Path("/lib64"), Path(sysconfig.get_config_var("LIBDIR") or "/nonexistent")]
    files = {Path(os.path.realpath("/proc/self/exe"))}
    for folder in folders:
        files.update(Path(os.path.realpath(p)) for p in folder.rglob("*.so*") if p.is_file())
    return sorted(p for p in files if is_elf(p))


def chosen():
    files = candidates()
    if os.environ.get("PITOT_UNWIND_FILES") == "all":
        return files
    # Always those that have odd rules; of the others every n-th small one.
    odd = [p for p in files if re.match(r"(libc\.so|ld-linux|libcrypto\.so|libstdc|libgmp|libm\.so|libpthread)", p.name)]
    small = [p for p in files if p.stat().st_size < SAMPLE_BYTES and p not in odd]
    return odd + small[::max(1, len(small) // SAMPLE_FILES)]


def normal(value):
    return "u" if value == "s" else value


def rows_of_readelf(path):
    """(address, CFA, {register: rule}) of every row, where readelf gives one; the first FDE of an address wins."""
    process = subprocess.Popen(["readelf", "--wide", "--debug-dump=frames-interp", str(path)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, errors="replace")
    columns, inside, end, previous = [], False, 0, None
    section = False
    for line in process.stdout:
        line = line.rstrip("\n")
        if line.startswith("Contents of the "):
            section = ".eh_frame" in line
            continue
        if not section or not line:
            continue
        head = HEAD.match(line)
        if head:
            inside = head.group(1) == "FDE" and head.group(2) is not None
            start, end = (int(head.group(2), 16), int(head.group(3), 16)) if inside else (0, 0)
            columns = []
            continue
        words = line.split()
        if words and words[0] == "LOC":
            columns = words[2:]
        elif inside and columns and len(words) == len(columns) + 2:
            address = int(words[0], 16)
            if start <= address < end:
                yield (start, end), address, words[1], {r: normal(v) for r, v in zip(columns, words[2:])}
    process.wait()


def expected_rows(path):
    """Answers that unwind_query must give, by address."""
    fdes, expected = {}, {}
    for fde, address, cfa, registers in rows_of_readelf(path):
        fdes.setdefault(fde, []).append((address, cfa, registers))
    covered = 0
    for start, end in sorted(fdes):
        if start < covered:
            continue
        covered = end
        for address, cfa, registers in fdes[start, end]:
            if registers.get("ra") == "u":
                expected[address] = "end"  # the row of an address that comes last stays
            else:
                expected[address] = " ".join([cfa] + [registers.get(r, "u") for r in ASKED])
    return expected


def differences(query, path):
    expected = expected_rows(path)
    if not expected:
        return 0, []
    questions = "".join(f"{address:x}\n" for address in expected)
    wrong = []
    for ways in ([], ["--all"]):
        result = subprocess.run([str(query), str(path), *ways], input=questions, stdout=subprocess.PIPE, text=True, timeout=600,
                                check=True)
        answers = result.stdout.splitlines()
        assert len(answers) == len(expected)
        wrong += [f"{path}: {address:x}: readelf says '{want}', we say '{got}' {ways}"
                  for (address, want), got in zip(expected.items(), answers) if got != want and not not_computed(want, got)]
    return len(expected), wrong


def not_computed(want, got):
    """libmvec saves rbx at an aligned address, whose expression our rules do not keep; they know that they do not."""
    return want.endswith(" exp") and got == want[:-3] + "?"


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_tables_say_what_readelf_says(build):
    query = build / "tests" / "unit" / "stack" / "unwind_query"
    rows, wrong = 0, []
    for path in chosen():
        count, different = differences(query, path)
        rows += count
        wrong += different
    print(f"{rows} rows compared")
    assert rows > 100_000
    assert not wrong, f"{len(wrong)} of {rows} rows differ:\n" + "\n".join(wrong[:20])
