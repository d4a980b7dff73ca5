"""Python frames of processes that run already, by perf events: read from outside while the sampled thread stands still."""
import errno
import os
import re
import subprocess
import sys

import pytest

import pythons
from perf_events import capability, may_read, perf_errno

KNOWN = [one for one in pythons.interpreters() if pythons.is_known(one)]
HZ = 499

# Functions of which each has one caller, at one line, and stands as deep as others: two stacks that were mixed show.
PROGRAM = """
import os, sys, threading, time
def red_leaf(n):
    return sum([i * i for i in range(n)])
def red_middle(n):
    return red_leaf(n) + 1
def red(n):
    return red_middle(n) + 1
def blue_key(n):
    return -n
def blue_middle(n):
    return sorted(range(n), key=blue_key)
def blue(n):
    return len(blue_middle(n))
def green_leaf(n):
    for i in range(n):
        yield i
def green_middle(n):
    for i in green_leaf(n):
        yield i
def green(n):
    return sum(green_middle(n))
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        red(50)
        blue(50)
        green(50)
"""
CALLS = {("red", 8): "red_middle", ("red_middle", 6): "red_leaf", ("blue", 14): "blue_middle", ("blue_middle", 12): "blue_key",
         ("green", 22): "green_middle", ("green_middle", 19): "green_leaf"}
OUTER = ("red", "blue", "green")
NAMES = {*OUTER, *CALLS.values()}


@pytest.fixture(autouse=True)
def allowed():
    refused = perf_errno(0)
    if refused:
        pytest.skip(f"the kernel forbids perf_event_open: {errno.errorcode[refused]}")
    if not may_read(os.geteuid()):
        pytest.skip("kernel.yama.ptrace_scope forbids to read other processes")


@pytest.fixture
def record(pitot, folder, rows, stacks):
    """Samples a Python that runs the program and then what is given. The recording and its weights by stack."""

    def run(facts, then):
        (folder / "prog.py").write_text(PROGRAM + then)
        with subprocess.Popen([facts["path"], folder / "prog.py"], stdout=subprocess.PIPE,
                              env={**facts["environment"]}) as target:
            try:
                assert target.stdout.readline() == b"ready\n"
                pitot("record", "-q", "-p", target.pid, "--cpu-via", "perf", f"--cpu={HZ}", "-o", folder / "rec.pitot")
            finally:
                target.kill()
        return folder / "rec.pitot", stacks(folder / "rec.pitot")

    return run


def frames(stack):
    """Functions and lines of the program in a stack, from the outermost."""
    found = (re.fullmatch(r"(\w+) \(prog.py:(\d+)\)", frame) for frame in stack)
    return [(match[1], int(match[2])) for match in found if match and match[1] in NAMES]


def assert_possible(weights):
    """Returns the stacks that have functions of the program."""
    known = [frames(stack) for stack, _ in weights]
    for stack in filter(None, known):
        assert stack[0][0] in OUTER, stack
        for caller, (callee, _) in zip(stack, stack[1:]):
            assert CALLS[caller] == callee, stack
    return [stack for stack in known if stack]


def shares(rows, recording):
    """Samples that have Python frames, and all."""
    found = (re.match(r"(\d+) of (\d+) samples", row["actual"]) for row in rows(recording, "capability") if row["name"] == "cpu_python")
    return map(int, next(filter(None, found)).groups())


@pytest.mark.parametrize("facts", pythons.some(KNOWN), ids=pythons.label)
def test_stacks_are_those_of_the_sample(record, rows, pitot, facts):
    recording, weights = record(facts, "print('ready', flush=True)\nthreading.Thread(target=work, args=(1,)).start()\nwork(1)\n")
    known = assert_possible(weights)
    assert {stack[0][0] for stack in known} == set(OUTER)
    assert {stack[-1][0] for stack in known} >= {"red_leaf", "blue_key", "green_leaf"}
    read, samples = shares(rows, recording)
    # Each sample is there once, and a machine that is overloaded has fewer with Python frames, but not few.
    assert samples == len(rows(recording, "cpu_sample"))
    assert samples / 4 < read <= samples
    assert "no Python frames" not in capability(rows, recording, "cpu")["reason"]
    # The report says it where many have none.
    row, said = capability(rows, recording, "cpu_python"), " ".join(pitot("report", recording).stdout.split())
    assert (f"Python frames: {row['actual']} ({row['reason']})" in said) == (row["state"] == "degraded")


@pytest.mark.skipif(not KNOWN, reason="no CPython that is known")
def test_processes_and_threads_that_come_and_go(record, rows):
    """Forked, ended by _exit, executed anew, ended in the middle: no sample is lost, and none has frames of another."""
    recording, weights = record(KNOWN[-1], """
if len(sys.argv) == 1:
    print('ready', flush=True)
    for i in range(10):
        child = os.fork()
        if child == 0:
            work(0.05)
            os._exit(0)
        thread = threading.Thread(target=work, args=(0.05,))
        thread.start()
        thread.join()
        os.waitpid(child, 0)
    os.execv(sys.executable, [sys.executable, __file__, 'again'])
work(0.3)
""")
    assert_possible(weights)
    read, samples = shares(rows, recording)
    assert 0 < read <= samples
    assert sum(row["weight_ns"] for row in rows(recording, "cpu_sample")) > samples * 1e9 / HZ * 0.99


@pytest.mark.skipif(not KNOWN, reason="no CPython that is known")
def test_no_frames_above_a_thousand_samples(pitot, rows, folder):
    """Reading would take too much of the program's time: as before, the recording says how to get them."""
    with subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE) as target:
        try:
            target.stdout.readline()
            pitot("record", "-q", "-p", target.pid, "--cpu-via", "perf", "--cpu=2000", "--duration", "0.2s", "-o", folder / "rec.pitot")
        finally:
            target.kill()
    assert "no Python frames" in capability(rows, folder / "rec.pitot", "cpu")["reason"]
