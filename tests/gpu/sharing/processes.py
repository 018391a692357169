"""Starts programs as one side would have them, names their windows, and leaves none behind.

A side is the bare driver, Divvy, or a peer's library. A run is the programs that use a card in one
window. Promises: every wait has an end; a program that says nothing, says something else or ends is
a `Failed` with its reason; a program goes with its whole process group. Does not judge numbers.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

GIB = 1 << 30
# Two programs and what is not their allocators' stay below 30 GiB of a card.
MEMORY_GIB = 14
TORCH_GIB = 13
# NVLink multicast can put a host's cards out of service for others.
SAFE = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
LOAD_S = 60
WARM_S = 60
# Past the end of a window: what is queued must end, under a small share too.
AFTER_WINDOW_S = 20
END_S = 15
# From the naming of a window to its begin: the line must have been read by all.
NOTICE_S = 0.3


class Failed(Exception):
    """A run that gave no numbers, and why."""


@dataclasses.dataclass(frozen=True)
class Tenant:
    """One program and what it is given."""

    program: str
    cap_percent: int | None = None
    cards: int = 1


@dataclasses.dataclass(frozen=True)
class Run:
    """The programs of one window, so many times as long as others; `role` is what it is for."""

    side: str
    role: str
    tenants: tuple
    windows: int = 1


@dataclasses.dataclass(frozen=True)
class Bench:
    """What all runs have in common."""

    dist: pathlib.Path
    programs: pathlib.Path
    logs: pathlib.Path
    peers: dict
    seconds: float


class Program:
    """A program that runs, and a conversation with it."""

    def __init__(self, command, env, log):
        self.log = log
        with log.open("w") as errors:
            print("$", *command, file=errors, flush=True)
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, bufsize=1, start_new_session=True,
            )
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Passes on what it says as agreed; libraries may print other lines. None is the end."""
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                words = json.loads(line)
                if isinstance(words, dict) and "phase" in words:
                    self.lines.put(words)
        self.lines.put(None)

    def tell(self, line):
        try:
            self.process.stdin.write(line + "\n")
        except OSError:
            pass  # it has ended, which the next wait finds

    def expect(self, phase, patience_s):
        """What it says of `phase`."""
        try:
            words = self.lines.get(timeout=patience_s)
        except queue.Empty:
            raise Failed(f"no word of {phase} within {patience_s:.0f} s") from None
        if words is None:
            code = self.wait(END_S)
            raise Failed(f"ended with {code} where {phase} was awaited: {self.last_words()}")
        said = words.pop("phase")
        if said != phase:
            raise Failed(f"said {said} where {phase} was awaited")
        return words

    def end(self):
        """Tells it to end, and waits until it has."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        code = self.wait(END_S)
        if code != 0:
            raise Failed(f"ended with {code}: {self.last_words()}")

    def wait(self, patience_s):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(patience_s)
        return f"nothing within {patience_s} s"

    def last_words(self):
        """The last line of its errors, of which the first is the command."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if len(lines) > 1 else "nothing was said"

    def kill(self):
        """Ends the whole group: asked first, so that `divvy run` takes its tenant away."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            self.wait(2)
        self.signal(signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Started:
    """A run whose programs load; they do not touch a card before `warm`."""

    def __init__(self, bench, run, label):
        self.bench, self.run, self.label = bench, run, label
        self.programs, self.ready, self.is_loaded = [], [], False
        try:
            for at, tenant in enumerate(run.tenants):
                command, env = self.command(tenant, at)
                log = bench.logs / f"{self.label}-{at + 1}.txt"
                self.programs.append(Program(command, {**os.environ, **SAFE, **env}, log))
        except BaseException as error:
            # An interrupt too must not leave the first of them behind.
            self.kill()
            if isinstance(error, OSError):
                raise Failed(f"cannot be started: {error}") from None
            raise

    def command(self, tenant, at):
        """How the side starts a tenant: words and variables."""
        script = self.bench.programs / f"{tenant.program}.py"
        command = [sys.executable, str(script), "--most-gib", str(TORCH_GIB)]
        env = {"CUDA_VISIBLE_DEVICES": ",".join(str(card) for card in range(tenant.cards))}
        if self.run.side == "divvy":
            return self.divvy(tenant, at) + command, env
        if self.run.side != "native":
            env |= self.peer(tenant, at)
        return command, env

    def divvy(self, tenant, at):
        words = [str(self.bench.dist / "bin/divvy"), "run", "--memory", f"{MEMORY_GIB}GiB"]
        if tenant.cap_percent is not None:
            words += ["--compute", f"{tenant.cap_percent}%"]
        return words + ["--report", str(self.report(at)), "--"]

    def peer(self, tenant, at):
        """HAMi-core's variables, which others ignore; limits are frozen in the cache file."""
        library = self.bench.peers[self.run.side]
        cache = self.bench.logs / f"{self.label}-{at + 1}.cache"
        cache.unlink(missing_ok=True)
        env = {
            "LD_PRELOAD": library,
            "CUDA_REDIRECT": library,
            "CUDA_DEVICE_MEMORY_LIMIT": f"{MEMORY_GIB * 1024}m",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(cache),
            "LIBCUDA_LOG_LEVEL": "0",
        }
        if tenant.cap_percent is not None:
            env["CUDA_DEVICE_SM_LIMIT"] = str(tenant.cap_percent)
            env["GPU_CORE_UTILIZATION_POLICY"] = "FORCE"
        return env

    def report(self, at):
        return self.bench.logs / f"{self.label}-{at + 1}.report.json"

    def loaded(self):
        """Waits until nothing is left to load."""
        for program in self.programs if not self.is_loaded else []:
            program.expect("loaded", LOAD_S)
        self.is_loaded = True

    def warm(self):
        """Lets all programs use the card, and waits until they have made their first steps."""
        for program in self.programs:
            program.tell("warm")
        self.ready = [program.expect("ready", WARM_S) for program in self.programs]

    def window(self):
        """One window of all programs at once; what each said of it, and what Divvy did."""
        seconds = self.bench.seconds * self.run.windows
        start_s = time.monotonic() + NOTICE_S
        for program in self.programs:
            program.tell(f"{start_s} {seconds}")
        patience_s = NOTICE_S + seconds + AFTER_WINDOW_S
        said = [program.expect("window", patience_s) for program in self.programs]
        daemon = daemon_view(self.bench.dist) if self.run.side == "divvy" else None
        for program in self.programs:
            program.end()
        tenants = [{**ready, **window, "divvy": self.reported(at)}
                   for at, (ready, window) in enumerate(zip(self.ready, said))]
        return {"tenants": tenants, "daemon": daemon}

    def reported(self, at):
        """What `divvy run` wrote of a tenant; None on the other sides."""
        path = self.report(at)
        return json.loads(path.read_text()) if path.exists() else None

    def kill(self):
        for program in self.programs:
            program.kill()


def daemon_view(dist):
    """What the daemon sees; without one, tenants would not have shared by turns."""
    for more in ([], ["--system"]):
        ask = [str(dist / "bin/divvy"), "daemon", "--status", "--json", *more]
        try:
            done = subprocess.run(ask, capture_output=True, text=True, timeout=10)
        except subprocess.TimeoutExpired:
            raise Failed("the daemon did not say what it sees within 10 s") from None
        if done.returncode == 0:
            return json.loads(done.stdout)
    raise Failed(f"no daemon ran: {done.stderr.strip()}")
