"""`pitot rules`: the list of what rules can say, and rules tested on a recording."""
import json

import pytest


@pytest.fixture(scope="module")
def recording(make_recording, tmp_path_factory):
    """6.4 s: the dump of test_windows has ended after 6.0 s."""
    return make_recording(tmp_path_factory.mktemp("rules") / "synthetic.pitot", kernels=700000)


def test_the_list(pitot):
    listed = json.loads(pitot("rules", "--json").stdout)
    names = [metric["name"] for metric in listed]
    assert names[:2] == ["hang", "sticky-error"] and {"step-time", "gpu-idle", "signal"} <= set(names)
    assert [metric["default"] for metric in listed if metric["default"]] == ["hang > 30s", "sticky-error", "xid", "fatal-signal", "gpu-lost"]
    text = pitot("rules").stdout
    assert all(metric["example"] in text or metric["default"] in text for metric in listed)
    assert text.count("yes") == 5


def test_rules_on_a_recording(pitot, recording):
    result = pitot("rules", "--test", recording, "launch-rate > 1/s", "hang > 1h", "signal USR2")
    assert result.stdout.splitlines()[0].split() == ["time", "rule", "outcome", "window", "process", "evidence"]
    assert "'hang > 1h' never holds" in result.stderr and "no recording shows when 'signal USR2' holds" in result.stderr
    usual = pitot("rules", "--test", recording)
    assert usual.stdout == "" and usual.stderr.count("never holds") == 5


def test_the_same_as_json(pitot, recording):
    rows = json.loads(pitot("rules", "--json", "--test", recording, "gpu-idle > 1us").stdout)
    assert rows and rows[0]["outcome"] == "dump" and rows[0]["dump"] == 1
    assert {row["outcome"] for row in rows[1:]} <= {"joined", "cooldown"}
    assert all(row["rule"] == "gpu-idle > 1us" and row["evidence"].startswith("GPU 0 has had no work") for row in rows)


def test_windows(pitot, recording):
    """A dump has the windows of all rules that hold before it is made; without own times those of `pitot record`."""
    rules = ["gpu-idle > 1us: dump pre=10ms post=3s", "launch-rate > 1/s: dump pre=2m"]
    rows = json.loads(pitot("rules", "--json", "--test", recording, *rules).stdout)
    first = rows[0]
    of_first = [row for row in rows if row["dump"] == first["dump"]]
    assert {(row["from_ns"], row["until_ns"]) for row in of_first} == {(first["from_ns"], first["until_ns"])}
    seen = {row["rule"]: row for row in reversed(of_first)}
    ends = [row["time_ns"] + (3 if rule == rules[0] else 5) * 10 ** 9 for rule, row in seen.items()]
    assert first["until_ns"] == max(ends)
    assert first["from_ns"] == (0 if rules[1] in seen else first["time_ns"] - 10 ** 7)
    text = pitot("rules", "--test", recording, *rules).stdout
    assert f"{first['from_ns'] / 1e9:.3f} to {first['until_ns'] / 1e9:.3f} s" in text and "window" in text
    outside = [row for row in rows if row["dump"] is None]
    assert outside and all(row["from_ns"] is None and row["until_ns"] is None for row in outside)


def test_what_is_refused(pitot, recording, tmp_path):
    assert "rules are tested in a recording" in pitot("rules", "hang > 3s", status=2).stderr
    assert "'hang >' needs a time with its unit" in pitot("rules", "--test", recording, "hang > 3", status=2).stderr
    assert "cannot open recording" in pitot("rules", "--test", tmp_path / "none", status=1).stderr
