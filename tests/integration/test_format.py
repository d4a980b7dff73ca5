"""docs/format.md is enough to read a recording: a reader written from it finds what `pitot view` shows."""
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import format_reader  # noqa: E402

TAPES = {
    "kinds": "stacks=all;sync=1;memory=1;api=all",
    "graphs-launch": "stacks=all;graphs=launch",
    "train": "stacks=all;segment_bytes=20000",  # several segments
}


def shown(value, column, texts, start_ns):
    """A value as `pitot view --json` prints it; what a reference leads to is not looked at."""
    if value is None:
        return None
    if column["type"] == "time":
        return value - start_ns
    if column["type"] == "string":
        return texts[value]
    if column["type"] == "enum":
        return {number: name for name, number in column["values"].items()}.get(value, value)
    if column["type"] == "bytes":
        return value.decode(errors="replace")
    return 0 if column["type"] == "ref" else value


@pytest.mark.parametrize("tape", TAPES)
def test_a_reader_by_the_specification_agrees(tape, record, pitot, rows):
    recording = record(tape, TAPES[tape])
    schema = pitot("schema", "--json", json_output=True)
    start_ns = pitot("info", recording, "--json", json_output=True)["start_monotonic_ns"]
    sessions = format_reader.read_recording(recording, schema)
    assert len(sessions) == 1
    for session in sessions.values():
        texts = {number: text.decode(errors="replace") for number, text in session["string"]}
        for table in schema["tables"]:
            columns = table["columns"]
            collect = set if table["repeated"] else Counter
            read = collect(tuple(shown(value, column, texts, start_ns) for value, column in zip(row, columns))
                           for row in session.get(table["name"], []))
            names = [column["name"] for column in columns]
            view = rows(recording, table["name"], "-c", ",".join(names))
            assert read == collect(
                tuple(0 if column["type"] == "ref" and row[name] is not None
                      else None if name == "scope"  # is never recorded: `view` has its path by the ranges
                      else row[name]
                      for name, column in zip(names, columns)) for row in view), table["name"]


def test_references_lead_to_what_is_shown(record, pitot, rows):
    recording = record("kinds", "stacks=none")
    schema = pitot("schema", "--json", json_output=True)
    session, = format_reader.read_recording(recording, schema).values()
    texts = dict(session["string"])
    names = {row[0]: texts[row[1]].decode() for row in session["kernel_config"]}
    assert Counter(names[row[2]] for row in session["kernel"]) == Counter(
        row["config.name"] for row in rows(recording, "kernel", "-c", "config.name"))
