"""Judges whether committed steps were lost and done again, and whether a fault explains it.

- A kill loses no step: each member of a view has committed the same steps, but for the last one.
- A power loss may lose the steps since the newest complete checkpoint, from which the job must continue.
- A cut may lose the steps that only peers on one side have, if all of these end before the two sides meet again.
- Without a cut, if all peers that had the newest steps end one after another, the job must continue from the newest
  complete checkpoint, unless the peers that hold it are absent: the others do not wait for them.
"""

import dataclasses

LAG = 2  # steps: a member may be one behind the others, and the event of one more may not have come yet
REPLICAS = 2  # the disks that hold a complete checkpoint: the default of --replicas
SAVING_S = 10  # a disk that fails at most this long before a checkpoint is complete may not hold it
JOINING_S = 10  # a younger process may not have told the others yet what its disk holds


@dataclasses.dataclass
class Checkpoint:
    step: int = 0
    when: float = 0.0
    copies: int = 0
    members: frozenset = frozenset()  # the members of the view that saved it

    @property
    def doubtful(self):
        """A disk that fails after this time may not hold the checkpoint."""
        return self.when - SAVING_S


@dataclasses.dataclass
class PowerLoss:
    when: float
    before: int  # the newest step that was committed
    checkpoint: Checkpoint  # the newest complete one
    after: int = None  # the step from which the job continued
    judged: bool = False
    again: set = dataclasses.field(default_factory=set)  # steps up to `before` that were committed once more


def lasted(strike, since, now):
    """Whether the fault was there at any moment between these times."""
    return strike.began <= now and (strike.ended is None or strike.ended >= since)


def parted(strikes, since, now):
    return any(strike.fault.parts and lasted(strike, since, now) for strike in strikes)


def excuse(strikes, checkpoint, since, now, away=frozenset()):
    """Why the peers that continue may lack the checkpoint, or None if they must have it. away: absent peers."""
    spoilt = {strike.fault.spoils for strike in strikes if strike.ended is None or strike.ended >= checkpoint.doubtful}
    if len((spoilt - {None}) | away) >= checkpoint.copies:
        return "as many disks have failed, or were not there, as had it"
    return "those who had it were cut off" if parted(strikes, since, now) else None


class Course:
    """strikes: the list of all faults, which may grow. Peers are numbers, and times are seconds of one clock."""

    def __init__(self, strikes):
        self.strikes = strikes
        # for each living process: its last step, its view, the views in which it committed, when its first event came,
        # and for each life that was in a view together with it, when they last met in one
        self.at, self.views, self.been, self.since, self.met = {}, {}, {}, {}, {}
        self.newest, self.newest_view, self.newest_lives = 0, None, set()
        self.checkpoint = Checkpoint()
        self.power_losses = []
        self.lost_in_cuts = self.lost_with_all = 0  # steps that were done again
        self.wrongs = []  # what nothing explains

    def lost_in_power_losses(self):
        """Steps that were done again. The first peer to start may resume from an older step than the flock."""
        return sum(len(loss.again) for loss in self.power_losses)

    def take(self, peer, event):
        """Takes an event of a peer, in the order in which they came."""
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
        """The living peers that have reported to be in the same view."""
        view = self.views.get(peer)
        return frozenset(other for other, theirs in self.views.items() if theirs == view)

    def life(self, peer):
        """Names the process that the peer has now: a peer that is started again is another life."""
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
                f"after a power loss at step {loss.before} the job continued from step {loss.after}, behind the complete"
                f" checkpoint of step {loss.checkpoint.step}"
            )
        self.checkpoint = min(self.checkpoint, Checkpoint(loss.after, when, 0), key=lambda one: one.step)

    def fell_back(self, peer, step, when):
        """A peer committed an old step, and no living peer has committed the newest one."""
        steps, since = self.newest - step + 1, self.apart_since(peer)
        if any(self.newest_view in views for views in self.been.values()):
            self.wrongs.append(f"{steps} steps up to {self.newest} were lost, and no fault explains it")
        elif parted(self.strikes, since, when):
            self.lost_in_cuts += steps
        else:
            self.lost_with_all += steps
            self.judge_start(step - 1, since, when, self.away(peer, since, when))
        self.newest = step - 1

    def apart_since(self, peer):
        """When it last met a life of the newest step's view in a view, or when it started if it never did."""
        met = self.met.get(peer, {})
        return max((met[life] for life in self.newest_lives if life in met), default=self.since[peer])

    def away(self, peer, since, now):
        """The peers that saved the newest checkpoint and may have been absent when the view began in which `peer`
        continues: they did not run, had only just started, or a fault kept them silent then or while it was saved. If
        a fault kept a member of that view silent, it may have taken all others for dead: all may have been absent."""
        since = min(since, self.checkpoint.doubtful)
        silent = {strike.fault.silences for strike in self.strikes if lasted(strike, since, now)}
        there, members = self.members(peer), self.checkpoint.members
        if silent & there:
            return members
        began = self.met.get(peer, {}).get(self.life(peer), now)
        absent = {one for one in members - there if began - self.since.get(one, began) < JOINING_S}
        return absent | members & silent

    def judge_start(self, start, since, when, away):
        """Judges the step from which the job continues after all peers with the newest steps ended one by one."""
        missed = start < self.checkpoint.step
        if missed and excuse(self.strikes, self.checkpoint, since, when, away) is None:
            self.wrongs.append(
                f"when all peers with step {self.newest} had ended, the job continued from step {start}, behind the"
                f" complete checkpoint of step {self.checkpoint.step}"
            )
