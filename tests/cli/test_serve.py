"""`pitot serve`: who is answered, with what, and what happens to recordings meanwhile."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections import Counter

import pytest

from serving import Server, serving
from timeline_page import read_page
from waiting import wait_until

SAFE = {"Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options", "Cache-Control", "Cross-Origin-Resource-Policy"}


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    make_recording(folder / "train.pitot", kernels=3000, pattern="train", stacks=20)
    make_recording(folder / "other.pitot", kernels=2500, pattern="train", stacks=20, seed=3)
    for name in ("names", "page", "stalls", "cpu_all", "varied"):
        make_recording(folder / f"{name}.pitot", name)
    window = folder / "window/date=2026-11-28"
    window.mkdir(parents=True)
    make_recording(window / "job.host.1.rule.pitot", kernels=100)
    shutil.copytree(folder / "page.pitot", folder / "window/else/no-date.pitot")
    (folder / "link.pitot").symlink_to(folder / "page.pitot")
    (folder / "file.pitot").write_text("no folder")
    return folder


@pytest.fixture(scope="module")
def server(build, recordings):
    with serving(build, recordings) as one:
        yield one


def send(port, text):
    """What is answered to some bytes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(text.encode("latin-1"))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer.decode("latin-1")


def status_of(answer):
    return int(answer.split()[1])


# --- who is answered ---


def test_the_token_becomes_a_cookie(server):
    """It leaves the address, and no script reads the cookie."""
    answer, body = server.get(f"/?token={server.token}", cookie=None)
    name, _, attributes = answer.getheader("Set-Cookie").partition("=")
    assert name == f"pitot-{server.port}" and {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes.split("; "))
    assert server.token not in attributes and server.token not in body.decode() and server.cookie not in body.decode()
    assert answer.status == 200 and b'url=/"' in body and len(server.token) == 32


def test_nobody_else_is_answered(server):
    """Without the cookie, with a wrong one, with the token in its place: not even which pages exist."""
    name = f"pitot-{server.port}"
    wrong = server.cookie[:-1] + ("0" if server.cookie[-1] != "0" else "1")
    for path in ("/", "/recordings", "/live", "/programs", server.page("train.pitot", "report"), "/nothing"):
        for cookie in (None, wrong, server.cookie[:-1], f"{server.cookie}0", f"{name}={server.token}", f"{name}=", f"x{server.cookie}"):
            assert server.status(path, cookie=cookie) == 403
    for token in ("", server.token[:-1], f"{server.token}0", "0" * 32, server.cookie.partition("=")[2]):
        assert server.status(f"/?token={token}", cookie=None) == 403
    assert server.status(f"/live?token={server.token}", cookie=None) == 403
    assert server.status("/", cookie=f"a=1; {server.cookie}; b=2") == 200


def test_hosts_of_elsewhere_are_refused(server):
    """A page that gets its name resolved to 127.0.0.1 sends that name (DNS rebinding)."""
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost:x", "10.0.0.1", "", "127.0.0.1@evil.example"):
        assert server.status("/", Host=host) == 421
    for host in ("localhost", f"localhost:{server.port}", "127.0.0.1:1", "[::1]:8080"):
        assert server.status("/", Host=host) == 200
    assert status_of(send(server.port, "GET / HTTP/1.1\r\n\r\n")) == 400


def test_origins_of_elsewhere_are_refused(server):
    own = f"http://127.0.0.1:{server.port}"
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{server.port}", "http://127.0.0.1", f"{own}.evil.example", ""):
        answer, _ = server.get("/recordings", Origin=origin)
        assert answer.status == 403 and not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert server.status(f"/?token={server.token}", cookie=None, Origin=origin) == 403
    answer, _ = server.get("/recordings", Origin=own)
    assert answer.status == 200 and not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_nothing_but_reading(server):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"):
        answer, body = server.get("/recordings", method=method)
        assert (answer.status, body, answer.getheader("Allow")) == (405, b"", "GET, HEAD")
    assert server.status("/", Content_Length="5") == 400 and server.status("/", Transfer_Encoding="chunked") == 400
    answer, body = server.get("/", method="HEAD")
    assert answer.status == 200 and body == b"" and int(answer.getheader("Content-Length")) > 1000


def test_headers_of_all_answers(server):
    """What scripts may do is in the policy: only those of the page itself, which have its nonce."""
    for path in ("/", "/recordings", "/nothing", server.page("train.pitot", "report"), server.page("train.pitot", "timeline")):
        answer, body = server.get(path)
        assert SAFE <= set(answer.headers.keys())
        policy = dict(part.split(" ", 1) for part in answer.getheader("Content-Security-Policy").split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
        assert policy["connect-src"] == "'self'" and policy["script-src"].startswith("'nonce-")
        nonce = policy["script-src"][len("'nonce-"):-1]
        assert len(nonce) == 32 and b"http-equiv" not in body
        assert answer.getheader("Content-Type") == "application/json" or body.count(b"<script") == body.count(f'<script nonce="{nonce}"'.encode()) + body.count(b'type="application/json"')


# --- what is sent badly ---


@pytest.mark.parametrize("path", ["/r/../../etc/passwd", "/r/%2e%2e/%2e%2e/etc/passwd", "/..", "//etc/passwd", "/r/train.pitot/report", "/r/0000000000000000/report",
                                  "/r/ID/", "/r/ID", "/r/ID/summary", "/r/ID/diff", "/r/ID/programs", "/r/ID/report/..", "/r/ID0/report", "/r/IDx/report", "/R/ID/report",
                                  "/r/ID/report%00", "/diff", "/diff?a=ID", "/diff?a=ID&b=../..", "/diff?a=ID&b=0000000000000000", "/live/", "/recordings/x"])
def test_only_what_is_listed(server, path):
    """Ids are looked up in the list; no part of an address is a path."""
    number = server.list()["train.pitot"]["id"]
    assert server.status(path.replace("ID", number)) == 404
    assert server.status(f"/r/{number.upper()}/report") == (200 if number.isdigit() else 404)


def test_too_long_and_too_slow(server):
    """Who sends a request byte by byte makes room for others; nobody is waited for."""
    assert status_of(send(server.port, "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "x" * 16384)) == 431
    slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for one in slow:
        one.sendall(b"GET / HTTP/1.1\r\nHost: lo")
    assert server.status("/") == 200
    for one in slow:
        one.settimeout(60)
        try:
            assert one.recv(100) == b"", "it is disconnected, without an answer"
        except ConnectionResetError:
            pass
        one.close()


def test_a_thousand_connections(server):
    """They cost no more than what is answered at once."""
    many = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for _ in range(10):
        for one in many:
            one.close()
        many = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
        assert server.status("/recordings") == 200
    descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    for one in many:
        one.close()
    assert descriptors < 120


def test_one_request_for_each_connection(server):
    """What follows in the connection is no second one, whatever it says."""
    get = f"GET /recordings HTTP/1.1\r\nHost: localhost\r\nCookie: {server.cookie}\r\n\r\n"
    answer = send(server.port, get + get + "POST / HTTP/1.1\r\n\r\n")
    assert answer.count("HTTP/1.1") == 1 and status_of(answer) == 200 and "Connection: close" in answer


def test_slices_of_nonsense(server):
    data, ask = server.timeline("train.pitot")
    most = 2 ** 64 - 1
    for query in ({}, {"from": most, "until": 0}, {"from": 0, "until": most, "pixels": most}, {"from": most, "until": most, "pixels": 0}, {"from": "x", "until": "-1"},
                  {"correlation": most}, {"from": "1" * 30}):
        part, slices, _ = ask(**query)
        assert part["from"] <= part["until"] and len(slices) < 20000
    address = server.page("train.pitot", "slices")
    assert server.status(f"{address}?from=0&until=9&pixels=9") == 409 == server.status(f"{address}?instance={data['instance'] + 1}")


# --- what is shown ---


def test_the_list(server):
    """Recordings and windows, with the verdict of the report; no link is one."""
    found = server.summaries()
    assert set(found) == {f"{name}.pitot" for name in ("train", "other", "names", "page", "stalls", "cpu_all", "varied", "job.host.1.rule")}
    assert [name for name, each in found.items() if each["window"]] == ["job.host.1.rule.pitot"]
    assert found["stalls.pitot"]["summary"]["gpus"] == "2 x NVIDIA H200" and found["page.pitot"]["summary"]["host"] == "testhost"


def test_the_pages_of_the_commands(server, recordings, pitot, tmp_path):
    """A report's page is that of `pitot report`, but for what leads to other pages, and so on."""
    served = server.text(server.page("train.pitot", "report"))
    pitot("report", recordings / "train.pitot", "-o", tmp_path / "x.html")
    own = (tmp_path / "x.html").read_text()

    def sections(text):
        return text.partition("<main>")[2].partition("srcdoc=")[0]

    assert sections(served) == sections(own) != ""
    summary = server.summaries()["train.pitot"]["summary"]
    report = pitot("report", recordings / "train.pitot", "--json", json_output=True)
    assert summary["verdict"] in sections(own) and summary["sentence"] in sections(own) and summary["duration_ns"] == report["duration_ns"]
    for name, view, has in ("cpu_all", "flame", "list_sort"), ("stalls", "source", "kernel.cu"), ("train", "flame", "Trainer.step"):
        assert has in server.text(server.page(f"{name}.pitot", view))
    assert "no call stacks" in server.text(server.page("stalls.pitot", "flame"), 404)
    assert "--engine pc-sampling" in server.text(server.page("train.pitot", "source"), 404)
    a, b = (server.list()[f"{name}.pitot"]["id"] for name in ("train", "other"))
    assert "other.pitot, compared with train.pitot" in server.text(f"/diff?a={a}&b={b}")
    programs = json.loads(server.text("/programs"))
    assert {"gpus", "programs", "realtime_ns"} <= programs.keys()


def test_titles_and_types(server):
    """Each answer has the type of its contents; the server's own pages have a title and a style."""
    for path, title in ("/", "recordings"), ("/live", "live"):
        assert f"<title>{title}</title>\n<style>\n" in server.text(path)
    a, b = (server.list()[f"{name}.pitot"]["id"] for name in ("train", "other"))
    pages = ["/", "/live", "/nothing", f"/diff?a={a}&b={b}", *(server.page("train.pitot", view) for view in ("report", "timeline", "flame"))]
    for path in pages:
        assert server.get(path)[0].getheader("Content-Type") == "text/html; charset=utf-8"
    for path in "/recordings", "/programs":
        assert server.get(path)[0].getheader("Content-Type") == "application/json"


def test_links_to_the_other_pages(server):
    """The bar of a page leads to all pages of its recording, and to the list."""
    for view in "report", "timeline", "flame":
        bar = server.text(server.page("train.pitot", view)).partition("<b>train.pitot</b>")
        assert bar[0].rstrip().endswith(">Recordings</a>") and 'href="/"' in bar[0]
        assert re.findall(r'<a href="(\w+)"', bar[2].partition("</div>")[0]) == ["report", "timeline", "flame", "source"]


def test_long_answers(build, make_recording, tmp_path):
    """They do not fit into the socket between a reader and the server."""
    make_recording(tmp_path / "long.pitot", kernels=60000)
    with serving(build, tmp_path) as server:
        data, _ = server.timeline("long.pitot")
        address = server.page("long.pitot", f"slices?from=0&until={data['duration_ns'] + 1}&pixels=20000&instance={data['instance']}")
        answers = [server.get(address) for _ in range(5)]
        assert {(answer.status, body) for answer, body in answers} == {(200, answers[0][1])} and len(answers[0][1]) > 1 << 18


@pytest.mark.parametrize("name", ["train", "cpu_all", "varied", "page"])
def test_slices_are_those_of_the_page(server, recordings, pitot, tmp_path, name):
    """In full detail all slices, the same in parts; from afar, their numbers and times."""
    data, ask = server.timeline(f"{name}.pitot")
    pitot("export", recordings / f"{name}.pitot", "-o", tmp_path / "x.html")
    whole, want, want_readings = read_page(tmp_path / "x.html")
    assert data["duration_ns"] == whole["duration_ns"] and data["nodes"] == whole["nodes"]

    def key(s):
        return s["group"], s["track"], s["track_name"], s["row"], s["start_ns"], s["duration"], s["correlation"], s["kind"], s["name"], json.dumps(s["details"])

    def sums(slices):
        found = Counter()
        for each in slices:
            found[each["group"], each["track_name"], each["row"], "count"] += each.get("count", 1)
            found[each["group"], each["track_name"], each["row"], "busy"] += each.get("busy", each["duration"])
        return found

    end = data["duration_ns"] + 1
    for parts in 1, 7:
        got = Counter()
        for i in range(parts):
            part, slices, readings = ask(**{"from": end * i // parts, "until": end * (i + 1) // parts}, pixels=20000)
            for each in slices:
                if each["count"] == 1:
                    got[key(each)] = 1
            if not part["merged"]:
                inside = {key(s) for s in want if s["start_ns"] < part["until"] and s["start_ns"] + s["duration"] >= part["from"]}
                assert {key(s) for s in slices} == inside
        assert set(got) <= {key(s) for s in want}
    for pixels in 20000, 1000, 30, 1:
        part, slices, readings = ask(**{"from": 0, "until": end}, pixels=pixels)
        assert sums(slices) == sums(want)
        assert part["merged"] == any(each["count"] > 1 for each in slices) and len(slices) <= len(want)
        assert all(each["busy"] <= each["duration"] for each in slices)
        assert {key(s) for s in want if s["duration"] >= max(end // pixels, 1)} <= {key(s) for s in slices if s["count"] == 1}
        for each in [s for s in slices if s["count"] > 1][:20]:  # it is called as the longest one
            its = [s for s in want if (s["group"], s["track_name"], s["row"]) == (each["group"], each["track_name"], each["row"]) and
                   each["start_ns"] <= s["start_ns"] and s["start_ns"] + s["duration"] <= each["start_ns"] + each["duration"]]
            assert each["name"] in {s["name"] for s in its if s["duration"] == max(s["duration"] for s in its)}
        rows = Counter((s["group"], s["track_name"], s["row"]) for s in slices)
        wide = Counter((s["group"], s["track_name"], s["row"]) for s in slices if s["duration"] >= max(end // pixels, 1))
        assert all(n <= 2 * (pixels + 2) + wide[row] * 2 for row, n in rows.items())
        for counter, values in want_readings.items():
            assert set(readings[counter]) <= set(values) and {max(v for _, v in values), min(v for _, v in values)} <= {v for _, v in readings[counter]}


def test_sums_are_those_of_the_page(server, recordings, pitot, tmp_path):
    """Of the whole, and of a part, with the time inside of it."""
    data, ask = server.timeline("train.pitot")
    pitot("export", recordings / "train.pitot", "-o", tmp_path / "x.html")
    _, want, _ = read_page(tmp_path / "x.html")
    end = data["duration_ns"] + 1
    for from_ns, until in (0, end), (end // 3, end // 2), (end // 2, end // 2 + 1), (end, end + 1):
        text = server.text(server.page("train.pitot", f"slices?sums=1&from={from_ns}&until={until}&instance={data['instance']}"))
        part = json.loads(text)
        found, expected = Counter(), Counter()
        for number, (n, ns) in part["sums"].items():
            kind, name, _ = part["classes"][number]
            name = part["classes"][str(name)][1] if isinstance(name, int) else name
            found[data["kinds"][kind], name, "n"] += n
            found[data["kinds"][kind], name, "ns"] += ns
        for each in want:
            start, stop = each["start_ns"], each["start_ns"] + each["duration"]
            if stop >= from_ns and start < until:
                expected[each["kind"], each["name"], "n"] += 1
                expected[each["kind"], each["name"], "ns"] += min(stop, until) - max(start, from_ns)
        assert +found == +expected


def test_collectives_are_those_of_the_page(build, rank_recording, pitot, tmp_path):
    """Members refer to slices of the part; none to merged ones."""
    recording = rank_recording("sleep-3")
    pitot("export", recording, "-o", tmp_path / "x.html")
    whole, want, _ = read_page(tmp_path / "x.html")

    def members(data, slices, collectives):
        """Start and wait of each member, by collective."""
        by_row = {}
        for each in slices:
            by_row.setdefault((each["group"], each["track_name"], each["row"]), []).append(each)
        places = [[(data["groups"][group][0], name, (lane, depth)) for lane, depth, *_ in rows] for group, _, name, _, rows, *_ in data["tracks"]]
        return [sorted((by_row[places[track][row]][i]["start_ns"], wait) for track, row, i, wait in zip(*[iter(flat)] * 4)) for flat in collectives]

    all_members = members(whole, want, whole["collectives"])
    with serving(build, recording) as server:
        data, ask = server.timeline(recording.name)
        near, far = (all_members[i][0][0] for i in (3, 12))
        for from_ns, until, pixels in (near, far, 20000), (0, data["duration_ns"] + 1, 20000), (0, data["duration_ns"] + 1, 200):
            part, slices, _ = ask(**{"from": from_ns, "until": until}, pixels=pixels)
            found = members(data, slices, part["collectives"])
            assert len(found) >= (8 if from_ns else 0) and all(any(set(one) <= set(other) for other in all_members) for one in found)
            single = {s["start_ns"] for s in slices if s["count"] == 1 and s["track"] == "stream"}
            assert sum(map(len, found)) == sum(start in single for one in all_members for start, _ in one)


@pytest.mark.parametrize("name", ["train", "varied"])
def test_a_call_with_its_work(server, recordings, pitot, tmp_path, name):
    """Also where ids are not in the order of time."""
    pitot("export", recordings / f"{name}.pitot", "-o", tmp_path / "x.html")
    _, want, _ = read_page(tmp_path / "x.html")
    _, ask = server.timeline(f"{name}.pitot")
    for number in sorted({s["correlation"] for s in want if s["correlation"]})[::200 if name == "train" else 1]:
        _, slices, _ = ask(correlation=number)
        assert Counter((s["track"], s["start_ns"], s["name"]) for s in slices) == \
            Counter((s["track"], s["start_ns"], s["name"]) for s in want if s["correlation"] == number)
    assert ask(correlation=2 ** 60)[1] == []


# --- what happens meanwhile ---


@pytest.fixture
def own(build, make_recording, tmp_path):
    """A server of recordings that a test may change: server, folder."""
    folder = tmp_path / "own"
    folder.mkdir()
    make_recording(folder / "a.pitot", kernels=300)
    make_recording(folder / "b.pitot", kernels=200)
    with serving(build, folder) as server:
        yield server, folder


def test_removed_recordings(own):
    server, folder = own
    page = server.page("a.pitot", "report")
    assert server.status(page) == 200
    shutil.rmtree(folder / "a.pitot")
    assert server.status(page) == 404
    wait_until(lambda: set(server.list()) == {"b.pitot"}, "it is not listed")
    assert "removed or renamed" in server.text(page, 404)


def test_added_recordings(own):
    """The list is in the order of paths, and loses none when it is read again."""
    server, folder = own
    assert list(server.list()) == ["a.pitot", "b.pitot"]
    shutil.copytree(folder / "b.pitot", folder / "0.pitot")
    wait_until(lambda: list(server.list()) == ["0.pitot", "a.pitot", "b.pitot"], "it is listed")


def test_links_in_place_of_recordings(own, recordings):
    """Also of the one that is listed, and open."""
    server, folder = own
    page = server.page("a.pitot", "report")
    assert server.status(page) == 200
    (folder / "a.pitot").rename(folder / "hidden")
    (folder / "a.pitot").symlink_to(recordings / "train.pitot")
    assert server.status(page) == 404 and server.status(page.replace("report", "timeline")) == 404


def test_recordings_that_grow_and_are_cut(own, make_recording, tmp_path):
    """A page shows the recording as it is when it is asked for; slices are of their page."""
    server, folder = own
    assert "300 kernels" in server.text(server.page("a.pitot", "report"))
    data, ask = server.timeline("a.pitot")
    make_recording(tmp_path / "more.pitot", kernels=777)
    shutil.rmtree(folder / "a.pitot")
    shutil.copytree(tmp_path / "more.pitot", folder / "a.pitot")
    assert len(ask(**{"from": 0, "until": data["duration_ns"] + 1}, pixels=20000)[1]) > 300
    assert "777 kernels" in server.text(server.page("a.pitot", "report"))
    assert server.status(server.page("a.pitot", f"slices?instance={data['instance']}")) == 200
    assert "777" in server.text(server.page("a.pitot", "timeline"))
    assert server.status(server.page("a.pitot", f"slices?instance={data['instance']}")) == 409
    [segment] = sorted((folder / "a.pitot").glob("*.pit"), key=lambda path: path.stat().st_size)[-1:]
    os.truncate(segment, segment.stat().st_size // 2)
    assert 'id="loss"' in server.text(server.page("a.pitot", "report"))
    for path in (folder / "a.pitot").glob("*.pit"):
        path.write_bytes(b"no segment")
    assert server.status(server.page("a.pitot", "report")) == 500
    assert wait_until(lambda: (of := server.list()["a.pitot"]["summary"]) and of.get("problem"), "the list says it")


def test_a_reader_that_ends(own):
    """It is a process of its own: who waits is told, and the next one gets an answer."""
    server, _ = own
    page = server.page("a.pitot", "report")
    server.summaries()
    before = server.workers()
    for worker in before:
        os.kill(worker, signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", server.port)) as waiting:
        waiting.sendall(f"GET {page} HTTP/1.1\r\nHost: localhost\r\nCookie: {server.cookie}\r\n\r\n".encode())
        wait_until(lambda: server.status("/") == 200, "others are answered meanwhile")
        for worker in before:
            os.kill(worker, signal.SIGKILL)
        assert b"500 " in waiting.recv(100)
    assert server.status(page) == 200 and not set(server.workers()) & set(before)


def test_readers_have_nothing_of_the_server(own):
    """Neither its connections nor other recordings: the socket to it, and the folder."""
    server, _ = own
    server.summaries()
    for worker in server.workers():
        opened = {os.readlink(f"/proc/{worker}/fd/{fd}").partition(":")[0] for fd in os.listdir(f"/proc/{worker}/fd") if int(fd) > 2}
        assert len(opened) == 2 and "socket" in opened and len([fd for fd in os.listdir(f"/proc/{worker}/fd") if int(fd) > 2]) == 2


def test_more_recordings_than_readers(build, make_recording, tmp_path):
    make_recording(tmp_path / "0.pitot", kernels=10)
    for i in range(1, 34):
        shutil.copytree(tmp_path / "0.pitot", tmp_path / f"{i}.pitot")
    with serving(build, tmp_path) as server:
        assert len(server.summaries()) == 34 and len(server.workers()) <= 32
        assert all(server.status(server.page(f"{i}.pitot", "report")) == 200 for i in (0, 9, 33))


def test_more_recordings_than_the_list_has(build, tmp_path):
    for i in range(5001):
        (tmp_path / f"{i}.pitot").mkdir()
    with serving(build, tmp_path) as server:
        found = json.loads(server.text("/recordings"))
        assert found["has_more"] and len(found["recordings"]) == 5000


def test_a_recording_that_needs_too_much(build, make_recording, tmp_path):
    make_recording(tmp_path / "big.pitot", kernels=400000)
    with serving(build, tmp_path, "--memory", "64M") as server:
        assert "give more with --memory" in server.text(server.page("big.pitot", "timeline"), 503)
        assert server.status("/") == 200


# --- begin and end ---


def test_no_recordings(build, tmp_path):
    with serving(build, tmp_path) as server:
        assert server.list() == {} and "There is no recording" in server.text("/")


def test_a_single_recording(build, recordings):
    with serving(build, recordings / "page.pitot") as server:
        assert list(server.list()) == ["page.pitot"] and server.status(server.page("page.pitot", "report")) == 200


def test_a_folder_in_a_recording(build, recordings, tmp_path):
    """It is not listed, whatever its name is."""
    recording = shutil.copytree(recordings / "page.pitot", tmp_path / "outer.pitot")
    (recording / "inner.pitot").mkdir()
    with serving(build, recording) as server:
        assert list(server.list()) == ["outer.pitot"]


def test_addresses(build, pitot, tmp_path):
    with serving(build, tmp_path) as server:
        said = pitot("serve", tmp_path, "--port", server.port, status=1).stderr
        assert "choose another port with --port" in said
    assert "cannot open" in pitot("serve", tmp_path / "nothing", status=1).stderr
    assert "pitot lake get" in pitot("serve", "s3://bucket", status=2).stderr
    assert "at least 64M" in pitot("serve", "--memory", "1M", status=2).stderr
    pitot("serve", "--port", "65536", status=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_end(build, recordings, number):
    """Its readers end with it, also one that is busy, and when it is killed."""
    process = subprocess.Popen([build / "pitot", "serve", recordings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("http://127.0.0.1:") and "token=" in line
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0 and "Ctrl-C" in said


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_readers_of_a_killed_server(build, recordings):
    process = subprocess.Popen([build / "pitot", "serve", recordings, "--json"], stdout=subprocess.PIPE, text=True)
    server = Server(process, json.loads(process.stdout.readline()))
    assert server.status(server.page("page.pitot", "report")) == 200
    workers = server.workers()
    assert workers
    process.kill()
    process.wait()
    for worker in workers:
        wait_until(lambda: has_ended(worker), "its readers end, too")


def test_the_browser(build, recordings, tmp_path):
    """It gets a page that leads to the server: other users see a program's arguments."""
    (tmp_path / "xdg-open").write_text('#!/bin/sh\ncp "$1" "$0.page"\necho "$1" > "$0.arguments"\n')
    (tmp_path / "xdg-open").chmod(0o755)
    process = subprocess.Popen([build / "pitot", "serve", recordings, "--json", "--open"], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(tmp_path)})
    url = json.loads(process.stdout.readline())["url"]
    path = wait_until(lambda: (tmp_path / "xdg-open.arguments").exists() and (tmp_path / "xdg-open.arguments").read_text().strip(), "it was called", process)
    assert url in (tmp_path / "xdg-open.page").read_text() and path.startswith(f"{tmp_path}/pitot-") and "token" not in path
    assert os.stat(path).st_mode & 0o777 == 0o600
    process.terminate()
    assert process.wait(60) == 0 and not os.path.exists(path)
