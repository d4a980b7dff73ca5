"""pitot top: who uses GPUs, as a stand-in for NVML says, and what recorded programs do; its screen on a model of a terminal."""
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from golden import check_golden
from screen_model import Terminal
from waiting import wait_until

ONCE = ("top", "--once", "--interval", "100ms", "-q")
HARMFUL = "a\x1b[2J\x9b31m\u202eb\n\tc"


@pytest.fixture
def player(build):
    return build / "standin/tape-play"


@pytest.fixture
def nvml(build):
    return lambda script="": {"LD_LIBRARY_PATH": str(build / "tests/unit/capture/nvml/whole"), "NVML_STANDIN": script}


@pytest.fixture
def started(environment):
    """started(command…): a process that ends with the test."""
    processes = []

    def start(*command, **options):
        processes.append(subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                          **{"env": environment, **options}))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


@pytest.fixture
def recorded(started, program, player, source, tmp_path):
    """recorded("launch", "--ring", "10m"): pid of a process that plays a tape for ever, and is being recorded."""

    pids = []

    def record(tape, *options):
        process = started(program, "record", "-q", "--no-cpu", "-o", tmp_path / f"{tape}.pitot", *options, "--", player, "--realtime", "--repeat",
                          "1000000", source / f"tests/data/tapes/{tape}.tape", cwd=tmp_path)
        [pid] = wait_until(lambda: child_of(process.pid), "it has started", process)
        pids.append(pid)
        return pid

    yield record
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def work_of(pitot, pid):
    """The work of a recorded program, once there is some."""

    def read():
        [one] = json.loads(pitot(*ONCE, "--json", "-p", pid).stdout)["programs"]
        return one["work"] and one["work"]["window_ns"] and one

    return wait_until(read, "its recording shows GPU work")


@pytest.mark.parametrize("options", [(), ("--ring", "10m")], ids=["disk", "ring"])
def test_a_recorded_program(pitot, recorded, options):
    pid = recorded("launch", *options)
    one = work_of(pitot, pid)
    work = one["work"]
    assert (one["pid"], one["recorder"], one["gpu_percent"], one["memory_bytes"]) == (pid, "recorded", None, None)
    assert "launch.tape" in one["command"]
    assert 0 < work["busy_ns"] <= work["window_ns"] <= 2 * 10**9
    assert work["kernel_count"] >= sum(kernel["count"] for kernel in work["kernels"]) > 0
    assert [kernel["total_ns"] for kernel in work["kernels"]] == sorted((kernel["total_ns"] for kernel in work["kernels"]), reverse=True)
    assert work["waits"] is not None
    text = pitot(*ONCE, "-p", pid).stdout
    assert re.search(rf"^ *{pid} .* tape-play --r", text, re.M), "not its folder, of which the name would be cut off"
    assert f"{pid}: " in text and "launches/s" in text and work["kernels"][0]["name"].split("<")[0] in text
    assert not list(Path("/dev/shm").glob(f"pitot-*/{pid}.*")), "what it reads from is removed"


def test_the_figures_are_those_of_the_recording(pitot, recorded, rows, tmp_path):
    pid = recorded("launch")
    one = work_of(pitot, pid)
    kernels = rows(tmp_path / "launch.pitot", "kernel", "-c", "duration,name")
    for shown in one["work"]["kernels"]:
        whole = [row["duration"] for row in kernels if shown["name"].split("<")[0] in row["name"]]
        assert min(whole) <= shown["total_ns"] / shown["count"] <= max(whole), shown


def test_a_prepared_program(pitot, program, started, player, source, build, environment):
    library = str(build / "libpitot.so")
    process = started(player, "--realtime", "--repeat", "1000000", source / "tests/data/tapes/launch.tape",
                      env={**environment, "PITOT_IDLE": "1", "CUDA_INJECTION64_PATH": library, "ASAN_OPTIONS": "detect_leaks=0"})

    def recorder():
        found = json.loads(pitot(*ONCE, "--json", "--filter", process.pid).stdout)["programs"]
        return found and found[0]["recorder"]

    wait_until(lambda: recorder() == "prepared", "it is prepared", process)
    done = pitot("top", "--once", "--interval", "1s", "--json", "-p", process.pid)
    [one] = json.loads(done.stdout)["programs"]
    assert one["recorder"] == "recorded" and one["work"]["kernel_count"] and one["work"]["waits"] is None
    assert not process.poll() and recorder() == "prepared", "it is left as it was"


def test_numbers_of_nvml(pitot, nvml, started):
    process = started(sys.executable, "-c", "import time; time.sleep(1000)")
    done = json.loads(pitot(*ONCE, "--json", env=nvml(f"pid={process.pid}")).stdout)
    assert [gpu["name"] for gpu in done["gpus"]] == ["Stand-in 1", "Stand-in 2"]
    [one] = [program for program in done["programs"] if program["pid"] == process.pid]
    assert (one["gpu_percent"], one["memory_bytes"], one["gpus"], one["recorder"], one["work"]) == (61, 123 << 20, [0], "none", None)
    assert one["cpu_percent"] is not None and not [program for program in done["programs"] if program["pid"] == 4194305], "there is no such process"
    for status, percent in (6, 0), (3, None), (4, None):
        [one] = json.loads(pitot(*ONCE, "--json", "--filter", process.pid, env=nvml(f"pid={process.pid} use_status={status}")).stdout)["programs"]
        assert one["gpu_percent"] == percent, "who has not worked has 0 %; what NVML does not say is unknown"


def test_order_and_filter(pitot, nvml, started):
    others = [started(sys.executable, "-c", "import time; time.sleep(1000)", str(i)) for i in range(2)]
    options = [word for process in others for word in ("-p", process.pid)]
    env = nvml(f"pid={others[1].pid}")

    def pids(*more):
        return [one["pid"] for one in json.loads(pitot(*ONCE, "--json", *options, *more, env=env, status=None).stdout)["programs"]]

    first, second = (process.pid for process in others)
    assert pids() == pids("--sort", "memory") == [second, first]
    assert pids("--sort", "pid") == sorted([first, second])
    assert pids("--filter", "sleep(1000) 0") == [first] and pids("--filter", str(second)) == [second] and pids("--filter", "no such") == []


@pytest.mark.parametrize("words, said", [
    (("-p", "999999999"), "there is no process 999999999"), (("-p", "x"), "takes the id of a process, not 'x'"),
    (("--interval", "1ms"), "at least 100ms"), (("--sort", "size"), "--sort")])
def test_what_it_refuses(pitot, words, said):
    assert said in pitot("top", "--once", *words, status=None).stderr


def test_why_there_is_no_work(pitot, started):
    process = started(sys.executable, "-c", "import time; time.sleep(1000)")
    said = pitot("top", "--once", "--interval", "100ms", "-p", process.pid).stderr
    assert f"no GPU work is shown: process {process.pid} was not prepared: start it with PITOT_IDLE=1" in said


@pytest.fixture
def screen(program, environment):
    """screen("-p", 4711, columns=80, lines=24): `pitot top` on a terminal."""
    terminals = []

    def start(*options, columns=80, lines=24, env=()):
        terminals.append(Terminal([program, "top", "--interval", "100ms", "-q", *options], {**environment, "TERM": "xterm", **dict(env)}, columns, lines))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def mask(text, pid):
    """Numbers differ from run to run, and with them the width of columns."""
    text = re.sub(r"\d[\d,.]*( (ns|us|ms|s)\b)?", "#", text.replace(str(pid), "PID"))
    return re.sub(r"^(PID #% .*?\d?) [^ ]+$", r"\1 COMMAND", re.sub(r" +", " ", text), flags=re.M)


@pytest.mark.parametrize("columns, lines", [(80, 24), (160, 50)])
def test_screen(screen, pitot, recorded, nvml, source, columns, lines):
    pid = recorded("launch")
    work_of(pitot, pid)
    terminal = screen("-p", pid, columns=columns, lines=lines, env=nvml(f"pid={pid}"))
    terminal.wait(lambda s: "busiest kernels" in s.text() and "61%" in s.text(), "the kernels of the program")
    assert terminal.screen.alternate and not terminal.screen.cursor_is_shown
    assert terminal.screen.reversed_lines == {4}, "the selected program"
    text = terminal.screen.text().replace(str(source), "SOURCE")
    # The command may be cut before the program's name.
    check_golden(f"top-{columns}.txt", mask(re.sub(r"\S*tape-play.*|(SOURCE|/)\S*\.\.$", "tape-play", text, flags=re.M), pid))
    terminal.type("q")
    terminal.end()


def test_keys(screen, started):
    pids = sorted(started(sys.executable, "-c", "import time; time.sleep(1000)", f"number{i}").pid for i in range(3))
    terminal = screen(*(word for pid in pids for word in ("-p", pid)), "--sort", "pid", columns=120)

    def order(s):
        # A command may be cut after any word, and so may the line below the table that says more of the selected program.
        return [int(found) for found in re.findall(r"^ *(\d+)  \S+ +-", s.text(), re.M)]

    def selected(s):
        return [int(s.text().splitlines()[line].split()[0]) for line in s.reversed_lines]

    terminal.wait(lambda s: order(s) == pids and selected(s) == pids[:1], "the programs by number")
    terminal.type("\x1b[B\x1b[B\x1b[B")
    terminal.wait(lambda s: selected(s) == pids[2:], "the last one is selected")
    terminal.type("r")
    terminal.wait(lambda s: order(s) == pids[::-1] and selected(s) == pids[2:], "the order is turned around, and the selection stays")
    terminal.type("k\x1bOB\x1b[5~\x1b[15~")
    terminal.wait(lambda s: selected(s) == pids[2:], "up, down, a page up, and a key that is none")
    terminal.type(f"/{pids[1]}x\x7f")
    terminal.wait(lambda s: order(s) == pids[1:2] and f"filter: {pids[1]}_" in s.text(), "the filter is shown while it is typed")
    terminal.type("\r")
    terminal.wait(lambda s: f"with '{pids[1]}'" in s.text() and "q quit" in s.text(), "it stays")
    terminal.type("/\x1b")
    terminal.wait(lambda s: len(order(s)) == 3, "all are back")
    terminal.type(" ")
    terminal.wait(lambda s: "paused" in s.text(), "it stands still")
    terminal.type("s s")
    terminal.wait(lambda s: "by memory" in s.text() and "paused" not in s.text(), "another order, twice")
    terminal.type("q")
    terminal.end()


def test_resize_and_ends(screen, started):
    pids = [started(sys.executable, "-c", "import time; time.sleep(1000)").pid for _ in range(30)]
    options = [word for pid in pids for word in ("-p", pid)]
    terminal = screen(*options)
    terminal.wait(lambda s: "30 programs" in s.text() and "was not prepared" in s.text(), "the first screen, and why there are no kernels")
    terminal.type("x")
    for columns, lines in (40, 10), (200, 60), (20, 4), (80, 24):
        terminal.resize(columns, lines)
        terminal.wait(lambda s: "30 programs" in s.text() and "quit" in s.text().splitlines()[-1], f"a screen of {columns} x {lines}")
    terminal.type("\x1b[6~" * 5)
    terminal.wait(lambda s: s.reversed_lines and str(pids[-1] if pids == sorted(pids) else max(pids)) in s.text(), "the last program is in sight")
    terminal.process.send_signal(signal.SIGTERM)
    terminal.end()


def test_stopped_and_continued(screen, started):
    process = started(sys.executable, "-c", "import time; time.sleep(1000)")
    terminal = screen("-p", process.pid)
    terminal.wait(lambda s: "was not prepared" in s.text(), "the first screen")
    terminal.type("\x1a")
    wait_until(lambda: (terminal.read(), open(f"/proc/{terminal.process.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T")[1], "Ctrl-Z stops it")
    wait_until(lambda: (terminal.read(), not terminal.screen.alternate)[1], "the shell's screen is back")
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait(lambda s: s.alternate and "q quit" in s.text(), "its own is, too")
    terminal.type("q")
    terminal.end()


def test_hostile_names(screen, started, pitot):
    process = started(HARMFUL, "-c", "import time; time.sleep(1000)", HARMFUL, executable=sys.executable)
    terminal = screen("-p", process.pid, columns=160)
    text = terminal.wait(lambda s: "\\x1b[2J" in s.text(), "its name is shown, and not obeyed")
    assert "\\x9b" in text or "\\xc2" in text
    terminal.type("q")
    terminal.end()
    said = pitot(*ONCE, "-p", process.pid).stdout
    assert "\x1b" not in said and "\u202e" not in said
    [one] = json.loads(pitot(*ONCE, "--json", "-p", process.pid).stdout)["programs"]
    assert one["command"].startswith("a\x1b[2J")


FORGER = '''
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b"pitot", 0, 0, 0)
segment = open(sys.argv[1], "rb")
time.sleep(1000)
'''


def test_a_forged_segment_of_many_rows(make_recording, started, pitot, tmp_path):
    """Any user's process can name a thread like the recorder's: what is read of it has a limit."""
    [segment] = make_recording(tmp_path / "run.pitot", kernels=200000).glob("*.pit")
    blocks, forged = segment.read_bytes()[:-1000], tmp_path / "forged.pit"
    assert len(blocks) > 1 << 20
    for copies, recorder in (1, "recorded"), (100, "none"):
        forged.write_bytes(blocks + blocks[64 * 1024:] * (copies - 1))
        process = started(sys.executable, "-c", FORGER, forged)
        wait_until(lambda: open(f"/proc/{process.pid}/comm").read() == "pitot\n" and any(
            os.readlink(link) == str(forged) for link in Path(f"/proc/{process.pid}/fd").iterdir()), "it has forged", process)
        [one] = json.loads(pitot(*ONCE, "--json", "-p", process.pid).stdout)["programs"]
        assert one["recorder"] == recorder, copies


def test_its_input_ends_while_a_filter_is_typed(program, environment):
    keys, its_input = os.openpty()
    screen, its_output = os.openpty()
    process = subprocess.Popen([program, "top", "-q"], stdin=its_input, stdout=its_output, stderr=subprocess.DEVNULL, env={**environment, "TERM": "xterm"})
    os.close(its_input)
    os.set_blocking(screen, False)
    shown = b""

    def read():
        nonlocal shown
        try:
            shown += os.read(screen, 1 << 16)
        except BlockingIOError:
            pass
        return shown

    try:
        wait_until(lambda: b"quit" in read(), "the first screen")
        os.write(keys, b"/")
        wait_until(lambda: b"filter: _" in read(), "it waits for a filter")
        os.close(keys)
        wait_until(lambda: (read(), process.poll() is not None)[1], "it ends")
    finally:
        process.kill()
        process.wait()
        os.close(screen)
        os.close(its_output)


def test_a_program_that_ends(screen, started):
    process = started(sys.executable, "-c", "import time; time.sleep(1000)")
    terminal = screen("-p", process.pid)
    terminal.wait(lambda s: "was not prepared" in s.text(), "the first screen")
    process.kill()
    process.wait()
    terminal.end(status=1)


def test_no_terminal(pitot, terminal, program, environment, started):
    process = started(sys.executable, "-c", "import time; time.sleep(1000)")
    done = pitot("top", "--interval", "100ms", "-p", process.pid)
    assert str(process.pid) in done.stdout and "\033" not in done.stdout
    environment["TERM"] = "dumb"
    assert "\033[?1049h" not in terminal([program, "top", "--interval", "100ms", "-p", process.pid], 80)
