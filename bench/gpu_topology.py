#!/usr/bin/env python3
"""Compares `pitot devices --topology` and `--measure` with nvidia-smi.

usage: bench/gpu_topology.py PITOT, on a machine with NVIDIA's driver. Prints what both say, and a line for each comparison;
status 1 if one differs.
"""
import json
import re
import subprocess
import sys

failed = []


def run(*command):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=120, check=False)
    print(f"$ {' '.join(map(str, command))}   (status {done.returncode})\n{done.stdout}{done.stderr}", flush=True)
    return done.stdout


def compare(what, ours, theirs):
    same = ours == theirs
    print(f"{'same' if same else 'DIFFERS'}: {what}: {ours}{'' if same else f', nvidia-smi {theirs}'}", flush=True)
    if not same:
        failed.append(what)


def matrix(text):
    """{("GPU0", "NIC0"): "PIX"} of nvidia-smi topo -m."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line for line in text.splitlines() if "\t" in line]
    heads = [head.strip() for head in lines[0].split("\t") if re.fullmatch(r"(GPU|NIC)\d+", head.strip())] if lines else []
    found = {}
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split("\t")]
        if re.fullmatch(r"(GPU|NIC)\d+", cells[0]):
            found.update({(cells[0], head): cell for head, cell in zip(heads, cells[1:])})
    return found


def names_of_adapters(text):
    """{"NIC0": "mlx5_0"}"""
    return dict(re.findall(r"(NIC\d+): (\S+)", text))


def main():
    pitot = sys.argv[1]
    run(pitot, "devices", "--topology")
    found = json.loads(run(pitot, "devices", "--topology", "--json"))
    smi = run("nvidia-smi", "topo", "-m")
    rows = [line.split(", ") for line in run(
        "nvidia-smi", "--query-gpu=index,pci.bus_id,name,pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader").splitlines()]
    run("nvidia-smi", "nvlink", "--status")
    gpus = {device["pci"]: number for number, device in enumerate(found["devices"]) if device["kind"] == "gpu"}
    adapters = {name: number for number, device in enumerate(found["devices"]) for name in (device["name"] or "").split()}
    index = {}
    for number, address, name, generation, width in rows:
        address = address.lower()[-12:]
        index[f"GPU{number}"] = gpus.get(address)
        if address not in gpus:
            compare(f"GPU {address} is listed", False, True)
            continue
        device = found["devices"][gpus[address]]
        each = {"3": 8 * 128 / 130 / 8, "4": 16 * 128 / 130 / 8, "5": 32 * 128 / 130 / 8, "6": 64 * 128 / 130 / 8}.get(generation)
        compare(f"name of {address}", device["name"], name)
        if each and device["pcie_gbs"]:
            compare(f"PCIe of {address} in GB/s", round(device["pcie_gbs"], 1), round(each * int(width), 1))
    index.update({nic: adapters.get(name) for nic, name in names_of_adapters(smi).items()})
    paths = {(path["a"], path["b"]): path for path in found["paths"]}
    for (a, b), theirs in matrix(smi).items():
        pair = index.get(a), index.get(b)
        if theirs == "X" or None in pair or pair[0] >= pair[1]:
            continue
        path = paths[pair]
        compare(f"{a} to {b}", f"NV{path['nvlinks']}" if path["nvlinks"] else (path["way"] or "?").upper(), theirs)
    run(pitot, "devices", "--measure")
    copies = json.loads(run(pitot, "devices", "--measure", "--json")).get("copies", [])
    for copy in copies:
        nominal, measured = copy["nominal_gbs"], copy["gbs"]
        if nominal and measured:
            plausible = 0.3 * nominal < measured <= 1.02 * nominal
            print(f"{'plausible' if plausible else 'IMPLAUSIBLE'}: {copy['from']} to {copy['to']}: {measured / nominal:.0%} of nominal")
            if not plausible:
                failed.append("copies")
    if not copies:
        failed.append("copies")
    run("nvidia-smi", "-q", "-d", "CLOCK")
    print("ranks: topology", "as nvidia-smi says" if not failed else f"differs: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
