"""What was measured, in the shape of `divvy bench`'s results, and as a table.

A figure has samples of each side, medians, a goal and whether Divvy's median met it. Promises: a
side without a value says why; where native's own samples lie further apart than the goal, the
figure says so. The goals' names are those that `cargo xtask figures` knows.
"""

import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess


class Figure:
    """One figure; `goal` is a name and its value, or None."""

    def __init__(self, name, unit, goal=None):
        self.name, self.unit, self.goal = name, unit, goal
        self.samples, self.failures, self.note = {}, {}, ""

    def add(self, side, value):
        self.samples.setdefault(side, []).append(value)

    def fail(self, side, why):
        """Keeps the first reason: later ones follow from it."""
        self.failures.setdefault(side, why)

    def void(self, why):
        """Takes all values back: what they were measured by did not hold."""
        for side in list(self.samples):
            self.failures[side] = f"void: {why}"
        self.samples = {}

    def medians(self):
        return {side: statistics.median(values) for side, values in self.samples.items()}

    def means(self):
        return {side: statistics.fmean(values) for side, values in self.samples.items()}

    def several(self):
        """The sides with more than one sample, and these."""
        return {side: values for side, values in self.samples.items() if len(values) > 1}

    def met(self):
        """Whether Divvy's median met the goal; None where there is nothing to judge by."""
        medians = self.medians()
        divvy, native = medians.get("divvy"), medians.get("native")
        if self.goal is None or divvy is None:
            return None
        kind, value = self.goal
        if kind == "at_most":
            return divvy <= value
        if kind == "at_least":
            return divvy >= value
        if kind == "within":
            return abs(divvy - value[0]) <= value[1]
        if kind == "kept":
            return None if native is None else divvy >= value * native
        raise ValueError(f"no goal is called {kind}")

    def missed(self):
        return self.met() is False or bool({"native", "divvy"} & self.failures.keys())

    def stored(self):
        out = {
            "name": self.name,
            "unit": self.unit,
            "goal": dict([self.goal]) if self.goal else "none",
            "met": self.met(),
            "samples": self.samples,
            "medians": self.medians(),
            "means": self.means(),
            "failures": self.failures,
        }
        if self.unit == "steps/s":
            # Of a difference from native a spread in percent would mean nothing.
            out["spreads_percent"] = {side: spread(of) for side, of in self.several().items()}
        if self.note:
            out["note"] = self.note
        return out


def spread(values):
    """Largest less smallest, in percent of the mean."""
    mean = statistics.fmean(values)
    return 100 * (max(values) - min(values)) / mean if mean else 0.0


def table(figures, sides):
    """The figures for people."""
    lines = [["FIGURE", "UNIT", *sides, "GOAL", "MET"]]
    for figure in figures:
        medians = figure.medians()
        cells = [text(medians[side]) if side in medians else lacking(figure, side)
                 for side in sides]
        met = {True: "yes", False: "NO", None: ""}[figure.met()]
        lines.append([figure.name, figure.unit, *cells, goal_words(figure.goal), met])
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    out = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
           for line in lines]
    for figure in figures:
        out += [f"{figure.name}, {side}: mean {text(statistics.fmean(values))}, from "
                f"{text(min(values))} to {text(max(values))} in {len(values)} runs"
                for side, values in figure.several().items()]
        out += [f"{figure.name}: {figure.note}"] if figure.note else []
        out += [f"{figure.name}, {side}: {why}" for side, why in figure.failures.items()]
    return "\n".join(out)


def lacking(figure, side):
    why = figure.failures.get(side)
    return "-" if why is None else "void" if why.startswith("void: ") else "failed"


def text(value):
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}"


def goal_words(goal):
    if goal is None:
        return ""
    kind, value = goal
    return {
        "at_most": lambda: f"<= {value}",
        "at_least": lambda: f">= {value}",
        "within": lambda: f"{value[0]} +- {value[1]}",
        "kept": lambda: f">= {value} x native",
    }[kind]()


def driver():
    """The card's driver, as `divvy bench` names it."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "no driver"
    versions = done.stdout.split()
    return f"NVIDIA {versions[0]}" if done.returncode == 0 and versions else "no driver"


def processor():
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.split(": ", 1)[1] for line in cpu.splitlines() if line.startswith("model name")]
    return names[0] if names else ""


def store(path, driver_name, sides, figures, runs):
    """Writes the result; a reader never sees half of one."""
    result = {
        "benchmark": "share-programs",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "driver": driver_name,
        "processor": processor(),
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sides": sides,
        "figures": [figure.stored() for figure in figures],
        "runs": runs,
    }
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    beside.replace(path)
