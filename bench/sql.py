#!/usr/bin/env python3
"""How long statements of `pitot sql` take of a large recording, with each engine.

Usage: bench/sql.py PITOT RECORDING [ENGINE…] (default: sqlite duckdb). Prints wall time, CPU time of the whole command and the
most memory. `tests/support/make-recording big.pitot --kernels 100000000` makes a recording; PITOT_DUCKDB names DuckDB's library.
Each statement runs twice, and the second time counts, so that the file is in memory.
"""
import os
import subprocess
import sys
import time

STATEMENTS = {
    "count(*)": "SELECT count(*) AS n FROM kernel",
    "sum(duration_ns)": "SELECT sum(duration_ns) AS s FROM kernel",
    "the same of one stream": "SELECT sum(duration_ns) AS s FROM kernel WHERE stream = 7",
    "group by config: count, sum, max": "SELECT config, count(*) AS n, sum(duration_ns) AS s, max(duration_ns) AS m FROM kernel GROUP BY 1",
    "group by config_name: count, sum": "SELECT config_name, count(*) AS n, sum(duration_ns) AS s FROM kernel GROUP BY 1",
    "config_name LIKE '%add%'": "SELECT count(*) AS n FROM kernel WHERE config_name LIKE '%add%'",
    "the 10 longest": "SELECT start_ns, duration_ns FROM kernel ORDER BY duration_ns DESC LIMIT 10",
    "median of each config": "SELECT config, median(duration_ns) AS m FROM kernel GROUP BY 1",
    "the last hundredth": "SELECT count(*) AS n FROM kernel WHERE start_ns > (SELECT end_ns - (end_ns - start_ns) / 100 FROM recording)",
    "kernel_summary": "SELECT count(*) AS n FROM kernel_summary",
}


def run(pitot, recording, engine, statement):
    began = time.monotonic()
    process = subprocess.Popen([pitot, "sql", "-q", "--csv", "--engine", engine, recording, statement], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{engine}: {statement}: exit status {process.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def main():
    pitot, recording, *engines = sys.argv[1:]
    for engine in engines or ("sqlite", "duckdb"):
        for name, statement in STATEMENTS.items():
            run(pitot, recording, engine, statement)
            wall, cpu, memory = run(pitot, recording, engine, statement)
            print(f"{engine:6}  {name:32}  {wall:6.2f} s wall  {cpu:6.2f} s CPU  {memory:5} MiB", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
