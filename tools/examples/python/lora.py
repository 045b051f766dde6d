"""Fine-tunes a language model with LoRA: peft's adapters are trained, and the base stays as it is.

    python lora.py TEXT [UPDATES] [BASE]                        on this machine alone
    godwit run lora.py --dir a -- TEXT [UPDATES] [BASE]         on a flock: the same on every node, with --join

BASE is what `godwit export` makes of llama.py; without it the base has random weights. Each peer's script ends with the
adapters in the folder `adapters`, by save_pretrained.
"""
import os
import sys
from pathlib import Path

import godwit  # before torch: it pins what results depend on
from godwit import hf

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

CONTEXT = 64

if len(sys.argv) < 2:
    sys.exit("lora.py: name a text file")
text = torch.frombuffer(bytearray(Path(sys.argv[1]).read_bytes()), dtype=torch.uint8)
updates = int(sys.argv[2]) if len(sys.argv) > 2 else 100


class Windows:
    """Pieces of a text, one beside the other."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data) // CONTEXT

    def __getitem__(self, i):
        tokens = self.data[i * CONTEXT : (i + 1) * CONTEXT].long()
        return {"input_ids": tokens, "labels": tokens}


base = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=192, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=CONTEXT, bos_token_id=None, eos_token_id=None, use_cache=False,
    )
)  # fmt: skip
if len(sys.argv) > 3:
    base.load_state_dict(load_file(sys.argv[3]))
model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, target_modules="all-linear"))

trainer = hf.Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=os.environ.get("OUTPUT", "adapters"), max_steps=updates, per_device_train_batch_size=4,
        gradient_accumulation_steps=8, learning_rate=1e-2, lr_scheduler_type="cosine", warmup_steps=updates // 10,
        eval_strategy="steps", eval_steps=50, logging_steps=10, save_strategy="no", use_cpu=True,
    ),
    train_dataset=Windows(text[: len(text) * 9 // 10]),
    eval_dataset=Windows(text[len(text) * 9 // 10 :]),
)  # fmt: skip
result = trainer.train()
trainer.save_model()
print(f"after {result.global_step} updates: loss {result.training_loss:.6f}, {model.get_nb_trainable_parameters()}")
