#!/usr/bin/env bash
# Records and reports programs that use common libraries, and compares exit status and output with and without Pitot.
# usage: bench/gpu_programs.sh BUILD [FOLDER]: recordings and flame graphs remain in FOLDER
set -u
pitot=$(realpath "$1")/pitot
folder=${2:-$(mktemp -d)}
cd "$folder" || exit 1

cat >gpt2.py <<'P'
import torch, transformers
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=6)).cuda().eval()
ids = torch.randint(0, 1000, (1, 32), device="cuda")
with torch.no_grad():
    out = model.generate(ids, max_new_tokens=60, do_sample=False, pad_token_id=0)
print("tokens", out.shape[1])
P
cat >jax_step.py <<'P'
import jax, jax.numpy as jnp
@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
w, x = jnp.ones((512, 512)), jnp.ones((64, 512))
for _ in range(300):
    w = step(w, x)
print("sum", round(float(w.sum()), 1))
P
cat >own_profiler.py <<'P'
import torch
from torch.profiler import profile, ProfilerActivity
a = torch.randn(1024, 1024, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    for _ in range(20):
        a = torch.tanh(a @ a)
    torch.cuda.synchronize()
events = [e for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA]
print("the program's own profiler saw", "GPU events" if events else "nothing of the GPU")
P
cat >cupy_numba.py <<'P'
import numpy as np
from numba import cuda
@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b[i]
a, b = cuda.to_device(np.zeros(1 << 16)), cuda.to_device(np.ones(1 << 16))
for _ in range(200):
    add[256, 256](a, b)
print("sum", a.copy_to_host().sum())
P

for program in gpt2 jax_step own_profiler cupy_numba; do
	echo "== $program"
	timeout 100 python3 $program.py >bare.out 2>bare.err
	bare=$?
	timeout 150 "$pitot" record -q -o $program.pitot -- python3 $program.py >with.out 2>with.err
	echo "status $bare bare, $? with Pitot"
	diff bare.out with.out && echo "same output: $(cat bare.out)"
	diff <(grep -v "^[WIE][0-9]* \|^20" bare.err) <(grep -v "^[WIE][0-9]* \|^20" with.err) | head -8
	"$pitot" report --no-pager $program.pitot 2>&1 | head -60
	"$pitot" info --verify $program.pitot 2>&1 | tail -4
	"$pitot" flame -o $program.svg $program.pitot && "$pitot" export --format perfetto -o $program.perfetto $program.pitot
done
