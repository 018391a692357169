"""Counts a program's steps in windows of time that somebody else names.

What passes between a program and whoever measures it, a line each:

    out  {"phase": "loaded"}                           modules are loaded, the card is untouched
    in   warm                                          the card may be used
    out  {"phase": "ready", "check": 6.91, ...}        warmed up; the check is of a fixed step
    in   START SECONDS                                 a window; START is of CLOCK_MONOTONIC
    out  {"phase": "window", "steps_per_s": 21.4, ...} what was done in it; any number of windows

The end of input ends the program. With `--seconds N` nothing is read: one window, at once.
Promises: steps are counted between two waits for the card, and never more than a few are queued, so
a window ends when it should. Does not know who else uses the card.
"""

import argparse
import collections
import json
import sys
import time

# Two steps keep the card busy while the host prepares the next; more would only lengthen the end.
IN_FLIGHT = 2
GIB = 1 << 30


class Work:
    """What a program repeats.

    `step` begins one step; unless it is `synchronous` it may return before the card has ended it.
    After `warm_steps` of them, which should take half a second or more so that the clocks have
    risen, `check` gives a number that is the same in every run, but for the part `tolerance` of it.
    `wait`, where given, returns once all steps that have begun have ended: for a program whose
    threads may not have launched yet what they are to do.
    """

    def __init__(self, step, check, tolerance, warm_steps, synchronous=False, wait=None):
        self.step = step
        self.warm_steps = warm_steps
        self.check = check
        self.tolerance = tolerance
        self.synchronous = synchronous
        self.wait = wait


class Torch:
    """PyTorch, as far as windows need it; a program of another framework brings something like it.

    It is made before a program says that it has loaded, and does not touch the card by itself. A
    framework whose programs are all synchronous needs no `mark`.
    """

    def __init__(self):
        # Here and not above: a program of another framework must not load PyTorch beside it.
        import torch
        # Optimizers load it when they are made; here that takes no time in which a card is held.
        import torch._dynamo  # noqa: F401
        self.cuda = torch.cuda

    def begin(self, most_gib, card):
        """Takes `card`, and has the allocator refuse what exceeds `most_gib` on it."""
        self.cuda.set_device(card)
        total = self.cuda.get_device_properties(card).total_memory
        self.cuda.set_per_process_memory_fraction(min(1.0, most_gib * GIB / total))

    def wait(self):
        """Returns once the card has ended all that was launched."""
        self.cuda.synchronize()

    def mark(self):
        """Something to `synchronize` with: what was launched before it."""
        event = self.cuda.Event()
        event.record()
        return event

    def reserved_bytes(self):
        """The most that the allocator has held."""
        return self.cuda.max_memory_reserved()


def options(about):
    """The command line of a program that says `about` of itself."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="one window of this length, at once")
    parser.add_argument("--most-gib", type=float, default=13, help="most memory PyTorch may take")
    return parser.parse_args()


def say(**words):
    """One line to whoever measures."""
    print(json.dumps(words), flush=True)


def told(seconds):
    """The lines that would be read, where a window of `seconds` is wanted at once."""
    return sys.stdin if seconds is None else ["warm", f"{time.monotonic()} {seconds}"]


def serve(prepare, lines, say, most_gib, card=0, more=None, framework=None):
    """Answers `lines` one after another; `prepare` makes the work, once the card may be used."""
    framework = framework or Torch()
    say(phase="loaded")
    work = None
    for line in lines:
        if work is None:
            framework.begin(most_gib, card)
            work = warmed(prepare, framework)
            say(phase="ready", check=work.check(), tolerance=work.tolerance,
                reserved_bytes=framework.reserved_bytes())
            continue
        start_s, seconds = (float(word) for word in line.split())
        # A window that was wanted at once begins when the program is ready for it.
        start_s = max(start_s, time.monotonic())
        say(phase="window", **window(work, framework, start_s, seconds, more))


def warmed(prepare, framework):
    """The work, after its first steps."""
    work = prepare()
    for _ in range(work.warm_steps):
        work.step()
    settle(work, framework)
    return work


def settle(work, framework):
    """Waits for all steps that have begun, and for the card."""
    if work.wait is not None:
        work.wait()
    framework.wait()


def window(work, framework, start_s, seconds, more=None):
    """Repeats the work from `start_s` for `seconds`.

    `more`, where given, decides before each step instead of the time alone: it is told how many
    have begun and when the window ends.
    """
    if more is None:
        def more(_begun, end_s):
            return time.monotonic() < end_s
    settle(work, framework)
    time.sleep(max(0.0, start_s - time.monotonic()))
    begin_s, end_s = time.monotonic(), start_s + seconds
    ended, pending, begun = [], collections.deque(), 0
    while more(begun, end_s):
        work.step()
        begun += 1
        if not work.synchronous:
            pending.append(framework.mark())
            if len(pending) <= IN_FLIGHT:
                continue
            pending.popleft().synchronize()
        ended.append(time.monotonic())
    for mark in pending:
        mark.synchronize()
        ended.append(time.monotonic())
    settle(work, framework)
    return counted(ended, begin_s, time.monotonic(), end_s)


def counted(ended, begin_s, done_s, end_s):
    """Rates out of the times at which steps had ended.

    `steps_per_s` is of all steps between the two waits for the card. `within_per_s` is of those
    that ended in the window, from the first to the last: what counts where several programs run,
    since past the end of the window each may be alone.
    """
    within = [at for at in ended if at <= end_s]
    whole_seconds = [0] * int(end_s - begin_s + 0.5)
    for at in within:
        second = int(at - begin_s)
        if second < len(whole_seconds):
            whole_seconds[second] += 1
    span_s = within[-1] - within[0] if len(within) > 1 else 0.0
    return {
        "steps": len(ended),
        "seconds": done_s - begin_s,
        "steps_per_s": len(ended) / (done_s - begin_s),
        "within_per_s": (len(within) - 1) / span_s if span_s > 0 else 0.0,
        "each_second": whole_seconds,
    }


def main(about, prepare, framework=None):
    """Entry point of a program of one process; `framework` is PyTorch where none is given."""
    chosen = options(about)
    serve(prepare, told(chosen.seconds), say, chosen.most_gib, framework=framework)
