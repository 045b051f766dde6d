"""A convolutional net with BatchNorm and Dropout, on pictures that are drawn here; dies where it is told to.

    pictures.py UPDATES [OPTIMIZER]
"""
import os
import sys

import godwit

import deaths
import torch
import torch.nn.functional as F
from torch import nn

updates, kind = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "AdamW"
pictures, labels = torch.randn(240, 1, 8, 8), torch.randint(0, 4, (240,))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8 * 36, 4)
        self.unused = nn.Linear(3, 3)
        self.frozen = nn.Linear(4, 4)
        self.frozen.requires_grad_(False)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)

    def forward(self, x):
        return self.frozen(self.head(self.drop(F.relu(self.norm(self.conv(x)))).flatten(1))) * self.scale


net = Net()
optimizers = {
    "AdamW": lambda: torch.optim.AdamW(net.parameters(), lr=0.01),
    "fused": lambda: torch.optim.AdamW(net.parameters(), lr=0.01, fused=True),
    "SGD": lambda: torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "plain": lambda: torch.optim.SGD(net.parameters(), lr=0.1),
    "RMSprop": lambda: torch.optim.RMSprop(net.parameters(), lr=0.01, centered=True),
    "NAdam": lambda: torch.optim.NAdam(net.parameters(), lr=0.01),
    "RAdam": lambda: torch.optim.RAdam(net.parameters(), lr=0.01),
    "Adagrad": lambda: torch.optim.Adagrad(net.parameters(), lr=0.05, initial_accumulator_value=0.1),
    "Adafactor": lambda: torch.optim.Adafactor(net.parameters()),
    "Rprop": lambda: torch.optim.Rprop(net.parameters()),
    "ASGD": lambda: torch.optim.ASGD(net.parameters(), lr=0.05),
    "two": lambda: [torch.optim.SGD(net.conv.parameters(), lr=0.1), torch.optim.AdamW(net.head.parameters(), lr=0.01)],
}
optimizer = optimizers[kind]()
first = optimizer[0] if isinstance(optimizer, list) else optimizer
scheduler = torch.optim.lr_scheduler.MultiStepLR(first, [2, 4], 0.5)
average = torch.optim.swa_utils.AveragedModel(net, use_buffers=False)
job = godwit.Job(net, optimizer, shards=6, updates=updates, clip=1.0, eval_every=3, eval_shards=2, parts=3,
                 reports=["right"], keep={"scheduler": scheduler, "average": average})
log = open(os.environ.get("GODWIT_TEST_LOG", os.devnull), "a")  # never closed nor flushed here
job.vars.best = 1e9
job.vars.history = []
job.vars.held_out = []


@job.shard
def shard(s):
    deaths.at("shard", s.update, s.shard)
    which = s.indices(240, 10)
    out = net(pictures[which])
    right = (out.argmax(1) == labels[which]).sum()
    return F.cross_entropy(out, labels[which], reduction="sum"), len(which), {"right": right}


@job.update
def update(u):
    deaths.at("once", u.update)
    scheduler.step()
    average.update_parameters(net)
    job.vars.best = min(job.vars.best, u.reports["loss"])
    job.vars.history = [*job.vars.history[-3:], u.reports["loss"]]


@job.evaluated
def evaluated(u):
    deaths.at("evaluated", u.update)
    job.vars.held_out = [*job.vars.held_out, u.reports["val_loss"]]
    first.param_groups[0]["lr"] *= 0.5
    with torch.no_grad():
        net.head.bias *= 0.5


@job.after
def after(e):
    deaths.at("after", e.update)
    log.write(f"after {e.step}\n")


net.head.register_forward_pre_hook(lambda module, x: None)
result = job.run()
log.write("behind\n")
if hasattr(first, "step"):
    print("finished", result.updates, repr(job.vars.best), first.param_groups[0]["lr"], net.unused.weight.grad, net.training,
          scheduler.last_epoch, int(average.n_averaged))
