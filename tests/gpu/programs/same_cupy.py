"""A CuPy program of some GiB whose every printed number is the same in each run: same_cupy.py GIB STEPS."""

import sys

import cupy

gib, steps = float(sys.argv[1]), int(sys.argv[2])
PARTS = 4
size = int(gib * (1 << 30) / 4 / PARTS)
turn = cupy.ElementwiseKernel("uint32 b", "uint32 a", "a = a * 1664525u + (b ^ (b >> 13))", "turn")
parts = [cupy.arange(size, dtype=cupy.uint32) + part for part in range(PARTS)]
for step in range(steps):
    at = step % PARTS
    turn(parts[(at + 1) % PARTS], parts[at])
    if step % 40 == 39:
        print(step + 1, [int(part.sum(dtype=cupy.uint32)) for part in parts], flush=True)
