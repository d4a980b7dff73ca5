"""`pitot sql -o x.parquet|x.arrow`, read by Arrow's own library."""
import json
import struct

import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest


@pytest.fixture
def recording(make_recording, tmp_path):
    return make_recording(tmp_path / "r.pitot", "varied")


@pytest.fixture
def table(pitot, recording, tmp_path):
    """The table that both formats have of a statement."""

    def ask(statement, *options):
        for name in ("x.parquet", "x.arrow"):
            pitot("sql", recording, "-fo", name, *options, statement)
        first = pyarrow.parquet.read_table(tmp_path / "x.parquet")
        second = pyarrow.feather.read_table(tmp_path / "x.arrow")
        assert first.to_pydict() == second.to_pydict()
        kinds = [[str(kind.value_type if pyarrow.types.is_dictionary(kind) else kind) for kind in each.schema.types] for each in (first, second)]
        assert kinds[0] == kinds[1]
        return first

    return ask


def as_json(pitot, recording, statement):
    return [json.loads(line) for line in pitot("sql", recording, "--json", statement).stdout.splitlines()]


@pytest.mark.parametrize("statement", [
    "select * from kernel",
    "select * from kernel_summary",
    "select start_ns, config_name from kernel order by duration_ns desc limit 3",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) select i, i % 7 as week, 'text ' || (i % 1000) as t from n",
])
def test_the_same_as_json(pitot, recording, table, statement):
    """Also with more rows than a chunk of these formats."""
    rows = as_json(pitot, recording, statement)
    found = table(statement)
    assert rows and found.num_rows == len(rows) and found.column_names == list(rows[0])
    assert found.to_pylist() == rows


@pytest.mark.parametrize("values, kind, found", [
    (["1", "NULL", "-9223372036854775808"], "int64", [1, None, -2**63]),
    (["1.5", "2", "NULL"], "double", [1.5, 2.0, None]),
    (["'a'", "1", "2.5", "NULL", "''"], "string", ["a", "1", "2.5", None, ""]),
    (["9007199254740993", "0.5"], "string", ["9007199254740993", "0.5"]),  # no double has both
    (["NULL", "NULL"], "string", [None, None]),
    (["'a' || char(10)", "x'ff00'"], "string", ["a\n", "\ufffd\0"]),
])
def test_types(table, values, kind, found):
    """The least one that has all values of a column as they are."""
    result = table(" union all ".join(f"select {value} as c" for value in values))
    assert str(result.schema.field("c").type) == kind and result.column("c").to_pylist() == found


def test_no_rows(table):
    found = table("select start_ns, config_name from kernel where false")
    assert found.num_rows == 0 and found.column_names == ["start_ns", "config_name"]


def test_names(table):
    """Equal, empty and long ones; every character is whole."""
    found = table(f"select 1 as a, 2 as a, 3 as \"\", 4 as \"{'ä' * 50}\", 5 as \"{'ä' * 50}\", 6 as a_2")
    names = found.column_names
    assert names[:3] == ["a", "a_2", "column_3"] and names[3] == "ä" * 31 and names[4] == "ä" * 30 + "_2" and names[5] == "a_2_2"
    assert found.to_pylist() == [dict(zip(names, range(1, 7)))]


def test_limit_and_refusals(pitot, recording, table, tmp_path):
    assert table("select rowid from kernel", "--limit", "2").num_rows == 2
    before = (tmp_path / "x.parquet").read_bytes()
    assert "--force" in pitot("sql", recording, "-o", "x.parquet", "select 1", status=1).stderr
    assert "one statement" in pitot("sql", recording, "-o", "y.arrow", input="select 1; select 2;", status=2).stderr
    assert "no such column" in pitot("sql", recording, "-o", "z.parquet", "select nowhere", status=None).stderr
    assert (tmp_path / "x.parquet").read_bytes() == before and not list(tmp_path.glob("[yz].*"))
    assert struct.unpack("<4s", before[:4]) == (b"PAR1",)
