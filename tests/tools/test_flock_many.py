"""A standing flock of more members than keep links to all others: what one of them knows reaches all, over links to some eleven,
while members are killed and come back."""

import contextlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_flock import Case  # noqa: E402

import tap  # noqa: E402

MEMBERS, KILLED, BACK = 36, 6, 2
ALL = 32  # others, to which a member keeps links to all of them (core/flock/links.h)
ESTABLISHED = "01"


def links(pid):
    """How many TCP connections a process has."""
    sockets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    with open(f"/proc/{pid}/net/tcp") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return sum(row[3] == ESTABLISHED and f"socket:[{row[9]}]" in sockets for row in rows)


class Many(Case):
    def all_have(self, members, state, jobs):
        for member in members:
            self.until(f"{member.name} knows that {len(jobs)} jobs are {state}", lambda: {
                job for job, of in member.jobs().items() if of["state"] == state} >= set(jobs))

    def test_what_one_of_many_members_knows_reaches_all_whoever_is_killed(self):
        flock = self.flock(MEMBERS, ["--cores", "1"])
        most = self.until("nobody keeps links to all", lambda: (
            lambda counts: max(counts) < ALL and counts)([links(member.process.pid) for member in flock]))
        self.assertGreaterEqual(min(most), 1)
        held = [flock[i].submit("--hold", "--", "true") for i in range(0, MEMBERS, 5)]
        self.all_have(flock, "held", held)

        killed = [flock[i] for i in range(1, MEMBERS, MEMBERS // KILLED)]
        first = next(member for member in flock if member not in killed)
        for member in killed:
            member.lose_power()
        # Before the others have noticed: what is told to the dead goes around them.
        later = [member.submit("--hold", "--", "true") for member in flock.running()[::7]]
        first.do("cancel", *held)
        self.all_have(flock.running(), "held", later)
        self.all_have(flock.running(), "cancelled", held)
        gone = {member.name for member in killed}
        for member in flock.running():
            self.until(f"{member.name} knows who is gone", lambda: {
                name for name, state in member.nodes().items() if state == "gone"} >= gone)

        for member in killed[:BACK]:
            member.start([first])
        self.all_have(killed[:BACK], "cancelled", held)
        self.all_have(killed[:BACK], "held", later)
        killed[0].do("release", *later)
        first.wait(*later)
        self.all_have(flock.running(), "done", later)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
