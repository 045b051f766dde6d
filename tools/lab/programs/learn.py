"""Runs the example bytes.py, and says `loss VALUE`: that of the model which it ends with on the whole of the held-out text.
The evaluations of the example itself take 16 windows, whose choice depends on the seed.

    learn.py TEXT UPDATES        with the module `godwit`, or with its stand-in in plain/, on PYTHONPATH
"""
import os
import runpy

import godwit  # noqa: F401

import torch
import torch.nn.functional as F

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python", "bytes.py")
BATCH = 64

found = runpy.run_path(EXAMPLE)
model, text, context = found["model"], found["held_out"].long(), found["CONTEXT"]
model.eval()
windows = text[: len(text) // (context + 1) * (context + 1)].view(-1, context + 1)
with torch.no_grad():
    losses = [
        F.cross_entropy(model(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        for part in windows.split(BATCH)
    ]
print("loss", sum(losses) / (len(windows) * context), flush=True)
