"""pitot trace: with a program that plays perfetto, and with the real one where it is installed."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TraceConfig

from perfetto_trace import Trace as Checked
from waiting import PATIENCE, wait_until

# What perfetto does, and BEHAVIOUR; it writes its arguments and its configuration into the trace.
PERFETTO = """#!{python}
import os, signal, sys, time
behaviour = os.environ.get("BEHAVIOUR", "")
config = sys.stdin.buffer.read()
out, notify = sys.argv[sys.argv.index("-o") + 1], int(sys.argv[sys.argv.index("--notify-fd") + 1])
trace = open(out, "wb")
def write(content):
    length, head = len(content), b"\\n"
    while length > 127:
        head, length = head + bytes([length & 127 | 128]), length >> 7
    trace.write(head + bytes([length]) + content)
if behaviour == "no service":
    print("[1.2]  perfetto_cmd.cc:1184 Could not connect to the traced socket /x.", file=sys.stderr)
    os.write(notify, b"\\1")
    sys.exit(1)
if behaviour == "refuses":
    print("-:1:1 error: No field named \\"bad\\"\\n[1.2]  perfetto_cmd.cc:676 The trace config is invalid.", file=sys.stderr)
    sys.exit(1)
def end(*_):
    if behaviour == "never ends":
        return
    if behaviour == "writes for long":
        for _ in range(4):
            time.sleep(1)
            write(b"x" * 1000)
            trace.flush()
    if behaviour == "fails at the end":
        print("[1.2]  perfetto_cmd.cc:9 disk full", file=sys.stderr)
        os._exit(1)
    write(config + b"\\n" + "|".join(sys.argv[1:]).encode())
    if behaviour == "full disk":
        print("[1.2]  perfetto_cmd.cc:9 Failed to write packets", file=sys.stderr)
        trace.truncate(trace.tell() - 1)
    trace.close()
    os._exit(0)
signal.signal(signal.SIGTERM, end)
if behaviour != "slow source":
    os.write(notify, b"\\0")
if behaviour == "ends early":
    end()
while True:
    signal.pause()
"""


@pytest.fixture
def tools(tmp_path):
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "perfetto").write_text(PERFETTO.format(python=sys.executable))
    (folder / "perfetto").chmod(0o755)
    return folder


@pytest.fixture
def trace(build, environment, tools, tmp_path):
    def run(*arguments, **variables):
        return subprocess.run([build / "pitot", "trace", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
                              env={**environment, "PATH": f"{tools}:/usr/bin:/bin", **variables})

    return run


def content(path):
    """What perfetto has written, without the tag and the length."""
    data, at = path.read_bytes(), 1
    while data[at] & 128:
        at += 1
    return data[at + 1:]


def test_default(trace, tmp_path, build):
    result = trace("--", "sh", "-c", "env; exit 7")
    assert result.returncode == 7
    for variable in "PITOT_PERFETTO=1", f"CUDA_INJECTION64_PATH={build}/libpitot.so", f"NVTX_INJECTION64_PATH={build}/libpitot.so":
        assert f"\n{variable}" in "\n" + result.stdout
    assert "PITOT_RECORDING" not in result.stdout
    assert result.stderr.startswith("pitot trace: the trace is in 'trace.pftrace' (")
    config, arguments = content(tmp_path / "trace.pftrace").decode().rsplit("\n", 1)
    assert 'name: "gpu.renderstages"' in config and 'name: "linux.process_stats"' in config
    assert arguments.split("|")[-1] == "--txt"


def test_configurations(trace, tmp_path):
    (tmp_path / "text").write_text('# a comment: é\n\tbuffers { size_kb: 1 }\r\n')
    encoded = TraceConfig(buffers=[TraceConfig.BufferConfig(size_kb=64)], duration_ms=1000).SerializeToString()
    (tmp_path / "encoded").write_bytes(encoded)
    nothing = "pitot trace: warning: the configuration names no data source of Pitot, such as gpu.renderstages: the trace has no GPU data\n"
    for name in "text", "encoded":
        assert trace("-q", "-c", name, "-o", f"{name}.out", "--", "true").stderr == nothing
        config, arguments = content(tmp_path / f"{name}.out").rsplit(b"\n", 1)
        assert config == (tmp_path / name).read_bytes()
        assert arguments.endswith(b"|--txt") == (name == "text")


def test_names_of_data_sources(trace, tmp_path):
    for name, variables, is_known in (("gpu.renderstages", {}, True), ("gpu.renderstage", {}, False),
                                      ("gpu.mine", {"INJECTION_DATA_SOURCE_NAME": "gpu.mine"}, True)):
        (tmp_path / "config").write_text(f'data_sources {{ config {{ name: "{name}" }} }}')
        result = trace("--force", "-c", "config", "--", "true", **variables)
        assert result.returncode == 0 and ("names no data source of Pitot" in result.stderr) == (not is_known)


def test_refusals(trace, tools, tmp_path):
    def refused(why, *arguments, status=1, **variables):
        result = trace(*arguments, **variables)
        assert result.returncode == status and why in result.stderr and result.stdout == ""
        assert not (tmp_path / "trace.pftrace").exists()

    refused("cannot read the configuration 'none'", "-c", "none", "--", "echo", "no")
    refused("no command given", status=2)
    refused("no such command", "--", "no-such-command", status=127)
    refused("Is a directory", "--", tools, status=126)
    refused("no tracing service answers: start `traced`", "--", "echo", "no", BEHAVIOUR="no service")
    refused('failed: -:1:1 error: No field named "bad"; The trace config is invalid.', "--", "echo", "no", BEHAVIOUR="refuses")
    refused("another tool has set CUDA_INJECTION64_PATH='other'", "--", "echo", "no", CUDA_INJECTION64_PATH="other")
    refused("no program 'perfetto' in PATH", "--", "/bin/echo", "no", PATH=str(tmp_path))


def test_file_that_exists(trace, tmp_path):
    (tmp_path / "trace.pftrace").write_text("mine")
    result = trace("--", "echo", "no")
    assert result.returncode == 1 and "'trace.pftrace' exists" in result.stderr and result.stdout == ""
    assert (tmp_path / "trace.pftrace").read_text() == "mine"
    assert trace("--force", "--", "true").returncode == 0
    assert (tmp_path / "trace.pftrace").read_bytes() != b"mine"


def test_what_goes_wrong_later(trace):
    result = trace("--", "sh", "-c", "exit 3", BEHAVIOUR="fails at the end")
    assert result.returncode == 3 and "the trace is not complete" in result.stderr and "disk full" in result.stderr
    assert trace("--force", "--", "true", BEHAVIOUR="fails at the end").returncode == 1
    full = trace("--force", "--", "true", BEHAVIOUR="full disk")
    assert full.returncode == 1 and "the trace is not complete" in full.stderr and "Failed to write packets" in full.stderr
    assert trace("--force", "--", "sh", "-c", "sleep 0.3; kill -KILL $$", BEHAVIOUR="ends early").returncode == 137


def test_source_that_does_not_start(trace):
    assert trace("--", "echo", "runs", BEHAVIOUR="slow source").stdout == "runs\n"


def test_perfetto_that_writes_for_long(trace, tmp_path):
    result = trace("--", "true", BEHAVIOUR="writes for long")
    assert result.returncode == 0 and "the trace is in" in result.stderr
    assert re.search(r"perfetto is still writing 'trace.pftrace' \([\d.]+ \w+ so far\); Ctrl-C ends it\n", result.stderr)
    assert (tmp_path / "trace.pftrace").stat().st_size > 4000
    assert trace("-q", "--force", "--", "true", BEHAVIOUR="writes for long").stderr == ""


@pytest.mark.parametrize("how", ["a signal", "the limit"])
def test_perfetto_that_never_ends(build, environment, tools, tmp_path, how):
    process = subprocess.Popen([build / "pitot", "trace", "--", "sh", "-c", "exit 3"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                               env={**environment, "PATH": f"{tools}:/usr/bin:/bin", "BEHAVIOUR": "never ends"})
    assert "still writing" in process.stderr.readline()
    if how == "a signal":
        process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    why = "by a signal before it had written all" if how == "a signal" else "after 30 s in which it wrote nothing"
    assert process.wait(PATIENCE) == 3
    assert said == f"pitot trace: warning: the trace is not complete: '{tools}/perfetto' was ended {why}\n", said
    process.stderr.close()


def test_signals(build, environment, tools, tmp_path):
    """What is sent to pitot reaches the command; the trace is complete. Without pitot, perfetto ends, too."""
    for number, expected in (signal.SIGINT, 3), (signal.SIGKILL, -signal.SIGKILL):
        out = tmp_path / f"out.{int(number)}"
        process = subprocess.Popen([build / "pitot", "trace", "-o", out, "--", "sh", "-c", "trap 'exit 3' INT; echo; while :; do sleep 0.1; done"],
                                   cwd=tmp_path, stdout=subprocess.PIPE, env={**environment, "PATH": f"{tools}:/usr/bin:/bin"},
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(PATIENCE) == expected
        wait_until(lambda out=out: out.stat().st_size, "perfetto has written the trace")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()


def test_real_service(build, source, environment, tmp_path):
    """The GPU work of a tape, in a file of the real service."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    player = build / "standin" / "tape-play"
    if not shutil.which("traced", path=path) or not shutil.which("perfetto", path=path):
        pytest.skip("Perfetto's traced and perfetto are not installed")
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    variables = {**environment, "PATH": path, "PERFETTO_PRODUCER_SOCK_NAME": str(tmp_path / "producer"),
                 "PERFETTO_CONSUMER_SOCK_NAME": str(tmp_path / "consumer")}
    traced = subprocess.Popen([shutil.which("traced", path=path)], env=variables, stderr=subprocess.DEVNULL)
    try:
        wait_until((tmp_path / "consumer").exists, "traced listens", traced)
        subprocess.run([build / "pitot", "trace", "-q", "-o", tmp_path / "out", "--", player, source / "tests/data/tapes/train.tape"],
                       check=True, env=variables, timeout=PATIENCE)
    finally:
        traced.kill()
        traced.wait()
    found = Trace.FromString((tmp_path / "out").read_bytes())
    assert sum(packet.HasField("gpu_render_stage_event") for packet in found.packet) > 100
    [stats] = [packet.trace_stats for packet in found.packet if packet.HasField("trace_stats")]
    assert stats.flushes_failed == stats.invalid_packets == 0
    made = Checked((tmp_path / "out").read_bytes(), live=True)
    launches = made.launches()
    assert {stage.event_id for stage in made.stages} <= set(launches) and any("graph_node_id" in stage.args for stage in made.stages)
    assert all(call.stack for call in launches.values())
