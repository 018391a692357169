"""Data-parallel training with two ranks on one card: a process each, gradients summed over gloo.

NCCL refuses two ranks of one card. What is printed is the first rank's loss and what all weights sum to.
"""

import os
import tempfile

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import over

RANKS = 2
STEPS = 60


def rank(number, rendezvous):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=number, world_size=RANKS
    )
    device = torch.device("cuda")
    torch.manual_seed(1)
    layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.Tanh())]
    net = DistributedDataParallel(nn.Sequential(*layers).to(device))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    torch.manual_seed(2 + number)
    for _ in range(STEPS):
        rows = torch.randn(256, 512, device=device)
        loss = (net(rows) - rows).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    if number == 0:
        weights = sum(weight.double().abs().sum().item() for weight in net.parameters())
        print(f"loss {loss.item():.4f}, weights {weights:.2f}")
        over.refused(
            lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device=device),
            torch.cuda.OutOfMemoryError,
        )
        print(f"after {torch.ones(1 << 20, device=device).sum().item():.0f}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(rank, args=(os.path.join(place, "meet"),), nprocs=RANKS)
