#!/usr/bin/env python3
"""Runs unmodified programs on a real card, native and under Divvy, and prints one table.

    python3 tests/gpu/run.py DIST OUT [--peer NAME=LIBRARY]... [--only ROW]... [--two-gpus]
        [--compute PERCENT]

DIST is the folder `cargo xtask dist` makes; OUT receives `programs.json` and every run's output.
A row counts when the output under the limit equals the native one, the tenant's ledger never passed
the limit, what NVML says of its processes stays within 64 MiB a process of it, and one request over
the limit was refused and survived. The limit is what the program needs and 5 %: the need is the
ledger's peak in a run with the whole card as limit. Standard library only.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
MIB = 1 << 20
GIB = 1 << 30
NVML_SLACK_BYTES = 64 * MIB
TIMEOUT_S = 60
SAFE = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


class Row:
    """One program: how to start it and what it needs."""

    def __init__(self, name, command, env=None, limit_bytes=None):
        self.name = name
        self.command = command
        self.env = env or {}
        self.limit_bytes = limit_bytes


def rows(build, two_gpus):
    """All rows that can be built here; what cannot is a row that says why."""
    python = sys.executable

    def alloc(conf):
        return {"PYTORCH_CUDA_ALLOC_CONF": conf, "PYTORCH_ALLOC_CONF": conf}

    def script(name, file, env=None, limit_bytes=None, words=()):
        return Row(name, [python, str(PROGRAMS / file), *words], env, limit_bytes)

    out = [Row("driver-c", [str(build / "driver")])]
    for kind in ("static", "shared"):
        out.append(Row(f"runtime-{kind}", [str(build / f"runtime-{kind}")]))
    out += [
        script("torch-eager", "torch_eager.py"),
        script("torch-expandable", "torch_eager.py", alloc("expandable_segments:True")),
        script("torch-malloc-async", "torch_eager.py", alloc("backend:cudaMallocAsync")),
        script("torch-graph", "torch_graph.py"),
        script("torch-compile", "torch_compile.py"),
        script("torch-fork-loader", "torch_fork_loader.py"),
        script("jax-preallocate", "jax_default.py", limit_bytes=8 * GIB),
        script("jax-on-demand", "jax_default.py", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
        script("cupy-default", "cupy_pool.py"),
        script("cupy-async", "cupy_pool.py", {"CUPY_ASYNC": "1"}),
        script("triton", "triton_add.py"),
        script("numba", "numba_add.py"),
        script("torch-instances", "torch_instances.py"),
        script("torch-serve", "torch_serve.py", limit_bytes=16 * GIB),
        script("torch-two-ranks", "torch_two_ranks.py"),
        script("cupy-threads", "cupy_threads.py"),
        Row("endless", [str(build / "endless")]),
    ]
    if two_gpus:
        out = [
            script("nccl-all-reduce", "nccl_allreduce.py"),
            script("torch-ddp", "torch_two_cards.py", words=["ddp"]),
            script("torch-fsdp", "torch_two_cards.py", words=["fsdp"]),
        ]
    return out


def build_all(out):
    """Compiles the C and CUDA programs with what the machine has."""
    build = out / "build"
    build.mkdir(parents=True, exist_ok=True)
    cuda = pathlib.Path("/usr/local/cuda")
    jobs = [
        ["gcc", "-O1", f"-I{cuda}/include", str(PROGRAMS / "driver.c"), "-o",
         str(build / "driver"), f"-L{cuda}/lib64/stubs", "-lcuda"],
        ["nvcc", "-O1", "-arch=sm_90", str(PROGRAMS / "endless.cu"), "-o", str(build / "endless")],
    ]
    for kind in ("static", "shared"):
        jobs.append(["nvcc", f"-cudart={kind}", "-O1", "-arch=sm_90", str(PROGRAMS / "runtime.cu"),
                     "-o", str(build / f"runtime-{kind}")])
    for job in jobs:
        done = subprocess.run(job, capture_output=True, text=True)
        if done.returncode:
            print(f"cannot build: {' '.join(job)}\n{done.stderr}", file=sys.stderr)
    return build


class Nvml:
    """What the card says of processes, from outside."""

    class Info(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong),
                    ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlInit_v2()
        count = ctypes.c_uint()
        self.library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        self.devices = []
        for index in range(count.value):
            device = ctypes.c_void_p()
            self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
            self.devices.append(device)
        self.peaks = {}
        self.lock = threading.Lock()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Samples for ever; the peak of each process on each device."""
        room = (self.Info * 256)()
        while True:
            for device in self.devices:
                count = ctypes.c_uint(256)
                call = self.library.nvmlDeviceGetComputeRunningProcesses_v3
                if call(device, ctypes.byref(count), room) == 0:
                    with self.lock:
                        for info in room[: count.value]:
                            key = (info.pid, device.value)
                            self.peaks[key] = max(self.peaks.get(key, 0), info.bytes)
            time.sleep(0.004)

    def peak(self, pids):
        """Largest sum on one device of what `pids` had at their peaks, and how many they were."""
        with self.lock:
            found = {}
            for (pid, device), value in self.peaks.items():
                if pid in pids:
                    found.setdefault(device, []).append(value)
        most = max(found.values(), key=sum, default=[])
        return sum(most), len(most)


def descendants(root):
    """Pids of `root` and all below it, now."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    found, todo = set(), [root]
    while todo:
        pid = todo.pop()
        found.add(pid)
        todo += children.get(pid, [])
    return found


def execute(nvml, command, env, label, out):
    """Runs one command; its output, code and what NVML saw."""
    full = {**os.environ, **SAFE, **env, "PYTHONPATH": str(PROGRAMS)}
    start = time.monotonic()
    process = subprocess.Popen(command, env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    pids, result = set(), {}

    def reap():
        try:
            result["out"], result["err"] = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            result["out"], result["err"] = process.communicate()
            result["timeout"] = True

    waiter = threading.Thread(target=reap)
    waiter.start()
    while waiter.is_alive():
        pids |= descendants(process.pid)
        waiter.join(0.02)
    (out / f"{label}.txt").write_text(
        f"$ {' '.join(command)}\n--- stdout\n{result['out']}\n--- stderr\n{result['err']}\n"
    )
    peak, processes = nvml.peak(pids)
    return {
        "code": "timeout" if result.get("timeout") else process.returncode,
        "stdout": result["out"],
        "stderr": result["err"],
        "seconds": round(time.monotonic() - start, 2),
        "nvml_peak_bytes": peak,
        "gpu_processes": processes,
    }


def under_divvy(nvml, tenant, row, limit_bytes, over_bytes, label, out):
    """One run as a tenant, started as `tenant` says; adds what the ledger says."""
    command = [*tenant, "--memory", str(limit_bytes), "--", *row.command]
    env = {**row.env, "DIVVY_GPU_OVER_BYTES": str(over_bytes)}
    run = execute(nvml, command, env, label, out)
    summaries = [line for line in run.pop("stderr").splitlines() if line.startswith('{"')]
    summary = json.loads(summaries[-1]) if summaries else {}
    devices = summary.get("devices") or []
    run["audit"] = summary.get("audit", [])
    run["ledger_peak_bytes"] = max((d["peak_bytes"] for d in devices), default=0)
    run["refusals"] = sum(d["refusals"] for d in devices)
    return run


def same(one, two):
    """Whether two outputs are equal; the last digits of a float may differ between runs."""
    number = re.compile(r"-?\d+\.\d+")
    if number.sub("#", one) != number.sub("#", two):
        return False
    pairs = zip(number.findall(one), number.findall(two))
    return all(abs(float(a) - float(b)) <= 1e-4 * max(1.0, abs(float(a))) for a, b in pairs)


def judge(nvml, tenant, row, peers, card_bytes, out):
    """Runs one row in every way and says what holds."""
    beyond = card_bytes + 64 * GIB
    native = execute(nvml, row.command, {**row.env, "DIVVY_GPU_OVER_BYTES": str(beyond)},
                     f"{row.name}-native", out)
    why = native.pop("stderr").strip().splitlines()[-1:]
    if native["code"] != 0:
        return {"name": row.name, "native": native, "skipped": f"fails natively: {''.join(why)}"}
    result = {"name": row.name, "native": native, "peers": {}}
    limit = row.limit_bytes
    if limit is None:
        # Nothing too large is asked for here: an allocator that takes memory piece by piece until
        # it is refused would otherwise "need" the whole card.
        need = under_divvy(nvml, tenant, row, card_bytes, 0, f"{row.name}-need", out)
        result["need"] = need
        limit = int(need["ledger_peak_bytes"] * 1.05)
    result["limit_bytes"] = limit
    divvy = under_divvy(nvml, tenant, row, limit, limit, f"{row.name}-divvy", out)
    result["divvy"] = divvy
    slack = NVML_SLACK_BYTES * max(1, divvy["gpu_processes"])
    result["holds"] = {
        "output equal": native["code"] == 0 and divvy["code"] == 0
        and same(native["stdout"], divvy["stdout"]),
        "ledger within limit": 0 < divvy["ledger_peak_bytes"] <= limit,
        "NVML within limit": divvy["nvml_peak_bytes"] <= limit + slack,
        "refused and recovered": divvy["refusals"] > 0 and divvy["code"] == 0,
    }
    for name, library in peers:
        cache = pathlib.Path(tempfile.mkdtemp()) / "peer.cache"
        env = {
            **row.env,
            "LD_PRELOAD": library,
            "CUDA_REDIRECT": library,
            "CUDA_DEVICE_MEMORY_LIMIT": f"{limit // MIB}m",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(cache),
            "LIBCUDA_LOG_LEVEL": "0",
            "DIVVY_GPU_OVER_BYTES": str(limit),
        }
        run = execute(nvml, row.command, env, f"{row.name}-{name}", out)
        run["stderr"] = run["stderr"][-2000:]
        run["output equal"] = run["code"] == 0 and same(native["stdout"], run["stdout"])
        result["peers"][name] = run
    return result


def smi(dist, out, card_bytes):
    """`nvidia-smi` inside a tenant shows the limit and nobody else's processes."""
    limit = 8 * GIB
    query = ["nvidia-smi", "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"]
    inside = subprocess.run([str(dist / "bin/divvy"), "run", "--memory", str(limit), "--", *query],
                            capture_output=True, text=True, env={**os.environ, **SAFE})
    (out / "nvidia-smi.txt").write_text(inside.stdout + inside.stderr)
    native = subprocess.run(query, capture_output=True, text=True)
    total = [int(line.split(",")[0]) for line in inside.stdout.splitlines() if line.strip()]
    holds = inside.returncode == 0 and bool(total) and all(t == limit // MIB for t in total)
    return {"name": "nvidia-smi", "native": {"stdout": native.stdout, "code": native.returncode},
            "divvy": {"stdout": inside.stdout, "code": inside.returncode},
            "limit_bytes": limit, "card_bytes": card_bytes, "peers": {},
            "holds": {"total is the limit": holds}}


def show(results, peers):
    """The table."""
    columns = ["program", "limit MiB", "ledger peak", "NVML peak", "native s", "divvy s", "Divvy"]
    columns += [name for name, _ in peers]
    lines = [columns]
    for result in results:
        if "skipped" in result:
            lines.append([result["name"], *[""] * 5, "SKIPPED, " + result["skipped"]]
                         + ["-"] * len(peers))
            continue
        divvy = result["divvy"]
        failed = [name for name, ok in result["holds"].items() if not ok]
        lines.append([
            result["name"],
            str(result["limit_bytes"] // MIB),
            str(divvy.get("ledger_peak_bytes", 0) // MIB),
            str(divvy.get("nvml_peak_bytes", 0) // MIB),
            str(result["native"].get("seconds", "")),
            str(divvy.get("seconds", "")),
            "ok" if not failed else "FAILED: " + ", ".join(failed),
        ] + [
            "ok" if result["peers"].get(name, {}).get("output equal") else
            ("-" if name not in result["peers"] else "FAILED") for name, _ in peers
        ])
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def main():
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--two-gpus", action="store_true")
    parser.add_argument("--compute", metavar="PERCENT", help="a cap of device time, such as 30%%")
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    peers = [tuple(peer.split("=", 1)) for peer in options.peer]
    dist, out = options.dist.resolve(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    nvml = Nvml()
    build = build_all(pathlib.Path(tempfile.mkdtemp()))
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    card_bytes = int(subprocess.check_output(query, text=True).split()[0]) * MIB
    wanted = [row for row in rows(build, options.two_gpus)
              if not options.only or row.name in options.only]
    tenant = [str(dist / "bin/divvy"), "run", "--json"]
    if options.compute:
        tenant += ["--compute", options.compute]
    # What it refuses it would refuse in every row.
    asked = subprocess.run([*tenant, "--", "true"], capture_output=True, text=True,
                           env={**os.environ, **SAFE})
    if asked.returncode:
        sys.exit(asked.stderr or asked.stdout)
    results = []
    logs = out / "logs"
    logs.mkdir(exist_ok=True)
    if not options.two_gpus and not options.only:
        results.append(smi(dist, logs, card_bytes))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        def one(row):
            print(f"… {row.name}", file=sys.stderr, flush=True)
            return judge(nvml, tenant, row, peers, card_bytes, logs)
        results += pool.map(one, wanted)
    (out / "programs.json").write_text(json.dumps(results, indent=1))
    show(results, peers)
    return 0 if all(all(r.get("holds", {}).values()) for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
