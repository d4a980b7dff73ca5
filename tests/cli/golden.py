"""Texts that are expected, in goldens/. What stands there 200 times in a row stands once, with its number, for people who read them."""
import difflib
import json
import os
import re
from pathlib import Path

GOLDENS = Path(__file__).parent / "goldens"


def without_runs(text):
    """Each run of a character has its number in its place, so that one more or less is seen: x{60000}."""
    return re.sub(r"(.)\1{199,}", lambda run: f"{run[1]}{{{len(run[0])}}}", text)


def sections(text):
    """{title: text} of a report."""
    return {block.split("\n")[0].split("  ")[0].strip(): block for block in text.rstrip("\n").split("\n\n")}


def check_sections(name, text):
    """Compares the sections of a report that goldens/<name> has, and in goldens/report-sections.json which there are.

    So a new section changes that file and the goldens that are whole. PITOT_UPDATE_GOLDENS=1 writes the known ones."""
    path, found = GOLDENS / "report-sections.json", sections(text)
    listed = json.loads(path.read_text())
    if os.environ.get("PITOT_UPDATE_GOLDENS"):
        listed[name] = list(found)
        path.write_text(json.dumps(listed, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    assert list(found) == listed.get(name), "PITOT_UPDATE_GOLDENS=1 accepts it"
    known = sections((GOLDENS / name).read_text() if (GOLDENS / name).exists() else text)
    check_golden(name, "\n\n".join(block for title, block in found.items() if title in known) + "\n")


def check_golden(name, text):
    """Compares with goldens/<name>; PITOT_UPDATE_GOLDENS=1 writes it instead."""
    path, text = GOLDENS / name, without_runs(text)
    if os.environ.get("PITOT_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    expected = path.read_text()
    changes = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "now", n=1, lineterm="")
    assert text == expected, "\n".join([*changes, "PITOT_UPDATE_GOLDENS=1 accepts it"])


def check_part(path, before, text, after="\n\n"):
    """Compares the part of a file between two texts; PITOT_UPDATE_GOLDENS=1 writes it instead."""
    head, found, rest = path.read_text().partition(before)
    assert found, f"{path} has no {before!r}"
    part, end, tail = rest.partition(after)
    if os.environ.get("PITOT_UPDATE_GOLDENS") and part != text:
        path.write_text(head + before + text + end + tail)
    elif part != text:
        changes = difflib.unified_diff(part.splitlines(), text.splitlines(), str(path), "expected", n=0, lineterm="")
        raise AssertionError("\n".join([*changes, "PITOT_UPDATE_GOLDENS=1 writes it"]))
