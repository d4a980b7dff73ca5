"""examples/fleet/grafana.json: its queries are of metrics that agents have, and a real Prometheus answers each of them."""
import json
import re
import shutil
import signal
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from waiting import wait_until


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture(name="queries")
def fixture_queries(source):
    """[(panel, query)], with what Grafana puts in place of its variables."""
    dashboard = json.loads((source / "examples/fleet/grafana.json").read_text())
    return [(panel["title"], target["expr"].replace("$job_id", ".*").replace("$__rate_interval", "10s"))
            for panel in dashboard["panels"] for target in panel["targets"]]


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


def test_metrics_of_queries(queries, played, page_of):
    process, _ = played("train", 1000, SLURM_JOB_ID="77")
    port, one = page_of(process)
    page = f"http://127.0.0.1:{port}/metrics"
    wait_until(lambda: "pitot_step_duration_seconds_bucket{" in get(page) and "pitot_gpu_busy_seconds_total{" in get(page), "it has read a step", one)
    known = set(re.findall(r"^(\w+)[{ ]", get(page), re.M))
    for title, query in queries:
        names = set(re.findall(r"\b(?:pitot|process)_\w+", query))
        assert names and names <= known, title
    process.send_signal(signal.SIGINT)
    process.wait()


def test_prometheus_answers(queries, started, played, page_of, source, tmp_path):
    if not shutil.which("prometheus"):
        pytest.skip("needs prometheus")
    process, _ = played("train", 100000, SLURM_JOB_ID="77")
    port, one = page_of(process)
    config = (source / "examples/fleet/prometheus.yml").read_text()
    assert "127.0.0.1:9464" in config and "15s" in config
    (tmp_path / "prometheus.yml").write_text(config.replace("9464", str(port)).replace("15s", "1s"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = started("prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb", f"--web.listen-address={address}",
                     stderr=subprocess.DEVNULL)

    def ask(query):
        try:
            answer = json.loads(get(f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
        except OSError:
            return None
        assert answer["status"] == "success", query
        return answer["data"]["result"]

    for title, query in queries:
        wait_until(lambda query=query: ask(query), f"'{title}' has an answer", server)
    assert one.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait()
