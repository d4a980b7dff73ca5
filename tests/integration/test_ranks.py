"""Trainings on two GPUs with one known fault each: which rank is late, where in the program, and by how much."""
import json
import shutil

import pytest

import machine_files

# Rank, what its GPU did, the place, and milliseconds each time (bench/workloads/ranks.py).
LATE = {
    "sleep-1": (1, "host", "range sleep", 1),
    "sleep-3": (1, "host", "range sleep", 3),
    "sleep-10": (1, "host", "range sleep", 10),
    "slow-data": (1, "host", "range data", 3),
    "small-sleep": (1, "host", "range sleep", 3),
    "overlap-sleep": (1, "host", "range sleep", 3),
    "graph-sleep": (1, "host", "range sleep", 3),
    "slow-gpu": (1, "compute", "range forward", 4.4),  # eight more forward passes
    "pipeline": (1, "compute", "range forward", 4.4),
}


@pytest.fixture(name="job")
def fixture_job(pitot, rank_recording):
    """job("sleep-3"): the report of both ranks, as JSON and as text."""

    def report(name, *options):
        folder = rank_recording(name)
        return json.loads(pitot("report", folder, "--json").stdout), pitot("report", folder, *options).stdout

    return report


@pytest.fixture(name="without_plugin")
def fixture_without_plugin(pitot, build, source):
    """The same of a recording in which NCCL's plug-in was refused: only the kernels' names are known."""

    def report(name):
        tapes = source / "tests/data/tapes/ranks"
        pitot("record", "--no-cpu", "--stacks", "none", "--force", "-o", "names.pitot", "--", "env", "NCCL_PROFILER_PLUGIN=none",
              build / "standin" / "tape-play", "--ranks", tapes / f"{name}.0.tape", tapes / f"{name}.1.tape")
        assert "all_reduce" not in pitot("view", "names.pitot", "collective", "--json").stdout
        assert "; some are matched by name and order only\n" in pitot("report", "names.pitot").stdout
        return json.loads(pitot("report", "names.pitot", "--json").stdout)

    return report


@pytest.mark.parametrize("name", LATE)
def test_the_late_rank_its_place_and_how_long_it_was_there(job, name):
    report, text = job(name)
    check_late(report, name)
    assert f"verdict  bound by rank {LATE[name][0]}\n" in text and "what helps" not in text


@pytest.mark.parametrize("name", ("sleep-3", "pipeline", "graph-sleep"))
def test_names_and_order_are_enough(without_plugin, name):
    check_late(without_plugin(name), name)


def check_late(report, name):
    rank, gpu, place, milliseconds = LATE[name]
    cause = report["job"]["causes"][0]
    assert report["job"]["kind"] == "rank" and report["job"]["rank"] == rank
    assert (cause["rank"], cause["state"], cause["place"]) == (rank, gpu, place)
    assert cause["count"] >= 11 and cause["excess_ns"] / cause["count"] == pytest.approx(milliseconds * 1e6, rel=0.1)


def test_waiting_is_not_useful(job):
    """Rank 0's GPU waits for half of the time: it is not the busier one, and its kernels are not slow."""
    report, text = job("sleep-3")
    wait_ms = sum(rank["wait_ns"] for rank in report["job"]["ranks"]) / 1e6
    line, = [line for line in text.splitlines() if "only waited for other ranks in" in line]
    assert 30 < wait_ms < float(line.split()[-5]) < 50  # the line is about the start-up, too
    busy = {gpu["gpu"]: gpu["busy"]["union_ns"] for gpu in report["gpus"]}
    assert busy[0] > busy[1] and report["verdict"]["busy_ns"] < busy[1] + 1e6


def test_ranks_that_are_late_in_turn(job):
    report, text = job("alternating")
    causes = report["job"]["causes"][:2]
    assert report["job"]["kind"] == "turns" and report["job"]["rank"] is None and "bound by several ranks\n" in text
    assert {cause["rank"] for cause in causes} == {0, 1}
    for cause in causes:
        assert cause["place"] == "range sleep" and cause["count"] in (5, 6)
        assert cause["late_ns"] / cause["count"] == pytest.approx(3e6, rel=0.1)


@pytest.mark.parametrize("name", (*LATE, "alternating", "balanced", "large", "overlap", "graph"))
def test_the_critical_path_leads_over_the_ranks(pitot, rank_recording, name):
    """Its pieces tile the window, none of them waits for another rank, and it agrees with the verdict."""
    report = json.loads(pitot("report", rank_recording(name), "--critical-path", "--json").stdout)
    path, kind = report["rank_path"], report["job"]["kind"]
    total = path["window_ns"]
    assert sum(owner["total_ns"] for owner in path["owners"]) == sum(rank["total_ns"] for rank in path["ranks"]) == total > 0
    assert path["stays"][0]["end_ns"] == total and path["stays"][-1]["start_ns"] == 0
    assert all(later["start_ns"] == earlier["end_ns"] for later, earlier in zip(path["stays"], path["stays"][1:]))
    assert all(later["rank"] != earlier["rank"] for later, earlier in zip(path["stays"], path["stays"][1:]))
    assert path["transfer_ns"] == sum(owner["total_ns"] for owner in path["owners"] if owner["class"] == "transfer")
    assert all(owner["line"] is None for owner in path["owners"] if owner["class"] in ("launch", "gap", "return", "late", "unknown"))
    own = {rank["rank"]: rank["total_ns"] - rank["transfer_ns"] - rank["pause_ns"] for rank in path["ranks"]}
    waited = sum(rank["wait_ns"] for rank in report["job"]["ranks"])
    if name in LATE:
        rank, state, place, milliseconds = LATE[name]
        assert kind == "rank" and own[rank] > 0.9 * sum(own.values()) and path["transfer_ns"] < total - waited / 2
        of_place = sum(owner["total_ns"] for owner in path["owners"] if (owner["rank"], owner["line"], owner["class"]) == (
            rank, place, {"host": "host", "compute": "kernel"}[state]))
        # The tape of the pipeline lacks the events for which the streams of its sends wait: most of that is unknown.
        assert of_place + (path["unknown_ns"] if name == "pipeline" else 0) > 11 * 0.9e6 * milliseconds
    elif kind == "turns":
        sleeps = {owner["rank"]: owner["total_ns"] for owner in path["owners"] if owner["line"] == "range sleep"}
        assert all(14e6 < ns < 20e6 for ns in sleeps.values()) and len(sleeps) == 2
    else:
        assert (path["transfer_ns"] > total / 2) == (kind == "communication")


def test_the_path_over_ranks_in_words(job, pitot, rank_recording):
    text = job("slow-gpu", "--critical-path")[1].partition("\ncritical path over ranks  of ")[2]
    assert " through 72 collectives, " in text.splitlines()[0]
    first = next(line for line in text.splitlines() if ": " in line)
    assert first.split()[4:6] == ["1", "range"] and " range forward: sm80_xmma_gemm" in first
    alone = pitot("report", rank_recording("sleep-3"), "--rank", "0", "--critical-path").stdout
    assert "over ranks" not in alone and "\ncritical path in detail  of " in alone
    assert job("sleep-3")[0]["rank_path"] is None and "over ranks" not in job("sleep-3")[1]


@pytest.mark.parametrize("name", ("sleep-3", "alternating", "pipeline"))
def test_the_path_over_ranks_of_one_process_at_a_time(pitot, rank_recording, name):
    """Usual latencies are those of one process each, so that what is late, or unknown, may differ."""
    options = (rank_recording(name), "--critical-path", "--json")
    whole, single = (json.loads(pitot("report", *options, *more).stdout) for more in ((), ("--ranks",)))
    assert single["job"]["kind"] == whole["job"]["kind"]
    for key in ("window_ns", "collectives", "transfer_ns", "ranks", "stays"):
        assert single["rank_path"][key] == whole["rank_path"][key]
    assert single["rank_path"]["owners"][0] == whole["rank_path"]["owners"][0]
    assert "\ncritical path over ranks  of " in pitot("report", *options[:2], "--ranks").stdout
    assert json.loads(pitot("report", rank_recording(name), "--ranks", "--json").stdout)["rank_path"] is None


@pytest.mark.parametrize("name", ("balanced", "small", "overlap", "mixed", "graph"))
def test_ranks_that_are_alike(job, name):
    report, text = job(name)
    assert report["job"]["kind"] == "alike" and report["job"]["compared"] > 30
    assert "2 ranks are bound alike" in text and "bound by rank" not in text


def test_what_the_delays_prove(job):
    """A sleep in each step is no chance; one or two delays may be."""
    evidence, text = job("sleep-3")[0]["job"]["evidence"], " ".join(job("sleep-3")[1].split())
    assert (evidence["round"], evidence["rounds"], evidence["rank_rounds"], evidence["rank"]) == ("step", 12, 12, 1)
    assert 45 < evidence["rank_percent_low"] < evidence["rank_percent"] < evidence["rank_percent_high"] < 62
    assert evidence["rank_part_percent_low"] > 95
    share, low, high = (f"{evidence[f'rank_percent{end}']:.1f}%" for end in ("", "_low", "_high"))
    assert f"({share}; {low} to {high} by resampled steps)" in text and " a step, and in 12 of 12 steps " in text
    evidence, text = job("small")[0]["job"]["evidence"], " ".join(job("small")[1].split())
    assert evidence["rank"] == 0 and evidence["late_percent"] > 5
    few = "rank 0 most; 149 us a step is no more than ranks of balanced programs differ by, 500 us"
    assert (", which may be chance " if evidence["late_percent_low"] <= 5 else few) in text
    for name in ("graph", "overlap"):  # in which one or two delays are most of it
        evidence, text = job(name)[0]["job"]["evidence"], " ".join(job(name)[1].split())
        assert evidence["late_percent"] > 15 > evidence["late_percent_low"] and ", which may be chance " in text


def test_what_few_steps_prove(pitot, rank_recording):
    report = json.loads(pitot("report", rank_recording("sleep-3"), "--step", "4..6", "--json").stdout)
    evidence = report["job"]["evidence"]
    assert evidence["rounds"] < 5 and evidence["rank_percent_low"] is None and evidence["rank_percent"] > 40
    text = " ".join(pitot("report", rank_recording("sleep-3"), "--step", "4..6").stdout.split())
    assert "steps, which are too few to tell a habit from chance" in text and "resampled" not in text


def test_communication_takes_the_time(job):
    report, text = job("large")
    assert report["job"]["kind"] == "communication" and "communication-bound, all ranks alike" in text


def test_a_rank_that_does_not_come(job):
    report, text = job("missing")
    assert report["job"]["kind"] == "hung" and report["job"]["rank"] == 1
    assert "hung: rank 1 did not come" in text and "for which 1 rank waited" in text
    assert "before the end: cudaDeviceSynchronize from " in text and f"pitot dump --stacks {report['job']['ranks'][1]['pid']}\n" in text
    assert "ranks  no collectives to compare\n" in text


def test_what_no_collective_shows_is_unknown_and_not_0(job):
    """Of two collectives one is the first, before which nothing is compared, and one has no second rank."""
    report, text = job("missing", "--collectives")
    job_of = report["job"]
    assert job_of["compared"] == 0 and job_of["span_ns"] is None and job_of["late_ns"] is None and job_of["evidence"] is None
    for rank, measures in zip(job_of["ranks"], job_of["measures"]):
        assert [key for key, value in rank.items() if value is None] == [
            "compute_ns", "copy_ns", "host_ns", "transfer_ns", "wait_ns", "last", "late_ns"]
        assert [key for key, value in measures.items() if value is None] == ["step_ns", "busy_ns", "wait_ns", "exposed_ns"]
    rows = text.partition("\nranks  ")[2].splitlines()[2:4]
    assert [row.split()[3:] for row in rows] == [7 * ["-"]] * 2
    alone = report["collectives"][1]
    assert (alone["ranks"], alone["compared"]) == (1, 0)
    assert {alone[key] for key in ("kernel_ns", "transfer_ns", "skew_ns", "max_skew_ns", "last_rank", "last_count")} == {None}
    lines = text.partition("\ncollectives\n")[2].splitlines()
    assert lines[2].split() == ["all_reduce", "1", "1", *6 * "-", alone["communicator"]]


def test_collectives_by_function_size_and_communicator(job):
    report, text = job("large", "--collectives")
    large, flag = report["collectives"]
    assert (large["function"], large["ranks"], large["count"], large["compared"]) == ("all_reduce", 2, 14, 14)
    assert large["bytes"] == large["bus_bytes"] == 14 * 512 << 20  # 2 (n - 1) / n is 1
    assert 250 < large["bus_bytes"] / large["transfer_ns"] < 450  # GB/s: NVLink's peak is 450 in one direction
    assert flag["bytes"] == 4 and flag["communicator"] == large["communicator"] and len(flag["communicator"]) == 16
    assert "\ncollectives\n" in text and "512.0 MiB" in text and "\ncollectives" not in job("large")[1]


def test_what_ranks_send_to_each_other(job):
    report, text = job("pipeline", "--collectives")
    size = 14 * 8 << 20
    assert report["sends"] == {"pattern": "pairs", "groups": 1, "unknown": 0, "collectives": 2, "pairs": [
        {"from": 0, "to": 1, "bytes": size, "count": 14}, {"from": 1, "to": 0, "bytes": size, "count": 14}]}
    lines = text.partition("\nsends  a pair: 28 sends, 224.0 MiB\n")[2].splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["from", "\\", "to", "0", "1"], ["0", "112.0", "MiB"], ["1", "112.0", "MiB"]]
    assert lines[3].startswith("  2 collectives not included") and "\nsends" not in job("large", "--collectives")[1]
    assert job("large")[0]["sends"]["pattern"] == "none"


GPUS = {f"0000:00:0{i}.0": (f"pci0000:00/0000:00:0{i}.0", 0, "0x10de") for i in (6, 7)}  # of the machine of the tapes


@pytest.fixture(name="linked_job")
def fixture_linked_job(pitot, build, source, tmp_path):
    """linked_job("large", nvml=True): a recording on a machine of which the links are known."""

    def record(name, nvml):
        tapes = [source / f"tests/data/tapes/ranks/{name}.{rank}.tape" for rank in (0, 1)]
        (tmp_path / "lib").mkdir()
        if nvml:
            machine_files.make_nvml(tmp_path / "lib", [f"0000{pci}" for pci in GPUS])
        machine_files.make_machine(tmp_path / "root", GPUS)
        pitot("record", "--no-cpu", "--stacks", "none", "-o", "linked.pitot", "--", build / "standin" / "tape-play", "--ranks", *tapes,
              env={"PITOT_SYSTEM_ROOT": str(tmp_path / "root"), "LD_LIBRARY_PATH": str(tmp_path / "lib")})
        return tmp_path / "linked.pitot"

    return record


def test_bandwidth_beside_that_of_the_link(pitot, linked_job):
    recording = linked_job("large", nvml=True)
    large = json.loads(pitot("report", recording, "--collectives", "--json").stdout)["collectives"][0]
    assert large["link_bytes_per_s"] == 450e9
    share = 100e9 * large["bus_bytes"] / large["transfer_ns"] / 450e9
    text = pitot("report", recording, "--collectives").stdout.partition("\ncollectives\n")[2].splitlines()
    assert "of link" in text[0] and f"{share:.1f}%" in text[1] and 50 < share < 100
    topology = json.loads(pitot("report", recording, "--ranks", "--json").stdout)["topology"]
    assert [(device["kind"], device["pci"], device["nvlinks"]) for device in topology["devices"]] == [("gpu", pci, 18) for pci in GPUS]
    assert [topology["links"][0][key] for key in ("a", "b", "nvlinks", "by_switch", "bytes_per_s")] == [0, 1, 18, True, 450e9]
    for options in (), ("--ranks",):
        assert "\n  1 pair of ranks: 18 NVLinks through a switch, 450 GB/s in each direction\n" in pitot("report", recording, *options).stdout


def test_links_of_which_little_is_known(pitot, linked_job, job):
    """Without NVML there may be NVLinks, so that PCIe's bandwidth would be a guess; older recordings know nothing."""
    recording = linked_job("large", nvml=False)
    assert json.loads(pitot("report", recording, "--collectives", "--json").stdout)["collectives"][0]["link_bytes_per_s"] is None
    said = pitot("report", recording, "--ranks", "--collectives").stdout
    assert "\n  1 pair of ranks: PCIe through the host bridge, NVLinks unknown\n" in said
    assert "of link" not in pitot("report", recording, "--collectives").stdout
    assert "pair of ranks" not in job("large")[1] and job("large")[0]["collectives"][0]["link_bytes_per_s"] is None


def test_functions_of_a_mixed_program(job):
    """The second communicator was split from the first; a kernel of the group carries three collectives."""
    groups = job("mixed")[0]["collectives"]
    steps = [group for group in groups if group["count"] == 14]
    assert sorted(group["function"] for group in steps) == [
        "all_gather", "all_reduce", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"]
    assert len({group["communicator"] for group in steps}) == 2 and all(group["compared"] == 14 for group in steps)
    fused, = [group for group in steps if group["function"] == "all_reduce" and group["bytes"] is None]
    sizes = {group["function"]: group["bytes"] // 14 for group in steps if group["bytes"] and group is not fused}
    assert sizes == {"all_gather": 8192, "reduce_scatter": 4096, "broadcast": 4096, "all_reduce": 4096}


def test_some_steps_of_all_ranks(job, pitot, rank_recording):
    """The window begins with the first rank's first step and ends with the last rank's last one."""
    whole = json.loads(pitot("report", rank_recording("sleep-3"), "--steps", "--json").stdout)
    report, text = job("sleep-3"), pitot("report", rank_recording("sleep-3"), "--step", "4..6").stdout
    found = json.loads(pitot("report", rank_recording("sleep-3"), "--step", "4..6", "--json").stdout)
    items = [item for item in whole["steps"]["items"] if 4 <= item["number"] <= 6]
    since, until = found["window"]["start_ns"], found["window"]["end_ns"]
    assert len(items) == 6 and since == min(item["host_start_ns"] for item in items)
    assert until == max(item["start_ns"] + item["duration_ns"] for item in items)
    assert (found["job"]["kind"], found["job"]["rank"]) == ("rank", 1) and found["job"]["causes"][0]["place"] == "range sleep"
    assert 12 <= found["job"]["compared"] < report[0]["job"]["compared"] and "bound by rank 1\n" in text
    sums = {number: sum(item["work_ns"] for item in items if item["number"] == number) for number in (4, 5, 6)}
    assert sum(sums.values()) <= sum(gpu["busy"]["sum_ns"] for gpu in found["gpus"]) < sum(
        gpu["busy"]["sum_ns"] for gpu in whole["gpus"]) / 2
    for wrong, why in (("4..99", "there is no step 99: they are 1 to 12"), ("6..4", "takes a number"), ("0", "takes a number")):
        assert why in pitot("report", rank_recording("sleep-3"), "--step", wrong, status=2).stderr
    assert "leave out --since" in pitot("report", rank_recording("sleep-3"), "--step", 4, "--since", "1s", status=2).stderr
    assert "compares ranks, too" in pitot("report", rank_recording("sleep-3"), "--step", 4, "--ranks", status=2).stderr


@pytest.mark.parametrize("name", ("sleep-3", "alternating", "missing", "pipeline"))
def test_one_process_at_a_time_finds_the_same(job, pitot, rank_recording, name):
    report, text = job(name)
    ranks = json.loads(pitot("report", rank_recording(name), "--ranks", "--json").stdout)
    assert {rank.pop("gpu") for rank in ranks["job"]["ranks"]} == {0, 1} == {rank.pop("gpu") for rank in report["job"]["ranks"]}
    assert ranks["job"] == report["job"]
    lines = text.partition("\nverdict  ")[2].partition("\n\n")[0].splitlines()
    verdict = "\n".join(line for line in lines if not line.startswith("  its last call was "))  # calls are not read
    assert verdict in pitot("report", rank_recording(name), "--ranks").stdout


def test_processes_whose_files_have_one_prefix_are_read_together(pitot, rank_recording, tmp_path):
    recording = rank_recording("sleep-3")
    for file in recording.glob("[0-9]*.pit"):
        (tmp_path / "host.pitot").mkdir(exist_ok=True)
        shutil.copy(file, tmp_path / "host.pitot" / f"host.{file.name}")
    ranks = json.loads(pitot("report", "host.pitot", "--ranks", "--json").stdout)["job"]
    assert [rank["rank"] for rank in ranks["ranks"]] == [0, 1] and ranks["kind"] == "rank" and ranks["rank"] == 1


def test_a_recording_of_a_rank_that_was_cut(pitot, rank_recording, tmp_path):
    """Wherever it was cut, there is a verdict on the rest or none, and that a file cannot be read is said."""
    whole = rank_recording("sleep-3")
    victim = sorted(whole.glob("[0-9]*.pit"))[1]
    content, kinds = victim.read_bytes(), set()
    for part in range(10):
        recording = tmp_path / f"cut-{part}.pitot"
        shutil.copytree(whole, recording)
        (recording / victim.name).write_bytes(content[:len(content) * part // 10])
        done = pitot("report", recording, "--ranks", "--collectives", "--critical-path", "--json")
        job = json.loads(done.stdout)["job"]
        kinds.add(job["kind"])
        assert job["kind"] != "rank" or job["rank"] == 1
        assert part or "parts of the recording are damaged or missing" in done.stderr
    assert {"single", "rank"} <= kinds <= {"single", "rank", "alike", "unknown"}
    assert not pitot("report", whole, "--ranks").stderr


def test_ranks_in_sql(pitot, rank_recording):
    report = json.loads(pitot("report", rank_recording("sleep-3"), "--critical-path", "--json").stdout)

    def ask(query):
        return [json.loads(line) for line in pitot("sql", rank_recording("sleep-3"), query, "--json").stdout.splitlines()]

    assert ask("SELECT rank, late_ns, wait_ns FROM rank_summary") == [
        {key: rank[key] for key in ("rank", "late_ns", "wait_ns")} for rank in report["job"]["ranks"]]
    assert ask("SELECT rank, place FROM rank_cause ORDER BY late_ns DESC LIMIT 1") == [{"rank": 1, "place": "range sleep"}]
    assert ask("SELECT sum(total_ns) AS ns FROM rank_path") == [{"ns": report["rank_path"]["window_ns"]}]
    assert ask("SELECT class, line FROM rank_path LIMIT 1") == [{"class": "host", "line": "range sleep"}]
    assert ask("SELECT * FROM host_clock") == []  # there is one host


def test_a_recording_without_ranks(pitot, make_recording, tmp_path):
    make_recording(tmp_path / "one.pitot", kernels=2000)
    assert "fewer than two ranks with collectives" in pitot("report", "one.pitot", "--ranks").stdout
    assert "name a page" in pitot("report", "one.pitot", "--ranks", "-o", "x.svg", status=2).stderr


def test_what_is_measured_of_each_rank(job):
    report, text = job("sleep-3")
    ranks, measures = report["job"]["ranks"], report["job"]["measures"]
    assert [row["rank"] for row in measures] == [0, 1] and report["job"]["outliers"] is None
    assert "outliers are not judged: there are fewer than 4 ranks" in text
    for rank, row in zip(ranks, measures):
        assert row["busy_ns"] == rank["compute_ns"] + rank["copy_ns"] and row["wait_ns"] == rank["wait_ns"]
        assert row["exposed_ns"] == rank["transfer_ns"] + rank["wait_ns"]
        assert row["step_ns"] == pytest.approx(5.2e6, rel=0.1)  # the program prints 5.3 ms


def test_what_if_does_not_blame_a_collective_for_its_waiting(pitot, rank_recording):
    """Half of an all-reduce that waits for a sleeping rank would bring nothing; without the sleep it is the other training."""

    def what_if(name, *words):
        return json.loads(pitot("what-if", rank_recording(name), *words, "--json").stdout)

    found = what_if("sleep-3", "-n", "0")
    host, first, straggler, second = found["candidates"][:4]  # half of the host's time is half of the sleep, which is on the other rank
    assert host["class"] == "host" and first["class"] == "wait" and first["name"] == "waiting for other ranks"
    assert first["gain_ns"] > straggler["gain_ns"] > 3 * second["gain_ns"] and straggler["class"] == "straggler"
    assert found["rank_wait_ns"] == first["cost_ns"] > 12 * 2.5e6 and found["unknown_rank_waits"] == 0
    collective, = [c for c in found["candidates"] if c["name"].startswith("ncclDevKernel")]
    assert collective["cost_ns"] < found["rank_wait_ns"] / 5
    removed, truth = what_if("sleep-3", "wait remove"), what_if("balanced", "gpu x1")
    assert abs(removed["predicted"]["step_ns"] - truth["corrected"]["step_ns"]) < removed["uncertainty_ns"] + truth["uncertainty_ns"]
    assert removed["transforms"][0]["cost_ns"] == found["rank_wait_ns"]
    step = found["corrected"]["step_ns"]
    for words in ("kernel:nccl* x0.5", "kernel:nccl* =1us", "gpu x1"):
        assert step * 0.9 < what_if("sleep-3", words)["predicted"]["step_ns"] <= step
    assert what_if("sleep-3", "kernel:nccl* remove")["predicted"]["step_ns"] < step * 0.6  # with their waiting
    half = what_if("sleep-3", "wait x0.5")["predicted"]["step_ns"]
    assert half == step - first["gain_ns"] and removed["predicted"]["step_ns"] < half < step


@pytest.mark.parametrize("name", ("sleep-1", "sleep-3", "sleep-10", "slow-gpu", "slow-data", "alternating", "graph-sleep"))
def test_what_if_no_rank_were_late(pitot, rank_recording, name):
    """The truth is the same training without the fault: both predictions with their bars."""
    alike = "graph" if name == "graph-sleep" else "balanced"
    without, same, alone = (json.loads(pitot("what-if", rank_recording(training), words, "--json").stdout)
                            for training, words in ((name, "no straggler"), (alike, "gpu x1"), (name, "gpu x1")))
    assert alone["identity_ns"] == 0 and alone["ranks"] == 2 and alone["unresolved_collectives"] == 0
    assert alone["predicted"]["step_ns"] == alone["corrected"]["step_ns"] > same["corrected"]["step_ns"] * 1.2
    bars = without["uncertainty_ns"] + same["uncertainty_ns"]  # and the rank that waits is slower than one that does not
    assert abs(without["predicted"]["step_ns"] - same["corrected"]["step_ns"]) < max(bars, alone["corrected"]["step_ns"] / 20)
    change, = without["transforms"]
    assert change["matched"] >= 11 and change["cost_ns"] > 10 * (alone["corrected"]["step_ns"] - same["corrected"]["step_ns"])


def test_what_if_transfers_were_shorter(pitot, rank_recording):
    """Half of the transfers bring as much where these bound the step, and nothing where a rank is late."""
    for name, halves in (("large", True), ("sleep-10", False)):
        whole, half, none = (json.loads(pitot("what-if", rank_recording(name), words, "--json").stdout)
                             for words in ("comm x1", "comm x0.5", "comm remove"))
        change = whole["transforms"][0]["cost_ns"] / whole["steps"]
        steps = [found["predicted"]["step_ns"] for found in (whole, half, none)]
        assert steps[0] == whole["corrected"]["step_ns"] and steps[0] > steps[1] > steps[2]
        if halves:
            assert steps[0] - steps[1] == pytest.approx(change / 2, rel=0.1) and steps[0] - steps[2] == pytest.approx(change, rel=0.1)
        else:
            assert steps[0] - steps[2] < steps[0] / 20


def test_what_if_one_rank_changes_all_wait(pitot, rank_recording):
    """Less host time of the rank that sleeps is less of every rank's step: what others gain, they would wait."""
    def step(*words):
        return json.loads(pitot("what-if", rank_recording("sleep-3"), *words, "--json").stdout)["predicted"]["step_ns"]

    ranks = {rank["rank"]: rank["pid"] for rank in json.loads(
        pitot("report", rank_recording("sleep-3"), "--ranks", "--json").stdout)["job"]["ranks"]}
    whole, half = step("host x1"), step("host x0.5")
    assert whole - half > 1.5e6  # of the 3 ms that rank 1 sleeps
    assert step("kernel:*gemm* x0.5") > whole * 0.8  # rank 1 is late for another reason
    text = pitot("what-if", rank_recording("sleep-3"), "no straggler").stdout
    assert "2 ranks are simulated together" in text and len(ranks) == 2
    for words in ("no straggler", "comm x0.5"):
        assert "needs all ranks of a job" in pitot("what-if", rank_recording("sleep-3"), "--rank", "0", words, status=2).stderr


def test_what_to_work_on_is_on_any_rank(pitot, rank_recording):
    """The rank that is simulated waits: what it waits for is on the other one, and a candidate for all."""
    def what_if(*words):
        return json.loads(pitot("what-if", rank_recording("sleep-3"), *words, "--json").stdout)

    found = what_if("-n", "0")
    pids = {rank["rank"]: rank["pid"] for rank in json.loads(
        pitot("report", rank_recording("sleep-3"), "--ranks", "--json").stdout)["job"]["ranks"]}
    of = {candidate["class"]: candidate for candidate in reversed(found["candidates"])}
    assert found["pid"] == pids[0] == of["wait"]["pid"] and of["host"]["pid"] == pids[1]
    step = found["corrected"]["step_ns"]
    assert of["comm"]["gain_ns"] == step - what_if("comm x0.5")["predicted"]["step_ns"] > 0
    whole = what_if("no straggler")
    assert of["straggler"]["gain_ns"] == pytest.approx((step - whole["predicted"]["step_ns"]) / 2, rel=0.15)
    assert of["straggler"]["cost_ns"] == whole["transforms"][0]["cost_ns"]
    text = pitot("what-if", rank_recording("sleep-3")).stdout
    assert "what ranks need longer than the median rank\n" in text and "  transfers of collectives, on all ranks\n" in text
    assert any(line.endswith("(rank 1)") for line in text.splitlines())


def test_what_if_of_one_rank_after_another(pitot, rank_recording):
    """Where one rank is late, it alone brings all of it. The median step of two that are late in turn is that of either."""
    def what_if(name, *words):
        return json.loads(pitot("what-if", rank_recording(name), *words, "--json").stdout)

    for name in "sleep-3", "slow-gpu", "alternating":
        found, whole = what_if(name), what_if(name, "no straggler")
        step, all_gain = found["corrected"]["step_ns"], found["corrected"]["step_ns"] - whole["predicted"]["step_ns"]
        late = [rank for rank in found["slow_ranks"] if step - rank["step_ns"] > step / 20]
        assert sorted(found["slow_ranks"], key=lambda rank: rank["step_ns"]) == found["slow_ranks"]
        if name != "alternating":
            assert [rank["rank"] for rank in late] == [1] and step - late[0]["step_ns"] == pytest.approx(all_gain, rel=0.05)
        for rank in found["slow_ranks"]:
            alone = what_if(name, f"no straggler {rank['rank']}")
            assert alone["predicted"]["step_ns"] == rank["step_ns"]
            assert (alone["transforms"][0]["matched"], alone["transforms"][0]["cost_ns"]) == (rank["slower"], rank["slower_ns"])
        assert sum(rank["slower_ns"] for rank in found["slow_ranks"]) == whole["transforms"][0]["cost_ns"]
    text = pitot("what-if", rank_recording("sleep-3")).stdout.partition("if it were as fast as the median rank\n")[2]
    assert text.splitlines()[0].endswith("  rank 1: 'no straggler 1'")
    assert "'no straggler 7': rank 7 is none of those" in pitot("what-if", rank_recording("sleep-3"), "no straggler 7", status=2).stderr
    assert "'no straggler x' names no rank" in pitot("what-if", rank_recording("sleep-3"), "no straggler x", status=2).stderr


def test_what_if_says_which_waiting_is_unknown(pitot, rank_recording):
    """Of one rank alone nobody knows for whom it waited: then that is the kernels' time."""
    text = pitot("what-if", rank_recording("sleep-3"), "--rank", "0").stdout
    found = json.loads(pitot("what-if", rank_recording("sleep-3"), "--rank", "0", "--json").stdout)
    assert found["rank_wait_ns"] == 0 and found["unknown_rank_waits"] == 72
    assert "of 72 collectives it is unknown how long they only waited" in text and "without --rank" in " ".join(text.split())


def test_one_rank_has_no_section_of_ranks(pitot, build, source):
    pitot("record", "--no-cpu", "--stacks", "none", "--force", "-o", "job.pitot", "--", build / "standin" / "tape-play",
          source / "tests/data/tapes/ranks/sleep-3.0.tape")
    report = json.loads(pitot("report", "job.pitot", "--json").stdout)
    assert report["job"]["kind"] == "single" and not report["job"]["ranks"]
    assert "\nranks  " not in pitot("report", "job.pitot").stdout


def test_a_rank_whose_others_were_not_recorded_may_only_wait(pitot, build, source, rank_recording):
    """It is not GPU-bound, and its all-reduces need not be faster: they wait for the rank that sleeps."""
    pitot("record", "--no-cpu", "--stacks", "none", "--force", "-o", "job.pitot", "--", "env", "RANK=0", "WORLD_SIZE=2",
          build / "standin" / "tape-play", source / "tests/data/tapes/ranks/sleep-3.0.tape")
    report, text = json.loads(pitot("report", "job.pitot", "--json").stdout), " ".join(pitot("report", "job.pitot").stdout.split())
    verdict, known = report["verdict"], json.loads(pitot("report", rank_recording("sleep-3"), "--json").stdout)["verdict"]
    assert verdict["start_up"]["later_kind"] == "collective" and "rank 1 of 2 was not recorded" in text
    assert verdict["collective_ns"] > 30e6 and verdict["wait_ns"] == 0 and "optimizing the kernels" not in text
    assert "are collectives, of which waiting for other ranks is unknown" in text and "what helps after it: recordings of all ranks" in text
    assert known["collective_ns"] < 10e6, "of the first few, before there are steps"
