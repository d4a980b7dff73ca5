"""Nodes of CUDA graphs: which kernels are whose, and which code made them."""
import json

import pytest

NODES = 20  # of the graph on the tape that tape-make makes


def test_kernels_of_a_graph_lead_to_the_stack_that_made_their_node(record, rows, made_tape):
    recording = record(made_tape, "stacks=all")
    nodes = {row["node"]: row for row in rows(recording, "graph_node")}
    stacks = {row["id"]: row for row in rows(recording, "stack")}
    assert len(nodes) == 2 * NODES and all(row["graph"] == 1 and row["kind"] == "kernel" for row in nodes.values())
    replayed = [row for row in rows(recording, "kernel") if row.get("graph_node")]
    assert len({row["graph_node"] for row in replayed}) == NODES
    for kernel in replayed:
        clone = nodes[kernel["graph_node"]]
        assert clone.get("stack") is None, "who instantiates is not who made it"
        original = nodes[clone["original"]]
        assert original.get("original") is None and stacks[original["stack"]]["end"] == "complete"


def test_the_graph_of_a_real_run(record, rows):
    """PyTorch's, captured and replayed three times on an H200. CUPTI tells of a clone twice: made, and of which."""
    recording = record("train", "stacks=none")
    events = rows(recording, "graph_node")
    originals = {row["node"]: row["original"] for row in events if row["original"]}
    made = {row["node"] for row in events if not row["original"]}
    replayed = [row["graph_node"] for row in rows(recording, "kernel") if row.get("graph_node")]
    assert len(events) == 112 and len(originals) == 36 and made.issuperset(originals)
    assert len(replayed) == 3 * len(set(replayed)) and all(originals[node] in made for node in replayed)


def test_without_stacks_there_are_nodes(record, rows, made_tape):
    nodes = rows(record(made_tape, "stacks=none"), "graph_node")
    assert len(nodes) == 2 * NODES and not any(node.get("stack") for node in nodes)


def capability(rows, recording):
    return {row["name"]: row["state"] for row in rows(recording, "capability")}["graph_node"]


def test_no_nodes_where_only_launches_are_recorded(record, rows, made_tape):
    recording = record(made_tape, "stacks=all;graphs=launch")
    assert rows(recording, "graph_node") == [] and capability(rows, recording) == "off"


def test_a_cupti_without_ids_of_nodes(record, rows, made_tape, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("missing cuptiGetGraphNodeId\n")
    recording = record(made_tape, "stacks=all", "--faults", str(faults))
    assert rows(recording, "graph_node") == [] and capability(rows, recording) == "unavailable"


def test_the_end_names_a_cheaper_way_where_nodes_are_expensive(pitot, build, source, make_tape):
    """Of a graph of 20 nodes that is launched 6,000 times, every 100 us; not where that is every 500 us, or 1,000 times."""
    for program, launches, expensive in ("often", 6000, True), ("graphs", 6000, False), ("often", 1000, False):
        tape = make_tape(program, launches)
        for json_option in (["--json"], []):
            end = pitot("record", "--no-cpu", "--stacks", "none", "--force", "-o", "rec", *json_option, "--", build / "standin" / "tape-play", tape,
                        env={"LSAN_OPTIONS": f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0"}).stderr
            if json_option:
                nodes = json.loads(end)["graph_nodes"]
                assert bool(nodes) == expensive
                assert not nodes or nodes["cost_ns"] == launches * (2300 + NODES * 740) < nodes["span_ns"]
            else:
                assert ("pitot record --graphs launch" in end) == expensive
        tape.unlink()


def test_launches_are_not_requested_too_late(start_play, make_tape):
    """CUPTI crashes when they are asked for after a graph was instantiated, and the stand-in aborts: nodes are recorded."""
    play = start_play(make_tape("graphs", 2000), "--repeat", "100", "--rate", "4000", clock=None,
                      options=f"graphs=launch;stacks=none;delay_ns={200 * 10**6}")
    play.until_rows("kernel", 10 * NODES)
    play.kill()
    assert play.count("graph_launch") == 0
    told = [row for row in play.rows("capability") if "before graphs are instantiated" in (row["reason"] or "")]
    assert len(told) == 1 and told[0]["actual"] == "node" and told[0]["requested"] == "launch"
    assert (told[0]["name"], told[0]["state"]) == ("graph_launch", "unavailable")


def test_graphs_without_kernels_of_their_own_are_not_missing_kernels(start_play, make_tape):
    """1,500 launches of graphs, each with one record: nothing is lost."""
    play = start_play(make_tape("graphs", 1500), clock=None, options="graphs=launch;stacks=none")
    play.end()
    assert play.count("graph_launch") == 1500 and play.count("kernel") == 0
    assert play.losses() == {}
