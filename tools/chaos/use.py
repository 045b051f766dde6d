"""How much memory and how many descriptors processes use while they live, and whether that grows."""

import dataclasses
import os
import statistics

EVERY_S = 5
SETTLED_S = 120  # by then a process has had most kinds of faults, and all the buffers and links that it needs
JUDGED_H = 1 / 6  # in a shorter time the buffers of links and joiners, which come and go, look like growth

# The growth that is allowed: one part at any time, as links and states for joiners come and go, and one part per hour,
# with which a peer that runs for a month uses less than another GiB and no more descriptors than the usual limit.
ALLOWED_BYTES, ALLOWED_BYTES_H = 2 << 20, 1 << 20
ALLOWED_DESCRIPTORS, ALLOWED_DESCRIPTORS_H = 4, 1


@dataclasses.dataclass
class Growth:
    hours: float  # how long it was watched
    bytes_h: float
    descriptors_h: float

    def leaks(self):
        """What grows by more than is allowed."""
        if self.hours < JUDGED_H:
            return []
        found = ["memory"] if self.bytes_h * self.hours > ALLOWED_BYTES + ALLOWED_BYTES_H * self.hours else []
        allowed = ALLOWED_DESCRIPTORS + ALLOWED_DESCRIPTORS_H * self.hours
        return found + (["descriptors"] if self.descriptors_h * self.hours > allowed else [])


class Use:
    def __init__(self):
        self.most = (0, 0)  # bytes of memory, descriptors
        self.lives = {}  # pid -> [(when, (bytes of memory, descriptors)), ...], from its first sample on

    def look(self, pid, now):
        try:
            with open(f"/proc/{pid}/statm") as file:
                resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            taken = resident, len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, IndexError):
            return  # it has just ended
        self.most = tuple(map(max, self.most, taken))
        samples = self.lives.setdefault(pid, [])
        if not samples or now >= samples[-1][0] + EVERY_S:
            samples.append((now, taken))

    def settled(self, pids=None):
        """The samples of each process from the time when it had settled."""
        for samples in self.lives.values() if pids is None else (self.lives.get(pid, []) for pid in pids):
            yield [(now, taken) for now, taken in samples if now >= samples[0][0] + SETTLED_S]

    def median(self, since, until):
        """The median (memory, descriptors) of settled processes in that time, or None."""
        taken = [one for samples in self.settled() for now, one in samples if since <= now < until]
        return tuple(statistics.median(column) for column in zip(*taken)) if taken else None

    def growth(self, pid):
        """How fast the use of that process grows: a line through all its samples since it had settled, or None."""
        samples = next(self.settled([pid]))
        if len(samples) < 2:
            return None
        times = [when / 3600 for when, _ in samples]
        slopes = [statistics.linear_regression(times, column).slope for column in zip(*(taken for _, taken in samples))]
        return Growth(times[-1] - times[0], *slopes)
