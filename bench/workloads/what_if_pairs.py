"""Programs in pairs, a change apart, for bench/gpu_what_if.py: inference by a stack of layers, a step of which is an NVTX range.

usage: what_if_pairs.py [--each] NAME…, such as spin:A
Prints the median time of a step, in microseconds, of each program by its name, as JSON. --each: in a process of its own, a line for each.
"""
import json
import os
import statistics
import sys
import time

import torch

WARM_UP, STEPS, LAYERS = 10, 40, 8
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
        torch.backends.cuda.matmul.allow_tf32 = name in ("tf32", "tf32-tiny") and changed
        width, batch = (4096, 4096) if name == "tf32" else (1024, 64)
        self.weights = [torch.randn(width, width, device="cuda") / width ** 0.5 for _ in range(LAYERS)]
        self.x = torch.randn(batch, width, device="cuda")
        self.side = torch.cuda.Stream()
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
        layers(self.x, self.weights, None if self.changed else lambda: torch.cuda._sleep(SPIN_CYCLES))

    def hidden(self):
        """A spin on a stream of its own, which ends before the layers do."""
        if not self.changed:
            with torch.cuda.stream(self.side):
                torch.cuda._sleep(SPIN_CYCLES // 8)
        for _ in range(4):
            layers(self.x, self.weights)

    def host(self):
        one_launch_each(self.x, 100, not self.changed)

    def sync(self):
        x = layers(self.x, self.weights)
        if not self.changed:
            x[0, 0].item()

    def tf32(self):
        layers(self.x, self.weights)

    tf32_tiny = tf32

    def graph(self):
        if self.changed:
            self.graph_of.replay()
        else:
            layers(self.x, self.weights)


def measure(name):
    """Steps follow each other without a wait; their number is the same, so is what waits at their end."""
    which, variant = name.split(":")
    program = Program(which, variant == "B")
    for _ in range(WARM_UP):
        program.step()
    torch.cuda.synchronize()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(STEPS):
            torch.cuda.nvtx.range_push("step")
            program.step()
            torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / STEPS * 1e6)
    return statistics.median(times)


def print_times(names):
    with torch.no_grad():
        print(json.dumps({name: round(measure(name), 2) for name in names}), flush=True)


def print_each(names):
    """Children use CUDA, which this process does not."""
    for name in names:
        child = os.fork()
        if not child:
            try:
                print_times([name])
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def main():
    if sys.argv[1] == "--each":
        print_each(sys.argv[2:])
    else:
        print_times(sys.argv[1:])


if __name__ == "__main__":
    main()
