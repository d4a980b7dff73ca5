"""pitot agent --gpufl: gpufl's backend gets the windows that the lake gets, each once, whatever happens meanwhile."""
import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from gpufl_backend import Backend, reply
from waiting import wait_until

FAST = ("--interval", "1s", "--ship", "1s")
RULE = ("--when", "nvtx == forward")


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture
def training(played):
    """A training that goes on until the test has what it wants."""
    process, _ = played("train", 1000, SLURM_JOB_ID="77")
    yield process
    process.send_signal(signal.SIGINT)
    process.wait()


def windows(lake):
    return sorted(lake.glob("window/*/*.pitot"))


def stop(one):
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0
    return one.stderr.read()


def lines(backend):
    """All records; each window is a session of its own, also those of one process."""
    return sorted(json.dumps({**json.loads(line), "session_id": ""}, sort_keys=True) for line in backend.lines)


def difference(one, other):
    """Records that only one of them has."""
    import collections
    a, b = collections.Counter(one), collections.Counter(other)
    return list((a - b).elements())[:3], list((b - a).elements())[:3]


def uploaded(pitot, lake):
    """What `pitot upload` makes of the windows in the lake."""
    found = []
    for window in windows(lake):
        with Backend() as other:
            pitot("upload", window, "--url", other.url)
            found += lines(other)
    return sorted(found)


def test_windows_arrive(agent, training, pitot, lake, tmp_path):
    """Two windows of a process are what `pitot upload` makes of those in the lake."""
    spool = tmp_path / "spool"
    with Backend() as backend:
        words = (*FAST, "-p", training.pid, "--gpufl", backend.url)
        for rule, count in ("nvtx == forward", 1), ("nvtx == backward", 2):
            one = agent(*words, "--when", rule)
            wait_until(lambda count=count: len(backend.completed) >= count and len(windows(lake)) >= count, "a window is there and with the backend", one)
            stop(one)
        assert not [path.name for path in spool.iterdir() if path.name.startswith(("window!", "gpufl"))]
        assert difference(lines(backend), uploaded(pitot, lake)) == ([], []) and any('"kernel' in line for line in backend.lines)
        assert len(set(backend.completed)) == len(backend.completed) == len(windows(lake)) >= 2


def holds(process, folder):
    """Whether the process has a descriptor of the folder, which may be removed."""
    names = list(Path(f"/proc/{process.pid}/fd").iterdir())
    with contextlib.suppress(FileNotFoundError):  # of one that is closed meanwhile
        return any(os.readlink(name).startswith(str(folder)) for name in names)
    return True


def test_a_backend_that_is_away(agent, training, pitot, lake, tmp_path, environment):
    """The lake does not wait for it; an agent that is killed meanwhile loses nothing, and the key is nowhere."""
    environment["PITOT_API_KEY"] = "gpfl_very-secret"
    spool = tmp_path / "spool"
    with Backend(otherwise=reply(503)) as backend:
        words = (*FAST, "-p", training.pid, *RULE, "--gpufl", backend.url)
        one = agent(*words)
        wait_until(lambda: backend.requests and windows(lake) and list(spool.glob("sent!*")), "the lake has it", one)
        one.kill()
        one.wait()
        said = one.stderr.read()
        one = agent(*words)
        first = windows(lake)[0]
        assert list(spool.glob(f"window!*{first.name}")) and not backend.completed
        backend.otherwise = reply(202)
        wait_until(lambda: backend.completed and not list(spool.glob("window!*")), "it is sent", one)
        wait_until(lambda: not holds(one, spool / "gpufl"), "it closes what it has sent", one)
        said += stop(one)
        assert difference(lines(backend), uploaded(pitot, lake)) == ([], []) and len(set(backend.completed)) == len(backend.completed)
        assert all(request["headers"]["Authorization"] == "Bearer gpfl_very-secret" for request in backend.requests)
    assert "HTTP 503" in said and "secret" not in said
    assert not any(b"very-secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_wrong_options(pitot, lake, tmp_path):
    for words, what in (("--gpufl", "https://x"), "give --when"), ((*RULE, "--gpufl", "https://u:secret@x"), "must not contain a user"), \
            ((*RULE, "--gpufl", "http://192.0.2.1"), "not encrypted"), ((*RULE, "--gpufl", "https://x", "--gpufl-key-file", tmp_path / "none"), "cannot read the key"):
        said = pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", tmp_path / "spool", *words, env={"PITOT_API_KEY": "gpfl_secret"},
                     status=1 if "--gpufl-key-file" in words else 2).stderr
        assert what in said and "secret" not in said
