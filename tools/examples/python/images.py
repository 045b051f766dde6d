"""A convolutional net with BatchNorm on MNIST's pictures, or on others in IDX files.

    python images.py FOLDER [UPDATES]                           on this machine alone
    godwit run images.py --dir a -- FOLDER [UPDATES]            on a flock: the same on every node, with --join

FOLDER has train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, or these
with .gz behind their names.
"""
import gzip
import math
import struct
import sys
from pathlib import Path

import godwit  # before torch: it pins what results depend on

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SHARDS, FILES = 32, 8, ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")

if len(sys.argv) < 2:
    sys.exit("images.py: name a folder with MNIST's files")
folder = Path(sys.argv[1])
updates = int(sys.argv[2]) if len(sys.argv) > 2 else 300


def path_of(name):
    """The path of a file, with or without .gz."""
    found = [p for p in (folder / f"{name}-ubyte", folder / f"{name}-ubyte.gz") if p.exists()]
    return found[0] if found else sys.exit(f"images.py: {folder} has no {name}-ubyte")


def read_idx(path):
    """The bytes of an IDX file in their shape."""
    data = (gzip.open(path) if path.suffix == ".gz" else open(path, "rb")).read()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        sys.exit(f"images.py: {path} is no IDX file of bytes")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    begin = 4 + 4 * data[3]
    if len(data) - begin != math.prod(shape):
        sys.exit(f"images.py: {path} has {len(data) - begin} bytes, but its header says {shape}")
    return torch.frombuffer(bytearray(data[begin:]), dtype=torch.uint8).reshape(shape)


paths = [path_of(name) for name in FILES]
train_x, train_y, test_x, test_y = (read_idx(path) for path in paths)

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Dropout(0.2), nn.LazyLinear(10),
)  # fmt: skip
model(torch.zeros(2, 1, *train_x.shape[1:]))  # the last layer learns its shape
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=updates + 1)
job = godwit.Job(model, optimizer, shards=SHARDS, updates=updates, eval_every=100, eval_shards=10, data=paths,
                 keep={"scheduler": scheduler}, reports=["right"])


@job.shard
def shard(s):
    x, y = (train_x, train_y) if s.training else (test_x, test_y)
    which = s.indices(len(x), BATCH if s.training else 200)
    out = model(x[which, None] / 255.0)
    labels = y[which].long()
    return F.cross_entropy(out, labels, reduction="sum"), len(which), {"right": (out.argmax(1) == labels).sum()}


@job.update
def update(u):
    scheduler.step()


result = job.run()
print(f"after {result.updates} updates: {result.reports['val_right']:.2%} of the held-out pictures are recognized")
