#!/usr/bin/env python3
"""Compares how well godwit's job gpt and PyTorch learn: both train one small byte model, with several seeds each.

usage: learning.py GODWIT TEXT [--seeds N] [--updates N] [--threads N] [--on-gpu]        (needs torch)

Architecture, initial distribution, batch size, schedule, AdamW, clipping and validation text (the last tenth) are the
same; both see every window once per epoch, each in an order of its own. The script prints the validation loss of every
run, then means and standard deviations, and these once more as JSON. The times need a quiet machine, the losses do not.
On a GPU the model is larger and godwit runs at the same time as PyTorch, so that the times mean nothing there.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, CHANNELS, CONTEXT, VOCABULARY = 4, 4, 128, 64, 256
BATCH = 96  # windows of an update
DEVICE, ON_DEVICE = "cpu", []  # the device of PyTorch, and godwit's options for it
ENVIRONMENT = dict(os.environ)  # the environment of godwit
RATE, LEAST, BETAS, EPSILON, DECAY, CLIP = 1e-3, 1e-4, (0.9, 0.95), 1e-8, 0.1, 1.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.qkv, self.proj = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.up, self.down = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(c, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, CHANNELS), nn.Embedding(CONTEXT, CHANNELS)
        self.blocks, self.final = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(CHANNELS)
        for name, p in self.named_parameters():
            if name.endswith(("proj.weight", "down.weight")):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * LAYERS))
            elif p.dim() == 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, inputs, targets):
        x = self.words(inputs) + self.places.weight
        for block in self.blocks:
            x = block(x)
        logits = self.final(x) @ self.words.weight.T
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def windows_of(data):
    """The inputs and targets of all windows, of shape [windows, CONTEXT + 1]."""
    count = (len(data) - 1) // CONTEXT
    starts = torch.arange(count)[:, None] * CONTEXT + torch.arange(CONTEXT + 1)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).long()[starts]


def rate_of(update, updates, warmup):
    part = max(0.0, (update - warmup) / (updates - warmup))
    rate = RATE + (LEAST - RATE) * 0.5 * (1.0 - math.cos(math.pi * part))
    return min(rate, RATE * (update + 1) / warmup) if update < warmup else rate


def train_torch(train, validation, updates, seed):
    torch.manual_seed(seed)
    model, windows = Model().to(DEVICE), windows_of(train).to(DEVICE)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON)
    warmup, order, began = updates // 20, torch.empty(0, dtype=torch.long), time.monotonic()
    for update in range(updates):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(windows))])
        batch, order = windows[order[:BATCH].to(DEVICE)], order[BATCH:]
        loss = model(batch[:, :-1], batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = rate_of(update, updates, warmup)
        optimizer.step()
    took = time.monotonic() - began
    with torch.no_grad():
        pieces = windows_of(validation).to(DEVICE).split(BATCH)
        total = sum(model(p[:, :-1], p[:, 1:]).item() * len(p) for p in pieces)
    return total / sum(len(p) for p in pieces), took


def start_godwit(godwit, train, validation, updates, seed, folder):
    (folder / "train").write_bytes(train)
    (folder / "validation").write_bytes(validation)
    command = [godwit, "run", "gpt", "--layers", LAYERS, "--heads", HEADS, "--channels", CHANNELS, "--context", CONTEXT,
               "--data", folder / "train", "--val", folder / "validation", "--batch-tokens", BATCH * CONTEXT, "--updates",
               updates, "--seed", seed, "--eval-every", updates, "--val-tokens", len(validation), *ON_DEVICE, "--dir",
               folder / str(seed), "--listen", "127.0.0.1:0", "--checkpoint-every", "off", "--metrics",
               folder / f"{seed}.csv", "--quiet"]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, env=ENVIRONMENT)


def end_godwit(process, seed, folder):
    if process.wait() != 0:
        raise SystemExit(f"learning.py: godwit run gpt failed with exit code {process.returncode}, seed {seed}")
    with open(folder / f"{seed}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    took = sum(float(row["ms"]) for row in rows if row["phase"] == "train") / 1000
    return float(rows[-1]["val_loss"]), took


def choose_gpu(library_path):
    global LAYERS, HEADS, CHANNELS, CONTEXT, BATCH, DEVICE, ON_DEVICE
    LAYERS, HEADS, CHANNELS, CONTEXT, BATCH = 6, 6, 384, 256, 64
    DEVICE, ON_DEVICE = "cuda", ["--device", "cuda:0", "--precision", "tf32", "--micro-batch", 64]
    torch.set_float32_matmul_precision("high")
    if library_path:
        ENVIRONMENT["LD_LIBRARY_PATH"] = library_path


def run_all(a, train, validation, folder):
    """Yields "godwit" or "torch", the seed and (loss, seconds) of each run."""
    def start(seed):
        return start_godwit(a.godwit, train, validation, a.updates, seed, folder)

    seeds = range(1, a.seeds + 1)
    started = {seed: start(seed) for seed in seeds} if a.on_gpu else {}
    try:
        for seed in seeds:
            if not a.on_gpu:
                started[seed] = start(seed)
                yield "godwit", seed, end_godwit(started[seed], seed, folder)
            yield "torch", seed, train_torch(train, validation, a.updates, seed)
        if a.on_gpu:
            for seed in seeds:
                yield "godwit", seed, end_godwit(started[seed], seed, folder)
    finally:
        for process in started.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("godwit", help="the program godwit")
    parser.add_argument("text", type=pathlib.Path, help="the file to learn")
    parser.add_argument("--seeds", type=int, default=3, help="the runs of each (default 3)")
    parser.add_argument("--updates", type=int, help="the updates of a run (default 600; on a GPU 300)")
    parser.add_argument("--threads", type=int, default=1, help="the threads of each run (default 1)")
    parser.add_argument("--on-gpu", action="store_true", help="6 layers x 384, context 256, in TF32, on GPU 0")
    parser.add_argument("--library-path", help="LD_LIBRARY_PATH of godwit")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    ON_DEVICE.extend(["--workers", a.threads])
    if a.on_gpu:
        choose_gpu(a.library_path)
    a.updates = a.updates or (300 if a.on_gpu else 600)
    text = a.text.read_bytes()
    train, validation = text[:len(text) * 9 // 10], text[len(text) * 9 // 10:]
    losses = {"godwit": [], "torch": []}
    print(f"{LAYERS} layers x {CHANNELS}, context {CONTEXT}; {a.updates} updates of {BATCH * CONTEXT} bytes = "
          f"{a.updates * BATCH * CONTEXT / len(train):.1f} epochs of {a.text.name}; torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as name:
        for who, seed, (loss, took) in run_all(a, train, validation, pathlib.Path(name)):
            losses[who].append(loss)
            print(f"{who:7s} seed {seed}  validation loss {loss:.4f}  {loss / math.log(2):.4f} bits a byte  "
                  f"{took / a.updates * 1000:.1f} ms an update", flush=True)
    found = {who: (statistics.mean(of), statistics.stdev(of) if len(of) > 1 else 0.0) for who, of in losses.items()}
    for who, (mean, spread) in found.items():
        print(f"{who:7s} mean {mean:.4f}  standard deviation {spread:.4f}")
    print(json.dumps({"seeds": a.seeds, **found}))


if __name__ == "__main__":
    main()
