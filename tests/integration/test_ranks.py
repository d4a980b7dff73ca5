"""Trainings on two GPUs with one known fault each: which rank is late, where in the program, and by how much."""
import json

import pytest

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
def fixture_job(pitot, build, source):
    """Plays the tapes of both ranks, whose clock is that of their host, into one recording."""

    def play(name):
        tapes = source / "tests/data/tapes/ranks"
        player = build / "standin" / "tape-play"
        pitot("record", "--no-cpu", "--stacks", "none", "--force", "-o", "job.pitot", "--", "sh", "-c",
              f"{player} {tapes}/{name}.0.tape && {player} {tapes}/{name}.1.tape")
        return json.loads(pitot("report", "job.pitot", "--json").stdout), pitot("report", "job.pitot").stdout

    return play


@pytest.mark.parametrize("name", LATE)
def test_the_late_rank_its_place_and_how_long_it_was_there(job, name):
    rank, gpu, place, milliseconds = LATE[name]
    report, text = job(name)
    cause = report["job"]["causes"][0]
    assert report["job"]["kind"] == "rank" and report["job"]["rank"] == rank
    assert (cause["rank"], cause["state"], cause["place"]) == (rank, gpu, place)
    assert cause["count"] >= 11 and cause["excess_ns"] / cause["count"] == pytest.approx(milliseconds * 1e6, rel=0.1)
    assert f"verdict  bound by rank {rank}\n" in text and "what helps" not in text


def test_ranks_that_are_late_in_turn(job):
    report, text = job("alternating")
    causes = report["job"]["causes"][:2]
    assert report["job"]["kind"] == "turns" and report["job"]["rank"] is None and "bound by ranks in turn\n" in text
    assert {cause["rank"] for cause in causes} == {0, 1}
    for cause in causes:
        assert cause["place"] == "range sleep" and cause["count"] in (5, 6)
        assert cause["late_ns"] / cause["count"] == pytest.approx(3e6, rel=0.1)


@pytest.mark.parametrize("name", ("balanced", "small", "overlap", "mixed", "graph"))
def test_ranks_that_are_alike(job, name):
    report, text = job(name)
    assert report["job"]["kind"] == "alike" and report["job"]["compared"] > 30
    assert "2 ranks are bound alike" in text and "bound by rank" not in text


def test_communication_takes_the_time(job):
    report, text = job("large")
    assert report["job"]["kind"] == "communication" and "communication-bound, all ranks alike" in text


def test_a_rank_that_does_not_come(job):
    report, text = job("missing")
    assert report["job"]["kind"] == "hung" and report["job"]["rank"] == 1
    assert "hung: rank 1 did not come" in text and "for which 1 rank waited" in text


def test_one_rank_has_no_section_of_ranks(pitot, build, source):
    pitot("record", "--no-cpu", "--stacks", "none", "--force", "-o", "job.pitot", "--", build / "standin" / "tape-play",
          source / "tests/data/tapes/ranks/sleep-3.0.tape")
    report = json.loads(pitot("report", "job.pitot", "--json").stdout)
    assert report["job"]["kind"] == "single" and not report["job"]["ranks"]
    assert "rank" not in pitot("report", "job.pitot").stdout.partition("\nverdict")[2].partition("GPU busy")[0]
