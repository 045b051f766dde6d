"""What ``configure_optimizers`` returns, in each of the shapes that Lightning allows."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch.optim import lr_scheduler

from ..errors import Refused

_KEYS = frozenset(("scheduler", "name", "interval", "frequency", "reduce_on_plateau", "monitor", "strict"))


@dataclass
class SchedulerConfig:
    """A scheduler and when it steps; the fields are those of Lightning's dictionary."""

    scheduler: Any
    name: Optional[str] = None
    interval: str = "epoch"
    frequency: int = 1
    reduce_on_plateau: bool = False
    monitor: Optional[str] = None
    strict: bool = True


def parse(returned: Any) -> Tuple[torch.optim.Optimizer, List[SchedulerConfig]]:
    """The optimizer and its schedulers. Raises Refused for more than one optimizer, and for none."""
    optimizers, schedulers, monitor = _taken_apart(returned)
    if len(optimizers) != 1:
        raise Refused(
            f"configure_optimizers returns {len(optimizers)} optimizers: with several, Lightning asks for manual "
            "optimization, which no exact sum of shards can serve: give one optimizer with several param_groups, or use "
            "godwit.Job, which takes a list"
        )
    configs = [_config(one, monitor) for one in schedulers]
    for config in configs:
        if getattr(config.scheduler, "optimizer", None) is not optimizers[0]:
            raise Refused(f"the scheduler {type(config.scheduler).__name__} belongs to another optimizer")
        if not hasattr(config.scheduler, "state_dict") or not hasattr(config.scheduler, "load_state_dict"):
            raise Refused(f"the scheduler {type(config.scheduler).__name__} has no state_dict() and load_state_dict()")
    return optimizers[0], configs


def _taken_apart(returned: Any) -> Tuple[List[torch.optim.Optimizer], List[Any], Optional[str]]:
    kind = torch.optim.Optimizer
    if isinstance(returned, kind):
        return [returned], [], None
    if isinstance(returned, dict):
        return [_optimizer_in(returned)], [returned["lr_scheduler"]] if "lr_scheduler" in returned else [], _monitor(returned)
    if isinstance(returned, (list, tuple)) and returned:
        values = list(returned)
        if len(values) == 2 and isinstance(values[0], list) and all(isinstance(o, kind) for o in values[0]):
            return values[0], values[1] if isinstance(values[1], list) else [values[1]], None
        if all(isinstance(o, kind) for o in values):
            return values, [], None
        if all(isinstance(o, dict) for o in values):
            found = [_with_monitor(o) for o in values if "lr_scheduler" in o]
            return [_optimizer_in(o) for o in values], found, None
    raise Refused(
        f"configure_optimizers returns {type(returned).__name__}: it must be an optimizer, [optimizer], ([optimizer], "
        "[scheduler]), or a dictionary with 'optimizer' and 'lr_scheduler'"
    )


def _with_monitor(part: Any) -> Any:
    scheduler = part["lr_scheduler"]
    made = dict(scheduler) if isinstance(scheduler, dict) else {"scheduler": scheduler}
    if part.get("monitor") is not None:
        made.setdefault("monitor", part["monitor"])
    return made


def _monitor(part: Any) -> Optional[str]:
    found = part.get("monitor")
    return None if found is None else str(found)


def _optimizer_in(part: Any) -> torch.optim.Optimizer:
    unknown = set(part) - {"optimizer", "lr_scheduler", "monitor"}
    if unknown or not isinstance(part.get("optimizer"), torch.optim.Optimizer):
        raise Refused(
            f"configure_optimizers returns a dictionary with the keys {sorted(map(str, part))}: it has 'optimizer', and may "
            "have 'lr_scheduler' and 'monitor'"
        )
    found: torch.optim.Optimizer = part["optimizer"]
    return found


def _config(one: Any, monitor: Optional[str]) -> SchedulerConfig:
    values = dict(one) if isinstance(one, dict) else {"scheduler": one}
    unknown = set(values) - _KEYS
    if unknown or "scheduler" not in values:
        raise Refused(f"the lr_scheduler has the keys {sorted(map(str, values))}: it needs 'scheduler', and may have {sorted(_KEYS)}")
    is_plateau = isinstance(values["scheduler"], lr_scheduler.ReduceLROnPlateau)
    values.setdefault("reduce_on_plateau", is_plateau)
    if not isinstance(one, dict) or values.get("monitor") is None:
        values["monitor"] = values.get("monitor") or monitor
    found = SchedulerConfig(**values)
    if found.interval not in ("step", "epoch"):
        raise Refused(f"the lr_scheduler's interval is {found.interval!r}: it must be 'step' or 'epoch'")
    if isinstance(found.frequency, bool) or not isinstance(found.frequency, int) or found.frequency < 1:
        raise Refused(f"the lr_scheduler's frequency is {found.frequency!r}: it must be 1 or more")
    if found.reduce_on_plateau and found.monitor is None:
        raise Refused("ReduceLROnPlateau needs 'monitor': the name of a metric that is logged")
    return found


def rates(optimizer: torch.optim.Optimizer, configs: List[SchedulerConfig], interval: str) -> Dict[str, float]:
    """The learning rates under the names that LearningRateMonitor gives them: those of schedulers with this interval,
    or of all for ``any``."""
    found: Dict[str, float] = {}
    kind, count = type(optimizer).__name__, 0
    for config in configs or [SchedulerConfig(None, interval=interval)]:
        if config.name is None:
            count += 1
        name = config.name if config.name is not None else f"lr-{kind}"
        if count > 1:
            name += f"-{count - 1}"
        if interval in (config.interval, "any"):
            found.update(_groups(optimizer, name))
    return found


def _groups(optimizer: torch.optim.Optimizer, name: str) -> Dict[str, float]:
    groups = optimizer.param_groups
    found: Dict[str, float] = {}
    for number, group in enumerate(groups):
        own = group.get("name") or (f"pg{number + 1}" if len(groups) > 1 else "")
        found[f"{name}/{own}" if own else name] = float(group["lr"])
    return found
