"""Trains in PyTorch with NVTX ranges around its steps, for --engine range-profiler --measure range. usage: ranges.py [STEPS]"""
import sys
import time

import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
torch.manual_seed(0)
model = torch.nn.Sequential(*[layer for _ in range(6) for layer in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = torch.randn(1024, 2048, device="cuda")
begun = time.monotonic()
for _ in range(steps):
    with torch.cuda.nvtx.range("step"):
        with torch.cuda.nvtx.range("forward"):
            loss = model(data).square().mean()
        with torch.cuda.nvtx.range("backward"):
            loss.backward()
        with torch.cuda.nvtx.range("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
torch.cuda.synchronize()
print(f"{steps} steps, {(time.monotonic() - begun) / steps * 1e3:.2f} ms a step, loss {loss.item():.6f}")
