"""What happens behind a step that is committed: checkpoints in Lightning's format are written, and loggers are told.

Every peer's leading process does it, and perhaps twice for the same step: a file is written under another name and
then renamed, and loggers are given the number of the step.
"""
from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List, Mapping

import torch

if TYPE_CHECKING:
    from .trainer import Trainer


def place_of(path: str, places: Mapping[str, str]) -> str:
    """Where a path that a ModelCheckpoint has decided on is on this peer."""
    folder, separator, rest = path.partition(os.sep)
    return os.path.join(places[folder], rest) if separator and folder in places else path


def checkpoint_of(trainer: "Trainer", weights_only: bool) -> Dict[str, Any]:
    """The content of a checkpoint, as ``load_from_checkpoint`` and lightning's Trainer read it."""
    module = trainer.module
    package = sys.modules[trainer.root.partition(".")[0]]
    found: Dict[str, Any] = {
        "epoch": trainer.current_epoch,
        "global_step": trainer.global_step,
        "pytorch-lightning_version": str(package.__version__),
        "state_dict": {name: value.detach().clone() for name, value in module.state_dict().items()},
        "loops": None,
    }
    if not weights_only:
        found["callbacks"] = {c.state_key: c.state_dict() for c in trainer.callbacks if c.state_dict()}
        found["optimizer_states"] = [optimizer.state_dict() for optimizer in trainer.optimizers]
        found["lr_schedulers"] = [config.scheduler.state_dict() for config in trainer.lr_scheduler_configs]
    for thing in (module, trainer.datamodule):
        if thing is not None and getattr(thing, "_hparams_name", None):
            found[thing.CHECKPOINT_HYPER_PARAMS_NAME] = thing._hparams_name
            found[thing.CHECKPOINT_HYPER_PARAMS_KEY] = dict(thing.hparams)
    if not weights_only:
        for callback in trainer.callbacks:
            callback.on_save_checkpoint(trainer, module, found)
    module.on_save_checkpoint(found)
    return found


def write(content: Mapping[str, Any], path: str) -> None:
    """Writes a checkpoint, whole or not at all."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    handle, other = tempfile.mkstemp(prefix=".godwit-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(dict(content), file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(other, 0o644)
        os.replace(other, path)
    except BaseException:
        os.unlink(other)
        raise


def happen(trainer: "Trainer") -> None:
    """Does what the step has decided."""
    course = trainer.course
    for kind, path, weights_only in course.effects:
        place = place_of(path, trainer.places)
        if kind == "save":
            write(checkpoint_of(trainer, weights_only), place)
        elif os.path.exists(place):
            os.unlink(place)
    for step, metrics, _ in course.emitted:
        for logger in trainer.open_loggers():
            logger.log_metrics(metrics=dict(metrics), step=int(step))
            logger.save()


def line_of(metrics: Mapping[str, Any]) -> str:
    """Metrics in a line, for people."""
    return ", ".join(f"{name}={value:.5g}" for name, value in metrics.items() if name != "epoch")


def take_version(logger: Any) -> None:
    """Makes the folder of the next version, where a logger is to find that by itself. Otherwise peers on one disk that
    begin at the same moment all take the same, and write each other's files."""
    if getattr(logger, "_version", "given") is not None or "://" in logger.root_dir:
        return
    while True:
        try:
            os.makedirs(os.path.join(logger.root_dir, f"version_{logger.version}"))
            return
        except FileExistsError:
            logger._version = None


def open_loggers(trainer: "Trainer", loggers: List[Any]) -> None:
    """Has loggers begin a version, and tells them what the module was made with, before their first metrics."""
    for logger in loggers:
        take_version(logger)
    if not trainer.enable_autolog_hparams:
        return
    found: Dict[str, Any] = {}
    for thing in (trainer.datamodule, trainer.module):
        if thing is not None and getattr(thing, "_log_hyperparams", False):
            found.update(dict(thing.hparams_initial))
    for logger in loggers:
        if found:
            logger.log_hyperparams(found)
        logger.save()


def make_loggers(asked: Any, root: str, flavour: str) -> List[Any]:
    """The loggers that an argument asks for; True is a CSVLogger."""
    if not asked:
        return []
    if asked is True:
        csv = sys.modules[flavour].loggers.CSVLogger
        return [csv(save_dir=root)]
    return list(asked) if isinstance(asked, (list, tuple)) else [asked]


