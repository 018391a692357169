"""A jitted JAX program: products of matrices and tanh, bf16, without JAX's own pre-allocation.

A step is a few calls in a row and a wait for the last one. Few rows meet large weights, so that the
card is busy reading memory: products of large matrices take all the power it may draw, natively, and
under a cap its clock rises. The number to check is the mean size of what a step gives.
"""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# XLA would choose among products by trying which is the fastest, and under a cap it might choose
# others than natively. cuBLAS's own choice is the same in every run.
os.environ["XLA_FLAGS"] = " ".join([
    os.environ.get("XLA_FLAGS", ""), "--xla_gpu_autotune_level=0",
    "--xla_gpu_enable_triton_gemm=false",
])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import windows  # noqa: E402

WIDTH = 8192
ROWS = 16
LAYERS = 8
CALLS = 32


class Jax:
    """What windows need of JAX. It takes memory as it needs it, here some two GiB."""

    def begin(self, _most_gib, _card):
        """The first computation takes the card, the only one that is visible."""

    def wait(self):
        """Every step has waited for the card itself."""

    def reserved_bytes(self):
        return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)


@jax.jit
def weight(key):
    return jax.random.normal(key, (WIDTH, WIDTH), jnp.bfloat16) * WIDTH**-0.5


@jax.jit
def forward(rows, weights):
    for one in weights:
        rows = jnp.tanh(rows @ one)
    return rows


def prepare():
    keys = jax.random.split(jax.random.PRNGKey(1), LAYERS + 1)
    given = jax.random.normal(keys[0], (ROWS, WIDTH), jnp.bfloat16)
    weights = [weight(key) for key in keys[1:]]
    last = {}

    def step():
        rows = given
        for _ in range(CALLS):
            rows = forward(rows, weights)
        last["rows"] = rows.block_until_ready()

    def check():
        return float(jnp.abs(last["rows"].astype(jnp.float32)).mean())

    return windows.Work(step, check, tolerance=0.01, warm_steps=40, synchronous=True)


if __name__ == "__main__":
    windows.main(__doc__, prepare, Jax())
