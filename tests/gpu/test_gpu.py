"""Recording on a real GPU: every kernel is there, tied to its launch, as long as other tools say it was."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
from conftest import BUILD, HERE, PITOT, Recording


def counts(text):
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", text)}


def test_every_kind(record, programs):
    r = record(programs["kinds"], options=["--memory", "--sync"])
    assert r.done.returncode == 0
    said = counts(r.done.stdout)
    assert len(r.rows("kernel")) == said["kernels"]
    assert len(r.rows("memcpy")) == said["copies"]
    assert len(r.rows("memset")) == said["sets"]
    assert r.losses() == []
    launches = {x["correlation"] for x in r.rows("api_call")}
    for table in ("kernel", "memcpy", "memset"):
        assert [x for x in r.rows(table) if x["correlation"] not in launches] == []
    assert {x["kind"] for x in r.rows("synchronization")} >= {"event", "stream", "context", "stream_wait_event"}
    assert {x["kind"] for x in r.rows("memcpy")} >= {"HtoD", "DtoH", "DtoD", "DtoA", "AtoH"}
    assert sum(1 for x in r.rows("kernel") if x.get("graph_node")) == 100
    assert {x["kind"] for x in r.rows("nvtx")} == {"push", "pop", "start", "end", "mark"}
    assert len(r.rows("allocation")) > 10 and len(r.rows("stream")) > 5 and len(r.rows("device")) >= 1


def test_output_is_untouched(record, programs):
    alone = subprocess.run([programs["kinds"]], capture_output=True, text=True)
    r = record(programs["kinds"])
    assert (r.done.stdout, r.done.stderr) == (alone.stdout, alone.stderr)


def test_every_launch(record, programs):
    r = record(programs["launch"])
    said = counts(r.done.stdout)["launches"]
    report = r.json("report")
    assert report["hotspots"]["kernels"] == said == 1002000
    assert report["launches"]["kernel_calls"]["count"] == said
    assert report["launches"]["kernels_without_call"] == 0
    assert r.losses() == []


def test_graph_launches_instead_of_nodes(record, programs):
    r = record(programs["kinds"], options=["--graphs", "launch"])
    said = counts(r.done.stdout)
    assert len(r.rows("graph_launch")) == 5
    assert len(r.rows("kernel")) == said["kernels"] - 100


def ends_alone(program, how):
    """How often of ten times the program leaves with status 0 when nobody records it."""
    return sum(subprocess.run([program, how], stdout=subprocess.DEVNULL).returncode == 0 for _ in range(10))


def test_exit_beside_launches(record, programs):
    """A process that exits while a thread launches is a race of its own; recording must not make it worse."""
    alone = ends_alone(programs["endings"], "thread-exit")
    recorded = sum(record(programs["endings"], "thread-exit").done.returncode == 0 for _ in range(10))
    assert recorded >= min(alone, 9), f"alone {alone} of 10, recorded {recorded}"


@pytest.mark.parametrize("how, status", [("return", 0), ("exit", 3), ("_exit", 4), ("kill", 137), ("term", 143),
                                         ("abort", 134), ("segv", 139), ("reset", 0),
                                         ("exec", 0)])
def test_ways_to_end(record, programs, how, status):
    r = record(programs["endings"], how, "100000")
    assert r.done.returncode == status
    kernels = len(r.rows("kernel", "--columns", "correlation"))
    launched = {"reset": 200000}.get(how, 100000)
    assert kernels > 0
    if how in ("return", "exit", "term", "reset"):
        assert kernels == launched and r.losses() == []


def test_kill_from_outside_keeps_what_was_sealed(record, programs, tmp_path):
    path = tmp_path / "killed.pitot"
    p = subprocess.Popen([PITOT, "record", "-q", "-o", path, "--", programs["endings"], "loop"],
                         stdout=subprocess.PIPE)
    time.sleep(3)
    children = subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout.split()
    killed_ns = time.monotonic_ns()
    os.kill(int(children[0]), signal.SIGKILL)
    assert p.wait(30) == 137
    done = subprocess.run([PITOT, "view", path, "kernel", "--columns", "start_ns", "--json", "--limit", "100000000"],
                          capture_output=True, text=True)
    assert done.returncode == 0
    starts = [json.loads(line)["start_ns"] for line in done.stdout.splitlines()]
    assert len(starts) > 100000
    info = json.loads(subprocess.run([PITOT, "info", "--json", path], capture_output=True, text=True).stdout)
    killed_ns -= info["start_monotonic_ns"]
    # Blocks are sealed every 250 ms; and the collector looks every 20 ms.
    assert killed_ns - max(starts) < 300e6


def test_interrupt_is_complete(programs, tmp_path):
    """SIGINT as a terminal sends it: to the whole group."""
    path = tmp_path / "interrupted.pitot"
    p = subprocess.Popen([PITOT, "record", "-q", "-o", path, "--", programs["endings"], "loop"],
                         stdout=subprocess.PIPE, start_new_session=True)
    time.sleep(3)
    os.killpg(p.pid, signal.SIGINT)
    assert p.wait(30) == 130
    done = subprocess.run([PITOT, "view", path, "loss", "--json"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_window(record, programs):
    r = record("timeout", "4", programs["endings"], "loop", options=["--delay", "1s", "--duration", "1s"])
    starts = [x["start_ns"] for x in r.rows("kernel", "--columns", "start_ns")]
    assert len(starts) > 10000
    assert 0.5e9 < max(starts) - min(starts) < 1.5e9


def test_processes(record, torch_python):
    r = record(torch_python, HERE / "fork_workers.py")
    assert r.done.returncode == 0
    per_process = {}
    for k in r.rows("kernel"):
        per_process[k["pid"]] = per_process.get(k["pid"], 0) + 1
    assert sorted(per_process.values()) == [3, 101, 201, 301]


def kernels_of_torch_profiler(python):
    code = f"""
import runpy, collections, json
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CUDA]) as p:
    runpy.run_path({str(HERE / 'train_small.py')!r})
totals = collections.Counter(); times = collections.Counter()
for e in p.events():
    if str(e.device_type).endswith('CUDA') and not e.name.startswith(('Memcpy', 'Memset')) and e.device_time_total > 0 \\
            and not e.is_user_annotation:
        totals[e.name] += 1
        times[e.name] += e.device_time_total * 1000
print('RESULT', json.dumps([totals, times]))
"""
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return json.loads(re.search(r"RESULT (.*)", done.stdout).group(1))


def test_against_torch_profiler(record, torch_python):
    """Counts agree exactly; the sum of durations within a tenth, because they are of two runs."""
    totals, times = kernels_of_torch_profiler(torch_python)
    r = record(torch_python, HERE / "train_small.py", options=["--no-cpu"])
    report = r.json("report")
    assert r.losses() == []
    assert report["hotspots"]["kernels"] == sum(totals.values())
    ours = report["hotspots"]["total_ns"]
    assert abs(ours - sum(times.values())) < 0.1 * ours


def test_profiler_inside_sees_what_it_sees_alone(record, torch_python):
    code = ("import torch\nfrom torch.profiler import profile\n"
            "x = torch.ones(8, device='cuda')\n"
            "with profile() as p:\n    for _ in range(50):\n        x.add_(1)\n    torch.cuda.synchronize()\n"
            "print(sum(str(e.device_type).endswith('CUDA') and 'elementwise' in e.name for e in p.events()))")
    r = record(torch_python, "-c", code)
    assert (r.done.returncode, r.done.stdout) == (0, "50\n")
    assert len(r.rows("kernel")) >= 51


def test_leaving_is_quick(record, programs):
    """The time that recording adds to a short program: set-up, detach and exit together."""
    def best(f):
        times = []
        for _ in range(5):
            start = time.monotonic()
            f()
            times.append(time.monotonic() - start)
        return min(times)

    alone = best(lambda: subprocess.run([programs["endings"], "return"], stdout=subprocess.DEVNULL))
    recorded = best(lambda: record(programs["endings"], "return"))
    assert recorded - alone < 1.0
    r = record(programs["endings"], "return", options=["--no-cpu"])
    assert sum(x["total_ns"] for x in r.rows("cost") if x["kind"] == "exit") < 300e6


def allowed(way):
    """Whether this machine lets us sample the CPU so, as `pitot doctor` says."""
    names = {"ebpf": "eBPF", "perf": "perf events"}
    done = subprocess.run([PITOT, "doctor", "--json"], capture_output=True, text=True)
    states = {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}
    return way not in names or states[names[way]] == "ok"


@pytest.mark.parametrize("way", ["ebpf", "perf", "timer"])
def test_cpu_samples(record, torch_python, way):
    """Beside the GPU work; with Python frames where the way gives them; the GPU column is what CUPTI said."""
    if not allowed(way):
        pytest.skip("not allowed here")
    r = record(torch_python, HERE / "train_small.py", options=["--cpu-via", way, "--cpu=250"])
    assert r.done.returncode == 0
    assert [loss for loss in r.losses() if loss[0] != "unnamed_frames"] == []
    samples = r.rows("cpu_sample")
    assert sum(x["weight_ns"] for x in samples) > 1e9
    stacks = subprocess.run([PITOT, "flame", "--mode", "cpu", "--format", "folded", str(r.path)], capture_output=True,
                            text=True).stdout
    assert ("train_small.py" in stacks) == (way != "perf")
    flame = r.json("flame", "--mode", "gpu")
    gpu = sum(x["end_ns"] - x["start_ns"] for t in ("kernel", "memcpy", "memset") for x in r.rows(t))
    assert flame["sections"][0]["total_ns"] == gpu


def test_stacks_are_complete(record, torch_python):
    """From the program's start to the launch, in Python and in native code."""
    r = record(torch_python, HERE / "train_small.py", options=["--no-cpu"])
    ends = {x["id"]: x["end"] for x in r.rows("stack")}
    calls = r.rows("api_call", "--columns", "stack")
    complete = sum(ends.get(x.get("stack")) == "complete" for x in calls)
    assert complete >= 0.999 * len(calls)


def test_a_watched_training(torch_python, package, tmp_path):
    """The package: a report of the active steps, and launches within modules and operators, also of autograd's thread."""
    code = """
import sys, torch, pitot
torch.manual_seed(0)
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0), 2).cuda()
x = torch.randn(4, 16, 64, device="cuda", requires_grad=True)
steps = pitot.steps(range(6), wait=2, warmup=1, active=3, repeat=1, path=sys.argv[1])
with pitot.torch.watch(model, backward=True, operators=True):
    for _ in steps:
        model(x).square().mean().backward()
        torch.cuda.synchronize()
print(steps.recordings[0].report())
"""
    done = subprocess.run([torch_python, "-c", code, str(tmp_path / "steps.pitot")], capture_output=True, text=True,
                          env=package)
    assert done.returncode == 0 and "verdict" in done.stdout, done.stdout + done.stderr
    r = Recording(tmp_path / "steps.pitot", done)
    assert sum(x["message"] == "step" for x in r.rows("nvtx", "-w", "kind=push")) == 3
    scopes = [x["scope"] or "" for x in r.rows("kernel", "--columns", "scope")]
    assert len(scopes) > 100
    assert sum("::" in x or "Backward" in x for x in scopes) >= 0.99 * len(scopes)
    assert any(x.startswith("step/TransformerEncoder/layers.0/layers.0.linear1/aten::linear/aten::addmm") for x in scopes)
    assert any("layers.0.linear1 backward/AddmmBackward0/aten::mm" in x for x in scopes)
