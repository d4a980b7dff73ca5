"""pitot agent --otlp: a collector gets what /metrics has, in OpenTelemetry's own definitions."""
import json
import signal

import pytest

from http_collector import Collector
from shipped_rows import recorded
from waiting import wait_until

FAST = ("--interval", "1s", "--ship", "1s", "--otlp-interval", "1s")


@pytest.fixture
def collector():
    server = Collector()
    yield server
    server.end()


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def metrics(body):
    """{name: [({attribute: value}, point)]}, and the resource."""
    [resource] = json.loads(body)["resourceMetrics"]
    [scope] = resource["scopeMetrics"]
    found = {}
    for metric in scope["metrics"]:
        [kind] = {"sum", "gauge", "histogram"} & set(metric)
        assert metric["description"] and metric["unit"] in ("1", "s", "By")
        assert kind == "gauge" or metric[kind]["aggregationTemporality"] == 2
        assert (kind == "sum") == metric[kind].get("isMonotonic", False)
        found[metric["name"]] = [({a["key"]: a["value"]["stringValue"] for a in point["attributes"]}, point) for point in metric[kind]["dataPoints"]]
    return found, {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}


def test_sums_are_those_of_the_recording(collector, agent, played, rows, environment):
    environment.update(OTEL_SERVICE_NAME="trainings", OTEL_EXPORTER_OTLP_HEADERS="api-key=a%2Cb%20c,x=y=z")
    process, folder = played("train", 2, SLURM_JOB_ID='7"7')
    one = agent(*FAST, "-p", process.pid, "--otlp", collector.url + "/")
    assert process.wait() == 0
    want = {kind: str(count) for kind, (count, _) in recorded(rows, folder).items()}

    def work():
        body = collector.requests[-1][2] if collector.requests else b""
        found = metrics(body)[0] if body else {}
        return {labels["kind"]: point["asInt"] for labels, point in found.get("pitot_gpu_work", [])} == want and body

    body = wait_until(work, "all work was sent", one)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.stderr.read()
    path, headers, _ = collector.requests[0]
    assert path == "/v1/metrics" and headers["Content-Type"] == "application/json" and headers["api-key"] == "a,b c" and headers["x"] == "y=z"
    found, resource = metrics(body)
    assert resource["service.name"] == "trainings" and resource["host.name"]
    assert all(labels["job_id"] == '7"7' and int(point["startTimeUnixNano"]) <= int(point["timeUnixNano"]) for labels, point in found["pitot_gpu_work"])
    seconds = {labels["kind"]: point["asDouble"] for labels, point in found["pitot_gpu_work_seconds"]}
    assert all(seconds[kind] == pytest.approx(total / 1e9) for kind, (_, total) in recorded(rows, folder).items())
    [[_, steps]] = found["pitot_step_duration_seconds"]
    assert len(steps["bucketCounts"]) == len(steps["explicitBounds"]) + 1 and sum(map(int, steps["bucketCounts"])) == int(steps["count"]) > 0
    assert "process_resident_memory_bytes" in found and "pitot_agent_spool_objects" in found


def test_a_collector_reads_it(collector, agent, played):
    """By OpenTelemetry's definitions, which refuse unknown members."""
    service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    from google.protobuf import json_format

    process, _ = played("train", 1000)
    one = agent(*FAST, "-p", process.pid, "--otlp", collector.url, "--when", "nvtx == forward")
    wait_until(lambda: collector.requests and any(int(point["count"]) for _, point in metrics(collector.requests[-1][2])[0]["pitot_step_duration_seconds"])
               and b"exemplars" in collector.requests[-1][2], "it sends steps and an exemplar", one)
    body = collector.requests[-1][2]
    process.send_signal(signal.SIGINT)
    process.wait()
    message = json_format.Parse(body, service.ExportMetricsServiceRequest())
    found = {metric.name: metric for metric in message.resource_metrics[0].scope_metrics[0].metrics}
    assert found["pitot_gpu_work"].sum.is_monotonic and found["pitot_gpu_work"].sum.data_points[0].as_int > 0
    [attribute] = found["pitot_windows"].sum.data_points[0].exemplars[0].filtered_attributes
    assert attribute.key == "window" and attribute.value.string_value.endswith(".pitot")
    assert found["pitot_step_duration_seconds"].histogram.data_points[0].count > 0


def test_a_collector_that_answers_too_much(collector, pitot, lake, tmp_path):
    collector.answer = b"x" * (5 << 20)
    said = pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", tmp_path / "spool", "--otlp", collector.url).stderr
    assert "the response is longer than 4 MiB" in said and len(collector.requests) == 1


def test_a_collector_that_refuses(collector, agent, pitot, played, lake, tmp_path):
    """It is said once, and the agent goes on."""
    collector.status = 503
    process, _ = played("train", 1000)
    one = agent(*FAST, "-p", process.pid, "--otlp", collector.url)
    wait_until(lambda: len(collector.requests) > 3 and list(lake.rglob("*.parquet")), "it goes on", one)
    process.send_signal(signal.SIGINT)
    process.wait()
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0
    said = one.stderr.read()
    assert said.count("answers HTTP 503") == 1
    for url, headers, what in ("127.0.0.1:4318", "", "--otlp takes"), ("http://u:secret@x", "", "--otlp takes"), ("http://192.0.2.1", "k=secret", "not encrypted"), \
            (collector.url, "secret", "no list of NAME=VALUE"), (collector.url, "a=secret%0A", "none of a header"):
        said = pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", tmp_path / "other", "--otlp", url, env={"OTEL_EXPORTER_OTLP_HEADERS": headers},
                     status=2).stderr
        assert what in said and "secret" not in said
