"""Greedy decoding with a transformers model of random weights: launch-bound, 30 to 50 frames of Python and native code.

usage: decode.py [TOKENS]
"""
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

HIDDEN, LAYERS, BATCH, PROMPT, VOCABULARY = 768, 12, 2, 128, 8000


def generate(model, prompt, tokens):
    with torch.no_grad():
        model.generate(prompt, max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    torch.cuda.synchronize()


def main():
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 96
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=HIDDEN, intermediate_size=3 * HIDDEN, num_hidden_layers=LAYERS,
                                         num_attention_heads=HIDDEN // 64, vocab_size=VOCABULARY)).half().cuda().eval()
    prompt = torch.randint(0, VOCABULARY, (BATCH, PROMPT), device="cuda")
    generate(model, prompt, 8)
    start = time.perf_counter()
    generate(model, prompt, tokens)
    print(f"ms_per_token={(time.perf_counter() - start) / tokens * 1e3:.4f}")


if __name__ == "__main__":
    main()
