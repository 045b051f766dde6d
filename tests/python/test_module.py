"""The parts of Python's module that need no library: numbers, bytes, messages, and what an import pins."""

import collections
import os
import platform
import random
import re
import subprocess
import sys
import unittest

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
sys.path.insert(0, peers.MODULE)
import tap  # noqa: E402
from godwit import blob, errors, identity, permutation, protocol  # noqa: E402

C_PROGRAM = r"""
#include "kernels/math/permutation.h"
#include "core/rng.h"
#include <stdio.h>
int main(void) {
    unsigned long long seed, epoch, count, position;
    while (scanf("%llu %llu %llu %llu", &seed, &epoch, &count, &position) == 4) {
        gw_permutation p = gw_permutation_of(seed, epoch, count);
        gw_philox w = gw_philox_at(seed, epoch, position);
        printf("%llu %u %u %u %u\n", (unsigned long long)gw_permutation_at(&p, position), w.words[0], w.words[1],
               w.words[2], w.words[3]);
    }
    return 0;
}
"""


class Numbers(peers.Case):
    def test_permutation_and_philox_give_the_integers_of_c(self):
        program = os.path.join(self.folder, "numbers")
        with open(program + ".c", "w") as file:
            file.write(C_PROGRAM)
        subprocess.run(
            ["cc", "-O1", "-I", peers.SOURCE, "-o", program, program + ".c",
             os.path.join(peers.SOURCE, "kernels/math/permutation.c"), os.path.join(peers.SOURCE, "core/base/assert.c")],
            check=True,
        )  # fmt: skip
        draw, places = random.Random(1), []
        for _ in range(500):
            count = draw.choice([1, 2, 3, 10, 255, 256, 257, 1 << draw.randrange(1, 62), draw.randrange(1, 1 << 62)])
            places.append((draw.getrandbits(64), draw.getrandbits(64), count, draw.randrange(count)))
        given = "".join(f"{a} {b} {c} {d}\n" for a, b, c, d in places)
        out = subprocess.run([program], input=given, text=True, capture_output=True, check=True).stdout
        for (seed, epoch, count, position), line in zip(places, out.splitlines(), strict=True):
            found, *words = map(int, line.split())
            self.assertEqual(permutation.Permutation(seed, epoch, count).at(position), found)
            self.assertEqual(permutation.philox(seed, epoch, position), tuple(words))

    def test_shards_of_an_epoch_take_each_sample_once(self):
        from godwit.job import ShardContext

        found = [i for update in range(3) for shard in range(5)
                 for i in ShardContext(7, update, update, True, shard, 5).indices(60, 4)]  # fmt: skip
        self.assertEqual(sorted(found), list(range(60)))
        second = [i for shard in range(5) for i in ShardContext(7, 9, 3, True, shard, 5).indices(60, 12)]
        self.assertEqual(sorted(second), list(range(60)))
        self.assertNotEqual(second, found)
        held = [i for shard in range(4) for i in ShardContext(7, 9, 3, False, shard, 4).indices(10, 3)]
        self.assertEqual(sorted(held), list(range(10)))


class Bytes(unittest.TestCase):
    blobs = blob.Blobs((lambda value: None, lambda plain: None))

    def test_values_come_back_as_they_were(self):
        values = [
            None, True, 3, -(2**70), 0.1, float("inf"), -0.0, 5e-324, "text\n", b"\0\xff", [], (), (1, [2, (3,)]), {1, 2}, frozenset("a"),
            {"a": {"b": [1.5]}}, {1: "one", "!x": 2, (1, 2): 3}, collections.OrderedDict([("z", 1), ("a", 2)]),
            collections.Counter({3: 1}), collections.deque([1, 2], 4),
        ]  # fmt: skip
        for value in values:
            data = blob.padded(self.blobs.encode(value, "it"), 512, "it")
            found = self.blobs.decode(data)
            self.assertEqual((found, type(found)), (value, type(value)))
            self.assertEqual(blob.padded(self.blobs.encode(found, "it"), 512, "it"), data)
        self.assertEqual(str(self.blobs.decode(self.blobs.encode(-0.0, "it"))), "-0.0")
        nan = self.blobs.decode(self.blobs.encode(float("nan"), "it"))
        self.assertNotEqual(nan, nan)

    def test_bytes_do_not_depend_on_the_order_of_a_dict_or_set(self):
        self.assertEqual(self.blobs.encode({"a": 1, "b": 2}, ""), self.blobs.encode({"b": 2, "a": 1}, ""))
        self.assertEqual(self.blobs.encode({2: 1, 1: 2}, ""), self.blobs.encode({1: 2, 2: 1}, ""))
        self.assertEqual(self.blobs.encode({"a", "b", "c"}, ""), self.blobs.encode({"c", "b", "a"}, ""))

    def test_what_is_no_number_is_refused_with_its_place(self):
        with self.assertRaisesRegex(errors.Refused, r"job.vars\['a'\]\[1\] is of type builtins.object"):
            self.blobs.encode({"a": [1, object()]}, "job.vars")
        with self.assertRaisesRegex(errors.Refused, "job.vars has grown to 100 bytes"):
            blob.padded(bytes(100), 64, "job.vars")


class Messages(unittest.TestCase):
    def test_a_damaged_message_is_an_error_of_the_protocol(self):
        good = [
            protocol.Shard(1, 2, protocol.Phase.TRAIN, 9, 3, 4).write(),
            protocol.Part(1, 2, 9, 3, protocol.Totals(4, 5.0, 6.0, 1.0)).write(),
            protocol.Welcome(protocol.Role.FIRST, True, 1, 2, 0, 3, "build", "SkylakeX").write(),
        ]
        readers = {protocol.Kind.SHARD: protocol.Shard, protocol.Kind.PART: protocol.Part,
                   protocol.Kind.WELCOME: protocol.Welcome}  # fmt: skip
        for message in good:
            data = bytes(message.bytes)
            kind = protocol.Reader(data).kind
            self.assertEqual(readers[kind].read(protocol.Reader(data)).write().bytes, data)
            for length in range(len(data)):
                with self.assertRaises(protocol.ProtocolError):
                    readers[kind].read(protocol.Reader(data[:length]))
            with self.assertRaises(protocol.ProtocolError):
                readers[kind].read(protocol.Reader(data + b"\0"))
        with self.assertRaisesRegex(protocol.ProtocolError, "version 9"):
            protocol.Reader(b"\x09\x01")

    def test_many_tensors_and_lines_take_several_messages(self):
        state = [protocol.Tensor(1, protocol.DType.F32, 0, 0, 0, (2, 3), f"{'x' * 200}{i}") for i in range(1000)]
        lines = {f"package:{i}": "1" * 900 for i in range(200)}
        description = protocol.Description(protocol.Options(1), state, [], lines)
        messages = description.messages()
        self.assertTrue(all(len(m.bytes) <= protocol.MESSAGE_MOST for m in messages))
        found = []
        for m in messages:
            r = protocol.Reader(bytes(m.bytes))
            if r.kind == protocol.Kind.TENSORS:
                found += [protocol.Tensor.read(r) for _ in range(r.get("H")[0])]
                r.end()
        self.assertEqual(found, state)


class Import(peers.Case):
    def run_python(self, code, **variables):
        return subprocess.run(
            [peers.PYTHON, "-c", code], env=peers.environment(**variables), text=True, capture_output=True, check=False
        )

    def test_generators_are_seeded_and_the_environment_is_pinned(self):
        code = "import godwit, random, os; print(random.random(), os.environ['OMP_NUM_THREADS'], 'RANK' in os.environ)"
        first = self.run_python(code, RANK="3", OMP_NUM_THREADS="8")
        self.assertEqual(first.stdout, self.run_python(code).stdout, first.stderr)
        self.assertTrue(first.stdout.endswith(" 1 False\n"), first)
        self.assertNotEqual(first.stdout, self.run_python(code, GODWIT_SEED="2").stdout)
        self.assertIn("GODWIT_SEED: 'x' is no number", self.run_python(code, GODWIT_SEED="x").stderr)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_alone_and_in_a_worker_the_same_is_pinned_as_every_kind_of_processor(self):
        """No library may take another way alone than in a worker, whichever family OpenBLAS takes the processor for."""
        code = (
            "import os\nimport godwit\nbegin = ('OMP_', 'MKL_', 'OPENBLAS_', 'NUMEXPR_', 'ATEN_', 'ONEDNN_', 'DNNL_', 'CUBLAS_', 'NPY_')\n"
            "print('pinned:', sorted(f'{k}={v}' for k, v in os.environ.items() if k.startswith(begin)), flush=True)\n"
        )
        script, compared = self.write("pinned.py", code), []
        for name in ("", "nehalem", "sandybridge", "haswell", "zen", "skylakex", "cooperlake"):
            options = ["--cpu-class", name] if name else []
            run = [peers.BINARY, "run", script, "--python", peers.PYTHON, "--dir", os.path.join(self.folder, f"of {name}")]
            by_peer = subprocess.run(
                [*run, "--listen", "127.0.0.1:0", *options], env=peers.environment(), text=True, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, check=False,
            ).stdout  # fmt: skip
            if "lacks its instructions" in by_peer or "is not one of" in by_peer:
                continue
            alone = subprocess.run(
                [peers.PYTHON, script], env=peers.environment(GODWIT_ARGS=" ".join(options)), text=True, capture_output=True,
                check=False,
            ).stdout  # fmt: skip
            found = re.search("pinned: .*", by_peer)
            self.assertEqual(found and f"{found[0]}\n", alone, (name, by_peer))
            self.assertIn("OMP_NUM_THREADS=1", alone)
            compared.append(name)
        self.assertEqual(compared[:1], [""])
        if platform.machine() == "x86_64":
            self.assertIn("MKL_CBWR=", alone)
            self.assertIn("nehalem", compared)

    @unittest.skipUnless(platform.machine() == "x86_64", "these families are those of x86")
    @unittest.skipIf(peers.lacks("numpy"), "this Python has no numpy")
    def test_numpy_computes_with_the_instructions_of_the_kind_alone(self):
        code = (
            "import godwit, numpy\numath = getattr(numpy, '_core', None) or numpy.core\nhas = umath._multiarray_umath\n"
            "print([name for name in has.__cpu_dispatch__ if has.__cpu_features__[name]])"
        )
        wide = {"XOP", "FMA4", "FMA3", "AVX2", "X86_V3", "X86_V4"}
        for name, beyond in (("nehalem", {"AVX", *wide}), ("sandybridge", wide), ("haswell", {"X86_V4"})):
            done = self.run_python(code, GODWIT_ARGS=f"--cpu-class {name}", NPY_ENABLE_CPU_FEATURES="AVX2")
            found = set(re.findall(r"'(\w+)'", done.stdout))
            self.assertEqual(done.stderr, "")
            self.assertEqual({one for one in found if one in beyond or one.startswith("AVX512")}, set(), name)

    @unittest.skipUnless(platform.machine() == "x86_64", "these families are those of x86")
    def test_a_peer_that_computes_with_other_instructions_is_refused(self):
        script = self.write(
            "alone.py", "import godwit\nfrom godwit import session\nsession.settings.args = ['--cpu-class', 'nehalem']\n"
            "session.settings.cpu_class = 'sandybridge'\nsession.Alone(__file__, [], None)\n"
        )  # fmt: skip
        done = subprocess.run([peers.PYTHON, script], env=peers.environment(), text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("the instructions of Sandybridge, and its peer with those of Nehalem", done.stderr)

    def test_a_library_that_is_missing_is_named(self):
        code = "import sys\nsys.modules['torch'] = None\nimport godwit.hf"
        self.assertIn("Error: godwit.hf needs torch, which this Python does not have: pip install", self.run_python(code).stderr)

    def test_what_keeps_a_process_from_being_forked_is_named(self):
        code = (
            "import godwit, threading\nfrom godwit import worker\nassert worker.can_fork(), worker.obstacle()\n"
            "end = threading.Event()\nthreading.Thread(target=end.wait).start()\n"
            "print(worker.obstacle(), worker.can_fork(), godwit.__version__ == '')\nend.set()\n"
        )
        done = self.run_python(code, PYTHONSAFEPATH="1")
        self.assertIn("it has 1 thread besides its own (Thread of threading) False", done.stdout, done.stderr)
        self.assertNotIn("Error", done.stderr)

    def test_a_fork_that_uses_cuda_is_told_what_to_do(self):
        code = (
            "from godwit import worker\nerror = RuntimeError('Cannot re-initialize CUDA in forked subprocess. Use spawn')\n"
            "print(worker.error_of(error).bytes[2:].decode('utf-8', 'replace').splitlines()[-1])"
        )
        self.assertIn("move the model to the GPU before job.run()", self.run_python(code).stdout)

    def test_files_beside_the_script_are_the_programs_own(self):
        script = os.path.join(self.folder, "main.py")
        with open(script, "w") as file:
            file.write("import godwit, helper, json, sys, types\nfrom godwit import identity\n"
                       "sys.modules['made'] = types.ModuleType('made')\nsys.modules['made'].__file__ = '_ops.py'\n"
                       "print(sorted(identity.lines(sys.argv[1:])))\nidentity.close()\nimport late\n")  # fmt: skip
        for name in ("helper", "late"):
            with open(os.path.join(self.folder, name + ".py"), "w") as file:
                file.write("value = 1\n")
        done = subprocess.run(
            [peers.PYTHON, script, script], env=peers.environment(), text=True, capture_output=True, check=False,
            cwd=self.folder,
        )  # fmt: skip
        self.assertIn("'data:0:main.py', 'file:helper.py', 'file:main.py', ", done.stdout)
        self.assertIn("late.py is imported after job.run() has begun", done.stderr)
        self.assertFalse(identity.is_own(identity.__file__))


if __name__ == "__main__":
    tap.main(missing=lambda: "", what="programs")
