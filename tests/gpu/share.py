#!/usr/bin/env python3
"""Measures what unmodified PyTorch and JAX programs get of a real card's time under Divvy's share.

    python3 tests/gpu/share.py DIST OUT [--only CASE,…] [--seconds N] [--cards 2]
        [--peer NAME=LIBRARY]

DIST is the folder `cargo xtask dist` makes; OUT receives `share-programs.json`, which `cargo
xtask figures` shows once it lies under bench/results, and every program's errors. Each run starts
its programs anew; runs under Divvy alternate with runs on the bare driver, and nothing else of
ours is on the card meanwhile: the next run's programs have loaded, and do not touch the card, so
that a daemon may rest beside native runs. Promises: it ends, also when a program hangs; what
fails is a row that says why; nothing is left running. What counts are a program's steps in a
window; what the card itself counts, `divvy bench share` measures. The programs need PyTorch, the
case jax needs JAX; this needs nothing beside the standard library.
"""

import argparse
import dataclasses
import pathlib
import signal
import sys
import time

from sharing import figures
from sharing.cases import Results, cases
from sharing.processes import Bench, Failed, Started

HERE = pathlib.Path(__file__).resolve().parent


class Player:
    """Does the runs of all cases, one after another, and keeps what came of them."""

    def __init__(self, bench, chosen, limit_s):
        self.bench = bench
        self.played = [(case, Results()) for case in chosen]
        self.todo = [(case, results, run) for case, results in self.played for run in case.runs]
        self.limit_s = limit_s
        self.deadline_s = time.monotonic() + limit_s
        self.given_up = set()
        self.ahead = None

    def play(self, after_each):
        """Does everything; `after_each` case, what there is can be stored."""
        try:
            for at, (case, results, run) in enumerate(self.todo):
                outcome = self.outcome(at)
                results.add(run, outcome)
                self.tell(at, outcome)
                if len(results.done) == len(case.runs):
                    after_each()
        finally:
            if isinstance(self.ahead, Started):
                self.ahead.kill()

    def outcome(self, at):
        """What one run gave, or its failure."""
        case, _, run = self.todo[at]
        started, self.ahead = self.ahead or self.start(at), None
        try:
            if isinstance(started, Failed):
                raise started
            started.loaded()
            self.ahead = self.start(at + 1)
            started.warm()
            self.settle_ahead()
            return started.window()
        except Failed as failed:
            self.given_up.add((case.name, run.side, run.role))
            return {"failure": str(failed)}
        finally:
            if isinstance(started, Started):
                started.kill()

    def start(self, at):
        """Starts a run's programs; a `Failed` where that is not to be, None past the last run."""
        if at >= len(self.todo):
            return None
        case, _, run = self.todo[at]
        if (case.name, run.side, run.role) in self.given_up:
            return Failed("not tried again after it had failed")
        if time.monotonic() > self.deadline_s:
            return Failed(f"not begun within {self.limit_s:.0f} s")
        try:
            return Started(self.bench, run, f"{at + 1:02}-{case.name}-{run.side}-{run.role}"
                           .replace(" ", "-"))
        except Failed as failed:
            return failed

    def settle_ahead(self):
        """Waits until the next programs have loaded: a measurement must not share processors."""
        if not isinstance(self.ahead, Started):
            return
        try:
            self.ahead.loaded()
        except Failed as failed:
            self.ahead.kill()
            self.ahead = failed

    def tell(self, at, outcome):
        """A line of progress."""
        case, results, run = self.todo[at]
        if "failure" in outcome:
            said = f"FAILED: {outcome['failure']}"
        else:
            said = " + ".join(f"{rate:.2f}" for rate in results.rates(-1)) + " steps/s"
        caps = "/".join(f"{tenant.cap_percent or '-'}" for tenant in run.tenants)
        place = f"[{at + 1}/{len(self.todo)}] {case.name}"
        print(f"{place}: {run.side}, {run.role}, caps {caps}: {said}", file=sys.stderr, flush=True)

    def figures(self):
        return [figure for case, results in self.played for figure in case.judge(results)]

    def runs(self):
        """Everything that was done, raw."""
        return [{"case": case.name, "side": run.side, "role": run.role,
                 "programs": [dataclasses.asdict(tenant) for tenant in run.tenants], **outcome}
                for case, results in self.played for run, outcome in results.done]


def options(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", help="cases whose names contain one of these, by commas")
    parser.add_argument("--seconds", type=float, default=3.5, help="of a window (default: 3.5)")
    parser.add_argument("--cards", type=int, default=1, help="2: also jobs over two cards")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--programs", type=pathlib.Path, default=HERE / "programs",
                        help="folder of programs that speak as programs/windows.py says")
    parser.add_argument("--limit-seconds", type=float, default=285,
                        help="begin no run after this time (default: 285)")
    chosen = parser.parse_args(words)
    for peer in chosen.peer:
        name, _, library = peer.partition("=")
        if name in ("", "native", "divvy") or not pathlib.Path(library).is_file():
            parser.error(f"--peer {peer}: write NAME=LIBRARY, a new name and a file that exists")
    if not (chosen.dist / "bin/divvy").is_file():
        parser.error(f"{chosen.dist} has no bin/divvy: name the folder `cargo xtask dist` made")
    return parser, chosen


def main(words=None):
    """Entry point: 0 when every goal was met, 1 when one was missed or a run failed."""
    parser, chosen = options(words)
    peers = {name: str(pathlib.Path(library).resolve())
             for name, library in (peer.split("=", 1) for peer in chosen.peer)}
    known = cases(list(peers), chosen.cards)
    wanted = [case for case in known
              if not chosen.only or any(word in case.name for word in chosen.only.split(","))]
    if not wanted:
        names = ", ".join(case.name for case in known)
        parser.error(f"--only {chosen.only}: no such case; with {chosen.cards} card(s): {names}")
    out = chosen.out.resolve()
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    bench = Bench(chosen.dist.resolve(), chosen.programs.resolve(), logs, peers, chosen.seconds)
    player = Player(bench, wanted, chosen.limit_seconds)
    sides, driver = ["native", "divvy", *peers], figures.driver()

    def keep():
        figures.store(out / "share-programs.json", driver, sides, player.figures(), player.runs())

    # As an interrupt would: programs are ended and what was measured is kept.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        player.play(keep)
    finally:
        keep()
        found = player.figures()
        print(figures.table(found, sides))
    return 1 if any(figure.missed() for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
