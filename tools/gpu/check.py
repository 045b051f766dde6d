"""The checks that tools/gpu/check.sh runs. Each check gives one row of the table at the end.

A check returns a text of what was seen; Failed and Skipped end it early. Each check has a time limit, and so have all
together: a check for which no time was left is listed as not reached, and does not count as passed.
"""

import argparse
import array
import atexit
import concurrent.futures
import contextlib
import functools
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import flock  # noqa: E402
from figures import LARGE, TEXT, Figures  # noqa: E402
from verdicts import Failed, NotReached, OfSeveral, Skipped  # noqa: E402

PASS, FAIL, SKIP, LATE = "pass", "FAIL", "skip", "not reached"

# A job whose steps are mostly reductions. It has 20 million parameters, and an exact sum of them takes 160 MB. Each of
# three peers sends and receives 213 MB over loopback, which takes 20 ms or more at the 10 GB/s that sockets reach at
# best. Its 4 shards and the update move some 5 GB of the memory of the GPU, which all three share: 8 ms at 2 TB/s. The
# arithmetic takes no longer. So reductions are two thirds of the time, and LEAST_REDUCING holds for a GPU a third as
# fast.
WIDE = ["digits", "--hidden", "4096,4096", "--samples", "4800", "--batch", "480", "--micro-batch", "40"]
WIDE += ["--epochs", "1000"]
# The same with 6 million parameters, for more peers: each of eight sends 81 MB, and moves 1 GB of memory.
NARROWER = ["digits", "--hidden", "2048,2048", *WIDE[3:]]
FLOATS = [*NARROWER, "--steps", "240", "--reduce", "fast", "--quorum", "majority"]
SMALL = ["digits", "--hidden", "256", "--samples", "4800", "--batch", "480", "--micro-batch", "40", "--epochs", "2"]
GPT_SMALL = ["--model", "nano", "--context", "128", "--vocab", "50257", "--micro-batch", "4", "--batch-tokens", "6144"]
GPT_SMALL += ["--updates", "40", "--precision", "bf16"]
# A job with dropout whose checkpoints are written fast: 3 million parameters, nearly all of them in the vocabulary.
GPT_DROPPED = ["--layers", "2", "--heads", "2", "--channels", "64", "--context", "128", "--vocab", "50257"]
GPT_DROPPED += ["--micro-batch", "4", "--batch-tokens", "3072", "--updates", "500", "--precision", "bf16"]
GPT_DROPPED += ["--dropout", "0.1"]
GPT_VOCABULARY = 50257
LEAST_REDUCING = 0.3  # the share of the time that makes it likely that a kill strikes inside a reduction
MOST_FLOCKS = 5  # the flocks that are tried until a kill has struck where it should
RECOVER_S = 3.0
NVML_S = 20.0  # how long to wait until a peer shows its GPU's figures, which it reads once a second
PROCESSES = 12
TOGETHER = 4
# The suites that compute-sanitizer runs. memcheck runs all suites with kernels of godwit, but for those of whole jobs
# and of matrix products, which take minutes. racecheck and synccheck run the suites whose blocks share most memory:
# tiles of attention, edges of exact sums, norms, columns, rows of logits, transposed matrices. Each run has the time
# limit of its row, and all together have what is left of the script's time, so the slowest tool begins. The suites of
# kernels that every job uses run before the measurements, which take minutes.
SANITIZED_FIRST = [("memcheck", "test_gpu_exact"), ("memcheck", "test_gpu_kernels")]
SHARING = ("test_gpu_attention", "test_gpu_gpt_rows", "test_gpu_exact", "test_gpu_kernels", "test_gpu_gpt_kernels")
SANITIZED = [("racecheck", suite) for suite in SHARING]
SANITIZED += [("memcheck", suite) for suite in ("test_gpu_attention", "test_gpu_gpt_rows", "test_gpu_gpt_kernels")]
SANITIZED += [("memcheck", suite) for suite in ("test_gpu_exact", "test_gpu_kernels", "test_gpu_graph", "test_gpu_narrow")]
SANITIZED += [("synccheck", suite) for suite in SHARING]
# These run as well with --strict, which is for longer runs.
SANITIZED_JOBS = [("memcheck", suite) for suite in ("test_gpu_device", "test_gpu_gemm", "test_gpu_gpt")]
PCI_DEVICES, DRIVER_GPUS = "/sys/bus/pci/devices", "/proc/driver/nvidia/gpus"
WITHOUT_NCCL = "sums go through host memory"  # what a peer then logs


def end_group(process):
    """Ends a process that leads a session, with all processes that it started: none may stay on the GPU."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def hidden_from_cuda():
    """Whether CUDA_VISIBLE_DEVICES hides all GPUs from this process."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible is not None and not re.match(r"\s*(\d|GPU-|MIG-)", visible)


def nvidia_gpus():
    """The PCI addresses of this machine's GPUs, as the kernel lists them: it does so without a working driver."""
    found = [os.path.basename(path) for path in glob.glob(f"{DRIVER_GPUS}/*")]
    for device in glob.glob(f"{PCI_DEVICES}/*"):
        try:
            with open(f"{device}/vendor") as vendor, open(f"{device}/class") as kind:
                if vendor.read().strip() == "0x10de" and kind.read().startswith(("0x0300", "0x0302")):
                    found.append(os.path.basename(device))
        except OSError:  # the device was removed meanwhile, or cannot be read
            continue
    return sorted(set(found))


class SharedGpu(flock.Here):
    """The home of a peer that shares the GPU with others. For NCCL each peer is a host of its own, and they talk by
    sockets on loopback, so that speeds mean nothing."""

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


class Checks(Figures):
    def __init__(self, binary, tests, seconds, library_path="", data=None, strict=False):
        self.plain = dict(os.environ)  # the environment of programs other than godwit's
        if library_path:
            os.environ["LD_LIBRARY_PATH"] = library_path
        self.binary = os.path.abspath(binary)
        self.tests = tests
        self.end = time.monotonic() + seconds
        self.rows = []
        self.devices = {}
        self.has_device_option = False
        self.alone = {}  # job -> the hash of an undisturbed run of one peer
        self.figures = {}  # of `godwit bench gpu`
        self.found = {}  # by Once
        self.running = set()  # processes whose ends are waited for
        self.data = data  # a folder with texts
        self.strict = strict  # whether a check that is skipped although there is a GPU has failed

    def left(self, most):
        left = min(most, self.end - time.monotonic())
        if left < 5:
            raise NotReached("no time was left for it")
        return left

    def row(self, name, function, asked="", needs_gpu=True):
        """Runs one check and returns its row. `asked` says what is asked for; if empty, only that it works."""
        started = time.monotonic()
        try:
            if needs_gpu and not self.gpu():
                raise Skipped("no GPU here")
            self.left(60)
            verdict, seen = PASS, function()
        except Skipped as why:
            excused = not self.gpu() or isinstance(why, OfSeveral)
            verdict, seen = FAIL if self.strict and not excused else SKIP, str(why)
        except Failed as why:
            verdict, seen = FAIL, str(why)
        except NotReached as why:
            verdict, seen = LATE, str(why)
        except (subprocess.TimeoutExpired, flock.TooLate) as why:
            verdict, seen = LATE if time.monotonic() >= self.end else FAIL, f"{type(why).__name__}: {why}"
        except Exception as why:  # any error fails this row only
            verdict, seen = FAIL, f"{type(why).__name__}: {why}"
        print(f"[{verdict}] {name}: {seen}{f' (asked: {asked})' if asked else ''}", flush=True)
        return name, verdict, time.monotonic() - started, asked, seen

    def check(self, *what, **how):
        self.rows.append(self.row(*what, **how))

    def check_together(self, name, function, asked, arguments, needs_gpu=True):
        """Runs a check for each tuple of arguments, several at a time: not for checks that measure times."""
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            started = [
                pool.submit(
                    self.row, name.format(*map(os.path.basename, given)), functools.partial(function, *given), asked, needs_gpu
                )
                for given in arguments
            ]
            try:
                self.rows += [one.result() for one in started]
            except KeyboardInterrupt:  # the processes are in sessions of their own and did not get it
                pool.shutdown(wait=False, cancel_futures=True)
                self.end_running()
                raise

    def run(self, command, seconds, environment=None, codes=(0,)):
        """stdout and stderr of a command that must end with one of these codes. `environment`: None for our own."""
        limit = self.left(seconds)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
        self.running.add(process)
        try:
            out, err = process.communicate(timeout=limit)
        except BaseException as why:
            end_group(process)
            if isinstance(why, subprocess.TimeoutExpired) and limit < seconds:
                raise NotReached(f"{' '.join(command[:3])}: not done in the {limit:.0f} s that were left") from why
            raise
        finally:
            self.running.discard(process)
        if process.returncode not in codes:
            raise Failed(f"{' '.join(command[:3])}: exit code {process.returncode}: {err[-600:]}{out[-200:]}")
        return out, err

    def end_running(self):
        for process in list(self.running):
            end_group(process)

    def godwit(self, arguments, seconds, environment=None, codes=(0,)):
        return self.run([self.binary, *arguments], seconds, dict(os.environ, **(environment or {})), codes)

    def gpu(self):
        return bool(self.devices.get("gpu_usable"))

    def on_gpu(self):
        if not self.has_device_option:
            raise Failed("this build cannot compute on GPUs (run has no --device)")
        return ["--device", "cuda:0"]


    def look(self):
        out, _ = self.godwit(["devices", "--gpus", "--json"], 60, codes=(0, 1))
        self.devices = json.loads(out)
        help_text, _ = self.godwit(["run", "--help"], 20)
        self.has_device_option = "--device=" in help_text
        versions = {name: self.devices[name].get("version", "missing") for name in ("nccl", "cublaslt")}
        names = [gpu["name"] for gpu in self.devices["gpus"]]
        if not names:
            there = [] if hidden_from_cuda() else nvidia_gpus()
            if there:
                raise Failed(f"{', '.join(there)} cannot be used: {self.devices.get('gpu_error')}")
            return f"no GPU: {self.devices.get('gpu_error')}"
        if not self.gpu():
            raise Failed(f"{names}: cannot be used: {self.devices}")
        for gpu in self.devices["gpus"]:
            if "error" in gpu:
                raise Failed(f"GPU {gpu['gpu']}, {gpu['name']}: {gpu['error']}")
        for library in ("nccl", "cublaslt"):
            if "version" not in self.devices[library]:
                raise Failed(f"{', '.join(names)}; {library} is missing: {self.devices[library].get('error')}")
        return f"{', '.join(names)}; driver {self.devices.get('driver')}; NCCL {versions['nccl']}; cuBLASLt {versions['cublaslt']}"

    def finishes(self, job, extra, environment=None, seconds=120):
        """Runs one peer alone, and returns its done event, all its events and its log."""
        folder = tempfile.mkdtemp(prefix="godwit-check-")
        try:
            out, err = self.godwit(
                ["run", *job, *extra, "--json", "--dir", f"{folder}/a", "--listen", "127.0.0.1:0"], seconds, environment
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        events = [json.loads(line) for line in out.splitlines()]
        return next(event for event in events if event["event"] == "done"), events, err

    def falls_back(self):
        extra = ["--device", "auto"] if self.has_device_option else []
        done, _, _ = self.finishes(SMALL, extra, {"CUDA_VISIBLE_DEVICES": "-1"})
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


    def test_program(self, name):
        program = next((test for test in self.tests if os.path.basename(test) == name), None)
        if program is None:
            raise Failed(f"this build has no {name}")
        return program

    def has_suites(self):
        """Fails for a build without tests (GODWIT_TESTS=OFF), for which no check would test single kernels."""
        suites = [test for test in self.tests if os.path.basename(test).startswith("test_gpu_")]
        if not suites:
            raise Failed("this build has no tests/test_gpu_...: configure it with -DGODWIT_TESTS=ON, and with nvcc")
        return f"{len(suites)} suites"

    def tested(self, program, seconds, before=(), environment=None):
        """Runs a suite, behind the command `before` if one is given, and returns its TAP, stdout and stderr."""
        with tempfile.NamedTemporaryFile("r", prefix="godwit-check-", suffix=".tap", errors="replace") as tap:
            command = [*before, program, "--jobs", "1", f"--tap={tap.name}"]
            out, err = self.run(command, seconds, environment)
            return tap.read(), out, err

    def passed(self, tap, err):
        """How many tests a suite has passed, from its stderr, and how many it skipped, which only its TAP tells."""
        found = re.search(r"Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)", err)
        if not found:
            raise Failed(f"it did not say how many tests passed: {err[-300:]}")
        if found[1] == "0":
            if self.gpu():
                raise Failed("all of its tests were skipped, although there is a GPU")
            raise Skipped("no GPU here")
        skipped = re.findall(r"^ok - .*# SKIP *(.*)", tap, re.MULTILINE)
        return f"{found[2]} of {found[1]} tests" + (f", {len(skipped)} skipped ({skipped[0]})" if skipped else "")

    def suite(self, program):
        tap, _, err = self.tested(program, 150)
        return self.passed(tap, err)

    def sanitized(self, tool, name):
        sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if sanitizer is None:
            raise Skipped("compute-sanitizer is not installed")
        command = [sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", "9"]
        command += ["--require-cuda-init", "no"]  # the process that starts those of the tests does not use CUDA
        limit = 600 if (tool, name) in SANITIZED_JOBS else 120
        seldom = dict(os.environ, GODWIT_TEST_SLOW="1")
        tap, out, err = self.tested(self.test_program(name), limit, command, seldom)
        # Errors in processes that a test starts do not change the exit code, and racecheck counts "hazards".
        errors = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", out + err)
        if not errors or any(count != "0" for count in errors):
            raise Failed(f"compute-sanitizer does not say that there were no errors: {(out + err)[-300:]}")
        return f"{self.passed(tap, err)}, no errors"


    def hash_alone(self, job):
        key = " ".join(job)
        if key not in self.alone:
            self.alone[key] = self.finishes(job, self.on_gpu())[0]["state"]
        return self.alone[key]

    def same(self, job, peers):
        """Fails unless these peers ended with the state of one peer alone, and returns the start of its hash."""
        wanted = self.hash_alone(job)
        for peer in peers:
            if peer.done is None or peer.done["state"] != wanted:
                state = peer.done and peer.done["state"]
                raise Failed(f"peer {peer.number} ended with {state}, one alone with {wanted}")
        return wanted[:16]

    def flock_of(self, count, job, environments=None):
        homes = [SharedGpu(i, (environments or {}).get(i)) for i in range(count)]
        birds = flock.Flock(self.binary, [*job, *self.on_gpu(), "--peers", str(count)], ready_s=self.left(60))
        return birds, homes

    def undisturbed(self, count):
        birds, homes = self.flock_of(count, SMALL)
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_ends(peers, self.left(120))
            return f"{count} peers: {self.same(SMALL, peers)}"

    def killed(self, count, kills, job):
        """Kills peers, one after another, in a job whose steps are mostly reductions. Tries one flock after another
        until a kill has struck inside a reduction."""
        for flocks in range(1, MOST_FLOCKS + 1):
            cut, text = self.killed_once(count, kills, job)
            if cut:
                return f"{text}; {cut} sums cut, in flock {flocks}"
        raise Failed(f"no kill struck inside a reduction in {MOST_FLOCKS} flocks; {text}")

    def killed_once(self, count, kills, job):
        """Returns how many reductions the kills cut, as the survivors count them, and a text of what was seen."""
        job = [*job, "--steps", "160"]
        birds, homes = self.flock_of(count, job)
        gaps = []
        cut = 0
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_step(8, self.left(120))
            share = self.reduce_share(birds, peers[0])
            if share < LEAST_REDUCING:
                raise Failed(f"reductions were {share:.0%} of the time, and {LEAST_REDUCING:.0%} at least are expected")
            for left in range(count - 1, count - 1 - kills, -1):
                before = self.counted(birds, peers[:left], 8, "nccl_sums_cut")
                moment = peers[left].kill()
                event = birds.first_step_after(moment, self.left(60), members=left)
                gaps.append(event["time"] - moment)
                birds.wait_step(event["step"] + 8, self.left(60))
                after = self.counted(birds, peers[:left], event["step"] + 8, "nccl_sums_cut")
                cut += max(late - early for early, late in zip(before, after))
            birds.wait_ends(peers[: count - kills], self.left(120))
            state = self.same(job, peers[: count - kills])
        text = ", ".join(f"{gap:.2f} s" for gap in gaps)
        text = f"next step after {text}; reductions were {share:.0%} of the time; {state}"
        if max(gaps) > RECOVER_S:
            raise Failed(text)
        return cut, text

    def counted(self, birds, peers, step, counter):
        """The counter of each peer once it has reached the step. Several peers must sum by NCCL."""
        counts = []
        for peer in peers:
            shown = self.shown(birds, peer, step)
            if len(peers) > 1 and shown.get("sums") != "nccl":
                raise Failed(f"sums do not go by NCCL any more, but through {shown.get('sums')}: {peer.errors[-300:]}")
            counts.append(shown["counters"][counter])
        return counts

    def killed_forming(self):
        """Kills one of three peers as soon as they are in one view. Tries one flock after another until a kill has
        struck while their first communicator formed."""
        job = [*WIDE, "--steps", "60"]
        for flocks in range(1, MOST_FLOCKS + 1):
            birds, homes = self.flock_of(3, job)
            with birds:
                peers = birds.gather_in(homes)
                birds.wait(
                    lambda peers=peers: peers[2].view and len(peers[2].view["members"]) == 3,
                    self.left(60),
                    "the three are together",
                )
                moment = peers[2].kill()
                event = birds.first_step_after(moment, self.left(60), members=2)
                birds.wait_step(event["step"] + 8, self.left(60))
                cut = max(self.counted(birds, peers[:2], event["step"] + 8, "nccl_forming_cut"))
                birds.wait_ends(peers[:2], self.left(120))
                state = self.same(job, peers[:2])
            if cut:
                return f"next step after {event['time'] - moment:.2f} s, in flock {flocks}; {state}"
        raise Failed(f"no kill struck while a communicator formed in {MOST_FLOCKS} flocks")

    def shown(self, birds, peer, step):
        """What `godwit status` shows once it has reached the step, which is a little after the event of the step."""
        while True:
            out, _ = self.godwit(["status", "--dir", peer.directory, "--json"], 20)
            shown = json.loads(out)
            if (shown["step"] or 0) >= step:
                return shown
            birds.wait_step(birds.step() + 1, self.left(60))

    def reduce_share(self, birds, peer):
        """The share of the time that reductions take in eight steps or more, after those in which NCCL connects."""
        first = self.shown(birds, peer, 8)
        if first.get("sums") != "nccl":
            raise Failed(f"sums do not go by NCCL, but through {first.get('sums')}: {peer.errors[-300:]}")
        last = self.shown(birds, peer, first["step"] + 8)
        reducing = last["counters"]["reduce_seconds"] - first["counters"]["reduce_seconds"]
        return reducing / (last["uptime_s"] - first["uptime_s"])

    def killed_and_back(self):
        job = [*WIDE, "--steps", "120"]
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

    def floats(self, devices, sums):
        """Runs two peers, maybe on different devices, with float sums, which have another type than exact sums."""
        self.on_gpu()
        birds = flock.Flock(self.binary, [*FLOATS, "--peers", "2"], ready_s=self.left(60))
        with birds:
            peers = [birds.add(["--device", device], SharedGpu(number)) for number, device in enumerate(devices)]
            birds.wait_step(8, self.left(120))
            on_gpus = [peer for peer, device in zip(peers, devices) if device != "cpu"]  # only these show `sums`
            seen = {self.shown(birds, peer, 8).get("sums") for peer in on_gpus}
            birds.wait_ends(peers, self.left(120))
            steps = [(peer, event) for peer, event in birds.events if event["event"] == "step"]
        if seen != {sums}:
            raise Failed(f"sums do not go by {sums} alone, but by {seen}")
        shards = [sum(event["computed"] for whose, event in steps if whose is peer) for peer in peers]
        if 0 in shards:
            raise Failed(f"a peer has computed nothing: {shards[0]} and {shards[1]} shards")
        states = [peer.done["state"] for peer in peers]
        if states[0] != states[1]:
            raise Failed(f"they ended with {states[0]} and {states[1]}")
        return f"{shards[0]} and {shards[1]} shards, sums by {sums}: {states[0][:16]}"

    def shown_by_nvml(self):
        """Checks the figures of a busy GPU in `godwit status`."""
        if "nvml_error" in self.devices:
            raise Failed(self.devices["nvml_error"])
        wanted = ["memory_used_bytes", "temperature_c", "power_w"]
        if self.devices["gpus"][0].get("mig"):  # the other figures exist only for whole GPUs
            del wanted[1:]
        birds, homes = self.flock_of(1, WIDE)
        with birds:
            peer = birds.gather_in(homes)[0]
            until = time.monotonic() + NVML_S
            while True:
                birds.wait_step(birds.step() + 8, self.left(60))
                shown = self.shown(birds, peer, 8)["gpus"]
                if shown and all(shown[0].get(name, 0) > 0 for name in wanted):
                    return ", ".join(f"{name} {shown[0][name]:.4g}" for name in wanted)
                if time.monotonic() >= until:
                    raise Failed(f"after {NVML_S:.0f} s {', '.join(wanted)} are not all shown: {shown}")

    def without_nccl(self):
        """Without NCCL on one of two peers, sums go through host memory and give the same bytes."""
        birds, homes = self.flock_of(2, SMALL, {1: {"GODWIT_NCCL": "/nonexistent/libnccl.so.2"}})
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_ends(peers, self.left(120))
            if WITHOUT_NCCL not in peers[1].errors:
                raise Failed(f"the peer without NCCL does not say so: {peers[1].errors[-300:]}")
            return self.same(SMALL, peers)

    def several(self):
        """One peer with all GPUs of this machine has the hash of one GPU. (The suites test one GPU used twice.)"""
        count = len(self.devices["gpus"])
        if count < 2:
            raise OfSeveral("one GPU here")
        done, _, err = self.finishes(SMALL, ["--device", "cuda:all"])
        if done["state"] != self.hash_alone(SMALL):
            raise Failed(f"{count} GPUs ended with {done['state']}, one with {self.hash_alone(SMALL)}")
        if WITHOUT_NCCL in err:  # the bytes are the same then, so only the log tells
            raise Failed(f"{count} GPUs: sums do not go by NCCL: {err[-300:]}")
        return f"{count} GPUs: {done['state'][:16]}"

    def mixed(self):
        """An exact job does not let a processor and a GPU compute together, and names both device classes."""
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
        return ", ".join(re.findall(r"class=\w+", line))

    def repeated_in_one(self, job):
        """Shards of full size, computed a hundred times from the same state in one process, are all the same."""
        others = self.figure(f"{job}_other_fingerprints")
        if others != 0:
            raise Failed(f"{others:.0f} of 100 had other fingerprints than the first")
        return "all as the first"

    def repeated(self):
        """The same step of a full batch is the same in many processes, four of them at a time."""
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


    @functools.cached_property
    def tokens(self):
        """A file of tokens in the form of llm.c. Few tokens are frequent, so that a model can learn something."""
        draw = random.Random(1)
        drawn = array.array("H", (int(GPT_VOCABULARY * draw.random() ** 4) for _ in range(3 << 20)))
        header = array.array("i", [20240520, 1, len(drawn)] + [0] * 253)
        with tempfile.NamedTemporaryFile(prefix="godwit-check-", suffix=".bin", delete=False) as file:
            file.write(header.tobytes() + drawn.tobytes())
        atexit.register(os.unlink, file.name)
        return file.name

    def gpt_flock(self):
        """Kills one of two peers that share the GPU."""
        job = ["gpt", "--data", self.tokens, *GPT_SMALL]
        birds, homes = self.flock_of(2, job)
        with birds:
            peers = birds.gather_in(homes)
            birds.wait_step(4, self.left(60))
            peers[1].kill()
            birds.wait_ends(peers[:1], self.left(120))
            return f"one of two killed: {self.same(job, peers[:1])}"

    def gpt_resumed(self):
        """Kills both of two peers, which resume from their checkpoint. Dropout must draw the same numbers for a step
        whichever process computes it."""
        job = ["gpt", "--data", self.tokens, *GPT_DROPPED]
        birds, homes = self.flock_of(2, [*job, "--checkpoint-every", "20", "--quorum", "majority"])
        with birds:
            peers = birds.gather_in(homes)
            birds.wait(lambda: birds.events_after(0, "checkpoint"), self.left(60), "a checkpoint is saved", watch=peers)
            moment = [peer.kill() for peer in peers][-1]
            for peer in peers:
                birds.start(peer)
            birds.wait_ends(peers, self.left(120))
            resumed = [event["step"] for _, event in birds.events_after(moment, "resumed")]
            if not resumed:
                raise Failed("they did not resume from a checkpoint")
            return f"resumed at step {min(resumed)}: {self.same(job, peers)}"


    def program(self):
        """A program in PyTorch, alone, and then with two workers, one of which is killed."""
        script = os.path.join(HERE, "..", "examples", "python", "bytes.py")
        text = os.path.join(self.data or "", TEXT)
        if self.torch is None or not os.path.exists(text) or not os.path.exists(script):
            raise Skipped("it needs PyTorch (pip install torch), the examples, and GODWIT_TEST_DATA")
        job = [script, "--args", f"{text} 60 cuda", "--python", sys.executable]
        done, _, _ = self.finishes(job, ["--workers", "1"], self.of_module(), 180)
        birds = flock.Flock(self.binary, [*job, "--workers", "2"], ready_s=self.left(120))
        with birds:
            (peer,) = birds.gather_in([SharedGpu(0, self.of_module())])
            birds.wait_step(5, self.left(120))
            workers = self.children(peer.process.pid)
            if not workers:
                raise Failed("the peer has no workers")
            os.kill(workers[-1], signal.SIGKILL)
            birds.wait_ends([peer], self.left(180))
            if peer.done is None or peer.done["state"] != done["state"]:
                raise Failed(f"with a worker killed {peer.done and peer.done['state']}, alone {done['state']}")
        return f"one of two workers killed: {done['state'][:16]}"

    @staticmethod
    def of_module():
        """The environment in which the example finds the module of this tree."""
        return {"PYTHONPATH": os.path.join(HERE, "..", "python")}

    @staticmethod
    def children(pid):
        found = []
        for task in glob.glob(f"/proc/{pid}/task/*/children"):
            with open(task, encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
        return sorted(found)

    def run_all(self):
        self.check("GPU, driver and libraries", self.look, needs_gpu=False)
        self.check("without a GPU: falls back to the processor", self.falls_back, needs_gpu=False)
        self.check("without a GPU: --device cuda says so", self.asks_for_a_gpu, needs_gpu=False)
        self.check("suites for a GPU", self.has_suites)
        self.check_together("{}", self.suite, "all pass", [(test,) for test in self.tests], needs_gpu=False)
        self.check_flocks()
        self.check_together("{}: {}", self.sanitized, "no error", SANITIZED_FIRST)
        self.check_figures()
        self.check(f"one step of a full batch, {PROCESSES} processes", self.repeated, "one fingerprint")
        sanitized = [asked for asked in SANITIZED if asked not in SANITIZED_FIRST]
        self.check_together("{}: {}", self.sanitized, "no error", sanitized + (SANITIZED_JOBS if self.strict else []))

    def check_flocks(self):
        recovers = f"a sum cut, next step within {RECOVER_S:.0f} s"
        for count in (2, 3):
            self.check(f"{count} peers", functools.partial(self.undisturbed, count), "hash of one")
        self.check("3 peers, all but one killed", functools.partial(self.killed, 3, 2, WIDE), recovers)
        self.check("8 peers, two killed", functools.partial(self.killed, 8, 2, NARROWER), recovers)
        self.check("3 peers, one killed as NCCL forms", self.killed_forming, "hash of one")
        self.check("3 peers, killed and started again", self.killed_and_back, "hash of one")
        self.check("gpt: 2 peers, one killed", self.gpt_flock, "hash of one")
        self.check("gpt, dropout: all killed and started again", self.gpt_resumed, "hash of one")
        self.check("a program in PyTorch, a worker killed", self.program, "hash of one worker")
        self.check("one peer without NCCL", self.without_nccl, "hash of one")
        self.check("one peer with all GPUs", self.several, "hash of one")
        self.check("a processor in a flock of GPUs", self.mixed, "refused, both classes named")
        of_gpus, of_both = (("cuda:0", "cuda:0"), "nccl"), (("cuda:0", "cpu"), "host memory")
        self.check("2 peers, float sums", functools.partial(self.floats, *of_gpus), "one hash, by NCCL")
        self.check("a processor and a GPU, float sums", functools.partial(self.floats, *of_both), "one hash, both compute")
        self.check("the GPU's figures in status", self.shown_by_nvml, "memory, temperature, power")

    def table(self):
        print("\n" + "=" * 140)
        for name, verdict, seconds, asked, seen in self.rows:
            first = seen.splitlines()[0][:120] if seen else ""
            print(f"{verdict:<11} {name:<42} {seconds:6.1f} s  {asked:<36} {first}")
        names = {verdict: [row[0] for row in self.rows if row[1] == verdict] for verdict in (PASS, FAIL, SKIP, LATE)}
        count = {verdict: len(rows) for verdict, rows in names.items()}
        print("=" * 140)
        if not self.gpu():
            print("There is no GPU here that could be used: what needs one was skipped.")
        print(f"{count[PASS]} passed, {count[FAIL]} failed, {count[SKIP]} skipped, {count[LATE]} not reached")
        print(f"Not judged: {'; '.join(names[SKIP]) or 'nothing'}")
        if names[LATE]:
            print("The time was over (--seconds gives more): neither passed nor failed are " + "; ".join(names[LATE]))
        return 1 if count[FAIL] or count[LATE] else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", help="the program godwit")
    parser.add_argument("tests", nargs="*", help="the suites test_gpu_... of the build")
    parser.add_argument("--seconds", type=float, default=450, help="the time of all checks together (default 450)")
    parser.add_argument("--strict", action="store_true", help="let skipped checks fail if there is a GPU")
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of godwit and its suites")
    parser.add_argument("--data", help=f"a folder with {TEXT}")
    arguments = parser.parse_args()
    checks = Checks(
        arguments.binary, arguments.tests, arguments.seconds, arguments.library_path, arguments.data, arguments.strict
    )
    checks.run_all()
    return checks.table()


if __name__ == "__main__":
    sys.exit(main())
