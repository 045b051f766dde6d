"""The measurements over RDMA, part of ./build.sh bench: in the lab's machines (machines.py), each figure of ours
beside that of perftest's tools in the same machine and the same minute. Ratios mean something there, absolute
figures only on a real card.
"""

import json
import os
import re
import time

from flock import Trouble
from lab_flock import LabFlock
from machines import Lab, missing
from tables import median, row, table, wrong

PERFTEST_PORT = 18515
BW_AVERAGE, T_TYPICAL = 3, 4  # columns of perftest's tables
PATIENCE_S = 240
WRITE_BYTES = [65536, 1 << 20]
REDUCED_BYTES = 16 << 20


def perftest(machine, column, tool, *options, client=None):
    """A figure from the table that one of perftest's tools prints, run between two processes of a machine, or from
    another one."""
    command = " ".join([tool, "-F", "-x 1", *options])
    server = machine.spawn(command)
    machine.wait_listening(PERFTEST_PORT)
    output = (client or machine).check(f"{command} {machine.address}", PATIENCE_S)
    server.wait(PATIENCE_S)
    found = re.search(r"^ *#bytes.*\n(.*)", output, re.MULTILINE)
    if not found:
        raise Trouble(f"{command}: no table in\n{output}")
    return float(found.group(1).split()[column])


def write_bandwidth(machine, size, iterations, *options):
    """Measures ib_write_bw, in MB/s (2^20 bytes)."""
    return perftest(machine, BW_AVERAGE, "ib_write_bw", f"-s {size}", f"-n {iterations}", "-t 16", *options)


def atomic_latency(machine, iterations):
    """Measures the median of a compare-and-swap by ib_atomic_lat, in microseconds."""
    return perftest(machine, T_TYPICAL, "ib_atomic_lat", "-A CMP_AND_SWAP", f"-n {iterations}")


def figure(output, pattern):
    """What the pattern's group finds in a table that was printed."""
    found = re.search(pattern, output, re.MULTILINE)
    if not found:
        raise Trouble(f"no {pattern} in\n{output}")
    return float(found.group(1))


def ours(machine, binary, what, pattern):
    """The figure that the pattern's group finds in what `godwit bench` prints with these words."""
    return figure(machine.check(f"{binary} bench {what}", PATIENCE_S), pattern)


def alternately(rounds, *ways):
    """The medians of what the ways measure, in turns, so that the machine's moods fall on all of them."""
    found = [[way() for way in ways] for _ in range(rounds)]
    return [median([results[i] for results in found]) for i in range(len(ways))]


def compare(what, unit, measured, reference, least=None, most=None):
    """A row: our figure, and its ratio to perftest's, which should be at least or at most so large."""
    ratio = measured / reference if reference else float("nan")
    reach = f">= {least:.0%}" if least else f"<= {most:.1f} x"
    shown = f"{ratio:.0%}" if least else f"{ratio:.2f} x"
    row(f"{what} ({reference:.1f} {unit})", f"{measured:.1f} {unit}, {shown}", reach)


def operations(machine, binary, rounds):
    count = 2000
    atomic, cas, whole, bare = [], [], [], []
    for _ in range(rounds):
        atomic.append(atomic_latency(machine, count))
        output = machine.check(f"{binary} bench steal --transport rdma --count {count}", PATIENCE_S)
        for name, values in (("CAS", cas), ("steal", whole), ("bare steal", bare)):
            values.append(figure(output, rf"^\s*{name}\s+direct\s+([\d.]+)"))
    compare("CAS (ib_atomic_lat)", "us", median(cas), median(atomic), most=1.3)
    compare("a whole steal (ib_atomic_lat)", "us", median(whole), median(atomic), most=2.5)
    compare("a whole steal (the same by bare verbs)", "us", median(whole), median(bare), most=1.1)


def writes(machine, binary, rounds):
    for size in WRITE_BYTES:
        iterations = max(32, (32 << 20) // size)
        reference, measured = alternately(
            rounds,
            lambda: write_bandwidth(machine, size, iterations),
            lambda: ours(machine, binary, f"write --transport rdma --bytes {size}", rf"^\s*{size}\s+([\d.]+)"),
        )
        compare(f"WRITE of {size >> 10} KiB (ib_write_bw)", "MB/s", measured, reference, least=0.8)


def all_reduce(machine, binary, rounds):
    """With two processes each byte of the result crosses once in each direction."""
    words = f"allreduce --transport rdma --peers 2 --bytes {REDUCED_BYTES} --repeats 1 --no-mpi"
    both_ways, took_ms = alternately(
        rounds,
        lambda: write_bandwidth(machine, 1 << 20, 32, "-b"),
        lambda: ours(machine, binary, words, rf"^\s*{REDUCED_BYTES // 8}\s+([\d.]+)"),
    )
    reached = 2 * REDUCED_BYTES / (1 << 20) / (took_ms / 1000)
    compare("16 MiB all-reduce (ib_write_bw -b)", "MB/s", reached, both_ways, least=0.6)


def kills(lab, binary, rounds):
    """A machine's QEMU gets SIGKILL in mid-run: from then to the next view, and to the next step."""
    job = ["synthetic", "--shards", "12", "--shard-ms", "20", "--steps", "100000000", "--checkpoint-every", "off"]
    options = ["--workers", "1", "--transport", "rdma"]
    views, steps = [], []
    with LabFlock(lab, binary, [*job, "--peers", "3"]) as flock:
        flock.gather_in([flock.home(number) for number in (1, 2, 3)], options)
        for i in range(rounds):
            flock.first_step_after(time.time(), PATIENCE_S, 3)
            victim = flock.leader() if i % 2 == 0 else next(p for p in flock.living() if not p.leads)
            moment = flock.kill_machine(victim)
            step = flock.first_step_after(moment, PATIENCE_S, 2)
            views.append(flock.events_after(moment, "view")[0][1]["time"] - moment)
            steps.append(step["time"] - moment)
            lab.start(victim.home.number)
            flock.start(victim, options)
    row(f"killed machine to a new view, median of {rounds}", f"{median(views):.1f} s")
    row("  to the next step, median and most", f"{median(steps):.1f} s, {max(steps):.1f} s", "<= 3 s at native speed")


def join(lab, binary, state_bytes):
    """MB/s at which a third machine's peer got the state from two, the admission and all included; and how much of
    it its device READ."""
    job = ["synthetic", "--shards", "12", "--shard-ms", "5", "--state-bytes", str(state_bytes), "--steps", "100000000"]
    options = ["--transport", "rdma", "--time-scale", "400", "--workers", "1", "--checkpoint-every", "off"]
    with LabFlock(lab, binary, [*job, *options, "--peers", "2"]) as flock:
        flock.gather_in([flock.home(1), flock.home(2)])
        flock.wait_step(2, PATIENCE_S)
        moment = time.time()
        joiner = flock.add([], flock.home(3))
        flock.first_step_after(moment, PATIENCE_S, 3)
        pause_ms = flock.events_after(moment, "join")[0][1]["pause_ms"]
        directory = joiner.home.inside(joiner.directory)
        shown = joiner.home.machine.check(f"{flock.binary} status --json --dir {directory}")
    return state_bytes / (1 << 20) / (pause_ms / 1000), json.loads(shown)["counters"]["pulled_bytes"] / state_bytes


def joins(lab, binary, rounds, state_bytes):
    """Beside ib_read_bw from the same machine, in pieces of the size that a peer READs."""
    shares = []

    def joined():
        reached, share = join(lab, binary, state_bytes)
        shares.append(share)
        return reached

    def read():
        return perftest(lab.machine(1), BW_AVERAGE, "ib_read_bw", "-s 131072", "-n 200", "-o 4", client=lab.machine(3))

    reference, measured = alternately(rounds, read, joined)
    what = f"state of {state_bytes >> 20} MiB to a joiner, {min(shares):.0%} READ (ib_read_bw)"
    row(f"{what} ({reference:.1f} MB/s)", f"{measured:.1f} MB/s, {measured / reference:.0%}")


def rdma(binary, quick):
    table("9. over RDMA, in emulated machines; in brackets what perftest reaches there")
    reason = missing()
    if reason:
        wrong(f"rdma: not measured: {reason}")
        return
    binary = os.path.abspath(binary)
    rounds = 2 if quick else 5
    with Lab(1) as lab:
        machine = lab.start(1)
        for part in (operations, writes, all_reduce):
            try:
                part(machine, binary, rounds)
            except Trouble as trouble:
                wrong(f"not measured: {trouble}")
    with Lab(3) as lab:
        lab.start_all()
        joins(lab, binary, 2, (32 if quick else 256) << 20)
        kills(lab, binary, rounds)
