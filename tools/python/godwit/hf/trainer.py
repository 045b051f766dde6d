"""The Trainer: transformers' own, whose ``train()`` is a job."""
from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import Error, Refused
from .library import trainer_callback, trainers, transformers  # first: it says what is missing
from . import arguments as fields, data
from .run import Run

_LOOP = (
    "training_step _inner_training_loop _run_epoch _init_training_state _prepare_for_training _finalize_training "
    "_maybe_log_save_evaluate _evaluate _save_checkpoint _load_best_model _determine_best_metric get_batch_samples "
    "_clip_grad_norm _get_grad_norm _wrap_model _load_from_checkpoint"
).split()
"""Methods of transformers' loop that this one does not call: a subclass that has its own is refused."""

_NEVER = ("on_pre_optimizer_step", "on_optimizer_step", "on_substep_end")
"""Events within an update, which no callback sees."""

class Trainer(transformers.Trainer):  # type: ignore[misc]
    """A drop-in for ``transformers.Trainer`` whose ``train()`` is a job.

    ``per_device_train_batch_size`` samples are one micro-batch, which is one shard; an update has
    ``gradient_accumulation_steps`` of them, which is how many workers can compute at the same time. Losses are
    divided by the number of items in all micro-batches of the update, whose sum is exact.

    Raises Error for arguments that cannot be honoured; the text names them and says what to do instead.
    """

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        model_init: Optional[Callable[..., Any]] = None,
        compute_loss_func: Optional[Callable[..., Any]] = None,
        compute_metrics: Optional[Callable[..., Any]] = None,
        callbacks: Optional[List[Any]] = None,
        optimizers: Tuple[Any, Any] = (None, None),
        optimizer_cls_and_kwargs: Optional[Tuple[Any, Dict[str, Any]]] = None,
        preprocess_logits_for_metrics: Optional[Callable[..., Any]] = None,
    ) -> None:
        if args is None:
            args = transformers.TrainingArguments(output_dir="tmp_trainer")
        notes = fields.check(args)
        args = copy.copy(args)
        args.dataloader_num_workers, args.dataloader_pin_memory, args.dataloader_persistent_workers = 0, False, False
        args.dataloader_prefetch_factor = args.dataloader_multiprocessing_context = None
        for what, dataset in (("train_dataset", train_dataset), *data.named(eval_dataset)):
            if dataset is not None:
                data.check_indexable(what, dataset)
        super().__init__(
            model=model,
            args=args,
            data_collator=data_collator,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            model_init=model_init,
            compute_loss_func=compute_loss_func,
            compute_metrics=compute_metrics,
            callbacks=callbacks,
            optimizers=optimizers,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
            preprocess_logits_for_metrics=preprocess_logits_for_metrics,
        )
        if self.pop_callback(trainer_callback.ProgressCallback) is not None:
            self.add_callback(trainer_callback.PrinterCallback)
        for note in notes:
            trainers.logger.warning(f"godwit: TrainingArguments: {note}")
        self._run: Optional[Run] = None

    def train(
        self,
        resume_from_checkpoint: Any = None,
        trial: Any = None,
        ignore_keys_for_eval: Optional[List[str]] = None,
        *,
        dir: Optional[str] = None,
    ) -> Any:
        """Trains, and returns a ``TrainOutput`` in the one process of each peer that goes on; the model then has
        the final state, or the best one with ``load_best_model_at_end``.

        ``dir`` is where a script that runs alone keeps godwit's checkpoints, from which it resumes.
        """
        if resume_from_checkpoint:
            raise Error(
                "train(resume_from_checkpoint=...): a job resumes by itself, from the folder of --dir; alone from that of "
                "train(dir=...). To start from the model of a checkpoint, load it by from_pretrained"
            )
        if trial is not None:
            raise Error("train(trial=...): a search trains many times, and a script has one job: run one a trial")
        if self._run is not None:
            raise Error("train() is called twice; a script has one job")
        self._refuse_overrides()
        self._prepare_model()
        self._run = Run(self, ignore_keys_for_eval)
        return self._run.train(dir)

    def hyperparameter_search(self, *arguments: Any, **named: Any) -> Any:
        """Refused: a search trains many times."""
        raise Error("hyperparameter_search(): a script has one job: run the script once for each trial")

    def log(self, logs: Dict[str, float], *arguments: Any, **named: Any) -> None:
        """Logs from the process that sees committed steps. Refused within a shard or an update."""
        if self._run is not None and self._run.computing:
            raise Refused(
                "log() is called while a loss or an evaluation is computed, which any process may do, and again: log in "
                "a callback's on_step_end"
            )
        super().log(logs, *arguments, **named)

    def _refuse_overrides(self) -> None:
        own = [name for name in _LOOP if getattr(type(self), name, None) is not getattr(transformers.Trainer, name, None)]
        if own:
            raise Error(
                f"{type(self).__name__} has its own {', '.join(own)}, which belongs to a training loop that godwit "
                "replaces: put the change into compute_loss, create_optimizer, create_scheduler or a callback"
            )
        if type(self).evaluate is not transformers.Trainer.evaluate and self.args.eval_strategy != "no":
            raise Error(
                f"{type(self).__name__} has its own evaluate(), which is not called while it trains: use compute_metrics "
                "or evaluation_loop, or give eval_strategy='no' and call evaluate() behind train()"
            )
        for callback in self.callback_handler.callbacks:
            for event in _NEVER:
                if getattr(type(callback), event) is not getattr(trainer_callback.TrainerCallback, event):
                    raise Error(
                        f"the callback {type(callback).__name__} has {event}(), which lies within an update that several "
                        "processes compute: use on_step_end, or take it out"
                    )

    def _prepare_model(self) -> None:
        """What transformers' ``train()`` does with the model before its loop."""
        args = self.args
        if self.model_init is not None:
            trainers.set_seed(args.seed)
            self.model = self.model_wrapped = self.call_model_init(None)
            self.optimizer = self.lr_scheduler = None
        if getattr(args, "activation_checkpointing", None) or getattr(args, "gradient_checkpointing", None):
            self._checkpoint_activations()
        if self.processing_class is not None and hasattr(self.model, "config"):
            kinds = (trainers.PreTrainedTokenizerBase, trainers.ProcessorMixin)
            if isinstance(self.processing_class, kinds):
                trainers.align_special_tokens(self.model, self.processing_class)
        if self.neftune_noise_alpha is not None:
            self.neftune_hook_handle = trainers.activate_neftune(
                self.model, self.neftune_noise_alpha, self.accelerator
            )

    def _checkpoint_activations(self) -> None:
        kwargs = dict(getattr(self.args, "activation_checkpointing_kwargs", None) or {})
        every, offload = kwargs.pop("every_n_layers", 1), kwargs.pop("offload", False)
        if not hasattr(self.model, "activation_checkpointing_enable"):
            raise Error(
                f"TrainingArguments(activation_checkpointing=True): {type(self.model).__name__} has no "
                "activation_checkpointing_enable(): leave it out"
            )
        self.model.activation_checkpointing_enable(
            activation_checkpointing_kwargs=kwargs or None, every_n_layers=every, offload=offload
        )
