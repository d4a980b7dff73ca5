"""Texts that are expected, in goldens/."""
import difflib
import os
from pathlib import Path

GOLDENS = Path(__file__).parent / "goldens"


def check_golden(name, text):
    """Compares with goldens/<name>; PITOT_UPDATE_GOLDENS=1 writes it instead."""
    path = GOLDENS / name
    if os.environ.get("PITOT_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    expected = path.read_text()
    changes = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "now", n=1, lineterm="")
    assert text == expected, "\n".join([*changes, "PITOT_UPDATE_GOLDENS=1 accepts it"])
