#!/usr/bin/env python3
"""How far predictions of pitot what-if are from the truth: pairs of programs that are one change apart.

usage: bench/gpu_what_if.py BUILD, on a machine with a GPU and PyTorch
For each pair the program A is recorded, B is predicted from that recording and the prediction printed, before B runs for the first
time. Then A and B run bare, in turns, in two processes. Kernel times that a transform needs are measured alone. Prints, for each pair,
the verdict on A, the predicted and the true change, the error, and whether B lies within the error bar; then the verdict on a training.
Takes two minutes.
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
PAIRS = {  # the transform; RATIO: of the kernels of B to those of A, measured alone
    "spin": "kernel:*spin_kernel* remove",
    "hidden": "kernel:*spin_kernel* remove",
    "host": "host:*one_launch_each* -20us",
    "sync": "sync:cudaStreamSynchronize remove",
    "tf32": "kernel:*gemm* xRATIO",
    "tf32-tiny": "kernel:*gemm* xRATIO",
    "graph": "graph step launch=6us",
}
LIMIT, ROUNDS = 45, 2  # seconds for one run; processes that run all programs bare
ENOUGH = 95  # seconds, after which the training is left out
RATIOS = """
import torch
def ms(width, batch, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = torch.randn(batch, width, device="cuda"), torch.randn(width, width, device="cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph = torch.cuda.CUDAGraph()
    torch.mm(a, b)
    with torch.cuda.graph(graph):
        for _ in range(50):
            torch.mm(a, b)
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)
for width, batch in ((4096, 4096), (1024, 64)):
    print(ms(width, batch, True) / ms(width, batch, False))
"""


def run(*command):
    try:
        done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=LIMIT, check=False, env=os.environ)
    except subprocess.TimeoutExpired:
        return ""
    if done.returncode:
        print(f"{command}: status {done.returncode}: {done.stderr[-400:]}", flush=True)
    return done.stdout


def predict(pitot, folder, name, transform):
    recording = folder / f"{name}.pitot"
    stacks = [] if name == "host" else ["--stacks", "none"]
    run(pitot, "record", "-q", "--force", "--no-cpu", *stacks, "-o", recording, "--", sys.executable, PROGRAM, f"{name}:A")
    verdict = json.loads(run(pitot, "report", "--json", recording) or "{}").get("verdict", {})
    print(f"{name}: A is {verdict.get('text')}: {verdict.get('evidence')}", flush=True)
    predicted = json.loads(run(pitot, "what-if", "--json", recording, transform) or "{}")
    print(f"{name}: '{transform}' predicts {json.dumps({key: predicted.get(key) for key in ('recorded', 'corrected', 'predicted')})}",
          flush=True)
    return predicted


def main():
    pitot, started = Path(sys.argv[1]) / "pitot", time.monotonic()
    ratios = [float(line) for line in run(sys.executable, "-c", RATIOS).split()] or [1.0, 1.0]
    print(f"TF32 matrix products take x{ratios[0]:.3f} of FP32 alone, small ones x{ratios[-1]:.3f}", flush=True)
    predictions, bare = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, transform in PAIRS.items():
            transform = transform.replace("RATIO", f"{ratios[0 if name == 'tf32' else -1]:.4f}")
            predictions[name] = predict(pitot, Path(folder), name, transform)
    for i in range(ROUNDS):
        names = [f"{name}:{variant}" for name in PAIRS for variant in ("AB" if i % 2 == 0 else "BA")]
        for name, us in json.loads(run(sys.executable, PROGRAM, *names) or "{}").items():
            bare.setdefault(name, []).append(us)
    print(f"{'pair':10} {'A bare':>9} {'corrected':>9} {'B bare':>9} {'predicted':>9} {'+/-':>8} {'true':>7} {'said':>7} {'error':>7} "
          "within")
    for name, prediction in predictions.items():
        if not prediction or f"{name}:B" not in bare:
            print(f"{name:10} no result")
            continue
        a, b = (statistics.median(bare[f"{name}:{variant}"]) for variant in "AB")
        corrected, said = (prediction[key]["step_ns"] / 1e3 for key in ("corrected", "predicted"))
        bar = (prediction["predicted"].get("uncertainty_ns") or prediction.get("uncertainty_ns") or 0) / 1e3
        print(f"{name:10} {a:9.1f} {corrected:9.1f} {b:9.1f} {said:9.1f} {bar:8.1f} {b / a - 1:+7.1%} {said / corrected - 1:+7.1%} "
              f"{said / b - 1:+7.1%} {'bar' if abs(said - b) <= bar else 'twice' if abs(said - b) <= 2 * bar else 'no'}", flush=True)
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    if time.monotonic() - started < ENOUGH:
        with tempfile.TemporaryDirectory() as folder:
            recording = Path(folder) / "train.pitot"
            run(pitot, "record", "-q", "-o", recording, "--", sys.executable, PROGRAM.parent / "train.py")
            print("\n\n".join(run(pitot, "report", recording).split("\n\n")[:3]), flush=True)


if __name__ == "__main__":
    main()
