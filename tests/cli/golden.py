"""Texts that are expected, in goldens/. What stands there 200 times in a row stands once, with its number, for people who read them."""
import difflib
import os
import re
from pathlib import Path

GOLDENS = Path(__file__).parent / "goldens"


def without_runs(text):
    """Each run of a character has its number in its place, so that one more or less is seen: x{60000}."""
    return re.sub(r"(.)\1{199,}", lambda run: f"{run[1]}{{{len(run[0])}}}", text)


def check_golden(name, text):
    """Compares with goldens/<name>; PITOT_UPDATE_GOLDENS=1 writes it instead."""
    path, text = GOLDENS / name, without_runs(text)
    if os.environ.get("PITOT_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    expected = path.read_text()
    changes = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "now", n=1, lineterm="")
    assert text == expected, "\n".join([*changes, "PITOT_UPDATE_GOLDENS=1 accepts it"])
