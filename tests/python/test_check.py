"""What `godwit check` finds: impurities that are planted in small programs, by the line that is to blame."""

import os
import re
import subprocess
import sys
import textwrap
import time
import unittest

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

PLAIN = os.path.join(peers.PROGRAMS, "plain.py")
ARRAYS = """
import godwit
import numpy
from godwit import arrays
{top}
data = numpy.random.normal(size=(600, 4))
first = numpy.full(4, 0.5)
{first}
job = arrays.Job({{"w": first}}, {{"g": numpy.zeros(4)}}, shards=6, updates=8, eval_every=3, eval_shards=2)
job.vars.count = 0

@job.shard
def shard(s, state):
    x = data[s.indices(600, 10)]
    noise = numpy.random.normal()
{shard}
    return {{"g": (x @ state["w"]) @ x + noise}}, len(x)

@job.update
def update(u, state, totals):
    job.vars.count += 1
    scale = 0.1
{update}
    state["w"] -= scale * totals["g"] / u.weight

{more}
job.run()
"""
NETS = """
import godwit
import torch
import torch.nn.functional as F
from torch import nn
{top}
inputs, labels = torch.randn(64, 6), torch.randint(0, 3, (64,))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.left, self.right, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.norm = nn.BatchNorm1d(8)
{net}

    def forward(self, x, which):
        x = self.norm(torch.tanh(self.first(x)))
        x = self.left(x) if which % 2 else self.right(x)
        return self.last(x)

net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
{optimizer}
job = godwit.Job(net, optimizer, shards=6, updates=4, parts=2, eval_every=2, eval_shards=2)
job.vars.count = 0

@job.shard
def shard(s):
    which = s.indices(64, 8)
    x = inputs[which]
    more = 0
{shard}
    return F.cross_entropy(net(x, s.shard), labels[which], reduction="sum") + more, len(which)

@job.update
def update(u):
    job.vars.count += 1

{run}
"""
# What is planted where, and what the check says of it. HERE marks the line that it is to name before all others.
IN_ARRAYS = {
    "own generator": ({"top": "own = numpy.random.default_rng(3)  # HERE", "shard": "noise += own.normal()"}, "a generator of its own"),
    "unseeded": ({"top": "own = numpy.random.RandomState()  # HERE", "shard": "noise += own.normal()"}, "a generator of its own"),
    "set order": ({
        "top": "words = ['word %d' % i for i in range(9)]",
        "shard": "for place, word in enumerate(set(words)):  # HERE\n    noise += place / int(word[5:] + '1')",
    }, "the order of a set"),
    "time": ({"top": "import time", "shard": "noise += time.time() % 1  # HERE"}, "the time"),
    "cache": ({
        "top": "import functools\n@functools.lru_cache(maxsize=None)\ndef cached(key):  # HERE\n    return numpy.random.normal()",
        "shard": "noise += cached(0)",
    }, "a cache"),
    "cache in a dict": ({
        "top": "known = {}",
        "shard": "if 'scale' not in known:\n    known['scale'] = x.mean()  # HERE\nnoise += known['scale']",
    }, "a change in place of 'known'"),
    "prefetch thread": ({
        "top": "import queue, threading\nready = queue.Queue(2)\ndef prefetch():\n    for i in range(10**6):\n        ready.put(data[i % 600])",
        "shard": "if ready.empty():\n    threading.Thread(target=prefetch, daemon=True).start()  # HERE\nnoise += ready.get().sum()",
    }, "a thread"),
    "in-place data": ({"shard": "mine = data[10 * s.shard : 10 * s.shard + 10]\nmine -= mine.mean()  # HERE\nx = mine"}, "a change in place of 'data'"),
    "numpy seed": ({"shard": "numpy.random.seed()  # HERE\nnoise += numpy.random.normal()"}, "seeding within the program"),
    "address": ({"top": "layer = object()", "shard": "noise += id(layer) // 4096 % 1009  # HERE"}, "the address of an object"),
    "counter": ({"top": "counter = 0", "shard": "global counter  # HERE\ncounter += 1\nnoise += counter"}, "a variable 'counter'"),
    "default argument": ({
        "top": "def count(seen=[]):  # HERE\n    seen.append(1)\n    return len(seen)", "shard": "noise += count()",
    }, "a default argument"),
    "iterator": ({"top": "batches = iter(range(10**6))  # HERE", "shard": "noise += next(batches)"}, "an iterator"),
    "process": ({"top": "import os", "shard": "noise += os.getpid()  # HERE"}, "the name of its process"),
    "process, not hashes": ({
        "top": """
            import os
            words = sorted(set("some words".split()))
            assert "x" not in {"a", "b"}
            with open("starts", "a+") as starts:  # the first processes have what makes them differ in common
                starts.write("x")
                starts.seek(0)
                differs = len(starts.read()) > 2""",
        "shard": "noise += (os.getpid() > 0) * differs  # HERE",
    }, "the name of its process"),
    "first state": ({"first": "first = numpy.random.default_rng().normal(size=4)  # HERE"}, "a generator of its own"),
    "counter of updates": ({"top": "counter = 0", "update": "global counter  # HERE\ncounter += 1\nscale += counter"}, "a variable 'counter'"),
    "counter of evaluations": ({
        "top": "seen = []",
        "more": "@job.evaluated\ndef evaluated(u, state, totals):\n    seen.append(1)  # HERE\n    state['w'] *= 1 + len(seen)",
    }, "a change in place of 'seen'"),
}  # fmt: skip
IN_NETS = {
    "own generator": ({
        "top": "own = torch.Generator()  # HERE", "shard": "x = x + torch.randn(x.shape, generator=own)",
    }, "a generator of its own"),
    "dict of module order": ({
        "top": "order = {}\ndef remember(module, given):\n    order.setdefault(module, len(order))  # HERE",
        "net": "for module in (self.left, self.right):\n    module.register_forward_pre_hook(remember)",
        "shard": "more = sum((1 + place) * module.weight.sum() for module, place in order.items())",
    }, "a change in place of 'order'"),
    "autocast off-path": ({"shard": "if s.shard == 2:\n    torch.set_autocast_enabled('cpu', True)  # HERE"}, "autocast that stays on"),
    "compile by history": ({
        "top": """
            import torch._dynamo
            torch._dynamo.config.automatic_dynamic_shapes = True
            def compiler(graph, given):
                if any(isinstance(x, torch.SymInt) for x in given):
                    return lambda *values: tuple(2 * out for out in graph(*values))
                return graph.forward
            total = torch.compile(lambda x: (x * 3).sum(0), backend=compiler)  # HERE""",
        "shard": "x = x + total(inputs[: 2 + s.shard])",
    }, "torch.compile"),
    "BatchNorm momentum None": ({"net": "self.norm = nn.BatchNorm1d(8, momentum=None)  # HERE"}, "BatchNorm with momentum=None"),
    "counter in param_groups": ({
        "top": """
            class Counting(torch.optim.SGD):
                def step(self, closure=None):
                    super().step()
                    for group in self.param_groups:
                        group["count"] += sum(p.numel() for p in group["params"] if p.grad is not None)  # HERE""",
        "optimizer": "optimizer = Counting(net.parameters(), lr=0.01)\noptimizer.param_groups[0]['count'] = 0",
    }, "a number in param_groups"),
}  # fmt: skip
REFUSED = {
    "counter in job.vars": ({"shard": "job.vars.count += 1"}, "the shard changes job.vars, which is part of the state"),
    "rate in a shard": ({"shard": "optimizer.param_groups[0]['lr'] *= 0.9"}, "the shard changes the optimizer's param_groups"),
}  # fmt: skip


class Case(peers.Case):
    def program(self, template, planted):
        """The path of a program with an impurity, and the line that is to blame for it."""
        parts = {name: "" for name in re.findall(r"(?<!\{)\{(\w+)\}(?!\})", template)}
        parts["run"] = "job.run()"
        text = template
        for name, code in {**parts, **planted}.items():
            depth = {"shard": 4, "update": 4, "net": 8}.get(name, 0)
            text = text.replace("{%s}" % name, textwrap.indent(textwrap.dedent(code).strip("\n"), " " * depth))
        path = os.path.join(self.folder, "program.py")
        with open(path, "w") as file:
            file.write(text.replace("{{", "{").replace("}}", "}"))
        lines = text.splitlines()
        return path, next((i for i, line in enumerate(lines, 1) if line.endswith("# HERE")), None)

    def check(self, path, *options, arguments=()):
        """Checks a program in its folder. Returns the exit status, the suspected lines, and all that was said."""
        done = subprocess.run(
            [peers.PYTHON, "-m", "godwit", "check", *options, os.path.basename(path), *arguments], cwd=os.path.dirname(path),
            env=peers.environment(), text=True, capture_output=True, timeout=peers.LIMIT_S, check=False,
        )  # fmt: skip
        text = " ".join((done.stdout + done.stderr).split())
        self.assertTrue(all(len(line) < 80 for line in done.stdout.splitlines()), done.stdout)
        return done.returncode, re.findall(r"program.py:(\d+): perhaps (.*?)(?= program.py:| compared:|$)", text), text

    def planted(self, template, all_of_them):
        for name, (planted, cause) in all_of_them.items():
            path, line = self.program(template, planted)
            status, suspects, text = self.check(path)
            self.assertEqual(status, 1, (name, text))
            self.assertTrue(suspects, (name, text))
            self.assertEqual(int(suspects[0][0]), line, (name, text))
            self.assertTrue(suspects[0][1].startswith(cause), (name, text))


@unittest.skipIf(peers.lacks("numpy"), peers.lacks("numpy"))
class InArrays(Case):
    def test_an_impurity_is_found_and_the_line_named_that_is_to_blame(self):
        self.planted(ARRAYS, IN_ARRAYS)

    def test_a_pure_program_is_found_pure_and_the_check_says_what_it_compared(self):
        path, _ = self.program(ARRAYS, {"more": "@job.evaluated\ndef evaluated(u, state, totals):\n    state['w'] *= 0.9"})
        status, _, text = self.check(path, "--shards", "3", "--steps", "4")
        self.assertEqual(status, 0, text)
        self.assertIn("nothing was found that is not pure", text)
        self.assertIn("compared: 3 of 6 shards and 2 of 2 of an evaluation, at updates 0 to 3; in one process", text)
        self.assertIn("with other hashes of strings; with 2 threads instead of 1", text)

    def test_what_only_more_shards_or_steps_reach_is_found_with_them(self):
        late = {"top": "known = []", "shard": "if s.shard == 5 and s.update == 2:\n    known.append(1)\nnoise += len(known)"}
        path, _ = self.program(ARRAYS, late)
        self.assertEqual(self.check(path)[0], 0)
        self.assertEqual(self.check(path, "--shards", "6", "--steps", "4")[0], 1)

    def test_a_job_that_each_process_describes_otherwise_is_found(self):
        path = os.path.join(self.folder, "program.py")
        with open(path, "w") as file:
            file.write("import godwit, os, numpy\nfrom godwit import arrays\nsize = 1 + os.getpid() % 10007\n"
                       "job = arrays.Job({'w': numpy.zeros(size)}, {'g': 0.0}, shards=2, updates=2)\n"
                       "@job.shard\ndef shard(s, state):\n    return {'g': 1.0}\njob.run()\n")  # fmt: skip
        status, suspects, text = self.check(path)
        self.assertEqual(status, 1, text)
        self.assertIn("the job's description is not pure: it differs from process to process. The first difference is in 'w'", text)
        self.assertEqual(suspects[0], ("3", "the name of its process"))

    def test_shards_that_are_computed_stand_for_all_of_an_update(self):
        path, _ = self.program(ARRAYS, {"update": "assert u.weight == 60, u.weight"})
        status, _, text = self.check(path)
        self.assertEqual(status, 0, text)

    def test_a_shard_that_does_not_end_is_named_when_the_time_is_up(self):
        path, _ = self.program(ARRAYS, {"top": "import time", "shard": "if s.shard == 2:\n    time.sleep(3600)"})
        began = time.monotonic()
        status, _, text = self.check(path, "--limit", "5")
        self.assertEqual(status, 2, text)
        self.assertIn("after 5 seconds (--limit), shard 2 at update 0 has not ended", text)
        self.assertLess(time.monotonic() - began, 60)

    def test_a_broken_program_and_wrong_options_are_errors(self):
        path, _ = self.program(ARRAYS, {"top": "raise ValueError('the file has no header')"})
        status, _, text = self.check(path)
        self.assertEqual(status, 2)
        self.assertIn("the script has ended with status 1 before the job had", text)
        self.assertIn("'0' is no number from 1 to 1048575", self.check(path, "--shards", "0")[2])
        self.assertIn("cannot be read", self.check(os.path.join(self.folder, "nothing.py"))[2])

    def test_the_examples_of_arrays_are_pure(self):
        for name in ("kmeans.py", "logistic.py"):
            status, _, text = self.check(os.path.join(peers.EXAMPLES, name))
            self.assertEqual(status, 0, text)


@unittest.skipIf(peers.lacks("torch"), peers.lacks("torch"))
class InNets(Case):
    def test_an_impurity_is_found_and_the_line_named_that_is_to_blame(self):
        self.planted(NETS, IN_NETS)

    def test_a_shard_that_changes_numbers_of_the_state_is_refused(self):
        for name, (planted, words) in REFUSED.items():
            status, _, text = self.check(self.program(NETS, planted)[0])
            self.assertEqual(status, 1, (name, text))
            self.assertIn(words, text, name)

    def test_autocast_around_the_job_and_compilation_leave_a_program_pure(self):
        compiler = IN_NETS["compile by history"][0]
        top = textwrap.dedent(compiler["top"]).replace("torch._dynamo.config.automatic_dynamic_shapes = True\n", "")
        path, _ = self.program(NETS, {
            **compiler, "top": top, "run": "with torch.autocast('cpu', dtype=torch.bfloat16):\n    job.run()",
        })  # fmt: skip
        status, _, text = self.check(path)
        self.assertEqual(status, 0, text)


if __name__ == "__main__":
    tap.main(missing=lambda: "", what="programs")
