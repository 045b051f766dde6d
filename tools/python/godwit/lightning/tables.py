"""What of Lightning is honoured, replaced or refused: arguments, hooks and callbacks, each by name.

tools/python/README.md has the same tables for people, and a test compares them with the installed Lightning, so
that nothing that a release adds is silently ignored.
"""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple, Type

from ..errors import Error, Refused

HONOURED = (
    "precision", "callbacks", "logger", "fast_dev_run", "max_epochs", "min_epochs", "max_steps", "min_steps",
    "limit_train_batches", "limit_val_batches", "overfit_batches", "val_check_interval", "check_val_every_n_epoch",
    "log_every_n_steps", "enable_checkpointing", "accumulate_grad_batches", "gradient_clip_val",
    "gradient_clip_algorithm", "detect_anomaly", "default_root_dir", "devices", "num_nodes", "limit_test_batches",
    "limit_predict_batches", "enable_autolog_hparams",
)  # fmt: skip
"""Arguments that mean what they mean to Lightning; values that are not possible are refused by name."""

REPLACED: Dict[str, str] = {
    "num_sanity_val_steps": "a batch of each kind is tried before the job begins",
    "enable_progress_bar": "the progress is godwit's; False also leaves out the lines with metrics",
    "enable_model_summary": "the peer says how many parameters the model has",
    "inference_mode": "evaluations are computed without gradients; their numbers are the same",
    "use_distributed_sampler": "the flock deals the batches",
    "deterministic": "all operators are deterministic",
}
"""Arguments for which godwit has something else, so that every value of theirs is taken."""

REFUSED: Dict[str, Tuple[Tuple[Any, ...], str]] = {
    "accelerator": (("auto", "cpu", "gpu", "cuda"), "models are possible on the CPU and on CUDA's GPUs: leave it out"),
    "strategy": (("auto",), "the flock is the strategy: leave it out"),
    "max_time": ((None,), "a job ends by a count and not by a clock: use max_steps, or 'godwit stop'"),
    "benchmark": ((None, False), "it chooses algorithms by their speed, which changes bits: leave it out"),
    "profiler": ((None,), "profile the module by lightning.Trainer: leave it out"),
    "barebones": ((False,), "it is for measuring lightning.Trainer: leave it out"),
    "plugins": ((None, []), "plugins change how lightning.Trainer works: leave them out"),
    "sync_batchnorm": ((False,), "shards are computed apart from each other: leave it out"),
    "reload_dataloaders_every_n_epochs": ((0,), "data must stay the same for the whole job: leave it out"),
    "model_registry": ((None,), "upload the model behind fit(): leave it out"),
}
"""Arguments that have only these values, and what to do instead of others."""

SETUP_HOOKS = frozenset(
    ("prepare_data", "setup", "configure_model", "configure_callbacks", "configure_optimizers", "train_dataloader",
     "val_dataloader", "on_fit_start", "on_train_start")
)  # fmt: skip
"""Hooks that every process calls before the job, so that they are part of its first state."""

SHARD_HOOKS = frozenset(
    ("training_step", "validation_step", "on_validation_batch_start", "on_validation_batch_end",
     "on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
)  # fmt: skip
"""Hooks that are called in shards: by any process, in any order. They may log, and change nothing."""

PART_HOOKS = frozenset(("optimizer_step", "configure_gradient_clipping", "on_before_optimizer_step"))
"""Hooks of the module around the optimizer's step; with them an update has one part."""

ONCE_HOOKS = frozenset(
    ("on_train_batch_start", "on_train_batch_end", "on_train_epoch_start", "on_train_epoch_end", "on_train_end",
     "on_validation_start", "on_validation_epoch_start", "on_validation_epoch_end", "on_validation_end",
     "lr_scheduler_step")
)  # fmt: skip
"""Hooks that are called once at the end of a step. They may change attributes, weights and learning rates."""

FILE_HOOKS = frozenset(("on_save_checkpoint",))
"""Hooks that are called when a checkpoint is written."""

END_HOOKS = frozenset(("on_fit_end", "teardown"))
"""Hooks that the one process calls that goes on behind the job."""

UNUSED_HOOKS = frozenset(
    ("test_step", "predict_step", "test_dataloader", "predict_dataloader", "on_load_checkpoint", "state_dict",
     "load_state_dict", "on_test_start", "on_test_end", "on_test_batch_start", "on_test_batch_end",
     "on_test_epoch_start", "on_test_epoch_end", "on_test_model_eval", "on_test_model_train", "on_predict_start",
     "on_predict_end", "on_predict_batch_start", "on_predict_batch_end", "on_predict_epoch_start",
     "on_predict_epoch_end", "on_predict_model_eval", "on_sanity_check_start", "on_sanity_check_end", "on_exception")
)  # fmt: skip
"""Hooks that have no place in fit() here, and that change nothing of it."""

REFUSED_HOOKS: Dict[str, str] = {
    "backward": "the shards' gradients are made and added by godwit: return the loss that is to be differentiated",
    "on_before_backward": "change the loss in training_step",
    "on_after_backward": "a process has the gradient of its shard alone: use on_before_optimizer_step",
    "on_before_zero_grad": "there is nothing to zero: use on_train_batch_start",
    "optimizer_zero_grad": "gradients are new in each shard: leave it out",
    "on_validation_model_eval": "modules are set to their mode by godwit: leave it out",
    "on_validation_model_train": "modules are set to their mode by godwit: leave it out",
    "on_validation_model_zero_grad": "gradients are new in each shard: leave it out",
    "configure_sharded_model": "use configure_model",
}
"""Hooks that are refused where a module or a callback has one."""

REFUSED_CALLBACK_HOOKS = frozenset(("on_before_optimizer_step",))
"""Hooks of the module alone."""

CALLBACKS = frozenset(
    ("EarlyStopping", "ModelCheckpoint", "LambdaCallback", "LearningRateMonitor", "ProgressBar", "TQDMProgressBar",
     "RichProgressBar", "ModelSummary", "RichModelSummary", "Callback")
)  # fmt: skip
"""Lightning's callbacks that are possible."""

SHOWN_BY_GODWIT = frozenset(("ProgressBar", "ModelSummary", "LearningRateMonitor"))
"""Of these, the ones whose hooks are not called, since godwit does what they do."""

REFUSED_CALLBACKS: Dict[str, str] = {
    "BackboneFinetuning": "it changes which parameters are trained: set requires_grad before fit()",
    "BaseFinetuning": "it changes which parameters are trained: set requires_grad before fit()",
    "BasePredictionWriter": "there are no predictions in fit()",
    "BatchSizeFinder": "it measures one machine: give a batch size",
    "DeviceStatsMonitor": "use 'godwit status' and --http",
    "EMAWeightAveraging": "average the weights in on_train_batch_end",
    "GradientAccumulationScheduler": "an update has the same number of shards throughout: use accumulate_grad_batches",
    "LearningRateFinder": "run it by lightning.Trainer, and give the learning rate",
    "ModelPruning": "prune the model before or behind fit()",
    "OnExceptionCheckpoint": "a job keeps checkpoints of its own in --dir",
    "SpikeDetection": "use --on-bad skip for steps that are not finite",
    "StochasticWeightAveraging": "average the weights in on_train_batch_end",
    "ThroughputMonitor": "use 'godwit status' and --http",
    "Timer": "a job ends by a count and not by a clock: use max_steps, or 'godwit stop'",
    "WeightAveraging": "average the weights in on_train_batch_end",
    "Checkpoint": "derive from ModelCheckpoint",
}
"""Lightning's callbacks that are refused."""

ROOTS = ("lightning.pytorch", "pytorch_lightning")
"""The packages that have a Lightning."""


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuses arguments of a Trainer that are not known or have a value that is not possible."""
    for name, value in given.items():
        if name in REFUSED:
            possible, advice = REFUSED[name]
            if not any(value is p or (type(value) is type(p) and value == p) for p in possible):
                raise Refused(f"Trainer({name}={value!r}): {advice}")
        elif name not in HONOURED and name not in REPLACED:
            raise Error(
                f"Trainer({name}=): godwit.lightning does not know this argument; it knows those of Lightning 2, and "
                "shards=, parts=, data= and logs="
            )


def root_of(cls: Type[Any]) -> str:
    """The Lightning that a class comes from: ``lightning.pytorch`` or ``pytorch_lightning``; empty for none."""
    for base in cls.__mro__:
        for root in ROOTS:
            if base.__module__ == root or base.__module__.startswith(root + "."):
                return root
    return ""


def _is_lightnings(module: str) -> bool:
    return any(module == root or module.startswith(root + ".") for root in ROOTS)


def is_overridden(thing: Any, name: str) -> bool:
    """Whether an object has a hook that is not Lightning's own empty one."""
    found = getattr(type(thing), name, None)
    if name in vars(thing):
        return True
    if found is None:
        return False
    for base in type(thing).__mro__:
        if name in vars(base):
            return not _is_lightnings(base.__module__) and base.__module__ != "torch.nn.modules.module"
    return False


def check_hooks(thing: Any, what: str, more: Sequence[str] = ()) -> None:
    """Refuses hooks of a module or a callback that are not possible."""
    for name, advice in REFUSED_HOOKS.items():
        if is_overridden(thing, name):
            raise Refused(f"{what}.{name}: {advice}")
    for name in more:
        if is_overridden(thing, name):
            raise Refused(f"{what}.{name}: it is possible as a hook of the module alone")


def lightnings_own(callback: Any) -> List[str]:
    """The names of Lightning's classes that a callback derives from, the nearest first."""
    return [base.__name__ for base in type(callback).__mro__ if _is_lightnings(base.__module__)]


def check_callback(callback: Any) -> None:
    """Refuses a callback that is not possible."""
    kind = type(callback).__name__
    names = lightnings_own(callback)
    if not names:
        raise Refused(f"callbacks: {kind} is no callback of Lightning's")
    for name in names:
        if name in CALLBACKS:
            break
        raise Refused(f"callbacks: {kind}: {REFUSED_CALLBACKS.get(name, f'godwit.lightning does not know {name}')}")
    if not is_shown_by_godwit(callback):
        check_hooks(callback, kind, sorted(REFUSED_CALLBACK_HOOKS))
    if "ModelCheckpoint" in names:
        _check_checkpoint(callback, kind)
    if "LearningRateMonitor" in names and (callback.log_momentum or callback.log_weight_decay):
        raise Refused(f"{kind}(log_momentum=, log_weight_decay=): learning rates alone are logged: leave them out")


def _check_checkpoint(callback: Any, kind: str) -> None:
    if getattr(callback, "_train_time_interval", None) is not None:
        raise Refused(f"{kind}(train_time_interval=): files follow counts and not a clock: use every_n_train_steps")
    if callback.save_last == "link":
        raise Refused(f"{kind}(save_last='link'): use save_last=True")
    if getattr(callback, "save_on_exception", False):
        raise Refused(f"{kind}(save_on_exception=True): a job keeps checkpoints of its own in --dir: leave it out")


def is_shown_by_godwit(callback: Any) -> bool:
    """Whether godwit does what the callback would do."""
    return any(name in SHOWN_BY_GODWIT for name in lightnings_own(callback))
