#!/usr/bin/env python3
"""What pitot.torch.watch() costs per training step of a small transformer, and which kernels have an operator's scope.

usage: bench/operators.py BUILD [SECONDS], with PyTorch; without a GPU it measures the cost alone

All settings take turns in one process for SECONDS (30): watched or not, recorded or not; then torch.profiler, once. Prints for each setting the
minimum and the median of its turns, whose time is the median of their steps': on a CPU the CPU time of the thread. Before that it records three
steps, and prints for forward() and gradients the share of kernels within an operator and within a module, and the scopes with the most kernels.
"""
import collections
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]).resolve() / "python"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import pitot  # noqa: E402

STEPS, LAYERS = 10, 6
RECORD = {"stacks": "none", "cpu": 0}
SETTINGS = {  # recorded, keywords of watch()
    "alone": (False, None),
    "watched": (False, {}),
    "watched, operators": (False, {"operators": True}),
    "recorded": (True, None),
    "recorded, watched": (True, {}),
    "recorded, watched, operators": (True, {"operators": True}),
    "recorded, watched, operators, backward": (True, {"operators": True, "backward": True}),
}

device = "cuda" if torch.cuda.is_available() else "cpu"
DIMENSION, BATCH, LENGTH = (256, 8, 64) if device == "cuda" else (32, 2, 8)
clock = time.perf_counter if device == "cuda" else time.thread_time
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(DIMENSION, 4, 4 * DIMENSION, batch_first=True, dropout=0.0), LAYERS).to(device)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
inputs = torch.randn(BATCH, LENGTH, DIMENSION, device=device, requires_grad=True)


def wait():
    if device == "cuda":
        torch.cuda.synchronize()


def step():
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def ms_per_step():
    times = []
    for _ in range(STEPS):
        start = clock()
        step()
        wait()
        times.append((clock() - start) * 1e3)
    return statistics.median(times)


def turn(path, recorded, watched):
    recording = pitot.record(path, **RECORD) if recorded else contextlib.nullcontext()
    watch = pitot.torch.watch(model, **watched) if watched is not None else contextlib.nullcontext()
    with recording, watch:
        return ms_per_step()


def costs(folder, seconds):
    end, times = time.monotonic() + seconds, {name: [] for name in SETTINGS}
    while time.monotonic() < end or len(times["alone"]) < 2:
        for name, (recorded, watched) in SETTINGS.items():
            times[name].append(turn(f"{folder}/{len(times[name])}-{name}", recorded, watched))
    with torch.profiler.profile():
        times["torch.profiler"] = [ms_per_step()]
    alone = min(times["alone"])
    for name, values in times.items():
        print(f"{name:40} min {min(values):8.3f} ms per step ({min(values) / alone - 1:+7.1%}), median {statistics.median(values):8.3f}")


def rows(folder, table, *columns):
    command = [f"{sys.argv[1]}/pitot", "view", f"{folder}/steps", table, "--json", "--quiet", *columns]
    return [json.loads(line) for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()]


def names(folder):
    modules = {name or type(model).__name__ for name, _ in model.named_modules()}
    modules |= {f"{name} backward" for name in modules}
    with pitot.record(f"{folder}/steps", **RECORD), pitot.torch.watch(model, backward=True, operators=True):
        for _ in range(3):
            with pitot.scope("step"):
                step()
        wait()
    kernels = [[name for name in (row["scope"] or "").split("/") if name not in ("", "step")] for row in rows(folder, "kernel", "--columns=scope")]
    print(f"{len(kernels)} kernels, {len(rows(folder, 'nvtx', '-w', 'kind=push'))} scopes in 3 steps; losses: {rows(folder, 'loss')}")
    parts = collections.defaultdict(list)
    for path in kernels:
        inside = [name for name in path if name in modules]
        part = "gradients" if any("Backward" in name or name.endswith(" backward") for name in path) else "forward" if inside else "other"
        parts[part].append((bool(set(path) - modules), bool(inside)))
    for part, found in parts.items():
        print(f"{part:10} {len(found):6} kernels, within an operator {sum(a for a, _ in found) / len(found):6.1%}, "
              f"within a module {sum(b for _, b in found) / len(found):6.1%}")
    for path, count in collections.Counter(" / ".join(path) for path in kernels).most_common(25):
        print(f"{count:6}  {path or '-'}")


def main():
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if device == 'cuda' else 'the CPU'}, {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(5):
            step()
        names(folder)
        costs(folder, float((sys.argv[2:] or ["30"])[0]))


main()
