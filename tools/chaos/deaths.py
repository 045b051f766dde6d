"""Whether a process that ended by itself had a right to.

A peer gives up, with exit code 1 and a message, where it is denied what it cannot do without; the others go on, and a
supervisor starts it again. Chaos denies it descriptors or memory (also a moment after they are there again: what could not
be opened is missed later), and room on its disk, without which it cannot begin (its count of starts must be durable).
Where small things have no memory it aborts, and says so. Every other end is a fault of its own: one by a signal, exit code
0 (nobody has told it to stop), and exit code 1 while nothing was denied.
"""

import signal

AFTERMATH_S = 10
NO_MEMORY = "godwit: memory has run out: "


def is_explained(code, words, denied):
    """words: the last ones that it said; denied: whether a fault denies it something, or has until a moment ago."""
    if code == -signal.SIGABRT:
        return denied and NO_MEMORY in words
    return denied and code == 1


def denied(peer, strikes, now):
    lately = [strike for strike in strikes if strike.ended is None or now <= strike.ended + AFTERMATH_S]
    return any(strike.fault.denies(peer) for strike in lately)
