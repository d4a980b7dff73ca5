"""`pitot export -o x.dot`: read by a strict reader of the parts of Graphviz's language that it uses, and by dot itself if it is there."""
import re
import shutil
import subprocess

import pytest

TEXT = r'"((?:[^"\\\n]|\\.)*)"'
NODE = re.compile(rf"\t\tt(\d+) \[label={TEXT}(, color=red, penwidth=2)?\];")
EDGE = re.compile(rf"\tt(\d+) -> t(\d+) \[(?:label={TEXT})?(, style=dashed)?\];")
OTHERS = re.compile(rf"digraph causes {{|\t(?:rankdir=LR|newrank=true|nslimit1?=1);|\tnode \[shape=box\];|\tsubgraph cluster_\d+ {{|\t\tlabel={TEXT};|\t?}}")


def read(path):
    """Nodes by number: (label, whether on the path), and edges: (from, to, label); every line must be one that is known."""
    nodes, edges, depth = {}, [], 0
    for line in path.read_text(encoding="utf-8").splitlines():
        depth += line.count("{", len(line) - 1) - (line.strip() == "}")
        if node := NODE.fullmatch(line):
            assert depth == 2 and node[1] not in nodes
            nodes[node[1]] = (node[2], bool(node[3]))
        elif edge := EDGE.fullmatch(line):
            edges.append((edge[1], edge[2], edge[3] or "", bool(edge[4])))
        else:
            assert OTHERS.fullmatch(line), line
    assert depth == 0
    assert all(a in nodes and b in nodes for a, b, _, _ in edges)
    return nodes, edges


def check_by_graphviz(path):
    if shutil.which("dot"):
        assert subprocess.run(["dot", "-Tplain", path], capture_output=True, check=False).returncode == 0


# Each node of a graph waits for several: of 254 of them dot thinks for 18 seconds, of 45 not for one.
@pytest.mark.parametrize("pattern, until", [("train", "2ms"), ("graph", "1200us"), ("streams", "2ms"), ("threads", "2ms"), ("copies", "2ms")])
def test_of_a_window(pitot, make_recording, tmp_path, pattern, until):
    make_recording(tmp_path / "r.pitot", kernels=2000, pattern=pattern)
    result = pitot("export", "r.pitot", "-o", "x.dot", "--until", until, "--json", json_output=True)
    nodes, edges = read(tmp_path / "x.dot")
    assert result["format"] == "dot" and result["arrows"] == len(edges)
    assert result["events"] == sum("all of" not in label for label, _ in nodes.values())
    path = {node for node, (_, on_path) in nodes.items() if on_path}
    assert any({a, b} <= path for a, b, *_ in edges) and len(path) < len(nodes)
    launches = [(a, b) for a, b, label, dashed in edges if dashed and label == "launch latency"]
    assert launches and all(nodes[a][0].startswith("cu") for a, _ in launches)
    check_by_graphviz(tmp_path / "x.dot")


def test_names_are_escaped(pitot, make_recording, tmp_path):
    make_recording(tmp_path / "r.pitot", "names")
    pitot("export", "r.pitot", "-o", "x.gv")
    assert read(tmp_path / "x.gv")[0]
    check_by_graphviz(tmp_path / "x.gv")


def test_refusals(pitot, make_recording, tmp_path):
    make_recording(tmp_path / "r.pitot", kernels=9000, pattern="train")
    for options, error in (([], "): choose at most 5000 with --since and --until"),
                           (["--kernel", "gemm"], "choose a window with --since and --until, not --kernel or --scope"),
                           (["--since", "900s"], "nothing to export: no event starts between --since and --until")):
        assert error in pitot("export", "r.pitot", "-o", "x.dot", *options, status=1).stderr
    assert not (tmp_path / "x.dot").exists()
