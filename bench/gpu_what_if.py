#!/usr/bin/env python3
"""How far predictions of pitot what-if are from the truth: pairs of programs that are one change apart.

usage: bench/gpu_what_if.py BUILD [FOLDER], on a machine with a GPU and PyTorch; FOLDER gets the recordings
First `pitot calibrate` runs. For each pair one process runs A and B bare, in turns, and then A alone, which is recorded, since steps of two
processes differ more than recording adds. B is predicted from the recording, with the calibration and without; transforms are written down
here. A virtual machine is slower for seconds at a time, bare or recorded, so that all times are 10th percentiles: of 40 steps each by the
program's clock, and of a quarter of a second each in the recording, from which B is then predicted. Prints what recording added to a
launching call, A corrected against A bare, and B predicted against B bare: the error, and whether B lies within the bar. Three minutes.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "workloads" / "what_if_pairs.py"
PAIRS = {  # the transform; RATIO: of the kernels of B to those of A, BUSY: what busy() takes, both measured alone
    "spin": "kernel:*spin_kernel* remove",
    "hidden": "kernel:*spin_kernel* remove",
    "host": "host:*one_launch_each* -BUSYus",
    "sync": "sync:cudaStreamSynchronize remove",
    "tf32": "kernel:*gemm* xRATIO",
    "tf32-tiny": "kernel:*gemm* xRATIO",
    "graph": "graph step launch=6us",
}
WAYS = ("calibrated", "assumed")  # of knowing what recording adds to calls
LIMIT = 60  # seconds for one run
DELAY, UNTIL, WINDOW = 10, 14, 0.25  # seconds: recording begins, the program ends, and a part of the recording
ALONE = """
import sys, time
import torch
sys.path.insert(0, sys.argv[1])
import what_if_pairs
def ms(width, batch, tf32):
    \"\"\"Of matrix products between kernels that use the cache, as in the program.\"\"\"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, weights = torch.randn(batch, width, device="cuda"), [torch.randn(width, width, device="cuda") for _ in range(8)]
    begin, end, took = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), []
    for multiply in (True, False):
        graph, product = torch.cuda.CUDAGraph(), torch.mm(a, weights[0])
        torch.relu(product)
        with torch.cuda.graph(graph):
            for i in range(96):
                if multiply:
                    product = torch.mm(a, weights[i % 8])
                torch.relu(product)
        times = []
        for _ in range(5):
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        took.append(min(times))
    return took[0] - took[1]
for width, batch in ((4096, 4096), (1024, 64)):
    print(ms(width, batch, True) / ms(width, batch, False))
begin = time.perf_counter()
for _ in range(2000):
    what_if_pairs.busy()
print((time.perf_counter() - begin) / 2000 * 1e6)
"""


def run(*command, cache=None):
    """Returns what the command printed. cache: the folder in which Pitot finds a calibration."""
    try:
        done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=LIMIT, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": str(cache)} if cache else None)
    except subprocess.TimeoutExpired:
        print(f"{command}: longer than {LIMIT} s", flush=True)
        return ""
    if done.returncode:
        print(f"{command}: status {done.returncode}: {done.stderr[-400:]}", flush=True)
    return done.stdout


def tenth(values):
    return sorted(values)[len(values) // 10] if values else float("nan")


def record(pitot, recording, name):
    """Records program A of a process that has run A and B bare before. Returns times of steps by the program's own clock."""
    stacks = [] if name == "host" else ["--stacks", "none"]
    printed = run(pitot, "record", "-q", "--force", "--no-cpu", *stacks, "--delay", f"{DELAY}s", "-o", recording, "--", sys.executable, PROGRAM,
                  name, DELAY, UNTIL)
    series = json.loads(printed or '{"A": [], "B": [], "alone": []}')
    for what, key in (("A bare", "A"), ("B bare", "B"), ("A recorded", "alone")):
        times = series[key]
        if times:
            print(f"{name}: {what}: {len(times)} times, 10th percentile {tenth(times):.0f}, median {statistics.median(times):.0f}, longest "
                  f"{max(times):.0f} us", flush=True)
    return {key: tenth(times) for key, times in series.items()}


def predict(pitot, recording, name, transform, caches):
    """Returns predictions by their ways, from the part of the recording that has the 10th percentile of step times."""
    verdict = json.loads(run(pitot, "report", "--json", recording) or "{}").get("verdict", {})
    print(f"{name}: A is {verdict.get('text')}: {verdict.get('evidence')}", flush=True)
    parts = []
    for index in range(2, int((UNTIL - DELAY - 1) / WINDOW)):
        window = ["--since", f"{DELAY + index * WINDOW}s", "--until", f"{DELAY + (index + 1) * WINDOW}s"]
        predicted = json.loads(run(pitot, "what-if", "--json", *window, recording, transform, cache=caches["calibrated"]) or "{}")
        if predicted:
            parts.append((predicted["recorded"]["step_ns"], window, predicted))
    if not parts:
        return {}
    parts.sort(key=lambda part: part[0])
    _, window, predicted = parts[len(parts) // 10]
    return {"calibrated": predicted,
            "assumed": json.loads(run(pitot, "what-if", "--json", *window, recording, transform, cache=caches["assumed"]) or "{}")}


def print_row(name, way, prediction, times):
    if not prediction:
        print(f"{name:10} {way:10} no result")
        return
    a, b, alone = (times[key] for key in ("A", "B", "alone"))
    corrected, said = (prediction[key]["step_ns"] / 1e3 for key in ("corrected", "predicted"))
    launches = prediction["launching_calls"] / (prediction["steps"] or 1)
    bar = prediction["uncertainty_ns"] / 1e3
    print(f"{name:10} {way:10} {(alone - a) / launches:+7.2f} {alone:9.1f} {prediction['recorded']['step_ns'] / 1e3:9.1f} "
          f"{corrected:9.1f} {a:9.1f} {corrected / a - 1:+7.1%} {said:9.1f} {b:9.1f} {said / b - 1:+7.1%} {bar:8.1f} "
          f"{b / a - 1:+7.1%} {said / corrected - 1:+7.1%} "
          f"{'bar' if abs(said - b) <= bar else 'twice' if abs(said - b) <= 2 * bar else 'no'}", flush=True)


def main():
    pitot, started = Path(sys.argv[1]) / "pitot", time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        caches = {way: Path(temporary) / way for way in WAYS}
        for cache in caches.values():
            cache.mkdir()
        print(run(pitot, "calibrate", "--json", cache=caches["calibrated"]), f"{time.monotonic() - started:.0f} s", flush=True)
        large, small, busy = [float(line) for line in run(sys.executable, "-c", ALONE, PROGRAM.parent).split()] or [1.0, 1.0, 20.0]
        print(f"TF32 matrix products take x{large:.3f} of FP32, small ones x{small:.3f}; busy() takes {busy:.2f} us", flush=True)
        found = {}
        for name, transform in PAIRS.items():
            transform = transform.replace("RATIO", f"{large if name == 'tf32' else small:.4f}").replace("BUSY", f"{busy:.2f}")
            print(f"{name}: '{transform}'", flush=True)
            times = record(pitot, folder / f"{name}.pitot", name)
            found[name] = predict(pitot, folder / f"{name}.pitot", name, transform, caches), times
    print(f"\n{'pair':10} {'call cost':10} {'added':>7} {'recorded':>9} {'by Pitot':>9} {'corrected':>9} {'A bare':>9} {'error':>7} "
          f"{'predicted':>9} {'B bare':>9} {'error':>7} {'+/-':>8} {'true':>7} {'said':>7} within")
    for name, (predictions, times) in found.items():
        for way in WAYS:
            print_row(name, way, predictions.get(way), times)
    print(f"{time.monotonic() - started:.0f} s; steps in us; added: to a launching call, by the program's own clock")


if __name__ == "__main__":
    main()
