"""How a check of tools/gpu ends, other than by what was seen; and what is looked for once."""


class Failed(Exception):
    """Something is not as it should be."""


class Skipped(Exception):
    """It cannot be tried here."""


class NotReached(Exception):
    """The time of all checks together was over before it was judged."""


class OfSeveral(Skipped):
    """It takes more GPUs than this machine has: no machine with one can be blamed for that."""


class Once:
    """A property that is found once, or fails once: what fails is not tried again for every row that asks."""

    def __init__(self, find):
        self.find = find

    def __get__(self, checks, _):
        name = self.find.__name__
        if name not in checks.found:
            try:
                checks.found[name] = (self.find(checks), None)
            except Exception as why:
                checks.found[name] = (None, why)
        value, why = checks.found[name]
        if why is not None:
            raise why
        return value
