"""What tools/gpu/check.sh runs: each check gives one row of the table that comes last.

A check returns (verdict, what was seen); Failed and Skipped end one early. Checks have a time limit, and so have all
together: what there was no time for has failed.
"""

import argparse
import array
import atexit
import functools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import flock  # noqa: E402

PASS, FAIL, SKIP = "pass", "FAIL", "skip"

# A job whose steps are mostly reductions: 20 million parameters, a few milliseconds of computing.
WIDE = ["digits", "--hidden", "4096,4096", "--samples", "4800", "--batch", "480", "--micro-batch", "40"]
WIDE += ["--epochs", "1000"]
SMALL = ["digits", "--hidden", "256", "--samples", "4800", "--batch", "480", "--micro-batch", "40", "--epochs", "2"]
LARGE = ["digits", "--hidden", "8192,8192", "--samples", "81920", "--batch", "8192", "--micro-batch", "2048"]
LARGE += ["--epochs", "1000"]
GPT_SMALL = ["--model", "nano", "--context", "128", "--vocab", "50257", "--micro-batch", "4", "--batch-tokens", "6144"]
GPT_SMALL += ["--updates", "40", "--precision", "bf16"]
GPT_VOCABULARY = 50257
GPT_OPERATIONS = 6 * 124439808 + 12 * 12 * 1024 * 768  # a token: 6 N + 12 L T C
H100_FLOPS = 989e12  # of an H100's or H200's tensor cores in bf16, without sparsity
RECOVER_S = 3.0
PROCESSES = 12


class Failed(Exception):
    """Something is not as it should be."""


class Skipped(Exception):
    """It cannot be tried here."""


class SharedGpu(flock.Here):
    """A peer that shares the GPU with others: for NCCL each is a host of its own, and they talk by sockets on
    loopback. Says nothing about speed."""

    def __init__(self, number, extra=None):
        self.environment = dict(
            os.environ,
            NCCL_HOSTID=f"godwit-check-{number}",
            NCCL_SOCKET_IFNAME="lo",
            NCCL_NET="Socket",
            NCCL_P2P_DISABLE="1",
            NCCL_SHM_DISABLE="1",
            **(extra or {}),
        )

    def launch(self, command, errors):
        with open(errors, "ab") as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                env=self.environment,
            )


class Checks:
    def __init__(self, binary, tests, seconds, library_path=""):
        self.plain = dict(os.environ)  # what programs are given that are not ours
        if library_path:
            os.environ["LD_LIBRARY_PATH"] = library_path
        self.binary = os.path.abspath(binary)
        self.tests = tests
        self.end = time.monotonic() + seconds
        self.rows = []
        self.devices = {}
        self.has_device_option = False
        self.alone = {}  # hashes of undisturbed runs of one peer, by job
        self.figures = {}  # of `godwit bench gpu`

    # ---- the frame

    def left(self, most):
        left = min(most, self.end - time.monotonic())
        if left < 5:
            raise Failed("no time was left for it")
        return left

    def check(self, name, function, needs_gpu=True):
        started = time.monotonic()
        try:
            if needs_gpu and not self.gpu():
                raise Skipped("no GPU here")
            verdict, seen = PASS, function()
        except Skipped as why:
            verdict, seen = SKIP, str(why)
        except (Failed, flock.Trouble, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as why:
            verdict, seen = FAIL, f"{type(why).__name__}: {why}"
        self.rows.append((name, verdict, time.monotonic() - started, seen))
        print(f"[{verdict}] {name}: {seen}", flush=True)

    def run(self, command, seconds, environment=None, codes=(0,)):
        """stdout and stderr of a command that must end with one of these codes. `environment`: its whole; None: ours."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=self.left(seconds),
            env=environment,
            check=False,
        )
        if done.returncode not in codes:
            raise Failed(f"{' '.join(command[:3])}: exit code {done.returncode}: {done.stderr[-600:]}{done.stdout[-200:]}")
        return done.stdout, done.stderr

    def godwit(self, arguments, seconds, environment=None, codes=(0,)):
        return self.run([self.binary, *arguments], seconds, dict(os.environ, **(environment or {})), codes)

    def gpu(self):
        return bool(self.devices.get("gpu_usable"))

    def on_gpu(self):
        if not self.has_device_option:
            raise Failed("this build cannot compute on GPUs (run has no --device)")
        return ["--device", "cuda:0"]

    # ---- with and without a GPU

    def look(self):
        out, _ = self.godwit(["devices", "--gpus", "--json"], 60, codes=(0, 1))
        self.devices = json.loads(out)
        help_text, _ = self.godwit(["run", "--help"], 20)
        self.has_device_option = "--device=" in help_text
        versions = {name: self.devices[name].get("version", "missing") for name in ("nccl", "cublaslt")}
        names = [gpu["name"] for gpu in self.devices["gpus"]]
        if not names:
            return f"no GPU: {self.devices.get('gpu_error')}"
        if not self.gpu():
            raise Failed(f"{names}: cannot be used: {self.devices}")
        return f"{', '.join(names)}; driver {self.devices.get('driver')}; NCCL {versions['nccl']}; cuBLASLt {versions['cublaslt']}"

    def finishes(self, job, extra, environment=None, seconds=120):
        """The done event of one peer alone."""
        folder = tempfile.mkdtemp(prefix="godwit-check-")
        try:
            out, _ = self.godwit(
                ["run", *job, *extra, "--json", "--dir", f"{folder}/a", "--listen", "127.0.0.1:0"], seconds, environment
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        events = [json.loads(line) for line in out.splitlines()]
        return next(event for event in events if event["event"] == "done"), events

    def falls_back(self):
        extra = ["--device", "auto"] if self.has_device_option else []
        done, _ = self.finishes(SMALL, extra, {"CUDA_VISIBLE_DEVICES": "-1"})
        return f"{done['steps']} steps on the processor"

    def asks_for_a_gpu(self):
        if not self.has_device_option:
            raise Skipped("this build's run has no --device")
        folder = tempfile.mkdtemp(prefix="godwit-check-")
        try:
            _, err = self.godwit(
                ["run", *SMALL, "--device", "cuda", "--dir", folder, "--listen", "127.0.0.1:0"],
                60,
                {"CUDA_VISIBLE_DEVICES": "-1"},
                codes=(1, 2),
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not re.search("GPU|driver|CUDA", err):
            raise Failed(f"the message does not say what is missing: {err[-300:]}")
        return err.strip().splitlines()[-1][:100]

    # ---- tests

    def suite(self, program, arguments=()):
        _, err = self.run([program, "--jobs", "1", *arguments], 150)
        found = re.search(r"Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)", err)
        if not found:
            raise Failed(f"it did not say how many tests passed: {err[-300:]}")
        if found[1] == "0":
            if self.gpu():
                raise Failed("all of its tests were skipped, although there is a GPU")
            raise Skipped("no GPU here")
        return f"{found[2]} of {found[1]} tests"

    def sanitized(self, program):
        tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if tool is None:
            raise Skipped("compute-sanitizer is not installed")
        _, err = self.run(
            [tool, "--target-processes", "all", "--error-exitcode", "9", program, "--jobs", "1"], 120
        )
        return re.sub(r"\s+", " ", err.strip().splitlines()[-1])[:80] if err.strip() else "clean"

    # ---- flocks on one GPU

    def hash_alone(self, job):
        key = " ".join(job)
        if key not in self.alone:
            self.alone[key] = self.finishes(job, self.on_gpu())[0]["state"]
        return self.alone[key]

    def same(self, job, peers):
        """Living peers ended alike, and like one alone."""
        wanted = self.hash_alone(job)
        for peer in peers:
            if peer.done is None or peer.done["state"] != wanted:
                state = peer.done and peer.done["state"]
                raise Failed(f"peer {peer.number} ended with {state}, one alone with {wanted}")
        return wanted[:16]

    def flock_of(self, count, job, environments=None):
        homes = [SharedGpu(i, (environments or {}).get(i)) for i in range(count)]
        birds = flock.Flock(self.binary, [*job, *self.on_gpu(), "--peers", str(count)])
        return birds, homes

    def undisturbed(self, count):
        birds, homes = self.flock_of(count, SMALL)
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_ends(peers, self.left(120))
            return f"{count} peers: {self.same(SMALL, peers)}"

    def killed(self, count):
        """Kills all but one, one after another, where steps are mostly reductions; how much of the time these took
        is told."""
        job = [*WIDE, "--steps", "80"]
        birds, homes = self.flock_of(count, job)
        gaps = []
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_step(8, self.left(120))
            share = self.reduce_share(peers[0])
            for left in range(count - 1, 0, -1):
                moment = peers[left].kill()
                event = birds.first_step_after(moment, self.left(60), members=left)
                gaps.append(event["time"] - moment)
                birds.wait_step(event["step"] + 8, self.left(60))
            birds.wait_ends(peers[:1], self.left(120))
            state = self.same(job, peers[:1])
        text = ", ".join(f"{gap:.2f} s" for gap in gaps)
        if max(gaps) > RECOVER_S:
            raise Failed(f"the next step came after {text}; {RECOVER_S} s is the most")
        return f"next step after {text}; reductions were {share:.0%} of the time; {state}"

    def reduce_share(self, peer):
        out, _ = self.godwit(["status", "--dir", peer.directory, "--json"], 20)
        shown = json.loads(out)
        return shown["counters"]["reduce_seconds"] / max(shown["step_ms"] * shown["step"] / 1000, 1e-9)

    def killed_and_back(self):
        job = [*WIDE, "--steps", "200"]
        birds, homes = self.flock_of(3, job)
        with birds:
            peers = birds.gather_in(homes)
            for victim, step in ((2, 6), (0, 16)):
                birds.wait_step(step, self.left(120))
                peers[victim].kill()
                birds.first_step_after(time.time(), self.left(60), members=2)
                birds.start(peers[victim])
                birds.wait(
                    lambda victim=victim: peers[victim].view and len(peers[victim].view["members"]) == 3,
                    self.left(60),
                    "the killed peer is back",
                )
            birds.wait_ends(peers, self.left(120))
            return f"two of three killed and back: {self.same(job, peers)}"

    def without_nccl(self):
        """One of two has no NCCL: sums go through host memory, to the same bytes."""
        birds, homes = self.flock_of(2, SMALL, {1: {"GODWIT_NCCL": "/nonexistent/libnccl.so.2"}})
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_ends(peers, self.left(120))
            if "sums go through host memory" not in peers[1].errors:
                raise Failed(f"the peer without NCCL does not say so: {peers[1].errors[-300:]}")
            return self.same(SMALL, peers)

    def mixed(self):
        """A processor and a GPU: an exact job does not let them compute together, and names both classes."""
        birds = flock.Flock(self.binary, SMALL)

        def named(peer):
            lines = [line for line in peer.errors.splitlines() if "class=" in line]
            return next((line for line in lines if "class=cpu" in line and line.count("class=") >= 2), None)

        with birds:
            first = birds.add([*self.on_gpu(), "--peers", "2"], SharedGpu(0))
            second = birds.add(["--device", "cpu", "--peers", "2"], SharedGpu(1))
            line = birds.wait(
                lambda: named(first) or named(second), self.left(60), "both classes are named", watch=[first, second]
            )
        return line[line.index("class=") :][:100]

    def repeated_in_one(self):
        """One step again and again in one process."""
        program = next((test for test in self.tests if os.path.basename(test) == "test_gpu_device"), None)
        if program is None:
            raise Failed("this build has no test_gpu_device")
        seen = self.suite(program, ["--filter", "gpu_device/a_step_repeated*"])
        if not seen.startswith("1 of 1"):
            raise Failed(seen)
        return "one sum"

    def repeated(self):
        """The step at full batch, from the same state, in processes of their own, four at a time."""
        extra = [*self.on_gpu(), "--json", "--steps", "1", "--listen", "127.0.0.1:0"]
        seen, waiting = {}, []
        folder = tempfile.mkdtemp(prefix="godwit-check-")
        try:
            for i in range(PROCESSES):
                command = [self.binary, "run", *LARGE, "--samples", "8192", *extra, "--dir", f"{folder}/{i}"]
                command += ["--checkpoint-every", "off"]
                waiting.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
                if len(waiting) >= 4 or i + 1 == PROCESSES:
                    for process in waiting:
                        out, _ = process.communicate(timeout=self.left(60))
                        steps = [json.loads(line) for line in out.splitlines() if '"step"' in line]
                        marks = [event["fingerprint"] for event in steps if event["event"] == "step"]
                        mark = marks[0] if process.returncode == 0 and marks else f"exit code {process.returncode}"
                        seen[mark] = seen.get(mark, 0) + 1
                    waiting = []
                    for number in range(i + 1):
                        shutil.rmtree(f"{folder}/{number}", ignore_errors=True)
        finally:
            for process in waiting:
                process.kill()
                process.wait()
            shutil.rmtree(folder, ignore_errors=True)
        if len(seen) != 1 or not re.fullmatch("[0-9a-f]{16}", next(iter(seen))):
            raise Failed(f"{PROCESSES} processes found {seen}")
        return f"all found {next(iter(seen))}"

    # ---- measurements

    def measured(self):
        help_text, _ = self.godwit(["bench", "--help"], 20)
        if not re.search(r"^  gpu ", help_text, re.MULTILINE):
            raise Failed("this build has no 'godwit bench gpu'")
        out, _ = self.godwit(["bench", "gpu", "--json"], 120)
        self.figures = json.loads(out)
        return " ".join(f"{name}={value:.4g}" for name, value in self.figures.items() if isinstance(value, (int, float)))

    def of_copy(self, name):
        """A kernel that moves memory, against what a copy moves."""
        if not self.figures:
            raise Skipped("there are no figures")
        share = self.figures[name] / self.figures["copy_bytes_per_s"]
        if share < 0.8:
            raise Failed(f"{share:.0%} of a copy's {self.figures['copy_bytes_per_s'] / 1e12:.2f} TB/s; 80% is wanted")
        return f"{share:.0%} of a copy's {self.figures['copy_bytes_per_s'] / 1e12:.2f} TB/s"

    @functools.cached_property
    def torch(self):
        """What PyTorch does on this GPU, now; None without PyTorch."""
        probe = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, check=False, env=self.plain)
        if probe.returncode != 0:
            return None
        out, _ = self.run([sys.executable, os.path.join(HERE, "torch_bench.py")], 120, self.plain)
        return json.loads(out.splitlines()[-1])

    def against_torch(self, ours, theirs, unit, scale, least):
        if self.torch is None:
            raise Skipped(f"PyTorch is not here; {ours / scale:.4g} {unit}")
        share = ours / self.torch[theirs]
        text = f"{ours / scale:.4g} {unit}, {share:.2f} of PyTorch's {self.torch[theirs] / scale:.4g}"
        if share < least:
            raise Failed(f"{text}; {least} is wanted")
        return text

    def gemm(self):
        if not self.figures:
            raise Skipped("there are no figures")
        return self.against_torch(self.figures["gemm_bf16_flops"], "gemm_bf16_flops", "TFLOP/s", 1e12, 0.97)

    def attention(self, name, least):
        """Against FlashAttention-2. Backward it has 5 products of tiles, and ours, which add in one order, 7."""
        if not self.figures:
            raise Skipped("there are no figures")
        return self.against_torch(self.figures[name], name, "TFLOP/s", 1e12, least)

    def samples_per_second(self, extra):
        """Of training steps alone, from the second on."""
        job = [*LARGE, "--steps", "30", "--checkpoint-every", "off"]
        _, events = self.finishes(job, [*self.on_gpu(), *extra], seconds=150)
        took = [e["ms"] for e in events if e["event"] == "step" and e["shards"] == 4][3:]
        if len(took) < 10:
            raise Failed(f"only {len(took)} steps to measure")
        return 8192 / (sorted(took)[len(took) // 2] / 1000)

    def training(self):
        rate = self.samples_per_second(["--precision", "tf32"])
        return self.against_torch(rate, "digits_samples_per_s", "samples/s", 1, 1.0)

    # ---- a language model

    @functools.cached_property
    def tokens(self):
        """A token shard as llm.c writes them: few of the tokens are frequent, so that there is something to learn."""
        draw = random.Random(1)
        drawn = array.array("H", (int(GPT_VOCABULARY * draw.random() ** 4) for _ in range(3 << 20)))
        header = array.array("i", [20240520, 1, len(drawn)] + [0] * 253)
        with tempfile.NamedTemporaryFile(prefix="godwit-check-", suffix=".bin", delete=False) as file:
            file.write(header.tobytes() + drawn.tobytes())
        atexit.register(os.unlink, file.name)
        return file.name

    def gpt_flock(self):
        """Two peers that share the GPU, of which one is killed."""
        job = ["gpt", "--data", self.tokens, *GPT_SMALL]
        birds, homes = self.flock_of(2, job)
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_step(4, self.left(60))
            peers[1].kill()
            birds.wait_ends(peers[:1], self.left(120))
            return f"one of two killed: {self.same(job, peers[:1])}"

    def memory_used(self):
        """Bytes of the GPU's memory that all programs use; None where nobody tells."""
        tool = shutil.which("nvidia-smi")
        if tool is None:
            return None
        out, _ = self.run([tool, "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], 20)
        return int(out) << 20

    def train_gpt(self):
        """Tokens a second of the median update, what it takes of the GPU's memory, and the losses."""
        job = ["gpt", "--model", "gpt2", "--data", self.tokens, "--batch-tokens", "131072", "--micro-batch", "16"]
        job += ["--updates", "20", "--warmup", "3", "--lr", "6e-4", "--precision", "bf16"]
        folder = tempfile.mkdtemp(prefix="godwit-check-")
        before, most, events = self.memory_used(), 0, []
        command = [self.binary, "run", *job, *self.on_gpu(), "--json", "--dir", f"{folder}/a"]
        command += ["--listen", "127.0.0.1:0", "--checkpoint-every", "off"]
        process = None
        try:
            with open(f"{folder}/errors", "wb") as errors:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            watchdog = threading.Timer(self.left(100), process.kill)
            watchdog.start()
            for line in process.stdout:
                events.append(json.loads(line))
                if events[-1]["event"] == "step" and before is not None:
                    most = max(most, self.memory_used() - before)
            process.wait()
            watchdog.cancel()
            with open(f"{folder}/errors", encoding="utf-8", errors="replace") as errors:
                said = errors.read()[-600:]
        finally:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            shutil.rmtree(folder, ignore_errors=True)
        steps = [event for event in events if event["event"] == "step"]
        if process.returncode != 0 or len(steps) < 12:
            raise Failed(f"exit code {process.returncode} after {len(steps)} updates: {said}")
        took = sorted(event["ms"] for event in steps[3:])
        return 131072 / (took[len(took) // 2] / 1000), most, [event["report"]["loss"] for event in steps]

    def gpt(self):
        """GPT-2 of 124M parameters in bf16, beside PyTorch's: its speed, memory, and that it learns."""
        rate, memory, losses = self.train_gpt()
        text = f"{rate:.4g} tokens/s"
        if re.search("H100|H200", self.devices["gpus"][0]["name"]):
            text += f", MFU {rate * GPT_OPERATIONS / H100_FLOPS:.1%}"
        text += f", {memory / 1e9:.1f} GB" if memory else ""
        text += f", loss {losses[0]:.2f} to {losses[-1]:.2f}"
        if losses[-1] > losses[0] - 0.5:
            raise Failed(f"{text}: it does not learn")
        if self.torch is None:
            raise Skipped(f"PyTorch is not here; {text}")
        out, _ = self.run([sys.executable, os.path.join(HERE, "torch_gpt.py")], 150, self.plain)
        theirs = json.loads(out.splitlines()[-1])
        share = rate / theirs["tokens_per_s"]
        how = "compiled" if theirs["compiled"] else "not compiled"
        text += f"; {share:.2f} of PyTorch's {theirs['tokens_per_s']:.4g} ({how}, {theirs['memory_bytes'] / 1e9:.1f} GB)"
        if share < 1.0:
            raise Failed(f"{text}; 1.0 is wanted")
        return text

    # ---- all of it

    def run_all(self):
        self.check("GPU, driver and libraries", self.look, needs_gpu=False)
        self.check("without a GPU: falls back to the processor", self.falls_back, needs_gpu=False)
        self.check("without a GPU: --device cuda says so", self.asks_for_a_gpu, needs_gpu=False)
        for program in self.tests:
            name = os.path.basename(program)
            self.check(name, functools.partial(self.suite, program), needs_gpu=False)
        for count in (2, 3):
            self.check(f"{count} peers, one hash", functools.partial(self.undisturbed, count))
            self.check(f"{count} peers, killed in reductions", functools.partial(self.killed, count))
        self.check("killed and started again", self.killed_and_back)
        self.check("one peer without NCCL", self.without_nccl)
        self.check("a processor in a flock of GPUs", self.mixed)
        self.check("figures (godwit bench gpu)", self.measured)
        self.check("exact accumulate", functools.partial(self.of_copy, "accumulate_bytes_per_s"))
        self.check("optimizer", functools.partial(self.of_copy, "optimizer_bytes_per_s"))
        self.check("GEMM 4096, bf16", self.gemm)
        for width in (64, 128):
            self.check(f"attention, {width} wide", functools.partial(self.attention, f"attention_{width}_flops", 0.7))
            self.check(f"attention back, {width} wide", functools.partial(self.attention, f"attention_{width}_back_flops", 0.5))
        self.check("digits 8192,8192, TF32", self.training)
        self.check("gpt: one hash, one of two killed", self.gpt_flock)
        self.check("gpt: GPT-2 124M, bf16", self.gpt)
        self.check("one step, 100 times", self.repeated_in_one)
        self.check(f"one step of a full batch, {PROCESSES} processes", self.repeated)
        for program in self.tests:
            name = os.path.basename(program)
            if name in ("test_gpu_attention", "test_gpu_exact", "test_gpu_kernels"):
                self.check(f"{name} sanitized", functools.partial(self.sanitized, program))

    def table(self):
        print("\n" + "=" * 100)
        for name, verdict, seconds, seen in self.rows:
            print(f"{verdict:<5} {name:<44} {seconds:6.1f} s  {seen.splitlines()[0][:120] if seen else ''}")
        count = {verdict: sum(row[1] == verdict for row in self.rows) for verdict in (PASS, FAIL, SKIP)}
        print("=" * 100)
        if not self.gpu():
            print("There is no GPU here that could be used: what needs one was skipped.")
        print(f"{count[PASS]} passed, {count[FAIL]} failed, {count[SKIP]} skipped")
        return 1 if count[FAIL] else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of our own programs")
    arguments = parser.parse_args()
    checks = Checks(arguments.binary, arguments.tests, arguments.seconds, arguments.library_path)
    checks.run_all()
    return checks.table()


if __name__ == "__main__":
    sys.exit(main())
