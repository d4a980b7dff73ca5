"""Tests wait for what they need to have happened, not for a time in which it should have."""
import os
import time

PATIENCE = float(os.environ.get("PITOT_TESTS_PATIENCE", 300))  # seconds: nothing that goes well comes near it, on whatever machine


def wait_until(condition, what, process=None):
    """What condition() gives once that is true. A process that has to live until then may be given."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert process is None or process.poll() is None, f"it ended before this happened: {what}"
        assert time.monotonic() < end, f"this did not happen: {what}"
        time.sleep(0.02)
    return found


def wait_until_it_computes(process):
    """Waits until a process has used another second of CPU time."""

    def seconds():
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
            return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    before = seconds()
    wait_until(lambda: seconds() > before + 1, "it computes", process)
