"""Time of a small all-reduce by size, for the host: python -m torch.distributed.run --nproc-per-node 2 collectives.py [BLOCKS]

Rank 0 prints a JSON object: bytes to the host's microseconds a call (the 10th percentile of BLOCKS blocks of 100 calls, which the GPU
executes meanwhile; it is waited for between the blocks).
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

BLOCKS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
CALLS = 100
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")


def block(tensor):
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(CALLS):
        dist.all_reduce(tensor)
    end = time.perf_counter()
    torch.cuda.synchronize()
    return (end - begin) / CALLS * 1e6


times = {}
for size in (8, 1024, 65536):
    values = torch.zeros(size // 4, device="cuda")
    block(values)
    times[size] = round(statistics.quantiles((block(values) for _ in range(BLOCKS)), n=10)[0], 3)
if dist.get_rank() == 0:
    print(json.dumps(times))
dist.destroy_process_group()
