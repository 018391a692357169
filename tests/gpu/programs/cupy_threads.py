"""CuPy with sixteen threads on their per-thread default streams, and host callbacks of 100 ms.

The callbacks are the C library's: one that needs Python's lock blocks for ever, one time in nine
also without Divvy, where another thread waits for the card and holds it.
"""

import ctypes
import threading

import cupy

import over

THREADS = 16
ROUNDS = 300
CALLBACKS = 3
CALLBACK_US = 100_000

libc = ctypes.CDLL(None)
driver = ctypes.CDLL("libcuda.so.1")
sums = [0.0] * THREADS
results = []


def work(thread):
    stream = cupy.cuda.Stream.ptds
    with stream:
        rows = cupy.full((256, 256), 1 + thread, dtype=cupy.float32)
        for number in range(ROUNDS):
            rows = cupy.sqrt(rows) + 1
            if thread == 0 and number % (ROUNDS // CALLBACKS) == 0:
                results.append(driver.cuLaunchHostFunc(
                    ctypes.c_void_p(stream.ptr), libc.usleep, ctypes.c_void_p(CALLBACK_US)))
        stream.synchronize()
        sums[thread] = float(rows.sum())


threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"callbacks {results}, sums {min(sums):.1f} to {max(sums):.1f}")
over.refused(lambda: cupy.empty(over.over_bytes(), dtype=cupy.uint8),
             cupy.cuda.memory.OutOfMemoryError)
print(f"after {float(cupy.ones(1 << 20).sum()):.0f}")
