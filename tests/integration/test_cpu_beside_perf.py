"""Timers inside sample Python processes beside perf events: no CPU time counts twice or is missing."""
import collections
import errno
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perf_events import NOBODY, capability, perf_errno, stolen, total
from perfetto_trace import Trace
from pprof import Pprof
from pythons import interpreters, is_known, label, some
from waiting import PATIENCE

HZ = 200
SPIN = 0.4  # as in beside_perf.py
SCRIPT = Path(__file__).parent / "cpu_programs" / "beside_perf.py"
PYTHONS = "/usr/bin/python3", sys.executable

pytestmark = pytest.mark.statistical


class Spent(float):
    """CPU seconds of a process or thread, what its interpreter needed to start, and how much more perf events may have counted."""

    def __new__(cls, seconds, stolen, started=0):
        spent = super().__new__(cls, seconds)
        spent.stolen, spent.started = stolen, float(started)
        return spent


class Said:
    """What the program said: CPU seconds of processes and threads, and other words."""

    def __init__(self, text, stolen):
        self.lines, self.stolen = [line.split() for line in text.splitlines()], stolen

    def processes(self):
        return {int(words[0]): Spent(words[2], self.stolen, words[3]) for words in self.lines if words[1] == "process"}

    def threads(self):
        return {int(words[2]): Spent(words[3], self.stolen) for words in self.lines if words[1] == "thread"}

    def words(self, key):
        return next(words[2:] for words in self.lines if words[1] == key)


@pytest.fixture
def as_user(request, program):
    """How perf events are what is taken: a command's first words, and who runs it."""
    if getattr(request, "param", "nobody") == "nobody":
        if os.geteuid() != 0:
            options = {}
        else:
            options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        words = []
    else:
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            pytest.skip("needs root and setpriv")
        words, options = ["setpriv", "--bounding-set", "-bpf,-sys_admin", "--"], {}
    if subprocess.run(["test", "-x", program], **options).returncode:
        pytest.skip(f"{program} is not for everybody")
    refused = perf_errno(NOBODY if options else 0)
    if refused:
        pytest.skip(f"the kernel forbids perf_event_open: {errno.errorcode[refused]}")
    return words, options


@pytest.fixture
def python(as_user):
    """A Python that this user may run."""
    for path in PYTHONS:
        if Path(path).exists() and subprocess.run(["test", "-x", path], **as_user[1]).returncode == 0:
            return path
    pytest.skip("no Python for this user")


@pytest.fixture
def sample(program, folder, as_user, python, library, environment, rows):  # noqa: F811
    """Records beside_perf.py: sample("middle"), in a Python that the recorder is in from the start: started=True."""
    recorder = folder / "libpitot.so"
    shutil.copy(library, recorder)
    shutil.copy(SCRIPT, folder)
    words, user = as_user

    def run(*arguments, started=False, options=(), launcher=("sh", "-c", '"$@"; exit $?', "sh"), env=None,
            command=None):
        recording = folder / "out.pitot"
        if started:
            shutil.copy(library.parent / "libpitot-preload.so", folder)
        command = command or [*(() if started else launcher), python, folder / SCRIPT.name, *arguments]
        whole = [*words, program, "record", "-q", f"--cpu={HZ}", *options, "-o", recording, "--", *command]
        before = stolen()
        result = subprocess.run(list(map(str, whole)), capture_output=True, text=True, timeout=PATIENCE, cwd=folder,
                                env={**environment, "PITOT_LIBRARY": str(recorder), **(env or {})}, **user)
        assert result.returncode == 0, result.stderr
        if not options and "perf_event" not in capability(rows, recording, "cpu")["actual"]:
            pytest.skip("perf events are not what is taken here")
        return recording, Said(result.stdout, stolen() - before)

    return run


@pytest.fixture
def seconds(rows):
    """CPU seconds of the samples by pid, or by tid; only those with a stack, if wanted."""

    def read(recording, by="pid", with_stack=False):
        weights = collections.Counter()
        processes = {row["pid"] for row in rows(recording, "process")}
        for row in rows(recording, "cpu_sample"):
            key = row.get("pid", min(processes)) if by == "pid" else row["thread"]
            if row["stack"] is not None or not with_stack:
                weights[key] += row["weight_ns"] / 1e9
        return weights

    return read


def in_python(weights, name):
    """Seconds in a Python function of beside_perf.py."""
    return sum(w for stack, w in weights if any(frame.startswith(f"{name} (") and SCRIPT.name in frame for frame in stack)) / 1e6


@pytest.fixture
def heaviest(rows):
    """Seconds that the heaviest sample stands for: so much of it may be of what ran before. On a busy machine signals are late."""
    return lambda recording: max(row["weight_ns"] for row in rows(recording, "cpu_sample") if row["stack"]) / 1e9


@pytest.fixture
def about_a_spin(heaviest):
    return lambda recording: pytest.approx(SPIN, abs=max(0.06, heaviest(recording)))


def about(spent):
    """Besides: what the interpreter does after it has said so, which is less than its start, and periods. Where others wait for
    the processors, too, samples are late."""
    is_busy = os.getloadavg()[0] > os.cpu_count()
    slack, more = (0.08 if is_busy else 0.03) * max(spent, 1), (spent.started + spent.stolen) / 2
    return pytest.approx(spent + 0.01 + more, rel=0, abs=slack + more)


def about_thread(spent):
    """But for a few samples at either end."""
    return pytest.approx(spent + spent.stolen / 2, rel=0, abs=max(0.04 * spent, 0.03) + spent.stolen / 2)


def cells(rows, recording):
    return [row for row in rows(recording, "capability") if row["name"] == "cpu_timer"]


@pytest.mark.parametrize("as_user", ["root without eBPF", "nobody"], indirect=True)
def test_sampled_from_its_start(sample, seconds, stacks, rows, pitot, about_a_spin, heaviest):  # noqa: F811
    recording, said = sample("sampled", started=True)
    [truth] = said.processes().values()
    assert sum(seconds(recording).values()) == about(truth)
    weights = stacks(recording)
    for name in "early", "late":
        assert in_python(weights, name) == about_a_spin(recording)
    assert "timers in Python programs" in capability(rows, recording, "cpu")["actual"]
    assert {row["state"] for row in cells(rows, recording)} == {"on"}
    report = pitot("report", recording, "--json", json_output=True)["cpu"]
    since_timer = report["total_ns"] - 1e9 * truth.started  # the interpreter's start is sampled from outside
    assert since_timer - max(0.05 * since_timer, 2e9 * heaviest(recording)) < report["inside_ns"] < report["total_ns"]
    assert "sampled by timers inside" in pitot("report", recording).stdout
    assert "cpu_timer" in pitot("info", recording).stdout
    coverage = capability(rows, recording, "cpu_time")
    sampled, spent = map(float, re.match(r"([\d.]+) s in samples of ([\d.]+) s of CPU time", coverage["actual"]).groups())
    # On a machine that other work keeps busy the samples at the ends stand for more than a twentieth.
    assert sampled > 0.8 * spent and coverage["state"] == ("on" if sampled > 0.95 * spent else "degraded")


@pytest.mark.parametrize("interpreter", some(interpreters()), ids=label)
def test_each_python(sample, seconds, stacks, rows, folder, as_user, interpreter, about_a_spin):  # noqa: F811
    if subprocess.run(["test", "-x", interpreter["path"]], **as_user[1]).returncode:
        pytest.skip("not for this user")
    recording, said = sample(command=[interpreter["path"], folder / SCRIPT.name, "sampled" if is_known(interpreter) else "plain"],
                             env=interpreter["environment"], started=True)
    assert sum(seconds(recording).values()) == about(*said.processes().values())
    if is_known(interpreter):
        assert in_python(stacks(recording), "early") == about_a_spin(recording)
    else:
        [row] = cells(rows, recording)
        assert row["state"] == "unavailable" and "is not supported" in row["reason"]


def test_a_window(sample, seconds, rows):  # noqa: F811
    """It begins and ends with what `pitot record` sets up before; the recorder may look late, and so close it late."""
    for ms in 400, 1600, 6400:
        recording, said = sample("works", str(5 * ms / 1e3), started=True,
                                 options=["-f", "--delay", f"{ms}ms", "--duration", f"{ms}ms"])
        if seconds(recording):
            break
    assert 0 < sum(seconds(recording).values()) < 0.6 * sum(said.processes().values())


def test_the_timer_alone_from_the_start(sample, seconds, stacks, rows, about_a_spin):  # noqa: F811
    """Where perf events are forbidden, as in a container."""
    recording, said = sample("sampled", started=True, options=["--cpu-via", "timer"])
    assert sum(seconds(recording).values()) == about(*said.processes().values())
    assert in_python(stacks(recording), "early") == about_a_spin(recording)
    assert cells(rows, recording) == []


@pytest.mark.parametrize("first_line", ["#!{}", "#!/usr/bin/env -S {} -u"])
def test_a_script_of_a_python(sample, seconds, stacks, heaviest, folder, python, first_line):  # noqa: F811
    script = folder / "script"
    script.write_text(first_line.format(python) + "\n" + SCRIPT.read_text())
    script.chmod(0o755)
    recording, said = sample(started=True, command=[script, "sampled"])
    assert sum(seconds(recording).values()) == about(*said.processes().values())
    assert total(w for w in stacks(recording) if any(frame.startswith("early (") for frame in w[0])) > SPIN - max(0.04, heaviest(recording))


@pytest.mark.parametrize("launcher", ["timeout -s KILL 300", "nice -n 1 env -u LANG A=1"])
def test_behind_a_launcher(sample, seconds, stacks, heaviest, folder, python, launcher):  # noqa: F811
    script = folder / SCRIPT.name
    recording, said = sample(started=True, command=[*launcher.split(), python, script, "sampled"])
    assert sum(seconds(recording).values()) >= 0.95 * sum(said.processes().values())
    assert total(w for w in stacks(recording) if any(frame.startswith("early (") for frame in w[0])) > SPIN - max(0.04, heaviest(recording))
    _, said = sample(started=True, command=[*launcher.split(), python, script, "environment"], options=["-f"])
    assert said.words("LD_PRELOAD") == ["None"] and said.words("child") == []


@pytest.mark.parametrize("launcher", ["", "timeout 300"])
def test_no_preload_for_other_programs(sample, python, launcher):  # noqa: F811
    _, said = sample(started=True, command=[*launcher.split(), "sh", "-c", "echo 1 LD_PRELOAD $LD_PRELOAD", python])
    assert said.words("LD_PRELOAD") == []


def test_cpu_only(sample, stacks, about_a_spin):  # noqa: F811
    recording, _ = sample("sampled", started=True, options=["--cpu-only"])
    assert in_python(stacks(recording), "early") == about_a_spin(recording)


@pytest.mark.parametrize("as_user", ["root without eBPF", "nobody"], indirect=True)
def test_attach_to_a_running_process(sample, seconds, stacks, rows, heaviest, about_a_spin):  # noqa: F811
    recording, said = sample("middle")
    [(pid, truth)] = said.processes().items()
    assert seconds(recording)[pid] == about(truth)
    by_thread = seconds(recording, by="tid")
    for tid, spent in said.threads().items():
        assert by_thread[tid] == about_thread(spent)
    weights = stacks(recording)
    assert in_python(weights, "early") == 0
    assert in_python(weights, "late") == about_a_spin(recording)
    # One thread began before, and was taken over; one after.
    assert 1.5 * SPIN < in_python(weights, "beside") < 3 * SPIN + max(0.02, heaviest(recording))
    # Before, there are native stacks; none of a thread until it is found.
    assert sum(seconds(recording, with_stack=True).values()) > 0.85 * truth
    first, last = cells(rows, recording)
    assert first["actual"] == f"timer inside the process, {HZ} Hz, native and Python frames"
    # The recorder's other threads may be among them.
    assert re.search("in [3-5] threads", last["reason"]) and rows(recording, "loss") == []


@pytest.mark.parametrize("as_user", ["root without eBPF"], indirect=True)
def test_every_view_has_the_same_time(sample, seconds, stacks, pitot, rows, tmp_path):  # noqa: F811
    """Also of a process that becomes another user, whose rows the command then writes."""
    recording, said = sample("becomes_another_user")
    [(pid, truth)] = said.processes().items()
    weights = seconds(recording)
    assert weights[pid] == about(truth)
    whole = sum(weights.values())
    cpu = pitot("report", recording, "--json", json_output=True)["cpu"]
    assert cpu["total_ns"] / 1e9 == pytest.approx(whole)
    assert sum(thread["total_ns"] for thread in cpu["threads"]) == cpu["total_ns"]
    assert sum(function["self_ns"] for function in cpu["functions"]) + cpu["without_stack_ns"] == \
        pytest.approx(cpu["total_ns"])
    assert total(stacks(recording)) == pytest.approx(whole, rel=1e-3)
    # Exports have it to the nanosecond; an item of a timeline is a sample.
    assert rows(recording, "cpu_span"), "some samples do not count"
    for name in "x.pb.gz", "x.speedscope.json", "x.json":
        pitot("flame", recording, "--mode", "cpu", "-o", tmp_path / name)
    assert Pprof(gzip.decompress((tmp_path / "x.pb.gz").read_bytes())).sum("cpu") == cpu["total_ns"]
    [profile] = json.loads((tmp_path / "x.speedscope.json").read_text())["profiles"]
    assert profile["unit"] == "nanoseconds" and sum(profile["weights"]) == cpu["total_ns"]
    threads = json.loads((tmp_path / "x.json").read_text())["threads"]
    assert sum(sum(thread["samples"]["weight"]) for thread in threads) == pytest.approx(cpu["total_ns"] / 1e6)
    pitot("export", recording, "-o", tmp_path / "x.perfetto-trace")
    samples = Trace((tmp_path / "x.perfetto-trace").read_bytes()).samples
    assert sum(sample.weight for sample in samples) == cpu["total_ns"]


@pytest.mark.parametrize("how", ["_exit", "SIGTERM", "SIGKILL"])
def test_a_process_that_ends_at_once(sample, seconds, how):
    """What the timer had not written is not forgotten."""
    recording, said = sample("ends_at_once", how, launcher=("sh", "-c", '"$@"; exit 0', "sh"))
    [(pid, truth)] = said.processes().items()
    assert seconds(recording)[pid] == about(truth)


def test_a_process_that_becomes_another_program(sample, seconds, stacks, heaviest, folder, python):  # noqa: F811
    recording, said = sample("becomes", python, folder / SCRIPT.name, "plain")
    [(pid, truth)] = said.processes().items()  # the second's count goes on from the first's
    assert seconds(recording)[pid] == about(truth)
    assert 0.05 < in_python(stacks(recording), "late") < SPIN + max(0.03, heaviest(recording))


def test_a_recorder_in_each_program_of_a_chain(sample, seconds, stacks, folder, python):  # noqa: F811
    recording, said = sample("becomes", python, folder / SCRIPT.name, "middle")
    [(pid, truth)] = said.processes().items()
    assert seconds(recording)[pid] == about(truth)
    assert in_python(stacks(recording), "late") > SPIN + 0.05


def test_forked_workers(sample, seconds, stacks):  # noqa: F811
    recording, said = sample("forks")
    spent, found = said.processes(), seconds(recording)
    assert len(spent) == 3
    for pid, truth in spent.items():
        # The time of a process that has ended is what was last read of it.
        assert found[pid] == about(truth) or truth - 0.15 < found[pid] < truth
    # Workers end by os._exit: their last quarter of a second has no stacks.
    assert in_python(stacks(recording), "late") > SPIN + 0.1


def test_a_program_that_takes_the_signal(sample, seconds, stacks, rows, about_a_spin):  # noqa: F811
    """Perf events have the process again."""
    recording, said = sample("takes_the_signal")
    [(pid, truth)] = said.processes().items()
    assert seconds(recording)[pid] == about(truth)
    assert seconds(recording, with_stack=True)[pid] > 0.9 * truth
    assert in_python(stacks(recording), "late") == about_a_spin(recording)
    assert in_python(stacks(recording), "early") == 0
    assert "handles SIGURG itself" in cells(rows, recording)[-1]["reason"]


def test_a_thread_that_blocks_the_signal_has_no_stacks_meanwhile(sample, seconds, stacks, rows):  # noqa: F811
    recording, said = sample("blocks_the_signal")
    [(pid, truth)], [(tid, spent)] = said.processes().items(), said.threads().items()
    assert seconds(recording)[pid] == about(truth)
    assert seconds(recording, by="tid")[tid] == about_thread(spent)
    # It may have its timer before it blocks the signal, and gets one when it has been seen not to.
    assert in_python(stacks(recording), "early") < 0.2
    assert in_python(stacks(recording), "beside") > 0.02
    assert "1 thread blocked SIGURG" in cells(rows, recording)[-1]["reason"]


def test_a_thread_for_which_there_is_no_timer(sample, seconds, rows):
    recording, said = sample("refuses_timers")
    [(pid, truth)], [(tid, spent)] = said.processes().items(), said.threads().items()
    assert seconds(recording)[pid] == about(truth)
    # What it did before it ended, after its clock was last read, is the process's.
    assert 0 < seconds(recording, by="tid")[tid] < spent + 0.012
    assert seconds(recording, by="tid", with_stack=True)[tid] == 0
    assert "1 thread had no timer" in cells(rows, recording)[-1]["reason"]


def test_threads_too_short_to_be_found(sample, seconds):
    recording, said = sample("short_threads")
    [(pid, truth)] = said.processes().items()
    assert seconds(recording)[pid] == about(truth)


def test_a_pid_namespace_of_its_own(sample, seconds, stacks, rows, as_user):  # noqa: F811
    unshare = ["unshare", "-rpf", "--mount-proc"]
    if subprocess.run([*as_user[0], *unshare, "true"], capture_output=True, **as_user[1]).returncode:
        pytest.skip("no namespaces for this user")
    recording, said = sample("middle", "alone", launcher=unshare)
    [truth] = said.processes().values()
    assert max(seconds(recording).values()) == about(truth)
    assert in_python(stacks(recording), "late") == 0
    assert "pid namespace" in cells(rows, recording)[-1]["reason"]


def test_nothing_of_it_where_perf_events_are_asked_for(sample, stacks, rows):  # noqa: F811
    recording, _ = sample("middle", "alone", options=["--cpu-via", "perf"])
    assert in_python(stacks(recording), "late") == 0 and cells(rows, recording) == []
    assert "no Python frames" in capability(rows, recording, "cpu")["reason"]


def test_what_the_program_sees(sample):
    _, said = sample("environment", started=True)
    assert said.words("LD_PRELOAD") == ["None"] and said.words("child") == []
    assert said.words("interrupt")[0] == "True"
    others = {"LD_PRELOAD": "libm.so.6", "ASAN_OPTIONS": "verify_asan_link_order=0"}
    _, said = sample("environment", started=True, options=["-f"], env=others)
    assert said.words("LD_PRELOAD") == ["libm.so.6"]
