"""Compares tokens with those of Hugging Face's GPT2Tokenizer.

usage: transformers_tokens.py train FOLDER TEXT SIZE
       transformers_tokens.py compare FOLDER (TEXT SHARD)...

The first makes FOLDER's vocab.json and merges.txt of SIZE tokens from a text; the second says whether each SHARD
holds the tokens of its TEXT behind one <|endoftext|>, and how many.
"""
import sys

END = "<|endoftext|>"


def train(folder, text, size):
    import tokenizers

    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train([text], vocab_size=int(size), min_frequency=2, special_tokens=[END], show_progress=False)
    tokenizer.save_model(folder)


def compare(folder, *files):
    import numpy
    import transformers

    tokenizer = transformers.GPT2Tokenizer.from_pretrained(folder)
    for text, shard in zip(files[::2], files[1::2]):
        with open(text, encoding="utf-8", newline="") as file:
            theirs = tokenizer.encode(END + file.read())
        ours = numpy.fromfile(shard, dtype="<u2")[512:].tolist()
        same = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        if ours != theirs:
            sys.exit(f"{text}: {len(ours)} tokens, theirs are {len(theirs)}; the first {same} are the same: "
                     f"{ours[same:same + 8]}, {theirs[same:same + 8]}")
        print(f"{text}: {len(ours)} tokens are the same")


{"train": train, "compare": compare}[sys.argv[1]](*sys.argv[2:])
