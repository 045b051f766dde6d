"""The examples in tools/examples/flock: each one's result is what is computed here in another way, on one machine and on a
flock where children and members are killed meanwhile."""

import collections
import os
import random
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "tools", "examples", "flock")
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]
import tap  # noqa: E402
from test_flock import GODWIT, PATIENCE, folder_for  # noqa: E402
from members import Members, below, read, send, until  # noqa: E402


class Examples(unittest.TestCase):
    def begin(self, name, *arguments, flock=None):
        """Starts an example: on this machine alone, or as if this machine were the node of a flock's first member."""
        environment = {"PATH": os.environ["PATH"], "HOME": folder_for(self), "GODWIT_BINARY": GODWIT, "PYTHONDONTWRITEBYTECODE": "1"}
        if flock:
            environment |= {**flock.mark, "GODWIT_FLOCK": flock[0].directory}
        program = "sh" if name.endswith(".sh") else sys.executable
        process = subprocess.Popen([program, os.path.join(EXAMPLES, name), *map(str, arguments)], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for after in (process.stdout.close, process.stderr.close, process.wait, process.kill):
            self.addCleanup(after)
        return process

    def end(self, process):
        """What an example has printed, which has checked itself."""
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, errors), (0, ""), output)
        self.assertIn("Checked: ", output)
        return output

    def run_example(self, name, *arguments):
        return self.end(self.begin(name, *arguments))

    def flock(self, count):
        members = Members(folder_for(self), count, GODWIT, ["--cores", "2"])
        self.addCleanup(members.close)
        members.start()
        return members

    def kill_tasks(self, member, script):
        """Kills the child of a map on a node with all its tasks, once one of them runs the script."""
        def tasks():
            keepers = set(member.keepers())
            found = below(keepers) - keepers
            return found if any(script.encode() in read(pid, "cmdline") for pid in found) else set()
        send(until(f"a task of {script} at {member.name}", tasks), 9)

    def test_pi_is_the_same_whoever_is_killed(self):
        points = 12000
        inside = 0
        for task in range(40):
            words = random.Random(task)
            pairs = ((words.getrandbits(32), words.getrandbits(32)) for _ in range(points))
            inside += sum(1 for x, y in pairs if (x * x + y * y) >> 64 == 0)
        flock = self.flock(2)
        process = self.begin("pi.py", points, flock=flock)
        self.kill_tasks(flock[1], "pi.py")
        self.assertIn(f"{inside} of {40 * points} points are inside", self.end(process))
        self.assertIn(f"{inside} of {40 * points} points are inside", self.run_example("pi.py", points))

    def test_words_are_counted(self):
        folder = folder_for(self)
        draw = random.Random(1)
        count = collections.Counter()
        for i in range(12):
            words = [draw.choice(["one", "Two", "three", "four-five", "it's"]) for _ in range(200)]
            count.update(re.findall("[a-z]+", " ".join(words).lower()))
            with open(os.path.join(folder, f"text {i}"), "w") as file:
                file.write(" ".join(words))
        table = sorted(((number, word) for word, number in count.items()), key=lambda row: (-row[0], row[1]))
        lines = self.run_example("words.sh", folder).splitlines()
        self.assertEqual(lines[0], f"12 files, {count.total()} words, {len(count)} of them different. The most frequent ones:")
        self.assertEqual(lines[1:-1], [f"{number} {word}" for number, word in table[:10]])

    def test_five_tasks_are_dealt_to_three_nodes(self):
        output = self.run_example("tasks.py")
        used = {name: (int(part), int(units)) for part, units, name in re.findall(r"(\d) of (\d) units of (\w+)", output)}
        self.assertEqual({name: units for name, (_, units) in used.items()}, {"six": 6, "four": 4, "eight": 8})
        self.assertEqual(sum(part for part, _ in used.values()), 10)
        for name, (part, units) in used.items():
            self.assertLessEqual(part, units)
            self.assertEqual(len(re.findall(rf" running .* {name}\n", output)), part // 2)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
