"""`pitot serve` as its tests use it."""
import contextlib
import http.client
import json
import signal
import subprocess

from timeline_page import page_data, read_part
from waiting import PATIENCE, wait_until


class Server:
    def __init__(self, process, address):
        self.process, self.url, self.port = process, address["url"], address["port"]
        self.token = self.url.partition("token=")[2]
        answer, _ = self.get(f"/?token={self.token}", cookie=None)
        self.cookie = answer.getheader("Set-Cookie").partition(";")[0]

    def get(self, path, method="GET", cookie="", **headers):
        """The answer and its body; `cookie` None: without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        cookies = {} if cookie is None else {"Cookie": cookie or self.cookie}
        connection.request(method, path, headers={**cookies, **{name.replace("_", "-"): value for name, value in headers.items()}})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    def status(self, path, **options):
        return self.get(path, **options)[0].status

    def text(self, path, status=200):
        answer, body = self.get(path)
        assert answer.status == status, body
        return body.decode()

    def list(self):
        return {each["name"]: each for each in json.loads(self.text("/recordings"))["recordings"]}

    def summaries(self):
        """The list, as soon as all are read."""
        return wait_until(lambda: (found := self.list()) and all(each["summary"] for each in found.values()) and found, "all are read", self.process)

    def page(self, name, view):
        return f"/r/{self.list()[name]['id']}/{view}"

    def timeline(self, name):
        """The data of its page, and a function that asks for slices: (data, ask)."""
        address = self.page(name, "timeline")
        data = page_data(self.text(address))

        def ask(**query):
            words = "&".join(f"{key}={value}" for key, value in {"instance": data["instance"], **query}.items())
            answer, body = self.get(address.replace("timeline", f"slices?{words}"))
            assert answer.status == 200, body
            return read_part(body, data)

        return data, ask

    def workers(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]


@contextlib.contextmanager
def serving(build, folder, *options):
    process = subprocess.Popen([build / "pitot", "serve", folder, "--json", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Server(process, json.loads(line))
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and said == "", said
