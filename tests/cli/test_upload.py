"""`pitot upload`, against a server that behaves and one that does not."""
import contextlib
import gzip
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from gpufl_backend import ACCEPTED, Backend, close_early, make_session, make_window, raw, reply, silent
from waiting import PATIENCE, wait_until

KEY = "gpfl_secret"
CURSOR = ".gpufl-upload-cursor.json"
QUICK = ("--timeout", "30s")  # a tenth of the usual one, and so are the pauses


@pytest.fixture
def upload(pitot):
    """upload(backend, folder, …): the parsed result; with status=1 that of an upload that was not complete."""

    def run(backend, *arguments, status=0, env=None, **options):
        env = {"PITOT_API_KEY": KEY, "NO_PROXY": "*", **(env or {})}
        result = pitot("upload", "--json", "--url", backend.url, *QUICK, *arguments, status=status, env=env, **options)
        answer = json.loads(result.stdout)
        assert answer["complete"] == (status == 0)
        return {**answer, "said": result.stderr}

    return run


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs"


def check_all_there(backend, *sessions):
    """Every line once, every session completed once, after its last window."""
    assert Counter(backend.lines) == Counter(line for _, lines in sessions for line in lines)
    assert Counter(backend.completed) == {folder.name: 1 for folder, _ in sessions}


def test_protocol(upload, logs):
    """The header set, bodies as they are on disk, in order, and the session's end."""
    session, lines = make_session(logs, windows=2)
    for channel in "device", "scope":  # too large for libcurl to send it unasked
        lines += make_window(session, channel, 3, [os.urandom(1 << 16).hex() for _ in range(20)])
    with Backend() as backend:
        answer = upload(backend, logs)
    assert (answer["files"], answer["records"], answer["sessions"], answer["completed"]) == (6, len(lines), 1, 1)
    assert answer["said"] == "", "nothing to warn of"
    assert answer["bytes"] == sum(path.stat().st_size for path in session.glob("*.log.gz"))
    check_all_there(backend, (session, lines))
    names = [f"{channel}.{n}.log.gz" for channel in ("device", "scope") for n in (1, 2, 3)]
    assert [request["body"] for request in backend.streams()] == [(session / name).read_bytes() for name in names]
    assert [request["path"] for request in backend.requests] == ["/api/v1/events/stream"] * 6 + ["/api/v1/events/session-complete"]
    for request, name in zip(backend.requests, names):
        headers, sidecar = request["headers"], json.loads((session / f".gpufl-window.{name[:-7]}.json").read_text())
        assert headers["Authorization"] == f"Bearer {KEY}" and headers["User-Agent"].startswith("gpufl-client/1.3.0 (deferred-upload)")
        assert (headers["X-GpuFlight-Client-Version"], headers["X-GpuFlight-Wire-Version"]) == ("1.3.0", "1")
        assert headers["X-GpuFlight-Session-Id"] == session.name and headers["X-GpuFlight-Hostname"] == os.uname().nodename
        assert (headers["Content-Type"], headers["Content-Encoding"]) == ("application/x-ndjson", "gzip")
        assert "Expect" not in headers
        assert headers["X-GpuFlight-Window-Id"] == sidecar["window_id"]
        assert headers["X-GpuFlight-Window-Channel"] == sidecar["channel"]
        assert headers["X-GpuFlight-Window-Sequence"] == str(sidecar["window_sequence"])
        assert headers["X-GpuFlight-Window-CRC32"] == str(sidecar["payload_crc32"])
    last = backend.requests[-1]
    assert last["body"] == b"" and last["headers"]["X-GpuFlight-Session-Id"] == session.name
    assert "Content-Encoding" not in last["headers"] and "X-GpuFlight-Window-Id" not in last["headers"]


def test_cursor(upload, logs):
    """As gpufl has it; what is in it is not sent again, until that is asked for."""
    first, second = make_session(logs, start_ns=2), make_session(logs, start_ns=1)
    with Backend() as backend:
        upload(backend, logs)
        cursor = json.loads((logs / CURSOR).read_text())
        assert cursor["schema_version"] == 2
        assert cursor["uploaded_files"] == [f"{folder.name}/{channel}.{n}.log.gz" for folder, _ in (second, first)
                                            for channel in ("device", "scope") for n in (1, 2)]
        assert {id: entry["events"] for id, entry in cursor["completed_sessions"].items()} == \
            {folder.name: len(lines) for folder, lines in (first, second)}
        again = upload(backend, logs)
        assert (again["files"], again["sessions"], again["known_files"]) == (0, 0, 8)
        check_all_there(backend, first, second)
        third = make_session(logs)
        assert upload(backend, logs)["files"] == 4
        check_all_there(backend, first, second, third)
        assert upload(backend, logs, "--force")["files"] == 12
    assert len(json.loads((logs / CURSOR).read_text())["uploaded_files"]) == 12


def test_cursor_of_others(upload, logs):
    """Version 1 has no completed sessions; a log that was compressed later has been sent."""
    folder, lines = make_session(logs, channels=("device",))
    (folder / "device.3.log").write_text("plain, and compressed when it was sent\n")
    (logs / CURSOR).write_text(json.dumps({"schema_version": 1, "uploaded_files": [
        f"{folder.name}/device.1.log", f"{folder.name}/device.3.log.gz", f"{folder.name}/device.22.log", f"{folder.name}/device.2.lo"]}))
    with Backend() as backend:
        assert upload(backend, logs)["files"] == 1
    assert backend.lines == lines[50:] and backend.completed == [folder.name]


@pytest.mark.parametrize("text, why", [
    ("{", "a name in quotes is missing"), ('{"uploaded_files":["a",]}', "neither a value nor a number"), ('{"uploaded_files":{}}', "no array"),
    ('{"schema_version":3}', "newer version"), ('{"completed_sessions":{"a":1}}', "no object"), ("\0" * 100, "no object")])
def test_broken_cursor(upload, logs, text, why):
    make_session(logs)
    (logs / CURSOR).write_text(text)
    with Backend() as backend:
        answer = upload(backend, logs, status=1)
    assert why in answer["error"] and CURSOR in answer["error"] and not backend.begun
    assert (logs / CURSOR).read_text() == text


@pytest.mark.parametrize("fault", [
    reply(500, b"oops"), reply(503), reply(429), reply(408), reply(202, b'{"accepted_for_processing":false}'),
    reply(409, b'{"error":"window_identity_conflict"}'), raw(b""), raw(b"\0\xff no HTTP\r\n\r\n"), close_early,
    raw(b"HTTP/1.1 202 Accepted\r\nContent-Length: 1000\r\n\r\n" + ACCEPTED),
    raw(b"HTTP/1.1 202 Accepted\r\nContent-Le"), reply(204, b""), reply(202, ACCEPTED[:-1]),
    reply(202, b"{" + b"x" * (5 << 20))])
def test_temporary_failures_are_retried(upload, logs, fault):
    """What may be better another time is tried another time, and everything is there once."""
    fault.accepts = False
    session = make_session(logs)
    with Backend({0: fault, 2: fault, 3: fault, 6: fault}) as backend:
        answer = upload(backend, logs)
    assert (answer["retries"], answer["files"], answer["completed"]) == (4, 4, 1)
    check_all_there(backend, session)


def test_a_response_without_end(upload, logs):
    make_session(logs)
    with Backend(otherwise=reply(202, b"{" + b"x" * (5 << 20))) as backend:
        assert "the response is longer than 4 MiB" in upload(backend, logs, "--retries", "0", status=1)["error"]


@pytest.mark.parametrize("length", [b"-1", b"1", b"99999999999999999999", b"x"])
def test_odd_content_lengths(upload, logs, length):
    """Whatever libcurl makes of it."""
    session = make_session(logs)
    with Backend({0: raw(b"HTTP/1.1 202 Accepted\r\nContent-Length: " + length + b"\r\n\r\n" + ACCEPTED, accepts=True)}) as backend:
        upload(backend, logs)
    check_all_there(backend, session)


@pytest.mark.parametrize("status", [500, 429])
def test_attempts_are_bounded(upload, logs, status):
    """A bounded number of attempts, and the next upload goes on behind what was accepted."""
    session = make_session(logs)
    with Backend({0: reply(202)}, reply(status)) as backend:
        answer = upload(backend, logs, "--retries", "2", status=1)
        assert backend.begun == 4 and (answer["files"], answer["retries"], answer["completed"]) == (1, 2, 0)
        assert f"HTTP {status} (attempt 3)" in answer["error"]
        backend.otherwise = reply(202)
        assert upload(backend, logs)["files"] == 3
    check_all_there(backend, session)


def test_retry_after(upload, logs):
    session = make_session(logs, windows=1, channels=("device",))
    with Backend({0: reply(429, Retry_After="1")}) as backend:
        upload(backend, logs)
        assert backend.requests[1]["at"] - backend.requests[0]["at"] >= 0.99
    check_all_there(backend, session)


def test_retry_after_too_long(upload, logs):
    make_session(logs)
    with Backend(otherwise=reply(503, Retry_After="5")) as backend:
        answer = upload(backend, logs, "--timeout", "2s", status=1)
        assert "the upload timed out: 'http" in answer["error"] and backend.begun == 1
    with Backend(otherwise=reply(503, Retry_After="86400")) as backend:
        answer = upload(backend, logs, "--no-timeout", status=1)
        assert "asks for a pause of 86400 s" in answer["error"] and backend.begun == 1


@pytest.mark.parametrize("status, way_out", [(401, "PITOT_API_KEY"), (403, "--api-key-file"), (404, "--api-path"),
                                             (200, "a gpufl backend"), (202, "a gpufl backend")])
def test_fatal_answers_end_the_upload(upload, logs, status, way_out):
    """One request is enough to know that all are in vain."""
    make_session(logs)
    with Backend(otherwise=reply(status, b"<html>")) as backend:
        answer = upload(backend, logs, status=1)
    assert backend.begun == 1 and way_out in answer["error"] and KEY not in answer["said"]
    assert not (logs / CURSOR).exists()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect(upload, logs, status):
    """The key does not go to another host."""
    make_session(logs)
    with Backend() as other, Backend(otherwise=reply(status, Location=f"{other.url}/x")) as backend:
        answer = upload(backend, logs, status=1)
    assert backend.begun == 1 and other.begun == 0 and f"redirects to '{other.url}/x'" in answer["error"]


@pytest.mark.parametrize("status", [400, 402, 409, 413, 422])
def test_refused_window(upload, logs, status):
    """A window that the server does not want is left out; then the session is not complete, and the next upload tries again."""
    folder, lines = make_session(logs, sidecar=False)
    with Backend({1: reply(status, b"no")}) as backend:
        answer = upload(backend, logs, status=1)
        assert (answer["files"], answer["refused_files"], answer["unfinished"], answer["retries"]) == (3, 1, 1, 0)
        assert f"{folder.name}/device.2.log.gz" in answer["said"] and f"HTTP {status}" in answer["said"]
        assert not backend.completed
        assert upload(backend, logs)["files"] == 1
    check_all_there(backend, (folder, lines))


def test_refused_completion(upload, logs):
    folder, lines = make_session(logs)
    with Backend({4: reply(400)}) as backend:
        assert upload(backend, logs, status=1)["completed"] == 0
        assert upload(backend, logs)["completed"] == 1
    check_all_there(backend, (folder, lines))


def test_known_window(upload, logs):
    """A server that says that it has the window has it."""
    make_session(logs, windows=1)
    with Backend(otherwise=reply(409, b'{"error":"duplicate_window"}')) as backend:
        assert upload(backend, logs, status=1)["files"] == 2  # the end of the session is no window
    assert len(backend.streams()) == 2


@pytest.mark.parametrize("padded", [0, 2])  # MiB
def test_rejected_lines(upload, logs, padded):
    """Accepted all the same, with a warning that does nothing to a terminal."""
    folder, lines = make_session(logs, windows=1)
    padding = "x" * (padded << 20)
    errors = [{"line": n, "type": "kernel_detail", "reason": f"no\x1b[31m grid {n}", "x": [1]} for n in range(7, 20)]
    body = {"accepted": 37, "rejected": 13, "errors": errors, "more": padding}
    with Backend({0: reply(200, json.dumps(body).encode())}) as backend:
        answer = upload(backend, logs)
    assert (answer["rejected_records"], answer["retries"]) == (13, 0)
    assert f"rejected line 8 (kernel_detail) of '{folder.name}/device.1.log.gz': no?[31m grid 8" in answer["said"]
    assert answer["said"].count("grid") == 3 and "rejected 13 lines" in answer["said"]
    check_all_there(backend, (folder, lines))
    with Backend({0: reply(200, b'{"rejected":1,"errors":["text"]}')}) as backend:
        assert "rejected line ? (?)" in upload(backend, logs, "--force")["said"]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\n{"])
def test_silent_server(upload, logs, answer):
    make_session(logs)
    with Backend(otherwise=silent(answer)) as backend:
        said = upload(backend, logs, "--timeout", "2s", "--retries", "0", status=1)
        assert "nothing was sent or received for too long" in said["error"]
        said = upload(backend, logs, "--timeout", "200ms", status=1)
        assert "the upload timed out" in said["error"]


def test_no_server(pitot, logs):
    """Why it failed is curl's reason, not that of a server that is silent."""
    make_session(logs)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    result = pitot("upload", "--json", "--url", url, logs, *QUICK, "--retries", "0", status=1, env={"PITOT_API_KEY": KEY, "NO_PROXY": "*"})
    error = json.loads(result.stdout)["error"]
    assert "onnect" in error and "too long" not in error


def test_slow_answer(program, logs, terminal, environment):
    """Slow is not silent: an answer may take longer than the longest pause in it. A bar shows how far it is."""
    session, gaps = make_session(logs), []
    environment |= {"NO_PROXY": "*"}

    def slow(handler):
        begin = last = time.monotonic()
        handler.wfile.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\n\r\n" % len(ACCEPTED))
        for i in range(len(ACCEPTED)):
            time.sleep(max(0, begin + i * 1.3 / len(ACCEPTED) - time.monotonic()))
            handler.wfile.write(ACCEPTED[i:i + 1])
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    slow.accepts = True
    with Backend({1: slow}) as backend:
        said = terminal([program, "upload", logs, "--url", backend.url, "--timeout", "10s"], 100)
    check_all_there(backend, session)
    if max(gaps) < 0.5:  # this machine was not busy
        assert "uploading [" in said and " 50%" in said and "retr" not in said


def test_no_server_at_the_address(upload, logs):
    make_session(logs)
    with Backend() as backend:
        pass
    answer = upload(backend, logs, "--retries", "1", status=1)
    assert answer["retries"] == 1 and backend.url in answer["error"] and "(attempt 2)" in answer["error"]
    backend.url = "http://127.0.0.1:99999"
    assert upload(backend, logs, status=2)["retries"] == 0, "there is none in vain"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Key and certificate in one file, signed by itself."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not here to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=backend", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"],
                   cwd=folder, check=True, capture_output=True)
    (folder / "both.pem").write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return folder / "both.pem"


def test_tls(upload, logs, certificate):
    session = make_session(logs)
    with Backend(certificate=certificate) as backend:
        answer = upload(backend, logs, status=1)
        assert "--ca-file" in answer["error"] and answer["retries"] == 0 and not backend.requests
        assert upload(backend, logs, "--ca-file", "nonesuch.pem", status=1)["retries"] == 0
        upload(backend, logs, "--ca-file", certificate.parent / "certificate.pem")
    check_all_there(backend, session)


def start(program, environment, backend, *arguments):
    return subprocess.Popen([program, "upload", "--url", backend.url, *QUICK, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**environment, "PITOT_API_KEY": KEY, "NO_PROXY": "*"})


def killing(process, when):
    """Kills the client with the body unread, taken but unanswered, or with an answer on its way."""

    def answer(handler):
        if when == "before the body":
            handler.rfile.read(min(10, int(handler.headers["Content-Length"])))
        elif when == "with the answer":
            reply(202)(handler)
            handler.wfile.flush()
        process[0].kill()
        process[0].wait()
        handler.close_connection = True

    answer.accepts, answer.before_body = when != "before the body", when == "before the body"
    return answer


@pytest.mark.parametrize("when", ["before the body", "before the answer", "with the answer"])
def test_killed(upload, program, environment, logs, when):
    """After each request in turn: nothing is lost, nothing counted twice, and windows that were accepted are not sent again."""
    sessions = [make_session(logs, windows=1), make_session(logs, windows=2)]
    process = [None]
    with Backend() as backend:
        for attempt in range(9):  # six windows and two ends of sessions, each the last request of a run
            backend.plan = {backend.begun + min(attempt, 1): killing(process, when)}
            process[0] = start(program, environment, backend, logs)
            process[0].wait(timeout=PATIENCE)
            process[0].communicate()
        backend.plan = {}
        upload(backend, logs)
        assert Counter(backend.lines) == Counter(line for _, lines in sessions for line in lines)
        assert set(backend.completed) == {folder.name for folder, _ in sessions}
        sent = Counter(request["headers"].get("X-GpuFlight-Window-Id") for request in backend.streams())
        assert max(sent.values()) <= (1 if when == "before the body" else 2) and len(sent) == 6
    assert not list(logs.glob("*.part"))


def test_killed_at_any_time(upload, program, environment, logs):
    """Wherever that is: in the middle of the cursor's writing, too."""
    sessions = [make_session(logs, windows=4) for _ in range(3)]
    with Backend() as backend:
        begin = time.monotonic()
        start(program, environment, backend, logs, "--cursor", logs.parent / "measured").communicate(timeout=PATIENCE)
        took = time.monotonic() - begin
        backend.windows, backend.lines, backend.completed = set(), [], []
        for i in range(1, 15):
            process = start(program, environment, backend, logs, *(["--force"] if i == 7 else []))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=took * i / 15)
            process.kill()
            process.communicate()
        upload(backend, logs)
    assert Counter(backend.lines) == Counter(line for _, lines in sessions for line in lines)
    assert set(backend.completed) == {folder.name for folder, _ in sessions}


def test_a_second_upload_of_the_folder_is_refused(upload, program, environment, logs):
    session = make_session(logs)
    going = threading.Event()

    def wait(handler):
        going.wait(PATIENCE)
        reply(202)(handler)

    wait.accepts = True
    with Backend({0: wait}) as backend:
        first = start(program, environment, backend, logs)
        wait_until(lambda: backend.requests, "the first upload sends", first)
        answer = upload(backend, logs, status=1)
        assert "another upload of these logs is running" in answer["error"] and answer["files"] == 0
        going.set()
        said = first.communicate(timeout=PATIENCE)
        assert first.returncode == 0, said
    check_all_there(backend, session)


def test_stopped(program, environment, logs):
    make_session(logs)
    with Backend(otherwise=silent()) as backend:
        process = start(program, environment, backend, logs)
        wait_until(lambda: backend.requests, "it sends", process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 128 + signal.SIGTERM


def test_loss_marker(upload, logs):
    folder, lines = make_session(logs)
    (folder / ".gpufl-transport-loss.spool.0.json").write_text("{}")
    with Backend() as backend:
        answer = upload(backend, logs, status=1)
    assert answer["unfinished"] == 1 and "never reported complete" in answer["said"]
    assert Counter(backend.lines) == Counter(lines) and not backend.completed


def age(folder):
    """Nothing in the folder was written for long."""
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (1, 1), follow_symlinks=False)


def test_running_session(upload, logs):
    """Closed windows of a session that somebody writes are sent; it is completed once it has ended."""
    folder, lines = make_session(logs)
    holder = subprocess.Popen(
        ["python3", "-c", "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()",
         folder / ".gpufl-session.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    (folder / ".tmp").mkdir()
    more = [f'{{"type":"row","i":{i}}}' for i in range(3)]
    (folder / ".tmp/device.log").write_text("\n".join(more) + "\n")
    with Backend() as backend:
        answer = upload(backend, logs, status=1)
        assert "still being written" in answer["said"] and answer["files"] == 4 and not backend.completed
        holder.communicate(b"\n")
        # Its process may have lost the lock, or write from another machine.
        assert "in five minutes" in upload(backend, logs, status=1)["said"]
        age(folder)
        # What it has left is published with an end that says it is made up.
        assert upload(backend, logs)["completed"] == 1
    new = backend.lines[len(lines):]
    assert new[:3] == more and all('"synthetic":true' in line for line in new[3:]) and len(new) == 5
    assert backend.completed == [folder.name]


def test_older_layouts(upload, logs):
    """Plain and unnumbered logs become one gzip each; of two forms of one the plain one counts, and empty ones do not."""
    folder = logs / "session-1"
    folder.mkdir(parents=True)
    end = '{"type":"shutdown"}'
    texts = {"kernel.log": ["k", end], "scope.2.log": ["s2"], "scope.10.log": ["s10"], "scope.log": ["last", end], "system.log": []}
    for name, lines in texts.items():
        (folder / name).write_text("".join(line + "\n" for line in lines))
    make_window(folder, "scope", 1, ["s1"], sidecar=False)
    (folder / "scope.2.log.gz").write_bytes(b"half a gzip")
    (folder / ".gpufl-window.scope.2.json").write_text('{"window_id":"x","payload_file":"scope.2.log"}')
    for name in ("scopes.1.log", "app.device.1.log", "device.x.log", "device.1.log.tmp", "notes.txt"):
        (folder / name).write_text("no log\n")
    (folder / "sass.log").symlink_to("notes.txt")
    with Backend() as backend:
        assert upload(backend, logs)["files"] == 5
        assert backend.lines == ["s1", "s2", "s10", "last", end, "k", end] and backend.completed == ["session-1"]
        assert upload(backend, logs, "--force")["files"] == 5
    assert all("X-GpuFlight-Window-Id" not in request["headers"] for request in backend.requests)


def test_active_log_of_older_clients(upload, logs):
    folder = logs / "session-1"
    folder.mkdir(parents=True)
    (folder / "device.log").write_text('{"type":"job_start"}\n')
    (folder / "device.1.log").write_text('{"type":"row"}\n')
    with Backend() as backend:
        assert upload(backend, logs, status=1)["files"] == 1
        os.utime(folder / "device.log", (1, 1))
        assert upload(backend, logs)["files"] == 1
    assert backend.completed == ["session-1"]


@pytest.mark.parametrize("name, damage, why", [
    ("device.2.log.gz", lambda path: path.write_bytes(path.read_bytes()[:-9]), "not a complete gzip file"),
    ("device.2.log.gz", lambda path: path.write_bytes(path.read_bytes() + b"x"), "not a complete gzip file"),
    ("device.2.log.gz", lambda path: path.write_bytes(gzip.compress(b"other\n")), "does not match its sidecar"),
    ("device.2.log.gz", lambda path: path.write_bytes(os.urandom((30 << 20) + 1)), "not a complete gzip file"),
    ("device.2.log.gz", lambda path: path.write_bytes(b"\x1f\x8b" + bytes(32 << 20)), "not a complete gzip file"),
    ("device.2.log.gz", lambda path: path.write_bytes(gzip.compress(b" " * ((128 << 20) + 1), 1)), "a line longer than 28 MiB"),
])
def test_damaged_window(upload, logs, name, damage, why):
    """It is not sent; the others are."""
    folder, lines = make_session(logs)
    damage(folder / name)
    if why != "does not match its sidecar":
        (folder / ".gpufl-window.device.2.json").unlink()
    with Backend() as backend:
        answer = upload(backend, logs, status=1)
    assert (answer["files"], answer["refused_files"], answer["completed"]) == (3, 1, 0)
    assert f"{folder.name}/{name}' " in answer["said"] and why in answer["said"]
    assert Counter(backend.lines) == Counter(lines[:50] + lines[100:])


@pytest.mark.parametrize("form", ["plain", "packed", "dense"])
def test_large_log(upload, logs, form):
    """It is split where lines end, and goes on behind the last part that was accepted."""
    folder = logs / "session-1"
    folder.mkdir(parents=True)
    text = b"".join(b"%d%s\n" % (i, b" " * 1000) for i in range((140 << 10) if form == "dense" else 50000))
    text += b"the end"
    name = "device.1.log" if form == "plain" else "device.1.log.gz"
    (folder / name).write_bytes(text if form == "plain" else gzip.compress(text, 0 if form == "packed" else 1))
    lines = text.decode().splitlines()
    patient = "--timeout", f"{PATIENCE:.0f}s"  # no pause depends on it here: nothing is tried again
    with Backend({1: reply(500)}) as backend:
        answer = upload(backend, logs, *patient, "--retries", "0", status=1)
        assert answer["files"] == 0 and 0 < answer["records"] == len(backend.lines) < len(lines)
        answer = upload(backend, logs, *patient)
        assert (answer["files"], answer["completed"], answer["bytes"]) == (1, 1, (folder / name).stat().st_size)
        assert backend.lines == lines and upload(backend, logs, *patient)["files"] == 0
        assert upload(backend, logs, *patient, "--force")["records"] == len(lines)
        if form != "plain":
            (folder / name).write_bytes((folder / name).read_bytes()[:-9])
            assert "not a complete gzip file" in upload(backend, logs, *patient, "--force", status=1)["said"]
    bodies = [request["body"] for request in backend.streams()]
    assert len(bodies) > 4 and max(map(len, bodies)) < 30 << 20 and f"{folder.name}/{name}" in (logs / CURSOR).read_text()


def test_logs_of_gpufl_1_1(upload, logs):
    """Of gpufl 1.1: logs lie beside each other, and their first lines have their sessions."""
    logs.mkdir()
    expected = Counter()
    for session, prefix in (("session-1", "app"), ("session-2", "my.app")):
        for name, count in (("device.2.log", 3), ("device.1.log.gz", 4), ("scope.log", 2)):
            lines = [json.dumps({"type": "row", "session_id": session, "ts_ns": 5, "i": f"{name}-{i}"}) for i in range(count)]
            lines += ['{"type":"shutdown"}'] * (name == "scope.log")
            text = "".join(line + "\n" for line in lines).encode()
            (logs / f"{prefix}.{name}").write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
            expected.update(lines)
    (logs / "app.device.3.log").write_text("no line of gpufl's\n")
    (logs / ".device.4.log").write_text('{"session_id":"session-1"}\n')
    folder, lines = make_session(logs)
    with Backend() as backend:
        assert upload(backend, logs, "--session", "session-2")["files"] == 3
        assert {request["headers"]["X-GpuFlight-Session-Id"] for request in backend.requests} == {"session-2"}
        assert upload(backend, logs)["files"] == 7
        assert upload(backend, logs)["files"] == 0
    assert Counter(backend.lines) == expected + Counter(lines) and sorted(backend.completed) == sorted(["session-1", "session-2", folder.name])
    names = [name for name in json.loads((logs / CURSOR).read_text())["uploaded_files"] if name.startswith("session-1")]
    assert names == [f"session-1/app.{name}" for name in ("device.1.log.gz", "device.2.log", "scope.log")]


def test_choice_of_session(upload, logs):
    old, new, middle = (make_session(logs, start_ns=start) for start in (5, 70, 8))
    with Backend() as backend:
        upload(backend, logs, "--session", "newest")
        check_all_there(backend, new)
        upload(backend, logs, "--session", old[0].name)
        check_all_there(backend, new, old)
        upload(backend, middle[0])  # a session's own folder
        check_all_there(backend, new, old, middle)
        assert len(json.loads((logs / CURSOR).read_text())["completed_sessions"]) == 3
        assert "contains no session 'x'" in upload(backend, logs, "--session", "x", status=1)["error"]


def test_dry_run(pitot, logs):
    """Nothing is sent, and nothing changes."""
    folder, _ = make_session(logs)
    before = sorted(logs.rglob("*"))
    with Backend() as backend:
        answer = pitot("upload", logs, "--dry-run", "--json", "--url", backend.url, json_output=True)
    assert (answer["files"], answer["records"], answer["complete"]) == (4, None, False) and not backend.begun
    assert answer["bytes"] == sum(path.stat().st_size for path in folder.glob("*.log.gz"))
    assert sorted(logs.rglob("*")) == before
    assert pitot("upload", logs, "-n").stdout.startswith("would send 4 files (")


def test_recording(upload, make_recording, pitot, logs, tmp_path):
    """The same as its export; what was sent is remembered in the recording, and nothing stays in the temporary folder."""
    recording, temporary = make_recording(tmp_path / "r.pitot", processes=2, kernels=500), tmp_path / "tmp"
    temporary.mkdir()
    pitot("export", recording, "-o", "x.gpufl")
    files = sorted((tmp_path / "x.gpufl").glob("*/*.log.gz"))
    expected = [line for path in files for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    with Backend({3: reply(500)}) as backend:
        first = upload(backend, recording, "--retries", "0", status=1, env={"TMPDIR": str(temporary)})
        assert first["files"] == 3
        upload(backend, recording, env={"TMPDIR": str(temporary)})
        def lines(text):
            return Counter(line for line in text if '"log_path"' not in line)
        assert lines(backend.lines) == lines(expected) and len(backend.lines) == len(expected)
        assert sorted(backend.completed) == sorted({path.parent.name for path in files})
        assert upload(backend, recording)["files"] == 0
        (recording / CURSOR).unlink()
        upload(backend, recording)  # a server knows the windows by their ids
        assert len(backend.lines) == len(expected)
    assert not list(temporary.iterdir())
    pitot("info", "--verify", recording)


@pytest.mark.parametrize("state", ["recording", "ended", "complete"])
def test_recording_that_grows(make_recording, pitot, tmp_path, state):
    """Only what has no end may have more to send; a program's own recording ends as `ended`."""
    recording = make_recording(tmp_path / "r.pitot", kernels=50)
    (recording / "recording.json").write_text(json.dumps({"format_version": 1, "state": state}, indent=2))
    said = pitot("upload", recording, "--dry-run").stderr
    assert ("warning: '" in said and "is not complete" in said) == (state == "recording")


def test_key_file(upload, logs, tmp_path):
    make_session(logs)
    (tmp_path / "key").write_text(f"  {KEY}2 \r\n")
    with Backend() as backend:
        upload(backend, logs, "--api-key-file", tmp_path / "key")
        assert backend.requests[0]["headers"]["Authorization"] == f"Bearer {KEY}2"
        upload(backend, logs, "--force", "--api-key-file", "-", stdin=None, input=f"{KEY}3\n")
        assert backend.requests[-1]["headers"]["Authorization"] == f"Bearer {KEY}3"
        upload(backend, logs, "--force", env={"PITOT_API_KEY": "", "GPUFL_API_KEY": "theirs"})
        assert backend.requests[-1]["headers"]["Authorization"] == "Bearer theirs"
        upload(backend, logs, "--force", env={"PITOT_API_KEY": ""})
        assert "Authorization" not in backend.requests[-1]["headers"]


def test_addresses(pitot, logs):
    make_session(logs, windows=1, channels=("device",))
    with Backend() as backend:
        for url, path in ((backend.url + "//", "/proxy/v2/"), (backend.url, "proxy/v2")):
            pitot("upload", logs, "--force", env={"GPUFL_BACKEND_URL": url, "PITOT_API_PATH": path, "NO_PROXY": "*"})
        assert [request["path"] for request in backend.requests] == ["/proxy/v2/events/stream", "/proxy/v2/events/session-complete"] * 2


@pytest.mark.parametrize("arguments, env, why", [
    ((), {}, "PITOT_BACKEND_URL"), (("--url", "ftp://x"), {}, "https://HOST"), (("--url", "https://x\r\ny: z"), {}, "https://HOST"),
    (("--url", "https://x"), {"PITOT_API_KEY": "a\r\nX-Other: b"}, "invalid characters"), (("--api-key", "x"), {}, "--api-key-file"),
    (("--url", "https://" + "x" * 2000), {}, "longer"),
    *((("--url", url), {"PITOT_API_KEY": KEY}, "must not contain a user") for url in (
        "http://user:passw0rd@x", "http://localhost:80@x", "ftp://user:passw0rd@x", "user:passw0rd@x", "http://localhost\\@x", "http://localhost?x",
        "http://localhost#x")),
    (("--url", "https://x", "--api-path", "/v 2"), {}, "'/v 2' is not a path"), (("--retries", "x"), {}, "--retries")])
def test_bad_usage(pitot, logs, arguments, env, why):
    make_session(logs)
    result = pitot("upload", "--json", logs, *arguments, status=2, env=env)
    assert why in result.stderr and not (logs / CURSOR).exists()
    assert "passw0rd" not in result.stderr + result.stdout and KEY not in result.stderr + result.stdout


def test_folder_without_logs(upload, logs, tmp_path):
    logs.mkdir()
    with Backend() as backend:
        assert "no session with gpufl's logs" in upload(backend, logs, status=1)["error"]
        assert "nonesuch" in upload(backend, tmp_path / "nonesuch", status=1)["error"]
        (logs / "file").write_text("x")
        assert "file" in upload(backend, logs / "file", status=1)["error"]
        assert "Not a directory" in upload(backend, logs / "file", "--cursor", tmp_path / "c", status=1)["error"]
    assert not backend.begun


def test_warning_without_tls(pitot, logs):
    make_session(logs)
    for host, warned in (("backend.invalid", True), ("127.backend.invalid", True), ("localhost.invalid", True), ("localhost:1", False),
                         ("localhos2:1", True), ("127.0.0.2:1", False), ("[::1]:1", False), ("[::1].invalid", True), ("LOCALHOST:1", False)):
        result = pitot("upload", logs, "--url", f"http://{host}", "--timeout", "1ms", status=1, env={"PITOT_API_KEY": KEY})
        assert ("is not encrypted" in result.stderr) == warned and KEY not in result.stderr


def test_this_machine_without_a_proxy(upload, logs):
    """The key stays on this machine, whatever proxies the environment names."""
    make_session(logs)
    with socket.create_server(("127.0.0.1", 0)) as proxy, Backend() as backend:
        proxies = dict.fromkeys(("http_proxy", "all_proxy", "ALL_PROXY"), f"http://127.0.0.1:{proxy.getsockname()[1]}")
        assert upload(backend, logs, env={**proxies, "NO_PROXY": "", "no_proxy": ""})["files"] == 4
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()


def put_fifo(path):
    os.mkfifo(path)


def put_zero(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [put_fifo, put_zero, Path.mkdir])
@pytest.mark.parametrize("name", [CURSOR, CURSOR + ".lock", "SESSION/.gpufl-session.lock", "SESSION/.gpufl-window.device.1.json",
                                  "SESSION/device.1.log.gz", "SESSION/device.log", "SESSION/.tmp", "SESSION/.tmp/device.log",
                                  "SESSION/.gpufl-transport-loss.spool.0.json", "11111111-2222-4333-8444-555555555555", "x.device.log"])
def test_other_things_than_files(program, environment, logs, put, name):
    """In a folder that others can write, nobody can keep an upload from its end."""
    folder, _ = make_session(logs)
    if "/.tmp/" in name:
        (folder / ".tmp").mkdir()
    path = logs / name.replace("SESSION", folder.name)
    path.unlink(missing_ok=True)
    put(path)
    age(folder)
    with Backend() as backend:
        process = start(program, environment, backend, logs)
        err = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode in (0, 1), err
        if name.startswith(CURSOR):
            assert process.returncode == 1 and f"'{logs / name}'" in err and not backend.begun
        else:
            assert "device.2.log.gz" in (logs / CURSOR).read_text()


def test_a_key_that_does_not_come(program, environment, logs, tmp_path):
    """Somebody who waits for it can end the program."""
    make_session(logs)
    os.mkfifo(tmp_path / "key")
    with Backend() as backend:
        process = start(program, environment, backend, logs, "--api-key-file", tmp_path / "key")
        writer = os.open(tmp_path / "key", os.O_WRONLY)  # returns when the program reads
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        os.close(writer)
    assert process.returncode == -signal.SIGTERM and not backend.begun


def test_a_link_as_cursor(upload, make_recording, logs, tmp_path):
    """The user's own link is followed, and one in a folder of others is not."""
    make_session(logs)
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    (logs / CURSOR).symlink_to(tmp_path / "other.json")
    (tmp_path / "other.json").write_text("{}")
    recording = make_recording(tmp_path / "r.pitot", "varied")
    (recording / CURSOR).symlink_to(tmp_path / "other.json")
    with Backend() as backend:
        for folder in logs, recording:
            assert "a symbolic link" in upload(backend, folder, status=1)["error"] and not backend.begun
        assert upload(backend, logs, "--cursor", tmp_path / "link.json")["files"] == 4
    assert (tmp_path / "other.json").read_text() == "{}" and "uploaded_files" in (tmp_path / "real.json").read_text()


def test_links_are_not_followed(upload, logs, tmp_path):
    """What is linked into the folder is neither changed nor sent."""
    folder, lines = make_session(logs)
    secret, other = tmp_path / "secret", tmp_path / "other"
    for victim in secret, other, other / ".tmp":
        victim.mkdir()
    for path in secret / "system.log", secret / "system.1.log", other / "system.1.log", other / ".tmp/system.log":
        path.write_text('{"type":"secret"}\n')
    (folder / ".tmp").symlink_to(secret)
    (logs / "11111111-2222-4333-8444-555555555555").symlink_to(other)
    (folder / "system.1.log").symlink_to(secret / "system.log")
    (logs / "x.system.1.log").symlink_to(secret / "system.log")
    for victim in logs, secret, other:
        age(victim)
    with Backend() as backend:
        upload(backend, logs, status=1)
    assert Counter(backend.lines) == Counter(lines)
    assert sorted(path.name for path in tmp_path.rglob("s*.log*") if logs not in path.parents) == ["system.1.log"] * 2 + ["system.log"] * 2
    assert all(path.read_text() == '{"type":"secret"}\n' for path in secret.iterdir())


def test_cursor_that_cannot_be_written(upload, logs, tmp_path):
    """What cannot be remembered is not sent."""
    make_session(logs)
    with Backend() as backend:
        answer = upload(backend, logs, "--cursor", tmp_path / "no/folder", status=1)
        assert "--cursor" in answer["error"] and not backend.begun
        answer = upload(backend, logs, "--cursor", tmp_path / "c", status=1,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)))
        assert "the upload stops" in answer["error"] and backend.begun == 1
        upload(backend, logs, "--cursor", tmp_path / "other")
    assert Path(tmp_path / "other").exists() and not (logs / CURSOR).exists()


def test_many_logs_and_few_descriptors(upload, logs):
    """A log is closed when it has been sent."""
    folder, _ = make_session(logs, windows=0)
    names = [f"device.{number}.log" for number in range(1, 61)]
    for name in names:
        (folder / name).write_text(f'{{"type":"row","of":"{name}"}}\n')
    with Backend() as backend:
        answer = upload(backend, logs, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        assert (answer["files"], answer["records"]) == (60, 60)
        assert Counter(backend.lines) == Counter((folder / name).read_text().strip() for name in names)


def test_progress(program, logs, terminal, environment):
    """On a terminal a bar, and one line at the end."""
    make_session(logs)
    environment |= {"NO_PROXY": "*"}
    with Backend() as backend:
        said = terminal([program, "upload", logs, "--url", backend.url], 100)
    assert said.splitlines()[-1].startswith("sent 4 files (") and "200 records) of 1 session to " in said
