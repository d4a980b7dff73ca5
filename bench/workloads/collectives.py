"""Time of an all-reduce by size, small ones back to back: python -m torch.distributed.run --nproc-per-node 2 collectives.py [CALLS]

Rank 0 prints a JSON object: bytes to the host's microseconds a call (the median of 9 blocks of CALLS calls).
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")


def block(tensor):
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(CALLS):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / CALLS * 1e6


times = {}
for size in (8, 1024, 65536):
    values = torch.zeros(size // 4, device="cuda")
    block(values)
    times[size] = statistics.median(block(values) for _ in range(9))
if dist.get_rank() == 0:
    print(json.dumps(times))
dist.destroy_process_group()
