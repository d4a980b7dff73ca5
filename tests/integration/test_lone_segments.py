"""A segment of which nothing else is left: everything in it has the names that the whole recording gives it."""
import json
import shutil

import pytest

MANY = "stacks=all;sync=1;memory=1;segment_bytes="
NO_LAUNCH = "[no launch]"  # of work whose call is in a lost segment

# Table, columns that refer to a table, and that table's columns that they are values of.
REFERENCES = [
    *((table, (column,), of, ("id",)) for table in ("kernel", "memcpy", "memset") for column, of in
      (("device", "device"), ("context", "context"), ("stream", "stream"))),
    *((table, ("graph_node",), "graph_node", ("node",)) for table in ("kernel", "memcpy", "memset")),
    ("synchronization", ("stream",), "stream", ("id",)),
    ("synchronization", ("context",), "context", ("id",)),
    ("stream", ("context",), "context", ("id",)),
    ("context", ("device",), "device", ("id",)),
    ("graph_node", ("original",), "graph_node", ("node",)),
    ("graph_node", ("stack",), "stack", ("id",)),
    ("api_call", ("stack",), "stack", ("id",)),
    ("api_call", ("thread",), "thread", ("tid",)),
    ("graph_node", ("thread",), "thread", ("tid",)),
    ("nvtx", ("thread",), "thread", ("tid",)),
    ("nvtx", ("domain",), "nvtx_domain", ("id",)),
    ("nvtx", ("domain", "category"), "nvtx_category", ("domain", "id")),
]
# One row a session, or the last row of a key.
DESCRIPTIONS = ("device", "context", "stream", "nvtx_domain", "nvtx_category", "graph_node", "module", "process", "clock",
                "capability", "thread", "kernel_config", "api_function", "stack", "stack_node", "string")


def key_of(row, columns):
    return tuple(row.get(column) for column in columns)


def without_times(row):
    return tuple((key, value) for key, value in sorted(row.items()) if not key.endswith("_ns"))


@pytest.fixture(params=["train", "kinds", "made"])
def recording(request, record):
    if request.param == "made":
        return record(request.getfixturevalue("made_tape"), MANY + "4000", "--repeat", "30")
    return record(request.param, MANY + "20000", "--repeat", "12" if request.param == "train" else "30")


@pytest.fixture
def lone(recording, tmp_path):
    """Recordings of one segment each."""
    segments = sorted(recording.glob("*.pit"))
    assert len(segments) > 1  # how many depends on how often the collector gets the processor
    folders = []
    for segment in segments:
        folders.append(tmp_path / f"{segment.stem}.pitot")
        folders[-1].mkdir()
        shutil.copy(segment, folders[-1])
    return folders


@pytest.fixture
def tables(rows, pitot):
    """tables(recording, names): {name: rows}; those that are empty are not asked for one by one."""
    def read(recording, names):
        counts = pitot("view", recording, "--json", json_output=True)["tables"]
        return {table: rows(recording, table) if counts[table] else [] for table in names}

    return read


def test_what_rows_refer_to_is_there(recording, lone, tables):
    whole = tables(recording, DESCRIPTIONS)
    known = {table: {without_times(row) for row in whole[table]} for table in DESCRIPTIONS}
    referred = {}
    for folder in lone:
        here = tables(folder, {table for table, *_ in REFERENCES} | set(DESCRIPTIONS))
        for table, columns, target, keys in REFERENCES:
            wanted = {key_of(row, columns) for row in here[table]} & {key_of(row, keys) for row in whole[target]}
            assert wanted <= {key_of(row, keys) for row in here[target]}, (folder.name, table, columns)
            referred.setdefault((table, columns), set()).update(wanted)
        for table in DESCRIPTIONS:
            assert {without_times(row) for row in here[table]} <= known[table], (folder.name, table)
        for table in "process", "clock", "capability", "module", "thread":
            assert here[table], (folder.name, table)
    assert referred["kernel", ("stream",)] and referred["api_call", ("stack",)] and referred["api_call", ("thread",)]


def test_repeated_rows_count_once(recording, lone, rows, pitot):
    counts = pitot("info", recording, "--json", json_output=True)["tables"]
    listed = pitot("view", recording, "--json", json_output=True)["tables"]
    for table in DESCRIPTIONS:
        all_rows = [json.dumps(row) for row in rows(recording, table)]
        assert len(set(all_rows)) == len(all_rows) == counts.get(table, {"rows": 0})["rows"] == listed[table], table
    assert len(rows(recording, "device")) == 1
    alone = sum(len(rows(folder, "device")) for folder in lone)
    assert alone == len(lone)


def test_flame_graph_names_the_same(recording, lone, pitot, tmp_path):
    def stacks(folder):
        path = tmp_path / "out.folded"
        path.unlink(missing_ok=True)
        done = pitot("flame", folder, "-o", path, "--force", status=None)
        if done.returncode:  # a segment without GPU time
            assert "nothing to show" in done.stderr and not path.exists()
            return set()
        return {line.rsplit(" ", 1)[0] for line in path.read_text().splitlines()}

    whole = stacks(recording)
    assert whole
    leaves = {stack.rsplit(";", 1)[-1] for stack in whole}
    for folder in lone:
        for stack in stacks(folder) - whole:
            assert NO_LAUNCH in stack and stack.rsplit(";", 1)[-1] in leaves


def test_export_and_report_name_the_same(recording, lone, pitot, tmp_path):
    def exported(folder):
        path = tmp_path / "out.json"
        path.unlink(missing_ok=True)
        done = pitot("export", folder, "-o", path, "--force", "-q", status=None)
        if done.returncode:  # a segment without work, calls and samples
            assert "nothing to export" in done.stderr and not path.exists()
            return set(), devices
        trace = json.loads(path.read_text())
        names = {(e["ph"], e.get("cat"), e["name"], json.dumps(e["args"]) if e["ph"] == "M" else "")
                 for e in trace["traceEvents"] if e.get("cat") != "loss"}
        return names, trace["deviceProperties"]

    def reported(folder):
        report = pitot("report", folder, "--json", json_output=True)
        return ({kernel["name"] for kernel in report["hotspots"]["items"]},
                [(gpu["name"], gpu["uuid"]) for gpu in report["gpus"]])

    devices = None
    names, devices = exported(recording)
    kernels, gpus = reported(recording)
    for folder in lone:
        alone = exported(folder)
        assert alone[0] <= names and alone[1] == devices
        alone = reported(folder)
        assert alone[0] <= kernels and alone[1] in (gpus, [])
