"""What godwit.lightning takes, refuses and adds up, without a peer.

    lit_tables.py WHAT...      each is complete, refusals, sums or versions, and begins with a line of its name
"""
import collections
import inspect
import json
import mmap
import os
import re
import sys
import tempfile
import warnings

import godwit

import lightning
import lightning.pytorch
import pytorch_lightning
import torch
import torch.nn.functional as F
import torchmetrics
from godwit import protocol, worker
from godwit.lightning import Trainer, data, files, logs, tables
from lightning.pytorch import callbacks, loggers
from torch import nn
from torch.utils import data as torch_data

warnings.simplefilter("ignore")
x, y = torch.randn(26, 6), torch.randint(0, 3, (26,))
CALLED = frozenset(
    ("all_gather", "clip_gradients", "forward", "freeze", "load_from_checkpoint", "log", "log_dict", "lr_schedulers",
     "manual_backward", "optimizers", "print", "to_onnx", "to_tensorrt", "to_torchscript", "toggle_optimizer",
     "toggled_optimizer", "unfreeze", "untoggle_optimizer")
)  # fmt: skip
"""Methods of a LightningModule that programs call; they are no hooks."""


def complete():
    known = set(tables.HONOURED) | set(tables.REPLACED) | set(tables.REFUSED)
    hooks = (
        tables.SETUP_HOOKS | tables.SHARD_HOOKS | tables.PART_HOOKS | tables.ONCE_HOOKS | tables.FILE_HOOKS
        | tables.END_HOOKS | tables.UNUSED_HOOKS | set(tables.REFUSED_HOOKS)
    )  # fmt: skip
    arguments, methods, kinds = set(), set(), set()
    for package in (lightning.pytorch, pytorch_lightning):
        arguments |= set(inspect.signature(package.Trainer.__init__).parameters) - {"self"}
        module, callback = package.LightningModule, package.callbacks.Callback
        for cls in (*module.__mro__, callback):
            if not cls.__module__.startswith(tables.ROOTS) or "mixins" in cls.__module__:
                continue
            methods |= {n for n, v in vars(cls).items() if not n.startswith("_") and callable(getattr(v, "__func__", v))
                        and not isinstance(v, property) and not isinstance(v, type)}  # fmt: skip
        kinds |= {n for n in package.callbacks.__all__ if isinstance(getattr(package.callbacks, n), type)}
    page = os.path.join(os.path.dirname(os.path.dirname(godwit.__file__)), "README.md")
    with open(page) as file:
        written = set(re.findall(r"`([A-Za-z_]+)", file.read()))
    both = set(tables.CALLBACKS) | set(tables.REFUSED_CALLBACKS)
    print("arguments:", ", ".join(sorted(arguments ^ known)) or "none")
    print("hooks:", ", ".join(sorted((methods - CALLED) ^ hooks)) or "none")
    print("callbacks:", ", ".join(sorted(kinds ^ both)) or "none")
    unsaid = (known | hooks | both) - tables.UNUSED_HOOKS - {"Callback"} - written
    print("page:", ", ".join(sorted(unsaid)) or "none")


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.seen = 0
        self.outputs = []

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def module(**functions):
    """A Net with other functions."""
    return type("Net", (Net,), functions)()


def callback(base=callbacks.Callback, **functions):
    return type("Own", (base,), functions)()


def loader(**more):
    return torch_data.DataLoader(torch_data.TensorDataset(x, y), **{"batch_size": 8, **more})


class Stream(torch_data.IterableDataset):
    def __iter__(self):
        return iter(range(4))


class Odd(torch_data.Sampler):
    def __iter__(self):
        return iter(range(26))

    def __len__(self):
        return 26


def program_of(trainer, net, train, val=None):
    """The job's program, with memory as a peer gives it."""
    program = trainer._job(net, train, val, None).program()
    layout = program.layout
    state, own = mmap.mmap(-1, layout.state_bytes), mmap.mmap(-1, layout.own_bytes)
    program.initial(state)
    program.attach(worker.Arenas(state, mmap.mmap(-1, layout.state_bytes), own))
    return program


def attempt(net=None, train=None, val=None, steps=(), **arguments):
    """The words with which a Trainer or its job is refused, at its beginning or at one of these shards."""
    try:
        trainer = Trainer(**{"max_epochs": 2, **arguments})
        program = program_of(trainer, net or Net(), loader() if train is None else train, val)
        for update, phase in steps:
            program.shard(protocol.Shard(update, update, phase, update + 1, 0, 1))
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return "ACCEPTED"


def logged(*arguments, after=0, **more):
    """A module that logs so, from some batch on."""

    def training_step(self, batch, batch_idx):
        if batch_idx >= after:
            self.log(*arguments, **more)
        return Net.training_step(self, batch, batch_idx)

    return module(training_step=training_step)


def metric_net(metric):
    def training_step(self, batch, batch_idx):
        self.metric(self.net(batch[0]).softmax(1)[:, 0], (batch[1] == 0).long())
        return Net.training_step(self, batch, batch_idx)

    net = module(training_step=training_step)
    net.metric = metric
    return net


def changing(what):
    def training_step(self, batch, batch_idx):
        what(self, batch)
        return Net.training_step(self, batch, batch_idx)

    return module(training_step=training_step)


def optimizers(returned):
    return module(configure_optimizers=lambda self: returned(list(self.parameters())))


sgd, plateau = torch.optim.SGD, torch.optim.lr_scheduler.ReduceLROnPlateau
first = [(0, protocol.Phase.TRAIN)]
nothing = lambda self, *arguments: None  # noqa: E731


def refusals():
    tries = {
        "unknown": (lambda: attempt(tpu_cores=8), "does not know this argument"),
        "float16": (lambda: attempt(precision="16-mixed"), "precision='16-mixed'): float16 needs scaled losses"),
        "gpu": (lambda: attempt(accelerator="gpu"), "accelerator='gpu'): PyTorch sees no GPU"),
        "other accelerator": (lambda: attempt(accelerator="mps"), "accelerator='mps'): models are possible on the CPU and"),
        "ddp": (lambda: attempt(strategy="ddp"), "strategy='ddp'): the flock is the strategy"),
        "devices": (lambda: attempt(devices=[0, 1]), "devices=[0, 1])"),
        "time": (lambda: attempt(max_time="00:01:00:00"), "max_time='00:01:00:00'): a job ends by a count"),
        "interval of time": (lambda: attempt(val_check_interval="00:00:10:00"), "follows counts and not a clock"),
        "profiler": (lambda: attempt(profiler="simple"), "profiler='simple')"),
        "plugins": (lambda: attempt(plugins=["it"]), "plugins=['it'])"),
        "sync": (lambda: attempt(sync_batchnorm=True), "sync_batchnorm=True)"),
        "reload": (lambda: attempt(reload_dataloaders_every_n_epochs=1), "data must stay the same"),
        "benchmark": (lambda: attempt(benchmark=True), "benchmark=True)"),
        "barebones": (lambda: attempt(barebones=True), "barebones=True)"),
        "registry": (lambda: attempt(model_registry="it"), "model_registry='it')"),
        "clip": (lambda: attempt(gradient_clip_algorithm="agc"), "gradient_clip_algorithm='agc')"),
        "limit": (lambda: attempt(limit_train_batches=1.5), "limit_train_batches=1.5)"),
        "no batches": (lambda: attempt(limit_train_batches=0), "no batches to train on"),
        "no epochs": (lambda: attempt(max_epochs=0), "nothing to train"),
        "shards": (lambda: attempt(shards=3, accumulate_grad_batches=2), "give a multiple of 2"),
        "many shards": (lambda: attempt(shards=9), "a batch of 8 samples cannot be cut into 9"),
        "distances": (lambda: attempt(held(), val=loader(), val_check_interval=3), "not be at equal distances"),
        "manual": (lambda: attempt(manual()), "automatic_optimization is False"),
        "two optimizers": (lambda: attempt(optimizers(lambda p: [sgd(p[:1], 1), sgd(p[1:], 1)])), "returns 2 optimizers"),
        "no optimizer": (lambda: attempt(optimizers(lambda p: None)), "returns None"),
        "no shape": (lambda: attempt(optimizers(lambda p: 3)), "configure_optimizers returns int"),
        "keys": (lambda: attempt(optimizers(lambda p: {"optimizer": sgd(p, 1), "frequency": 2})), "'frequency'"),
        "monitor": (lambda: attempt(optimizers(lambda p: of_scheduler(sgd(p, 1), plateau))), "needs 'monitor'"),
        "closure": (lambda: attempt(optimizers(lambda p: torch.optim.LBFGS(p))), "LBFGS evaluates the model itself"),
        "no step": (lambda: attempt(lightning.LightningModule()), "has no training_step"),
        "no module": (lambda: attempt(nn.Linear(2, 2)), "is no LightningModule"),
        "no loss": (lambda: attempt(module(training_step=nothing)), "training_step must return the loss"),
        "detached": (lambda: attempt(module(training_step=lambda self, batch, i: torch.ones(1))), "without a gradient"),
        "iterator": (lambda: attempt(module(training_step=lambda self, dataloader_iter: None)), "dataloader_iter"),
        "stream": (lambda: attempt(train=torch_data.DataLoader(Stream(), 2)), "Stream is a stream"),
        "list": (lambda: attempt(train=[loader(), loader()]), "several DataLoaders"),
        "sampler": (lambda: attempt(train=loader(sampler=Odd())), "Odd draws samples in an order of its own"),
        "batch sampler": (lambda: attempt(train=batch_sampled()), "it has no batch_size"),
        "worker_init_fn": (lambda: attempt(train=loader(worker_init_fn=print)), "worker_init_fn=:"),
        "backward": (lambda: attempt(module(on_after_backward=nothing)), "Net.on_after_backward: a process has"),
        "own backward": (lambda: attempt(module(backward=nothing)), "Net.backward: the shards' gradients"),
        "parts": (lambda: attempt(module(on_before_optimizer_step=nothing), parts=2), "sees all gradients"),
        "callback": (lambda: attempt(callbacks=print), "is no callback of Lightning's"),
        "callback hook": (
            lambda: attempt(callbacks=callback(on_before_optimizer_step=nothing)), "Own.on_before_optimizer_step"),
        "averaging": (lambda: attempt(callbacks=callbacks.StochasticWeightAveraging(0.1)), "average the weights in"),
        "timer": (lambda: attempt(callbacks=callbacks.Timer()), "callbacks: Timer: a job ends by a count"),
        "link": (lambda: attempt(callbacks=callbacks.ModelCheckpoint(save_last="link")), "save_last='link'"),
        "no checkpoints": (
            lambda: attempt(callbacks=callbacks.ModelCheckpoint(), enable_checkpointing=False), "enable_checkpointing=False"),
        "skips": (lambda: attempt(module(on_train_batch_start=lambda self, b, i: -1)), "returns -1, which skips"),
        "batch": (lambda: attempt(module(on_train_batch_start=lambda self, b, i: b[0])), "when the batch is with the shards"),
        "reduction": (lambda: attempt(logged("a", 1.0, reduce_fx="max")), "reduce_fx='max'"),
        "vector": (lambda: attempt(logged("a", torch.ones(2)), steps=first), "has 2 elements"),
        "late": (lambda: attempt(logged("a", 1.0, after=1), steps=[(1, protocol.Phase.TRAIN)]), "Trainer(logs=[('training_step'"),
        "text": (lambda: attempt(logged("a", "b"), steps=first), "a str is no number"),
        "curve": (lambda: attempt(metric_net(torchmetrics.AUROC("binary"))), "give thresholds="),
        "mean metric": (lambda: attempt(metric_net(torchmetrics.MinMaxMetric(torchmetrics.Accuracy("binary")))), "log what it wraps"),
        "appends": (lambda: attempt(changing(lambda self, b: self.outputs.append(1))), "training_step changes Net.outputs"),
        "counts": (lambda: attempt(changing(counts)), "training_step changes Net.seen"),
        "makes": (lambda: attempt(changing(makes)), "training_step makes Net.last"),
        "logger": (lambda: attempt(changing(lambda self, b: self.logger.experiment), logger=True), "self.logger.experiment is used"),
        "world": (lambda: attempt(changing(lambda self, b: self.all_gather(b[0]))), "all_gather is called"),
        "two fits": (of_two_fits, "fit() is called twice"),
        "test before": (of_test, "one process does it, behind fit()"),
        "resume": (lambda: of_fit(ckpt_path="last.ckpt"), "a job resumes from the checkpoints in its --dir"),
    }  # fmt: skip
    for name, (try_it, _) in tries.items():
        print(f"{name}: {try_it()}")
    assert attempt(steps=first) == "ACCEPTED"
    print("EXPECTED:", json.dumps({name: words for name, (_, words) in tries.items()}))


def held():
    return module(validation_step=Net.training_step)


def manual():
    net = Net()
    net.automatic_optimization = False
    return net


def of_scheduler(optimizer, kind):
    return [optimizer], [kind(optimizer)]


def batch_sampled():
    sampler = torch_data.BatchSampler(torch_data.SequentialSampler(range(26)), 4, False)
    return torch_data.DataLoader(torch_data.TensorDataset(x, y), batch_sampler=sampler)


def counts(self, batch):
    self.seen += 1


def makes(self, batch):
    self.last = batch[0]


def of_fit(**arguments):
    try:
        Trainer(max_epochs=1).fit(Net(), loader(), **arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ACCEPTED"


def of_two_fits():
    trainer = Trainer(max_epochs=1)
    trainer._job(Net(), loader(), None, None)
    try:
        trainer.fit(Net(), loader())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ACCEPTED"


def of_test():
    try:
        Trainer(max_epochs=1).test(Net(), loader())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ACCEPTED"


def say(name, is_same):
    print(f"{name}: {'same' if is_same else 'DIFFERS'}")


def sums():
    for name, more in (("in order", {}), ("shuffled", {"shuffle": True}), ("dropping", {"shuffle": True, "drop_last": True})):
        source = data.Source(loader(**more), "it", 7)
        plan = data.Plan(source, 1, 2, None, 6)
        epochs = []
        for epoch in range(2):
            pieces = [plan.piece(epoch * plan.updates + u, s) for u in range(plan.updates) for s in range(6)]
            found = [source.order(p.epoch, i) for p in pieces if p is not None for i in range(p.first, p.end)]
            epochs.append(found)
            weights = sum(plan.weight_of(u) for u in range(plan.updates))
            say(f"{name} {epoch}", len(found) == len(set(found)) == weights == (24 if "drop_last" in more else 26))
        say(f"{name} epochs", (epochs[0] == epochs[1]) == ("shuffle" not in more))
    plan = data.Plan(data.Source(loader(), "it", 7), 2, 3, None, None)
    say("devices", (plan.shards, plan.batches, plan.updates, plan.weight_of(0)) == (6, 2, 1, 26))
    weighted = torch_data.WeightedRandomSampler([0.0, 1.0, 3.0] + [0.0] * 23, 4000)
    source = data.Source(loader(sampler=weighted), "it", 7)
    drawn = collections.Counter(source.order(0, i) for i in range(4000))
    say("weights", set(drawn) == {1, 2} and 900 < drawn[1] < 1100)
    subset = data.Source(loader(sampler=torch_data.SubsetRandomSampler([3, 5, 9])), "it", 7)
    say("subset", {subset.order(4, i) for i in range(3)} == {3, 5, 9})
    for value in (0.0, 1e-9, 3.7e5, -2.5e-7, 1 / 3, 4e9 + 1e-6):
        coarse, rest = logs.split(value)
        say(f"split {value}", coarse + rest == value and coarse * 2**20 % 1 == 0 and abs(rest) <= 2**-21)
    metric_sums()


def metric_sums():
    """Metrics that shards add up have the values of metrics that see all samples."""

    class Counting(Net):
        def __init__(self):
            super().__init__()
            self.many = torchmetrics.MetricCollection(
                [torchmetrics.Accuracy("multiclass", num_classes=3), torchmetrics.F1Score("multiclass", num_classes=3, average="macro")]
            )
            self.matrix = torchmetrics.ConfusionMatrix("multiclass", num_classes=3)
            self.error = torchmetrics.MeanSquaredError()

        def training_step(self, batch, batch_idx):
            out = self.net(batch[0])
            self.many(out, batch[1])
            self.matrix(out, batch[1])
            self.error(out[:, 0].detach(), batch[1].float())
            self.log_dict(self.many, on_step=False, on_epoch=True)
            self.log("error", self.error, on_step=True)
            return F.cross_entropy(out, batch[1])

    net = Counting()
    trainer = Trainer(max_epochs=1, shards=3)
    program = program_of(trainer, net, loader(batch_size=26))
    totals = {}
    for shard in range(3):
        program.shard(protocol.Shard(0, 0, protocol.Phase.TRAIN, 1, shard, 3))
        for path, states in program.states(True).items():
            for name, value in states.items():
                totals.setdefault(path, {})[name] = totals.get(path, {}).get(name, 0) + value
    out = net.net(x)
    trainer.course._show_metrics(totals)
    many = torchmetrics.MetricCollection({"MulticlassAccuracy": torchmetrics.Accuracy("multiclass", num_classes=3),
                                          "MulticlassF1Score": torchmetrics.F1Score("multiclass", num_classes=3, average="macro")})  # fmt: skip
    expected, found = many(out, y), {k: v.compute() for k, v in net.many.items()}
    say("collection", set(expected) == set(found) and all(torch.allclose(expected[k], found[k]) for k in expected))
    say("matrix", torch.equal(net.matrix.compute(), torchmetrics.ConfusionMatrix("multiclass", num_classes=3)(out, y)))
    say("error", torch.allclose(net.error.compute(), torchmetrics.MeanSquaredError()(out[:, 0], y.float())))
    report = program._shown
    say("reports", set(report) == set())


def versions():
    """Two peers of which each looks for a version before it can see that of the other."""
    with tempfile.TemporaryDirectory() as folder:
        peers = [loggers.CSVLogger(folder) for _ in range(2)]
        for logger in peers:
            looks = iter([lambda: 0, logger._get_next_version])
            logger._get_next_version = lambda looks=looks: next(looks)()
        for logger in peers:
            files.take_version(logger)
        print("versions:", *(logger.version for logger in peers), *sorted(os.listdir(peers[0].root_dir)))


for what in sys.argv[1:]:
    print("==", what)
    {"complete": complete, "refusals": refusals, "sums": sums, "versions": versions}[what]()
