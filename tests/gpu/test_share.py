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
import unittest.mock

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
        for name in ("train_resnet", "train_gpt", "infer_small", "allreduce", "serve_graphs",
                     "serve_instances", "steps_jax", "two_ranks"):
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

    def test_servers_and_frameworks_are_judged_by_a_cap_of_30(self):
        code, figures, _ = self.play("--only", "server,instances,jax,ranks")
        names = ["PyTorch, a server of graphs as vLLM's",
                 "PyTorch, eight instances of a model in a process",
                 "JAX, jitted products", "PyTorch, two processes of one tenant, their sum"]
        words = ["no cap", "cap of 30 %, of native"]
        self.assertEqual(list(figures), [f"{name}, {word}" for name in names for word in words])
        for name in names:
            reached = figures[f"{name}, cap of 30 %, of native"]
            self.assertEqual(reached["samples"], {"divvy": [30.0] * 2})
            self.assertEqual((reached["goal"], reached["met"]), ({"at_least": 29}, True))
            self.assertEqual(figures[f"{name}, no cap"]["samples"], {"native": [20.0] * 3})
        self.assertEqual(code, 0)
        ran = [(run["case"], run["side"]) for run in self.result["runs"]]
        sides = ["native", "divvy", "native", "divvy", "native"]
        self.assertEqual(ran, [(case, side) for case in ("server", "instances", "jax", "ranks")
                               for side in sides])
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


class Recorded:
    """A framework that only notes what windows ask of it, and has a mark for each step."""

    def __init__(self):
        self.asked = []

    def begin(self, most_gib, card):
        self.asked.append(f"begin {most_gib} {card}")

    def wait(self):
        self.asked.append("wait")

    def mark(self):
        self.asked.append("mark")
        return types.SimpleNamespace(synchronize=lambda: self.asked.append("synchronize"))

    def reserved_bytes(self):
        return 5


class Windows(unittest.TestCase):
    """programs/windows.py, with something else in a framework's place."""

    def setUp(self):
        sys.path.insert(0, str(HERE / "programs"))
        import windows
        self.windows = windows

    def tearDown(self):
        sys.path.remove(str(HERE / "programs"))
        del sys.modules["windows"]

    def work(self, step, **more):
        return self.windows.Work(step, lambda: 1.0, 0.0, 1, **more)

    def test_no_framework_is_loaded_but_the_program_s(self):
        self.assertNotIn("torch", sys.modules)

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
        work = self.work(lambda: time.sleep(0.01), synchronous=True)
        begin = time.monotonic()
        framework = Recorded()
        counted = self.windows.window(work, framework, begin + 0.05, 0.2)
        self.assertGreaterEqual(time.monotonic() - begin, 0.25)
        self.assertGreater(counted["steps"], 0)
        self.assertEqual(framework.asked, ["wait", "wait"])

    def test_a_few_steps_are_queued_and_all_are_waited_for(self):
        framework, steps = Recorded(), []
        work = self.work(lambda: steps.append(len(framework.asked)))
        counted = self.windows.window(work, framework, 0.0, 0.0, lambda begun, _end_s: begun < 4)
        self.assertEqual(counted["steps"], 4)
        expected = ["wait", *["mark"] * 3, "synchronize", "mark", *["synchronize"] * 3, "wait"]
        self.assertEqual(framework.asked, expected)

    def test_what_threads_have_begun_is_waited_for(self):
        framework = Recorded()
        work = self.work(lambda: framework.asked.append("step"), synchronous=True,
                         wait=lambda: framework.asked.append("threads"))
        said = []
        self.windows.serve(lambda: work, ["warm", "0.0 0.0"], lambda **words: said.append(words),
                           3, more=lambda begun, _end_s: begun < 1, framework=framework)
        self.assertEqual([words["phase"] for words in said], ["loaded", "ready", "window"])
        self.assertEqual(said[1]["reserved_bytes"], 5)
        waits = ["threads", "wait"]
        self.assertEqual(framework.asked, ["begin 3 0", "step", *waits, *waits, "step", *waits])

    def test_pytorch_is_what_a_program_has_by_default(self):
        asked = []
        torch, dynamo = types.ModuleType("torch"), types.ModuleType("torch._dynamo")
        torch._dynamo = dynamo
        torch.cuda = types.SimpleNamespace(
            set_device=lambda card: asked.append(card),
            get_device_properties=lambda _card: types.SimpleNamespace(total_memory=4 << 30),
            set_per_process_memory_fraction=lambda part: asked.append(part),
            synchronize=lambda: asked.append("wait"), max_memory_reserved=lambda: 7,
        )
        said = []
        with unittest.mock.patch.dict(sys.modules, {"torch": torch, "torch._dynamo": dynamo}):
            self.windows.serve(lambda: self.work(lambda: asked.append("step"), synchronous=True),
                               ["warm"], lambda **words: said.append(words), 1, 2)
        self.assertEqual(asked, [2, 0.25, "step", "wait"])
        self.assertEqual(said[1]["reserved_bytes"], 7)


class Ranks(unittest.TestCase):
    """What programs/two_ranks.py makes of what its processes say."""

    def setUp(self):
        sys.path.insert(0, str(HERE / "programs"))
        self.addCleanup(sys.path.remove, str(HERE / "programs"))
        with unittest.mock.patch.dict(sys.modules, {"torch": types.ModuleType("torch")}):
            import two_ranks
        self.together = two_ranks.together

    def test_steps_and_checks_are_summed(self):
        ready = [{"phase": "ready", "check": check, "tolerance": 0.01, "reserved_bytes": 5}
                 for check in (1.0, 2.0)]
        self.assertEqual(self.together(ready), {
            "phase": "ready", "check": 3.0, "tolerance": 0.01, "reserved_bytes": 10,
            "ranks": ready,
        })
        said = [{"phase": "window", "steps": 3, "seconds": seconds, "steps_per_s": 9.0,
                 "within_per_s": rate} for seconds, rate in ((1.0, 10.0), (1.5, 12.0))]
        self.assertEqual(self.together(said), {
            "phase": "window", "steps": 6, "seconds": 1.5, "steps_per_s": 4.0,
            "within_per_s": 22.0, "ranks": said,
        })


if __name__ == "__main__":
    unittest.main()
