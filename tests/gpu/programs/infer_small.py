"""PyTorch inference that does not fill the card: eager, a small batch, each answer read.

The host's launches take longer than the kernels, so the card rests in between. The number to check
is a sum over the answers.
"""

import torch
from torch import nn

import windows

BATCH = 32
WIDTH = 1024
LAYERS = 12


def prepare():
    torch.manual_seed(1)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*layers).to("cuda", torch.float16).eval()
    batch = torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.float16)
    last = {}

    @torch.inference_mode()
    def step():
        last["answer"] = model(batch).float().mean(dim=1).cpu()

    return windows.Work(step, lambda: last["answer"].sum().item(), tolerance=0.01,
                        warm_steps=4000, synchronous=True)


if __name__ == "__main__":
    windows.main(__doc__, prepare)
