"""pitot agent --profiles: what servers of profiles get adds up to what was recorded, whatever they and the agent meet meanwhile."""
import base64
import collections
import gzip
import json
import signal
import subprocess
import uuid

import pytest

from http_collector import Collector
from pprof import Pprof
from shipped_rows import ask, recorded
from waiting import wait_until

FAST = ("--interval", "1s", "--ship", "1s")
PATHS = {"pyroscope": "/push.v1.PusherService/Push", "parca": "/api/profiles/writeraw"}


@pytest.fixture
def server():
    server = Collector()
    yield server
    server.end()


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture
def send(pitot, server, lake, tmp_path):
    """send(folder): an agent ships finished recordings and ends."""
    return lambda folder, *options, **more: pitot("agent", "--once", "--no-live", "--recordings", folder, "--lake", lake, "--spool", tmp_path / "spool",
                                                  "--profiles", server.url, *options, **more)


def profile_of(body):
    """The labels of a request, its profile, compressed and read, and its sample."""
    [series] = json.loads(body)["series"]
    labels = series["labels"]
    [sample] = series["samples"]
    data = base64.b64decode(sample["rawProfile"], validate=True)
    labels = {label["name"]: label["value"] for label in (labels["labels"] if isinstance(labels, dict) else labels)}
    return labels, data, Pprof(gzip.decompress(data)), sample


def by_stack(profiles):
    """{stack and GPU: ns of GPU work} of profiles that have other kinds of time, too."""
    found = collections.Counter()
    for profile in profiles:
        index = [name for name, _ in profile.types].index("gpu")
        for sample in profile.profile.sample:
            if sample.value[index]:
                found[*profile.stack(sample), dict(profile.labels(sample))["device"]] += sample.value[index]
    return found


def gpu_time(requests):
    return sum(profile_of(body)[2].sum("gpu") for _, _, body in requests)


@pytest.mark.parametrize("kind", PATHS)
def test_time_by_stack_is_that_of_the_recording(build, pitot, server, send, tmp_path, kind):
    """Each stack has what `pitot flame` says of the recording; two processes are two series."""
    folder = tmp_path / "runs" / "one.pitot"
    folder.parent.mkdir()
    subprocess.run([build / "tests/support/make-recording", folder, "--kernels", "20000", "--processes", "2", "--stacks", "30"], check=True)
    send(folder.parent, "--profiles-to", kind)
    pitot("flame", folder, "-o", tmp_path / "whole.pb.gz")
    profiles, sessions, ids = [], set(), set()
    for path, headers, body in server.requests:
        labels, _, profile, sample = profile_of(body)
        assert path == PATHS[kind] and headers["Content-Type"] == "application/json"
        assert labels["__name__"] == "pitot" and labels["service_name"] == "app" and labels["host"] == "testhost" and profile.types == [("gpu", "nanoseconds")]
        assert any(mapping.build_id for mapping in profile.profile.mapping) and 0 < profile.profile.duration_nanos < 10**9
        sessions.add(labels["session"])
        ids.add(sample.get("ID"))
        profiles.append(profile)
    assert len(sessions) == 2 and by_stack(profiles) == by_stack([Pprof(gzip.decompress((tmp_path / "whole.pb.gz").read_bytes()))]) != {}
    assert ids == {None} if kind == "parca" else len(ids) == len(profiles) and all(uuid.UUID(one).version == 4 for one in ids)


def otlp(body):
    """The profiles of a request by OpenTelemetry's definitions, checked against their rules: attributes, {kind: {stack and device: value}}."""
    service = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = service.ExportProfilesServiceRequest.FromString(body)
    tables = request.dictionary
    assert tables.string_table[0] == "" and len(set(tables.string_table)) == len(tables.string_table)
    for table in tables.mapping_table, tables.location_table, tables.function_table, tables.link_table, tables.attribute_table, tables.stack_table:
        assert table[0].ByteSize() == 0 and len({one.SerializeToString() for one in table}) == len(table)
    [resource] = request.resource_profiles
    [scope] = resource.scope_profiles
    found = {}
    for profile in scope.profiles:
        values = found.setdefault(tables.string_table[profile.sample_type.type_strindex], collections.Counter())
        assert profile.time_unix_nano > 1e18 and profile.duration_nano > 0 and tables.string_table[profile.sample_type.unit_strindex] == "ns"
        for sample in profile.samples:
            names = [tables.string_table[tables.function_table[line.function_index].name_strindex]
                     for index in tables.stack_table[sample.stack_index].location_indices for line in tables.location_table[index].lines]
            attributes = {tables.string_table[tables.attribute_table[i].key_strindex]: tables.attribute_table[i].value.string_value
                          for i in sample.attribute_indices}
            [value] = sample.values
            values[*names[::-1], attributes["device"]] += value
    return {one.key: one.value.string_value for one in resource.resource.attributes}, found


def test_profiles_of_opentelemetry(build, pitot, server, send, tmp_path):
    """As the alpha of the signal has them in version 1.45 of its definitions; `pitot flame` writes the same format."""
    folder = tmp_path / "runs" / "one.pitot"
    folder.parent.mkdir()
    subprocess.run([build / "tests/support/make-recording", folder, "--kernels", "20000", "--processes", "2", "--stacks", "30"], check=True)
    send(folder.parent, "--profiles-to", "otlp-alpha")
    for name in "whole.pb.gz", "whole.otlp":
        pitot("flame", folder, "-o", tmp_path / name)
    total = by_stack([Pprof(gzip.decompress((tmp_path / "whole.pb.gz").read_bytes()))])
    sum_of_all = collections.Counter()
    for path, headers, body in server.requests:
        attributes, found = otlp(body)
        assert path == "/v1development/profiles" and headers["Content-Type"] == "application/x-protobuf" and set(found) == {"gpu"}
        assert attributes["service.name"] == "app" and attributes["host.name"] == "testhost" and attributes["pitot.session"]
        sum_of_all += found["gpu"]
    assert sum_of_all == total == otlp((tmp_path / "whole.otlp").read_bytes())[1]["gpu"] != {}


def test_pprof_of_go_reads_it(build, server, send, tmp_path):
    go = subprocess.run(["sh", "-c", "go tool pprof -h"], capture_output=True, text=True)
    if "usage" not in go.stderr:
        pytest.skip("no Go with pprof: apt-get install golang-go")
    folder = tmp_path / "runs" / "one.pitot"
    folder.parent.mkdir()
    subprocess.run([build / "tests/support/make-recording", folder, "--kernels", "2000", "--stacks", "5"], check=True)
    send(folder.parent)
    _, data, profile, _ = profile_of(server.requests[0][2])
    (tmp_path / "one.pb.gz").write_bytes(data)
    top = subprocess.run(["go", "tool", "pprof", "-top", "-unit=ns", tmp_path / "one.pb.gz"], capture_output=True, text=True, check=True).stdout
    assert f"{profile.sum('gpu')}ns total" in top and "cuLaunchKernel" in top


def test_a_server_that_is_away(server, agent, played, rows, tmp_path):
    """And an agent that is killed meanwhile: what the server has taken in the end is each piece of work once."""
    server.status = 503
    process, folder = played("train", 3, SLURM_JOB_ID="77")
    words = (*FAST, "-p", process.pid, "--profiles", server.url)
    one = agent(*words)
    wait_until(lambda: list((tmp_path / "spool").glob("[0-9]*.profile")) and len(server.requests) > 1, "profiles wait", one)
    one.kill()
    one.wait()
    one = agent(*words)
    waiting = wait_until(lambda: len(list((tmp_path / "spool").glob("[0-9]*.profile"))), "they still do", one)
    assert waiting and not server.taken and one.poll() is None
    server.status = 200
    assert process.wait() == 0
    want = sum(total for _, total in recorded(rows, folder).values())
    wait_until(lambda: gpu_time(server.taken) >= want, "all work is sent", one)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0
    assert gpu_time(server.taken) == want and not list((tmp_path / "spool").glob("[0-9]*.profile"))
    assert {profile_of(body)[0]["job"] for _, _, body in server.taken} == {"77"} and one.stderr.read().count("HTTP 503") <= 1


def test_a_profile_that_is_refused(build, server, send, rows, lake, tmp_path):
    """It holds up no other one, and is a loss."""
    refused = []

    def answer(number, body):
        if number == 1:
            refused.append(body)
        return 400 if body in refused else 200

    server.status = answer
    folder = tmp_path / "runs" / "one.pitot"
    folder.parent.mkdir()
    subprocess.run([build / "tests/support/make-recording", folder, "--kernels", "3000", "--processes", "3", "--stacks", "5"], check=True)
    said = send(folder.parent).stderr
    assert said.count("answers HTTP 400") == 1 and len(server.requests) == 3 and not list((tmp_path / "spool").glob("[0-9]*.profile"))
    assert gpu_time(server.taken) + gpu_time([("", {}, refused[0])]) == sum(total for _, total in recorded(rows, folder).values())
    server.status = 200
    send(tmp_path / "none")
    [[reason, count]] = ask(lake, "SELECT reason, count FROM {loss} WHERE lost_by = 'agent'")
    assert reason == "refused" and 0 < count < 3000 and len(server.requests) == 3


def test_wrong_servers(pitot, lake, tmp_path):
    """Keys are in no message, and leave this machine only by HTTPS."""
    for url, headers, what in ("http://192.0.2.1:4040", "Authorization=Bearer%20secret", "not encrypted"), ("ftp://x", "", "--profiles takes"), \
            ("http://127.0.0.1:1", "secret", "no list of NAME=VALUE"):
        said = pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", tmp_path / "spool", "--profiles", url, env={"PITOT_PROFILES_HEADERS": headers},
                     status=2).stderr
        assert what in said and "secret" not in said
    assert "pyroscope" in pitot("agent", "--profiles-to", "jaeger", status=2).stderr
