"""What is exported, and its rows as `pitot view` reads them."""
import json

PATTERNS = ("train", "graph", "streams", "copies")
KERNELS = 3000


def make_exported(make_recording, name, path):
    if name == "varied":
        return make_recording(path, "varied")
    options = {"processes": 3} if name == "processes" else {"pattern": name}
    return make_recording(path, kernels=KERNELS, stacks=200 if name in ("train", "processes") else 0, **options)


def view(pitot, recording, table, *options):
    """Rows of a table as `pitot view` reads them; the pid, which it leaves out where there is one process, is there."""
    def read(name, *more):
        text = pitot("view", recording, name, "--json", "-n", 0, *more).stdout
        return [json.loads(line) for line in text.splitlines()]

    pid = read("process")[0]["pid"]
    return [{"pid": pid, **row} for row in read(table, *options)]


def timed(rows):
    """Rows that have their times, with their duration."""
    return [{**row, "duration": row["end_ns"] - row["start_ns"]} for row in rows
            if row["start_ns"] is not None and row["end_ns"] is not None]
