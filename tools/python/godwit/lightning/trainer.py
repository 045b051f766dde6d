"""The Trainer: it finds out what a LightningModule is, makes a job of it, and is what the module sees as its trainer."""
from __future__ import annotations

import fcntl
import importlib
import inspect
import os
import random
import sys
import tempfile
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, ContextManager, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from .. import job as jobs, session as sessions, torch_device, torch_program
from ..errors import Error, Refused
from . import files, logs as logs_module, optimizers, tables
from .attributes import Attributes
from .course import Course, Files, left_out, prepare_checkpoints
from .data import Held, Plan, Source, convert_floats
from .program import LightningProgram

_EPOCHS_DEFAULT = 1000
_LOSS_NAMES = ("val_loss", "val/loss", "valid_loss", "validation_loss", "loss")
_PRECISIONS: Dict[Any, Tuple[Optional[torch.dtype], bool]] = {
    None: (None, False), 32: (None, False), "32": (None, False), "32-true": (None, False),
    64: (torch.float64, False), "64": (torch.float64, False), "64-true": (torch.float64, False),
    "bf16-true": (torch.bfloat16, False), "bf16": (torch.bfloat16, True), "bf16-mixed": (torch.bfloat16, True),
}  # fmt: skip
"""The type of a precision, and whether it is that of operators alone."""

_MODULE_LEFT_OUT = frozenset(("_hparams", "_hparams_initial", "_hparams_name", "_log_hyperparams", "training", "log"))


class _Job(torch_program.Job):
    """The job of a module: a worker of its own kind."""

    trainer: "Trainer"
    made: Optional[LightningProgram] = None

    def program(self) -> LightningProgram:
        """The worker, which is made once."""
        if self.made is None:
            self.made = LightningProgram(self, self.trainer, self.keep)
        return self.made


class _Strategy:
    """What callbacks ask of a strategy: there is one process, as far as they are concerned."""

    def __init__(self, trainer: "Trainer") -> None:
        self._trainer = trainer
        self.root_device = trainer.device
        self.is_global_zero = True

    @property
    def _lightning_optimizers(self) -> List[torch.optim.Optimizer]:
        return self._trainer.optimizers

    @property
    def optimizers(self) -> List[torch.optim.Optimizer]:
        """The optimizer, in a list."""
        return self._trainer.optimizers

    def broadcast(self, value: Any, src: int = 0) -> Any:
        """The value itself."""
        return value

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        """The decision itself."""
        return bool(decision)

    def barrier(self, name: Optional[str] = None) -> None:
        """Nothing: every decision is made alike everywhere."""

    def remove_checkpoint(self, path: Any) -> None:
        """Has the file removed when the step is committed."""
        self._trainer.course.remove(path)

    def all_gather(self, *_: Any, **__: Any) -> Any:
        """Refused: the other processes are not at the same place."""
        raise Refused("all_gather is called: a shard knows nothing of the others; what is to be added is logged: use self.log")

    reduce = all_gather

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"trainer.strategy has no '{name}' in godwit.lightning: the flock adds the shards")


class _LoggerElsewhere:
    """A logger, where steps are computed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Refused(
            f"self.logger.{name} is used in a step, which any process may compute, and twice: use self.log, or write in a "
            "callback's on_save_checkpoint or behind fit()"
        )


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Refused(f"Trainer({name}={value!r}): it must be a number from {least} on")
    return value


class Trainer:
    """``lightning.Trainer`` on a flock: the same arguments, of which tools/python/README.md says what they mean here.

    Args:
        shards: the pieces of work in an update. Its batches (``accumulate_grad_batches`` times ``devices`` times
            ``num_nodes``, each of the DataLoader's ``batch_size``) are cut into so many. None: one for each batch.
        parts: parts of an update that workers compute at the same time, as for ``godwit.Job``.
        data: paths whose contents must be equal on all peers, as for ``godwit.Job``.
        logs: names that are logged, but not in the first batch: pairs of the hook and the name.
        arguments: those of ``lightning.Trainer``.

    Raises Refused for what is not possible; the text says what to do instead.
    """

    def __init__(
        self,
        *,
        shards: Optional[int] = None,
        parts: Optional[int] = None,
        data: Sequence[Any] = (),
        logs: Sequence[Tuple[str, str]] = (),
        **arguments: Any,
    ) -> None:
        tables.check_arguments(arguments)
        self._arguments = dict(arguments)
        self._shards, self._parts, self._data, self._logs = shards, parts, tuple(data), tuple(logs)
        self._take_counts(arguments)
        self._take_limits(arguments)
        self.precision = arguments.get("precision")
        try:
            self._dtype, self._is_mixed = _PRECISIONS[self.precision]
        except (KeyError, TypeError):
            raise Refused(
                f"Trainer(precision={self.precision!r}): float16 needs scaled losses, whose infinite gradients stop a job: "
                "use 'bf16-mixed', '32-true' or '64-true'"
            ) from None
        self._accelerator = arguments.get("accelerator", "auto").replace("cuda", "gpu")
        try:
            self.device = torch_device.choose(self._accelerator)
        except Refused as error:
            raise Refused(f"Trainer(accelerator={arguments['accelerator']!r}): {error}") from None
        self.gradient_clip_val = arguments.get("gradient_clip_val")
        self.gradient_clip_algorithm = arguments.get("gradient_clip_algorithm")
        if self.gradient_clip_val is not None and not isinstance(self.gradient_clip_val, (int, float)):
            raise Refused(f"Trainer(gradient_clip_val={self.gradient_clip_val!r}): it must be a number")
        if self.gradient_clip_algorithm not in (None, "norm", "value"):
            raise Refused(f"Trainer(gradient_clip_algorithm={self.gradient_clip_algorithm!r}): it is 'norm' or 'value'")
        self.default_root_dir = os.path.abspath(os.fspath(arguments.get("default_root_dir") or os.getcwd()))
        self.enable_autolog_hparams = bool(arguments.get("enable_autolog_hparams", True))
        self._shows = arguments.get("enable_progress_bar") is not False
        given = arguments.get("callbacks")
        self.callbacks: List[Any] = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
        self.course = Course(self)
        self.recorder = _recorder(self.course)
        self.strategy = _Strategy(self)
        self.datamodule: Any = None
        self.module: Any = None
        self.root = ""
        self.optimizers: List[torch.optim.Optimizer] = []
        self.lr_scheduler_configs: List[optimizers.SchedulerConfig] = []
        self.metrics: List[logs_module.Metric] = []
        self.places: Dict[str, str] = {}
        self._loggers: List[Any] = []
        self._loggers_open = False
        self._attributes: List[Attributes] = []
        self.global_step = 0
        self.current_epoch = 0
        self.training, self.validating = True, False
        self.sanity_checking = self.testing = self.predicting = self.evaluating = False
        self.fit_loop = SimpleNamespace(
            epoch_loop=SimpleNamespace(
                batch_progress=SimpleNamespace(is_last_batch=False), val_loop=SimpleNamespace(_has_run=False)
            ),
            max_epochs=self.max_epochs,
            min_epochs=self.min_epochs,
        )

    def _take_counts(self, given: Dict[str, Any]) -> None:
        self.fast_dev_run = int(given.get("fast_dev_run") or 0)
        devices = given.get("devices", "auto")
        if devices != "auto" and not isinstance(devices, (int, str)):
            raise Refused(f"Trainer(devices={devices!r}): give their number, by which a batch is multiplied")
        self._processes = 1 if devices == "auto" else _whole("devices", devices, 1)
        self.num_nodes = _whole("num_nodes", given.get("num_nodes", 1), 1)
        self._processes *= self.num_nodes
        self.accumulate_grad_batches = _whole("accumulate_grad_batches", given.get("accumulate_grad_batches", 1), 1)
        self.max_steps = _whole("max_steps", given.get("max_steps", -1), -1)
        epochs = given.get("max_epochs")
        self.max_epochs = _EPOCHS_DEFAULT if epochs is None else _whole("max_epochs", epochs, -1)
        if epochs is None and self.max_steps != -1:
            self.max_epochs = -1
        self.min_epochs = _whole("min_epochs", given.get("min_epochs") or 0, 0)
        self.min_steps = _whole("min_steps", given.get("min_steps") or 0, 0)
        self.log_every_n_steps = _whole("log_every_n_steps", given.get("log_every_n_steps", 50) or 0, 0)
        if self.fast_dev_run:
            self.max_epochs, self.max_steps = 1, self.fast_dev_run

    def _take_limits(self, given: Dict[str, Any]) -> None:
        self.overfit_batches = given.get("overfit_batches") or 0
        self.limit_train_batches = given.get("limit_train_batches")
        self.limit_val_batches = given.get("limit_val_batches")
        self.check_val_every_n_epoch = given.get("check_val_every_n_epoch", 1)
        self.val_check_interval = given.get("val_check_interval", 1.0)
        if self.val_check_interval is None:
            self.val_check_interval = 1.0
        if self.overfit_batches:
            self.limit_train_batches = self.limit_val_batches = self.overfit_batches
        if self.fast_dev_run:
            self.limit_train_batches = self.limit_val_batches = self.fast_dev_run
            self.val_check_interval, self.check_val_every_n_epoch = 1.0, 1
        if self.check_val_every_n_epoch is not None:
            self.check_val_every_n_epoch = _whole("check_val_every_n_epoch", self.check_val_every_n_epoch, 1)
        interval = self.val_check_interval
        if isinstance(interval, bool) or not isinstance(interval, (int, float)) or interval <= 0:
            raise Refused(
                f"Trainer(val_check_interval={interval!r}): a job follows counts and not a clock: give a number of batches, "
                "or a share of an epoch"
            )

    # What Lightning's Trainer has, for the module and for callbacks.

    state: Any = None
    num_devices = world_size = 1
    global_rank = local_rank = node_rank = 0
    is_global_zero = True
    received_sigterm = interrupted = barebones = False
    ckpt_path = None
    progress_bar_callback = None
    scaler = None

    @property
    def lightning_module(self) -> Any:
        """The module."""
        return self.module

    model = lightning_module

    @property
    def should_stop(self) -> bool:
        """Whether the training is to end; setting it in a hook at the end of a step is state."""
        return self.course.stops

    @should_stop.setter
    def should_stop(self, value: bool) -> None:
        self.course.stops = bool(value)

    @property
    def callback_metrics(self) -> Dict[str, torch.Tensor]:
        """What was logged, by name, for callbacks and schedulers."""
        return {name: torch.tensor(value) for name, value in self.course.callback_metrics.items()}

    @property
    def logged_metrics(self) -> Dict[str, torch.Tensor]:
        """What was logged with ``logger=True``."""
        return {name: torch.tensor(value) for name, value in self.course.logged_metrics.items()}

    @property
    def progress_bar_metrics(self) -> Dict[str, float]:
        """What was logged with ``prog_bar=True``."""
        return dict(self.course.progress_bar_metrics)

    @property
    def num_training_batches(self) -> int:
        """The batches of an epoch."""
        return self.plan.batches

    @property
    def num_val_batches(self) -> List[int]:
        """The batches of a validation, for each DataLoader."""
        return self.held.counts if self.held is not None else []

    @property
    def enable_validation(self) -> bool:
        """Whether there are validations."""
        return self.eval_every > 0

    @property
    def estimated_stepping_batches(self) -> Union[int, float]:
        """The updates of the whole training."""
        return self.updates_most or float("inf")

    @property
    def is_last_batch(self) -> bool:
        """Whether the batch is the last one of its epoch."""
        return bool(self.fit_loop.epoch_loop.batch_progress.is_last_batch)

    @property
    def train_dataloader(self) -> Any:
        """The DataLoader of the training."""
        return self._train_loader

    @property
    def val_dataloaders(self) -> Any:
        """The DataLoaders of the validation."""
        return self._val_loaders

    @property
    def checkpoint_callbacks(self) -> List[Any]:
        """The ModelCheckpoints."""
        return [c for c in self.callbacks if "ModelCheckpoint" in tables.lightnings_own(c)]

    @property
    def checkpoint_callback(self) -> Any:
        """The first ModelCheckpoint, or None."""
        return next(iter(self.checkpoint_callbacks), None)

    @property
    def early_stopping_callbacks(self) -> List[Any]:
        """The EarlyStoppings."""
        return [c for c in self.callbacks if "EarlyStopping" in tables.lightnings_own(c)]

    @property
    def early_stopping_callback(self) -> Any:
        """The first EarlyStopping, or None."""
        return next(iter(self.early_stopping_callbacks), None)

    @property
    def loggers(self) -> List[Any]:
        """The loggers; none where a step is computed, for which they are not there."""
        return list(self._loggers) if self._loggers_open else []

    @property
    def logger(self) -> Any:
        """The first logger; in a step, an object that refuses to be used."""
        if not self._loggers:
            return None
        return self._loggers[0] if self._loggers_open else _LoggerElsewhere()

    @property
    def log_dir(self) -> Optional[str]:
        """The folder of the logs."""
        return self.default_root_dir

    def save_checkpoint(self, path: Any, weights_only: Optional[bool] = False, storage_options: Any = None) -> None:
        """Has a checkpoint written: behind ``fit`` at once, and in a hook when the step is committed."""
        if self.recorder.mode == "none" and self._loggers_open:
            files.write(files.checkpoint_of(self, bool(weights_only)), os.path.abspath(os.fspath(path)))
            return
        self.course.save(path, bool(weights_only))

    def print(self, *arguments: Any, **named: Any) -> None:
        """Prints."""
        print(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"godwit.lightning.Trainer has no '{name}': it has what the page tools/python/README.md lists of "
            "lightning.Trainer"
        )

    # Beginning.

    def fit(
        self,
        model: Any,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: Any = None,
        ckpt_path: Any = None,
        **more: Any,
    ) -> None:
        """Trains a module. Returns in one process of each peer, when the module has its final state.

        ``ckpt_path`` is refused: a job resumes from its own checkpoints. Raises Refused for what is not possible.
        """
        if ckpt_path is not None or any(value is not None for value in more.values()):
            raise Refused(
                "fit(ckpt_path=): a job resumes from the checkpoints in its --dir; to begin with other weights, use "
                "load_from_checkpoint before fit()"
            )
        if self.state is not None:
            raise Refused("fit() is called twice: a script has one job")
        if hasattr(train_dataloaders, "train_dataloader"):
            train_dataloaders, datamodule = None, train_dataloaders
        current = sessions.session
        try:
            job = self._job(model, train_dataloaders, val_dataloaders, datamodule)
        except Exception as error:
            if current is not None:
                jobs.refuse(current, error)
            raise
        job.run()
        self._end()

    def validate(self, model: Any = None, dataloaders: Any = None, **more: Any) -> Any:
        """``lightning.Trainer.validate`` on the trained module, in the process that goes on behind ``fit``."""
        return self._by_lightning("validate", model, dataloaders, more)

    def test(self, model: Any = None, dataloaders: Any = None, **more: Any) -> Any:
        """``lightning.Trainer.test``, likewise."""
        return self._by_lightning("test", model, dataloaders, more)

    def predict(self, model: Any = None, dataloaders: Any = None, **more: Any) -> Any:
        """``lightning.Trainer.predict``, likewise."""
        return self._by_lightning("predict", model, dataloaders, more)

    def _by_lightning(self, what: str, model: Any, dataloaders: Any, more: Dict[str, Any]) -> Any:
        if self.state is None or self.state.status != "finished":
            raise Refused(f"{what}(): one process does it, behind fit(); before, every process of the job would")
        passed = ("precision", "limit_val_batches", "limit_test_batches", "limit_predict_batches", "inference_mode")
        own = {name: self._arguments[name] for name in passed if name in self._arguments}
        other = importlib.import_module(self.root).Trainer(
            accelerator="gpu" if self.device.type == "cuda" else "cpu", devices=1,
            logger=self._loggers or False, enable_checkpointing=False,
            enable_model_summary=False, enable_progress_bar=False, default_root_dir=self.default_root_dir, **own,
        )  # fmt: skip
        path = {"best": "best_model_path", "last": "last_model_path"}.get(str(more.get("ckpt_path")))
        if path is not None:
            if self.checkpoint_callback is None:
                raise Refused(f"{what}(ckpt_path={more['ckpt_path']!r}): there is no ModelCheckpoint")
            more["ckpt_path"] = getattr(self.checkpoint_callback, path)
        if self.datamodule is not None and dataloaders is None:
            more.setdefault("datamodule", self.datamodule)
        try:
            return getattr(other, what)(self.module if model is None else model, dataloaders, **more)
        finally:
            self.module.trainer = self
            if self.datamodule is not None:
                self.datamodule.trainer = self

    def _job(self, model: Any, train: Any, val: Any, datamodule: Any) -> _Job:
        self._connect(model, datamodule)
        self._prepare()
        self._find_data(train, val)
        self._find_optimizer()
        for name in ("on_fit_start", "on_train_start"):
            self.course.call(name, mode="once")
        self._learn()
        self._check_parts()
        self.course.begin()
        return self._make_job()

    def _connect(self, model: Any, datamodule: Any) -> None:
        self.root = tables.root_of(type(model))
        if not self.root or not isinstance(model, torch.nn.Module):
            raise Error(f"fit: {type(model).__name__} is no LightningModule")
        if not model.automatic_optimization:
            raise Refused(
                f"{type(model).__name__}.automatic_optimization is False: shards have only parts of a gradient, so that "
                "training_step cannot step: use automatic optimization, or godwit.Job, which takes several optimizers"
            )
        for name in ("training_step", "configure_optimizers"):
            if not tables.is_overridden(model, name):
                raise Refused(f"{type(model).__name__} has no {name}")
        tables.check_hooks(model, type(model).__name__)
        self.module, self.datamodule = model, datamodule
        module: Any = model
        flavour = importlib.import_module(self.root)
        states = importlib.import_module(f"{self.root}.trainer.states")
        self.state = SimpleNamespace(fn=states.TrainerFn.FITTING, status="running", stage=None)
        self.recorder.batch_size_of = importlib.import_module(f"{self.root}.utilities.data").extract_batch_size
        module.trainer = self
        if datamodule is not None:
            datamodule.trainer = self
        for child in module.modules():
            if tables.root_of(type(child)):
                child.log = self.recorder.method()
        self._find_callbacks(flavour)
        if not self.fast_dev_run:
            self._loggers = files.make_loggers(self._arguments.get("logger"), self.default_root_dir, self.root)

    def _find_callbacks(self, flavour: Any) -> None:
        own = self.course.call_module("configure_callbacks", mode="none")
        own = own if isinstance(own, (list, tuple)) else [own]
        kinds = {type(c) for c in own}
        self.callbacks = [c for c in self.callbacks if type(c) not in kinds] + list(own)
        asked = self._arguments.get("enable_checkpointing")
        if asked is False and self.checkpoint_callbacks:
            raise Refused("Trainer(enable_checkpointing=False): there is a ModelCheckpoint in callbacks: leave one out")
        if asked and not self.checkpoint_callbacks:
            self.callbacks.append(flavour.callbacks.ModelCheckpoint())
        for callback in self.callbacks:
            tables.check_callback(callback)
        last = self.checkpoint_callbacks
        self.callbacks = [c for c in self.callbacks if c not in last] + last
        self.places = prepare_checkpoints(self.course, last, self.default_root_dir)

    def _prepare(self) -> None:
        """Calls what prepares data and modules. ``prepare_data`` runs in one process of this machine at a time."""
        path = os.path.join(tempfile.gettempdir(), f"godwit-prepare-{os.getuid()}.lock")
        with open(path, "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.datamodule is not None:
                self.datamodule.prepare_data()
            self.course.call_module("prepare_data", mode="none")
        if self.datamodule is not None:
            self.datamodule.setup("fit")
        for callback in self.callbacks:
            if not tables.is_shown_by_godwit(callback):
                callback.setup(self, self.module, "fit")
        for callback in self.checkpoint_callbacks:  # setup has given it the file system back
            callback._fs = Files(self.course)
        self.course.call_module("setup", "fit", mode="none")
        self.course.call_module("configure_model", mode="none")
        if self._dtype is not None and not self._is_mixed:
            self.module.to(self._dtype)
        self.module.to(self.device)

    def _loaders(self, given: Any, name: str) -> Any:
        if given is not None:
            return given
        if self.datamodule is not None and tables.is_overridden(self.datamodule, name):
            return getattr(self.datamodule, name)()
        if tables.is_overridden(self.module, name):
            return self.course.call_module(name, mode="none")
        return None

    def _find_data(self, train: Any, val: Any) -> None:
        self._train_loader = self._loaders(train, "train_dataloader")
        if self._train_loader is None:
            raise Refused("fit: there is no DataLoader to train on: give one, or write train_dataloader")
        if isinstance(self._train_loader, (list, tuple, dict)) or type(self._train_loader).__name__ == "CombinedLoader":
            raise Refused("the training has several DataLoaders: make one dataset of them, such as ConcatDataset")
        seed = sessions.settings.seed
        source = Source(self._train_loader, "train_dataloader", seed, bool(self.overfit_batches))
        self.plan = Plan(
            source, self._processes, self.accumulate_grad_batches, self.limit_train_batches, self._shards
        )
        updates = self.max_epochs * self.plan.updates if self.max_epochs != -1 else 0
        self.updates_most = min(updates, self.max_steps) if updates and self.max_steps != -1 else updates
        if self.max_epochs == -1 and self.max_steps != -1:
            self.updates_most = self.max_steps
        if 0 in (self.max_epochs, self.max_steps):
            raise Refused("Trainer(max_epochs=0 or max_steps=0): there is nothing to train")
        self.held: Optional[Held] = None
        self.eval_every = 0
        self._val_loaders = self._loaders(val, "val_dataloader")
        if self._val_loaders is not None and tables.is_overridden(self.module, "validation_step"):
            self._find_held(seed)
        if self.plan.shards == 1 and sessions.session is not None:
            print("godwit.lightning: an update has one shard, so that one worker computes at a time: see Trainer(shards=)")

    def _find_held(self, seed: int) -> None:
        loaders = self._val_loaders if isinstance(self._val_loaders, (list, tuple)) else [self._val_loaders]
        held = Held([Source(one, f"val_dataloader {i}", seed) for i, one in enumerate(loaders)], self.limit_val_batches)
        if held.shards > 0:
            every = self._validation_interval()
            if not self.updates_most or every <= self.updates_most:
                self.held, self.eval_every = held, every

    def _validation_interval(self) -> int:
        """The updates between validations. Raises Refused where they are not at equal distances."""
        plan, every, interval = self.plan, self.check_val_every_n_epoch, self.val_check_interval
        step = plan.accumulate
        if isinstance(interval, float) and interval > 1:
            raise Refused(f"Trainer(val_check_interval={interval!r}): a share of an epoch is at most 1.0")
        batches = interval if isinstance(interval, int) else max(1, int(plan.batches * interval))
        if every is None:
            if not isinstance(interval, int):
                raise Refused("Trainer(check_val_every_n_epoch=None): val_check_interval must be a number of batches")
            if batches % step == 0 and (step == 1 or plan.batches % step == 0):
                return batches // step
        elif batches > plan.batches:
            raise Refused(
                f"Trainer(val_check_interval={batches}): an epoch has {plan.batches} batches: use "
                "check_val_every_n_epoch=None to count over epochs"
            )
        elif batches == plan.batches:
            return int(plan.updates * every)
        elif every == 1 and batches % step == 0 and plan.batches % batches == 0:
            return batches // step
        raise Refused(
            f"Trainer(val_check_interval={interval!r}, check_val_every_n_epoch={every!r}): with {plan.batches} batches an "
            f"epoch and {step} an update, validations would not be at equal distances: let val_check_interval be a "
            "number of batches that divides an epoch and is whole updates"
        )

    def _find_optimizer(self) -> None:
        returned = self.course.call_module("configure_optimizers", mode="none")
        if returned is None:
            raise Refused("configure_optimizers returns None: there is nothing to train")
        optimizer, self.lr_scheduler_configs = optimizers.parse(returned)
        self.optimizers = [optimizer]

    def _check_parts(self) -> None:
        """Hooks around the optimizer's step see all gradients, so that the update is one part."""
        found = [name for name in sorted(tables.PART_HOOKS) if tables.is_overridden(self.module, name)]
        self._part_hooks = frozenset(found)
        if found:
            if self._parts not in (None, 1):
                raise Refused(f"parts={self._parts}: {type(self.module).__name__}.{found[0]} sees all gradients: leave it out")
            self._parts = 1

    # Learning what is logged.

    def _learn(self) -> None:
        """Tries a batch of each kind, and leaves everything as it was."""
        module, recorder = self.module, self.recorder
        self.metrics = logs_module.find_metrics(module)
        recorder.know(self.metrics)
        self.train_metrics: List[logs_module.Metric] = []
        self.has_validation_loss = False
        left = frozenset(vars(_plain_module(self.root))) | _MODULE_LEFT_OUT
        own = [m for m in module.modules() if tables.root_of(type(m))]
        self._attributes = [Attributes(m, type(m).__name__, left) for m in own]
        for c in self.callbacks:
            most = 64 if "ModelCheckpoint" not in tables.lightnings_own(c) else c.save_top_k
            files = most if most >= 0 else min(self.epochs_most, 4000)
            self._attributes.append(Attributes(c, type(c).__name__, left_out(c), 4096 + 200 * files))
        self._find_calls()
        if self._arguments.get("detect_anomaly") is not None:
            torch.autograd.set_detect_anomaly(bool(self._arguments["detect_anomaly"]))  # for the backward, too
        with _as_it_was(module):
            self._try_batches()
        for metric in self.metrics:
            if metric.in_train or metric.in_evaluation:
                metric.check()
        self.train_metrics = [m for m in self.metrics if m.in_train]
        for hook, name in self._logs:
            entry = logs_module.Entry(hook, name, None, hook == "training_step", hook != "training_step", "mean", False, True)
            recorder.entries.setdefault(entry.key, entry)
        self.course.make_room()

    def _try_batches(self) -> None:
        module = self.module
        module.train()
        for metric in self.metrics:
            metric.reset()
        piece = self.plan.piece(0, 0)
        assert piece is not None
        for attributes in self._attributes:
            attributes.begin()
        self._training_loss(self.plan.source.fetch(0, piece.first, piece.end), piece.batch, piece.samples, "learn")
        self.check_attributes("training_step")
        for metric in self.metrics:
            metric.in_train = metric.was_updated()
            metric.reset()
        module.eval()
        with torch.no_grad():
            for number, count in enumerate(self.held.counts if self.held is not None else ()):
                if count > 0:
                    assert self.held is not None
                    batch, samples = self.held.fetch(number, 0)
                    output = self._validation_output(batch, 0, number, samples, "learn")
                    self.has_validation_loss = self.has_validation_loss or self._validation_loss(output) is not None
                    self.check_attributes("validation_step")
        for metric in self.metrics:
            metric.in_evaluation = metric.was_updated()
            metric.reset()
        if any(e.name in _LOSS_NAMES and "validation" in e.hook and not e.metric for e in self.recorder.entries.values()):
            self.has_validation_loss = True

    @property
    def epochs_most(self) -> int:
        """The most epochs that there can be; many where there is no end."""
        return -(-self.updates_most // self.plan.updates) if self.updates_most else 1 << 30

    # The job.

    def _make_job(self) -> _Job:
        by_norm = self.gradient_clip_algorithm in (None, "norm") and "configure_gradient_clipping" not in self._part_hooks
        clip = float(self.gradient_clip_val or 0) if by_norm else 0.0
        keep: Dict[str, Any] = {"course": self.course}
        for number, config in enumerate(self.lr_scheduler_configs):
            keep[f"scheduler{number}"] = config.scheduler
        for number, attributes in enumerate(self._attributes):
            keep[f"attributes{number}"] = attributes
        job = _Job(
            self.module, self.optimizers, shards=self.plan.shards, updates=self.updates_most, clip=clip if clip > 0 else None,
            eval_every=self.eval_every, eval_shards=self.held.shards if self.held is not None and self.eval_every else 0,
            data=self._data, keep=keep, parts=self._parts,
        )  # fmt: skip
        job.trainer = self
        job.shard(self._shard)
        job.update(lambda u: self.course.after_update(u, job.program().totals(), job.program().states(True)))
        if self.eval_every:
            job.evaluated(lambda u: self.course.after_validation(u, job.program().totals(), job.program().states(False)))
        job.after(self._after)
        return job

    def see(self, update: int, epoch: int) -> None:
        """Sets the counters that modules and callbacks read. ``update`` is the number of updates so far."""
        self.global_step, self.current_epoch = update, epoch

    def validates_after(self, updates: int) -> bool:
        """Whether there is a validation of Lightning's behind so many updates."""
        return self.eval_every > 0 and updates % self.eval_every == 0

    def may_stop(self, updates: int, epochs: int) -> bool:
        """Whether the training may end before its time."""
        return updates >= self.min_steps and epochs >= self.min_epochs

    def check_attributes(self, hook: str) -> None:
        """Refuses what a shard has changed of modules and callbacks."""
        for attributes in self._attributes:
            attributes.check(hook)

    # Shards.

    def _shard(self, s: jobs.ShardContext) -> Tuple[torch.Tensor, float]:
        self.see(s.update, s.update // self.plan.updates)
        self.training, self.validating = s.training, not s.training
        for attributes in self._attributes:
            attributes.begin()
        if not s.training:
            assert self.held is not None
            number, batch = self.held.place(s.shard)
            content, samples = self.held.fetch(number, batch, s)
            output = self._validation_output(content, batch, number, samples, "shard")
            loss = self._validation_loss(output)
            self.check_attributes("validation_step")
            return torch.tensor(0.0 if loss is None else loss * samples, dtype=torch.float64), samples
        piece = self.plan.piece(s.update, s.shard)
        if piece is None:
            return torch.zeros(()), 0
        content = self.plan.source.fetch(piece.epoch, piece.first, piece.end, s)
        value = self._training_loss(content, piece.batch, piece.samples, "shard")
        self.check_attributes("training_step")
        # Lightning divides the mean loss of each batch by the number of batches that it accumulates, also where an epoch ends
        # with fewer; the divisor here is the weight of all shards.
        factor = self.plan.weight_of(s.update) / (piece.batch_size * self.plan.accumulate)
        value = value * piece.samples
        return value if factor == 1.0 else value * factor, piece.samples

    @contextmanager
    def _computing(self) -> Iterator[None]:
        mixed: ContextManager[Any] = nullcontext()
        if self._is_mixed:
            mixed = torch.autocast(self.device.type, dtype=self._dtype)
        before = torch.get_default_dtype()
        if self._dtype is not None and not self._is_mixed:
            torch.set_default_dtype(self._dtype)
        try:
            with mixed:
                yield
        finally:
            torch.set_default_dtype(before)

    def _transferred(self, batch: Any, loader: int) -> Any:
        """The batch behind the hooks of its way to a device."""
        if self._dtype is not None and not self._is_mixed:
            batch = convert_floats(batch, self._dtype)
        for name, owner in self._transfers:
            device = (self.device,) if name == "transfer_batch_to_device" else ()
            with self.course.hook(name, "none"):
                batch = getattr(owner, name)(batch, *device, loader)
        return batch

    def _find_calls(self) -> None:
        """Looks up once what every shard calls: the hooks of a batch's way, and whether steps take the batch's number."""
        self._transfers: List[Tuple[str, Any]] = []
        moves = self._accelerator == "gpu" or self.device.type != "cpu"
        for name in ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"):
            owners = [o for o in (self.datamodule, self.module) if o is not None and tables.is_overridden(o, name)]
            if not owners and name == "transfer_batch_to_device" and moves:
                owners = [self.module]  # its own function moves the batch as Lightning does
            self._transfers += [(name, owner) for owner in owners[:1]]
        self._numbered: Dict[str, bool] = {}
        for hook in ("training_step", "validation_step"):
            parameters = inspect.signature(getattr(self.module, hook)).parameters.values()
            if any(p.name == "dataloader_iter" for p in parameters):
                raise Refused(f"{hook}(dataloader_iter): batches have no order in which they are taken: use (batch, batch_idx)")
            variable = any(p.kind == inspect.Parameter.VAR_POSITIONAL for p in parameters)
            self._numbered[hook] = len(parameters) >= 2 or variable

    def _arguments_of(self, hook: str, batch: Any, number: int, loader: Optional[int]) -> List[Any]:
        given = [batch, number] if self._numbered[hook] else [batch]
        return given if loader is None else [*given, loader]

    def _training_loss(self, batch: Any, number: int, samples: int, mode: str) -> torch.Tensor:
        with self._computing():
            batch = self._transferred(batch, 0)
            self.recorder.batch, self.recorder.samples = batch, samples
            arguments = self._arguments_of("training_step", batch, number, None)
            with self.course.hook("training_step", mode):
                output = self.module.training_step(*arguments)
        self.recorder.batch = None
        if isinstance(output, dict):
            output = output.get("loss")
        if not isinstance(output, torch.Tensor) or output.numel() != 1:
            raise Refused(
                "training_step must return the loss, or a dictionary with 'loss', for every batch (None would leave a "
                f"shard out); it returned {type(output).__name__}"
            )
        if not output.requires_grad:
            raise Refused("training_step returns a loss without a gradient")
        return output.reshape(())

    def _validation_output(self, batch: Any, number: int, loader: int, samples: int, mode: str) -> Any:
        assert self.held is not None
        several = loader if len(self.held.sources) > 1 else None
        with self._computing():
            batch = self._transferred(batch, loader)
            self.recorder.batch, self.recorder.samples = batch, samples
            more = [number] if several is None else [number, several]
            with self.course.hook("validation_step", mode, several):
                self.course.call("on_validation_batch_start", batch, *more, mode=mode)
                arguments = self._arguments_of("validation_step", batch, number, several)
                output = self.module.validation_step(*arguments)
                self.course.call("on_validation_batch_end", output, batch, *more, mode=mode)
        self.recorder.batch = None
        return output

    def _validation_loss(self, output: Any) -> Optional[float]:
        """The mean loss of a validation batch: what is logged as such, or what the step returns."""
        for name in _LOSS_NAMES:
            for entry in self.recorder.entries.values():
                if entry.name == name and "validation" in entry.hook and not entry.metric:
                    total = self.recorder.shard_value(entry)
                    if total is not None and total[1] > 0:
                        return logs_module.mean_of(entry, total)
        if isinstance(output, dict):
            output = output.get("loss")
        if isinstance(output, torch.Tensor) and output.numel() == 1:
            return float(output)
        return None

    # Updates.

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer's step, with the module's hooks around it."""
        module = self.module
        update = self.global_step = self._update_of_part
        self.current_epoch = update // self.plan.updates
        batch = self.plan.batches_of(update)[-1]
        if "on_before_optimizer_step" in self._part_hooks:
            with self.course.hook("on_before_optimizer_step", "none"):
                module.on_before_optimizer_step(optimizer)
        if "configure_gradient_clipping" in self._part_hooks:
            module.clip_gradients = self._clip
            with self.course.hook("configure_gradient_clipping", "none"):
                module.configure_gradient_clipping(optimizer, self.gradient_clip_val, self.gradient_clip_algorithm)
        elif self.gradient_clip_algorithm == "value" and self.gradient_clip_val:
            self._clip(optimizer, self.gradient_clip_val, "value")
        if "optimizer_step" not in self._part_hooks:
            optimizer.step()
            return
        with self.course.hook("optimizer_step", "none"):
            module.optimizer_step(self.current_epoch, batch, optimizer, lambda: None)

    @staticmethod
    def _clip(
        optimizer: torch.optim.Optimizer, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        """What a module's ``clip_gradients`` does."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not gradient_clip_val or gradient_clip_val <= 0 or not parameters:
            return
        if str(getattr(gradient_clip_algorithm, "value", gradient_clip_algorithm)) == "value":
            torch.nn.utils.clip_grad_value_(parameters, gradient_clip_val)
        else:
            torch.nn.utils.clip_grad_norm_(parameters, gradient_clip_val)

    def begin_part(self, update: int) -> None:
        """Notes which update is computed."""
        self._update_of_part = update

    # Behind steps, and the end.

    def open_loggers(self) -> List[Any]:
        """The loggers, which know the hyperparameters."""
        if self._loggers and not self._told:
            self._told = True
            files.open_loggers(self, self._loggers)
        return self._loggers

    _told = False

    def _after(self, e: jobs.AfterContext) -> None:
        self.see(e.update, self.course.epoch)
        self._loggers_open = True
        try:
            files.happen(self)
            for step, metrics, shown in self.course.emitted if self._shows else ():
                if shown:
                    print(f"epoch {metrics['epoch']:.0f}, step {step + 1}: {files.line_of(metrics)}", flush=True)
        finally:
            self._loggers_open = False

    def _end(self) -> None:
        """Behind the job, in the process that goes on."""
        self._loggers_open = True
        self.see(self.global_step, self.course.epoch)
        self.state.status = "finished"
        for callback in self.checkpoint_callbacks:
            for name in ("best_model_path", "kth_best_model_path", "last_model_path", "dirpath"):
                value = getattr(callback, name)
                place = self.places.get(value) if name == "dirpath" else files.place_of(value, self.places)
                setattr(callback, name, place)
            callback.best_k_models = {files.place_of(p, self.places): v for p, v in callback.best_k_models.items()}
            own = importlib.import_module(f"{self.root}.callbacks.model_checkpoint")
            callback._fs = own.get_filesystem(callback.dirpath or "")
        for name in ("on_fit_end", "teardown"):
            arguments = ("fit",) if name == "teardown" else ()
            self.course.call(name, *arguments, mode="none")
        if self.datamodule is not None:
            self.datamodule.teardown("fit")
        for logger in self._loggers:
            logger.finalize("success")
        for child in self.module.modules():
            vars(child).pop("log", None) if tables.root_of(type(child)) else None


def _recorder(course: Course) -> "logs_module.Recorder":
    made = logs_module.Recorder()
    made.at_once = course.take_at_once
    return made


def _plain_module(root: str) -> Any:
    return importlib.import_module(root).LightningModule()


@contextmanager
def _as_it_was(module: torch.nn.Module) -> Iterator[None]:
    """Restores buffers, modes and generators behind a trial."""
    buffers = [(owner, key, b, b.detach().clone()) for owner in module.modules() for key, b in owner._buffers.items() if b is not None]
    modes = [(m, m.training) for m in module.modules()]
    numpy = sys.modules.get("numpy")
    kept = random.getstate(), torch.get_rng_state(), numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        with torch.no_grad():
            for owner, key, buffer, value in buffers:
                owner._buffers[key] = buffer
                buffer.copy_(value)
        for one, mode in modes:
            one.training = mode
        random.setstate(kept[0])
        torch.set_rng_state(kept[1])
        if numpy is not None:
            numpy.random.set_state(kept[2])
