"""Tokens beside those of Hugging Face's tokenizers library.

usage: tokenizers_tokens.py update
       tokenizers_tokens.py compare GODWIT [NAME...]
       tokenizers_tokens.py sample GODWIT [NAME...]

The tokenizers and texts are those of tests/kernels/data/bpe/tokenizers.json. `update` writes the number of tokens that
the library makes of the texts, and their CRC, into that file, for tests that run without the library. `compare` has
GODWIT tokenize larger texts as well, every code point among them, and says where tokens differ; of code points that
Unicode has assigned lately, only those are compared which this Python knows, of Unicode 14 or older. `sample` takes a part
of the code points: those of the scripts of Europe and the Near East, and some of the others.
"""
import array
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata
import zlib

FILE = pathlib.Path(__file__).parent.parent / "kernels" / "data" / "bpe" / "tokenizers.json"


def letters():
    """The letter that a vocabulary spells each byte as."""
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    others = [b for b in range(256) if b not in shown]
    return {b: chr(b) if b in shown else chr(256 + others.index(b)) for b in range(256)}


def document(all_of_them, one):
    """A tokenizer.json: byte b is token b, and then comes what the merges make."""
    letter = letters()
    lacks = one.get("lacks", [])
    merges = [merge for merge in all_of_them["merges"] if not any(letter[byte] in merge for byte in lacks)]
    vocab = {letter[byte]: byte for byte in range(256) if byte not in lacks}
    vocab.update({merge.replace(" ", ""): 256 + i for i, merge in enumerate(merges)})
    if "unknown" in one:
        vocab[one["unknown"]] = 256 + len(merges)
    model = {"type": "BPE", "unk_token": one.get("unknown"), "vocab": vocab, "merges": merges, **one.get("model", {})}
    added, following = [], len(vocab)
    for token in one.get("added", []):
        number = vocab.get(token["content"], following)  # as the library numbers them
        following += number == following
        added.append({"id": number, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                      "special": False, **token})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": one.get("normalizer"),
            "pre_tokenizer": one["pre_tokenizer"], "post_processor": None, "decoder": None, "model": model}


def load():
    return json.loads(FILE.read_text(encoding="utf-8"))


def update():
    import tokenizers

    everything = load()
    for one in everything["tokenizers"]:
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(document(everything, one)))
        tokens = [token for text in everything["texts"] for token in tokenizer.encode(text, add_special_tokens=False).ids]
        one["tokens"] = len(tokens)
        one["crc"] = zlib.crc32(b"".join(token.to_bytes(4, "little") for token in tokens))
    lines = [json.dumps(one, ensure_ascii=False) for one in everything["tokenizers"]]
    texts = [json.dumps(text, ensure_ascii=False) for text in everything["texts"]]
    merges = json.dumps(everything["merges"], ensure_ascii=False)
    FILE.write_text('{\n"merges": ' + merges + ',\n"texts": [\n' + ",\n".join(texts) + '\n],\n"tokenizers": [\n' +
                    ",\n".join(lines) + "\n]\n}\n", encoding="utf-8")


def mixed(texts, size):
    generator = random.Random(5)
    words = [word for text in texts for word in text.split(" ")]
    parts, length = [], 0
    while length < size:
        kind = generator.random()
        if kind < 0.6:
            part = generator.choice(words)
        elif kind < 0.7:
            part = generator.choice(texts)
        elif kind < 0.8:
            part = generator.choice([" ", "  ", "\n", "\n\n", "\t", "\r\n", " \n "]) * generator.randrange(1, 4)
        elif kind < 0.9:
            part = str(generator.randrange(10 ** generator.randrange(1, 9)))
        else:
            part = chr(generator.choice([generator.randrange(32, 127), generator.randrange(0x1F300, 0x1F650)]))
        parts += [part, " " if generator.random() < 0.6 else ""]
        length += len(part)
    return "".join(parts)


def large_texts(texts, every):
    """The last code points are one in `every`. Where that is not all of them, texts are shorter, and those of the file, of which
    it has the library's tokens, are left out."""
    # 0x1FAD7 came in 14.0, of whose later numbers this Python may know more
    known = [chr(code) for code in (*range(1, 0x800), *range(0x800, 0x110000, every))
             if not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) != "Cn" and not is_late(code)]
    yield "every code point", "".join(known)
    yield "every code point behind a space", " ".join(known)
    yield "every code point between letters", "a1".join(known)
    yield "mixed", mixed(texts, 400000 if every == 1 else 40000)
    yield "blanks", " " * (100000 // every) + "x" + "\n" * (70000 // every) + " a"
    for i, text in enumerate(texts if every == 1 else ()):
        yield f"text {i}", text


LATE = [(0x897, 0x897), (0x1C89, 0x1C8A), (0x1B4E, 0x1B4F), (0x1B7F, 0x1B7F), (0x1ACF, 0x1AEB), (0xCF3, 0xCF3),
        (0xECE, 0xECE), (0x2427, 0x2429), (0x2FFC, 0x2FFF), (0x31E4, 0x31E5), (0x31EF, 0x31EF), (0x20C1, 0x20C1),
        (0xA7CB, 0xA7CF), (0xA7D2, 0xA7D2), (0xA7D4, 0xA7D4), (0xA7DA, 0xA7DC), (0xA7F1, 0xA7F1), (0xFBC3, 0xFBD2),
        (0xFD90, 0xFD91), (0xFDC8, 0xFDCE), (0x10D40, 0x10D8F), (0x105C0, 0x105F3), (0x10EC2, 0x10EFF),
        (0x11240, 0x11241), (0x10940, 0x10959), (0x11380, 0x113E2), (0x116D0, 0x116E3), (0x11B00, 0x11B09),
        (0x11B60, 0x11B67), (0x11BC0, 0x11BF9), (0x11DB0, 0x11DE9), (0x11F00, 0x11F5A), (0x1342F, 0x143FA),
        (0x16100, 0x16139), (0x16D40, 0x16D79), (0x16EA0, 0x16ED3), (0x16FF2, 0x16FF6), (0x187F8, 0x187FF),
        (0x18CFF, 0x18D1E), (0x18D80, 0x18DF2), (0x1B132, 0x1B132), (0x1B155, 0x1B155), (0x1CC00, 0x1CEBF),
        (0x1D2C0, 0x1D2D3), (0x1DF25, 0x1DF2A), (0x1E030, 0x1E08F), (0x1E4D0, 0x1E4F9), (0x1E5D0, 0x1E5FF),
        (0x1E6C0, 0x1E6FF), (0x1F6D8, 0x1F6D8), (0x1F6DC, 0x1F6DC), (0x1F774, 0x1F77F), (0x1F7D9, 0x1F7D9),
        (0x1F8B2, 0x1F8BB), (0x1F8C0, 0x1F8C1), (0x1F8D0, 0x1F8D8), (0x1FA54, 0x1FA57), (0x1FA75, 0x1FA77),
        (0x1FA87, 0x1FA8F), (0x1FAAD, 0x1FAAF), (0x1FABB, 0x1FABF), (0x1FAC6, 0x1FAC8), (0x1FACD, 0x1FACF),
        (0x1FADA, 0x1FADF), (0x1FAE8, 0x1FAEF), (0x1FAF7, 0x1FAF8), (0x1FBFA, 0x1FBFA), (0x2B739, 0x2B73F),
        (0x2EBF0, 0x2EE5D), (0x31350, 0x3347B)]


def is_late(code):
    return any(first <= code <= last for first, last in LATE)


# Marks that came after Unicode 9, which the library's normalizer takes for unassigned: it does not put them into their
# order, nor join the two of Dives Akuru.
LATE_MARKS = [(0x7FD, 0x7FD), (0x898, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C),
              (0xEBA, 0xEBA), (0x1715, 0x1715), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0xA82C, 0xA82C), (0x10D24, 0x10D27),
              (0x10EAB, 0x10EAC), (0x10F46, 0x10F50), (0x10F82, 0x10F85), (0x11070, 0x11070), (0x1133B, 0x1133B),
              (0x1145E, 0x1145E), (0x11839, 0x1183A), (0x11930, 0x11930), (0x1193D, 0x1193E), (0x11943, 0x11943),
              (0x119E0, 0x119E0), (0x11A34, 0x11A34), (0x11A47, 0x11A47), (0x11A99, 0x11A99), (0x11D42, 0x11D42),
              (0x11D44, 0x11D45), (0x11D97, 0x11D97), (0x16FF0, 0x16FF1), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE),
              (0x1E2EC, 0x1E2EF)]


WITHOUT_LATE_MARKS = {code: None for first, last in LATE_MARKS for code in range(first, last + 1)}


def compare(godwit, *names, every=1):
    import tokenizers

    everything, wrong = load(), 0
    texts = list(large_texts(everything["texts"], every))
    for one in everything["tokenizers"]:
        if names and one["name"] not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "tokenizer.json").write_text(json.dumps(document(everything, one)), encoding="utf-8")
            tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            for name, text in texts:
                if one.get("normalizer"):
                    text = text.translate(WITHOUT_LATE_MARKS)
                (folder / "text").write_bytes(text.encode())
                theirs = tokenizer.encode(text, add_special_tokens=False).ids
                if not theirs:
                    continue
                run = subprocess.run([godwit, "tokenize", "--tokenizer", folder, "--to", folder / "tokens.bin",
                                      folder / "text"], capture_output=True, text=True)
                if run.returncode != 0:
                    print(f"{one['name']}, {name}: {run.stderr}")
                    wrong += 1
                    continue
                written = (folder / "tokens.bin").read_bytes()[1024:]
                ours = array.array("H", written).tolist()
                if ours != theirs:
                    wrong += 1
                    at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), -1)
                    near = [[tokenizer.id_to_token(token) for token in some[max(0, at - 2):at + 6]]
                            for some in (ours, theirs)]
                    print(f"{one['name']}, {name}: {len(ours)} tokens, theirs are {len(theirs)}; at {at}: {near}")
    print("all tokens are the same" if wrong == 0 else f"{wrong} texts differ")
    return 1 if wrong else 0


def sample(godwit, *names):
    return compare(godwit, *names, every=61)


if __name__ == "__main__":
    sys.exit({"update": update, "compare": compare, "sample": sample}[sys.argv[1]](*sys.argv[2:]))
