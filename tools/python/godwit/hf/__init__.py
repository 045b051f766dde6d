"""transformers' Trainer on a flock: the same arguments, the same bytes whatever dies.

``godwit.hf.Trainer`` is a subclass of ``transformers.Trainer`` with a training loop of its own: one micro-batch is
one shard, ``gradient_accumulation_steps`` of them an update. Losses, optimizers, schedulers, data sets, evaluation,
saving and callbacks are transformers' own. tools/python/README.md says what is honoured.

Which process does what: a worker computes micro-batches. Once an update, one worker of each peer steps the
scheduler, decides what is logged and saved, evaluates where a decision depends on it, and asks the callbacks whose
state can be exported; all that it decides is in ``job.vars``, and so part of the state. Behind each committed step,
one process of each peer calls the other callbacks, and saves.
"""
from .trainer import Trainer

__all__ = ["Trainer"]
