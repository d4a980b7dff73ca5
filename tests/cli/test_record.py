"""`pitot record`: the command runs as it would without, and what was asked for is on disk."""
import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from waiting import PATIENCE, wait_until


@pytest.fixture
def record(pitot, tmp_path):
    """Runs `pitot record -o rec OPTIONS -- COMMAND`; returns the result."""

    def run(*command, options=(), status=0, **more):
        return pitot("record", "-o", "rec", *options, "--", *command, status=status, **more)

    return run


def identity(folder):
    return json.loads((Path(folder) / "recording.json").read_text())


def start(program, environment, tmp_path, *arguments, **options):
    """Starts `pitot record -o rec -- ARGUMENTS` and returns the running process."""
    return subprocess.Popen([program, "record", "-o", "rec", "--", *arguments], cwd=tmp_path, env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            **options)


def rows(pitot, table, path="rec", status=0):
    """Rows of a recording, through `pitot view`."""
    return [json.loads(line) for line in pitot("view", path, table, "--json", status=status).stdout.splitlines()]


@pytest.fixture
def gate(tmp_path):
    """Where commands wait, by `read x < gate`, until gate(3) lets three of them go."""
    os.mkfifo(tmp_path / "gate")
    file = os.open(tmp_path / "gate", os.O_RDWR | os.O_CLOEXEC)
    yield lambda count=1: os.write(file, count * b"\n")
    os.close(file)


@pytest.fixture
def recorded(program, environment, tmp_path, pitot):
    """recorded(command…): records it in the background; see() waits until so many processes that hold are on disk."""
    class Recorded:
        def __init__(self, *command, options=()):
            self.process = subprocess.Popen([program, "record", "-o", "rec", *options, "--", *command], cwd=tmp_path,
                                            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
            running.append(self.process)

        def see(self, holds, count=1):
            wait_until(lambda: sum(map(holds, rows(pitot, "process", status=None))) >= count, "the processes are on disk",
                       self.process)

        def end(self):
            """What it said on standard error."""
            said = self.process.communicate(timeout=PATIENCE)[1]
            assert self.process.returncode == 0, said
            return said

    running = []
    yield Recorded
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_status_is_passed_on(record, tmp_path, status):
    record("sh", "-c", f"exit {status}", status=status)
    assert identity(tmp_path / "rec")["exit_status"] == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGPIPE])
def test_death_by_signal(record, tmp_path, number):
    result = record("sh", "-c", f"kill -{int(number)} $$", status=128 + number)
    assert result.stderr.splitlines()[0] == f"pitot record: the command was killed by {number.name}"
    assert identity(tmp_path / "rec")["exit_status"] == 128 + number


def test_profile_is_the_same_command(pitot, tmp_path):
    pitot("profile", "-o", "rec", "true")
    assert identity(tmp_path / "rec")["command"] == ["true"]


def test_recording_json(record, tmp_path):
    before = time.time_ns()
    record("sh", "-c", "sleep 0.1", options=["--name", "my run"])
    value = identity(tmp_path / "rec")
    assert value["name"] == "my run"
    assert value["command"] == ["sh", "-c", "sleep 0.1"]
    assert value["state"] == "complete"
    assert value["directory"] == str(tmp_path)
    assert value["host"] == os.uname().nodename
    assert before <= value["start_realtime_ns"] <= time.time_ns()
    assert 100_000_000 <= value["elapsed_ns"] < 60_000_000_000
    assert value["end_monotonic_ns"] - value["start_monotonic_ns"] == value["elapsed_ns"]
    assert not [name for name in os.listdir(tmp_path / "rec") if name.endswith(".partial")]


def test_identity_while_it_runs(program, environment, tmp_path):
    running = start(program, environment, tmp_path, "sh", "-c", "cat rec/recording.json")
    assert json.loads(running.communicate(timeout=PATIENCE)[0])["state"] == "recording"


def test_default_name(pitot, tmp_path):
    pitot("record", "true")
    pitot("record", "true")
    script = tmp_path / "my train.py"
    script.write_text("pass\n")
    pitot("record", sys.executable, "-B", script, "x.py")
    pitot("record", "--name", "a/b c", "--", "true")
    names = sorted(os.listdir(tmp_path))
    assert len([n for n in names if re.fullmatch(r"true-\d{8}-\d{6}(-2)?\.pitot", n)]) == 2
    assert len([n for n in names if re.fullmatch(r"my_train-\d{8}-\d{6}\.pitot", n)]) == 1
    assert len([n for n in names if re.fullmatch(r"b_c-\d{8}-\d{6}\.pitot", n)]) == 1


def test_the_command_keeps_its_streams(record):
    result = record("sh", "-c", "cat; echo error >&2", input="through\n", options=["-q"])
    assert result.stdout == "through\n"
    assert result.stderr == "error\n"


def test_binary_streams(record):
    data = bytes(range(256)) * 4096
    result = record("cat", input=data, options=["-q"], text=False)
    assert result.stdout == data


def test_the_command_keeps_its_environment(record, tmp_path):
    script = "import os, json, sys; json.dump([dict(os.environ), os.getcwd(), os.getpgrp(), os.getsid(0)], sys.stdout)"
    values, folder, group, session = json.loads(record(sys.executable, "-c", script, env={"MINE": "a=b;c"}).stdout)
    assert values["MINE"] == "a=b;c"
    assert folder == str(tmp_path)
    assert group == os.getpgrp() and session == os.getsid(0)
    assert values["PITOT_RECORDING"] == str(tmp_path / "rec")
    assert values["CUDA_INJECTION64_PATH"] == values["NVTX_INJECTION64_PATH"]
    assert os.access(values["CUDA_INJECTION64_PATH"], os.R_OK)


def test_a_value_behind_an_option_that_may_stand_alone(pitot):
    """It was taken for the command."""
    assert "the value of '--cpu' is given as --cpu=5" in pitot("record", "--cpu", "5", "--", "true", status=2).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_recording_of_somebody_else(record, program, environment, tmp_path):
    """Why it cannot be read, and what its owner can do; also where it is the newest of a folder and was not named."""
    record("true", options=["--no-cpu", "-o", "private.pitot"])
    tmp_path.chmod(0o755)
    for name in ([], ["private.pitot"]):
        result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, "report", *name],
                                cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        if "cannot execute" in result.stderr or "failed to execute" in result.stderr:
            pytest.skip("nobody may not run pitot here")
        assert result.returncode == 1 and "'private.pitot': Permission denied" in result.stderr
        assert "its owner shares it with: chmod -R go+rX private.pitot" in result.stderr


def options_given(record, *options):
    text = record("sh", "-c", "echo $PITOT_OPTIONS", options=("--force", "--no-cpu", *options)).stdout
    return dict(item.split("=") for item in text.strip().split(";"))


def test_options_for_the_recorder(record):
    """Defaults are the recorder's own: only what differs from them is said."""
    values = options_given(record)
    assert abs(int(values.pop("start_ns")) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) < 60_000_000_000
    assert values == {}


def test_settings_of_the_environment_and_a_file(record, tmp_path, pitot):
    """The command line comes first, then variables, then the file. The recorder inside gets what comes out, and nothing else."""
    (tmp_path / "pitot.json").write_text('{"graphs": "launch", "api": "all", "stacks": "native", "app_name": "of a file"}')
    variables = {"PITOT_CONFIG_FILE": "pitot.json", "PITOT_API": "launches", "PITOT_SYNC": "yes", "GPUFL_PROFILING_ENGINE": "Monitor"}
    text = record("sh", "-c", "echo $PITOT_OPTIONS", options=("--no-cpu", "--stacks", "python"), env=variables).stdout
    values = dict(item.split("=") for item in text.strip().split(";"))
    del values["start_ns"]
    assert values == {"engine": "monitor", "graphs": "launch", "stacks": "python", "sync": "1"}
    assert (identity(tmp_path / "rec")["name"], identity(tmp_path / "rec")["engine"]) == ("of a file", "monitor")
    for variables, says in (({"PITOT_GRAPHS": "lunch"}, "PITOT_GRAPHS takes launch or node, not 'lunch'"),
                            ({"PITOT_SINKS": "gpulf:/logs"}, "there is no sink 'gpulf', did you mean 'gpufl'?"),
                            ({"PITOT_DISABLED": "perhaps"}, "PITOT_DISABLED takes 1 or 0, not 'perhaps'")):
        assert says in record("touch", tmp_path / "ran", options=("--force",), env=variables, status=2).stderr
    assert not (tmp_path / "ran").exists()
    result = record("true", options=("--force", "--engine", "deeper"), status=2)
    assert "option '--engine' takes monitor, trace, pc-sampling, range-profiler, pm-sampling, sass-metrics or deep, not 'deeper'" in result.stderr


def test_switched_off(record, tmp_path):
    """The command runs as if it had been started alone."""
    result = record("sh", "-c", "echo $PITOT_RECORDING.; exit 7", env={"PITOT_DISABLED": "1"}, status=7)
    assert result.stdout == ".\n" and "nothing is recorded" in result.stderr and not list(tmp_path.iterdir())
    record("nonexistent-command", env={"GPUFL_DISABLED": "on"}, status=127)


def test_every_setting_is_an_option(record, pitot):
    """Each option of the recorder, from the one list of them (schema/settings.h), reaches it."""
    [command] = pitot("help", "record", "--json", json_output=True)["commands"]
    values = {"duration": ("250ms", "250000000"), "size": ("2M", str(2 << 20)), "number": ("7", "7"), "string": ("x*,y", "x*,y")}
    options, expected = [], {}
    for option in command["options"]:
        if option["setting"] in (None, "sinks"):  # they are names, and become paths
            continue
        if option["type"] == "flag":
            options.append(f"--{option['name']}")
            expected[option["setting"]] = "1"
        else:
            choices = option["choices"]
            typed, written = (choices[0], choices[0]) if choices else values[option["type"]]
            options.append(f"--{option['name']}={typed}")
            expected[option["setting"]] = written
    assert {"graphs", "delay_ns", "max_bytes"} < set(expected)
    values = options_given(record, *options)
    for setting in ("api", "system", "measure"):  # their first choices are their defaults
        expected.pop(setting)
    assert values.pop("start_ns") and values == expected
    assert options_given(record, "--no-counters")["counters_ns"] == "0"
    assert options_given(record, "--api=all")["api"] == "all"
    assert options_given(record, "--measure=range")["measure"] == "range"


def test_descriptors_are_not_inherited(record):
    listing = record("ls", "-l", "/proc/self/fd").stdout
    opened = re.findall(r" (\d+) -> (\S+)", listing)
    assert [number for number, _ in opened if int(number) > 2] == [opened[-1][0]], listing  # ls's own


def test_signal_state_is_the_callers(record):
    script = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    assert record(sys.executable, "-c", script).stdout == "[]\n"
    status = record("cat", "/proc/self/status", options=["--force"]).stdout
    assert int(re.search(r"SigIgn:\s+(\w+)", status)[1], 16) & (1 << (signal.SIGINT - 1)) == 0


def test_ignored_signals_stay_ignored(program, environment, tmp_path):
    ignore = lambda: (signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    running = start(program, environment, tmp_path, "cat", "/proc/self/status", preexec_fn=ignore)
    ignored = int(re.search(r"SigIgn:\s+(\w+)", running.communicate(timeout=PATIENCE)[0])[1], 16)
    assert running.returncode == 0
    for number in (signal.SIGHUP, signal.SIGCHLD):
        assert ignored & (1 << (number - 1))


def limits(what, soft):
    """A preexec_fn that sets a limit of the process."""
    return lambda: resource.setrlimit(what, (soft, resource.getrlimit(what)[1]))


def test_nobody_reads_what_is_said(program, environment, tmp_path):
    """The status is the command's, and the recording is complete."""
    process = start(program, environment, tmp_path, "sh", "-c", "kill -PIPE $PPID; exit 3")
    process.stderr.close()
    assert process.wait(timeout=PATIENCE) == 3
    assert identity(tmp_path / "rec")["exit_status"] == 3


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGXFSZ])
def test_signals_of_failed_writes_are_the_commands(record, number):
    record("sh", "-c", f"kill -{int(number)} $$", status=128 + number)


@pytest.mark.parametrize("limit", [0, 1024])
def test_files_may_not_be_large_enough(record, tmp_path, limit):
    """An error, and nothing is left; the command has not been started."""
    result = record("touch", "ran", status=1, preexec_fn=limits(resource.RLIMIT_FSIZE, limit))
    assert re.fullmatch(r"pitot record: error: cannot (create|write).*: File too large\n", result.stderr), result.stderr
    assert list(tmp_path.iterdir()) == []


def test_few_descriptors(record, tmp_path):
    result = record("touch", "ran", status=126, preexec_fn=limits(resource.RLIMIT_NOFILE, 6))
    assert result.stderr.endswith(": too many open files, raise the limit with 'ulimit -n'\n"), result.stderr
    assert result.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_a_umask_that_allows_nothing(record, tmp_path):
    """Root may write all the same."""
    result = record("true", status=None, preexec_fn=lambda: os.umask(0o777))
    assert result.returncode == 0 or result.stderr.count("\n") == 1 and list(tmp_path.iterdir()) == []


def modes(folder):
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_a_recording_is_private(record, tmp_path):
    """It has the command line of every child. A folder that was there before is shared as its owner wants it."""
    record("true", preexec_fn=lambda: os.umask(0))
    assert (tmp_path / "rec").stat().st_mode & 0o777 == 0o700
    assert modes(tmp_path / "rec")["recording.json"] == 0o600
    (tmp_path / "rec").chmod(0o750)
    record("true", options=["--force"], preexec_fn=lambda: os.umask(0))
    assert (tmp_path / "rec").stat().st_mode & 0o777 == 0o750
    assert modes(tmp_path / "rec")["recording.json"] == 0o600


def test_end_says_five_things_and_what_next(record):
    lines = record("true").stderr.splitlines()
    labels = [line.split()[0] for line in lines[1:]]
    assert labels == ["recording", "seen", "GPU", "loss", "cost", "next"]
    assert lines[0] == "pitot record: the command ended with status 0"
    assert lines[-1].endswith("pitot report rec")


def test_why_there_are_no_gpu_data(record, pitot):
    devices = pitot("devices", status=None).returncode == 0
    text = record("true").stderr
    assert text.count("no GPU data: ") == 1
    reason = "the command did not use CUDA" if devices else "no NVIDIA kernel driver"
    assert f"no GPU data: {reason}" in text


def test_end_as_json(record):
    result = record("sh", "-c", "exit 3", options=["--json"], status=3)
    assert result.stdout == ""
    value = json.loads(result.stderr)
    assert value["recording"] == "rec" and value["exit_status"] == 3 and value["kernels"] == 0
    assert value["processes"] == 1 and value["lost"] == 0 and value["no_gpu_data"]


def test_what_is_unknown_is_not_0(record):
    """Nothing was inside the command, and no GPU was seen: neither has a figure."""
    text = record("/bin/true", options=["--no-cpu"]).stderr
    assert re.search(r"^  seen +1 process$", text, re.M) and re.search(r"^  cost +nothing inside the command$", text, re.M)
    value = json.loads(record("/bin/true", options=["--json", "--force", "--no-cpu"]).stderr)
    assert value["gpu_busy_ns"] is None
    assert set(value["cost"].values()) == {None}
    value = json.loads(record("/bin/true", options=["--json", "--force", "--cpu-via", "perf"], status=None).stderr.splitlines()[-1])
    if "recording" in value:
        assert value["cost"]["sampler_ns"] > 0 and value["cost"]["callback_ns"] is None


def test_quiet(record):
    assert record("true", options=["-q"]).stderr == ""


def test_names_for_the_shell_are_quoted(pitot):
    text = pitot("record", "-o", "it's mine", "true").stderr
    assert "pitot report 'it'\\''s mine'" in text


def test_missing_command(record, tmp_path):
    for command, said in (("no-such-command", "no such command in PATH"), ("./none", "No such file or directory")):
        result = record(command, status=127)
        assert said in result.stderr and f"'{command}'" in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_command_that_cannot_be_executed(record, tmp_path):
    script = tmp_path / "script"
    script.write_text("true\n")
    for command, advice in (script, f"chmod +x {script}"), (tmp_path, "Is a directory"):
        result = record(command, status=126)
        assert "cannot run" in result.stderr and len(result.stderr.splitlines()) == 1
        assert advice in result.stderr
    assert os.listdir(tmp_path) == ["script"]
    script.write_bytes(b"#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert "cannot run" in record(script, status=127).stderr
    assert os.listdir(tmp_path) == ["script"]


def test_script_without_interpreter_line(record, tmp_path):
    script = tmp_path / "script"
    script.write_text("exit 5\n")
    script.chmod(0o755)
    record(script, status=5)


def test_existing_folder(record, tmp_path):
    record("true")
    before = identity(tmp_path / "rec")
    result = record("true", status=1)
    assert "'rec' exists" in result.stderr and "--force" in result.stderr
    assert identity(tmp_path / "rec") == before
    record("no-such-command", options=["--force"], status=127)
    assert identity(tmp_path / "rec") == before
    record("echo", options=["--force"])
    assert identity(tmp_path / "rec")["command"] == ["echo"]


def test_force_replaces_nothing_but_recordings(record, tmp_path):
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "thesis.tex").write_text("years of work")
    (tmp_path / "rec" / "recording.json").write_text("{}")
    result = record("true", options=["--force"], status=2)
    assert "thesis.tex" in result.stderr
    assert sorted(os.listdir(tmp_path / "rec")) == ["recording.json", "thesis.tex"]
    (tmp_path / "rec" / "thesis.tex").unlink()
    (tmp_path / "rec" / "7.0.pit").mkdir()
    record("true", options=["--force"], status=2)
    (tmp_path / "rec" / "7.0.pit").rmdir()
    record("true", options=["--force"])


def test_names_that_are_no_folders(pitot, tmp_path):
    (tmp_path / "file").write_text("of mine")
    result = pitot("record", "--force", "-o", "file", "true", status=2)
    assert "'file' is a file, not a recording" in result.stderr
    assert (tmp_path / "file").read_text() == "of mine"
    assert "takes the name of a folder" in pitot("record", "-o", "", "true", status=2).stderr


def test_a_folder_without_segments_is_not_the_newest_recording(pitot, record, tmp_path):
    """Left by a record that was interrupted before it began."""
    record("true", options=["-o", "first.pitot"])
    (tmp_path / "second.pitot").mkdir()
    (tmp_path / "second.pitot" / "recording.json").write_text("{}")
    assert "reading first.pitot" in pitot("info").stderr


def test_force_does_not_follow_links(record, tmp_path):
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "recording.json").write_text("{}")
    (tmp_path / "rec").symlink_to("else")
    record("true", options=["--force"], status=None)
    assert (tmp_path / "else").is_dir()
    (tmp_path / "file").write_text("")
    assert "file" in record("true", options=["--force", "-o", "file"], status=2).stderr
    assert (tmp_path / "file").exists()


def test_folder_above_is_missing(record):
    result = record("true", options=["-o", "no/where/rec"], status=1)
    assert "'no/where/rec'" in result.stderr and len(result.stderr.splitlines()) == 1


def test_folder_that_cannot_be_written(pitot):
    result = pitot("record", "-o", "/proc/rec", "true", status=1)
    assert "/proc/rec" in result.stderr and len(result.stderr.splitlines()) == 1
    assert "cannot create" in pitot("record", "true", cwd="/proc/sys", status=1).stderr


def test_library_that_is_missing(record, tmp_path):
    result = record("true", env={"PITOT_LIBRARY": "/nonexistent.so"}, status=1)
    assert "PITOT_LIBRARY='/nonexistent.so'" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("variable", ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"])
def test_injection_of_another_tool_is_refused(record, tmp_path, variable):
    result = record("true", env={variable: "/opt/other.so"}, status=1)
    assert f"{variable}='/opt/other.so'" in result.stderr and "--force-injection" in result.stderr
    assert os.listdir(tmp_path) == []
    text = record("sh", "-c", f"echo ${variable}", env={variable: "/opt/other.so"},
                  options=["--force-injection"]).stdout
    assert "libpitot.so" in text


def test_record_in_record(pitot, program, tmp_path):
    pitot("record", "-o", "outer", "--", program, "record", "-o", "inner", "--", "sh", "-c",
          "echo $PITOT_RECORDING > where")
    assert (tmp_path / "where").read_text() == f"{tmp_path / 'inner'}\n"
    assert identity(tmp_path / "inner")["exit_status"] == identity(tmp_path / "outer")["exit_status"] == 0


WAIT = "sh -c read x < gate"


def test_forks_are_seen(pitot, recorded, gate):
    recording = recorded("sh", "-c", "sh -c 'sh -c \"read x < gate\" & sh -c \"read x < gate\"; wait; exit 3'; exit 0",
                         options=["--no-cpu"])
    recording.see(lambda row: row["command"] == WAIT, count=2)
    gate(2)
    recording.end()
    seen = rows(pitot, "process")
    commands = [row["command"] for row in seen]
    assert commands[0].startswith("sh -c sh -c")
    by_pid = {row["pid"]: row for row in seen}
    waiting = {row["pid"]: row for row in seen if row["command"] == WAIT}
    assert len(waiting) == 2
    for process in waiting.values():
        parent = by_pid[process["parent_pid"]]
        assert by_pid[parent["parent_pid"]]["command"] == commands[0]
    assert all(row["source"] == "record" for row in seen)
    assert [row["exit_status"] for row in seen if row["pid"] == seen[0]["pid"]] == [None, 0]


def test_exec_is_seen(pitot, recorded, gate):
    first = "read x < gate; exec sh -c 'read x < gate'"
    recording = recorded("sh", "-c", first)
    for command in (f"sh -c {first}", WAIT):
        recording.see(lambda row: row["command"] == command)
        gate()
    recording.end()
    pid = rows(pitot, "process")[0]["pid"]
    images = [row for row in rows(pitot, "process") if row["pid"] == pid]
    commands = list(dict.fromkeys(row["command"] for row in images))
    assert commands == [f"sh -c {first}", WAIT]
    # The rows of the sampler, which say nothing of that, may come before or behind them.
    assert [row["exit_status"] for row in images if row["source"] == "record"][-1] == 0


def test_orphans_are_seen(record, tmp_path):
    """They are not waited for."""
    result = record("sh", "-c", "(sleep 1000 > /dev/null 2>&1 & echo $! > orphan)")
    os.kill(int((tmp_path / "orphan").read_text()), signal.SIGKILL)  # still there
    assert "1 process of the command is still running: GPU work is still recorded" in result.stderr
    result = record("sh", "-c", "sleep 1000 > /dev/null 2>&1 & echo $! > orphan", options=["-f", "--cpu-only", "--cpu-via", "perf"],
                    status=None)
    if result.returncode == 0:  # perf events are allowed
        os.kill(int((tmp_path / "orphan").read_text()), signal.SIGKILL)
        assert "1 process of the command is still running: no longer sampled" in result.stderr


def test_a_recording_starts_with_its_command(record, pitot, tmp_path):
    """recording.json, the settings of the recorder and the row of the command's process have one time."""
    options = record("sh", "-c", "echo $PITOT_OPTIONS").stdout.strip()
    written = identity(tmp_path / "rec")
    [command] = [row for row in rows(pitot, "process") if row["command"].startswith("sh -c") and row["exit_status"] is not None]
    assert written["command"][0] == "sh" and written["options"] == options
    assert f"start_ns={written['start_monotonic_ns']}" in options
    assert command["start_ns"] == 0
    assert written["elapsed_ns"] == written["end_monotonic_ns"] - written["start_monotonic_ns"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT,
                                    signal.SIGQUIT, signal.SIGALRM])
def test_signals_are_passed_on(program, environment, tmp_path, number):
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 9' {name}; touch ready; while :; do sleep 0.05; done"
    running = start(program, environment, tmp_path, "sh", "-c", script)
    wait_until((tmp_path / "ready").exists, "the command runs", running)
    running.send_signal(number)
    assert running.communicate(timeout=PATIENCE)[0] == f"got {name}\n"
    assert running.returncode == 9
    assert identity(tmp_path / "rec")["exit_status"] == 9


def test_signal_that_ends_the_command(program, environment, tmp_path):
    running = start(program, environment, tmp_path, "sh", "-c", "touch ready; exec sleep 60")
    wait_until((tmp_path / "ready").exists, "the command runs", running)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=PATIENCE)
    assert running.returncode == 128 + signal.SIGTERM
    assert identity(tmp_path / "rec")["state"] == "complete"


class Terminal:
    """The program with a terminal of its own, as a shell would start it."""

    def __init__(self, program, environment, folder, *arguments):
        self.output = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(program, [str(program), *arguments], environment)

    def read(self, seconds):
        """Reads for so long, or to the end; false at the end."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                break
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:
                return False
            if not chunk:
                return False
            self.output += chunk
        return True

    def expect(self, text, times=1):
        end = time.monotonic() + PATIENCE
        while self.output.count(text) < times:
            assert time.monotonic() < end, self.output
            if not self.read(0.1):
                assert self.output.count(text) >= times, self.output

    def finish(self):
        end = time.monotonic() + PATIENCE
        while self.read(0.2):
            assert time.monotonic() < end, self.output
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_ctrl_c_reaches_the_command_once(program, environment, tmp_path):
    # From the first time on it waits for a second one.
    script = "trap 'echo interrupted; n=$((n+1))' INT; echo ready; until [ $n ]; do sleep 0.1; done; sleep 0.5; exit 4$n"
    terminal = Terminal(program, environment, tmp_path, "record", "-o", "rec", "--", "sh", "-c", script)
    terminal.expect(b"ready")
    os.write(terminal.fd, b"\x03")
    assert terminal.finish() == 41
    assert terminal.output.count(b"interrupted") == 1
    assert identity(tmp_path / "rec")["exit_status"] == 41


def test_ctrl_c_ends_with_a_complete_recording(program, environment, tmp_path, pitot):
    terminal = Terminal(program, environment, tmp_path, "record", "-o", "rec", "--", "sh", "-c",
                        "echo ready; exec sleep 60")
    terminal.expect(b"ready")
    os.write(terminal.fd, b"\x03")
    assert terminal.finish() == 128 + signal.SIGINT
    assert identity(tmp_path / "rec")["state"] == "complete"
    assert b"pitot report rec" in terminal.output


def test_ctrl_z_stops_and_goes_on(program, environment, tmp_path, gate):
    shell = Terminal("/bin/bash", environment, tmp_path, "--norc", "-i")
    os.write(shell.fd, f"{program} record -q -o rec -- sh -c 'echo rea''dy; read x < gate; echo do''ne'\n".encode())
    shell.expect(b"ready")
    os.write(shell.fd, b"\x1a")
    shell.expect(b"Stopped")
    os.write(shell.fd, b"fg\n")
    gate()
    shell.expect(b"done")
    os.write(shell.fd, b"exit\n")
    shell.finish()
    assert identity(tmp_path / "rec")["exit_status"] == 0


@pytest.mark.parametrize("options", [[], ["--cpu-only"]])
def test_live_line_on_a_terminal(program, environment, tmp_path, gate, options):
    """Without GPU work to come it does not speak of any."""
    terminal = Terminal(program, environment, tmp_path, "record", *options, "-o", "rec", "--", "sh", "-c", "read x < gate")
    terminal.expect(b"recording 0:", times=2)
    gate()
    assert terminal.finish() == 0
    assert (b"no GPU work yet" in terminal.output) == (not options)


def test_no_live_line_when_quiet(program, environment, tmp_path):
    terminal = Terminal(program, environment, tmp_path, "-q", "record", "-o", "rec", "--", "sleep", "1.5")
    assert terminal.finish() == 0
    assert terminal.output == b""


def test_no_live_line_without_a_terminal(record):
    assert "recording 0:0" not in record("sleep", "1.5").stderr


@pytest.mark.parametrize("size", ["64k", "256k"])
def test_full_disk(record, pitot, small_disk, size):
    disk = small_disk(f"size={size}")
    script = "dd if=/dev/zero of=disk/fill bs=1k count=1000 2> /dev/null; for i in $(seq 300); do /bin/true; done; exit 6"
    result = record("sh", "-c", script, options=["--force", "-o", "disk/rec"], status=6)
    assert "No space left on device" in result.stderr
    assert re.search(r"loss .*: the disk was full", result.stderr)
    assert json.loads((disk / "rec" / "recording.json").read_text())["command"][0] == "sh"
    assert "disk_full" in [row["reason"] for row in rows(pitot, "loss", "disk/rec")]


def test_disk_that_takes_no_samples(record, pitot, small_disk):
    """The sampler cannot begin a segment, and recording.json gets its end without another file: the loss is in a row all the same."""
    disk = small_disk("size=1m,nr_inodes=5")  # the disk's folder, fill, rec, recording.json and record.0.pit
    (disk / "fill").touch()
    burn = "import time\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass"
    result = record(sys.executable, "-c", burn, options=["-o", "disk/rec"])
    assert identity(disk / "rec")["state"] == "complete"
    assert [path.name for path in (disk / "rec").iterdir() if path.suffix != ".pit"] == ["recording.json"]
    if "CPU samples are incomplete" not in result.stderr:
        pytest.skip("the CPU cannot be sampled from outside here")
    reasons = {row["reason"] for row in rows(pitot, "loss", "disk/rec")}
    assert "disk_full" in reasons and "write_error" not in reasons
    assert "the disk was full" in pitot("report", "disk/rec").stdout


def test_many_processes_at_once(recorded, gate):
    recording = recorded("sh", "-c", "for i in $(seq 40); do sh -c 'read x < gate' & done; wait", options=["--json"])
    recording.see(lambda row: row["command"] == WAIT, count=40)
    gate(40)
    assert json.loads(recording.end())["processes"] >= 41


def test_names_with_hostile_bytes(record, tmp_path):
    script = b"#!/bin/sh\nsleep 0.3\n"
    path = os.fsencode(tmp_path) + b"/\xff\xfe\x1b[31m\n'\"name"
    with open(path, "wb") as file:
        file.write(script)
    os.chmod(path, 0o755)
    result = record(os.fsdecode(path), "\x07bell", "\x7f")
    assert "status 0" in result.stderr
    assert identity(tmp_path / "rec")["command"][1] == "\x07bell"


def test_the_time_after_the_last_event_counts(pitot, record, tmp_path):
    record("sleep", "0.5", options=["--no-cpu"])
    for command in ("info", "report"):
        assert pitot(command, tmp_path / "rec", "--json", json_output=True)["duration_ns"] >= 490_000_000


def test_few_descriptors(pitot, tmp_path):
    """Whichever open fails: the command is recorded, or nothing runs, nothing is left and one line says why."""
    said = ""
    for limit in range(4, 24):
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        result = pitot("record", "-o", "rec", "--force", "--no-cpu", "--no-symbols", "--", "/bin/true", status=None, preexec_fn=lower)
        assert result.returncode in (0, 1, 126), result.stderr
        if result.returncode == 0:
            assert identity(tmp_path / "rec")["exit_status"] == 0
        elif result.stderr.startswith("pitot record: error:"):
            assert len(result.stderr.splitlines()) == 1
        said += result.stderr
    assert result.returncode == 0
    assert "cannot receive signals: too many open files" in said


def test_attached_python_is_warned_of_without_ebpf(program, environment, pitot, tmp_path):
    """Perf events have Python frames of a process that already runs up to 1,000 times a second."""
    with subprocess.Popen([sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"],
                          stdout=subprocess.PIPE) as python:
        try:
            python.stdout.readline()
            for method, hz in ("ebpf", 2000), ("perf", 2000), ("perf", 999):
                result = pitot("record", "--force", "-o", "rec", "-p", python.pid, "--cpu-via", method, f"--cpu={hz}",
                               "--duration", "0.3s", status=None)
                if result.returncode:
                    continue  # not permitted here
                if (method, hz) != ("perf", 999) or os.geteuid() == 0:
                    expected = (method, hz) == ("perf", 2000)
                    assert ("no Python frames, which need eBPF here" in result.stderr) == expected, result.stderr
                assert f"process {python.pid} was sampled" in result.stderr
        finally:
            python.kill()


def test_no_process_can_be_started(program, environment):
    """fork fails: nothing runs, nothing is left, and one line says why."""
    def none_more():
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))

    other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # the limit is not root's
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        result = subprocess.run([program, "record", "-o", "rec", "--no-cpu", "/bin/true"], cwd=folder, capture_output=True, text=True,
                                env={**environment, "ASAN_OPTIONS": "detect_leaks=0"}, timeout=PATIENCE, preexec_fn=none_more,
                                **other)  # LeakSanitizer starts a process
        assert result.returncode == 126
        assert "cannot start '/bin/true'" in result.stderr and len(result.stderr.splitlines()) == 1
        assert os.listdir(folder) == []
