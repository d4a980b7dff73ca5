"""pitot agent and servers with certificates that are wrong: it says what to do about them, and goes on."""
import signal

import pytest

import s3_server
from http_collector import Collector
from shipped_rows import recorded, shipped
from tls_files import make_certificates, serve_tls
from waiting import wait_until

REMEDIES = {"expired": "renew the certificate", "other-host": "a host name or an address that the certificate", "unknown": "its authority's with "}


@pytest.fixture(scope="session")
def certificates(shared_folder):
    return shared_folder("tls", make_certificates)


@pytest.fixture
def lake():
    return f"s3://{s3_server.BUCKET}/v1"


@pytest.fixture
def serve(environment):
    """serve("expired"): a server of object storage with that certificate, which the environment names."""
    servers = []

    def start(certificate, port=0):
        server = s3_server.Server(port, tls=certificate)
        servers.append(server)
        environment.update(s3_server.settings(server.endpoint))
        return server

    yield start
    for server in servers:
        server.end()


@pytest.mark.parametrize("wrong", REMEDIES)
def test_a_bucket(pitot, serve, certificates, rank_recording, rows, lake, tmp_path, wrong):
    folder, ca = rank_recording("sleep-3"), {"AWS_CA_BUNDLE": str(certificates / "ca.pem")}
    server = serve(certificates / f"{'right' if wrong == 'unknown' else wrong}.pem")
    words = "agent", "--once", "--no-live", "--recordings", folder, "--lake", lake, "--spool", tmp_path / "spool"
    said = pitot(*words, status=1, env={} if wrong == "unknown" else ca).stderr
    assert REMEDIES[wrong] in said and (wrong != "unknown" or "AWS_CA_BUNDLE" in said) and "--ca-file" not in said
    assert not server.objects and list((tmp_path / "spool").glob("*.parquet"))
    good = serve(certificates / "right.pem")
    pitot(*words, env=ca)
    for key, body in good.objects.items():
        path = tmp_path / "copy" / key.removeprefix("v1/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    assert shipped(tmp_path / "copy") == recorded(rows, folder) and not list((tmp_path / "spool").glob("*.parquet"))


def test_an_agent_goes_on(serve, agent, played, certificates, environment, tmp_path):
    """It is there when the certificate is renewed, and ships what has waited."""
    environment["AWS_CA_BUNDLE"] = str(certificates / "ca.pem")
    server = serve(certificates / "expired.pem")
    process, _ = played("train", 2)
    one = agent("--interval", "1s", "--ship", "1s", "-p", process.pid)
    assert "renew the certificate" in one.stderr.readline()
    server.end()
    renewed = serve(certificates / "right.pem", server.server_address[1])
    wait_until(lambda: renewed.objects and not list((tmp_path / "spool").glob("*.parquet")), "it ships", one)
    assert process.wait() == 0
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0


@pytest.mark.parametrize("wrong", [*REMEDIES, None])
def test_a_collector(pitot, certificates, environment, tmp_path, wrong):
    """Of metrics: the rows are shipped all the same."""
    certificate = certificates / f"{wrong if wrong in ('expired', 'other-host') else 'right'}.pem"
    server = Collector(tls=lambda server: serve_tls(server, certificate))
    (tmp_path / "lake").mkdir()
    if wrong != "unknown":
        environment["OTEL_EXPORTER_OTLP_CERTIFICATE"] = str(certificates / "ca.pem")
    said = pitot("agent", "--once", "--no-live", "--lake", tmp_path / "lake", "--spool", tmp_path / "spool", "--otlp", server.url).stderr
    server.end()
    assert bool(server.taken) == (wrong is None)
    assert REMEDIES[wrong] in said if wrong else "certificate" not in said
    assert wrong != "unknown" or "OTEL_EXPORTER_OTLP_CERTIFICATE" in said
