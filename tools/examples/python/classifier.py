"""Fine-tunes a classifier of texts with transformers' Trainer, as scripts for one machine do: godwit.hf.Trainer takes
its place.

    python classifier.py FILE [EPOCHS]                          on this machine alone
    godwit run classifier.py --dir a -- FILE [EPOCHS]           on a flock: the same on every node, with --join

Each line of FILE is a label, a tab, and a text. The words are bytes, and the model is BERT with random weights, so that
nothing needs to be downloaded: BertForSequenceClassification.from_pretrained and a tokenizer are the usual way. Each
peer's script ends with the best model in the folder `classifier`, by save_pretrained.
"""
import os
import sys
from pathlib import Path

import godwit  # before torch: it pins what results depend on
from godwit import hf

import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

LONGEST = 64

if len(sys.argv) < 2:
    sys.exit("classifier.py: name a file of labels and texts")
rows = [line.split("\t", 1) for line in Path(sys.argv[1]).read_text().splitlines() if "\t" in line]
epochs = float(sys.argv[2]) if len(sys.argv) > 2 else 3
names = sorted({label for label, _ in rows})
samples = [{"input_ids": list(words.encode())[:LONGEST], "labels": names.index(label)} for label, words in rows]
held_out = samples[::8]
train = [sample for i, sample in enumerate(samples) if i % 8 != 0]


def pad(batch):
    """Makes tensors of samples, with zeros behind those that are shorter."""
    longest = max(len(sample["input_ids"]) for sample in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    for row, sample in zip(ids, batch):
        row[: len(sample["input_ids"])] = torch.tensor(sample["input_ids"])
    return {
        "input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([s["labels"] for s in batch]),
    }  # fmt: skip


def metrics(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


model = BertForSequenceClassification(
    BertConfig(
        vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=LONGEST, num_labels=len(names), id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
    )
)  # fmt: skip
trainer = hf.Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=os.environ.get("OUTPUT", "classifier"), num_train_epochs=epochs, per_device_train_batch_size=8,
        gradient_accumulation_steps=4, learning_rate=2e-3, weight_decay=0.01, warmup_steps=0.1, eval_strategy="epoch",
        save_strategy="epoch", save_total_limit=2, load_best_model_at_end=True, metric_for_best_model="accuracy",
        logging_steps=5, use_cpu=True,
    ),
    data_collator=pad,
    train_dataset=train,
    eval_dataset=held_out,
    compute_metrics=metrics,
)  # fmt: skip
result = trainer.train()
trainer.save_model()
print(f"after {result.global_step} updates: {trainer.evaluate()['eval_accuracy']:.2%} of the held-out texts are right")
