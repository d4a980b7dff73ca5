"""What is exported, and its rows as `pitot view` reads them."""
import json

PATTERNS = ("train", "graph", "streams", "copies")
KERNELS = 3000


def make_exported(make_recording, name, path):
    if name == "varied":
        return make_recording(path, "varied")
    options = {"processes": 3} if name == "processes" else {"pattern": name}
    return make_recording(path, kernels=KERNELS, stacks=200 if name in ("train", "processes") else 0, **options)


viewed = {}  # what `pitot view` printed, for the tests of a recording that stays as it is


def view(pitot, recording, table, *options):
    """Rows of a table as `pitot view` reads them; the pid, which it leaves out where there is one process, is there."""
    def read(*wanted):
        key = recording, *wanted
        if key not in viewed:
            viewed[key] = pitot("view", recording, wanted[0], "--json", "-n", 0, *wanted[1:]).stdout
        return [json.loads(line) for line in viewed[key].splitlines()]

    pid = read("process")[0]["pid"]
    return [{"pid": pid, **row} for row in read(table, *options)]


def timed(rows):
    """Rows that have their times, with their duration."""
    return [{**row, "duration": row["end_ns"] - row["start_ns"]} for row in rows
            if row["start_ns"] is not None and row["end_ns"] is not None]
