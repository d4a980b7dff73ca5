"""Training on several ranks with one known fault: python -m torch.distributed.run --nproc-per-node 2 ranks.py SCENARIO [STEPS]

Scenarios (the faulty rank is the last one):
  balanced                       no fault
  sleep-1, sleep-3, sleep-10     sleeps so many milliseconds in each step
  alternating                    the rank that sleeps 3 ms changes with each step
  slow-gpu                       more kernels
  slow-data                      its loader needs 3 ms of CPU time
  small                          twenty all-reduces of 4 KiB a step, balanced; small-sleep: with 3 ms of sleep
  large                          an all-reduce of 512 MiB a step, balanced
  overlap, overlap-sleep         DistributedDataParallel: buckets are reduced during backward
  pipeline                       the first rank sends to the last and waits for its answer; the last has more kernels
  mixed                          all-gather, reduce-scatter, broadcast, all-to-all, a split communicator, a group of small ones
  graph, graph-sleep             the step is a CUDA graph with its all-reduce
  missing                        the last rank stays away from an all-reduce; the others wait for it until the program ends

Prints a line for each rank with its step time. With PITOT_TAPE each rank writes PITOT_TAPE.RANK.
"""
import os
import sys
import time

RANK, WORLD, LOCAL = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
if "PITOT_TAPE" in os.environ:  # before CUDA and NVTX load the library that reads it
    os.environ["PITOT_TAPE"] += f".{RANK}"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

SCENARIO = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
LAST = RANK == WORLD - 1
WIDTH = 2048
range_of = torch.cuda.nvtx.range


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


SLEEP_MS = {"sleep-1": 1, "sleep-3": 3, "sleep-10": 10, "small-sleep": 3, "overlap-sleep": 3, "graph-sleep": 3}


def idle(step):
    """The fault that is on the CPU."""
    milliseconds = SLEEP_MS.get(SCENARIO, 0)
    if milliseconds and LAST or SCENARIO == "alternating" and step % WORLD == RANK:
        with range_of("sleep"):
            time.sleep((milliseconds or 3) / 1e3)
    if SCENARIO == "slow-data" and LAST:
        with range_of("data"):
            spin(3e-3)


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(3)]).cuda()


def reduce_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def plain_step(model, x, step):
    idle(step)
    with range_of("forward"):
        loss = model(x).square().mean()
        if SCENARIO == "slow-gpu" and LAST:
            for _ in range(8):
                model(x)
    with range_of("backward"):
        loss.backward()
    with range_of("reduce"):
        if isinstance(model, nn.Sequential):
            reduce_gradients(model)


def small_step(tensors, step):
    idle(step)
    with range_of("reduce"):
        for tensor in tensors:
            dist.all_reduce(tensor)


def pipeline_step(model, x, step):
    with torch.no_grad():
        if RANK == 0:
            with range_of("send"):
                dist.send(model(x), WORLD - 1)
            with range_of("receive"):
                dist.recv(x, WORLD - 1)
        elif LAST:
            with range_of("receive"):
                dist.recv(x, 0)
            with range_of("forward"):
                for _ in range(8):
                    y = model(x)
            with range_of("send"):
                dist.send(y, 0)


def mixed_step(tensors, group, step):
    flat, parts = tensors[0], list(tensors[0].chunk(WORLD))
    out = torch.empty(flat.numel() * WORLD, device="cuda")
    dist.all_gather_into_tensor(out, flat)
    dist.reduce_scatter_tensor(parts[RANK], flat)
    dist.broadcast(flat, step % WORLD)
    dist.all_to_all_single(torch.empty_like(flat), flat)
    dist.all_reduce(flat, group=group)
    with dist._coalescing_manager(device=flat.device):
        for tensor in tensors[1:4]:
            dist.all_reduce(tensor)


def make_graph(model, x):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model.zero_grad(set_to_none=False)
            model(x).square().mean().backward()
            reduce_gradients(model)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        reduce_gradients(model)
    return graph


def prepare():
    """Returns a function of the step's number."""
    x = torch.randn(1024, WIDTH, device="cuda")
    if SCENARIO in ("small", "small-sleep", "mixed"):
        tensors = [torch.ones(1024, device="cuda") for _ in range(20)]
        if SCENARIO != "mixed":
            return lambda step: small_step(tensors, step)
        group = dist.new_group(list(range(WORLD)))
        return lambda step: mixed_step(tensors, group, step)
    if SCENARIO == "large":
        large = torch.ones(128 << 20, device="cuda")
        return lambda step: dist.all_reduce(large)
    model = make_model()
    if SCENARIO == "pipeline":
        return lambda step: pipeline_step(model, x, step)
    if SCENARIO.startswith("graph"):
        graph = make_graph(model, x)

        def replay(step):
            idle(step)
            graph.replay()
        return replay
    if SCENARIO.startswith("overlap"):
        model = nn.parallel.DistributedDataParallel(model, device_ids=[LOCAL], bucket_cap_mb=8)
    return lambda step: plain_step(model, x, step)


def stay_away():
    flag = torch.ones(1, device="cuda")
    dist.all_reduce(flag)
    torch.cuda.synchronize()
    if not LAST:
        with range_of("wait"):
            dist.all_reduce(flag)
    time.sleep(2)
    sys.stdout.flush()
    os._exit(0)


def main():
    torch.cuda.set_device(LOCAL)
    dist.init_process_group("nccl", device_id=torch.device("cuda", LOCAL))
    if SCENARIO == "missing":
        stay_away()
    run = prepare()
    for step in range(2):
        run(step)
    torch.cuda.synchronize()
    dist.barrier()
    begun = time.perf_counter()
    for step in range(STEPS):
        with range_of(f"step {step}"):
            run(step)
            torch.cuda.synchronize()
    print(f"rank {RANK}: {SCENARIO}: {(time.perf_counter() - begun) / STEPS * 1e3:.2f} ms a step", flush=True)
    del run  # a graph would keep its communicator from being destroyed
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
