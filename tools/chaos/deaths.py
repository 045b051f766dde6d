"""Judges whether a fault explains that a process ended by itself.

A peer may give up, with exit code 1 and a message, if a fault denies it something that it needs; the others continue,
and a supervisor starts it again. Faults deny descriptors or memory (the peer may end a moment after they are back: it
misses later what it could not open), and room on the disk, which a peer needs when it starts, to count its starts. A
peer that has no memory for small things aborts with a message. Every other end is a bug:

- a signal;
- exit code 0, as no peer was told to stop;
- exit code 1 while nothing was denied;
- exit code 1 with a message that no denial explains: wrong bits, a shard that kills, or a damaged file.
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
    """words: its last words; denied: whether a fault denies it something, or did so until a moment ago."""
    if any(never in words for never in NEVER_EXPLAINED):
        return False
    if code == -signal.SIGABRT:
        return denied and NO_MEMORY in words
    return denied and code == 1


def denied(peer, strikes, now):
    lately = [strike for strike in strikes if strike.ended is None or now <= strike.ended + AFTERMATH_S]
    return any(strike.fault.denies(peer) for strike in lately)
