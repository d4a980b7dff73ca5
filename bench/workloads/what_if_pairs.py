"""Programs in pairs, a change apart, for bench/gpu_what_if.py: inference by a stack of layers, a step of which is an NVTX range.

usage: what_if_pairs.py NAME DELAY UNTIL
Variants A and B run in turns until the process is DELAY seconds old, from then on A alone, until it is UNTIL seconds old. Prints the times
of steps in microseconds, each the mean of some: {"A": […], "B": […], "alone": […]}
"""
import json
import os
import sys
import time

import torch

WARM_UP, STEPS, LAYERS = 10, 40, 8
MARGIN_S = 0.6  # left out around the moment from which on A runs alone
SPIN_CYCLES = 400_000  # about 200 us
BUSY_NS = 20_000


def busy():
    end = time.perf_counter_ns() + BUSY_NS
    while time.perf_counter_ns() < end:
        pass


def layers(x, weights, before=None):
    for w in weights:
        if before:
            before()
        x = torch.relu(torch.mm(x, w))
    return x


def one_launch_each(x, count, wait):
    for _ in range(count):
        if wait:
            busy()
        x.add_(1)
    return x


class Program:
    """A step, and what it needs. changed: variant B, which lacks the cost that variant A has, or is faster."""

    def __init__(self, name, changed):
        self.with_tf32 = name in ("tf32", "tf32-tiny") and changed
        width, batch = (4096, 4096) if name == "tf32" else (1024, 64)
        self.weights = [torch.randn(width, width, device="cuda") / width ** 0.5 for _ in range(LAYERS)]
        self.x = torch.randn(batch, width, device="cuda")
        self.side, self.result = torch.cuda.Stream(), torch.empty(width, pin_memory=True)
        self.changed = changed
        self.step = getattr(self, name.replace("-", "_"))
        if name == "graph" and changed:
            self.make_graph()

    def make_graph(self):
        self.graph_of = torch.cuda.CUDAGraph()
        layers(self.x, self.weights)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph_of):
            layers(self.x, self.weights)

    def spin(self):
        layers(self.x, self.weights, (lambda: None) if self.changed else lambda: torch.cuda._sleep(SPIN_CYCLES))

    def hidden(self):
        """A spin on a stream of its own, which ends before the layers do."""
        with torch.cuda.stream(self.side):
            if not self.changed:
                torch.cuda._sleep(SPIN_CYCLES // 8)
        for _ in range(4):
            layers(self.x, self.weights)

    def host(self):
        one_launch_each(self.x, 100, not self.changed)

    def sync(self):
        """The copy is in both, and so is a call: what .item() costs beside waiting is more than the wait."""
        self.result.copy_(layers(self.x, self.weights)[0], non_blocking=True)
        stream = torch.cuda.current_stream()
        if self.changed:
            stream.query()
        else:
            stream.synchronize()

    def tf32(self):
        layers(self.x, self.weights)

    tf32_tiny = tf32

    def graph(self):
        if self.changed:
            self.graph_of.replay()
        else:
            layers(self.x, self.weights)


def make(name, changed):
    program = Program(name, changed)
    for _ in range(WARM_UP):
        program.step()
    torch.cuda.synchronize()
    return program


def measure(program):
    """Steps follow each other without a wait; their number is the same, so is what waits at their end."""
    torch.backends.cuda.matmul.allow_tf32 = program.with_tf32
    start = time.perf_counter()
    for _ in range(STEPS):
        torch.cuda.nvtx.range_push("step")
        program.step()
        torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS * 1e6


def age():
    """Seconds since this process began."""
    with open("/proc/self/stat", encoding="utf-8") as stat:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def main():
    name, delay, until = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    times = {"A": [], "B": [], "alone": []}
    with torch.no_grad():
        programs = {"A": make(name, False), "B": make(name, True)}
        while age() < delay - MARGIN_S:
            for variant in "ABBA":
                times[variant].append(round(measure(programs[variant]), 2))
        while age() < delay + MARGIN_S:
            measure(programs["A"])
        while age() < until:
            times["alone"].append(round(measure(programs["A"]), 2))
    print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
