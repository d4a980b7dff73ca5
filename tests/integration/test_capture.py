"""pitot capture: whole steps of a running program: exactly these, whoever records it, and what it says where there are none."""
import json
import os
import re
import signal
import subprocess

import pytest

from screen_model import Terminal
from waiting import PATIENCE, wait_until


@pytest.fixture
def loop(make_tape):
    """A tape of sixty steps of ten kernels, each tenth of them long, with batches on another thread."""
    return make_tape("loop", 60)


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def is_recorded(pid):
    """Whether the recorder's thread has a segment open; before it executes its program it has those of `pitot record`."""
    if not os.readlink(f"/proc/{pid}/exe").endswith("tape-play"):
        return False
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            if open(f"/proc/{pid}/task/{task}/comm").read() != "pitot\n":
                continue
            links = [os.readlink(f"/proc/{pid}/task/{task}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/task/{task}/fd")]
        except OSError:  # it has just ended
            continue
        if any(link.endswith(".pit") or "memfd:pitot segment" in link for link in links):
            return True
    return False


@pytest.fixture
def started(environment):
    processes = []

    def start(*command, **more):
        processes.append(subprocess.Popen(list(map(str, command)), env={**environment, "ASAN_OPTIONS": "detect_leaks=0", **more}, text=True,
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def recorded(started, program, player, tmp_path):
    """recorded(tape, "--ring", "10m", play=("--realtime",)): a `pitot record`; its command is below it."""

    def record(tape, *options, play=("--realtime", "--repeat", "100000")):
        process = started(program, "record", "-q", "--no-cpu", "--stacks", "none", "-o", tmp_path / "run.pitot", *options, "--", player, *play, tape)
        wait_until(lambda: child_of(process.pid) and is_recorded(child_of(process.pid)[0]), "it records", process)
        return process

    return record


@pytest.fixture
def prepared(started, build, player):
    def prepare(tape, *play):
        library = str(build / "libpitot.so")
        process = started(player, "--realtime", "--repeat", "100000", *play, tape, PITOT_IDLE="1", CUDA_INJECTION64_PATH=library,
                          NVTX_INJECTION64_PATH=library)
        wait_until(lambda: f"@pitot-idle-{process.pid}-" in open(f"/proc/{process.pid}/net/unix").read(), "it is prepared", process)
        return process

    return prepare


@pytest.fixture
def capture(pitot, tmp_path):
    """capture(pid, "--steps", 3): the folder, and what --json says."""

    def run(*arguments, status=0):
        folder = tmp_path / "capture.pitot"
        done = pitot("capture", "--json", "-f", "-o", folder, "--no-symbols", *arguments, status=status)
        return folder, json.loads(done.stdout), done.stderr

    return run


def spans(rows, folder):
    """The steps of a recording, and what the GPU did, by correlation id."""
    ranges = rows(folder, "nvtx", "-c", "time,kind,thread,message")
    steps = [row for row in ranges if row["kind"] == "push" and row["message"] == "train_step"]
    kernels = {row["correlation"]: row for row in rows(folder, "kernel", "-c", "name,start,duration,correlation")}
    return ranges, steps, kernels


def check(pitot, rows, folder, said, wanted):
    """There are as many whole steps, each with its ten launches and their kernels, and nothing is damaged, missing or of another time."""
    pitot("info", "--verify", folder)
    assert {row["reason"] for row in rows(folder, "loss")} <= {"late_start"}
    ranges, steps, kernels = spans(rows, folder)
    assert len(steps) == len(said["steps"]) == wanted
    pops = [row["time"] for row in ranges if row["kind"] == "pop" and row["thread"] == said["thread"]]
    assert [pop - step["time"] for step, pop in zip(steps, pops)] == [step["duration_ns"] for step in said["steps"]]
    calls = rows(folder, "api_call", "-c", "start,correlation,function")
    for step, pop in zip(steps, pops):
        launched = [call["correlation"] for call in calls if step["time"] <= call["start"] <= pop]
        assert len(launched) == 10 and all("in_step" in kernels[correlation]["name"] for correlation in launched)
    assert set(kernels) <= {call["correlation"] for call in calls}, "each kernel has its launch"
    assert len(kernels) == said["gpu_work"]
    report = pitot("report", folder, "--steps", "--json", json_output=True)
    assert [found["count"] for found in report["steps"]["loops"]] == [wanted]
    window = {row["state"]: row["reason"] for row in rows(folder, "capability") if row["name"] == "window"}
    assert set(window) == {"on", "off"} and window["on"].startswith(f"{wanted} steps of thread {said['thread']}, ")


# Alone: on a busy machine a tape plays so slowly that its GPU is done long before the calls, and a step's first work is before its window.
@pytest.mark.alone
@pytest.mark.parametrize("options", [(), ("--ring", "10m")], ids=["disk", "ring"])
def test_of_a_recorded_program(recorded, loop, capture, pitot, rows, options):
    process = recorded(loop, *options)
    [pid] = child_of(process.pid)
    for named in process.pid, pid:
        folder, said, _ = capture(named, "--steps", 12)
        assert said["process"] == said["thread"] == pid
        check(pitot, rows, folder, said, 12)
        assert max(step["duration_ns"] for step in said["steps"]) > 390e6, "one of ten is long"
        assert said["begin_is_known"] and said["launches_without_end"] == said["missing_segments"] == 0


def test_it_is_a_part_of_the_recording(recorded, loop, capture, rows, pitot, tmp_path):
    """Each piece of work that ran in the window is there, and nothing else."""
    process = recorded(loop)
    folder, said, _ = capture(process.pid, "--steps", 3)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate()
    whole = json.loads(pitot("info", "--json", tmp_path / "run.pitot").stdout)["start_monotonic_ns"]
    begin, end = said["start_monotonic_ns"] - whole, said["end_monotonic_ns"] - whole
    expected = {row["correlation"] for row in rows(tmp_path / "run.pitot", "kernel", "-c", "start,duration,correlation")
                if row["start"] <= end and row["start"] + row["duration"] >= begin}
    assert set(spans(rows, folder)[2]) == expected


@pytest.mark.alone
def test_of_a_prepared_program(prepared, loop, capture, pitot, rows):
    process = prepared(loop)
    for _ in range(2):
        folder, said, _ = capture(process.pid, "--steps", 2)
        check(pitot, rows, folder, said, 2)
        threads = lambda: {open(f"/proc/{process.pid}/task/{task}/comm").read().strip() for task in os.listdir(f"/proc/{process.pid}/task")}
        wait_until(lambda: {name for name in threads() if name.startswith("pitot-")} == {"pitot-idle"}, "it is left as it was", process)


@pytest.mark.alone
def test_two_at_once(prepared, loop, program, environment, pitot, rows, tmp_path, started):
    process = prepared(loop)
    folders = [tmp_path / f"{i}.pitot" for i in range(2)]
    running = [started(program, "capture", "--json", "--no-symbols", "--steps", 3, "-o", folder, process.pid) for folder in folders]
    for each, folder in zip(running, folders):
        out, err = each.communicate(timeout=PATIENCE)
        assert each.returncode == 0, err
        check(pitot, rows, folder, json.loads(out), 3)
    assert process.poll() is None


@pytest.mark.parametrize("engine", ["pm-sampling", "range-profiler"])
def test_steps_that_an_engine_measures(prepared, loop, capture, rows, engine):
    """Counters of just these steps: of each of their kernels, or of their time."""
    process = prepared(loop)
    folder, said, _ = capture(process.pid, "--steps", 2, "--engine", engine, "--metrics", "launch__correlation.sum,sm__cycles_active.avg")
    assert len(said["steps"]) == 2
    kernels = {row["correlation"] for row in rows(folder, "kernel")}
    if engine == "range-profiler":
        measured = rows(folder, "metric_value")
        assert measured and {row["correlation"] for row in measured} <= kernels
        assert all(row["value"] == row["correlation"] for row in measured if row["metric"] == "launch__correlation.sum")
    else:
        [begin], [end] = ([row["time_ns"] for row in rows(folder, "capability") if row["name"] == "window" and row["state"] == state]
                          for state in ("on", "off"))
        times = [row["time_ns"] for row in rows(folder, "counter_sample")]
        assert times and begin <= min(times) and max(times) <= end


def test_an_engine_needs_a_prepared_program(recorded, loop, pitot, tmp_path):
    process = recorded(loop)
    refused = pitot("capture", "--engine", "pm-sampling", "-o", tmp_path / "a.pitot", process.pid, status=1).stderr
    assert "--engine: process" in refused and "has the recorder, but was not prepared: start it with PITOT_IDLE=1" in refused
    for options in ("--metrics", "x"), ("--engine", "trace", "--kernels", "x"):
        assert "need --engine pm-sampling or range-profiler" in pitot("capture", *options, process.pid, status=2).stderr


def test_steps_of_another_thread(recorded, loop, capture, rows):
    """The thread that spends most time in steps counts, unless steps are named."""
    process = recorded(loop)
    _, first, _ = capture(process.pid, "--steps", 2)
    folder, said, _ = capture(process.pid, "--steps", 2, "--name", "batch")
    assert said["thread"] != first["thread"] and len(said["steps"]) == 2
    batches = [row for row in rows(folder, "nvtx", "-c", "kind,message") if row["message"] == "batch" and row["kind"] == "push"]
    assert len(batches) == 2 and max(step["duration_ns"] for step in said["steps"]) < 90e6


def test_after_a_rule(recorded, loop, capture, rows, pitot):
    process = recorded(loop)
    folder, said, _ = capture(process.pid, "--steps", 1, "--when", "step-time > 300ms", "--timeout", "10m")
    [row] = rows(folder, "trigger")
    assert row["rule"] == "step-time > 300ms" and said["steps"][0]["duration_ns"] < 300e6
    assert "rules that held" in pitot("report", folder).stdout


@pytest.mark.alone
def test_the_program_ends_before(recorded, loop, capture, pitot, rows):
    process = recorded(loop, play=("--realtime",))
    folder, said, err = capture(process.pid, "--steps", 5000, "--timeout", "10m", status=1)
    count = len(said["steps"])
    assert 0 < count <= 60 and re.search(rf"ended: {count} of 5000 steps", err), err
    check(pitot, rows, folder, said, count)
    process.communicate(timeout=PATIENCE)


def test_the_program_is_killed(recorded, loop, started, program, tmp_path):
    process = recorded(loop)
    [pid] = child_of(process.pid)
    capture = started(program, "capture", "--steps", 5000, "--timeout", "10m", "--no-symbols", "-o", tmp_path / "c.pitot", pid)
    assert "waiting for" in capture.stderr.readline()
    os.kill(pid, signal.SIGKILL)
    err = capture.communicate(timeout=PATIENCE)[1]
    assert capture.returncode == 1 and "the process ended" in err, err


def test_work_that_does_not_end(recorded, loop, capture, tmp_path):
    """It is waited for no longer than others show that the program goes on; what has no end is counted."""
    (tmp_path / "faults").write_text("incomplete every 50")
    process = recorded(loop, play=("--realtime", "--repeat", "100000", "--faults", tmp_path / "faults"))
    _, said, err = capture(process.pid, "--steps", 20)
    assert len(said["steps"]) == 20 and said["launches_without_end"] > 0
    assert re.search(r"until the last step's end ha(s|ve) no GPU work with an end", err)


def test_a_pid_that_is_used_again(recorded, loop, started, program, rows, tmp_path):
    """The recording is of the process that had it first."""
    counter = "/proc/sys/kernel/ns_last_pid"
    process = recorded(loop)
    [pid] = child_of(process.pid)
    capture = started(program, "capture", "--steps", 5000, "--timeout", "10m", "--no-symbols", "-o", tmp_path / "c.pitot", pid)
    assert "waiting for" in capture.stderr.readline()
    wait_until(lambda: rows(tmp_path / "run.pitot", "kernel", "-n", "1", status=None), "there is a step", capture)
    capture.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    for _ in range(100):
        try:
            open(counter, "w").write(str(pid - 1))
        except OSError:
            pytest.skip("process ids cannot be chosen here")
        other = started("sleep", "1000")
        if other.pid == pid:
            break
    else:
        pytest.skip("somebody else was faster")
    capture.send_signal(signal.SIGCONT)
    err = capture.communicate(timeout=PATIENCE)[1]
    assert capture.returncode == 1 and "the process ended" in err, err
    if (tmp_path / "c.pitot").exists():
        text = (tmp_path / "c.pitot/recording.json").read_text() + json.dumps(rows(tmp_path / "c.pitot", "process"))
        assert "tape-play" in text and "sleep" not in text


def test_there_are_no_steps(recorded, capture, pitot, source, tmp_path):
    process = recorded(source / "tests/data/tapes/launch.tape")
    said = pitot("capture", process.pid, "--timeout", "1s", "-o", tmp_path / "c.pitot", status=1).stderr
    assert "no step began" in said and "pitot.steps(loader)" in said and "--name NAME" in said
    said = pitot("capture", process.pid, "--timeout", "1s", "--name", "nobody", status=1).stderr
    assert "no range or scope called 'nobody' began" in said
    said = pitot("capture", process.pid, "--timeout", "1s", "--when", "hang > 1h", status=1).stderr
    assert "the rule did not hold" in said
    assert not (tmp_path / "c.pitot").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left(prepared, loop, started, program, pitot, tmp_path, number):
    process = prepared(loop)
    capture = started(program, "capture", "--steps", 5000, "-o", tmp_path / "c.pitot", process.pid)
    assert "waiting for" in capture.stderr.readline()
    capture.send_signal(number)
    capture.communicate(timeout=PATIENCE)
    assert capture.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert not list(tmp_path.glob("*.pitot"))
    wait_until(lambda: "; 0 recordings" in " ".join(pitot("doctor", "-p", process.pid).stdout.split()), "its recording ends", process)


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "late"])
def test_a_ring_that_goes_round(recorded, make_tape, started, program, pitot, rows, tmp_path, is_late):
    """What was read in time stays, however small the ring; what was not is said to be missing."""
    process = recorded(make_tape("steps", 200), "--ring", "64K")
    capture = started(program, "capture", "--json", "--steps", 3000, "--timeout", "10m", "--no-symbols", "-o", tmp_path / "c.pitot", process.pid)
    assert "waiting for" in capture.stderr.readline()
    if is_late:
        wait_until(lambda: dropped(pitot, process.pid, tmp_path) > 0, "the ring goes round", process)
        capture.send_signal(signal.SIGSTOP)
        before = dropped(pitot, process.pid, tmp_path)
        wait_until(lambda: dropped(pitot, process.pid, tmp_path) > before + 20, "all that the ring had is gone", process)
        capture.send_signal(signal.SIGCONT)
    out, err = capture.communicate(timeout=PATIENCE)
    assert capture.returncode == 0, err
    said = json.loads(out)
    assert len(said["steps"]) == 3000
    missing = sum(int(count.replace(",", "")) for count in re.findall(r"missing_segment +([\d,]+)", pitot("info", tmp_path / "c.pitot").stdout))
    assert missing == said["missing_segments"] and ("the ring dropped" in err) == bool(missing)
    assert missing or not is_late


def dropped(pitot, pid, tmp_path):
    """How many segments a ring has dropped."""
    done = pitot("dump", pid, "-f", "-o", tmp_path / "dump.pitot", status=None)
    found = [int(path.name.split(".")[1]) for path in (tmp_path / "dump.pitot").glob("[0-9]*.pit")] if done.returncode == 0 else []
    return min(found, default=0)


def test_a_full_disk(recorded, loop, small_disk, pitot):
    disk = small_disk("size=16k")
    process = recorded(loop)
    said = pitot("capture", process.pid, "--steps", "30", "--no-symbols", "-o", disk / "c.pitot", status=1).stderr
    assert "cannot" in said and "No space left on device" in said
    assert not (disk / "c.pitot").exists()


def test_what_it_refuses(pitot, recorded, prepared, loop, tmp_path):
    assert "is not the id" in pitot("capture", "x", status=2).stderr
    assert "there is no process 999999999" in pitot("capture", "999999999", status=1).stderr
    assert "was not prepared" in pitot("capture", os.getpid(), status=1).stderr
    assert "belongs to `pitot record --ring`" in pitot("capture", "--when", "signal USR2", "1", status=2).stderr
    (tmp_path / "there.pitot").mkdir()
    assert "exists" in pitot("capture", "-o", tmp_path / "there.pitot", "1", status=1).stderr
    one, two = recorded(loop), prepared(loop)
    said = pitot("capture", "--timeout", "1s", status=2).stderr
    found = re.search(r"there are (\d+) such processes: ([\d, ]+).*name one of them: pitot capture \d", said)
    listed = {int(pid) for pid in found[2].split(",")}
    assert {two.pid, *child_of(one.pid)} <= listed or int(found[1]) > 8, "other tests have theirs, and the list is short"


@pytest.fixture
def screen(program, environment, tmp_path):
    """screen("record", "-p", 4711): it on a terminal that is that of its session."""
    terminals = []

    def start(*words):
        terminals.append(Terminal([program, *words], {**environment, "TERM": "xterm", "ASAN_OPTIONS": "detect_leaks=0"}, 160, 40, session=True))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def test_keys_while_a_program_is_recorded(prepared, loop, screen, rows, tmp_path, monkeypatch):
    """They mark, capture a step and leave; the program and the terminal are as they were."""
    process = prepared(loop)
    monkeypatch.chdir(tmp_path)
    terminal = screen("record", "--no-cpu", "--stacks", "none", "-o", tmp_path / "r.pitot", "-p", process.pid)
    terminal.wait(lambda s: "? for keys" in s.text() and "kernels/s" in s.text(), "the live line says that there are keys")
    terminal.type("?x")
    terminal.wait(lambda s: "keys: m mark, d dump the last 30 s of its ring, c capture a step, e measure hardware counters for 10 s, "
                  "q leave the process" in " ".join(s.text().split()), "the keys that there are")
    terminal.type("mm")
    terminal.wait(lambda s: "mark 1" in s.text() and "mark 2" in s.text(), "two marks")
    terminal.type("cc")
    terminal.wait(lambda s: "waiting for 1 step of process" in s.text() and "the last one goes on" in s.text(), "a capture, and no second one")
    terminal.wait(lambda s: "1 step of thread" in s.text() and "pitot report" in s.text(), "it is there")
    [made] = tmp_path.glob("capture-*.pitot")
    steps = wait_until(lambda: rows(made, "nvtx", "-c", "kind,message", status=None), "it is complete")
    assert len([row for row in steps if row["message"] == "train_step"]) == 1, steps
    terminal.type("q")
    terminal.end()
    assert process.poll() is None
    marks = [row["message"] for row in rows(tmp_path / "r.pitot", "nvtx", "-c", "kind,message") if row["kind"] == "mark"]
    assert marks == ["mark 1", "mark 2"]


def test_a_key_deepens_the_recording(prepared, source, screen, rows, tmp_path):
    """An engine measures from then on, in the same recording; leaving ends that as well."""
    process = prepared(source / "tests/data/tapes/launch.tape")
    path = tmp_path / "r.pitot"
    terminal = screen("record", "--no-cpu", "--stacks", "none", "--metrics", "sm__cycles_active.avg", "-o", path, "-p", process.pid)
    terminal.wait(lambda s: "kernels/s" in s.text(), "it records")
    assert not rows(path, "counter_sample", status=None)
    terminal.type("e")
    terminal.wait(lambda s: "hardware counters are measured for 10 s" in s.text(), "an engine")
    terminal.type("e")
    terminal.wait(lambda s: any(said in s.text() for said in ("are being measured", "measured no more")), "and no second one")
    wait_until(lambda: rows(path, "counter_sample", status=None), "there are samples")
    terminal.type("q")
    terminal.end()
    assert process.poll() is None
    names = {row["name"] for row in rows(path, "counter")}
    assert "sm__cycles_active.avg" in names and rows(path, "counter_sample") and rows(path, "kernel")


def test_an_engine_that_does_not_know_the_metrics(prepared, source, screen, tmp_path):
    process = prepared(source / "tests/data/tapes/launch.tape")
    terminal = screen("record", "--no-cpu", "--stacks", "none", "--metrics", "nothing.avg", "-o", tmp_path / "r.pitot", "-p", process.pid)
    terminal.wait(lambda s: "kernels/s" in s.text(), "it records")
    terminal.type("e")
    terminal.wait(lambda s: f"no hardware counters: process {process.pid}: " in s.text(), "why not")
    terminal.type("q")
    terminal.end()
    assert "was recorded" in terminal.screen.text() and "measured no more" not in terminal.screen.text()


def test_no_key_deepens_what_has_no_gpu_work(screen, tmp_path):
    process = subprocess.Popen(["sleep", "1000"])
    try:
        terminal = screen("record", "-o", tmp_path / "r.pitot", "-p", process.pid)
        terminal.wait(lambda s: "? for keys" in s.text(), "the live line")
        terminal.type("e")
        terminal.wait(lambda s: "no hardware counters: the GPU work of the process is not recorded" in s.text(), "why not")
        terminal.type("q")
        terminal.end()
    finally:
        process.kill()
        process.wait()


def test_a_key_dumps_the_ring_of_a_process(recorded, loop, screen, tmp_path, monkeypatch):
    """Of the `pitot record --ring` that has it."""
    [child] = child_of(recorded(loop, "--ring", "10m").pid)
    monkeypatch.chdir(tmp_path)
    terminal = screen("record", "--cpu-only", "-o", tmp_path / "r.pitot", "-p", child)
    terminal.wait(lambda s: "? for keys" in s.text(), "the live line")
    terminal.type("d")
    terminal.wait(lambda s: "dump-" in s.text() and "segment" in s.text(), "there is a dump")
    terminal.type("q")
    terminal.end()
    assert list(tmp_path.glob("dump-*.pitot"))


def test_a_command_owns_the_terminal(screen, tmp_path):
    """What is typed is its own, and q is no key."""
    terminal = screen("record", "--no-cpu", "-o", tmp_path / "r.pitot", "--", "sh", "-c", "read x; echo got $x")
    terminal.wait(lambda s: "recording 0:0" in s.text(), "the live line")
    assert "? for keys" not in terminal.screen.text()
    terminal.type("q\n")
    terminal.wait(lambda s: "got q" in s.text(), "the command has read it")
    terminal.end()


def test_stopped_and_continued(prepared, loop, screen, tmp_path):
    process = prepared(loop)
    terminal = screen("record", "--no-cpu", "-o", tmp_path / "r.pitot", "-p", process.pid)
    terminal.wait(lambda s: "? for keys" in s.text(), "the live line")
    # Its group is an orphan, so that Ctrl-Z does not stop it: it goes on, and has its keys again.
    terminal.type("\x1a?")
    terminal.wait(lambda s: "keys: m mark" in s.text(), "it goes on")
    terminal.type("q")
    terminal.end()
