"""Whether a process that ended by itself had a right to.

A peer gives up, with exit code 1 and a message, where it is denied what it cannot do without; the others go on, and a
supervisor starts it again. Chaos denies it descriptors or memory (also a moment after they are there again: what could not
be opened is missed later), and room on its disk, without which it cannot begin (its count of starts must be durable).
Where small things have no memory it aborts, and says so. Every other end is a fault of its own: one by a signal, exit code
0 (nobody has told it to stop), and exit code 1 while nothing was denied, or with words of what no denial brings about:
wrong bits, a shard that kills, and files that were whole once and are damaged now.
"""

import signal

AFTERMATH_S = 10
NO_MEMORY = "godwit: memory has run out: "
NEVER_EXPLAINED = (
    "the machine is faulty",
    "nobody can tell which are right",
    "changed in this machine's memory",
    "failed its checks",
    "are not finite or out of range",
    "is poison",
    "the state has fingerprint",
    "its fingerprint differs",
    "comes out as",
    "the bytes have another hash",
    "the protocol record of this directory is damaged",
    "the record of this peer's votes",
    "is damaged: it should hold",
)


def is_explained(code, words, denied):
    """words: the last ones that it said; denied: whether a fault denies it something, or has until a moment ago."""
    if any(never in words for never in NEVER_EXPLAINED):
        return False
    if code == -signal.SIGABRT:
        return denied and NO_MEMORY in words
    return denied and code == 1


def denied(peer, strikes, now):
    lately = [strike for strike in strikes if strike.ended is None or now <= strike.ended + AFTERMATH_S]
    return any(strike.fault.denies(peer) for strike in lately)
