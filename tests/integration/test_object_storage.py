"""pitot agent and pitot lake with a bucket: nothing is lost and nothing is there twice, whatever the server does."""
import importlib.util
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import s3_server
from shipped_rows import recorded, shipped
from waiting import wait_until

FAST = ("--interval", "1s", "--ship", "1s")


@pytest.fixture
def lake():
    return f"s3://{s3_server.BUCKET}/pitot/v1"


@pytest.fixture
def ship(pitot, lake, tmp_path):
    """ship(folder): ships finished recordings."""
    return lambda folder, *options, lake=lake, **more: pitot("agent", "--once", "--no-live", "--recordings", folder, "--lake", lake,
                                                             "--spool", tmp_path / "spool", *options, **more)


def copied(objects, folder):
    return s3_server.copied(objects, folder, "pitot/v1/")


def spooled(tmp_path):
    return {path.name for path in (tmp_path / "spool").iterdir()} - {"lock", "state.json"}


def test_a_bucket_has_what_a_folder_has(store, ship, pitot, rows, rank_recording, lake, tmp_path):
    """The same statements, tables and rows; shipped again, nothing is new; ls lists them."""
    folder = rank_recording("sleep-3")
    pitot("lake", "init", lake)
    assert "nothing has been shipped" in pitot("lake", "ls", lake).stderr
    ship(folder)
    objects = store.objects
    found = copied(objects, tmp_path / "copy")
    assert shipped(found) == recorded(rows, folder) != {}
    assert f"parquet.`s3a://{s3_server.BUCKET}/pitot/v1/step`" in (found / "sql/spark.sql").read_text()
    assert f"s3('{store.endpoint}/{s3_server.BUCKET}/pitot/v1/step/*/*.parquet', 'Parquet', 'job " in (found / "sql/clickhouse.sql").read_text()
    tables = {table["name"]: table for table in pitot("lake", "ls", lake, "--json", json_output=True)["tables"]}
    for name, table in tables.items():
        bodies = [body for key, body in objects.items() if key.startswith(f"pitot/v1/{name}/") and not key.endswith("schema.parquet")]
        assert (table["objects"], table["bytes"]) == (len(bodies), sum(map(len, bodies)))
    (tmp_path / "spool/state.json").unlink()
    ship(folder)
    pitot("lake", "init", lake)
    assert not spooled(tmp_path)


@pytest.mark.parametrize("store", ["moto"], indirect=True)
def test_clickhouse_reads_a_bucket(store, ship, pitot, rank_recording, source, environment, lake, tmp_path):
    """With the statements that the bucket has, and the answers that DuckDB has from a copy."""
    if not importlib.util.find_spec("chdb"):
        pytest.skip("needs the Python package chdb-core")
    pitot("lake", "init", lake)
    ship(rank_recording("sleep-3"))
    copy = copied(store.objects, tmp_path / "copy")
    pitot("lake", "init", tmp_path / "other")
    shutil.copytree(copy / "kernel_sketch", tmp_path / "other/kernel_sketch", dirs_exist_ok=True)
    words = sys.executable, source / "examples/fleet/ask.py"
    bucket, folder = (json.loads(subprocess.run([*words, *more, "gpu_time_by_kernel"], capture_output=True, check=True, env=environment).stdout)
                      for more in ((copy, "--engine", "clickhouse"), (tmp_path / "other",)))
    assert bucket == folder and len(bucket["rows"]) > 3


def test_an_object_is_shipped_twice(store, ship, rank_recording, tmp_path):
    """Of an answer that was lost: the object stays as it is, and that is success."""
    folder = rank_recording("sleep-3")
    ship(folder, status=1, lake="s3://no-such-bucket")
    waiting = {path.name: path.read_bytes() for path in (tmp_path / "spool").glob("*.parquet")}
    ship(folder)
    before = store.objects
    for name, body in waiting.items():
        (tmp_path / "spool" / name).write_bytes(body)
    ship(folder)
    assert store.objects == before and len(before) == len(waiting) and not spooled(tmp_path)


def test_a_window_comes_back(store, pitot, played, agent, rows, lake, tmp_path):
    """It is there when it is whole: what is without its last file is neither listed nor copied."""
    process, _ = played("train", 1000, SLURM_JOB_ID="77")
    one = agent(*FAST, "-p", process.pid, "--when", "nvtx == forward")
    [window] = wait_until(lambda: pitot("lake", "ls", lake, "--json", json_output=True)["windows"], "the window is shipped", one)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.stderr.read()
    process.send_signal(signal.SIGINT)
    process.wait()
    pitot("lake", "get", lake, window["name"], "-o", tmp_path / "w.pitot")
    pitot("info", "--verify", tmp_path / "w.pitot")
    assert rows(tmp_path / "w.pitot", "trigger")[0]["rule"] == "nvtx == forward" and rows(tmp_path / "w.pitot", "kernel")
    assert window["bytes"] == sum(path.stat().st_size for path in (tmp_path / "w.pitot").glob("*.pit"))


def test_a_large_file_of_a_window(server, pitot, lake, tmp_path):
    """It is sent in pieces of what libcurl has room for."""
    window = tmp_path / "spool/window!date=2026-11-01!job.host.20261101T000000Z.nvtx-1.pitot"
    window.mkdir(parents=True)
    window.parent.chmod(0o700)
    text = bytes(range(256)) * 12288
    (window / "1.0.pit").write_bytes(text)
    pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", window.parent)
    assert server.objects[f"pitot/v1/window/date=2026-11-01/{window.name.rpartition('!')[2]}/1.0.pit"] == text and not window.exists()


def test_a_list_of_many_pages(server, pitot, lake):
    """And keys that no agent made: they are neither followed nor an end of the list."""
    server.page = 3
    server.objects.update({f"pitot/v1/step/date=2026-11-{day:02}/a.h.{day}.parquet": bytes(day) for day in range(1, 29)})
    names = "a b.parquet", "ä&<>.parquet", "\1.parquet", "../../x.parquet", "x/y/z.parquet", "%2F.parquet", ""
    server.objects.update({f"pitot/v1/step/date=2026-12-01/{name}": b"1" for name in names})
    server.objects.update({"pitot/v1/window/date=2026-11-29/n.pitot/../../1.0.pit": b"x", "other/step/date=2026-11-01/b.parquet": b"x",
                           "pitot/v1/window/date=2026-11-29/n.pitot/1.0.pit": b"x", "pitot/v1/window/date=2026-11-29/m.pitot/complete": b""})
    [table] = pitot("lake", "ls", lake, "--json", json_output=True)["tables"]
    assert (table["name"], table["first_date"], table["last_date"]) == ("step", "2026-11-01", "2026-12-01")
    assert (table["objects"], table["bytes"]) == (28 + 4, sum(range(1, 29)) + 4)
    for name in "n.pitot", "m.pitot":
        assert "no window" in pitot("lake", "get", lake, name, status=1).stderr


def test_a_list_without_an_end(server, pitot, lake):
    """Of a server that names one page again and again."""
    server.objects["pitot/v1/step/date=2026-11-01/a.parquet"] = b"1"
    for begin in "/0", "/1":
        server.more = f"<NextContinuationToken>{begin}</NextContinuationToken>"
        assert "has no end" in pitot("lake", "ls", lake, status=1).stderr


@pytest.mark.parametrize("faults", [[503] * 2, ["before"] * 2, ["cut", 500], ["after"], [429, "after"]], ids=str)
def test_a_moment_is_waited_for(server, ship, rows, rank_recording, tmp_path, faults):
    server.faults.extend(faults)
    folder = rank_recording("sleep-3")
    ship(folder)
    assert not server.faults and not spooled(tmp_path)
    assert shipped(copied(server.objects, tmp_path / "copy")) == recorded(rows, folder)


@pytest.mark.parametrize("fault, said", [(503, "HTTP 503, SlowDown"), ("before", "cannot write"), ("silent", "nothing was sent or received")])
def test_a_longer_time_is_for_the_spool(server, ship, rows, rank_recording, lake, tmp_path, fault, said):
    """It says why, keeps the objects, and ships them when the server is well."""
    server.faults.extend([fault] * 50)
    folder = rank_recording("sleep-3")
    message = ship(folder, status=1).stderr
    assert said in message and f"{lake}/" in message
    assert spooled(tmp_path) and not server.objects
    server.faults.clear()
    ship(folder)
    assert shipped(copied(server.objects, tmp_path / "copy")) == recorded(rows, folder)


def test_wrong_settings(server, ship, pitot, rank_recording, environment, lake, tmp_path):
    """Each is named with its remedy; a secret is in no message, and nothing is lost."""
    folder = rank_recording("sleep-3")
    credentials = tmp_path / "credentials"
    credentials.write_text("[default]\naws_access_key_id = AKIDOTHER\naws_secret_access_key = x/y\n"
                           f"# comment\n[ours]\n aws_access_key_id={s3_server.KEY}\r\naws_secret_access_key =  {s3_server.SECRET} \n")
    (tmp_path / "empty").write_text("[other]\nx\n=\n[")
    (tmp_path / "blank").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\tc\n" "aws_session_token = a b\n")
    without = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(tmp_path)}
    cases = (
        ((), {"AWS_SECRET_ACCESS_KEY": "other/secret"}, "SignatureDoesNotMatch", 1),
        ((), {"AWS_ACCESS_KEY_ID": "AKIDNOBODY"}, "InvalidAccessKeyId", 1),
        ((), without, "set AWS_ACCESS_KEY_ID", 2),
        ((), {"AWS_ACCESS_KEY_ID": "a\nb"}, "are no credentials", 2),
        (("--s3-region", "us-west-2"), {}, "region eu-central-1): give its region with --s3-region", 1),
        (("--s3-region", "us west"), {}, "no region", 2),
        (("--s3-credentials", credentials), {}, "InvalidAccessKeyId", 1),
        (("--s3-credentials", tmp_path / "none"), {}, "cannot read the credentials", 1),
        (("--s3-credentials", tmp_path / "empty"), {}, "no aws_access_key_id", 2),
        (("--s3-credentials", tmp_path / "blank"), {}, "invalid credentials", 2),
        (("--s3-endpoint", "ftp://127.0.0.1"), {}, "https://HOST", 2),
        (("--s3-endpoint", "https://user:secret@127.0.0.1"), {}, "https://HOST", 2),
        (("--s3-endpoint", "http://192.0.2.1"), {}, "not encrypted", 2),
        (("--s3-endpoint", "http://127.0.0.1:9"), {}, "127.0.0.1", 1),
    )
    for options, env, said, status in cases:
        message = ship(folder, *options, env=env, status=status).stderr
        assert said in message and not re.search("x/y|b\tc|wJalr|other/secret|user:secret", message), (options, message)
    for place, said in ("s3://no-such-bucket/x", "bucket 'no-such-bucket' does not exist"), ("s3://", "names no bucket"), ("s3:///x", "names no bucket"), \
            ("s3://a b/x", "names no bucket"), (f"s3://{s3_server.BUCKET}/a//b", "the prefix"), (f"s3://{s3_server.BUCKET}/a b", "the prefix"):
        assert said in ship(folder, lake=place, status=None).stderr
    assert not server.objects
    environment.update(without)
    server.token = "token/+="
    assert "ExpiredToken" in ship(folder, "--s3-credentials", credentials, env={"AWS_PROFILE": "ours"}, status=1).stderr
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(credentials.read_text() + "aws_session_token=token/+=\n")
    ship(folder, env={"AWS_PROFILE": "ours"})
    assert server.objects and not spooled(tmp_path)
    pitot("lake", "ls", lake, env={"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / ".aws/credentials"), "AWS_PROFILE": "ours", "HOME": "/"})


OLD_LIBCURL = """
static struct { int age; const char *version; unsigned number; } info = { 0, "7.87.0", 0x075700 };
int curl_global_init(long flags) { return 0; }
void *curl_easy_init(void) { return &info; }
int curl_easy_setopt(void *curl, int option, ...) { return 0; }
int curl_easy_getinfo(void *curl, int what, ...) { return 0; }
int curl_easy_perform(void *curl) { return 7; }
const char *curl_easy_strerror(int code) { return "sent all the same"; }
void curl_easy_cleanup(void *curl) { }
void *curl_slist_append(void *list, const char *text) { return &info; }
void curl_slist_free_all(void *list) { }
void *curl_version_info(int age) { return &info; }
"""


def test_a_libcurl_that_cannot_sign(server, pitot, lake, tmp_path):
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcurl.so.4", "-x", "c", "-"], input=OLD_LIBCURL, text=True, check=True)
    said = pitot("lake", "ls", lake, status=1, env={"LD_LIBRARY_PATH": str(tmp_path)}).stderr
    assert "this libcurl cannot sign requests to object storage: version 7.88 or a newer one is needed" in said


def test_killed_at_any_time(server, pitot, rows, played, agent, lake, tmp_path):
    """The server loses connections before, in and after requests, and is away; the agent is killed meanwhile. Totals are those of the recording."""
    process, folder = played("train", 6)
    chance = random.Random(34)
    while process.poll() is None:
        one = agent(*FAST, "-p", process.pid)
        with server.lock:
            server.faults[:] = [chance.choice(("before", "cut", "after", 503, None)) for _ in range(6)]
        before = len(server.objects)
        wait_until(lambda: len(server.objects) > before or process.poll() is not None or one.poll() is not None, "it ships")
        time.sleep(chance.random() / 4)
        one.kill()
        assert one.wait() == -signal.SIGKILL, one.stderr.read()
    assert process.returncode == 0
    server.faults.clear()
    pitot("agent", "--once", "--no-live", "--recordings", folder.parent, "--lake", lake, "--spool", tmp_path / "spool")
    assert shipped(copied(server.objects, tmp_path / "copy")) == recorded(rows, folder)
    assert not spooled(tmp_path)


def test_the_server_is_killed(pitot, rows, played, agent, environment, lake, tmp_path):
    """The server, a process, is killed with SIGKILL again and again, the agent now and then; nothing is missing, nothing is twice."""
    folder, chance = tmp_path / "bucket", random.Random(34)
    folder.mkdir()

    def start(port=0):
        one = subprocess.Popen([sys.executable, s3_server.__file__, folder, str(port)], stdout=subprocess.PIPE, text=True)
        return one, int(one.stdout.readline())

    server, port = start()
    environment.update(s3_server.settings(endpoint=f"http://127.0.0.1:{port}"))
    process, recording = played("train", 6)
    one, kills = agent(*FAST, "-p", process.pid), 0
    try:
        while process.poll() is None:
            time.sleep(chance.random())
            server.kill()
            server.communicate()
            kills += 1
            if chance.random() < 0.3:
                one.kill()
                one.wait()
                one = agent(*FAST, "-p", process.pid)
            time.sleep(chance.random() / 4)
            server, _ = start(port)
        assert process.returncode == 0 and kills > 3
        one.kill()
        one.wait()
        pitot("agent", "--once", "--no-live", "--recordings", recording.parent, "--lake", lake, "--spool", tmp_path / "spool")
    finally:
        server.kill()
        server.communicate()
    assert shipped(copied(s3_server.Files(folder), tmp_path / "copy")) == recorded(rows, recording) and not spooled(tmp_path)


def test_the_server_is_away(server, rows, played, agent, tmp_path):
    """The agent goes on reading, and ships by itself when the server is there again."""
    port = server.server_address[1]
    server.end()
    process, folder = played("train", 2)
    one = agent(*FAST, "-p", process.pid)
    assert process.wait() == 0
    wait_until(lambda: list((tmp_path / "spool").glob("*.parquet")), "it waits in the spool", one)
    assert re.search(f"127.0.0.1.*{port}", one.stderr.readline())
    again = s3_server.Server(port)
    try:
        wait_until(lambda: again.objects and not spooled(tmp_path) and shipped(copied(again.objects, tmp_path / "copy")) == recorded(rows, folder),
                   "it is shipped", one)
    finally:
        again.end()
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0
