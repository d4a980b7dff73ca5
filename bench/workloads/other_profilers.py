"""A program that profiles itself with Triton's Proton or with JAX: prints what the profiler saw of the GPU.

usage: other_profilers.py proton|jax FOLDER
"""
import collections
import glob
import json
import os
import sys

way, folder = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
os.chdir(folder)


def proton():
    import torch
    import triton.profiler as profiler

    a = torch.randn(512, 512, device="cuda")
    torch.tanh(a @ a)
    profiler.start("own")
    for _ in range(100):
        with profiler.scope("step"):
            torch.tanh(a @ a)
    torch.cuda.synchronize()
    profiler.finalize()
    counts = collections.Counter()

    def walk(node):
        if "count" in node.get("metrics", {}):
            counts[node["frame"]["name"][:40]] += node["metrics"]["count"]
        for child in node.get("children", []):
            walk(child)

    with open("own.hatchet") as file:
        for tree in json.load(file):
            if "frame" in tree:
                walk(tree)
    print("proton:", dict(counts))


def jax_trace():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(w, x):
        return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)

    w, x = jnp.ones((512, 512)), jnp.ones((64, 512))
    w = step(w, x).block_until_ready()
    jax.profiler.start_trace("trace")
    for _ in range(100):
        w = step(w, x)
    w.block_until_ready()
    jax.profiler.stop_trace()
    spaces = glob.glob("trace/**/*.xplane.pb", recursive=True)
    from jax.profiler import ProfileData
    counts = collections.Counter()
    for space in spaces:
        for plane in ProfileData.from_file(space).planes:
            if "GPU" in plane.name:
                for line in plane.lines:
                    if line.name.startswith("Stream"):
                        counts["kernels and copies"] += sum(1 for _ in line.events)
    print("jax:", dict(counts))


{"proton": proton, "jax": jax_trace}[way]()
