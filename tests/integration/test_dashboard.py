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


@pytest.fixture
def with_window(played, agent, lake):
    """The address of the metrics of an agent that has made a window of a training, the name of the window, and the agent."""
    process, _ = played("train", 1000, SLURM_JOB_ID="77")
    one = agent("--interval", "1s", "--ship", "1s", "-p", process.pid, "--when", "nvtx == forward", "--listen", "127.0.0.1:0", quiet=False)
    page = re.search(r"http://127\.0\.0\.1:\d+/metrics", one.stderr.readline())[0]
    [window] = wait_until(lambda: list(lake.glob("window/*/*.pitot")), "a window is there", one)
    yield page, window.name, one
    process.send_signal(signal.SIGINT)
    process.wait()


def test_exemplars_lead_to_windows(with_window):
    """In OpenMetrics, for who accepts it; its own parser reads the page."""
    page, window, one = with_window
    request = urllib.request.Request(page, headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"})
    with urllib.request.urlopen(request) as answer:
        text, kind = answer.read().decode(), answer.headers["Content-Type"]
    assert kind.startswith("application/openmetrics-text; version=1.0.0") and text.endswith("\n# EOF\n")
    [line] = [line for line in text.splitlines() if line.startswith("pitot_windows_total{")]
    found = re.fullmatch(r'pitot_windows_total\{job_id="77",.*\} 1 # \{window="([^"]+)"\} 1 (\d+\.\d{3})', line)
    assert found and found[1] == window and float(found[2]) > 1.7e9
    plain = get(page)
    assert "# EOF" not in plain and " # {" not in plain and "# TYPE pitot_windows_total counter" in plain and "# TYPE pitot_windows counter" in text
    names = lambda text: {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    assert names(plain) == names(text)
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    [sample] = families["pitot_windows"].samples
    assert sample.exemplar.labels == {"window": window} and families["pitot_step_duration_seconds"].type == "histogram"


def test_prometheus_stores_exemplars(with_window, started, source, tmp_path):
    if not shutil.which("prometheus"):
        pytest.skip("needs prometheus")
    page, window, one = with_window
    config = (source / "examples/fleet/prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(config.replace("127.0.0.1:9464", urllib.parse.urlsplit(page).netloc).replace("15s", "1s"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = started("prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb", f"--web.listen-address={address}",
                     "--enable-feature=exemplar-storage", stderr=subprocess.DEVNULL)

    def ask():
        try:
            answer = json.loads(get(f"http://{address}/api/v1/query_exemplars?query=pitot_windows_total&start=0&end=4000000000"))
        except OSError:
            return None
        return [exemplar["labels"]["window"] for series in answer["data"] for exemplar in series["exemplars"]]

    assert set(wait_until(ask, "it has an exemplar", server)) == {window}
