"""./build.sh bench: measures what Godwit promises and prints it as tables, beside what it should reach. Exit code 1
where bytes differ, steps are missing or something could not be measured."""

import argparse
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flock import Flock, Trouble, bind_life, end_on_signals, run_alone, same_as_alone  # noqa: E402
from ledger import Ledger  # noqa: E402
from program_bench import program  # noqa: E402
from rdma_bench import rdma  # noqa: E402
from tables import median, row, table, tell_wrongs, wrong  # noqa: E402

PATIENCE_S = 120


def flock_of(binary, job, count, extra=()):
    """A flock in which `count` peers are computing."""
    flock = Flock(binary, [*job, "--peers", str(count)])
    try:
        flock.gather(count, extra)
        flock.wait_step(2, PATIENCE_S)
    except BaseException:
        flock.close()
        raise
    return flock


def steps_between(flock, begin, end):
    """[(time, step)] of the commits between two moments, by the first peer that reports each."""
    first = {}
    for _, event in flock.events_after(begin, "step"):
        if event["time"] <= end:
            first.setdefault(event["step"], event["time"])
    return sorted((moment, step) for step, moment in first.items())


# ---- 1: the same bytes ----


def disturbed(binary, job, steps, extra=()):
    """Four peers; leader and a follower are killed and come back; the states at the end."""
    with flock_of(binary, job, 4, ["--workers", "1", *extra]) as flock:
        for share, leader in ((0.25, True), (0.5, False)):
            flock.wait_step(int(steps * share), PATIENCE_S)
            victim = next(peer for peer in flock.living() if peer.leads == leader)
            victim.kill()
            flock.first_step_after(time.time(), PATIENCE_S)
            flock.start(victim)
        flock.wait_ends(flock.living(), PATIENCE_S)
        return {peer.done["state"] for peer in flock.peers}


def resumed(binary, job, steps):
    """Four peers with frequent checkpoints, all killed at once; three start again."""
    with flock_of(binary, job, 4, ["--workers", "1", "--checkpoint-every", "10"]) as flock:
        flock.wait(lambda: flock.events_after(0, "checkpoint"), PATIENCE_S, "a checkpoint")
        flock.wait_step(steps // 2, PATIENCE_S)
        for peer in flock.living():
            peer.signal(signal.SIGKILL)
        flock.wait(lambda: not flock.living(), PATIENCE_S, "the end of all")
        flock.job[flock.job.index("--peers") + 1] = "3"
        for peer in flock.peers[:3]:
            flock.start(peer)
        flock.wait_ends(flock.peers[:3], PATIENCE_S)
        if not any(event["step"] > 0 for _, event in flock.events_after(0, "resumed")):
            raise Trouble("nobody resumed from a checkpoint: all was computed again")
        return {peer.done["state"] for peer in flock.peers[:3]}


def together(binary, job, count, extra=()):
    with flock_of(binary, job, count, ["--workers", "1", *extra]) as flock:
        flock.wait_ends(flock.peers, PATIENCE_S)
        return {peer.done["state"] for peer in flock.peers}


def hashes(binary, quick):
    epochs, steps = ("20", 120) if quick else ("60", 300)
    jobs = {
        "digits": ["digits", "--epochs", epochs],
        "synthetic": ["synthetic", "--shards", "48", "--shard-ms", "4", "--steps", str(steps)],
    }
    for name, job in jobs.items():
        table(f"1. one state hash: {name}")
        alone = run_alone(binary, job, ["--workers", "1"])
        reference, count = alone["state"], alone["steps"]
        row("1 peer, 1 worker", reference[:16], f"{count} steps")
        ways = [
            ("1 peer, 2 workers", lambda: {run_alone(binary, job, ["--workers", "2"])["state"]}),
            ("1 peer, 7 workers", lambda: {run_alone(binary, job, ["--workers", "7"])["state"]}),
            ("4 peers", lambda: together(binary, job, 4)),
            ("4 peers, --transport tcp", lambda: together(binary, job, 4, ["--transport", "tcp"])),
            ("4 peers, --quorum majority", lambda: together(binary, job, 4, ["--quorum", "majority"])),
            ("4 peers, kills and joins", lambda: disturbed(binary, job, count)),
            ("the same, majority", lambda: disturbed(binary, job, count, ["--quorum", "majority"])),
            ("all killed, three restarted", lambda: resumed(binary, job, count)),
        ]
        for what, way in ways:
            try:
                states = way()
            except Trouble as trouble:
                row(what, "failed", str(trouble).splitlines()[0], good=False)
                continue
            same = states == {reference}
            row(what, ",".join(state[:16] for state in states), "same" if same else "DIFFERS", same)


def bench_part(binary, *words):
    """The output of `godwit bench` with these arguments."""
    code = subprocess.run([binary, "bench", *words], check=False, preexec_fn=bind_life).returncode
    if code != 0:
        wrong(f"godwit bench {' '.join(words)}: exit code {code}")


def mnist_folder():
    """The folder of MNIST's files in GODWIT_TEST_DATA, or None."""
    data = os.environ.get("GODWIT_TEST_DATA")
    for folder in [os.path.join(data, "mnist"), data] if data else []:
        if os.path.isdir(folder) and any("idx3" in name for name in os.listdir(folder)):
            return folder
    return None


def mnist(binary, quick):
    del quick
    table("2. accuracy and CPU time of digits")
    folder = mnist_folder()
    data = ["--data", folder] if folder else []
    if data:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run_alone(binary, ["digits", *data, "--epochs", "5"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        accuracy = done["summary"]["accuracy"]
        row("MNIST, 784-128-10, 5 epochs: accuracy", f"{accuracy:.4f}", ">= 0.975", good=accuracy >= 0.975)
        row("  wall and CPU time", f"{done['seconds']:.1f} s, {after.ru_utime - before.ru_utime:.1f} s")
    else:
        wrong("mnist: accuracy not measured: GODWIT_TEST_DATA names no folder with mnist/ in it")
    bench_part(binary, "digits", *data)


# ---- 3: failures ----

SMALL_STEPS = ["synthetic", "--shards", "48", "--shard-ms", "5", "--steps", "100000000", "--checkpoint-every", "off"]


def gap_after(flock, moment, survivors):
    """How much longer than a normal step nothing was committed around `moment`, in ms."""
    after = flock.first_step_after(moment, PATIENCE_S, survivors)
    steps = steps_between(flock, moment - 5, after["time"])
    before = [(at, step) for at, step in steps if at < moment]
    normal = median([b[0] - a[0] for a, b in zip(before, before[1:])])
    gaps = [b[0] - a[0] for a, b in zip(steps, steps[1:]) if b[0] > moment]
    return (max(gaps) - normal) * 1000, normal * 1000


def disturb(flock, leader, how):
    """Picks the leader or a follower, does `how` to it, and returns (peer, gap beyond a step, a step) in ms."""
    flock.wait_step(flock.step() + random.randint(8, 12), PATIENCE_S)
    time.sleep(random.random() * 0.1)  # anywhere within a step
    victim = flock.leader() if leader else random.choice([p for p in flock.living() if not p.leads])
    survivors = len(flock.living()) - 1
    moment = how(victim)
    return (victim, *gap_after(flock, moment, survivors))


def wait_whole(flock, count):
    """Waits until all `count` peers commit steps together."""
    flock.first_step_after(time.time(), PATIENCE_S, count)


def recovery(binary, quick):
    table("3. SIGKILL of one of 4 peers: no step committed, beyond a normal step")
    times = 3 if quick else 10
    with flock_of(binary, SMALL_STEPS, 4, ["--workers", "1"]) as flock:
        for what, leader in (("follower", False), ("leader", True)):
            gaps = []
            for _ in range(times):
                wait_whole(flock, 4)
                victim, gap, normal = disturb(flock, leader, lambda peer: peer.kill())
                gaps.append(gap)
                flock.start(victim)
            row(f"{what}: median of {times} (a step: {normal:.0f} ms)", f"{median(gaps):.0f} ms", "<= 300 ms")
            row("  least and most", f"{min(gaps):.0f} .. {max(gaps):.0f} ms")


def new_view(flock, victim, moment):
    """Waits until all others are in a view without `victim`: when the first knew of its death, when the last was in."""
    others = [peer for peer in flock.living() if peer is not victim]

    def found():
        told = [event for _, event in flock.events_after(moment, "peer") if event["peer"] == victim.id]
        known = [event["time"] for event in told if event["state"] in ("dead", "unreachable")]
        first = {}
        for peer, event in flock.events_after(moment, "view"):
            if victim.id not in event["members"]:
                first.setdefault(peer, event["time"])
        return len(first) == len(others) and known and (min(known), max(first.values()))

    return flock.wait(found, PATIENCE_S, f"a view without peer {victim.number}", others)


def failover(binary, quick):
    table("3. the leader of 5 peers is killed: when do all others have a new one?")
    times = 5 if quick else 20
    known, new = [], []
    with flock_of(binary, SMALL_STEPS, 5, ["--workers", "1"]) as flock:
        for _ in range(times):
            wait_whole(flock, 5)
            flock.wait_step(flock.step() + random.randint(8, 12), PATIENCE_S)
            victim = flock.leader()
            moment = victim.kill()
            first, last = new_view(flock, victim, moment)
            known.append((first - moment) * 1000)
            new.append((last - moment) * 1000)
            flock.start(victim)
    elected = [b - a for a, b in zip(known, new)]
    row(f"SIGKILL until the first knows: median of {times}", f"{median(known):.1f} ms")
    row("from then until all are in the new view", f"{median(elected):.1f} ms", "<= 50 ms")
    row("  least and most", f"{min(elected):.1f} .. {max(elected):.1f} ms")
    row("SIGKILL until all are in the new view", f"{median(new):.1f} ms", "<= 300 ms")
    row("  least and most", f"{min(new):.1f} .. {max(new):.1f} ms")


def silence(binary, quick):
    table("3. a peer goes silent (SIGSTOP)")
    times = 2 if quick else 5
    with flock_of(binary, SMALL_STEPS, 4, ["--workers", "1"]) as flock:
        for what, leader in (("follower", False), ("leader", True)):
            gaps = []
            for _ in range(times):
                wait_whole(flock, 4)
                victim, gap, _ = disturb(flock, leader, lambda peer: peer.signal(signal.SIGSTOP))
                gaps.append(gap)
                victim.signal(signal.SIGCONT)
            row(f"{what}: median of {times}", f"{median(gaps):.0f} ms", "<= 3000 ms")
            row("  most", f"{max(gaps):.0f} ms")


def false_deaths(binary, quick):
    table("3. false deaths with every core oversubscribed 4 times")
    seconds = 60 if quick else 600
    hog = [sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(hog, preexec_fn=bind_life) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        with flock_of(binary, SMALL_STEPS, 4, ["--workers", "1"]) as flock:
            began, first = time.time(), flock.step()
            flock.wait(lambda: time.time() - began > seconds, seconds + PATIENCE_S, "the end", flock.peers)
            deaths = [e for _, e in flock.events_after(began, "peer") if e["state"] in ("dead", "unreachable")]
            row(f"deaths believed in {seconds} s", str(len(deaths)), "0")
            row("steps committed meanwhile", str(flock.step() - first))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


# ---- 4 and 5: churn, and a slow peer ----

SLEEPING = ["synthetic", "--shards", "120", "--shard-ms", "20", "--steps", "100000000", "--checkpoint-every", "off"]
SHARD_S, SHARDS = 0.020, 120


def kill_and_restart(flock, seconds):
    """For so long. Returns how many were killed, [(time, step)] of the commits, and the live peer-seconds until the last
    of them: the time that a peer takes to start is its own."""
    ledger, kills = Ledger(), 0
    began = time.time()
    for peer in flock.peers:
        ledger.started(peer.number, began)
    ledger.begin(began)
    restart_at, victim = None, None
    next_kill = began + 5
    while time.time() - began < seconds:
        now = time.time()
        if victim is None and now >= next_kill:
            victim = random.choice(flock.living())
            ledger.ended(victim.number, victim.kill())
            restart_at, next_kill, kills = now + 2, now + 5, kills + 1
        if victim is not None and now >= restart_at:
            ledger.started(victim.number, now)
            flock.start(victim)
            victim = None
        time.sleep(0.01)
    commits = steps_between(flock, began, time.time())
    ledger.close(time.time())
    return kills, commits, ledger.until(commits[-1][0])[1]


def churn(binary, quick):
    table("4. six peers, one killed every 5 s and restarted 2 s later")
    random.seed(7)
    with flock_of(binary, SLEEPING, 6, ["--workers", "1"]) as flock:
        wait_whole(flock, 6)
        first = flock.step()
        kills, commits, allowed = kill_and_restart(flock, 40 if quick else 120)
        states = stop_all(flock)
    done = commits[-1][1] - first
    row("kills", str(kills))
    whole = gapless(commits)
    row("steps committed, in order", str(done), "every one" if whole else "GAPS", whole)
    row("work done of what live peers allow", f"{100 * done * SHARDS * SHARD_S / allowed:.1f} %", ">= 95 %")
    check_against_alone(binary, SLEEPING, states)


def gapless(commits):
    numbers = sorted(step for _, step in commits)
    return numbers == list(range(numbers[0], numbers[-1] + 1))


def stop_all(flock):
    """Stops the job by godwit stop, and returns {(steps, state)} of all peers that were running."""
    finishers = flock.living()
    subprocess.run([flock.binary, "stop", "--dir", finishers[0].directory], check=True, stdout=subprocess.DEVNULL)
    flock.wait_ends(finishers, PATIENCE_S)
    return {(peer.done["steps"], peer.done["state"]) for peer in finishers}


def check_against_alone(binary, job, states):
    same, _ = same_as_alone(binary, [*job, "--shard-ms", "0"], states)
    row("state hash against one undisturbed peer", "same" if same else "DIFFERS", good=same)


def rate(flock, steps):
    """Measures the steps per second over the next `steps` steps."""
    begin = flock.first_step_after(time.time(), PATIENCE_S)
    flock.wait_step(begin["step"] + steps, PATIENCE_S)
    commits = steps_between(flock, begin["time"] - 0.001, time.time())
    (t0, s0), (t1, s1) = commits[0], commits[-1]
    return (s1 - s0) / (t1 - t0)


def slow(binary, quick):
    table("5. one of four peers is 4 times slower")
    steps = 20 if quick else 60
    with flock_of(binary, SLEEPING, 4, ["--workers", "1"]) as flock:
        even = rate(flock, steps)
    with Flock(binary, [*SLEEPING, "--peers", "4"]) as flock:
        for number in range(4):
            flock.add(["--workers", "1", *(["--skew", "4"] if number == 3 else [])])
        flock.wait_step(10, PATIENCE_S)
        began = time.time()
        uneven = rate(flock, steps)
        stolen = sum(e["shards"] for _, e in flock.events_after(began, "steal"))
        shares = {peer.number: 0 for peer in flock.peers}
        for peer, event in flock.events_after(began, "step"):
            shares[peer.number] += event["computed"]
    row("even flock", f"{even:.3f} steps/s")
    row("with the slow peer", f"{uneven:.3f} steps/s")
    row("of the ideal 3.25/4", f"{100 * uneven / (even * 3.25 / 4):.1f} %", ">= 95 %")
    total = max(1, sum(shares.values()))
    row("shards computed by each peer", " ".join(f"{100 * n / total:.1f}%" for n in shares.values()), "4th: 7.7%")
    row("shards stolen, a step", f"{stolen / max(1, steps):.1f}")


# ---- 6: parts ----


def micro(binary, quick):
    del quick
    parts = {
        "exact sums": "accumulate",
        "packed sums": "pack",
        "6. AEAD": "aead",
        "6. all-reduce": "allreduce",
        "6. all-reduce in shared memory": "allreduce --transport shm",
        "6. steal": "steal",
        "6. steal in shared memory": "steal --transport shm",
        "7. a checkpoint's parts": "checkpoint",
    }
    for title, what in parts.items():
        table(title)
        bench_part(binary, *what.split())


# ---- 7 and 8: checkpoints, memory ----


def checkpoint_run(binary, every, steps):
    job = ["synthetic", "--spin", "--shards", "24", "--shard-ms", "20", "--state-bytes", "64m", "--steps", str(steps)]
    with flock_of(binary, [*job, "--checkpoint-every", every], 2, ["--workers", "1"]) as flock:
        flock.wait_step(steps - 1, PATIENCE_S)
        commits = [at for at, step in steps_between(flock, 0, time.time()) if 5 <= step < steps]
        flock.wait_ends(flock.peers, PATIENCE_S)
        return (commits[-1] - commits[0]) / (len(commits) - 1) * 1000


def checkpoint_bytes(binary):
    """Measures the bytes that each of four peers writes of a 64 MiB state with two replicas, as shares of it."""
    job = ["synthetic", "--shards", "12", "--shard-ms", "5", "--state-bytes", "64m", "--steps", "12"]
    with flock_of(binary, [*job, "--checkpoint-every", "6", "--replicas", "2"], 4, ["--workers", "1"]) as flock:
        flock.wait_ends(flock.peers, PATIENCE_S)
        written = {peer.number: [] for peer in flock.peers}
        for peer, event in flock.events_after(0, "checkpoint"):
            written[peer.number].append(event["bytes"] / 64 / 2**20)
        return [statistics.mean(shares or [0]) for shares in written.values()]


def checkpoint(binary, quick):
    table("7. a checkpoint of 64 MiB every 10 CPU-bound steps, 2 peers")
    rounds, steps = (1, 42) if quick else (3, 82)
    without, with_them = [], []
    for _ in range(rounds):
        without.append(checkpoint_run(binary, "off", steps))
        with_them.append(checkpoint_run(binary, "10", steps))
    base, loaded = median(without), median(with_them)
    row("a step without", f"{base:.1f} ms", ">= 200 ms")
    row("a step with", f"{loaded:.1f} ms")
    row("slowed by", f"{100 * (loaded / base - 1):.1f} %", "<= 3 %")
    shares = checkpoint_bytes(binary)
    each, mean = " ".join(f"{100 * share:.0f}%" for share in shares), statistics.mean(shares)
    row("written by each of 4 peers, 2 replicas", each, "50 % of it on average", good=round(100 * mean) == 50)


# ---- what it costs to find silent corruption ----


def cpu_seconds(peers):
    """The processor time that the peers have used so far, with the kernel's share."""
    ticks = 0
    for peer in peers:
        with open(f"/proc/{peer.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def verified_run(binary, job, share, steps):
    """(CPU seconds, ms) a step of two peers that have settled."""
    options = ["--checkpoint-every", "off", "--steps", "100000000", "--verify", share]
    with flock_of(binary, [*job, *options], 2, ["--workers", "1"]) as flock:
        begin = flock.first_step_after(time.time(), PATIENCE_S)
        before = cpu_seconds(flock.peers)
        flock.wait_step(begin["step"] + steps, PATIENCE_S)
        taken = cpu_seconds(flock.peers) - before
        commits = steps_between(flock, begin["time"] - 0.001, time.time())
        done = commits[-1][1] - begin["step"]
        return taken / done, (commits[-1][0] - commits[0][0]) / done * 1000


def off_and_on(binary, job, share, rounds, steps):
    """(off, on), each [(CPU seconds, ms) a step, ...]: one after the other, as machines warm up and slow down."""
    off, on = [], []
    for _ in range(rounds):
        off.append(verified_run(binary, job, "off", steps))
        on.append(verified_run(binary, job, share, steps))
    return off, on


def median_of(runs, at):
    return median([run[at] for run in runs])


def verify_rows(what, off, on):
    row(f"{what}: a step without", f"{median_of(off, 1):.0f} ms", f"CPU time {1000 * median_of(off, 0):.0f} ms")
    for kind, at in (("CPU", 0), ("wall", 1)):
        row(f"  more {kind} time", f"{100 * (median_of(on, at) / median_of(off, at) - 1):+.2f} %", "<= 1.5 %")


def spinning(shards, shard_ms, state):
    return ["synthetic", "--spin", "--shards", str(shards), "--shard-ms", str(shard_ms), "--state-bytes", state]


# A parameter has 12 bytes of state, and as many operations a token as any other: a step with 45 million of them takes
# 54 times what one of nano on bytes does, which has 0.83 million and as few tokens (6,144) as anybody trains on at
# once. That is 16 s of a core that needs 0.3 for nano's: the shortest step that is real for such a state.
LARGE_MIB, LARGE_SHARDS, LARGE_SHARD_MS = 512, 1000, 16


def verify(binary, quick):
    table("9. --verify 1%, 2 peers, CPU-bound: that share once more, and two looks at the state a step")
    rounds, steps = (1, 12) if quick else (4, 25)
    verify_rows("a state of 4 MiB", *off_and_on(binary, spinning(96, 10, "4m"), "1%", rounds, steps))
    rounds, steps = (1, 6) if quick else (8, 48)
    nano = ["gpt", "--data", binary]  # any bytes take as much work as a text does
    verify_rows("gpt's nano on bytes, 10 MB of state", *off_and_on(binary, nano, "1%", rounds, steps))
    rounds, steps = (1, 1) if quick else (3, 2)
    large = spinning(LARGE_SHARDS, LARGE_SHARD_MS, f"{LARGE_MIB}m")
    verify_rows(f"{LARGE_MIB} MiB, 45 M parameters", *off_and_on(binary, large, "1%", rounds, steps))
    off, on = off_and_on(binary, spinning(24, 1, f"{LARGE_MIB}m"), "0.001%", 1 if quick else 2, 20)
    looks = (median_of(on, 0) - median_of(off, 0)) / 2  # of each peer
    of_a_gib = f"{1000 * looks * 1024 / LARGE_MIB:.0f} ms"
    row("the looks alone, for each GiB of state", of_a_gib, "CPU time a step and peer")


def thread_seconds(peer, name):
    """The user CPU time of a peer's thread, which leaves out what the kernel does for it."""
    tasks = f"/proc/{peer.process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/stat") as file:
            head, fields = file.read().rsplit(")", 1)
        if head.endswith(f"({name}"):
            return int(fields.split()[11]) / os.sysconf("SC_CLK_TCK")
    raise Trouble(f"no thread {name}")


HASHED_MIB = 256


def hashing_run(flock, count):
    """Of `count` checkpoints that follow on the first: (seconds of a core, seconds from one to the next)."""

    def complete(number):
        return flock.wait(lambda: flock.events_after(0, "checkpoint")[2 * number - 1:], PATIENCE_S, "checkpoints")[0]

    def taken():
        return max(thread_seconds(peer, "gw-checkpoint") for peer in flock.peers)

    first = complete(1)[1]["time"], taken()
    last = complete(1 + count)[1]["time"], taken()
    return (last[1] - first[1]) / count, (last[0] - first[0]) / count


def hashing(binary, quick):
    every, count = (5, 1) if quick else (30, 2)
    default = "" if quick else " (the default)"
    table(f"9. hashing a state of {HASHED_MIB} MiB at checkpoints every {every} s{default}, 2 peers with all of it")
    job = ["synthetic", "--shards", "24", "--shard-ms", "20", "--state-bytes", f"{HASHED_MIB}m", "--steps", "100000000"]
    with flock_of(binary, [*job, "--checkpoint-every", f"{every}s"], 2, ["--workers", "1"]) as flock:
        each, interval = hashing_run(flock, count)
    of_a_gib = f"{1000 * each * 1024 / HASHED_MIB:.0f} ms for a GiB"
    row("CPU time of the checkpoint's thread, each", f"{1000 * each:.0f} ms", of_a_gib)
    row(f"of a core, one every {interval:.1f} s", f"{100 * each / interval:.2f} %", "" if quick else "<= 1 %")


def corruption(binary, quick):
    verify(binary, quick)
    hashing(binary, quick)


# ---- what it costs to be traced ----


def stretch(flock, steps):
    """(CPU seconds of the peers, ms) a step, of the next so many steps."""
    begin = flock.first_step_after(time.time(), PATIENCE_S)
    before = cpu_seconds(flock.peers)
    flock.wait_step(begin["step"] + steps, PATIENCE_S)
    taken = cpu_seconds(flock.peers) - before
    commits = steps_between(flock, begin["time"], time.time())
    done = commits[-1][1] - commits[0][1]
    return taken / done, (commits[-1][0] - commits[0][0]) / done * 1000


def traced(binary, flock, steps):
    """The same while `godwit trace` records; ends the trace early."""
    command = [binary, "trace", "--dir", flock.peers[0].directory, "--summary", "--seconds", "3600"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=bind_life) as one:
        told = ""
        while f"traces {len(flock.peers)} peers" not in told:
            told = one.stderr.readline()
            if not told:
                raise Trouble("godwit trace has ended")
        try:
            return stretch(flock, steps)
        finally:
            one.send_signal(signal.SIGINT)
            one.stderr.read()


def tracing(binary, quick):
    rounds, steps = (3, 1000) if quick else (15, 2500)
    job = [*spinning(2, 1, "64k"), "--steps", "100000000", "--checkpoint-every", "off"]
    table("9. godwit trace on steps of about 1 ms, 2 peers, off and on in turn: the ratio of neighbours, median")
    with flock_of(binary, job, 2, ["--workers", "1"]) as flock:
        stretch(flock, steps)
        pairs = [(stretch(flock, steps), traced(binary, flock, steps)) for _ in range(rounds)]
    row("a step without", f"{median([off[1] for off, _ in pairs]):.2f} ms")
    for kind, at in (("wall", 1), ("CPU", 0)):
        more = median([on[at] / off[at] - 1 for off, on in pairs])
        row(f"  more {kind} time", f"{100 * more:+.2f} %", "<= 1 %")
    bench_part(binary, "trace")


def resident_bytes(peer):
    with open(f"/proc/{peer.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory(binary, quick):
    steps = 3000 if quick else 10000
    table(f"8. resident memory over {steps} steps, 2 peers")
    job = ["synthetic", "--shards", "12", "--shard-ms", "0", "--state-bytes", "64k", "--steps", "100000000"]
    with flock_of(binary, [*job, "--checkpoint-every", "200"], 2, ["--workers", "1"]) as flock:
        for part in (0.1, 0.25, 0.5, 0.75, 1):
            flock.wait_step(int(steps * part), 600)
            sizes = " ".join(f"{resident_bytes(peer) / 1e6:.2f}" for peer in flock.peers)
            row(f"after {flock.step()} steps", f"{sizes} MB", "no growth" if part == 1 else "")


TABLES = {
    "hashes": hashes,
    "mnist": mnist,
    "recovery": recovery,
    "failover": failover,
    "silence": silence,
    "false-deaths": false_deaths,
    "churn": churn,
    "slow": slow,
    "micro": micro,
    "checkpoint": checkpoint,
    "corruption": corruption,
    "tracing": tracing,
    "memory": memory,
    "rdma": rdma,
    "program": program,
}


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s GODWIT [quick] [TABLE...]", description=__doc__.split(": ")[1])
    parser.add_argument("binary", metavar="GODWIT", help="the program")
    parser.add_argument("words", metavar="TABLE", nargs="*", default=[],
                        help=f"of {', '.join(TABLES)} (default: all); quick: fewer repetitions, shorter runs")
    a = parser.parse_args()
    for word in a.words:
        if word != "quick" and word not in TABLES:
            parser.error(f"there is no table '{word}'; there are {', '.join(TABLES)}")
    quick = "quick" in a.words
    chosen = [word for word in a.words if word != "quick"] or list(TABLES)
    end_on_signals()
    for name in chosen:
        try:
            TABLES[name](a.binary, quick)
        except Trouble as trouble:
            wrong(f"{name}: {trouble}")
        except KeyboardInterrupt:
            return 130
    return tell_wrongs()


if __name__ == "__main__":
    sys.exit(main())
