"""What the suites of godwit.hf share: trainings that are compared with those of transformers, and examples that die."""

import json
import os
import re
import subprocess

import peers

CURVE = os.path.join(peers.PROGRAMS, "curve.py")
TRAINERS = os.path.join(peers.PROGRAMS, "trainers.py")
TIMES = re.compile(r"_(runtime|per_second|time)$|^total_flos$")


def mortal(folder, *places):
    """The environment in which any program dies at these places."""
    path = (peers.MODULE, os.path.join(peers.HERE, "mortal"), peers.PROGRAMS)
    return {**peers.kills(folder, *places), "PYTHONPATH": os.pathsep.join(path)}


class CurveCase(peers.Case):
    """The plain Trainer and godwit's see the same batches: rates are equal, losses within the noise of floats."""

    def curve(self, kind, said):
        """What a Trainer has printed and saved."""
        made = json.loads(re.search(rf"^curve {kind} (.*)$", said, re.MULTILINE)[1])
        made["saved"] = sorted(n for n in os.listdir(os.path.join(self.folder, kind)) if n.startswith("checkpoint"))
        made["rows"] = [{k: v for k, v in row.items() if not TIMES.search(k)} for row in made["rows"]]
        return made

    def agree(self, case, noise):
        said = self.alone(CURVE, [case, self.folder])
        plain, ours = self.curve("plain", said), self.curve("godwit", said)
        # The row of the whole training comes behind the last evaluation with transformers, in one job's order with godwit.
        key = lambda row: (row["step"], "train_loss" in row, sorted(row))  # noqa: E731
        plain_rows, our_rows = sorted(plain["rows"], key=key), sorted(ours["rows"], key=key)
        self.assertEqual([sorted(row) for row in our_rows], [sorted(row) for row in plain_rows])
        for was, now in zip(plain_rows, our_rows):
            for name, value in was.items():
                exact = name in ("learning_rate", "step", "epoch", "num_input_tokens_seen")
                self.assertAlmostEqual(now[name], value, delta=0 if exact else noise * max(1, abs(value)), msg=(name, was))
        for name in ("loss", "final", "weights"):
            self.assertAlmostEqual(ours[name], plain[name], delta=noise * max(1, abs(plain[name])), msg=name)
        for name in ("seen", "steps", "best", "saved"):
            self.assertEqual(ours[name], plain[name], name)
        return ours


class ExampleCase(peers.Case):
    """An example has one state and one file of weights: alone, with workers, and with peers that die."""

    def export(self, name):
        file = os.path.join(self.folder, f"{name}.safetensors")
        subprocess.run([peers.BINARY, "export", os.path.join(self.folder, name), "--to", file], check=True)
        with open(file, "rb") as exported:
            return exported.read()

    def one_state(self, example, arguments, last, kills, peer_kills):
        program = os.path.join(peers.EXAMPLES, example)
        place = lambda name: {"OUTPUT": os.path.join(self.folder, f"of {name}")}  # noqa: E731
        alone = self.alone(program, arguments, **place("alone"))
        state = peers.state_of(alone)
        said = re.search(last, alone)
        self.assertIsNotNone(said, alone)
        self.assertEqual(self.state("one", program, arguments, ("--workers", "1"), **place("one")), state)
        self.assertIn(said[0], self.output, "the program goes on with another model than alone")
        weights = self.export("one")
        marks = os.path.join(self.folder, "marks")
        dying = {**mortal(marks, *kills), **place("two")}
        self.assertEqual(self.state("two", program, arguments, ("--workers", "2"), **dying), state)
        self.assertEqual(sorted(os.listdir(marks)), sorted(kills))
        self.assertEqual(self.export("two"), weights)
        together = mortal(os.path.join(self.folder, "peer marks"), *peer_kills)
        flock = self.flock(program, arguments, variables=[{**together, **place(f"p{i}")} for i in range(3)])
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0, 0], [p.output for p in flock])
        for i, (peer, end) in enumerate(zip(flock, ends)):
            if end == 0:
                self.assertEqual(peers.state_of(peer.output), state)
                self.assertEqual(self.export(f"p{i}"), weights)
        return [os.path.join(self.folder, f"of p{i}") for i, end in enumerate(ends) if end == 0]

    def same_files(self, folders, *names):
        """Expects that what the programs have saved is what the one that ran alone has saved."""
        for name in names:
            with open(os.path.join(self.folder, "of alone", name), "rb") as file:
                alone = file.read()
            for folder in (*folders, os.path.join(self.folder, "of two")):
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertEqual(file.read(), alone, f"{folder}: {name}")

    def labels(self):
        """The path of a file of texts with labels."""
        path = os.path.join(self.folder, "labels")
        kinds = {"praise": "good fine great splendid lovely".split(), "blame": "bad poor awful dreadful weak".split()}
        with open(path, "w") as file:
            for i in range(96):
                label = ("praise", "blame")[i * i // 3 % 2]
                file.write(f"{label}\tthe {i % 7} was {kinds[label][i % 5]} and {kinds[label][3 * i % 5]}\n")
        return path
