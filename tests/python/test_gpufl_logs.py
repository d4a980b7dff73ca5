"""gpufl's logs of a program in whose folder other programs work."""
import gzip
import json

from gpufl_backend import Backend


def test_logs_live_as_long_as_the_program(run, plain, environment, tmp_path):
    """A backup reads the locked file, which closes a descriptor of it; then somebody uploads dead sessions."""
    with Backend() as backend:
        run("""
            import shutil, subprocess
            def scopes(name):
                for _ in range(1000):
                    with pitot.scope(name):
                        pass
            with pitot.record("r.pitot", log_path="logs") as recording:
                scopes("early")
                recording.flush()
                shutil.copytree("logs", "backup")
                for arguments in ["upload", "-q", "--url", sys.argv[2], "logs"], ["record", "-q", "--gpu-only", "--log", "gpufl=logs", "-o", "x.pitot", "true"]:
                    subprocess.run([sys.argv[1], *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                scopes("late")
            print("null")
            """, arguments=[plain / "pitot", backend.url])
    found, names = {}, {}
    for path in tmp_path.glob("logs/*/scope.*.log.gz"):
        for line in gzip.open(path, "rt"):
            record = json.loads(line)
            names.update(record.get("scope_name_dict", {}))
            if record["type"] == "scope_event_batch":
                for row in record["rows"]:
                    name = names[str(row[record["columns"].index("name_id")])]
                    found[name] = found.get(name, 0) + 1
    assert found == {"early": 2000, "late": 2000}
    assert not list(tmp_path.glob("logs/*/.tmp"))


def test_logs_that_are_removed(run, rows, tmp_path):
    """The program is told, and a recording beside the logs says it, too."""
    said = run("""
        import shutil, warnings
        said = []
        for recording in "", "r.pitot":
            running = pitot.start(recording, log_path="logs")
            running.flush()
            shutil.rmtree("logs")
            with pitot.scope("s"):
                pass
            try:
                running.flush()
            except pitot.Error as e:
                said.append(str(e))
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                running.stop()
            said += [str(w.message) for w in seen]
        print(json.dumps(said))
        """)
    assert said == ["rows are being lost: No such file or directory", "rows are lost, of gpufl's logs: No such file or directory",
                    "rows are being lost: No such file or directory", f"rows are lost, of {tmp_path}/r.pitot or of gpufl's logs: No such file or directory"]
    losses = [row for row in rows(tmp_path / "r.pitot", "loss") if "gpufl" in (row["detail"] or "")]
    assert [(row["reason"], row["count"], row["detail"]) for row in losses] == [
        ("write_error", 1, "gpufl's logs: nothing more was written into them")]
