"""Python imports this where the folder is on PYTHONPATH: any program of a job then dies where the environment says, as
`kills` in tests/python/peers.py describes it."""

import functools
import os

if os.environ.get("GODWIT_TEST_DEATHS") and os.environ.get("GODWIT_WORKER_FD"):
    import deaths
    import godwit.job

    _set = godwit.job.JobBase._set

    def _mortal(self, name, function):
        kind = name.partition("_")[0]

        @functools.wraps(function)
        def dying(context, *more):
            place = {"shard": lambda: ("shard", context.update, context.shard), "update": lambda: ("once", context.update),
                     "evaluated": lambda: ("evaluated", context.update), "after": lambda: ("after", context.update)}[kind]()  # fmt: skip
            deaths.at(*place)
            return function(context, *more)

        return _set(self, name, dying)

    godwit.job.JobBase._set = _mortal
