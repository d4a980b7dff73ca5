"""`pitot import`: XML of Apple's Instruments: ids and references, GPU intervals, ranges of threads, CPU samples."""
import json
import random
from xml.sax.saxutils import escape, quoteattr

import pytest


class Node:
    """A table. Values that were written before become references, as xctrace writes them."""

    def __init__(self, schema, *columns):
        self.schema, self.columns, self.rows, self.ids = schema, columns, [], {}

    def element(self, kind, text="", shown=None, *inside, **attributes):
        key = repr((kind, text, shown, inside, attributes))
        if key in self.ids:
            return f'<{kind} ref="{self.ids[key]}"/>'
        parts = "".join(self.element(*part[0], **part[1]) for part in inside)
        self.ids[key] = len(self.ids) + 1
        more = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
        return f'<{kind} id="{self.ids[key]}"{f" fmt={quoteattr(shown)}" if shown else ""}{more}>{escape(text)}{parts}</{kind}>'

    def row(self, *cells):
        """Cells: None, or arguments of element()."""
        self.rows.append("<row>" + "".join("<sentinel/>" if cell is None else self.element(*cell) for cell in cells) + "</row>\n")
        return self

    def __str__(self):
        columns = "".join(f"<col><mnemonic>{m}</mnemonic><name>{m.title()}</name><engineering-type>{t}</engineering-type></col>" for m, t in self.columns)
        return f'<node xpath="//run[1]/data[1]/table[1]"><schema name="{self.schema}">{columns}</schema>{"".join(self.rows)}</node>'


def document(*nodes):
    return '<?xml version="1.0"?>\n<trace-query-result>\n' + "\n".join(map(str, nodes)) + "</trace-query-result>\n"


def part(kind, text="", shown=None, *inside, **attributes):
    return (kind, text, shown, *inside), attributes


def time(ns):
    return "start-time", str(ns), f"00:00.{ns:09}"



APP = ("process", "", "app (42)", part("pid", "42", "42"))
MAIN = ("thread", "", "Main Thread 0x1f (app, pid: 42)", part("tid", "31", "0x1f"), (APP, {}))
COLUMNS = ("start", "start-time"), ("duration", "duration"), ("channel-name", "gpu-channel-name"), ("label", "formatted-label"), ("process", "process")


def intervals():
    node = Node("metal-gpu-intervals", *COLUMNS)
    for i in range(4):
        node.row(time(i * 1000), ("duration", "500", "500 ns"), ("gpu-channel-name", ("Vertex", "Compute")[i % 2], None), ("formatted-label", "", f"pass <{i // 2}> & \"x\""), APP)
    return node


def ranges():
    node = Node("os-signpost-interval", ("start", "start-time"), ("duration", "duration"), ("thread", "thread"), ("name", "string"))
    return node.row(time(100), ("duration", "3000", "3 us"), MAIN, ("string", "outer", None)).row(time(0), ("duration", "50", "50 ns"), MAIN, ("string", "é", None)).row(
        None, ("duration", "50", "50 ns"), MAIN, ("string", "no time", None))


def samples():
    node = Node("time-profile", ("time", "sample-time"), ("thread", "thread"), ("weight", "weight"), ("stack", "tagged-backtrace"))
    frames = [part("frame", name=name, addr=address) for name, address in (("leaf", "0x1010"), ("main", "0x1000"))]
    for i in range(3):
        node.row(("sample-time", str(i * 1000000), None), MAIN, ("weight", "2000000", "2.00 ms"), ("tagged-backtrace", "", None, part("backtrace", "", None, *frames)))
    return node


@pytest.fixture
def bring(pitot, tmp_path):
    def run(content, **options):
        (tmp_path / "a.xml").write_text(content)
        said = pitot("import", "a.xml", "-o", "r.pitot", "--force", "--json", json_output=True, **options)

        def rows(table, *columns):
            lines = pitot("view", "r.pitot", table, "--json", "--quiet", *(["-c", ",".join(columns)] if columns else [])).stdout
            return [json.loads(line) for line in lines.splitlines()]

        return said, rows

    return run


def test_what_becomes_what(bring, pitot):
    said, rows = bring(document(intervals(), ranges(), samples()))
    assert (said["format"], said["records"], said["damaged"]) == ("xctrace", 10, 0)
    kernels = rows("kernel", "config", "start_ns", "duration_ns", "stream")
    first = kernels[0]["start_ns"]
    assert [(k["config"], k["start_ns"] - first, k["duration_ns"], k["stream"]) for k in kernels] == [
        ('pass <0> & "x"', 0, 500, 1), ('pass <0> & "x"', 1000, 500, 2), ('pass <1> & "x"', 2000, 500, 1), ('pass <1> & "x"', 3000, 500, 2)]
    assert [(r["kind"], r["message"], r["thread"], r["time_ns"] - first) for r in rows("nvtx")] == [
        ("push", "é", 31, 0), ("pop", None, 31, 50), ("push", "outer", 31, 100), ("pop", None, 31, 3100)]
    assert [(r["time_ns"] - first, r["thread"], r["weight_ns"]) for r in rows("cpu_sample")] == [(i * 1000000, 31, 2000000) for i in range(3)]
    assert len({r["stack"] for r in rows("cpu_sample")}) == 1
    assert {(r["address"], r["function"]) for r in rows("symbol")} == {(0x1010, "leaf"), (0x1000, "main")}
    assert [(r["pid"], r["command"]) for r in rows("process")] == [(42, "app (42)")]
    assert any("1 event without a usable time" in note for note in said["notes"])
    assert "leaf" in pitot("report", "r.pitot").stdout


def test_ids_begin_anew_in_each_node(bring):
    """The same ids are other values there."""
    one, two = (Node("metal-gpu-intervals", *COLUMNS) for _ in range(2))
    for node, name in ((one, "a"), (two, "b")):
        for at in (10, 20):
            node.row(time(at), ("duration", "5", None), ("gpu-channel-name", "C", None), ("formatted-label", name, None), APP)
    _, rows = bring(document(one, two))
    assert sorted(row["config"] for row in rows("kernel")) == ["a", "a", "b", "b"]


def test_nodes_that_go_on(bring):
    """Without columns of their own, and with references to what was in the node before: so are several tables of one query."""
    whole = intervals()
    said, rows = bring(document(whole))
    expected = [(row["start_ns"], row["config"], row["stream"]) for row in rows("kernel")]
    parts = Node("metal-gpu-intervals", *COLUMNS), "".join(whole.rows[2:])
    parts[0].rows = whole.rows[:2]
    said, rows = bring(document(parts[0], f"<node xpath='//run[1]/data[1]/table[2]'>{parts[1]}</node>"))
    assert [(row["start_ns"], row["config"], row["stream"]) for row in rows("kernel")] == expected and len(expected) == 4
    assert said["unknown"] == said["damaged"] == 0


def test_stacks_without_a_backtrace_in_them(bring, pitot):
    """Newer tables have the frames in the tagged backtrace itself."""
    node = Node("time-profile", ("time", "sample-time"), ("thread", "thread"), ("weight", "weight"), ("stack", "tagged-backtrace"))
    frames = [part("frame", "", None, part("binary", "", None, name="app"), name=name, addr=address) for name, address in (("leaf", "0x1010"), ("main", "0x1020"))]
    frames.append(part("truncated", "1", None, part("later", "2")))
    for i in range(3):
        node.row(("sample-time", str(i * 1000000), None), MAIN, ("weight", "1000000", "1.00 ms"), ("tagged-backtrace", "", None, *frames))
    _, rows = bring(document(node))
    assert len(rows("cpu_sample")) == 3 and all(row["stack"] for row in rows("cpu_sample"))
    assert "100.0%  leaf" in pitot("report", "r.pitot").stdout and [row["function"] for row in rows("symbol")] == ["leaf", "main"]


@pytest.mark.parametrize("name", ["os-signpost-interval", "OSSignpostIntervals"])
def test_signposts(bring, name):
    _, rows = bring(str(document(ranges())).replace("os-signpost-interval", name))
    assert rows("nvtx")


def test_tables_that_are_unknown(bring, pitot, tmp_path):
    other = Node("thermal-state", ("start", "start-time")).row(time(5)).row(time(6))
    said, rows = bring(document(other, intervals()))
    assert any("2 rows of table thermal-state, which is unknown" in note for note in said["notes"]) and len(rows("kernel")) == 4
    (tmp_path / "b.xml").write_text(document(other))
    assert "no event with a time" in pitot("import", "b.xml", "-o", "b.pitot", status=1).stderr
    (tmp_path / "toc.xml").write_text('<?xml version="1.0"?><trace-toc><run number="1"/></trace-toc>')
    assert "is a table of contents; write a table with `xctrace export --xpath" in pitot("import", "toc.xml", "-o", "b.pitot", status=1).stderr


def rows_of(*cells):
    return document(Node("metal-gpu-intervals", *COLUMNS)).replace("</schema>", "</schema>" + "".join(f"<row>{cell}</row>" for cell in cells))


@pytest.mark.parametrize("content, said", [
    ('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><trace-query-result>&b;</trace-query-result>', "a document type, which is not read"),
    ("<trace-query-result>&lol;</trace-query-result>", "an entity that is none of XML's own"),
    ("<trace-query-result>" + "<a>" * 100, "more than 64 elements within each other"),
    ("<trace-query-result><a " + " ".join(f"b{i}=''" for i in range(40)) + "/></trace-query-result>", "more than 32 attributes"),
    ("<trace-query-result><a></b></trace-query-result>", "an element ends that is not the innermost one"),
    ("<trace-query-result><a b=c/></trace-query-result>", "a value without quotes"), ("<trace-query-result/>x<y/>", "a second document"),
    ("<trace-query-result><" + "n" * 300 + "/></trace-query-result>", "a name of more than 256 bytes")],
    ids=["entities", "entity", "deep", "attributes", "ends", "quotes", "second", "name"])
def test_xml_that_is_refused(bring, pitot, tmp_path, content, said):
    """What was read before it is a recording, and the loss says where it ends."""
    (tmp_path / "a.xml").write_text(content)
    assert "no event with a time" in pitot("import", "a.xml", "-o", "x.pitot", "--format", "xctrace", status=1).stderr
    good = document(intervals())
    result, rows = bring(good.replace("</node>", "</node>" + content.removeprefix("<trace-query-result>").replace("</trace-query-result>", "")))
    if "second" not in said:
        assert len(rows("kernel")) == 4 and any(said in row["detail"] for row in rows("loss")), rows("loss")


def test_nothing_but_zeros(pitot):
    """A device without end is no document."""
    assert "no event with a time" in pitot("import", "/dev/zero", "-o", "x.pitot", "--format", "xctrace", status=1).stderr


def test_references(bring):
    """To nothing, to what is still open, and to each other so often that all of it would never end."""
    laughs = '<a id="100">x</a>' + "".join(f'<a id="{i}">' + f'<a ref="{i - 1}"/>' * 20 + "</a>" for i in range(101, 140))
    head = '<t>5</t><t>6</t><c id="7" fmt="C">1</c>'
    said, rows = bring(rows_of(f"{head}<l>one</l>", f'{head}<l ref="999"/>', f'{head}<l id="8"><l ref="8"/></l>', f"{head}<l>last</l>{laughs}",
                               f'{head}<l>z</l><process ref="139"/>'))
    assert [row["config"] for row in rows("kernel")] == ["one", "", "", "last", "z"] and said["damaged"] == 2


def test_cut_anywhere(pitot, tmp_path):
    whole = document(intervals(), samples())
    for length in range(0, len(whole), 11):
        (tmp_path / "a.xml").write_text(whole[:length])
        result = pitot("import", "a.xml", "--format", "xctrace", "-o", "r.pitot", "--force", "--json", status=None)
        complete = whole[:length].count("</row>")
        assert (result.returncode == 0) == (complete > 0), (length, result.stderr)
        if complete:
            assert json.loads(result.stdout)["records"] == complete


def test_flipped_bits(pitot, tmp_path):
    whole, generator = document(intervals(), ranges(), samples()).encode(), random.Random(3)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        (tmp_path / "a.xml").write_bytes(damaged)
        assert pitot("import", "a.xml", "--format", "xctrace", "-o", "r.pitot", "--force", status=None).returncode in (0, 1)


def test_texts_and_numbers_at_their_limits(bring):
    big = "y" * (3 << 20)
    said, rows = bring(rows_of(f'<t>5</t><t>6</t><c fmt="C"/><l fmt="{big}"/>', f"<t>{2**63}</t><t>6</t><c/><l>a</l>", f"<t>5</t><t>{2**64 - 1}</t><c/><l>b</l>",
                               "<t>-5</t><t>1</t><c/><l>c</l>", "<t>5.5</t><t>1</t><c/><l>d</l>", "<t/><t/>", "", "<t>7</t><t>1</t><c/><l>&#x41;&#0;&#xD800;&amp;</l>"))
    assert [len(row["config"]) for row in rows("kernel")][-1] == 4 and [row["config"] for row in rows("kernel")][-1] == "A\ufffd\ufffd&"
    assert said["rows"]["kernel"] == 2 and any("6 events without usable times" in note for note in said["notes"])
