"""What became of the steps that were committed: whether any were lost and done again, and what explains it.

A kill loses none: whoever is in a view has committed what the others have, but for the last one. A power loss takes
what came since the newest complete checkpoint, which must be gone on from. Steps that only processes on one side of a
cut had are lost when all of these end before the sides have met. Where no cut lasted and all who had the newest steps
ended, one after another, the newest complete checkpoint must be gone on from as well: unless those who have it are not
there, as nobody waits for them.
"""

import dataclasses

LAG = 2  # steps: one that a member of a view may be behind another, and one that it has not been heard of yet
REPLICAS = 2  # disks that a complete checkpoint is on, as peers are told by default
SAVING_S = 10  # a disk that fails so long before a checkpoint is complete may not have it
JOINING_S = 10  # a process that is no older may not have told the others yet what its disk has


@dataclasses.dataclass
class Checkpoint:
    step: int = 0
    when: float = 0.0
    copies: int = 0
    members: frozenset = frozenset()  # of the view that it was saved in

    @property
    def doubtful(self):
        """From when on a disk that fails may not have it."""
        return self.when - SAVING_S


@dataclasses.dataclass
class PowerLoss:
    when: float
    before: int  # the newest step that was committed
    checkpoint: Checkpoint  # the newest complete one
    after: int = None  # the step that was gone on from
    judged: bool = False
    again: set = dataclasses.field(default_factory=set)  # steps up to that one that somebody has committed since


def lasted(strike, since, now):
    """Whether it did at any moment between these."""
    return strike.began <= now and (strike.ended is None or strike.ended >= since)


def parted(strikes, since, now):
    return any(strike.fault.parts and lasted(strike, since, now) for strike in strikes)


def excuse(strikes, checkpoint, since, now, away=frozenset()):
    """Why the checkpoint may be lost to those who have gone on; None: nothing does. away: who was not there."""
    spoilt = {strike.fault.spoils for strike in strikes if strike.ended is None or strike.ended >= checkpoint.doubtful}
    if len((spoilt - {None}) | away) >= checkpoint.copies:
        return "as many disks have failed, or were not there, as had it"
    return "those who had it were cut off" if parted(strikes, since, now) else None


class Course:
    """strikes: the list of all faults, which may grow. Peers are numbers, times are seconds of one clock."""

    def __init__(self, strikes):
        self.strikes = strikes
        # of each living process: its last step, its view, the views in which it committed, when it was first heard of,
        # and of all lives with which it was in one view when it last came there
        self.at, self.views, self.been, self.since, self.met = {}, {}, {}, {}, {}
        self.newest, self.newest_view, self.newest_lives = 0, None, set()
        self.checkpoint = Checkpoint()
        self.power_losses = []
        self.lost_in_cuts = self.lost_with_all = 0  # steps that were done again
        self.wrongs = []  # what nothing explains

    def lost_in_power_losses(self):
        """Steps that were done again. Whoever is there first may begin earlier than the others then go on from."""
        return sum(len(loss.again) for loss in self.power_losses)

    def take(self, peer, event):
        """An event of a peer, in the order that they came."""
        self.since.setdefault(peer, event["time"])
        if event["event"] == "view":
            self.views[peer] = event["name"], len(event["members"])
            self.meet(peer, event["time"])
        elif event["event"] == "checkpoint" and event["step"] > self.checkpoint.step:
            members = self.views[peer][1] if peer in self.views else 0
            self.checkpoint = Checkpoint(event["step"], event["time"], min(REPLICAS, members), self.members(peer))
        elif event["event"] == "step":
            self.committed(peer, event["step"], event["time"])

    def members(self, peer):
        """Of the view that it is in, as far as they live and have told of it."""
        view = self.views.get(peer)
        return frozenset(other for other, theirs in self.views.items() if theirs == view)

    def life(self, peer):
        """The process that it has now, which may know what none has known before it."""
        return peer, self.since[peer]

    def meet(self, peer, when):
        for other in self.members(peer):
            self.met.setdefault(peer, {})[self.life(other)] = when
            self.met.setdefault(other, {})[self.life(peer)] = when

    def ended(self, peer):
        for known in (self.at, self.views, self.been, self.since, self.met):
            known.pop(peer, None)

    def power_lost(self, when):
        for peer in list(self.since):
            self.ended(peer)
        self.power_losses.append(PowerLoss(when, self.newest, self.checkpoint))

    def committed(self, peer, step, when):
        view = self.views.get(peer, (None, 0))[0]
        known = max(self.at.values(), default=None)
        if self.at.get(peer, -1) >= step:
            self.wrongs.append(f"peer {peer} went back from step {self.at[peer]} to {step} in one life")
        elif self.power_losses and self.power_losses[-1].after is None:
            self.resumed(self.power_losses[-1], step, when)
        elif step < self.newest and (known is None or known < min(step, self.newest - LAG)):
            self.fell_back(peer, step, when)
        if self.power_losses and step <= self.power_losses[-1].before:
            self.power_losses[-1].again.add(step)
        self.at[peer] = step
        self.been.setdefault(peer, set()).add(view)
        if step > self.newest:
            self.newest, self.newest_view = step, view
            self.newest_lives = {self.life(member) for member in self.members(peer)}

    def resumed(self, loss, step, when):
        loss.after = self.newest = step - 1
        loss.judged = excuse(self.strikes, loss.checkpoint, loss.when, when) is None
        if loss.judged and loss.after < loss.checkpoint.step:
            self.wrongs.append(
                f"a power loss at step {loss.before} was gone on from step {loss.after}, behind the complete checkpoint"
                f" of step {loss.checkpoint.step}"
            )
        self.checkpoint = min(self.checkpoint, Checkpoint(loss.after, when, 0), key=lambda one: one.step)

    def fell_back(self, peer, step, when):
        """Nobody who lives has committed what was the newest step."""
        steps, since = self.newest - step + 1, self.apart_since(peer)
        if any(self.newest_view in views for views in self.been.values()):
            self.wrongs.append(f"{steps} steps up to {self.newest} were lost with nothing that explains it")
        elif parted(self.strikes, since, when):
            self.lost_in_cuts += steps
        else:
            self.lost_with_all += steps
            self.judge_start(step - 1, since, when, self.away(peer, since, when))
        self.newest = step - 1

    def apart_since(self, peer):
        """When it last came into one view with somebody who was in that of the newest step, or else when it began."""
        met = self.met.get(peer, {})
        return max((met[life] for life in self.newest_lives if life in met), default=self.since[peer])

    def away(self, peer, since, now):
        """Of those who saved the newest checkpoint who may not have been there when the view began in which that peer
        goes on: they did not run, or had only just begun to. Or a fault kept somebody silent, be it when that was saved
        and a disk may have refused it; where one of that view was, it may have taken all others for dead."""
        since = min(since, self.checkpoint.doubtful)
        silent = {strike.fault.silences for strike in self.strikes if lasted(strike, since, now)}
        there, members = self.members(peer), self.checkpoint.members
        if silent & there:
            return members
        began = self.met.get(peer, {}).get(self.life(peer), now)
        absent = {one for one in members - there if began - self.since.get(one, began) < JOINING_S}
        return absent | members & silent

    def judge_start(self, start, since, when, away):
        """All who had the newest steps have ended, one after another."""
        missed = start < self.checkpoint.step
        if missed and excuse(self.strikes, self.checkpoint, since, when, away) is None:
            self.wrongs.append(
                f"when all had ended who had step {self.newest}, step {start} was gone on from, behind the complete"
                f" checkpoint of step {self.checkpoint.step}"
            )
