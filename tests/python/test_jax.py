"""JAX with optax: the same bytes alone, with any number of workers and peers, and whatever dies."""

import os
import re
import subprocess
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

SPIRALS = os.path.join(peers.EXAMPLES, "spirals.py")
DYING = os.path.join(peers.PROGRAMS, "dying.py")


class SameBytes(peers.Case):
    def test_a_net_has_one_state_alone_with_workers_and_peers_that_die(self):
        """Those on a flock share what XLA has compiled, which is most of the time that they take; the one alone compiles for
        itself."""
        shared = {
            "JAX_COMPILATION_CACHE_DIR": os.path.join(self.folder, "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }  # fmt: skip
        arguments = [DYING, [SPIRALS, 9]]
        alone = self.alone(SPIRALS, [9])
        state = peers.state_of(alone)
        said = re.search(r"after 9 updates: .* are told right", alone)[0]
        marks = os.path.join(self.folder, "marks")
        places = ["shard 0 0", "once 4"]
        dying = {**peers.kills(marks, *places), **shared}
        self.assertEqual(self.state("dying", *arguments, ("--workers", "2"), **dying), state)
        self.assertIn(said, self.output)
        self.assertEqual(sorted(os.listdir(marks)), sorted(places))
        killed = {**peers.kills(os.path.join(self.folder, "killed"), "peer shard 2 1", "shard 5 3"), **shared}
        flock = self.flock(*arguments, 2, ("--workers", "1"), [killed] * 2)
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0], [p.output for p in flock])
        self.assertEqual([peers.state_of(p.output) for p, end in zip(flock, ends) if end == 0], [state])


class Trees(peers.Case):
    def run_python(self, code):
        return subprocess.run(
            [peers.PYTHON, "-c", code], env=peers.environment(JAX_ENABLE_X64="1", XLA_FLAGS="--xla_cpu_max_isa=SSE4_2"),
            text=True, capture_output=True, check=False,
        )  # fmt: skip

    def test_trees_become_arrays_and_arrays_trees(self):
        code = """if True:
            import godwit, os, jax, jax.numpy as jnp, numpy, optax
            from godwit import trees
            params = {"layers": [{"w": jnp.ones((2, 3)), "b": jnp.zeros(3)}], "scale": jnp.float32(2)}
            memory = optax.adamw(0.1).init(params)
            names = trees.named("p", params)
            print(sorted(names), sorted(trees.named("m", memory))[:2])
            state = {name: numpy.array(a) for name, a in {**names, **trees.named("m", memory)}.items()}
            again = trees.nested("m", memory, state)
            assert jax.tree.structure(again) == jax.tree.structure(memory)
            found = trees.nested("p", params, state)
            state["p/scale"][...] = 7
            print(found["scale"], found["layers"][0]["w"].dtype, os.environ["NPROC"], os.environ["XLA_FLAGS"].replace(" ", ","))
            del state["p/scale"]
            for bad in (lambda: trees.nested("p", params, state), lambda: trees.named("t", {"a/b": 0.0, "a": {"b": 0.0}})):
                try:
                    bad()
                except Exception as error:
                    print(f"{type(error).__name__}: {error}")
        """
        done = self.run_python(code)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "['p/layers/0/b', 'p/layers/0/w', 'p/scale'] ['m/0/count', 'm/0/mu/layers/0/b']")
        self.assertRegex(lines[1], r"^2.0 float32 1 \S+$")
        self.assertNotIn("SSE4_2", lines[1])
        self.assertIn("Error: the tree 'p' needs an array 'p/scale', which is not there", lines[2])
        self.assertIn("Error: the tree 't' has two leaves of the name 't/a/b'", lines[3])


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("jax", "optax"), what="programs")
