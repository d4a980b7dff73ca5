"""pitot merge: recordings of several hosts as one."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess

import pytest

from waiting import PATIENCE, wait_until


@pytest.fixture(name="hosts")
def fixture_hosts(make_recording, tmp_path):
    """What two hosts have recorded of a job, and the same in one folder: job_recording.c."""
    for name, kind in ("first", "job_first"), ("second", "job_second"), ("third", "job_third"), ("all", "job"):
        make_recording(tmp_path / f"{name}.pitot", kind)
    return tmp_path


def report(pitot, recording, *options):
    found = json.loads(pitot("report", recording, *options, "--json").stdout)
    del found["recording"]
    return found


def folders(path):
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize("options", ((), ("--ranks",), ("--ranks", "--critical-path")))
def test_the_result_is_what_one_folder_says(pitot, hosts, options):
    note = pitot("merge", "first.pitot", "second.pitot/", "-o", "job.pitot/").stderr
    assert note.startswith("pitot merge: job.pitot/: 2 recordings of 2 hosts, 4 processes, 4 ranks, ") and "not recorded" not in note
    assert report(pitot, "job.pitot", *options) == report(pitot, "all.pitot", *options)
    assert report(pitot, "job.pitot", "--ranks")["job"]["rank"] == 2
    assert "checksums  all right" in pitot("info", "--verify", "job.pitot").stdout
    assert not [name for name in folders(hosts) if "merging" in name]


def test_when_ranks_waited_and_for_which(pitot, make_recording, tmp_path):
    """Rank 2 is 100 us late in seven of eight steps of 1 ms, and rank 0 in the others; the hosts' clocks know 18 us."""
    recording = make_recording(tmp_path / "job.pitot", "job")
    found = report(pitot, recording, "--collectives")["rank_waits"]
    assert found == report(pitot, recording, "--ranks", "--collectives")["rank_waits"]
    assert report(pitot, recording)["rank_waits"] is report(pitot, recording, "--ranks")["rank_waits"] is None
    waited = {(pair["rank"], pair["for_rank"]): (pair["wait_ns"], pair["count"]) for pair in found["pairs"]}
    assert waited == {**{(rank, 2): (3_400_000, 34) for rank in (0, 1, 3)}, **{(rank, 0): (500_000, 5) for rank in (1, 2, 3)}}
    for group, awaited in zip(found["groups"], found["awaited"]):
        rank = group["first_rank"]
        assert rank == group["last_rank"] == awaited["first_rank"] and group["ranks"] == 1 and len(group["span_ns"]) == 60
        assert group["wait_ns"] == sum(group["span_ns"]) == sum(awaited["for_ns"]) == sum(
            ns for (waiting, _), (ns, _) in waited.items() if waiting == rank)
        assert [awaited["for_ns"][i] if i < len(awaited["for_ns"]) else 0 for i in range(4)] == [
            waited.get((rank, other), (0,))[0] for other in range(4)]
    for options in ("--collectives",), ("--collectives", "--ranks"):
        lines = pitot("report", recording, *options).stdout.partition("\nwaiting of ranks  ")[2].splitlines()
        assert lines[0] == "in 39.0 ms, 650 us a column" and [line.split()[1] for line in lines[2:6]] == ["8.7%", "10.0%", "1.3%", "10.0%"]
        rows = [line.rpartition("%  ")[2] for line in lines[2:6]]
        assert {len(row) for row in rows} == {61} and set(rows[3]) == {" ", ".", "|"} and rows[1] == rows[3]
        assert [line[-5:] for line in lines[7:11]] == ["  # |", ". # |", ".   |", ". # |"]
        pitot("report", recording, *options, "--force", "-o", "page.html")
        page = (tmp_path / "page.html").read_text().partition("<p>ranks from top to bottom, time ")[2].partition("<table")[0]
        assert page.count("<svg") == page.count("</svg>") == 2 and "NaN" not in page
        times, pairs = page.split("</svg>")[:2]
        cells = re.findall(r'<rect x="([0-9.]+)" y="(\d+)" width="([0-9.]+)" height="13" fill-opacity="\.(\d\d)"/>', pairs)
        assert [(int(y) // 14, round((float(x) - 80) / 215), shade) for x, y, width, shade in cells] == [
            (0, 2, "99"), (1, 0, "10"), (1, 2, "99"), (2, 0, "10"), (3, 0, "10"), (3, 2, "99")]
        assert 60 < times.count("<rect") < 240


def test_ranks_that_are_not_there_are_not_walked(pitot, make_recording, tmp_path):
    """Each process says that it is one of four billion: that takes no processor for seconds."""
    recording = make_recording(tmp_path / "vast.pitot", "job_vast")
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CPU, (4, 4))}
    for options, said in (((), "; 4294967290 of 4294967294 ranks were not recorded"),
                          (("--ranks",), "4,294,967,290 ranks of 4,294,967,294 without collectives in the recording: 4, 5, 6, ")):
        assert json.loads(pitot("report", recording, *options, "--json", **limit).stdout)["job"]["kind"] == "unknown"
        assert said in " ".join(pitot("report", recording, *options, **limit).stdout.split())


def test_a_host_whose_clock_was_never_set(pitot, make_recording, tmp_path):
    """Its collectives align it for the verdict on ranks; all else says that its times are on another clock."""
    whole = report(pitot, make_recording(tmp_path / "job.pitot", "job"))
    for kind, kind_of in ("job_unset", "rank"), ("job_unbound", "unknown"):
        recording = make_recording(tmp_path / kind, kind)
        for options in (), ("--ranks",):
            found, text = report(pitot, recording, *options), " ".join(pitot("report", recording, *options).stdout.split())
            first, second = found["job"]["hosts"]
            assert found["job"]["kind"] == kind_of and (first["realtime"], second["realtime"]) == (True, False)
            assert second["method"] == ("collectives" if kind_of == "rank" else "none")
            why = "could not be aligned: CLOCK_REALTIME of otherhost was not set or not recorded, and too few collectives"
            assert (why in text) == (kind_of == "unknown")
            note = "; times of otherhost are on no common clock, because CLOCK_REALTIME was not set"
            assert (note in text) == (not options)
            if not options:
                assert [process.get("unaligned", False) for process in found["processes"]] == [False, False, True, True]
            if kind_of == "rank":
                for key in "rank", "causes", "late_ns", "compared":
                    assert found["job"][key] == whole["job"][key]
    assert "unaligned" not in json.dumps(whole)


def test_what_adjtimex_says_of_the_clocks(pitot, make_recording, tmp_path):
    """Broadcasts bound no clock: what synchronizes them does, if it states an error. Older recordings have no word of it."""
    for kind, kind_of, method, limit, said in (
            ("job_stated", "alike", "realtime", 10_000, (True, True)),
            ("job_unstated", "unknown", "none", None, (True, False)),
            ("job", "rank", "collectives", None, (None, None))):
        recording = make_recording(tmp_path / kind, kind)
        job, text = report(pitot, recording, "--ranks")["job"], " ".join(pitot("report", recording, "--ranks").stdout.split())
        first, second = job["hosts"]
        assert (job["kind"], first["method"], second["method"]) == (kind_of, "reference", method)
        assert (first["synchronized"], second["synchronized"]) == said and second["realtime_error_ns"] == limit
        assert second["uncertainty_ns"] == {"realtime": 20_000, "none": None}.get(method, second["uncertainty_ns"])
        assert ("; CLOCK_REALTIME of otherhost is not synchronized: start chronyd there" in text) == (kind == "job_unstated")
        assert ("within 10.0 us" in text, "not synchronized" in text) == (kind != "job", kind == "job_unstated")
        rows = pitot("sql", recording, "SELECT host, synchronized, realtime_error_ns FROM host_clock", "--json").stdout.splitlines()
        assert "otherhost" in [json.loads(row)["host"] for row in rows]


def test_record_asks_for_the_error_of_the_clock(pitot, tmp_path):
    """Twice, in its own process: when it starts and when it ends. Where that is forbidden, nothing is known."""
    pitot("record", "-o", tmp_path / "r", "--", "true")
    rows = [json.loads(line) for line in pitot("view", tmp_path / "r", "clock", "--json").stdout.splitlines()]
    assert len(rows) == 2 and rows[0]["monotonic_ns"] < rows[1]["monotonic_ns"]
    for row in rows:
        known = row.get("unsynchronized") is not None
        assert known == (row.get("offset_ns") is not None) and row.get("unsynchronized") in (None, 0, 1)


def test_merging_a_host_whose_clock_was_never_set(pitot, hosts, make_recording):
    """The note is that of the report."""
    for file in (make_recording(hosts / "unset.pitot", "job_unset")).glob("1*.pit"):
        file.unlink()
    note = pitot("merge", "first.pitot", "unset.pitot", "-o", "two.pitot").stderr
    assert "; times of otherhost are on no common clock, because CLOCK_REALTIME was not set or not recorded there" in note


def test_hosts_that_were_started_on_different_days_are_on_one_clock(pitot, hosts):
    """The second host's CLOCK_MONOTONIC is five days ahead: all that is in the job took 42 ms at the same time."""
    pitot("merge", "second.pitot", "first.pitot", "-o", "job.pitot")
    info = json.loads(pitot("info", "job.pitot", "--json").stdout)
    assert info["duration_ns"] == 42_000_000 == report(pitot, "job.pitot")["duration_ns"]
    for table, columns in ("kernel", "start_ns,end_ns"), ("api_call", "start_ns,end_ns"), ("clock", "monotonic_ns,realtime_ns"):
        rows = [json.loads(line) for line in pitot(
            "view", "job.pitot", table, "--columns", f"pid,{columns}", "--json").stdout.splitlines()]
        of = {pid: [[row[name] for name in columns.split(",")] for row in rows if row["pid"] == pid] for pid in (101, 201)}
        assert of[101] == of[201] != []
    for window in ("--since", "10ms"), ("--rank", "3"):
        assert report(pitot, "job.pitot", *window)["gpus"] == report(pitot, "all.pitot", *window)["gpus"] != []
    pitot("export", "job.pitot", "-o", "job.json")
    events = json.loads((hosts / "job.json").read_text())["traceEvents"]
    assert max(event["ts"] + event.get("dur", 0) for event in events if "ts" in event) <= 42_000
    alone = json.loads(pitot("info", "second.pitot", "--json").stdout)
    assert (alone["start_unix_ns"], alone["duration_ns"]) == (info["start_unix_ns"], info["duration_ns"])


def test_files_are_shared_and_outlive_their_recordings(pitot, hosts):
    found = pitot("merge", "first.pitot", "second.pitot", "-o", "job.pitot", "--json", json_output=True)
    assert (found["recordings"], found["segments"], found["hosts"], found["processes"], found["ranks"]) == (2, 8, 2, 4, 4)
    assert found["linked_files"] == found["segments"] and found["unreadable_segments"] == 0
    assert found["bytes"] == sum(file.stat().st_size for file in (hosts / "job.pitot").glob("*.pit"))
    before = report(pitot, "job.pitot", "--ranks")
    shutil.rmtree(hosts / "first.pitot")
    shutil.rmtree(hosts / "second.pitot")
    assert report(pitot, "job.pitot", "--ranks") == before
    assert json.loads((hosts / "job.pitot/recording.json").read_text())["recorded_by"] == "pitot merge"


def test_a_merged_recording_can_be_merged(pitot, hosts):
    pitot("merge", "first.pitot", "-o", "one.pitot", "-q")
    assert pitot("merge", "second.pitot", "one.pitot", "-o", "job.pitot", "-q").stderr == ""
    assert report(pitot, "job.pitot", "--ranks") == report(pitot, "all.pitot", "--ranks")


def test_equal_process_ids_of_two_hosts(pitot, hosts):
    """Each process has the exit status that the launcher of its own host saw: its rank."""
    pitot("merge", "first.pitot", "third.pitot", "-o", "job.pitot")
    processes = json.loads(pitot("info", "job.pitot", "--json").stdout)["processes"]
    assert [(p["pid"], p["rank"], p["host"], p["exit_status"]) for p in processes] == [
        (100, 0, "testhost", 0), (101, 1, "testhost", 1), (100, 2, "otherhost", 2), (101, 3, "otherhost", 3)]
    ranks = report(pitot, "job.pitot", "--ranks")["job"]
    assert [(rank["rank"], rank["pid"]) for rank in ranks["ranks"]] == [(0, 100), (1, 101), (2, 100), (3, 101)]
    assert ranks["rank"] == 2


def test_missing_ranks_are_named(pitot, hosts):
    for file in (hosts / "second.pitot").glob("201.*.pit"):
        file.unlink()
    said = "; rank 3 of 4 was not recorded"
    assert said in pitot("merge", "first.pitot", "second.pitot", "-o", "job.pitot").stderr
    assert said in " ".join(pitot("report", "job.pitot").stdout.split())
    assert "; ranks 2, 3 of 4 were not recorded" in pitot("merge", "first.pitot", "-o", "one.pitot").stderr


def test_cut_and_empty_segments_are_said(pitot, hosts):
    cut = hosts / "second.pitot/200.0.pit"
    cut.write_bytes(cut.read_bytes()[:-300])
    (hosts / "second.pitot/7.0.pit").touch()
    said = pitot("merge", "first.pitot", "second.pitot", "-o", "job.pitot").stderr
    assert "1 segment cannot be read" in said
    (hosts / "all.pitot/7.0.pit").touch()
    shutil.copy(cut, hosts / "all.pitot/200.0.pit")
    losses = {name: sorted((loss["reason"], loss["count"]) for loss in report(pitot, name)["loss"]) for name in ("job.pitot", "all.pitot")}
    assert losses["job.pitot"] == losses["all.pitot"] != []


def refused(pitot, hosts, *words, status=1):
    before = folders(hosts)
    said = pitot("merge", *words, status=status).stderr
    assert folders(hosts) == before
    return said


def test_refusals_leave_nothing(pitot, hosts):
    shutil.copytree(hosts / "first.pitot", hosts / "copy.pitot")
    (hosts / "empty.pitot").mkdir()
    (hosts / "damaged.pitot").mkdir()
    (hosts / "damaged.pitot/1.0.pit").write_bytes(b"PITOTSEG" + bytes(100))
    for words, why in (
            (("first.pitot", "second.pitot", "first.pitot"), "is in both 'first.pitot' and 'first.pitot'"),
            (("first.pitot", "copy.pitot", "-o", "x"), "name only one of them"),
            (("first.pitot",), "exists; choose another folder with -o, or replace it with --force"),
            (("first.pitot", "-o", "first.pitot", "--force"), "is one of the recordings to merge"),
            (("first.pitot", "-o", ""), "takes the name of a folder"),
            ((), "name the recordings to merge")):
        words = words if "-o" in words else (*words, "-o", "second.pitot" if "exists" in why else "x.pitot")
        assert why in refused(pitot, hosts, *words, status=None), words
    for name, why in (("empty.pitot", "no .pit segment in it"), ("damaged.pitot", "none of its segments can be read"),
                      ("absent.pitot", "No such file"), ("first.pitot/recording.json", "cannot open recording")):
        assert why in refused(pitot, hosts, "second.pitot", name, "-o", "x.pitot")
    assert "cannot create" in refused(pitot, hosts, "first.pitot", "-o", "no/such/folder")
    shutil.copy(hosts / "second.pitot/200.0.pit", hosts / "third.pitot" / f"{'9' * 251}.pit")
    assert "File name too long" in refused(pitot, hosts, "third.pitot", "-o", "x.pitot"), "with a number in front"
    assert "name the new recording with -o" in refused(pitot, hosts, "first.pitot", status=2)


def test_force_replaces_a_recording_and_nothing_else(pitot, hosts):
    pitot("merge", "first.pitot", "-o", "job.pitot")
    pitot("merge", "first.pitot", "second.pitot", "-o", "job.pitot", "--force")
    assert report(pitot, "job.pitot", "--ranks") == report(pitot, "all.pitot", "--ranks")
    (hosts / "job.pitot/mine.txt").touch()
    assert "not part of a recording" in refused(pitot, hosts, "first.pitot", "-o", "job.pitot", "--force", status=2)
    assert (hosts / "job.pitot/mine.txt").exists() and report(pitot, "job.pitot", "--ranks")["job"]["rank"] == 2


def test_links_in_a_recording_are_not_followed(pitot, hosts):
    secret = hosts / "secret"
    secret.write_text("secret")
    link = hosts / "first.pitot/9.0.pit"
    link.symlink_to(secret)
    assert "'first.pitot/9.0.pit'" in refused(pitot, hosts, "first.pitot", "second.pitot", "-o", "x.pitot")
    link.unlink()
    os.mkfifo(link)
    assert "'first.pitot/9.0.pit'" in refused(pitot, hosts, "first.pitot", "-o", "x.pitot")
    link.unlink()
    (hosts / "first.pitot/cubins").symlink_to(hosts)
    assert "cubins" in refused(pitot, hosts, "first.pitot", "-o", "x.pitot")


def test_device_code_comes_along(pitot, make_recording, tmp_path):
    for name, other in ("a", False), ("b", True):
        make_recording(tmp_path / name, "stalls")
        assert (tmp_path / name / "cubins").is_dir()
        if other:
            for file in (tmp_path / name / "cubins").iterdir():
                file.write_bytes(file.read_bytes() + b"x")
    said = pitot("merge", "a", "b", "-o", "both.pitot").stderr
    count = len(folders(tmp_path / "a/cubins"))
    assert folders(tmp_path / "both.pitot/cubins") == folders(tmp_path / "a/cubins")
    assert f"{count} file" in said and "differ from others with their checksum" in said
    assert not (tmp_path / "both.pitot/cubins").is_symlink()


def test_what_may_still_grow_is_said(pitot, hosts):
    for state, said in ("recording", "is not complete: if it still grows"), ("ended", "has no function names yet"), ("complete", ""):
        (hosts / "first.pitot/recording.json").write_text(f'{{\n  "state": "{state}"\n}}\n')
        text = pitot("merge", "first.pitot", "-o", "job.pitot", "--force").stderr
        assert {file.stat().st_nlink for file in (hosts / "first.pitot").glob("*.pit")} == {1 if state == "recording" else 2}
        assert said in text and ("'first.pitot'" in text) == bool(said)


def test_copies_that_cannot_be_written(pitot, hosts):
    """As on a full disk: nothing remains. Files of a recording that may still grow are copied."""
    other = hosts / "other"
    other.mkdir()
    (hosts / "first.pitot/recording.json").write_text('{\n  "state": "recording"\n}\n')

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    said = pitot("merge", "first.pitot", "-o", "other/x.pitot", status=1, preexec_fn=limit).stderr
    assert "File too large" in said and not folders(other)
    found = pitot("merge", "first.pitot", "-o", "other/x.pitot", "--json", json_output=True)
    assert found["linked_files"] == 0 and report(pitot, "other/x.pitot")["job"]["ranks"]


def test_ctrl_c_leaves_nothing(program, environment, pitot, hosts):
    for number in range(5000):
        (hosts / f"first.pitot/x{number}.0.pit").touch()
    merge = subprocess.Popen([program, "merge", "first.pitot", "-o", "x.pitot", "-q"], cwd=hosts, env=environment, stdin=subprocess.DEVNULL)
    wait_until(lambda: any("x.pitot" in name for name in folders(hosts)), "the folder beside the output", merge)
    merge.send_signal(signal.SIGINT)
    status = merge.wait(PATIENCE)
    assert (status, [name for name in folders(hosts) if name.startswith("x.pitot")]) in ((130, []), (0, ["x.pitot"]))
    if status == 0:  # it was too fast
        assert len(list((hosts / "x.pitot").glob("*.pit"))) == 5004


def test_a_second_recording_of_a_report(pitot, hosts):
    said = pitot("report", "first.pitot", "second.pitot", status=2).stderr
    assert "to read several as one: pitot merge A B -o job.pitot" in said
    assert "unexpected argument 'absent'" in pitot("report", "first.pitot", "absent", status=2).stderr
