"""What processes take while they live, of memory and descriptors; and whether that grows."""

import os
import statistics

EVERY_S = 5
SETTLED_S = 120  # by then it has had a fault of most kinds, and all the buffers and links that it needs
LONG_S = 120  # after that, growth shows: half a MiB comes and goes with the links, which are not always all there


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

    def settled(self):
        """Of each process its samples from when it had settled."""
        for samples in self.lives.values():
            yield [(now, taken) for now, taken in samples if now >= samples[0][0] + SETTLED_S]

    def median(self, since, until):
        """(memory, descriptors) of settled processes in that time, or None."""
        taken = [one for samples in self.settled() for now, one in samples if since <= now < until]
        return tuple(statistics.median(column) for column in zip(*taken)) if taken else None

    def growth(self):
        """Growth an hour of (memory, descriptors) in the processes that lived long, all together, and their hours."""
        long = [samples for samples in self.settled() if samples and samples[-1][0] - samples[0][0] >= LONG_S]
        hours = sum(samples[-1][0] - samples[0][0] for samples in long) / 3600
        grown = [sum(samples[-1][1][i] - samples[0][1][i] for samples in long) for i in range(2)]
        return (grown[0] / hours, grown[1] / hours, hours) if long else None
