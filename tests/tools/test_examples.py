"""The examples in tools/examples/flock: each one's result is what is computed here in another way, on one machine and on a
flock where children and members are killed meanwhile."""

import collections
import hashlib
import math
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
        environment["TMPDIR"] = environment["HOME"]
        if flock:
            environment |= {**flock.mark, "GODWIT_FLOCK": flock[0].directory}
        program = "sh" if name.endswith(".sh") else sys.executable
        process = subprocess.Popen([program, os.path.join(EXAMPLES, name), *map(str, arguments)], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for after in (process.stdout.close, process.stderr.close, process.wait, process.kill):
            self.addCleanup(after)
        return process

    def end(self, process, said=""):
        """What an example has printed, which has checked itself; what is said on standard error matches `said`."""
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, output + errors)
        self.assertRegex(errors, f"^({said})?$")
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
        points = 10000
        inside = 0
        for task in range(24):
            words = random.Random(task)
            pairs = ((words.getrandbits(32), words.getrandbits(32)) for _ in range(points))
            inside += sum(1 for x, y in pairs if (x * x + y * y) >> 64 == 0)
        flock = self.flock(2)
        process = self.begin("pi.py", points, flock=flock)
        self.kill_tasks(flock[1], "pi.py")
        self.assertIn(f"{inside} of {24 * points} points are inside", self.end(process))
        self.assertEqual([job["name"] for job in flock[0].jobs().values()], ["pi"])
        self.assertIn(f"{inside} of {24 * points} points are inside", self.run_example("pi.py", points))

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

    def test_matrices_are_multiplied(self):
        size = 24
        a = [[(i * 7919 + k * 104729 + i * k) % 201 - 100 for k in range(size)] for i in range(size)]
        b = [[(k * 15485863 + j * 32452843 + k * k * j) % 201 - 100 for j in range(size)] for k in range(size)]
        corners = [sum(a[i][k] * b[k][j] for k in range(size)) for i in (0, -1) for j in (0, -1)]
        self.assertIn(f"by 4 blocks; its corners are {', '.join(map(str, corners))}.", self.run_example("matrix.py", size, 12))

    def test_means_are_found_whichever_member_is_killed(self):
        flock = self.flock(2)
        process = self.begin("kmeans.py", 100, flock=flock)
        self.kill_tasks(flock[0], "kmeans.py")
        flock[0].kill()  # the member that the command in front speaks with
        flock[0].start([flock[1]])
        there = self.end(process, "godwit map: the member of the flock on this machine does not answer: .*\n")
        self.assertRegex(there, "^600 points, [0-9]+ rounds: ")
        self.assertEqual(there, self.run_example("kmeans.py", 100))

    def test_heat_spreads(self):
        # The explicit scheme on the whole plate at once.
        size, steps = 32, 16
        wave = [[math.sin(math.pi * k * i / (size + 1)) for i in range(size + 2)] for k in (1, 2)]
        plate = {(i, j): 100 * (wave[0][i] * wave[0][j] + wave[1][i] * wave[1][j]) for i in range(1, size + 1)
                 for j in range(1, size + 1)}
        for _ in range(steps):
            get = lambda i, j, of=plate: of.get((i, j), 0.0)  # noqa: E731
            plate = {(i, j): 0.2 * (get(i - 1, j) + get(i + 1, j) + get(i, j - 1) + get(i, j + 1)) + 0.2 * x
                     for (i, j), x in plate.items()}
        self.assertIn(f"After 16 steps by 4 strips the hottest place has {max(plate.values()):.6f} degrees.",
                      self.run_example("heat.py", 2))

    def test_a_film_is_rendered(self):
        output = self.run_example("film.py", 3, 16)
        with open(re.search(r"are in (\S+)\.$", output, re.MULTILINE)[1], "rb") as file:
            film = file.read()
        frames = film.split(b"P6 16 12 255\n")
        self.assertEqual((frames[0], [len(frame) for frame in frames[1:]]), (b"", [16 * 12 * 3] * 3))
        self.assertEqual(len(set(frames)), 4, "the ball moves")
        self.assertIn(hashlib.sha256(film).hexdigest()[:16], output)
        # At the upper edge the sky is seen, whose color follows from the direction alone.
        up = (11 / 16) / math.sqrt((15 / 16) ** 2 + (11 / 16) ** 2 + 1)
        self.assertEqual(list(frames[1][:3]), [int(256 * (0.5 - 0.3 * up)), int(256 * (0.7 - 0.2 * up)), 255])

    def test_the_best_of_a_sweep_is_exported(self):
        output = self.run_example("sweep.py", 1200)
        parts = {name: float(part) for name, part in re.findall(r"(rate-\d): .* tells ([\d.]+)%", output)}
        self.assertEqual(sorted(parts), ["rate-1", "rate-2", "rate-3"])
        best = re.search(r"The best is (rate-\d): ", output)[1]
        self.assertEqual(parts[best], max(parts.values()))
        for name in parts:
            self.assertRegex(output, rf"{name} +done ")


if __name__ == "__main__":
    tap.main(missing=lambda: None)
