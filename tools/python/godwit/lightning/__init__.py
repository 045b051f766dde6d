"""PyTorch Lightning on a flock: a LightningModule and a LightningDataModule as they are.

``godwit.lightning.Trainer`` takes the arguments of ``lightning.Trainer`` and has its ``fit``::

    import godwit                                    # before torch and lightning
    from godwit.lightning import Trainer
    Trainer(max_epochs=10, gradient_clip_val=1.0, shards=8).fit(module, datamodule=data)

It is a loop of Godwit's own and not a Strategy for ``lightning.Trainer``. A strategy is called from within
Lightning's loop, which goes through the batches in one order in one process, and keeps what it knows of the
training in that process: progress counters, data fetchers, running means, callbacks. On a flock any process
computes any batch, at any time and perhaps twice, and any process may die; what is known of the training has to be
state, which is the same on all peers. Hence this loop calls the module's functions where they belong (a batch in
a shard, what an optimizer's step needs in an update, all other hooks once at the end of a step), and keeps
everything that they may change in the state.

The packages ``lightning`` and ``pytorch_lightning`` are both possible; the module's base class says which of them
is used, and neither is imported here.
"""
from __future__ import annotations

from .trainer import Trainer

__all__ = ["Trainer"]
