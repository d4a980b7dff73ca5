"""What calls say of streams and events, and what nodes of graphs depend on: without --sync, from parameters and callbacks."""
NODES = 20  # of the graph on the tape that tape-make makes
ROUNDS = 8


def test_streams_and_events_of_calls(record, rows, make_tape):
    recording = record(make_tape("waits", ROUNDS), "stacks=none")
    functions = {row["name"]: row for row in rows(recording, "api_function")}
    calls = [(functions[row["function"]], row) for row in rows(recording, "api_call")]
    seen = {}
    for function, row in calls:
        seen.setdefault(function["name"], []).append((row["stream"], row["event"] is not None, row["context"]))
    assert seen.pop("cuLaunchKernel") == 2 * ROUNDS * [(None, False, None)]
    assert seen.pop("cuGraphLaunch") == [(None, False, None)]
    assert seen == {"cuEventRecord": ROUNDS * [(8, True, 1)], "cuEventRecordWithFlags": ROUNDS * [(9, True, 1)],
                    "cuStreamWaitEvent": ROUNDS * [(9, True, 1)], "cuLaunchHostFunc": ROUNDS * [(9, False, 1)],
                    "cuEventSynchronize": ROUNDS * [(None, True, 1)], "cuStreamSynchronize": ROUNDS * [(8, False, 1)]}
    assert {f["name"]: f["waits_for"] for f, _ in calls if f["waits_for"]} == {
        "cuStreamWaitEvent": "stream_wait_event", "cuEventSynchronize": "event", "cuStreamSynchronize": "stream"}
    assert {f["name"]: f["kind"] for f, _ in calls}["cuLaunchHostFunc"] == "host_function"
    events = {row["event"] for _, row in calls if row["event"]}
    assert len(events) == 3, "handles are reused"


def test_a_cupti_that_does_not_know_the_stream(record, rows, make_tape, tmp_path):
    """Nothing is made up: the column is missing, the event is there."""
    faults = tmp_path / "faults"
    faults.write_text("missing cuptiGetStreamIdEx\n")
    recording = record(make_tape("waits", ROUNDS), "stacks=none", "--faults", str(faults))
    found = rows(recording, "api_call")
    assert not any(row["stream"] for row in found) and sum(row["event"] is not None for row in found) == 4 * ROUNDS


def test_failed_calls_have_results_and_no_handles(record, rows, make_tape):
    """Calls that are captured without parameters, as older CUPTIs may, have neither."""
    recording = record(make_tape("captures", 3), "stacks=none")
    kinds = {row["name"]: row["kind"] for row in rows(recording, "api_function")}
    calls = [row for row in rows(recording, "api_call") if kinds[row["function"]] in ("begin_capture", "end_capture")]
    assert len(calls) == 6 and not any(row["stream"] or row["event"] for row in calls)


def test_parameters_of_real_calls(record, rows):
    """A rank of two H200: what PyTorch and NCCL record and wait for. The tape knows only the default stream's id."""
    recording = record("ranks/overlap.0", "stacks=none")
    calls = [(row["function"], row) for row in rows(recording, "api_call")]
    records = [row for name, row in calls if name.startswith("cuEventRecord")]
    waits = [row for name, row in calls if name == "cuStreamWaitEvent"]
    assert (len(records), len(waits)) == (280, 218) and all(row["event"] for row in records + waits)
    assert {row["stream"] for row in records} == {7, None}
    syncs = [row for name, row in calls if name.startswith("cudaEventSynchronize")]
    assert len(syncs) == 80 and all(row["event"] for row in syncs)


def test_edges_of_a_graph(record, rows, make_tape):
    edges = rows(record(make_tape("waits", 1), "stacks=none"), "graph_edge")
    first = min(row["dependency"] for row in edges)
    assert [(row["dependency"] - first, row["node"] - first) for row in edges if not row["removed"]] == [
        (i, i + 1) for i in range(NODES - 1)]
    assert [(row["dependency"] - first, row["node"] - first) for row in edges if row["removed"]] == [(NODES - 2, NODES - 1)]
    assert all(row["graph"] == 1 for row in edges)


def test_default_streams_of_contexts(record, rows, made_tape):
    assert {row["null_stream"] for row in rows(record("train", "stacks=none"), "context")} == {7}


def test_a_polled_event_is_one_call(record, rows, make_tape):
    """From the first query to the one that finds it done; a query that finds nothing to wait for is none. --api all has them all."""
    tape = make_tape("polls", ROUNDS)
    recording = record(tape, "stacks=none")
    functions = {row["name"]: row for row in rows(recording, "api_function")}
    assert (functions["cuEventQuery"]["kind"], functions["cuEventQuery"]["waits_for"]) == ("query", "event")
    queries = [row for row in rows(recording, "api_call") if row["function"] == "cuEventQuery"]
    kernels = rows(recording, "kernel")
    assert len(queries) == len(kernels) == ROUNDS
    assert all(row["event"] == 0x555500060000 and row["result"] is None for row in queries)
    for query, kernel in zip(queries, kernels):
        assert query["end_ns"] - query["start_ns"] > 150_000 and query["end_ns"] >= kernel["end_ns"] > query["start_ns"]
    every = [row for row in rows(record(tape, "api=all"), "api_call") if row["function"] == "cuEventQuery"]
    assert len(every) > 10 * ROUNDS and {row["result"] for row in every} == {None, 600}
