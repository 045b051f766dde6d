"""A job whose shards compute almost nothing, for what a shard takes beside its forward and backward.

    noop.py ELEMENTS TENSORS SHARDS UPDATES TURNS SLEEP_MS [MARKS]

It says `plain VALUE`, the processor time in microseconds of a forward and backward in a loop of TURNS; `waiting VALUE`,
the same where the process waits before each turn, as a worker does for its peer, so that caches are cold; `worker VALUE`
and `peer VALUE` for each update: those of the worker and of its peer for a shard, without the update. Each shard sleeps
for SLEEP_MS, and appends `TIME UPDATE SHARD` to the file MARKS when it begins.
"""
import os
import sys
import time

import godwit

import torch

WAIT_S = 50e-6
elements, tensors, shards, updates, turns, sleep_ms = map(int, sys.argv[1:7])
marks = os.open(sys.argv[7], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if len(sys.argv) > 7 else -1


class Noop(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.all = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(elements // tensors)) for _ in range(tensors))

    def forward(self):
        return torch.stack([parameter.sum() for parameter in self.all]).sum()


def plain_once():
    model().backward()
    for parameter in model.all:
        parameter.grad = None


def plain():
    """The least processor time of a turn, in microseconds, of a few rounds."""
    found = []
    for _ in range(5 if turns > 1 else 0):
        began = time.process_time()
        for _ in range(turns):
            plain_once()
        found.append((time.process_time() - began) / turns * 1e6)
    return min(found, default=0.0)


def waiting():
    """The least processor time of a turn behind a wait, in microseconds, of a few rounds; the waits do not count."""
    found = []
    for _ in range(5 if turns > 1 else 0):
        total = 0.0
        for _ in range(turns):
            time.sleep(WAIT_S)
            began = time.process_time()
            plain_once()
            total += time.process_time() - began
        found.append(total / turns * 1e6)
    return min(found, default=0.0)


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def peer_seconds():
    """The processor time of the peer: a worker's parent is the template, whose parent is the peer."""
    tasks, total = f"/proc/{parent_of(parent_of(os.getpid()))}/task", 0
    for task in os.listdir(tasks):
        try:
            with open(f"{tasks}/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        except OSError:  # the thread has ended
            continue
    return total * 1e-9


model = Noop()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
print("plain", plain(), flush=True)
print("waiting", waiting(), flush=True)
job = godwit.Job(model, optimizer, shards=shards, updates=updates)
seen = {"shards": 0, "update": -1, "worker": 0.0, "peer": 0.0}


def count(update):
    if seen["update"] != update:
        seen.update(shards=0, update=update, worker=time.process_time(), peer=peer_seconds())
        return
    seen["shards"] += 1
    if seen["shards"] == shards - 1:
        print("worker", (time.process_time() - seen["worker"]) / seen["shards"] * 1e6, flush=True)
        print("peer", (peer_seconds() - seen["peer"]) / seen["shards"] * 1e6, flush=True)


@job.shard
def shard(s):
    if turns:
        count(s.update)
    if marks >= 0:
        os.write(marks, f"{time.time()} {s.update} {s.shard}\n".encode())
    if sleep_ms:
        time.sleep(sleep_ms / 1000)
    return model(), 1


job.run()
