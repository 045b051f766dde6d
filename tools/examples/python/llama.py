"""A small model of Llama's shape on bytes of a text: RMSNorm, rotary positions, SwiGLU and grouped heads, by the
classes of transformers, with random weights.

    python llama.py TEXT [UPDATES]                              on this machine alone
    godwit run llama.py --dir a -- TEXT [UPDATES]               on a flock: the same on every node, with --join
    godwit export a --to llama.safetensors                      the weights, also while it runs
"""
import sys
from pathlib import Path

import godwit  # before torch: it pins what results depend on

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

CONTEXT, BATCH, SHARDS = 64, 4, 12

if len(sys.argv) < 2:
    sys.exit("llama.py: name a text file")
text = torch.frombuffer(bytearray(Path(sys.argv[1]).read_bytes()), dtype=torch.uint8)
updates = int(sys.argv[2]) if len(sys.argv) > 2 else 200
train, held_out = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]

model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=192, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=CONTEXT, bos_token_id=None, eos_token_id=None, use_cache=False,
    )
)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1, fused=True)
scheduler = get_cosine_schedule_with_warmup(optimizer, updates // 10, updates)
job = godwit.Job(model, optimizer, shards=SHARDS, updates=updates, clip=1.0, eval_every=50, eval_shards=4,
                 data=[sys.argv[1]], keep={"scheduler": scheduler})


@job.shard
def shard(s):
    data = train if s.training else held_out
    windows = [data[i : i + CONTEXT + 1] for i in s.indices(len(data) - CONTEXT, BATCH)]
    tokens = torch.stack(windows).long()
    logits = model(tokens[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum"), BATCH * CONTEXT


@job.update
def update(u):
    scheduler.step()


result = job.run()

tokens = model.eval().generate(torch.tensor([list(b"The ")]), max_length=CONTEXT, do_sample=False, pad_token_id=0)
print(f"after {result.updates} updates: {bytes(tokens[0].tolist())!r}")
