#!/usr/bin/env python3
"""The cost of recording per launch of a transformers model that decodes: all settings take turns in one process, so that neither its start of
20 seconds nor a drifting machine affects the figures.

usage: bench/in_process.py BUILD [ROUNDS [TOKENS]], with PyTorch and transformers

Each round runs: not recorded; CUPTI's trace alone; with stacks of launches; with CPU samples as well. The time of a turn is the 10th percentile
of its tokens' times. Prints for each setting the minimum over the rounds of milliseconds per token, and microseconds per kernel over not
recorded, then the medians of both. Where a neighbour lowers the processor's clock for seconds, as on rented machines, only the minimum is useful.
"""
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent / "workloads"), str(Path(sys.argv[1]).resolve() / "python")]

import decode  # noqa: E402
import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, StoppingCriteriaList  # noqa: E402

import pitot  # noqa: E402

SETTINGS = {
    "not recorded": None,
    "trace": {"stacks": "none", "cpu": 0},
    "native stacks": {"stacks": "native", "cpu": 0},
    "stacks": {"stacks": "all", "cpu": 0},
    "stacks, CPU at 99 Hz": {"stacks": "all", "cpu": 99},
}


def main():
    rounds, tokens = (int(text) for text in (*sys.argv[2:4], "20", "48")[:2])
    model = LlamaForCausalLM(LlamaConfig(hidden_size=decode.HIDDEN, intermediate_size=3 * decode.HIDDEN, num_hidden_layers=decode.LAYERS,
                                         num_attention_heads=decode.HIDDEN // 64, vocab_size=decode.VOCABULARY)).half().cuda().eval()
    prompt = torch.randint(0, decode.VOCABULARY, (decode.BATCH, decode.PROMPT), device="cuda")

    def ms_per_token():
        """The host waits for each token to see whether it is the last one."""
        ends = []

        def on_token(ids, _):
            ends.append(time.perf_counter())
            return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)

        with torch.no_grad():
            model.generate(prompt, max_new_tokens=tokens, do_sample=False, pad_token_id=0, stopping_criteria=StoppingCriteriaList([on_token]))
        return statistics.quantiles([(b - a) * 1e3 for a, b in zip(ends, ends[1:])], n=10)[0]

    ms_per_token()
    times, kernels = {name: [] for name in SETTINGS}, 0
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for name, settings in SETTINGS.items():
                if settings is None:
                    times[name].append(ms_per_token())
                    continue
                path = f"{folder}/{turn}-{name}.pitot"
                with pitot.record(path, **settings):
                    times[name].append(ms_per_token())
                if not kernels:
                    done = subprocess.run([f"{sys.argv[1]}/pitot", "info", "--json", path], capture_output=True, check=True)
                    kernels = json.loads(done.stdout)["tables"]["kernel"]["rows"] / tokens
                    print(f"{kernels:.0f} kernels per token", flush=True)
            print(" ".join(f"{values[-1]:7.3f}" for values in times.values()), flush=True)
    for name, values in times.items():
        more = [(ms - bare) * 1e3 / kernels for ms, bare in zip(values, times["not recorded"])]
        least, bare = min(values), min(times["not recorded"])
        print(f"{name:22} min {least:7.3f} ms per token, {(least - bare) * 1e3 / kernels:+5.2f} us per kernel; "
              f"medians {statistics.median(values):7.3f} and {statistics.median(more):5.2f}")


main()
