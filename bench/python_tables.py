#!/usr/bin/env python3
"""How long the package `pitot` takes to load the kernels of a recording as an Arrow table with names, and into pandas; five times in one process.

Usage: PYTHONPATH=build/python bench/python_tables.py RECORDING   (make-recording big.pitot --kernels 10000000 makes one)
"""
import sys
import time

import pyarrow

import pitot

for _ in range(5):
    begun = time.perf_counter()
    kernels = pitot.open(sys.argv[1]).kernels.select("device", "stream", "start_ns", "duration_ns", "name")
    table = pyarrow.table(kernels)
    in_arrow = time.perf_counter() - begun
    table.to_pandas()
    print(f"{table.num_rows} kernels: {in_arrow:.2f} s to Arrow, {time.perf_counter() - begun:.2f} s to pandas")
