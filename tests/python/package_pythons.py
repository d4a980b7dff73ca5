"""The interpreters that programs of the tests run with, and how their recordings ended."""
import json

import pytest

from pythons import interpreters, label, some

PYTHONS = [one for one in interpreters() if one["version"] >= [3, 9]]
FREE_THREADED_PYTHONS = [one for one in PYTHONS if one["free_threaded"]]
FREE_THREADED = pytest.mark.parametrize("python", FREE_THREADED_PYTHONS, ids=label)
EVERY = pytest.mark.parametrize("python", PYTHONS, ids=label)
SOME = pytest.mark.parametrize("python", some(PYTHONS), ids=label)


def state(recording):
    return json.loads((recording / "recording.json").read_text())["state"]
