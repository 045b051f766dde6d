"""A small net that tells two spirals apart, with JAX and optax.

    python spirals.py [UPDATES]                     on this machine alone
    godwit run spirals.py --dir a -- [UPDATES]      on a flock
"""
import sys

import godwit  # before JAX: it pins what results depend on

import jax
import jax.numpy as jnp
import numpy
import optax
from godwit import arrays, trees

POINTS, WIDTH, BATCH, SHARDS = 4000, 64, 64, 8

updates = int(sys.argv[1]) if len(sys.argv) > 1 else 300
turn = numpy.random.uniform(0.3, 1.8, size=POINTS)
labels = numpy.arange(POINTS) % 2
angle = 2 * numpy.pi * (turn + labels / 2)
points = numpy.stack([turn * numpy.cos(angle), turn * numpy.sin(angle)], 1) + numpy.random.normal(size=(POINTS, 2)) * 0.05
points, labels = points.astype("float32"), labels.astype("int32")
train, held_out = slice(0, POINTS * 3 // 4), slice(POINTS * 3 // 4, POINTS)


def first_params(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [{"w": jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, "b": jnp.zeros(b)} for k, a, b in zip(keys, sizes, sizes[1:])]


def logits_of(params, x):
    for layer in params[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_of(params, x, y):
    """The sum of the samples' losses, and how many of them are told right."""
    logits = logits_of(params, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).sum(), (logits.argmax(1) == y).sum()


gradient_of = jax.jit(jax.value_and_grad(loss_of, has_aux=True))
evaluate = jax.jit(loss_of)
optimizer = optax.adamw(optax.cosine_decay_schedule(2e-2, updates))
params = first_params(jax.random.key(1), [2, WIDTH, WIDTH, 2])
memory = optimizer.init(params)
job = arrays.Job({**trees.named("params", params), **trees.named("memory", memory)}, trees.named("gradient", params),
                 shards=SHARDS, updates=updates, eval_every=100, eval_shards=4, reports=["loss", "right"])


@job.shard
def shard(s, state):
    here = train if s.training else held_out
    which = s.indices(len(labels[here]), BATCH if s.training else 250)
    x, y = points[here][which], labels[here][which]
    now = trees.nested("params", params, state)
    if not s.training:
        loss, right = evaluate(now, x, y)
        return {}, len(y), {"loss": loss, "right": right}
    (loss, right), gradient = gradient_of(now, x, y)
    return trees.named("gradient", gradient), len(y), {"loss": loss, "right": right}


@job.update
def update(u, state, totals):
    gradient = jax.tree.map(lambda total: total / u.weight, trees.nested("gradient", params, totals))
    now = trees.nested("params", params, state)
    changes, then = optimizer.update(gradient, trees.nested("memory", memory, state), now)
    state.update(trees.named("params", optax.apply_updates(now, changes)), **trees.named("memory", then))


result = job.run()
print(f"after {result.updates} updates: {result.reports['val_right']:.2%} of the held-out points are told right")
