"""A small GPT on bytes, trained in three ways with one model, one optimizer and as many tokens an update.

    gpt.py godwit TEXT UPDATES SHARDS        a job of godwit: `godwit run program --program gpt.py`, or alone
    gpt.py ddp TEXT UPDATES                  a process of DistributedDataParallel on gloo, started by torchrun
    gpt.py plain TEXT UPDATES                one process that adds gradients as floats

The seed is GODWIT_SEED. Each way says `loss VALUE` of the held-out text behind the last update; `ddp` and `plain` also say
`second VALUE` and `cpu VALUE`: the median time of an update, and the processor time that this process takes for one.
"""
import math
import os
import statistics
import sys
import time

mode = sys.argv[1]
if mode == "godwit":
    import godwit

import torch
import torch.nn.functional as F
from torch import nn

CONTEXT, WIDTH, HEADS, LAYERS, WINDOWS, WARMUP = 64, 128, 4, 4, 96, 20
EVAL_WINDOWS, EVAL_SHARDS = 32, 8
SETTLED = 10  # updates before times count

with open(sys.argv[2], "rb") as file:
    text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
updates = int(sys.argv[3])
train, held_out = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.token.weight.T


def batch(data, places):
    tokens = torch.stack([data[i : i + CONTEXT + 1] for i in places]).long()
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(model, data, places):
    inputs, targets = batch(data, places)
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")


def rate_of(update):
    return min((update + 1) / WARMUP, 0.5 * (1 + math.cos(math.pi * min(1.0, update / updates))) + 0.05)


def make():
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate_of)


def by_godwit():
    model, optimizer, scheduler = make()
    shards = int(sys.argv[4])
    job = godwit.Job(model, optimizer, shards=shards, updates=updates, clip=1.0, keep={"scheduler": scheduler})

    @job.shard
    def shard(s):
        places = s.indices(len(train) - CONTEXT, WINDOWS // shards)
        return loss_of(model, train, places), len(places) * CONTEXT

    @job.update
    def update(u):
        scheduler.step()

    job.run()
    return model


def by_floats(ranks, rank):
    torch.manual_seed(int(os.environ.get("GODWIT_SEED", "1")))
    torch.set_num_threads(1)
    model, optimizer, scheduler = make()
    seen = nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    order = torch.Generator()
    order.manual_seed(1000 + int(os.environ.get("GODWIT_SEED", "1")))
    places, marks = torch.empty(0, dtype=torch.int64), []
    for update in range(updates):
        if len(places) < WINDOWS:
            places = torch.randperm(len(train) - CONTEXT, generator=order)
        mine, places = places[:WINDOWS].view(ranks, -1)[rank].tolist(), places[WINDOWS:]
        optimizer.zero_grad()
        (loss_of(seen, train, mine) / (len(mine) * CONTEXT)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        marks.append((time.perf_counter(), time.process_time()))
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(marks[SETTLED:], marks[SETTLED + 1 :])]
    if steps and rank == 0:
        print("second", statistics.median(s[0] for s in steps))
        print("cpu", statistics.mean(s[1] for s in steps))
    return model


def evaluate(model):
    model.eval()
    places = torch.linspace(0, len(held_out) - CONTEXT - 1, EVAL_WINDOWS * EVAL_SHARDS).long().tolist()
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(places), EVAL_WINDOWS):
            total += loss_of(model, held_out, places[first : first + EVAL_WINDOWS]).item()
    return total / (len(places) * CONTEXT)


if mode == "ddp":
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = by_floats(torch.distributed.get_world_size(), rank)
    torch.distributed.destroy_process_group()
else:
    rank = 0
    model = by_godwit() if mode == "godwit" else by_floats(1, 0)
if rank == 0:
    print("loss", evaluate(model))
