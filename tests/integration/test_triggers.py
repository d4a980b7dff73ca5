"""Rules that dump a ring while the command goes on: one dump for one cause, with what happened around it."""
import ctypes.util
import http.server
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

from waiting import wait_until

TAPE = "tests/data/tapes/train.tape"


@pytest.fixture
def ring(player, program, source, environment, tmp_path):
    """ring(tape, "--when", "xid", faults="gpu-fault at 500"): plays a tape below `pitot record --ring` until end() is called."""
    started = []

    class Ring:
        def __init__(self, tape, *options, faults="", arguments=(), rings=("--ring", "10m"), env=()):
            (tmp_path / "faults").write_text(faults)
            self.end_file, self.folder, self.program = tmp_path / "end", tmp_path / "run.pitot", program
            command = [program, "record", *rings, "-o", self.folder, "--stacks", "none", "--no-symbols", *options, "--", player, "--now",
                       "--realtime", "--faults", tmp_path / "faults", "--end-when", self.end_file, *arguments, tape or source / TAPE]
            self.process = subprocess.Popen(list(map(str, command)), env={**environment, "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0", **dict(env)},
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
            started.append(self.process)

        def dumps(self):
            """Those that are complete but for what is under way: the launcher's segment, which says why, comes after the ring."""
            return sorted(path for path in tmp_path.glob("run-dump-*.pitot") if any(file.stat().st_size for file in path.glob("record*.pit")))

        def until(self, condition, what):
            wait_until(condition, what, self.process)

        def end(self):
            self.end_file.touch()
            _, said = self.process.communicate(timeout=120)
            return said

    yield Ring
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def rows_of_ring(run, what):
    """Whether a segment in the memory of the command's processes has something by now: of what a dump would have."""
    folder = run.folder.parent / "looked.pitot"
    done = subprocess.run([run.program, "dump", str(run.process.pid), "-f", "-o", folder], capture_output=True, text=True)
    return done.returncode == 0 and subprocess.run([run.program, "view", folder, what, "-n", "1", "--json"], capture_output=True, text=True).stdout


def held(rows, folder):
    return [(row["rule"], row["outcome"], row["dump"]) for row in rows(folder, "trigger")]


def test_an_error_makes_one_dump(ring, pitot, rows, tmp_path):
    """The error comes back with each call, and another rule holds at the same moment."""
    run = ring(None, "--post", "0s", "--when", "cuda-error", "--on-trigger", f'echo "$PITOT_RULE $PITOT_DUMP" >>{tmp_path}/told',
               faults="gpu-fault at 500")
    run.until((tmp_path / "told").exists, "the command of the dump has run")
    [dump] = run.dumps()
    pitot("info", "--verify", dump)
    assert rows(dump, "api_call"), "the dump has what happened before"
    first = held(rows, dump)
    assert first[0][1:] == ("dump", 1) and {rule for rule, _, _ in first} == {"cuda-error", "sticky-error"}
    assert all(outcome == "joined" for _, outcome, _ in first[1:])
    assert [row["reason"] for row in rows(dump, "capability") if row["name"] == "ring"][-1].startswith(f"a dump because of '{first[0][0]}', of a ring")
    report = json.loads(pitot("report", "--json", dump).stdout)
    assert report["rules"][0]["dump"] == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in report["rules"][0]["evidence"]
    assert "rules that held" in pitot("report", dump).stdout
    said = run.end()
    assert run.process.returncode == 0 and said.count("a dump follows") == 1
    assert run.dumps() == [dump] and (tmp_path / "told").read_text() == f"{first[0][0]} {dump}\n"
    outcomes = {outcome for _, outcome, _ in held(rows, run.folder)}
    assert outcomes <= {"dump", "joined", "cooldown"}
    times = sorted(row["time_ns"] for row in rows(run.folder, "trigger") if row["rule"] == "cuda-error")
    assert all(later - time >= 1e9 for time, later in zip(times, times[1:])), "a row a second, however many calls failed"


def test_the_first_dump_of_each_rule_stays(ring, rows, tmp_path):
    """However little --max-dumps allows."""
    rules = [word for name in ("one", "two") for word in ("--when", f"file {tmp_path}/{name} touched")]
    run = ring(None, "--no-rules", "--post", "0s", "--max-dumps", "1", "--on-trigger", f'echo "$PITOT_DUMP" >>{tmp_path}/told', *rules)

    def told():
        return (tmp_path / "told").read_text().splitlines() if (tmp_path / "told").exists() else []

    run.until(lambda: rows_of_ring(run, "kernel"), "there is work")
    for count, name in enumerate(["one", "two"], 1):
        (tmp_path / name).touch()
        run.until(lambda count=count: len(told()) == count, f"dump {count}")
    assert [path.name for path in run.dumps()] == ["run-dump-1.pitot", "run-dump-2.pitot"], "both are the first of their rules"
    assert "was removed" not in run.end()


def test_a_hang_makes_one_dump(ring, make_tape, pitot, rows):
    """Work that never ends, after six seconds of work that does."""
    run = ring(make_tape("quiet", 100), "--when", "hang > 500ms", "--post", "0s", faults="incomplete every 50")
    run.until(run.dumps, "the hang is noticed")
    [dump] = run.dumps()
    assert held(rows, dump) == [("hang > 500ms", "dump", 1)]
    [row] = rows(dump, "trigger")
    assert "no GPU work has ended for 500 ms" in row["evidence"]
    run.end()
    assert run.dumps() == [dump] and held(rows, run.folder) == [("hang > 500ms", "dump", 1)]
    assert pitot("rules", "--test", run.folder, "hang > 500ms").stdout.count("dump 1") == 1, "the recording shows the same"


def test_what_a_dump_says_of_threads_and_gpus(ring, make_tape, pitot, rows, build):
    """Read from outside when the dump is made: all threads with their stacks, and the GPUs."""
    nvml = ("LD_LIBRARY_PATH", str(build / "tests/unit/capture/nvml/whole")), ("NVML_STANDIN", "throttle=4")
    run = ring(make_tape("quiet", 100), "--when", "hang > 500ms", "--post", "0s", faults="incomplete every 50", env=nvml)
    run.until(run.dumps, "the hang is noticed")
    [dump] = run.dumps()
    report = json.loads(pitot("report", "--json", dump).stdout)
    [player] = {row["pid"] for row in rows(dump, "process") if row["source"] == "inside"}
    threads = [row for row in report["thread_states"] if row["pid"] == player]
    assert threads and player in {row["thread"] for row in threads}
    said = {row["name"]: (row["state"], row["reason"]) for row in rows(dump, "capability") if row["name"] == "threads"}
    if said["threads"][0] != "unavailable":
        assert any("main" in {frame["name"] for frame in row["frames"]} for row in threads), threads
        assert f"{len(threads)} thread" in said["threads"][1]
    gpus = {row["name"] for row in rows(dump, "device")}
    assert len(gpus) > 1, "those of the launcher"
    names = {row["id"]: row["name"] for row in rows(dump, "counter")}
    assert "gpu_power" in names.values()
    run.end()


def test_a_driver_that_does_not_answer(ring, make_tape, pitot, rows, build):
    """The dump is made all the same, and says so."""
    nvml = ("LD_LIBRARY_PATH", str(build / "tests/unit/capture/nvml/whole")), ("NVML_STANDIN", "hang=1")
    run = ring(make_tape("quiet", 100), "--when", "hang > 500ms", "--post", "0s", faults="incomplete every 50", env=nvml)
    run.until(run.dumps, "the dump is made")
    [dump] = run.dumps()
    assert any("did not answer" in (row["reason"] or "") for row in rows(dump, "capability") if row["name"] == "nvml")
    assert rows(dump, "kernel") and [row for row in rows(dump, "unfinished") if row["kind"] == "thread"]
    run.end()


METRICS = "launch__correlation.sum,sm__cycles_active.avg"


def test_an_engine_that_a_rule_starts(ring, source, rows, tmp_path):
    """It measures for a while in the process that goes on, and the dump that is made afterwards has its samples."""
    run = ring(source / "tests/data/tapes/launch.tape", "--no-rules", "--post", "0s", "--metrics", METRICS, "--when",
               f"file {tmp_path}/now touched: deepen pm-sampling 1s", arguments=("--repeat", "1000000"), rings=("--ring", "10m", "-v"))
    run.until(lambda: rows_of_ring(run, "kernel"), "it launches kernels")
    (tmp_path / "now").touch()
    run.until(run.dumps, "the dump is made")
    [dump] = run.dumps()
    assert {row["name"] for row in rows(dump, "counter")} >= set(METRICS.split(","))
    samples = rows(dump, "counter_sample")
    assert samples and rows(dump, "kernel")
    [moment] = [row["time_ns"] for row in rows(dump, "trigger")]
    assert min(row["time_ns"] for row in samples) >= moment, "nothing was measured before"
    assert "on" in {row["state"] for row in rows(dump, "capability") if row["name"] == "engine"}
    os.killpg(run.process.pid, signal.SIGTERM)
    said = run.process.communicate(timeout=120)[1]
    assert "engine pm-sampling measures for 1 s" in said and "did not measure" not in said


class Listener(http.server.BaseHTTPRequestHandler):
    """Answers 500 below /broken, never below /silent."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, self.headers["Content-Type"], json.loads(body)))
        if self.path.startswith("/silent"):
            self.server.closed.wait()
        self.send_response(500 if self.path.startswith("/broken") else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def listener():
    if not (ctypes.util.find_library("curl") or ctypes.util.find_library("curl-gnutls")):
        pytest.skip("no libcurl")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    server.received, server.closed = [], threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.closed.set()
    server.shutdown()


@pytest.mark.parametrize("path, said", [("/hook?key=secret", None), ("/broken?key=secret", "it answered 500"),
                                        ("/silent?key=secret", "notify")])
def test_a_server_is_notified(ring, listener, tmp_path, path, said):
    """Once, with what held; a server that fails keeps nothing waiting, and the key of its URL is in no output."""
    url = f"http://127.0.0.1:{listener.server_port}{path}"
    rule = f"file {tmp_path}/now touched"
    run = ring(None, "--no-rules", "--when", rule, "--post", "0s", env=[("PITOT_NOTIFY", url), ("no_proxy", "*")])

    def asks():
        (tmp_path / "now").touch()
        return run.dumps()

    run.until(asks, "the file makes a dump")
    run.until(lambda: listener.received, "the server is told")
    told = run.end()
    assert run.process.returncode == 0 and "secret" not in told
    [(asked, kind, body)] = listener.received[:1]
    assert (asked, kind) == (path, "application/json") and len(listener.received) == 1
    assert (body["rule"], body["evidence"], body["process"]) == (rule, "the file was touched", None)
    assert body["dump"] == str(run.dumps()[0]) and body["host"] == socket.gethostname()
    assert (said in told) if said else "notify" not in told


@pytest.mark.parametrize("url, said", [("host/path", "--notify takes a URL"), ("file:///etc/passwd", "--notify takes a URL"), ("http://", "URL of a server"),
                                       ("https://user:word@host/", "without user and password"), ("http://a b", "URL of a server")])
def test_what_cannot_be_notified(pitot, url, said):
    assert said in pitot("record", "--ring", "1M", "--notify", url, "--", "true", status=2).stderr


def test_what_the_user_asks_for(ring, tmp_path, pitot, rows):
    """A file and a signal, which the command does not get."""
    run = ring(None, "--no-rules", "--when", f"file {tmp_path}/now touched", "--when", "signal USR2", "--post", "0s",
               "--on-trigger", f"echo $$ >>{tmp_path}/told; exec 2>/dev/null >&2; (sleep 600; true) & sleep 600")

    def touch():
        (tmp_path / "now").touch()
        return len(run.dumps()) == 1

    run.until(touch, "the file makes a dump")
    os.kill(run.process.pid, signal.SIGUSR2)
    run.until(lambda: (tmp_path / "told").exists() and len((tmp_path / "told").read_text().split()) == 2, "the signal makes a dump")
    said = run.end()
    for session in (tmp_path / "told").read_text().split():
        os.killpg(int(session), signal.SIGKILL)
    assert run.process.returncode == 0, "the command did not get the signal"
    made = [row for row in held(rows, run.folder) if row[1] == "dump"]
    assert not any("sleep" in row["command"] for row in rows(run.folder, "process")) and "still running" not in said
    assert made == [(f"file {tmp_path}/now touched", "dump", 1), ("signal USR2", "dump", 2)]


@pytest.mark.parametrize("how, number", [("segv", signal.SIGSEGV), ("kill", signal.SIGKILL)])
def test_the_end_of_the_command_needs_no_dump(ring, pitot, rows, how, number, tmp_path):
    run = ring(None, "--on-trigger", f"echo $PITOT_DUMP >{tmp_path}/told", arguments=("--exit", how, "--exit-at", "900"))
    assert run.process.wait(timeout=120) == 128 + number, run.process.stderr.read()
    assert held(rows, run.folder) == [("fatal-signal", "recording", None)] and not run.dumps()
    wait_until((tmp_path / "told").exists, "the command is run for the recording")
    assert f"killed by {number.name}" in pitot("report", run.folder).stdout


def test_a_program_that_executes_itself_does_not_hang(ring, make_tape, player, source, rows, tmp_path):
    """Its first image leaves work without an end; the process goes on."""
    again = tmp_path / "again"
    again.write_text(f"#!/bin/sh\nexec {player} --now --realtime --end-when {tmp_path}/end {source / TAPE}\n")
    again.chmod(0o755)
    run = ring(make_tape("quiet", 100), "--when", "hang > 3s", "--when", "gpu-idle > 5s", "--post", "0s", faults="incomplete every 50",
               arguments=("--exit", "exec", "--exit-at", "200"), env={"TAPE_PLAY_EXEC": str(again)})
    run.until(run.dumps, "the second image has no work any more")
    run.end()
    assert {rule for rule, _, _ in held(rows, run.folder)} == {"gpu-idle > 5s"}


def knows_statuses_of_others():
    """Linux 6.15 says with which status a process ended that was somebody else's child."""
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])
    return (major, minor) >= (6, 15)


@pytest.mark.skipif(not knows_statuses_of_others(), reason="before Linux 6.15")
def test_a_worker_dies_whose_master_waits_for_it(player, program, source, environment, rows, tmp_path):
    """As below torchrun: the worker is no child of `pitot record`."""
    done = subprocess.run([program, "record", "--ring", "10m", "-o", tmp_path / "run.pitot", "--stacks", "none", "--no-symbols", "--post", "0s", "--",
                           "sh", "-c", f"{player} --now --realtime --exit segv --exit-at 900 {source / TAPE}; {player} --now {source / TAPE}; exit 0"],
                          env={**environment, "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0"}, capture_output=True, timeout=120)
    assert done.returncode == 0
    [(rule, outcome, _)] = held(rows, tmp_path / "run.pitot")
    assert rule == "fatal-signal" and outcome in ("dump", "recording")


def test_a_normal_end_fires_nothing(ring, rows):
    run = ring(None, "--when", "exit-status != 0", env={"PITOT_RULES": "cuda-error; hang > 1h"})
    run.until(lambda: run.folder.exists() and list(run.folder.glob("*.pit")), "it records")
    run.end()
    assert held(rows, run.folder) == [] and not run.dumps()


@pytest.mark.parametrize("options, said", [
    (["--when", "xid"], "need --ring"), (["--on-trigger", "true"], "need --ring"),
    (["--ring", "1m", "--when", "hang > 3"], "rule 'hang > 3': 'hang >' needs a time"),
    (["--ring", "1m", "--when", "hangs > 3s"], "did you mean 'hang'?")])
def test_what_is_refused(pitot, options, said):
    assert said in pitot("record", *options, "--", "true", status=2).stderr
