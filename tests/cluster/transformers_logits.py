"""Hugging Face's GPT-2 beside ours.

usage: transformers_logits.py compare FOLDER...
       transformers_logits.py make FOLDER VOCABULARY CONTEXT CHANNELS LAYERS HEADS

compare: FOLDER holds model.safetensors and config.json, `tokens` (int32 numbers) and `logits` (float32 ones, a row a token).
Prints the largest difference of each. make: saves a model of random weights to FOLDER, as transformers saves one.
"""
import sys

import numpy
import torch
import transformers


def compare(*folders):
    for folder in folders:
        model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
        tokens = numpy.fromfile(f"{folder}/tokens", dtype=numpy.int32).astype(numpy.int64)
        with torch.no_grad():
            theirs = model(torch.from_numpy(tokens)[None]).logits[0].numpy()
        ours = numpy.fromfile(f"{folder}/logits", dtype=numpy.float32).reshape(theirs.shape)
        print(abs(ours - theirs).max())


def make(folder, vocabulary, context, channels, layers, heads):
    config = transformers.GPT2Config(
        vocab_size=int(vocabulary), n_positions=int(context), n_embd=int(channels), n_layer=int(layers), n_head=int(heads)
    )
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)  # biases and norms that are not neutral, too
    model.save_pretrained(folder)


{"compare": compare, "make": make}[sys.argv[1]](*sys.argv[2:])
