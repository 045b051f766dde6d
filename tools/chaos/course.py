"""What became of the steps that were committed: whether any were lost and done again, and what explains it.

A kill loses none: whoever is in a view has committed what the others have, but for the last one. A power loss takes
what came since the newest complete checkpoint, which must be gone on from. And steps that only processes on one side of
a cut had are lost when all of these end before the sides have met.
"""

import dataclasses

LAG = 2  # steps: one that a member of a view may be behind another, and one that it has not been heard of yet
REPLICAS = 2  # disks that a complete checkpoint is on, as peers are told by default
SAVING_S = 10  # a disk that fails so long before a checkpoint is complete may not have it


@dataclasses.dataclass
class Checkpoint:
    step: int = 0
    when: float = 0.0
    copies: int = 0


@dataclasses.dataclass
class PowerLoss:
    when: float
    before: int  # the newest step that was committed
    checkpoint: Checkpoint  # the newest complete one
    after: int = None  # the step that was gone on from
    judged: bool = False
    again: set = dataclasses.field(default_factory=set)  # steps up to that one that somebody has committed since


def excuse(strikes, checkpoint, since, now):
    """Why the checkpoint may be lost to those who have gone on after the power loss; None: nothing does."""
    doubtful = checkpoint.when - SAVING_S
    spoilt = {strike.fault.spoils for strike in strikes if strike.ended is None or strike.ended >= doubtful}
    if len(spoilt - {None}) >= checkpoint.copies:
        return "as many disks have failed as had it"
    cuts = [strike for strike in strikes if strike.fault.parts and strike.began <= now]
    if any(strike.ended is None or strike.ended >= since for strike in cuts):
        return "those who had it were cut off"
    return None


class Course:
    """strikes: the list of all faults, which may grow. Peers are numbers, times are seconds of one clock."""

    def __init__(self, strikes):
        self.strikes = strikes
        # of each living process: its last step, its view, and the views in which it committed
        self.at, self.views, self.been = {}, {}, {}
        self.newest, self.newest_view = 0, None
        self.checkpoint = Checkpoint()
        self.power_losses = []
        self.lost_in_cuts = 0  # steps that were done again
        self.wrongs = []  # what nothing explains

    def lost_in_power_losses(self):
        """Steps that were done again. Whoever is there first may begin earlier than the others then go on from."""
        return sum(len(loss.again) for loss in self.power_losses)

    def take(self, peer, event):
        """An event of a peer, in the order that they came."""
        if event["event"] == "view":
            self.views[peer] = event["name"], len(event["members"])
        elif event["event"] == "checkpoint" and event["step"] > self.checkpoint.step:
            members = self.views[peer][1] if peer in self.views else 0
            self.checkpoint = Checkpoint(event["step"], event["time"], min(REPLICAS, members))
        elif event["event"] == "step":
            self.committed(peer, event["step"], event["time"])

    def ended(self, peer):
        for known in (self.at, self.views, self.been):
            known.pop(peer, None)

    def power_lost(self, when):
        for peer in list({*self.at, *self.views}):
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
            self.fell_back(step)
        if self.power_losses and step <= self.power_losses[-1].before:
            self.power_losses[-1].again.add(step)
        self.at[peer] = step
        self.been.setdefault(peer, set()).add(view)
        if step > self.newest:
            self.newest, self.newest_view = step, view

    def resumed(self, loss, step, when):
        loss.after = self.newest = step - 1
        loss.judged = excuse(self.strikes, loss.checkpoint, loss.when, when) is None
        if loss.judged and loss.after < loss.checkpoint.step:
            self.wrongs.append(
                f"a power loss at step {loss.before} was gone on from step {loss.after}, behind the complete checkpoint"
                f" of step {loss.checkpoint.step}"
            )
        self.checkpoint = min(self.checkpoint, Checkpoint(loss.after, when, 0), key=lambda one: one.step)

    def fell_back(self, step):
        """Nobody who lives has committed what was the newest step."""
        steps = self.newest - step + 1
        if any(self.newest_view in views for views in self.been.values()):
            self.wrongs.append(f"{steps} steps up to {self.newest} were lost with nothing that explains it")
        else:
            self.lost_in_cuts += steps
        self.newest = step - 1
