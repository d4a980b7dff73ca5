#!/usr/bin/env python3
"""Traces of other tools, made on this machine's GPU and imported: their totals are compared with an independent reader.

Usage: bench/gpu_imports.py PITOT INCLUDE, with torch, ncu and nvcc where they are. Prints a table as it goes; takes two minutes."""
import csv
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PITOT, INCLUDE = (Path(word).resolve() for word in sys.argv[1:3])
WORK = """
import torch
a = torch.randn(1024, 1024, device="cuda")
for _ in range(%d):
    a = torch.relu(a @ a) * 0.001
torch.cuda.synchronize()
"""
PROFILED = """
import torch
from torch.profiler import profile, ProfilerActivity
a = torch.randn(1024, 1024, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], with_stack=True, profile_memory=True, record_shapes=True) as p:
    for _ in range(200):
        a = torch.relu(a @ a) * 0.001
    torch.cuda.synchronize()
p.export_chrome_trace("k.json.gz")
"""
CPP = """
#include <tracesmith/tracesmith.hpp>
using namespace tracesmith;
__global__ void k(float *x) { x[threadIdx.x] += 1; }
int main()
{
	auto profiler = createProfiler(PlatformType::CUDA);
	profiler->initialize(ProfilerConfig());
	float *x;
	cudaMalloc(&x, 1024);
	profiler->startCapture();
	for (int i = 0; i < 1000; i++)
		k<<<1, 32>>>(x);
	cudaDeviceSynchronize();
	profiler->stopCapture();
	std::vector<TraceEvent> events;
	profiler->getEvents(events);
	size_t kernels = 0, stacks = 0;
	for (const TraceEvent &e : events) {
		kernels += e.type == EventType::KernelLaunch && e.duration && e.kernel_params && e.kernel_params->block_x == 32;
		stacks += e.type == EventType::KernelLaunch && e.call_stack && !e.call_stack->empty();
	}
	SBTWriter writer("trace.sbt");
	writer.writeEvents(events);
	TimelineBuilder builder;
	builder.addEvents(events);
	std::cout << kernels << " kernels, " << stacks << " with stacks, written " << writer.finalize().success << ", utilization "
		  << builder.build().gpu_utilization << std::endl;
}
"""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stdout[-500:]} {done.stderr[-1000:]}")
    return done.stdout


def rows(recording, table, *columns):
    return [json.loads(line) for line in run(PITOT, "view", recording, table, "--json", "-q", "-c", ",".join(columns)).splitlines()]


def kineto():
    Path("k.py").write_text(PROFILED)
    run(sys.executable, "k.py")
    run(PITOT, "import", "k.json.gz", "-o", "k.pitot")
    events = [e for e in json.load(gzip.open("k.json.gz"))["traceEvents"] if e.get("cat") == "kernel"]
    found = rows("k.pitot", "kernel", "duration_ns")
    return f"{len(events)} kernels, {round(sum(e['dur'] for e in events) * 1000)} ns", f"{len(found)} kernels, {sum(r['duration_ns'] for r in found)} ns"


def ncu(page):
    Path("n.py").write_text(WORK % 3)
    text = run("ncu", "--csv", "--page", page, "--launch-count", "4", sys.executable, "n.py")
    Path(f"{page}.csv").write_text(text)
    run(PITOT, "import", f"{page}.csv", "-o", f"{page}.pitot")
    table = list(csv.DictReader(io.StringIO(text[text.index('"ID"'):])))
    named = {(r["ID"], r["Metric Name"]) for r in table if r["Metric Name"]} if page == "details" else {r["ID"] for r in table if r["ID"]}
    found = rows(f"{page}.pitot", "metric_value", "correlation", "metric", "metric.unit", "value")
    some = [r for r in found if "time_duration" in r["metric"] or r["metric"] == "Duration"][:2]
    return f"{len(named)} {'metrics' if page == 'details' else 'kernels'}", f"{len(found)} metrics of {len({r['correlation'] for r in found})} kernels, {some}"


def cpp():
    Path("c.cu").write_text(CPP)
    compiler = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    run(compiler, "-std=c++17", "-I", INCLUDE, "c.cu", "-o", "c", "-L", PITOT.parent, "-lpitot", "-lpitotread", "-Xlinker", f"-rpath={PITOT.parent}")
    return "1000 kernels", run("./c").strip().splitlines()[-1]


os.chdir(tempfile.mkdtemp(prefix="gpu-imports-"))
print(f"{'what':14}{'the source':40}the recording", flush=True)
for name, measure in (("tracesmith C++", cpp), ("torch.profiler", kineto), ("ncu raw", lambda: ncu("raw")), ("ncu details", lambda: ncu("details"))):
    try:
        print(f"{name:14} {'%-39s %s' % measure()}", flush=True)
    except Exception as error:
        print(f"{name:14} failed: {error}", flush=True)
