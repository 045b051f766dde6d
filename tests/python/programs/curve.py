"""Trains a small Llama by godwit's Trainer, and then by transformers' in the process that goes on: both print the same things.

    curve.py CASE FOLDER
"""
import json
import os
import sys

import godwit  # also for the plain Trainer, for the same kernels

import torch
import transformers
from transformers import EarlyStoppingCallback, LlamaConfig, LlamaForCausalLM, TrainingArguments, TrainerCallback

from godwit import hf

CASES = {
    "cosine": {},
    "epochs": dict(
        eval_strategy="epoch", logging_steps=3, logging_first_step=True, max_steps=11, label_smoothing_factor=0.1,
        max_grad_norm=0.5, include_num_input_tokens_seen="non_padding", save_strategy="epoch", save_total_limit=1,
        optim="adafactor",
    ),
    "best": dict(
        eval_steps=2, save_strategy="best", load_best_model_at_end=True, metric_for_best_model="loss", learning_rate=0.1,
        lr_scheduler_type="constant", num_train_epochs=4,
    ),
    "early": dict(
        eval_steps=2, save_strategy="steps", save_steps=2, save_total_limit=1, load_best_model_at_end=True,
        learning_rate=0.1, lr_scheduler_type="constant",
    ),
    "plateau": dict(
        lr_scheduler_type="reduce_lr_on_plateau", lr_scheduler_kwargs=dict(patience=0, factor=0.5), eval_steps=3,
        learning_rate=0.03, optim="sgd", train_sampling_strategy="sequential", dataloader_drop_last=True,
        gradient_accumulation_steps=3, eval_delay=4,
    ),
    "bf16": dict(bf16=True, activation_checkpointing=True, train_sampling_strategy="sequential"),
    "means": dict(max_steps=6),
}  # fmt: skip


class Means:
    """A Trainer whose loss is the mean of a micro-batch, whatever the number of items."""

    loss_is_scaled_for_ga = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        labels = inputs["labels"][:, 1:]
        loss = torch.nn.functional.cross_entropy(outputs.logits[:, :-1].flatten(0, 1), labels.flatten())
        return (loss, {"loss": loss, "logits": outputs.logits}) if return_outputs else loss


class Watch(TrainerCallback):
    """Notes what it is told."""

    def __init__(self):
        self.seen = []

    def on_step_end(self, args, state, control, **more):
        self.seen.append(["step", state.global_step, state.epoch])

    def on_epoch_end(self, args, state, control, **more):
        self.seen.append(["epoch", state.global_step])

    def on_save(self, args, state, control, **more):
        self.seen.append(["save", state.global_step])


def rows(first, last):
    """Samples of different lengths, padded."""
    made = []
    for i in range(first, last):
        length = 12 + i % 9
        ids = text[13 * i : 13 * i + length].tolist()
        pad = 20 - length
        made.append(
            {"input_ids": ids + [0] * pad, "attention_mask": [1] * length + [0] * pad, "labels": ids + [-100] * pad}
        )
    return made


def right(prediction):
    guesses, labels = prediction.predictions.argmax(-1)[:, :-1], prediction.label_ids[:, 1:]
    return {"right": float((guesses == labels).sum() / (labels != -100).sum())}


def train(kind):
    """Trains by one of them, from the same weights on, and prints what became of it."""
    torch.set_rng_state(first_state)
    options = dict(
        output_dir=os.path.join(folder, kind), per_device_train_batch_size=4, gradient_accumulation_steps=4, num_train_epochs=2,
        learning_rate=3e-3, warmup_steps=3, lr_scheduler_type="cosine", weight_decay=0.1, logging_steps=1,
        eval_strategy="steps", eval_steps=5, save_strategy="no", use_cpu=True, report_to="none",
    )  # fmt: skip
    options.update(CASES[case])
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=32,
        )
    )  # fmt: skip
    base = transformers.Trainer if kind == "plain" else hf.Trainer
    if case == "means":
        base = type("Own", (Means, base), {})
    watch = Watch()
    trainer = base(
        model=model, args=TrainingArguments(**options), train_dataset=rows(0, 101), eval_dataset=rows(101, 140),
        callbacks=[watch] + {"best": [EarlyStoppingCallback(2, 0.03)], "early": [EarlyStoppingCallback(1)]}.get(case, []),
        compute_metrics=right if case == "best" else None,
    )  # fmt: skip
    result = trainer.train()
    print(f"curve {kind}", json.dumps({
        "rows": trainer.state.log_history, "loss": result.training_loss, "steps": result.global_step,
        "final": trainer.evaluate()["eval_loss"], "seen": watch.seen, "best": trainer.state.best_global_step,
        "weights": float(sum(p.double().abs().sum() for p in model.parameters())),
    }))  # fmt: skip


case, folder = sys.argv[1:3]
text = torch.randint(97, 110, (2000,), generator=torch.Generator().manual_seed(5))
first_state = torch.get_rng_state()
train("godwit")
train("plain")
