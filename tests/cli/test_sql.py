"""`pitot sql`: what SQLite says of the tables that `pitot export -o x.sqlite` writes, it says of the recording."""
import csv
import io
import json
import math
import os
import re
import signal
import sqlite3
import subprocess

import pytest


RECORDINGS = {
    "varied": ["varied"], "scopes": ["scopes"], "counters": ["counters"], "stalls": ["stalls"],
    "training": ["training"], "ranges": ["ranges"], "names": ["names"], "hostile_clock": ["hostile_clock"],
}
EXTRA = {"call", "caller", "scope"}  # columns that only `pitot sql` has


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    made = {name: make_recording(folder / f"{name}.pitot", *what) for name, what in RECORDINGS.items()}
    made["large"] = make_recording(folder / "large.pitot", kernels=9_000, processes=2, pattern="copies")
    made["stacks"] = make_recording(folder / "stacks.pitot", kernels=600, stacks=6)
    made["train"] = make_recording(folder / "train.pitot", kernels=3_000, pattern="train")
    return made


@pytest.fixture(scope="module")
def run(program):
    """run(recording…, statement, …): the finished process; statements are also taken from `text`."""

    def start(*words, text="", status=0, **options):
        finished = subprocess.run([program, "sql", "-q", *words], input=text, text=True, capture_output=True, check=False, **options)
        assert finished.returncode == status, finished.stderr
        return finished

    return start


@pytest.fixture(scope="module")
def ask(run):
    """ask(recording…, statement): rows as dictionaries."""
    return lambda *words, **options: [json.loads(line) for line in run(*words, "--json", **options).stdout.splitlines()]


@pytest.fixture(scope="module")
def exported(pitot_module, recordings, tmp_path_factory):
    """exported(name): a database of all tables of a recording, as rows that are dictionaries."""
    databases, folder = {}, tmp_path_factory.mktemp("exported")

    def get(name):
        if name not in databases:
            pitot_module("export", recordings[name], "-o", folder / f"{name}.sqlite")
            databases[name] = sqlite3.connect(folder / f"{name}.sqlite")
            databases[name].row_factory = lambda cursor, row: {column[0]: value for column, value in zip(cursor.description, row)}
            databases[name].execute("PRAGMA case_sensitive_like=OFF")
        return databases[name]

    return get


@pytest.fixture(scope="module")
def pitot_module(program):
    return lambda *words: subprocess.run([program, *words], check=True, capture_output=True)


def same(value, other):
    if isinstance(value, float) and isinstance(other, (int, float)):
        return math.isclose(value, other, rel_tol=1e-12) or math.isnan(value) and math.isnan(other)
    return value == other


def tables_of(database):
    return [row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY 1")]


def quoted(value):
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else repr(value)


@pytest.mark.parametrize("name", [*RECORDINGS, "large"])
def test_all_rows(ask, recordings, exported, name):
    for table in tables_of(exported(name)):
        expected = exported(name).execute(f'SELECT * FROM "{table}"').fetchall()
        rows = ask(recordings[name], f'SELECT * FROM "{table}"')
        assert len(rows) == len(expected), table
        for row, known in zip(rows, expected):
            assert set(row) - set(known) <= EXTRA and set(known) - set(row) <= {"scope", "api_call_scope"}
            assert all(same(row[column], value) for column, value in known.items() if column in row), (table, row, known)


def conditions_of(column, values):
    """Conditions whose truth varies over the rows: those of all operators, with values that are there and others."""
    kinds = {type(value) for value in values}
    yield from (f"{column} IS NULL", f"{column} IS NOT NULL", f"{column} = NULL")
    for value in values:
        yield from (f"{column} {operator} {quoted(value)}" for operator in ("=", "<", "<=", ">", ">=", "<>"))
    yield f"{column} IN ({', '.join(map(quoted, values))})"
    if int in kinds:
        yield from (f"{column} {operator} {number}" for operator in ("=", "<", ">=") for number in (-5, 2.5, 9e300, "'7'", values[0] + 0.5))
        yield f"{column} BETWEEN {min(values)} AND {max(values)}"
    if str in kinds:
        part = values[0][1:4].replace("'", "")
        yield from (f"{column} LIKE {quoted(f'%{part.upper()}%')}", f"{column} GLOB {quoted(f'*{part}*')}", f"{column} = 7",
                    f"{column} LIKE NULL", f"{column} NOT LIKE {quoted(f'%{part}%')}", f"{column} = {quoted(values[0].upper())} COLLATE NOCASE")


@pytest.mark.parametrize("name", [*RECORDINGS, "large"])
def test_conditions(ask, recordings, exported, name):
    """Every column, every operator: conditions that virtual tables apply themselves, and those that SQLite does."""
    database, statements = exported(name), []
    for table in tables_of(database):
        columns = [column for column in database.execute(f'SELECT * FROM "{table}" LIMIT 1').fetchone() if not column.endswith("scope")]
        for column in columns:
            values = [row["v"] for row in database.execute(f'SELECT DISTINCT "{column}" AS v FROM "{table}" WHERE v IS NOT NULL ORDER BY 1')]
            values = [values[0], values[len(values) // 2], values[-1]] if values else [0]
            for condition in conditions_of(f'"{column}"', values):
                statements.append(f'SELECT count(*) AS n, min("{columns[-1]}") AS m FROM "{table}" WHERE {condition}')
    found = ask(recordings[name], text=";\n".join(statements))
    assert len(found) == len(statements)
    for statement, row in zip(statements, found):
        expected = database.execute(statement).fetchone()
        assert all(same(row[key], expected[key]) for key in expected), (statement, row, expected)


@pytest.mark.parametrize("name", [*RECORDINGS, "large"])
def test_groups_and_orders(ask, recordings, exported, name):
    """GROUP BY and DISTINCT by each column, of which the tables hand over the groups; and ORDER BY."""
    database, statements = exported(name), []
    for table in tables_of(database):
        for column in database.execute(f'SELECT * FROM "{table}" LIMIT 1').fetchone():
            if column.endswith("scope"):
                continue
            statements += [f'SELECT "{column}" AS k, count(*) AS n FROM "{table}" GROUP BY "{column}"',
                           f'SELECT DISTINCT "{column}" AS k FROM "{table}"',
                           f'SELECT "{column}" AS k, count(*) AS n FROM "{table}" WHERE pid > 0 AND "{column}" IS NOT NULL GROUP BY 1',
                           f'SELECT "{column}" AS k, count(*) AS n FROM "{table}" GROUP BY 1 ORDER BY 1',
                           f'SELECT "{column}" AS k, count(*) AS n FROM "{table}" GROUP BY 1 ORDER BY 1 DESC',
                           f'SELECT DISTINCT "{column}" AS k FROM "{table}" ORDER BY 1 DESC',
                           f'SELECT "{column}" AS k FROM "{table}" ORDER BY "{column}" LIMIT 20',
                           f'SELECT "{column}" AS k FROM "{table}" ORDER BY "{column}" DESC LIMIT 20']
    marked = [f"{statement}; SELECT {i} AS statement" for i, statement in enumerate(statements)]
    found = [[]]
    for row in ask(recordings[name], text=";\n".join(marked)):
        if "statement" in row:
            found.append([])
        else:
            found[-1].append(row)
    for statement, rows in zip(statements, found):
        expected = database.execute(statement).fetchall()
        if "ORDER" not in statement:
            rows, expected = ([(type(row["k"]) is str, str(row["k"]) if type(row["k"]) is str else "", row["k"] is None, row["k"] if type(row["k"]) in (int, float) else 0,
                                row.get("n")) for row in part] for part in (rows, expected))
            assert sorted(rows) == sorted(expected), statement
        else:
            assert [row["k"] for row in rows] == [row["k"] for row in expected], statement


JOINS = [
    "SELECT count(*) AS n, sum(a.duration_ns) AS s FROM kernel k JOIN api_call a ON a.correlation = k.correlation AND a.pid = k.pid",
    "SELECT c.grid_x, count(*) AS n FROM kernel k JOIN kernel_config c ON c.row = k.config GROUP BY 1 ORDER BY 1",
    "SELECT f.name, count(*) AS n FROM api_function f LEFT JOIN api_call a ON a.function_name = f.name GROUP BY 1 ORDER BY 1",
    "SELECT count(*) AS n FROM api_call a LEFT JOIN kernel k ON k.correlation = a.correlation AND k.pid = a.pid WHERE k.correlation IS NULL",
    "SELECT count(*) AS n FROM kernel WHERE config IN (SELECT row FROM kernel_config WHERE registers > 30)",
    "SELECT count(*) AS n FROM kernel k WHERE EXISTS (SELECT 1 FROM memcpy m WHERE m.stream = k.stream AND m.start_ns < k.start_ns)",
    "SELECT stream, max(n) AS n FROM (SELECT stream, count(*) OVER (PARTITION BY stream ORDER BY start_ns) AS n FROM kernel) GROUP BY 1 ORDER BY 1",
    "SELECT count(*) AS n FROM kernel a JOIN kernel b ON b.start_ns > a.end_ns AND b.start_ns < a.end_ns + 3000",
]


@pytest.mark.parametrize("statement", JOINS)
def test_joins(ask, recordings, exported, statement):
    """Lookups by value and by number of row, many enough for an index."""
    assert ask(recordings["large"], statement) == exported("large").execute(statement).fetchall()


def test_calls_and_scopes(pitot, ask, recordings):
    """Columns `call` and `scope` are what `view` and a join by correlation find."""
    for name in ("scopes", "large", "varied"):
        viewed = [json.loads(line) for line in pitot("view", recordings[name], "kernel", "-c", "start_ns,scope", "--json").stdout.splitlines()]
        assert [row["scope"] for row in ask(recordings[name], "SELECT scope FROM kernel")] == [row["scope"] for row in viewed]
    assert any(row["scope"] for row in ask(recordings["scopes"], "SELECT scope FROM kernel"))
    assert ask(recordings["large"], "SELECT count(*) AS n FROM kernel k JOIN api_call a ON a.rowid = k.call WHERE a.correlation = k.correlation AND a.pid = k.pid") \
        == ask(recordings["large"], "SELECT count(*) AS n FROM kernel k JOIN api_call a USING (pid, correlation)")


def test_several_recordings(ask, recordings):
    """Column `recording`; rows, texts and numbers of rows of each."""
    both = [recordings["train"], recordings["large"]]
    found = ask(*both, "SELECT recording, config_name, count(*) AS n, sum(duration_ns) AS s, median(duration_ns) AS m FROM kernel GROUP BY 1, 2 ORDER BY 1, 2")
    apart = [row for path in sorted(both, key=lambda path: path.name)
             for row in ask(path, "SELECT recording, config_name, count(*) AS n, sum(duration_ns) AS s, median(duration_ns) AS m FROM kernel GROUP BY 1, 2 ORDER BY 2")]
    assert found == apart
    one = ask(*both, "SELECT count(*) AS n, min(rowid) AS low, max(rowid) AS high FROM kernel WHERE recording = 'large.pitot'")
    assert one == [{"n": ask(both[1], "SELECT count(*) AS n FROM kernel")[0]["n"], "low": 1 << 40, "high": (1 << 40) + one[0]["n"] - 1}]
    joined = ask(*both, "SELECT k.recording AS r, count(*) AS n FROM kernel k JOIN kernel_config c ON c.row = k.config AND c.recording = k.recording GROUP BY 1 ORDER BY 1")
    assert joined == ask(*both, "SELECT recording AS r, count(*) AS n FROM kernel GROUP BY 1 ORDER BY 1")
    assert ask(*both, "SELECT count(*) AS n FROM kernel k JOIN api_call a ON a.rowid = k.call WHERE a.recording <> k.recording") == [{"n": 0}]
    assert len(ask(*both, "SELECT * FROM recording")) == 2
    names = ask(both[0], both[0], "SELECT recording FROM recording")
    assert [row["recording"] for row in names] == ["train.pitot", str(both[0])]
    assert "recording" not in ask(both[0], "SELECT * FROM kernel LIMIT 1")[0] and "recording" in ask(*both, "SELECT * FROM kernel LIMIT 1")[0]


def test_functions(ask, recordings, exported):
    values = sorted(row["d"] for row in exported("large").execute("SELECT duration_ns AS d FROM kernel"))
    mean = sum(values) / len(values)
    row, = ask(recordings["large"], "SELECT median(duration_ns) AS m, percentile(duration_ns, 99) AS p, percentile(duration_ns, 0) AS low,"
               " stddev(duration_ns) AS s, median(duration_ns * 1.0) AS r, median(NULL) AS none FROM kernel")
    assert (row["m"], row["p"], row["low"], row["none"]) == (values[math.ceil(len(values) / 2) - 1], values[math.ceil(len(values) * 0.99) - 1], values[0], None)
    assert row["r"] == row["m"] and row["s"] == pytest.approx(math.sqrt(sum((v - mean)**2 for v in values) / (len(values) - 1)))
    row, = ask(recordings["large"], "SELECT overlap(1, 5, 3, 9) AS a, overlap(1, 2, 2, 3) AS b, overlap(1, 9, NULL, 3) AS c, overlap(5, 9, 0, 100) AS d,"
               " kernel_short('_Z4gemmPf') AS k, kernel_full('_Z4gemmPf') AS f, stddev(1) AS s")
    assert row == {"a": 2, "b": 0, "c": None, "d": 4, "k": "gemm", "f": "gemm(float*)", "s": None}
    mixed, = ask(recordings["large"], "SELECT median(column1) AS m, percentile(column1, 100) AS p FROM (VALUES (3), (1), (2.5), (NULL))")
    assert mixed == {"m": 2.5, "p": 3.0}


def report_of(pitot, recording, *options):
    return pitot("report", recording, "--json", "-n", "0", *options, json_output=True)


def test_summaries(pitot, ask, recordings):
    """Their sums are those of the tables; their rows those of the report."""
    large = recordings["large"]
    assert ask(large, "SELECT sum(count) AS n, sum(total_ns) AS s FROM kernel_summary") == ask(large, "SELECT count(*) AS n, sum(duration_ns) AS s FROM kernel")
    assert ask(large, "SELECT sum(count) AS n, sum(bytes) AS b FROM copy_summary WHERE kind <> 'memset'") == ask(large, "SELECT count(*) AS n, sum(bytes) AS b FROM memcpy")
    report = report_of(pitot, large, "--critical-path", "--states", "--steps")
    assert [(row["name"], row["count"]) for row in ask(large, "SELECT name, count FROM kernel_summary")] == \
        [(item["label"], item["time"]["count"]) for item in report["hotspots"]["items"]]
    assert ask(large, "SELECT sum(total_ns) AS s FROM critical_path") == [{"s": report["critical_path"]["window_ns"]}]
    assert len(ask(large, "SELECT * FROM state")) == len(report["states"]["rows"])
    assert [(row["source"], row["reason"], row["count"]) for row in ask(large, "SELECT * FROM step_summary")] == \
        [(loop["source"], loop["reason"], loop["count"]) for loop in report["steps"]["loops"]]
    for name in ("train", "training"):
        known = report_of(pitot, recordings[name], "--steps")["steps"]["items"]
        assert [row["duration_ns"] for row in ask(recordings[name], "SELECT * FROM step")] == [step["duration_ns"] for step in known]
    assert known
    assert ask(large, "SELECT sum(busy_ns) AS s FROM gpu_summary") == [{"s": sum(gpu["busy"]["union_ns"] for gpu in report["gpus"])}]
    gaps = ask(large, "SELECT gpu, count(*) AS n, sum(duration_ns) AS s, max(duration_ns) AS m FROM idle_gap GROUP BY 1")
    assert [(row["n"], row["s"]) for row in gaps] == \
        [(sum(size["count"] for size in gpu["idle"]["gaps"]), sum(size["total_ns"] for size in gpu["idle"]["gaps"])) for gpu in report["gpus"]]
    memory = ask(recordings["training"], "SELECT sum(peak_bytes) AS p, sum(live_bytes) AS l FROM memory_peak")
    known = report_of(pitot, recordings["training"])["memory"]
    assert known and memory == [{"p": sum(row["peak_bytes"] for row in known), "l": sum(row["live_bytes"] for row in known)}]
    scopes = report_of(pitot, recordings["scopes"])["nvtx"]["items"]
    assert [(row["name"], row["work"]) for row in ask(recordings["scopes"], "SELECT name, work FROM nvtx_kernel")] == [(i["name"], i["work"]) for i in scopes]
    assert len(ask(recordings["scopes"], "SELECT * FROM nvtx_range")) == \
        ask(recordings["scopes"], "SELECT count(*) AS n FROM nvtx WHERE kind IN ('push', 'start')")[0]["n"]


NSYS = [  # as NVIDIA's user guide and `nsys stats` ask, but for names of tables
    "SELECT value AS name, count(*) AS n, sum(end - start) AS total FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName GROUP BY 1 ORDER BY 3 DESC, 1",
    "SELECT count(*) AS n, max(k.start - r.start) AS longest FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN CUPTI_ACTIVITY_KIND_KERNEL k"
    " ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24 JOIN StringIds s ON s.id = r.nameId",
    "SELECT e.name AS operation, count(*) AS n, sum(bytes) AS bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEMCPY_OPER e ON e.id = m.copyKind GROUP BY 1 ORDER BY 1",
]


def test_names_of_nsight_systems(ask, recordings):
    large = recordings["large"]
    kernels, queued, copies = (ask(large, statement) for statement in NSYS)
    assert kernels == ask(large, "SELECT kernel_short(config_name) AS name, count(*) AS n, sum(duration_ns) AS total FROM kernel GROUP BY 1 ORDER BY 3 DESC, 1")
    assert queued == ask(large, "SELECT count(*) AS n, max(k.start_ns - a.start_ns) AS longest FROM kernel k JOIN api_call a ON a.rowid = k.call")
    assert copies == ask(large, "SELECT kind AS operation, count(*) AS n, sum(bytes) AS bytes FROM memcpy GROUP BY 1 ORDER BY 1")
    found = ask(recordings["scopes"], 'SELECT count(*) AS n FROM NVTX_EVENTS WHERE eventType IN (59, 60) AND text IS NOT NULL')
    assert found == ask(recordings["scopes"], "SELECT count(*) AS n FROM nvtx_range") and found[0]["n"]


def test_every_table_can_be_read(run, ask, recordings):
    """`.tables` lists what `select` and `.schema` know."""
    tables = [line.split()[0] for line in run(recordings["varied"], text=".tables\n").stdout.splitlines()[1:]]
    assert len(tables) == len(set(tables)) > 70
    ask(recordings["varied"], text=";".join(f"SELECT * FROM {table} LIMIT 3" for table in tables))
    for table in ("kernel", "kernel_summary", "idle_gap", "StringIds"):
        lines = [line.split() for line in run(recordings["varied"], text=f".schema {table}\n").stdout.splitlines()[1:]]
        columns = [line[0] for line in lines]
        assert table == "StringIds" or table.endswith("summary") or {line[1] for line in lines} <= {"TEXT", "INTEGER", "REAL"}
        assert set(ask(recordings["varied"], f"SELECT * FROM {table} LIMIT 1")[0]) <= set(columns)


ERRORS = [
    ("select * from kernl", "no such table: kernl, did you mean 'kernel'?\n  select * from kernl\n                ^\n"),
    ("select strem from kernel", "no such column: strem, did you mean 'stream'?\n  select strem from kernel\n         ^\n"),
    ("select k.strem\n  from kernel k", "no such column: k.strem, did you mean 'stream'?\n  select k.strem\n         ^\n"),
    ("select 1 +* 2", 'near "*": syntax error\n  select 1 +* 2\n            ^\n'),
    ("select 'ä', x y z from kernel", 'near "z": syntax error\n  select \'ä\', x y z from kernel\n                  ^\n'),
    ("select 1; select", "incomplete input"),
    ("delete from kernel", "may not be modified"),
    ("create table x(a)", "only SELECT is allowed"),
    ("attach 'x' as y", "only SELECT is allowed"),
    ("pragma journal_mode", "only SELECT is allowed"),
    ("select load_extension('x')", "not authorized"),
    ("select * from pragma_table_info('kernel')", "not authorized"),
    ("vacuum into 'x'", "authorization denied"),
    ("begin", "only SELECT is allowed"),
    ("select percentile(1, 101)", "takes a P from 0 to 100"),
    (".schem", "did you mean '.schema'?"),
    (".schema kernl", "there is no table 'kernl', did you mean 'kernel'?"),
]


@pytest.mark.parametrize("statement, message", ERRORS)
def test_errors(run, recordings, tmp_path, statement, message):
    assert message in run(recordings["varied"], text=statement, status=2, cwd=tmp_path).stderr
    assert not list(tmp_path.iterdir())


def test_limits(run, ask, recordings):
    endless = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) AS n FROM r"
    assert "--timeout" in run(recordings["varied"], endless, "--timeout", "100ms", status=1).stderr
    large = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 300000) SELECT median(i) AS m FROM r"
    assert "--memory-limit" in run(recordings["varied"], large, "--memory-limit", "1M", status=1).stderr
    assert ask(recordings["varied"], large) == [{"m": 150000}]
    assert ask(recordings["varied"], "SELECT length(zeroblob(200000000)) AS n") == [{"n": 200000000}]  # of a report of very many kernels
    assert "longer than 256 MiB" in run(recordings["varied"], "SELECT length(zeroblob(300000000))", status=1).stderr
    scan = "SELECT count(*) AS n FROM kernel a, kernel b, kernel c WHERE a.config_name LIKE '%nothing%' AND b.stream = 1 AND c.stream = 2"
    assert ask(recordings["large"], scan) == [{"n": 0}]
    table = run(recordings["large"], "SELECT start_ns FROM kernel")
    assert len(table.stdout.splitlines()) == 51
    assert len(run(recordings["large"], "-n", "0", "SELECT start_ns FROM kernel LIMIT 4000").stdout.splitlines()) == 4001


COMPUTES = "SELECT instr(hex(zeroblob(20000000)), hex(zeroblob(10000000)) || '1') AS x"  # one function, for days


def test_a_function_that_does_not_end(run, recordings, tmp_path):
    """SQLite does not look at limits meanwhile. What is written has no name yet."""
    assert "--timeout" in run(recordings["varied"], COMPUTES, "--timeout", "100ms", status=1).stderr
    assert "--timeout" in run(recordings["varied"], "-o", tmp_path / "x.csv", COMPUTES, "--timeout", "100ms", status=1).stderr
    assert not list(tmp_path.iterdir())
    finished = run(recordings["varied"], "--csv", "--timeout", "100ms", text=f"SELECT 1 AS a; {COMPUTES}; SELECT 2 AS b;", status=1)
    assert finished.stdout == "a\n1\n" and "--timeout" in finished.stderr


def test_interrupt(program, recordings):
    """An interrupt ends the statement, and the program as the signal does."""
    process = subprocess.Popen([program, "sql", "-q", "--json", recordings["varied"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write("SELECT 1 AS begun;\n")
    process.stdin.flush()
    process.stdin.write("WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r;\n")
    process.stdin.flush()
    assert process.stdout.readline() == '{"begun": 1}\n'
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    assert process.wait() == -signal.SIGINT
    assert process.stdout.read() == ""


def test_prompt(program, recordings):
    """At a terminal, statements and errors follow each other, and an interrupt ends one statement only."""
    main, terminal = os.openpty()
    process = subprocess.Popen([program, "sql", recordings["varied"]], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
                               start_new_session=True)
    os.close(terminal)
    os.write(main, b"select nowhere;\nselect 41 +\n 1 as found;\n.help\n.quit\n")
    out, errors = process.communicate()
    os.close(main)
    assert process.returncode == 0 and "no such column: nowhere" in errors and "pitot> " in errors and "   ...> " in errors
    assert "found\n   42\n" in out and "percentile(X, P)" in out and ".schema TABLE" in out


def test_outputs(program, run, ask, recordings, tmp_path):
    statement = "SELECT 1 AS a, 2.5 AS b, NULL AS c, 'x,\"y\"' AS d, '' AS \"e,f\" UNION ALL SELECT -1, 1e300, 'z', 'line' || char(10) || 'two', 'plain'"
    expected = 'a,b,c,d,"e,f"\r\n1,2.5,,"x,""y""",""\r\n-1,1e+300,z,"line\ntwo",plain\r\n'
    found = subprocess.run([program, "sql", "-q", recordings["varied"], "--csv", statement], capture_output=True, check=True)
    assert found.stdout.decode() == expected
    assert [row[3] for row in csv.reader(io.StringIO(expected))][1:] == ['x,"y"', "line\ntwo"]
    run(recordings["varied"], "-o", tmp_path / "x.csv", statement)
    assert (tmp_path / "x.csv").read_bytes().decode() == expected
    assert "--force" in run(recordings["varied"], "-o", tmp_path / "x.csv", statement, status=1).stderr
    run(recordings["varied"], "-o", tmp_path / "x.json", statement)
    assert [json.loads(line) for line in (tmp_path / "x.json").read_text().splitlines()] == ask(recordings["varied"], statement)
    for words, message in {("-o", "x.txt"): "name a .csv, .json, .parquet or .arrow file", ("--csv", "--json"): "choose one"}.items():
        assert message in run(recordings["varied"], *words, statement, status=2, cwd=tmp_path).stderr
    assert "one statement" in run(recordings["varied"], "-o", tmp_path / "y.csv", text="select 1; select 2;", status=2).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.csv", "x.json"]


def test_hostile_texts(program, terminal, run, recordings):
    statement = "SELECT char(27) || '[31mred' AS t"
    text = run(recordings["varied"], statement).stdout
    assert "\x1b" not in text and "\\x1b[31mred" in text
    assert "\x1b[31mred" in run(recordings["varied"], "--csv", statement).stdout
    text = terminal([program, "sql", "-q", "--csv", recordings["varied"], statement], 80)
    assert "\x1b[31m" not in text and "\\x1b[31mred" in text


def test_long_scripts(run, recordings):
    """Each line is read once, and names without end do not grow without end."""
    assert "syntax error" in run(recordings["varied"], text="select x,\n" * 300_000, status=2).stderr
    [count] = run(recordings["varied"], "--csv", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 66000)"
                  " SELECT count(*) AS c FROM n WHERE kernel_short('void k' || i || '(int)') = 'k' || i").stdout.split()[1:]
    assert int(count) == 66000


def documented(source):
    return re.findall(r"```sql\n(.*?)```", (source / "docs" / "sql.md").read_text(), re.S)


@pytest.mark.parametrize("name", ["train", "scopes", "training", "varied"])
def test_documented_statements(source, ask, recordings, name):
    """They run on every recording; together they find something in each kind of row."""
    statements = documented(source)
    assert len(statements) == 16
    for statement in statements:
        assert list(map(len, ask(recordings[name], statement))) is not None, statement


def test_answers_of_documented_statements(source, pitot, ask, recordings):
    """What reports and tables say about the same questions."""
    top, by_function, longest, by_scope, copies, gaps, queued, waits, streams, nccl, steps, overhead, threads, callers, pageable, first = documented(source)
    train, scopes, varied = recordings["train"], recordings["scopes"], recordings["varied"]
    report = report_of(pitot, train)
    hot = report["hotspots"]["items"]
    assert [(row["n"], row["total_ns"], row["median_ns"]) for row in ask(train, top)] == \
        [(item["time"]["count"], item["time"]["total_ns"], item["time"]["median_ns"]) for item in hot[:10]]
    assert sum(row["n"] for row in ask(train, by_function)) == ask(train, "SELECT count(call) AS n FROM kernel")[0]["n"]
    kernels = ask(train, "SELECT start_ns, end_ns, duration_ns, call, stream, kernel_short(config_name) AS name FROM kernel")
    calls = {row["rowid"]: row for row in ask(train, "SELECT rowid, * FROM api_call")}
    launched = sorted((calls[kernel["call"]]["duration_ns"] for kernel in kernels if kernel["call"] is not None), reverse=True)
    assert [row["call_ns"] for row in ask(train, longest)] == launched[:10]
    assert {row["scope"]: row["n"] for row in ask(scopes, by_scope)} == \
        {row["scope"]: row["n"] for row in ask(scopes, "SELECT scope, count(*) AS n FROM kernel GROUP BY 1 ORDER BY 2")}
    assert sum(row["bytes"] or 0 for row in ask(train, copies)) == sum(copy["bytes"] or 0 for copy in report["copies"])
    ends, starts = ({kernel[key]: kernel["name"] for kernel in kernels} for key in ("end_ns", "start_ns"))
    found = ask(train, gaps)
    assert found and [row["duration_ns"] for row in found] == sorted((row["duration_ns"] for row in found), reverse=True)
    known = {row["duration_ns"]: row for row in ask(train, "SELECT * FROM idle_gap")}
    assert all((row["before"], row["after"]) == (ends.get(known[row["duration_ns"]]["start_ns"]), starts.get(known[row["duration_ns"]]["end_ns"])) for row in found)
    for row in ask(train, queued):
        delays = sorted(max(0, k["start_ns"] - calls[k["call"]]["end_ns"]) for k in kernels if k["name"] == row["name"] and k["call"] is not None)
        assert len(delays) != row["n"] or row["queued_ns"] == delays[(len(delays) - 1) // 2]
    assert sum(row["n"] for row in ask(train, streams)) == len(kernels)
    assert all(row["total_ns"] >= row["overlapped_ns"] >= 0 for row in ask(train, nccl))
    assert sum(row["cpu_ns"] for row in ask(varied, threads)) == (ask(varied, "SELECT sum(weight_ns) AS s FROM cpu_sample")[0]["s"] or 0)
    epoch, = ask(scopes, steps.replace("step*", "epoch"))
    assert epoch["kernels"] == ask(scopes, "SELECT count(*) AS n FROM kernel k JOIN api_call a ON a.rowid = k.call, nvtx_range r"
                                   " WHERE r.name = 'epoch' AND a.start_ns BETWEEN r.start_ns AND r.end_ns AND a.pid = r.pid")[0]["n"]
    begin = ask(train, "SELECT start_ns FROM recording")[0]["start_ns"]
    assert ask(train, first.replace("2000000000", "2000000")) == [{"count(*)": sum(k["start_ns"] < begin + 2_000_000 for k in kernels)}]
    by_line = report_of(pitot, recordings["stacks"], "--by", "caller")["hotspots"]["items"]
    found = ask(recordings["stacks"], "SELECT caller, count(*) AS n, sum(duration_ns) AS s FROM kernel GROUP BY 1 ORDER BY 3 DESC")
    assert len(found) > 3 and [(row["caller"], row["n"], row["s"]) for row in found] == [(i["label"], i["time"]["count"], i["time"]["total_ns"]) for i in by_line]
    lines = ask(recordings["stacks"], callers)
    known = {row["caller"]: row["s"] for row in found}
    assert len(lines) > 3 and all(row["gpu_ns"] in (None, known.get(row["caller"])) for row in lines) and lines[0]["gpu_ns"]
    assert ask(train, pageable) == ask(train, "SELECT kind, caller, count(*) AS n, sum(bytes) AS bytes, sum(duration_ns) AS total_ns FROM memcpy"
                                       " WHERE async = 1 AND (source_kind = 'pageable' OR destination_kind = 'pageable') GROUP BY 1, 2 ORDER BY 5 DESC LIMIT 10")
