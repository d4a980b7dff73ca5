#!/usr/bin/env python3
"""How far predictions of pitot what-if are from the truth: pairs of programs that are one change apart.

usage: bench/gpu_what_if.py BUILD [FOLDER], on a machine with a GPU and PyTorch; FOLDER gets the recordings
First `pitot calibrate` runs. For each pair program A runs, and its recording begins after some seconds: the same process has steps without
and with recording, since steps of two processes differ more than recording adds. B is predicted from the recording, with the calibration
and without, and the predictions are printed before B runs for the first time. Then A and B run bare, in turns in one process for each
pair. Prints what recording added to a launching call, A corrected against A bare, and B predicted against B bare, which is A bare times
what B took of A: the error, and whether B lies within the bar. Takes three minutes.
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
DELAY, UNTIL, MARGIN = 7, 10, 0.6  # seconds: recording begins, the program ends, and what is left out around the beginning
ENOUGH, ROUNDS = 165, 5  # seconds, after which no round begins that would end later; rounds of bare runs at most
ALONE = """
import sys, time
import torch
sys.path.insert(0, sys.argv[1])
import what_if_pairs
def ms(width, batch, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, weights = torch.randn(batch, width, device="cuda"), [torch.randn(width, width, device="cuda") for _ in range(8)]
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph = torch.cuda.CUDAGraph()
    torch.mm(a, weights[0])
    with torch.cuda.graph(graph):
        for i in range(50):
            torch.mm(a, weights[i % 8])
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)
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


def record(pitot, recording, name):
    """Records program A. Returns the times of its steps before and while it was recorded, by its own clock."""
    stacks = [] if name == "host" else ["--stacks", "none"]
    printed = run(pitot, "record", "-q", "--force", "--no-cpu", *stacks, "--delay", f"{DELAY}s", "-o", recording, "--", sys.executable, PROGRAM,
                  "--until", UNTIL, f"{name}:A")
    series = json.loads(printed or "[]")
    before, after = [us for age, us in series if age < DELAY - MARGIN][1:], [us for age, us in series if age > DELAY + MARGIN][1:]
    print(f"{name}: A takes {[round(value) for value in before[-12:]]} us before, {[round(value) for value in after[-12:]]} us while recorded",
          flush=True)
    return [statistics.median(times) if times else float("nan") for times in (before, after)]


def predict(pitot, recording, name, transform, caches):
    """Returns predictions by their ways."""
    verdict = json.loads(run(pitot, "report", "--json", recording) or "{}").get("verdict", {})
    print(f"{name}: A is {verdict.get('text')}: {verdict.get('evidence')}", flush=True)
    found = {way: json.loads(run(pitot, "what-if", "--json", recording, transform, cache=caches[way]) or "{}") for way in WAYS}
    for way, predicted in found.items():
        steps = {key: predicted.get(key, {}).get("step_ns") for key in ("recorded", "corrected", "predicted")}
        costs = [predicted.get(key) for key in ("call_cost_source", "call_cost_ns", "synchronize_cost_ns", "uncertainty")]
        print(f"{name}: '{transform}' {way}: {steps} {costs}", flush=True)
    return found


def run_bare(bare):
    for line in run(sys.executable, PROGRAM, *PAIRS).splitlines():
        for name, us in json.loads(line).items():
            bare.setdefault(name, []).append(us)


def print_row(name, way, prediction, bare, before, after):
    if not prediction or name not in bare:
        print(f"{name:10} {way:10} no result")
        return
    b = before * statistics.median(us["B"] / us["A"] for us in bare[name])
    corrected, said = (prediction[key]["step_ns"] / 1e3 for key in ("corrected", "predicted"))
    launches = prediction["launching_calls"] / (prediction["steps"] or 1)
    bar = prediction["uncertainty_ns"] / 1e3
    print(f"{name:10} {way:10} {(after - before) / launches:+7.2f} {after:9.1f} {prediction['recorded']['step_ns'] / 1e3:9.1f} "
          f"{corrected:9.1f} {before:9.1f} {corrected / before - 1:+7.1%} {said:9.1f} {b:9.1f} {said / b - 1:+7.1%} {bar:8.1f} "
          f"{b / before - 1:+7.1%} {said / corrected - 1:+7.1%} "
          f"{'bar' if abs(said - b) <= bar else 'twice' if abs(said - b) <= 2 * bar else 'no'}", flush=True)


def main():
    pitot, started = Path(sys.argv[1]) / "pitot", time.monotonic()
    predictions, bare, recorded = {}, {}, {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        caches = {way: Path(temporary) / way for way in WAYS}
        for cache in caches.values():
            cache.mkdir()
        print(run(pitot, "calibrate", "--json", cache=caches["calibrated"]), f"{time.monotonic() - started:.0f} s", flush=True)
        large, small, busy = [float(line) for line in run(sys.executable, "-c", ALONE, PROGRAM.parent).split()] or [1.0, 1.0, 20.0]
        print(f"TF32 matrix products take x{large:.3f} of FP32 alone, small ones x{small:.3f}; busy() takes {busy:.2f} us", flush=True)
        for name, transform in PAIRS.items():
            transform = transform.replace("RATIO", f"{large if name == 'tf32' else small:.4f}").replace("BUSY", f"{busy:.2f}")
            recording = folder / f"{name}.pitot"
            recorded[name] = record(pitot, recording, name)
            predictions[name] = predict(pitot, recording, name, transform, caches)
        began = time.monotonic()
        for done in range(ROUNDS):
            now = time.monotonic()
            if done and now + (now - began) / done > started + ENOUGH:
                break
            run_bare(bare)
    for name, times in bare.items():
        print(f"{name}: {[(us['A'], us['B']) for us in times]} us bare")
    print(f"\n{'pair':10} {'call cost':10} {'added':>7} {'recorded':>9} {'by Pitot':>9} {'corrected':>9} {'A bare':>9} {'error':>7} "
          f"{'predicted':>9} {'B bare':>9} {'error':>7} {'+/-':>8} {'true':>7} {'said':>7} within")
    for name, found in predictions.items():
        for way in WAYS:
            print_row(name, way, found.get(way), bare, *recorded[name])
    print(f"{time.monotonic() - started:.0f} s; steps in us; added: to a launching call, by the program's own clock")


if __name__ == "__main__":
    main()
