#!/usr/bin/env python3
"""Whether Pitot's levels of PyTorch's allocator are PyTorch's own, to the byte: bench/gpu_memory.py BUILD [cost|history|probes]

Needs a GPU, torch, and BUILD/python. Without a stage all of them are run.

cost: what recording costs. history: runs workloads under `pitot record --memory` with pitot.torch.memory(), and compares

- the curves of blocks and segments, at moments of the program, with torch.cuda.memory_stats() at those moments,
- their peaks with torch.cuda.max_memory_allocated() and max_memory_reserved(), those of the driver with the segments.

probes: as root, runs workloads under `pitot record --memory=torch`, and compares

- the curve of what was requested, at moments of the program and at its peak, with requested_bytes of torch.cuda.memory_stats(),
- the driver's memory at its peak with max_memory_reserved(): what is more is not PyTorch's (cuBLAS has workspaces of its own).

Prints a row for each as it goes; the exit status is 1 if one differs.
"""
import bisect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from python_package import need_package

WORKLOADS = {
    "train": """
        model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for i in range(STEPS):
            mark()
            with pitot.scope("step"):
                loss = model(torch.randn(256 + 8 * (i % 5), 4096, device="cuda")).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    """,
    "sizes": """
        import random
        draw, live = random.Random(1), []
        for i in range(STEPS * 40):
            if i % 40 == 0:
                mark()
            if live and draw.random() < 0.47:
                live.pop(draw.randrange(len(live)))
            elif draw.random() < 0.01:
                torch.cuda.empty_cache()
            else:
                live.append(torch.empty(max(1, draw.choice([1, 511, 512, 5000, 1 << 20, (1 << 20) + 1, 3 << 20, 9 << 20, 10 << 20, 25 << 20]) - draw.randrange(700)),
                                        dtype=torch.uint8, device="cuda"))
    """,
    "leak": """
        held = []
        for i in range(STEPS):
            mark()
            with pitot.scope("step"):
                x = torch.randn(1024, 1024, device="cuda")
                (x @ x).sum().item()
                held.append(torch.empty(4 << 20, dtype=torch.uint8, device="cuda"))
    """,
    "streams": """
        side = torch.cuda.Stream()
        for i in range(STEPS):
            mark()
            x = torch.randn(2048, 2048, device="cuda")
            with torch.cuda.stream(side):
                side.wait_stream(torch.cuda.current_stream())
                y = x @ x
                x.record_stream(side)
            del x, y
    """,
    "out of memory": """
        held = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda")]
        mark()
        try:
            torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            pass
    """,
}

PROGRAM = """
import json, sys, time, torch, pitot, pitot.torch
STEPS = {steps}
torch.cuda.init()
memory = pitot.torch.memory() if {history} else None
moments = []
def mark():  # what the levels are now; times of torch's history are microseconds, so nothing may change around it
    if {warm}:
        return
    torch.cuda.synchronize()
    time.sleep(0.002)
    stats = torch.cuda.memory_stats()
    moments.append([time.time_ns(), stats["active_bytes.all.current"], stats["reserved_bytes.all.current"], stats.get("requested_bytes.all.current")])
    time.sleep(0.002)
def main():
{body}
if {warm}:
    main()
    torch.cuda.synchronize()
began = time.perf_counter()
main()
torch.cuda.synchronize()
stats = torch.cuda.memory_stats()
json.dump({{"moments": moments, "allocated": stats["allocated_bytes.all.peak"], "active": stats["active_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"],
           "requested": stats.get("requested_bytes.all.peak"), "seconds": time.perf_counter() - began, "torch": torch.__version__}}, open(sys.argv[1], "w"))
"""


def levels(pitot, recording, kind, base):
    """The curve of a kind: times since 1970, and the bytes from then on."""
    rows = subprocess.run([pitot, "sql", recording, "--json", "select time_ns, operation, address, bytes from allocation "
                           f"where kind = '{kind}' order by time_ns, rowid"], capture_output=True, text=True, check=True).stdout
    times, after, sizes, level = [], [], {}, base
    for row in map(json.loads, rows.splitlines()):
        if row["operation"] == "allocation":
            sizes[row["address"]] = row["bytes"]
            level += row["bytes"]
        else:
            of_address = sizes.pop(row["address"], 0)
            level -= row["bytes"] or of_address
        times.append(row["time_ns"])
        after.append(level)
    return times, after


HISTORY = (1, "allocator_block"), (2, "allocator_segment")
PROBES = ((3, "allocator_request"),)


def differing(pitot, recording, curves, moments, columns):
    """At how many moments torch and the curves have other levels."""
    wrong = set()
    for column, kind in columns:
        base = next((curve["base_bytes"] for curve in curves if curve["kind"] == kind), 0)
        times, after = levels(pitot, recording, kind, base)
        for moment in moments:
            at = bisect.bisect_right(times, moment[0])
            if (after[at - 1] if at else base) != moment[column]:
                wrong.add(moment[0])
    return len(wrong)


def program(folder, name, steps, history, warm=False):
    body = "\n".join("    " + line[8:] for line in WORKLOADS[name].strip("\n").splitlines())
    path = folder / f"{name.replace(' ', '_')}_{int(history)}.py"
    path.write_text(PROGRAM.format(steps=steps, history=history, warm=warm, body=body))
    return path


def main():
    build, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:] or ["cost", "history", "probes"]
    pitot, environment = f"{build}/pitot", {**os.environ, "PYTHONPATH": str(need_package(build))}
    folder = pathlib.Path(tempfile.mkdtemp())
    wrong = 0
    for name, stage in ("cost", measure_cost), ("history", compare_history), ("probes", compare_probes):
        if name in wanted:
            wrong += stage(pitot, environment, folder)
    print("ALL EQUAL" if not wrong else f"{wrong} WRONG")
    return wrong != 0


def compare_probes(pitot, environment, folder):
    """Not `streams`: what several streams use counts in torch until they are done with it, while the program has released it."""
    wrong = 0
    if os.geteuid() != 0:
        print("probes: needs root, for eBPF: sudo -E bench/gpu_memory.py BUILD probes")
        return 1
    print(f"{'probes':24} {'':10} {'requested':>16} {'reserved':>16} {'seconds':>8}")
    for name in (name for name in WORKLOADS if name != "streams"):
        out, recording = folder / "said.json", folder / f"probes_{name.replace(' ', '_')}.pitot"
        began = time.time()
        done = subprocess.run([pitot, "record", "-o", recording, "--memory=torch", "--stacks", "python", "--no-cpu", "--", sys.executable,
                               program(folder, name, 40, False), out], env=environment, capture_output=True, text=True, timeout=240)
        if not out.exists():
            print(f"{name:24} failed: {done.stderr[-600:]}", flush=True)
            wrong += 1
            continue
        said = json.loads(out.read_text())
        out.unlink()
        print(f"{name:24} {'torch':10} {said['requested']:16,} {said['reserved']:16,} {said['seconds']:8.2f}", flush=True)
        for warning in (line for line in done.stderr.splitlines() if "warning" in line or line.startswith("  loss")):
            print(f"{'':24} {warning.strip()}")
        report = json.loads(subprocess.run([pitot, "report", "--memory", "--json", recording], capture_output=True, text=True, check=True).stdout)
        peaks = {group["kind"]: group["peak_bytes"] for group in report["memory"]}
        requested, driver = peaks.get("allocator_request", 0), peaks.get("device", 0)
        other = differing(pitot, recording, report["memory_peak"]["curves"], said["moments"], PROBES)
        wrong += (requested != said["requested"]) + (driver < said["reserved"]) + (other != 0)
        print(f"{'':24} {'pitot':10} {requested:16,} {driver:16,} {time.time() - began:8.2f}  {'EQUAL' if requested == said['requested'] else 'DIFFERENT'}; "
              f"driver {driver - said['reserved']:+,}; curve at {len(said['moments'])} moments: {f'{other} DIFFERENT' if other else 'EQUAL'}", flush=True)
        lines = [part for part in report["memory_peak"]["by_line"] if part["kind"] == "allocator_request"]
        if sum(part["bytes"] for part in lines) != requested:
            wrong += 1
            print(f"{'':24} parts do not add up")
        for part in lines[:2]:
            print(f"{'':24} {part['bytes']:,} by {part['name']}", flush=True)
    return wrong


def compare_history(pitot, environment, folder):
    wrong = 0
    print(f"{'workload':24} {'':10} {'allocated':>16} {'active':>16} {'reserved':>16} {'seconds':>8}")
    runs = [(name, {}) for name in WORKLOADS] + [(name, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}) for name in ("train", "sizes")]
    for name, more in runs:
        label = name + (" expandable" if more else "")
        out, recording = folder / "said.json", folder / f"{label.replace(' ', '_')}.pitot"
        began = time.time()
        done = subprocess.run([pitot, "record", "-o", recording, "--memory", "--stacks", "python", "--no-cpu", "--", sys.executable,
                               program(folder, name, 40, True), out], env={**environment, **more}, capture_output=True, text=True, timeout=120)
        if not out.exists():
            print(f"{label:24} failed: {done.stderr[-600:]}", flush=True)
            wrong += 1
            continue
        said = json.loads(out.read_text())
        out.unlink()
        print(f"{label:24} {'torch':10} {said['allocated']:16,} {said['active']:16,} {said['reserved']:16,} {said['seconds']:8.2f}", flush=True)
        report = json.loads(subprocess.run([pitot, "report", "--memory", "--json", recording], capture_output=True, text=True, check=True).stdout)
        groups = {group["kind"]: group for group in report["memory"]}
        blocks, segments, driver = (groups.get(kind, {}).get("peak_bytes", 0) for kind in ("allocator_block", "allocator_segment", "device"))
        same = blocks == said["active"] and segments == said["reserved"]
        wrong += not same
        print(f"{'':24} {'pitot':10} {'':16} {blocks:16,} {segments:16,} {time.time() - began:8.2f}  {'EQUAL' if same else 'DIFFERENT'}; driver {driver:,}", flush=True)
        for warning in (line for line in done.stderr.splitlines() if "Warning" in line or "memory of torch" in line):
            print(f"{'':24} {warning}")
        peak = report["memory_peak"]
        other = differing(pitot, recording, peak["curves"], said["moments"], HISTORY)
        wrong += other != 0
        print(f"{'':24} curves at {len(said['moments'])} moments: {f'{other} DIFFERENT' if other else 'EQUAL'}", flush=True)
        for curve in peak["curves"]:
            of = [part for part in peak["by_line"] if (part["pid"], part["device"], part["kind"]) == (curve["pid"], curve["device"], curve["kind"])]
            if sum(part["bytes"] for part in of) != curve["peak_bytes"]:
                wrong += 1
                print(f"{'':24} {curve['kind']}: parts do not add up")
            print(f"{'':24} {curve['kind']:18} peak {curve['peak_bytes']:,} set by {curve['set_by']}; most by {of[0]['name']} ({of[0]['bytes']:,})", flush=True)
        for leak in report["memory_steps"]["leaks"]:
            print(f"{'':24} leak: {leak['kind']} {leak['step_bytes']:,} B a step, {leak['name']}")
        for gpu in peak["gpus"]:
            print(f"{'':24} driver says {gpu['used_bytes']:,}, recorded {gpu['tracked_bytes']:,}, unexplained {gpu['unexplained_bytes']:,}")
    return wrong


def measure_cost(pitot, environment, folder):
    out = folder / "said.json"
    alone = None
    print("cost of recording train (milliseconds a step, the faster of two, after a warm-up):")
    for label, words, history in ("alone", [], False), ("record", ["record", "--no-cpu"], False), ("record --memory", ["record", "--no-cpu", "--memory"], False), (
            "record --memory, history", ["record", "--no-cpu", "--memory"], True), ("record --memory=torch", ["record", "--no-cpu", "--memory=torch"], False):
        seconds = []
        for _ in range(2):
            command = [sys.executable, program(folder, "train", 100, history, True), out]
            if words:
                command = [pitot, *words, "-o", folder / f"cost-{len(seconds)}-{label.replace(' ', '-')}.pitot", "--", *command]
            subprocess.run(command, env=environment, capture_output=True, timeout=120)
            seconds.append(json.loads(out.read_text())["seconds"] if out.exists() else float("nan"))
            out.unlink(missing_ok=True)
        alone = alone or min(seconds)
        print(f"  {label:28} {min(seconds) * 1000 / 100:.3f}  {100 * (min(seconds) / alone - 1):+.1f} %", flush=True)
    print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
