"""CuPy with its default pool, or with the driver's stream-ordered pool if CUPY_ASYNC is set."""

import os

import cupy

import over

if os.environ.get("CUPY_ASYNC"):
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
a = cupy.arange(1 << 22, dtype=cupy.float64)
b = cupy.sqrt(a)
print(f"sum {float(b.sum()):.3f}")
out_of_memory = (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError)


def attempt():
    try:
        cupy.empty(over.over_bytes(), dtype=cupy.uint8)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        # The code matters: HAMi-core answers an invalid one here.
        assert error.status == 2, error
        raise


over.refused(attempt, out_of_memory)
print(f"after {float(cupy.ones(1 << 20).sum()):.0f}")
