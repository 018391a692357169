"""What every program does last: ask for more than it may have, be refused, and go on.

`DIVVY_GPU_OVER_BYTES` says how much: natively more than the card, under a limit as much as the
limit, so the printed lines are the same in both runs.
"""

import ctypes
import os


def over_bytes():
    return int(os.environ["DIVVY_GPU_OVER_BYTES"])


def refused(attempt, errors):
    """Runs `attempt`; prints and returns whether it ended in one of `errors`.

    Zero bytes mean that nothing is to be attempted.
    """
    if over_bytes() == 0:
        return False
    try:
        attempt()
    except errors:
        print("refused: out of memory")
        return True
    print("NOT refused")
    return False


def driver_refused():
    """Asks the driver itself, for programs whose own allocator would refuse without asking it."""
    if over_bytes() == 0:
        return
    pointer = ctypes.c_uint64()
    result = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(
        ctypes.byref(pointer), ctypes.c_size_t(over_bytes())
    )
    print(f"driver: {result}")
