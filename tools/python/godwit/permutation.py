"""Random numbers and orders that are pure functions of their place.

These are the functions of core/rng.h and kernels/math/permutation.h, with the same integers: Philox4x32-10
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11), and a keyed permutation of 0 .. count-1,
a Feistel network with cycle walking (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
"""
from __future__ import annotations

from functools import lru_cache
from typing import List, Tuple

_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF
ROUNDS = 8


def philox(key: int, counter_high: int, counter_low: int) -> Tuple[int, int, int, int]:
    """The four 32-bit words at a counter of stream ``key``; all arguments have 64 bits."""
    k0, k1 = key & _M32, key >> 32 & _M32
    c0, c1 = counter_low & _M32, counter_low >> 32 & _M32
    c2, c3 = counter_high & _M32, counter_high >> 32 & _M32
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & _M32, (a >> 32) ^ c3 ^ k1, a & _M32
        k0, k1 = (k0 + 0x9E3779B9) & _M32, (k1 + 0xBB67AE85) & _M32
    return c0, c1, c2, c3


def mix64(x: int) -> int:
    """The finalizer of splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & _M64
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _M64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _M64
    return x ^ x >> 31


class Permutation:
    """The permutation of 0 .. count-1 for (seed, epoch). ``count`` is 1 to 2^62."""

    def __init__(self, seed: int, epoch: int, count: int) -> None:
        if not 1 <= count <= 1 << 62:
            raise ValueError(f"a permutation of {count} numbers")
        self.count = count
        self.half_bits = 1
        while 1 << 2 * self.half_bits < count:
            self.half_bits += 1
        self._keys: List[int] = []
        for i in range(0, ROUNDS, 2):
            w = philox(seed, epoch, i)
            self._keys += [w[0] << 32 | w[1], w[2] << 32 | w[3]]

    def at(self, position: int) -> int:
        """The image of ``position``, which is below ``count``."""
        if not 0 <= position < self.count:
            raise IndexError(f"position {position} of {self.count}")
        bits, value = self.half_bits, position
        mask = (1 << bits) - 1
        while True:
            left, right = value >> bits, value & mask
            for key in self._keys:
                left, right = right, left ^ (mix64(right ^ key) & mask)
            value = left << bits | right
            if value < self.count:
                return value


@lru_cache(maxsize=8)
def permutation(seed: int, epoch: int, count: int) -> Permutation:
    """A permutation, remembered while it is used."""
    return Permutation(seed, epoch, count)


def derived(seed: int, *place: int) -> int:
    """A seed of 63 bits for one place (step, shard, purpose): different places have unrelated seeds."""
    value = mix64(seed & _M64)
    for number in place:
        value = mix64(value ^ (number & _M64))
    return value >> 1
