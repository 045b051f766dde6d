"""The course of a training: what happens once at the end of each step, in Lightning's order.

Lightning's loop of a batch is: the step, schedulers that step by the batch, ``on_train_batch_end``, perhaps a
validation, schedulers that follow a metric, perhaps the end of the epoch, and the beginning of the next batch. Here
the shards have made the sums of the step when its end comes, and a validation is a step of its own with an end; what
follows a validation therefore is in one of two places.
"""
from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from ..errors import Error, Refused
from ..job import UpdateContext
from . import logs, optimizers, tables

if TYPE_CHECKING:
    from .trainer import Trainer

_MODEL_CHECKPOINT_LEFT_OUT = frozenset(("_last_time_checked",))
_ROOM_PER_NAME = 400
Totals = Dict[str, Tuple[float, float]]


class Elsewhere:
    """The batch, where a hook is called that is not in a shard."""

    def _refuse(self, *_: Any) -> Any:
        raise Refused(
            "a hook of the training uses its batch: it is called at the end of an update, when the batch is with the "
            "shards: use it in training_step"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    __getitem__ = __iter__ = __len__ = _refuse


class Files:
    """The file system as a ModelCheckpoint sees it while it decides: the files of this job alone."""

    def __init__(self, course: "Course") -> None:
        self._course = course

    def exists(self, path: Any) -> bool:
        """Whether the job has written the file."""
        return str(path) in self._course.files


class Course:
    """Counters, metrics and decisions of a training; they are state (``state_dict``)."""

    def __init__(self, trainer: "Trainer") -> None:
        self._trainer = trainer
        self.epoch = 0
        self.validations = 0
        self.callback_metrics: Dict[str, float] = {}
        self.logged_metrics: Dict[str, float] = {}
        self.progress_bar_metrics: Dict[str, float] = {}
        self.epoch_sums: Dict[str, List[float]] = {}
        self.metric_sums: Dict[str, Dict[str, torch.Tensor]] = {}
        self.files: List[str] = []
        self.effects: List[List[Any]] = []
        self.emitted: List[List[Any]] = []
        self.stops = False
        self.godwit_room = 8192
        self._at_once: Dict[str, Tuple[logs.Entry, float]] = {}

    # State.

    _NAMES = (
        "epoch", "validations", "callback_metrics", "logged_metrics", "progress_bar_metrics", "epoch_sums",
        "metric_sums", "files", "effects", "emitted", "stops",
    )  # fmt: skip

    def make_room(self) -> None:
        """Says how much the numbers may grow, from the names that are logged and the files that are kept."""
        trainer = self._trainer
        names = len(trainer.recorder.entries) + len(trainer.callbacks) + 8
        files = 0
        for callback in trainer.checkpoint_callbacks:
            files += callback.save_top_k + 2 if callback.save_top_k >= 0 else min(trainer.epochs_most, 4000)
        self.godwit_room = 8192 + _ROOM_PER_NAME * names + 300 * files
        for metric in trainer.train_metrics:
            self.metric_sums[metric.path] = {n: torch.zeros_like(d) for n, d in metric.defaults().items()}

    def state_dict(self) -> Dict[str, Any]:
        """What the course knows."""
        return {name: getattr(self, name) for name in self._NAMES}

    def load_state_dict(self, values: Dict[str, Any]) -> None:
        """Makes the course what the state says."""
        for name in self._NAMES:
            setattr(self, name, values[name])

    # Hooks.

    @contextmanager
    def hook(self, name: str, mode: str = "once", loader: Optional[int] = None) -> Iterator[None]:
        """A hook is being called: what is logged in it is the hook's."""
        recorder = self._trainer.recorder
        before = recorder.mode, recorder.hook, recorder.loader
        recorder.mode, recorder.hook, recorder.loader = mode, name, loader
        self._trainer.module._current_fx_name = name
        try:
            yield
        finally:
            recorder.mode, recorder.hook, recorder.loader = before
            self._trainer.module._current_fx_name = before[1] or None

    def call_callbacks(self, name: str, *arguments: Any, monitoring: Optional[bool] = None, mode: str = "once") -> None:
        """Calls a hook of the callbacks: of those that monitor a metric, of the others, or of all."""
        trainer = self._trainer
        for callback in trainer.callbacks:
            names = tables.lightnings_own(callback)
            monitors = "EarlyStopping" in names or "Checkpoint" in names
            if tables.is_shown_by_godwit(callback) or (monitoring is not None and monitors != monitoring):
                continue
            with self.hook(name, mode, trainer.recorder.loader):
                getattr(callback, name)(trainer, trainer.module, *arguments)

    def call_module(self, name: str, *arguments: Any, mode: str = "once") -> Any:
        """Calls a hook of the module."""
        with self.hook(name, mode, self._trainer.recorder.loader):
            return getattr(self._trainer.module, name)(*arguments)

    def call(self, name: str, *arguments: Any, mode: str = "once") -> None:
        """Calls a hook of the callbacks, and then the module's."""
        self.call_callbacks(name, *arguments, mode=mode)
        if self.call_module(name, *arguments, mode=mode) == -1:
            raise Refused(f"{name} returns -1, which skips batches: a job computes all of them: use limit_train_batches")

    # Metrics.

    def take_at_once(self, entry: logs.Entry, value: Any) -> None:
        """A value that is logged at the end of a step."""
        if entry.metric:
            value = self._compute(self._metric(entry.metric).object, entry.name)
        if entry.on_epoch and entry.hook in ("on_train_batch_start", "on_train_batch_end"):
            raise Refused(f"self.log({entry.name!r}, on_epoch=True) in {entry.hook}: log it in training_step")
        self._at_once[entry.key] = (entry, float(value))
        self._know(entry, float(value), entry.on_step)

    def _metric(self, path: str) -> logs.Metric:
        return next(m for m in self._trainer.metrics if m.path == path)

    @staticmethod
    def _compute(metric: Any, name: str) -> float:
        value = metric.compute()
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise Refused(f"self.log({name!r}): the metric's value is no single number: log its parts, or give average=")
        return float(value)

    def _know(self, entry: logs.Entry, value: float, on_step: bool) -> None:
        """Makes a value known under its names."""
        forked = entry.forked(on_step)
        if entry.logger:
            self.logged_metrics[forked] = value
        if entry.prog_bar:
            self.progress_bar_metrics[forked] = value
        is_training = "validation" not in entry.hook
        if is_training or not on_step:
            self.callback_metrics[entry.shown] = value
            self.callback_metrics[forked] = value

    def _add_epoch(self, key: str, total: Tuple[float, float]) -> None:
        sums = self.epoch_sums.setdefault(key, [0.0, 0.0])
        sums[0] += total[0]
        sums[1] += total[1]

    def _take_step(self, totals: Totals, states: Dict[str, Dict[str, torch.Tensor]]) -> Dict[str, float]:
        """The values of an update; its sums are added to those of the epoch."""
        logged: Dict[str, float] = {}
        for path, added in states.items():
            sums = self.metric_sums[path]
            for name, tensor in added.items():
                sums[name] = sums[name] + tensor.to(sums[name].dtype)
        for entry in self._trainer.recorder.entries.values():
            if entry.hook != "training_step":
                continue
            if entry.metric:
                if not entry.on_step or entry.metric not in states:
                    continue
                metric = self._metric(entry.metric)
                metric.show(states[entry.metric])
                value = self._compute(metric.object, entry.name)
            else:
                if entry.key not in totals:
                    continue
                if entry.on_epoch:
                    self._add_epoch(entry.key, totals[entry.key])
                if not entry.on_step:
                    continue
                value = logs.mean_of(entry, totals[entry.key])
            self._know(entry, value, True)
            if entry.logger:
                logged[entry.forked(True)] = value
        self._show_metrics(self.metric_sums)
        return logged

    def _show_metrics(self, states: Dict[str, Dict[str, torch.Tensor]]) -> None:
        """Has the metrics hold sums, for hooks that compute them."""
        for metric in self._trainer.metrics:
            if metric.path in states:
                metric.show(states[metric.path])

    def _take_epoch(self) -> Dict[str, float]:
        """The values of an epoch that ends."""
        entries = [e for e in self._trainer.recorder.entries.values() if e.hook == "training_step"]
        return self._take(entries, {key: (sums[0], sums[1]) for key, sums in self.epoch_sums.items()})

    def _take_validation(self, totals: Totals) -> Dict[str, float]:
        """The values of a validation that ends."""
        return self._take([e for e in self._trainer.recorder.entries.values() if "validation" in e.hook], totals)

    def _take(self, entries: Sequence[logs.Entry], totals: Totals) -> Dict[str, float]:
        """Computes what is logged at the end, of metrics or of totals, and returns what loggers get of it."""
        logged: Dict[str, float] = {}
        for entry in entries:
            if not entry.on_epoch:
                continue
            if entry.metric:
                value = self._compute(self._metric(entry.metric).object, entry.name)
            elif entry.key in totals:
                value = logs.mean_of(entry, totals[entry.key])
            else:
                continue
            self._know(entry, value, False)
            if entry.logger:
                logged[entry.forked(False)] = value
        return logged

    def _emit(self, metrics: Dict[str, float], step: int, shown: bool = False) -> None:
        """Notes what loggers, and perhaps people, are to see when the step is committed."""
        if metrics:
            self.emitted.append([step, {"epoch": self.epoch, **metrics}, shown])

    # Effects, which happen behind the step.

    def save(self, path: Any, weights_only: bool = False) -> None:
        """A checkpoint is to be written."""
        self.effects.append(["save", str(path), bool(weights_only)])
        if str(path) not in self.files:
            self.files.append(str(path))

    def remove(self, path: Any) -> None:
        """A checkpoint is to be removed."""
        self.effects.append(["remove", str(path), False])
        if str(path) in self.files:
            self.files.remove(str(path))

    # The ends of steps.

    def begin(self) -> None:
        """The beginning of the first epoch, before the job."""
        self._begin_epoch(0)
        self._begin_batch(0)

    def _begin_step(self, step: int) -> None:
        if step > 0:  # what comes before the job is told behind its first step
            self.effects, self.emitted = [], []
        self._at_once = {}

    def after_update(
        self, u: UpdateContext, totals: Totals, states: Dict[str, Dict[str, torch.Tensor]]
    ) -> None:
        """The end of an update."""
        trainer, plan = self._trainer, self._trainer.plan
        self._begin_step(u.step)
        trainer.see(u.update + 1, self.epoch)
        trainer.fit_loop.epoch_loop.val_loop._has_run = self.validations > 0  # this process may not have seen one
        is_last = plan.is_last(u.update)
        batches = plan.batches_of(u.update)
        trainer.fit_loop.epoch_loop.batch_progress.is_last_batch = is_last
        logged = self._take_step(totals, states)
        self._step_schedulers("step", batches[-1], plateau=False)
        if is_last:
            self._step_schedulers("epoch", self.epoch, plateau=False)
        outputs = {"loss": torch.tensor(u.reports["loss"])}
        for batch in batches:
            if batch != batches[0]:
                self.call("on_train_batch_start", Elsewhere(), batch)
            self.call("on_train_batch_end", outputs, Elsewhere(), batch)
        logged.update(self._logged_at_once())
        if trainer.log_every_n_steps > 0 and (u.update + 1) % trainer.log_every_n_steps == 0:
            self._emit(logged, u.update)
        if trainer.validates_after(u.update + 1):
            self.call("on_validation_start")
            self.call("on_validation_epoch_start")
            return
        self._end_batch(u, u.update)

    def after_validation(
        self, u: UpdateContext, totals: Totals, states: Dict[str, Dict[str, torch.Tensor]]
    ) -> None:
        """The end of a validation."""
        trainer = self._trainer
        self._begin_step(u.step)
        trainer.see(u.update, self.epoch)
        self.validations += 1
        trainer.fit_loop.epoch_loop.val_loop._has_run = True
        trainer.fit_loop.epoch_loop.batch_progress.is_last_batch = trainer.plan.is_last(u.update - 1)
        trainer.validating, trainer.training = True, False
        self._show_metrics({**self.metric_sums, **states})
        logged = self._take_validation(totals)
        self.call("on_validation_epoch_end")
        logged.update(self._logged_at_once())
        self._emit(logged, u.update - 1, True)
        self.call("on_validation_end")
        trainer.validating, trainer.training = False, True
        self._show_metrics(self.metric_sums)
        self._end_batch(u, u.update - 1)

    def _logged_at_once(self) -> Dict[str, float]:
        found = {e.forked(e.on_step): value for e, value in self._at_once.values() if e.logger}
        self._at_once = {}
        return found

    def _end_batch(self, u: UpdateContext, update: int) -> None:
        """What follows an update and its validation, up to the beginning of the next batch. The job stops here, before an
        evaluation behind its last update that Lightning would not do."""
        trainer, plan = self._trainer, self._trainer.plan
        self._step_schedulers("step", plan.batches_of(update)[-1], plateau=True)
        is_done = update + 1 == trainer.updates_most or (self.stops and trainer.may_stop(update + 1, self.epoch))
        if plan.is_last(update) or is_done:
            self._end_epoch(update, plan.is_last(update))
            is_done = is_done or (self.stops and trainer.may_stop(update + 1, self.epoch))
            is_done = is_done or self.epoch == trainer.max_epochs
            if not is_done:
                self._begin_epoch(update + 1)
        if is_done:
            self.call("on_train_end")
            u.stop = True
            return
        self._begin_batch(update + 1)

    def _end_epoch(self, update: int, is_whole: bool) -> None:
        logged = self._take_epoch()
        self.call_callbacks("on_train_epoch_end", monitoring=False)
        self.call_module("on_train_epoch_end")
        logged.update(self._logged_at_once())
        self.call_callbacks("on_train_epoch_end", monitoring=True)
        if is_whole:
            self._step_schedulers("epoch", self.epoch, plateau=True)
        self._emit(logged, update, True)
        self.epoch_sums = {}
        for sums in self.metric_sums.values():
            for name in sums:
                sums[name] = torch.zeros_like(sums[name])
        self.epoch += 1
        self._trainer.see(update + 1, self.epoch)

    def _begin_epoch(self, update: int) -> None:
        self._monitor_rates("epoch", update)
        self.call("on_train_epoch_start")

    def _begin_batch(self, update: int) -> None:
        every = self._trainer.log_every_n_steps
        if every > 0 and (update + 1) % every == 0:
            self._monitor_rates("step", update)
        self.call("on_train_batch_start", Elsewhere(), self._trainer.plan.batches_of(update)[0])

    # Learning rates.

    def _step_schedulers(self, interval: str, place: int, plateau: bool) -> None:
        """Steps the schedulers of an interval. ``place`` is the batch in the epoch, or the epoch."""
        trainer = self._trainer
        for config in trainer.lr_scheduler_configs:
            if config.reduce_on_plateau != plateau or config.interval != interval:
                continue
            if (place + 1) % config.frequency != 0:
                continue
            value: Optional[torch.Tensor] = None
            if plateau:
                value = trainer.callback_metrics.get(str(config.monitor))
                if value is None:
                    if config.strict:
                        raise Error(
                            f"ReduceLROnPlateau monitors {config.monitor!r}, which is not logged; there are "
                            f"{sorted(trainer.callback_metrics)}"
                        )
                    continue
            with self.hook("lr_scheduler_step", "none"):
                trainer.module.lr_scheduler_step(config.scheduler, value)

    def _monitor_rates(self, interval: str, update: int) -> None:
        """Tells the learning rates, where a LearningRateMonitor asks for them."""
        trainer = self._trainer
        for callback in trainer.callbacks:
            if "LearningRateMonitor" not in tables.lightnings_own(callback):
                continue
            asked = callback.logging_interval
            if asked in (None, interval):
                found = optimizers.rates(trainer.optimizers[0], trainer.lr_scheduler_configs, "any" if asked else interval)
                self.callback_metrics.update(found)
                self.emitted.append([update, found, False])


def prepare_checkpoints(course: Course, callbacks: List[Any], root: str) -> Dict[str, str]:
    """Has ModelCheckpoints decide without a file system: their paths are in folders without a place. Returns the
    places by folder. Decisions are state, and places are not the same on all peers."""
    places: Dict[str, str] = {}
    for number, callback in enumerate(callbacks):
        token = f"checkpoints{number or ''}"
        places[token] = str(callback.dirpath) if callback.dirpath is not None else os.path.join(root, "checkpoints")
        callback.dirpath = token
        callback._fs = Files(course)
    return places


def left_out(callback: Any) -> Any:
    """The attributes of a callback that are no state."""
    return _MODEL_CHECKPOINT_LEFT_OUT if "ModelCheckpoint" in tables.lightnings_own(callback) else frozenset()

