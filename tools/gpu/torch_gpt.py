"""Measures PyTorch on this GPU in training GPT-2 of 124M parameters like the job `gpt`: bfloat16 by autocast, attention
by SDPA, micro-batches of 16 windows of 1024 tokens, gradients clipped by their norm, fused AdamW, compiled if that
works. Prints one JSON object. tools/gpu/check.py runs it."""

import gc
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, CHANNELS, CONTEXT, VOCABULARY = 12, 12, 768, 1024, 50304  # padded, as in godwit
MICRO, SHARDS, WARM, STEPS = 16, 8, 3, 17


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.qkv, self.attended = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.hidden, self.out = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x):
        rows, positions, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(rows, positions, 3, HEADS, CHANNELS // HEADS).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.attended(y.transpose(1, 2).reshape(rows, positions, CHANNELS))
        return x + self.out(functional.gelu(self.hidden(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, CHANNELS), nn.Embedding(CONTEXT, CHANNELS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(CHANNELS)

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.words.weight)
        return functional.cross_entropy(logits.view(-1, VOCABULARY).float(), targets.view(-1))


def taken():
    """The bytes of the GPU's memory that are in use."""
    free, everything = torch.cuda.mem_get_info()
    return everything - free


def rate(compiled):
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if compiled else model
    shape = (SHARDS, MICRO, CONTEXT)
    tokens = torch.randint(0, 50257, shape, device="cuda")
    targets = torch.randint(0, 50257, shape, device="cuda")
    took = []
    for step in range(WARM + STEPS):
        torch.cuda.synchronize()
        began = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        for shard in range(SHARDS):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_of(tokens[shard], targets[shard]) / SHARDS
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch.cuda.synchronize()
        if step >= WARM:
            took.append(time.monotonic() - began)
    return SHARDS * MICRO * CONTEXT / statistics.median(took)


torch.zeros(1, device="cuda")  # what CUDA itself takes is not counted
before = taken()
tokens_per_s = None
try:
    tokens_per_s = rate(True)
except Exception as why:  # no compiler there, say: how it fails is PyTorch's business
    print(f"not compiled: {why}", flush=True)
compiled = tokens_per_s is not None
if not compiled:  # only here has the error let go of the model that failed
    gc.collect()
    torch.cuda.empty_cache()
    tokens_per_s = rate(False)
print(json.dumps({"tokens_per_s": tokens_per_s, "compiled": compiled, "memory_bytes": taken() - before}))
