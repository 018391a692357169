"""A JAX program of some GiB whose every printed number is the same in each run: same_jax.py GIB STEPS."""

import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

gib, steps = float(sys.argv[1]), int(sys.argv[2])
PARTS = 4
size = int(gib * (1 << 30) / 4 / PARTS)
parts = [jnp.arange(size, dtype=jnp.uint32) + part for part in range(PARTS)]


@jax.jit
def turn(a, b):
    return a * jnp.uint32(1664525) + (b ^ (b >> 13))


for step in range(steps):
    at = step % PARTS
    parts[at] = turn(parts[at], parts[(at + 1) % PARTS])
    if step % 40 == 39:
        print(step + 1, [int(part.sum(dtype=jnp.uint32)) for part in parts], flush=True)
