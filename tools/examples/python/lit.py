"""A LightningModule on MNIST's pictures, or on others in IDX files, trained by a flock instead of lightning.Trainer.

    python lit.py FOLDER [EPOCHS]                            on this machine alone
    godwit run lit.py --dir a -- FOLDER [EPOCHS]             on a flock: the same on every node, with --join

FOLDER has the files that images.py reads.
"""
import gzip
import math
import struct
import sys
from pathlib import Path

import godwit  # before torch: it pins what results depend on

import lightning
import torch
import torch.nn.functional as F
from godwit.lightning import Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read_idx(folder, name):
    """The bytes of an IDX file in their shape."""
    for path, opened in ((folder / f"{name}-ubyte", open), (folder / f"{name}-ubyte.gz", gzip.open)):
        if path.exists():
            data = opened(path, "rb").read()
            break
    else:
        sys.exit(f"lit.py: {folder} has no {name}-ubyte")
    if len(data) < 4 or data[:3] != b"\0\0\x08" or len(data) < 4 + 4 * data[3]:
        sys.exit(f"lit.py: {path} is no IDX file of bytes")
    shape, begin = struct.unpack_from(f">{data[3]}I", data, 4), 4 + 4 * data[3]
    if len(data) - begin != math.prod(shape):
        sys.exit(f"lit.py: {path} has {len(data) - begin} bytes, but its header says {shape}")
    return torch.frombuffer(bytearray(data[begin:]), dtype=torch.uint8).reshape(shape)


class Pictures(lightning.LightningDataModule):
    def __init__(self, folder, batch_size=256):
        super().__init__()
        self.folder, self.batch_size = Path(folder), batch_size

    def setup(self, stage):
        images = {name: read_idx(self.folder, f"{name}-images-idx3")[:, None] / 255.0 for name in ("train", "t10k")}
        labels = {name: read_idx(self.folder, f"{name}-labels-idx1").long() for name in ("train", "t10k")}
        self.train, self.held = (TensorDataset(images[name], labels[name]) for name in ("train", "t10k"))

    def train_dataloader(self):
        return DataLoader(self.train, self.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.held, 1000)


class Net(lightning.LightningModule):
    def __init__(self, width=16, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * width, 10),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        out = self.net(batch[0])
        right = (out.argmax(1) == batch[1]).float().mean()
        self.log_dict({"val_loss": F.cross_entropy(out, batch[1]), "val_right": right})

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9, weight_decay=1e-4)
        steps = self.trainer.estimated_stepping_batches + 1
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2 * self.hparams.lr, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}


if len(sys.argv) < 2:
    sys.exit("lit.py: name a folder with MNIST's files")
trainer = Trainer(max_epochs=int(sys.argv[2]) if len(sys.argv) > 2 else 3, shards=8, data=sys.argv[1:2])
trainer.fit(Net(), datamodule=Pictures(sys.argv[1]))
print(f"after {trainer.global_step} updates: {trainer.callback_metrics['val_right']:.2%} of the held-out pictures are recognized")
