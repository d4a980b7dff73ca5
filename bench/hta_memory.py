#!/usr/bin/env python3
"""Time and memory of kernels in pandas: by this package from a recording, and by HTA (Holistic Trace Analysis) from its Chrome JSON.

usage: PYTHONPATH=BUILD/python bench/hta_memory.py BUILD RECORDING, in an environment with PyPI's HolisticTraceAnalysis, pyarrow and pandas

Each runs in a process of its own; the peak is that of the process less what it had before it read.
"""
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

READERS = {
    "pitot": """
import pandas, pyarrow, pitot
before = peak()
begun = time.perf_counter()
kernels = pyarrow.table(pitot.open(sys.argv[1]).kernels.select("device", "stream", "start_ns", "duration_ns", "name")).to_pandas()
print(len(kernels), "kernels")
""",
    "HTA": """
import logging, pandas
from hta.trace_analysis import TraceAnalysis
logging.disable()
before = peak()
begun = time.perf_counter()
frame = TraceAnalysis(trace_dir=sys.argv[1]).t.get_trace(0)
print((frame["stream"] >= 0).sum(), "rows of GPU work")
""",
}
AROUND = """
import resource, sys, time
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
{}
print(f"{{time.perf_counter() - begun:.2f}} s, {{peak() - before:.0f}} MiB")
"""


def read(name, path):
    done = subprocess.run([sys.executable, "-c", AROUND.format(READERS[name]), str(path)], capture_output=True, text=True)
    print(f"{name:6} {', '.join(done.stdout.split(chr(10))[-3:]).strip(', ')}{done.stderr[-300:] if done.returncode else ''}", flush=True)


program, recording = Path(sys.argv[1]) / "pitot", sys.argv[2]
with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder) / "rank0.json.gz"
    subprocess.run([program, "export", "-q", recording, "-o", trace], check=True)
    with gzip.open(trace) as text:
        size = text.seek(0, os.SEEK_END)
    print(f"Chrome JSON: {size / 2**20:.0f} MiB, {trace.stat().st_size / 2**20:.0f} MiB compressed")
    read("pitot", recording)
    read("HTA", folder)
