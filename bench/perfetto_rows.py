#!/usr/bin/env python3
"""Checks live traces with tests/perfetto_trace.py, and prints what they contain. usage: bench/perfetto_rows.py TRACE..., with PyPI's perfetto"""
import collections
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from perfetto_trace import Trace  # noqa: E402


def main():
    for path in sys.argv[1:]:
        trace = Trace(Path(path).read_bytes())
        kernels, launches = trace.kernels(), trace.launches()
        print(f"{path}: {trace.packets} packets, {len(trace.stages)} stages on {len({s.queue for s in trace.stages})} queues; "
              f"{len(kernels)} kernels, {sum(k.duration for k in kernels) / 1e6:.3f} ms, {sum(k.event_id in launches for k in kernels)} with a launch; "
              f"{len(trace.slices)} slices, {sum(bool(s.stack) for s in trace.slices)} with a stack; {len(trace.samples)} CPU samples")
        for name, count in collections.Counter(k.name for k in kernels).most_common(4):
            print(f"    {count:8} {name[:100]}")
        for (owner, name), values in sorted(trace.counters.items(), key=str):
            print(f"    counter {name} of {owner}: {len(values)} values, {values[0][1]:g} to {values[-1][1]:g}")
        for _, tag, message in trace.warnings:
            print(f"    {tag}: {message[:160]}")


main()
