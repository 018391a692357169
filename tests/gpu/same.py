#!/usr/bin/env python3
"""Frameworks by turns on a real card: what they print is what they print alone, and how soon a served model answers.

    python3 tests/gpu/same.py DIST OUT [--only PART]...

DIST is the folder `cargo xtask dist` makes; OUT receives `same.json`. Parts: `frameworks`, programs of PyTorch, JAX and
CuPy at once on a card of which less is theirs than they want, each compared with its output where all fit, without Divvy; `served`, two
Transformers models of 60 GiB asked by turns where 72 GiB may be there. Standard library only.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from leave import PROGRAMS, Machine

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
# Program, its GiB and steps, and what is in its environment.
FRAMEWORKS = {
    "torch-eager": (["same_torch.py", "5", "200"], {}),
    "torch-graph": (["same_torch.py", "5", "200", "graph"], {}),
    "torch-expandable": (["same_torch.py", "3", "200"], EXPANDABLE),
    "jax": (["same_jax.py", "6", "1600"], {}),
    "cupy": (["same_cupy.py", "6", "1600"], {}),
}
# Less than the sum by sixteen: turns; what expandable segments take stays.
CAPACITY_GIB = 9
SERVED_GIB, SERVED_CAPACITY_GIB, REQUESTS, TOKENS = 60, 72, 3, 16


def command(words):
    return [sys.executable, str(PROGRAMS / words[0]), *words[1:]]


def daemon_of(machine, name, *words):
    log = open(machine.out / f"{name}.daemon", "w")
    daemon = machine.divvy("daemon", *words, stdout=log, stderr=log)
    time.sleep(1)
    return daemon


def memory_of(machine):
    return (machine.run("daemon", "--status", "--json").get("devices") or [{}])[0].get("memory") or {}


def frameworks(machine):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    alone = {name: subprocess.Popen(command(words), env={**machine.env, **env}, **pipes)
             for name, (words, env) in FRAMEWORKS.items()}
    native = {}
    for name, one in alone.items():
        out, err = one.communicate(timeout=120)
        native[name] = (one.returncode, out, err[-500:])
    daemon = daemon_of(machine, "frameworks", "--capacity", f"{CAPACITY_GIB}GiB")
    try:
        running = {
            name: machine.divvy("run", "--no-daemon", "--oversubscribe", "--name", name, "--", *command(words), env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for name, (words, env) in FRAMEWORKS.items()
        }
        time.sleep(3)
        machine.run("set", "torch-eager", "--quantum", "500ms", "--json")
        memory, rows = {}, {}
        while any(one.poll() is None for one in running.values()):
            memory = max(memory, memory_of(machine), key=lambda one: one.get("hand_overs", -1))
            time.sleep(0.2)
        for name, one in running.items():
            out, err = one.communicate(timeout=120)
            code, wanted, said = native[name]
            rows[name] = {"ok": code == 0 and one.returncode == 0 and out == wanted, "code": one.returncode,
                          "native_code": code, "lines": len(wanted.splitlines()), "said": err[-500:] + said}
    finally:
        daemon.terminate()
        daemon.wait(10)
    return {"ok": all(row["ok"] for row in rows.values()), "rows": rows, "memory": memory}


def ask(model):
    model.stdin.write("go\n")
    model.stdin.flush()
    return json.loads(model.stdout.readline())


def served(machine):
    words = [command(["generate_llama.py", str(SERVED_GIB), str(seed), str(TOKENS)]) for seed in (11, 12)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    native = []
    for one in words:
        model = subprocess.Popen(one, env=machine.env, **pipes)
        if model.stdout.readline() != "ready\n":
            return {"ok": False, "code": model.wait(), "why": "not ready natively"}
        native.append(ask(model))
        model.stdin.close()
        model.wait(60)
    daemon = daemon_of(machine, "served", "--capacity", f"{SERVED_CAPACITY_GIB}GiB")
    try:
        pipes.pop("text")
        models = [machine.divvy("run", "--no-daemon", "--oversubscribe", "--name", f"model-{at}", "--", *one, **pipes)
                  for at, one in enumerate(words)]
        for model in models:
            assert model.stdout.readline() == "ready\n", "a model has ended"
        # Copies on the host are made ahead while nobody asks.
        time.sleep(20)
        answers = [[ask(model) for model in models] for _ in range(REQUESTS)]
        memory = memory_of(machine)
        for model in models:
            model.stdin.close()
            model.wait(60)
    finally:
        daemon.terminate()
        daemon.wait(10)
    same = all(answer["tokens"] == alone["tokens"] for row in answers for answer, alone in zip(row, native))
    return {"ok": same, "native_first_s": [one["first_s"] for one in native], "memory": memory,
            "first_s": [[answer["first_s"] for answer in row] for row in answers], "model": native[0]["model"]}


PARTS = {"frameworks": frameworks, "served": served}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dist", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=sorted(PARTS))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    machine = Machine(args.dist, args.out.resolve())
    results = {}
    for name in args.only or PARTS:
        try:
            results[name] = PARTS[name](machine)
        except Exception as error:  # noqa: BLE001: the other part is run all the same
            results[name] = {"ok": False, "error": repr(error)}
        print(name, json.dumps(results[name]), flush=True)
        (args.out / "same.json").write_text(json.dumps(results, indent=1))
    return 0 if all(result["ok"] for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
