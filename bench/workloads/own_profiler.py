"""Trains with torch.profiler on a schedule, twice: prints the number of kernels, their time, and the time per step.

usage: own_profiler.py TRACE.json [ACTIVE = 10]: ACTIVE profiled steps of five times as many, twice in each of two profiles
"""
import collections
import json
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile, schedule

ACTIVE = int(sys.argv[2]) if len(sys.argv) > 2 else 10
STEPS = 5 * ACTIVE

model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
data = torch.randn(64, 512, device="cuda")


def step():
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()


for _ in range(5):
    step()
torch.cuda.synchronize()
found = []
begun = time.perf_counter()
for _ in range(2):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 schedule=schedule(wait=ACTIVE, warmup=(ACTIVE + 1) // 2, active=ACTIVE, repeat=2),
                 on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1])) as profiler:
        for _ in range(STEPS):
            step()
            profiler.step()
    torch.cuda.synchronize()
    with open(sys.argv[1]) as file:
        events = json.load(file)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    flows = collections.Counter(event["ph"] for event in events if event.get("cat") == "ac2g")
    found.append(f"{len(kernels)} kernels of {sum(event['dur'] for event in kernels):.0f} us, flows {dict(flows)}")
print("; ".join(found), f"{(time.perf_counter() - begun) / (2 * STEPS) * 1e3:.2f} ms per step")
