"""TLS of `pitot serve` and of agents' pages: who can read them, with which certificates, and what is said about wrong ones."""
import http.client
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest

from shipped_rows import WORK
from tls_files import make_certificates
from waiting import PATIENCE, wait_until


@pytest.fixture(scope="session")
def certificates(shared_folder):
    return shared_folder("tls", make_certificates)


@pytest.fixture
def lake(tmp_path):
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def trusting(certificates, **options):
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    for name, value in options.items():
        setattr(context, name, value)
    return context


def get(port, path, context, **headers):
    """The answer and its body, whole."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.fixture
def served(program, environment, make_recording, tmp_path):
    """served("--tls", FILE): the address of a server of one recording, and its process."""
    running = []

    def start(*options):
        (tmp_path / "runs").mkdir()
        make_recording(tmp_path / "runs/train.pitot", kernels=3000, pattern="train", stacks=20)
        one = subprocess.Popen([program, "serve", "--json", *options, tmp_path / "runs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment)
        running.append(one)
        return json.loads(one.stdout.readline()), one

    yield start
    for one in running:
        one.kill()
        one.communicate()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pages_of_serve(served, certificates, version):
    """All of a large page arrives; the cookie is for TLS only; the origin has its scheme; without TLS there is no answer."""
    address, one = served("--tls", certificates / "right.pem")
    port, context = address["port"], trusting(certificates, minimum_version=version, maximum_version=version)
    assert address["url"].startswith(f"https://127.0.0.1:{port}/?token=")
    answer, _ = get(port, "/" + address["url"].partition("/?")[2].join(["?", ""]), context)
    cookie = answer.getheader("Set-Cookie")
    assert answer.status == 200 and cookie.endswith("; Secure") and "HttpOnly" in cookie
    session = {"Cookie": cookie.partition(";")[0]}
    _, body = get(port, "/recordings", context, **session)
    [recording] = json.loads(body)["recordings"]
    for view in "report", "flame", "timeline":
        answer, body = get(port, f"/r/{recording['id']}/{view}", context, **session)
        assert answer.status == 200 and int(answer.getheader("Content-Length")) == len(body) > 10000 and body.endswith(b"</html>\n")
    assert get(port, "/recordings", context, Origin=f"https://127.0.0.1:{port}", **session)[0].status == 200
    assert get(port, "/recordings", context, Origin=f"http://127.0.0.1:{port}", **session)[0].status == 403
    assert get(port, "/recordings", context)[0].status == 403
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert not plain.recv(65536).startswith(b"HTTP")
    assert get(port, "/recordings", context, **session)[0].status == 200, "others are served"
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0


@pytest.mark.filterwarnings("ignore:.*TLSv1_1:DeprecationWarning")
def test_clients_that_send_anything(served, certificates):
    """Old versions, cut handshakes, noise and silence hold nothing up."""
    address, one = served("--tls", certificates / "right.pem")
    port, context = address["port"], trusting(certificates)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", port)) as raw, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(raw)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(70)]
    for noise in b"\x16\x03\x01\xff\xff" + b"A" * 1000, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\x80" * 5000, bytes(range(256)) * 20:
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(noise)
    hello = ssl.MemoryBIO()
    outgoing = context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        outgoing.do_handshake()
    first = hello.read()
    for cut in range(1, len(first), 37):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(first[:cut])
    assert get(port, "/recordings", context)[0].status == 403 and one.poll() is None
    for each in silent:
        each.close()
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0


def test_a_certificate_is_renewed(served, certificates, tmp_path):
    """One that has expired is said, and served; the file that replaces it is used without a new start."""
    path = tmp_path / "served.pem"
    shutil.copy(certificates / "expired.pem", path)
    address, one = served("--tls", path)
    port, context = address["port"], trusting(certificates)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        get(port, "/recordings", context)
    path.write_text("nothing")
    time.sleep(0.01)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        get(port, "/recordings", context)
    shutil.copy(certificates / "right.pem", path)

    def is_renewed():
        try:
            return get(port, "/recordings", context)[0].status == 403
        except ssl.SSLCertVerificationError:
            return False

    wait_until(is_renewed, "it is renewed", one)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0
    assert "has expired" in one.stderr.read()


def test_wrong_files(pitot, certificates, tmp_path):
    encrypted = tmp_path / "encrypted.key"
    subprocess.run(["openssl", "ec", "-in", certificates / "right.key", "-aes256", "-passout", "pass:secret", "-out", encrypted], check=True, capture_output=True)
    for words, what in ((certificates / "no.pem",), "cannot use"), ((certificates / "ca.pem",), "as its key"), \
            ((certificates / "right.crt", "--tls-key", certificates / "expired.key"), "key values mismatch"), \
            ((certificates / "right.crt", "--tls-key", encrypted), "without a password"):
        said = pitot("serve", tmp_path, "--tls", *words, status=2).stderr
        assert what in said and "PRIVATE" not in said, said
    assert "needs --tls" in pitot("serve", tmp_path, "--tls-key", encrypted, status=2).stderr
    assert "needs --tls" in pitot("serve", tmp_path, "--address", "0.0.0.0", status=2).stderr
    assert "no address" in pitot("serve", tmp_path, "--address", "example.org", "--tls", certificates / "right.pem", status=2).stderr


def test_pages_of_an_agent(agent, played, pitot, certificates, lake, tmp_path):
    """/metrics, and `pitot dump --job` of an agent that peers name with https://."""
    secret, peers = tmp_path / "secret", tmp_path / "peers"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    secret.chmod(0o600)
    process, _ = played("train", 1000, SLURM_JOB_ID="77", SLURM_PROCID="0", SLURM_NTASKS="1")
    one = agent("--interval", "1s", "--ship", "1s", "-p", process.pid, "--listen", "127.0.0.1:0", "--secret", secret, "--tls", certificates / "right.crt",
                "--tls-key", certificates / "right.key", quiet=False)
    port = int(re.search(r"https://127\.0\.0\.1:(\d+)/metrics", one.stderr.readline()).group(1))
    context = trusting(certificates)
    wait_until(lambda: b'pitot_gpu_work_total{job_id="77"' in get(port, "/metrics", context)[1], "it knows the job", one)
    peers.write_text(f"https://127.0.0.1:{port}\n")
    words = "dump", "--job", "77", "--last", "10s", "--peers", peers, "--secret", secret
    assert "certificate" in pitot(*words, "-o", tmp_path / "refused", status=1).stderr
    pitot(*words, "--ca-file", certificates / "ca.pem", "-o", tmp_path / "dumped")
    assert sum(json.loads(pitot("info", tmp_path / "dumped/job.pitot", "--json").stdout)["tables"].get(kind, {"rows": 0})["rows"] for kind in WORK) > 0
    process.send_signal(signal.SIGINT)
    process.wait()
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0
