#!/usr/bin/env python3
"""What `pitot agent` costs beside a program: CPU time of a core and largest resident memory, while a tape is played into `pitot record`.

usage: bench/agent_cost.py BUILD [--rate 30000] [--seconds 45] [--rules] [--ring] [--sink folder|bucket] [--profiles]

--rate is in kernels a second. Prints JSON, with the kernels a second that were recorded, which a busy machine keeps below the rate.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests"))
import s3_server  # noqa: E402
from http_collector import Collector  # noqa: E402

LAUNCHES = 7000  # of the tape
RULES = "hang > 30s", "step-time > 2x median"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("--rate", type=int, default=30000)
    arguments.add_argument("--seconds", type=int, default=45)
    arguments.add_argument("--rules", action="store_true", help=", ".join(RULES))
    arguments.add_argument("--ring", action="store_true")
    arguments.add_argument("--sink", choices=("folder", "bucket"), default="folder")
    arguments.add_argument("--profiles", action="store_true", help="recorded with call stacks, and sent to a server of profiles")
    options = arguments.parse_args()
    build = pathlib.Path(options.build).resolve()
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET, "AWS_REGION": s3_server.REGION}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        lake = f"s3://{s3_server.BUCKET}/v1"
        if options.sink == "bucket":
            environment["AWS_ENDPOINT_URL"] = stack.enter_context(s3_server.running()).endpoint
        else:
            lake = folder / "lake"
            lake.mkdir()
        repeat = options.rate * options.seconds // LAUNCHES + 1
        record = subprocess.Popen([build / "pitot", "record", "-q", "--no-cpu", *(["--stacks", "none"] * (not options.profiles)), "-o", folder / "r.pitot", *(["--ring", "64m"] * options.ring), "--",
                                   build / "standin/tape-play", "--rate", str(2 * options.rate), "--now", "--gap", "0", "--repeat", str(repeat),
                                   SOURCE / "tests/data/tapes/launch.tape"], env=environment)
        rules = [word for rule in RULES for word in ("--when", rule)] if options.rules else []
        server = Collector()
        rules += ["--profiles", server.url] * options.profiles
        agent = subprocess.Popen([build / "pitot", "agent", "-q", "--listen", "off", "--lake", lake, "--spool", folder / "spool", "-p", str(record.pid), *rules],
                                 env=environment)
        begun = time.monotonic()
        recorded = record.wait()
        seconds = time.monotonic() - begun
        agent.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(agent.pid, 0)  # with what it ships at the end
        agent.returncode = os.waitstatus_to_exitcode(status)
        print(json.dumps({"kernels_per_second": round(repeat * LAUNCHES / seconds), "seconds": round(seconds, 1), "rules": list(RULES) * options.rules, "profiles": len(server.taken), "ring": options.ring,
                          "sink": options.sink, "cpu_percent_of_a_core": round(100 * (usage.ru_utime + usage.ru_stime) / seconds, 2),
                          "memory_mib": round(usage.ru_maxrss / 1024, 1), "status": agent.returncode}))
        return agent.returncode or recorded


if __name__ == "__main__":
    sys.exit(main())
