"""A backend of gpufl on loopback that misbehaves as it is told, and folders of logs for it."""
import contextlib
import gzip
import json
import ssl
import threading
import time
import uuid
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACCEPTED = b'{"accepted_for_processing":true,"spool_id":"s"}'


def reply(status, body=ACCEPTED, **headers):
    """An answer to a request that was read as a whole."""

    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    answer.accepts = 200 <= status < 300
    return answer


def raw(bytes_written, accepts=False):
    """These bytes, and the end of the connection."""

    def answer(handler):
        handler.wfile.write(bytes_written)
        handler.close_connection = True

    answer.accepts = accepts
    return answer


def silent(bytes_written=b""):
    """These bytes, and then nothing until the client goes."""

    def answer(handler):
        handler.wfile.write(bytes_written)
        handler.wfile.flush()
        handler.rfile.read(1)
        handler.close_connection = True

    answer.accepts = False
    return answer


def close_early(handler):
    """The connection ends before the body was read."""
    handler.close_connection = True


close_early.accepts, close_early.before_body = False, True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        backend = self.server.backend
        with backend.lock:
            number = backend.begun
            backend.begun += 1
        answer = backend.plan.get(number, backend.otherwise)
        if getattr(answer, "before_body", False):
            return answer(self)
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            return None
        with backend.lock:
            backend.requests.append({"path": self.path, "headers": dict(self.headers), "body": body, "at": time.monotonic()})
        known = answer.accepts and backend.take(self.path, self.headers, body)
        with contextlib.suppress(OSError):
            (reply(409, b'{"error":"duplicate_window"}') if known else answer)(self)
        return None


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients go away; tests want that."""


class Backend:
    """plan: what to do with which request, by its number from 0; others are accepted."""

    def __init__(self, plan=None, otherwise=None, certificate=None):
        self.plan, self.otherwise = plan or {}, otherwise or reply(202)
        self.lock, self.begun, self.requests, self.windows, self.lines, self.completed = threading.Lock(), 0, [], set(), [], []
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.backend = self
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def take(self, path, headers, body):
        """Whether this window was there already."""
        with self.lock:
            if path.endswith("/session-complete"):
                self.completed.append(headers["X-GpuFlight-Session-Id"])
                return False
            window = headers["X-GpuFlight-Window-Id"]
            if window in self.windows:
                return True
            self.windows |= {window} - {None}
            self.lines += gzip.decompress(body).decode().splitlines()
            return False

    def streams(self):
        return [request for request in self.requests if request["path"].endswith("/events/stream")]


def make_window(folder, channel, number, lines, sidecar=True):
    """A closed window with its sidecar, as gpufl's client makes it."""
    payload = gzip.compress("".join(line + "\n" for line in lines).encode())
    if sidecar:
        (folder / f".gpufl-window.{channel}.{number}.json").write_text(json.dumps({
            "schema_version": 1, "type": "transport_window", "window_id": str(uuid.uuid4()), "session_id": folder.name,
            "channel": channel, "window_sequence": number, "opened_mono_ms": 1, "closed_mono_ms": 2, "created_wall_ms": 3,
            "payload_file": f"{channel}.{number}.log.gz", "payload_bytes": len(payload), "payload_crc32": zlib.crc32(payload)}))
    (folder / f"{channel}.{number}.log.gz").write_bytes(payload)
    return lines


def make_session(log_path, windows=2, channels=("device", "scope"), start_ns=1000, rows=50, sidecar=True):
    """A session that has ended; its folder and its lines."""
    folder = log_path / str(uuid.uuid4())
    folder.mkdir(parents=True)
    lines = []
    for channel in channels:
        for number in range(1, windows + 1):
            of_window = [f'{{"type":"row","session_id":"{folder.name}","channel":"{channel}","n":{number},"i":{i}}}' for i in range(rows)]
            if number == 1:
                of_window[0] = (f'{{"version":1,"type":"job_start","session_id":"{folder.name}","channel":"{channel}",'
                                f'"ts_ns":{start_ns}}}')
            lines += make_window(folder, channel, number, of_window, sidecar)
    return folder, lines
