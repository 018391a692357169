"""Tests share.py with programs and a `divvy` that only pretend, so that every number is known.

Shows that rates become the right figures, that a program that hangs, dies or computes something
else is a row that says so, and that nothing is left running. Shows nothing of PyTorch or a card.
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import share  # noqa: E402
from sharing import processes  # noqa: E402

# Speaks as programs/windows.py says. PRETEND_SHARE is what the side gives it; `fault` goes wrong.
PROGRAM = """
import json, os, pathlib, sys, time
here, share = pathlib.Path(__file__), float(os.environ.get("PRETEND_SHARE", 100))
divvy = "PRETEND_SHARE" in os.environ
fault = here.with_suffix(".fault").read_text() if here.with_suffix(".fault").exists() else ""
print("a library's own line")
print(json.dumps({"phase": "loaded"}), flush=True)
with (here.parent / "pids").open("a") as pids:
    print(os.getpid(), file=pids)
for line in sys.stdin:
    if line == "warm\\n":
        if divvy and fault == "hang":
            time.sleep(60)
        if divvy and fault == "die":
            sys.exit("no such kernel")
        check = 8.0 if divvy and fault == "wrong" else 7.0
        print(json.dumps({"phase": "ready", "check": check, "tolerance": 0.01}), flush=True)
        continue
    rate = share / 5
    if fault == "drift" and not divvy:
        runs = len((here.parent / "pids").read_text().split())
        rate *= 1 + runs / 10
    said = {"phase": "window", "steps": 1, "seconds": 1, "steps_per_s": rate, "within_per_s": rate}
    print(json.dumps(said), flush=True)
"""

DIVVY = """#!{python}
import json, os, pathlib, subprocess, sys
words = sys.argv[1:]
if words[0] == "daemon":
    why = pathlib.Path(__file__).with_name("why")
    device = {{"reason": why.read_text() if why.exists() else None, "detail": "others"}}
    print(json.dumps({{"pid": 1, "devices": [device]}}))
    sys.exit(0 if not pathlib.Path(__file__).with_name("no-daemon").exists() else 1)
own, command = words[: words.index("--")], words[words.index("--") + 1 :]
share = own[own.index("--compute") + 1].rstrip("%") if "--compute" in own else "100"
# A cap above what the program needs costs nothing.
os.environ["PRETEND_SHARE"] = "100" if share == "90" else share
code = subprocess.run(command).returncode
pathlib.Path(own[own.index("--report") + 1]).write_text(json.dumps({{"exit_code": code}}))
sys.exit(code)
"""


class Pretended(unittest.TestCase):
    """A folder with a distribution and programs that pretend."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        divvy = self.folder / "dist/bin/divvy"
        divvy.parent.mkdir(parents=True)
        divvy.write_text(DIVVY.format(python=sys.executable))
        divvy.chmod(0o755)
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        for name in ("train_resnet", "train_gpt", "infer_small", "allreduce"):
            (self.programs / f"{name}.py").write_text(PROGRAM)

    def play(self, *words):
        """Runs share.py; its exit code, its figures by name, and what it printed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            code = share.main([str(self.folder / "dist"), str(self.folder / "out"), "--seconds",
                               "0.05", "--programs", str(self.programs), *words])
        self.result = json.loads((self.folder / "out/share-programs.json").read_text())
        return code, {one["name"]: one for one in self.result["figures"]}, printed.getvalue()

    def fault(self, program, kind):
        (self.programs / f"{program}.fault").write_text(kind)

    def nothing_runs(self):
        pids = (self.programs / "pids").read_text().split()
        self.assertTrue(pids)
        for pid in pids:
            with contextlib.suppress(FileNotFoundError):
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
                # Dead, and not yet collected by the machine's first process.
                self.assertIn(stat.rsplit(")", 1)[1].split()[0], "ZX", f"{pid} is left")


class Figures(Pretended):
    def test_rates_become_figures(self):
        code, figures, printed = self.play("--cards", "2")
        title = "PyTorch, ResNet-50-like training"
        half = figures[f"{title}, cap of 50 %, of native"]
        self.assertEqual((half["medians"], half["met"]), ({"divvy": 50.0}, True))
        self.assertEqual(half["goal"], {"within": [50, 1]})
        free = figures[f"{title}, no cap"]
        self.assertEqual(free["samples"]["divvy"], [20.0] * 3)
        self.assertEqual(len(free["samples"]["native"]), 6)
        self.assertEqual(free["spreads_percent"], {"native": 0.0, "divvy": 0.0})
        self.assertEqual(figures[f"{title}, two of 30 and 70 %, 70 %'s of native"]["medians"],
                         {"divvy": 70.0})
        small = figures["PyTorch inference, eager, small batch, two with caps of 90 %, sum"]
        self.assertEqual(small["medians"], {"native": 40.0, "divvy": 40.0})
        # Both jobs pretend to have the cards to themselves.
        jobs = "two NCCL jobs over two cards"
        self.assertEqual(figures[f"{jobs}, sum"]["medians"]["divvy"], 200.0)
        capped = figures[f"{jobs}, of 30 and 70 %, 30 %'s of alone"]
        self.assertEqual((capped["medians"], capped["met"]), ({"divvy": 30.0}, True))
        self.assertTrue(figures[f"{jobs}, one alone with a cap of 40 %"]["met"])
        self.assertEqual(code, 0)
        self.assertIn("slower than native", printed)
        self.assertEqual(self.result["benchmark"], "share-programs")
        ran = [run for run in self.result["runs"] if run["side"] == "divvy"]
        self.assertEqual(ran[0]["tenants"][0]["divvy"], {"exit_code": 0})
        self.nothing_runs()

    def test_a_peer_has_its_own_column(self):
        peer = self.folder / "peer.so"
        # The loader complains of it and goes on; HAMi-core's variables are what a peer would read.
        peer.write_text("")
        code, figures, _ = self.play("--only", "small", "--peer", f"hami={peer}")
        kept = figures["PyTorch inference, eager, small batch, cap of 90 %"]
        self.assertEqual(kept["medians"], {"native": 20.0, "divvy": 20.0, "hami": 20.0})
        self.assertEqual(code, 0)

    def test_native_that_drifts_voids_the_case(self):
        self.fault("infer_small", "drift")
        code, figures, printed = self.play("--only", "small")
        for figure in figures.values():
            self.assertEqual(figure["medians"], {})
            self.assertIn("void: native infer_small", figure["failures"]["divvy"])
        self.assertEqual(code, 1)
        self.assertIn("void", printed)


class Faults(Pretended):
    def failure(self, kind):
        self.fault("infer_small", kind)
        code, figures, _ = self.play("--only", "small")
        self.assertEqual(code, 1)
        self.nothing_runs()
        kept = figures["PyTorch inference, eager, small batch, cap of 90 %"]
        self.assertIsNone(kept["met"])
        self.assertEqual(kept["medians"], {"native": 20.0})
        return kept["failures"]["divvy"]

    def test_a_program_that_hangs_is_ended(self):
        before, processes.WARM_S = processes.WARM_S, 1
        self.addCleanup(setattr, processes, "WARM_S", before)
        begin = time.monotonic()
        self.assertEqual(self.failure("hang"), "no word of ready within 1 s")
        failures = [run["failure"] for run in self.result["runs"] if "failure" in run]
        self.assertEqual(failures[1], "not tried again after it had failed")
        self.assertLess(time.monotonic() - begin, 40)

    def test_a_program_that_dies_is_quoted(self):
        self.assertIn("no such kernel", self.failure("die"))

    def test_a_program_that_computes_something_else_is_void(self):
        self.assertEqual(self.failure("wrong"), "void: infer_small gave 8.0, native 7.0")

    def test_without_a_daemon_there_is_no_figure(self):
        (self.folder / "dist/bin/no-daemon").touch()
        self.assertIn("no daemon ran", self.failure("none"))

    def test_a_daemon_that_takes_no_turns_is_noted(self):
        (self.folder / "dist/bin/why").write_text("DV062")
        _, figures, printed = self.play("--only", "small")
        pair = figures["PyTorch inference, eager, small batch, two with caps of 90 %, sum"]
        self.assertEqual(pair["note"], "no turns were taken, DV062: others")
        self.assertIn("DV062", printed)

    def test_an_interrupt_keeps_what_was_measured(self):
        self.fault("infer_small", "hang")
        command = [sys.executable, str(HERE / "share.py"), str(self.folder / "dist"),
                   str(self.folder / "out"), "--seconds", "0.05", "--programs", str(self.programs),
                   "--only", "small"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # The third program loads once the second, which hangs, has been told to go on.
        until = time.monotonic() + 30
        while time.monotonic() < until:
            pids = self.programs / "pids"
            if pids.exists() and len(pids.read_text().split()) == 3:
                break
            time.sleep(0.05)
        running.terminate()
        running.communicate(timeout=30)
        self.assertEqual(running.returncode, 143)
        self.nothing_runs()
        result = json.loads((self.folder / "out/share-programs.json").read_text())
        self.assertEqual([run["side"] for run in result["runs"]], ["native"])

    def test_what_was_not_begun_says_so(self):
        code, figures, _ = self.play("--only", "gpt", "--limit-seconds", "0")
        self.assertEqual(code, 1)
        for figure in figures.values():
            self.assertEqual(figure["medians"], {})
            self.assertTrue(figure["failures"])


class Windows(unittest.TestCase):
    """programs/windows.py, with a module in torch's place."""

    def setUp(self):
        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(synchronize=lambda: None)
        dynamo = types.ModuleType("torch._dynamo")
        torch._dynamo = dynamo
        sys.modules |= {"torch": torch, "torch._dynamo": dynamo}
        sys.path.insert(0, str(HERE / "programs"))
        import windows
        self.windows = windows

    def tearDown(self):
        sys.path.remove(str(HERE / "programs"))
        for name in ("torch", "torch._dynamo", "windows"):
            del sys.modules[name]

    def test_steps_are_counted_by_second(self):
        ended = [0.5, 0.9, 1.5, 1.9, 2.1]
        counted = self.windows.counted(ended, begin_s=0.0, done_s=2.5, end_s=2.0)
        self.assertEqual(counted["steps"], 5)
        self.assertEqual(counted["each_second"], [2, 2])
        self.assertAlmostEqual(counted["steps_per_s"], 2.0)
        self.assertAlmostEqual(counted["within_per_s"], 3 / 1.4)

    def test_nothing_done_is_no_rate(self):
        counted = self.windows.counted([], begin_s=0.0, done_s=1.0, end_s=1.0)
        self.assertEqual((counted["steps_per_s"], counted["within_per_s"]), (0.0, 0.0))

    def test_a_window_ends_when_it_should(self):
        work = self.windows.Work(lambda: time.sleep(0.01), lambda: 1.0, 0.0, 1, synchronous=True)
        begin = time.monotonic()
        counted = self.windows.window(work, begin + 0.05, 0.2)
        self.assertGreaterEqual(time.monotonic() - begin, 0.25)
        self.assertGreater(counted["steps"], 0)


if __name__ == "__main__":
    unittest.main()
