"""The exceptions that end a check of tools/gpu early, and properties that are computed once."""


class Failed(Exception):
    """The check has failed."""


class Skipped(Exception):
    """The check cannot be run on this machine."""


class NotReached(Exception):
    """The time of all checks was over before this one ended."""


class OfSeveral(Skipped):
    """The check needs several GPUs and this machine has one: this is no failure with --strict either."""


class Once:
    """A property that is computed once: if that raises an exception, each later use raises it again."""

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
