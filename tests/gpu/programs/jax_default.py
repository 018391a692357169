"""JAX with its own pre-allocation: three quarters of what it is told the card has."""

import jax
import jax.numpy as jnp

import over

key = jax.random.PRNGKey(0)
x = jax.random.normal(key, (1024, 1024), dtype=jnp.float32)
print(f"sum {float(jnp.sum(jnp.sin(x))):.2f}")


def attempt():
    jnp.zeros((over.over_bytes(),), dtype=jnp.uint8).block_until_ready()


over.refused(attempt, Exception)
over.driver_refused()
print(f"after {float(jnp.ones(1 << 20).sum()):.0f}")
