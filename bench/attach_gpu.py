#!/usr/bin/env python3
"""Attaching to a PyTorch training on a GPU, and `pitot top`: bench/attach_gpu.py [BUILD]

A training is prepared (PITOT_IDLE=1) and recorded 20 times for half a second. Printed are the times of
its steps before, between and after, and whether each window has the kernels that a recording from the
start has for the same steps. Then, in turns: the steps of prepared and of plain trainings. Last:
`pitot top` beside nvidia-smi. Needs PyTorch and a GPU; takes a minute.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else "gpu/new").resolve()
PITOT, LIBRARY = BUILD / "pitot", BUILD / "libpitot.so"
WINDOWS, TURNS = 20, 1
TRAIN = """
import sys, time, torch
torch.manual_seed(1)
model = torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data, target = torch.randn(256, 1024, device="cuda"), torch.randn(256, 1024, device="cuda")
end = time.monotonic() + float(sys.argv[2])
with open(sys.argv[1], "w", buffering=1) as steps:
    while time.monotonic() < end:
        begun = time.time_ns()
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(data), target).backward()
        optimizer.step()
        torch.cuda.synchronize()
        steps.write(f"{begun} {time.time_ns()}\\n")
"""


def steps_of(path):
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return [tuple(map(int, line.split())) for line in lines if len(line.split()) == 2]


def median_us(steps):
    return statistics.median(end - begun for begun, end in steps) / 1e3 if steps else float("nan")


def between(steps, begun, end):
    return [step for step in steps if begun <= step[0] and step[1] <= end]


def environment(prepared):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PITOT_")}
    return {**clean, "PITOT_IDLE": "1", "CUDA_INJECTION64_PATH": str(LIBRARY)} if prepared else clean


def train(folder, name, seconds, prepared, wrap=()):
    path = folder / name
    process = subprocess.Popen([*map(str, wrap), sys.executable, folder / "train.py", path, str(seconds)], env=environment(prepared))
    wait = time.monotonic() + 60
    while len(steps_of(path)) < 200 and process.poll() is None and time.monotonic() < wait:
        time.sleep(0.05)
    return process, path


def kernel_starts(recording):
    said = subprocess.run([PITOT, "sql", recording, "select start_ns from kernel order by 1"], capture_output=True, text=True)
    if said.returncode:
        print(said.stderr, flush=True)
    return [int(line) for line in said.stdout.split() if line.isdigit()]


def kernels_by_step(starts, steps):
    """{kernels of a step: steps}, of steps that lie between the first and the last kernel."""
    counts, at = {}, 0
    for begun, end in steps:
        if not starts or begun < starts[0] or end > starts[-1]:
            continue
        while at < len(starts) and starts[at] < begun:
            at += 1
        first = at
        while at < len(starts) and starts[at] <= end:
            at += 1
        counts[at - first] = counts.get(at - first, 0) + 1
    return counts


def windows(folder):
    full, path = train(folder, "full.txt", 2, False, (PITOT, "record", "-q", "--no-cpu", "--no-symbols", "--stacks", "none", "-o", folder / "full.pitot", "--"))
    full.wait()
    whole = kernels_by_step(kernel_starts(folder / "full.pitot"), steps_of(path)[20:])
    usual = max(whole, key=whole.get) if whole else None
    print(f"recorded from the start: {whole} (kernels of a step: steps), {len(steps_of(path))} steps, status {full.returncode}", flush=True)
    process, path = train(folder, "long.txt", 60, True)
    marks = [time.time_ns()]
    time.sleep(2)
    marks.append(time.time_ns())
    print(f"before: {median_us(between(steps_of(path), *marks)):8.1f} us a step")
    wrong = 0
    for i in range(WINDOWS):
        recording, begun = folder / f"window{i}.pitot", time.monotonic()
        said = subprocess.run([PITOT, "record", "-p", str(process.pid), "--gpu", "--gpu-only", "--no-symbols", "--duration", "300ms", "-o", recording],
                              capture_output=True, text=True)
        took = time.monotonic() - begun
        if said.returncode:
            print(f"window {i:2}: {said.stderr}")
            wrong += 1
            continue
        starts = kernel_starts(recording)
        steps = steps_of(path)
        counts = kernels_by_step(starts, steps)
        good = set(counts) == {usual}
        wrong += not good
        inside = median_us(between(steps, starts[0], starts[-1])) if starts else float("nan")
        print(f"window {i:2}: {len(starts):6} kernels, of a step: {counts}, {inside:7.1f} us a step, {took:.2f} s{'' if good else '  WRONG'}", flush=True)
    time.sleep(1)
    marks = [time.time_ns()]
    time.sleep(2)
    marks.append(time.time_ns())
    print(f"after:  {median_us(between(steps_of(path), *marks)):8.1f} us a step; {wrong} of {WINDOWS} windows are wrong")
    return process


def top(process):
    for command in (["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"], ["nvidia-smi", "pmon", "-c", "1"],
                    [PITOT, "top", "--once"], [PITOT, "top", "--once", "-p", str(process.pid)], [PITOT, "top", "--once", "--json", "-p", str(process.pid)]):
        try:
            said = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=30)
            print(f"$ {' '.join(Path(word).name if '/' in word else word for word in map(str, command))}\n{said.stdout[:3000]}{said.stderr[:1000]}", flush=True)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(error)
    watch = subprocess.Popen([str(PITOT), "top", "--json", "-p", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(5)
    cpu = Path(f"/proc/{watch.pid}/stat").read_text().rsplit(")", 1)[1].split()
    watch.send_signal(signal.SIGTERM)
    print(f"pitot top -p: {(int(cpu[11]) + int(cpu[12])) / os.sysconf('SC_CLK_TCK'):.2f} s of CPU time in 5 s; status {watch.wait(30)}")


def turns(folder):
    for turn in range(TURNS):
        for prepared in True, False:
            process, path = train(folder, f"turn{turn}{prepared}.txt", 4, prepared)
            process.wait()
            print(f"turn {turn}: {'prepared' if prepared else 'plain   '} {median_us(steps_of(path)[200:]):8.1f} us a step", flush=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(TRAIN)
        process = windows(folder)
        top(process)
        print(f"the training goes on: {process.poll() is None}", flush=True)
        process.kill()
        process.wait()
        turns(folder)


main()
