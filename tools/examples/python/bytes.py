"""A small language model on bytes: it learns to continue a text.

    python bytes.py TEXT [UPDATES [DEVICE]]                     on this machine alone; DEVICE is cpu or cuda
    godwit run bytes.py --dir a -- TEXT [UPDATES [DEVICE]]      on a flock: the same on every node, with --join
"""
import sys
from pathlib import Path

import godwit  # before torch: it pins what results depend on

import torch
import torch.nn.functional as F
from torch import nn

CONTEXT, WIDTH, HEADS, LAYERS, BATCH, SHARDS = 64, 64, 4, 2, 4, 12

if len(sys.argv) < 2:
    sys.exit("bytes.py: name a text file")
text = torch.frombuffer(bytearray(Path(sys.argv[1]).read_bytes()), dtype=torch.uint8)
updates = int(sys.argv[2]) if len(sys.argv) > 2 else 200
device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
train, held_out = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(n, t, WIDTH)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.token.weight.T


model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
job = godwit.Job(model, optimizer, shards=SHARDS, updates=updates, clip=1.0, eval_every=50, eval_shards=4,
                 data=[sys.argv[1]], keep={"scheduler": scheduler})


@job.shard
def shard(s):
    data = train if s.training else held_out
    windows = [data[i : i + CONTEXT + 1] for i in s.indices(len(data) - CONTEXT, BATCH)]
    tokens = torch.stack(windows).long().to(device)
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum"), BATCH * CONTEXT


@job.update
def update(u):
    scheduler.step()


result = job.run()

model.eval()
tokens = torch.tensor(list(b"The "), device=device)[None]
for _ in range(100):
    with torch.no_grad():
        tokens = torch.cat((tokens, model(tokens[:, -CONTEXT:])[:, -1:].argmax(-1)), 1)
print(f"after {result.updates} updates: {bytes(tokens[0].tolist())!r}")
