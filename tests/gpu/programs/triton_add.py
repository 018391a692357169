"""Triton: a kernel compiled and loaded at run time."""

import torch
import triton
import triton.language as tl

import over


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def total(count):
    x = torch.arange(count, device="cuda", dtype=torch.float32)
    out = torch.empty_like(x)
    add[(triton.cdiv(count, 1024),)](x, x, out, count, BLOCK=1024)
    return out.double().sum().item()


print(f"sum {total(100_000):.0f}")
over.refused(
    lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device="cuda"),
    torch.cuda.OutOfMemoryError,
)
print(f"after {total(1000):.0f}")
