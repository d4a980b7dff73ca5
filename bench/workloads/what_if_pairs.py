"""Programs in pairs, a change apart, for bench/gpu_what_if.py: inference by a stack of layers, a step of which is an NVTX range.

usage: what_if_pairs.py NAME
Makes variants A and B, prints "ready", and then runs the one that each line of its input names, for a twentieth of a second or more: prints the
time of a step in microseconds, the median of several means. Ends with its input. Its steps run on the last processor: other processes of the
pair have theirs there, too, and processors of a virtual machine are not equally fast.
"""
import os
import statistics
import sys
import time

import torch

WARM_UP, STEPS, LAYERS = 10, 40, 8
BURST_S = 0.05  # at least, of steps that are measured
SPIN_CYCLES = 400_000  # about 200 us
BUSY_NS = 20_000
FUSED = 8  # kernels of the pair "fuse" that become one


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

    SIZES = {"tf32": (4096, 4096), "overlap": (2048, 2048)}  # others are launch-bound: width and batch
    STEPS_OF = {"tf32": 8, "pinned": 20}  # at a time, of programs whose steps are long

    def __init__(self, name, changed):
        self.with_tf32 = name in ("tf32", "tf32-tiny") and changed
        width, batch = self.SIZES.get(name, (1024, 64))
        self.steps = self.STEPS_OF.get(name, STEPS)
        self.weights = [torch.randn(width, width, device="cuda") / width ** 0.5 for _ in range(LAYERS)]
        self.x = torch.randn(batch, width, device="cuda")
        self.side, self.result = torch.cuda.Stream(), torch.empty(width, pin_memory=True)
        self.changed = changed
        self.step = getattr(self, name.replace("-", "_"))
        if name == "graph" and changed:
            self.make_graph(lambda: layers(self.x, self.weights))
        if name == "nodes":
            self.make_graph(self.short_kernels)
        if name in ("pinned", "overlap"):
            self.make_input(is_pinned=changed or name == "overlap")

    def make_graph(self, captured):
        self.graph_of = torch.cuda.CUDAGraph()
        captured()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph_of):
            captured()

    def short_kernels(self):
        for _ in range(48):
            self.x.add_(1)
            if not self.changed:
                self.x.mul_(1.0)

    def make_input(self, is_pinned):
        """Of 16 MiB a step, which two buffers take in turns, and a mask of the same size that is always pinned."""
        self.input = torch.ones(2048, 2048, pin_memory=is_pinned)
        self.mask = torch.ones(2048, 2048, pin_memory=True)
        self.buffers = [torch.empty(2048, 2048, device="cuda") for _ in range(2)]
        self.copied, self.used = [torch.cuda.Event() for _ in range(2)], [torch.cuda.Event() for _ in range(2)]
        self.turn = 0

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

    def nodes(self):
        """A graph in both; that of variant A has twice as many nodes."""
        self.graph_of.replay()

    def fuse(self):
        for _ in range(3 * FUSED):
            for _ in range(1 if self.changed else FUSED):
                self.x.add_(1)

    def pinned(self):
        self.buffers[0].copy_(self.mask, non_blocking=True)
        self.buffers[1].copy_(self.input, non_blocking=True)
        layers(self.x, self.weights)

    def overlap(self):
        """The copy of a step is prefetched by variant B, on a stream of its own, into the buffer that is free."""
        self.turn ^= 1
        buffer, copied, used = self.buffers[self.turn], self.copied[self.turn], self.used[self.turn]
        stream = torch.cuda.current_stream()
        with torch.cuda.stream(self.side if self.changed else stream):
            if self.changed:
                self.side.wait_event(used)
            buffer.copy_(self.input, non_blocking=True)
            copied.record()
        if self.changed:
            stream.wait_event(copied)
        layers(buffer, self.weights[:4])
        used.record()


def make(name, changed):
    program = Program(name, changed)
    for _ in range(WARM_UP):
        program.step()
    torch.cuda.synchronize()
    return program


def measure(program):
    """Steps follow each other without a wait; their number is the same, so is what waits at their end."""
    start = time.perf_counter()
    for _ in range(program.steps):
        torch.cuda.nvtx.range_push("step")
        program.step()
        torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / program.steps * 1e6


def burst(program):
    """The first steps after a pause are not measured: caches and clocks are another program's."""
    torch.backends.cuda.matmul.allow_tf32 = program.with_tf32
    for _ in range(WARM_UP if program.steps == STEPS else 2):
        program.step()
    torch.cuda.synchronize()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < BURST_S:
        times.append(measure(program))
    return statistics.median(times)


def main():
    with torch.no_grad():
        programs = {"A": make(sys.argv[1], False), "B": make(sys.argv[1], True)}
        for program in programs.values():
            burst(program)
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # of this thread alone
        print("ready", flush=True)
        for line in sys.stdin:
            print(f"{burst(programs[line.strip()]):.2f}", flush=True)


if __name__ == "__main__":
    main()
