"""What `godwit export` writes, beside NumPy, PyTorch and transformers.

usage: exported.py types STORED HALF BRAIN
       exported.py train FOLDER SIZE
       exported.py tokenizer (FOLDER SOURCE)...

types: the three files hold the same tensors as they are stored, as F16 and as BF16; NumPy and PyTorch round the first to the
same bits. train: writes a tokenizer of SIZE tokens to FOLDER, as tokenizer.json, vocab.json and merges.txt. tokenizer:
AutoTokenizer loads each FOLDER, and its tokens are those of the tokenizer.json in SOURCE, or bytes, if that is a hyphen;
GPT2LMHeadModel loads it, too.
"""
import pathlib
import sys

TEXT = "Grüße, it's 3 o'clock!\n\n  \tΚαλημέρα 日本語 🙂 <|endoftext|>x"
END = "<|endoftext|>"


def bits(tensor):
    import torch

    return tensor.contiguous().view(torch.uint8)


def types(stored, half, brain):
    import numpy
    import torch
    from safetensors.torch import load_file

    numpy.seterr(over="ignore", invalid="ignore")
    stored, half, brain = map(load_file, (stored, half, brain))
    compared = 0
    for name, tensor in stored.items():
        if not tensor.is_floating_point():
            assert torch.equal(tensor, half[name]) and torch.equal(tensor, brain[name]), name
            continue
        wide = tensor.numpy() if tensor.dtype != torch.bfloat16 else tensor.float().numpy()
        expected = [(half[name], torch.from_numpy(wide.astype(numpy.float16)))]
        if tensor.dtype != torch.float64:  # PyTorch rounds those twice
            expected += [(half[name], tensor.to(torch.float16)), (brain[name], tensor.to(torch.bfloat16))]
        for ours, theirs in expected:
            assert ours.dtype == theirs.dtype and torch.equal(ours.isnan(), theirs.isnan()), name
            same = torch.equal(*(bits(torch.where(one.isnan(), torch.zeros_like(one), one)) for one in (ours, theirs)))
            assert same, name
            compared += ours.numel()
    print(f"{compared} numbers are the same")


def train(folder, size):
    import tokenizers

    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([TEXT * 3], vocab_size=int(size), min_frequency=2, special_tokens=[END], show_progress=False)
    pathlib.Path(folder).mkdir()
    tokenizer.save_model(folder)
    tokenizer.save(folder + "/tokenizer.json")
    print("both files are the same")


def tokenizer(*words):
    import tokenizers
    import transformers

    for folder, source in zip(words[::2], words[1::2]):
        found = transformers.AutoTokenizer.from_pretrained(folder)
        tokens = found.encode(TEXT)
        is_bytes = source == "-"
        theirs = list(TEXT.encode()) if is_bytes else tokenizers.Tokenizer.from_file(source + "/tokenizer.json").encode(TEXT).ids
        assert tokens == theirs, f"{folder}: {tokens}\n{theirs}"
        assert found.decode(tokens) == TEXT, repr(found.decode(tokens))
        assert (found.eos_token == END) != is_bytes, found.eos_token
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        assert model.config.eos_token_id == (None if is_bytes else found.eos_token_id)
    print(f"the tokens of {len(words) // 2} folders are the same")


{"types": types, "train": train, "tokenizer": tokenizer}[sys.argv[1]](*sys.argv[2:])
