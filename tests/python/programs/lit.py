"""A LightningModule with what people have in one, trained by Lightning itself or as a job; dies where it is told to.

    lit.py HOW CASE FOLDER      HOW is godwit, or both: first the job, and then Lightning in the process that goes on;
                                with `pytorch_lightning` behind a comma it is that package

It prints the metrics of each step and epoch, from the logger's file, and what is left at the end.
"""
import csv
import glob
import importlib
import json
import os
import sys

import godwit

import deaths
import torch
import torch.nn.functional as F
from godwit.lightning import Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

how, case, folder = sys.argv[1:4]
how, _, package = how.partition(",")
L = importlib.import_module(package or "lightning")
callbacks = importlib.import_module((package or "lightning.pytorch") + ".callbacks")
loggers = importlib.import_module((package or "lightning.pytorch") + ".loggers")
schedulers = torch.optim.lr_scheduler
generator = torch.Generator().manual_seed(4)
x, y = torch.randn(106, 6, generator=generator), torch.randint(0, 3, (106,), generator=generator)


def step_lambda(done):
    return 1 / (1 + 0.1 * done)


class Net(L.LightningModule):
    def __init__(self, width=8, lr=0.05, kind="step"):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(6, width, bias=False), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, 3))
        self.batches_seen = self.validated = 0
        self.epochs_seen = []

    def step(self, batch):
        inputs, labels = batch
        out = self.net(inputs)
        return F.cross_entropy(out, labels), (out.argmax(1) == labels).float().mean()

    def training_step(self, batch, batch_idx):
        if case == "flock":
            deaths.at("shard", self.global_step, batch_idx)
        loss, right = self.step(batch)
        self.log("train_loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        self.log_dict({"train_right": right}, on_step=False, on_epoch=True)
        return {"loss": loss, "right": right.detach()}

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        loss, right = self.step(batch)
        self.log("val_loss", loss)
        self.log("val_right", right, on_epoch=True)
        return loss

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.step(batch)[0])

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if case == "flock":
            deaths.at("once", self.global_step)
            self.validated += int(self.trainer.fit_loop.epoch_loop.val_loop._has_run)
        self.batches_seen += 1

    def on_validation_epoch_end(self):
        if case == "flock":
            deaths.at("evaluated", self.global_step)
        self.log("val_epoch", float(self.current_epoch))

    def on_train_epoch_end(self):
        self.epochs_seen.append(self.current_epoch)
        self.log("seen", float(len(self.epochs_seen)))

    def configure_optimizers(self):
        kind = self.hparams.kind
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        if kind == "none":
            return optimizer
        if kind == "list":
            return [optimizer]
        if kind == "lists":
            return [optimizer], [schedulers.StepLR(optimizer, 2, 0.5)]
        if kind == "two":
            warm = {"scheduler": schedulers.LambdaLR(optimizer, step_lambda), "interval": "step", "frequency": 2}
            return [optimizer], [warm, schedulers.ExponentialLR(optimizer, 0.9)]
        if kind == "step":
            cycle = schedulers.OneCycleLR(optimizer, 0.1, total_steps=self.trainer.estimated_stepping_batches + 1)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}
        if kind == "epoch":
            return {"optimizer": optimizer, "lr_scheduler": schedulers.CosineAnnealingLR(optimizer, 4)}
        plateau = schedulers.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.5)
        if kind == "plateau":
            return {"optimizer": optimizer, "lr_scheduler": plateau, "monitor": "val_loss"}
        if kind == "plateau step":
            held = {"scheduler": plateau, "monitor": "train_loss", "interval": "step", "strict": False}
            return [{"optimizer": optimizer, "lr_scheduler": held}]
        raise ValueError(kind)


class Data(L.LightningDataModule):
    def __init__(self, shuffle=False, batch_size=16):
        super().__init__()
        self.shuffle, self.batch_size = shuffle, batch_size

    def setup(self, stage):
        self.train, self.held = TensorDataset(x, y), TensorDataset(x[:41], y[:41])

    def train_dataloader(self):
        return DataLoader(self.train, self.batch_size, shuffle=self.shuffle)

    def val_dataloader(self):
        held = DataLoader(self.held, 16)
        return [held, DataLoader(TensorDataset(x[60:], y[60:]), 20)] if case == "hooks" else held

    def test_dataloader(self):
        return DataLoader(self.held, 16)


class Hooked(Net):
    """A module with hooks around the optimizer's step and around batches."""

    def on_before_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] * 2, batch[1]]

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [batch[0] - dataloader_idx, batch[1]]

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        for group in optimizer.param_groups:
            group["lr"] = min(1.0, (self.trainer.global_step + 1) / 10) * self.hparams.lr
        optimizer.step(closure=optimizer_closure)

    def on_before_optimizer_step(self, optimizer):
        for parameter in self.parameters():
            parameter.grad.mul_(0.5)

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.clip_gradients(optimizer, gradient_clip_val=0.02 * (1 + self.current_epoch), gradient_clip_algorithm="norm")

    def on_train_epoch_start(self):
        self.trainer.optimizers[0].param_groups[0]["weight_decay"] = 0.01 * (1 + self.current_epoch)


CASES = {
    "hooks": ({"kind": "none"}, {"max_epochs": 2}, {}),
    "none": ({"kind": "none"}, {"gradient_clip_val": 0.3}, {}),
    "list": ({"kind": "list"}, {"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"}, {}),
    "lists": ({"kind": "lists"}, {"accumulate_grad_batches": 3}, {}),
    "two": ({"kind": "two"}, {"accumulate_grad_batches": 2, "limit_train_batches": 6, "val_check_interval": 2}, {}),
    "step": ({"kind": "step"}, {"max_epochs": -1, "max_steps": 18, "check_val_every_n_epoch": None, "val_check_interval": 3}, {}),
    "epoch": ({"kind": "epoch"}, {"check_val_every_n_epoch": 2, "precision": "bf16-mixed"}, {}),
    "plateau": ({"kind": "plateau", "lr": 0.3}, {"max_epochs": 6, "precision": "64-true", "min_epochs": 2}, {}),
    "plateau step": ({"kind": "plateau step", "lr": 0.3}, {"overfit_batches": 4}, {}),
    "flock": ({"kind": "plateau", "lr": 0.3}, {"shards": 4, "max_epochs": 3, "accumulate_grad_batches": 2}, {"shuffle": True}),
}  # fmt: skip
first_state = torch.get_rng_state()


def run(how, folder):
    """Trains by lightning.Trainer or as a job, from the same weights on, and prints what became of it."""
    of_module, of_trainer, of_data = CASES[case]
    watched = "val_loss/dataloader_idx_0" if case == "hooks" else "val_loss"
    stopping = callbacks.EarlyStopping(watched, patience=3, min_delta=0.5 if case == "plateau" else 0.0)
    keeping = callbacks.ModelCheckpoint(monitor=watched, filename="{epoch}-{step}", save_top_k=2, save_last=True)
    arguments = {
        "max_epochs": 4, "callbacks": [stopping, keeping, callbacks.LearningRateMonitor()], "log_every_n_steps": 1,
        "default_root_dir": folder, "logger": [loggers.CSVLogger(folder)], **of_trainer,
    }  # fmt: skip
    if how == "plain":
        trainer = L.Trainer(
            accelerator="cpu", devices=1, num_sanity_val_steps=0, enable_progress_bar=False, enable_model_summary=False,
            **arguments,
        )  # fmt: skip
    else:
        trainer = Trainer(accelerator=os.environ.get("ACCELERATOR", "auto"), **arguments)
    torch.set_rng_state(first_state)
    net = (Hooked if case == "hooks" else Net)(**of_module)
    trainer.fit(net, datamodule=Data(**of_data))
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "lightning_logs", "*", "metrics.csv"))):
        with open(path) as file:
            rows += [{k: v for k, v in row.items() if v != ""} for row in csv.DictReader(file)]
    again = Net.load_from_checkpoint(keeping.best_model_path, weights_only=False)
    result = {
        "epochs": net.epochs_seen, "batches": net.batches_seen, "step": trainer.global_step,
        "best": os.path.basename(keeping.best_model_path), "waited": stopping.wait_count,
        "why": str(stopping.stopping_reason), "lr": trainer.optimizers[0].param_groups[0]["lr"],
        "files": sorted(os.path.basename(p) for p in glob.glob(os.path.join(os.path.dirname(keeping.best_model_path), "*"))),
        "metrics": sorted(trainer.callback_metrics), "loaded": [again.hparams.kind, *again.net[0].weight.shape],
    }  # fmt: skip
    if how == "godwit" and case not in ("flock", "hooks"):
        tested = trainer.test(ckpt_path="best", weights_only=False, verbose=False)[0]["test_loss"]
        result["tested"] = abs(tested - float(keeping.best_model_score)) < 1e-5
    print(how.upper(), json.dumps([rows, result]))


run("godwit", os.path.join(folder, "godwit"))
if how == "both":
    run("plain", os.path.join(folder, "plain"))
