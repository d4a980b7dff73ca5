"""Keys, passwords and tokens that an agent is given: they are sent where they are for, and are in nothing that it writes or shows."""
import re
import signal
import urllib.request
from pathlib import Path

import pytest

import kafka_broker
import s3_server
from gpufl_backend import Backend, reply
from http_collector import Collector
from waiting import wait_until

HIDDEN = "hidden-"


@pytest.fixture
def lake():
    return f"s3://{s3_server.BUCKET}/v1"


@pytest.mark.parametrize("are_right", [True, False], ids=["right", "wrong"])
def test_they_are_nowhere(agent, played, environment, tmp_path, are_right):
    """Neither when all goes well, nor when everybody refuses."""
    given, written = tmp_path / "given", tmp_path / "spool"
    given.mkdir(mode=0o700)
    for name in "s3", "kafka", "peers", "gpufl":
        (given / name).touch(mode=0o600)
    s3_secret = s3_server.SECRET if are_right else HIDDEN + "s3"
    (given / "s3").write_text(f"[default]\naws_access_key_id={s3_server.KEY}\naws_secret_access_key={s3_secret}\naws_session_token={HIDDEN}token\n")
    (given / "kafka").write_text(f"security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password={HIDDEN}kafka\n")
    (given / "peers").write_text(HIDDEN + "peers-0123456789abcdef0123456789abcdef")
    (given / "gpufl").write_text(HIDDEN + "gpufl\n")
    environment.update(AWS_REGION=s3_server.REGION, OTEL_EXPORTER_OTLP_HEADERS=f"api-key={HIDDEN}otlp", PITOT_PROFILES_HEADERS=f"Authorization=Bearer%20{HIDDEN}pyroscope")
    metrics, profiles = Collector(), Collector()
    metrics.status = profiles.status = 200 if are_right else 401
    with s3_server.running() as bucket, Backend(otherwise=reply(202 if are_right else 403)) as backend:
        environment["AWS_ENDPOINT_URL"] = bucket.endpoint
        process, recording = played("train", 1000, SLURM_JOB_ID="77")
        words = ["--interval", "1s", "--ship", "1s", "-p", process.pid, "--when", "nvtx == forward", "--listen", "127.0.0.1:0", "--s3-credentials", given / "s3",
                 "--secret", given / "peers", "--otlp", metrics.url, "--otlp-interval", "1s", "--profiles", profiles.url, "--gpufl", backend.url,
                 "--gpufl-key-file", given / "gpufl"]
        if kafka_broker.load():
            words += ["--kafka", "127.0.0.1:1", "--kafka-config", given / "kafka"]
        one = agent(*words, quiet=False)
        line = one.stderr.readline()
        while not (port := re.search(r"127\.0\.0\.1:(\d+)/metrics", line)):
            line += one.stderr.readline()
        wait_until(lambda: backend.requests and metrics.requests and profiles.requests and bucket.requests and (bucket.objects or not are_right),
                   "everybody was asked", one)
        page = urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics").read()
        shown = page + Path(f"/proc/{one.pid}/cmdline").read_bytes()
        one.send_signal(signal.SIGTERM)
        said = line + one.stderr.read()
        assert one.wait() == 0, said
        process.send_signal(signal.SIGINT)
        process.wait()
        stored = b"".join(bucket.objects.values()) + b"".join(map(str.encode, bucket.objects)) + "".join(backend.lines).encode()
        stored += b"".join(body for _, _, body in metrics.requests + profiles.requests)
        assert all(headers["api-key"] == HIDDEN + "otlp" for _, headers, _ in metrics.requests), "they are sent"
        assert all(headers["Authorization"] == f"Bearer {HIDDEN}pyroscope" for _, headers, _ in profiles.requests)
        assert {request["headers"]["Authorization"] for request in backend.requests} == {f"Bearer {HIDDEN}gpufl"}
    for server in metrics, profiles:
        server.end()
    if not are_right:
        assert "401" in said and "403" in said
    for place in (shown, said.encode(), stored, *(path.read_bytes() for folder in (written, recording) for path in folder.rglob("*") if path.is_file())):
        assert HIDDEN.encode() not in place and s3_server.SECRET.encode() not in place
