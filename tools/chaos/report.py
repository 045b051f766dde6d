"""The report of a run under chaos, as tables."""

import math
import statistics
import textwrap

import faults
import judge
import use


LEGEND = """\
until next step: from the beginning of the fault until a peer commits a new step (half a step if it has no effect)
until all are back: from the end of the fault until all peers that run and reach each other are in one view
lost: live peer-seconds until the next fault, less the work committed (for a power loss, until a new step is committed;
    faults within that time are not counted)"""


def milliseconds(seconds):
    return "never" if math.isinf(seconds) else f"{seconds * 1000:.0f}"


def losses(run):
    """kind -> the live peer-seconds that each fault of it cost, from its beginning to that of the next fault. A power
    loss costs what was lost until a new step was committed, and faults within that time are not counted. The last fault
    costs what was lost until the last step, or until the end if no step came any more."""
    found = {}
    if run.job.step_s is None or not run.faults:
        return found
    end_of_all = run.ledger.at
    ends = [fault.began for fault in run.faults[1:]]
    ends += [end_of_all if run.faults[-1].recovery is None else run.step_marks[-1][0]]
    recovered = run.began
    for fault, end in zip(run.faults, ends):
        if fault.began < recovered:
            continue
        if fault.kind == faults.PowerLoss.name:
            end = recovered = end_of_all if fault.recovery is None else fault.began + fault.recovery
        _, live, done = run.between(fault.began, end)
        found.setdefault(fault.kind, []).append(live - done)
    return found


def quiet_steps(run):
    """[(from, to)] of the steps during which no fault lasted and the flock had recovered from all earlier ones."""
    edges = [(fault.began, math.inf if fault.reunion is None else fault.ended + fault.reunion) for fault in run.faults]
    marks = [when for when, _ in run.step_marks]
    found, last, at = [], -math.inf, 0  # last: when all faults until now were over
    for since, until in zip(marks, marks[1:]):
        while at < len(edges) and edges[at][0] < until:
            last, at = max(last, edges[at][1]), at + 1
        if last <= since:
            found.append((since, until))
    return found


def middle_and_worst(seconds):
    """The median and the longest time, as columns. None means never, which is longer than any time."""
    if not seconds:
        return "-", "-"
    all_seconds = [math.inf if one is None else one for one in seconds]
    return milliseconds(statistics.median(all_seconds)), milliseconds(max(all_seconds))


def print_row(name, times, waits, returns, costs):
    cost = f"{statistics.mean(costs):.2f}" if costs else "-"
    print(f"{name:20} {times:>6} {waits[0]:>11} {waits[1]:>7} {returns[0]:>11} {returns[1]:>7} {cost:>10}")


def print_quiet(run):
    """The row to compare with: a wait that begins at any moment of a step takes half a step."""
    steps = quiet_steps(run)
    halves = [(until - since) / 2 for since, until in steps]
    costs = [live - done for _, live, done in (run.between(*step) for step in steps)] if run.job.step_s else []
    waits = middle_and_worst(halves)[0], middle_and_worst([2 * half for half in halves])[1]
    print_row("none, in a step", len(steps), waits, ("-", "-"), costs)


def print_faults(run):
    print(f"\n{'':27} {'until next step':>19} {'until all are back':>19}")
    print(f"{'fault':20} {'times':>6} {'median ms':>11} {'worst':>7} {'median ms':>11} {'worst':>7} {'lost each':>10}")
    print_quiet(run)
    lost = losses(run)
    for kind in sorted(run.counts):
        ours = [fault for fault in run.faults if fault.kind == kind]
        waits, returns = ([getattr(fault, what) for fault in ours] for what in ("recovery", "reunion"))
        print_row(kind, len(ours), middle_and_worst(waits), middle_and_worst(returns), lost.get(kind))
    for kind in run.kinds:
        if kind.name not in run.counts:
            print(f"{kind.name:20} never struck")
    for kind, why in run.skipped:
        print(f"{kind:20} skipped: {why}")
    print(LEGEND)


def print_power(cost, run):
    """The cost of power losses: the work since the last checkpoint, and the time until all peers are back."""
    if cost:
        percent = 100 * sum(cost) / max(run.live_s, 1)
        print(f"power losses, all together: {percent:.1f} % of the live peer-seconds, until a new step was committed")


def print_steps(run):
    course = run.course
    judged = [loss for loss in course.power_losses if loss.judged]
    in_power_losses, in_cuts, with_all = course.lost_in_power_losses(), course.lost_in_cuts, course.lost_with_all
    print(f"steps committed {course.newest}, lost and done again {in_power_losses + in_cuts + with_all}: ", end="")
    print(f"{in_power_losses} in {len(course.power_losses)} power losses, ", end="")
    print(f"{in_cuts} in cuts, as the peers that had them ended, ", end="")
    print(f"{with_all} as all peers that had them ended, one after another")
    print(f"    power losses after which the job had to continue from the newest complete checkpoint: {len(judged)}")
    decayed = [strike.fault for strike in run.faults if strike.kind == faults.PowerLoss.name and strike.fault.damaged]
    print(f"    disks that were damaged then: {len(decayed)}, of which read: {sum(fault.read for fault in decayed)}")
    for wrong in course.wrongs:
        print(f"    WRONG: {wrong}")


def print_bits(run):
    print(f"corruptions that peers reported and a fault explains: {run.bits.explained}")
    for wrong in run.bits.wrongs:
        print(f"    WRONG: {wrong}")


def print_work(run):
    print(f"measured: godwit run {' '.join(run.flock.job)}")
    print(f"    {run.job.measured}")
    if run.job.step_s is None:
        print(f"    what live peers could do is not known; {run.live_s:.0f} live peer-seconds")
        return
    live, asked = f"{judge.percent(run):.1f} % of {run.live_s:.0f}", f"asked for: at least {judge.ASKED_PERCENT} %"
    print(f"work committed {run.done_s:.0f} s: {live} live peer-seconds ({asked})")
    of_all = f"{100 * run.done_s / max(run.process_s, 1):.1f} % of {run.process_s:.0f}"
    print(f"    {of_all} s of all processes, with faults or without")
    print("    a peer is live while it runs and is in the largest group of peers that all reach each other")
    print_power(losses(run).get(faults.PowerLoss.name), run)


def print_crashes(run):
    for when, number, code, words in run.crashes:
        print(f"\nat {when - run.began:.1f} s peer {number} ended ({code}), which no fault explains; its last words:")
        print(textwrap.indent(words, " " * 4), end="")


def print_use(run):
    """What settled processes use in the run's first tenth and in its last."""
    until = run.began + run.seconds
    medians = run.use.median(run.began, run.began + run.seconds / 10), run.use.median(until - run.seconds / 10, until)
    for what, unit, i in (("memory", 1 << 20, 0), ("descriptors", 1, 1)):
        early, late = ("-" if median is None else f"{median[i] / unit:.1f}" for median in medians)
        print(f"{what} of a peer{' in MiB' * (i == 0)}: {early} in the first tenth, {late} in the last", end="")
        print(f" (medians), at most {run.use.most[i] / unit:.1f}")
    growth, who = run.growth, f"peer {run.flock.peers[0].number}"
    if growth is None:
        print(f"    whether that grows is not judged: {who} has not lived long enough")
        return
    an_hour, in_all = use.ALLOWED_BYTES_H / 1024, use.ALLOWED_BYTES / 1024
    grew = f"{growth.bytes_h / 1024:.0f} KiB and {growth.descriptors_h:.1f} descriptors an hour in {growth.hours:.1f} h"
    print(f"    {who}, which nothing ended since the middle of the run, grew by {grew}")
    print(f"    (asked for: at most {an_hour:.0f} KiB and {use.ALLOWED_DESCRIPTORS_H}, beside {in_all:.0f} KiB", end="")
    print(f" and {use.ALLOWED_DESCRIPTORS} that come and go{'; too short to judge' * (growth.hours < use.JUDGED_H)})")
    for what in run.leaks():
        print(f"    LEAK: {what}")


def print_shortfalls(run):
    for what in run.shortfalls():
        print(f"    FALLS SHORT: {what}")


def print_report(run):
    print_faults(run)
    print(f"\nfaults {len(run.faults)}, of {len(run.counts)} kinds, in {run.seconds:.0f} s")
    if run.idle():
        print("    NOTHING HAS STRUCK: this run shows nothing")
    print(f"    not counted: bits that flipped in chunks that no peer read: {len(run.unread)}")
    print_steps(run)
    print_bits(run)
    print(f"processes that ended by themselves and were started again {run.ended}")
    print(f"processes that no fault had ended or denied anything: {len(run.crashes)}")
    print_work(run)
    print_use(run)
    print_crashes(run)
    print_shortfalls(run)
    verdict = {True: "yes", False: "NO", None: "not judged"}[run.same]
    for whose, model in run.models.items():
        print(f"model exported from {whose}: {model}")
    print(f"state   {run.state}\nalone   {run.alone}\nsame bytes as an undisturbed single-peer run: {verdict}")
