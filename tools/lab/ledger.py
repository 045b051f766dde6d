"""How much the peers of a flock could have done: the seconds of their processes, and of these the live peer-seconds.

Live are, at every moment, the processes of the largest group that runs (is not stopped) and in which each reaches each,
in both directions: who is cut off from it is not live, for as long as the cut lasts. A peer that is starved of a
processor, behind a slow link, loses packets or has a link that flaps is live. So is whoever has not yet recovered
from what is over: the time until a process that was started again, or a peer that was cut off, takes part counts, and
so does the time until the others notice that it is gone.
"""

import bisect
import collections


class Ledger:
    """Peers are numbers, times are seconds of one clock."""

    def __init__(self):
        self.since = {}  # peer -> the time since which its process lives
        self.spans = []  # (peer, from, to)
        self.stopped = set()
        self.deaf = collections.Counter()  # (from, to) -> the number of faults that cut this direction
        self.at = None
        self.totals = (0.0, 0.0)  # seconds of processes, live peer-seconds
        self.marks = []  # (when, the totals until then)

    def lives(self, peer):
        return peer in self.since

    def runs(self, peer):
        return peer in self.since and peer not in self.stopped

    def live(self):
        """How many peers are live now."""
        return largest_group(set(self.since) - self.stopped, self.deaf)

    def started(self, peer, now):
        self.advance(now)
        self.since[peer] = now

    def ended(self, peer, now):
        self.advance(now)
        self.spans.append((peer, self.since.pop(peer), now))
        self.stopped.discard(peer)

    def stands(self, peer, on, now):
        """Notes that a peer's process is stopped, or that it goes on."""
        self.advance(now)
        (self.stopped.add if on else self.stopped.discard)(peer)

    def deafened(self, sender, receiver, on, now):
        self.advance(now)
        self.deaf[(sender, receiver)] += 1 if on else -1

    def begin(self, now):
        """Begins to count anew: nothing that was before counts."""
        self.advance(now)
        self.since = dict.fromkeys(self.since, now)
        self.spans, self.totals = [], (0.0, 0.0)
        self.marks = [(now, self.totals)]

    def close(self, now):
        for peer in list(self.since):
            self.ended(peer, now)

    def advance(self, now):
        if self.at is not None and now > self.at:
            counts = len(self.since), self.live()
            self.totals = tuple(total + count * (now - self.at) for total, count in zip(self.totals, counts))
            self.marks.append((now, self.totals))
        self.at = now if self.at is None else max(now, self.at)

    def until(self, now):
        """The seconds of processes, and the live peer-seconds, until a moment."""
        return between(self.marks, now)


def between(marks, now):
    """Interpolates the values at a time between marks (time, values), which are in order."""
    at = bisect.bisect_right(marks, now, key=lambda mark: mark[0])
    if at == 0:
        return marks[0][1]
    if at == len(marks):
        return marks[-1][1]
    (since, before), (until, after) = marks[at - 1], marks[at]
    part = (now - since) / (until - since)
    return tuple(old + (new - old) * part for old, new in zip(before, after))


def largest_group(peers, deaf):
    """The size of the largest set of peers in which each reaches each."""
    apart = {peer: set() for peer in peers}
    for (a, b), count in deaf.items():
        if count > 0 and a in apart and b in apart:
            apart[a].add(b)
            apart[b].add(a)
    return largest_independent(apart)


def largest_independent(apart):
    worst = max(apart, key=lambda peer: len(apart[peer]), default=None)
    if worst is None or not apart[worst]:
        return len(apart)
    without = {peer: others - {worst} for peer, others in apart.items() if peer != worst}
    out = apart[worst] | {worst}
    with_it = {peer: others - out for peer, others in apart.items() if peer not in out}
    return max(largest_independent(without), 1 + largest_independent(with_it))
