"""A command with its own client of CUPTI, as torch.profiler has one: with --own-profiler share both see everything."""
import collections
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from waiting import PATIENCE

CLOCK_NS = 100_000  # what two readings of the client's clock are apart, at most
# What waits for all work on these tapes.
TAPES = {"train": "cudaStreamSynchronize", "launch": "cudaDeviceSynchronize", "kinds": "cudaDeviceSynchronize"}
# The client's ids are the program's, and in the recording when it pushes them.
TABLES = ("kernel", "memcpy", "memset", "api_call", "overhead", "graph_node", "stream", "context", "loss")
VARYING = {"pid", "start_ns", "end_ns", "time_ns", "duration_ns", "thread"}


@pytest.fixture
def client(player, build, source, environment, record, tmp_path):
    """client("linked", "train", "own_profiler=share", …): what the client got as {session: Counter}, starts, and the recording.

    Options None: without Pitot.
    """
    runs = []

    def run(kind, tape, options, *arguments, late=False):
        out = tmp_path / f"client{len(runs)}"
        runs.append(out)
        library = build / "standin" / f"libclient-{kind}.so"
        play = ["--client-late" if late else "--client", str(library), *arguments]
        own = {"OWN_CLIENT_OUT": str(out), "OWN_CLIENT_SYNC": TAPES[tape]}
        if options is None:
            path = source / "tests" / "data" / "tapes" / f"{tape}.tape"
            result = subprocess.run([player, *play, path], capture_output=True, text=True, timeout=PATIENCE,
                                    env={**environment, **own})
            assert result.returncode == 0 and result.stderr == "", result.stderr
            recording = None
        else:
            folder = tmp_path / "recording.pitot"
            if folder.exists():
                folder.rename(tmp_path / f"recording{len(runs)}.pitot")
            environment.update(own)  # which `record` hands on
            recording = record(tape, options, *play)
        lines = [line.split() for line in out.read_text().splitlines()] if out.exists() else []
        sessions = collections.defaultdict(collections.Counter)
        for line in lines:
            sessions[line[0]][tuple(line[1:5])] += 1
        starts = {tuple(line[:3]): int(line[5]) for line in lines if line[1] == "kernel"}
        return sessions, starts, recording

    return run


def summary(rows, recording):
    """Rows of the tables without what differs from run to run."""
    found = {}
    for table in TABLES:
        found[table] = collections.Counter(
            json.dumps({key: value for key, value in row.items() if key not in VARYING}, sort_keys=True)
            for row in rows(recording, table))
    return found


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("kind", ["linked", "lazy", "dlsym"])
def test_the_client_gets_what_it_gets_alone(client, kind, late):
    """By import slots that are bound and protected, by those filled at the first call, and by dlsym()."""
    alone, starts, _ = client("linked", "train", None)
    shared, shared_starts, _ = client(kind, "train", "own_profiler=share", late=late)
    assert sum(alone["1"].values()) > 4000 and ("callbacks", "paired", "0", "0") in alone["1"]
    assert shared == alone
    assert starts.keys() == shared_starts.keys()
    assert max(abs(starts[key] - shared_starts[key]) for key in starts) < CLOCK_NS


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_kernels_one_after_the_other(client, rows, late):
    """CUPTI has them run so for an engine of Pitot's, which measures; the client has asked for kernels as ever."""
    alone, _, _ = client("linked", "train", None)
    shared, _, recording = client("linked", "train", "own_profiler=share;engine=sass-metrics;kernel_count=50", late=late)
    assert shared == alone
    assert len({row["correlation"] for row in rows(recording, "sass_value")}) == 50
    assert len(rows(recording, "kernel")) == 2092
    assert [row["got"] for row in rows(recording, "capability") if row["name"] == "kernel"] == ["serialized"]


@pytest.mark.parametrize("tape", ["launch", "kinds"])
def test_two_sessions_on_other_tapes(client, tape):
    alone, _, _ = client("linked", tape, None)
    shared, _, _ = client("linked", tape, "own_profiler=share")
    assert shared == alone


@pytest.mark.parametrize("kind", ["linked", "hostile"])
@pytest.mark.parametrize("tape", TAPES)
def test_the_recording_is_the_same(client, record, rows, tmp_path, kind, tape):
    """Also where the client gives no buffers, reads nothing, unsubscribes in callbacks and finalizes twice."""
    _, _, shared = client(kind, tape, "own_profiler=share")
    with_client = summary(rows, shared)
    shared.rename(tmp_path / "with-client.pitot")
    without = summary(rows, record(tape, "own_profiler=share"))
    assert with_client.keys() == without.keys()
    assert {table: (with_client[table] - without[table], without[table] - with_client[table]) for table in without} == \
        {table: (collections.Counter(), collections.Counter()) for table in without}


def test_what_happened_is_in_the_recording(client, rows):
    alone, _, recording = client("linked", "train", "own_profiler=share")
    kernels = sum(count for key, count in alone["1"].items() if key[0] == "kernel")
    reasons = [row["reason"] for row in rows(recording, "capability") if row["name"] == "own_profiler"]
    assert kernels > 1000 and f"another client of CUPTI: {kernels} kernels copied" in reasons[-1]


def test_the_end_of_record_says_so(pitot, player, build, source, environment, tmp_path):
    environment.update(OWN_CLIENT_OUT=str(tmp_path / "out"), OWN_CLIENT_SYNC=TAPES["launch"])
    play = [player, "--client", build / "standin" / "libclient-linked.so", source / "tests/data/tapes/launch.tape"]
    ended = pitot("record", "-o", tmp_path / "r.pitot", "--json", "--no-cpu", "--own-profiler", "share", "--", *play)
    said = json.loads(ended.stderr.splitlines()[-1])
    assert said["own_profiler"] == "another client of CUPTI: 4000 kernels copied (8000 records)"


def test_a_client_with_a_cupti_of_its_own(client, build, environment, rows, tmp_path):
    """As Triton's Proton: it gets the one that is shared."""
    own = tmp_path / "libcupti.so"
    shutil.copy(build / "standin" / "libcupti.so.13", own)
    alone, _, _ = client("linked", "train", None)
    environment["OWN_CLIENT_CUPTI"] = str(own)
    shared, _, recording = client("dlsym", "train", "own_profiler=share")
    assert shared == alone
    assert [row["state"] for row in rows(recording, "capability") if row["name"] == "own_profiler"][-1] == "on"


def test_cupti_is_shared_unless_it_is_kept(client, rows):
    sessions, _, recording = client("linked", "train", "")
    assert sum(sessions["1"].values()) > 4000
    sessions, _, recording = client("linked", "train", "own_profiler=keep")
    assert sessions["1"] == {("refused", "0", "0", "0"): 1}
    assert len(rows(recording, "kernel")) == 2092
    assert not [row for row in rows(recording, "capability") if row["name"] == "own_profiler"]


def test_the_client_goes_on_when_pitot_leaves(client, rows):
    """The window closes in the middle of the client's session. Records of that session from before may be lost to it, none is invented."""
    alone, _, _ = client("linked", "train", None, "--realtime")
    shared, _, recording = client("linked", "train", "own_profiler=share;duration_ns=5600000000", "--realtime")
    assert 0 < len(rows(recording, "kernel")) < 1000
    assert shared.keys() == alone.keys()
    for session in alone:
        records = collections.Counter({key: n for key, n in shared[session].items() if key[0] not in ("dropped", "callbacks")})
        assert not records - alone[session]
    assert any(key[0] == "kernel" for got in shared.values() for key in got)
