"""Programs in pairs, a change apart, for bench/gpu_what_if.py: inference by a stack of layers, a step of which is an NVTX range.

usage: what_if_pairs.py NAME…, such as spin: the median times of a step of variants A and B, in turns, as a line of JSON for each; or
what_if_pairs.py --until SECONDS NAME:VARIANT: the times of steps, in microseconds, until the process is so old
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
        """The copy is in both: what .item() costs beside waiting is more than the wait."""
        self.result.copy_(layers(self.x, self.weights)[0], non_blocking=True)
        if not self.changed:
            torch.cuda.current_stream().synchronize()

    def tf32(self):
        layers(self.x, self.weights)

    tf32_tiny = tf32

    def graph(self):
        if self.changed:
            self.graph_of.replay()
        else:
            layers(self.x, self.weights)


def make(name):
    which, variant = name.split(":")
    program = Program(which, variant == "B")
    for _ in range(WARM_UP):
        program.step()
    torch.cuda.synchronize()
    return program


def measure(program):
    """Steps follow each other without a wait; their number is the same, so is what waits at their end."""
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


def print_series(name, until):
    """Until the process is so old: its age at the end of each measurement, and the time of a step."""
    program, series = make(name), []
    while not series or series[-1][0] < until:
        us = measure(program)
        series.append((round(age(), 3), round(us, 2)))
    print(json.dumps(series), flush=True)


def print_pair(which):
    """Both programs in turns: other processes of the machine, and where this one runs, change both alike."""
    times = {"A": [], "B": []}
    for variant in "ABBAAB":
        program = make(f"{which}:{variant}")
        times[variant].append(statistics.median(measure(program) for _ in range(3)))
    print(json.dumps({which: {variant: round(statistics.median(us), 2) for variant, us in times.items()}}), flush=True)


def print_pairs(names):
    """Children use CUDA, which this process does not."""
    for name in names:
        child = os.fork()
        if not child:
            try:
                with torch.no_grad():
                    print_pair(name)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def main():
    if sys.argv[1] == "--until":
        with torch.no_grad():
            print_series(sys.argv[3], float(sys.argv[2]))
    else:
        print_pairs(sys.argv[1:])


if __name__ == "__main__":
    main()
