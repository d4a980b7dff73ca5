"""CPU samples by the timer inside the process: that they tell the truth, and that the program does not notice."""
import json
import re
import shutil
import signal
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from pythons import interpreters, is_known, label, some
from shares import check_shares
from waiting import PATIENCE

PERIOD = 1 / 200  # seconds, if not said otherwise
PROGRAMS = Path(__file__).parent / "cpu_timer"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled("shares") is the path of that program."""
    folder = tmp_path_factory.mktemp("programs")

    def get(name, *options):
        program = folder / "-".join([name, *options])
        if not program.exists():
            subprocess.run([COMPILER, "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", *options, "-o", program,
                            PROGRAMS / f"{name}.c", "-lpthread"], check=True)
        return program

    return get


class Recording:
    """What was recorded, with symbols."""

    def __init__(self, pitot, path):
        self.path = path
        pitot("symbolize", path, status=None)
        self.view = lambda table: [json.loads(line) for line in pitot("view", path, table, "--json").stdout.splitlines()]
        self.samples = self.view("cpu_sample")
        self.stacks = {stack["id"]: stack for stack in self.view("stack")}
        self.nodes = {node["id"]: node for node in self.view("stack_node")}
        self.names = {s["address"]: s["function"] for s in self.view("symbol") if s["inline_depth"] == 0}
        self.capabilities = [row for row in self.view("capability") if row["name"] == "cpu"]

    def seconds(self, samples=None):
        return sum(sample["weight_ns"] for sample in (self.samples if samples is None else samples)) / 1e9

    def frames(self, sample):
        """Innermost first: names of native functions, (function, file, line) of Python's."""
        if sample["stack"] is None:
            return []
        node = self.nodes[self.stacks[sample["stack"]]["node"]]
        while True:
            yield ((node["function"], node["file"], node["line"]) if node["kind"] == "python" else
                   self.names.get(node["address"]))
            if not node["parent"]:
                return
            node = self.nodes[node["parent"]]


@pytest.fixture
def record(library, environment, pitot, tmp_path):
    """record(command…): runs it with the timer, and reads what was recorded; .result is how it ended."""

    def run(*command, options="cpu=200", status=0, preload=True, several=False, launcher=()):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.pitot"
        path.mkdir()
        variables = {"PITOT_RECORDING": str(path), "PITOT_OPTIONS": f"preload=all;cuda=0;{options}"}
        if preload:
            variables["LD_PRELOAD"] = str(library)
        result = subprocess.run([*map(str, launcher), "env", *(f"{k}={v}" for k, v in variables.items()),
                                 *map(str, command)], env=environment, capture_output=True, text=True, timeout=PATIENCE,
                                stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert result.returncode == status, f"{command}: {result.returncode}\n{result.stdout}\n{result.stderr}"
        files = list(path.glob("*.pit"))
        if not files:
            return None
        if several:
            return path
        recording = Recording(pitot, path)
        recording.result = result
        return recording

    return run


def test_shares_of_functions(record, compiled):
    recording = record(compiled("shares"), 2, status=3)
    threads, total = set(), 0
    for line in recording.result.stdout.splitlines():
        thread, *truth = line.split()
        truth = dict(zip(("alpha", "beta", "gamma_"), map(float, truth)))
        samples = [s for s in recording.samples if s["thread"] == int(thread)]
        functions = [next((name for name in recording.frames(sample) if name in truth), None) for sample in samples]
        check_shares(zip(functions, (sample["weight_ns"] / 1e9 for sample in samples)), truth, 0.1 * 2, PERIOD)
        threads.add(int(thread))
        total += sum(truth.values())
    assert {s["thread"] for s in recording.samples} == threads
    complete = [s for s in recording.samples if s["stack"] and recording.stacks[s["stack"]]["end"] == "complete"]
    assert len(complete) > 0.95 * len(recording.samples)
    first, last = recording.capabilities
    assert (first["state"], first["requested"], last["state"]) == ("on", "200 Hz", "on")
    assert first["actual"] == "timer inside the process, 200 Hz, native and Python frames"
    names = {row["tid"] for row in recording.view("thread")}
    assert names >= {s["thread"] for s in recording.samples}
    cost = [row for row in recording.view("cost") if row["kind"] == "timer_sample"]
    assert 0 < sum(row["total_ns"] for row in cost) < 0.01 * 1e9 * total


@pytest.mark.statistical
@pytest.mark.parametrize("hz", [99, 250])
def test_the_actual_rate_is_recorded(record, compiled, hz):
    """Where the kernel's ticks miss threads that take turns, fewer samples come than were asked for."""
    recording = record(compiled("shares"), 2, status=3, options=f"cpu={hz}")
    said = int(re.search(r"(\d+) Hz", recording.capabilities[-1]["actual"])[1])
    with_stack = [sample for sample in recording.samples if sample["stack"] is not None]
    assert len(with_stack) / recording.seconds(with_stack) == pytest.approx(said, rel=0.12)


@pytest.mark.parametrize("python", some(filter(is_known, interpreters())), ids=label)
def test_shares_of_python(record, python):
    program = PROGRAMS / "shares.py"
    recording = record(python["path"], program, 2)
    reason = recording.capabilities[-1]["reason"]
    truth = {name: float(seconds) for name, seconds in map(str.split, recording.result.stdout.splitlines())}
    found, leaves, functions = [], Counter(), {"down", "method", "__call__", "__init__", "__del__", "<lambda>"}
    for sample in recording.samples:
        frames = [frame for frame in recording.frames(sample) if isinstance(frame, tuple)]
        ours = [frame for frame in frames if frame[1] == str(program)]
        name = next((f[0].split(".")[0] for f in ours if f[0].split(".")[0] in truth), None)
        found.append((name, sample["weight_ns"] / 1e9))
        if name is None:  # names are qualified from 3.11 on
            assert {f[0] for f in ours} <= functions | {"<module>", "until"}, ours
            continue
        assert ours[-1][0] == "<module>", ours
        leaves[ours[0][0], ours[0][2]] += sample["weight_ns"] / 1e9
    if not leaves:
        rows = [row for row in recording.view("capability") if row["name"] == "python_stacks"]
        pytest.fail(f"{rows or reason}")
    check_shares(found, truth, 0.1 * 2, PERIOD)
    line = next(i for i, text in enumerate(program.read_text().splitlines(), 1) if "# LINE loops" in text)
    assert leaves["loops", line] > 0.9 * sum(seconds for name, seconds in found if name == "loops")


@pytest.mark.parametrize("python", [p for p in interpreters() if not is_known(p)], ids=label)
def test_unknown_python(record, python):
    """Native frames only, and the reason."""
    recording = record(python["path"], "-c", "sum(i * i for i in range(5000000))")
    reasons = [row["reason"] for row in recording.view("capability") if row["name"] == "python_stacks"]
    assert len(reasons) == 1 and re.search("debug build|is not supported", reasons[0])
    assert {node["kind"] for node in recording.nodes.values()} <= {"native", "interrupted"}


DOWN = """
import time
def down(n):
    end = time.process_time() + 0.5
    while n == 0 and time.process_time() < end:
        sum(range(1000))
    n and down(n - 1)
down(400)
"""


def test_deep_stacks_of_python(record):
    """Imports of large packages are two hundred frames deep."""
    python = next(python for python in interpreters() if is_known(python) and python["version"] >= [3, 11])
    recording = record(python["path"], "-c", DOWN)
    down = [s for s in recording.samples if sum("down" in frame for frame in recording.frames(s) if frame) > 400]
    assert recording.seconds(down) > 0.3
    assert {recording.stacks[s["stack"]]["end"] for s in down} == {"complete"}


def test_the_program_does_not_notice(record, library, environment, tmp_path):
    """Output, status, a signal that kills; a program that is not dynamically linked; children."""
    script = "echo out; echo err >&2; for i in 1 2 3; do ls / > /dev/null; done; (exit 5); exit $?"
    recording = record("sh", "-c", script, status=5, several=True)
    for shell in ([], [recording]):
        result = subprocess.run(["env", f"LD_PRELOAD={library}" if shell else "A=b", "sh", "-c", script],
                                env={**environment, "PITOT_RECORDING": str(tmp_path), "PITOT_OPTIONS": "preload=all;cpu=99"},
                                capture_output=True, text=True)
        assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 5)
    # The recorder's handler for SIGTERM and the end by the same signal.
    killed = subprocess.run(["env", f"LD_PRELOAD={library}", "sh", "-c", "sleep 0.05; kill -TERM $$; sleep 5"],
                            env={**environment, "PITOT_RECORDING": str(tmp_path), "PITOT_OPTIONS": "preload=all;cpu=99"})
    assert killed.returncode == -signal.SIGTERM


def test_static_programs_are_left_alone(record, compiled):
    try:
        program = compiled("threads", "-static")
    except subprocess.CalledProcessError:
        pytest.skip("no static C library")
    assert record(program, 50, 400) is None


def test_nothing_without_preload(record, compiled):
    assert record(compiled("threads"), 50, 400, preload=False) is None
    assert record(compiled("threads"), 50, 400, options="cpu=99;preload=none") is None


def test_waits_are_not_cut_short(record, compiled):
    recording = record(compiled("waits"), options="cpu=250")
    assert recording.result.stdout == "0 waits were cut short\n"
    assert len(recording.samples) > 100


def test_children_survive(record, compiled):
    """Signals are on their way while children are made, become other programs, and end."""
    assert record(compiled("storm"), 150, options="cpu=250", several=True)


def test_no_timers(record, compiled):
    """A sandbox that forbids timer_create."""
    recording = record(compiled("threads"), 50, 400, launcher=[compiled("forbid")])
    assert recording.samples == []
    [row] = recording.capabilities
    assert (row["state"], row["requested"], row["actual"]) == ("unavailable", "200 Hz", None)
    assert row["reason"].startswith("timer_create: Operation not permitted")


@pytest.mark.statistical
def test_threads_that_block_signals(record, compiled):
    recording = record(compiled("blocked"))
    assert recording.result.stdout == "0 odd signals\n"
    assert "2 threads blocked SIGURG" in recording.capabilities[-1]["reason"]
    by_stack = Counter()
    for sample in recording.samples:
        by_stack[sample["stack"] is not None] += sample["weight_ns"] / 1e9
    assert by_stack[True] == pytest.approx(1.0, abs=0.15)
    assert 1.0 < by_stack[False] < 2.3


@pytest.mark.statistical
def test_handlers_that_are_reset(record, compiled):
    recording = record(compiled("handlers"), "reset")
    with_stack = [s for s in recording.samples if s["stack"]]
    assert recording.seconds(with_stack) == pytest.approx(1.5, abs=0.15)


def test_program_with_a_handler_of_its_own(record, compiled):
    recording = record(compiled("handlers"), "own")
    late, noticed = recording.result.stdout.split()
    assert int(late) == 0
    assert 0.5 - PERIOD < recording.seconds() < float(noticed) + PERIOD
    assert recording.capabilities[-1]["state"] == "degraded"
    assert "handles SIGURG itself" in recording.capabilities[-1]["reason"]


@pytest.mark.statistical
def test_small_stacks(record, compiled):
    recording = record(compiled("stacks"), options="cpu=250")
    assert recording.seconds() == pytest.approx(2.1, abs=0.1)
    deep = [s for s in recording.samples if "deep" in recording.frames(s)]
    assert recording.seconds(deep) > 1.5


@pytest.mark.statistical
def test_threads_that_come_and_go(record, compiled):
    recording = record(compiled("threads"), 100)
    assert recording.seconds() > 1.5
    recording = record(compiled("threads"), 3)
    lost = sum(row["count"] for row in recording.view("loss") if row["reason"] == "samples_dropped")
    assert recording.seconds() + lost * PERIOD == pytest.approx(3.0, abs=0.3)


def test_forked_workers(record, pitot, interpreter=None):
    path = record(shutil.which("python3"), PROGRAMS / "workers.py", several=True)
    recording = [json.loads(line) for line in pitot("view", path, "cpu_sample", "--json").stdout.splitlines()]
    by_thread = defaultdict(int)
    for sample in recording:
        by_thread[sample["thread"]] += sample["weight_ns"] / 1e9
    # What a worker did in the last quarter of a second before os._exit is lost.
    assert sum(0.6 < seconds < 1.3 for seconds in by_thread.values()) == 3, by_thread


def test_window(record, compiled):
    """It opens and closes when the recorder looks, which may be late."""
    for seconds in 0.5, 2, 8:
        options = f"cpu=200;delay_ns={seconds * 1e9:.0f};duration_ns={seconds * 1e9:.0f}"
        recording = record(compiled("shares"), 5 * seconds, status=3, options=options)
        if recording.samples:
            break
    spent = sum(float(word) for line in recording.result.stdout.splitlines() for word in line.split()[1:])
    assert 0 < recording.seconds() < 0.6 * spent
