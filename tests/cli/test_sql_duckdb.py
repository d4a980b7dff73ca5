"""`pitot sql --engine duckdb`: DuckDB says what SQLite says of the same tables, on all processors, and reaches nothing else."""
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from kineto_events import kernel, trace
from waiting import wait_until_it_computes

NAMES = ["varied", "scopes", "counters", "stalls", "training", "ranges", "names", "hostile_clock"]
NUMBERED = {"nameId", "textId", "demangledName", "shortName", "mangledName"}  # of texts, in the order in which they are met


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("duckdb")
    made = {name: make_recording(folder / f"{name}.pitot", name) for name in NAMES}
    made["large"] = make_recording(folder / "large.pitot", kernels=9_000, processes=2, pattern="copies")
    made["portions"] = make_recording(folder / "portions.pitot", kernels=200_000, processes=3)
    made["train"] = make_recording(folder / "train.pitot", kernels=3_000, pattern="train")
    return made


@pytest.fixture(scope="module")
def run(program, duckdb_variables):
    """run(recording…, statement, …): the finished process; statements are also taken from `text`."""

    def start(*words, text="", status=0, engine="duckdb", variables=None, **options):
        finished = subprocess.run([program, "sql", "-q", "--engine", engine, *words], input=text, text=True, capture_output=True, check=False,
                                  env=os.environ | duckdb_variables | (variables or {}), **options)
        assert finished.returncode == status, finished.stderr
        return finished

    return start


@pytest.fixture(scope="module")
def ask(run):
    """ask(recording…, statement): rows as dictionaries."""
    return lambda *words, **options: [json.loads(line) for line in run(*words, "--json", **options).stdout.splitlines()]


def comparable(value):
    return f"{value:.9g}" if isinstance(value, (int, float)) else repr(value)


def same_rows(ask, recordings, statements):
    """Both engines give the same rows, in any order. One program answers all statements."""
    marked = ";\n".join(f"{statement.rstrip().rstrip(';')};\nSELECT {i} AS statement" for i, statement in enumerate(statements))
    found = {}
    for engine in ("sqlite", "duckdb"):
        found[engine] = [[]]
        for row in ask(*recordings, text=marked, engine=engine):
            if list(row) == ["statement"]:
                found[engine].append([])
            else:
                found[engine][-1].append(row)
    assert len(found["sqlite"]) == len(found["duckdb"]) == len(statements) + 1
    for statement, expected, rows in zip(statements, found["sqlite"], found["duckdb"]):
        assert [list(row) for row in rows[:1]] == [list(row) for row in expected[:1]], statement
        ids = NUMBERED | ({"id"} if "StringIds" in statement else set())
        listed = [sorted([comparable(value) for name, value in row.items() if name not in ids] for row in part) for part in (expected, rows)]
        assert listed[0] == listed[1], statement
    return found["duckdb"]


def documented(source):
    """The statements of docs/sql.md, without limits, which cut rows that their orders leave equal."""
    statements = re.findall(r"```sql\n(.*?)```", (source / "docs" / "sql.md").read_text(), re.S)
    assert len(statements) == 16
    return [re.sub(r"LIMIT \d+", "", statement.replace("count(*) FROM kernel W", "count(*) AS n FROM kernel W")) for statement in statements]


@pytest.mark.parametrize("name", ["varied", "scopes", "training", "large", "train"])
def test_documented_statements(source, ask, recordings, name):
    found = same_rows(ask, [recordings[name]], documented(source))
    assert sum(map(len, found)) > 20


@pytest.mark.parametrize("name", [*NAMES, "large"])
def test_all_rows(run, ask, recordings, name):
    """All tables, summaries and views, with all columns, and the hidden ones."""
    tables = [line.split()[0] for line in run(recordings[name], text=".tables\n").stdout.splitlines()[1:]]
    assert len(tables) > 70
    tables = [table for table in tables if not table.startswith("report")]
    same_rows(ask, [recordings[name]], [f'SELECT * FROM "{table}"' for table in tables])
    listed = [table for table in tables if "kernel" == table or "nvtx" in table]
    same_rows(ask, [recordings[name]], [f"SELECT rowid, recording, pid FROM {table}" for table in ("kernel", "api_call", "memcpy", *listed) if table != "nvtx_kernel"])


def test_rows_are_in_their_order(ask, recordings):
    """Without an order, rows come as the table has them, although threads take portions of it."""
    starts = [[row["rowid"] for row in ask(recordings["portions"], "SELECT rowid FROM kernel", engine=engine)] for engine in ("sqlite", "duckdb")]
    assert len(starts[0]) == 200_000 and starts[0] == starts[1]
    expected = {"n": 200_000, "low": 0, "high": 199_999}
    assert ask(recordings["portions"], "SELECT count(*) AS n, min(rowid) AS low, max(rowid) AS high FROM kernel") == [expected]
    same_rows(ask, [recordings["portions"]], [
        "SELECT config_name, count(*) AS n, sum(duration_ns) AS s, median(duration_ns) AS m, min(start_ns) AS f FROM kernel GROUP BY 1",
        "SELECT pid, stream, sum(duration_ns) AS s FROM kernel WHERE config_name LIKE '%gemm%' GROUP BY 1, 2",
        "SELECT count(*) AS n, sum(a.duration_ns) AS s FROM kernel k JOIN api_call a ON a.rowid = k.call"])


def test_distinct_texts(ask, recordings):
    """Statements that aggregate a large table join it with its distinct texts, and say the same."""
    statements = [
        "SELECT count(*) AS n FROM kernel WHERE config_name LIKE '%gemm%'", "SELECT count(*) AS n FROM kernel WHERE NOT config_name LIKE '%gemm%'",
        "SELECT DISTINCT config_name FROM kernel", "SELECT count(DISTINCT config_name) AS n, min(config_name) AS a, max(config_name) AS b FROM kernel",
        "SELECT kernel_short(config_name) AS k, stream, count(*) AS n, median(duration_ns) AS m FROM kernel GROUP BY 1, 2",
        "SELECT count(*) AS n, count(config_name) AS c, count(scope) AS s, count(caller) AS l FROM kernel", "SELECT scope, count(*) AS n FROM kernel GROUP BY 1",
        "SELECT count(*) AS n FROM kernel WHERE scope IS NULL", "SELECT count(*) AS n FROM kernel WHERE config_name = 'nothing' OR config_name IS NULL",
        "SELECT a.function_name, k.config_name, count(*) AS n FROM api_call a JOIN kernel k ON k.call = a.rowid GROUP BY 1, 2",
        "SELECT a.config_name, count(*) AS n FROM kernel a JOIN kernel b ON b.rowid = a.rowid + 1 WHERE a.config_name < b.config_name GROUP BY 1",
        "SELECT config_name, (SELECT count(*) FROM kernel WHERE config_name = c.config_name) AS n FROM (SELECT config_name FROM kernel WHERE rowid = 7) c",
        "WITH kernel AS (SELECT 'x' AS config_name) SELECT config_name, count(*) AS n FROM kernel GROUP BY 1", "SELECT name, count(*) AS n FROM kernels GROUP BY 1",
        "SELECT demangledName IS NULL AS x, count(*) AS n FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1", "SELECT rowid, config_name FROM kernel WHERE rowid = (SELECT max(rowid) FROM kernel)"]
    same_rows(ask, [recordings["portions"]], statements)
    same_rows(ask, [recordings["portions"], recordings["train"]], [statements[0], statements[5], "SELECT recording, config_name, count(*) AS n FROM kernel GROUP BY 1, 2"])
    text = f"{statements[0]}; SELECT rowid AS r, config_name FROM kernel LIMIT 70000; {statements[2]}; SELECT count(*) AS n FROM \"config_name of kernel\" WHERE item > 0"
    found = ask(recordings["portions"], text=text)
    rows, names = found[1:70_001], {row["config_name"] for row in found[70_001:-1]}
    assert [row["r"] for row in rows] == list(range(70_000)) and {row["config_name"] for row in rows} == names and found[-1] == {"n": len(names)}


def test_too_many_distinct_texts(program, ask, tmp_path):
    """A column of more than 20,000 texts is read as it is, also beside one that is joined."""
    events = [kernel(i + 1, f"{i}.000", "0.500", f"kernel_{i % 25_000}") for i in range(100_001)]
    (tmp_path / "x.json").write_text(trace(events))
    path = tmp_path / "x.pitot"
    subprocess.run([program, "import", "-q", "-o", path, tmp_path / "x.json"], check=True)
    statements = ["SELECT config_name, count(*) AS n FROM kernel GROUP BY 1", "SELECT count(*) AS n FROM kernel WHERE config_name LIKE '%l_1234%'",
                  "SELECT count(DISTINCT config_name) AS n, min(config_name) AS a, max(config_name) AS b, count(scope) AS s FROM kernel",
                  "SELECT scope, count(*) AS n FROM kernel WHERE config_name < 'kernel_2' GROUP BY 1"]
    same_rows(ask, [path], statements)
    found = ask(path, text=";".join([*statements[1:], 'SELECT count(*) AS n FROM "config_name of kernel"', 'SELECT count(*) AS n FROM "scope of kernel"']))
    assert found[0] == {"n": 44} and found[1] == {"n": 25_000, "a": "kernel_0", "b": "kernel_9999", "s": 0}
    assert found[-2]["n"] == 0 and found[-1]["n"] > 0, "one is not joined, and the other is"


def test_several_recordings(ask, recordings):
    both = [recordings["train"], recordings["large"]]
    same_rows(ask, both, ["SELECT recording, config_name, count(*) AS n, sum(duration_ns) AS s FROM kernel GROUP BY 1, 2", "SELECT * FROM recording",
                          "SELECT count(*) AS n, min(rowid) AS low, max(rowid) AS high FROM kernel WHERE recording = 'large.pitot'",
                          "SELECT * FROM kernel LIMIT 10", "SELECT * FROM kernel_summary", "SELECT count(*) AS n FROM kernels",
                          "SELECT count(*) AS n FROM kernel k JOIN api_call a ON a.rowid = k.call WHERE a.recording <> k.recording"])


def test_functions(ask, recordings):
    same_rows(ask, [recordings["large"]], [
        "SELECT median(duration_ns) AS m, percentile(duration_ns, 99) AS p, percentile(duration_ns, 0) AS low, stddev(duration_ns) AS s FROM kernel",
        "SELECT overlap(1, 5, 3, 9) AS a, overlap(1, 2, 2, 3) AS b, overlap(1, 9, NULL, 3) AS c, overlap(5, 9, 0, 100) AS d",
        "SELECT kernel_short('_Z4gemmPf') AS k, kernel_full('_Z4gemmPf') AS f, kernel_short(NULL) AS n, kernel_full('') AS e, kernel_short('it''s \"x\"') AS q",
        "SELECT kernel_short(config_name) AS s, kernel_full(config_name) AS f, count(*) AS n FROM kernel GROUP BY 1, 2"])
    # Summaries are made once, and a subquery with several rows has the first one.
    same_rows(ask, [recordings["large"]], ["SELECT count(*) AS n FROM kernel_summary a, kernel_summary b", "SELECT count(*) AS n FROM kernel_summary",
                                           "SELECT (SELECT pid > 0 FROM kernel) AS p"])
    many = "SELECT count(*) AS n FROM range(66000) t(i) WHERE kernel_short('void k' || i || '(int)') = 'k' || i"
    assert ask(recordings["large"], many) == [{"n": 66000}]


def test_types(ask, run, recordings, tmp_path):
    """Numbers are what they are in SQLite; what it has not is text, and keeps its order."""
    statement = ("SELECT 1 AS i, 255::utinyint AS u, -1::smallint AS s, 1.5 AS d, 1.25::float AS f, 170141183460469231731687303715884105727::hugeint AS h,"
                 " -9223372036854775808::hugeint AS low, -9223372036854775809::hugeint AS lower, 18446744073709551615::ubigint AS ub, true AS b,"
                 " 12::decimal(20, 0) AS whole, 1.50::decimal(30, 2) AS wide, NULL AS n, 'x' AS t, 'a''b' AS q, [1, 2] AS l, DATE '2026-12-01' AS \"d\"\"t\", 0.0 / 0 AS nan")
    row, = ask(recordings["varied"], statement)
    assert row == {"i": 1, "u": 255, "s": -1, "d": 1.5, "f": 1.25, "h": "170141183460469231731687303715884105727", "low": -2**63, "lower": str(-2**63 - 1),
                   "ub": str(2**64 - 1), "b": 1, "whole": 12, "wide": 1.5, "n": None, "t": "x", "q": "a'b", "l": "[1, 2]", 'd"t': "2026-12-01", "nan": None}
    ordered = ask(recordings["portions"], "SELECT rowid AS r, [rowid] AS l FROM kernel ORDER BY rowid DESC -- a comment")
    assert [row["r"] for row in ordered] == [int(row["l"][1:-1]) for row in ordered] == list(range(199_999, -1, -1))
    assert run(recordings["varied"], "--csv", "SELECT 1 AS a, 'x,y' AS b, NULL AS c").stdout == "a,b,c\n1,\"x,y\",\n"
    run(recordings["train"], "-o", tmp_path / "x.parquet", "SELECT config_name, duration_ns FROM kernel")
    pyarrow = pytest.importorskip("pyarrow.parquet")
    assert pyarrow.read_table(tmp_path / "x.parquet").num_rows == 3_000
    text = run(recordings["portions"], "SELECT start_ns FROM kernel")
    assert len(text.stdout.splitlines()) == 51


def test_statements_are_split(ask, recordings):
    text = ("SELECT 'a;b' AS t; -- a ; comment\n/* another ; /* nested ; */ ; */ SELECT \"x;y\" AS \"x;y\" FROM (SELECT 1 AS \"x;y\");;\n"
            "SELECT $$a;'b$$ AS d; SELECT E'it\\'s;' AS e; SELECT 1 AS \"last\" -- ;")
    assert ask(recordings["varied"], text=text) == [{"t": "a;b"}, {"x;y": 1}, {"d": "a;'b"}, {"e": "it's;"}, {"last": 1}]
    assert ask(recordings["varied"], text="-- nothing\n;") == []


ERRORS = [
    ("select * from kernl", "no such table: kernl, did you mean 'kernel'?\n  select * from kernl\n                ^\n"),
    ("select strem from kernel", "no such column: strem, did you mean 'stream'?\n  select strem from kernel\n         ^\n"),
    ("select k.strem\n  from kernel k", "no such column: strem, did you mean 'stream'?\n  select k.strem\n         ^\n"),
    ("select 'ä', x y z from kernel", 'syntax error at or near "z"\n  select \'ä\', x y z from kernel\n                  ^\n'),
    ("select 1; select", "SELECT clause without selection list"),
    ("select sum(config_name) from kernel", "no function matches"),
    ("select length(repeat('x', 100000000000))", "the maximum supported string size"),
    ("select cast('x' as integer)", "could not convert string 'x' to INT32"),
    ("select percentile(1, 101)", ""),
    ("select ?", ""),
    (".schem", "did you mean '.schema'?"),
]


@pytest.mark.parametrize("statement, message", ERRORS)
def test_errors(run, recordings, statement, message):
    errors = run(recordings["varied"], text=statement, status=2).stderr
    assert message in errors and "{" not in errors


REFUSED = [
    *(f"select * from {call}" for call in (
        "read_csv('/etc/passwd')", "read_csv_auto('/etc/passwd')", "read_text('/etc/passwd')", "read_blob('/etc/passwd')", "read_json('/etc/passwd')",
        "read_ndjson_objects('/etc/passwd')", "read_parquet('x')", "parquet_metadata('x')", "sniff_csv('/etc/passwd')", "glob('/*')", "read_duckdb('x')",
        "arrow_scan(1, 2, 3)", "arrow_scan_dumb(1, 2, 3)", "main.arrow_scan(1, 2, 3)", '"arrow_scan"(1, 2, 3)', "seq_scan()", "query('select 1')", "query_table('kernel')", "duckdb_settings()",
        "duckdb_secrets()", "duckdb_extensions()", "which_secret('a', 's3')", "enable_logging('QueryLog')", "disable_logging()", "checkpoint()", "force_checkpoint()",
        "pragma_version()", "sqlite_scan('a', 'b')", "pitot_table('kernel')", "test_all_types()", "summary(1)", "(select * from glob('/*'))")),
    "select (select max(file) from glob('/*'))", "with x as (from read_text('/etc/passwd')) select * from x", "select 1 union all select count(*) from glob('/*')",
    "select * from kernel, lateral (select * from read_text('/etc/passwd'))", "from glob('/*')", "select * from kernel where pid in (from range(3), glob('/*'))",
    "copy (select 1) to 'x.csv'", "copy kernel to 'x.csv'", "attach 'x.db'", "install httpfs", "load httpfs", "load './x.so'", "export database 'x'", "import database 'x'",
    "create table x as select 1", "create table x as select * from arrow_scan(1, 2, 3)", "create view v as select 1", "create macro m() as 1", "insert into kernel values (1)",
    "delete from kernel", "update kernel set pid = 1", "drop view kernels", "set threads = 1", "set enable_external_access = true", "reset threads", "pragma version",
    "pragma enable_profiling", "explain select 1", "explain analyze select 1", "call pragma_version()", "begin", "commit", "vacuum", "checkpoint", "use memory",
    "prepare x as select 1", "execute x", "set variable x = 1", "detach memory", "pivot kernel on pid using count(*)",
]


def test_nothing_else_is_reached(run, recordings, tmp_path):
    """Every statement is refused before it is prepared, and says so."""
    for statement in REFUSED:
        errors = run(recordings["varied"], statement + " ", status=2, cwd=tmp_path).stderr
        assert "is refused: a statement reads only recordings" in errors or "only SELECT is allowed" in errors, (statement, errors)
    for statement in ("select * from '/etc/passwd'", "select * from 'x.csv'", "select * from '/etc/*.conf'", "select * from \"http://127.0.0.1/x.parquet\""):
        errors = run(recordings["varied"], statement, status=2, cwd=tmp_path).stderr
        assert "no such table" in errors or "disabled by configuration" in errors, errors
    assert "getenv" in run(recordings["varied"], "select getenv('HOME') ", status=2, cwd=tmp_path).stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_written(run, recordings, tmp_path):
    """Not even what does not fit into memory."""
    for name in ("work", "tmp", "home"):
        (tmp_path / name).mkdir()
    variables = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    errors = run(recordings["portions"], "SELECT * FROM kernel ORDER BY duration_ns, rowid", "--csv", "--memory-limit", "16M",
                 status=1, cwd=tmp_path / "work", variables=variables).stderr
    assert "--memory-limit" in errors
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir() or path.parent != tmp_path]


ENDLESS = [
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) AS n FROM r",
    "SELECT count(*) FROM range(100000000000) a, range(1000000) b WHERE a.range % 7 = b.range",
    "SELECT sum(a.duration_ns + b.duration_ns + c.duration_ns) FROM kernel a, kernel b, kernel c",
    "WITH RECURSIVE r(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM r) SELECT max(length(t)) FROM r",
    "SELECT a.config_name || b.config_name AS t FROM kernel a, kernel b, kernel c",  # terabytes of rows
    "SELECT list_sum(range(3000000000)) AS s",  # one function, whose memory DuckDB does not count
    "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000)) AS d",
]


@pytest.mark.parametrize("statement", ENDLESS)
def test_endless_statements(run, recordings, statement):
    """They end with their time or their memory, and in a pipe with its reader."""
    errors = run(recordings["large"], statement, "--csv", "--timeout", "300ms", "--memory-limit", "256M", status=1).stderr
    assert "--timeout" in errors or "--memory-limit" in errors


def test_memory_that_duckdb_does_not_count(run, recordings):
    assert "--memory-limit" in run(recordings["large"], ENDLESS[5], "--memory-limit", "256M", status=1).stderr


def test_a_result_is_not_collected(program, duckdb_variables, recordings):
    """Of a result of terabytes, the first rows come at once."""
    with subprocess.Popen([program, "sql", "-q", "--csv", "--engine", "duckdb", "--memory-limit", "256M", recordings["large"], ENDLESS[4]],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | duckdb_variables) as process:
        assert process.stdout.readline() == b"t\r\n" and len(process.stdout.read(1 << 20)) == 1 << 20
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait() in (-signal.SIGINT, 128 + signal.SIGINT, 0, 1)


def test_interrupt_at_the_prompt(program, duckdb_variables, recordings):
    """It stops the statement, and the next one is answered."""
    main, terminal = os.openpty()
    process = subprocess.Popen([program, "sql", "--engine", "duckdb", recordings["varied"]], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True, env=os.environ | duckdb_variables)
    os.close(terminal)
    os.write(main, b"select 40 + 1 as begun;\n")
    while "41" not in process.stdout.readline():
        pass
    os.write(main, ENDLESS[0].encode() + b";\n")
    wait_until_it_computes(process)
    process.send_signal(signal.SIGINT)
    os.write(main, b"select 40 + 2 as after;\n.quit\n")
    out, _ = process.communicate()
    os.close(main)
    assert process.returncode == 0 and "42" in out


def test_without_the_library(run, recordings, tmp_path):
    for path in (tmp_path / "none.so", sys.executable, "/dev/null"):
        errors = run(recordings["varied"], "SELECT 1 AS a", status=1, variables={"PITOT_DUCKDB": str(path)}).stderr
        assert f"PITOT_DUCKDB='{path}'" in errors and "npm package" in errors
    empty = {"PITOT_DUCKDB": "", "HOME": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path)}
    assert "cannot find libduckdb.so" in run(recordings["varied"], "SELECT 1 AS a", status=1, variables=empty).stderr
    assert run(recordings["varied"], "SELECT 1 AS a", engine="sqlite", variables=empty).stdout == "a\n1\n"


def test_other_libraries_are_refused(run, recordings, tmp_path):
    """A library of that name that is not DuckDB's, and Python's module, which only Python can load."""
    (tmp_path / "x.c").write_text("int x;\n")
    subprocess.run(["cc", "-shared", "-o", tmp_path / "libduckdb.so", tmp_path / "x.c"], check=True)
    errors = run(recordings["varied"], "SELECT 1 AS a", status=1, variables={"PITOT_DUCKDB": str(tmp_path / "libduckdb.so")}).stderr
    assert "has no duckdb_library_version" in errors


def test_shrunken_recordings(run, make_recording, tmp_path):
    """What is missing at the end of a segment is missing in both."""
    recording = make_recording(tmp_path / "cut.pitot", kernels=100_000)
    segment = max(recording.glob("*.pit"), key=lambda path: path.stat().st_size)
    full = segment.read_bytes()
    counts = set()
    for length in (len(full), len(full) // 2, len(full) // 4, 100):
        segment.write_bytes(full[:length])
        rows = [run(recording, "--csv", "SELECT count(*) AS n, sum(length(config_name)) AS l FROM kernel", engine=engine).stdout for engine in ("sqlite", "duckdb")]
        assert rows[0].split() == rows[1].split()
        counts.add(rows[0])
    assert len(counts) > 2


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_recordings_that_shrink_meanwhile(program, duckdb_variables, make_recording, tmp_path, engine):
    """Columns that are no longer there when a statement needs them have no rows, or an error says why; nothing crashes."""
    recording = make_recording(tmp_path / "cut.pitot", kernels=100_000)
    process = subprocess.Popen([program, "sql", "-q", "--json", "--engine", engine, recording], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=os.environ | duckdb_variables)
    process.stdin.write("SELECT max(start_ns) IS NULL AS none FROM kernel;\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["none"] == 0
    for segment in recording.glob("*.pit"):
        os.truncate(segment, segment.stat().st_size // 2)
    out, errors = process.communicate("SELECT count(*) AS n, sum(duration_ns) AS d, max(config_name) AS c FROM kernel; SELECT 7 AS seven;\n")
    assert "Sanitizer" not in errors and process.returncode in (0, 1)
    assert '"seven": 7' in out if process.returncode == 0 else "pitot sql: error: " in errors
