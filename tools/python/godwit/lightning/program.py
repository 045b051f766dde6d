"""The worker of a Lightning job: beside the gradients, its shards add up what is logged and what metrics count."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import torch

from .. import job as jobs, torch_program
from ..errors import Refused
from ..protocol import ALIKE, CONSTANT, ONCE_ONLY, After, Part, Shard, SumFlag, Tensor
from . import logs

if TYPE_CHECKING:
    from .trainer import Trainer

_STATE_BITS = 30
_REPORT_BITS = 30
_REPORTS_MOST = 60
_NAME_MOST = 27


def report_names(entries: List[logs.Entry]) -> Dict[str, Tuple[str, SumFlag]]:
    """The reports that people see for logged numbers: by key, a name and its phases. In a validation, a name is shown
    with ``val_`` in front, which is taken away here. Names that are no reports' names, or too many, have none."""
    found: Dict[str, Tuple[str, SumFlag]] = {}
    taken: Dict[str, SumFlag] = {"loss": SumFlag.TRAIN | SumFlag.EVALUATE, "weight": SumFlag.TRAIN, "norm": SumFlag.TRAIN}
    for entry in entries:
        phase = SumFlag.EVALUATE if "validation" in entry.hook else SumFlag.TRAIN
        name = "".join(c if c.isascii() and c.isalnum() else "_" for c in entry.name)
        if entry.loader is not None:
            name += f"_{entry.loader}"
        if name.startswith("val_"):
            name = name[4:]
            if phase == SumFlag.TRAIN:
                continue
        if not 1 <= len(name) <= _NAME_MOST or name.startswith("val_") or taken.get(name, SumFlag(0)) & phase:
            continue
        if name not in taken and len(taken) >= _REPORTS_MOST:
            continue
        taken[name] = taken.get(name, SumFlag(0)) | phase
        found[entry.key] = (name, phase)
    return found


class LightningProgram(torch_program.TorchProgram):
    """A LightningModule as the worker of a peer."""

    def __init__(self, job: jobs.JobBase, trainer: "Trainer", keep: Dict[str, Any]) -> None:
        self._trainer = trainer
        self._recorder = trainer.recorder
        self._metrics = trainer.metrics
        super().__init__(job, trainer.module, trainer.optimizers, keep)

    def _add_sums(self) -> None:
        super()._add_sums()
        recorder = self._recorder
        both = SumFlag.TRAIN | (SumFlag.EVALUATE if self._job.settings.eval_every else SumFlag(0))
        if not self._trainer.has_validation_loss:
            t = self._loss.tensor
            self._loss.tensor = Tensor(
                t.role, t.dtype, t.flags & ~SumFlag.EVALUATE, t.frac_bits, t.part, t.shape, t.name
            )
        self._present = self._sum("sum:present", torch.int64, (), ALIKE, SumFlag.TRAIN, 0)
        self._coarse = self._fine = None
        if recorder.size > 0:
            shape = (recorder.size,)
            self._coarse = self._sum("sum:log", torch.float64, shape, ONCE_ONLY, both, logs.COARSE_BITS)
            self._fine = self._sum("sum:log:rest", torch.float64, shape, ONCE_ONLY, both, logs.FINE_BITS)
        self._shown: Dict[str, torch_program._Sum] = {}
        names = report_names(recorder.numbers)
        for name in dict.fromkeys(name for name, _ in names.values()):
            flags = SumFlag(0)
            for other, phase in names.values():
                flags |= phase if other == name else SumFlag(0)
            made = self._sum(
                name, torch.float64, (), CONSTANT, flags | SumFlag.REPORT | SumFlag.BY_WEIGHT, _REPORT_BITS
            )
            self._shown.update({key: made for key, (other, _) in names.items() if other == name})
        self._states: Dict[Tuple[str, str], torch_program._Sum] = {}
        for metric in self._metrics:
            flags = SumFlag.TRAIN if metric.in_train else SumFlag(0)
            flags |= SumFlag.EVALUATE if metric.in_evaluation else SumFlag(0)
            for state, default in metric.defaults().items() if flags else ():
                real = default.is_floating_point()
                self._states[metric.path, state] = self._sum(
                    f"sum:metric:{metric.path}:{state}", torch.float64 if real else torch.int64, tuple(default.shape),
                    ONCE_ONLY, flags, _STATE_BITS if real else 0,
                )  # fmt: skip

    # Shards.

    def shard(self, request: Shard) -> None:
        self._recorder.begin_shard()
        for metric in self._metrics:
            metric.reset()
        super().shard(request)

    def _contribute(self, training: bool, loss: torch.Tensor, weight: float, reports: Dict[str, Any]) -> None:
        super()._contribute(training, loss, weight, reports)
        recorder = self._recorder
        if weight == 0:
            return
        if training:
            self._present.own.fill_(1)
            self._presence[self._present.number] = 1
        if self._coarse is not None and self._fine is not None:
            recorder.fill(self._coarse.own, self._fine.own)
            self._presence[self._coarse.number] = self._presence[self._fine.number] = 1
        phase = "training" if training else "validation"
        for entry in recorder.numbers:
            total = recorder.shard_value(entry) if (phase == "validation") == ("validation" in entry.hook) else None
            if total is not None and entry.key in self._shown:
                value = total[0] if entry.reduce == "sum" else total[0] / max(total[1], 1.0) * weight
                self._put(self._shown[entry.key], value)
        for metric in self._metrics:
            if metric.was_updated():
                self._put_states(metric, training)

    def _put_states(self, metric: logs.Metric, training: bool) -> None:
        if not (metric.in_train if training else metric.in_evaluation):
            raise Refused(
                f"the metric {metric.path} is updated in a later {'training' if training else 'validation'}_step, but was not "
                "in the first batch, from which the places of sums are learnt: update it always"
            )
        for state, value in metric.states().items():
            to = self._states[metric.path, state]
            if value.shape != to.own.shape:
                raise Refused(f"the metric {metric.path} changes the shape of its state '{state}': give it its classes")
            to.own.copy_(value)
            self._presence[to.number] = 1

    # Updates.

    def _present_shards(self, shards: int) -> int:
        return int(self._present.own)

    def part(self, request: Part) -> None:
        self._trainer.begin_part(request.update)
        super().part(request)

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        self._trainer.step(optimizer)

    def totals(self) -> Dict[str, Tuple[float, float]]:
        """What was logged in the step that ends."""
        if self._coarse is None or self._fine is None:
            return {}
        return self._recorder.totals(self._coarse.own, self._fine.own)

    def states(self, training: bool) -> Dict[str, Dict[str, torch.Tensor]]:
        """What metrics have counted in the step that ends, by path."""
        found: Dict[str, Dict[str, torch.Tensor]] = {}
        for metric in self._metrics:
            if metric.in_train if training else metric.in_evaluation:
                found[metric.path] = {s: self._states[metric.path, s].own.clone() for s in metric.defaults()}
        return found

    # Behind steps.

    def after(self, request: After) -> None:
        """The optimizer is shown its state, which goes into checkpoints that the function writes."""
        for optimizer in self._optimizers:
            optimizer.state.clear()
        for part in self._parts:
            assert part.born is not None
            numbers = part.numbers.load(self._arenas.state) if part.numbers is not None else {}
            for p, is_born in zip(part.parameters, part.born.state.tolist()):
                if is_born and p.optimizer is not None:
                    state: Dict[str, Any] = {key: array.state for key, array in p.kept.items()}
                    state.update(numbers.get(p.name, {}))
                    p.optimizer.state[p.tensor] = state
        try:
            super().after(request)
        finally:
            for optimizer in self._optimizers:
                optimizer.state.clear()
