"""Work on four streams that wait for each other by events, beside copies from and to pinned memory: for `pitot replay`.

usage: streams.py [ROUNDS = 200]
"""
import sys
import time

import torch

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
a = [torch.randn(2048, 2048, device="cuda") for _ in range(4)]
out = [torch.empty_like(x) for x in a]
host = torch.empty(4 << 20, pin_memory=True)
device = torch.empty(4 << 20, device="cuda")
streams = [torch.cuda.Stream(priority=-(i % 2)) for i in range(4)]


def one_round():
    main = torch.cuda.current_stream()
    with torch.cuda.stream(streams[0]):
        device.copy_(host, non_blocking=True)
    for i, stream in enumerate(streams):
        stream.wait_stream(streams[i - 1] if i else main)
        with torch.cuda.stream(stream):
            torch.mm(a[i], a[i], out=out[i])
            for _ in range(8):
                out[i].mul_(0.5)
    for stream in streams:
        main.wait_stream(stream)
    out[0].add_(out[1])
    host.copy_(device, non_blocking=True)


one_round()
torch.cuda.synchronize()
start = time.perf_counter()
for i in range(ROUNDS):
    one_round()
    if i % 10 == 9:
        torch.cuda.synchronize()
torch.cuda.synchronize()
print(f"ms_per_round={(time.perf_counter() - start) / ROUNDS * 1e3:.3f}")
