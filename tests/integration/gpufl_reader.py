#!/usr/bin/env python3
"""What the published reader of gpufl's logs says of a session. Usage: gpufl_reader.py PACKAGE SESSION_FOLDER

PACKAGE is the folder that has gpufl/ (`pip download --no-deps --only-binary=:all: --python-version 3.12 gpufl`, unpacked: the
reader is pure Python, its client is not needed); pandas and rich have to be there. Prints totals as JSON; every view of
the analyzer, the report and viz has been asked for, and an exception is the end."""
import contextlib
import importlib
import io
import json
import sys
import types
from pathlib import Path


def load(package):
    """The readers, without what the package does when it is imported: that loads the client."""
    module = types.ModuleType("gpufl")
    module.__path__ = [str(Path(package) / "gpufl")]
    sys.modules["gpufl"] = module
    return [importlib.import_module(f"gpufl.{name}") for name in ("analyzer", "report", "viz")]


def total(frame, column):
    return int(frame[column].sum()) if not frame.empty else 0


def read(analyzer, report, viz, folder):
    session = analyzer.GpuFlightSession(str(folder), log_prefix="", load_all_rotated=True)
    for view in [name for name in dir(session) if name.startswith("inspect_")] + ["print_summary"]:
        getattr(session, view)()
    text = report.TextReport(session).generate()
    viz.init(str(folder))
    kernels, copies, samples = session.kernels, session.memcpy, session.scopes
    return {
        "kernels": len(kernels), "kernel_ns": total(kernels, "duration_ns"),
        "ids": int(kernels["corr_id"].nunique()) if len(kernels) else 0,
        "names": sorted(set(kernels["name"])) if len(kernels) else [],
        "user_scopes": dict(kernels["user_scope"].value_counts()) if len(kernels) else {},
        "stacks": int(kernels["stack_trace"].astype(bool).sum()) if len(kernels) else 0,
        "copies": len(copies), "copy_bytes": total(copies, "bytes"), "copy_ns": total(copies, "duration_ns"),
        "samples": total(samples, "sample_count"), "sass": total(samples[samples["sample_kind"] == "sass_metric"], "metric_value")
        if len(samples) else 0,
        "scope_events": len(session.scope_events), "metrics": len(session.device_metrics),
        "devices": [device["name"] for device in session.static_devices],
        "capabilities": len(session.capture_capabilities), "report": text,
    }


def main():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        totals = read(*load(sys.argv[1]), Path(sys.argv[2]))
    totals["said"] = said.getvalue()
    print(json.dumps(totals, default=int))


if __name__ == "__main__":
    main()
