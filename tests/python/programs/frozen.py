"""A model of which nearly all is frozen: prints what it takes in memory behind the evaluation.

    frozen.py
"""
import os

import godwit

import torch

MIB = 1 << 20


def anonymous(pid):
    """The memory of a process that is its own, in MiB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) // 1024


def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def arenas(pid):
    """What there is of the arenas that a peer holds open, in MiB by name."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{fd}"
        name = os.readlink(path)
        if name.startswith("/memfd:godwit-"):
            found[name[len("/memfd:godwit-") :].split()[0]] = os.stat(path).st_blocks * 512 // MIB
    return found


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = torch.nn.Parameter(torch.ones(16 * MIB), requires_grad=False)
        self.trained = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.trained(x) * self.frozen[0]


before = anonymous("self")
model = Model()
job = godwit.Job(model, torch.optim.AdamW(model.trained.parameters()), shards=2, updates=2, eval_every=1, eval_shards=1)


@job.shard
def shard(s):
    return model(torch.ones(2, 4)).sum(), 2


@job.update
def update(u):
    pass


@job.evaluated
def evaluated(u):
    pass


@job.after
def after(e):
    template = os.getppid()
    if not e.training and e.update == 2:
        found = arenas(parent(template))
        print(f"worker={anonymous('self') - before} template={anonymous(template) - before}",
              *(f"{name}={found[name]}" for name in ("state", "next", "own")), flush=True)  # fmt: skip


job.run()
