"""r.sql() says what `pitot sql` says, as Arrow."""
import json
import os
import re
import subprocess
import time

import pytest

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("error")


def same(value, other):
    return value == pytest.approx(other) if isinstance(value, float) else value == other


@pytest.fixture(scope="module")
def scoped(package, shared_folder, make_recording):
    return package.open(shared_folder("python-sql", lambda f: make_recording(f / "s.pitot", "scopes")) / "s.pitot")


def comparable(rows):
    """In any order, since orders leave rows equal; numbers by nine digits."""
    return sorted([f"{value:.9g}" if isinstance(value, (int, float)) else repr(value) for value in row] for row in rows)


def printed(run, recording, statements, variables, engine):
    """The rows that the program prints for each statement. One process answers all."""
    text = ";\n".join(f"{statement.rstrip()};\nSELECT 1 AS end_of_statement" for statement in statements)
    lines = run("sql", "--engine", engine, "--json", "-q", recording, input=text, env=os.environ | variables).stdout.splitlines()
    found = [[]]
    for row in map(json.loads, lines):
        if list(row) == ["end_of_statement"]:
            found.append([])
        else:
            found[-1].append(row)
    return found[:-1]


@pytest.mark.parametrize("kind", ["scopes", "training", "varied", "train"])
def test_fifteen_questions(source, program, duckdb_variables, package, shared_folder, make_recording, train, kind):
    """What is asked most, of SQLite, of DuckDB by its C library, and of both in Python: the same names of columns, and the same rows."""
    pytest.importorskip("duckdb")
    path = train if kind == "train" else shared_folder(f"python-sql-{kind}", lambda f: make_recording(f / "s.pitot", kind)) / "s.pitot"
    # Limits cut rows that orders leave equal.
    statements = [re.sub(r"LIMIT \d+", "", text) for text in re.findall(r"```sql\n(.*?)```", (source / "docs" / "sql.md").read_text(), re.S)]
    assert len(statements) == 16

    def run(*words, **options):
        return subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True, **options)

    recording = package.open(path)
    said = {engine: printed(run, path, statements, duckdb_variables, engine) for engine in ("sqlite", "duckdb")}
    total = 0
    for i, statement in enumerate(statements):
        table = {f"{engine} of the program": ([list(row) for row in rows[i][:1]], [row.values() for row in rows[i]]) for engine, rows in said.items()}
        for engine in ("sqlite", "duckdb"):
            arrow = recording.sql(statement, engine=engine).to_arrow()
            arrow.validate(full=True)
            table[f"{engine} in Python"] = ([arrow.column_names] if len(arrow) else [], [row.values() for row in arrow.to_pylist()])
        expected = table.pop("sqlite of the program")
        for who, (names, rows) in table.items():
            assert "count(" in statement and i == 15 or names == expected[0], (who, statement)
            assert comparable(rows) == comparable(expected[1]), (who, statement)
        total += len(expected[1])
    assert total > 20


def in_order(rows):
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize("kind", ["scopes", "training", "varied"])
def test_duckdb_answers_the_same(package, shared_folder, make_recording, kind):
    """All rows of tables, and functions. tests/cli/test_sql_duckdb.py compares `pitot sql --engine duckdb` with SQLite in the same way."""
    pytest.importorskip("duckdb")
    recording = package.open(shared_folder(f"python-sql-{kind}", lambda f: make_recording(f / "s.pitot", kind)) / "s.pitot")
    for statement in ["SELECT * FROM kernel", "SELECT k.* FROM memcpy k", "SELECT rowid, call, scope, caller FROM kernel",
                      "SELECT percentile(duration_ns, 99) AS p, kernel_full(config_name) AS name FROM kernel GROUP BY 2",
                      "SELECT overlap(1, 5, 3, 9) AS a, overlap(1, 2, 3, 4) AS b, overlap(1, NULL, 3, 4) AS c",
                      "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL", "SELECT * FROM kernel_summary", "SELECT 1 AS one"]:
        expected, found = (recording.sql(statement, engine=engine).to_arrow() for engine in ("sqlite", "duckdb"))
        found.validate(full=True)
        rows = [in_order(zip(*(column.to_pylist() for column in table.columns))) for table in (expected, found)]
        assert len(rows[0]) == len(rows[1]) == len(found) and expected.num_columns == found.num_columns
        for row, other in zip(*rows):
            assert all(map(same, row, other)), statement


def test_duckdb_reads_only(package, scoped, tmp_path):
    pytest.importorskip("duckdb")
    for statement, message in {"SELECT nowhere FROM kernel": "nowhere", "SELECT * FROM kernl": "kernl", "DROP TABLE kernel": "only SELECT",
                               "CREATE TABLE x AS SELECT 1": "only SELECT", "": "no statement", "SELECT 1; SELECT 2": "more than one",
                               "SELECT * FROM read_csv('/etc/passwd')": "disabled", "SELECT * FROM '/etc/passwd'": "passwd",
                               "COPY (SELECT 1) TO 'x.csv'": "only SELECT", "SELEC": "syntax error", "SELECT * FROM tmp_path": "tmp_path"}.items():
        with pytest.raises(package.UsageError, match=message):
            scoped.sql(statement, engine="duckdb")
    with pytest.raises(package.UsageError, match="choose sqlite or duckdb"):
        scoped.sql("SELECT 1", engine="x")
    assert [row["n"] for row in scoped.sql("SELECT count(*) AS n FROM kernel", engine="duckdb")] == [len(scoped.table("kernel"))]


def test_types(scoped):
    statement = ("SELECT 1 AS i, 1 AS r, 1 AS t, 2.5 AS rt, NULL AS n, 'x' AS s UNION ALL SELECT NULL, 2.5, 'b', NULL, NULL, NULL"
                 " UNION ALL SELECT -9223372036854775808, NULL, 3.25, 'ä', NULL, ''")
    arrow = scoped.sql(statement).to_arrow()
    arrow.validate(full=True)
    assert [str(field.type) for field in arrow.schema] == ["int64", "double", "large_string", "large_string", "int64", "large_string"]
    assert arrow.to_pydict() == {"i": [1, None, -2**63], "r": [1.0, 2.5, None], "t": ["1", "b", "3.25"], "rt": ["2.5", None, "ä"],
                                 "n": [None] * 3, "s": ["x", None, ""]}
    none = scoped.sql("SELECT * FROM kernel WHERE 0").to_arrow()
    none.validate(full=True)
    assert len(none) == 0 and "duration_ns" in none.column_names
    many = scoped.sql("WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 10000) SELECT i, 'x' || i AS t FROM r").to_arrow()
    many.validate(full=True)
    assert many["i"].to_pylist() == list(range(1, 10001)) and many["t"][9999].as_py() == "x10000"


ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"
LARGE = {"sqlite": "SELECT length(hex(zeroblob(50000000))) AS n",
         "duckdb": "SELECT list(i) AS l FROM range(30000000) r(i)"}

ROWS = {"sqlite": f"{ENDLESS} SELECT i, hex(i) AS t FROM r", "duckdb": "SELECT i, hex(i) AS t FROM range(3000000000) r(i)"}


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_limits(package, scoped, engine):
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    # As long as the statement computes, and while it has rows.
    for statement in f"{ENDLESS} SELECT count(*) AS n FROM r", ROWS[engine]:
        answer = scoped.sql(statement, engine=engine, timeout=0.3, memory_limit=0)
        begin = time.monotonic()
        with pytest.raises(package.Error, match="longer than its time: timeout gives it more"):
            answer.to_arrow()
        assert 0.3 <= time.monotonic() - begin < 60
    for statement in LARGE[engine], ROWS[engine]:
        with pytest.raises(package.Error, match="more memory than it may: memory_limit gives it more") as raised:
            scoped.sql(statement, engine=engine, memory_limit=32 << 20).to_arrow()
        assert not isinstance(raised.value, (OSError, ValueError))
    # Limits are those of one statement.
    assert scoped.sql("SELECT 1 AS n", engine=engine, timeout=60, memory_limit=0).to_arrow()["n"].to_pylist() == [1]
    assert [row["n"] for row in scoped.sql("SELECT count(*) AS n FROM kernel", engine=engine)] == [len(scoped.table("kernel"))]
    for limits in {"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"memory_limit": -1}, {"memory_limit": 1 << 63}:
        with pytest.raises(package.UsageError, match=f"is not a {next(iter(limits))}"):
            scoped.sql("SELECT 1", engine=engine, **limits)


def test_an_answer_is_a_table(scoped):
    answer = scoped.sql("SELECT config_name AS name, duration_ns FROM kernel ORDER BY start_ns LIMIT 3")
    assert len(answer) == 3 and list(answer.columns) == ["name", "duration_ns"] and repr(answer).startswith("<pitot.Answer ")
    # Whatever a statement and its rows say is text in a notebook, and columns of one name are columns.
    shown = scoped.sql("SELECT '<script>' AS \"<b>\", 'a&b' AS a, 2 AS a WHERE 1 < 2 -- <img>")._repr_html_()
    assert set(re.findall("<[^>]*>", shown)) == {"<p>", "</p>", "<table>", "</table>", "<tr>", "</tr>", "<td>", "</td>"}
    assert "<tr><td>&lt;b&gt;</td><td>a</td><td>a</td></tr><tr><td>&lt;script&gt;</td><td>a&amp;b</td><td>2</td></tr>" in shown and ": 1 row</p>" in shown
    assert [row["duration_ns"] for row in answer] == answer.to_arrow()["duration_ns"].to_pylist() and "<td>name</td>" in answer._repr_html_()
    kernels = scoped.table("kernel").to_arrow()  # arrays of tables live beside those of statements
    assert len(kernels) == scoped.sql("SELECT count(*) AS n FROM kernel").to_arrow()["n"][0].as_py()


@pytest.mark.parametrize("statement, message", [("SELECT nowhere FROM kernel", "no such column: nowhere"), ("DROP TABLE kernel", "only SELECT"), ("", "no statement"),
                                                ("SELECT 1; SELECT 2", "more than one statement"), ("SELECT 1; SELEC", "syntax error")])
def test_errors(package, scoped, statement, message):
    with pytest.raises(package.UsageError, match=message):
        scoped.sql(statement)
    with pytest.raises(package.UsageError, match="words of the statement"):
        scoped.sql("SELECT 1").where("x=1")
