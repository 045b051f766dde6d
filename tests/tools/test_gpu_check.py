"""Tests tools/gpu/check.sh on machines with faults: it must not pass there."""

import contextlib
import glob
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "gpu")]
import check  # noqa: E402
import tap  # noqa: E402


def verdict(checks, function):
    """The verdict of a row with this check, and what was seen."""
    with contextlib.redirect_stdout(io.StringIO()):
        _, found, _, _, seen = checks.row("row", function, needs_gpu=False)
    return found, seen


class Row(unittest.TestCase):
    def setUp(self):
        self.checks = check.Checks("godwit", [], 60)


class Frame(Row):
    def test_what_was_started_by_what_runs_out_of_time_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "held")
            os.mkfifo(fifo)

            def too_late(timeout):
                reader.append(os.open(fifo, os.O_RDONLY))
                self.assertEqual(os.read(reader[0], 1), b"x")
                raise subprocess.TimeoutExpired("sh", timeout)

            reader = []
            with mock.patch.object(subprocess.Popen, "communicate", side_effect=too_late):
                with self.assertRaises(subprocess.TimeoutExpired):
                    self.checks.run(["sh", "-c", f"(printf x; exec sleep 1000) > {fifo} & wait"], 30)
            self.assertEqual(os.read(reader[0], 1), b"")  # nobody has it open to write any more
            os.close(reader[0])
        self.assertEqual(self.checks.running, set())

    def test_a_row_for_which_no_time_is_left_starts_nothing(self):
        checks = check.Checks("godwit", [], 0)
        started = mock.Mock()
        found, seen = verdict(checks, started)
        self.assertEqual((found, seen), (check.LATE, "no time was left for it"))
        started.assert_not_called()

    def test_what_the_end_of_all_time_cuts_off_has_not_failed(self):
        checks = check.Checks("godwit", [], 5.2)
        found, seen = verdict(checks, lambda: checks.run(["sleep", "60"], 30))
        self.assertEqual(found, check.LATE, seen)
        self.assertRegex(seen, "sleep 60: not done in the [0-5] s that were left")
        self.assertEqual(verdict(checks, mock.Mock(side_effect=check.flock.TooLate("no step")))[0], check.LATE)

    def test_what_takes_longer_than_its_own_time_has_failed(self):
        for why in (subprocess.TimeoutExpired("sleep", 0.1), check.flock.TooLate("no step")):
            self.assertEqual(verdict(self.checks, mock.Mock(side_effect=why))[0], check.FAIL)

    def test_what_was_not_reached_is_told_last_and_is_no_success(self):
        checks = check.Checks("godwit", [], 0)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            checks.check("speed", mock.Mock(), needs_gpu=False)
            self.assertEqual(checks.table(), 1)
        lines = out.getvalue().splitlines()
        self.assertEqual(lines[-3], "0 passed, 0 failed, 0 skipped, 1 not reached")
        self.assertRegex(lines[-1], "^The time was over .* neither passed nor failed are speed$")

    def test_the_time_is_that_of_the_whole_script_without_a_build(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "tools", "gpu", "check.sh")
            os.makedirs(os.path.dirname(script))
            shutil.copy(LibraryPath.SCRIPT, script)
            with open(script[: -len("sh")] + "py", "w") as file:
                file.write("import sys\nprint(sys.argv[sys.argv.index('--seconds') + 1])\n")
            os.mkdir(os.path.join(folder, "build"))
            files = {"build/godwit": "sleep 2; echo {}", "cmake": ":", "ninja": "sleep 8"}
            for name, does in files.items():
                with open(os.path.join(folder, name), "w") as file:
                    file.write(f"#!/bin/sh\n{does}\n")
                os.chmod(file.name, 0o755)
            os.mkdir(os.path.join(folder, "build", "tests"))
            path = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}
            ran = subprocess.run([script, "--seconds", "100"], env=path, capture_output=True, text=True, check=True)
        self.assertIn(int(ran.stdout.splitlines()[-1]), range(91, 99))


class PyTorch(Row):
    """Makes a module `torch` with this text."""

    def theirs(self, contents):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "torch.py"), "w") as file:
                file.write(contents)
            self.checks.plain = dict(os.environ, PYTHONPATH=folder)
            return self.checks.torch

    def test_one_that_cannot_be_imported_is_not_one_that_is_missing(self):
        found = self.theirs("raise ImportError('libcudnn.so.9: cannot open shared object file')")
        self.assertIn("libcudnn.so.9", found)
        with self.assertRaises(check.Failed):
            self.checks.theirs(found, "")

    def test_memory_is_not_judged_by_one_that_compiled_nothing(self):
        self.checks.figures = {"gpt2_memory_bytes": 1e9}
        for compiled, verdict_of in ((True, check.PASS), (False, check.SKIP)):
            with mock.patch.object(check.Figures, "torch_gpt", {"memory_bytes": 2e9, "compiled": compiled}):
                self.assertEqual(verdict(self.checks, self.checks.gpt_memory)[0], verdict_of)


class TimedAlike(unittest.TestCase):
    """PyTorch is measured like godwit."""

    def setUp(self):
        self.log = []
        torch = mock.MagicMock()
        torch.cuda.Event.side_effect = lambda **_: mock.Mock(
            record=lambda: self.log.append("event"), elapsed_time=lambda _: 40.0
        )
        with mock.patch.dict(sys.modules, torch=torch):
            self.bench = importlib.import_module("torch_bench")

    def test_so_many_calls_lie_between_two_events(self):
        self.assertEqual(self.bench.median_seconds(lambda: self.log.append("call"), 20), 0.002)
        round_of = ["event", *["call"] * 20, "event"]
        self.assertEqual(self.log, round_of * (self.bench.WARM + self.bench.ROUNDS))

    def test_as_many_as_of_ours(self):
        with open(os.path.join(HERE, "..", "..", "tools", "bench", "gpu", "gpu.c")) as file:
            source = file.read()
        for name in ("ROUNDS", "WARM", "PRODUCTS", "ATTENTIONS"):
            self.assertEqual(int(re.search(rf"\b{name} = (\d+)", source)[1]), getattr(self.bench, name), name)
        for name, work in (("PRODUCTS", "multiply"), ("ATTENTIONS", "attend"), ("ATTENTIONS", "attend_back")):
            self.assertIn(f"measure(b, {work}, {name}, ", source)
        with mock.patch.object(self.bench, "median_seconds", return_value=1.0) as measured:
            self.bench.gemm_rate(4)
            self.bench.attention_rates(64)
        self.assertEqual([call.args[1] for call in measured.call_args_list], [20, 20, 20])

    def test_of_values_of_the_same_type(self):
        with open(os.path.join(HERE, "..", "..", "tools", "bench", "gpu", "gpu.c")) as file:
            self.assertRegex(file.read(), r"shape = \{\.rows = SIZE, .*\.factor = true\};")


class LibraryPath(unittest.TestCase):
    """The library path of check.sh with CUDA's libraries in Python's packages, and a godwit that finds them."""

    SCRIPT = os.path.join(HERE, "..", "..", "tools", "gpu", "check.sh")

    def path(self, *versions):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("nccl/lib/libnccl.so.2", "cublas/lib/libcublasLt.so.13"):
                file = os.path.join(folder, "nvidia", name)
                os.makedirs(os.path.dirname(file))
                open(file, "w").close()
            godwit = os.path.join(folder, "godwit")
            found = {name: {"error": "none"} for name in ("nccl", "cublaslt")}
            found.update({name: {"version": "13"} for name in versions})
            with open(godwit, "w") as file:
                file.write(f"#!/bin/sh\necho '{json.dumps(found)}'\nexit 1\n")
            with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
                file.write(f"import sysconfig\nsysconfig.get_path = lambda _: {folder!r}\n")
            os.chmod(godwit, 0o755)
            with open(self.SCRIPT) as script:
                function = re.search(r"^library_path\(\) {.*?^}$", script.read(), re.MULTILINE | re.DOTALL)[0]
            environment = dict(os.environ, folder=folder, LD_LIBRARY_PATH="/own", PYTHONPATH=folder)
            ran = subprocess.run(["bash", "-euc", function + "\nlibrary_path"], env=environment, capture_output=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            return ran.stdout.decode().replace(folder + "/nvidia/", "")

    def test_what_is_found_without_them_is_taken_from_the_system(self):
        self.assertEqual(self.path("nccl", "cublaslt"), "/own")

    def test_only_what_is_missing_is_taken_from_pythons_packages_and_last(self):
        self.assertEqual(self.path("nccl"), "/own:cublas/lib")
        self.assertEqual(self.path(), "/own:nccl/lib:cublas/lib")


class Looking(Row):
    """`godwit devices` finds no GPU on a machine whose PCI bus has these devices, by vendor and class."""

    TOO_OLD = "the NVIDIA driver is too old"

    def look(self, cards, visible=None):
        answers = {
            "devices": json.dumps({"gpus": [], "gpu_error": self.TOO_OLD, "nccl": {}, "cublaslt": {}}),
            "run": "--device=",
        }
        self.checks.godwit = lambda arguments, *_, **__: (answers[arguments[0]], "")
        environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        with tempfile.TemporaryDirectory() as pci:
            for number, (vendor, kind) in enumerate(cards):
                device = os.path.join(pci, f"0000:{number:02x}:00.0")
                os.mkdir(device)
                for name, value in (("vendor", vendor), ("class", kind)):
                    with open(os.path.join(device, name), "w") as file:
                        file.write(value + "\n")
            with mock.patch.multiple(check, create=True, PCI_DEVICES=pci, DRIVER_GPUS=pci + "/none"):
                with mock.patch.dict(os.environ, {**kept, **environment}, clear=True):
                    return verdict(self.checks, self.checks.look)

    def test_gpus_that_cannot_be_used_fail(self):
        for visible in (None, "0", "GPU-8f2c"):
            found, seen = self.look([("0x8086", "0x060000"), ("0x10de", "0x030200")], visible)
            self.assertEqual(found, check.FAIL, visible)
            self.assertIn("0000:01:00.0", seen)
            self.assertIn(self.TOO_OLD, seen)

    def test_gpus_that_are_hidden_are_not_missed(self):
        for visible in ("", "-1", "NoDevFiles"):
            self.assertEqual(self.look([("0x10de", "0x030200")], visible)[0], check.PASS, visible)

    def test_a_machine_without_gpus_passes(self):
        cards = [("0x10de", "0x040300"), ("0x1002", "0x030000")]  # NVIDIA's sound, another's graphics
        self.assertEqual(self.look(cards)[0], check.PASS)


class Several(Row):
    """One peer with both GPUs of a machine; the test gives what it prints."""

    def both(self, log):
        done = json.dumps({"event": "done", "state": "ab" * 32, "steps": 2}) + "\n"
        self.checks.devices = {"gpus": [{}, {}]}
        self.checks.has_device_option = True
        self.checks.godwit = lambda arguments, *_, **__: (done, log if "cuda:all" in arguments else "")
        return verdict(self.checks, self.checks.several)

    def test_gpus_that_sum_by_nccl_to_the_bytes_of_one_pass(self):
        self.assertEqual(self.both("")[0], check.PASS)

    def test_gpus_of_a_machine_among_which_nccl_does_not_work_fail(self):
        found, seen = self.both("warn: in this view sums go through host memory, which takes longer")
        self.assertEqual(found, check.FAIL)
        self.assertIn("do not go by NCCL", seen)


class Killed(Row):
    """Two of three peers are killed; the test gives the steps that they show, and the seconds in reductions so far."""

    CUT = (0, 0, 0, 1, 1, 1)  # sums, as survivors count them: two before and after a kill, then one

    def killed(self, shown, sums="nccl", cut=(CUT,), later="nccl"):
        """`cut`: the sums cut in each of the flocks."""

        def statuses():
            for counts in cut:
                for step, uptime, reducing in shown:
                    yield {"step": step, "sums": sums, "uptime_s": uptime, "counters": {"reduce_seconds": reducing}}
                for number, count in enumerate(counts):
                    how = "nccl" if number < 2 else later
                    yield {"step": 100, "sums": how, "counters": {"nccl_sums_cut": count}}

        answers = statuses()
        peers = [mock.Mock(errors="") for _ in range(3)]
        birds = mock.MagicMock()
        birds.__enter__.return_value = birds
        birds.gather_in.return_value = peers
        birds.step.return_value = 9
        birds.first_step_after.return_value = {"time": 0, "step": 30}
        for peer in peers:
            peer.kill.return_value = 0
        self.checks.godwit = lambda *_, **__: (json.dumps(next(answers)), "")
        self.checks.flock_of = lambda *_: (birds, [])
        self.checks.same = lambda *_: "ab" * 8
        found, seen = verdict(self.checks, lambda: self.checks.killed(3, 2, check.WIDE))
        self.dead = [peer.kill.called for peer in peers]
        return found, seen

    REDUCING = [(8, 2.0, 1.0), (16, 3.0, 1.5)]

    def test_kills_are_repeated_until_one_has_cut_a_sum(self):
        missed = (3, 0, 3, 0, 3, 3)  # sums that were cut before the kill do not count
        found, seen = self.killed(self.REDUCING, cut=(missed, missed, self.CUT))
        self.assertEqual(found, check.PASS, seen)
        self.assertIn("1 sums cut, in flock 3", seen)
        found, seen = self.killed(self.REDUCING, cut=(missed,) * check.MOST_FLOCKS)
        self.assertEqual(found, check.FAIL)
        self.assertIn("no kill struck inside a reduction", seen)

    def test_survivors_that_fall_back_to_host_memory_fail(self):
        found, seen = self.killed(self.REDUCING, later="host memory")
        self.assertEqual(found, check.FAIL)
        self.assertIn("not go by NCCL any more", seen)

    def test_steps_that_are_mostly_reductions_pass(self):
        found, seen = self.killed(self.REDUCING)
        self.assertEqual(found, check.PASS, seen)
        self.assertIn("reductions were 50% of the time", seen)
        self.assertEqual(self.dead, [False, True, True])

    def test_steps_that_are_mostly_computing_fail_and_nobody_is_killed(self):
        found, seen = self.killed([(8, 2.0, 1.0), (16, 3.0, 1.2)])
        self.assertEqual(found, check.FAIL)
        self.assertIn("reductions were 20% of the time", seen)
        self.assertEqual(self.dead, [False, False, False])

    def test_what_nccl_takes_to_connect_is_no_reduction(self):
        """A status that lags behind does not count as that of the eighth step, or of eight steps later."""
        found, seen = self.killed([(None, 0.5, 0.0), (3, 2.0, 1.5), (8, 3.0, 1.6), (12, 3.5, 1.65), (16, 4.0, 1.7)])
        self.assertEqual(found, check.FAIL)
        self.assertIn("reductions were 10% of the time", seen)

    def test_sums_through_host_memory_fail(self):
        found, seen = self.killed([(8, 2.0, 1.0), (16, 3.0, 1.9)], "host memory")
        self.assertEqual(found, check.FAIL)
        self.assertIn("but through host memory", seen)


class Forming(Row):
    """One of three peers is killed when all are together; the test gives what the others show then."""

    def killed(self, cuts, sums="nccl"):
        birds = mock.MagicMock()
        birds.__enter__.return_value = birds
        birds.gather_in.return_value = self.peers = [mock.Mock(errors="") for _ in range(3)]
        birds.first_step_after.return_value = {"time": 0, "step": 1}
        self.peers[2].kill.return_value = 0
        answers = iter({"step": 9, "sums": sums, "counters": {"nccl_forming_cut": cut}} for cut in cuts)
        self.checks.godwit = lambda *_, **__: (json.dumps(next(answers)), "")
        self.checks.flock_of = lambda *_: (birds, [])
        self.checks.same = lambda *_: "ab" * 8
        return verdict(self.checks, self.checks.killed_forming)

    def test_kills_are_repeated_until_one_has_cut_a_communicator(self):
        self.assertEqual(self.killed([0, 0, 0, 1])[0], check.PASS)
        self.assertEqual(self.peers[2].kill.call_count, 2)
        found, seen = self.killed([0, 0] * check.MOST_FLOCKS)
        self.assertEqual(found, check.FAIL)
        self.assertIn("no kill struck while a communicator formed", seen)

    def test_survivors_that_fall_back_to_host_memory_fail(self):
        self.assertEqual(self.killed([1, 1], "host memory")[0], check.FAIL)


class Together(Row):
    """Two peers; the test gives what they print and show."""

    def setUp(self):
        super().setUp()
        self.checks.has_device_option = True
        self.birds = mock.MagicMock()
        self.birds.__enter__.return_value = self.birds
        self.peers = [mock.Mock(errors="", done={"state": "ab" * 32}) for _ in range(2)]
        self.birds.add.side_effect = self.peers
        self.birds.gather_in.return_value = self.peers

    def floats(self, sums="host memory", computed=(400, 2), cuda="cpu"):
        self.birds.events = [(peer, {"event": "step", "computed": n}) for peer, n in zip(self.peers, computed)]
        self.checks.godwit = lambda *_, **__: (json.dumps({"step": 9, "sums": sums}), "")
        with mock.patch.object(check.flock, "Flock", return_value=self.birds):
            return verdict(self.checks, lambda: self.checks.floats(("cuda:0", cuda), "host memory"))

    def test_float_sums_to_one_hash_by_work_of_both_pass(self):
        self.assertEqual(self.floats(), (check.PASS, "400 and 2 shards, sums by host memory: " + "ab" * 8))
        given = [call.args[0] for call in self.birds.add.call_args_list]
        self.assertEqual(given, [["--device", "cuda:0"], ["--device", "cpu"]])

    def test_float_sums_fail_where_one_idles_or_they_go_another_way_or_end_otherwise(self):
        self.assertIn("computed nothing", self.floats(computed=(400, 0))[1])
        self.birds.add.side_effect = self.peers
        self.assertIn("not go by host memory alone, but by {'nccl'}", self.floats(sums="nccl")[1])
        self.birds.add.side_effect = self.peers
        self.peers[1].done = {"state": "cd" * 32}
        found, seen = self.floats()
        self.assertEqual(found, check.FAIL)
        self.assertIn("they ended with", seen)

    def resumed(self, events):
        self.checks.flock_of = lambda *_: (self.birds, [])
        self.checks.same = lambda *_: "ab" * 8
        self.birds.events_after.return_value = events
        with mock.patch.object(check.Checks, "tokens", "tokens.bin"):
            return verdict(self.checks, self.checks.gpt_resumed)

    def test_who_begins_anew_has_not_resumed(self):
        self.assertEqual(self.resumed([(None, {"step": 10})]), (check.PASS, "resumed at step 10: " + "ab" * 8))
        self.assertTrue(all(peer.kill.called for peer in self.peers))
        self.assertEqual(self.resumed([])[0], check.FAIL)

    def shown(self, gpu, **device):
        self.checks.devices = {"gpus": [device], **({"nvml_error": device["error"]} if "error" in device else {})}
        self.checks.flock_of = lambda *_: (self.birds, [])
        self.checks.godwit = lambda *_, **__: (json.dumps({"step": 9, "gpus": [gpu]}), "")
        self.birds.step.return_value = 8
        with mock.patch.object(check, "NVML_S", 0):
            return verdict(self.checks, self.checks.shown_by_nvml)

    def test_a_gpu_without_figures_fails(self):
        gpu = {"memory_used_bytes": 3 << 30, "temperature_c": 41, "power_w": 310.5}
        self.assertEqual(self.shown(gpu), (check.PASS, "memory_used_bytes 3.221e+09, temperature_c 41, power_w 310.5"))
        for name in gpu:
            self.assertEqual(self.shown({**gpu, name: 0})[0], check.FAIL, name)
            self.assertEqual(self.shown({k: v for k, v in gpu.items() if k != name})[0], check.FAIL, name)
        self.assertEqual(self.shown({"memory_used_bytes": 1}, mig=True)[0], check.PASS)
        self.assertEqual(self.shown(gpu, error="it cannot be opened"), (check.FAIL, "it cannot be opened"))


class Strict(unittest.TestCase):
    """The checks that are not judged on a machine with a GPU, or without one."""

    def rows(self, strict, usable):
        checks = check.Checks("godwit", [], 60, strict=strict)
        checks.devices = {"gpu_usable": usable, "gpus": [{}]}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            checks.check("speed", mock.Mock(side_effect=check.Skipped("PyTorch is not here")))
            checks.check("all GPUs", checks.several)
            code = checks.table()
        return [found for _, found, *_ in checks.rows], code, out.getvalue().splitlines()[-1]

    def test_what_is_skipped_beside_a_gpu_fails(self):
        self.assertEqual(self.rows(True, True), ([check.FAIL, check.SKIP], 1, "Not judged: all GPUs"))

    def test_without_a_gpu_or_the_option_it_is_only_told(self):
        told = ([check.SKIP, check.SKIP], 0, "Not judged: speed; all GPUs")
        self.assertEqual(self.rows(True, False), told)
        self.assertEqual(self.rows(False, True), told)

    def test_that_all_was_judged_is_told(self):
        checks = check.Checks("godwit", [], 60)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            checks.check("one", lambda: "", needs_gpu=False)
            checks.table()
        self.assertEqual(out.getvalue().splitlines()[-1], "Not judged: nothing")


class Suites(Row):
    """Suites on machines with and without a GPU; the test gives what they print, and their TAP."""

    def passed(self, usable, tested, *results):
        self.checks.devices = {"gpu_usable": usable}
        err = f"[====] Synthesis: Tested: {tested} | Passing: {tested} | Failing: 0 | Crashing: 0"
        return verdict(self.checks, lambda: self.checks.passed("\n".join(("1..3", *results)), err))

    def test_both_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "test_gpu_some")
            with open(program, "w") as file:
                file.write("#!/bin/sh\necho 'ok - a::b  # SKIP for a reason' >${3#--tap=}\n")
                file.write("echo 'Tested: 4 | Passing: 4 | Failing: 0 | Crashing: 0' >&2\n")
            os.chmod(program, 0o755)
            seen = verdict(self.checks, lambda: self.checks.suite(program))
        self.assertEqual(seen, (check.PASS, "4 of 4 tests, 1 skipped (for a reason)"))

    def test_what_was_skipped_is_shown(self):
        skipped = "ok - suite::third  # SKIP there is one GPU"
        self.assertEqual(self.passed(True, 3), (check.PASS, "3 of 3 tests"))
        found, seen = self.passed(True, 2, "ok - suite::first (0.00s)", skipped)
        self.assertEqual((found, seen), (check.PASS, "2 of 2 tests, 1 skipped (there is one GPU)"))
        self.assertEqual(self.passed(False, 0, skipped)[0], check.SKIP)
        self.assertEqual(self.passed(True, 0, skipped)[0], check.FAIL)

    def test_every_test_of_a_gpu_is_skipped_without_one(self):
        """Each test of a suite needs a GPU, so that a suite without one does not pass."""
        for suite in glob.glob(os.path.join(HERE, "..", "gpu", "test_*.c")):
            with open(suite) as file:
                source = file.read()
            for name, body in re.findall(r"^Test\(\w+, (\w+)[^{]*{\n(.*?)^}", source, re.MULTILINE | re.DOTALL):
                openers = re.findall(r"^static \w+ (\w+)\([^{]*{\n(?: .*\n)*?    gpu_need\(\);", source, re.MULTILINE)
                self.assertTrue(any(f"{need}(" in body for need in ("gpu_need", *openers)), f"{suite}: {name}")

    def test_a_build_without_suites_fails_beside_a_gpu(self):
        self.checks.devices = {"gpu_usable": True}
        self.checks.tests = ["/build/tests/test_tools_gpus"]
        self.assertEqual(verdict(self.checks, self.checks.has_suites)[0], check.FAIL)
        self.checks.tests.append("/build/tests/test_gpu_exact")
        self.assertEqual(verdict(self.checks, self.checks.has_suites), (check.PASS, "1 suites"))


class Sanitized(Row):
    """A suite under compute-sanitizer on a machine with a GPU; the test gives what it prints."""

    SUMMARY = "========= ERROR SUMMARY: {}"
    RACES = "========= RACECHECK SUMMARY: {} displayed ({}, {})"
    TESTED = "[====] Synthesis: Tested: {0} | Passing: {0} | Failing: 0 | Crashing: 0"

    def sanitize(self, out, err, program="/build/tests/test_gpu_exact", asked=("memcheck", "test_gpu_exact")):
        self.checks.devices = {"gpu_usable": True}
        self.checks.tests = [program]
        with tempfile.TemporaryDirectory() as folder:
            tool = os.path.join(folder, "compute-sanitizer")
            with open(tool, "w") as file:
                file.write(f"#!/bin/sh\necho \"$*\" $GODWIT_TEST_SLOW >{folder}/said\necho '{out}'\necho '{err}' >&2\n")
            os.chmod(tool, 0o755)
            path = {"PATH": folder + ":" + os.environ["PATH"]}
            with mock.patch.dict(os.environ, path), contextlib.redirect_stdout(io.StringIO()):
                self.checks.check_together("{}: {}", self.checks.sanitized, "", [asked])
            if os.path.exists(os.path.join(folder, "said")):
                with open(os.path.join(folder, "said")) as said:
                    self.command = said.read().split()
        return [(found, seen) for _, found, _, _, seen in self.checks.rows]

    def test_order(self):
        """The kernels of every job are tested before the measurements, which take minutes, and nothing runs twice."""
        self.assertLess(set(check.SANITIZED_FIRST), set(check.SANITIZED))
        self.assertEqual(set(check.SANITIZED_FIRST), {("memcheck", "test_gpu_exact"), ("memcheck", "test_gpu_kernels")})
        ran = []
        with contextlib.redirect_stdout(io.StringIO()), contextlib.ExitStack() as stack:
            for name in ("check", "check_flocks", "check_figures"):
                stack.enter_context(mock.patch.object(self.checks, name, lambda *_, name=name, **__: ran.append(name)))
            together = lambda name, function, asked, given, **_: ran.extend(given)  # noqa: E731
            stack.enter_context(mock.patch.object(self.checks, "check_together", together))
            self.checks.run_all()
        sanitized = [step for step in ran if isinstance(step, tuple)]
        self.assertEqual(sorted(sanitized), sorted(check.SANITIZED))
        self.assertEqual(sanitized[:2], check.SANITIZED_FIRST)
        self.assertTrue(ran.index("check_flocks") < ran.index(sanitized[0]) < ran.index("check_figures"))

    def test_a_suite_without_errors_passes(self):
        rows = self.sanitize(self.SUMMARY.format("0 errors"), self.TESTED.format(7))
        self.assertEqual(rows, [(check.PASS, "7 of 7 tests, no errors")])

    def test_errors_that_are_only_printed_fail(self):
        for out in (self.SUMMARY.format("1 error"), self.SUMMARY.format("12 errors"), "========= Internal Error"):
            self.checks.rows = []
            self.assertEqual([found for found, _ in self.sanitize(out, self.TESTED.format(7))], [check.FAIL], out)

    def test_races_fail_too_whether_errors_or_warnings(self):
        found = (("0 hazards", "0 errors", "0 warnings"), ("1 hazard", "1 error", "0 warnings"))
        for given in (*found, ("2 hazards", "0 errors", "2 warnings")):
            self.checks.rows = []
            rows = self.sanitize(self.RACES.format(*given), self.TESTED.format(7), asked=("racecheck", "test_gpu_exact"))
            self.assertEqual(rows[0][0], check.PASS if given is found[0] else check.FAIL, given)

    def test_each_tool_is_asked_for(self):
        for tool in ("memcheck", "racecheck", "synccheck"):
            self.sanitize(self.SUMMARY.format("0 errors"), self.TESTED.format(7), asked=(tool, "test_gpu_exact"))
            self.assertEqual(self.command[:2], ["--tool", tool])
            self.assertEqual(self.command[-5:-2], ["/build/tests/test_gpu_exact", "--jobs", "1"])
            self.assertEqual(self.command[-1], "1")  # GODWIT_TEST_SLOW
            self.assertIn("--require-cuda-init no", " ".join(self.command))
            self.assertEqual(self.checks.rows[-1][0], f"{tool}: test_gpu_exact")

    def test_what_is_sanitized_is_there_and_is_no_suite_of_whole_jobs(self):
        by_tool = {tool: {suite for asked, suite in check.SANITIZED if asked == tool} for tool, _ in check.SANITIZED}
        suites = glob.glob(os.path.join(HERE, "..", "gpu", "test_*.c"))
        names = {"test_gpu_" + os.path.basename(suite)[len("test_") : -len(".c")] for suite in suites}
        whole = {"test_gpu_bench", "test_gpu_device", "test_gpu_gemm", "test_gpu_gpt"}
        self.assertEqual(by_tool["memcheck"], names - whole)
        jobs = {suite for _, suite in check.SANITIZED_JOBS}
        self.assertEqual(jobs, whole - {"test_gpu_bench"})  # which measures
        sharing = {"attention", "exact", "gpt_rows", "kernels", "gpt_kernels"}
        self.assertEqual(by_tool["racecheck"], {"test_gpu_" + suite for suite in sharing})
        self.assertEqual(by_tool["synccheck"], by_tool["racecheck"])
        self.assertEqual(len(check.SANITIZED), len(set(check.SANITIZED)))

    def test_a_suite_that_tested_nothing_fails(self):
        for err in (self.TESTED.format(0), ""):
            self.checks.rows = []
            rows = self.sanitize(self.SUMMARY.format("0 errors"), err)
            self.assertEqual([found for found, _ in rows], [check.FAIL], err)

    def test_a_suite_that_is_not_there_fails(self):
        rows = self.sanitize(self.SUMMARY.format("0 errors"), self.TESTED.format(7), "/build/tests/test_other")
        self.assertEqual(rows, [(check.FAIL, "this build has no test_gpu_exact")])


if __name__ == "__main__":
    tap.main(lambda: None, "check")
