"""Numba: its own driver bindings."""

import numpy
from numba import cuda

import over


@cuda.jit
def add(x, out):
    at = cuda.grid(1)
    if at < x.size:
        out[at] = x[at] + 1


def total(count):
    x = cuda.to_device(numpy.arange(count, dtype=numpy.float64))
    out = cuda.device_array_like(x)
    add[(count + 255) // 256, 256](x, out)
    return out.copy_to_host().sum()


print(f"sum {total(100_000):.0f}")
over.refused(
    lambda: cuda.device_array(over.over_bytes(), dtype=numpy.uint8),
    Exception,
)
print(f"after {total(1000):.0f}")
