#!/usr/bin/env python3
"""How faithful `pitot replay` is: records workloads, replays them, records the replays, and compares.

usage: bench/gpu_replay.py BUILD [--only NAME,...] [--seconds N], on a machine with a GPU and PyTorch

For each of the last --seconds (2) of bench/workloads/{train,decode,streams,graph}.py: the time from the first call to the end, and what
each stream's kernels took, as recorded and as CUPTI sees the replay. The aims: 5 % of the time, 3 % and 0.3 us an operation of each
stream, and no order violation.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKLOADS = Path(__file__).resolve().parent / "workloads"
COMMANDS = {"train": ["train.py"], "graph": ["graph.py", "500"], "streams": ["streams.py", "400"], "decode": ["decode.py", "48"]}
LIMIT = 60  # seconds for one run
QUERY = "select stream, start_ns, end_ns, '{0}' as kind from {0} where end_ns is not null"
UNTIMED = "select 'kernel' as what, count(*) as n from kernel where end_ns is null union all select reason, sum(count) from loss group by 1"


def run(command):
    try:
        return subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"more than {LIMIT} s")


def work_of(pitot, recording):
    """By stream: the work in order of time."""
    streams = {}
    for table in ("kernel", "memcpy", "memset"):
        for line in run([pitot, "sql", recording, "--json", "-n", "0", QUERY.format(table)]).stdout.splitlines():
            row = json.loads(line)
            streams.setdefault(row["stream"], []).append((row["start_ns"], row["end_ns"], row["kind"]))
    return {stream: sorted(rows) for stream, rows in streams.items()}


def kernel_ns(rows):
    return sum(end - start for start, end, kind in rows if kind == "kernel")


def copy_ns(rows):
    return sum(end - start for start, end, kind in rows if kind != "kernel")


def compare(pitot, found, again):
    """Replay makes its streams in the order of its list; what came before on the default stream was its calibration."""
    replayed = work_of(pitot, again)
    default = json.loads(run([pitot, "sql", again, "--json", "select max(null_stream) as id from context"]).stdout)["id"]
    others = iter(sorted(stream for stream in replayed if stream != default))
    print(f"   rows of the replay by stream: { {stream: len(rows) for stream, rows in replayed.items()} }, untimed or lost:",
          run([pitot, "sql", again, "--json", UNTIMED]).stdout.split(chr(10)), flush=True)
    for stream in found["streams"]:
        if not stream["operations"]:
            continue
        other = default if stream["default"] else next(others, None)
        rows = replayed.get(other, [])[-stream["operations"]:]
        recorded, got = stream["recorded_kernel_ns"], kernel_ns(rows)
        allowed = 0.03 * recorded + 300 * stream["kernels"]
        print(f"   stream {stream['id']:3} -> {other}: {stream['operations']:7} operations, {len(rows):7} replayed; kernels {recorded / 1e6:9.3f} ms,"
              f" replayed {got / 1e6:9.3f} ms by CUPTI, {(stream['replayed_kernel_ns'] or 0) / 1e6:9.3f} ms by itself:"
              f" {(got - recorded) / max(stream['kernels'], 1):+7.0f} ns a kernel, {'within' if abs(got - recorded) <= allowed else 'BEYOND'} the aim;"
              f" copies {copy_ns(rows) / 1e6:.3f} ms", flush=True)


def replay(pitot, folder, name, window, *options):
    """Returns what replay says of itself, alone and then recorded."""
    recording, again = folder / f"{name}.pitot", folder / f"{name}-again.pitot"
    command = [pitot, "replay", "--json", *window, *options, recording]
    alone = run([*command, "--repeat", "3"])
    recorded = run([pitot, "record", "-q", "--force", "--no-cpu", "--stacks", "none", "-o", again, "--", *command])
    for done in (alone, recorded):
        if done.returncode not in (0, 1) or not done.stdout.startswith("{"):
            print(f"   failed ({done.returncode}): {done.stderr[-600:]}", flush=True)
            return None
        if done.stderr:
            print(f"   {done.stderr[-300:]}")
    return json.loads(alone.stdout), json.loads(recorded.stdout)


def judge(pitot, folder, name, seconds):
    recording = folder / f"{name}.pitot"
    workload, *arguments = COMMANDS[name]
    begun = time.monotonic()
    done = run([pitot, "record", "-q", "--force", "--no-cpu", "--stacks", "none", "-o", recording, "--", sys.executable, WORKLOADS / workload, *arguments])
    print(f"== {name}: recorded in {time.monotonic() - begun:.0f} s, status {done.returncode}: {done.stdout.strip()[-100:]} {done.stderr[-300:]}", flush=True)
    start = json.loads(run([pitot, "info", "--json", recording]).stdout or "{}").get("start_unix_ns")
    rows = [row for rows in work_of(pitot, recording).values() for row in rows]
    plan = json.loads(run([pitot, "replay", "--dry-run", "--json", recording]).stdout or "{}")
    if not rows or not plan:
        print("   no GPU work, or no plan")
        return
    print(f"   the whole: {plan['recorded_ns'] / 1e6:.1f} ms recorded, {plan['simulated_ns'] / 1e6:.1f} ms by the simulator", flush=True)
    last = (max(end for _, end, _ in rows) - start) / 1e9
    window = [] if plan["recorded_ns"] / 1e9 <= seconds else ["--since", f"{last - seconds:.6f}s"]
    got = replay(pitot, folder, name, window)
    if not got:
        return
    alone, recorded = got
    for title, found in (("alone", alone), ("recorded", recorded)):
        times = [f"{ns / 1e6:.1f} ms ({(ns / found['recorded_ns'] - 1) * 100:+.2f} %)" for ns in found["replayed_ns"]]
        print(f"   {title:8}: {found['recorded_ns'] / 1e6:.1f} ms, replayed {', '.join(times)}; order violations {found['order_violations']}; latest call"
              f" {found['latest_call_ns'] / 1e3:.0f} us; extra {found['kernel_extra_ns']} ns, timer step {found['timer_step_ns']} ns")
    print(f"   executed {alone['executed']}\n   skipped {alone['skipped']}\n   substituted {alone['substituted']}", flush=True)
    compare(pitot, recorded, folder / f"{name}-again.pitot")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build", type=Path)
    arguments.add_argument("--only", default=",".join(COMMANDS))
    arguments.add_argument("--seconds", type=float, default=2.0)
    options = arguments.parse_args()
    pitot = options.build.resolve() / "pitot"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pitot-replay-") as folder:
        for name in filter(None, options.only.split(",")):
            if time.monotonic() - begun > 120:
                print(f"== {name}: no time left")
                continue
            judge(pitot, Path(folder), name, options.seconds)
        name = "streams"
        if (Path(folder) / f"{name}.pitot").exists() and time.monotonic() - begun < 125:
            for way in (["--stand-in", "work"], ["--pace", "recorded"], ["--pace", "free"], ["--ops", "101..200"], ["--speed", "0.5"]):
                done = run([pitot, "replay", "--json", "--since", "0s", *way, Path(folder) / f"{name}.pitot"])
                found = json.loads(done.stdout or "{}")
                print(f"== {name} {' '.join(way)}: status {done.returncode}, {found.get('recorded_ns', 0) / 1e6:.1f} ms, replayed {found.get('replayed_ns')},"
                      f" violations {found.get('order_violations')}, executed {found.get('executed')} {done.stderr[-300:]}", flush=True)
    print(f"{time.monotonic() - begun:.0f} s, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
