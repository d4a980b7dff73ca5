"""A server that collects what is POSTed to it."""
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Collector(socketserver.ThreadingMixIn, HTTPServer):
    """`requests` has (path, headers, body) of all, and `taken` of those that were answered with 200.

    `status` answers a request, or a function of its number and its body; `answer` is the body of all answers."""
    daemon_threads = True

    def __init__(self, tls=None):
        self.requests, self.taken, self.status, self.answer = [], [], 200, b"{}"
        super().__init__(("127.0.0.1", 0), Handler)
        if tls:
            tls(self)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body, server = self.rfile.read(int(self.headers["Content-Length"])), self.server
        request = self.path, dict(self.headers), body
        server.requests.append(request)
        status = server.status(len(server.requests), body) if callable(server.status) else server.status
        if status == 200:
            server.taken.append(request)
        self.send_response(status)
        self.send_header("Content-Length", str(len(server.answer)))
        self.end_headers()
        self.wfile.write(server.answer)
