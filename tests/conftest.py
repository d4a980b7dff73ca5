"""What all tests of the program share: where the build is, a way to run it, and an end for tests that hang."""
import contextlib
import fcntl
import gc
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
from pathlib import Path

import pytest
from _pytest.assertion import util
from _pytest.runner import runtestprotocol

from waiting import PATIENCE

HUNG_S = 2 * PATIENCE
ATTEMPTS = 3
TOP = Path(__file__).resolve().parent.parent


def pytest_configure(config):
    """Programs inherit which signals are ignored, as in the background of a script; tests send them these."""
    for number in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    # With $CI set, difflib compares the lines of two lists, which takes hours for thousands of rows. The first difference is shown in any case.
    whole = getattr(util, "_compare_eq_iterable", None)  # other versions of pytest have none
    if whole:
        util._compare_eq_iterable = lambda left, right, *others: whole(left, right, *others) if len(left) + len(right) < 1000 else [
            f"all differences of {len(left)} and {len(right)} items are too many to show"]
    config.addinivalue_line("markers", "alone: changes the machine, so no other test may run at the same time")
    config.addinivalue_line("markers", f"statistical: compares CPU times or samples, which depend on chance and on other work of the machine: "
                                       f"fails if {ATTEMPTS} attempts do")


def pytest_runtest_protocol(item, nextitem):
    """Runs a statistical test until it passes, at most three times. How often is in the report (tools/run-tests)."""
    if not item.get_closest_marker("statistical"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(1, ATTEMPTS + 1):
        item.user_properties[:] = [("attempts", attempt)]
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_collection_finish():
    """What has been imported and collected stays: going through it again and again was a third of the time of tests that parse."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50000)


def pytest_addoption(parser):
    parser.addoption("--build", default=os.environ.get("PITOT_BUILD", "build"),
                     help="build folder of the program to test")


def say_that_it_hangs(*_):
    """Where in Python is in the failure's traceback; what it waits for is among the processes."""
    shown = subprocess.run("ps --forest -eo pid,ppid,stat,etime,wchan:20,args", shell=True, capture_output=True, text=True)
    pytest.fail(f"it hangs, after {HUNG_S} s; the processes are\n{shown.stdout}")


@contextlib.contextmanager
def limited():
    """One test that hangs is one that fails: the others are run."""
    before = signal.signal(signal.SIGALRM, say_that_it_hangs)
    signal.setitimer(signal.ITIMER_REAL, HUNG_S, 30)  # and again, should it wait for something on its way out
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    with limited():
        return (yield)


@pytest.fixture(scope="session")
def source():
    """The repository."""
    return TOP


@pytest.fixture(scope="session")
def build(request):
    """The build folder, absolute."""
    folder = Path(request.config.getoption("--build"))
    folder = folder if folder.is_absolute() else TOP / folder
    if not (folder / "pitot").exists():
        pytest.exit(f"no program 'pitot' in {folder}: build it, or name the folder with --build")
    return folder


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """shared_folder(name, fill): a folder of that name, which fill(folder) fills once for all workers of pytest."""

    def share(name, fill):
        base = tmp_path_factory.getbasetemp()
        folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
        with open(f"{folder}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / ".filled").exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                (folder / ".filled").touch()
        return folder

    return share


@pytest.fixture(scope="session")
def make_recording(build):
    """make_recording(path, "varied"), make_recording(path, kernels=3000, pattern="train"): path. `make-recording --help`."""

    def make(path, kind="synthetic", **options):
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        subprocess.run([build / "tests/support/make-recording", path, "--kind", kind, *words], check=True)
        return path

    return make


@pytest.fixture(scope="session")
def cuda_headers(build):
    """For cmake, so that no other build downloads again what this one has."""
    folder = build / "cuda-headers/nvidia/cu13/include"
    return [f"-DPITOT_CUDA_HEADERS={folder}"] if (folder / "cupti.h").exists() else []


@pytest.fixture(scope="session")
def plain(source, build, cuda_headers):
    """Folder of a build without sanitizers: for programs that have none either. All workers of pytest share it.

    -O1 takes two thirds of the time of -O2, and nothing reads its debug information."""
    folder = build / "plain"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Optimizers warn of more than debug builds.
        subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DPITOT_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Debug",
                        "-DCMAKE_C_FLAGS_DEBUG=-O1 -g0 -D_FORTIFY_SOURCE=2 -fstack-protector-strong",
                        f"-DPITOT_WERROR={'ON' if os.environ.get('CI') else 'OFF'}", "--log-level=NOTICE", *cuda_headers], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder, "--", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="session")
def program(build):
    """Path of the program: a copy where root has built it in a folder that is not for everybody."""
    program = build / "pitot"
    if os.geteuid() != 0 or subprocess.run(["test", "-x", program], user=65534, group=65534, extra_groups=[]).returncode == 0:
        yield program
        return
    with tempfile.TemporaryDirectory(prefix="pitot-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        for file in (program, build / "libpitot.so", build / "libpitot-rocm.so"):
            shutil.copy(file, folder)
        yield Path(folder) / "pitot"


@pytest.fixture
def environment():
    """The environment without anything that changes what the program says or does. Tests may change their copy."""
    unwanted = ("CUDA_", "NCCL_", "NVTX_", "PITOT_", "COLUMNS", "NO_COLOR", "LD_PRELOAD")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    clean.update(LC_ALL="C.UTF-8", TERM="xterm", TZ="UTC", PITOT_PAGER="")
    return clean


@pytest.fixture
def pitot(program, environment, tmp_path):
    """Runs the program in an empty folder: pitot("info", path, status=0).stdout.

    status is the exit status that is expected; None takes any. Output is text unless text=False. With json=True the
    result is the parsed standard output.
    """

    def run(*arguments, status=0, json_output=False, env=None, cwd=None, timeout=PATIENCE, text=True, **options):
        command = [str(program), *map(str, arguments)]
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        if options["stdin"] is None:
            del options["stdin"]
        result = subprocess.run(command, capture_output=True, text=text, timeout=timeout, cwd=cwd or tmp_path,
                                env={**environment, **(env or {})}, **options)
        said = f"{command}\nstatus {result.returncode}\n{result.stdout}\n{result.stderr}"
        if status is not None:
            assert result.returncode == status, said
        if json_output:
            return json.loads(result.stdout)
        return result

    return run


@pytest.fixture(scope="session")
def duckdb_variables(build):
    """Variables with which `pitot sql --engine duckdb` finds DuckDB's C library."""
    library = Path(os.environ.get("PITOT_DUCKDB") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "pitot/duckdb/libduckdb.so"))
    if not library.exists():
        pytest.skip("no DuckDB: tools/get-duckdb gets its C library, PITOT_DUCKDB=FILE names one")
    variables = {"PITOT_DUCKDB": str(library)}
    if b"libasan" in (build / "pitot").read_bytes():
        # AddressSanitizer must know libstdc++ from the beginning, or exceptions end the program.
        names = [subprocess.run(["cc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
                 for name in ("libasan.so", "libstdc++.so.6")]
        variables["LD_PRELOAD"] = " ".join(names)
    return variables


@pytest.fixture(scope="session")
def rank_recording(build, source, shared_folder):
    """rank_recording("sleep-3"): the recording of a training on two GPUs (tests/data/tapes/ranks), both ranks under one `pitot record`.

    Their times are on one clock. All tests share it: do not change it."""
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA_", "NCCL_", "NVTX_", "PITOT_"))}
    variables["LSAN_OPTIONS"] = f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0"

    def play(name):
        def fill(folder):
            tapes = sorted((source / "tests/data/tapes/ranks").glob(f"{name}.?.tape"))
            assert len(tapes) == 2
            done = subprocess.run([build / "pitot", "record", "--no-cpu", "--stacks", "none", "-o", folder / "ranks.pitot", "--",
                                   player, "--ranks", *tapes], capture_output=True, text=True, env=variables)
            assert done.returncode == 0, done.stderr

        return shared_folder(f"ranks-{name}", fill) / "ranks.pitot"

    return play


# Read in one run of the program by tests that ask for one of them: most ask for several.
TOGETHER = "process", "thread", "cpu_sample", "stack", "capability", "loss"


def state_of(recording):
    """Of one that has ended: what is different when a file has been changed."""
    try:
        if json.loads((Path(recording) / "recording.json").read_text())["state"] == "ended":
            return [str(recording), *sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in Path(recording).iterdir())]
    except (OSError, ValueError, KeyError):
        pass
    return None


@pytest.fixture
def rows(pitot):
    """rows(recording, "kernel", "-w", "…"): what `pitot view` has of a table."""
    together = {}

    def view(recording, *words, status=0):
        text = pitot("view", recording, *words, "--json", "--quiet", status=status).stdout
        return [json.loads(line) for line in text.splitlines()]

    def read(recording, table, *options, status=0):
        state = state_of(recording) if table in TOGETHER and not options and status == 0 else None
        if not state:
            return view(recording, table, *options, status=status)
        if together.get("state") != state:
            together.update({"state": state, **{name: [] for name in TOGETHER}})
            for row in view(recording, *TOGETHER):
                together[row.pop("table")].append(row)
        return [dict(row) for row in together[table]]

    return read


@pytest.fixture
def stacks(pitot, tmp_path):
    """stacks(recording, "--thread", …): CPU microseconds by stack, as lists of names from the outermost."""

    def read(recording, *options):
        output = tmp_path / "stacks.folded"
        pitot("flame", recording, "--mode", "cpu", "--force", "-o", output, *options)
        lines = [line.rsplit(" ", 1) for line in output.read_text().splitlines()]
        return [(stack.split(";"), float(weight)) for stack, weight in lines]

    return read


@pytest.fixture
def terminal(environment):
    """What a command writes to a terminal of so many columns: terminal([program, …], 80)."""

    def run(command, columns, status=0):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(list(map(str, command)), stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # EIO: nobody writes any more
                break
            if not piece:
                break
            said += piece
        os.close(ours)
        assert process.wait(timeout=PATIENCE) == status, said
        return said.decode().replace("\r\n", "\n")

    return run


@pytest.fixture
def small_disk(tmp_path):
    """small_disk(options…): a disk of so much at tmp_path / "disk"; skips where that is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("cannot mount a small disk here")
        mounted.append(disk)
        return disk

    mounted = []
    yield mount
    for disk in mounted:
        subprocess.run(["umount", disk], check=True)
