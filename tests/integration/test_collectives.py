"""Ranks, communicators and collectives, as a training on two GPUs had them."""
import json
import re
import subprocess
from collections import Counter

import pytest

SCENARIOS = "balanced", "mixed", "pipeline", "graph", "missing"
COLLECTIVE, PEER = 2, 4  # types of events of NCCL


@pytest.fixture
def on_tape(build, source):
    """on_tape("mixed", 0): how many operations of each function NCCL told its plug-in of."""

    def count(name, rank):
        text = subprocess.run([build / "standin/tape-dump", source / f"tests/data/tapes/ranks/{name}.{rank}.tape"],
                              capture_output=True, text=True, check=True).stdout
        found = re.findall(rf'NCCL v5 start .* type=(?:{COLLECTIVE}|{PEER}) "(\w+)"', text)
        return Counter(re.sub(r"(?<!^)(?=[A-Z])", "_", function).lower() for function in found)

    return count


@pytest.fixture
def by_rank(rows):
    """by_rank(recording, table, …): rows by the rank of their process."""

    def read(recording, table, *options):
        ranks = {row["pid"]: row["rank"] for row in rows(recording, "process") if row["rank"] is not None}
        found = {rank: [] for rank in sorted(set(ranks.values()))}
        for row in rows(recording, table, *options):
            if row["pid"] in ranks:
                found[ranks[row["pid"]]].append(row)
        return found

    return read


def test_processes_have_ranks(rank_recording, rows):
    processes = rows(rank_recording("balanced"), "process")
    for rank in 0, 1:
        own = [row for row in processes if row["rank"] == rank]
        assert {row["source"] for row in own} == {"inside", "record"}  # by its own variables, and by those in /proc
        for row in own:
            assert (row["local_rank"], row["world_size"], row["node_rank"], row["job"], row["launcher"]) == (rank, 2, 0, "tapes", "torchrun")
    player = [row for row in processes if row["rank"] is None]
    assert player and all(row["launcher"] is None and row["world_size"] is None for row in player)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_operation_is_recorded(rank_recording, by_rank, on_tape, name):
    for rank, found in by_rank(rank_recording(name), "collective").items():
        assert Counter(row["function"] for row in found) == on_tape(name, rank)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_is_joined_with_one_launch(rank_recording, by_rank, name):
    recording = rank_recording(name)
    launches, kernels = by_rank(recording, "api_call", "--columns", "pid,correlation,thread,start_ns,end_ns"), by_rank(recording, "kernel")
    for rank, found in by_rank(recording, "collective").items():
        assert found
        for row in found:
            launch, = [call for call in launches[rank] if call["correlation"] == row["correlation"]]
            assert launch["thread"] == row["thread"] and launch["end_ns"] <= row["time_ns"]
            names = [kernel["config"] for kernel in kernels[rank] if kernel["correlation"] == row["correlation"]]
            if row["captured"]:
                nodes = [kernel for kernel in kernels[rank] if kernel["graph_node"] is not None and "nccl" in kernel["config"]]
                assert not names and row["graph_node"] is not None and nodes
            else:
                assert row["graph_node"] is None and len(names) <= 1 and all("nccl" in text for text in names)
                assert names or name == "missing"  # that kernel did not end


def test_replays_lead_to_captured_collectives(rank_recording, by_rank):
    recording = rank_recording("graph")
    nodes = by_rank(recording, "graph_node")
    for rank, kernels in by_rank(recording, "kernel").items():
        captured = {row["graph_node"]: row for row in by_rank(recording, "collective")[rank] if row["captured"]}
        originals = {node["node"]: node["original"] for node in nodes[rank]}
        replayed = Counter(originals[kernel["graph_node"]] for kernel in kernels
                           if kernel["graph_node"] is not None and "nccl" in kernel["config"])
        assert len(captured) == 6 and set(replayed) == set(captured)
        assert len(set(replayed.values())) == 1


@pytest.mark.parametrize("name", SCENARIOS)
def test_ranks_agree(rank_recording, by_rank, rows, name):
    recording = rank_recording(name)
    communicators = by_rank(recording, "communicator")
    assert [row["hash"] for row in communicators[0]] == [row["hash"] for row in communicators[1]]
    assert all((row["ranks"], row["nodes"], row["rank"]) == (2, 1, rank) for rank in (0, 1) for row in communicators[rank])
    shared = "communicator.hash", "function", "sequence", "count", "datatype", "bytes", "root"
    collectives = by_rank(recording, "collective", "--columns", ",".join(("pid", *shared, "captured", "peer")))
    first, second = ([tuple(row[column] for column in shared) for row in collectives[rank] if row["peer"] is None and not row["captured"]]
                     for rank in (0, 1))
    assert first and len(set(first)) == len(first)
    if name == "missing":
        assert set(second) < set(first)
    else:
        assert first == second
    # what one sends is what the other receives
    for rank in 0, 1:
        sent, received = ({(row["sequence"], row["count"], row["bytes"]) for row in collectives[side]
                           if row["function"] == function and row["peer"] == peer}
                          for side, function, peer in ((rank, "send", 1 - rank), (1 - rank, "recv", rank)))
        assert sent == received and len({number for number, *_ in sent}) == len(sent)


def test_columns(rank_recording, by_rank):
    row = by_rank(rank_recording("balanced"), "collective")[0][0]
    expected = {"function": "all_reduce", "sequence": 0, "count": 4194304, "datatype": "float32", "bytes": 16777216, "root": None,
                "peer": None, "algorithm": "RING", "protocol": "SIMPLE", "channels": 24, "captured": 0, "graph_node": None, "source": "plugin"}
    assert {name: row[name] for name in expected} == expected
    functions = {row["function"]: row for row in by_rank(rank_recording("mixed"), "collective")[0]}
    assert functions["broadcast"]["root"] in (0, 1) and functions["send"]["peer"] in (0, 1)


def test_times_of_both_ranks_are_on_one_clock(rank_recording, by_rank):
    """An all-reduce ends at the same time on both, and it cannot end on one before it has begun on the other."""
    kernels = by_rank(rank_recording("balanced"), "kernel")
    first, second = ([row for row in kernels[rank] if "nccl" in row["config"]] for rank in (0, 1))
    assert len(first) == len(second) > 50
    for a, b in zip(first, second):
        assert a["start_ns"] < b["end_ns"] and b["start_ns"] < a["end_ns"] and abs(a["end_ns"] - b["end_ns"]) < 100_000


def test_collectives_are_a_capability(rank_recording, rows):
    found = [row for row in rows(rank_recording("balanced"), "capability") if row["name"] == "collectives"]
    assert [(row["state"], row["actual"]) for row in found] == [("on", "profiler plug-in 5")] * 2


def test_one_rank(rank_recording, pitot, rows, tmp_path):
    recording = rank_recording("balanced")
    whole = pitot("report", recording, "--json", json_output=True)
    for rank in 0, 1:
        one = pitot("report", recording, "--rank", rank, "--json", json_output=True)
        assert abs(one["start_unix_ns"] - whole["start_unix_ns"]) < 10_000  # one origin, by another reading of the clocks
        assert [p["rank"] for p in one["processes"] if p["recorded"]] == [rank]
        assert f"; rank {rank} only" in " ".join(pitot("report", recording, "--rank", rank).stdout.split())
        kernels = rows(recording, "kernel", "--rank", rank)
        own = {p["pid"] for p in whole["processes"] if p.get("rank") == rank and p["recorded"]}
        assert kernels and {row["pid"] for row in kernels} == own
        assert kernels == rows(recording, "kernel", "-w", f"pid={own.pop()}")
        pitot("export", recording, "--rank", rank, "-o", tmp_path / f"{rank}.json")
        trace = json.loads((tmp_path / f"{rank}.json").read_text())
        assert trace["distributedInfo"]["rank"] == rank
        assert sum(event.get("cat") == "kernel" for event in trace["traceEvents"]) == len(kernels)
    said = pitot("report", recording, "--rank", 2, status=None)
    assert said.returncode and "no rank 2 in this recording; its ranks: 0, 1" in said.stderr


def test_processes_are_listed_by_rank(rank_recording, pitot, tmp_path):
    recording = rank_recording("balanced")
    # A sanitizer has a process of its own at the end. It, or a rank before its exec, may be seen with the launcher's command.
    listed = pitot("report", recording, "--json", json_output=True)["processes"]
    launcher = {p["parent_pid"] for p in listed if p["recorded"]}
    processes = [p for p in listed if p["recorded"] or ("--ranks" in p["command"] and p["pid"] in launcher)]
    assert [(p.get("rank"), p.get("local_rank"), p.get("world_size"), p.get("job")) for p in processes] == [
        (None, None, None, None), (0, 0, 2, "tapes"), (1, 1, 2, "tapes")]
    lines = pitot("info", recording).stdout.split("processes\n")[1].split("\n\n")[0].splitlines()
    assert list(dict.fromkeys(line.split()[0] for line in lines)) == ["rank", "-", "0", "1"]
    pitot("export", recording, "-o", tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    order = {event["pid"]: event["args"]["sort_index"] for event in events if event["name"] == "process_sort_index"}
    assert sorted((order[p["pid"]], names[p["pid"]]) for p in processes[1:]) == [(0, "rank 0: tape-play"), (1, "rank 1: tape-play")]


@pytest.mark.parametrize("command", [["report"], ["view", "kernel"], ["flame", "-o", "x.html"], ["export", "-o", "x.html"]])
def test_recordings_without_ranks_have_none(make_recording, pitot, tmp_path, command):
    make_recording(tmp_path / "varied.pitot", "varied")
    said = pitot(command[0], "varied.pitot", *command[1:], "--rank", 1, status=1).stderr
    assert "--rank: the processes of 'varied.pitot' have no ranks" in said
    assert pitot(command[0], "varied.pitot", *command[1:], "--rank", 2**32, status=2).stderr


def test_a_plugin_of_the_users_own_stays(build, source, rows, pitot, player, tmp_path):
    """`pitot record` names its own in NCCL_PROFILER_PLUGIN only if the variable is not set."""
    for given, named in (None, str((build / "libpitot.so").resolve())), ("none", "none"), ("", ""):
        variables = {} if given is None else {"NCCL_PROFILER_PLUGIN": given}
        said = pitot("record", "-f", "-o", "x.pitot", "--no-cpu", "--", "sh", "-c", "echo plugin=$NCCL_PROFILER_PLUGIN", env=variables)
        assert f"plugin={named}\n" in said.stdout
    tape = source / "tests/data/tapes/ranks/balanced.0.tape"
    pitot("record", "-f", "-o", "x.pitot", "--no-cpu", "--stacks", "none", "--", player, tape, env={"NCCL_PROFILER_PLUGIN": "none"})
    assert not rows("x.pitot", "collective") and rows("x.pitot", "kernel")
    pitot("record", "-f", "-o", "x.pitot", "--no-cpu", "--stacks", "none", "--engine", "monitor", "--", player, tape)
    assert not rows("x.pitot", "collective")  # no session wants them: the mask stays 0


@pytest.mark.parametrize("rank, size, said", [
    (0, 1, None), (1, 2, "rank 0 of 2 was not recorded"), (1, 4, "ranks 0, 2, 3 of 4 were not recorded"),
    (0, 4096, "4095 of 4096 ranks were not recorded"), (7, 2, "ranks 0, 1 of 2 were not recorded")])
def test_the_report_says_which_ranks_are_absent(source, pitot, player, rank, size, said):
    tape = source / "tests/data/tapes/launch.tape"
    pitot("record", "-o", "x.pitot", "--no-cpu", "--stacks", "none", "--", player, tape, env={"RANK": str(rank), "WORLD_SIZE": str(size)})
    text = " ".join(pitot("report", "x.pitot").stdout.split())
    assert said in text if said else "not recorded" not in text
