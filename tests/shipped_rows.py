"""What agents have shipped into a lake, and what the recording has."""
import duckdb

WORK = "kernel", "memcpy", "memset"


def ask(lake, question):
    """Rows of a question in which {table} stands for a table of the lake."""
    tables = {folder.name: f"read_parquet('{folder}/**/*.parquet')" for folder in lake.iterdir()}
    connection = duckdb.connect()
    return connection.execute(question.format(**tables)).fetchall()


def shipped(lake):
    """{kind: (number of pieces of work, sum of their durations)}"""
    return {kind: (count, total) for kind, count, total in ask(lake, "SELECT kind, sum(count)::BIGINT, sum(total_ns)::BIGINT FROM {kernel_sketch} GROUP BY 1")}


def recorded(rows, folder):
    found = {table: [row["duration"] for row in rows(folder, table, "-c", "duration")] for table in WORK}
    return {table: (len(durations), sum(durations)) for table, durations in found.items() if durations}


def steps_of(rows, folder):
    """(start, end) of each step, by the rows of the recording."""
    opened, steps = {}, []
    for row in rows(folder, "nvtx"):
        place = row["thread"], row["level"]
        if row["kind"] == "push":
            opened[place] = row
        elif row["kind"] == "pop" and (begin := opened.pop(place, None)) and begin["message"].startswith("step"):
            steps.append((begin["time_ns"], row["time_ns"]))
    return steps
