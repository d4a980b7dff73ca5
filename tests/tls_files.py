"""Certificates that tests make: of one authority, right and wrong ones."""
import shutil
import ssl
import subprocess

import pytest

CONFIG = """
[ca]
default_ca = own
[own]
database = {0}/index.txt
new_certs_dir = {0}
serial = {0}/serial
policy = any
default_md = sha256
copy_extensions = copy
[any]
commonName = supplied
"""
KEY = "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"
SPANS = {"right": ("IP:127.0.0.1", "20200101000000Z", "20990101000000Z"), "expired": ("IP:127.0.0.1", "20200101000000Z", "20210101000000Z"),
         "other-host": ("DNS:other.example", "20200101000000Z", "20990101000000Z")}


def make_certificates(folder):
    """Writes ca.pem, and right.pem, expired.pem and other-host.pem, each with its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not here to make certificates")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    (folder / "ca.cnf").write_text(CONFIG.format(folder))
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("01")
    openssl("req", "-x509", *KEY, "-days", "3650", "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem")
    for name, (host, begin, end) in SPANS.items():
        openssl("req", *KEY, "-subj", f"/CN={name}", "-addext", f"subjectAltName={host}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("ca", "-batch", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-in", f"{name}.csr", "-out", f"{name}.crt", "-notext",
                "-startdate", begin, "-enddate", end)
        (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())


def serve_tls(server, certificate):
    """Makes a server of http.server speak TLS. It has not accepted a connection yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
