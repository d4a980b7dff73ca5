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
TAPES = {"train": "cudaStreamSynchronize", "launch": "cudaDeviceSynchronize", "kinds": "cudaDeviceSynchronize",
         "engines/own-profiler": "cudaDeviceSynchronize"}  # PyTorch with a torch.profiler of its own
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
    assert [row["actual"] for row in rows(recording, "capability") if row["name"] == "kernel"] == ["serialized"]


@pytest.mark.parametrize("tape", ["launch", "kinds", "engines/own-profiler"])
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


REFUSED = "another client of CUPTI: refused, so it saw nothing of the GPU; with --own-profiler share both see everything"


def test_the_end_of_record_says_that_it_was_kept(pitot, player, build, source, environment, tmp_path):
    """Also where it looks its functions up, and where there is none."""
    environment.update(LSAN_OPTIONS=f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0",
                       OWN_CLIENT_OUT=str(tmp_path / "out"), OWN_CLIENT_SYNC=TAPES["launch"])
    for kind in ("linked", "lazy", "dlsym", None):
        client = ["--client", build / "standin" / f"libclient-{kind}.so"] if kind else []
        recording = tmp_path / f"{kind}.pitot"
        ended = pitot("record", "-o", recording, "--json", "--no-cpu", "--own-profiler", "keep", "--", player, *client,
                      source / "tests/data/tapes/launch.tape")
        assert json.loads(ended.stderr.splitlines()[-1])["own_profiler"] == (REFUSED if kind else None)
        assert (REFUSED in " ".join(pitot("report", recording).stdout.split())) == bool(kind)


def test_cupti_is_shared_unless_it_is_kept(client, rows):
    sessions, _, recording = client("linked", "train", "")
    assert sum(sessions["1"].values()) > 4000
    sessions, _, recording = client("linked", "train", "own_profiler=keep")
    assert sessions["1"] == {("refused", "0", "0", "0"): 1}
    assert len(rows(recording, "kernel")) == 2092
    said = [row for row in rows(recording, "capability") if row["name"] == "own_profiler"]
    assert [(row["state"], row["requested"], row["actual"]) for row in said] == [("on", "keep", "keep")] * len(said) and said
    assert said[-1]["reason"] == REFUSED


def test_the_client_goes_on_when_pitot_leaves(client, rows):
    """The window closes in the middle of the client's session. Records of that session from before may be lost to it, none is invented."""
    alone, _, _ = client("linked", "train", None, "--realtime")
    for duration_ms in 5600, 5800, 6200, 7000:  # on a busy machine the tape is behind its times
        shared, _, recording = client("linked", "train", f"own_profiler=share;duration_ns={duration_ms * 10**6}", "--realtime")
        recorded = len(rows(recording, "kernel"))
        if 0 < recorded < 1000:
            break
    assert 0 < recorded < 1000
    assert shared.keys() == alone.keys()
    for session in alone:
        records = collections.Counter({key: n for key, n in shared[session].items() if key[0] not in ("dropped", "callbacks")})
        assert not records - alone[session]
    assert any(key[0] == "kernel" for got in shared.values() for key in got)


# --- a client that does what few do ---

@pytest.fixture
def rude(build, player, source, environment, record, tmp_path):
    """rude("buffers", "launch", "own_profiler=share", …): what the client was answered, as (what, value), and the recording."""
    def run(how, tape, options, *arguments):
        out = tmp_path / f"{how}.answers"
        environment.update(OWN_CLIENT_OUT=str(out), RUDE_CLIENT=how, OWN_CLIENT_SYNC=TAPES.get(tape, "cuLaunchKernel"))
        play = ["--client", str(build / "standin/libclient-rude.so"), *arguments]
        if options is None:
            subprocess.run([player, *play, source / "tests/data/tapes" / f"{tape}.tape"], check=True, env=environment, timeout=PATIENCE)
            recording = None
        else:
            recording = record(tape, options, *play)
        return [(line.split()[0], int(line.split()[1])) for line in out.read_text().splitlines()], recording

    return run


BUSY = 26
ENGINES = {"pc-sampling": "default", "range-profiler": "gpu__time_duration.sum", "pm-sampling": "gpu__time_duration.sum", "sass-metrics": "default",
           "deep": "default"}


@pytest.mark.parametrize("engine", ENGINES)
def test_counters_are_refused_while_an_engine_has_them(rude, rows, made_tape, engine):
    """With CUPTI's own error, and the recording says so; the engine goes on. The process-wide end of all profilers does nothing."""
    answers, recording = rude("counters", made_tape, f"engine={engine};metrics={ENGINES[engine]}")
    functions = [(what, value) for what, value in answers if what.startswith("cupti")]
    assert len(functions) >= 5 and {value for what, value in functions if what != "cuptiProfilerDeInitialize"} == {BUSY}
    assert ("GetLastError", BUSY) in answers
    said = [row for row in rows(recording, "capability") if row["name"] == "own_profiler"][-1]
    assert said["reason"] == f"another client of CUPTI; its counters were refused, because --engine {engine} uses them"
    assert {row["state"] for row in rows(recording, "capability") if row["name"] == "engine"} == {"on"}


@pytest.mark.parametrize("options", ["engine=trace", "engine=sass-metrics"], ids=["trace", "refused"])
def test_counters_are_the_clients_where_no_engine_has_them(rude, rows, made_tape, tmp_path, options):
    """Also where CUPTI has refused the engine."""
    faults = tmp_path / "faults"
    faults.write_text("missing cuptiSassMetricsFlushData\n")
    answers, recording = rude("other-counters", made_tape, options, "--faults", str(faults))
    assert len(answers) > 5 and BUSY not in {value for _, value in answers}
    assert "refused" not in [row for row in rows(recording, "capability") if row["name"] == "own_profiler"][-1]["reason"]


def test_attributes_are_the_clients_own(rude):
    """Kept and answered, but not applied; those that it has not set are CUPTI's."""
    answers, _ = rude("attributes", "launch", "own_profiler=share")
    INVALID, TOO_SMALL = 1, 10
    assert answers[:12] == [
        ("ActivityGetAttribute", 0), ("value", 3200000), ("ActivitySetAttribute", 0), ("ActivityGetAttribute", TOO_SMALL),
        ("ActivityGetAttribute", 0), ("value", 12345678), ("ActivitySetAttribute", INVALID), ("ActivitySetAttribute", INVALID),
        ("ActivitySetAttribute", INVALID), ("ActivityGetAttribute", INVALID), ("GetLastError", INVALID), ("GetLastError", 0)]
    assert answers[12:17] == [("GetThreadIdType", 0), ("type", 0), ("SetThreadIdType", 0), ("GetThreadIdType", 0), ("type", 1)]
    assert answers[17:22] == [("Finalize", 0), ("ActivityGetAttribute", 0), ("value", 3200000), ("GetThreadIdType", 0), ("type", 0)]


def test_the_second_version_of_a_subscription(rude, rows):
    for way, result in ("keep", 39), ("share", 0):
        answers, recording = rude("second-version", "launch", f"own_profiler={way}")
        assert answers[0] == ("Subscribe_v2", result) and len(rows(recording, "kernel")) == 7000
        recording.rename(recording.with_name(f"{way}.pitot"))
        said = [row["reason"] for row in rows(recording.with_name(f"{way}.pitot"), "capability") if row["name"] == "own_profiler"]
        assert said[-1] == (REFUSED if result else "no other client of CUPTI")


@pytest.mark.parametrize("how", ["threads", "silent", "buffers", "again", "fork"])
def test_it_is_answered_as_by_cupti(rude, rows, environment, how):
    """And the recording has what it has without it."""
    environment["ASAN_OPTIONS"] = "detect_leaks=0"
    alone, _ = rude(how, "launch", None)
    beside, recording = rude(how, "launch", "own_profiler=share")
    (_, strays), *kernels = beside[-3:]
    assert beside[:-3] == alone[:-3]
    assert strays == 0
    assert sum(count for _, count in kernels) == sum(count for _, count in alone[-2:]) or how == "silent"
    kernels = len({row["correlation"] for row in rows(recording, "kernel")})
    assert kernels == 7000


# --- a client that was first ---

def gaps(rows, recording):
    """A gap that lasts has several rows, each from where the one before it ends."""
    found = []
    for row in rows(recording, "loss"):
        if row["reason"] == "own_profiler":
            assert row["count"] == 0 and row["end_ns"] > row["start_ns"]
            if found and found[-1]["pid"] == row["pid"] and found[-1]["end_ns"] == row["start_ns"]:
                row["start_ns"] = found.pop()["start_ns"]
            found.append(row)
    return found


def test_who_was_first_keeps_cupti_until_it_is_done(record, rows, pitot, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("call cuptiSubscribe_v2#1 returns 39\ncall cuptiSubscribe_v2#2 returns 39\n")
    recording = record("train", "own_profiler=share", "--realtime", "--faults", str(faults))
    gap, = gaps(rows, recording)
    said = [(row["state"], row["reason"].split(";")[0]) for row in rows(recording, "capability") if row["name"] == "cupti"]
    assert said[0] == ("unavailable", "another tool holds CUPTI in this process: another tool (scripted)")
    assert [state for state, _ in said] == ["unavailable", "on"]
    recorded = rows(recording, "kernel")
    assert 0 < len(recorded) and min(row["start_ns"] for row in recorded) > gap["end_ns"] - 10_000_000
    text = pitot("report", recording).stdout
    assert text.count("the program's own profiler used CUPTI for") == 1 and "in 1 window: no GPU work was recorded" in text
    recording.rename(tmp_path / "share.pitot")
    recording = record("train", "own_profiler=keep", "--faults", str(faults))
    assert not rows(recording, "kernel") and not gaps(rows, recording)
