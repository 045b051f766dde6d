"""Whether peers have told of wrong bits. What they repair out of sight comes to the same bytes at the end, and is a bug
all the same: nothing that chaos does changes a sum, a shard or a state.

Faults flip bits on disks only. Who reads such a chunk tells of it, and that is explained. Nothing else is that a peer
calls a corruption, nor is a sum that failed its checks, nor are states of one step that differ.
"""

# Where an event says why there is another view, or what went wrong here (core/brain/step/steps.c, core/brain/save/checkpoint.c).
TEXTS = {"view": "cause", "repair": "cause", "error": "text"}
WRONG = (
    "its coverage is wrong",
    "its fingerprint is wrong",
    "decisions were damaged on the way",
    "members' states differ",
    "hold different states",
    "have other bits each in chunk",
    "members computed different roots",
)


class Bits:
    """strikes: the list of all faults, which may grow."""

    def __init__(self, strikes):
        self.strikes = strikes
        self.explained = 0  # corruptions
        self.wrongs = []  # what no fault explains; each is told by several

    def take(self, event):
        """An event of a peer."""
        if event["event"] == "corruption":
            self.corrupted(event)
        said = event.get(TEXTS.get(event["event"]), "")
        if any(words in said for words in WRONG):
            self.wrong(said)

    def corrupted(self, event):
        evidence, who = event["evidence"], event.get("peer", "")[:8] or "(not known)"
        fault = next((strike.fault for strike in self.strikes if strike.fault.has_damaged(evidence)), None)
        if fault is None:
            self.wrong(f"corruption at step {event['step']}: peer {who}: {evidence}")
        else:
            fault.happened = True
            self.explained += 1

    def wrong(self, text):
        if text not in self.wrongs:
            self.wrongs.append(text)
