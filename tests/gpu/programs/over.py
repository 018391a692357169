"""What every program does last: ask for more than it may have, be refused, and go on.

`DIVVY_GPU_OVER_BYTES` says how much: natively more than the card, under a limit as much as the
limit, so the printed lines are the same in both runs.
"""

import os


def over_bytes():
    return int(os.environ["DIVVY_GPU_OVER_BYTES"])


def refused(attempt, errors):
    """Runs `attempt`; prints and returns whether it ended in one of `errors`."""
    try:
        attempt()
    except errors:
        print("refused: out of memory")
        return True
    print("NOT refused")
    return False
