"""Launches a CUDA graph of ten short kernels for some seconds, which is the case for --graphs launch. usage: small_graph.py [SECONDS]"""
import sys
import time

import torch

x = torch.ones(1024, device="cuda")
for _ in range(3):
    x.mul_(1.0)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(10):
        x.mul_(1.0)
seconds, launches, start = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0, 0, time.perf_counter()
while time.perf_counter() - start < seconds:
    for _ in range(100):
        graph.replay()
    torch.cuda.synchronize()
    launches += 100
print(f"us_per_launch={seconds / launches * 1e6:.2f} launches={launches}")
