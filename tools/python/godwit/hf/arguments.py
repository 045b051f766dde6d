"""What becomes of each of transformers' TrainingArguments: one table, and the check of arguments against it.

A field is *honoured*, *left* (it has no meaning for a job of a flock, and no result depends on it) or *refused*.
A field that the table does not know, of a newer release of transformers, is refused where it is set.
"""
from __future__ import annotations

import dataclasses
import enum
from typing import Any, Dict, List, Mapping

from ..errors import Error


class Kind(enum.Enum):
    """What becomes of a field."""

    HONOURED = "honoured"
    LEFT = "left"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class Rule:
    """``why`` completes the message: why a field has no meaning, or what to do instead of a refused one."""

    kind: Kind
    why: str = ""


_HONOURED = (
    "output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate lr_scheduler_type "
    "lr_scheduler_kwargs warmup_steps optim optim_args weight_decay adam_beta1 adam_beta2 adam_epsilon "
    "gradient_accumulation_steps max_grad_norm label_smoothing_factor bf16 bf16_full_eval fp16_full_eval "
    "activation_checkpointing activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs "
    "use_cache neftune_noise_alpha logging_strategy logging_steps logging_first_step include_num_input_tokens_seen "
    "log_level report_to run_name project trackio_space_id trackio_bucket_id trackio_static_space_id eval_strategy "
    "eval_steps eval_delay per_device_eval_batch_size prediction_loss_only eval_do_concat_batches "
    "eval_accumulation_steps include_for_metrics batch_eval_metrics save_strategy save_steps save_total_limit "
    "load_best_model_at_end metric_for_best_model greater_is_better full_determinism seed data_seed use_cpu "
    "dataloader_drop_last remove_unused_columns label_names train_sampling_strategy length_column_name"
).split()

_ONE_PROCESS = "each peer computes in processes of its own, and the flock adds up exactly"
_GATHERED = "samples are gathered in the worker that computes their shard"
_HUB = "nothing is pushed to the hub"
_CHECKPOINTS = "a job resumes from godwit's checkpoints; those of the trainer have the model alone"

_LEFT: Dict[str, str] = {
    "average_tokens_across_devices": "the tokens of all micro-batches of an update are counted exactly",
    "disable_tqdm": "what is logged is printed in lines, as output goes to the log of a peer",
    "log_on_each_node": "each peer logs what it sees",
    "log_level_replica": "each peer logs what it sees",
    "logging_nan_inf_filter": "a loss that is not finite stops the job (--on-bad)",
    "save_on_each_node": "each peer saves to its own output_dir",
    "save_only_model": _CHECKPOINTS,
    "ignore_data_skip": _CHECKPOINTS,
    "restore_callback_states_from_checkpoint": "the state of callbacks that can export it is part of the job's",
    "torch_empty_cache_steps": "there is no cache of a device to empty",
    "eval_use_gather_object": _ONE_PROCESS,
    "hub_token": _HUB,
    "hub_private_repo": _HUB,
    "hub_model_id": _HUB,
    "hub_strategy": _HUB,
    "hub_always_push": _HUB,
    "hub_revision": _HUB,
    "dataloader_num_workers": _GATHERED,
    "dataloader_pin_memory": _GATHERED,
    "dataloader_persistent_workers": _GATHERED,
    "dataloader_prefetch_factor": _GATHERED,
    "dataloader_multiprocessing_context": _GATHERED,
    "dataloader_in_order": _GATHERED,
    "ddp_find_unused_parameters": _ONE_PROCESS,
    "ddp_bucket_cap_mb": _ONE_PROCESS,
    "ddp_broadcast_buffers": _ONE_PROCESS,
    "ddp_static_graph": _ONE_PROCESS,
    "ddp_backend": _ONE_PROCESS,
    "ddp_timeout": _ONE_PROCESS,
    "local_rank": _ONE_PROCESS,
    "skip_memory_metrics": "memory is that of many processes",
    "do_train": "it is for scripts to read",
    "do_eval": "it is for scripts to read",
    "do_predict": "it is for scripts to read",
}

_REFUSED: Dict[str, str] = {
    "fp16": "its GradScaler makes infinite gradients as its normal course, at which a job stops: use bf16=True",
    "tf32": "its results differ between devices: leave it out",
    "torch_compile": "what is compiled depends on what a process has seen before, and so do the bits: leave it out",
    "torch_compile_backend": "it turns torch_compile on: leave it out",
    "torch_compile_mode": "it turns torch_compile on: leave it out",
    "use_liger_kernel": "its kernels are for GPUs: leave it out",
    "liger_kernel_config": "its kernels are for GPUs: leave it out",
    "optim_target_modules": "optimizers with projections (GaLore, APOLLO) keep state that is no tensor of a "
    "parameter's own: use another optim",
    "auto_find_batch_size": "which size fits differs between machines: give per_device_train_batch_size",
    "eval_on_start": "call trainer.evaluate() before trainer.train()",
    "enable_jit_checkpoint": "godwit saves by itself when it is asked to stop: leave it out",
    "push_to_hub": "every peer would push: call trainer.model.push_to_hub() where you want it, behind train()",
    "fsdp": "the flock shares out the shards, and each peer has the whole model: leave it out",
    "fsdp_config": "the flock shares out the shards, and each peer has the whole model: leave it out",
    "deepspeed": "the flock shares out the shards, and each peer has the whole model: leave it out",
    "parallelism_config": "the flock shares out the shards, and each peer has the whole model: leave it out",
    "accelerator_config": "batches are godwit's shards, without splitting or dispatching: leave it out",
    "debug": "its hooks are for one process: leave it out",
    "resume_from_checkpoint": "a job resumes by itself, from --dir, or alone from train(dir=...)",
}

TABLE: Mapping[str, Rule] = {
    **{name: Rule(Kind.HONOURED) for name in _HONOURED},
    **{name: Rule(Kind.LEFT, why) for name, why in _LEFT.items()},
    **{name: Rule(Kind.REFUSED, why) for name, why in _REFUSED.items()},
}
"""What becomes of each field of TrainingArguments."""

_EFFECTS = frozenset((
    "output_dir", "logging_strategy", "logging_steps", "logging_first_step", "log_level", "report_to", "run_name",
    "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id", "save_total_limit", "use_cpu",
))  # fmt: skip
"""Honoured fields that may differ between peers: no byte of the state depends on them."""

_QUIET = frozenset(("dataloader_pin_memory", "disable_tqdm", "do_train", "do_eval", "do_predict", "local_rank"))
"""Fields without meaning that transformers sets by itself, so that nobody has asked for them."""

_SAMPLING = ("random", "sequential", "group_by_length")


def _is_set(name: str, value: Any) -> bool:
    """Whether a refused field asks for something."""
    if name == "accelerator_config":
        return value is not None and value != type(value)()
    return bool(value)


def _differs(field: "dataclasses.Field[Any]", value: Any) -> bool:
    """Whether a value is not the default; a default that is made by a function counts as empty."""
    if field.default is dataclasses.MISSING:
        return bool(value)
    default = field.default
    if isinstance(value, enum.Enum):
        value, default = value.value, getattr(default, "value", default)
    return bool(value != default)


def check(args: Any) -> List[str]:
    """Checks a TrainingArguments. Returns notes for people: which fields are set and have no meaning.

    Raises Error, which names the field and says what to do.
    """
    notes: List[str] = []
    for field in dataclasses.fields(args):
        value = getattr(args, field.name)
        rule = TABLE.get(field.name)
        if rule is None:
            if _differs(field, value):
                raise Error(
                    f"TrainingArguments({field.name}={value!r}): this release of godwit does not know the field: leave "
                    "it out, or use a newer release"
                )
        elif rule.kind == Kind.REFUSED and _is_set(field.name, value):
            raise Error(f"TrainingArguments({field.name}={value!r}) is not possible on a flock: {rule.why}")
        elif rule.kind == Kind.LEFT and field.name not in _QUIET and _differs(field, value):
            notes.append(f"{field.name}={value!r} has no meaning here: {rule.why}")
    sampling = str(getattr(args.train_sampling_strategy, "value", args.train_sampling_strategy))
    if sampling not in _SAMPLING:
        raise Error(
            f"TrainingArguments(train_sampling_strategy={sampling!r}) is not possible on a flock: it balances devices, "
            f"where shards are taken by whatever worker is free: use one of {', '.join(_SAMPLING)}"
        )
    if args.device.type not in ("cpu", "cuda") or args.n_gpu > 1:
        raise Error(
            f"TrainingArguments: the device is {args.device}, of {args.n_gpu}: a worker computes on the CPU (use_cpu=True) "
            "or on one of CUDA's GPUs (CUDA_VISIBLE_DEVICES=0)"
        )
    return notes


def lines(args: Any) -> Dict[str, str]:
    """What peers compare: the honoured fields on which results depend."""
    found: Dict[str, str] = {}
    for field in dataclasses.fields(args):
        rule = TABLE.get(field.name)
        if rule is not None and rule.kind == Kind.HONOURED and field.name not in _EFFECTS:
            found[f"argument:{field.name}"] = _text(getattr(args, field.name))[:1000]
    return found


def _text(value: Any) -> str:
    """A value in a form that is the same in all processes; of an object that is no plain value, its type."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(inner) for inner in value) + "]"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return f"{type(value).__module__}.{type(value).__qualname__}"
