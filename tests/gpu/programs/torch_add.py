"""Adds large matrices over and over, in the manner of nvshare's pytorch-add: GIB of memory in four of them, for SECONDS.

    torch_add.py GIB SECONDS [BUSY PHASE_S [OFFSET_S [ADDITIONS]]]

Says "ready" once it has its memory, waits for a line, and ends with one line of JSON: additions made, in all and by time, the longest
pause between two, and whether every element is right. Ends before SECONDS have passed once it has made ADDITIONS. With BUSY below 1 it works for that part of each PHASE_S, of which the first is OFFSET_S old at the start.
"""

import json
import sys
import time

import torch

gib, seconds = float(sys.argv[1]), float(sys.argv[2])
busy, phase_s = (float(sys.argv[3]), float(sys.argv[4])) if len(sys.argv) > 4 else (1.0, 1.0)
offset_s = float(sys.argv[5]) if len(sys.argv) > 5 else 0.0
most = int(sys.argv[6]) if len(sys.argv) > 6 else sys.maxsize
size = int(gib * (1 << 30) / 4 / 4)
x, y, z, w = (torch.full((size,), value, dtype=torch.float32, device="cuda") for value in (1.0, 2.0, 0.0, 0.0))
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.readline()

start = last = time.monotonic()
additions, longest_s, worked_s = 0, 0.0, 0.0
line = []
while (now := time.monotonic()) - start < seconds and additions < most:
    if (now - start + offset_s) % phase_s > busy * phase_s:
        time.sleep(0.05)
        last = time.monotonic()
        continue
    torch.add(x, y, out=z)
    torch.add(z, x, out=w)
    torch.cuda.synchronize()
    additions += 2
    then = time.monotonic()
    longest_s = max(longest_s, then - last)
    worked_s += then - now
    last = then
    if not line or then - line[-1][0] > 0.5:
        line.append([round(then, 3), additions])
# The checks want a copy's memory once more, by turns, and are not part of the time.
took_s = time.monotonic() - start
right = all(bool(torch.all(part == value)) for part, value in ((x, 1.0), (y, 2.0), (z, 3.0), (w, 4.0)))
print(json.dumps({"additions": additions, "seconds": took_s, "longest_pause_s": longest_s,
                  "worked_s": worked_s, "right": right, "from": start, "to": start + took_s, "line": line}), flush=True)
