"""PyTorch with torch.compile, which generates and loads Triton kernels."""

import torch

import over

torch.manual_seed(1)
device = torch.device("cuda")


@torch.compile
def wave(x, y):
    return (torch.sin(x) * y + torch.cos(y) * x).sum(dim=1)


x = torch.linspace(0, 1, 1 << 20, device=device).reshape(1024, 1024)
out = wave(x, x.t().contiguous())
print(f"sum {out.double().sum().item():.3f}")
over.refused(
    lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device=device),
    torch.cuda.OutOfMemoryError,
)
print(f"after {wave(x, x).double().sum().item():.3f}")
