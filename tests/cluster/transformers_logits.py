"""Compares logits with those of Hugging Face's GPT-2.

usage: transformers_logits.py FOLDER TOKENS LOGITS

FOLDER holds model.safetensors and config.json; TOKENS int32 numbers, LOGITS float32 ones, a row a token. Prints the
largest difference.
"""
import sys

import numpy
import torch
import transformers

folder, tokens, logits = sys.argv[1:]
model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
tokens = numpy.fromfile(tokens, dtype=numpy.int32).astype(numpy.int64)
with torch.no_grad():
    theirs = model(torch.from_numpy(tokens)[None]).logits[0].numpy()
ours = numpy.fromfile(logits, dtype=numpy.float32).reshape(theirs.shape)
print(abs(ours - theirs).max())
