"""The measurements of check.py on a GPU, compared with PyTorch if it is installed."""

import functools
import json
import os
import re
import subprocess
import sys

from verdicts import Failed, Once, Skipped

HERE = os.path.dirname(os.path.abspath(__file__))
LARGE = ["digits", "--hidden", "8192,8192", "--samples", "81920", "--batch", "8192", "--micro-batch", "2048"]
LARGE += ["--epochs", "1000"]
GPT_OPERATIONS = 6 * 124439808 + 12 * 12 * 1024 * 768  # a token: 6 N + 12 L T C
PEAKS = [("H100 PCIe", 756e12), ("H100 NVL", 835e12), ("H100", 989e12)]
PEAKS += [("H200 NVL", 835e12), ("H200", 989e12), ("A100", 312e12)]  # bf16, dense
TEXT = "text/shakespeare.txt"
LEAST_NOISE = 0.01  # of a validation loss


class Figures:
    """A base of check.Checks, whose run(), rows and GPU it uses."""

    def measured(self):
        help_text, _ = self.godwit(["bench", "--help"], 20)
        if not re.search(r"^  gpu ", help_text, re.MULTILINE):
            raise Failed("this build has no 'godwit bench gpu'")
        out, _ = self.godwit(["bench", "gpu", "--json"], 120)
        self.figures = json.loads(out)
        return " ".join(f"{name}={value:.4g}" for name, value in self.figures.items() if isinstance(value, (int, float)))

    def figure(self, *names):
        """The figures that `godwit bench gpu` prints."""
        if not self.figures:
            raise Skipped("there are no figures")
        found = [self.figures[name] for name in names]
        return found if len(found) > 1 else found[0]

    def of_copy(self, name):
        """Compares a kernel that moves memory with a copy."""
        ours, copy = self.figure(name, "copy_bytes_per_s")
        return self.at_least(ours / copy, 0.8, f"{ours / copy:.0%} of a copy's {copy / 1e12:.2f} TB/s")

    @staticmethod
    def at_least(value, least, text):
        if not value >= least:
            raise Failed(text)
        return text

    @Once
    def torch(self):
        """The figures of PyTorch on this GPU; None if it is not installed; a text if it fails."""
        find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        probe = subprocess.run([sys.executable, "-c", find], check=False, env=self.plain, timeout=self.left(60))
        return None if probe.returncode != 0 else self.measure_torch("torch_bench.py", 120)

    @Once
    def torch_gpt(self):
        """The same for GPT-2."""
        return None if self.torch is None else self.measure_torch("torch_gpt.py", 180)

    def measure_torch(self, script, seconds):
        """The JSON object that the script prints last, or a text if it fails."""
        try:
            out, _ = self.run([sys.executable, os.path.join(HERE, script)], seconds, self.plain)
            return json.loads(out.splitlines()[-1])
        except (Failed, subprocess.TimeoutExpired, OSError, ValueError, IndexError) as why:
            return f"PyTorch fails here: {why}"

    @staticmethod
    def theirs(measured, text):
        """The figures of PyTorch; without them the row is skipped or fails."""
        if measured is None:
            raise Skipped(f"PyTorch is not installed (pip install torch); {text}")
        if isinstance(measured, str):
            raise Failed(f"{text}; {measured}")
        return measured

    def against_torch(self, ours, theirs, unit, scale, least):
        text = f"{ours / scale:.4g} {unit}"
        theirs = self.theirs(self.torch, text)[theirs]
        return self.at_least(ours / theirs, least, f"{text}, {ours / theirs:.2f} of PyTorch's {theirs / scale:.4g}")

    def gemm(self):
        return self.against_torch(self.figure("gemm_bf16_flops"), "gemm_bf16_flops", "TFLOP/s", 1e12, 0.97)

    def attention(self, name, least):
        """Compares attention with FlashAttention-2, which computes 5 products of tiles backward, where godwit computes
        7, to add in one order."""
        return self.against_torch(self.figure(name), name, "TFLOP/s", 1e12, least)

    def exact_against_fast(self, job, unit, most):
        """Compares steps of a member of a flock with exact and with fast reductions, without the network. `fast` adds
        the shards exactly as well and only sends floats, so the time that adding floats would save counts, too: 8 of
        the 20 bytes that are moved for an element."""
        exact, fast, share = self.figure(f"{job}_exact_{unit}_per_s", f"{job}_fast_{unit}_per_s", f"{job}_adding_share")
        slower, saved = fast / exact - 1, share * 8 / 20
        text = f"{slower:+.1%} ({exact:.4g} against {fast:.4g} {unit}/s); adding floats would save {saved:.1%} of a step"
        return self.at_least(most - max(slower, saved), 0, text)

    def samples_per_second(self, extra):
        """The speed of training steps, measured over as many steps as PyTorch's (torch_bench.py)."""
        job = [*LARGE, "--steps", "88", "--checkpoint-every", "off"]
        _, events, _ = self.finishes(job, [*self.on_gpu(), *extra], seconds=150)
        took = [e["ms"] for e in events if e["event"] == "step" and e["shards"] == 4][20:]
        if len(took) < 40:
            raise Failed(f"only {len(took)} steps to measure")
        return 8192 / (sorted(took)[len(took) // 2] / 1000)

    def training(self):
        rate = self.samples_per_second(["--precision", "tf32"])
        return self.against_torch(rate, "digits_samples_per_s", "samples/s", 1, 1.0)


    @Once
    def gpt_run(self):
        """Trains GPT-2 and returns the tokens per second of the median update, and the losses."""
        job = ["gpt", "--model", "gpt2", "--data", self.tokens, "--batch-tokens", "131072", "--micro-batch", "16"]
        job += ["--updates", "20", "--warmup", "3", "--lr", "6e-4", "--precision", "bf16"]
        _, events, _ = self.finishes(job, [*self.on_gpu(), "--checkpoint-every", "off"], seconds=100)
        steps = [event for event in events if event["event"] == "step"]
        if len(steps) < 12:
            raise Failed(f"only {len(steps)} updates to measure")
        took = sorted(event["ms"] for event in steps[3:])
        return 131072 / (took[len(took) // 2] / 1000), [event["report"]["loss"] for event in steps]

    def gpt_learns(self):
        _, losses = self.gpt_run
        return self.at_least(losses[0] - losses[-1], 0.5, f"from {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} updates")

    def gpt_speed(self):
        rate, _ = self.gpt_run
        text = f"{rate:.4g} tokens/s"
        theirs = self.theirs(self.torch_gpt, text)
        share = rate / theirs["tokens_per_s"]
        text += f", {share:.2f} of PyTorch's {theirs['tokens_per_s']:.4g}"
        if not theirs["compiled"]:
            raise Skipped(f"{text}, which torch.compile has not compiled: it does not work here")
        return self.at_least(share, 1.0, text)

    def gpt_utilisation(self):
        rate, _ = self.gpt_run
        flops, name = rate * GPT_OPERATIONS, self.devices["gpus"][0]["name"]
        peak = next((peak for part, peak in PEAKS if part in name), None)
        text = f"{flops / 1e12:.0f} TFLOP/s"
        if peak is None:
            raise Skipped(f"{text}; the peak of {name} is not known here")
        return self.at_least(flops / peak, 0.42, f"{flops / peak:.1%}: {text} of {peak / 1e12:.0f}")

    def gpt_memory(self):
        ours = self.figure("gpt2_memory_bytes")
        text = f"{ours / 1e9:.1f} GB"
        theirs = self.theirs(self.torch_gpt, text)
        text += f", PyTorch {theirs['memory_bytes'] / 1e9:.1f} GB"
        if not theirs["compiled"]:
            raise Skipped(f"{text}, which torch.compile has not compiled: it does not work here")
        return self.at_least(theirs["memory_bytes"] - ours, 0, text)

    def small_as_graphs(self):
        graphs, single = self.figure("small_gpt_tokens_per_s", "small_gpt_single_tokens_per_s")
        return self.at_least(graphs / single, 1.0, f"{graphs / single:.2f} times {single:.4g} tokens/s")

    def learns_like_torch(self):
        """Compares the validation losses of godwit and PyTorch on the same text, for three seeds each."""
        text = os.path.join(self.data or "", TEXT)
        if not self.data or not os.path.exists(text):
            raise Skipped(f"there is no {TEXT}: set GODWIT_TEST_DATA to the folder that contains it")
        self.theirs(self.torch, "no losses")
        script = os.path.join(HERE, "..", "bench", "pytorch", "learning.py")
        command = [sys.executable, script, self.binary, text, "--on-gpu", "--library-path", os.environ.get("LD_LIBRARY_PATH", "")]
        out, _ = self.run(command, 150, self.plain)
        found = json.loads(out.splitlines()[-1])
        (ours, our_spread), (theirs, their_spread) = found["godwit"], found["torch"]
        noise = max(2 * ((our_spread**2 + their_spread**2) / found["seeds"]) ** 0.5, LEAST_NOISE)
        seen = f"{ours:.4f}, PyTorch {theirs:.4f}, noise {noise:.4f}"
        return self.at_least(theirs + noise - ours, 0, seen)


    def check_figures(self):
        self.check("figures (godwit bench gpu)", self.measured)
        self.check("exact accumulate", functools.partial(self.of_copy, "accumulate_bytes_per_s"), ">= 80% of a copy")
        self.check("optimizer", functools.partial(self.of_copy, "optimizer_bytes_per_s"), ">= 80% of a copy")
        self.check("GEMM 4096, bf16", self.gemm, ">= 0.97 of PyTorch's")
        for width in (64, 128):
            forward, backward = f"attention_{width}_flops", f"attention_{width}_back_flops"
            self.check(f"attention, {width} wide", functools.partial(self.attention, forward, 0.7), ">= 0.7 of PyTorch's")
            self.check(f"attention back, {width} wide", functools.partial(self.attention, backward, 0.5), ">= 0.5 of PyTorch's")
        self.check("digits 8192,8192, TF32", self.training, ">= 1.0 of PyTorch's samples/s")
        self.check("digits 8192,8192: a full batch, 100 times", functools.partial(self.repeated_in_one, "digits"), "one fingerprint")
        self.check("digits: exact against fast", functools.partial(self.exact_against_fast, "digits", "samples", 0.10), "<= 10% slower")
        self.check("GPT-2 124M: 16 x 1024 tokens, 100 times", functools.partial(self.repeated_in_one, "gpt2"), "one fingerprint")
        self.check("GPT-2 124M: loss", self.gpt_learns, "0.5 less")
        self.check("GPT-2 124M: speed", self.gpt_speed, ">= 1.0 of PyTorch's, compiled")
        self.check("GPT-2 124M: utilisation", self.gpt_utilisation, ">= 42% of the peak")
        self.check("GPT-2 124M: exact against fast", functools.partial(self.exact_against_fast, "gpt2", "tokens", 0.05), "<= 5% slower")
        self.check("GPT-2 124M: memory", self.gpt_memory, "<= PyTorch's")
        self.check("gpt 4 x 128, T 64: as graphs", self.small_as_graphs, ">= 1.0 of kernel by kernel")
        self.check("gpt 6 x 384, T 256: validation loss", self.learns_like_torch, "<= PyTorch's, within noise")
