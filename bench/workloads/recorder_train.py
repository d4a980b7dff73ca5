"""Eager training for bench/gpu_recorder.py: recorder_train.py FILE SECONDS. Writes a line for each step, its begin and end in ns of CLOCK_REALTIME,
of SECONDS from the 30th step on."""
import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0), 6).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
x = torch.randn(8, 128, 512, device="cuda")


def step():
    with torch.cuda.nvtx.range("step"):
        begun = time.time_ns()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
        return begun, time.time_ns()


for _ in range(30):
    step()
end = time.monotonic() + float(sys.argv[2])
with open(sys.argv[1], "w", buffering=1, encoding="utf-8") as steps:
    while time.monotonic() < end:
        steps.write("{} {}\n".format(*step()))
