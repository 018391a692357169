#!/usr/bin/env python3
"""Takes the memory of unmodified programs off a real card and lets it come back, over and over.

    python3 tests/gpu/leave.py DIST OUT [--only PART]... [--rounds N]

DIST is the folder `cargo xtask dist` makes; OUT receives `leave.json` and what programs said. Parts: `bytes`, the client
`leave`, which looks at every byte after each round; `programs`, frameworks whose output beside a `divvy freeze` each
half second must equal the native one; `sizes`, how long 12 and 60 GiB take to leave and to come back; `blocks`, what
an allocation and a free cost. Standard library only.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
GIB = 1 << 30
SAFE = {
    # What the programs ask for beyond any card.
    "DIVVY_GPU_OVER_BYTES": str(1 << 40),
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
PROGRAM_ROWS = {
    "torch-eager": (["torch_eager.py"], {}),
    "torch-expandable": (["torch_eager.py"], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                                              "PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    "torch-graph": (["torch_graph.py"], {}),
    "jax-on-demand": (["jax_default.py"], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    "cupy": (["cupy_pool.py"], {}),
    "triton": (["triton_add.py"], {}),
}


class Machine:
    """The staged commands, and where tenants lie."""

    def __init__(self, dist, out):
        self.dist = dist.resolve()
        self.out = out
        self.runtime = out / "runtime"
        self.runtime.mkdir(parents=True, exist_ok=True)
        self.env = {**os.environ, **SAFE, "XDG_RUNTIME_DIR": str(self.runtime)}

    def divvy(self, *words, env=None, **more):
        command = [str(self.dist / "bin/divvy"), *words]
        return subprocess.Popen(command, env={**self.env, **(env or {})}, text=True, **more)

    def run(self, *words):
        """What a command says, as JSON; None where it failed."""
        done = subprocess.run([str(self.dist / "bin/divvy"), *words], env=self.env, text=True,
                              capture_output=True)
        if done.returncode:
            return {"failed": done.returncode, "said": done.stderr.strip()}
        return json.loads(done.stdout)


def bytes_part(machine, rounds):
    """The client that looks at every byte, pointer and graph."""
    client = machine.divvy("run", "--no-daemon", "--oversubscribe", "--memory", "8GiB", "--name", "bytes", "--",
                           str(machine.dist / "clients/leave"), "bytes_and_pointers_survive",
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, back = [], []
    for _ in range(rounds):
        assert client.stdout.readline() == "ready\n", "the client has ended"
        frozen = machine.run("freeze", "--json", "bytes")
        if "failed" in frozen:
            return {"ok": False, "rounds": len(out), "freeze": frozen}
        out.append(frozen["away_bytes"] / frozen["seconds"] / 1e9)
        from_s = time.monotonic()
        client.stdin.write("go\n")
        client.stdin.flush()
        back.append(from_s)
    assert client.stdout.readline() == "ready\n", "the client has ended"
    seen = residence(machine, "bytes")
    client.stdin.close()
    code = client.wait(60)
    return {"ok": code == 0, "rounds": rounds, "seen": seen}


def residence(machine, name):
    for tenant in machine.run("ps", "--json").get("tenants", []):
        if tenant["name"] == name and tenant["devices"]:
            return tenant["devices"][0]["residence"]
    return None


def comparable(text):
    """Lines without times, which differ from run to run."""
    return [line for line in text.splitlines() if not any(mark in line for mark in ("second", " ms", "took"))]


def one_program(machine, name, words, env):
    command = [sys.executable, str(PROGRAMS / words[0]), *words[1:]]
    native = subprocess.run(command, env={**machine.env, **env}, text=True, capture_output=True, timeout=300)
    from_s = time.monotonic()
    program = machine.divvy("run", "--no-daemon", "--oversubscribe", "--memory", "64GiB", "--name", name, "--",
                            *command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    freezes, stayed, most_away = 0, 0, 0
    over = threading.Event()
    said = {}

    def collect():
        said["out"], said["err"] = program.communicate()
        over.set()

    threading.Thread(target=collect, daemon=True).start()
    while not over.wait(0.5) and time.monotonic() - from_s < 240:
        wished = machine.run("freeze", "--json", "--timeout", "5", name)
        if "failed" in wished:
            stayed += 1
        else:
            freezes += 1
            most_away = max(most_away, wished["away_bytes"])
    if not over.is_set():
        program.kill()
        over.wait(10)
    (machine.out / f"{name}.native").write_text(native.stdout + native.stderr)
    (machine.out / f"{name}.leaving").write_text(said.get("out", "") + said.get("err", ""))
    same = comparable(native.stdout) == comparable(said.get("out", ""))
    return {"ok": program.returncode == 0 and native.returncode == 0 and same, "same_output": same,
            "code": program.returncode, "freezes": freezes, "stayed": stayed, "most_away_bytes": most_away,
            "seconds": time.monotonic() - from_s}


TORCH_HOLD = """
import sys, torch, time
n = int(sys.argv[1])
blocks = [torch.full((1 << 28,), i, dtype=torch.float32, device="cuda") for i in range(n)]
torch.cuda.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    from_s = time.monotonic()
    total = sum(float(b[::4096].sum()) for b in blocks)
    torch.cuda.synchronize()
    print(time.monotonic() - from_s, total, flush=True)
"""


def sizes_part(machine):
    """Blocks of 1 GiB, away and back, by the next call and by thaw."""
    found = {}
    for gib in (12, 60):
        holder = machine.divvy("run", "--no-daemon", "--oversubscribe", "--memory", f"{gib + 4}GiB", "--name", "holder",
                               "--", sys.executable, "-c", TORCH_HOLD, str(gib), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
        assert holder.stdout.readline() == "ready\n", "no holder"
        rows = []
        for _ in range(2):
            before = ask(holder)
            frozen = machine.run("freeze", "--json", "--timeout", "120", "holder")
            back = ask(holder)
            rows.append({"freeze": frozen, "warm": before, "first_call": back, "residence": residence(machine, "holder")})
        frozen = machine.run("freeze", "--json", "--timeout", "120", "holder")
        thawed = machine.run("thaw", "--json", "--timeout", "120", "holder")
        rows.append({"freeze": frozen, "thaw": thawed, "warm": ask(holder)})
        holder.stdin.close()
        holder.wait(60)
        found[f"{gib} GiB"] = rows
    return found


def ask(holder):
    holder.stdin.write("go\n")
    holder.stdin.flush()
    seconds, total = holder.stdout.readline().split()
    return {"seconds": float(seconds), "total": float(total)}


BLOCKS = """
import ctypes, json, time
cuda = ctypes.CDLL("libcuda.so.1")
context, device = ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
found = {}
for kib in (1, 64, 1024, 2048, 20480, 65536, 262144, 1048576):
    pairs = max(4, min(200, (8 << 20) // kib))
    live = max(1, min(pairs, (4 << 20) // kib))
    blocks = (ctypes.c_uint64 * live)()
    alloc = free = 0
    for round in range(6):
        from_ns = time.perf_counter_ns()
        for i in range(live):
            assert cuda.cuMemAlloc_v2(ctypes.byref(blocks, 8 * i), ctypes.c_size_t(kib << 10)) == 0
        middle_ns = time.perf_counter_ns()
        for i in range(live):
            assert cuda.cuMemFree_v2(ctypes.c_uint64(blocks[i])) == 0
        if round:
            alloc += middle_ns - from_ns
            free += time.perf_counter_ns() - middle_ns
    found[f"{kib} KiB"] = {"alloc_us": alloc / 5e3 / live, "free_us": free / 5e3 / live}
print(json.dumps(found))
"""


def blocks_part(machine):
    found = {}
    for turn in range(2):
        native = subprocess.run([sys.executable, "-c", BLOCKS], env=machine.env, text=True, capture_output=True)
        found[f"native {turn}"] = json.loads(native.stdout)
        for name, more in (("limit", []), ("oversubscribe", ["--oversubscribe"])):
            made = machine.divvy("run", "--no-daemon", *more, "--memory", "16GiB", "--", sys.executable, "-c", BLOCKS,
                                 stdout=subprocess.PIPE)
            found[f"{name} {turn}"] = json.loads(made.communicate()[0])
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dist", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--rounds", type=int, default=50)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    machine = Machine(asked.dist, asked.out)
    parts = {
        "blocks": lambda: blocks_part(machine),
        "bytes": lambda: bytes_part(machine, asked.rounds),
        "sizes": lambda: sizes_part(machine),
        "programs": lambda: {name: one_program(machine, name, *row) for name, row in PROGRAM_ROWS.items()},
    }
    found = {}
    for name, part in parts.items():
        if asked.only and name not in asked.only:
            continue
        try:
            found[name] = part()
        except Exception as error:  # A part that fails leaves the others.
            found[name] = {"ok": False, "error": repr(error)}
        print(name, json.dumps(found[name]), flush=True)
        (asked.out / "leave.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
