"""examples/fleet: the same question asked of Parquet files by DuckDB and by Spark; configurations that an agent reads."""
import importlib.util
import json
import re
import shutil
import subprocess
import sys

import pytest


@pytest.fixture(name="ask")
def fixture_ask(pitot, source, rank_recording, tmp_path):
    """ask("sleep-3", "--spark", …): the rows that the example prints about a training."""

    def run(name, *options):
        pitot("export", rank_recording(name), "-o", tmp_path / "job.parquet", "--partition", "--force")
        done = subprocess.run([sys.executable, source / "examples/fleet/stragglers.py", tmp_path / "job.parquet", *options], text=True,
                              capture_output=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def need(package):
    if not importlib.util.find_spec(package):
        pytest.skip(f"needs the Python package {package}")


@pytest.mark.parametrize("name, late", [("sleep-3", 1), ("sleep-10", 1), ("slow-gpu", 1)])
def test_the_straggler(ask, name, late):
    """It is the last in each step, and the report says of it the same, but for the first steps."""
    need("duckdb")
    worst, other = ask(name)
    assert (worst["rank"], other["rank"]) == (late, 1 - late) and worst["collectives"] == other["collectives"]
    assert worst["delayed_ns"] == other["waited_ns"] and other["delayed_ns"] == worst["waited_ns"]
    assert worst["last"] + other["last"] == worst["collectives"] and worst["delayed_ns"] > 10 * other["delayed_ns"]


def test_both_engines_agree(ask):
    need("duckdb")
    need("pyspark")
    if not shutil.which("java"):
        pytest.skip("needs java")
    assert ask("alternating", "--spark", "local-cluster[2,1,1024]") == ask("alternating")


@pytest.mark.parametrize("name", ["agent.json", "daemonset.yaml"])
def test_configurations(pitot, source, tmp_path, name):
    """An agent knows all keys, and runs with other folders and credentials."""
    text = (source / "examples/fleet" / name).read_text()
    if name.endswith(".yaml"):
        text = re.search(r"agent\.json: \|\n((?:    .*\n)+)", text)[1]
    options = json.loads(text)
    (tmp_path / "secret").write_text("0" * 32)
    (tmp_path / "secret").chmod(0o600)
    ours = {"lake": str(tmp_path / "lake"), "spool": str(tmp_path / "spool"), "secret": str(tmp_path / "secret"), "s3-credentials": "", "listen": "off"}
    options = {key: ours.get(key, value) for key, value in options.items()} | {"recordings": [], "no-live": True, "once": True}
    (tmp_path / "agent.json").write_text(json.dumps(options))
    (tmp_path / "lake").mkdir()
    pitot("agent", "--config", tmp_path / "agent.json")
