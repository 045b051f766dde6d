"""What --judge asks of a long run beside the same bytes: enough faults, enough kinds of them, and enough work done by
the peers. It is for a machine with processors to spare, as the work done depends on that.
"""

ASKED_KINDS = 10
ASKED_PERCENT = 95  # of the live peer-seconds, as of a flock that loses peers (tools/lab/bench.py, churn)
ASKED_STRIKES = 0.8  # of the times when a fault is due: some find nothing to hurt, or damage a chunk that is never read


def why_never(run):
    """Why no run with these options can pass, or None if one can."""
    if run.job.step_s is None:
        return "with such a job it is not known what live peers could do"
    if len(run.kinds) < ASKED_KINDS:
        return f"{ASKED_KINDS} kinds of faults are asked for, and only {len(run.kinds)} can be made here"
    return None


def percent(run):
    """The work that was committed, in percent of what live peers could have done."""
    return 100 * run.done_s / max(run.live_s, 1)


def shortfalls(run):
    """What a run that has been settled lacks, as texts."""
    found = []
    due = run.seconds / run.options.every
    if len(run.faults) < ASKED_STRIKES * due:
        found.append(f"{len(run.faults)} faults, where one was due {due:.0f} times (asked for: {ASKED_STRIKES:.0%})")
    if len(run.counts) < ASKED_KINDS:
        found.append(f"{len(run.counts)} kinds of faults (asked for: {ASKED_KINDS})")
    if percent(run) < ASKED_PERCENT:
        found.append(f"{percent(run):.1f} % of what live peers could do (asked for: {ASKED_PERCENT} %)")
    return found
