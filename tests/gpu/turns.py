#!/usr/bin/env python3
"""Runs unmodified programs that want more memory together than a real card has, under a daemon that has them take turns.

    python3 tests/gpu/turns.py DIST OUT [--only PART]... [--seconds N]

DIST is the folder `cargo xtask dist` makes; OUT receives `turns.json` and what daemons said. Each part is one row of
copies of `programs/torch_add.py`: how many, of how many GiB, under which `--capacity`. What they reach is compared with
one copy alone without Divvy. Standard library only.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import threading
import time

from leave import PROGRAMS, Machine

# Copies, GiB of each, capacity in GiB (0: the card), part of the time each is busy, and the length of a phase in seconds.
# Phases of copies begin one after the other. Copies of a row called "work" make as many additions as one alone does in
# WORK_S, however long that takes.
WORK_S = 60
ROWS = {
    "fits": (2, 12, 0, 1.0, 1.0),
    "pair-12": (2, 12, 14, 1.0, 1.0),
    "pair-90": (2, 90, 0, 1.0, 1.0),
    "pair-90-half": (2, 90, 0, 0.5, 30.0),
    "pair-90-work": (2, 90, 0, 1.0, 1.0),
    "four-48": (4, 48, 0, 1.0, 1.0),
}


def copy(machine, name, gib, seconds, busy, phase_s, divvy, offset_s=0.0, most=sys.maxsize):
    program = [sys.executable, str(PROGRAMS / "torch_add.py"), str(gib), str(seconds), str(busy), str(phase_s),
               str(offset_s), str(most)]
    if divvy:
        words = ["run", "--no-daemon", "--oversubscribe", "--name", name, "--", *program]
        return machine.divvy(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return subprocess.Popen(program, env=machine.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def go(copies):
    """Starts all once each has its memory; what each says at the end."""
    from_s = time.monotonic()
    for one in copies:
        assert one.stdout.readline() == "ready\n", "a copy has ended"
    ready_s = time.monotonic() - from_s
    for one in copies:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [None] * len(copies)

    def collect(at):
        line = copies[at].stdout.readline()
        said[at] = json.loads(line) if line.startswith("{") else {"failed": line}

    threads = [threading.Thread(target=collect, args=(at,)) for at in range(len(copies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in copies:
        one.stdin.close()
        if one.wait(60):
            said.append({"failed": one.returncode})
    return said, ready_s


def row(machine, name, seconds):
    count, gib, capacity, busy, phase_s = ROWS[name]
    alone, _ = go([copy(machine, name, gib, min(seconds, 5), 1.0, 1.0, False)])
    rate = alone[0]["additions"] / alone[0]["seconds"]
    is_work = name.endswith("-work")
    most = int(rate * WORK_S) if is_work else sys.maxsize
    seconds = 10 * WORK_S if is_work else seconds
    words = ["daemon", *(["--capacity", f"{capacity}GiB"] if capacity else [])]
    log = open(machine.out / f"{name}.daemon", "w")
    daemon = machine.divvy(*words, stdout=log, stderr=log)
    time.sleep(1)
    copies = [copy(machine, f"{name}-{at}", gib, seconds, busy, phase_s, True, at * phase_s / count, most)
              for at in range(count)]
    samples, over = [], threading.Event()

    def watch():
        while not over.wait(1.0):
            seen = machine.run("daemon", "--status", "--json")
            memory = (seen.get("devices") or [{}])[0].get("memory")
            if memory:
                available = next(int(line.split()[1]) for line in open("/proc/meminfo") if "MemAvailable" in line)
                samples.append({**memory, "host_available_kib": available, "at_s": time.monotonic()})

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        said, ready_s = go(copies)
    finally:
        over.set()
        watcher.join()
        tenants = machine.run("ps", "--json").get("tenants", [])
        for one in copies:
            one.kill()
        daemon.terminate()
        daemon.wait(10)
        log.close()
    good = [one for one in said if "additions" in one]
    total = sum(one["additions"] / one["seconds"] for one in good)
    took_s = max((one["to"] for one in good), default=0) - min((one["from"] for one in good), default=0)
    last = samples[-1] if samples else {}
    moved = last.get("in_bytes", 0) + last.get("out_bytes", 0)
    return {"row": ROWS[name], "alone_per_s": rate, "of_alone": total / rate, "copies": said, "ready_s": ready_s,
            "makespan_of_serial": took_s / (count * WORK_S) if is_work else None,
            "longest_pause_s": max((one["longest_pause_s"] for one in good), default=None),
            "ok": len(good) == count and all(one["right"] for one in good), "memory": last,
            "resident_most_gib": max((one["resident_bytes"] for one in samples), default=0) / (1 << 30),
            "away_most_gib": max((one["away_bytes"] for one in samples), default=0) / (1 << 30),
            "host_available_least_gib": min((one["host_available_kib"] for one in samples), default=0) / (1 << 20),
            "moved_gib": moved / (1 << 30),
            "residence": [one["devices"][0]["residence"] for one in tenants if one["devices"]], "samples": samples}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dist", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=sorted(ROWS))
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    machine = Machine(args.dist, args.out.resolve())
    results = {}
    for name in args.only or ROWS:
        try:
            results[name] = row(machine, name, args.seconds)
        except Exception as error:  # noqa: BLE001: the other rows are run all the same
            results[name] = {"ok": False, "error": repr(error)}
        brief = {key: value for key, value in results[name].items() if key not in ("samples", "copies")}
        print(name, json.dumps(brief), flush=True)
        (args.out / "turns.json").write_text(json.dumps(results, indent=1))
    return 0 if all(result.get("ok") for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
