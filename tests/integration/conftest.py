"""What tests with tapes share."""
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import s3_server
from waiting import PATIENCE, wait_until


@pytest.fixture
def record(build, source, environment, tmp_path):
    """Plays a tape into the recorder: record("train", "key=value;…", "--repeat", "3", VARIABLE="…"). The
    folder of the recording.

    A tape is one of tests/data/tapes by its name, or a path.
    """
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")

    def play(tape, options, *arguments, **more):
        folder = tmp_path / "recording.pitot"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        library = str(build / "libpitot.so")
        variables = {"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library,
                     "PITOT_RECORDING": str(folder), "PITOT_OPTIONS": f"stacks=none;{options}",
                     "LSAN_OPTIONS": f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0"}
        path = tape if isinstance(tape, Path) else source / "tests" / "data" / "tapes" / f"{tape}.tape"
        result = subprocess.run([player, *arguments, path], capture_output=True, text=True, timeout=PATIENCE,
                                env={**environment, **variables, **more})
        assert result.returncode == 0 and result.stderr == "", result.stderr
        return folder

    return play


@pytest.fixture
def made_tape(build, tmp_path):
    """The tape that tape-make makes."""
    if not (build / "standin" / "tape-make").exists():
        pytest.skip("built without CUDA's headers")
    path = tmp_path / "made.tape"
    subprocess.run([build / "standin" / "tape-make", path], check=True)
    return path


@pytest.fixture(scope="session")
def library(build, sanitized, request):
    """libpitot.so for programs without sanitizers."""
    return ((request.getfixturevalue("plain") if sanitized else build) / "libpitot.so").resolve()


class Play:
    """A tape that is being played into the recorder, in real time unless told otherwise."""

    def __init__(self, command, folder, environment, pitot):
        self.recording, self.pitot, self.folder = folder / "played.pitot", pitot, folder
        self.recording.mkdir()
        self.output = (folder / "output").open("w+")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                        env={**environment, "PITOT_RECORDING": str(self.recording),
                                             "PITOT_LOG": str(folder / "log")})

    def count(self, table):
        """Rows on disk by now: 0 also before there is a segment."""
        info = self.pitot("info", self.recording, "--json", status=None)
        return json.loads(info.stdout)["tables"].get(table, {"rows": 0})["rows"] if info.returncode == 0 else 0

    def rows(self, table, *options):
        text = self.pitot("view", self.recording, table, "--json", "--quiet", *options).stdout
        return [json.loads(line) for line in text.splitlines()]

    def losses(self):
        """What the recording says is missing: {reason: count}."""
        found = {}
        for row in self.rows("loss"):
            found[row["reason"]] = found.get(row["reason"], 0) + (row["count"] or 0)
        return found

    def times(self, table, column, *options):
        """CLOCK_MONOTONIC of rows; none is told apart from a table that is not there yet."""
        if not self.count(table):
            return []
        start = json.loads(self.pitot("info", self.recording, "--json").stdout)["start_monotonic_ns"]
        return [start + row[column] for row in self.rows(table, *options) if row[column] is not None]

    def until(self, condition, what):
        return wait_until(condition, f"{what}; it said: {(self.folder / 'output').read_text()!r}", self.process)

    def until_rows(self, table, more_than):
        return self.until(lambda: self.count(table) > more_than, f"more than {more_than} rows of {table}")

    def touch(self, name):
        """A file that a fault script or --end-when waits for."""
        (self.folder / name).touch()

    def end(self, status=0, said="", patience=PATIENCE):
        """Lets it end; how it does."""
        self.touch("end")
        assert self.process.wait(timeout=patience) == status, (self.folder / "output").read_text()
        assert (self.folder / "output").read_text() == said

    def kill(self):
        """CLOCK_MONOTONIC when it was killed."""
        now = time.monotonic_ns()
        self.process.kill()
        self.process.wait()
        return now


@pytest.fixture
def slowly():
    """slowly(40): plays the made tape for four seconds at least, in so many rounds, each at its time: longer than a window of a second."""
    return lambda rounds: ("--now", "--repeat", str(rounds), "--gap", str(4000 // rounds), "--rate", str(250 * rounds))


@pytest.fixture
def in_window(rows, slowly):
    """in_window(play, has_any): what play("options", *arguments) recorded in a window of 300 ms, or of 1.2 s where the recorder says that
    it could not run in a shorter one: on a busy machine the player makes up for lost time."""

    def play_in_window(play, has_any):
        for ms in 300, 1200:
            found = play(f"delay_ns={ms * 10**6 * 2 // 3};duration_ns={ms * 10**6}", *slowly(40))
            if has_any(found):
                break
            assert [row["state"] for row in rows(found.folder, "capability") if row["name"] == "window"] == ["unavailable"]
        return found

    return play_in_window


@pytest.fixture
def player(build):
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    return player


@pytest.fixture
def start_play(player, build, source, environment, pitot, tmp_path):
    """start_play("train", "--repeat", "3", faults="…", options="key=value;…", wrap=["unshare", …], VARIABLE="…"): a Play.

    The file "end" ends it (Play.end); fault scripts name files as {folder}/NAME.
    """
    plays = []

    def start(tape, *arguments, faults="", options="", wrap=(), clock="--realtime", **variables):
        folder = tmp_path / f"play{len(plays)}"
        folder.mkdir()
        (folder / "faults").write_text(faults.format(folder=folder) + "\n")
        library = str(build / "libpitot.so")
        path = tape if isinstance(tape, Path) else source / "tests" / "data" / "tapes" / f"{tape}.tape"
        command = [*wrap, player, *([clock] if clock else []), "--faults", folder / "faults", "--end-when", folder / "end",
                   *arguments, path]
        own = {"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library,
               "PITOT_OPTIONS": f"stacks=none;{options}",
               "LSAN_OPTIONS": f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0"}
        plays.append(Play(list(map(str, command)), folder, {**environment, **own, **variables}, pitot))
        return plays[-1]

    yield start
    for play in plays:
        play.process.kill()
        play.process.wait()
        play.output.close()


@pytest.fixture
def started(environment, tmp_path):
    """started(command…): a process that ends with the test, as do those that it starts."""
    processes = []

    def start(*command, **options):
        processes.append(subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=tmp_path, start_new_session=True,
                                          env={**environment, "ASAN_OPTIONS": "detect_leaks=0", **options.pop("env", {})}, **options))
        return processes[-1]

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def played(started, program, player, source, tmp_path):
    """played("train", 5, "--ring", "10m"): `pitot record` of a tape that is played at its pace, five times; its folder."""

    def play(tape, times, *options, **env):
        folder = tmp_path / "runs" / f"{tape}.pitot"
        folder.parent.mkdir(exist_ok=True)
        process = started(program, "record", "-q", "--no-cpu", "--stacks", "none", "-o", folder, *options, "--", player, "--realtime",
                          "--repeat", times, source / f"tests/data/tapes/{tape}.tape", env=env)
        return process, folder

    return play


@pytest.fixture
def agent(started, program, lake, tmp_path):
    """agent("--once"): an agent that is running."""

    def start(*options, quiet=True):
        words = ("-q", "--listen", "off") if quiet else ()
        return started(program, "agent", *words, "--lake", lake, "--spool", tmp_path / "spool", *options, stderr=subprocess.PIPE, text=True)

    return start


@pytest.fixture
def page_of(agent):
    """page_of(process): the port of the metrics of an agent beside a recording, and the agent."""

    def start(process):
        one = agent("--interval", "1s", "--ship", "1s", "-p", process.pid, "--listen", "127.0.0.1:0", quiet=False)
        line = one.stderr.readline()
        return int(re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line).group(1)), one

    return start


@pytest.fixture
def make_tape(build, tmp_path):
    """make_tape("wrap", 100): a tape of one of tape-make's programs."""
    tool = build / "standin" / "tape-make"
    if not tool.exists():
        pytest.skip("built without CUDA's headers")

    def make(program, *count):
        path = tmp_path / f"{program}.tape"
        subprocess.run(list(map(str, [tool, path, program, *count])), check=True)
        return path

    return make


@pytest.fixture(scope="session")
def programs(shared_folder):
    """Folder of programs of cpu_programs, compiled once for all workers: optimised, without frame pointers."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")

    def compile_all(folder):
        for name, options in (("known_shares", []), ("stack_kinds", ["-ldl"]), ("off_cpu", []), ("short_threads", []),
                              ("plugin", ["-shared", "-fPIC"])):
            subprocess.run([compiler, "-O2", "-g", "-fomit-frame-pointer", "-pthread",
                            Path(__file__).parent / "cpu_programs" / f"{name}.c", "-o", folder / name, *options], check=True)

    return shared_folder("cpu-programs", compile_all)


@pytest.fixture(scope="session")
def sanitized(build):
    code = (build / "libpitot.so").read_bytes()
    return b"libasan" in code or b"libtsan" in code


@pytest.fixture(scope="session")
def sanitizer(build):
    """The sanitizer's library, which has to be the first one: what LD_PRELOAD begins with for programs that load the recorder."""
    lines = subprocess.run(["ldd", build / "libpitot.so"], capture_output=True, text=True).stdout.splitlines()
    return "".join(line.split()[2] + ":" for line in lines if "libasan" in line or "libtsan" in line)


@pytest.fixture
def folder():
    """An empty folder that everybody may write to."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o777)
        yield Path(path)


@pytest.fixture
def service(tmp_path):
    """A tracing service for programs with PITOT_PERFETTO=tmp_path / "socket"."""
    from perfetto_service import Service  # with protobuf, which other tests need not load

    service = Service(tmp_path / "socket")
    yield service
    service.close()


@pytest.fixture
def server(environment):
    """A server of object storage with an empty bucket, whose faults tests choose."""
    with s3_server.running() as server:
        environment.update(s3_server.settings(server.endpoint))
        yield server


@pytest.fixture(params=["stand-in", "moto"])
def store(request, environment):
    """The same, or another implementation."""
    if request.param == "moto" and not importlib.util.find_spec("moto"):
        pytest.skip("needs the Python package moto")
    server = s3_server.Server() if request.param == "stand-in" else s3_server.Moto()
    environment.update(s3_server.settings(server.endpoint))
    yield server
    server.end()


@pytest.fixture
def shipped_once(pitot, make_recording, played, shared_folder):
    """A lake and spools: what four agents have shipped on a day that is over, 2026-11-01, and what one ships today."""
    day = "date=2026-11-01"

    def fill(folder):
        process, train = played("train", 1, SLURM_JOB_ID="77")
        assert process.wait() == 0
        for name in "other", "lake", "spools":
            (folder / name).mkdir()
        for seed in range(3):
            make_recording(folder / f"other/{seed}.pitot", kernels=400, seed=seed)

        def ship(runs, number):
            pitot("agent", "--once", "--no-live", "--recordings", runs, "--lake", folder / "lake", "--spool", folder / f"spools/{number}")

        for number in range(4):
            ship(train if number % 2 else folder / "other", number)
        for table in "step", "kernel_sketch":
            (folder / "lake" / table / day).mkdir()
            for path in list(folder.glob(f"lake/{table}/date=*/*.parquet")):
                path.rename(folder / "lake" / table / day / path.name)
        ship(train, "today")

    return shared_folder("compacted-lake", fill)
