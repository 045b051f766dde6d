"""Makes gpt_step.inc: what PyTorch gets from a few training steps of a tiny GPT-2, in double.

usage: python3 gpt_step.py > gpt_step.inc        (needs torch)

The model's first parameters and the data follow from formulas that test_gpt_torch.c has too, so the file holds
results only. A step takes all windows of the data, whose order therefore does not matter.
"""
import math

import torch
import torch.nn.functional as F

LAYERS, HEADS, CHANNELS, CONTEXT, VOCABULARY, WINDOWS = 2, 2, 8, 6, 19, 5
STEPS, RATE, BETAS, EPSILON, DECAY, CLIP, EVERY = 3, 0.01, (0.9, 0.95), 1e-4, 0.1, 0.5, 7

C = CHANNELS
LAYER = [
    ("ln_1.weight", (C,)),
    ("ln_1.bias", (C,)),
    ("attn.c_attn.weight", (C, 3 * C)),
    ("attn.c_attn.bias", (3 * C,)),
    ("attn.c_proj.weight", (C, C)),
    ("attn.c_proj.bias", (C,)),
    ("ln_2.weight", (C,)),
    ("ln_2.bias", (C,)),
    ("mlp.c_fc.weight", (C, 4 * C)),
    ("mlp.c_fc.bias", (4 * C,)),
    ("mlp.c_proj.weight", (4 * C, C)),
    ("mlp.c_proj.bias", (C,)),
]
SHAPES = [("wte.weight", (VOCABULARY, C)), ("wpe.weight", (CONTEXT, C))]
SHAPES += [(f"h.{layer}.{name}", shape) for layer in range(LAYERS) for name, shape in LAYER]
SHAPES += [("ln_f.weight", (C,)), ("ln_f.bias", (C,))]


def first_value(number, i, name):
    mixed = (number * 7919 + i * 104729 + 12345) * 48271 % 2147483647
    return (mixed / 2147483647 - 0.5) * 0.8 + ("ln_" in name and name.endswith("weight"))


def first_parameters():
    parameters = {}
    for number, (name, shape) in enumerate(SHAPES):
        values = [first_value(number, i, name) for i in range(math.prod(shape))]
        values = torch.tensor(values, dtype=torch.float32).double().reshape(shape)
        parameters[name] = values.requires_grad_()
    return parameters


def logits(p, tokens):
    x = p["wte.weight"][tokens] + p["wpe.weight"]
    batch = tokens.shape[0]
    for layer in range(LAYERS):
        h = f"h.{layer}."
        n = F.layer_norm(x, (C,), p[h + "ln_1.weight"], p[h + "ln_1.bias"])
        qkv = n @ p[h + "attn.c_attn.weight"] + p[h + "attn.c_attn.bias"]
        q, k, v = (part.view(batch, CONTEXT, HEADS, C // HEADS).transpose(1, 2) for part in qkv.split(C, dim=2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, CONTEXT, C)
        x = x + a @ p[h + "attn.c_proj.weight"] + p[h + "attn.c_proj.bias"]
        n = F.layer_norm(x, (C,), p[h + "ln_2.weight"], p[h + "ln_2.bias"])
        n = F.gelu(n @ p[h + "mlp.c_fc.weight"] + p[h + "mlp.c_fc.bias"], approximate="tanh")
        x = x + n @ p[h + "mlp.c_proj.weight"] + p[h + "mlp.c_proj.bias"]
    return F.layer_norm(x, (C,), p["ln_f.weight"], p["ln_f.bias"]) @ p["wte.weight"].T


def show(name, values):
    print(f"static const double {name}[] = {{")
    for i in range(0, len(values), 5):
        print("    " + " ".join(f"{v:.12e}," for v in values[i : i + 5]))
    print("};")


def main():
    stream = torch.tensor([(i * i * 7 + 3 * i) % VOCABULARY for i in range(WINDOWS * CONTEXT + 1)])
    tokens, targets = stream[:-1].view(WINDOWS, CONTEXT), stream[1:]
    p = first_parameters()
    matrices, vectors = ([v for v in p.values() if v.dim() == d] for d in (2, 1))
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON)
    losses, norms, gradients = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(logits(p, tokens).view(-1, VOCABULARY), targets)
        loss.backward()
        if step == 0:
            gradients = [g for v in p.values() for g in v.grad.flatten()[::EVERY].tolist()]
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    print(f"/* Made by gpt_step.py with PyTorch {torch.__version__.split('+')[0]}. */")
    show("torch_losses", losses)
    show("torch_norms", norms)
    print(f"/* Every {EVERY}th element of every parameter: the first step's gradients, the last step's values. */")
    show("torch_gradients", gradients)
    show("torch_values", [x for v in p.values() for x in v.detach().flatten()[::EVERY].tolist()])


main()
