"""Runs a real job on real processes while faults strike: python3 tools/chaos/chaos.py [OPTIONS]

The peers run in network namespaces that this program makes, each with a disk of its own. A fault strikes every few
seconds. When the time is over, all faults are taken back, the job is stopped, and its state must have the same bytes
as that of a single peer without faults. Ctrl-C or SIGTERM ends the time early, and a second one ends the program at
once. The program needs root. Exit code 0 means:

  - the state has the same bytes;
  - each process that ended was ended by a fault, or lacked something that a fault denied it (deaths.py);
  - no step was lost that should have been kept (course.py);
  - no peer reported wrong bits that no fault had flipped (bits.py);
  - a peer that lived for the second half of the run uses no more memory and descriptors at its end (use.py);
  - at least one fault struck, and with --judge enough of them (judge.py).

  --minutes N    how long faults strike (default 2; fractions are allowed)
  --every S      seconds between two faults (default 5)
  --seed K       decides which faults strike, where and when (default 1)
  --peers N      the number of peers (default 4)
  --kinds A,B    make only faults of these kinds
  --job NAME     synthetic (default: shards that sleep), busy (shards that keep a processor busy), program (shards that
                 worker processes compute), digits (MNIST) or gpt (Shakespeare; its exported model is compared as well);
                 the last two need data in GODWIT_TEST_DATA
  --shard-ms N   how long a shard of synthetic sleeps (default 50) or one of busy computes (default 10): short steps end
                 sooner what waits for some of them, and make the costs of a step a larger part of its time
  --majority     run the job with --quorum majority
  --verify PART  let that share of the shards be computed twice, like 5%
  --judge        also fail if fewer than 80 % of the faults that were due have struck, if they were of fewer than 10
                 kinds, or if less than 95 % of the work that live peers could do was done: for runs of hours, on a
                 machine with processors to spare
  --binary PATH  the program to run (default build/godwit)
  --timeline F   the file of the picture (default chaos.svg in the current folder)
  --logs FOLDER  a new folder for the errors of the peers (peerN.err) and their events (events.jsonl)
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab"))
import bits  # noqa: E402
import course  # noqa: E402
import deaths  # noqa: E402
import faults  # noqa: E402
import jobs  # noqa: E402
import judge  # noqa: E402
import ledger  # noqa: E402
import report  # noqa: E402
import timeline  # noqa: E402
from flock import Flock, Trouble, same_as_alone  # noqa: E402
from places import INTERRUPTIONS, Network, missing, own_name, sweep  # noqa: E402
from use import Use  # noqa: E402

PATIENCE_S = 180
ENDING = (signal.SIGINT, signal.SIGTERM)
TURN_S = 0.02  # the time between two looks at flapping cuts, faults that are over and processes that have ended


class Strike:
    """One fault that was made."""

    def __init__(self, fault, text, now, due):
        self.fault, self.text = fault, text
        self.began, self.due = now, due
        self.ended = None  # when it was taken back; None while it lasts
        self.recovery = None  # seconds from its beginning until the next step
        self.reunion = None  # seconds from its end until all peers that can be are in one view

    @property
    def kind(self):
        return self.fault.name

    @property
    def pending(self):
        return self.recovery is None or self.reunion is None


class Chaos:
    def __init__(self, flock, network, options, job):
        self.flock, self.network, self.options, self.job = flock, network, options, job
        self.rng = random.Random(options.seed)
        self.cuts = {}  # (from, to) -> how many faults cut that direction
        self.settings = {}  # (place's number, the thing that is set) -> the faults that set it, the newest last
        self.restarts = []  # (when, peer)
        self.ledger = ledger.Ledger()
        self.faults, self.step_marks = [], []
        self.unread = []  # damaged chunks that no peer has read: settle() takes them out of the faults
        self.pending = []  # the faults that last, or from which the flock has not recovered
        self.course, self.bits = course.Course(self.faults), bits.Bits(self.faults)
        self.skipped, self.kinds = [], []
        self.decays = False  # whether the last power loss damaged a disk
        self.use, self.growth = Use(), None
        self.began = self.seconds = None  # when the faults begin, and how long they strike
        self.settled = False  # whether all figures of the report are complete, but for the judgement
        self.cut_short = False  # whether the run was interrupted
        self.steps = self.state = self.alone = self.same = None  # None: not judged
        self.models = {}
        self.ended = self.newest_step = 0
        self.crashes = []  # (when, peer's number, exit code, its last words)
        self.peers = options.peers
        for kind in faults.KINDS:
            if options.kinds and kind.name not in options.kinds:
                continue
            why = kind.missing(self)
            if why is None:
                self.kinds.append(kind)
            else:
                self.skipped.append((kind.name, why))
                print(f"chaos: no '{kind.name}': {why}", flush=True)

    def need_kinds(self):
        """Ends a run before it starts if no fault could strike, or too few kinds of them."""
        if not self.kinds:
            raise Trouble("no fault can be made: " + ", ".join(f"'{name}' ({why})" for name, why in self.skipped))
        why = judge.why_never(self) if self.options.judge else None
        if why is not None:
            raise Trouble(f"--judge: {why}")

    # --- what faults ask for ---

    @property
    def counts(self):
        return collections.Counter(strike.kind for strike in self.faults)

    def taken(self):
        """The peers that are victims of a fault now."""
        return {strike.fault.peer for strike in self.pending if strike.ended is None and hasattr(strike.fault, "peer")}

    def deafen(self, a, b, on):
        """Cuts overlap: a direction is open again when no fault cuts it any more."""
        count = self.cuts.get((a, b), 0) + (1 if on else -1)
        if count < 0:
            return
        if (count > 0) != (self.cuts.get((a, b), 0) > 0):
            a.deafen(b, on)
        self.cuts[(a, b)] = count

    def stop(self, peer, on):
        peer.signal(signal.SIGSTOP if on else signal.SIGCONT)
        self.ledger.stands(peer.number, on, time.time())

    def start_again(self, peer):
        self.restarts.append((time.time() + self.rng.uniform(0, 1), peer))

    def wipe(self, peer):
        subprocess.run(["rm", "-rf", peer.home.inside(peer.directory)], check=True)
        peer.clear_claims()

    def needed(self):
        """How many peers must live after a kill."""
        return self.peers // 2 + 1 if self.options.majority else 1

    def spared(self):
        """The peer that no fault ends in the second half of a run, so that it shows whether its memory grows."""
        return self.flock.peers[0] if time.time() >= self.began + self.options.minutes * 30 else None

    # --- the run ---

    def start(self, peer):
        peer.start()
        self.ledger.started(peer.number, time.time())

    def note_death(self, peer, now):
        self.drain()
        self.course.ended(peer.number)
        self.ledger.ended(peer.number, now)

    def note_power_loss(self, now):
        for peer in self.flock.peers:
            self.note_death(peer, now)
        self.course.power_lost(now)

    def strike(self, now):
        fault = self.rng.choices(self.kinds, [kind.weight for kind in self.kinds])[0](self)
        if fault.kills and len(set(self.flock.living()) - self.taken()) <= self.needed():
            return
        lasts = self.rng.uniform(fault.least_s, fault.most_s)
        try:
            text = fault.begin()
        except (OSError, ValueError):  # its victim has just ended
            return
        if text is None:
            return
        now = time.time()  # a cut takes a while to make
        if fault.kills:
            self.note_death(fault.peer, now)
        strike = Strike(fault, text, now, now + lasts)
        self.faults.append(strike)
        self.pending.append(strike)
        print(f"{now - self.began:7.1f} s  step {self.newest_step:6}  {text}", flush=True)

    def finish(self, strike):
        strike.fault.end()
        strike.ended = time.time()

    def hear(self):
        """Returns the events that have come since the last call, after they were kept and searched for wrong bits."""
        with self.flock.changed:
            events, self.flock.events[:] = list(self.flock.events), []
        self.keep(events)
        for _, event in events:
            self.bits.take(event)
        return events

    def drain(self):
        """Takes the events that have come since the last call."""
        for peer, event in self.hear():
            self.course.take(peer.number, event)
            if event["event"] != "step" or event["step"] <= self.newest_step:
                continue
            self.newest_step = event["step"]
            self.step_marks.append((event["time"], (self.newest_step,)))
            for strike in self.pending:
                if strike.recovery is None and event["time"] > strike.began:
                    strike.recovery = event["time"] - strike.began

    def keep(self, events):
        if self.options.logs:
            with open(os.path.join(self.options.logs, "events.jsonl"), "a") as file:
                file.writelines(json.dumps({"number": peer.number, **event}) + "\n" for peer, event in events)

    def whole(self):
        """Whether all peers that can be are in one view, and those that were to be started again are as well."""
        running = [peer for peer in self.flock.living() if self.ledger.runs(peer.number)]
        views = collections.Counter(peer.view["name"] for peer in running if peer.view)
        return not self.restarts and max(views.values(), default=0) >= max(1, self.ledger.live())

    def note_reunions(self, now):
        """Notes the reunion of faults that are over. Victims of other faults that last are not waited for."""
        apart = [strike for strike in self.pending if strike.ended is not None and strike.reunion is None]
        if apart and self.whole():
            for strike in apart:
                strike.reunion = now - strike.ended

    def look_after(self, now):
        """Starts processes again that ended by themselves, as a supervisor would, and notes what the others use."""
        for peer in self.flock.peers:
            dead = peer.process is not None and peer.ended is not None
            if dead and self.ledger.lives(peer.number):
                self.note_death(peer, now)
                self.note_end(peer, now)
                self.start_again(peer)
            elif not dead:
                self.use.look(peer.process.pid, now)
        for due, peer in [restart for restart in self.restarts if restart[0] <= now]:
            self.restarts.remove((due, peer))
            if not peer.alive:
                self.start(peer)

    def note_end(self, peer, now):
        self.ended += 1
        explained = deaths.is_explained(peer.ended, peer.errors, deaths.denied(peer, self.faults, now))
        if not explained:
            self.crashes.append((now, peer.number, peer.ended, peer.errors))
        why = "denied what it needs" if explained else "NO FAULT EXPLAINS IT"
        ended = f"peer {peer.number} ended ({peer.ended}; {why}) and is started again"
        print(f"{now - self.began:7.1f} s  {ended}; its last words:")
        print(textwrap.indent(peer.errors, " " * 11), end="", flush=True)

    def turn(self):
        now = time.time()
        self.drain()
        for strike in self.pending:
            strike.fault.look()
            if strike.ended is not None:
                continue
            if now >= strike.due:
                self.finish(strike)
            elif hasattr(strike.fault, "turn"):
                strike.fault.turn(now)
        self.note_reunions(time.time())
        self.pending = [strike for strike in self.pending if strike.pending]
        self.look_after(now)

    def enough(self, number, frame):
        """Ends a run early at the first interruption, with a report; a second one ends the program at once."""
        handle(interrupted, ENDING)
        self.until, self.cut_short = 0, True
        print("chaos: no more faults; the run is judged now; interrupt once more to end at once", file=sys.stderr)

    def rage(self):
        self.began = time.time()
        self.drain()
        self.ledger.begin(self.began)
        self.step_marks = []
        self.until, due = self.began + self.options.minutes * 60, self.began + 1
        handle(self.enough, ENDING)
        while time.time() < self.until:
            self.turn()
            if time.time() >= due:
                self.strike(time.time())
                due += self.options.every
            time.sleep(TURN_S)
        handle(interrupted, ENDING)
        self.seconds = time.time() - self.began
        for strike in self.pending:
            if strike.ended is None:
                self.finish(strike)

    def heal(self):
        """Waits until all peers are in one view and continue the job, and stops it."""
        deadline = time.time() + PATIENCE_S
        healed_at = self.newest_step
        while True:
            self.turn()
            views = [peer.view for peer in self.flock.peers if peer.alive]
            whole = [view and len(view["members"]) for view in views] == [self.peers] * self.peers
            if whole and self.newest_step > healed_at + 5:
                break
            if time.time() > deadline:
                raise Trouble(f"{PATIENCE_S} s after all was mended the flock is not whole:\n{self.flock.last_words()}")
            time.sleep(TURN_S)
        first = self.flock.peers[0]
        command = [self.flock.binary, "stop", "--no-wait", "--dir", first.home.inside(first.directory)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.settle()
        self.flock.wait_ends(self.flock.peers, PATIENCE_S)

    def settle(self):
        """Completes the figures of the report once, if faults have begun."""
        now = time.time()
        if self.began is not None and not self.settled:
            self.drain()
            self.settled, self.seconds = True, self.seconds or now - self.began
            self.unread = [strike for strike in self.faults if not strike.fault.happened]
            self.faults = [strike for strike in self.faults if strike.fault.happened]
            self.step_marks = self.step_marks or [(now, (self.newest_step,))]
            self.ledger.close(now)
            self.growth = self.use.growth(self.flock.peers[0].process.pid)
            stuck = any(strike.recovery is None for strike in self.faults)  # then the time since the last step counts
            until = now if stuck else self.step_marks[-1][0]
            self.process_s, self.live_s, self.done_s = self.between(self.step_marks[0][0], until)

    def between(self, since, until):
        """Seconds of processes, live peer-seconds and seconds of committed shards between two times."""
        first, last = self.ledger.until(since), self.ledger.until(until)
        steps = ledger.between(self.step_marks, until)[0] - ledger.between(self.step_marks, since)[0]
        return last[0] - first[0], last[1] - first[1], steps * (self.job.step_s or 0)

    def judge(self):
        done = [peer.done for peer in self.flock.peers]
        self.steps = done[0]["steps"]
        self.state = done[0]["state"]
        models = {}

        def export(whose, peers):
            if self.job.exported:
                folders = [peer.home.inside(peer.directory) for peer in peers]
                models[whose] = jobs.model_hash(self.flock.binary, folders, self.flock.folder)

        export("flock", self.flock.peers)
        self.same, alone = same_as_alone(
            self.flock.binary,
            [*self.job.options, *self.job.quick],
            {(one["steps"], one["state"]) for one in done},
            seconds=3600,
            then=lambda peer: export("alone", [peer]),
            within=self.flock.folder,
        )
        self.alone, self.models = alone["state"], models
        self.same = self.same and len(set(models.values())) <= 1

    def leaks(self):
        return self.growth.leaks() if self.growth else []

    def idle(self):
        """Whether no fault has struck in a run that was not interrupted: such a run shows nothing."""
        return not self.faults and not self.cut_short

    def shortfalls(self):
        return judge.shortfalls(self) if self.options.judge else []

    def passed(self):
        wrongs = self.crashes or self.course.wrongs or self.bits.wrongs or self.leaks() or self.shortfalls()
        return self.same and not wrongs and not self.idle()


def options_of():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--every", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[])
    parser.add_argument("--job", choices=jobs.JOBS, default="synthetic")
    parser.add_argument("--shard-ms", type=int)
    parser.add_argument("--majority", action="store_true")
    parser.add_argument("--verify", metavar="PART", default="off")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--binary", default="build/godwit")
    parser.add_argument("--timeline", default="chaos.svg")
    parser.add_argument("--logs")
    options = parser.parse_args()
    wrong = set(options.kinds) - {kind.name for kind in faults.KINDS}
    if wrong or not 1 <= options.peers <= 200:
        parser.error(f"there is no kind {sorted(wrong)}" if wrong else "--peers is from 1 to 200")
    if options.shard_ms is not None and (options.job not in jobs.OF_SHARDS or not 1 <= options.shard_ms <= 10000):
        parser.error("--shard-ms is from 1 to 10000, and for " + " and ".join(jobs.OF_SHARDS))
    if options.logs and os.path.exists(options.logs):
        parser.error(f"--logs: {options.logs} exists already; name a folder that does not")
    return options


def run(options, look=None):
    """look: is called with the Chaos when all is over, while the peers' directories are still there."""
    job = jobs.JOBS[options.job](**({} if options.shard_ms is None else {"shard_ms": options.shard_ms}))
    if options.logs:
        os.makedirs(options.logs)
    arguments = jobs.endless(job, options.peers, options.majority, options.verify)
    with Flock(options.binary, arguments, words=options.logs, name=own_name()) as flock:
        key = os.path.join(flock.folder, "key")
        subprocess.run([flock.binary, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        flock.job += ["--key", key]
        clock = os.path.join(os.path.dirname(flock.binary), "chaos_clock.so")
        with Network(options.peers, flock.folder, clock if os.path.exists(clock) else None) as network:
            chaos = Chaos(flock, network, options, job)
            chaos.need_kinds()
            go_through_and_tell(chaos)
            if look is not None:
                look(chaos)
            return chaos.passed()


def go_through_and_tell(chaos):
    """Prints the report of a run that fails, too, but not of one that was interrupted twice."""
    try:
        go_through(chaos)
    except Exception:
        tell(chaos)
        raise
    tell(chaos)


def go_through(chaos):
    try:
        for peer in chaos.flock.gather_in(chaos.network.places):
            chaos.ledger.started(peer.number, time.time())
        chaos.flock.wait_step(3, PATIENCE_S)
        try:
            chaos.rage()
            chaos.heal()
        finally:
            chaos.settle()
    finally:
        for peer in chaos.flock.peers:
            if peer.process is not None and peer.process.poll() is None:
                peer.process.kill()
                peer.reader.join()
        chaos.hear()
    chaos.judge()


def tell(chaos):
    """Prints the report and draws the picture, unless faults had not begun yet."""
    if chaos.seconds is None:
        return
    report.print_report(chaos)
    timeline.draw(chaos, chaos.options.timeline)
    print(f"timeline: {chaos.options.timeline}", flush=True)


def interrupted(number, frame):
    """Ends the program at the first interruption; later ones are ignored, as they would interrupt the cleaning up."""
    handle(signal.SIG_IGN, INTERRUPTIONS)
    raise KeyboardInterrupt


def handle(handler, numbers):
    for number in numbers:
        signal.signal(number, handler)


def main():
    options = options_of()
    handle(interrupted, INTERRUPTIONS)  # a job in the background of a shell would ignore SIGINT
    try:
        why = missing()
        if why is not None:
            print(f"chaos: {why}", file=sys.stderr)
            return 2
        sweep()
        return 0 if run(options) else 1
    except (Trouble, RuntimeError, LookupError, subprocess.CalledProcessError) as trouble:
        print(f"chaos: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
