#!/usr/bin/env python3
"""Programs that treat their process unkindly, alone and recorded: status and output have to be the same.

usage: bench/gpu_harm.py BUILD [FOLDER] [--only NAME,...], on a machine with a GPU and PyTorch; a library that a program needs and that
is not there is said. Prints a line for each program and way of recording: whether it behaved the same, its wall time alone and
recorded, how many kernels and processes the recording has, and what was lost. What differs is in FOLDER.
"""
import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 150  # seconds for one run

WAYS = {
    "plain": [],
    "all": ["--counters=50ms", "--system", "all", "--off-cpu", "--memory", "--sync"],
    "timer": ["--cpu-via", "timer"],
    "pc": ["--engine", "pc-sampling"],
}

PROGRAMS = {
    "compile": """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda()
step = torch.compile(lambda x: model(x).square().mean())
x = torch.randn(64, 256, device="cuda")
for _ in range(30):
    loss = step(x)
    loss.backward()
print("loss", round(loss.item(), 4))
""",
    "loader": """
import torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 400
    def __getitem__(self, i): return torch.full((64,), float(i))
def main():
    total = torch.zeros((), device="cuda")
    for context in ("fork", "spawn", "forkserver"):
        for batch in DataLoader(Numbers(), batch_size=20, num_workers=3, multiprocessing_context=context, pin_memory=True):
            total += batch.cuda(non_blocking=True).sum()
    print("sum", total.item())
if __name__ == "__main__":
    main()
""",
    "threads": """
import threading, torch
def work(i):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        a = torch.full((64, 64), 1.0, device="cuda")
        for _ in range(10):
            a = a @ a / 64
    stream.synchronize()
    done[i] = a.sum().item()
done = {}
for round in range(20):
    some = [threading.Thread(target=work, args=(round * 32 + i,)) for i in range(32)]
    [t.start() for t in some]
    [t.join() for t in some]
print(len(done), sum(done.values()))
""",
    "graphs": """
import torch
a = torch.ones(256, 256, device="cuda")
graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3): b = (a @ a) / 256
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.graph(graph):
    for _ in range(20): a.copy_((a @ a) / 256)
for _ in range(500): graph.replay()
torch.cuda.synchronize()
del graph
print(a.sum().item())
""",
    "daemon": """
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.dup2(write, 100)
    os.closerange(3, 100)
    os.closerange(101, 4096)
    os.chdir("/")
    os.umask(0o777)
    import torch
    a = torch.ones(128, 128, device="cuda")
    for _ in range(200): a = a @ a / 128
    torch.cuda.synchronize()
    own = os.open("/tmp/harm-daemon", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    for fd in range(3, 90):
        try: os.fstat(fd)
        except OSError: os.dup2(own, fd)
    for _ in range(200): a = a @ a / 128
    torch.cuda.synchronize()
    time.sleep(1)
    for fd in range(90): os.fstat(fd) if fd > 2 else None
    os.write(100, f"{a.sum().item()} {os.fstat(own).st_size}".encode())
    sys.exit(0)
os.close(write)
os.wait()
print(os.read(read, 100).decode())
""",
    "exec": """
import os, sys, torch
a = torch.ones(64, 64, device="cuda")
for _ in range(50): a = a @ a / 64
torch.cuda.synchronize()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 0
print("round", n, a.sum().item(), flush=True)
if n < 2: os.execv(sys.executable, [sys.executable, __file__, str(n + 1)])
""",
    "signals": """
import signal, torch
seen = {}
def count(number, frame): seen[number] = seen.get(number, 0) + 1
for number, timer in ((signal.SIGALRM, signal.ITIMER_REAL), (signal.SIGVTALRM, signal.ITIMER_VIRTUAL), (signal.SIGPROF, signal.ITIMER_PROF)):
    signal.signal(number, count)
    signal.setitimer(timer, 0.01, 0.01)
a = torch.ones(64, 64, device="cuda")
for _ in range(60000): a = a @ a / 64
torch.cuda.synchronize()
for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF): signal.setitimer(timer, 0)
print(a.sum().item(), sorted(n for n in seen if seen[n] > 20))
""",
    "memory": """
import torch
kept = []
for size in (1 << 34, 1 << 35, 1 << 36, 1 << 37, 1 << 38):
    try:
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        last = "got"
    except torch.cuda.OutOfMemoryError:
        last = "none"
kept.clear()
torch.cuda.empty_cache()
a = torch.ones(64, 64, device="cuda")
for _ in range(100): a = a @ a / 64
print(last, a.sum().item())
""",
    "fault": """
import torch
from torch.utils.cpp_extension import load_inline
a = torch.ones(64, 64, device="cuda")
for _ in range(100): a = a @ a / 64
torch.cuda.synchronize()
try:
    torch.ones(10, device="cuda")[torch.tensor([1 << 20], device="cuda")]
    torch.cuda.synchronize()
except RuntimeError as error:
    print(type(error).__name__, str(error).splitlines()[0])
""",
    "triton": """
import torch, triton, triton.language as tl
def make(n):
    @triton.jit
    def scale(p, size, N: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(p + i, tl.load(p + i, mask=i < size) + N, mask=i < size)
    return lambda a: scale[(triton.cdiv(a.numel(), 256),)](a, a.numel(), n, 256)
a = torch.zeros(10000, device="cuda")
for n in range(40): make(n)(a)
print(a.sum().item())
""",
    "jax": """
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jnp.tanh(x @ x) / 64)
x = jnp.ones((64, 64))
for _ in range(3000): x = f(x)
print(round(float(x.sum()), 3))
""",
    "cupy": """
import cupy
k = cupy.RawKernel('extern "C" __global__ void add(float *p, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] += 1; }', "add")
a = cupy.zeros(1 << 16, dtype=cupy.float32)
for _ in range(2000): k((256,), (256,), (a, cupy.int32(a.size)))
print(float(a.sum()))
""",
    "spawned": """
import subprocess, sys, concurrent.futures, multiprocessing, os
child = "import torch; a = torch.ones(64, 64, device='cuda')\\nfor _ in range(100): a = a @ a / 64\\nprint(a.sum().item())"
def work(n):
    import torch
    return torch.ones(n, device="cuda").cumsum(0)[-1].item()
def main():
    for options in ({}, {"close_fds": False}, {"start_new_session": True}, {"preexec_fn": lambda: os.nice(1)}, {"env": {"PATH": os.environ["PATH"]}}):
        print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, **options).stdout.strip())
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(list(pool.map(work, range(100, 120))))
if __name__ == "__main__":
    main()
""",
    "distributed": """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp
def rank(r, n):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533")
    one = torch.cuda.device_count() < n
    dist.init_process_group("gloo" if one else "nccl", rank=r, world_size=n)
    torch.cuda.set_device(0 if one else r)
    a = torch.ones(1024, device="cuda") * (r + 1)
    for _ in range(50):
        dist.all_reduce(a)
        a /= n
    torch.cuda.synchronize()
    if r == 0: print(a.sum().item())
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(rank, args=(2,), nprocs=2)
""",
    "exits": """
import os, sys, threading, torch
a = torch.ones(64, 64, device="cuda")
def forever():
    while True: torch.ones(64, device="cuda").sum()
for _ in range(4): threading.Thread(target=forever, daemon=True).start()
for _ in range(2000): a = a @ a / 64
print(a.sum().item(), flush=True)
sys.exit(3)
""",
    "killed": """
import os, signal, torch
a = torch.ones(64, 64, device="cuda")
for _ in range(2000): a = a @ a / 64
torch.cuda.synchronize()
print(a.sum().item(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
""",
    "greenlets": """
import greenlet, torch
a = torch.ones(64, 64, device="cuda")
def work(depth):
    global a
    if depth: return work(depth - 1)
    for _ in range(20):
        a = a @ a / 64
        main.switch()
main = greenlet.getcurrent()
some = [greenlet.greenlet(work) for _ in range(50)]
while any(not g.dead for g in some):
    for i, g in enumerate(some):
        if not g.dead: g.switch(i) if not g else g.switch()
print(a.sum().item())
""",
    "asyncio": """
import asyncio, torch
async def work(i):
    a = torch.full((64, 64), 1.0, device="cuda")
    for _ in range(20):
        a = a @ a / 64
        await asyncio.sleep(0)
    return a.sum().item()
async def main():
    print(sum(await asyncio.gather(*(work(i) for i in range(100)))))
asyncio.run(main())
""",
}


def run(command, folder):
    began = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return "hangs", out, err, time.monotonic() - began
    return process.returncode, out, err, time.monotonic() - began


def said(text):
    """What a program says on standard error, without what has a time or a number of a process in it."""
    kept = [line for line in text.splitlines() if not any(character.isdigit() for character in line)]
    return sorted(set(kept))


def recorded(pitot, recording):
    done = subprocess.run([pitot, "info", "--verify", "--json", recording], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"info: {done.stderr.strip()}"
    info = json.loads(done.stdout)
    lost = collections.Counter()
    for row in info["loss"]:
        lost[row["reason"]] += row["count"]
    kernels = info["tables"].get("kernel", {}).get("rows", 0)
    return f"{kernels} kernels, {len(info['processes'])} processes, lost {dict(lost) or 'nothing'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--ways", default=",".join(WAYS))
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    folder, pitot = folder.resolve(), arguments.build.resolve() / "pitot"
    for name in arguments.only.split(","):
        program = folder / f"harm_{name}.py"  # a name that no library has
        program.write_text(PROGRAMS[name].lstrip())
        status, out, err, alone = run([sys.executable, program], folder)
        if status and "ModuleNotFoundError" in err:
            print(f"{name:12} {err.strip().splitlines()[-1]}", flush=True)
            continue
        for way in arguments.ways.split(","):
            recording = folder / f"{name}-{way}.pitot"
            with_status, with_out, with_err, took = run(
                [pitot, "record", "-q", "-f", "-o", recording, *WAYS[way], "--", sys.executable, program], folder)
            more = sorted(set(said(with_err)) - set(said(err)))
            # `pitot record` says of a signal what a shell says.
            same = (with_status, with_out) == (128 - status if isinstance(status, int) and status < 0 else status, out)
            print(f"{name:12} {way:6} {'same' if same else 'DIFFERS'}, status {with_status}, {alone:.1f} s alone, {took:.1f} recorded, "
                  f"{recorded(pitot, recording)}", flush=True)
            if not same:
                print(f"    alone {status}: {out.strip()[-200:]!r}\n    recorded {with_status}: {with_out.strip()[-200:]!r}", flush=True)
            for line in more[:4]:
                print(f"    stderr: {line[:160]}", flush=True)
            if not same or more:
                (folder / f"{name}-{way}.txt").write_text(f"{with_out}\n{with_err}\n--- alone\n{out}\n{err}")


if __name__ == "__main__":
    main()
