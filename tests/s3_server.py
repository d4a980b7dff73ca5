"""Object storage on 127.0.0.1 that checks signatures (AWS Signature Version 4) and misbehaves as it is told.

As a program it has its objects in a folder, so that it can be killed: s3_server.py FOLDER PORT"""
import collections.abc
import contextlib
import hashlib
import hmac
import os
import re
import socket
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

from tls_files import serve_tls

KEY, SECRET, REGION, BUCKET = "AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG", "eu-central-1", "fleet"


def signature(handler, secret):
    """What the signature of a request must be, by its own date and scope, or None if it has none."""
    words = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8}/([^/]+)/s3/aws4_request), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
                         handler.headers.get("Authorization", ""))
    if not words:
        return None
    key, scope, region, signed, given = words.groups()
    path, _, query = handler.path.partition("?")
    pairs = sorted(tuple((pair + "=").split("=")[:2]) for pair in query.split("&") if pair)
    headers = "".join(f"{name}:{' '.join(handler.headers.get(name, '').split())}\n" for name in signed.split(";"))
    request = "\n".join((handler.command, path, "&".join("=".join(pair) for pair in pairs), headers, signed,
                         handler.headers["x-amz-content-sha256"]))
    date = scope.split("/")[0]
    text = "\n".join(("AWS4-HMAC-SHA256", handler.headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()))
    sign = lambda secret, text: hmac.new(secret, text.encode(), hashlib.sha256).digest()
    made = f"AWS4{secret}".encode()
    for part in date, region, "s3", "aws4_request":
        made = sign(made, part)
    assert {"host", "x-amz-date"} <= set(signed.split(";"))
    return key, region, given == sign(made, text).hex()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, more="", **headers):
        self.reply(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{SECRET}</Message>{more}</Error>".encode(), **headers)

    def reset(self):
        """The connection ends as when the machine is gone."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()
        self.close_connection = True

    def handle_one_request(self):
        with contextlib.suppress(OSError, ValueError):
            return super().handle_one_request()
        self.close_connection = True

    def check(self):
        """Whether the request is one of a known user to the bucket."""
        found = signature(self, SECRET)
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        if not found:
            self.refuse(403, "AccessDenied")
        elif found[0] != KEY:
            self.refuse(403, "InvalidAccessKeyId")
        elif found[1] != REGION:
            self.refuse(400, "AuthorizationHeaderMalformed", f"<Region>{REGION}</Region>")
        elif not found[2]:
            self.refuse(403, "SignatureDoesNotMatch")
        elif self.server.token and self.headers.get("x-amz-security-token") != self.server.token:
            self.refuse(403, "ExpiredToken")
        elif urllib.parse.urlsplit(self.path).path.split("/")[1] != BUCKET:
            self.refuse(404, "NoSuchBucket")
        else:
            return True
        return False

    def do_PUT(self):
        server = self.server
        fault = server.next_fault()
        if fault == "before":
            return self.reset()
        if fault == "cut":
            self.rfile.read(int(self.headers["Content-Length"]) // 2)
            return self.reset()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):
            return self.reset()  # whoever sent it is gone
        if fault == "silent":
            self.rfile.read(1)
            return self.reset()
        if isinstance(fault, int):
            return self.refuse(fault, "SlowDown", **server.headers)
        if not self.check():
            return None
        key = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/", 2)[2]
        server.on_change(self)
        with server.lock:
            if key in server.objects and self.headers.get("If-None-Match") == "*" and server.knows_conditions:
                return self.refuse(412, "PreconditionFailed")
            server.objects[key] = body
        server.on_changed(self)
        return self.reset() if fault == "after" else self.reply(200)

    def do_DELETE(self):
        server = self.server
        fault = server.next_fault()
        if isinstance(fault, int):
            return self.refuse(fault, "SlowDown", **server.headers)
        if fault not in (None, "after"):
            return self.reset()
        if not self.check():
            return None
        server.on_change(self)
        with server.lock:
            server.objects.pop(urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/", 2)[2], None)
        server.on_changed(self)
        return self.reset() if fault == "after" else self.reply(204)

    def do_GET(self):
        if not self.check():
            return None
        parts = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(parts.path).partition(f"/{BUCKET}")[2].strip("/")
        if key:
            body = self.server.objects.get(key)
            return self.refuse(404, "NoSuchKey") if body is None else self.reply(200, body)
        query = urllib.parse.parse_qs(parts.query)
        keys = sorted(key for key in self.server.objects if key.startswith(query.get("prefix", [""])[0]))
        begin = int(query.get("continuation-token", ["+0"])[0][1:])
        found, rest = keys[begin:begin + self.server.page], keys[begin + self.server.page:]
        quote = urllib.parse.quote if query.get("encoding-type") == ["url"] else escape
        body = "".join(f"<Contents><Key>{quote(key)}</Key><Size>{len(self.server.objects[key])}</Size><Owner><ID>x</ID></Owner></Contents>" for key in found)
        more = f"<NextContinuationToken>/{begin + len(found)}</NextContinuationToken>" if rest else self.server.more
        return self.reply(200, f"<?xml version='1.0' encoding='UTF-8'?>\n<ListBucketResult>{body}{more}</ListBucketResult>".encode())


class Files(collections.abc.MutableMapping):
    """Objects in a folder, each whole or not there."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def path(self, key):
        return self.folder / urllib.parse.quote(key, safe="")

    def __getitem__(self, key):
        try:
            return self.path(key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def __setitem__(self, key, body):
        part = self.folder / f".{threading.get_ident()}"
        part.write_bytes(body)
        os.replace(part, self.path(key))

    def __delitem__(self, key):
        self.path(key).unlink()

    def __iter__(self):
        return iter([urllib.parse.unquote(name) for name in os.listdir(self.folder) if not name.startswith(".")])

    def __len__(self):
        return len(list(iter(self)))


class Moto:
    """Another implementation of S3, which runs in this process."""

    def __init__(self):
        import boto3
        from moto.server import ThreadedMotoServer

        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        words = {"endpoint_url": self.endpoint, "aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": REGION}
        self.bucket = boto3.resource("s3", **words).Bucket(BUCKET)
        self.bucket.create(CreateBucketConfiguration={"LocationConstraint": REGION})

    def put(self, key, body):
        self.bucket.put_object(Key=key, Body=body)

    @property
    def objects(self):
        return {found.key: found.get()["Body"].read() for found in self.bucket.objects.all()}

    def end(self):
        for found in self.bucket.objects.all():
            found.delete()
        self.bucket.delete()
        self.server.stop()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port=0, tls=None):
        self.objects, self.requests, self.faults, self.headers, self.page, self.token = {}, [], [], {}, 1000, None
        self.knows_conditions, self.more = True, ""  # more: what ends the last page of a list
        self.on_change = self.on_changed = lambda handler: None  # before and after an object is put or deleted
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_address[1]}"
        if tls:
            serve_tls(self, tls)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_):
        pass

    def put(self, key, body):
        self.objects[key] = body

    def next_fault(self):
        """What the next PUT or DELETE meets: None, a status, or one of before, cut, after and silent."""
        with self.lock:
            return self.faults.pop(0) if self.faults else None

    def end(self):
        self.shutdown()
        self.server_close()


def settings(endpoint):
    """Of the environment in which a program finds a server."""
    return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": endpoint}


def copied(objects, folder, prefix):
    """A folder with the objects of a bucket below a prefix."""
    for key, body in objects.items():
        assert key.startswith(prefix)
        path = folder / key.removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


@contextlib.contextmanager
def running():
    server = Server()
    try:
        yield server
    finally:
        server.end()


if __name__ == "__main__":
    server = Server(int(sys.argv[2]))
    server.objects = Files(sys.argv[1])
    print(server.server_address[1], flush=True)
    threading.Event().wait()
