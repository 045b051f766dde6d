"""godwit.hf.Trainer with what it refuses, and its table.

    trainers.py table|refusals|notes|orders|saving|identity|stop|log|labels|train...
"""
import dataclasses
import inspect
import logging
import os
import sys

import godwit

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback, TrainingArguments

from godwit import hf
from godwit.hf import arguments, data
from godwit.hf.library import trainers
from godwit.hf.run import Run

what = sys.argv[1]
rows = [{"input_ids": [i, i + 1, i + 2], "labels": [i, i + 1, i + 2]} for i in range(40)]
if os.environ.get("GODWIT_TEST_DIFFERS") == "data":
    rows[20]["labels"][1] += 1


def model():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=8,
        )
    )  # fmt: skip


def options(**more):
    given = dict(output_dir="out", use_cpu=True, report_to="none", save_strategy="no", max_steps=3)
    return TrainingArguments(**{**given, "gradient_accumulation_steps": 2, "logging_steps": 1, **more})


def make(kind=hf.Trainer, train=rows, evaluate=rows, callbacks=None, **more):
    return kind(model=model(), args=options(**more), train_dataset=train, eval_dataset=evaluate, callbacks=callbacks)


def table():
    """Each field of the installed transformers, and what becomes of it."""
    ours, theirs = (inspect.signature(kind.__init__).parameters for kind in (hf.Trainer, transformers.Trainer))
    print("arguments:", "same" if list(ours) == list(theirs) else f"{list(ours)} {list(theirs)}")
    for field in dataclasses.fields(TrainingArguments):
        rule = arguments.TABLE.get(field.name)
        print(f"{field.name}: {rule.kind.value if rule is not None else 'unknown'}")


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(rows)


class OwnStep(hf.Trainer):
    def training_step(self, *more):
        return super().training_step(*more)


class OwnEvaluate(hf.Trainer):
    def evaluate(self, *more, **named):
        return super().evaluate(*more, **named)


class OwnSampler(hf.Trainer):
    def _get_train_sampler(self, *more):
        return torch.utils.data.WeightedRandomSampler([1.0] * 40, 40, generator=torch.Generator())


class Swapping(torch.optim.SGD):
    def train(self):
        pass

    def eval(self):
        pass


class OwnOptimizer(hf.Trainer):
    def create_optimizer(self, model=None):
        self.optimizer = Swapping(self.model.parameters(), 0.1)
        return self.optimizer


class Early(TrainerCallback):
    def on_optimizer_step(self, args, state, control, **more):
        pass


class Stops(TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        control.should_training_stop = True


class Logs(hf.Trainer):
    def compute_loss(self, *more, **named):
        loss = super().compute_loss(*more, **named)
        self.log({"mine": 1.0})
        return loss


def twice():
    trainer = make()
    trainer._run = "a run"
    trainer.train()


def unknown():
    @dataclasses.dataclass
    class Newer(TrainingArguments):
        made_tomorrow: bool = False

    hf.Trainer(model=model(), args=Newer(output_dir="out", use_cpu=True, made_tomorrow=True), train_dataset=rows)


REFUSED = {
    "fp16": lambda: make(fp16=True),
    "torch_compile": lambda: make(torch_compile=True),
    "push_to_hub": lambda: make(push_to_hub=True),
    "auto_find_batch_size": lambda: make(auto_find_batch_size=True),
    "resume_from_checkpoint": lambda: make(resume_from_checkpoint="there"),
    "batch_rebalance": lambda: make(train_sampling_strategy="batch_rebalance"),
    "eval_on_start": lambda: make(eval_on_start=True, eval_strategy="epoch"),
    "debug": lambda: make(debug="underflow_overflow"),
    "accelerator_config": lambda: make(accelerator_config={"split_batches": True}),
    "optim": lambda: make(optim_target_modules="all-linear"),
    "fsdp": lambda: make_fsdp(),
    "unknown field": unknown,
    "stream": lambda: make(train=Stream()),
    "empty": lambda: make(train=[]),
    "resume": lambda: make().train("there"),
    "search": lambda: make().hyperparameter_search(),
    "training step": lambda: make(OwnStep).train(),
    "evaluate": lambda: make(OwnEvaluate, eval_strategy="epoch").train(),
    "event": lambda: make(callbacks=[Early()]).train(),
    "generator": lambda: make(OwnSampler).train(),
    "swaps": lambda: make(OwnOptimizer).train(),
    "no update": lambda: make(max_steps=-1, num_train_epochs=0).train(),
    "twice": twice,
}


def make_fsdp():
    given = options()
    given.fsdp = True
    hf.Trainer(model=model(), args=given, train_dataset=rows)


def refusals():
    for name, make_it in REFUSED.items():
        try:
            make_it()
            print(f"{name}: nothing")
        except godwit.Error as error:
            print(f"{name}: {type(error).__name__} {error}")


class Weighted(hf.Trainer):
    def _get_train_sampler(self, *more):
        return torch.utils.data.WeightedRandomSampler([1.0 + i % 3 for i in range(40)], 40)


def orders():
    """Whether the order of each epoch is that of the DataLoader, and the same whatever was asked for before."""
    cases = {
        "random": (hf.Trainer, {}), "seeded": (hf.Trainer, {"data_seed": 7, "dataloader_drop_last": True}),
        "sequential": (hf.Trainer, {"train_sampling_strategy": "sequential"}),
        "group_by_length": (hf.Trainer, {"train_sampling_strategy": "group_by_length"}), "own": (Weighted, {}),
    }  # fmt: skip
    for name, (kind, more) in cases.items():
        loader = make(kind, per_device_train_batch_size=6, **more).get_train_dataloader()
        order, other = (data.Order(loader, 3) for _ in range(2))
        epochs = [[order.batch(e, b) for b in range(order.batches)] for e in (0, 1, 2)]
        torch.manual_seed(1234)
        again = [[other.batch(e, b) for b in reversed(range(other.batches))][::-1] for e in (2, 0, 1)]
        theirs = []
        for e in range(3):
            loader.set_epoch(e)
            theirs.append([batch["input_ids"][:, 0].tolist() for batch in loader])
        pure = again == [epochs[2], epochs[0], epochs[1]]
        print(f"{name}: {pure} {theirs == epochs} {epochs[0] != epochs[1]} {sorted(map(len, epochs[0]))}")


def saving():
    """What rotation takes for a checkpoint while one is made, and what is there when it has been made twice."""
    trainer = make()
    made = Run(trainer, None)
    save = trainer.save_model

    def save_model(folder, **more):
        save(folder, **more)
        print("meanwhile:", [os.path.basename(path) for path in trainers.sort_checkpoints(output_dir="out")])

    trainer.save_model = save_model
    for _ in range(2):
        made._save(1)
    print("then:", sorted(os.listdir("out")), sorted(os.listdir("out/checkpoint-1"))[-2:])


class Notes(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("godwit: TrainingArguments: "):
            name, _, why = record.getMessage()[len("godwit: TrainingArguments: ") :].partition("=")
            print(f"{name}: {why}")


def notes():
    """What is said of arguments that have no meaning."""
    transformers.utils.logging.get_logger("transformers").addHandler(Notes())
    make(dataloader_num_workers=2, ddp_timeout=5)


def identity():
    """What peers compare: the lines that are others where the data are others, or a rate."""

    def lines(**more):
        return Run(make(**more), None)._job.program().description.lines

    other = [*rows[:20], {**rows[20], "labels": [20, 22, 22]}, *rows[21:]]
    plain = lines()
    for name, more in {"same": {}, "data": {"train": other}, "rates": {"learning_rate": 1e-3}}.items():
        found = lines(**more)
        print(f"{name}: {sorted(line for line in {**plain, **found} if plain.get(line) != found.get(line))}")


def stop():
    """A callback asks too late for the end. What refuses it ends this process."""
    sys.stdout.flush()
    make(callbacks=[Stops()]).train()


TABLES = {
    "table": table, "refusals": refusals, "orders": orders, "saving": saving, "notes": notes, "identity": identity, "stop": stop,
}  # fmt: skip
if what in TABLES:
    for name in sys.argv[1:]:
        print(f"== {name}")
        TABLES[name]()
elif what == "log":
    make(Logs).train()
elif what == "labels":
    make(evaluate=[{"input_ids": [1, 2, 3]}] * 8, eval_strategy="epoch", max_steps=2).train()
else:
    make(max_steps=200).train()
