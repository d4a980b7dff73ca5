"""Call stacks in a recording of many small segments, and in one whose tables are full."""
import shutil

ROUNDS = 20


def check_stacks(calls, stacks, nodes):
    """Every stack that calls refer to is there with all its frames; all rows of an id are equal. How many there are."""
    known, seen = {}, {}
    for node in nodes:
        assert node["parent"] == 0 or node["parent"] in known, "a caller comes first"
        assert known.setdefault(node["id"], node) == node
    for stack in stacks:
        assert seen.setdefault(stack["id"], stack) == stack
        depth, node = 0, stack["node"]
        while node:
            depth, node = depth + 1, known[node]["parent"]
        assert depth == stack["depth"]
    wanted = {call["stack"] for call in calls if call.get("stack")}
    assert wanted <= seen.keys()
    return len(wanted)


def test_each_segment_has_the_stacks_that_it_refers_to(record, rows, tmp_path):
    recording = record("train", "stacks=all;segment_bytes=20000", "--repeat", str(ROUNDS))
    segments = sorted(recording.glob("*.pit"))
    assert len(segments) > 1  # how many depends on how often the collector gets the processor
    repeated = 0
    for segment in segments:
        alone = tmp_path / "alone.pitot"
        alone.mkdir()
        shutil.copy(segment, alone)
        repeated += check_stacks(*(rows(alone, table) for table in ("api_call", "stack", "stack_node")))
        shutil.rmtree(alone)
    together = check_stacks(*(rows(recording, table) for table in ("api_call", "stack", "stack_node")))
    assert together < repeated


def test_a_lost_segment_changes_no_other_stack(record, pitot, tmp_path):
    recording = record("train", "stacks=all;segment_bytes=20000", "--repeat", str(ROUNDS))

    def folded():
        path = tmp_path / "out.folded"
        pitot("flame", recording, "--mode", "launches", "-o", path)
        lines = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
        path.unlink()
        return {stack: float(count) for stack, count in lines}

    whole = folded()
    min(recording.glob("*.pit"), key=lambda path: int(path.name.split(".")[1])).unlink()
    rest = folded()
    assert rest and not {stack: (count, whole.get(stack)) for stack, count in rest.items() if not 0 < count <= whole.get(stack, 0)}


def test_stacks_that_are_too_many_are_a_loss(record, rows, pitot):
    recording = record("kinds", "stacks=all;stacks_max=1", "--repeat", "50")
    calls = rows(recording, "api_call")
    lost = [row for row in rows(recording, "loss") if row["reason"] == "stack_limit"]
    stacks = rows(recording, "stack")
    without = sum(1 for call in calls if not call.get("stack"))
    of_calls = [row for row in lost if row["detail"].startswith("calls")]
    # One stack a generation of tables, and in the next one there is room again.
    assert len({row["id"] >> 20 for row in stacks}) == len(stacks) > 1
    assert {call["stack"] for call in calls if call.get("stack")} >= {row["id"] for row in stacks}
    assert 0 < sum(row["count"] for row in of_calls) <= without
    assert all(row["start_ns"] < row["end_ns"] for row in lost)
    for command in "info", "report":
        assert "stack" in pitot(command, recording).stdout.split("loss", 1)[1].lower()
