"""One ``train()`` as a job: its shards, its updates, and what is seen of committed steps."""
from __future__ import annotations

import copy
import errno
import math
import os
import shutil
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import torch

from .. import pin, session as sessions
from ..errors import Error, Refused
from ..job import AfterContext, ShardContext, UpdateContext
from ..torch_program import Job
from . import arguments as fields, data
from .library import trainer_callback, trainers, transformers

_DEFERRED = ("should_epoch_stop", "should_training_stop", "should_evaluate", "should_log")
"""What a callback for committed steps may not ask for."""


class _Best:
    """The weights of the best evaluation, in state: all that is trained, and buffers, one array for each type."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        saved = model.state_dict().keys()
        self._names = [name for name, p in model.named_parameters() if p.requires_grad]
        self._names += [name for name, _ in model.named_buffers() if name in saved]
        sizes: Dict[str, int] = {}
        for tensor in self._tensors():
            sizes[str(tensor.dtype)] = sizes.get(str(tensor.dtype), 0) + tensor.numel()
        dtypes = {str(tensor.dtype): tensor.dtype for tensor in self._tensors()}
        least = 65  # a smaller tensor would be kept among numbers
        self._flat = {name: torch.zeros(max(size, least), dtype=dtypes[name]) for name, size in sizes.items()}

    def _tensors(self) -> List[torch.Tensor]:
        """The model's tensors as they are now."""
        found: Dict[str, torch.Tensor] = dict(self._model.named_parameters())
        found.update(self._model.named_buffers())
        return [found[name].detach() for name in self._names]

    def state_dict(self) -> Dict[str, torch.Tensor]:
        return dict(self._flat)

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self._flat = dict(state)

    def _places(self) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        """Each of the model's tensors, and its place among the best."""
        found: List[Tuple[torch.Tensor, torch.Tensor]] = []
        used: Dict[str, int] = {}
        for tensor in self._tensors():
            kind = str(tensor.dtype)
            first = used.get(kind, 0)
            used[kind] = first + tensor.numel()
            found.append((tensor, self._flat[kind][first : used[kind]].view(tensor.shape)))
        return found

    def take(self) -> None:
        """The model as it is becomes the best."""
        for tensor, place in self._places():
            place.copy_(tensor)

    def give(self) -> None:
        """The model becomes the best."""
        for tensor, place in self._places():
            tensor.copy_(place)


class Run:
    """One ``train()``: the job and its functions."""

    def __init__(self, trainer: Any, ignore_keys: Optional[List[str]]) -> None:
        self._trainer = trainer
        self._args = args = trainer.args
        self._ignore_keys = ignore_keys
        self.computing = False
        """Whether this process computes a shard or an update now."""
        self._begin_time = time.time()
        self._loader = trainer.get_train_dataloader()
        data.check_indexable("train_dataset", self._loader.dataset)
        self._order = data.Order(self._loader, sessions.settings.seed)
        values = trainer.set_initial_training_values(args, self._loader)
        self._epochs, self._updates_of_epoch, self._samples = values[0], values[1], values[3]
        self._steps_in_epoch, self._max_steps = int(values[5]), int(values[6])
        if self._max_steps < 1:
            raise Error(
                f"TrainingArguments(num_train_epochs={args.num_train_epochs}, max_steps={args.max_steps}) are no update"
            )
        self._create_optimizer()
        trainer.model.train()
        trainer.model_wrapped = trainer.accelerator.prepare_model(trainer.model)
        self._begin_state()
        self._flow = trainer_callback.DefaultFlowCallback()
        self._split_callbacks()
        self._evaluates_in_shards = self._can_evaluate_in_shards()
        self._best = _Best(trainer.model) if args.load_best_model_at_end else None
        evaluates, saves = args.eval_strategy == "epoch", args.save_strategy
        is_late = {
            "log": args.logging_strategy == "epoch",
            "metrics": evaluates,
            "save": saves == "epoch" or saves == "best" and evaluates,
        }
        self._late = {what for what, late in is_late.items() if late}  # it comes behind the end of an epoch
        self._has_begun = False
        self._job = self._make_job()

    # Before the job.

    def _create_optimizer(self) -> None:
        trainer = self._trainer
        if trainer._created_lr_scheduler:
            trainer.lr_scheduler = None
            trainer._created_lr_scheduler = False
        trainer.create_optimizer_and_scheduler(num_training_steps=self._max_steps)
        kind = type(trainer.optimizer).__name__
        if callable(getattr(trainer.optimizer, "train", None)) and callable(getattr(trainer.optimizer, "eval", None)):
            raise Error(
                f"the optimizer {kind} swaps the weights between training and evaluation, which would change the state "
                f"in a shard: use another one than optim={str(self._args.optim.value)!r}"
            )
        if kind in ("LomoDummyOptimizer", "DummyOptimizer", "AdaLomo", "Lomo"):
            raise Error(f"the optimizer {kind} steps within backward: use another one than optim={self._args.optim.value!r}")
        trainer.optimizer._opt_called = True  # another process may make the step that the scheduler looks for

    def _begin_state(self) -> None:
        """The trainer's state before the first update, as transformers makes it."""
        trainer = self._trainer
        trainer.is_in_train = True
        trainer.state = trainer_callback.TrainerState(
            stateful_callbacks=[
                c for c in [*trainer.callback_handler.callbacks, trainer.control] if _is_exportable(c)
            ]
        )
        trainer.state.is_hyper_param_search = False
        trainer.state.train_batch_size = trainer._train_batch_size
        trainer.state.compute_steps(self._args, self._max_steps)
        trainer.state.init_training_references(trainer, self._max_steps, self._epochs, None)
        trainer._initial_num_input_tokens_seen = 0

    def _split_callbacks(self) -> None:
        """Callbacks whose state can be exported decide in the update; the others see committed steps."""
        trainer = self._trainer
        every = trainer.callback_handler
        every.optimizer, every.lr_scheduler, every.model = trainer.optimizer, trainer.lr_scheduler, trainer.model
        every.train_dataloader = self._loader
        flow = trainer_callback.DefaultFlowCallback
        own = [c for c in every.callbacks if type(c) is not flow]
        self._every = every
        self._deciding = [c for c in own if _is_exportable(c)]
        self._watching = self._handler([c for c in own if not _is_exportable(c)])
        self._silent = self._handler([])

    def _handler(self, callbacks: Sequence[Any]) -> Any:
        trainer = self._trainer
        made = copy.copy(trainer.callback_handler)
        made.callbacks = list(callbacks)
        return made

    def _can_evaluate_in_shards(self) -> bool:
        """Whether evaluations are steps of the job, which all workers share: where the loss of one data set is all
        that is asked for. Otherwise one worker of each peer evaluates, within the update."""
        trainer, args = self._trainer, self._args
        return (
            args.eval_strategy != "no"
            and trainer.compute_metrics is None
            and args.eval_delay == 0
            and not isinstance(trainer.eval_dataset, dict)
            and type(trainer).evaluation_loop is transformers.Trainer.evaluation_loop
            and type(self._evaluation_sampler()) is torch.utils.data.SequentialSampler
        )

    def _evaluation_sampler(self) -> Any:
        self._eval_loader = self._trainer.get_eval_dataloader()
        return getattr(getattr(self._eval_loader, "batch_sampler", None), "sampler", None)

    def _follows_metric(self) -> bool:
        """Whether the scheduler steps by the metric of an evaluation."""
        kinds = (torch.optim.lr_scheduler.ReduceLROnPlateau, trainers.GreedyLR)
        return isinstance(self._trainer.lr_scheduler, kinds)

    def _make_job(self) -> Job:
        trainer, args = self._trainer, self._args
        every, shards = 0, 0
        if self._evaluates_in_shards:
            every = self._updates_of_epoch if args.eval_strategy == "epoch" else int(trainer.state.eval_steps)
            shards = math.ceil(len(self._eval_loader.dataset) / args.eval_batch_size)
        keep: Dict[str, Any] = {"scheduler": trainer.lr_scheduler}
        if self._best is not None:
            keep["best"] = self._best
        job = Job(
            trainer.model,
            trainer.optimizer,
            shards=args.gradient_accumulation_steps,
            updates=self._max_steps,
            clip=args.max_grad_norm if args.max_grad_norm > 0 else None,
            eval_every=every,
            eval_shards=shards,
            keep=keep,
            reports=["tokens"] if args.include_num_input_tokens_seen != "no" else [],
        )
        job.lines.update(fields.lines(args))
        job.lines["data:train"] = data.digest(self._loader.dataset, job.seed)
        if args.eval_strategy != "no":
            for what, dataset in data.named(trainer.eval_dataset):
                job.lines[f"data:{what}"] = data.digest(dataset, job.seed)
        job.vars.total = 0.0  # the losses of all updates that were logged
        job.vars.since = 0.0  # of those that were not
        job.vars.logged = 0  # the update at which was logged last
        job.vars.tokens = 0
        job.vars.log = None  # what the last update says to log, if anything
        job.vars.metrics = None  # of the evaluation in the last update, if there was one
        job.vars.save = False
        job.vars.awaits = None  # where an evaluation follows the last update: whether it is saved behind it
        job.vars.stops = False
        job.vars.best_metric = None
        job.vars.best_step = None
        job.vars.callbacks = self._exported()
        job.shard(self._shard)
        job.update(self._update)
        if self._evaluates_in_shards:
            job.evaluated(self._evaluated)
        job.after(self._after)
        return job

    def train(self, dir: Optional[str]) -> Any:
        """Runs the job, and does what transformers does behind the loop."""
        trainer = self._trainer
        if self._args.gradient_accumulation_steps == 1:
            trainers.logger.warning(
                "godwit: gradient_accumulation_steps=1 is one shard an update, so that one worker of the flock "
                "computes at a time: raise it, and lower per_device_train_batch_size as much"
            )
        for callback in self._deciding:
            callback.on_train_begin(self._args, trainer.state, trainer.control, model=trainer.model)
        result = self._job.run(dir)
        trainer.callback_handler = self._watching
        self._begin()
        self._reflect(result.updates)
        total = float(self._job.vars.total) + float(self._job.vars.since)
        loss = total / max(result.updates, 0.001)
        share = result.updates / self._max_steps
        metrics: Dict[str, float] = trainers.speed_metrics(
            "train", self._begin_time, num_samples=self._samples * share, num_steps=result.updates
        )
        metrics["train_loss"] = loss
        trainer.log(metrics)
        if self._best is not None and self._job.vars.best_step is not None:
            with torch.no_grad():
                self._best.give()
        if self._args.save_total_limit == 1 and trainer.state.best_model_checkpoint is not None:
            best = trainer.state.best_model_checkpoint
            for folder in trainers.sort_checkpoints(output_dir=self._args.output_dir, best_model_checkpoint=best):
                if os.path.realpath(folder) != os.path.realpath(best):
                    shutil.rmtree(folder, ignore_errors=True)
        trainer.callback_handler = self._every
        trainer.control = self._every.on_train_end(self._args, trainer.state, trainer.control)
        if trainer.neftune_noise_alpha is not None:
            trainers.deactivate_neftune(trainer.model, trainer.neftune_hook_handle, trainer.accelerator)
        trainer.is_in_train = False
        return trainers.TrainOutput(result.updates, loss, metrics)

    # The trainer's state as a function of the job's.

    def _epoch(self, updates: int) -> float:
        """How many epochs so many updates are."""
        if updates == 0:
            return 0.0
        epoch, place = divmod(updates - 1, self._updates_of_epoch)
        done = min((place + 1) * self._args.gradient_accumulation_steps, self._steps_in_epoch)
        return float(epoch + done / self._steps_in_epoch)

    def _reflect(self, updates: int) -> None:
        """Has the trainer's state show what the job's says behind so many updates."""
        trainer, v = self._trainer, self._job.vars
        trainer.is_in_train = True
        state = trainer.state
        state.global_step = updates
        state.epoch = self._epoch(updates)
        state.num_input_tokens_seen = v.tokens
        state.best_metric = v.best_metric
        state.best_global_step = v.best_step if self._args.save_strategy != "no" else None
        state.best_model_checkpoint = None
        if v.best_step is not None:
            folder = self._checkpoint(v.best_step)
            state.best_model_checkpoint = folder if os.path.isdir(folder) else None
        for callback, attributes in zip(self._deciding, v.callbacks):
            for name, value in attributes.items():
                setattr(callback, name, value)

    def _checkpoint(self, updates: int) -> str:
        return os.path.join(self._args.output_dir, f"{trainers.PREFIX_CHECKPOINT_DIR}-{updates}")

    def _exported(self) -> List[Dict[str, Any]]:
        """What the callbacks that decide count."""
        return [dict(callback.state().get("attributes", {})) for callback in self._deciding]

    # A shard.

    def _shard(self, s: ShardContext) -> Tuple[torch.Tensor, float, Dict[str, float]]:
        self._reflect(s.update)
        self.computing = True
        try:
            loss, weight, tokens = self._train_shard(s) if s.training else self._evaluation_shard(s)
        finally:
            self.computing = False
        return loss, weight, {name: tokens for name in self._job.settings.reports}

    def _train_shard(self, s: ShardContext) -> Tuple[torch.Tensor, float, float]:
        trainer, args = self._trainer, self._args
        epoch, place = divmod(s.update, self._updates_of_epoch)
        number = place * args.gradient_accumulation_steps + s.shard
        if number >= self._steps_in_epoch:  # the last update of an epoch may have fewer micro-batches
            return torch.zeros(()), 0.0, 0.0
        which = self._order.batch(epoch, number)
        s.note(which)
        pin.shard_generators(s.generator_seed)
        inputs = data.gather(self._loader.dataset, which, self._loader.collate_fn)
        left = self._steps_in_epoch - place * args.gradient_accumulation_steps
        trainer.current_gradient_accumulation_steps = min(args.gradient_accumulation_steps, left)
        items = trainer._get_num_items_in_batch([inputs], args.device)
        inputs = trainer._prepare_inputs(inputs)
        tokens = self._count_tokens(inputs)
        weight = 1.0
        if items is not None and self._divides_by_items():
            weight = float(items)
            if weight == 0:
                return torch.zeros(()), 0.0, tokens
        with trainer.compute_loss_context_manager():
            loss = trainer.compute_loss(trainer.model, inputs, num_items_in_batch=items)
        return loss * weight, weight, tokens

    def _divides_by_items(self) -> bool:
        """Whether the loss of a micro-batch is one that was divided by the number of items, so that its weight in
        the update is that number; otherwise all micro-batches weigh the same."""
        trainer = self._trainer
        own = getattr(trainer, "loss_is_scaled_for_ga", None)
        if own is not None:
            return bool(own)
        return bool(trainer.model_accepts_loss_kwargs) or trainer.compute_loss_func is not None

    def _count_tokens(self, inputs: Mapping[str, Any]) -> float:
        """The input tokens of a micro-batch, counted as transformers counts them; 0 where nobody asks."""
        trainer = self._trainer
        if self._args.include_num_input_tokens_seen == "no":
            return 0.0
        before = trainer.state.num_input_tokens_seen
        trainer._track_num_input_tokens(inputs)
        return float(trainer.state.num_input_tokens_seen - before)

    def _evaluation_shard(self, s: ShardContext) -> Tuple[torch.Tensor, float, float]:
        """One batch of the evaluation's data. Its mean loss weighs as many samples as it has, as transformers
        weighs it."""
        trainer = self._trainer
        dataset, size = self._eval_loader.dataset, self._args.eval_batch_size
        which = list(range(s.shard * size, min((s.shard + 1) * size, len(dataset))))
        s.note(which)
        inputs = data.gather(dataset, which, self._eval_loader.collate_fn)
        loss = trainer.prediction_step(trainer.model, inputs, True, ignore_keys=self._ignore_keys)[0]
        if loss is None:
            raise Refused(
                f"the evaluation's data have no labels ({', '.join(trainer.label_names)}), so that there is no loss: add "
                "them, or give eval_strategy='no'"
            )
        count = trainers.find_batch_size(inputs)
        weight = float(count if count is not None else len(which))
        return loss.double() * weight, weight, 0.0

    # Once an update.

    def _update(self, u: UpdateContext) -> None:
        self.computing = True
        try:
            u.stop = self._decide(u)
        finally:
            self.computing = False

    def _decide(self, u: UpdateContext) -> bool:
        trainer, args, v = self._trainer, self._args, self._job.vars
        self._reflect(u.update)
        rate = trainer._get_learning_rate()
        if not self._follows_metric():
            trainer.lr_scheduler.step()
        v.since += u.reports["loss"]
        if args.include_num_input_tokens_seen != "no":
            v.tokens += round(u.reports["tokens"] * u.weight)
        self._reflect(u.update + 1)
        control = self._wishes(u.update + 1)
        v.callbacks = self._exported()
        v.log = v.metrics = None
        if control.should_log:
            v.log = {"loss": v.since / (u.update + 1 - v.logged)}
            if args.max_grad_norm > 0:
                v.log["grad_norm"] = u.norm
            v.log["learning_rate"] = rate
            v.total, v.since, v.logged = v.total + v.since, 0.0, u.update + 1
        v.awaits, v.stops = None, bool(control.should_training_stop) and u.update + 1 < self._max_steps
        if not control.should_evaluate or self._evaluates_in_shards and v.stops:
            v.save = bool(control.should_save)
        elif self._evaluates_in_shards:
            v.save, v.awaits = False, bool(control.should_save)
        else:
            v.save = self._judge(u.update + 1, self._evaluate(), control)
            v.stops = bool(control.should_training_stop) and u.update + 1 < self._max_steps
        return bool(v.stops)

    def _evaluated(self, u: UpdateContext) -> None:
        """At the end of an evaluation that is a step of the job."""
        self.computing = True
        try:
            self._reflect(u.update)
            v = self._job.vars
            control = trainer_callback.TrainerControl(should_save=bool(v.awaits))
            v.save = self._judge(u.update, {"eval_loss": u.reports["val_loss"]}, control)
            u.stop = v.stops = bool(control.should_training_stop)
        finally:
            self.computing = False

    def _wishes(self, updates: int) -> Any:
        """What is to be done behind an update: transformers' own schedule, and that of callbacks that decide."""
        trainer, args = self._trainer, self._args
        control = trainer_callback.TrainerControl()
        deciders = [self._flow, *self._deciding]
        for callback in deciders:
            callback.on_step_end(args, trainer.state, control, model=trainer.model)
        if updates % self._updates_of_epoch == 0 or control.should_training_stop or updates == self._max_steps:
            for callback in deciders:
                callback.on_epoch_end(args, trainer.state, control, model=trainer.model)
        if control.should_epoch_stop:
            raise Refused("a callback ends an epoch early (should_epoch_stop), which would change the order of the data")
        return control

    def _evaluate(self) -> Dict[str, Any]:
        """The metrics of an evaluation in this process. Times are left out, as they are no function of the state."""
        trainer = self._trainer
        handler, trainer.callback_handler = trainer.callback_handler, self._silent
        found: Dict[str, Any] = {}
        datasets = trainer.eval_dataset if isinstance(trainer.eval_dataset, dict) else {"": trainer.eval_dataset}
        try:
            for name, dataset in datasets.items():
                output = trainer.evaluation_loop(
                    trainer.get_eval_dataloader(dataset),
                    description="Evaluation",
                    prediction_loss_only=True if trainer.compute_metrics is None else None,
                    ignore_keys=self._ignore_keys,
                    metric_key_prefix=f"eval_{name}" if name else "eval",
                )
                found.update(output.metrics)
        finally:
            trainer.callback_handler = handler
        return {key: value for key, value in found.items() if not key.endswith("_model_preparation_time")}

    def _judge(self, updates: int, metrics: Dict[str, Any], control: Any) -> bool:
        """Decides what follows from an evaluation. Returns whether the model is saved."""
        trainer, args, v = self._trainer, self._args, self._job.vars
        v.metrics = metrics
        for callback in self._deciding:  # they compare with the best before this evaluation
            callback.on_evaluate(args, trainer.state, control, metrics=dict(metrics), model=trainer.model)
        v.callbacks = self._exported()
        is_best = self._compare(updates, metrics)
        return is_best if args.save_strategy == "best" else bool(control.should_save)

    def _compare(self, updates: int, metrics: Mapping[str, Any]) -> bool:
        """Steps a scheduler that follows a metric, and keeps the best. Returns whether it is a new best."""
        trainer, args, v = self._trainer, self._args, self._job.vars
        if args.metric_for_best_model is None:
            return False
        name = args.metric_for_best_model
        name = name if name.startswith("eval_") else f"eval_{name}"
        if name not in metrics:
            raise Refused(
                f"TrainingArguments(metric_for_best_model={args.metric_for_best_model!r}): the evaluation has no {name}, only "
                f"{', '.join(metrics)}"
            )
        value = float(metrics[name])
        if self._follows_metric():
            trainer.lr_scheduler.step(value)
        least = float("-inf") if args.greater_is_better else float("inf")
        best = least if v.best_metric is None else v.best_metric
        if not (value > best if args.greater_is_better else value < best):
            return False
        v.best_metric, v.best_step = value, updates
        if self._best is not None:
            self._best.take()
        self._reflect(updates)
        return True

    # Behind a committed step.

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            trainer = self._trainer
            trainer.control = self._watching.on_train_begin(self._args, trainer.state, trainer.control)
            self._check_wishes()

    def _after(self, e: AfterContext) -> None:
        trainer, v = self._trainer, self._job.vars
        trainer.callback_handler = self._watching
        self._reflect(e.update)
        self._begin()
        ends = e.update % self._updates_of_epoch == 0 or e.update == self._max_steps or v.stops
        every = {"log", "metrics", "save"}
        early = every - self._late if ends else every
        if not e.training:
            self._show(e.update, {"metrics", "save"})
            if ends and "metrics" in early:
                self._end_epoch(e.update)
            self._check_wishes()
            return
        watching, args, state = self._watching, self._args, trainer.state
        if (e.update - 1) % self._updates_of_epoch == 0:
            trainer.control = watching.on_epoch_begin(args, state, trainer.control)
        trainer.control = watching.on_step_begin(args, state, trainer.control)
        trainer.control = watching.on_step_end(args, state, trainer.control)
        self._check_wishes()
        self._show(e.update, early)
        if ends and (v.awaits is None or "metrics" in self._late):
            self._end_epoch(e.update)
        self._check_wishes()

    def _end_epoch(self, updates: int) -> None:
        trainer = self._trainer
        trainer.control = self._watching.on_epoch_end(self._args, trainer.state, trainer.control)
        self._show(updates, self._late)

    def _show(self, updates: int, what: Set[str]) -> None:
        """Logs, tells of an evaluation, and saves, as the update or the evaluation has decided."""
        trainer, v = self._trainer, self._job.vars
        if "log" in what and v.log is not None:
            trainer.log(dict(v.log))
        if "metrics" in what and v.metrics is not None:
            self._show_metrics(dict(v.metrics))
        if "save" in what and (v.save or trainer.control.should_save):
            self._save(updates)
            trainer.control = self._watching.on_save(self._args, trainer.state, trainer.control)

    def _show_metrics(self, metrics: Dict[str, Any]) -> None:
        trainer = self._trainer
        trainer.log(metrics)
        trainer.control = self._watching.on_evaluate(self._args, trainer.state, trainer.control, metrics)

    def _check_wishes(self) -> None:
        """Refuses what callbacks ask for that comes too late for a committed step."""
        for wish in _DEFERRED:
            if getattr(self._trainer.control, wish):
                raise Refused(
                    f"a callback sets {wish} behind a step that the flock has committed: make it an ExportableState, as "
                    "EarlyStoppingCallback is, so that what it counts is part of the state and it is asked in the update"
                )

    def _save(self, updates: int) -> None:
        """Saves the model to a folder that appears at once, also where several peers of this machine share it. Until
        then it has a hidden name, which no rotation of checkpoints takes for one."""
        trainer, root, final = self._trainer, self._args.output_dir, self._checkpoint(updates)
        os.makedirs(root, exist_ok=True)
        made, aside = (os.path.join(root, f".{os.path.basename(final)}.{what}-{os.getpid()}") for what in ("new", "old"))
        for path in (made, aside):
            shutil.rmtree(path, ignore_errors=True)
        trainer.save_model(made, _internal_call=True)
        if trainer.state.best_global_step == updates:
            trainer.state.best_model_checkpoint = final
        trainer.state.save_to_json(os.path.join(made, trainers.TRAINER_STATE_NAME))
        _replace(made, final, aside)
        trainers.rotate_checkpoints(
            output_dir=root,
            save_total_limit=self._args.save_total_limit,
            best_model_checkpoint=trainer.state.best_model_checkpoint,
            use_mtime=True,
        )


def _replace(made: str, final: str, aside: str) -> None:
    """Gives a folder its name. One of that name goes aside before, and is removed; another process may do the same
    at the same time. Raises OSError."""
    tries = 10
    for number in range(tries):
        try:
            os.rename(made, final)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or number == tries - 1:
                raise
        try:
            os.rename(final, aside)
        except FileNotFoundError:
            continue
        shutil.rmtree(aside, ignore_errors=True)


def _is_exportable(callback: Any) -> bool:
    return isinstance(callback, trainer_callback.ExportableState)
