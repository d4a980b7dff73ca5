"""pitot mcp: a strict client of JSON-RPC and of the Model Context Protocol, and the protocol's own client if it is installed."""
import asyncio
import json
import subprocess

import pytest

from waiting import PATIENCE

OPTIONAL = {"since", "until", "steps", "critical_path", "states", "memory", "scopes", "by", "kernel", "scope"}


class Client:
    def __init__(self, program, cwd):
        self.process = subprocess.Popen([program, "mcp"], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.number = 0

    def send(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        answer = json.loads(line.decode("utf-8"))
        assert answer["jsonrpc"] == "2.0" and ("result" in answer) != ("error" in answer) and set(answer) <= {"jsonrpc", "id", "result", "error"}
        if "error" in answer:
            assert set(answer["error"]) == {"code", "message"} and isinstance(answer["error"]["code"], int)
        return answer

    def ask(self, method, params=None):
        self.number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, **({} if params is None else {"params": params})}))
        answer = self.receive()
        assert answer["id"] == self.number
        return answer

    def call(self, name, **arguments):
        answer = self.ask("tools/call", {"name": name, "arguments": arguments})
        if "error" in answer:
            return answer["error"]
        content, = answer["result"]["content"]
        assert set(answer["result"]) == {"content", "isError"} and content["type"] == "text"
        return answer["result"]["isError"], content["text"]

    def end(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        assert (out, err, self.process.returncode) == (b"", b"", 0)


@pytest.fixture
def client(program, folder):
    client = Client(program, folder)
    answer = client.ask("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}})
    assert answer["result"]["protocolVersion"] == "2025-03-26" and answer["result"]["serverInfo"]["name"] == "pitot"
    assert answer["result"]["capabilities"] == {"tools": {}}
    client.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    yield client
    client.end()


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcp")
    for kind in "training", "memory":
        make_recording(folder / f"{kind}.pitot", kind)
    make_recording(folder / "it's.pitot", kernels=100)
    return folder


def test_tools(client):
    tools = {tool["name"]: tool for tool in client.ask("tools/list")["result"]["tools"]}
    assert set(tools) == {"report", "info", "sql", "schema", "diff", "source", "what_if"}
    for tool in tools.values():
        schema = tool["inputSchema"]
        assert tool["description"] and schema["type"] == "object" and not schema["additionalProperties"] and tool["annotations"]["readOnlyHint"]
        assert set(schema["required"]) <= set(schema["properties"])
        assert all(p["description"] and p["type"] in ("string", "boolean", "array") for p in schema["properties"].values())
    assert set(tools["report"]["inputSchema"]["properties"]) == OPTIONAL | {"recording"} and tools["sql"]["inputSchema"]["required"] == ["recording", "statement"]


def test_answers_are_those_of_the_commands(client, pitot, folder):
    def said(*words, **options):
        return pitot(*words, cwd=folder, env={"COLUMNS": "130"}, **options).stdout

    failed, text = client.call("sql", recording="training.pitot", statement="SELECT count(*) AS n FROM kernel")
    assert not failed and text.startswith(said("sql", "training.pitot", "SELECT count(*) AS n FROM kernel"))
    assert text.endswith("(shown by: pitot sql --limit=200 training.pitot 'SELECT count(*) AS n FROM kernel')")
    failed, text = client.call("report", recording="memory.pitot", memory=True, until="1s", steps=False)
    assert not failed and "memory at its peak" in text and text.endswith("(shown by: pitot report --no-pager memory.pitot --until=1s --memory)")
    failed, text = client.call("diff", a=["training.pitot"], b=["training.pitot"], fail_if=["step > 2%"])
    assert not failed and text.endswith("(shown by: pitot diff --no-pager training.pitot -- training.pitot '--fail-if=step > 2%')")
    failed, text = client.call("diff", b=["training.pitot"], against="none")
    assert failed and "none" in text and text.endswith("(shown by: pitot diff --no-pager training.pitot --against=none)")
    failed, text = client.call("diff", b=["training.pitot"])
    assert failed and "name two recordings" in text
    assert client.call("what_if", recording="training.pitot", changes=["gpu x0.5"])[0] is False
    assert client.call("info", recording="it's.pitot")[1].endswith("(shown by: pitot info --no-pager 'it'\\''s.pitot')")
    assert "start_ns" in client.call("schema", table="kernel")[1] and "memcpy" in client.call("schema")[1]


def test_what_fails_is_an_answer(client):
    failed, text = client.call("report", recording="nothing.pitot")
    assert failed and "nothing.pitot" in text
    failed, text = client.call("sql", recording="training.pitot", statement="SELECT nothing FROM kernel")
    assert failed and "nothing" in text
    failed, text = client.call("sql", recording="training.pitot", statement="DELETE FROM kernel")
    assert failed


def test_answers_are_bounded(client):
    failed, text = client.call("sql", recording="training.pitot", statement="SELECT " + ", ".join(f"printf('%.*c', 150, 'x') AS {c}" for c in "abcd") + " FROM kernel")
    assert not failed and 60000 < len(text) < 60500 and "the rest is left out" in text


@pytest.mark.parametrize("arguments, word", [
    ({"recording": "--output=x.html"}, "looks like an option"), ({"recording": 5}, "wrong type"), ({}, "needs the argument 'recording'"),
    ({"recording": "training.pitot", "output": "x.html"}, "has no argument 'output'"), ({"recording": "training.pitot", "steps": "yes"}, "wrong type")])
def test_arguments_are_no_options(client, folder, arguments, word):
    before = sorted(folder.iterdir())
    error = client.call("report", **arguments)
    assert error["code"] == -32602 and word in error["message"] and sorted(folder.iterdir()) == before


def test_an_option_with_a_value_is_one_word(client):
    failed, text = client.call("report", recording="training.pitot", kernel="--output=x.html")
    assert text.endswith("(shown by: pitot report --no-pager training.pitot --kernel=--output=x.html)")


@pytest.mark.parametrize("line, code", [
    ("garbage", -32700), ("[", -32700), ('{"jsonrpc": "2.0", "id": 1', -32700), ('{"id": 1, "method": "ping"}', -32600), ('{"jsonrpc": "2.0", "id": 1}', -32600),
    ('{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601), ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', -32602),
    ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', -32602)])
def test_errors(client, line, code):
    client.send(line)
    answer = client.receive()
    assert answer["error"]["code"] == code and answer["id"] == (None if code == -32700 else 1)
    client.send('{"jsonrpc": "2.0", "id": "after", "method": "ping"}')
    assert client.receive() == {"jsonrpc": "2.0", "id": "after", "result": {}}


@pytest.mark.parametrize("number", ["null", "true", "{}", "[1]"])
def test_an_id_that_is_none_is_refused(client, number):
    client.send(f'{{"jsonrpc": "2.0", "id": {number}, "method": "ping"}}')
    answer = client.receive()
    assert answer["error"]["code"] == -32600 and answer["id"] is None


def test_batches(client):
    """Version 2025-03-26 has them."""
    ping = '{"jsonrpc": "2.0", "id": %d, "method": "ping"}'
    note = '{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    client.send(f"[{note}, {note}]")
    client.send(f" [{ping % 1}, {note}, 5, {ping % 2}]")
    first, wrong, second = json.loads(client.process.stdout.readline())
    assert (first, second) == tuple({"jsonrpc": "2.0", "id": number, "result": {}} for number in (1, 2))
    assert wrong["id"] is None and wrong["error"]["code"] == -32600
    for line in "[]", "[" + ", ".join(ping % i for i in range(101)) + "]":
        client.send(line)
        assert client.receive()["error"]["code"] == -32600


def test_long_messages_and_arguments(client):
    client.send('{"jsonrpc": "2.0", "id": 1, "method": "' + "x" * (5 << 20) + '"}')
    assert client.receive()["error"]["code"] == -32700
    failed, text = client.call("info", recording="x" * 50000)
    assert failed and "cannot open recording" in text and "shown by" not in text
    for name, arguments in ("info", {"recording": "x" * 200000}), ("diff", {"a": ["x"] * 100000, "b": ["y"]}):
        error = client.call(name, **arguments)
        assert error["code"] == -32602 and "60000 bytes" in error["message"]


def test_the_protocols_own_client(program, folder):
    mcp = pytest.importorskip("mcp", reason="the package mcp is not installed")
    from mcp.client.stdio import stdio_client

    async def use():
        async with stdio_client(mcp.StdioServerParameters(command=str(program), args=["mcp"], cwd=folder)) as (read, write):
            async with mcp.ClientSession(read, write) as session:
                await session.initialize()
                tools = await session.list_tools()
                answer = await session.call_tool("report", {"recording": "training.pitot"})
                return [tool.name for tool in tools.tools], answer

    names, answer = asyncio.run(asyncio.wait_for(use(), PATIENCE))
    assert "report" in names and answer.model_dump(by_alias=True)["isError"] is False and "GPU busy" in answer.content[0].text
