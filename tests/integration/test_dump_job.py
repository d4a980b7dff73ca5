"""pitot dump --job: what the agents of all machines hold of a job becomes one recording, and only for those who know the secret."""
import hashlib
import hmac
import http.client
import os
import re
import signal
import socket
import threading
import time

import pytest

from waiting import wait_until

SECRET = "0123456789abcdef0123456789abcdef0123456789abcdef"


@pytest.fixture
def lake(tmp_path):
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


def sign(port, query, host=None, secret=SECRET, at=None, nonce=None):
    """The path of a request, by the protocol of src/agent/job_dump.h."""
    path = f"/dump?{query}&time={int(time.time()) if at is None else at}&nonce={nonce or os.urandom(16).hex()}"
    text = f"pitot-request-1\n{host or f'127.0.0.1:{port}'}\0{path}"
    return f"{path}&code={hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()}"


def get(port, path, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read()


def last(seconds, job="77"):
    now = time.time_ns()
    return f"job={job}&from={now - int(seconds * 1e9)}&until={now}"


@pytest.fixture
def served(played, agent, secret, lake, tmp_path):
    """served(tape, rank): the port of an agent beside a training of job 77.0, when it knows the job, and the training."""

    def start(tape, rank, *options):
        process, _ = played(tape, 1000, *options, SLURM_JOB_ID="77", SLURM_STEP_ID="0", SLURM_PROCID=str(rank), SLURM_NTASKS="3")
        one = agent("--interval", "1s", "--ship", "1s", "-p", process.pid, "--listen", "127.0.0.1:0", "--secret", secret, "--spool",
                    tmp_path / f"spool-{rank}", quiet=False)
        port = int(re.search(r"127\.0\.0\.1:(\d+)/metrics", one.stderr.readline())[1])
        wait_until(lambda: b'job_id="77.0"' in get(port, "/metrics")[1], "it knows the job", one)
        return port, process, one

    return start


def test_all_machines_of_a_job(pitot, rows, served, secret, tmp_path):
    """One folder for each, merged; who does not answer is named, and the others are there all the same."""
    (one, first, agent), (other, second, _) = served("train", 0, "--ring", "10m"), served("launch", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    peers = tmp_path / "peers"
    peers.write_text(f"# all of them\n127.0.0.1:{one}\n\n127.0.0.1:{other}  # the other\r\n")
    begun = time.time_ns()
    done = pitot("dump", "--job", "77", "--last", "2s", "--peers", peers, "--secret", secret, "-o", tmp_path / "dump")
    assert "2 processes of 2 hosts" in done.stderr and "rank 2 of 3 was not recorded" in done.stderr
    host = os.uname().nodename
    folders = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert len(folders) == 3 and "job.pitot" in folders and all(name == "job.pitot" or name.startswith(f"{host}.127%2E0%2E0%2E1%3A") for name in folders)
    for process in first, second:
        assert process.poll() is None
    pitot("info", "--verify", tmp_path / "dump/job.pitot")
    assert pitot("report", tmp_path / "dump/job.pitot").stdout
    [clock, *_] = rows(tmp_path / "dump/job.pitot", "clock")
    starts = [row["start"] + clock["realtime_ns"] - clock["monotonic_ns"] for row in rows(tmp_path / "dump/job.pitot", "kernel", "-c", "start")]
    assert len(starts) > 100 and max(starts) > begun - 10**9, "it is as new as the request, whenever the agent had searched"
    peers.write_text(f"127.0.0.1:{closed}\n127.0.0.1:{one}\n")
    done = pitot("dump", "--job", "77.0", "--peers", peers, "--secret", secret, "-o", tmp_path / "again", status=1)
    assert f"no dump from 127.0.0.1:{closed}: " in done.stderr and (tmp_path / "again/job.pitot").exists()
    done = pitot("dump", "--job", "7", "--peers", peers, "--secret", secret, "-o", tmp_path / "none", status=1)
    assert "no agent has processes of job '7'" in done.stderr and not (tmp_path / "none").exists()
    assert not list(tmp_path.glob("spool-*/dump*"))
    agent.send_signal(signal.SIGTERM)
    assert agent.wait() == 0, agent.stderr.read()


def test_who_may_ask(pitot, served, secret, tmp_path):
    """Forged, changed, old and repeated requests, and those for other machines, get nothing."""
    port, _, _ = served("train", 0)
    good = sign(port, last(1))
    status, body = get(port, good)
    assert status == 200 and body.startswith(f"host {os.uname().nodename}\nfile ".encode())
    nonce = re.search("nonce=([0-9a-f]+)", good)[1]
    content, _, code = body.rpartition(b"end ")
    assert code.strip().decode() == hmac.new(SECRET.encode(), b"pitot-answer-1\n" + nonce.encode() + content, hashlib.sha256).hexdigest()
    now = int(time.time())
    for path, host, wanted in (
            (good, None, 403), (sign(port, last(1)).replace("job=77", "job=78"), None, 403), (sign(port, last(1), secret=SECRET[1:]), None, 403),
            (sign(port, last(1), at=now - 90), None, 403), (sign(port, last(1), at=now + 90), None, 403),
            (sign(port, last(1), nonce="0" * 31), None, 400), (sign(port, last(1), nonce="G" * 32), None, 400),
            (sign(port, last(1), host=f"127.0.0.1:{port + 1}"), f"127.0.0.1:{port + 1}", 403), (sign(port, last(1), host="localhost"), "localhost", 403),
            (sign(port, last(1))[:-1], None, 403), ("/dump", None, 403), ("/dump?job=77", None, 403),
            (sign(port, "job=77&from=2&until=1"), None, 400), (sign(port, "job=&from=1&until=2"), None, 400), (sign(port, "from=1&until=2"), None, 400),
            (sign(port, f"job={'7' * 300}&from=1&until=2"), None, 400), (sign(port, "job=%7&from=1&until=2"), None, 400),
            (sign(port, f"job=77&from=1&until={time.time_ns() + 10**12}"), None, 400),
            (sign(port, last(1, "78")), None, 404), (sign(port, last(1, "%37%37")), None, 200)):
        assert get(port, path, host)[0] == wanted, (path, host)
    wrong = tmp_path / "wrong"
    wrong.write_text("f" * 40)
    wrong.chmod(0o600)
    (tmp_path / "peers").write_text(f"127.0.0.1:{port}")
    said = pitot("dump", "--job", "77", "--peers", tmp_path / "peers", "--secret", wrong, "-o", tmp_path / "dump", status=1).stderr
    assert "HTTP 403" in said and "is not signed with the secret" in said and "f" * 40 not in said and SECRET not in said


@pytest.mark.parametrize("answer, said", [
    (b"host a\nend " + b"0" * 64 + b"\n", "is not signed with this secret"), (b"host a\n", "is not complete"), (b"", "is not complete"),
    (b"host a\nfile ../../x.pit 1\nx", ""), (b"file 1.0.pit 1\nx", ""), (b"host a\nhost b\n", ""), (b"host a\nfile x 99999999999999\n", ""),
    (b"host a\nfile 1.0.pit 67108864\nab", "is not complete"), (b"host a\nfile 1.0.pit 67108865\nab", "a limit was reached"),
    (b"host a\nfile 1.0.pit 1\nafile 2.0.pit 67108864\nab", "a limit was reached"), (b"host a\nfile 1.0.pit 5\nab", "is not complete"), (b"x" * 1000, ""), (b"host ../../x\nfile 1.0.pit 1\nx", "is not complete")], ids=range(13))
def test_answers_are_not_trusted(pitot, secret, tmp_path, answer, said):
    """Of whoever is at the address of a peer: nothing is left, and nothing is written elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + answer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        (tmp_path / "peers").write_text(f"127.0.0.1:{port}")
        before = set(tmp_path.iterdir())
        done = pitot("dump", "--job", "77", "--peers", tmp_path / "peers", "--secret", secret, "-o", tmp_path / "dump", status=1)
        thread.join()
    assert f"no dump from 127.0.0.1:{port}: " in done.stderr and said in done.stderr
    assert set(tmp_path.iterdir()) == before


def test_what_it_refuses(pitot, secret, lake, tmp_path):
    peers = tmp_path / "peers"
    peers.write_text("127.0.0.1:1")
    words = "dump", "--job", "77", "--peers", peers, "--secret", secret, "-o", tmp_path / "dump"
    for more, said in (("--last", "3m"), "agents hold 2m"), (("1",), "no processes"), (("--from", "14:05"), "no processes"):
        assert said in pitot(*words, *more, status=2).stderr
    assert "--job needs --peers and --secret" in pitot("dump", "--job", "77", status=2).stderr
    assert "belong to --job" in pitot("dump", "--peers", peers, status=2).stderr
    for text, said in ("", "names no peers"), ("a b", "line 1"), ("http://x", "line 1"), ("# x\nx?y", "line 2"):
        peers.write_text(text)
        assert said in pitot(*words, status=None).stderr
    for mode, text, said in (0o644, SECRET, "chmod 600"), (0o600, "short", "openssl rand -hex 32"), (0o600, "x" * 300, "32 to 255 bytes"):
        secret.write_text(text)
        secret.chmod(mode)
        assert said in pitot(*words, status=None).stderr
        assert said in pitot("agent", "--lake", lake, "--spool", tmp_path / "spool", "--listen", "off", "--no-live", "--secret", secret, status=None).stderr
