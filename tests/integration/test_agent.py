"""pitot agent: what is shipped is what was recorded, whatever happens to the agent, the spool and the lake."""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from shipped_rows import WORK, ask, recorded, shipped, steps_of
from waiting import wait_until

FAST = ("--interval", "1s", "--ship", "1s")


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def ship(pitot, lake, tmp_path, *options, **more):
    """Recordings of other tests, which this user may read, are not shipped."""
    return pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", tmp_path / "spool", *options, **more)


def check(pitot, rows, lake, folder):
    """The lake has all work and all steps of the recording, once; the steps have the work that began in them."""
    assert shipped(lake) == recorded(rows, folder)
    steps = steps_of(rows, folder)
    work = [(row["start"], row["duration"]) for table in WORK for row in rows(folder, table, "-c", "start,duration")]
    want = sorted((end - begin, sum(begin <= start < end for start, _ in work), sum(duration for start, duration in work if begin <= start < end))
                  for begin, end in steps)
    assert sorted(ask(lake, "SELECT duration_ns, work, work_ns FROM {step}")) == want and want


def test_a_finished_recording(pitot, rows, played, lake, tmp_path):
    process, folder = played("train", 2, SLURM_JOB_ID="77", SLURM_STEP_ID="0", SLURM_PROCID="3", SLURM_NTASKS="8")
    assert process.wait() == 0
    ship(pitot, lake, tmp_path, "--recordings", folder.parent)
    check(pitot, rows, lake, folder)
    [[job, host, rank]] = ask(lake, "SELECT DISTINCT job, host, rank FROM {step}")
    assert (job, host, rank) == ("77.0", os.uname().nodename, 3)
    objects = sorted(lake.rglob("*.parquet"))
    assert all(path.name.startswith("77%2E0.") and path.parent.name.startswith("date=") for path in objects)
    ship(pitot, lake, tmp_path, "--recordings", folder)
    assert sorted(lake.rglob("*.parquet")) == objects, "nothing is shipped twice"


@pytest.mark.parametrize("ring", [(), ("--ring", "10m")], ids=["disk", "ring"])
def test_killed_at_any_time(pitot, rows, played, agent, lake, tmp_path, ring):
    """The agent finds the recording by itself, and is killed several times; what is left is shipped at the end."""
    process, folder = played("train", 6, *ring)
    chance = random.Random(len(ring))
    while process.poll() is None:
        one = agent(*FAST, "-p", process.pid)
        before = len(list(lake.rglob("*.parquet")))
        wait_until(lambda: len(list(lake.rglob("*.parquet"))) > before or process.poll() is not None or one.poll() is not None, "it ships")
        try:
            one.wait(chance.random() / 4)
        except subprocess.TimeoutExpired:
            one.kill()
        assert one.wait() == -signal.SIGKILL, one.stderr.read()
    assert process.returncode == 0
    ship(pitot, lake, tmp_path, "--recordings", folder.parent)
    check(pitot, rows, lake, folder)
    assert not list(lake.rglob(".*")), "nothing unfinished is left"
    assert {path.name for path in (tmp_path / "spool").iterdir()} == {"lock", "state.json"}


def test_kernels_of_many_names(pitot, lake, tmp_path):
    """The 60 with most time have rows of their own; the others are added up."""
    events = [{"ph": "X", "cat": "kernel", "name": f"kernel_{i}", "pid": 0, "tid": 7, "ts": 1000 * (i + 1), "dur": i + 1,
               "args": {"device": 0, "stream": 7, "correlation": i + 1}} for i in range(100)]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    pitot("import", tmp_path / "trace.json", "-o", tmp_path / "r.pitot")
    (tmp_path / "r.pitot/trace-0.0.pit").rename(tmp_path / "r.pitot/1234.0.pit")  # as of a recorder
    ship(pitot, lake, tmp_path, "--recordings", tmp_path / "r.pitot")
    found = ask(lake, "SELECT name, count::INT, total_ns::INT FROM {kernel_sketch}")
    assert sorted(found) == sorted([("(others)", 40, sum(range(1, 41)) * 1000), *((f"kernel_{i}", 1, (i + 1) * 1000) for i in range(40, 100))])


def test_a_stopped_agent_ships_first(rows, played, agent, lake):
    process, folder = played("train", 2)
    one = agent("--interval", "1s", "--ship", "1h", "-p", process.pid)
    assert process.wait() == 0
    wait_until(lambda: rows(folder, "kernel", "-c", "start"), "it is complete")
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.stderr.read()
    assert shipped(lake) == recorded(rows, folder)


def test_the_lake_is_away(pitot, rows, played, lake, tmp_path):
    """Objects wait in the spool, and are shipped when it is there again."""
    process, folder = played("launch", 1)
    assert process.wait() == 0
    hidden = lake.with_name("hidden")
    (lake / "kernel_sketch").write_text("in the way")
    said = ship(pitot, lake, tmp_path, "--recordings", folder.parent, status=1).stderr
    assert f"{lake}/kernel_sketch/date=" in said
    assert list((tmp_path / "spool").glob("*!kernel_sketch!*"))
    (lake / "kernel_sketch").rename(hidden)
    ship(pitot, lake, tmp_path, "--recordings", folder.parent)
    assert shipped(lake) == recorded(rows, folder)


def test_a_full_spool(pitot, rows, played, lake, tmp_path):
    """What the spool has no room for is dropped, and the loss says how many rows it was."""
    process, folder = played("train", 1)
    assert process.wait() == 0
    (lake / "kernel_sketch").write_text("in the way")
    ship(pitot, lake, tmp_path, "--recordings", folder.parent, "--spool-size", "1")
    assert not list((tmp_path / "spool").glob("[0-9]*.parquet"))
    (lake / "kernel_sketch").unlink()
    ship(pitot, lake, tmp_path, "--recordings", folder.parent)
    [[rows_lost]] = ask(lake, "SELECT sum(count)::BIGINT FROM {loss} WHERE lost_by = 'agent' AND reason = 'spool_full'")
    assert rows_lost >= len(steps_of(rows, folder)) + len(recorded(rows, folder)) and not list(lake.rglob("kernel_sketch/**/*.parquet"))
    ship(pitot, lake, tmp_path, "--recordings", folder.parent)
    assert ask(lake, "SELECT count(*) FROM {loss} WHERE reason = 'spool_full'") == [(1,)], "it is said once"


def test_a_full_disk(pitot, rows, played, lake, tmp_path):
    """Without room for the spool nothing is shipped; with room for it everything is, once."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount a small disk here")
    try:
        process, folder = played("train", 1)
        assert process.wait() == 0
        words = "agent", "--once", "--no-live", "--lake", lake, "--spool", disk / "spool", "--recordings", folder.parent
        (disk / "spool").mkdir(mode=0o700)
        (disk / "room").write_bytes(bytes(56 << 10))
        said = pitot(*words, status=1).stderr
        assert "No space left on device" in said and not list(lake.rglob("*.parquet"))
        (disk / "room").unlink()
        pitot(*words)
        check(pitot, rows, lake, folder)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_two_agents_do_not_share_a_spool(pitot, agent, lake, tmp_path):
    one = agent(*FAST, "--no-live")
    wait_until(lambda: (tmp_path / "spool/lock").exists(), "it has begun", one)
    said = wait_until(lambda: "another agent uses the spool" in (text := ship(pitot, lake, tmp_path, status=None).stderr) and text, "it is locked", one)
    assert "choose another folder with --spool" in said


def test_what_others_may_have_done(pitot, rows, played, lake, tmp_path):
    """Links in a lake are not followed, and forged segments change nothing."""
    process, folder = played("launch", 1)
    assert process.wait() == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (lake / "kernel_sketch").symlink_to(elsewhere)
    forged = tmp_path / "runs/forged.pitot"
    forged.mkdir()
    (forged / "1.0.pit").write_bytes(b"PITOTSEG" + bytes(200))
    (forged / "2.0.pit").symlink_to("/etc/passwd")
    os.mkfifo(forged / "3.0.pit")
    [segment] = folder.glob("[0-9]*.0.pit")
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2:len(damaged) // 2 + 64] = bytes(64)
    other = tmp_path / "runs/damaged.pitot"
    other.mkdir()
    (other / "9.0.pit").write_bytes(damaged)
    ship(pitot, lake, tmp_path, "--recordings", folder, status=1)
    assert not list(elsewhere.iterdir())
    (lake / "kernel_sketch").unlink()
    ship(pitot, lake, tmp_path, "--recordings", tmp_path / "runs")
    assert shipped(lake) == recorded(rows, folder), "the copy has the same session"


def parse_metrics(text):
    """{name: [(labels, value)]} of a page in the text format 0.0.4; fails where it violates it."""
    types, samples, seen = {}, {}, set()
    for line in text.splitlines():
        if line.startswith("#"):
            kind, name, rest = line[2:].split(" ", 2)
            assert kind in ("HELP", "TYPE") and rest, line
            if kind == "TYPE":
                assert name not in types and rest in ("counter", "gauge", "histogram"), line
                assert (rest == "counter") == name.endswith("_total"), line
                types[name] = rest
            continue
        match = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\[\\n"])*",?)*)\})? ([0-9.e+-]+)', line)
        assert match, line
        name, labels, value = match.groups()
        family = re.sub("_(bucket|sum|count)$", "", name) if types.get(name) is None else name
        assert list(types)[-1] == family, f"{line}: not below its TYPE"
        assert (name, labels) not in seen, line
        seen.add((name, labels))
        found = dict(re.findall(r'([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"', labels or ""))
        samples.setdefault(name, []).append((found, float(value)))
    return samples


def request(port, text):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(text.encode("latin-1"))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]) if head else 0, head, body


def scrape(port, host="127.0.0.1"):
    status, head, body = request(port, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")
    assert status == 200 and "text/plain; version=0.0.4" in head
    return body


def test_metrics(pitot, rows, played, page_of, lake, tmp_path):
    """They count what was recorded; a page in a browser cannot read them under a name of its own."""
    process, folder = played("train", 3, SLURM_JOB_ID='a"b\\c\nd')
    port, one = page_of(process)
    assert process.wait() == 0
    want = recorded(rows, folder)

    def work(name, text):
        return {labels["kind"]: value for labels, value in parse_metrics(text).get(name, [])}

    text = wait_until(lambda: (page := scrape(port)) and work("pitot_gpu_work_total", page) == {kind: count for kind, (count, _) in want.items()} and page,
                      "it has read all", one)
    seconds = work("pitot_gpu_work_seconds_total", text)
    assert all(seconds[kind] == pytest.approx(total / 1e9) for kind, (_, total) in want.items())
    found = parse_metrics(text)
    [[labels, busy]] = found["pitot_gpu_busy_seconds_total"]
    assert labels["job_id"] == 'a\\"b\\\\c\\nd' and 0 < busy <= sum(seconds.values()) + 1e-6
    buckets = [value for labels, value in found["pitot_step_duration_seconds_bucket"]]
    assert buckets == sorted(buckets) and found["pitot_step_duration_seconds_bucket"][-1][0]["le"] == "+Inf"
    assert found["pitot_step_duration_seconds_count"][0][1] == buckets[-1]
    assert found["process_resident_memory_bytes"][0][1] > 0 and found["pitot_agent_failures_total"][0][1] == 0
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    assert set(kinds.values()) == {"counter", "gauge", "histogram"} and kinds["pitot_agent_failures_total"] == "counter"
    assert {f"pitot_agent_{name}" for name in ("rows_total", "objects_total", "windows_total", "windows_failed_total", "dropped_rows_total",
                                               "failures_total", "spool_bytes", "spool_objects")} <= kinds.keys() & found.keys()
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for host in "evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost:x":
        assert request(port, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")[0] == 421
    assert request(port, "GET /metrics HTTP/1.1\r\n\r\n")[0] == 400
    for path, status in ("/", 404), ("/metrics/", 404), ("/metricsx", 404), ("/metrics?x=1", 200):
        assert request(port, f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n")[0] == status
    assert request(port, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 405
    assert request(port, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")[2] == ""
    assert request(port, "GET /metrics\0 HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 400
    assert request(port, "x" * 16385)[0] == 431, "too long"
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    assert all(connection.recv(1) == b"" for connection in idle), "who asks nothing is disconnected"
    assert scrape(port)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0
    for address, said in ("localhost:1", "no address and port"), ("1.2.3.4", "no address and port"), (f"127.0.0.1:{65536}", "no address and port"):
        assert said in pitot("agent", "--lake", lake, "--spool", tmp_path / "spool", "--listen", address, status=2).stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = pitot("agent", "--lake", lake, "--spool", tmp_path / "spool", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", status=1).stderr
    assert "choose another port with --listen" in said


@pytest.mark.parametrize("ring", [(), ("--ring", "10m")], ids=["disk", "ring"])
def test_a_window(pitot, rows, played, agent, lake, tmp_path, ring):
    """A rule makes a recording of the seconds around it, once, also if the agent is killed before it is shipped."""
    process, folder = played("train", 1000, *ring, SLURM_JOB_ID="77", SLURM_STEP_ID="0")
    words = (*FAST, "-p", process.pid, "--when", "nvtx == forward")
    one = agent(*words)
    wait_until(lambda: list(lake.rglob("*.parquet")), "it reads", one)
    one.kill()
    one.wait()
    one = agent(*words)
    [window] = wait_until(lambda: list(lake.glob("window/date=*/*.pitot")), "the window is shipped", one)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.stderr.read()
    os.kill(process.pid, signal.SIGINT)
    process.wait()
    assert re.fullmatch(r"77%2E0\.[^.]+\.\d{8}T\d{6}Z\.nvtx-\d+\.pitot", window.name)
    pitot("info", "--verify", window)
    [first, *more] = rows(window, "trigger")
    assert (first["rule"], first["outcome"]) == ("nvtx == forward", "dump") and all(row["outcome"] == "joined" for row in more)
    assert "nvtx == forward" in pitot("report", window).stdout
    kernels = rows(window, "kernel", "-c", "start,duration,name")
    assert kernels and all(row["name"] not in (None, "", "?") for row in kernels)
    assert min(row["start"] for row in kernels) < first["time_ns"] < max(row["start"] for row in kernels)
    assert not list((tmp_path / "spool").glob("window*"))
    assert not pitot("info", window, "--json", json_output=True)["loss"], "what is not of the window is no loss"


def test_windows_of_two_rules(rows, played, agent, lake):
    """The second window has its own rule, and not that of the first."""
    process, _ = played("train", 1000)
    rules = "launch-rate > 1/s: dump pre=1s post=0s", "nvtx == forward: dump pre=1s post=0s"
    one = agent(*FAST, "-p", process.pid, *(word for rule in rules for word in ("--when", rule)))
    windows = wait_until(lambda: len(found := sorted(lake.glob("window/date=*/*.pitot"))) == 2 and found, "both are shipped", one)
    process.send_signal(signal.SIGINT)
    process.wait()
    for window in windows:
        [made] = [row["rule"] for row in rows(window, "trigger") if row["outcome"] == "dump"]
        assert window.name.rsplit(".", 2)[1].startswith(made.split()[0])


def test_a_program_that_is_stopped_does_not_hang(played, agent, lake):
    """Its outstanding work has no end for longer than the rule allows, because a debugger or Ctrl-Z holds it."""
    process, _ = played("train", 1000, "--ring", "10m")
    player = wait_until(lambda: Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split(), "the program runs", process)[0]
    one = agent(*FAST, "-p", process.pid, "--when", "hang > 1s", "--when", "gpu-idle > 3s")
    wait_until(lambda: list(lake.rglob("*.parquet")), "it reads", one)
    os.kill(int(player), signal.SIGSTOP)
    [window] = wait_until(lambda: list(lake.glob("window/date=*/*.pitot")), "its GPU is idle", one)
    assert ".gpu-idle-" in window.name
    os.kill(int(player), signal.SIGCONT)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.stderr.read()
    os.kill(process.pid, signal.SIGINT)
    process.wait()


def test_options_of_a_file(pitot, played, lake, tmp_path):
    process, folder = played("launch", 1)
    assert process.wait() == 0
    config = tmp_path / "agent.json"
    config.write_text(json.dumps({"lake": str(tmp_path / "no such"), "spool": str(tmp_path / "spool"), "recordings": [str(folder.parent)], "once": True, "no-live": True,
                                  "mode": "0644", "spool-size": "64M"}))
    pitot("agent", "--config", config, "--lake", lake)
    assert {path.stat().st_mode & 0o777 for path in lake.rglob("*.parquet")} == {0o644}
    for text, said in ('{"lakes": "x"}', "unknown key 'lakes', did you mean 'lake'?"), ('{"ship": "x"}', "'ship' takes a"), ("[]", "line 1"), \
            ('{"lake": {}}', "'lake' takes a text"):
        config.write_text(text)
        assert said in pitot("agent", "--config", config, status=2 if "line" not in said else None).stderr
    for rule, said in ("exit-status != 0", "pitot record --ring --when"), ("file /x touched", "pitot record --ring --when"), ("x > 1", "x"):
        assert said in ship(pitot, lake, tmp_path, "--when", rule, status=2).stderr
    assert "pitot lake init" in pitot("agent", "--once", "--no-live", "--lake", tmp_path / "none", "--spool", tmp_path / "spool", status=1).stderr
