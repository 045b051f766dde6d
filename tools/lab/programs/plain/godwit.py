"""A stand-in for the module `godwit`: it runs a script's job by plain PyTorch, in one process, with gradients added as
floats and an order of samples of its own. What it gives is compared with what the flock gives.

The seed is GODWIT_SEED. Each evaluation says `val_loss VALUE`.
"""
import os
from types import SimpleNamespace

import torch

SEED = int(os.environ.get("GODWIT_SEED", "1"))
torch.manual_seed(SEED)
torch.set_num_threads(1)


class Orders:
    """Samples of an epoch after the other, each once in a random order."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(1000 + SEED)
        self.left = []

    def take(self, n, k):
        found = []
        while len(found) < k:
            if not self.left:
                self.left = torch.randperm(n, generator=self.generator).tolist()
            found.append(self.left.pop())
        return found


class Job:
    def __init__(self, model, optimizer, *, shards, updates, clip=None, eval_every=0, eval_shards=0, data=(), keep=None):
        self.model, self.optimizer = model, optimizer
        self.shards, self.updates, self.clip = shards, updates, clip
        self.eval_every, self.eval_shards = eval_every, eval_shards
        self.vars = SimpleNamespace()
        self.functions = {}
        self.orders = Orders()
        self.fixed = []  # the samples of evaluations

    def shard(self, function):
        self.functions["shard"] = function

    def update(self, function):
        self.functions["update"] = function

    def after(self, function):
        self.functions["after"] = function

    def evaluation_samples(self, n, k, shard):
        if not self.fixed:
            self.fixed = torch.randperm(n, generator=torch.Generator().manual_seed(SEED)).tolist()
        return self.fixed[shard * k : (shard + 1) * k]

    def context(self, training, update, shard):
        def indices(n, k):
            return self.orders.take(n, k) if training else self.evaluation_samples(n, k, shard)

        return SimpleNamespace(training=training, update=update, shard=shard, shards=self.shards, indices=indices)

    def evaluate(self, update):
        self.model.eval()
        with torch.no_grad():
            answers = [self.functions["shard"](self.context(False, update, i)) for i in range(self.eval_shards)]
        print("val_loss", sum(a[0].item() for a in answers) / sum(a[1] for a in answers), flush=True)

    def one_update(self, update):
        self.model.train()
        self.optimizer.zero_grad()
        total = 0
        for i in range(self.shards):
            loss, weight = self.functions["shard"](self.context(True, update, i))
            loss.backward()
            total += weight
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        for parameter in parameters:
            parameter.grad /= total
        if self.clip:
            torch.nn.utils.clip_grad_norm_(parameters, self.clip)
        self.optimizer.step()
        if "update" in self.functions:
            self.functions["update"](SimpleNamespace(update=update, reports={}))

    def run(self):
        for update in range(self.updates):
            self.one_update(update)
            if self.eval_every and ((update + 1) % self.eval_every == 0 or update + 1 == self.updates):
                self.evaluate(update)
        return SimpleNamespace(steps=self.updates, updates=self.updates, reports={})
