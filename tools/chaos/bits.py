"""Judges whether peers have reported wrong bits that no fault explains.

Faults flip bits on disks only, and a peer that reads such a chunk reports a corruption: that one is explained. Every
other corruption, a sum that failed its checks, and states that differ at one step are bugs, even if the peers repaired
them and the run ended with the right bytes: no fault changes a sum, a shard or a state.
"""

# The field in which an event gives the cause or the error (core/brain/step/steps.c, core/brain/save/checkpoint.c).
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
        self.wrongs = []  # texts that no fault explains, each once: several peers may report the same

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
