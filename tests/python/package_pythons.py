"""The interpreters that programs of the tests run with, and how their recordings ended."""
import json

import pytest

from pythons import interpreters, label, some

# The extension modules are of the limited API; a free-threaded CPython needs its own.
PYTHONS = [one for one in interpreters() if one["version"] >= [3, 9] and not one["free_threaded"]]
EVERY = pytest.mark.parametrize("python", PYTHONS, ids=label)
SOME = pytest.mark.parametrize("python", some(PYTHONS), ids=label)


def state(recording):
    return json.loads((recording / "recording.json").read_text())["state"]
