"""pitot record --steps: the same steps of all ranks, whenever each comes to them, and who lacks which."""
import os
import signal
import subprocess
import time

import pytest

from waiting import wait_until


@pytest.fixture
def pitot(pitot, source):
    """A player whose recorder has ended may not have freed what dlerror() keeps (leaks.txt)."""
    leaks = {"LSAN_OPTIONS": f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0"}
    return lambda *words, **more: pitot(*words, env=leaks, **more)


@pytest.fixture
def ranks(pitot, build, source, tmp_path):
    """ranks("4..6", "sleep-3"): both ranks of a training; the recording and what was said."""

    def record(steps, name, *options, status=0):
        tapes = sorted((source / "tests/data/tapes/ranks").glob(f"{name}.?.tape"))
        folder = tmp_path / "steps.pitot"
        done = pitot("record", "-f", "--stacks", "none", "-o", folder, "--steps", steps, *options, "--", build / "standin/tape-play",
                     "--ranks", *tapes, status=status)
        return folder, done.stderr

    return record


@pytest.fixture
def skewed(pitot, build, make_tape, tmp_path):
    """skewed("3..5", (20, 0), (20, 1)): a rank for each number of steps, which begins so many seconds later than the first."""

    def record(steps, *ranks, options=()):
        tapes = {count: make_tape("loop", count).rename(tmp_path / f"{count}.tape") for count in {rank[0] for rank in ranks}}
        script = " & ".join(f"(sleep {delay}; RANK={rank} WORLD_SIZE={len(ranks)} exec '{build}/standin/tape-play' --realtime '{tapes[count]}')"
                            for rank, (count, delay) in enumerate(ranks))
        folder = tmp_path / "steps.pitot"
        done = pitot("record", "-f", "--stacks", "none", "-o", folder, "--steps", steps, *options, "--", "sh", "-c", f"{script} & wait")
        return folder, done.stderr

    return record


def by_rank(rows, folder, table, *options):
    ranks = {row["pid"]: row["rank"] for row in rows(folder, "process") if row["rank"] is not None}
    found = {rank: [] for rank in ranks.values()}
    for row in rows(folder, table, *options):
        found[ranks[row["pid"]]].append(row)
    return found


def steps_of(rows, folder, named):
    return {rank: [row["message"] for row in found if row["kind"] == "push" and row["message"].startswith(named)]
            for rank, found in by_rank(rows, folder, "nvtx").items()}


def test_the_same_steps_of_both_ranks(ranks, rows, pitot, rank_recording):
    """What the whole recording has in these steps, and nothing else."""
    folder, said = ranks("4..6", "sleep-3")
    assert "steps 4..6 of 2 processes, counted by NVTX ranges 'step' from each one's begin" in said and "warning" not in said
    pitot("info", "--verify", folder)
    assert steps_of(rows, folder, "step") == {rank: ["step 3", "step 4", "step 5"] for rank in (0, 1)}
    ranges, whole = (by_rank(rows, name, "nvtx", "-c", "pid,time,kind,message") for name in (folder, rank_recording("sleep-3")))
    calls, all_calls = (by_rank(rows, name, "api_call", "-c", "pid,start,correlation") for name in (folder, rank_recording("sleep-3")))
    kernels = by_rank(rows, folder, "kernel", "-c", "pid,correlation")
    for rank in 0, 1:
        first, after = (next(i for i, row in enumerate(whole[rank]) if row["message"] == f"step {number}") for number in (3, 6))
        expected = whole[rank][first:after]
        assert [(row["kind"], row["message"]) for row in ranges[rank]] == [(row["kind"], row["message"]) for row in expected]
        own = [row for row in all_calls[rank] if expected[0]["time"] <= row["start"] <= expected[-1]["time"]]
        assert len(own) <= len(calls[rank]) <= len(own) + 2, "and those of work that still ran at the begin"
        assert 80 < len(kernels[rank]) and {row["correlation"] for row in kernels[rank]} <= {row["correlation"] for row in calls[rank]}
    report = pitot("report", folder, "--json", "--steps", json_output=True)
    assert report["job"]["kind"] == "rank" and report["job"]["rank"] == 1
    assert [loop["count"] for loop in report["steps"]["loops"]] == [3, 3]
    window = {row["state"]: row for row in rows(folder, "capability") if row["name"] == "window"}
    assert window["on"]["requested"] == "steps 4..6" and window["on"]["actual"] == "NVTX ranges 'step'"


def test_one_step_and_a_name(ranks, rows):
    folder, said = ranks("2", "sleep-3", "--steps-by", "backward")
    assert "step 2 of 2 processes, counted by NVTX ranges 'backward' from" in said
    assert steps_of(rows, folder, "backward") == {0: ["backward"], 1: ["backward"]}
    assert steps_of(rows, folder, "step") == {0: [], 1: []}


def test_by_collectives(ranks, rows):
    folder, said = ranks("20..23", "sleep-3", "--steps-by", "collectives")
    assert "steps 20..23 of 2 processes, counted by collectives from" in said and "warning" not in said
    for found in by_rank(rows, folder, "collective").values():
        assert [(row["function"], row["sequence"]) for row in found] == [("all_reduce", number) for number in range(19, 23)]


def test_ranks_that_start_at_other_times(skewed, rows):
    folder, said = skewed("3..5", (12, 0), (12, 1.5))
    assert "steps 3..5 of 2 processes, counted by NVTX ranges 'train_step'" in said and "warning" not in said
    found = by_rank(rows, folder, "kernel", "-c", "pid,name")
    steps = {rank: [row for row in own if row["kind"] == "push" and row["message"] == "train_step"]
             for rank, own in by_rank(rows, folder, "nvtx", "-c", "pid,time,kind,message").items()}
    assert [len(own) for own in steps.values()] == [3, 3]
    assert steps[1][0]["time"] - steps[0][-1]["time"] > 0.3e9, "their windows are apart"
    assert all(sum("in_step" in row["name"] for row in own) == 30 for own in found.values())


def test_a_rank_that_ends_inside_the_window(skewed, rows):
    folder, said = skewed("6..9", (12, 0), (7, 0))
    assert "steps 6..9 of 1 of 2 processes, counted by" in said
    assert "warning: steps 6..9: rank 1 (process " in said and ") has only steps 6..7: the process ended" in said
    assert {rank: len(own) for rank, own in steps_of(rows, folder, "train_step").items()} == {0: 4, 1: 2}
    row, = [row for row in rows(folder, "capability") if row["name"] == "window" and row["state"] == "degraded"]
    assert row["requested"] == "steps 6..9" and row["actual"].startswith("rank 1 (") and row["reason"].startswith("has only steps 6..7")


def test_a_rank_that_ends_before_the_window(skewed, rows):
    folder, said = skewed("6..9", (12, 0), (4, 0))
    assert "steps 6..9 of 1 of 2 processes" in said and ") has none of them: the process ended after 4 steps" in said
    assert {rank: len(own) > 0 for rank, own in by_rank(rows, folder, "kernel").items()} == {0: True, 1: False}


def test_a_rank_that_counts_otherwise(pitot, build, source, make_tape, tmp_path):
    tapes = {0: make_tape("loop", 12), 1: source / "tests/data/tapes/ranks/sleep-3.1.tape"}
    script = " & ".join(f"(RANK={rank} WORLD_SIZE=2 exec '{build}/standin/tape-play' --now '{tape}')" for rank, tape in tapes.items())
    said = pitot("record", "-o", tmp_path / "steps.pitot", "--steps", "3..5", "--", "sh", "-c", f"{script} & wait").stderr
    assert "counted by NVTX ranges 'step', rank 0 (process " in said and ") by NVTX ranges 'train_step': these may be other steps" in said


@pytest.mark.parametrize("steps, options, words", [
    ("100", (), "no process had step 100; steps are NVTX ranges and scopes that are named like steps"),
    ("2..3", ("--steps-by", "none"), "and no range or scope was called 'none'; it had 85 collectives of NCCL, which --steps-by collectives counts"),
    ("900", ("--steps-by", "collectives"), "has none of them: the process ended after "),
])
def test_steps_that_never_come(ranks, rows, pitot, steps, options, words):
    folder, said = ranks(steps, "sleep-3", *options)
    assert "warning: nothing was recorded: " in said and words in said
    assert rows(folder, "kernel") == [] and "no process had step" in pitot("report", folder).stdout


def test_afterwards_the_processes_are_not_recorded(build, environment, make_tape, tmp_path):
    """The recorder ends when its process has passed the steps: its segment does not grow any more."""
    folder = tmp_path / "steps.pitot"
    process = subprocess.Popen([build / "pitot", "record", "--stacks", "none", "-o", folder, "--steps", "2..3", "--", build / "standin/tape-play",
                                "--realtime", "--repeat", "100000", make_tape("loop", 10)], env={**environment, "ASAN_OPTIONS": "detect_leaks=0"},
                               stderr=subprocess.DEVNULL, start_new_session=True)

    def size():
        [pid] = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
        for task in os.listdir(f"/proc/{pid}/task"):
            for fd in os.listdir(f"/proc/{pid}/task/{task}/fd"):
                if "memfd:pitot segment" in os.readlink(f"/proc/{pid}/task/{task}/fd/{fd}"):
                    return os.stat(f"/proc/{pid}/task/{task}/fd/{fd}").st_size
        return None

    def stays():
        before = size()
        time.sleep(1.5)  # rows are written four times a second
        return before == size()

    try:
        wait_until(lambda: folder.exists() and [name for name in os.listdir(folder) if name[0].isdigit()], "the steps are written", process)
        wait_until(stays, "the recorder ends", process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("options, words", [
    (("--steps", "0..4"), "--steps takes a number, such as 100, or two, such as 100..110, of at most 10000 steps, not '0..4'"),
    (("--steps", "5..4"), "not '5..4'"), (("--steps", "1..10001"), "of at most 10000 steps"), (("--steps", "4.."), "not '4..'"),
    (("--steps", "4..6x"), "not '4..6x'"),
    (("--steps", "4", "--ring", "10m"), "in a ring of its own; leave out --ring"),
    (("--steps", "4", "--cpu"), "leave out --ring, --pid, --cpu"),
    (("--steps", "4", "--duration", "1s"), "--steps is a window of its own; leave out --every"),
    (("--steps", "4", "--every", "10s", "--for", "1s"), "--steps is a window of its own"),
    (("--steps-by", "step"), "--steps-by needs --steps, such as: --steps 100..110"),
])
def test_what_contradicts(pitot, options, words):
    assert words in pitot("record", *options, "--", "true", status=2).stderr
