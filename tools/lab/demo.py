"""./build.sh demo: four peers learn digits; the leader is killed, then another; one starts again; and the
result has the same bytes as a run that nobody disturbed.
"""

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flock import Flock, Trouble, end_on_signals  # noqa: E402

SAMPLES, EPOCHS = 24000, 20
JOB = ["digits", "--samples", str(SAMPLES), "--epochs", str(EPOCHS), "--hidden", "256"]
PEERS = 4
PATIENCE_S = 60
WIDTH = 79
INTRODUCTION = f"""\
Four peers on this machine train a small network that tells digits apart, on
{SAMPLES} pictures that the program draws itself: {EPOCHS} passes over them. Two of the
peers are killed (kill -9) on the way, and one of them starts again. Then one
peer does the same job undisturbed, and the bytes of both results are compared.
This takes 10 to 30 seconds.
"""


class Story:
    """Prints lines with the time since the beginning."""

    def __init__(self):
        self.began = time.monotonic()

    def tell(self, text):
        print(f"{time.monotonic() - self.began:5.1f} s  {text}"[:WIDTH], flush=True)


def name(peer):
    return f"peer {peer.number} ({peer.id[:8]})"


def report_of(peer):
    return " ".join(f"{key}={value:.4g}" for key, value in peer.report.items() if isinstance(value, (int, float)))


def watch_until(flock, story, step, steps):
    """Prints the progress now and then, until `step` steps are done."""
    told = time.monotonic()
    while flock.step() < step:
        flock.wait_step(min(step, flock.step() + 1), PATIENCE_S)
        if time.monotonic() - told < 1.5:
            continue
        told = time.monotonic()
        ahead = max(flock.living(), key=lambda peer: peer.step)
        count = len(ahead.view["members"])
        story.tell(f"step {ahead.step}/{steps}  {report_of(ahead)}  {count} peer{'s' if count > 1 else ''}")


def kill(flock, story, victim, role):
    """Kills a peer by SIGKILL, and measures how long the flock stands still. Returns a line for the end."""
    step = flock.step()
    survivors = len(flock.living()) - 1
    moment = victim.kill()
    story.tell(f"kill -9 {name(victim)}, {role}, at step {step}")
    after = flock.first_step_after(moment, PATIENCE_S, survivors)
    views = [event for _, event in flock.events_after(moment, "view") if len(event["members"]) == survivors]
    repairs = {event["step"]: event["shards"] for _, event in flock.events_after(moment, "repair")}
    gap = (after["time"] - moment) * 1000
    viewed = (views[0]["time"] - moment) * 1000
    leader = flock.wait(flock.leader, PATIENCE_S, "a leader")
    story.tell(f"  new view after {viewed:.0f} ms, next step after {gap:.0f} ms; {name(leader)} leads")
    dealt = sum(repairs.values())
    return f"{role} killed at step {step}: next step after {gap:.0f} ms, {dealt} shards dealt again"


def restart(flock, story, peer):
    began = time.time()
    members = len(flock.living()) + 1
    flock.start(peer)
    story.tell(f"{name(peer)} starts again")
    after = flock.first_step_after(began, PATIENCE_S, members)
    joined = [event for _, event in flock.events_after(began, "join")]
    pause = joined[0]["pause_ms"] if joined else 0
    took = (after["time"] - began) * 1000
    story.tell(f"  it is back after {took:.0f} ms; the others paused for {pause:.0f} ms")
    return f"peer started again: back after {took:.0f} ms, the others paused {pause:.0f} ms"


def fly_alone(binary, story, steps):
    """Makes the undisturbed run on one peer, and shows its progress. Returns the peer's done event."""
    with Flock(binary, [*JOB, "--steps", str(steps)]) as flock:
        peer = flock.add()
        flock.wait_step(1, PATIENCE_S)
        watch_until(flock, story, steps, steps)
        flock.wait_ends([peer], PATIENCE_S)
        return peer.done


def fly(binary, story):
    """Makes the disturbed run. Returns (done event of each peer, lines about the recoveries)."""
    with Flock(binary, [*JOB, "--peers", str(PEERS), "--workers", "1"]) as flock:
        peers = flock.gather(PEERS)
        flock.wait(flock.leader, PATIENCE_S, "a leader", watch=peers)
        steps = flock.events_after(0, "start")[0][1]["steps"]
        flock.wait_step(1, PATIENCE_S)
        story.tell(f"{PEERS} peers found each other; {name(flock.leader())} leads")
        lines = []
        watch_until(flock, story, steps * 3 // 20, steps)
        first = flock.leader()
        lines.append(kill(flock, story, first, "the leader"))
        watch_until(flock, story, steps * 6 // 20, steps)
        second = next(peer for peer in flock.living() if not peer.leads)
        lines.append(kill(flock, story, second, "a follower"))
        watch_until(flock, story, steps * 8 // 20, steps)
        lines.append(restart(flock, story, first))
        watch_until(flock, story, steps, steps)
        finishers = flock.living()
        flock.wait_ends(finishers, PATIENCE_S)
        return [(peer.number, peer.id, peer.done) for peer in finishers], lines


def show_results(results, recoveries, alone):
    print()
    for number, identity, done in results:
        summary = " ".join(f"{key}={value:.4f}" for key, value in done["summary"].items())
        print(f"peer {number} ({identity[:8]}): steps={done['steps']} {summary} stolen={done['stolen']}")
        print(f"  state={done['state']}")
    print("\nundisturbed single peer:")
    print(f"  state={alone['state']}")
    print()
    for line in recoveries:
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(": ", 1)[1])
    parser.add_argument("binary", metavar="GODWIT", help="the program")
    binary = parser.parse_args().binary
    end_on_signals()
    story = Story()
    print(INTRODUCTION, flush=True)
    try:
        results, recoveries = fly(binary, story)
        story.tell("done; now the same job on one peer that nobody disturbs")
        ends = {(done["steps"], done["state"]) for _, _, done in results}
        alone = fly_alone(binary, story, max(steps for steps, _ in ends))
        same = ends == {(alone["steps"], alone["state"])}
        story.tell("done")
    except Trouble as trouble:
        print(f"\ndemo: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; everything that was started is gone", file=sys.stderr)
        return 130
    show_results(results, recoveries, alone)
    print(f"same bytes as an undisturbed single-peer run: {'yes' if same else 'no'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
