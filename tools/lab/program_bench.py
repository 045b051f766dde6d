"""The measurements of jobs in Python, part of ./build.sh bench: what a shard takes beside the program's own work, beside
what plain PyTorch, torchrun and torchft take for the same. GODWIT_TEST_PYTHON names a Python with torch; without one,
the tables say so.

Machines are shared: where a figure is of processor time, it counts user and system time of all processes of a peer, and
what is compared runs in turn.
"""

import math
import os
import random
import re
import select
import signal
import socket
import statistics
import subprocess
import threading
import time

from flock import Flock, Trouble, bind_life
from tables import median, row, table, wrong

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
MODULE = os.path.join(HERE, "..", "python")
EXAMPLES = os.path.join(HERE, "..", "examples", "python")
PATIENCE_S = 1800
NICE = 5  # of the workers that a peer starts: what is compared with them is to have the same
GPT_TOKENS = 6144
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}


def python():
    return os.environ.get("GODWIT_TEST_PYTHON", "")


def lacks(interpreter, module):
    """The reason why there is no measurement with this module; empty where there is one."""
    if not interpreter:
        return "skipped: GODWIT_TEST_PYTHON names no Python with torch"
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    if subprocess.run([interpreter, "-c", code], check=False).returncode == 0:
        return ""
    return f"skipped: {interpreter} has no {module}"


def job_of(program, *arguments):
    words = " ".join(map(str, arguments))
    path = program if os.path.isabs(program) else os.path.join(PROGRAMS, program)
    return ["program", "--program", path, "--python", python(), "--args", words, "--checkpoint-every", "off"]


def texts_of(flock, begins):
    """What workers have printed that begins so: [(time, the rest), ...]."""
    found = []
    for _, event in flock.events_after(0, "log"):
        match = re.match(rf"\[\d+\] {begins} (.*)", event["text"])
        if match:
            found.append((event["time"], match[1]))
    return found


def values_of(flock, begins):
    return [float(text) for _, text in texts_of(flock, begins)]


def run_flock(binary, job, count, options=("--workers", "1"), ends=True):
    """Runs peers to the job's end and returns the closed flock, whose events remain."""
    flock = Flock(binary, [*job, "--peers", str(count)], ready_s=PATIENCE_S)
    try:
        flock.gather(count, options)
        flock.wait_ends(flock.peers, PATIENCE_S)
    finally:
        flock.close()
    return flock


def family(pid):
    """A process and all that descend from it."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def cpu_seconds(pids):
    """The processor time of processes so far."""
    total = 0
    for pid in pids:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                    total += int(file.read().split()[0])
        except OSError:  # it has ended
            continue
    return total * 1e-9


def maps_own_arena(pid):
    try:
        with open(f"/proc/{pid}/maps") as file:
            return "godwit-own" in file.read()
    except OSError:  # it has ended
        return False


def workers_of(peer):
    """The processes that compute: those of the peer's family that map an arena of their own."""
    return sorted(pid for pid in family(peer.process.pid) - {peer.process.pid} if maps_own_arena(pid))


# ---- what a shard takes ----


def exact_ns(binary):
    """The time to add an element to an exact sum in memory, in ns, as `godwit bench accumulate` measures it."""
    output = subprocess.run([binary, "bench", "accumulate"], check=True, text=True, capture_output=True).stdout
    found = re.findall(r"add \w+\s+([\d.]+) ns/element", output.partition("in memory")[2])
    if not found:
        raise Trouble(f"no figures in\n{output}")
    return min(map(float, found))


def overhead_of(binary, elements, tensors, shards, updates, turns):
    """(plain, waiting, worker, peer): processor time of a shard in microseconds; the last two are the least of the updates
    behind the first."""
    flock = run_flock(binary, job_of("noop.py", elements, tensors, shards, updates, turns, 0), 1)
    plain, waiting, worker, peer = (values_of(flock, what) for what in ("plain", "waiting", "worker", "peer"))
    if len(plain) != 1 or len(waiting) != 1 or len(worker) < 2 or len(peer) < 2:
        raise Trouble("the no-op program has not said what it measured")
    return plain[0], waiting[0], min(worker[1:]), min(peer[1:])


def overhead(binary, quick):
    table("10. programs: processor time of a shard beyond forward and backward, 1 peer, 1 worker")
    found = [overhead_of(binary, 1000, 1, 2000, 5, 2000) for _ in range(1 if quick else 3)]
    plain, waiting, worker, peer = (median([f[i] for f in found]) for i in range(4))
    row("no-op model of 1 k parameters: plain loop", f"{plain:.0f} us")
    row("  a plain loop that waits before each turn", f"{waiting:.0f} us")
    row("  its worker, its peer", f"{worker:.0f} us, {peer:.0f} us")
    beyond = f"{worker + peer - plain:.0f} us, {worker + peer - waiting:.0f} us"
    row("  beyond the one, beyond the other", beyond, "<= 60 us")
    elements, tensors = 30_000_000, 150
    exact = elements * exact_ns(binary) / 1000
    found = [overhead_of(binary, elements, tensors, 12, 4, 10) for _ in range(1 if quick else 3)]
    plain, _, worker, peer = (median([f[i] for f in found]) for i in range(4))
    row(f"30 M parameters in {tensors} tensors: plain loop", f"{plain / 1000:.1f} ms")
    row("  its worker, its peer", f"{worker / 1000:.1f} ms, {peer / 1000:.1f} ms")
    beyond = worker + peer - plain
    row("  beyond it, in exact additions", f"{beyond / 1000:.1f} ms, {beyond / exact:.2f}", "<= 1.15")
    row("  its peer, in exact additions", f"{peer / exact:.2f}")


# ---- memory ----


def private_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        fields = dict(re.findall(r"(\w+):\s+(\d+) kB", file.read()))
    return 1024 * (int(fields["Private_Clean"]) + int(fields["Private_Dirty"]))


def memory(binary, quick):
    del quick
    table("10. programs: memory of a second worker, model of 1 k parameters")
    job = job_of("noop.py", 1000, 1, 200, 1_000_000, 0, 0)
    with Flock(binary, [*job, "--peers", "1"], ready_s=PATIENCE_S) as flock:
        peer = flock.gather(1, ["--workers", "2"])[0]
        flock.wait_step(20, PATIENCE_S)
        sizes = [private_bytes(pid) / 2**20 for pid in workers_of(peer)]
    row("private memory of each worker", " ".join(f"{size:.0f}" for size in sizes) + " MiB", "<= 130 MiB")


# ---- a worker is killed ----


def kill_and_wait(pid):
    """Kills a process, and returns when it had ended."""
    fd = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        select.select([fd], [], [])
        return time.time()
    finally:
        os.close(fd)


def begins_of(path):
    """[(time, (update, shard)), ...] of the shards that have begun."""
    with open(path) as file:
        lines = file.read().splitlines()
    return [(float(line.split()[0]), line.split()[1:]) for line in lines]


def kills(binary, quick):
    times, sleep_ms = (3 if quick else 15), 50
    table(f"10. programs: SIGKILL of the one worker in the midst of a shard of {sleep_ms} ms")
    with Flock(binary, [], ready_s=PATIENCE_S) as flock:
        marks = os.path.join(flock.folder, "marks")
        flock.job = [*job_of("noop.py", 1000, 1, 100, 1_000_000, 0, sleep_ms, marks), "--peers", "1"]
        peer = flock.gather(1, ["--workers", "1"])[0]
        flock.wait_step(1, PATIENCE_S)
        lost, dying = [], []
        for _ in range(times):
            count = len(begins_of(marks)) + 5
            flock.wait(lambda: len(begins_of(marks)) > count, PATIENCE_S, "shards", watch=[peer])
            time.sleep(sleep_ms / 4000)
            (victim,) = workers_of(peer)
            moment, ended = time.time(), kill_and_wait(victim)
            again = flock.wait(lambda: [b for b in begins_of(marks) if b[0] > moment], PATIENCE_S, "the next worker")
            dying.append((ended - moment) * 1000)
            lost.append((again[0][0] - ended) * 1000)
    row(f"from its end until its shard begins again: median of {times}", f"{median(lost):.0f} ms", "<= 50 ms")
    row("  least and most", f"{min(lost):.0f} .. {max(lost):.0f} ms")
    row("  from the signal to its end", f"{median(dying):.0f} ms", "the kernel's time")


# ---- start ----


def start(binary, quick):
    del quick
    table("10. programs: from the start of a peer to its first step, model of 1 k parameters")
    began = time.time()
    code = "import torch; torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])"
    subprocess.run([python(), "-c", code], check=True)
    imported = time.time() - began
    began = time.time()
    flock = run_flock(binary, job_of("noop.py", 1000, 1, 1, 1, 0, 0), 1)
    opened = flock.events_after(0, "opening")[0][1]["time"]
    stepped = flock.events_after(0, "step")[0][1]["time"]
    row("import of torch, and an optimizer of its", f"{imported:.1f} s")
    row("until the program has described its job", f"{opened - began:.1f} s")
    row("from then to the first step", f"{stepped - opened:.1f} s")


# ---- beside DistributedDataParallel ----


def text_file(folder):
    """A text to learn: the tree's pages."""
    path = os.path.join(folder, "text")
    root = os.path.join(HERE, "..", "..")
    with open(path, "wb") as file:
        for base in sorted(os.listdir(root)):
            page = os.path.join(root, base, "README.md")
            if os.path.exists(page):
                with open(page, "rb") as one:
                    file.write(one.read())
        with open(os.path.join(root, "README.md"), "rb") as one:
            file.write(one.read())
    return path


def gpt_by_ddp(text, updates):
    """(seconds an update, processor seconds of a process for one)."""
    torchrun = os.path.join(os.path.dirname(python()), "torchrun")
    command = [torchrun, "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    output = subprocess.run(
        ["nice", "-n", str(NICE), *command, os.path.join(PROGRAMS, "gpt.py"), "ddp", text, str(updates)], check=True,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **THREADS}, preexec_fn=bind_life,
    ).stdout  # fmt: skip
    return tuple(float(re.search(rf"^{what} (\S+)", output, re.MULTILINE)[1]) for what in ("second", "cpu"))


def gpt_by_godwit(binary, text, updates, shards):
    """The same of two peers, each with its processes."""
    settled = 10
    job = [*job_of("gpt.py", "godwit", text, 1_000_000, shards), "--peers", "2"]
    with Flock(binary, job, ready_s=PATIENCE_S) as flock:
        flock.gather(2, ["--workers", "1"])
        flock.wait_step(settled, PATIENCE_S)
        pids = set().union(*(family(peer.process.pid) for peer in flock.peers))
        first, before = flock.step(), cpu_seconds(pids)
        flock.wait_step(settled + updates, PATIENCE_S)
        taken = (cpu_seconds(pids) - before) / (flock.step() - first) / len(flock.peers)
        commits = {}
        for _, event in flock.events_after(0, "step"):
            commits.setdefault(event["step"], event["time"])
        steps = sorted(commits.items())
    return median([b[1] - a[1] for a, b in zip(steps, steps[1:]) if a[0] >= settled]), taken


def beside_ddp(binary, quick):
    rounds, updates = (1, 20) if quick else (5, 60)
    table("10. programs: GPT of 4 x 128 x 64, 2 peers of 1 worker, beside DDP by torchrun on gloo with 2 processes")
    found = {"DDP": [], 2: [], 4: []}  # shards of an update: with 2, each has as many samples as a process of DDP
    with Flock(binary, []) as folder:
        text = text_file(folder.folder)
        for _ in range(rounds):
            found["DDP"].append(gpt_by_ddp(text, updates + 10))
            for shards in (2, 4):
                found[shards].append(gpt_by_godwit(binary, text, updates, shards))
    for shards in (2, 4):
        for what, at in (("wall", 0), ("processor", 1)):
            ddp, ours = (median([one[at] for one in found[who]]) for who in ("DDP", shards))
            ratio = median([one[at] / other[at] for one, other in zip(found["DDP"], found[shards])])
            row(f"{shards} shards: {what} time of an update: DDP, ours", f"{1000 * ddp:.0f} ms, {1000 * ours:.0f} ms")
            row(f"  tokens in {what} time, ours by DDP's", f"{ratio:.3f}", ">= 0.97")
        row("  tokens a second", f"{GPT_TOKENS / median([one[0] for one in found[shards]]):.0f}")


# ---- beside plain PyTorch: what is learnt ----


def learnt_plainly(text, updates, seed):
    environment = {**os.environ, **THREADS, "PYTHONPATH": os.path.join(PROGRAMS, "plain"), "GODWIT_SEED": str(seed)}
    output = subprocess.run(
        [python(), os.path.join(PROGRAMS, "learn.py"), text, str(updates)], check=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, preexec_fn=bind_life,
    ).stdout  # fmt: skip
    return float(re.findall(r"^loss (\S+)", output, re.MULTILINE)[-1])


def learnt_by_godwit(binary, text, updates, seed):
    job = [*job_of("learn.py", text, updates), "--seed", str(seed)]
    return values_of(run_flock(binary, job, 1), "loss")[-1]


def learning(binary, quick):
    seeds, updates = (2, 50) if quick else (3, 200)
    table(f"10. programs: loss of bytes.py on the held-out text behind {updates} updates, {seeds} seeds")
    with Flock(binary, []) as folder:
        text = text_file(folder.folder)
        plain = [learnt_plainly(text, updates, seed) for seed in range(1, seeds + 1)]
        ours = [learnt_by_godwit(binary, text, updates, seed) for seed in range(1, seeds + 1)]
    error = math.sqrt(sum(statistics.variance(losses) / seeds for losses in (plain, ours)))
    row("plain PyTorch, gradients added as floats", " ".join(f"{loss:.4f}" for loss in plain))
    row("godwit", " ".join(f"{loss:.4f}" for loss in ours))
    apart = abs(statistics.mean(plain) - statistics.mean(ours))
    row("  means apart; in standard errors", f"{apart:.4f}; {apart / error:.1f}", "<= 2.8: chance, for 3 seeds")


# ---- beside torchft: the work done while processes are killed ----

PROCESSES, STEP_MS, SHARE = 6, 80, 4  # SHARE shards of a step for each process, which sleep for a step's time in all
KILL_EVERY_S = 10


class Replica:
    """A process of torchft's, and what it says."""

    def __init__(self, number, environment):
        self.number = number
        self.environment = environment
        self.spans = []  # [from, to]: when its processes lived, from when they were ready
        self.steps = []  # when a step was committed
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["nice", "-n", str(NICE), torchft_python(), os.path.join(PROGRAMS, "ft.py"), str(self.number), str(STEP_MS)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.environment, preexec_fn=bind_life,
        )  # fmt: skip
        self.reader = threading.Thread(target=self.read, args=(self.process, self.spans), daemon=True)
        self.reader.start()

    def read(self, process, spans):
        for line in process.stdout:
            if line.startswith("ready"):
                spans.append([time.time(), float("inf")])
            elif line.startswith("step "):
                self.steps.append(float(line.split()[1]))
        process.wait()
        if spans and spans[-1][1] == float("inf"):
            spans[-1][1] = time.time()

    def kill(self):
        self.process.kill()
        self.reader.join()


def torchft_python():
    return os.environ.get("GODWIT_TEST_TORCHFT", "") or python()


def lived(spans, begin, end):
    """The seconds of spans between two moments."""
    return sum(max(0.0, min(span[1], end) - max(span[0], begin)) for span in spans)


def work_by_torchft(seconds, kill_every_s):
    """The work that was committed, as a part of the seconds of processes that were ready."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{chosen.getsockname()[1]}"
    lighthouse = subprocess.Popen(
        [os.path.join(os.path.dirname(torchft_python()), "torchft_lighthouse"), "--bind", address, "--min_replicas", "1",
         "--quorum_tick_ms", "100", "--join_timeout_ms", "10000"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=bind_life,
    )  # fmt: skip
    replicas = []
    try:
        environment = {**os.environ, **THREADS, "TORCHFT_LIGHTHOUSE": f"http://{address}"}
        replicas += [Replica(number, environment) for number in range(PROCESSES)]
        patience = time.time() + PATIENCE_S
        while not all(len(replica.steps) > 10 for replica in replicas):
            if time.time() > patience or any(r.process.poll() is not None for r in replicas):
                raise Trouble("the replicas of torchft do not commit steps together")
            time.sleep(0.1)
        begin = time.time()
        for kill in range(1, int(seconds // kill_every_s) + 1):
            time.sleep(max(0.0, begin + (kill - 0.5) * kill_every_s - time.time()))
            victim = random.choice([replica for replica in replicas if replica.process.poll() is None])
            victim.kill()
            victim.start()
        time.sleep(max(0.0, begin + seconds - time.time()))
        end = time.time()
        steps = sum(begin <= step <= end for replica in replicas for step in replica.steps)
        return steps * STEP_MS / 1000 / sum(lived(replica.spans, begin, end) for replica in replicas)
    finally:
        for replica in replicas:
            replica.kill()
        lighthouse.kill()
        lighthouse.wait()


def kill_process(flock, kind, spans):
    """Kills a peer, which starts again, or a worker, whose peer makes another one."""
    victim = random.choice([peer for peer in flock.living() if peer.port])
    if kind == "peer":
        spans[victim][-1][1] = victim.kill()
        victim.start()
        return
    workers = workers_of(victim)
    if workers:
        os.kill(random.choice(workers), signal.SIGKILL)


def work_by_godwit(binary, seconds, kill_every_s, kind):
    shards = PROCESSES * SHARE
    job = job_of("noop.py", 1000, 1, shards, 1_000_000, 0, STEP_MS // SHARE)
    with Flock(binary, [*job, "--peers", str(PROCESSES)], ready_s=PATIENCE_S) as flock:
        flock.gather(PROCESSES, ["--workers", "1"])
        flock.wait_step(10, PATIENCE_S)
        begin = time.time()
        spans = {peer: [[begin, float("inf")]] for peer in flock.peers}
        kills = int(seconds // kill_every_s)
        for kill in range(1, kills + 1):
            while time.time() < begin + (kill - 0.5) * kill_every_s:
                note_ready(spans)
                time.sleep(0.05)
            kill_process(flock, kind, spans)
        while time.time() < begin + seconds:
            note_ready(spans)
            time.sleep(0.05)
        end = time.time()
        commits = {event["step"] for _, event in flock.events_after(begin, "step") if event["time"] <= end}
        if sorted(commits) != list(range(min(commits), max(commits) + 1)):
            wrong("program: faults: steps are missing")
        return len(commits) * shards * (STEP_MS // SHARE) / 1000 / sum(lived(s, begin, end) for s in spans.values())


def note_ready(spans):
    """Notes which peers listen again: from then on they live."""
    for peer, of_peer in spans.items():
        if of_peer[-1][1] != float("inf") and peer.port:
            of_peer.append([time.time(), float("inf")])


def faults(binary, quick):
    seconds = 30 if quick else 120
    never = seconds + 1
    table(f"10. programs: {PROCESSES} processes, {STEP_MS} ms of sleep a step, for {seconds} s: work of live process-seconds")
    random.seed(7)
    row("godwit, undisturbed", f"{100 * work_by_godwit(binary, seconds, never, 'worker'):.1f} %")
    row(f"godwit, a worker killed every {KILL_EVERY_S} s",
        f"{100 * work_by_godwit(binary, seconds, KILL_EVERY_S, 'worker'):.1f} %", ">= 95 %")  # fmt: skip
    row(f"godwit, a peer killed every {KILL_EVERY_S} s, started again",
        f"{100 * work_by_godwit(binary, seconds, KILL_EVERY_S, 'peer'):.1f} %", ">= 95 %")  # fmt: skip
    reason = lacks(torchft_python(), "torchft")
    if reason:
        row(f"torchft: {reason}; GODWIT_TEST_TORCHFT may name one that has it", "")
        return
    row("torchft, undisturbed", f"{100 * work_by_torchft(seconds, never):.1f} %")
    row(f"torchft, a process killed every {KILL_EVERY_S} s", f"{100 * work_by_torchft(seconds, KILL_EVERY_S):.1f} %")


PARTS = {"overhead": overhead, "memory": memory, "kills": kills, "start": start, "ddp": beside_ddp,
         "learning": learning, "faults": faults}  # fmt: skip


def program(binary, quick, parts=tuple(PARTS)):
    reason = lacks(python(), "torch")
    if reason:
        table("10. programs")
        row(reason, "")
        return
    os.environ["PYTHONPATH"] = MODULE
    for part in parts:
        try:
            PARTS[part](binary, quick)
        except (Trouble, subprocess.CalledProcessError) as trouble:
            wrong(f"program: {part}: {trouble}")
