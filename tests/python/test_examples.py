"""What `godwit check` says of the examples: they are pure. Each takes as long as its libraries take to load, four times."""

import os
import sys

import peers
import test_check

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402


class Examples(test_check.Case):
    def test_the_examples_are_pure(self):
        with open(os.path.join(self.folder, "labels"), "w") as file:
            for i in range(80):
                file.write(f"{i % 2}\tsome words of a text number {i * i % 17} that are {['poor', 'fine'][i % 2]}\n")
        text, labels, pictures = self.text(), os.path.join(self.folder, "labels"), self.pictures()
        for name, arguments, needs in (
            ("bytes.py", [text], []), ("images.py", [pictures], []), ("llama.py", [text, "4"], ["transformers"]),
            ("lora.py", [text, "4"], ["transformers", "peft"]), ("lit.py", [pictures, "1"], ["lightning"]),
            ("classifier.py", [labels, "1"], ["transformers", "accelerate"]), ("spirals.py", ["9"], ["jax", "optax"]),
        ):  # fmt: skip
            if needs and peers.lacks(*needs):
                continue
            status, _, text_of_check = self.check(os.path.join(peers.EXAMPLES, name), arguments=arguments)
            self.assertEqual(status, 0, (name, text_of_check))


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch"), what="programs")
