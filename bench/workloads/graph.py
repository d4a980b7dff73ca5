"""Replays of a CUDA graph of 300 kernels, captured by PyTorch: launches are at their cheapest, so tracing is at its most expensive, relatively.

usage: graph.py [replays = 1000]; prints milliseconds per replay, best and median of 5 rounds.
"""
import sys
import time

import torch

replays = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
x = torch.randn(1024, 1024, device="cuda")
y = torch.empty_like(x)


def body():
    y.copy_(x)
    for _ in range(299):
        y.mul_(1.0001)


body()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    body()
for _ in range(20):
    graph.replay()
torch.cuda.synchronize()
rounds = []
for _ in range(5):
    start = time.perf_counter()
    for _ in range(replays // 5):
        graph.replay()
    torch.cuda.synchronize()
    rounds.append((time.perf_counter() - start) / (replays // 5) * 1e3)
rounds.sort()
print(f"ms_per_replay min={rounds[0]:.4f} median={rounds[2]:.4f} max={rounds[-1]:.4f}")
