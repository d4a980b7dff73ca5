"""Trains a small model on the CPU: train_small.py SECONDS."""
import sys
import time

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                            torch.nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.CrossEntropyLoss()
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    optimizer.zero_grad()
    loss_of(model(torch.randn(64, 256)), torch.randint(0, 10, (64,))).backward()
    optimizer.step()
